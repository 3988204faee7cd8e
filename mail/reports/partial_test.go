package reports

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/mail"
	"doublet/mail/sign"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/dmarcreport"
	"doublet/wire/smtp"
)

// flaky is a Poster that fails at one call of Deposit.
type flaky struct {
	failing, calls int
	taken          []note.UNID
}

var errLater = errors.New("try later")

func (f *flaky) Accept(_ context.Context, to smtp.Path, _ smtp.RcptParams, _ uint64) (mail.Recipient, error) {
	return mail.Recipient{To: to}, nil
}

func (f *flaky) Deposit(_ context.Context, sub *mail.Submission, _ []error) (note.UNID, error) {
	f.calls++
	if f.calls-1 == f.failing {
		return sub.ID, errLater
	}
	f.taken = append(f.taken, sub.ID)
	return sub.ID, nil
}

// TestOneOfTwoReportsFails checks that each report about a domain with two policies is sent once, when the first
// attempt at one of them fails: the failed one is sent in the next attempt, and the other one is not sent again. Both
// have the same records, but different IDs: the router would drop a message with an ID that it has seen.
func TestOneOfTwoReportsFails(t *testing.T) {
	t.Parallel()
	for failing := range 2 {
		w := open(t)
		people, err := directory.Open(w.store, w.fix.Env, password.New(w.fix.Env, 1, 10),
			directory.Options{Domain: "example.com"})
		w.ok(err)
		t.Cleanup(people.Close)
		_, err = sign.Add(bg, people, note.System, "example.com", sign.Ed25519, "s", directory.KeyActive,
			w.fix.Env.Clock.Now())
		w.ok(err)
		b, p := openBook(w), &flaky{failing: failing}
		s := NewSender(w.fix.Env, b, Options{
			Hostname: "mx.example.com", Local: "postmaster", DMARC: true, Directory: people, Post: p,
			DNS:   names{"_dmarc.far.example": "v=DMARC1; p=none; rua=mailto:r@far.example"},
			Stats: stat.New(w.fix.Clock),
		})
		for _, policy := range []string{"none", "reject"} {
			for _, ip := range []string{"192.0.2.1", "192.0.2.2"} {
				m := seen(ip, nil)
				m.Verdict.DMARC.Record.Policy = policy
				b.countMessage(m)
			}
		}
		first := day(w.fix.Env.Clock.Now())
		w.fix.Time.Advance(24 * time.Hour)
		today := day(w.fix.Env.Clock.Now())
		if n, err := s.Send(bg, today); n != 1 || !errors.Is(err, errLater) {
			t.Fatalf("the first attempt: %d reports, %v", n, err)
		}
		left := b.dmarc.page(first, "far.example")
		if len(left.rows) != 2 || left.rows[0].Policy != left.rows[1].Policy {
			t.Errorf("%d rows wait for the second attempt", len(left.rows))
		}
		if n, err := s.Send(bg, today); n != 1 || err != nil {
			t.Errorf("the second attempt: %d reports, %v", n, err)
		}
		if n, err := s.Send(bg, today); n != 0 || err != nil || len(b.dmarc.before(today)) != 0 {
			t.Errorf("the third attempt: %d reports, %v; left: %v", n, err, b.dmarc.before(today))
		}
		slices.SortFunc(p.taken, func(a, b note.UNID) int { return slices.Compare(a[:], b[:]) })
		if n := len(slices.Compact(p.taken)); n != 2 || p.calls != 3 || s.sent.Value() != 2 {
			t.Errorf("%d different reports were sent in %d attempts, %d are counted", n, p.calls, s.sent.Value())
		}
	}
}

// TestDropPart checks that dropping some rows of a page keeps the other rows, the count of the others and the limits of
// the day, and that dropping the rest then leaves nothing of the domain.
func TestDropPart(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := openBook(w)
	today := day(w.fix.Env.Clock.Now())
	for _, policy := range []string{"none", "reject"} {
		row := dmarcRow{Policy: dmarcreport.Policy{Domain: "far.example", Policy: policy}}
		b.dmarc.count(cell{today, "far.example", digest(row)}, func(r *dmarcRow) { *r = row; r.Record.Row.Count = 1 })
	}
	b.dmarc.book(today, "far.example").others = 3
	b.dmarc.count(cell{today, "near.example", "x"}, func(r *dmarcRow) { r.Record.Row.Count = 1 })
	p := b.dmarc.page(today, "far.example")
	b.dmarc.drop(p.part([]int{1}))
	rest := b.dmarc.page(today, "far.example")
	if len(rest.rows) != 1 || rest.subs[0] != p.subs[0] || rest.others != 3 || b.dmarc.days[today].cells != 2 {
		t.Errorf("left: %+v, %d cells", rest, b.dmarc.days[today].cells)
	}
	b.dmarc.drop(&rest)
	if n := b.dmarc.days[today]; n.cells != 1 || n.domains != 1 || len(b.dmarc.books) != 1 {
		t.Errorf("after the rest is dropped: %+v", n)
	}
}
