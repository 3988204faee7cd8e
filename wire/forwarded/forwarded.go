// Package forwarded reads the header fields in which web proxies name the client of a request: Forwarded, and the
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

// Hop is one element of a field: the step from a client to the proxy that wrote the element.
type Hop struct {
	// For is the client's address; the zero Addr where the proxy does not know it, hides it, or names no address.
	For netip.Addr
	// Proto is the protocol that the client used, in lower case; "" where the proxy does not say.
	Proto string
}

// Parse reads the value of one line of Forwarded. The last hop is the one nearest to this server. A parameter that
// occurs twice in an element makes the line malformed, since its readers would differ.
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
			if len(seen) > 0 { // empty elements of a list count for nothing (RFC 9110 section 5.6.1)
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

// pair reads name=value; rest is empty or begins with a comma or a semicolon.
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
		// A colon and brackets belong into quotes; some proxies leave them out, and there is one way to read that.
		ok = value != "" && !strings.ContainsFunc(value, func(c rune) bool { return !tokenChar(c) && !strings.ContainsRune(":[]", c) })
	}
	rest = strings.TrimLeft(rest, " \t")
	if !ok || rest != "" && rest[0] != ',' && rest[0] != ';' {
		return "", "", "", ErrMalformed
	}
	return strings.ToLower(name), value, rest, nil
}

// quoted reads a quoted string behind its first quote.
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
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// Node is the address that a node names: 192.0.2.1, [2001:db8::1], either with a port, and without brackets as some
// proxies write it. It is the zero Addr for "unknown", a name that hides the address, and what is no address.
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
