package reports

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"doublet/mail/verify"
	"doublet/wire/dmarcreport"
	"doublet/wire/smtp"
)

// dmarcRow counts the messages of a source that had the same results under the same policy.
type dmarcRow struct {
	Policy dmarcreport.Policy
	Record dmarcreport.Record
}

// Limits of a report.
const (
	maxSignatures = 4 // of a row
	maxPolicies   = 4 // of a domain and day, each with a report of its own
)

// countMessage counts a message of a domain whose DMARC record asks for reports. It does not count a deferred message,
// which comes again and counts then.
//
// Implements: RFC 7489 §7.2 Aggregate reports
func (b *Book) countMessage(m *verify.Seen) {
	v := m.Verdict
	if v == nil || v.DMARC.Record == nil || m.Deferred() || len(dmarcreport.Addresses(v.DMARC.Record.Reports)) == 0 {
		return
	}
	row := dmarcRow{Policy: published(&v.DMARC), Record: dmarcRecord(m)}
	at := cell{day(b.env.Clock.Now()), row.Policy.Domain, ""}
	if b.dmarc.crowded(at.day, at.domain) {
		// A forger chooses the domains of signatures and the envelope: they must not use up the room.
		row.Record.Auth.DKIM, row.Record.Identifiers.EnvelopeFrom = nil, ""
		row.Record.Auth.SPF[0].Domain = ""
	}
	at.sub = digest(row)
	b.dmarc.count(at, func(r *dmarcRow) {
		row.Record.Row.Count = r.Record.Row.Count + 1
		*r = row
	})
}

func published(d *verify.DMARC) dmarcreport.Policy {
	alignment := func(strict bool) string {
		if strict {
			return "s"
		}
		return "r"
	}
	r := d.Record
	return dmarcreport.Policy{
		Domain: cut(d.RecordDomain), DKIM: alignment(r.StrictDKIM), SPF: alignment(r.StrictSPF), Policy: r.Policy,
		Subdomains: r.Subdomains,
		Percent:    r.Percent,
	}
}

// dmarcRecord returns the record of one message, with the count 0.
func dmarcRecord(m *verify.Seen) dmarcreport.Record {
	v := m.Verdict
	pass := func(ok bool) string {
		if ok {
			return "pass"
		}
		return "fail"
	}
	out := dmarcreport.Record{
		Row: dmarcreport.Row{
			SourceIP: m.Client.IP.Unmap().WithZone("").String(), Disposition: disposition(v),
			DKIM: pass(v.DMARC.DKIMAligned),
			SPF:  pass(v.DMARC.SPFAligned), Reasons: reasons(v),
		},
		Identifiers: dmarcreport.Identifiers{EnvelopeFrom: cut(m.From.Domain), HeaderFrom: cut(v.DMARC.Domain)},
	}
	for _, s := range v.DKIM[:min(len(v.DKIM), maxSignatures)] {
		out.Auth.DKIM = append(out.Auth.DKIM, dmarcreport.DKIM{Domain: cut(s.Domain), Selector: cut(s.Selector),
			Result: string(s.Result)})
	}
	scope := "mfrom"
	if v.SPF.Helo {
		scope = "helo"
	}
	out.Auth.SPF = []dmarcreport.SPF{{Domain: cut(v.SPF.Domain), Scope: scope, Result: string(v.SPF.Result)}}
	return out
}

// disposition returns the effect of the DMARC policy. Filters and block lists do not count.
func disposition(v *verify.Verdict) string {
	if v.DMARC.Result == verify.Fail && !v.ARC.Vouched {
		switch v.Action {
		case verify.Refuse:
			return "reject"
		case verify.ToJunk:
			return "quarantine"
		}
	}
	return "none"
}

// reasons returns the reasons for a disposition that is milder than the published policy.
func reasons(v *verify.Verdict) []dmarcreport.Reason {
	d := &v.DMARC
	switch {
	case d.Result != verify.Fail || disposition(v) == d.Published:
		return nil
	case v.ARC.Vouched:
		return []dmarcreport.Reason{{Type: "trusted_forwarder", Comment: "arc=pass"}}
	case d.Applied != d.Published:
		return []dmarcreport.Reason{{Type: "sampled_out"}}
	}
	return []dmarcreport.Reason{{Type: "local_policy"}}
}

// mediaDMARC is the media type of a DMARC report.
const mediaDMARC = "application/gzip"

// dmarcKind returns the kind of DMARC reports.
func (s *Sender) dmarcKind() *kind[dmarcRow] {
	return &kind[dmarcRow]{
		sender: s, name: "DMARC report", enabled: s.opt.DMARC, ledger: s.book.dmarc,
		readers: s.dmarcReaders, reports: s.dmarcReports,
	}
}

// dmarcReports returns a report for the rows of each policy that the domain published that day, at most maxPolicies.
//
// Implements: RFC 7489 §7.2.1.1 Email transport of reports
func (s *Sender) dmarcReports(p *page[dmarcRow], from smtp.Path) ([]*report, error) {
	begin, end := span(p.day)
	byPolicy, rows, left := map[string]*dmarcreport.Report{}, map[string][]int{}, p.others
	for i, row := range p.rows {
		key := digest(row.Policy)
		r := byPolicy[key]
		if r == nil && len(byPolicy) == maxPolicies {
			left += row.Record.Row.Count
			continue
		}
		if r == nil {
			r = &dmarcreport.Report{Version: "1.0", Policy: row.Policy, Metadata: dmarcreport.Metadata{
				Organization: from.Domain, Email: from.String(), Begin: begin.Unix(), End: end.Unix(),
			}}
			byPolicy[key] = r
		}
		r.Records = append(r.Records, row.Record)
		rows[key] = append(rows[key], i)
	}
	out := make([]*report, 0, len(byPolicy))
	for _, key := range slices.Sorted(maps.Keys(byPolicy)) {
		r := byPolicy[key]
		if left > 0 {
			r.Metadata.Errors = []string{fmt.Sprintf("%d messages of further sources are left out", left)}
		}
		// Two policies may have the same records. The digest is of both, so that their reports differ in the ID.
		r.Metadata.ID = p.day + "." + p.domain + "." + digest([]any{r.Policy, r.Records}) + "@" + s.opt.Hostname
		text, err := r.Marshal()
		if err != nil {
			return nil, err
		}
		one, err := s.report(r.Metadata.ID, from, mediaDMARC, text)
		if err != nil {
			return nil, err
		}
		one.rows = rows[key]
		m := &one.message
		m.subject, m.kind = dmarcreport.Subject(r.Policy.Domain, from.Domain, one.id), "multipart/mixed"
		m.text = "This is a report of " + from.Domain + " about mail in the name of " + r.Policy.Domain +
			" on " + p.day +
			" (UTC),\r\nin the form of RFC 7489.\r\n"
		m.fileName = dmarcreport.FileName(from.Domain, r.Policy.Domain, begin, end, digest(one.id))
		out = append(out, one)
	}
	return out, nil
}

// dmarcReaders looks up the current addresses for a domain's reports. An address at another organization counts only if
// that organization agrees.
//
// Implements: RFC 7489 §7.1 Verifying external destinations
func (s *Sender) dmarcReaders(ctx context.Context, domain string) ([]reader, error) {
	texts, err := s.records(ctx, "_dmarc."+domain)
	if err != nil {
		return nil, err
	}
	record, found := verify.Record{}, 0
	for _, text := range texts {
		if r, ok := verify.ParseRecord(text); ok {
			record, found = r, found+1
		}
	}
	if found != 1 { // several records count as none
		return nil, nil
	}
	var out []reader
	var failed error
	for _, a := range dmarcreport.Addresses(record.Reports) {
		to, ok := mailto(a.Mail)
		if !ok || slices.ContainsFunc(out, func(r reader) bool { return r.path == to }) {
			continue
		}
		if verify.Organization(strings.ToLower(to.Domain)) != verify.Organization(domain) {
			if ok, err = s.agrees(ctx, domain, to.Domain); err != nil {
				failed = err
			}
		}
		if ok {
			out = append(out, reader{path: to, most: a.Most})
		}
		if len(out) == maxPlaces {
			break
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, failed
}

// agrees reports whether a domain accepts reports about another one.
func (s *Sender) agrees(ctx context.Context, about, reader string) (bool, error) {
	texts, err := s.records(ctx, about+"._report._dmarc."+reader)
	return slices.ContainsFunc(texts, func(text string) bool {
		version, _, _ := strings.Cut(text, ";")
		name, value, _ := strings.Cut(version, "=")
		return strings.EqualFold(strings.TrimSpace(name), "v") && strings.TrimSpace(value) == "DMARC1"
	}), err
}
