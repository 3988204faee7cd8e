package reports

import (
	"testing"

	"doublet/mail/outbound"
	"doublet/stat"
	"doublet/wire/dmarcreport"
	"doublet/wire/tlsreport"
)

// TestCountsWhileSending checks that sessions and messages that are counted after a report was made stay, also across a
// restart: in rows of the report, in new rows, and beyond the limits. "report send --today" sends a day that is not
// over.
func TestCountsWhileSending(t *testing.T) {
	t.Parallel()
	w := open(t)
	book := func() *Book {
		b, err := OpenBook(w.fix.Env, w.memory, stat.New(w.fix.Clock))
		w.ok(err)
		return b
	}
	b := book()
	today := day(w.fix.Env.Clock.Now())
	session := func(policy, mx string) {
		o := outbound.Observation{Domain: "far.example", Policy: tlsreport.Policy{Type: policy, Domain: "far.example"}}
		if mx != "" {
			o.Failure = &tlsreport.Failure{Type: tlsreport.CertificateExpired, MX: mx}
		}
		b.Observe(&o)
	}
	message := func(ip string) {
		row := dmarcRow{Policy: dmarcreport.Policy{Domain: "far.example"}}
		row.Record.Row.SourceIP = ip
		b.dmarc.count(cell{today, "far.example", digest(row)}, func(r *dmarcRow) {
			row.Record.Row.Count = r.Record.Row.Count + 1
			*r = row
		})
	}
	for range 3 {
		session(tlsreport.STS, "")
		session(tlsreport.STS, "old")
		session(tlsreport.STS, "both")
		session(tlsreport.NoPolicy, "")
		message("192.0.2.1")
		message("192.0.2.2")
	}
	b.dmarc.book(today, "far.example").others = 5
	tls, dmarc := b.tls.page(today, "far.example"), b.dmarc.page(today, "far.example")
	session(tlsreport.STS, "")
	session(tlsreport.STS, "both")
	session(tlsreport.STS, "new")
	session(tlsreport.TLSA, "")
	message("192.0.2.2")
	message("192.0.2.3")
	b.dmarc.book(today, "far.example").others++
	b.tls.drop(&tls)
	b.dmarc.drop(&dmarc)
	for range 2 {
		tls, dmarc := b.tls.page(today, "far.example"), b.dmarc.page(today, "far.example")
		got := map[string]int64{}
		for _, r := range tls.rows {
			got[r.Policy.Type+" good"] += r.Summary.Successful
			got[r.Policy.Type+" bad"] += r.Summary.Failed
			for _, f := range r.Details {
				got[f.MX] += f.Sessions
			}
		}
		for _, r := range dmarc.rows {
			got[r.Record.Row.SourceIP] += r.Record.Row.Count
		}
		want := map[string]int64{
			"sts good": 1, "sts bad": 2, "both": 1, "new": 1, "tlsa good": 1, "tlsa bad": 0,
			"192.0.2.2": 1, "192.0.2.3": 1,
		}
		for k, n := range want {
			if got[k] != n {
				t.Errorf("%s: %d, want %d", k, got[k], n)
			}
		}
		if len(got) != len(want) || dmarc.others != 1 {
			t.Errorf("left: %v, and %d others", got, dmarc.others)
		}
		w.ok(b.Save())
		w.stop()
		w.start()
		b = book()
	}
	tls, dmarc = b.tls.page(today, "far.example"), b.dmarc.page(today, "far.example")
	b.tls.drop(&tls)
	b.dmarc.drop(&dmarc)
	if len(b.tls.books)+len(b.tls.rows)+len(b.tls.days)+len(b.dmarc.books)+len(b.dmarc.rows)+len(b.dmarc.days) != 0 {
		t.Errorf("pages without counts are left: %v %v", b.tls.books, b.dmarc.books)
	}
}
