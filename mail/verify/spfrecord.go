package verify

import (
	"net/netip"
	"strings"
)

// maxSPF is the maximum length of an SPF record in bytes. A longer one does not fit into a DNS answer.
const maxSPF = 8 << 10

// isSPF reports whether a TXT record is an SPF record.
func isSPF(record string) bool {
	return len(record) >= 6 && equalFold(record[:6], "v=spf1") && (len(record) == 6 || record[6] == ' ')
}

// ValidSPF reports whether a record is valid from beginning to end. An error after the deciding term makes it invalid,
// too.
//
// Implements: RFC 7208 §4.6 Record evaluation (syntax errors anywhere), §12 Collected ABNF
func ValidSPF(record string) bool {
	if len(record) > maxSPF || !isSPF(record) {
		return false
	}
	redirect, exp := false, false
	for term := range strings.SplitSeq(record[6:], " ") {
		if term == "" {
			continue
		}
		if name, value, ok := modifier(term); ok {
			switch {
			case equalFold(name, "redirect"):
				if redirect || !domainSpec(value) {
					return false
				}
				redirect = true
			case equalFold(name, "exp"):
				if exp || !domainSpec(value) {
					return false
				}
				exp = true
			default:
				if _, ok := macroString(value); !ok {
					return false
				}
			}
			continue
		}
		if strings.IndexByte("+-?~", term[0]) >= 0 {
			term = term[1:]
		}
		if !mechanism(term) {
			return false
		}
	}
	return true
}

// modifier splits name=value.
func modifier(term string) (name, value string, ok bool) {
	for i := range len(term) {
		c := term[i]
		switch {
		case c == '=' && i > 0:
			return term[:i], term[i+1:], true
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'):
		default:
			return "", "", false
		}
	}
	return "", "", false
}

func mechanism(term string) bool {
	end := strings.IndexAny(term, ":/")
	name, rest := term, ""
	if end >= 0 {
		name, rest = term[:end], term[end:]
	}
	domain, has := strings.CutPrefix(rest, ":")
	switch strings.ToLower(name) {
	case "all":
		return rest == ""
	case "include", "exists":
		return has && domainSpec(domain)
	case "ptr":
		return rest == "" || has && domainSpec(domain)
	case "a", "mx":
		rest, ok := cutCIDR(rest)
		domain, has := strings.CutPrefix(rest, ":")
		return ok && (rest == "" || has && domainSpec(domain))
	case "ip4":
		return has && network(domain, 32)
	case "ip6":
		return has && network(domain, 128)
	}
	return false
}

// network reports whether s is an address with an optional prefix length.
func network(s string, bits int) bool {
	address, length, found := strings.Cut(s, "/")
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.BitLen() == bits && ip.Zone() == "" && (!found || number(length, bits))
}

// number reports whether s is a prefix length without leading zeros.
func number(s string, most int) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || i > 2 || i == 1 && s[0] == '0' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return s != "" && n <= most
}

// cutCIDR removes "/24", "//64" or "/24//64" from the end.
func cutCIDR(s string) (rest string, ok bool) {
	digits := func(s string) int {
		i := len(s)
		for i > 0 && '0' <= s[i-1] && s[i-1] <= '9' {
			i--
		}
		return i
	}
	if i := digits(s); i >= 2 && s[i-2:i] == "//" {
		if !number(s[i:], 128) {
			return "", false
		}
		s = s[:i-2]
	}
	if i := digits(s); i >= 1 && s[i-1] == '/' {
		if !number(s[i:], 32) {
			return "", false
		}
		s = s[:i-1]
	}
	return s, true
}

// domainSpec reports whether s is a valid domain-spec: it must end with a top label or a macro.
func domainSpec(s string) bool {
	endsWithMacro, ok := macroString(s)
	if !ok || s == "" || hasMacro(s, "crt") {
		return false // %{c}, %{r} and %{t} are only allowed in explanations
	}
	if endsWithMacro {
		return true
	}
	s = strings.TrimSuffix(s, ".")
	dot := strings.LastIndexByte(s, '.')
	return dot >= 0 && topLabel(s[dot+1:])
}

// hasMacro reports whether a well-formed string contains a macro with one of the letters.
func hasMacro(s, letters string) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == '%' {
			if i++; s[i] == '{' && strings.IndexByte(letters, s[i+1]|0x20) >= 0 {
				return true
			}
		}
	}
	return false
}

func topLabel(s string) bool {
	letter := false
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			letter = true
		case '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
			letter = true
		default:
			return false
		}
	}
	return letter
}

// macroString reports whether s is a well-formed macro-string, and whether it ends with a macro.
func macroString(s string) (endsWithMacro, ok bool) {
	for i := 0; i < len(s); i++ {
		endsWithMacro = false
		c := s[i]
		if c <= ' ' || c >= 0x7f {
			return false, false
		}
		if c != '%' {
			continue
		}
		if i++; i == len(s) {
			return false, false
		}
		switch s[i] {
		case '%', '_', '-':
		case '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 || !macro(s[i+1:i+end]) {
				return false, false
			}
			i += end
		default:
			return false, false
		}
		endsWithMacro = true
	}
	return endsWithMacro, true
}

// macro reports whether s is a valid text between the braces: a letter, digits, r, delimiters.
func macro(s string) bool {
	if s == "" || strings.IndexByte("slodiphcrtv", s[0]|0x20) < 0 {
		return false
	}
	s = s[1:]
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	if n > 0 && strings.Trim(s[:n], "0") == "" || n > 9 {
		return false
	}
	s = s[n:]
	if s != "" && s[0]|0x20 == 'r' {
		s = s[1:]
	}
	return strings.Trim(s, ".-+,/_=") == ""
}
