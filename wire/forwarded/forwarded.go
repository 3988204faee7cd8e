// Package forwarded parses the header fields in which web proxies identify the client of a request: Forwarded, and the
// nodes of X-Forwarded-For and X-Real-IP, which have no standard.
//
// Implements: RFC 7239 §4 Forwarded HTTP header field
// Implements: RFC 7239 §6 Node identifiers
package forwarded

import (
	"errors"
	"net/netip"
	"strings"
)

// ErrMalformed means that a value does not follow the grammar.
var ErrMalformed = errors.New("forwarded: malformed field")

// Hop is one element of a field. It describes the connection from a client to the proxy that wrote the element.
type Hop struct {
	// For is the client's address. It is the zero Addr if the proxy does not know it, hides it, or gives no address.
	For netip.Addr
	// Proto is the client's protocol in lower case; "" if not given.
	Proto string
}

// Parse parses the value of one Forwarded line. The last hop is the nearest to this server. A parameter that occurs
// twice in an element makes the line malformed, because parsers would disagree on it.
func Parse(line string) (hops []Hop, err error) {
	var h Hop
	var seen []string
	for rest := line; ; {
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ',' && rest[0] != ';' {
			var name, value string
			if name, value, rest, err = pair(rest); err != nil {
				return nil, err
			}
			for _, s := range seen {
				if s == name {
					return nil, ErrMalformed
				}
			}
			seen = append(seen, name)
			switch name {
			case "for":
				h.For = Node(value)
			case "proto":
				h.Proto = strings.ToLower(value)
			}
		}
		if rest == "" || rest[0] == ',' {
			if len(seen) > 0 { // empty list elements are ignored (RFC 9110 section 5.6.1)
				hops = append(hops, h)
			}
			h, seen = Hop{}, nil
		}
		if rest == "" {
			return hops, nil
		}
		rest = rest[1:]
	}
}

// pair parses name=value. rest is empty or starts with a comma or a semicolon.
func pair(s string) (name, value, rest string, err error) {
	name, rest, ok := strings.Cut(s, "=")
	if !ok || name == "" || strings.ContainsFunc(name, func(c rune) bool { return !tokenChar(c) }) {
		return "", "", "", ErrMalformed
	}
	if strings.HasPrefix(rest, `"`) {
		value, rest, ok = quoted(rest[1:])
	} else {
		n := strings.IndexAny(rest, ",; \t")
		if n < 0 {
			n = len(rest)
		}
		value, rest = rest[:n], rest[n:]
		// Colons and brackets require quotes. Some proxies omit the quotes, and the meaning is still clear.
		ok = value != "" &&
			!strings.ContainsFunc(value, func(c rune) bool { return !tokenChar(c) && !strings.ContainsRune(":[]", c) })
	}
	rest = strings.TrimLeft(rest, " \t")
	if !ok || rest != "" && rest[0] != ',' && rest[0] != ';' {
		return "", "", "", ErrMalformed
	}
	return strings.ToLower(name), value, rest, nil
}

// quoted parses a quoted string after its first quote.
func quoted(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

func tokenChar(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// Node returns the address of a node: 192.0.2.1 or [2001:db8::1], with an optional port. Brackets are optional, as some
// proxies omit them. It returns the zero Addr for "unknown", an obfuscated name, and any other text.
func Node(s string) netip.Addr {
	s = strings.Trim(s, " \t")
	if a, err := netip.ParseAddr(s); err == nil {
		return clean(a)
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return clean(ap.Addr())
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if a, err := netip.ParseAddr(inner); err == nil && a.Is6() {
				return clean(a)
			}
		}
	}
	return netip.Addr{}
}

func clean(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
