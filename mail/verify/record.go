package verify

import (
	"strconv"
	"strings"
)

// Record is a DMARC policy record.
type Record struct {
	// Policy is p=, Subdomains sp= or p= where there is none: "none", "quarantine", "reject".
	Policy, Subdomains string
	// StrictDKIM and StrictSPF are adkim=s and aspf=s.
	StrictDKIM, StrictSPF bool
	// Percent is pct=, 0 to 100.
	Percent int
	// Reports is rua=, as it stands there.
	Reports string
}

// maxRecord bounds what is read of a record.
const maxRecord = 4096

// ParseRecord reads a DMARC record. ok is false for what is none: another version, no usable policy.
// An unknown tag is passed over, and a bad value of one that can be done without is its default.
//
// Implements: RFC 7489 §6.3 General record format, §6.4 Formal definition
func ParseRecord(text string) (r Record, ok bool) {
	if len(text) > maxRecord {
		return Record{}, false
	}
	r.Percent = 100
	first := true
	var hasPolicy, hasSubdomains, bad bool
	for part := range strings.SplitSeq(text, ";") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.Trim(name, blanks), strings.Trim(value, blanks)
		if first {
			// The version is the first tag and its value is as it is written here.
			if !found || !equalFold(name, "v") || value != "DMARC1" {
				return Record{}, false
			}
			first = false
			continue
		}
		if !found {
			continue
		}
		switch strings.ToLower(name) {
		case "p":
			r.Policy, hasPolicy = policyWord(value)
		case "sp":
			r.Subdomains, hasSubdomains = policyWord(value)
			bad = bad || !hasSubdomains
		case "adkim":
			r.StrictDKIM = equalFold(value, "s")
		case "aspf":
			r.StrictSPF = equalFold(value, "s")
		case "pct":
			if n, err := strconv.ParseUint(value, 10, 8); err == nil && n <= 100 {
				r.Percent = int(n)
			}
		case "rua":
			r.Reports = value
		}
	}
	if first {
		return Record{}, false
	}
	if !hasPolicy || bad {
		// Section 6.6.3, number 6: who wants reports and says it wrong has a policy of none.
		if !strings.Contains(r.Reports, "mailto:") {
			return Record{}, false
		}
		r.Policy, hasSubdomains = "none", false
	}
	if !hasSubdomains {
		r.Subdomains = r.Policy
	}
	return r, true
}

const blanks = " \t\r\n"

func policyWord(s string) (string, bool) {
	for _, word := range [...]string{"none", "quarantine", "reject"} {
		if equalFold(s, word) {
			return word, true
		}
	}
	return "", false
}
