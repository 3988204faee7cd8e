package verify

import (
	"strconv"
	"strings"
)

// Record is a DMARC policy record.
type Record struct {
	// Policy is p=. Subdomains is sp=, or p= if it is missing. Values: "none", "quarantine", "reject".
	Policy, Subdomains string
	// StrictDKIM and StrictSPF are set for adkim=s and aspf=s.
	StrictDKIM, StrictSPF bool
	// Percent is the value of pct=, 0 to 100.
	Percent int
	// Reports is the value of rua=, unparsed.
	Reports string
}

// maxRecord is the maximum length of a record in bytes.
const maxRecord = 4096

// ParseRecord parses a DMARC record. ok is false if the version is wrong or there is no usable policy. Unknown tags are
// ignored. Invalid values of optional tags have their defaults.
//
// Implements: RFC 7489 §6.3 General record format, §6.4 Formal definition
func ParseRecord(text string) (r Record, ok bool) {
	if len(text) > maxRecord {
		return Record{}, false
	}
	version, tags, _ := strings.Cut(text, ";")
	// The version must be the first tag, and its value is case-sensitive.
	if name, value := tag(version); !equalFold(name, "v") || value != "DMARC1" {
		return Record{}, false
	}
	r.Percent = 100
	bad := false
	for part := range strings.SplitSeq(tags, ";") {
		if !r.set(tag(part)) {
			bad = true
		}
	}
	if r.Policy == "" || bad {
		// RFC 7489 section 6.6.3, step 6: an invalid policy counts as "none" if the record requests reports.
		if !strings.Contains(r.Reports, "mailto:") {
			return Record{}, false
		}
		r.Policy, r.Subdomains = "none", ""
	}
	if r.Subdomains == "" {
		r.Subdomains = r.Policy
	}
	return r, true
}

// tag splits a tag into its name and value. A text without "=" has no name.
func tag(part string) (name, value string) {
	name, value, found := strings.Cut(part, "=")
	if !found {
		return "", ""
	}
	return strings.Trim(name, blanks), strings.Trim(value, blanks)
}

// set sets the value of a tag. It returns false if the policy for subdomains is invalid.
func (r *Record) set(name, value string) (ok bool) {
	switch strings.ToLower(name) {
	case "p":
		r.Policy, _ = policyWord(value)
	case "sp":
		r.Subdomains, ok = policyWord(value)
		return ok
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
	return true
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
