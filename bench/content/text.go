package content

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"sync"
)

// line is the length limit of a line of text, and the length of a line of base64, without CRLF.
const line = 76

// words are frequent words of English mail, the most frequent first.
var words = []string{
	"the", "to", "and", "of", "a", "in", "is", "that", "for", "it", "you", "we", "on", "with", "this", "be", "are",
	"as", "will", "have",
	"your", "not", "at", "from", "can", "or", "please", "meeting", "if", "our", "has", "but", "all", "by", "was",
	"would", "they", "an",
	"which", "there", "been", "about", "time", "any", "should", "report", "I", "more", "what", "these", "when", "need",
	"new", "one",
	"project", "do", "also", "work", "next", "week", "team", "server", "know", "up", "see", "were", "so", "only",
	"some", "like", "them",
	"could", "other", "into", "well", "just", "than", "its", "who", "office", "system", "use", "now", "information",
	"plan", "mail",
	"after", "first", "change", "call", "send", "attached", "regards", "question", "customer", "number", "schedule",
	"agreement",
	"December", "Monday", "quarter", "budget", "copy", "draft", "version", "network", "performance", "benchmark",
	"replication",
}

// The vocabulary: the frequent words and made ones, as many as a person's mail has about, of at most maxWord bytes.
const (
	vocabulary = 4096
	maxWord    = 15
)

// syllables make the words that are not frequent.
var syllables = []string{
	"al", "an", "ber", "ca", "con", "de", "dis", "en", "er", "for", "ga", "gen", "in", "ing", "is", "ju", "ka", "land",
	"le", "lo", "ma", "men", "mo", "ne", "nor", "on", "or", "pa", "per", "pro", "qua", "ra", "re", "ri", "sa", "sen",
	"sto", "ta", "ter", "ti", "ton", "tra", "un", "ur", "va", "ver", "vi", "win", "xe", "yo", "za",
}

// lexicon holds words for fast copies: each has room for maxWord bytes and a space.
type lexicon struct {
	words [vocabulary][maxWord + 1]byte
	sizes [vocabulary]uint8 // with the space
	// drawn holds word numbers as often as language uses the words: by Zipf's law.
	drawn [1 << 16]uint16
}

var lexicons = sync.OnceValue(func() *lexicon {
	r := rand.New(rand.NewPCG(0xd0b1e7, 1))
	l := &lexicon{}
	seen := map[string]bool{}
	for i := range l.words {
		word := ""
		if i < len(words) {
			word = words[i]
		}
		for word == "" || seen[word] {
			word = ""
			for range 1 + r.IntN(3) {
				word += syllables[r.IntN(len(syllables))]
			}
		}
		seen[word] = true
		l.sizes[i] = uint8(copy(l.words[i][:], word+" ")) //nolint:gosec // at most maxWord+1
	}
	sum := 0.0
	for i := range vocabulary {
		sum += 1 / float64(i+3)
	}
	word, passed := 0, 1/3.0
	for k := range l.drawn {
		for float64(k) >= passed/sum*float64(len(l.drawn)) && word < vocabulary-1 {
			word++
			passed += 1 / float64(word+3)
		}
		l.drawn[k] = uint16(word) //nolint:gosec // below vocabulary
	}
	return l
})

// random is a SplitMix64 generator: a few instructions for 64 bits, and a stream of its own for every seed.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// stream returns the generator for a seed. Seeds may be anything, also multiples of the generator's own step.
func stream(seed uint64) random {
	r := random(seed)
	return random(r.next())
}

// AppendText appends n bytes of text, 2 or more: the text of a message with that seed. Its lines end in CRLF.
func AppendText(dst []byte, n int64, seed uint64) []byte {
	l := lexicons()
	r := stream(seed)
	end := len(dst) + int(n) - len("\r\n")
	bits, left := uint64(0), 0
	for begun := len(dst); len(dst) < end; {
		if left == 0 {
			bits, left = r.next(), 4
		}
		w := l.drawn[uint16(bits)] //nolint:gosec // the low bits
		bits >>= 16
		left--
		size := int(l.sizes[w])
		if len(dst)-begun+size > line {
			dst[len(dst)-1] = '\r' // for the space
			dst = append(dst, '\n')
			begun = len(dst)
		}
		dst = append(dst, l.words[w][:]...)
		dst = dst[:len(dst)-maxWord-1+size]
	}
	dst = dst[:max(end, 0)]
	if k := len(dst) - 1; k >= 0 && dst[k] == '\r' {
		dst[k] = ' '
	}
	return append(dst, '\r', '\n')
}

// perLine is the number of bytes in a line of base64.
const perLine = line / 4 * 3

// noise fills a line of a file with random bytes.
func noise(b *[64]byte, r *random) {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.next())
	}
}

// fileSeed returns the seed of the file of a message: another one than that of its text.
func fileSeed(seed uint64) random { return stream(^seed) }

// AppendFile appends n bytes that do not compress: the attached file, before its encoding, of a message with that seed.
func AppendFile(dst []byte, n int64, seed uint64) []byte {
	var b [64]byte
	for r := fileSeed(seed); n > 0; n -= perLine {
		noise(&b, &r)
		dst = append(dst, b[:min(n, perLine)]...)
	}
	return dst
}

// appendEncoded appends that file in base64. It has whole lines and whole groups, so that the encoding is canonical, as
// mail programs write it.
func appendEncoded(dst []byte, n int64, seed uint64) []byte {
	var b [64]byte
	for r := fileSeed(seed); n > 0; n -= perLine {
		noise(&b, &r)
		dst = append(base64.StdEncoding.AppendEncode(dst, b[:perLine]), '\r', '\n')
	}
	return dst
}
