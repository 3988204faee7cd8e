package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
)

func TestQueueVerbs(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.quota(bob, 10)
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com")
	w.deposit(sub)
	w.has(alice, 1)
	w.ok(w.Hold(bg, sub.ID))
	w.ok(w.Hold(bg, sub.ID))
	w.shows("Mail.Hold = 1", "Mail.Waiting = 0")
	w.quota(bob, 0)
	w.fix.Time.Advance(time.Hour)
	if next := w.route(); !next.IsZero() {
		t.Errorf("a held message is due at %s", next)
	}
	w.has(bob, 0)
	e, head, err := w.Show(bg, sub.ID)
	w.ok(err)
	if !e.Held || e.From.String() != "eve@far.example" || !strings.Contains(string(head), "Subject: hello\r\n") ||
		strings.Contains(string(head), "Hello, world") {
		t.Errorf("%+v\n%s", e, head)
	}
	w.ok(w.Moderation.Release(bg, sub.ID))
	w.route()
	w.has(bob, 1)
	w.queue(0)
	w.shows("Mail.Hold = 0", "Mail.Waiting = 0", "Mail.WaitingRecipients = 0")

	w.quota(bob, 10)
	sub = w.from("eve@far.example", "alice@example.com", "bob@example.com")
	w.deposit(sub)
	w.route()
	w.quota(bob, 0)
	w.ok(w.Retry(bg, sub.ID)) // before its time
	w.route()
	w.has(bob, 2)

	sub = w.from("eve@far.example", "far@far.example")
	w.deposit(sub)
	w.ok(w.Drop(bg, sub.ID))
	w.queue(0)
	for name, verb := range map[string]func(context.Context, note.UNID) error{"retry": w.Retry, "hold": w.Hold,
		"release": w.Moderation.Release, "drop": w.Drop} {
		if err := verb(bg, sub.ID); !errors.Is(err, queue.ErrNotQueued) {
			t.Errorf("%s of what is gone: %v", name, err)
		}
	}
	if _, _, err := w.Show(bg, sub.ID); !errors.Is(err, queue.ErrNotQueued) {
		t.Error(err)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	var want []note.UNID
	for range 5 {
		sub := w.from("eve@far.example", "far@far.example")
		w.deposit(sub)
		want = append(want, sub.ID)
	}
	var got []note.UNID
	after := ""
	for {
		list, next, err := w.Queue.List(bg, 2, after)
		w.ok(err)
		for _, e := range list {
			got = append(got, e.ID)
		}
		if after = next; after == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, _, err := w.Queue.List(bg, 2, "x"); err == nil {
		t.Error("a bad place was taken")
	}
}

// TestCrashLosesNothing simulates power failures between acceptance, expansion and retries.
func TestCrashLosesNothing(t *testing.T) {
	t.Parallel()
	w := open(t, Options{MaxLocal: 4})
	var people []directory.Person
	var to []string
	for i := range 10 {
		p := w.person(fmt.Sprintf("p%d", i))
		people, to = append(people, p), append(to, p.InternetAddress)
	}
	w.quota(people[9], 10)
	sub := w.from("eve@far.example", append(to, "far@far.example")...)
	w.deposit(sub)

	after := openOn(t, w.fix.Crash(0, 1), w.opt)
	after.queue(1)
	after.shows("Mail.Waiting = 1", "Mail.WaitingRecipients = 11", "Mail.WaitingForDelivery = 10")
	// One part out of three, then the next power failure.
	j := &job{s: after.Router, key: after.Queue.Boxes.KeyOf(&after.queue(1)[0])}
	e := after.queue(1)[0]
	after.ok(j.step(bg, &e))
	j.release()
	again := openOn(t, after.fix.Crash(50, 2), w.opt)
	if n := len(again.queue(1)[0].Recipients); n != 7 {
		t.Errorf("%d recipients are left, want 7", n)
	}
	again.route()
	again.has(people[9], 0)
	again.quota(people[9], 0)
	last := openOn(t, again.fix.Crash(0, 3), w.opt)
	last.fix.Time.Advance(time.Hour)
	last.route()
	for _, p := range people {
		last.has(p, 1)
	}
	if q := last.queue(1)[0].Recipients; len(q) != 1 || q[0].State != queue.Waiting {
		t.Errorf("%+v", q)
	}
	last.shows("Mail.WaitingRecipients = 1")
}

// TestBadFileDoesNotStopTheRest checks that a missing mail file delays neither the other recipients of its message nor
// later messages.
func TestBadFileDoesNotStopTheRest(t *testing.T) {
	t.Parallel()
	w := open(t, Options{MaxLocal: 2})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	w.ok(w.db.RemoveDatabase(note.System, bob.MailDatabase))
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com", "carol@example.com"))
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	w.deposit(w.from("eve@far.example", "carol@example.com"))
	w.route()
	w.has(alice, 1)
	w.has(carol, 2)
	for _, e := range w.queue(2) {
		if len(e.Recipients) != 1 || e.Recipients[0].Attempts != 1 {
			t.Errorf("%+v", e.Recipients)
		}
	}
	w.fix.Time.Advance(6 * 24 * time.Hour)
	w.route()
	for _, e := range w.queue(2) {
		if !e.From.IsNull() || e.Recipients[0].Address != "eve@far.example" {
			t.Errorf("no report: %+v", e)
		}
	}
}

func TestRunIsWoken(t *testing.T) {
	t.Parallel()
	w := openOn(t, env.TestRealTime(t), Options{MaxLocal: 1, RetryFirst: time.Millisecond})
	alice, bob := w.person("alice"), w.person("bob")
	w.quota(bob, 10)
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	w.fix.Env.Go("router", func() { ended <- w.Router.Run(ctx) })
	watch := func(p directory.Person) chan struct{} {
		arrived := make(chan struct{}, 16)
		stop, err := w.db.Watch(p.MailDatabase, func() { arrived <- struct{}{} })
		w.ok(err)
		t.Cleanup(stop)
		return arrived
	}
	aliceHas, bobHas := watch(alice), watch(bob)
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com")) // through mail.box
	for len(w.inbox(alice.MailDatabase)) == 0 {
		<-aliceHas
	}
	w.quota(bob, 0) // found by the retry, which only the timer starts
	for len(w.inbox(bob.MailDatabase)) == 0 {
		<-bobHas
	}
	cancel()
	w.ok(<-ended)
}

// TestAllAtOnce makes many concurrent deposits to overlapping recipients, with and without mail.box, while the router
// runs. Each recipient gets each message once.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	w := openOn(t, env.TestRealTime(t), Options{MaxLocal: 3})
	var people []directory.Person
	for i := range 5 {
		people = append(people, w.person(fmt.Sprintf("p%d", i)))
	}
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	w.fix.Env.Go("router", func() { ended <- w.Router.Run(ctx) })
	const senders, each = 4, 25
	var group sync.WaitGroup
	for g := range senders {
		group.Go(func() {
			for i := range each {
				to := []string{"p4@example.com", "far@far.example"}
				if i%5 == 0 { // too many for one commit
					to = []string{"p0@example.com", "p1@example.com", "p2@example.com", "p3@example.com",
						"p4@example.com"}
				}
				sub := w.from("eve@far.example", to...)
				sub.Message = fmt.Appendf(nil, "Subject: %d of %d\r\n\r\nx\r\n", i, g)
				if _, err := w.Deposits.Deposit(bg, sub, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	cancel()
	w.ok(<-ended)
	w.route() // the rest
	for _, p := range people[:4] {
		w.has(p, senders*each/5)
	}
	w.has(people[4], senders*each)
	w.queue(senders * each * 4 / 5)
	w.shows("Mail.Waiting = 80", "Mail.WaitingRecipients = 80", "Mail.WaitingForDelivery = 0", "Mail.Delivered = 180",
		"Mail.TotalRouted = 100")
}

func TestDepositAfterClose(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	sub := w.from("eve@far.example", "alice@example.com")
	w.stop()
	if _, err := w.Deposits.Deposit(bg, sub, nil); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
