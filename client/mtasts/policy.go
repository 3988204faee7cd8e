package mtasts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Mode is the mode of a policy.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Testing Mode = "testing"
	None    Mode = "none"
)

// Policy is a published MTA-STS policy.
type Policy struct {
	Mode   Mode
	MX     []string // host names in lower case, or "*." and a domain
	MaxAge time.Duration
}

// Limits of a policy.
const (
	maxPolicyBytes = 64 << 10
	maxPatterns    = 200
	maxAge         = 31557600 * time.Second
)

var errPolicy = errors.New("mtasts: malformed policy")

// ParsePolicy parses a policy file. It ignores unknown keys. If a key is repeated, only the first value counts, except
// for mx.
//
// Implements: RFC 8461 §3.2 MTA-STS policies
func ParsePolicy(text string) (Policy, error) {
	var p Policy
	seen := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r"), ":")
		if !ok {
			if strings.TrimSpace(line) == "" {
				continue
			}
			return p, fmt.Errorf("%w: a line without a colon", errPolicy)
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key != "mx" && seen[key] {
			continue
		}
		seen[key] = true
		switch key {
		case "version":
			if value != "STSv1" {
				return p, fmt.Errorf("%w: version %.20q", errPolicy, value)
			}
		case "mode":
			p.Mode = Mode(value)
		case "max_age":
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return p, fmt.Errorf("%w: max_age", errPolicy)
			}
			p.MaxAge = min(time.Duration(n)*time.Second, maxAge)
		case "mx":
			if len(p.MX) == maxPatterns {
				return p, fmt.Errorf("%w: more than %d mx", errPolicy, maxPatterns)
			}
			p.MX = append(p.MX, strings.ToLower(strings.TrimSuffix(value, ".")))
		}
	}
	switch {
	case !seen["version"], !seen["max_age"]:
		return p, fmt.Errorf("%w: version or max_age is missing", errPolicy)
	case p.Mode != Enforce && p.Mode != Testing && p.Mode != None:
		return p, fmt.Errorf("%w: mode %.20q", errPolicy, p.Mode)
	case p.Mode != None && len(p.MX) == 0:
		return p, fmt.Errorf("%w: no mx", errPolicy)
	}
	return p, nil
}

// Lines returns the policy as the lines of a policy file.
func (p *Policy) Lines() []string {
	out := []string{"version: STSv1", "mode: " + string(p.Mode),
		"max_age: " + strconv.FormatInt(int64(p.MaxAge/time.Second), 10)}
	for _, mx := range p.MX {
		out = append(out, "mx: "+mx)
	}
	return out
}

// Fits reports whether the policy names a host. A wildcard matches exactly one label.
//
// Implements: RFC 8461 §4.1 MX host validation
func (p *Policy) Fits(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, parent, _ := strings.Cut(host, ".")
	for _, mx := range p.MX {
		if under, wild := strings.CutPrefix(mx, "*."); wild && under == parent || mx == host {
			return true
		}
	}
	return false
}

// recordID returns the id in a domain's TXT records. Exactly one of them must be an MTA-STS record.
//
// Implements: RFC 8461 §3.1 MTA-STS TXT records
func recordID(records []string) (string, bool) {
	id, found := "", 0
	for _, r := range records {
		fields := strings.Split(r, ";")
		if strings.TrimRight(fields[0], " \t") != "v=STSv1" {
			continue
		}
		found++
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(strings.Trim(f, " \t"), "=")
			if strings.TrimSpace(key) == "id" && id == "" {
				id = strings.TrimSpace(value)
			}
		}
	}
	if found != 1 || id == "" || len(id) > 32 {
		return "", false
	}
	for i := range len(id) {
		if c := id[i] | 0x20; (c < 'a' || c > 'z') && (id[i] < '0' || id[i] > '9') {
			return "", false
		}
	}
	return id, true
}
