package reports

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"doublet/mail"
	"doublet/mail/outbound"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/dmarcreport"
	"doublet/wire/smtp"
	"doublet/wire/tlsreport"
)

func openBook(w *world) *Book {
	b, err := OpenBook(w.fix.Env, w.memory, stat.New(w.fix.Clock))
	w.ok(err)
	return b
}

// seen returns a message in the name of far.example from an address.
func seen(ip string, reply *smtp.Reply) *verify.Seen {
	record := &verify.Record{Policy: "reject", Reports: "mailto:r@far.example"}
	return &verify.Seen{
		Client: verify.Client{IP: netip.MustParseAddr(ip)}, From: smtp.Path{Local: "x", Domain: "far.example"},
		Reply: reply,
		Verdict: &verify.Verdict{DMARC: verify.DMARC{
			Result: verify.Pass, Domain: "far.example", RecordDomain: "far.example", Record: record,
		}},
	}
}

// messages returns the number of counted messages in the name of far.example, and of rows.
func (w *world) messages(b *Book) (n int64, rows int) {
	p := b.dmarc.page(day(w.fix.Env.Clock.Now()), "far.example")
	for _, r := range p.rows {
		n += r.Record.Row.Count
	}
	return n + p.others, len(p.rows)
}

// TestDeferredCountsOnce checks that a message that is deferred three times counts once, when it is accepted or
// rejected.
func TestDeferredCountsOnce(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := openBook(w)
	for _, final := range []*smtp.Reply{nil, smtp.NewReply(550, 5, 7, 1, "no")} {
		for _, code := range []int{451, 421, 452} {
			b.countMessage(seen("192.0.2.1", smtp.NewReply(code, 4, 7, 1, "later")))
		}
		b.countMessage(seen("192.0.2.1", final))
	}
	if n, _ := w.messages(b); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}

// TestCrowded checks that forged messages do not use up the rows of a domain: when most rows are used, the names that a
// forger chooses no longer distinguish messages, and the domain's own servers still get rows.
func TestCrowded(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := openBook(w)
	const forged = 2000
	for i := range forged {
		m := seen("192.0.2.66", nil)
		m.From.Domain = fmt.Sprintf("d%d.evil.example", i)
		m.Verdict.SPF.Domain = m.From.Domain
		m.Verdict.DKIM = []verify.DKIM{{Domain: m.From.Domain, Selector: "s", Result: verify.Fail}}
		b.countMessage(m)
	}
	own := dmarcBounds.perDomain/5 - 1
	for i := range own {
		b.countMessage(seen(fmt.Sprintf("198.51.100.%d", i), nil))
	}
	p := b.dmarc.page(day(w.fix.Env.Clock.Now()), "far.example")
	good := 0
	for _, r := range p.rows {
		if strings.HasPrefix(r.Record.Row.SourceIP, "198.51.100.") {
			good++
		}
	}
	n, rows := w.messages(b)
	if n != forged+int64(own) || rows != dmarcBounds.perDomain || good != own || p.others != 0 {
		t.Errorf("%d messages in %d rows, %d of %d own servers, %d without a row", n, rows, good, own, p.others)
	}
}

// TestCut checks that texts and lists of others are limited, and that a short text does not keep a long one in memory.
func TestCut(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := openBook(w)
	long := strings.Repeat("x", 10*maxText)
	var list []string
	for range 10 * maxList {
		list = append(list, long)
	}
	b.Observe(&outbound.Observation{
		Domain: long, Policy: tlsreport.Policy{Type: tlsreport.STS, Domain: long, String: list, MX: list},
		Failure: &tlsreport.Failure{Type: tlsreport.CertificateExpired, HELO: long, Reason: long},
	})
	p := b.tls.page(day(w.fix.Env.Clock.Now()), cut(long))
	if len(p.rows) != 1 {
		t.Fatalf("%d rows", len(p.rows))
	}
	r := p.rows[0]
	texts := append([]string{r.Policy.Domain, r.Details[0].HELO, r.Details[0].Reason}, r.Policy.String...)
	texts = append(texts, r.Policy.MX...)
	if len(texts) != 3+2*maxList {
		t.Errorf("%d texts", len(texts))
	}
	for _, s := range texts {
		if len(s) != maxText {
			t.Errorf("a text of %d bytes", len(s))
		}
	}
	if part := long[:10]; unsafe.StringData(cut(part)) == unsafe.StringData(part) {
		t.Error("cut keeps the whole text in memory")
	}
}

// TestMaxPolicies checks that a day on which a domain published many policies makes few reports, which count what they
// leave out.
func TestMaxPolicies(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := &Sender{env: w.fix.Env, opt: Options{Hostname: "mx.example.com"}}
	p := page[dmarcRow]{day: "2026-01-05", domain: "far.example", others: 7}
	const extra = 3
	for i := range maxPolicies + extra {
		p.rows = append(p.rows, &dmarcRow{
			Policy: dmarcreport.Policy{Domain: "far.example", Percent: i},
			Record: dmarcreport.Record{Row: dmarcreport.Row{SourceIP: "192.0.2.1", Count: 10}},
		})
	}
	list, err := s.dmarcReports(&p, smtp.Path{Local: "r", Domain: "example.com"})
	w.ok(err)
	if len(list) != maxPolicies || p.others != 7 {
		t.Fatalf("%d reports, %d others", len(list), p.others)
	}
	for _, r := range list {
		text, err := unpack(r.message.file)
		w.ok(err)
		got, err := dmarcreport.Parse(text)
		w.ok(err)
		errs := got.Metadata.Errors
		if len(got.Records) != 1 || len(errs) != 1 || !strings.HasPrefix(errs[0], "37 messages") {
			t.Errorf("%d records, %q", len(got.Records), errs)
		}
	}
}

// names is a Resolver of TXT records.
type names map[string]string

func (n names) TXT(_ context.Context, name string) ([]string, bool, error) {
	return []string{n[name]}, false, nil
}

// TestMaxPlaces checks that a domain names few readers of its reports, each once.
func TestMaxPlaces(t *testing.T) {
	t.Parallel()
	many := "mailto:a@far.example,mailto:a@far.example,mailto:b@far.example,mailto:c@far.example"
	s := &Sender{opt: Options{DNS: names{
		"_dmarc.far.example":     "v=DMARC1; p=none; rua=" + many,
		"_smtp._tls.far.example": "v=TLSRPTv1; rua=https://far.example/1,https://far.example/1," + many,
	}}}
	for name, of := range map[string]func(context.Context, string) ([]reader, error){
		"a@far.example b@far.example": s.dmarcReaders, "https://far.example/1 a@far.example": s.tlsReaders,
	} {
		list, err := of(bg, "far.example")
		var got []string
		for i := range list {
			got = append(got, list[i].String())
		}
		if err != nil || strings.Join(got, " ") != name || len(got) != maxPlaces {
			t.Errorf("%q, want %s; %v", got, name, err)
		}
	}
}

// post counts the messages that it gets.
type post struct{ n int }

func (p *post) Accept(_ context.Context, to smtp.Path, _ smtp.RcptParams, _ uint64) (mail.Recipient, error) {
	return mail.Recipient{To: to}, nil
}

func (p *post) Deposit(context.Context, *mail.Submission, []error) (note.UNID, error) {
	p.n++
	return note.UNID{}, nil
}

// TestMaxPerPlace checks that one attempt sends few reports to one domain, however many domains name it.
func TestMaxPerPlace(t *testing.T) {
	t.Parallel()
	w := open(t)
	var p post
	s := NewSender(w.fix.Env, nil, Options{Post: &p, Stats: stat.New(w.fix.Clock)})
	places := pass{}
	var err error
	for i := range maxPerPlace + 10 {
		to := reader{path: smtp.Path{Local: fmt.Sprint(i), Domain: "Victim.Example"}}
		if i%2 == 0 {
			to.path.Domain = "victim.example"
		}
		err = s.sendTo(bg, "x", &report{id: fmt.Sprint(i)}, &to, places)
		if want := i >= maxPerPlace; errors.Is(err, errRejected) != want || !want && err != nil {
			t.Fatalf("report %d: %v", i, err)
		}
	}
	other := reader{path: smtp.Path{Local: "a", Domain: "other.example"}}
	if err := s.sendTo(bg, "x", &report{}, &other, places); err != nil || p.n != maxPerPlace+1 {
		t.Errorf("%v, %d messages", err, p.n)
	}
}
