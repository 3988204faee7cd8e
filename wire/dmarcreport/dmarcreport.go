// Package dmarcreport reads and writes DMARC aggregate reports (RFC 7489, appendix C), which tell the owner of a domain
// which servers send mail in its name. It also parses the report addresses of a DMARC record. It makes no DNS queries.
package dmarcreport

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits for parsed reports.
const (
	maxRecords = 10_000
	maxText    = 300  // bytes of one text
	maxList    = 20   // errors, or results or reasons of one record
	maxCount   = 1e12 // messages of one record
)

// ErrMalformed means that the input is not a valid report.
var ErrMalformed = errors.New("malformed DMARC report")

// Report is an aggregate report by one organization about one domain.
//
// Implements: RFC 7489 §7.2 Aggregate reports, appendix C
type Report struct {
	XMLName  xml.Name `xml:"feedback"`
	Version  string   `xml:"version"`
	Metadata Metadata `xml:"report_metadata"`
	Policy   Policy   `xml:"policy_published"`
	Records  []Record `xml:"record"`
	// Left is the number of records beyond the limit, which were not read.
	Left int `xml:"-"`
}

// Metadata identifies the reporter and the period.
type Metadata struct {
	Organization string       `xml:"org_name"`
	Email        string       `xml:"email"`
	Contact      string       `xml:"extra_contact_info,omitempty"`
	ID           string       `xml:"report_id"`
	Begin        int64        `xml:"date_range>begin"`
	End          int64        `xml:"date_range>end"`
	Errors       List[string] `xml:"error,omitempty"`
}

// Policy holds the policy that the domain published.
type Policy struct {
	Domain          string `xml:"domain"`
	DKIM            string `xml:"adkim,omitempty"`
	SPF             string `xml:"aspf,omitempty"`
	Policy          string `xml:"p"`
	Subdomains      string `xml:"sp"`
	Percent         int    `xml:"pct"`
	FailureSettings string `xml:"fo,omitempty"`
}

// Record holds the number of messages from one source with the same results.
type Record struct {
	Row         Row         `xml:"row"`
	Identifiers Identifiers `xml:"identifiers"`
	Auth        Auth        `xml:"auth_results"`
}

// Row holds a source and the disposition of its messages. DKIM and SPF are "pass" if the mechanism passes and is
// aligned.
type Row struct {
	SourceIP    string       `xml:"source_ip"`
	Count       int64        `xml:"count"`
	Disposition string       `xml:"policy_evaluated>disposition"`
	DKIM        string       `xml:"policy_evaluated>dkim"`
	SPF         string       `xml:"policy_evaluated>spf"`
	Reasons     List[Reason] `xml:"policy_evaluated>reason,omitempty"`
}

// Reason explains why the disposition differs from the policy.
type Reason struct {
	Type    string `xml:"type"`
	Comment string `xml:"comment,omitempty"`
}

// Identifiers holds the domains of the messages.
type Identifiers struct {
	EnvelopeFrom string `xml:"envelope_from,omitempty"`
	HeaderFrom   string `xml:"header_from"`
}

// Auth holds the raw results, aligned or not.
type Auth struct {
	DKIM List[DKIM] `xml:"dkim,omitempty"`
	SPF  List[SPF]  `xml:"spf"`
}

// DKIM is the result of one signature.
type DKIM struct {
	Domain   string `xml:"domain"`
	Selector string `xml:"selector,omitempty"`
	Result   string `xml:"result"`
}

// SPF is the result for one identity. Scope is "helo" or "mfrom".
type SPF struct {
	Domain string `xml:"domain"`
	Scope  string `xml:"scope,omitempty"`
	Result string `xml:"result"`
}

// List is a list of elements of one name. Parsing keeps the first elements of a long list and skips the others.
type List[T any] []T

// UnmarshalXML parses one element of the list.
func (l *List[T]) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if len(*l) == maxList {
		return d.Skip()
	}
	var one T
	if err := d.DecodeElement(&one, &start); err != nil {
		return err
	}
	*l = append(*l, one)
	return nil
}

// Parse parses a report. Records beyond the limit are counted and skipped. The caller must limit the size of data; the
// memory of the report is a small multiple of that, whatever data contains.
func Parse(data []byte) (*Report, error) {
	d := decoder(data)
	var r Report
	found := false
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		start, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		if !found {
			if found = start.Name.Local == "feedback"; !found {
				return nil, fmt.Errorf("%w: it begins with %.40q", ErrMalformed, start.Name.Local)
			}
			continue
		}
		if err := r.element(d, &start); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	switch {
	case r.Metadata.ID == "" || r.Metadata.Organization == "" || r.Policy.Domain == "":
		return nil, fmt.Errorf("%w: no organization, report id or domain", ErrMalformed)
	case r.Metadata.End < r.Metadata.Begin || r.Metadata.Begin < 0 || r.Metadata.End > 1<<40:
		return nil, fmt.Errorf("%w: date range", ErrMalformed)
	}
	return &r, nil
}

// element parses a child of the root.
func (r *Report) element(d *xml.Decoder, start *xml.StartElement) error {
	switch start.Name.Local {
	case "version":
		return d.DecodeElement(&r.Version, start)
	case "report_metadata":
		err := d.DecodeElement(&r.Metadata, start)
		cleanAll(&r.Metadata.Organization, &r.Metadata.Email, &r.Metadata.Contact, &r.Metadata.ID)
		for i := range r.Metadata.Errors {
			cleanAll(&r.Metadata.Errors[i])
		}
		return err
	case "policy_published":
		r.Policy.Percent = 100
		err := d.DecodeElement(&r.Policy, start)
		p := &r.Policy
		cleanAll(&p.Domain, &p.DKIM, &p.SPF, &p.Policy, &p.Subdomains, &p.FailureSettings)
		return err
	case "record":
		if len(r.Records) == maxRecords {
			r.Left++
			return d.Skip()
		}
		var x Record
		if err := d.DecodeElement(&x, start); err != nil {
			return err
		}
		x.bound()
		r.Records = append(r.Records, x)
		return nil
	}
	return d.Skip()
}

func (x *Record) bound() {
	x.Row.Count = min(max(x.Row.Count, 0), maxCount)
	cleanAll(&x.Row.SourceIP, &x.Row.Disposition, &x.Row.DKIM, &x.Row.SPF, &x.Identifiers.EnvelopeFrom,
		&x.Identifiers.HeaderFrom)
	for i := range x.Row.Reasons {
		cleanAll(&x.Row.Reasons[i].Type, &x.Row.Reasons[i].Comment)
	}
	for i := range x.Auth.DKIM {
		cleanAll(&x.Auth.DKIM[i].Domain, &x.Auth.DKIM[i].Selector, &x.Auth.DKIM[i].Result)
	}
	for i := range x.Auth.SPF {
		cleanAll(&x.Auth.SPF[i].Domain, &x.Auth.SPF[i].Scope, &x.Auth.SPF[i].Result)
	}
}

// charset accepts the character sets whose ASCII part suffices for reports.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "us-ascii", "ascii", "iso-8859-1", "windows-1252":
		return in, nil
	}
	return nil, fmt.Errorf("character set %.40q", label)
}

// cleanAll trims and truncates texts, and replaces control characters, which could change the state of a terminal.
func cleanAll(list ...*string) {
	for _, s := range list {
		text := strings.TrimSpace(*s)
		text = strings.ToValidUTF8(text[:min(len(text), maxText)], "")
		*s = strings.Map(func(r rune) rune {
			if r < ' ' || 0x7f <= r && r < 0xa0 {
				return ' '
			}
			return r
		}, text)
	}
}

// Marshal encodes a report as XML.
func (r *Report) Marshal() ([]byte, error) {
	b, err := xml.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write DMARC report: %w", err)
	}
	return append(append([]byte(xml.Header), b...), '\n'), nil
}

// FileName returns the file name for a report.
func FileName(receiver, domain string, from, to time.Time, id string) string {
	return fmt.Sprintf("%s!%s!%d!%d!%s.xml.gz", receiver, domain, from.Unix(), to.Unix(), id)
}

// Subject returns the subject of a message with a report.
func Subject(domain, submitter, id string) string {
	return "Report Domain: " + domain + " Submitter: " + submitter + " Report-ID: <" + id + ">"
}

// Address is an address for reports. Most is the maximum size in bytes of a report as sent, before any encoding; 0
// means no limit.
type Address struct {
	Mail string
	Most int64
}

const maxURIs = 10

// Addresses parses the value of rua=. It skips URIs other than mailto:.
func Addresses(rua string) (out []Address) {
	for uri := range strings.SplitSeq(rua, ",") {
		uri = strings.Trim(uri, " \t\r\n")
		if len(uri) < 8 || !strings.EqualFold(uri[:7], "mailto:") || len(out) == maxURIs {
			continue
		}
		mail, size, limited := strings.Cut(uri[7:], "!")
		a := Address{Mail: mail}
		if limited {
			var ok bool
			if a.Most, ok = parseSize(size); !ok {
				continue
			}
		}
		out = append(out, a)
	}
	return out
}

// parseSize parses a number with an optional suffix k, m, g or t (powers of 1,024).
func parseSize(s string) (int64, bool) {
	shift := 0
	if s != "" {
		if i := strings.IndexByte("kmgt", s[len(s)-1]|0x20); i >= 0 && s[len(s)-1] > '9' {
			shift, s = 10*(i+1), s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 62)
	if err != nil || n == 0 || n > 1<<62>>shift {
		return 0, false
	}
	return int64(n) << shift, true
}
