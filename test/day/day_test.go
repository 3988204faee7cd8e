// Package day runs the server, with all rooms of mail composed as in the program, through a day of traffic with every
// kind of fault. Other servers refuse, stall, lie and disconnect, name servers fail, the disk is full, power is cut.
// Time is simulated: a day takes seconds. A ledger outside the server records the replies to its clients and the mail
// that other servers received; at the end the two are compared.
package day

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/test/long"
)

// setting returns a number from the environment: DAYS is the number of days (1), SEED selects the faults and their
// times.
func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// The clock advances by step of the day in each tick of real time.
const (
	tick     = 12 * time.Millisecond
	step     = time.Minute
	lateStep = 3 * time.Minute // after the end of the day
	// patienceOfDay is the real time after which a day is cut short, on a machine that is too slow for it.
	patienceOfDay = 40 * time.Second
)

// TestDay checks that every accepted message is delivered once, or that its sender has one report about it; that a
// rejected message is nowhere; that nothing is invented; and that nothing waits in the end.
func TestDay(t *testing.T) {
	long.Test(t)
	days, seed := setting("DAYS", 1), uint64(setting("SEED", 1))
	fix := env.Test(t)
	w := &town{t: t, clock: fix.Time, secrets: map[string]string{}, book: newLedger()}
	w.net = &network{clock: fix.Clock, places: map[netip.AddrPort]place{}}
	w.far = openFar(t, w, seed)
	w.dns = w.far.zone.Addr()
	w.begin(fix)
	w.settle()
	w.crew = &crew{w: w, env: fix.Env, fetched: map[string]inFile{}, did: map[string]int{}}

	pace := newPace(w)
	w.crew.begin(seed)
	start := w.clock.Now()
	w.trouble(rand.New(rand.NewPCG(seed, 3)), time.Duration(days)*24*time.Hour)
	hours := int(w.clock.Now().Sub(start) / time.Hour)
	w.evening(pace)
	pace.end()

	sum := w.book.audit(t, w.everything(), w.way)
	w.check()
	w.end(w.down(), true)
	t.Logf("%d lives; taken %d, refused %d, unknown %d; delivered %d, reports of failure %d, of delay %d, copies "+
		"that came again %d; %v",
		w.lives, sum.accepted, sum.rejected, sum.unknown, sum.delivered, sum.reported, sum.delayed, sum.again,
		w.crew.did)
	w.happened(sum, hours)
}

// pace advances the clock by a step each tick, but not before the server has answered a client. So a day takes longer
// on a slow machine and has the same events.
type pace struct {
	w     *town
	clock *env.Manual
	steps chan time.Duration
	ended chan struct{}
}

func newPace(w *town) *pace {
	clock := w.clock
	p := &pace{w: w, clock: clock, steps: make(chan time.Duration, 1), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		by := step
		for {
			select {
			case d, more := <-p.steps:
				if !more {
					return
				}
				by = d
			case <-time.After(tick):
				p.greeted()
				clock.Advance(by)
			}
		}
	}()
	return p
}

// greeted connects to the server's door and waits for the greeting, if the server is up.
func (p *pace) greeted() {
	c, err := net.Dial("tcp", p.w.door("lmtp"))
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Read(make([]byte, 1))
}

func (p *pace) end() {
	close(p.steps)
	<-p.ended
}

// begin starts all clients.
func (c *crew) begin(seed uint64) {
	n := seed * 1000
	next := func() uint64 { n++; return n }
	for i := range 16 {
		c.stranger(byte(i+1), next())
	}
	for i := range 12 {
		c.writer(name(i*7), next())
	}
	for range 3 {
		c.local(next())
	}
	for i := range 8 {
		c.reader(name(i*5), next())
	}
	for i := range 4 {
		c.fetched[name(i*10)+"@example.com"] = inFile{}
		c.fetcher(name(i*10), next())
	}
}

// trouble causes faults of the server itself and of its name servers, about one an hour.
func (w *town) trouble(r *rand.Rand, length time.Duration) {
	start, began := w.clock.Now(), time.Now()
	for i := 0; w.clock.Now().Sub(start) < length &&
		time.Since(began) < patienceOfDay*time.Duration(length/(24*time.Hour)); i++ {
		w.clock.Sleep(20*time.Minute + time.Duration(r.Int64N(int64(time.Hour))))
		switch i % 6 {
		case 0, 3:
			w.crash(1+r.Int64N(9), r.IntN(101), r.Uint64(), time.Duration(r.Int64N(int64(20*time.Minute))))
		case 1:
			w.fullDisk(time.Duration(r.Int64N(int64(40 * time.Minute))))
		case 2:
			w.liars(r, time.Duration(r.Int64N(int64(time.Hour))))
		case 4:
			w.restart(time.Duration(r.Int64N(int64(10 * time.Minute))))
		case 5:
			w.badFlush()
		}
	}
}

// fullDisk leaves less free space than the floor for a while.
func (w *town) fullDisk(d time.Duration) {
	w.now.fix.Faults.SetSpace(32 << 20)
	w.clock.Sleep(d)
	w.now.fix.Faults.SetSpace(1 << 40)
}

// badFlush makes the flush of the log fail, which ends the server.
func (w *town) badFlush() {
	l := w.now
	l.fix.Faults.FailFiles(env.OpSync, func(name string) bool { return strings.HasSuffix(name, ".log") }, nil)
	w.rise(l, 5*time.Minute)
}

// liars makes the name server fail in some way for some names, or for all.
func (w *town) liars(r *rand.Rand, d time.Duration) {
	how := []zone.Fault{zone.ServFail, zone.Refuse, zone.Timeout, zone.WrongID, zone.WrongName, zone.Truncate,
		zone.Garbage}[r.IntN(7)]
	where := []string{"liars.example", "mx.liars.example", "*", "good.example", "mx.dane.example",
		"_25._tcp.mx.dane.example"}[r.IntN(6)]
	w.far.zone.Fail(where, how)
	w.far.zone.Fail("many.example", []zone.Fault{zone.ManyMX, zone.Stranger}[r.IntN(2)])
	w.clock.Sleep(d)
	w.far.zone.Fail(where, zone.None)
	w.far.zone.Fail("many.example", zone.None)
}

// evening ends the traffic, ends the faults that can be ended, and waits until the queue is empty.
func (w *town) evening(p *pace) {
	w.t.Helper()
	w.crew.over.Store(true)
	w.far.mu.Lock()
	w.far.calm = true
	w.far.mu.Unlock()
	w.crew.wg.Wait()
	p.steps <- lateStep
	until := w.clock.Now().Add(48 * time.Hour)
	for {
		list, _, err := w.now.mail.Queue.List(bg, 0, "")
		w.ok(err)
		if len(list) == 0 {
			return
		}
		if w.clock.Now().After(until) {
			for i := range list {
				w.t.Errorf("still in mail.box: %+v", list[i])
			}
			return
		}
		w.clock.Sleep(30 * time.Minute)
	}
}

// everything returns the content of all mail files, including messages that were fetched from them.
func (w *town) everything() map[string]inFile {
	w.t.Helper()
	files := map[string]inFile{}
	list, _, err := w.now.people.People.List(bg, "", 1000, "")
	w.ok(err)
	for i := range list {
		p := &list[i]
		file := w.crew.fetched[p.InternetAddress]
		if file == nil {
			file = inFile{}
		}
		files[p.InternetAddress] = file
		f := w.now.files.File(note.System, p.MailDatabase)
		folders, err := f.Folders(bg)
		w.ok(err)
		for k := range folders {
			v, _, err := f.Open(bg, folders[k].Name, true)
			w.ok(err)
			err = v.Fetch(bg, mailbox.Set{{Start: 1, Stop: 0}}, false, mailbox.FetchOptions{},
				func(m *mailbox.Message) (bool, error) {
					raw, err := rawOf(m)
					file[m.EmailID()] = raw
					return false, err
				}, func() error { return nil })
			w.ok(err)
		}
	}
	return files
}

// way returns the server's trace of a message.
func (w *town) way(token string) string {
	hops, err := w.now.mail.Trace.Find(bg, "<"+token+"@day.example>")
	text := ""
	for i := range hops {
		text += hops[i].Time.Format(time.DateTime) + " " + hops[i].String() + "\n"
	}
	if err != nil {
		text += err.Error()
	}
	return text
}

// happened checks that enough faults occurred: a test without faults proves nothing.
func (w *town) happened(sum account, hours int) {
	w.t.Helper()
	for _, c := range []struct {
		what string
		n    int
		want int
	}{
		{"messages taken", sum.accepted, 300}, {"refused", sum.rejected, 30}, {"delivered", sum.delivered, 600},
		{"reports of failure", sum.reported, 20}, {"reports of delay", sum.delayed, 5}, {"lives", w.lives, 8},
		{"IMAP sessions", w.crew.did["IMAP sessions"], 8}, {"read", w.crew.did["read"], 30},
		{"fetched", w.crew.did["fetched"], 10},
	} {
		if want := c.want * hours / 24; c.n < want {
			w.t.Errorf("%s: %d, which is too few to mean anything (%d)", c.what, c.n, want)
		}
	}
	if hours < 20 {
		return
	}
	for _, d := range w.far.all {
		if d.sink != nil && !w.got(d.name) && d.may == nil {
			w.t.Errorf("nothing came to %s", d.name)
		}
	}
	for _, address := range []string{"@closed.example", "@nowhere.example", "@nullmx.example", "@ours.example",
		"@forged.example", "@stsbad.example", "bad", "big@small.example", "crowd@example.com"} {
		found := false
		for a := range sum.failed {
			found = found || strings.Contains(a, address)
		}
		if !found {
			w.t.Errorf("no report of failure about %s", address)
		}
	}
}

func rawOf(m *mailbox.Message) (string, error) {
	b, err := m.Body()
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	_, err = b.WriteTo(&buf)
	return buf.String(), err
}

// got reports whether any message arrived at a domain.
func (w *town) got(domain string) bool {
	for k := range w.book.copies {
		if _, d, _ := cutLast(k.address, '@'); d == domain {
			return true
		}
	}
	return false
}
