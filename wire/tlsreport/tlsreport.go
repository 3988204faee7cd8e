// Package tlsreport reads and writes TLS reports (TLSRPT, RFC 8460), which tell the owner of a domain about the TLS
// connections of servers that sent mail there. It also parses the DNS records that request them. It makes no DNS
// queries.
package tlsreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kinds of policies of a session.
const (
	TLSA     = "tlsa"
	STS      = "sts"
	NoPolicy = "no-policy-found"
)

// The result types of failed sessions.
//
// Implements: RFC 8460 §4.3 Result types
const (
	STARTTLSNotSupported    = "starttls-not-supported"
	CertificateHostMismatch = "certificate-host-mismatch"
	CertificateExpired      = "certificate-expired"
	CertificateNotTrusted   = "certificate-not-trusted"
	ValidationFailure       = "validation-failure"
	TLSAInvalid             = "tlsa-invalid"
	DNSSECInvalid           = "dnssec-invalid"
	STSPolicyFetchError     = "sts-policy-fetch-error"
	STSPolicyInvalid        = "sts-policy-invalid"
	STSWebPKIInvalid        = "sts-webpki-invalid"
)

// Limits for parsed reports.
const (
	maxPolicies = 200
	maxDetails  = 500 // of all policies together
	maxText     = 300 // bytes of one text
	maxLines    = 50  // lines of a policy's text, or host names
)

// ErrMalformed means that the input is not a valid report.
var ErrMalformed = errors.New("malformed TLS report")

// Report is a report by one organization about one domain.
//
// Implements: RFC 8460 §4.4 JSON report schema
type Report struct {
	Organization string  `json:"organization-name"`
	Range        Range   `json:"date-range"`
	Contact      string  `json:"contact-info"`
	ID           string  `json:"report-id"`
	Policies     Results `json:"policies"`
}

// Range is the period of a report, in RFC 3339 format.
type Range struct {
	Start time.Time `json:"start-datetime"`
	End   time.Time `json:"end-datetime"`
}

// Result holds the number of sessions under one policy.
type Result struct {
	Policy  Policy   `json:"policy"`
	Summary Summary  `json:"summary"`
	Details Failures `json:"failure-details,omitempty"`
}

// Policy describes a policy of the domain, or that none was found.
type Policy struct {
	Type   string `json:"policy-type"`
	String Texts  `json:"policy-string,omitempty"`
	Domain string `json:"policy-domain"`
	MX     Texts  `json:"mx-host,omitempty"`
}

// Summary holds numbers of sessions.
type Summary struct {
	Successful int64 `json:"total-successful-session-count"`
	Failed     int64 `json:"total-failure-session-count"`
}

// Failure holds the number of sessions that failed in one way.
type Failure struct {
	Type       string `json:"result-type"`
	SendingIP  string `json:"sending-mta-ip,omitempty"`
	MX         string `json:"receiving-mx-hostname,omitempty"`
	HELO       string `json:"receiving-mx-helo,omitempty"`
	IP         string `json:"receiving-ip,omitempty"`
	Sessions   int64  `json:"failed-session-count"`
	Additional string `json:"additional-information,omitempty"`
	Reason     string `json:"failure-reason-code,omitempty"`
}

// Texts is a list of texts. Some senders write a single text without brackets.
type Texts []string

// UnmarshalJSON parses a list of texts, or a single text.
func (t *Texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var one string
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		*t = Texts{one}
		return nil
	}
	return some(b, (*[]string)(t), maxLines, nil)
}

// Results holds the policies of a report, Failures the failures under one policy. Parsing keeps only the first elements
// of a long list, so that a small file cannot use much memory.
type (
	Results  []Result
	Failures []Failure
)

// UnmarshalJSON parses a list of policies. It keeps at most maxDetails failures of all policies together.
func (r *Results) UnmarshalJSON(b []byte) error {
	left := maxDetails
	return some(b, (*[]Result)(r), maxPolicies, func(p *Result) {
		if len(p.Details) > left {
			p.Details = slices.Clone(p.Details[:left])
		}
		left -= len(p.Details)
	})
}

// UnmarshalJSON parses a list of failures.
func (f *Failures) UnmarshalJSON(b []byte) error { return some(b, (*[]Failure)(f), maxDetails, nil) }

// some parses at most most elements of a list, and calls bound for each of them. null is an empty list.
func some[T any](b []byte, list *[]T, most int, bound func(*T)) error {
	*list = nil
	if string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, errors.New("not a list"))
	}
	for d.More() && len(*list) < most {
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		if bound != nil {
			bound(&one)
		}
		*list = append(*list, one)
	}
	return nil
}

// Parse parses a report. It drops data beyond the limits, but keeps the summaries. The caller must limit the size of
// data.
func Parse(data []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case r.ID == "" || r.Organization == "":
		return nil, fmt.Errorf("%w: no organization or report id", ErrMalformed)
	case len(r.Policies) == 0:
		return nil, fmt.Errorf("%w: no policies", ErrMalformed)
	case r.Range.End.Before(r.Range.Start):
		return nil, fmt.Errorf("%w: it ends before it begins", ErrMalformed)
	}
	r.bound()
	return &r, nil
}

func (r *Report) bound() {
	for _, s := range []*string{&r.Organization, &r.Contact, &r.ID} {
		*s = clean(*s)
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		p.Policy.Type, p.Policy.Domain = clean(p.Policy.Type), clean(p.Policy.Domain)
		p.Policy.String, p.Policy.MX = p.Policy.String.bounded(), p.Policy.MX.bounded()
		p.Summary.Successful, p.Summary.Failed = max(p.Summary.Successful, 0), max(p.Summary.Failed, 0)
		for k := range p.Details {
			d := &p.Details[k]
			for _, s := range []*string{&d.Type, &d.SendingIP, &d.MX, &d.HELO, &d.IP, &d.Additional, &d.Reason} {
				*s = clean(*s)
			}
			d.Sessions = max(d.Sessions, 0)
		}
	}
}

func (t Texts) bounded() Texts {
	for i := range t {
		t[i] = clean(t[i])
	}
	return t
}

// clean truncates a text and replaces control characters, which could change the state of a terminal.
func clean(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxText)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || 0x7f <= r && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// Marshal encodes a report as JSON.
func (r *Report) Marshal() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write TLS report: %w", err)
	}
	return append(b, '\n'), nil
}

// FileName returns the file name for a report.
//
// Implements: RFC 8460 §5.1 Report filename
func FileName(sender, domain string, from, to time.Time) string {
	return fmt.Sprintf("%s!%s!%d!%d.json.gz", sender, domain, from.Unix(), to.Unix())
}

// maxURIs is the maximum number of report addresses in one record.
const maxURIs = 10

// Addresses returns the URIs (mailto: and https:) at which a domain requests reports. records holds the TXT records of
// its name _smtp._tls. If there are several TLSRPT records, it returns none.
//
// Implements: RFC 8460 §3 The "_smtp._tls" record
func Addresses(records []string) []string {
	var found []string
	n := 0
	for _, text := range records {
		fields := strings.Split(text, ";")
		if strings.Trim(fields[0], " \t") != "v=TLSRPTv1" {
			continue
		}
		n++
		for _, f := range fields[1:] {
			name, value, _ := strings.Cut(strings.Trim(f, " \t"), "=")
			if strings.Trim(name, " \t") == "rua" && found == nil {
				found = addresses(value)
			}
		}
	}
	if n != 1 {
		return nil
	}
	return found
}

func addresses(list string) (out []string) {
	for uri := range strings.SplitSeq(list, ",") {
		uri = strings.Trim(uri, " \t")
		scheme, rest, _ := strings.Cut(uri, ":")
		scheme = strings.ToLower(scheme)
		if (scheme == "mailto" || scheme == "https") && rest != "" && len(out) < maxURIs {
			out = append(out, scheme+":"+rest)
		}
	}
	return out
}
