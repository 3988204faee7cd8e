package mail

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// calendars records the mail files to which scheduling messages were applied.
type calendars struct{ applied map[note.DatabaseID]bool }

// Read finds a scheduling message in every mail with the subject "hello".
func (c *calendars) Read(_ context.Context, raw []byte) Invitation {
	if !bytes.Contains(raw, []byte("Subject: hello")) {
		return nil
	}
	return c
}

func (c *calendars) Apply(tx *store.Tx, _ note.UNID, db note.DatabaseID) error {
	_, err := tx.Home(db)
	if err == nil {
		c.applied[db] = true // an update may run more than once
	}
	return err
}

func (c *calendars) count(t *testing.T, what string, want int) {
	t.Helper()
	if len(c.applied) != want {
		t.Errorf("%s: %d applied, want %d", what, len(c.applied), want)
	}
	clear(c.applied)
}

// TestInvitation: the scheduling message of a mail reaches the calendar only if the author is verified and the person
// gets the mail; also by way of mail.box.
func TestInvitation(t *testing.T) {
	t.Parallel()
	c := &calendars{map[note.DatabaseID]bool{}}
	w := open(t, Options{Calendars: c})
	alice, bob := w.person("alice"), w.person("bob")
	send := func(change func(*Submission)) {
		t.Helper()
		sub := w.from("eve@far.example", "alice@example.com", "bob@example.com")
		sub.Proven, sub.Checked = true, true
		change(sub)
		w.deposit(sub)
		w.route()
	}
	send(func(*Submission) {})
	c.count(t, "verified", 2)
	send(func(s *Submission) { s.Proven = false })
	c.count(t, "not verified", 0)
	send(func(s *Submission) { s.Junk = true })
	c.count(t, "junk", 0)
	for _, proven := range []bool{true, false} {
		var held *Submission
		send(func(s *Submission) { held, s.Hold, s.Proven = s, "by a filter", proven })
		c.count(t, "held", 0)
		w.ok(w.Moderation.Release(bg, held.ID))
		if proven {
			c.count(t, "released", 2)
		}
		c.count(t, "released, not verified", 0)
	}
	w.block(alice, "eve@far.example")
	send(func(*Submission) {})
	c.count(t, "blocked by one", 1)
	w.block(alice)
	w.quota(bob, 1)
	send(func(*Submission) {})
	c.count(t, "full", 1)
	w.quota(bob, 0)
	w.script(alice, "discard;")
	w.fix.Time.Advance(w.opt2().RetryFirst)
	w.route()
	c.count(t, "from mail.box", 1)
	send(func(*Submission) {})
	c.count(t, "dropped by a script", 1)
}

// TestInvitationAtHome: a member that is not the home of a mail file leaves a mail with a scheduling message to the
// home, although it could deliver it; other mail it delivers.
func TestInvitationAtHome(t *testing.T) {
	t.Parallel()
	c := &calendars{map[note.DatabaseID]bool{}}
	m := &mates{have: map[note.DatabaseID]bool{}}
	w := open(t, Options{Mates: m, Calendars: c})
	bob := w.person("bob")
	db := bob.MailDatabase
	w.deposit(w.from("eve@far.example", "bob@example.com")) // makes the INBOX
	w.ok(w.db.Share(bg, db, 1))
	w.ok(w.db.Follow(bg, db))
	sub := w.from("eve@far.example", "bob@example.com")
	w.deposit(sub)
	if len(m.taken) != 0 {
		t.Errorf("mail without a scheduling message went to the home: %q", m.taken)
	}
	sub = w.from("eve@far.example", "bob@example.com")
	sub.Proven, sub.Checked = true, true
	w.deposit(sub)
	w.route()
	w.queue(0)
	if len(m.taken) != 1 {
		t.Errorf("the home has %q", m.taken)
	}
	h := &Handed{ID: note.UNID{1}, Date: w.fix.Clock.Now(), Person: bob.ID, Kind: directory.TargetPerson, Database: db,
		Proven: true}
	if err := w.Deposits.Take(bg, h, []byte(plain)); !errors.Is(err, store.ErrNotHome) {
		t.Errorf("a member that is not the home takes it: %v", err)
	}
	w.ok(w.db.Lead(bg, db, store.LeadOptions{}))
	w.ok(w.Deposits.Take(bg, h, []byte(plain)))
	c.count(t, "at home", 1)
	w.has(bob, 3)
}
