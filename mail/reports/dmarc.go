package reports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"doublet/mail/inbound"
	"doublet/mail/verify"
	"doublet/note"
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
func (b *Book) countMessage(m *inbound.Seen) {
	v := m.Verdict
	if v == nil || v.DMARC.Record == nil || v.Action == verify.TempFail || len(dmarcreport.Addresses(v.DMARC.Record.Reports)) == 0 {
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
		Domain: cut(d.RecordDomain), DKIM: alignment(r.StrictDKIM), SPF: alignment(r.StrictSPF), Policy: r.Policy, Subdomains: r.Subdomains,
		Percent: r.Percent,
	}
}

// dmarcRecord returns the record of one message, with the count 0.
func dmarcRecord(m *inbound.Seen) dmarcreport.Record {
	v := m.Verdict
	pass := func(ok bool) string {
		if ok {
			return "pass"
		}
		return "fail"
	}
	out := dmarcreport.Record{
		Row: dmarcreport.Row{
			SourceIP: m.Client.IP.Unmap().WithZone("").String(), Disposition: disposition(v), DKIM: pass(v.DMARC.DKIMAligned),
			SPF: pass(v.DMARC.SPFAligned), Reasons: reasons(v),
		},
		Identifiers: dmarcreport.Identifiers{EnvelopeFrom: cut(m.From.Domain), HeaderFrom: cut(v.DMARC.Domain)},
	}
	for _, s := range v.DKIM[:min(len(v.DKIM), maxSignatures)] {
		out.Auth.DKIM = append(out.Auth.DKIM, dmarcreport.DKIM{Domain: cut(s.Domain), Selector: cut(s.Selector), Result: string(s.Result)})
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

// kindDMARC is the media type of a DMARC report.
const kindDMARC = "application/gzip"

// sendDMARC sends the reports about a domain's day to each address in the domain's record. There is one report for each
// policy that the domain published that day.
func (s *Sender) sendDMARC(ctx context.Context, p *page[dmarcRow], places pass) (int, error) {
	if local, err := s.local(ctx, p.domain); !s.opt.DMARC || err != nil || local {
		return 0, err
	}
	to, err := s.dmarcAddresses(ctx, p.domain)
	if err != nil {
		return 0, fmt.Errorf("DMARC report of %s: %w", p.domain, err)
	}
	from, signs, err := s.author(ctx)
	if err != nil || !signs || len(to) == 0 {
		return 0, err
	}
	sent := 0
	var failed error
	for _, r := range s.dmarcReports(p, from) {
		n, err := s.mailDMARC(ctx, r, from, to, places)
		sent, failed = sent+n, errors.Join(failed, err)
	}
	if sent > 0 {
		return sent, nil // one address has received it
	}
	return 0, failed
}

// mailDMARC sends a report to every address that accepts its size.
func (s *Sender) mailDMARC(ctx context.Context, r *dmarcreport.Report, from smtp.Path, to []dmarcTo, places pass) (sent int, failed error) {
	text, err := r.Marshal()
	if err != nil {
		return 0, err
	}
	body, err := packed(text)
	if err != nil {
		return 0, err
	}
	for i := range to {
		if to[i].most > 0 && int64(len(body)) > to[i].most {
			s.env.Log.Info("reports: DMARC report is larger than its reader takes", "domain", r.Policy.Domain, "bytes", len(body), "to", to[i].path.String())
			continue
		}
		if !places.room(to[i].path.Domain) {
			continue
		}
		id := note.DeriveUNID([]byte("DMARC report"), []byte(r.Metadata.ID), []byte(to[i].path.String()))
		if err := s.deposit(ctx, id, from, to[i].path, s.dmarcMessage(r, from, to[i].path, body)); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		sent++
	}
	return sent, failed
}

// dmarcReports returns a report for the rows of each policy.
func (s *Sender) dmarcReports(p *page[dmarcRow], from smtp.Path) []*dmarcreport.Report {
	begin, end := span(p.day)
	byPolicy := map[string]*dmarcreport.Report{}
	for _, row := range p.rows {
		key := digest(row.Policy)
		r := byPolicy[key]
		if r == nil && len(byPolicy) == maxPolicies {
			p.others += row.Record.Row.Count
			continue
		}
		if r == nil {
			r = &dmarcreport.Report{Version: "1.0", Policy: row.Policy, Metadata: dmarcreport.Metadata{
				Organization: from.Domain, Email: from.String(), Begin: begin.Unix(), End: end.Unix(),
			}}
			byPolicy[key] = r
		}
		r.Records = append(r.Records, row.Record)
	}
	out := make([]*dmarcreport.Report, 0, len(byPolicy))
	for _, key := range slices.Sorted(maps.Keys(byPolicy)) {
		r := byPolicy[key]
		if p.others > 0 {
			r.Metadata.Errors = []string{fmt.Sprintf("%d messages of further sources are left out", p.others)}
		}
		r.Metadata.ID = p.day + "." + p.domain + "." + digest(r.Records) + "@" + s.opt.Hostname
		out = append(out, r)
	}
	return out
}

// dmarcMessage returns the message with a report.
//
// Implements: RFC 7489 §7.2.1.1 Email transport of reports
func (s *Sender) dmarcMessage(r *dmarcreport.Report, from, to smtp.Path, body []byte) []byte {
	begin, end := span(day(time.Unix(r.Metadata.Begin, 0)))
	m := message{
		from: from, to: to, date: s.env.Clock.Now(), host: s.opt.Hostname, id: r.Metadata.ID,
		subject: dmarcreport.Subject(r.Policy.Domain, from.Domain, r.Metadata.ID), kind: "multipart/mixed",
		text: "This is a report of " + from.Domain + " about mail in the name of " + r.Policy.Domain + " on " + begin.Format("2006-01-02") +
			" (UTC),\r\nin the form of RFC 7489.\r\n",
		fileKind: kindDMARC, fileName: dmarcreport.FileName(from.Domain, r.Policy.Domain, begin, end, digest(r.Metadata.ID)), file: body,
	}
	return m.bytes()
}

// dmarcTo is an address for reports of up to most bytes; 0 means no limit.
type dmarcTo struct {
	path smtp.Path
	most int64
}

// dmarcAddresses looks up the current addresses for a domain's reports. An address at another organization counts only
// if that organization agrees.
//
// Implements: RFC 7489 §7.1 Verifying external destinations
func (s *Sender) dmarcAddresses(ctx context.Context, domain string) ([]dmarcTo, error) {
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
	var out []dmarcTo
	var failed error
	for _, a := range dmarcreport.Addresses(record.Reports) {
		to, ok := mailto(a.Mail)
		if !ok || slices.ContainsFunc(out, func(x dmarcTo) bool { return x.path == to }) {
			continue
		}
		if verify.Organization(strings.ToLower(to.Domain)) != verify.Organization(domain) {
			if ok, err = s.agrees(ctx, domain, to.Domain); err != nil {
				failed = err
			}
		}
		if ok {
			out = append(out, dmarcTo{to, a.Most})
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
