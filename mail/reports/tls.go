package reports

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"doublet/note"
	"doublet/wire/smtp"
	"doublet/wire/tlsreport"
)

// kindTLS is the media type of a TLS report.
const kindTLS = "application/tlsrpt+gzip"

// sendTLS sends the report about a domain's day to each address in the domain's TLSRPT record.
//
// Implements: RFC 8460 §5 Report delivery
func (s *Sender) sendTLS(ctx context.Context, p *page[tlsreport.Result], places pass) (int, error) {
	if local, err := s.local(ctx, p.domain); !s.opt.TLS || err != nil || local {
		return 0, err
	}
	records, err := s.records(ctx, "_smtp._tls."+p.domain)
	if err != nil {
		return 0, fmt.Errorf("TLS report of %s: %w", p.domain, err)
	}
	to := unique(tlsreport.Addresses(records))
	if len(to) == 0 {
		return 0, nil
	}
	from, signs, err := s.author(ctx)
	if err != nil {
		return 0, err
	}
	r := s.tlsReport(p, from)
	text, err := r.Marshal()
	if err != nil {
		return 0, err
	}
	body, err := packed(text)
	if err != nil {
		return 0, err
	}
	sent := 0
	var failed error
	for _, uri := range to[:min(len(to), maxPlaces)] {
		err := s.sendTLSTo(ctx, uri, p, r, from, signs, body, places)
		switch {
		case err == nil:
			sent++
		case !errors.Is(err, errRejected):
			failed = err
		}
	}
	if sent > 0 {
		return sent, nil // one address has received it
	}
	return 0, failed
}

// sendTLSTo sends a report to one address. errRejected means that it is not to be tried again.
func (s *Sender) sendTLSTo(ctx context.Context, uri string, p *page[tlsreport.Result], r *tlsreport.Report, from smtp.Path, signs bool, body []byte, places pass) error {
	scheme, rest, _ := strings.Cut(uri, ":")
	if scheme == "https" {
		if u, err := url.Parse(uri); err != nil || !places.room(u.Hostname()) {
			return errRejected
		}
		return s.post(ctx, uri, kindTLS, body)
	}
	to, ok := mailto(rest)
	if !ok || !signs || !places.room(to.Domain) {
		return errRejected
	}
	id := note.DeriveUNID([]byte("TLS report"), []byte(r.ID), []byte(to.String()))
	return s.deposit(ctx, id, from, to, s.tlsMessage(p, r, from, to, body))
}

// unique returns the texts without those that are there already.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func (s *Sender) tlsReport(p *page[tlsreport.Result], from smtp.Path) *tlsreport.Report {
	begin, end := span(p.day)
	r := &tlsreport.Report{
		Organization: from.Domain, Range: tlsreport.Range{Start: begin, End: end}, Contact: from.String(),
		ID: p.day + "." + p.domain + "." + digest(p.rows) + "@" + s.opt.Hostname,
	}
	for _, row := range p.rows {
		r.Policies = append(r.Policies, *row)
	}
	return r
}

// tlsMessage returns the message with the report. "TLS-Required: No" gets it delivered even if TLS, the subject of the
// report, does not work.
//
// Implements: RFC 8460 §5.3 Email transport
func (s *Sender) tlsMessage(p *page[tlsreport.Result], r *tlsreport.Report, from, to smtp.Path, body []byte) []byte {
	begin, end := span(p.day)
	m := message{
		from: from, to: to, date: s.env.Clock.Now(), host: s.opt.Hostname, id: r.ID,
		subject: "Report Domain: " + p.domain + " Submitter: " + from.Domain + " Report-ID: <" + r.ID + ">",
		fields:  []string{"TLS-Report-Domain: " + p.domain, "TLS-Report-Submitter: " + from.Domain, "TLS-Required: No"},
		kind:    "multipart/report; report-type=\"tlsrpt\"",
		text: "This is a report of " + from.Domain + " about TLS with the mail servers of " + p.domain + " on " + p.day + " (UTC),\r\n" +
			"in the form of RFC 8460.\r\n",
		fileKind: kindTLS, fileName: tlsreport.FileName(from.Domain, p.domain, begin, end), file: body,
	}
	return m.bytes()
}
