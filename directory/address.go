package directory

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of RFC 5321 section 4.5.3.1, in octets.
const (
	maxLocal   = 64
	maxDomain  = 255
	maxAddress = 254
	maxLabel   = 63
)

// Address is a mailbox of RFC 5321 section 4.1.2, with the additional characters of RFC 6531.
type Address struct {
	// Local is the local part as given, without quotes.
	Local string
	// Domain is the domain in lower case and NFC, with decoded A-labels: all spellings of a domain give the same text.
	// An address literal keeps its brackets.
	Domain string
}

// Key returns the form in which addresses are compared. The local part is also in lower case and NFC.
func (a Address) Key() string { return lower(a.Local) + "@" + a.Domain }

// ParseAddress parses local@domain, where local may be quoted. Errors are ErrInvalid.
func ParseAddress(s string) (Address, error) {
	a, err := parseAddress(s)
	if err != nil {
		return Address{}, fmt.Errorf("%w address %.80q: %w", ErrInvalid, s, err)
	}
	return a, nil
}

func parseAddress(s string) (Address, error) {
	if len(s) > maxAddress+2 || !utf8.ValidString(s) {
		return Address{}, fmt.Errorf("it must be UTF-8 of at most %d bytes", maxAddress)
	}
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return Address{}, errText("it must have the form name@domain")
	}
	local, err := parseLocal(s[:at])
	if err != nil {
		return Address{}, err
	}
	if lit := s[at+1:]; len(lit) > 2 && lit[0] == '[' && lit[len(lit)-1] == ']' {
		if strings.ContainsFunc(lit[1:len(lit)-1], notLiteral) {
			return Address{}, errText("the address literal is malformed")
		}
		return Address{local, strings.ToLower(lit)}, nil
	}
	domain, err := normalDomain(s[at+1:])
	return Address{local, domain}, err
}

// notLiteral reports whether r does not occur in the common address literals of RFC 5321 section 4.1.3.
func notLiteral(r rune) bool {
	return !('0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' || r == '.' || r == ':' || r == '-')
}

// errText is an error that consists of its text.
type errText string

func (e errText) Error() string { return string(e) }

func parseLocal(s string) (string, error) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return parseQuoted(s[1 : len(s)-1])
	}
	if s == "" || len(s) > maxLocal {
		return "", fmt.Errorf("local part must have 1 to %d bytes", maxLocal)
	}
	dot := true // rejects a leading dot
	for _, r := range s {
		switch {
		case r == '.' && dot:
			return "", errText("dots before @ must stand between other characters")
		case r < 0x80 && r != '.' && !atext(byte(r)), r >= 0x80 && !unicode.IsGraphic(r):
			return "", fmt.Errorf("%q may not stand before @ without quotes", r)
		}
		dot = r == '.'
	}
	if dot {
		return "", errText("dots before @ must stand between other characters")
	}
	return s, nil
}

// parseQuoted parses the content of a quoted-string.
func parseQuoted(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			c = s[i]
		} else if c == '"' || c == '\\' {
			return "", errText("the quotes before @ do not match")
		}
		if c < ' ' || c == 0x7f {
			return "", errText("control characters may not stand before @")
		}
		b.WriteByte(c)
	}
	out := b.String()
	if out == "" || len(out) > maxLocal || !utf8.ValidString(out) {
		return "", fmt.Errorf("local part must have 1 to %d bytes", maxLocal)
	}
	return out, nil
}

func atext(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0
}

// NormalDomain returns the normal form of a domain name: lower case, NFC, with valid A-labels decoded. Errors are
// ErrInvalid.
func NormalDomain(s string) (string, error) {
	d, err := normalDomain(s)
	if err != nil {
		return "", fmt.Errorf("%w domain %.80q: %w", ErrInvalid, s, err)
	}
	return d, nil
}

func normalDomain(s string) (string, error) {
	if s == "" || len(s) > maxDomain || !utf8.ValidString(s) {
		return "", fmt.Errorf("domain must have 1 to %d bytes", maxDomain)
	}
	if plainDomain(s) {
		return s, nil
	}
	var b strings.Builder
	for label := range strings.SplitSeq(s, ".") {
		l, err := normalLabel(label)
		if err != nil {
			return "", err
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(l)
	}
	if b.Len() > maxDomain {
		return "", fmt.Errorf("domain must have 1 to %d bytes", maxDomain)
	}
	return b.String(), nil
}

// plainDomain reports whether s is already in normal form. This is the common case, and needs no allocation.
func plainDomain(s string) bool {
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != '.' {
			if c := s[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
				return false
			}
			continue
		}
		if !ldh(s[start:i]) || strings.HasPrefix(s[start:i], "xn--") {
			return false
		}
		start = i + 1
	}
	return true
}

// ldh reports whether the length and the hyphens of a label are valid.
func ldh(l string) bool {
	return l != "" && len(l) <= maxLabel && l[0] != '-' && l[len(l)-1] != '-'
}

func normalLabel(l string) (string, error) {
	l = lower(l)
	if !ldh(l) {
		return "", fmt.Errorf("each part of a domain has 1 to %d characters and no hyphen at its ends", maxLabel)
	}
	if strings.ContainsFunc(l, notDomain) {
		return "", errText("a domain consists of letters, digits and hyphens")
	}
	rest, ok := strings.CutPrefix(l, "xn--")
	if !ok {
		return l, nil
	}
	if !isASCII(rest) {
		return "", errText("a part of the domain that begins with xn-- must be ASCII")
	}
	// Keep a label that does not decode, or whose decoded form would not encode to it.
	u, ok := decodePunycode(rest)
	if !ok || isASCII(u) || u != lower(u) || len(u) > maxLabel || !ldh(u) || strings.HasPrefix(u, "xn--") ||
		strings.ContainsFunc(u, notDomain) {
		return l, nil
	}
	return u, nil
}

func notDomain(r rune) bool {
	if r < 0x80 {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-')
	}
	return !(unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == 0xb7 || r == 0x30fb ||
		r == 0x200c || r == 0x200d)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lower returns s in lower case and NFC. It returns s itself if s is lower-case ASCII.
func lower(s string) string {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf {
			return norm.NFC.String(strings.ToLower(norm.NFC.String(s)))
		} else if 'A' <= c && c <= 'Z' {
			break
		}
	}
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return norm.NFC.String(strings.ToLower(norm.NFC.String(s)))
}

// decodePunycode decodes the text after xn-- (RFC 3492 section 6.2). The input is at most one label long.
func decodePunycode(s string) (string, bool) {
	const base, tmin, tmax, skew, damp = 36, 1, 26, 38, 700
	var out []rune
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		out, s = []rune(s[:i]), s[i+1:]
	}
	n, i, bias := 128, 0, 72
	for s != "" {
		old, w := i, 1
		for k := base; ; k += base {
			if s == "" {
				return "", false
			}
			d := digit(s[0])
			s = s[1:]
			if d < 0 || d > (1<<30-i)/w {
				return "", false
			}
			i += d * w
			t := min(max(k-bias, tmin), tmax)
			if d < t {
				break
			}
			if w > 1<<30/(base-t) {
				return "", false
			}
			w *= base - t
		}
		size := len(out) + 1
		delta := i - old
		if old == 0 {
			delta /= damp
		} else {
			delta /= 2
		}
		delta += delta / size
		k := 0
		for ; delta > (base-tmin)*tmax/2; k += base {
			delta /= base - tmin
		}
		bias = k + (base-tmin+1)*delta/(delta+skew)
		n += i / size
		i %= size
		if n > unicode.MaxRune || !utf8.ValidRune(rune(n)) {
			return "", false
		}
		out = append(out, 0)
		copy(out[i+1:], out[i:])
		out[i] = rune(n)
		i++
	}
	return string(out), true
}

func digit(c byte) int {
	switch {
	case 'a' <= c && c <= 'z':
		return int(c - 'a')
	case '0' <= c && c <= '9':
		return int(c-'0') + 26
	}
	return -1
}
