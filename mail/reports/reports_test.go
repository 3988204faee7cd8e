package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/keep"
	"doublet/mail/outbound"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/tlsreport"

	"github.com/klauspost/compress/zip"
)

var bg = context.Background()

// world is a store with its persistent tables, which a test can reopen.
type world struct {
	t      *testing.T
	fix    *env.Fixture
	store  *store.Store
	memory *keep.Memory
}

func open(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t)}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() {
	var err error
	w.store, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1,
		Indexes: directory.Indexes()})
	w.ok(err)
	w.memory, err = keep.Open(w.store, w.fix.Env, nil)
	w.ok(err)
}

func (w *world) stop() {
	w.ok(w.memory.Close(bg))
	w.ok(w.store.Close())
}

// TestBook checks that counts persist across a restart, that the number of different failures is limited, and that sent
// counts are deleted.
func TestBook(t *testing.T) {
	t.Parallel()
	w := open(t)
	b, err := OpenBook(w.fix.Env, w.memory, stat.New(w.fix.Clock))
	w.ok(err)
	o := outbound.Observation{Domain: "far.example", Policy: tlsreport.Policy{Type: tlsreport.STS,
		Domain: "far.example", MX: []string{"mx"}}}
	for range 3 {
		b.Observe(&o)
	}
	for i := range 100 {
		o.Failure = &tlsreport.Failure{Type: tlsreport.CertificateExpired, MX: fmt.Sprintf("mx%d", i)}
		b.Observe(&o)
		b.Observe(&o)
	}
	w.ok(b.Save())
	w.stop()
	w.start()
	b, err = OpenBook(w.fix.Env, w.memory, stat.New(w.fix.Clock))
	w.ok(err)
	today := day(w.fix.Env.Clock.Now())
	if list := b.tls.before(today); len(list) != 0 {
		t.Errorf("a day that is not over: %+v", list)
	}
	w.fix.Time.Advance(24 * time.Hour)
	tomorrow := day(w.fix.Env.Clock.Now())
	list := b.tls.before(tomorrow)
	if len(list) != 1 || list[0] != [2]string{today, "far.example"} {
		t.Fatalf("%+v", list)
	}
	p := b.tls.page(today, "far.example")
	if len(p.rows) != 1 {
		t.Fatalf("%+v", p)
	}
	r := p.rows[0]
	sum := int64(0)
	for _, f := range r.Details {
		sum += f.Sessions
	}
	if r.Summary != (tlsreport.Summary{Successful: 3, Failed: 200}) || len(r.Details) != maxWays+1 || sum != 200 ||
		r.Details[maxWays].MX != "" {
		t.Errorf("%+v: %d ways, %d sessions", r.Summary, len(r.Details), sum)
	}
	b.tls.drop(&p)
	w.stop()
	w.start()
	b, err = OpenBook(w.fix.Env, w.memory, stat.New(w.fix.Clock))
	w.ok(err)
	if list := b.tls.before(tomorrow); len(list) != 0 {
		t.Errorf("sent counts are there after a restart: %+v", list)
	}
}

// withoutNumber is the difference of ledgers of numbers.
func withoutNumber(n, counted *int) bool {
	*n -= *counted
	return *n <= 0
}

// TestLedgerBounds checks the limits on the domains of a day and the cells of a domain. Events beyond them are counted,
// also across a restart.
func TestLedgerBounds(t *testing.T) {
	t.Parallel()
	w := open(t)
	lost := stat.New(w.fix.Clock).Counter("x", "x")
	openIt := func() *ledger[int] {
		l, err := openLedger(w.memory.Table("x"), bounds{domains: 3, perGroup: 3, perDomain: 4, perDay: 12}, lost,
			withoutNumber)
		w.ok(err)
		return l
	}
	l := openIt()
	for d := range 5 {
		for sub := range 6 {
			for range 2 {
				l.count(cell{"2026-01-05", fmt.Sprintf("d%d", d), fmt.Sprintf("s%d", sub)}, func(n *int) { *n++ })
			}
		}
	}
	l.count(cell{"2026-01-06", "d9", "s"}, func(n *int) { *n++ })
	w.ok(l.save())
	w.stop()
	w.start()
	l = openIt()
	list := l.before("2026-01-07")
	if len(list) != 4 {
		t.Fatalf("%d pages", len(list))
	}
	for _, at := range list[:3] {
		p := l.page(at[0], at[1])
		if len(p.rows) != 4 || *p.rows[0] != 2 || p.others != 4 {
			t.Errorf("%+v", p)
		}
	}
	if lost.Value() == 0 {
		t.Error("events beyond the limits are not counted")
	}
}

// TestLog checks that received reports persist for 60 days, without duplicates, and that an overlong report keeps its
// totals.
func TestLog(t *testing.T) {
	t.Parallel()
	w := open(t)
	l, err := OpenLog(w.fix.Env, w.memory)
	w.ok(err)
	now := w.fix.Env.Clock.Now()
	big := Received{Organization: "big", ID: "1", Domain: "example.com", Begin: now, End: now,
		TLS: []tlsreport.Result{{Summary: tlsreport.Summary{Failed: 9}}}}
	for range 500 {
		big.TLS[0].Details = append(big.TLS[0].Details, tlsreport.Failure{Type: "x",
			Additional: strings.Repeat("x", 300)})
	}
	w.ok(l.Add(&big))
	for range 2 {
		w.ok(l.Add(&Received{Organization: "small", ID: "1", Domain: "example.org", Begin: now.Add(-24 * time.Hour),
			End: now}))
	}
	w.stop()
	w.start()
	l, err = OpenLog(w.fix.Env, w.memory)
	w.ok(err)
	read := func(since time.Time, domain string) (out []*Received) {
		w.ok(l.Each(bg, since, domain, func(r *Received) { out = append(out, r) }))
		return out
	}
	list := read(time.Time{}, "")
	if len(list) != 2 || list[0].Organization != "small" || list[1].TLS[0].Summary.Failed != 9 ||
		list[1].Left+len(list[1].TLS[0].Details) != 500 {
		t.Errorf("%+v", list)
	}
	if len(read(now, "")) != 1 || len(read(time.Time{}, "Example.ORG")) != 1 {
		t.Error("neither time nor domain counts")
	}
	w.fix.Time.Advance(keepReports)
	w.ok(l.Add(&Received{Organization: "new", ID: "1", Domain: "example.org", Begin: w.fix.Env.Clock.Now(),
		End: w.fix.Env.Clock.Now()}))
	if list := read(time.Time{}, ""); len(list) != 2 || list[1].Organization != "new" {
		t.Errorf("%+v", list)
	}
}

// TestUnpack checks reports in gzip, in zip, and uncompressed. A report that unpacks to more than the maximum size is
// rejected.
func TestUnpack(t *testing.T) {
	t.Parallel()
	zipped := func(data []byte) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		f, err := z.Create("report.xml")
		if err == nil {
			_, err = f.Write(data)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	gzipped := func(data []byte) []byte {
		out, err := packed(data)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	small, bomb := []byte("<feedback/>"), make([]byte, maxUnpacked+1)
	for name, pack := range map[string]func([]byte) []byte{"gzip": gzipped, "zip": zipped,
		"plain": func(b []byte) []byte { return b }} {
		if got, err := unpack(pack(small)); err != nil || !bytes.Equal(got, small) {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if _, err := unpack(pack(bomb)); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: a bomb: %v", name, err)
		}
	}
	for _, bad := range [][]byte{{0x1f, 0x8b}, []byte("PK\x03\x04"), gzipped(small)[:15], zipped(nil)[:30]} {
		if _, err := unpack(bad); err == nil {
			t.Errorf("%q is unpacked", bad)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\nContent-Type: application/tlsrpt+gzip\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\nH4sIAAAA\r\n--b--\r\n"))
	f.Fuzz(func(_ *testing.T, message []byte) {
		for _, file := range files(message) {
			_, _ = unpack(file)
		}
	})
}

// TestGroups checks that one organization cannot use up the room of a day.
func TestGroups(t *testing.T) {
	t.Parallel()
	w := open(t)
	lost := stat.New(w.fix.Clock).Counter("x", "x")
	l, err := openLedger(w.memory.Table("x"), bounds{domains: 10, perGroup: 2, perDomain: 2, perDay: 100}, lost,
		withoutNumber)
	w.ok(err)
	for i := range 20 {
		l.count(cell{"2026-01-05", fmt.Sprintf("x%d.evil.example", i), "s"}, func(n *int) { *n++ })
	}
	l.count(cell{"2026-01-05", "good.test", "s"}, func(n *int) { *n++ })
	if list := l.before("2026-01-06"); len(list) != 3 || lost.Value() != 18 {
		t.Errorf("%v, %d lost", list, lost.Value())
	}
	p := l.page("2026-01-05", "x0.evil.example")
	l.drop(&p)
	l.count(cell{"2026-01-05", "x9.evil.example", "s"}, func(n *int) { *n++ })
	if list := l.before("2026-01-06"); len(list) != 3 {
		t.Errorf("%v", list)
	}
}

// TestLogOfOneSender checks that one sender cannot push out the reports of others: not by dates of the future, not by
// their number, not by the names in a report of somebody else.
func TestLogOfOneSender(t *testing.T) {
	t.Parallel()
	w := open(t)
	l, err := OpenLog(w.fix.Env, w.memory)
	w.ok(err)
	now := w.fix.Env.Clock.Now()
	w.ok(l.Add(&Received{Organization: "Good", ID: "1", From: "good.test", Domain: "d", Begin: now}))
	w.ok(l.Add(&Received{Organization: "Good", ID: "1", From: "evil.test", Domain: "d", Begin: now}))
	if err := l.Add(&Received{ID: "2", From: "evil.test", Begin: now.AddDate(10, 0, 0)}); !errors.Is(err, errDate) {
		t.Errorf("a day to come: %v", err)
	}
	for i := range maxPerSender + 10 {
		err = l.Add(&Received{ID: fmt.Sprint(i), From: "evil.test", Domain: "d", Begin: now})
	}
	if !errors.Is(err, errTooMany) {
		t.Errorf("too many: %v", err)
	}
	n := map[string]int{}
	w.ok(l.Each(bg, now.Add(-time.Hour), "", func(r *Received) { n[r.From]++ }))
	if n["good.test"] != 1 || n["evil.test"] != maxPerSender {
		t.Errorf("%v", n)
	}
}
