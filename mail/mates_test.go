package mail

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// mates simulates the servers of a cluster that have some of the mail files.
type mates struct {
	have  map[note.DatabaseID]bool
	err   error
	taken []string
	// handed are the same deliveries.
	handed []*Handed
	// recalled is their answer to a recall.
	recalled Recalled
	// had is their answer about a resent message.
	had bool
}

func (m *mates) Elsewhere(db note.DatabaseID) bool { return m.have[db] }

func (m *mates) Deliver(_ context.Context, h *Handed, raw []byte) error {
	if m.err == nil {
		m.handed = append(m.handed, h)
		m.taken = append(m.taken, fmt.Sprint(h.ID, h.Person, h.Database, h.Junk, h.Always, len(raw) > len(plain)))
	}
	return m.err
}

func (m *mates) Delivered(context.Context, note.DatabaseID, note.UNID, []byte) (bool, error) {
	return m.had, m.err
}

func (m *mates) Recall(context.Context, note.UNID) Recalled { return m.recalled }

// TestMates checks the delivery to a mail file without a replica here. The file is not created here; the message is
// accepted, and a mate delivers it as soon as one can.
func TestMates(t *testing.T) {
	t.Parallel()
	m := &mates{have: map[note.DatabaseID]bool{}}
	w := open(t, Options{Mates: m})
	alice, bob := w.person("alice"), w.person("bob")
	w.ok(w.db.RemoveDatabase(note.System, bob.MailDatabase))
	m.have[bob.MailDatabase], m.err = true, errors.New("nobody answers")
	w.ok(w.Deposits.files.Room(bg, &directory.Target{Database: bob.MailDatabase}, 1000))
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com")
	sub.Junk = true
	for i, err := range w.deposit(sub) {
		if err != nil {
			t.Errorf("recipient %d: %v", i, err)
		}
	}
	w.queue(1)
	if next := w.route(); !next.Equal(w.fix.Clock.Now().Add(matesPause)) {
		t.Errorf("the next attempt is at %s", next)
	}
	w.queue(1)
	m.err = nil
	w.fix.Time.Advance(matesPause)
	w.route()
	w.queue(0)
	if want := fmt.Sprint(sub.ID, bob.ID, bob.MailDatabase, true, false, true); len(m.taken) != 1 ||
		m.taken[0] != want {
		t.Errorf("the mate has %q, not %q", m.taken, want)
	}
	if _, err := w.db.Info(bob.MailDatabase); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the mail file was made here: %v", err)
	}
	// A full mail file on a mate counts as full.
	m.err = mailbox.ErrOverQuota
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	w.route()
	if e := w.queue(1); len(e[0].Recipients) != 1 || e[0].Recipients[0].Reply != replyQuota.Error() {
		t.Errorf("%+v", e[0].Recipients)
	}
	if w.in(alice, "Junk") != 1 {
		t.Error("the one that is here has not got it")
	}
}

// TestMatesMakeFolders checks the delivery to a replica that does not have the folder yet. It does not create a second
// folder; the home delivers.
func TestMatesMakeFolders(t *testing.T) {
	t.Parallel()
	m := &mates{have: map[note.DatabaseID]bool{}}
	w := open(t, Options{Mates: m})
	bob := w.person("bob")
	db := bob.MailDatabase
	m.have[db] = true
	w.ok(w.db.RemoveDatabase(note.System, db))
	_, err := w.db.CreateDatabase(note.System, store.Create{ID: db, Title: "Bob", Kind: "mail"})
	w.ok(err)
	w.ok(w.db.Share(bg, db, 1))
	w.ok(w.db.Follow(bg, db))
	send := func(junk bool, taken int) {
		t.Helper()
		sub := w.from("eve@far.example", "bob@example.com")
		sub.Junk = junk
		w.deposit(sub)
		w.route()
		w.queue(0)
		if len(m.taken) != taken {
			t.Errorf("mates have %d messages, not %d", len(m.taken), taken)
		}
	}
	send(false, 1)
	send(true, 2)
	h := &Handed{ID: note.UNID{1}, Date: w.fix.Clock.Now(), Person: bob.ID, Kind: directory.TargetPerson, Database: db}
	if err := w.Deposits.Take(bg, h, []byte(plain)); !errors.Is(err, store.ErrNotFound) {
		t.Error("a replica without an INBOX takes it: ", err)
	}
	w.ok(w.db.Lead(bg, db, store.LeadOptions{}))
	send(false, 2)
	w.ok(w.db.Follow(bg, db))
	send(false, 2) // the folder exists now
	send(true, 3)
	w.ok(w.db.Lead(bg, db, store.LeadOptions{})) // assigns numbers to the changes
	w.has(bob, 2)
}

// TestTake checks deliveries for a mate, one of them repeated.
func TestTake(t *testing.T) {
	t.Parallel()
	w := open(t, Options{Mates: &mates{}})
	alice, bob := w.person("alice"), w.person("bob")
	h := &Handed{ID: note.UNID{1}, Date: w.fix.Clock.Now(), Person: alice.ID, Kind: directory.TargetPerson,
		Database: alice.MailDatabase}
	for range 2 {
		w.ok(w.Deposits.Take(bg, h, []byte(plain)))
	}
	w.has(alice, 1)
	h.ID, h.Junk = note.UNID{2}, true
	w.ok(w.Deposits.Take(bg, h, []byte(plain)))
	if w.in(alice, "Junk") != 1 {
		t.Error("junk")
	}
	w.quota(alice, 10)
	h.ID = note.UNID{3}
	if err := w.Deposits.Take(bg, h, []byte(plain)); !errors.Is(err, mailbox.ErrOverQuota) {
		t.Error(err)
	}
	h.Always = true
	w.ok(w.Deposits.Take(bg, h, []byte(plain)))
	for _, bad := range []Handed{
		{ID: h.ID, Person: note.UNID{9}, Kind: h.Kind, Database: h.Database},
		{ID: h.ID, Person: bob.ID, Kind: h.Kind, Database: h.Database},
		{ID: h.ID, Person: bob.ID, Kind: directory.TargetMailIn, Database: bob.MailDatabase},
	} {
		if err := w.Deposits.Take(bg, &bad, []byte(plain)); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	w.has(bob, 0)
	// A person from a bulk import has no mail file yet.
	w.ok(w.db.RemoveDatabase(note.System, bob.MailDatabase))
	w.stop()
	w.makes = makes{w}
	w.start()
	w.ok(w.Deposits.Take(bg, &Handed{ID: note.UNID{4}, Date: w.fix.Clock.Now(), Person: bob.ID,
		Kind: directory.TargetPerson, Database: bob.MailDatabase}, []byte(plain)))
	w.has(bob, 1)
}

// makes creates mail files.
type makes struct{ w *world }

func (m makes) MakeMailFile(_ context.Context, f directory.MailFile) error {
	_, err := m.w.db.CreateDatabase(note.System, store.Create{ID: f.ID, Title: f.Title, Kind: mailbox.Kind,
		Owner: f.Owner})
	return err
}

func (m makes) Elsewhere(note.DatabaseID) bool { return false }

func (m makes) RemoveMailFile(context.Context, note.DatabaseID) error { return nil }
