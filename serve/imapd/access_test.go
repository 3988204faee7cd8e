package imapd

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/store/layout"
)

// TestAccess checks that a guest with Reader access to alice's mail file can read, has an own \Seen flag, and cannot
// change anything else.
//
// Implements: RFC 5530 §3 NOPERM
func TestAccess(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.fill(t, 2, "Subject: x\r\n\r\ntext\r\n")
	alice, bob := h.people.accounts["alice"], h.people.accounts["bob"]
	guest := func(level note.Level, plus note.Rights) {
		err := h.store.SetInfo(note.System, alice.MailDatabase, func(i *layout.Info) {
			i.ACL = i.ACL.With(note.Entry{ID: bob.ID, Level: level, Plus: plus})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.people.accounts["guest"] = directory.Person{ID: bob.ID,
		PersonFields: directory.PersonFields{MailDatabase: alice.MailDatabase}}
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN guest demo")
	if got := talk(t, c, r, "b SELECT INBOX"); !strings.Contains(got, "b NO [") {
		t.Errorf("no access: %q", got)
	}
	guest(note.Reader, 0)
	for _, step := range []struct{ line, want string }{
		{"b SELECT INBOX", "b OK [READ-WRITE]"},
		{"b SELECT INBOX", `[PERMANENTFLAGS (\Seen)]`},
		{"c FETCH 1 BODY[TEXT]", `FLAGS (\Seen)`},
		{`d STORE 2 +FLAGS (\Seen)`, "d OK"},
		{`e STORE 2 +FLAGS (\Flagged)`, "e NO [NOPERM]"},
		{`f STORE 2 +FLAGS (\Deleted)`, "f NO [NOPERM]"},
		{`o STORE 2 -FLAGS (\Seen)`, "FLAGS ()"},
		// RFC 4314 section 4: permitted flags are set, others are ignored.
		{`o STORE 2 +FLAGS (\Seen \Flagged \Deleted kw)`, "* 2 FETCH (FLAGS (\\Seen))\r\no OK"},
		{`o STORE 2 FLAGS (\Flagged)`, "* 2 FETCH (FLAGS ())\r\no OK"},
		{`o STORE 2 FLAGS (\Seen)`, "* 2 FETCH (FLAGS (\\Seen))\r\no OK"},
		{"g APPEND INBOX {4+}\r\na: b", "g NO [NOPERM]"},
		{"h CREATE new", "h NO [NOPERM]"},
		{"i DELETE Sent", "i NO [NOPERM]"},
		{"j RENAME Sent Gone", "j NO [NOPERM]"},
		{"k COPY 1 Archive", "k NO [NOPERM]"},
		{"l MOVE 1 Archive", "l NO [NOPERM]"},
		{"m STATUS INBOX (MESSAGES UNSEEN)", "MESSAGES 2 UNSEEN 0"},
	} {
		if got := talk(t, c, r, step.line); !strings.Contains(got, step.want) {
			t.Errorf("%s: %q, want %q", step.line, got, step.want)
		}
	}
	// alice's flags are unchanged.
	a, ar := h.raw(t)
	talk(t, a, ar, "a LOGIN alice demo")
	talk(t, a, ar, "b SELECT INBOX")
	if got := talk(t, a, ar,
		"c FETCH 1:* FLAGS"); got != "* 1 FETCH (FLAGS ())\r\n* 2 FETCH (FLAGS ())\r\nc OK FETCH completed\r\n" {
		t.Errorf("%q", got)
	}
	// A person who may insert messages but set no flags gets the other flags ignored (RFC 4314 section 4).
	guest(note.Reader, note.Insert)
	talk(t, c, r, "p APPEND INBOX (\\Seen \\Flagged \\Deleted kw) {4+}\r\na: b")
	if got := talk(t, c, r,
		"q FETCH 3 FLAGS"); got != "* 3 FETCH (FLAGS (\\Recent \\Seen))\r\nq OK FETCH completed\r\n" {
		t.Errorf("%q", got)
	}
	// A person who loses access to the selected mailbox is disconnected.
	guest(note.NoAccess, 0)
	got, _ := readAll(c, r, "n NOOP\r\n")
	if !strings.Contains(got, "* BYE") {
		t.Errorf("%q", got)
	}
}

// TestSharedMailFile checks that a mail file without an owner appears under its title in Shared/ for the people in its
// access list.
func TestSharedMailFile(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	bob := h.people.accounts["bob"]
	id, err := h.people.mail.Make(context.Background(), note.UNID{}, "Town Hall", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	access := func(level note.Level) {
		t.Helper()
		if err := h.store.SetInfo(note.System, id, func(i *layout.Info) {
			i.ACL = i.ACL.With(note.Entry{ID: bob.ID, Level: level})
		}); err != nil {
			t.Fatal(err)
		}
	}
	access(note.Editor)
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN bob demo")
	a, ar := h.raw(t)
	talk(t, a, ar, "a LOGIN alice demo")
	const inbox = `"Shared/Town Hall/INBOX"`
	for _, step := range []struct{ line, want string }{
		{`b LIST "" "Shared/%"`, "* LIST (\\Noselect \\HasChildren) \"/\" \"Shared/Town Hall\"\r\nb OK"},
		{`b LIST "" *`, "* LIST (\\HasNoChildren) \"/\" " + inbox},
		{"b APPEND " + inbox + " {4+}\r\na: b", "b OK [APPENDUID "},
		{"b STATUS " + inbox + " (MESSAGES)", "(MESSAGES 1)"},
		{"b GETQUOTAROOT " + inbox, `"Shared/Town Hall"`},
		{"b SELECT " + inbox, "b OK [READ-WRITE]"},
		{"b UID MOVE 1 Drafts", "b OK"},
	} {
		if got := talk(t, c, r, step.line); !strings.Contains(got, step.want) {
			t.Errorf("%s: %q, want %q", step.line, got, step.want)
		}
	}
	if got := talk(t, a, ar, `b LIST "" "*"`); strings.Contains(got, "Shared") {
		t.Errorf("alice sees %q", got)
	}
	if got := talk(t, a, ar, "c SELECT "+inbox); !strings.Contains(got, "c NO [NONEXISTENT]") {
		t.Errorf("%q", got)
	}
	access(note.NoAccess)
	o, or := h.raw(t)
	talk(t, o, or, "a LOGIN bob demo")
	if got := talk(t, o, or, `b LIST "" "*"`); strings.Contains(got, "Shared") {
		t.Errorf("without access bob sees %q", got)
	}
}

// TestAccessEndsInOpenSessions checks that a person who is disabled, or removed from a group, loses access in open
// sessions too: at the next command, and before the next change is sent in IDLE.
func TestAccessEndsInOpenSessions(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.fill(t, 1, "Subject: x\r\n\r\ntext\r\n")
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	idler, ir := h.raw(t)
	talk(t, idler, ir, "a LOGIN alice demo")
	talk(t, idler, ir, "b SELECT INBOX")
	if _, err := idler.Write([]byte("c IDLE\r\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := ir.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+ ") {
		t.Fatal(line, err)
	}
	// A person without any rights here.
	stranger := func() (note.Who, error) { return note.Who{Person: note.UNID{1: 1}, Directory: 1}, nil }
	disabled := func() (note.Who, error) { return note.Who{}, directory.ErrDisabled }
	h.people.today.Store(&stranger)
	h.people.version.Store(1)
	if got := talk(t, c, r, `d STATUS INBOX (MESSAGES)`); !strings.Contains(got, "d NO [") {
		t.Errorf("%q", got)
	}
	h.people.today.Store(&disabled)
	h.people.version.Store(2)
	h.fill(t, 1, "Subject: secret\r\n\r\ntext\r\n")
	for _, x := range []struct {
		c net.Conn
		r *bufio.Reader
		s string
	}{{c, r, "e NOOP\r\n"}, {idler, ir, ""}} {
		got, _ := readAll(x.c, x.r, x.s)
		if !strings.HasPrefix(got, "* BYE ") {
			t.Errorf("%q", got)
		}
	}
}

// TestMovePart checks that a move of many messages that fails halfway reports the moved messages.
//
// Implements: RFC 6851 §3.3 COPYUID of what was moved
func TestMovePart(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	alice, bob := h.people.accounts["alice"], h.people.accounts["bob"]
	const text = "Subject: x\r\n\r\ntext\r\n"
	err := h.store.SetInfo(note.System, bob.MailDatabase, func(i *layout.Info) {
		i.Quota = 1100 * uint64(len(text))
		i.ACL = i.ACL.With(note.Entry{ID: alice.ID, Level: note.Editor})
	})
	if err != nil {
		t.Fatal(err)
	}
	h.fill(t, 1200, text)
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	got := talk(t, c, r, `c UID MOVE 1:* "Other Users/bob/INBOX"`)
	first, rest, _ := strings.Cut(got, "\r\n")
	if !strings.HasPrefix(first, "* OK [COPYUID ") || !strings.HasSuffix(first, " 1:1000 1:1000] Moved") {
		t.Errorf("%q", first)
	}
	if !strings.HasPrefix(rest, "* 1000 EXPUNGE\r\n") || !strings.HasSuffix(rest,
		"* 1 EXPUNGE\r\nc NO [OVERQUOTA] Quota exceeded\r\n") {
		t.Errorf("%.100q…", rest)
	}
}

// TestRecoverableOfOthers checks that only the owner of a mail file sees its mailbox of deleted messages, not a person
// with all rights in it, whether it is among others' mailboxes or the person's own.
func TestRecoverableOfOthers(t *testing.T) {
	t.Parallel()
	h := open(t, settings{keep: time.Hour})
	h.fill(t, 1, "Subject: x\r\n\r\ntext\r\n")
	alice, bob := h.people.accounts["alice"], h.people.accounts["bob"]
	err := h.store.SetInfo(note.System, alice.MailDatabase, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: bob.ID, Level: note.Manager})
	})
	if err != nil {
		t.Fatal(err)
	}
	h.people.accounts["guest"] = directory.Person{ID: bob.ID,
		PersonFields: directory.PersonFields{MailDatabase: alice.MailDatabase}}
	for _, step := range []struct{ who, line, want string }{
		{"alice", "b SELECT INBOX", "b OK"},
		{"alice", `b STORE 1 +FLAGS (\Deleted)`, "b OK"},
		{"alice", "b EXPUNGE", "* 1 EXPUNGE"},
		{"alice", `c LIST "" "R*"`, `"Recoverable Items"`},
		{"alice", `d STATUS "Recoverable Items" (MESSAGES)`, "(MESSAGES 1)"},
		{"guest", `e LIST "" "*Items"`, "e OK LIST"},
		{"guest", `f SELECT "Recoverable Items"`, "f NO [NONEXISTENT]"},
		{"guest", `g STATUS "Recoverable Items" (MESSAGES)`, "g NO [NONEXISTENT]"},
		{"bob", `h LIST "" "*Items"`, "h OK LIST"},
		{"bob", `i STATUS "Other Users/alice/INBOX" (MESSAGES)`, "(MESSAGES 0)"},
		{"bob", `j SELECT "Other Users/alice/Recoverable Items"`, "j NO [NONEXISTENT]"},
		{"bob", `k STATUS "Other Users/alice/Recoverable Items" (MESSAGES)`, "k NO [NONEXISTENT]"},
		{"bob", `l SELECT "Recoverable Items"`, "l NO [NONEXISTENT]"},
	} {
		c, r := h.raw(t)
		talk(t, c, r, "a LOGIN "+step.who+" demo")
		if step.who == "alice" {
			talk(t, c, r, "a SELECT INBOX")
		}
		got := talk(t, c, r, step.line)
		if !strings.Contains(got, step.want) || step.who != "alice" && strings.Contains(got, "* LIST") {
			t.Errorf("%s: %s: %q, want %q", step.who, step.line, got, step.want)
		}
	}
}
