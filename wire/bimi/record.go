// Package bimi parses what a domain publishes about its logo, which mail programs show beside verified mail of the
// domain: the record in the DNS, and the picture (BIMI, draft-brand-indicators-for-message-identification).
package bimi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Name returns the DNS name of the default record of a domain.
func Name(domain string) string { return "default._bimi." + domain }

// ErrNone means that a domain publishes no record, or declines to have a logo by a record without a location.
var ErrNone = errors.New("domain publishes no logo")

// maxRecord bounds the length of a record in bytes.
const maxRecord = 2000

// Location returns the https URL of the logo from the TXT records at Name. The error is ErrNone without a record, and
// for a domain that declines; other errors are about a malformed record. Evidence (tag a) is not used.
func Location(records []string) (string, error) {
	var found []string
	for _, r := range records {
		if version, _, _ := strings.Cut(r, ";"); strings.Join(strings.Fields(version), "") == "v=BIMI1" {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 0:
		return "", ErrNone
	case len(found) > 1:
		return "", errors.New("bimi: more than one record")
	case len(found[0]) > maxRecord:
		return "", errors.New("bimi: record is too long")
	}
	location, seen := "", map[string]bool{}
	for tag := range strings.SplitSeq(found[0], ";") {
		name, value, ok := strings.Cut(tag, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case strings.TrimSpace(tag) == "":
			continue
		case !ok, seen[name]:
			return "", fmt.Errorf("bimi: malformed tag %q", tag)
		}
		seen[name] = true
		if name == "l" {
			location = value
		}
	}
	if location == "" {
		return "", ErrNone
	}
	if u, err := url.Parse(location); err != nil || u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("bimi: %q is no https URL", location)
	}
	return location, nil
}
