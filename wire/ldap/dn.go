package ldap

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// RDN is a relative distinguished name with one attribute. Names with several attributes in one RDN do not occur in
// this server's tree, and match no entry.
type RDN struct{ Type, Value string }

// DN is a distinguished name, the name of the entry itself first.
type DN []RDN

// Limits of a distinguished name.
const (
	maxDN   = 8 << 10
	maxRDNs = 64
)

// ErrDN reports a malformed distinguished name.
var ErrDN = fmt.Errorf("ldap: malformed distinguished name")

// ParseDN parses the string form of a distinguished name. It also accepts spaces around separators, and names without
// a known type.
//
// Implements: RFC 4514 §3 Parsing a string back to a distinguished name
func ParseDN(s string) (DN, error) {
	if len(s) > maxDN {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrDN, maxDN)
	}
	if s = strings.TrimLeft(s, " "); s == "" {
		return nil, nil
	}
	var dn DN
	for more := true; more; {
		if len(dn) == maxRDNs {
			return nil, fmt.Errorf("%w: more than %d parts", ErrDN, maxRDNs)
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.Trim(name, " ")
		if !ok || !isType(name) {
			return nil, fmt.Errorf("%w: %.80q is no attribute type", ErrDN, name)
		}
		value, rest, err := dnValue(rest)
		if err != nil {
			return nil, err
		}
		dn = append(dn, RDN{name, value})
		more = rest != ""
		if more {
			s = rest[1:]
		}
	}
	return dn, nil
}

// isType reports whether s has the form of an attribute type: a name or an OID.
func isType(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || i > 0 && c == '-' || '0' <= c && c <= '9' || i > 0 && c == '.') {
			return false
		}
	}
	return s != ""
}

// dnValue parses a value up to a separator, and returns the rest with the separator.
func dnValue(s string) (value, rest string, err error) {
	s = strings.TrimLeft(s, " ")
	if strings.HasPrefix(s, "#") {
		return hexValue(s[1:])
	}
	var b strings.Builder
	keep := 0 // the length of b without spaces at the end that are not escaped
	quoted := strings.HasPrefix(s, `"`)
	i := 0
	if quoted {
		i++
	}
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			n, err := escaped(&b, s[i+1:])
			if err != nil {
				return "", "", err
			}
			i += n
			keep = b.Len()
			continue
		case quoted && c == '"':
			rest = strings.TrimLeft(s[i+1:], " ")
			if rest != "" && rest[0] != ',' && rest[0] != ';' {
				return "", "", fmt.Errorf("%w: text after a quoted value", ErrDN)
			}
			return checkValue(b.String(), rest)
		case !quoted && (c == ',' || c == ';'):
			return checkValue(b.String()[:keep], s[i:])
		case !quoted && (c == '"' || c == '<' || c == '>' || c == '+'), c == 0:
			return "", "", fmt.Errorf("%w: %q must be escaped", ErrDN, c)
		}
		b.WriteByte(c)
		if c != ' ' {
			keep = b.Len()
		}
	}
	if quoted {
		return "", "", fmt.Errorf("%w: a quote is missing", ErrDN)
	}
	return checkValue(b.String()[:keep], "")
}

func checkValue(value, rest string) (string, string, error) {
	if !utf8.ValidString(value) {
		return "", "", fmt.Errorf("%w: value is not UTF-8", ErrDN)
	}
	if len(rest) == 1 {
		return "", "", fmt.Errorf("%w: separator at the end", ErrDN)
	}
	return value, rest, nil
}

// escaped writes the character after a backslash, and returns its length in s.
func escaped(b *strings.Builder, s string) (int, error) {
	if len(s) >= 2 {
		if raw, err := hex.DecodeString(s[:2]); err == nil {
			b.Write(raw)
			return 2, nil
		}
	}
	if s == "" || strings.IndexByte(` "#+,;<=>\`, s[0]) < 0 {
		return 0, fmt.Errorf("%w: bad escape", ErrDN)
	}
	b.WriteByte(s[0])
	return 1, nil
}

// hexValue parses the BER encoding of a string value.
func hexValue(s string) (value, rest string, err error) {
	if i := strings.IndexAny(s, ",;"); i >= 0 {
		s, rest = s[:i], s[i:]
	}
	raw, err := hex.DecodeString(strings.TrimRight(s, " "))
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrDN, err)
	}
	r := reader{b: raw}
	_, c := r.any()
	if r.end() != nil {
		return "", "", fmt.Errorf("%w: bad hexadecimal value", ErrDN)
	}
	return checkValue(string(c), rest)
}

// AppendRDN appends the string form of an RDN.
//
// Implements: RFC 4514 §2.4 Converting an AttributeValue to a string
func AppendRDN(dst []byte, r RDN) []byte {
	dst = append(append(dst, r.Type...), '=')
	for i := range len(r.Value) {
		switch c := r.Value[i]; {
		case c == 0:
			dst = append(dst, `\00`...)
		case strings.IndexByte(`"+,;<>\`, c) >= 0, c == ' ' && (i == 0 || i == len(r.Value)-1), c == '#' && i == 0:
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// String returns the string form.
func (d DN) String() string {
	var b []byte
	for i, r := range d {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendRDN(b, r)
	}
	return string(b)
}
