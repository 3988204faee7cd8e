package mail

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// again submits a message that a person resends.
func (w *world) again(p directory.Person, message string, to ...string) error {
	w.t.Helper()
	who, err := w.people.Names.WhoOf(bg, p.ID)
	w.ok(err)
	address := p.Addresses()[0]
	sub := w.from(address, to...)
	sub.Message, sub.Submitter = []byte(message), &Submitter{Who: who, Address: address}
	_, err = w.Deposits.Deposit(bg, sub, nil)
	return err
}

// reader creates a person with access to their own mail file.
func (w *world) reader(short string) directory.Person {
	w.t.Helper()
	p := w.person(short)
	w.grant(p.MailDatabase, p, note.Manager)
	return p
}

// resent puts Resent fields before a message.
func resent(p directory.Person, message string) string {
	return "Resent-From: <" + p.Addresses()[0] +
		">\r\nResent-To: x@far.example\r\nResent-Date: Mon, 5 Jan 2026 09:00:00 +0000\r\n" +
		"Resent-Message-ID: <r@example.com>\r\n" + message
}

// TestResentDelivered resends delivered messages: in the form that mail programs have, from a shared mail file, from a
// list, from another folder, and one that was resent before.
func TestResentDelivered(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, carol := w.reader("alice"), w.reader("bob"), w.reader("carol")
	to := "carol@example.com"
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	got := w.has(alice, 1)[0]
	w.ok(w.again(alice, resent(alice, got), to))
	_, bare, _ := strings.Cut(got, "+0000\r\n") // without the trace fields
	w.ok(w.again(alice, resent(alice, bare), to))
	sent := w.has(carol, 2)
	for _, m := range sent {
		if !strings.HasSuffix(m, resent(alice, m[strings.LastIndex(m, "Return-Path"):])) &&
			!strings.Contains(m, "Resent-From: <alice@example.com>") {
			t.Errorf("not as it was:\n%s", m)
		}
	}
	w.ok(w.again(carol, resent(carol, sent[0]), "x@far.example"))
	w.ok(w.again(bob, resent(bob, w.has(bob, 1)[0]), "x@far.example"))

	f := w.files.File(note.System, alice.MailDatabase)
	_, err := f.Create(bg, "Kept", "")
	w.ok(err)
	v, _, err := f.Open(bg, mailbox.Inbox, false)
	w.ok(err)
	_, err = v.Move(bg, mailbox.Set{{Start: 1, Stop: 1}}, false, "Kept")
	w.ok(err)
	w.ok(w.again(alice, resent(alice, got), to))

	// A message without Message-ID and subject.
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Message = []byte("From: eve@far.example\r\nDate: x\r\n\r\nbare\r\n")
	w.deposit(sub)
	w.ok(w.again(alice, resent(alice, w.has(alice, 1)[0]), to))

	// A message that a filter held, and one that was delivered from mail.box.
	sub = w.from("eve@far.example", "bob@example.com")
	sub.Hold = "a filter"
	w.deposit(sub)
	w.ok(w.Moderation.Release(bg, sub.ID))
	w.route()
	w.ok(w.again(bob, resent(bob, w.has(bob, 2)[1]), to))
}

// TestResentForged resends messages that were never delivered, not delivered to this person, or changed.
func TestResentForged(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.reader("alice"), w.reader("bob")
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	got := w.has(alice, 1)[0]
	refused := func(name string, p directory.Person, message string) {
		t.Helper()
		before := len(w.inbox(bob.MailDatabase))
		err := w.again(p, message, "bob@example.com", "x@far.example")
		if replyCode(err) != "550 5.7.1" || !ForbiddenFrom(err) {
			t.Errorf("%s: %v", name, err)
		}
		if len(w.inbox(bob.MailDatabase)) != before {
			t.Errorf("%s was delivered", name)
		}
	}
	for name, change := range map[string][2]string{
		"another author":  {"From: eve@far.example", "From: bob@example.com"},
		"another subject": {"Subject: hello", "Subject: help"},
		"another body":    {"Hello, world", "Hello, earth"},
		"a longer body":   {"world.", "world. And more."},
		"a field more":    {"Subject: hello", "Reply-To: x@far.example\r\nSubject: hello"},
		"a second author": {"Subject: hello", "Subject: hello\r\nFrom: bob@example.com"},
		"an older sender": {"From: eve@far.example", "Resent-From: bob@example.com\r\nFrom: eve@far.example"},
		"a Sender":        {"From: eve@far.example", "Sender: bob@example.com\r\nFrom: eve@far.example"},
	} {
		changed := strings.Replace(got, change[0], change[1], 1)
		if changed == got {
			t.Fatal(name)
		}
		refused(name, alice, resent(alice, changed))
	}
	refused("an older sender within the fields", alice, resent(alice, "Resent-From: bob@example.com\r\n"+got))
	refused("another person's message", bob, resent(bob, got))
	refused("the fields of a resending behind others", alice, "X-A: b\r\n"+resent(alice, got))

	// A message that the person has stored does not count as delivered, whatever its trace fields say.
	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	forged := strings.Replace(got, "From: eve@far.example", "From: bob@example.com", 1)
	f := w.files.File(note.System, alice.MailDatabase)
	_, _, err = f.Append(bg, mailbox.Inbox, []byte(forged), mailbox.Flags{}, w.fix.Clock.Now())
	w.ok(err)
	refused("what was imported", alice, resent(alice, forged))
	w.ok(w.again(alice, resent(alice, got), "bob@example.com")) // the real one beside it

	// Nor does a note with the UNID of a delivery that a person has created or revised.
	queue := note.UNID{7}
	c, err := w.files.Compose(bg, []byte(strings.Replace(forged, got[strings.Index(got, " id ")+4:][:32],
		queue.String(), 1)))
	w.ok(err)
	defer c.Release()
	refused("a note of a person's own", alice, resent(alice,
		w.made(alice, who, note.DeriveUNID(queue[:], alice.ID[:]), c)))
	w.fix.Fill(queue[:])
	refused("a note of no delivery", alice, resent(alice, w.made(alice, note.System, queue, c)))
}

func (w *world) grant(db note.DatabaseID, p directory.Person, level note.Level) {
	w.t.Helper()
	w.ok(w.db.SetInfo(note.System, db,
		func(i *layout.Info) { i.ACL = note.ACL{Entries: []note.Entry{{ID: p.ID, Level: level}}} }))
}

// made stores a message as a note with a given author and UNID, and returns it.
func (w *world) made(p directory.Person, who note.Who, u note.UNID, c *mailbox.Composed) (out string) {
	w.t.Helper()
	w.ok(w.db.Update(bg, who, []note.DatabaseID{p.MailDatabase}, func(tx *store.Tx) error {
		db, err := tx.Database(p.MailDatabase)
		if err != nil {
			return err
		}
		f, err := db.FolderNamed(mailbox.Inbox)
		if err != nil {
			return err
		}
		n := c.New(w.fix.Clock.Now())
		n.UNID, n.Folders = u, []note.ID{f.Note}
		id, err := db.Create(n)
		if err != nil {
			return err
		}
		row, err := db.Note(id)
		if err != nil {
			return err
		}
		st, err := db.Message(row)
		if err != nil {
			return err
		}
		b, err := st.AppendRange(nil, 0, st.Size())
		out = string(b)
		return err
	}))
	return out
}

// TestResentUnproven resends a message with a local author that failed DMARC when it came in, whatever name its client
// used and however many servers it passed. It also resends one with a foreign author that failed.
func TestResentUnproven(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.reader("alice")
	w.reader("bob")
	const bob,
		gateway = "bob@example.com",
		"Received: from x by gw.example.com with ESMTP id 1; Mon, 5 Jan 2026 09:00:00 +0000\r\n"
	for i, c := range []struct {
		from, helo, by, result string
		refused                bool
	}{
		{bob, "", "", "fail", true},
		{bob, "mail.example.by", "", "fail", true}, // the name contains the start of the clause that names this server
		{bob, "", gateway, "fail", true},
		{bob, "", "", "temperror", true},
		{bob, "", "", "pass", false},
		{"eve@far.example", "", "", "fail", false},
	} {
		sub := w.from("eve@far.example", "alice@example.com")
		sub.Message = []byte(strings.Replace(plain, "From: eve@far.example", "From: "+c.from, 1))
		if c.helo != "" {
			sub.Received.Helo = c.helo
		}
		host := "mx.example.com"
		if c.by != "" {
			host = "gw.example.com"
		}
		sub.Fields = []byte(c.by + "Authentication-Results: " + host + ";\r\n\tdmarc=" + c.result +
			" header.from=x\r\n")
		w.deposit(sub)
		err := w.again(alice, resent(alice, w.has(alice, i+1)[i]), "x@far.example")
		if c.refused != errors.Is(err, ErrUnproven) || !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestResentList resends a mailing list's copy, and a message in a mail-in database that the person can read.
func TestResentList(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.reader("alice"), w.reader("bob")
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{
		Name: "Team", InternetAddress: "team@example.com", Members: []string{"alice", "bob"},
		List: directory.ListFields{On: true, Post: directory.PostAnyone, Tag: "team"},
	})
	w.ok(err)
	w.deposit(w.from("eve@far.example", "team@example.com"))
	w.route()
	got := w.has(alice, 1)[0]
	if !strings.Contains(got, "[team]") {
		t.Fatalf("no list:\n%s", got)
	}
	w.ok(w.again(alice, resent(alice, got), "x@far.example"))

	db, err := w.files.Make(bg, note.UNID{}, "Sales", 0, 0)
	w.ok(err)
	_, err = w.people.MailIns.Add(bg, note.System, directory.MailInFields{Name: "Sales",
		InternetAddress: "sales@example.com", Database: db})
	w.ok(err)
	sub := w.from("eve@far.example", "sales@example.com")
	sub.Message = bytes.Replace(sub.Message, []byte("<1@"), []byte("<2@"), 1)
	w.deposit(sub)
	got = w.inbox(db)[0]
	if err := w.again(bob, resent(bob, got), "x@far.example"); !errors.Is(err, replyNotDelivered) {
		t.Errorf("a database that bob does not read: %v", err)
	}
	w.grant(db, bob, note.Reader)
	w.ok(w.again(bob, resent(bob, got), "x@far.example"))
}

// TestResentLater resends a message with a release time. It is looked up at submission, and not again later.
func TestResentLater(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.reader("alice"), w.reader("bob")
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	got := resent(alice, w.has(alice, 1)[0])
	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	for i, message := range []string{got, strings.Replace(got, "world", "earth", 1)} {
		sub := w.from("alice@example.com", "bob@example.com")
		sub.Message, sub.Submitter = []byte(message), &Submitter{Who: who, Address: "alice@example.com"}
		_, err = w.Scheduled.Defer(bg, sub, w.fix.Clock.Now().Add(time.Hour))
		if (err == nil) != (i == 0) || i == 1 && !ForbiddenFrom(err) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	w.ok(w.db.Update(bg, note.System, []note.DatabaseID{alice.MailDatabase}, func(tx *store.Tx) error {
		db, err := tx.Database(alice.MailDatabase)
		if err != nil {
			return err
		}
		f, err := db.FolderNamed(mailbox.Inbox)
		if err != nil {
			return err
		}
		id, err := db.Member(f.Note, 1)
		if err != nil {
			return err
		}
		return db.Destroy(id)
	}))
	w.has(alice, 0)
	w.fix.Time.Advance(2 * time.Hour)
	w.Scheduled.ReleaseDue(bg)
	w.route()
	w.has(bob, 1)
}

// TestResentMates checks the query to the servers that have the mail file.
func TestResentMates(t *testing.T) {
	t.Parallel()
	m := &mates{have: map[note.DatabaseID]bool{}}
	w := open(t, Options{Mates: m})
	alice := w.reader("alice")
	message := resent(alice, plain)
	if err := w.again(alice, message, "x@far.example"); !errors.Is(err, replyNotDelivered) {
		t.Errorf("here: %v", err)
	}
	m.have[alice.MailDatabase] = true
	if err := w.again(alice, message, "x@far.example"); !errors.Is(err, replyNotDelivered) {
		t.Errorf("they say no: %v", err)
	}
	m.err = errors.New("nobody answers")
	if err := w.again(alice, message, "x@far.example"); err == nil || ForbiddenFrom(err) {
		t.Errorf("nobody answers: %v", err)
	}
	m.had, m.err = true, nil
	w.ok(w.again(alice, message, "x@far.example"))
}

// TestResentBudget searches many mail files for a message, with one budget for all of them.
func TestResentBudget(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.reader("alice")
	for range 5 {
		w.deposit(w.from("eve@far.example", "alice@example.com"))
	}
	got := w.has(alice, 5)[0]
	x, err := readResending(bg, w.Deposits, alice.ID, []byte(resent(alice, got)))
	w.ok(err)
	if x.left != maxCompared {
		t.Errorf("%d messages may be compared", x.left)
	}
	// A message that was never delivered is compared with each message of its thread, until the budget is used up.
	x.body, x.left = append([]byte("other "), x.body...), 8
	for _, left := range []int{3, 0, 0} {
		found, err := x.in(bg, alice.MailDatabase, alice.ID)
		w.ok(err)
		if found || x.left != left {
			t.Errorf("found: %t; %d messages may still be compared, want %d", found, x.left, left)
		}
	}
}
