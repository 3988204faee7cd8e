package imapd

import (
	"strings"
	"testing"

	"doublet/note"
	"doublet/store/layout"
)

// A guest with Reader access to alice's mail file reads, keeps a \Seen of their own, and changes
// nothing else.
//
// Implements: RFC 5530 §3 NOPERM
func TestAccess(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.fill(t, 2, "Subject: x\r\n\r\ntext\r\n")
	alice, bob := h.people.accounts["alice"], h.people.accounts["bob"]
	guest := func(level note.Level) {
		err := h.store.SetInfo(note.System, alice.Database, func(i *layout.Info) {
			i.ACL = i.ACL.With(note.Entry{ID: bob.Who.Person, Level: level})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.people.accounts["guest"] = Account{Who: bob.Who, Database: alice.Database, Name: "guest"}
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN guest demo")
	if got := talk(t, c, r, "b SELECT INBOX"); !strings.Contains(got, "b NO [") {
		t.Errorf("no access: %q", got)
	}
	guest(note.Reader)
	for _, step := range []struct{ line, want string }{
		{"b SELECT INBOX", "b OK [READ-WRITE]"},
		{"b SELECT INBOX", `[PERMANENTFLAGS (\Seen)]`},
		{"c FETCH 1 BODY[TEXT]", `FLAGS (\Seen)`},
		{`d STORE 2 +FLAGS (\Seen)`, "d OK"},
		{`e STORE 2 +FLAGS (\Flagged)`, "e NO [NOPERM]"},
		{`f STORE 2 +FLAGS (\Deleted)`, "f NO [NOPERM]"},
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
	// alice has seen nothing of it.
	a, ar := h.raw(t)
	talk(t, a, ar, "a LOGIN alice demo")
	talk(t, a, ar, "b SELECT INBOX")
	if got := talk(t, a, ar, "c FETCH 1:* FLAGS"); got != "* 1 FETCH (FLAGS ())\r\n* 2 FETCH (FLAGS ())\r\nc OK FETCH completed\r\n" {
		t.Errorf("%q", got)
	}
	// Who loses access while in a mailbox is sent away.
	guest(note.NoAccess)
	got, _ := readAll(c, r, "n NOOP\r\n")
	if !strings.Contains(got, "* BYE") {
		t.Errorf("%q", got)
	}
}
