package mime

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Needle is a text for case-insensitive search, prepared once for use on many texts. It is safe for concurrent use.
type Needle struct{ folded []byte }

// NewNeedle prepares s. Letters are equal if Unicode's simple case folding makes them equal; composed and decomposed
// accents are equal. Unlike i;unicode-casemap (RFC 5051), compatibility forms are not.
func NewNeedle(s string) Needle {
	return Needle{folded: appendFolded(nil, compose(s))}
}

// ContainsFold reports whether haystack contains needle, ignoring case. The empty needle is always contained.
func ContainsFold(haystack, needle string) bool { return NewNeedle(needle).In(haystack) }

const foldWindow = 8 << 10

// In reports whether haystack contains the needle. It takes linear time and, for a needle under 4 KB, allocates
// nothing.
func (n Needle) In(haystack string) bool {
	if len(n.folded) == 0 {
		return true
	}
	if ascii(haystack) {
		return ascii(n.folded) && IndexASCII(haystack, n.folded) >= 0
	}
	haystack = compose(haystack)
	var window [foldWindow]byte
	buf := window[:0]
	if len(n.folded) > foldWindow/2 {
		buf = make([]byte, 0, 2*len(n.folded)+foldWindow)
	}
	step := (cap(buf) - len(n.folded)) / 2 // folding at most doubles the length of a rune
	for {
		piece := haystack
		if len(piece) > step {
			piece = cut(piece, step)
			if piece == "" { // bytes that are not UTF-8
				piece = haystack[:step]
			}
		}
		haystack = haystack[len(piece):]
		buf = appendFolded(buf, piece)
		if bytes.Contains(buf, n.folded) {
			return true
		}
		if haystack == "" {
			return false
		}
		// Keep the end, which may be the start of the needle.
		keep := min(len(buf), len(n.folded)-1)
		buf = buf[:copy(buf, buf[len(buf)-keep:])]
	}
}

// rarity orders the bytes of ASCII text in lower case: the higher, the rarer, roughly.
var rarity = func() (t [utf8.RuneSelf]uint8) {
	for i := range t {
		t[i] = 200
	}
	for i, c := range []byte(" etaoinshrdlucmfwypvbgkjqxz\n\r.,-0123456789") {
		t[c] = uint8(i)
	}
	return t
}()

// IndexASCII returns the offset of the first place in s where lower occurs, ignoring the case of ASCII letters, or -1.
// lower is ASCII in lower case, and not empty. It searches for the rarest byte of lower and compares the rest there.
func IndexASCII[T []byte | string](s string, lower T) int {
	at := 0
	for i := 1; i < len(lower); i++ {
		if rarity[lower[i]] > rarity[lower[at]] {
			at = i
		}
	}
	c := lower[at]
	upper := c
	if 'a' <= c && c <= 'z' {
		upper -= 'a' - 'A'
	}
	// next and nextUpper are the next places of the byte in each case, len(s) if there is none.
	next, nextUpper := -1, -1
	if upper == c {
		nextUpper = len(s)
	}
	spent := 0
	for i := at; i < len(s); i++ {
		if next < i {
			next = indexFrom(s, c, i)
		}
		if nextUpper < i {
			nextUpper = indexFrom(s, upper, i)
		}
		i = min(next, nextUpper)
		start := i - at
		if start+len(lower) > len(s) {
			return -1
		}
		n := equalASCII(s[start:], lower)
		if n == len(lower) {
			return start
		}
		if spent += n; spent > 4*i+1<<10 { // nearly everywhere: bytes.Index takes linear time nevertheless
			if n := bytes.Index(appendFolded(nil, s[start:]), []byte(lower)); n >= 0 {
				return start + n
			}
			return -1
		}
	}
	return -1
}

// indexFrom returns the offset of the first c in s from i on, or len(s).
func indexFrom(s string, c byte, i int) int {
	if n := strings.IndexByte(s[i:], c); n >= 0 {
		return i + n
	}
	return len(s)
}

// equalASCII returns the number of bytes at the beginning of s that equal those of lower, ignoring the case of s.
func equalASCII[T []byte | string](s string, lower T) int {
	n := 0
	for n < len(lower) && lowerTable[s[n]] == lower[n] {
		n++
	}
	return n
}

// compose converts text with combining marks to NFC. Nearly all text is NFC already.
func compose(s string) string {
	if ascii(s) || norm.NFC.IsNormalString(s) {
		return s
	}
	return norm.NFC.String(s)
}

var lowerTable = func() (t [256]byte) {
	for i := range t {
		t[i] = lowerByte(byte(i))
	}
	return t
}()

func appendFolded(dst []byte, s string) []byte {
	dst = slices.Grow(dst, len(s))
	for i := 0; i < len(s); {
		start, out := i, dst[len(dst):cap(dst)]
		for i < len(s) && i-start < len(out) && s[i] < utf8.RuneSelf {
			out[i-start] = lowerTable[s[i]]
			i++
		}
		if dst = dst[:len(dst)+i-start]; i > start {
			continue
		}
		if c := s[i]; c < utf8.RuneSelf { // dst is full
			dst = append(dst, lowerTable[c])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[i])
		} else {
			dst = utf8.AppendRune(dst, foldRune(r))
		}
		i += n
	}
	return dst
}

// foldRune maps all runes that differ only in case to one: the smallest of the orbit, with ASCII in lower case.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}

// Casemap implements i;unicode-casemap (RFC 5051) for collation keys and equality: title case, then decomposition.
func Casemap(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, unicode.ToTitle(r))
		i += n
	}
	if ascii(b) {
		return string(b)
	}
	return string(norm.NFKD.Bytes(b))
}
