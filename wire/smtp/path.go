package smtp

import (
	"bytes"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Maximum lengths of the parts of a path in bytes. RFC 5321 section 4.5.3.1 requires 64 for the local part. Mailing
// lists that encode a recipient into it need more.
const (
	MaxLocal  = 256
	MaxDomain = 255
)

// Path is a reverse or forward path. Local is unquoted. Domain is as the client wrote it; an address literal has its
// brackets. The null sender has neither. "postmaster" may have no Domain.
type Path struct {
	Local, Domain string
}

// IsNull reports whether the path is <>.
func (p Path) IsNull() bool { return p.Local == "" && p.Domain == "" }

// IsLiteral reports whether Domain is an address literal.
func (p Path) IsLiteral() bool { return strings.HasPrefix(p.Domain, "[") }

// IsASCII reports whether the path can be used without SMTPUTF8.
func (p Path) IsASCII() bool { return isASCII(p.Local) && isASCII(p.Domain) }

// String returns the address without angle brackets, quoted if necessary.
func (p Path) String() string {
	if dotString(p.Local) {
		if p.Domain == "" {
			return p.Local
		}
		return p.Local + "@" + p.Domain
	}
	return string(p.Append(nil))
}

// Append appends the result of String.
func (p Path) Append(dst []byte) []byte {
	switch {
	case p.IsNull():
		return dst
	case dotString(p.Local):
		dst = append(dst, p.Local...)
	default:
		dst = append(dst, '"')
		for i := range len(p.Local) {
			if c := p.Local[i]; c == '"' || c == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, p.Local[i])
		}
		dst = append(dst, '"')
	}
	if p.Domain != "" {
		dst = append(dst, '@')
		dst = append(dst, p.Domain...)
	}
	return dst
}

var (
	errPath       = NewReply(501, 5, 1, 3, "Bad address syntax")
	errSenderPath = NewReply(501, 5, 1, 7, "Bad sender address syntax")
)

// ParsePath parses an address without angle brackets, from configuration or a header: local@domain, or postmaster
// alone.
func ParsePath(s string) (Path, error) {
	if s == "" {
		return Path{}, errPath
	}
	p, n, ok := parseMailbox([]byte(s))
	if !ok || n != len(s) {
		return Path{}, errPath
	}
	return p, nil
}

// parseAngle parses "<path>" at the start of b and returns the rest. It accepts and ignores source routes (RFC 5321
// appendix C). It rejects paths without brackets.
//
// Implements: RFC 5321 §4.1.2 Path grammar with source routes, quoted local parts and literals
// Implements: RFC 6531 §3.3 UTF-8 in local parts and domains
func parseAngle(b []byte) (p Path, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '<' {
		return p, nil, false
	}
	b = b[1:]
	if b[0] == '>' {
		return Path{}, b[1:], true
	}
	if b[0] == '@' {
		colon := bytes.IndexByte(b, ':')
		if colon < 0 || !sourceRoute(b[:colon]) {
			return p, nil, false
		}
		b = b[colon+1:]
	}
	p, n, ok := parseMailbox(b)
	if !ok || n >= len(b) || b[n] != '>' {
		return p, nil, false
	}
	return p, b[n+1:], true
}

func sourceRoute(b []byte) bool {
	for _, hop := range bytes.Split(b, []byte{','}) {
		if len(hop) < 2 || hop[0] != '@' || !validDomain(hop[1:]) {
			return false
		}
	}
	return true
}

// parseDotAtom returns the length of the dot-atom at the start of b.
func parseDotAtom(b []byte) (n int, ok bool) {
	for n < len(b) && (atext[b[n]] || b[n] == '.') {
		n++
	}
	return n, dotAtom(b[:n])
}

// parseMailbox parses local@domain (or postmaster alone) at the start of b; n is its length.
func parseMailbox(b []byte) (p Path, n int, ok bool) {
	quoted := len(b) > 0 && b[0] == '"'
	var local string // only of a quoted one: for others the address and its parts are one allocation
	if quoted {
		local, n, ok = parseQuoted(b)
		ok = ok && len(local) <= MaxLocal
	} else {
		n, ok = parseDotAtom(b)
		ok = ok && n <= MaxLocal
	}
	if !ok {
		return p, 0, false
	}
	if n == len(b) || b[n] != '@' {
		if !quoted && foldEq(b[:n], "POSTMASTER") {
			return Path{Local: string(b[:n])}, n, true
		}
		return p, 0, false
	}
	domain := b[n+1:]
	if i := bytes.IndexAny(domain, "> "); i >= 0 {
		domain = domain[:i]
	}
	if !validDomain(domain) {
		return p, 0, false
	}
	end := n + 1 + len(domain)
	if quoted {
		return Path{Local: local, Domain: string(domain)}, end, validUTF8([]byte(local))
	}
	if !validUTF8(b[:end]) {
		return p, 0, false
	}
	whole := string(b[:end]) // a single allocation for both
	return Path{Local: whole[:n], Domain: whole[n+1:]}, end, true
}

// parseQuoted parses and unquotes a quoted string at the start of b.
func parseQuoted(b []byte) (string, int, bool) {
	out := make([]byte, 0, 64)
	for i := 1; i < len(b) && len(out) <= MaxLocal; i++ {
		switch c := b[i]; {
		case c == '"':
			return string(out), i + 1, len(out) > 0
		case c == '\\':
			i++
			if i == len(b) || b[i] < ' ' || b[i] >= 0x7f {
				return "", 0, false
			}
			out = append(out, b[i])
		case c < ' ' || c == 0x7f:
			return "", 0, false
		default:
			out = append(out, c)
		}
	}
	return "", 0, false
}

// validDomain accepts host names (underscores too), U-labels and address literals.
func validDomain(d []byte) bool {
	if len(d) == 0 || len(d) > MaxDomain {
		return false
	}
	if d[0] == '[' {
		return validLiteral(d)
	}
	for rest, more := d, true; more; {
		var label []byte
		if label, rest, more = bytes.Cut(rest, oneDot); !validLabel(label) {
			return false
		}
	}
	return validUTF8(d)
}

// validLabel accepts labels of up to 63 bytes. Only bytes of U-labels may exceed them.
func validLabel(label []byte) bool {
	if len(label) == 0 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i, c := range label {
		if !labelByte(c) || i >= 63 && c < 0x80 {
			return false
		}
	}
	return true
}

func labelByte(c byte) bool {
	return c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// validLiteral accepts [192.0.2.1] and [IPv6:2001:db8::1]. No other tag is registered for the general form
// "tag:content".
func validLiteral(d []byte) bool {
	if len(d) < 3 || d[len(d)-1] != ']' {
		return false
	}
	in := d[1 : len(d)-1]
	if len(in) > 5 && foldEq(in[:5], "IPV6:") {
		a, err := netip.ParseAddr(string(in[5:]))
		return err == nil && a.Is6() && a.Zone() == ""
	}
	a, err := netip.ParseAddr(string(in))
	return err == nil && a.Is4()
}

// atext holds the characters of atext in RFC 5322, and every byte of a multi-byte UTF-8 sequence (RFC 6531).
var atext = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c < 0x80 && strings.IndexByte("!#$%&'*+-/=?^_`{|}~", byte(c)) >= 0
	}
	return t
}()

// dotAtom checks the dots in a run of atext and dots.
func dotAtom(b []byte) bool {
	if len(b) == 0 || b[0] == '.' || b[len(b)-1] == '.' {
		return false
	}
	return !bytes.Contains(b, []byte(".."))
}

func dotString(s string) bool {
	if s == "" || s[0] == '.' || s[len(s)-1] == '.' {
		return false
	}
	for i := range len(s) {
		if !atext[s[i]] && (s[i] != '.' || s[i-1] == '.') {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func validUTF8(b []byte) bool { return utf8.Valid(b) }
