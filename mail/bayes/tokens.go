// Package bayes classifies messages by their words (Graham, Robinson; Fisher's method of combining probabilities, as in
// SpamBayes and bogofilter). It reads the tokens of a message, counts them in a table of fixed size, and computes a
// score from the counts. It stores no words, only counts of hashed tokens. It reads no store and does no I/O.
package bayes

import (
	"strings"
	"sync"

	"doublet/search/words"
	"doublet/wire/mime"
)

// Limits of the tokens of one message.
const (
	// MaxTokens is the maximum number of different tokens.
	MaxTokens = 2000
	// maxText is the number of bytes of decoded text that are read, and maxHTML that of HTML source.
	maxText = 32 << 10
	maxHTML = 128 << 10
	// maxHeader is the number of bytes that are read of each header field.
	maxHeader = 1 << 10
	// maxParts is the number of parts that are looked at.
	maxParts = 100
	// longestWord is the length in bytes of the longest word that counts: longer ones are encoded data.
	longestWord = 32
	// maxHosts is the number of host names that are read from URLs.
	maxHosts = 100
)

// Tokens holds the hashes of the different tokens of a message, in the order of the message.
type Tokens []uint32

// Each kind of token has a seed of its own, so that a word in Subject differs from the word in the text.
const (
	seedText uint64 = iota + 1
	seedSubject
	seedName
	seedFrom
	seedReply
	seedHost
	seedType
)

// Read returns the tokens of a message: the words of its subject and its text parts, the name, address and domain of
// its author, host names of URLs, and the types of its parts. It reads at most maxText bytes of
// text and returns at most MaxTokens tokens. root is the parsed message.
func Read(raw []byte, root *mime.Part) Tokens {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	r.reset()
	r.envelope(root.Envelope)
	r.part(raw, root, 0)
	return append(Tokens(nil), r.list...)
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// slots is the size of the set of tokens. It is a power of two and at least twice MaxTokens.
const slots = 4096

// reader collects the tokens of one message.
type reader struct {
	slot  [slots]uint32 // open addressing; 0 is free
	list  []uint32
	scan  words.Scanner
	text  int // bytes of text left
	html  int // bytes of HTML source left
	parts int
	hosts int
}

func (r *reader) reset() {
	for _, h := range r.list {
		for i := h % slots; r.slot[i] != 0; i = (i + 1) % slots {
			r.slot[i] = 0
		}
	}
	r.list, r.text, r.html, r.parts, r.hosts = r.list[:0], maxText, maxHTML, maxParts, maxHosts
}

// add adds a token, unless the message has it already or has too many.
func (r *reader) add(hash uint64) {
	h := uint32(hash >> 32)
	if h == 0 {
		h = 1
	}
	i := h % slots
	for ; r.slot[i] != 0; i = (i + 1) % slots {
		if r.slot[i] == h {
			return
		}
	}
	if len(r.list) < MaxTokens {
		r.slot[i] = h
		r.list = append(r.list, h)
	}
}

// hash is FNV-1a with a final mix, so that its upper bits depend on all bytes.
func hash[T string | []byte](seed uint64, s T) uint64 {
	h := 14695981039346656037 ^ seed
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func (r *reader) envelope(e *mime.Envelope) {
	if e == nil {
		return
	}
	r.words(seedSubject, mime.DecodeWords(clip(e.Subject, maxHeader)))
	for i := range e.From[:min(len(e.From), 3)] {
		a := &e.From[i]
		r.words(seedName, mime.DecodeWords(clip(a.Name, maxHeader)))
		r.add(hash(seedFrom, AddressOf(a)))
		r.domain(seedFrom, a.Host)
	}
	for i := range e.ReplyTo[:min(len(e.ReplyTo), 3)] {
		r.domain(seedReply, e.ReplyTo[i].Host)
	}
}

// AddressOf returns an address in lower case, for comparison.
func AddressOf(a *mime.Address) string {
	return strings.ToLower(clip(a.Mailbox, maxHeader) + "@" + clip(a.Host, maxHeader))
}

// domain adds a domain name and the domains above it, but no top-level domain.
func (r *reader) domain(seed uint64, name string) {
	name = strings.Trim(strings.ToLower(clip(name, 255)), ".")
	for range 4 {
		if name == "" {
			return
		}
		r.add(hash(seed, name))
		_, rest, ok := strings.Cut(name, ".")
		if !ok || !strings.Contains(rest, ".") {
			return
		}
		name = rest
	}
}

func (r *reader) part(raw []byte, p *mime.Part, depth int) {
	if r.parts--; r.parts < 0 || depth > 20 {
		return
	}
	r.add(hash(seedType, clip(p.Type, 64)+"/"+clip(p.Subtype, 64)))
	if len(p.Children) > 0 {
		for _, c := range p.Children {
			r.part(raw, c, depth+1)
		}
		return
	}
	if name := p.Filename(); name != "" {
		r.add(hash(seedType, "."+strings.ToLower(clip(name[strings.LastIndexByte(name, '.')+1:], 16))))
	}
	if p.Type != "text" {
		return
	}
	if c := p.Param("charset"); c != "" {
		r.add(hash(seedType, "="+strings.ToLower(clip(c, 64))))
	}
	if p.Subtype == "html" {
		s, _ := mime.DecodeText(p, raw, r.html)
		r.html -= len(s)
		r.links(s)
		r.body(mime.HTMLText(s))
		return
	}
	s, _ := mime.DecodeText(p, raw, r.text)
	r.links(s)
	r.body(s)
}

func (r *reader) body(s string) {
	s = clip(s, r.text)
	r.text -= len(s)
	r.words(seedText, s)
}

// words adds the words of a text. In scripts without spaces these are pairs of letters.
func (r *reader) words(seed uint64, s string) {
	for r.scan.Reset(words.Normal(s)); r.scan.Next(); {
		if n := len(r.scan.Term); n >= 2 && n <= longestWord {
			r.add(hash(seed, r.scan.Term))
		}
	}
}

// links adds the host names of the URLs in a text.
func (r *reader) links(s string) {
	for r.hosts > 0 {
		_, rest, ok := strings.Cut(s, "://")
		if !ok {
			return
		}
		r.hosts--
		end := strings.IndexFunc(clip(rest, 255), func(c rune) bool {
			return c <= ' ' || strings.ContainsRune(`/?#"'<>()[]\:`, c)
		})
		if end < 0 {
			end = min(len(rest), 255)
		}
		host := rest[:end]
		r.domain(seedHost, host[strings.LastIndexByte(host, '@')+1:])
		s = rest[end:]
	}
}

func clip(s string, n int) string { return s[:min(len(s), n)] }
