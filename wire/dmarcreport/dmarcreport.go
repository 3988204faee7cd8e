// Package dmarcreport reads and writes the aggregate reports by which servers tell the owner of a domain who sends mail in
// its name (RFC 7489, appendix C), and the addresses that a DMARC record asks for them at. It asks nobody.
package dmarcreport

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Bounds of a report that is read.
const (
	maxRecords = 10_000
	maxText    = 300 // bytes of one text
	maxAuth    = 20  // results of one record
	maxErrors  = 20
)

// ErrMalformed says that a text is no report.
var ErrMalformed = errors.New("malformed DMARC report")

// Report is an aggregate report of one organization about one domain.
//
// Implements: RFC 7489 §7.2 Aggregate reports, appendix C
type Report struct {
	XMLName  xml.Name `xml:"feedback"`
	Version  string   `xml:"version"`
	Metadata Metadata `xml:"report_metadata"`
	Policy   Policy   `xml:"policy_published"`
	Records  []Record `xml:"record"`
	// Left counts the records beyond the bounds, which were not read.
	Left int `xml:"-"`
}

// Metadata tells who reports, and for which time.
type Metadata struct {
	Organization string   `xml:"org_name"`
	Email        string   `xml:"email"`
	Contact      string   `xml:"extra_contact_info,omitempty"`
	ID           string   `xml:"report_id"`
	Begin        int64    `xml:"date_range>begin"`
	End          int64    `xml:"date_range>end"`
	Errors       []string `xml:"error,omitempty"`
}

// Policy is what the domain published.
type Policy struct {
	Domain          string `xml:"domain"`
	DKIM            string `xml:"adkim,omitempty"`
	SPF             string `xml:"aspf,omitempty"`
	Policy          string `xml:"p"`
	Subdomains      string `xml:"sp"`
	Percent         int    `xml:"pct"`
	FailureSettings string `xml:"fo,omitempty"`
}

// Record counts the messages of one source that had the same results.
type Record struct {
	Row         Row         `xml:"row"`
	Identifiers Identifiers `xml:"identifiers"`
	Auth        Auth        `xml:"auth_results"`
}

// Row is a source and what became of its messages. DKIM and SPF are "pass" where one is aligned and passes.
type Row struct {
	SourceIP    string   `xml:"source_ip"`
	Count       int64    `xml:"count"`
	Disposition string   `xml:"policy_evaluated>disposition"`
	DKIM        string   `xml:"policy_evaluated>dkim"`
	SPF         string   `xml:"policy_evaluated>spf"`
	Reasons     []Reason `xml:"policy_evaluated>reason,omitempty"`
}

// Reason tells why the disposition is not what the policy asks for.
type Reason struct {
	Type    string `xml:"type"`
	Comment string `xml:"comment,omitempty"`
}

// Identifiers are the domains of the messages.
type Identifiers struct {
	EnvelopeFrom string `xml:"envelope_from,omitempty"`
	HeaderFrom   string `xml:"header_from"`
}

// Auth are the results themselves, aligned or not.
type Auth struct {
	DKIM []DKIM `xml:"dkim,omitempty"`
	SPF  []SPF  `xml:"spf"`
}

// DKIM is the result of one signature.
type DKIM struct {
	Domain   string `xml:"domain"`
	Selector string `xml:"selector,omitempty"`
	Result   string `xml:"result"`
}

// SPF is the result for one identity: Scope is "helo" or "mfrom".
type SPF struct {
	Domain string `xml:"domain"`
	Scope  string `xml:"scope,omitempty"`
	Result string `xml:"result"`
}

// Parse reads a report. Records beyond the bounds are counted and left out. The caller bounds data.
func Parse(data []byte) (*Report, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = charset
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

// element reads a child of the root.
func (r *Report) element(d *xml.Decoder, start *xml.StartElement) error {
	switch start.Name.Local {
	case "version":
		return d.DecodeElement(&r.Version, start)
	case "report_metadata":
		err := d.DecodeElement(&r.Metadata, start)
		r.Metadata.Errors = r.Metadata.Errors[:min(len(r.Metadata.Errors), maxErrors)]
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
	x.Row.Count = max(x.Row.Count, 0)
	cleanAll(&x.Row.SourceIP, &x.Row.Disposition, &x.Row.DKIM, &x.Row.SPF, &x.Identifiers.EnvelopeFrom, &x.Identifiers.HeaderFrom)
	x.Row.Reasons = x.Row.Reasons[:min(len(x.Row.Reasons), maxAuth)]
	for i := range x.Row.Reasons {
		cleanAll(&x.Row.Reasons[i].Type, &x.Row.Reasons[i].Comment)
	}
	x.Auth.DKIM, x.Auth.SPF = x.Auth.DKIM[:min(len(x.Auth.DKIM), maxAuth)], x.Auth.SPF[:min(len(x.Auth.SPF), maxAuth)]
	for i := range x.Auth.DKIM {
		cleanAll(&x.Auth.DKIM[i].Domain, &x.Auth.DKIM[i].Selector, &x.Auth.DKIM[i].Result)
	}
	for i := range x.Auth.SPF {
		cleanAll(&x.Auth.SPF[i].Domain, &x.Auth.SPF[i].Scope, &x.Auth.SPF[i].Result)
	}
}

// charset takes the names of character sets of which all that a report holds is ASCII.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "us-ascii", "ascii", "iso-8859-1", "windows-1252":
		return in, nil
	}
	return nil, fmt.Errorf("character set %.40q", label)
}

// cleanAll trims and bounds texts, and takes out what would move a terminal's cursor.
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

// Marshal writes a report as XML.
func (r *Report) Marshal() ([]byte, error) {
	b, err := xml.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write DMARC report: %w", err)
	}
	return append(append([]byte(xml.Header), b...), '\n'), nil
}

// FileName gives the name of the file that a report is sent in.
func FileName(receiver, domain string, from, to time.Time, id string) string {
	return fmt.Sprintf("%s!%s!%d!%d!%s.xml.gz", receiver, domain, from.Unix(), to.Unix(), id)
}

// Subject gives the subject of a message with a report.
func Subject(domain, submitter, id string) string {
	return "Report Domain: " + domain + " Submitter: " + submitter + " Report-ID: <" + id + ">"
}

// Address is a place at which reports are asked for. Most bounds their size in bytes as they are sent, before any
// encoding; 0 is no bound.
type Address struct {
	Mail string
	Most int64
}

const maxURIs = 10

// Addresses reads the value of rua=. URIs other than mailto: are passed over.
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

// parseSize reads a number with k, m, g or t behind it (powers of 1,024).
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
