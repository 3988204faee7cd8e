package mail

import (
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
)

// script stores a script and makes it the active one.
func (w *world) script(p directory.Person, text string) {
	w.t.Helper()
	w.ok(scripts.Check(text))
	f := w.files.File(note.Who{Person: p.ID, System: true}, p.MailDatabase)
	res, err := f.Change(bg, 1, func(c *mailbox.Changing, _ int) error {
		e, err := scripts.Edit(f, c)
		if err == nil {
			err = e.Put("main", text, w.db.UNID())
		}
		if err == nil {
			err = e.Activate("main")
		}
		return err
	})
	w.ok(err)
	w.ok(res.Errs[0])
}

func (w *world) trouble(p directory.Person) (list []string) {
	w.t.Helper()
	f := w.files.File(note.Who{Person: p.ID, System: true}, p.MailDatabase)
	w.ok(f.Read(bg, func(d *mailbox.Reading) (err error) {
		list, err = scripts.Trouble(f, d)
		return err
	}))
	return list
}

// flags returns the flags of the only message in a folder.
func (w *world) flags(p directory.Person, folder string) mailbox.Flags {
	w.t.Helper()
	v, _, err := w.files.File(note.Who{Person: p.ID, System: true}, p.MailDatabase).Open(bg, folder, true)
	w.ok(err)
	var out mailbox.Flags
	n := 0
	w.ok(v.Fetch(bg, mailbox.Set{{Start: 1, Stop: 0}}, false, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			n++
			out = m.Flags()
			return false, nil
		}, func() error { return nil }))
	if n != 1 {
		w.t.Fatalf("%s holds %d messages", folder, n)
	}
	return out
}

func TestSieveFiling(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.script(alice, `require ["fileinto", "mailbox", "imap4flags", "editheader", "special-use"];
		addheader "X-Sieve" "was here";
		fileinto :create "Lists/News";
		fileinto :specialuse "\\Archive" :flags ["\\Seen", "Work"] "Nowhere";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 0)
	if w.in(alice, "Lists/News") != 1 || w.in(alice, "Archive") != 1 {
		t.Error("not filed")
	}
	if f := w.flags(alice, "Archive"); !f.Seen || len(f.Keywords) != 1 || f.Keywords[0] != "work" {
		t.Errorf("%+v", f)
	}
	if f := w.flags(alice, "Lists/News"); f.Seen || len(f.Keywords) != 0 {
		t.Errorf("%+v", f)
	}
	// A changed script is valid at once; a folder that does not exist is the INBOX, with a mark.
	w.script(alice, `require "fileinto"; fileinto "None";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
	if f := w.flags(alice, "INBOX"); len(f.Keywords) != 1 || f.Keywords[0] != scripts.Keyword {
		t.Errorf("%+v", f)
	}
	if l := w.trouble(alice); len(l) != 1 || !strings.Contains(l[0], `folder "None" does not exist`) {
		t.Error(l)
	}
	w.script(alice, `discard;`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
	w.queue(0)
	// Junk stays junk.
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Junk = true
	w.deposit(sub)
	if w.in(alice, "Junk") != 1 {
		t.Error("the script saw junk")
	}
}

func TestSieveFailureKeeps(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.script(alice, `require "ihave"; discard; error "on purpose";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 2)
	if l := w.trouble(alice); len(l) != 1 || !strings.Contains(l[0], "line 1: script reports: on purpose") {
		t.Error(l)
	}
	w.shows("Mail.SieveFailures = 2")
}

func TestSieveReject(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.script(alice, `require "reject"; reject "Not
wanted.";`)
	// The only recipient: an answer in the session.
	results := make([]error, 1)
	_, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com"), results)
	if replyCode(err) != "550 5.7.1" || !strings.Contains(err.Error(), "Not wanted.") {
		t.Errorf("%v", err)
	}
	w.queue(0)
	// With another recipient: a report.
	if got := w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com")); got[0] != nil ||
		got[1] != nil {
		t.Error(got)
	}
	w.has(alice, 0)
	w.has(bob, 1)
	w.queue(1)
	w.route()
	if raw := w.raw(w.queue(1)[0]); !strings.Contains(raw, "Not wanted.") || !strings.Contains(raw, "Status: 5.7.1") {
		t.Error(raw)
	}
	// LMTP: an answer for each.
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com")
	sub.Answer = AnswerEach
	if got := w.deposit(sub); replyCode(got[0]) != "550 5.7.1" || got[1] != nil {
		t.Error(got)
	}
}

func TestSieveRedirect(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.script(alice, `redirect "bob@example.com"; redirect "far@else.example";`)
	w.script(bob, `redirect "alice@example.com";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 0)
	for range 4 {
		w.route()
	}
	// To bob, back to alice, who keeps it: her address is in Delivered-To.
	w.has(bob, 0)
	got := w.has(alice, 1)
	if strings.Count(got[0], "Delivered-To:") != 2 {
		t.Error(got[0])
	}
	e := w.queue(1)
	if e[0].Recipients[0].Address != "far@else.example" || !strings.HasPrefix(e[0].From.Local, "SRS0=") {
		t.Errorf("%+v", e[0])
	}
	// To oneself, and to nobody: kept.
	w.script(bob, `redirect "bob@example.com"; redirect "none@example.com";`)
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	w.has(bob, 1)
	if l := w.trouble(bob); len(l) != 1 {
		t.Error(l)
	}
}

func TestSieveVacation(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.set(alice, func(f *directory.PersonFields) {
		f.Vacation = directory.Vacation{On: true, Subject: "by setting", Text: "setting"}
	})
	w.script(alice, `require "vacation"; vacation :days 1 :subject "Gone fishing" "Back on Monday.";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 2)
	raw := w.raw(w.queue(1)[0])
	for _, want := range []string{"Subject: Gone fishing", "Back on Monday.", "Auto-Submitted: auto-replied",
		"In-Reply-To: <1@far.example>", "To: <eve@far.example>", "Return-Path: <>"} {
		if !strings.Contains(raw, want) {
			t.Errorf("%s is missing in\n%s", want, raw)
		}
	}
	w.fix.Time.Advance(25 * time.Hour)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.queue(2)
}

func TestSieveDuplicateAndNotify(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.script(alice, `require ["duplicate", "enotify"];
		if duplicate { discard; } else { notify :message "News" "mailto:phone@else.example"; }`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
	if raw := w.raw(w.queue(1)[0]); !strings.Contains(raw, "Auto-Submitted: auto-notified") ||
		!strings.Contains(raw, "Subject: News") {
		t.Error(raw)
	}
}

// TestSieveByRouter checks that the script runs where the message is delivered: here by the router, after the mail file
// was full.
func TestSieveByRouter(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.script(alice, `require ["fileinto", "copy"]; redirect :copy "far@else.example"; fileinto "Archive";`)
	w.quota(alice, 1)
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	w.has(bob, 1)
	w.queue(1)
	w.quota(alice, 0)
	w.script(alice, `require ["fileinto", "copy"]; redirect :copy "far@else.example"; fileinto "Archive";`)
	w.fix.Time.Advance(time.Hour)
	w.route()
	if w.in(alice, "Archive") != 1 {
		t.Error("not filed")
	}
	if e := w.queue(1); e[0].Recipients[0].Address != "far@else.example" {
		t.Errorf("%+v", e)
	}
}

// TestSieveByMate checks that the member to which a message is handed over runs the script, and that a repeated
// hand-over changes nothing.
func TestSieveByMate(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	raw := []byte("Return-Path: <eve@far.example>\r\n" + plain)
	hand := func(id byte) {
		t.Helper()
		for range 2 {
			w.ok(w.Take(bg, &Handed{ID: note.UNID{0: id}, Date: w.fix.Clock.Now(), Person: alice.ID,
				Kind: directory.TargetPerson, Database: alice.MailDatabase, From: "eve@far.example",
				To: "alice@example.com"}, raw))
		}
	}
	w.script(alice, `require ["fileinto", "copy", "envelope"];
		if envelope "from" "eve@far.example" { redirect :copy "far@else.example"; fileinto "Archive"; }`)
	hand(1)
	if w.in(alice, "Archive") != 1 {
		t.Error("not filed")
	}
	if e := w.queue(1); e[0].Recipients[0].Address != "far@else.example" {
		t.Errorf("%+v", e)
	}
	w.script(alice, `require "reject"; reject "Not here.";`)
	hand(2)
	w.has(alice, 0)
	w.queue(2)
	w.route()
	found := false
	for _, e := range w.queue(2) {
		found = found || strings.Contains(w.raw(e), "Not here.")
	}
	if !found {
		t.Error("the rejection is not reported")
	}
}

// TestSieveRejectByRouter checks that a rejection after the session is a delivery report.
func TestSieveRejectByRouter(t *testing.T) {
	t.Parallel()
	w := open(t, Options{MaxLocal: 1})
	alice, bob := w.person("alice"), w.person("bob")
	w.script(alice, `require "reject"; reject "Not here.";`)
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	for range 3 {
		w.route()
	}
	w.has(bob, 1)
	w.has(alice, 0)
	if raw := w.raw(w.queue(1)[0]); !strings.Contains(raw, "Not here.") {
		t.Error(raw)
	}
}
