package verify

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// maxSPF is the maximum length of an SPF record in bytes. A longer one does not fit into a DNS answer.
const maxSPF = 8 << 10

// The rules of RFC 7208 section 12 as expressions. A domain-spec ends with a top label or a macro. It has no %{c}, %{r}
// and %{t}, which are only for explanations.
const (
	transformed = `(?:0*[1-9][0-9]{0,8})?r?[-.+,/_=]*\}`
	escape      = `%[%_-]`
	literal     = `[!-$&-~]`
	expand      = `(?:` + escape + `|%\{[slodiphv]` + transformed + `)`
	topLabel    = `(?:[a-z0-9]*[a-z][a-z0-9]*|[a-z0-9]+-[a-z0-9-]*[a-z0-9])`
	domainSpec  = `(?:` + literal + `|` + expand + `)*(?:\.` + topLabel + `\.?|` + expand + `)`
	prefix4     = `(?:/(?:3[0-2]|[12]?[0-9]))?`
	prefix6     = `(?://(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?`
)

var (
	spfDomain    = regexp.MustCompile(`^(?i:` + domainSpec + `)$`)
	spfMacros    = regexp.MustCompile(`^(?i:` + literal + `|` + escape + `|%\{[slodiphcrtv]` + transformed + `)*$`)
	spfModifier  = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9._-]*)=(.*)$`)
	spfMechanism = regexp.MustCompile(`^[-+?~]?(?i:all|(?:include|exists):` + domainSpec + `|ptr(?::` +
		domainSpec + `)?` +
		`|(?:a|mx)(?::` + domainSpec + `)?` + prefix4 + prefix6 + `)$`)
	spfNetwork = regexp.MustCompile(`^[-+?~]?(?i:ip)([46]):([^/%]+)(?:/(0|[1-9][0-9]{0,2}))?$`)
)

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
	once := map[string]bool{}
	for term := range strings.SplitSeq(record[6:], " ") {
		m := spfModifier.FindStringSubmatch(term)
		if m == nil {
			if term != "" && !spfMechanism.MatchString(term) && !validNetwork(term) {
				return false
			}
			continue
		}
		switch name := strings.ToLower(m[1]); name {
		case "redirect", "exp":
			if once[name] || !spfDomain.MatchString(m[2]) {
				return false
			}
			once[name] = true
		default:
			if !spfMacros.MatchString(m[2]) {
				return false
			}
		}
	}
	return true
}

// validNetwork reports whether a term is ip4 or ip6 with an address and an optional prefix length.
func validNetwork(term string) bool {
	m := spfNetwork.FindStringSubmatch(term)
	if m == nil {
		return false
	}
	ip, err := netip.ParseAddr(m[2])
	length, _ := strconv.Atoi(m[3])
	return err == nil && ip.Is4() == (m[1] == "4") && length <= ip.BitLen()
}
