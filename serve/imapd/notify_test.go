package imapd

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/store/layout"
)

// TestProgress checks that long searches, sorts, threads, changes and copies report their progress, with the same
// result.
//
// Implements: RFC 9585 §4: the goal is an upper bound, and what is done grows
func TestProgress(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.server.progress = 0 // report at every check of the clock
	h.fill(t, 40, "Subject: x\r\n\r\ntext\r\n")
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	progress := "* OK [INPROGRESS (\"%s\" 16 40)] Still at work\r\n* OK [INPROGRESS (\"%s\" 32 40)] Still at work\r\n"
	for _, step := range []struct{ tag, line, want string }{
		{"1", "SEARCH RETURN (COUNT) TEXT text", "* ESEARCH (TAG \"1\") COUNT 40\r\n1 OK SEARCH completed\r\n"},
		{"2", "UID SORT RETURN (MIN) (SUBJECT) UTF-8 ALL",
			"* ESEARCH (TAG \"2\") UID MIN 1\r\n2 OK SORT completed\r\n"},
		{"3", "ESEARCH IN (personal) RETURN (MAX) ALL", "* ESEARCH (TAG \"3\" MAILBOX INBOX"},
		{"4", "THREAD ORDEREDSUBJECT UTF-8 ALL", "* THREAD (1 (2)(3)"},
	} {
		got := talk(t, c, r, step.tag+" "+step.line)
		if !strings.HasPrefix(got, fmt.Sprintf(progress, step.tag, step.tag)+step.want) {
			t.Errorf("%s: %q", step.line, got)
		}
	}
	if got := talk(t, c, r, "s STORE 1:* +FLAGS.SILENT (x)"); got != fmt.Sprintf(progress, "s", "s")+
		"s OK STORE completed\r\n" {
		t.Errorf("%q", got)
	}
	// Copies run in batches and report between them.
	for i, have := 0, 40; have <= 1000; i, have = i+1, 2*have {
		if got := talk(t, c, r, fmt.Sprintf("d%d COPY 1:%d INBOX", i, have)); !strings.HasSuffix(got,
			"COPY completed\r\n") || strings.Contains(got, "INPROGRESS") {
			t.Fatalf("%q", got)
		}
	}
	for _, line := range []string{"m COPY 1:* Archive", "m MOVE 1:* Trash"} {
		if got := talk(t, c, r, line); !strings.HasPrefix(got,
			"* OK [INPROGRESS (\"m\" 1000 1280)] Still at work\r\n") || strings.Count(got, "INPROGRESS") != 1 {
			t.Errorf("%s: %.200q", line, got)
		}
	}
	h.fill(t, 20, "Subject: x\r\n\r\ntext\r\n")
	talk(t, c, r, "n NOOP")
	if got := talk(t, c, r, "a]b SEARCH 1:20"); !strings.HasPrefix(got,
		"* OK [INPROGRESS (NIL 16 20)] Still at work\r\n* SEARCH 1 2") {
		t.Errorf("%q", got)
	}
}

// TestNotSaved checks that a result with too many ranges is not kept, and that the previous result is dropped.
//
// Implements: RFC 5182 §2.1 NOTSAVED
func TestNotSaved(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.server.maxSaved = 2
	h.fill(t, 5, "Subject: x\r\n\r\ntext\r\n")
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	for _, step := range []struct{ line, want string }{
		{"c SEARCH RETURN (SAVE) 1,3:4", "c OK SEARCH completed\r\n"},
		{"d UID SEARCH $", "* SEARCH 1 3 4\r\nd OK SEARCH completed\r\n"},
		{"e SEARCH RETURN (SAVE ALL) 1,3,5", "e NO [NOTSAVED] "},
		{"f SEARCH $", "* SEARCH\r\nf OK SEARCH completed\r\n"},
		{"g ESEARCH RETURN (SAVE) 1,3,5", "g NO [NOTSAVED] "},
	} {
		if got := talk(t, c, r, step.line); !strings.HasPrefix(got, step.want) {
			t.Errorf("%s: %q", step.line, got)
		}
	}
}

// TestSearchMemory checks that a search takes its memory from the budget, is rejected if the budget is used up, and
// returns all memory.
func TestSearchMemory(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.fill(t, 3, "Subject: x\r\n\r\ntext\r\n")
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	held := h.server.cfg.Memory.Max() - 1000
	h.server.cfg.Memory.Take(held)
	for _, line := range []string{"SORT (DATE) UTF-8 ALL", "THREAD REFERENCES UTF-8 ALL", "SEARCH ALL",
		"ESEARCH IN (personal) ALL"} {
		if got := talk(t, c, r, "c "+line); !strings.HasPrefix(got, "c NO [LIMIT] ") {
			t.Errorf("%s: %q", line, got)
		}
	}
	h.server.cfg.Memory.Give(held)
	if got := talk(t, c, r, "d SORT (ARRIVAL) UTF-8 ALL"); !strings.HasPrefix(got, "* SORT 1 2 3\r\nd OK") {
		t.Errorf("%q", got)
	}
}

// TestNotifyAnnotationsBounded checks that remembered annotations use room, which is freed when they are removed and
// when NOTIFY ends. Without room, NOTIFY ends.
func TestNotifyAnnotationsBounded(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{NotifyMailboxes: 4}})
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, `b SETMETADATA INBOX (/private/a "x" /private/b "x")`)
	watched := func(want int64) {
		t.Helper()
		if n, m := h.server.stats.watched.Value(), h.server.watched.Load(); n != want || m != want {
			t.Errorf("watched: %d and %d, want %d", n, m, want)
		}
	}
	for range 2 { // the second time, the first request has freed its room
		if got := talk(t, c, r, "c NOTIFY SET (inboxes (MailboxMetadataChange))"); !strings.HasPrefix(got, "c OK") {
			t.Fatal(got)
		}
		watched(4) // INBOX, Junk, two annotations
	}
	next := func(want string) {
		t.Helper()
		if l, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(l, want) {
			t.Fatalf("%q, %v; want %s", l, err, want)
		}
	}
	for _, step := range []struct {
		set, want string
		watched   int64
	}{
		{"/private/a NIL", "* METADATA INBOX /private/a\r\n", 3},
		{`/private/b "y" /private/c "y"`, "* METADATA INBOX /private/b /private/c\r\n", 4},
		{`/private/d "y"`, "* OK [NOTIFICATIONOVERFLOW]", 0},
	} {
		fmt.Fprintf(c, "d SETMETADATA INBOX (%s)\r\n", step.set)
		next("d OK")
		next(step.want)
		watched(step.watched)
	}
	talk(t, c, r, "e NOTIFY NONE")
	watched(0)
}

// TestNotifyOverflow checks that the memory for NOTIFY is limited over all sessions. A session without room for a new
// mailbox gets NOTIFICATIONOVERFLOW and no further events.
//
// Implements: RFC 5465 §5.8 NOTIFICATIONOVERFLOW
func TestNotifyOverflow(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{NotifyMailboxes: 8}})
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	if got := talk(t, c, r, "b NOTIFY SET (personal (MailboxName MessageNew MessageExpunge))"); !strings.HasPrefix(got,
		"b OK") {
		t.Fatal(got)
	}
	if n := h.server.stats.watched.Value(); n != 6 {
		t.Error("watched:", n)
	}
	other, or := h.raw(t)
	talk(t, other, or, "a LOGIN alice demo")
	if got := talk(t, other, or, "b NOTIFY SET (personal (MailboxName))"); !strings.HasPrefix(got,
		"b NO [NOTIFICATIONOVERFLOW]") {
		t.Error(got)
	}
	for _, name := range []string{"one", "two", "three"} {
		talk(t, other, or, "c CREATE "+name)
	}
	want := []string{`* LIST (\HasNoChildren) "/" one`, `* LIST (\HasNoChildren) "/" two`,
		"* OK [NOTIFICATIONOVERFLOW]"}
	for len(want) > 0 {
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		// Two mailboxes that are found in one look are sorted by name.
		if strings.Contains(l, "three") {
			continue
		}
		if !strings.HasPrefix(l, want[0]) && !strings.HasPrefix(l, want[len(want)-1]) {
			t.Errorf("%q, want %q", l, want)
		}
		if strings.HasPrefix(l, "* OK [NOTIFICATIONOVERFLOW]") {
			break
		}
		want = want[1:]
	}
	// Remembered names use room too.
	if got := talk(t, other, or, "x NOTIFY SET (mailboxes ("+strings.Repeat(strings.Repeat("n", 400)+" ", 5)+
		"x) (MailboxName))"); !strings.HasPrefix(got, "x NO [NOTIFICATIONOVERFLOW]") {
		t.Error(got)
	}
	talk(t, other, or, "d DELETE one")
	if got := talk(t, c, r, "e NOOP"); got != "e OK NOOP completed\r\n" {
		t.Errorf("%q", got)
	}
	if n := h.server.watched.Load(); n != 0 {
		t.Error("remembered:", n)
	}
}

// TestNotifyTimeout checks that a session with NOTIFY but without events is closed after the idle timeout, with BYE.
func TestNotifyTimeout(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{IdleTimeout: 20 * time.Millisecond}})
	c, r := h.raw(t)
	fmt.Fprint(c, "a LOGIN alice demo\r\nb NOTIFY SET (personal (MailboxName))\r\n")
	b, _ := io.ReadAll(r)
	if !strings.HasSuffix(string(b), "b OK NOTIFY completed\r\n* BYE Autologout; idle for too long\r\n") {
		t.Errorf("%q", b)
	}
}

// TestNotifyShared checks that NOTIFY and ESEARCH cover readable mailboxes of others.
func TestNotifyShared(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	alice, bob := h.people.accounts["alice"], h.people.accounts["bob"]
	err := h.store.SetInfo(note.System, alice.MailDatabase, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: bob.ID, Level: note.Reader})
	})
	if err != nil {
		t.Fatal(err)
	}
	h.fill(t, 1, "Subject: of alice\r\n\r\ntext\r\n")
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN bob demo")
	if got := talk(t, c, r, `b LIST "" "Other Users/*INBOX"`); !strings.Contains(got, "INBOX") {
		t.Fatal(got)
	}
	if got := talk(t, c, r, `c ESEARCH IN (subtree "Other Users") SUBJECT alice`); !strings.Contains(got,
		"INBOX\" UIDVALIDITY") || !strings.Contains(got, "UID ALL 1\r\n") {
		t.Error(got)
	}
	if got := talk(t, c, r, "d ESEARCH IN (personal) ALL"); got != "d OK ESEARCH completed\r\n" {
		t.Error(got)
	}
	if got := talk(t, c, r,
		`e NOTIFY SET (subtree "Other Users" (MessageNew MessageExpunge))`); got != "e OK NOTIFY completed\r\n" {
		t.Error(got)
	}
	h.fill(t, 1, "Subject: another\r\n\r\ntext\r\n")
	if l, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(l, `* STATUS "Other Users/`) ||
		!strings.Contains(l, "MESSAGES 2") {
		t.Error(l, err)
	}
}

// TestNotifyAccess checks that the levels above others' mailboxes have no events. A mailbox with lookup but not read
// rights is reported with \NoAccess only.
//
// Implements: RFC 5465 §3.1: mailboxes that may not be read
func TestNotifyAccess(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	ca, ra := h.raw(t)
	talk(t, ca, ra, "a LOGIN alice demo")
	for _, line := range []string{"b SETACL INBOX bob lr", "b SETACL Sent bob l", "b SETACL Drafts bob lr"} {
		if got := talk(t, ca, ra, line); !strings.HasPrefix(got, "b OK") {
			t.Fatal(got)
		}
	}
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN bob demo")
	events := "(MailboxName SubscriptionChange MessageNew MessageExpunge FlagChange)"
	want := `* LIST (\NoAccess \Noselect \HasNoChildren) "/" "Other Users/alice/Sent"` + "\r\nb OK NOTIFY completed\r\n"
	if got := talk(t, c, r, `b NOTIFY SET (subtree "Other Users" `+events+`)`); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	line := func() string {
		t.Helper()
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	h.fill(t, 1, "Subject: x\r\n\r\ntext\r\n")
	if l := line(); !strings.HasPrefix(l, `* STATUS "Other Users/alice/INBOX" (MESSAGES 1 `) {
		t.Errorf("%q", l)
	}
	talk(t, ca, ra, "c SETACL Drafts bob l")
	if l := line(); l != `* LIST (\NoAccess \Noselect \HasNoChildren) "/" "Other Users/alice/Drafts"`+"\r\n" {
		t.Errorf("%q", l)
	}
	talk(t, ca, ra, "d DELETEACL INBOX bob")
	if l := line(); l != `* LIST (\NonExistent) "/" "Other Users/alice/INBOX"`+"\r\n" {
		t.Errorf("%q", l)
	}
}
