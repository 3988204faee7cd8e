package reports

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"doublet/wire/smtp"
	"doublet/wire/tlsreport"
)

// mediaTLS is the media type of a TLS report.
const mediaTLS = "application/tlsrpt+gzip"

// tlsKind returns the kind of TLS reports.
func (s *Sender) tlsKind() *kind[tlsreport.Result] {
	return &kind[tlsreport.Result]{
		sender: s, name: "TLS report", enabled: s.opt.TLS, ledger: s.book.tls,
		readers: s.tlsReaders, reports: s.tlsReports,
	}
}

// tlsReaders looks up the current addresses for a domain's reports.
//
// Implements: RFC 8460 §5 Report delivery
func (s *Sender) tlsReaders(ctx context.Context, domain string) (out []reader, err error) {
	records, err := s.records(ctx, "_smtp._tls."+domain)
	if err != nil {
		return nil, err
	}
	for _, uri := range tlsreport.Addresses(records) {
		var r reader
		if scheme, rest, _ := strings.Cut(uri, ":"); scheme == "https" {
			u, err := url.Parse(uri)
			if err != nil {
				continue
			}
			r.url, r.host = uri, u.Hostname()
		} else if to, ok := mailto(rest); ok {
			r.path = to
		} else {
			continue
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
		if len(out) == maxPlaces {
			break
		}
	}
	return out, nil
}

// tlsReports returns the report about a domain's day. "TLS-Required: No" gets it delivered even if TLS, the subject of
// the report, does not work.
//
// Implements: RFC 8460 §5.3 Email transport
func (s *Sender) tlsReports(p *page[tlsreport.Result], from smtp.Path) ([]*report, error) {
	begin, end := span(p.day)
	r := tlsreport.Report{
		Organization: from.Domain, Range: tlsreport.Range{Start: begin, End: end}, Contact: from.String(),
		ID: p.day + "." + p.domain + "." + digest(p.rows) + "@" + s.opt.Hostname,
	}
	var rows []int
	for i, row := range p.rows {
		r.Policies, rows = append(r.Policies, *row), append(rows, i)
	}
	text, err := r.Marshal()
	if err != nil {
		return nil, err
	}
	out, err := s.report(r.ID, from, mediaTLS, text)
	if err != nil {
		return nil, err
	}
	out.rows = rows
	m := &out.message
	m.subject = "Report Domain: " + p.domain + " Submitter: " + from.Domain + " Report-ID: <" + r.ID + ">"
	m.fields = []string{"TLS-Report-Domain: " + p.domain, "TLS-Report-Submitter: " + from.Domain, "TLS-Required: No"}
	m.kind = "multipart/report; report-type=\"tlsrpt\""
	m.text = "This is a report of " + from.Domain + " about TLS with the mail servers of " + p.domain + " on " + p.day +
		" (UTC),\r\nin the form of RFC 8460.\r\n"
	m.fileName = tlsreport.FileName(from.Domain, p.domain, begin, end)
	return []*report{out}, nil
}
