package mail

import (
	"context"
	"errors"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// later returns a scheduled message of a person.
func (w *world) later(p directory.Person, wait time.Duration, to ...string) note.UNID {
	w.t.Helper()
	sub := w.from(p.Addresses()[0], to...)
	who, err := w.people.Names.WhoOf(bg, p.ID)
	w.ok(err)
	sub.Submitter, sub.Received = &Submitter{Who: who, Address: p.Addresses()[0]}, &Received{Protocol: "HTTP"}
	sub.Message, sub.Head = []byte("From: "+p.Addresses()[0]+"\r\nSubject: later\r\n\r\nx\r\n"), nil
	id, err := w.Scheduled.Defer(bg, sub, w.fix.Clock.Now().Add(wait))
	w.ok(err)
	return id
}

func (w *world) recall(id note.UNID, want Recalled) {
	w.t.Helper()
	if got, err := w.Scheduled.RecallHere(bg, id); err != nil || got != want {
		w.t.Fatalf("recalled: %d, %v; should be %d", got, err, want)
	}
}

// waits checks the number of messages in the outboxes that are led here, with those that were recalled and whose time
// has not come.
func (w *world) waits(n int) {
	w.t.Helper()
	w.Scheduled.ReleaseDue(bg)
	if got := w.Scheduled.outbox.count(); got != n {
		w.t.Fatalf("%d messages wait, should be %d", got, n)
	}
}

// TestOutbox checks that a message is sent when its time comes, once and not before, and that it can be recalled until
// then, more than once. A restart does not change this. Messages from the time before the server joined a cluster are
// sent too.
func TestOutbox(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	first := w.later(alice, time.Minute, "bob@example.com")
	back := w.later(alice, time.Minute, "bob@example.com")
	w.waits(2)
	w.recall(back, RecalledBack)
	w.recall(back, RecalledBack)
	w.recall(note.UNID{7}, RecalledNone)
	if w.Scheduled.Waits(bg, back) {
		t.Error("what was taken back waits")
	}
	w.ok(w.Join(note.UNID{1}, "one", nowhere))
	second := w.later(alice, time.Hour, "bob@example.com", "x@elsewhere.example")
	own := queue.OwnedOutboxID(note.UNID{1})
	if info, err := w.db.Info(own); err != nil || info.Owner != (note.UNID{1}) || info.Ack != layout.AckCluster ||
		!info.Queue || info.Kind != queue.DeferredKind {
		t.Fatalf("%+v, %v", info, err)
	}
	if found, err := w.Scheduled.inOutbox(bg, own, second); err != nil || !found {
		t.Fatal("it does not wait in the outbox of the member:", err)
	}
	w.stop()
	w.start()
	w.ok(w.Join(note.UNID{1}, "one", nowhere))
	w.waits(3)
	w.has(bob, 0)
	w.recall(back, RecalledBack)
	w.fix.Time.Advance(time.Minute)
	w.recall(first, RecalledGone)
	w.waits(1)
	w.has(bob, 1)
	w.recall(first, RecalledNone)
	w.recall(back, RecalledNone)
	if !w.Scheduled.Waits(bg, second) || w.Scheduled.Waits(bg, first) {
		t.Error("what waits")
	}
	w.fix.Time.Advance(time.Hour)
	w.waits(0)
	w.has(bob, 2)
	w.route()
	if e := w.queue(1)[0]; e.ID != second {
		t.Errorf("%+v", e)
	}
	w.waits(0)
	w.has(bob, 2)
	w.queue(1)
}

// TestOutboxStandIn checks the outbox of another server. Its messages are sent here after the server has been away long
// enough, and can be recalled here at once. It is handed back only when none of its messages is being sent.
func TestOutboxStandIn(t *testing.T) {
	t.Parallel()
	m := &mates{}
	w := open(t, Options{Mates: m})
	alice, bob := w.person("alice"), w.person("bob")
	other := note.UNID{2}
	theirs := queue.OwnedOutboxID(other)
	// As replicated from a mate: the replica here has the other server's messages.
	w.ok(w.Scheduled.joinOutbox(other, "two", nowhere))
	due := w.later(alice, time.Minute, "bob@example.com", "x@elsewhere.example")
	sent := w.later(alice, time.Minute, "bob@example.com", "y@elsewhere.example")
	back, late := w.later(alice, time.Hour, "bob@example.com"), w.later(alice, time.Hour, "bob@example.com")
	w.ok(w.db.Share(bg, theirs, 0))
	w.ok(w.db.Follow(bg, theirs))
	w.ok(w.Join(note.UNID{1}, "one", nowhere))
	w.fix.Time.Advance(2 * time.Minute)
	w.waits(0)
	w.has(bob, 0)
	w.recall(back, RecalledElsewhere)
	m.recalled = RecalledBack
	if ok, err := w.Scheduled.Recall(bg, back); !ok || err != nil {
		t.Error("the home has taken it back:", ok, err)
	}
	m.recalled = RecalledGone
	if ok, err := w.Scheduled.Recall(bg, due); ok || err != nil {
		t.Error("the home says it is gone:", ok, err)
	}
	m.recalled = RecalledElsewhere
	hurried, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	if _, err := w.Scheduled.Recall(hurried, back); !errors.Is(err, queue.ErrHomeElsewhere) {
		t.Error("nobody who decides is reached:", err)
	}
	m.recalled = RecalledNone
	// The other server is dead. It sent one message just before it died, and a mate has its mail.box.
	w.ok(w.db.Lead(bg, theirs, store.LeadOptions{}))
	for range 2 {
		if ok, err := w.Scheduled.Recall(bg, back); !ok || err != nil {
			t.Error(ok, err)
		}
	}
	box := w.from("alice@example.com", "y@elsewhere.example")
	box.ID = sent
	w.deposit(box)
	w.waits(0)
	w.has(bob, 0)
	w.fix.Time.Advance(queue.StandIn + time.Second)
	w.waits(2)
	w.has(bob, 1)
	w.route()
	for _, e := range w.queue(2) {
		if e.ID != due && e.ID != sent {
			t.Errorf("%+v", e)
		}
	}
	w.waits(2)
	w.has(bob, 1)
	// The outbox is handed back.
	b, own := w.Scheduled.outbox.begin(theirs)
	if b == nil || own {
		t.Fatal("it is not worked on here, or taken for this server's own")
	}
	short, end := context.WithTimeout(bg, 20*time.Millisecond)
	defer end()
	if _, err := w.Vacate(short, theirs); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is given away while something is being sent: %v", err)
	}
	w.Scheduled.outbox.end(b)
	resume, err := w.Vacate(bg, theirs)
	w.ok(err)
	w.fix.Time.Advance(2 * time.Hour)
	w.waits(0) // however late it is
	w.has(bob, 1)
	w.ok(w.db.Follow(bg, theirs))
	resume()
	w.waits(0)
	w.has(bob, 1)
	w.recall(late, RecalledElsewhere)
	w.recall(back, RecalledElsewhere)
	// Only the home sends, even if it has moved at the last moment.
	if err := w.Scheduled.release(bg, &held{theirs, late}, true); !errors.Is(err, store.ErrNotHome) {
		t.Error("sent by who is not home:", err)
	}
	w.has(bob, 1)
}

// TestOutboxRefused checks that a message that is permanently rejected when its time comes is returned and leaves the
// outbox. A message that is recalled while it is being deposited is not sent.
func TestOutboxRefused(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	id := w.later(alice, time.Minute, "bob@example.com")
	sub, err := w.Scheduled.waiting(bg, &held{queue.OutboxID, id})
	w.ok(err)
	sub.takes = &held{queue.OutboxID, id}
	for i := range sub.Recipients {
		r := &sub.Recipients[i]
		*r, err = w.Deposits.Accept(bg, r.To, r.Params, 100)
		w.ok(err)
	}
	w.recall(id, RecalledBack)
	if _, err := w.Deposits.Deposit(bg, sub, nil); !errors.Is(err, errTaken) {
		t.Error("sent though it was taken back:", err)
	}
	w.has(bob, 0)

	w.later(alice, time.Minute, "bob@example.com")
	w.ok(w.people.People.Remove(bg, note.System, bob.ID))
	w.fix.Time.Advance(time.Minute)
	w.waits(0)
	w.route()
	w.has(alice, 1) // the report
}
