package mail

import (
	"context"
	"errors"
	"testing"
	"time"

	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

func nowhere(note.DatabaseID) bool { return false }

// TestOwnBox checks that a cluster member puts waiting messages into its own mail.box, and routes it only while it
// leads it. After it gets the home back, it routes everything. Messages from the time before it joined are sent too.
func TestOwnBox(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.quota(alice, 1)
	w.deposit(w.from("eve@far.example", "alice@example.com", "postmaster@elsewhere.example"))
	self := note.UNID{1}
	own := queue.OwnedID(self, 0)
	w.ok(w.Join(self, "one", nowhere))
	w.route()
	if info, err := w.db.Info(own); err != nil || info.Title != "mail.box of one" || info.Owner != self ||
		info.Ack != layout.AckCluster || !info.Queue {
		t.Fatalf("%+v, %v", info, err)
	}
	sub := w.from("eve@far.example", "alice@example.com", "other@elsewhere.example")
	w.deposit(sub)
	w.route()
	for i, e := range w.queue(2) {
		if want := []note.UNID{{}, self}[i]; w.Queue.Boxes.OwnerOf(&e) != want &&
			w.Queue.Boxes.OwnerOf(&w.queue(2)[1-i]) != want {
			t.Errorf("an entry is in the mail.box of %s", w.Queue.Boxes.OwnerOf(&e))
		}
	}
	w.shows("Mail.Waiting = 2", "Mail.WaitingRecipients = 4")

	// A mate leads it now.
	w.ok(w.db.Share(bg, own, 0))
	w.ok(w.db.Follow(bg, own))
	w.route()
	w.queue(1)
	w.shows("Mail.Waiting = 1", "Mail.WaitingRecipients = 2")
	third := w.from("eve@far.example", "third@elsewhere.example")
	w.deposit(third)
	for _, err := range []error{w.Drop(bg, sub.ID), w.Hold(bg, sub.ID), w.Moderation.Release(bg, sub.ID)} {
		if !errors.Is(err, queue.ErrHomeElsewhere) {
			t.Errorf("a decision on what another server leads: %v", err)
		}
	}
	if e, _, err := w.Show(bg, sub.ID); err != nil || e.ID != sub.ID {
		t.Errorf("%+v, %v", e, err)
	}
	w.quota(alice, 0)
	w.fix.Time.Advance(time.Hour)
	w.route()
	w.has(alice, 1) // the message in the other mail.box
	// This server leads it again.
	w.ok(w.db.Lead(bg, own, store.LeadOptions{}))
	w.route()
	w.has(alice, 2)
	w.queue(3)
	w.shows("Mail.Waiting = 3", "Mail.WaitingRecipients = 3")
	w.ok(w.Drop(bg, third.ID))
	w.ok(w.Hold(bg, sub.ID))
	w.shows("Mail.Waiting = 1", "Mail.Hold = 1", "Mail.WaitingRecipients = 2")
}

// TestStandIn checks the mail.box of another server. It is processed only after the server has been away long enough.
// It is handed back only when none of its messages is being sent.
func TestStandIn(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	other := note.UNID{2}
	theirs := queue.OwnedID(other, 0)
	_, err := w.db.CreateDatabase(note.System, store.Create{ID: theirs, Title: "mail.box of other", Kind: queue.Kind,
		Queue: true, Owner: other, Ack: layout.AckCluster})
	w.ok(err)
	w.ok(w.db.Share(bg, theirs, 0))
	w.ok(w.Join(note.UNID{1}, "one", nowhere))
	w.route()
	enter := func(name string, state queue.State, target note.UNID) {
		t.Helper()
		c, err := w.files.Compose(bg, []byte(plain))
		w.ok(err)
		defer c.Release()
		e := queue.Entry{From: path("eve@far.example"), Created: w.fix.Clock.Now(),
			Recipients: []queue.Recipient{{Address: name, State: state, Target: target}}}
		w.fix.Fill(e.ID[:])
		w.ok(w.db.Update(bg, note.System, []note.DatabaseID{theirs}, func(tx *store.Tx) error {
			box, err := tx.Database(theirs)
			if err != nil {
				return err
			}
			_, err = w.Queue.Enter(box, c.New(e.Created), e)
			return err
		}))
	}
	enter("alice@example.com", queue.Pending, alice.ID)
	enter("x@elsewhere.example", queue.Waiting, note.UNID{})
	w.route()
	w.queue(0)
	w.has(alice, 0)
	w.fix.Time.Advance(queue.StandIn + time.Second)
	w.route()
	w.has(alice, 1)
	if e := w.queue(1)[0]; w.Queue.Boxes.OwnerOf(&e) != other {
		t.Errorf("of %s", w.Queue.Boxes.OwnerOf(&e))
	}
	w.shows("Mail.Waiting = 1")
	enter("y@elsewhere.example", queue.Waiting, note.UNID{}) // replicated from a mate
	w.route()
	w.shows("Mail.Waiting = 2")

	e := w.queue(2)[0]
	busy := busyKey{w.Queue.Boxes.KeyOf(&e), w.Router.agenda.dest("elsewhere.example")}
	w.Router.agenda.busy[busy] = false
	short, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	if _, err := w.Vacate(short, theirs); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is given away while something is being sent: %v", err)
	}
	w.route()
	w.queue(2)
	time.AfterFunc(20*time.Millisecond, func() {
		w.Router.mu.Lock()
		defer w.Router.mu.Unlock()
		delete(w.Router.agenda.busy, busy)
		w.Router.moved.Broadcast()
	})
	resume, err := w.Vacate(bg, theirs)
	w.ok(err)
	again, err := w.Vacate(bg, theirs) // two callers vacate at the same time, and one of them gives up
	w.ok(err)
	again()
	w.route()
	w.queue(0)
	w.shows("Mail.Waiting = 0")
	w.ok(w.db.Follow(bg, theirs))
	resume()
	w.route()
	w.queue(0)
	// A server that has lost its disk does not create the databases that its mates have.
	w.ok(w.Join(note.UNID{3}, "three", func(id note.DatabaseID) bool { return id == queue.OwnedID(note.UNID{3}, 0) }))
	if _, err := w.db.Info(queue.OwnedID(note.UNID{3}, 0)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("made anew: %v", err)
	}
	sub := w.from("eve@far.example", "z@elsewhere.example")
	w.deposit(sub)
	if e := w.queue(1)[0]; e.ID != sub.ID || !w.Queue.Boxes.OwnerOf(&e).IsZero() {
		t.Errorf("what comes meanwhile waits in the mail.box of %s", w.Queue.Boxes.OwnerOf(&e))
	}
}
