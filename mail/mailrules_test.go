package mail

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/journal"
	"doublet/mailbox"
	"doublet/note"
)

// rule adds a mail rule.
func (w *world) rule(name, text string) directory.MailRule {
	w.t.Helper()
	r, err := w.people.MailRules.Add(bg, note.System, directory.MailRuleFields{Name: name, Text: text})
	w.ok(err)
	return r
}

// folder returns the number of messages in a folder of a person, -1 if there is no such folder.
func (w *world) folder(p directory.Person, name string) int {
	w.t.Helper()
	v, _, err := w.files.File(note.System, p.MailDatabase).Open(bg, name, true)
	if err != nil {
		return -1
	}
	n := 0
	w.ok(v.Fetch(bg, mailbox.Set{{Start: 1}}, false, mailbox.FetchOptions{},
		func(*mailbox.Message) (bool, error) { n++; return false, nil }, func() error { return nil }))
	return n
}

// sent returns a submission of a person.
func (w *world) sent(p directory.Person, message string, to ...string) *Submission {
	w.t.Helper()
	address := p.ShortName + "@example.com"
	return &Submission{From: path(address), Recipients: w.to(to...), Message: []byte(message),
		Received:  &Received{Helo: "laptop", Protocol: "ESMTPSA"},
		Submitter: &Submitter{Who: note.Who{Person: p.ID}, Address: address}}
}

func addressed(short string) func(*directory.PersonSpec) {
	return func(s *directory.PersonSpec) { s.InternetAddress = short + "@example.com" }
}

// TestMailRuleRefuses checks that a refused message leaves nothing, that rules take effect and end without a restart,
// and that mail only for postmaster here is accepted, with the actions of the other rules.
func TestMailRuleRefuses(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, post := w.person("alice", addressed("alice")), w.person("post", addressed("postmaster"))
	r := w.rule("hello", `{"when":{"subject":["hello"]},"do":{"refuse":"Not here"}}`)
	before := w.recipes()
	results := make([]error, 2)
	_, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com", "alice@example.com"), results)
	if replyCode(err) != "550 5.7.1" || !strings.Contains(err.Error(), "Not here") {
		t.Fatal(err)
	}
	w.has(alice, 0)
	w.queue(0)
	if w.recipes() != before {
		t.Error("the refused message was stored")
	}
	// Anyone can have a mailbox abuse in another domain.
	out := w.sent(alice, "From: alice@example.com\r\nSubject: hello\r\n\r\nhello\r\n", "abuse+x@evil.example")
	if _, err = w.Deposits.Deposit(bg, out, nil); replyCode(err) != "550 5.7.1" {
		t.Error(err)
	}
	w.queue(0)
	w.rule("move", `{"when":{"to":["postmaster@example.com"]},"do":{"move":"Notices"}}`)
	w.deposit(w.from("eve@far.example", "postmaster@example.com"))
	if n := w.folder(post, "Notices"); n != 1 {
		t.Errorf("%d messages of postmaster are in the folder of the second rule", n)
	}
	w.shows("Mail.Rules.Matched = 3", "Mail.Rules.Refused = 2", "Mail.Rules.Matches = hello=2; move=1")
	_, err = w.people.MailRules.Set(bg, note.System, r.ID,
		func(f *directory.MailRuleFields) error { f.Off = true; return nil })
	w.ok(err)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
	// Mail of the server itself passes no rules.
	_, err = w.people.MailRules.Set(bg, note.System, r.ID,
		func(f *directory.MailRuleFields) error { f.Off = false; return nil })
	w.ok(err)
	own := w.from("", "alice@example.com")
	own.Received, own.Answer = nil, AnswerNone
	w.deposit(own)
	w.has(alice, 2)
	if s, err := w.Rules.State(bg); err != nil || s[r.ID].Matches != 2 {
		t.Errorf("%+v %v", s, err)
	}
}

// TestMailRuleMoves checks the folder: made where it is missing, for junk too, through mail.box, and not for mail of
// other servers of the domain, which has passed the rules there.
func TestMailRuleMoves(t *testing.T) {
	t.Parallel()
	w := open(t, Options{MaxLocal: 1})
	alice, bob := w.person("alice", addressed("alice")), w.person("bob", addressed("bob"))
	w.rule("move", `{"when":{"subject":["hello"]},"do":{"move":"Notices/Far"}}`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	junk := w.from("eve@far.example", "alice@example.com")
	junk.Junk = true
	w.deposit(junk)
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com")) // too many for one update
	if len(w.queue(1)[0].Folder) == 0 {
		t.Error("mail.box does not have the folder")
	}
	w.route()
	w.has(alice, 0)
	w.has(bob, 0)
	if a, b := w.folder(alice, "Notices/Far"), w.folder(bob, "Notices/Far"); a != 3 || b != 1 {
		t.Errorf("%d and %d messages in the folder", a, b)
	}
	transit := w.from("eve@far.example", "alice@example.com")
	transit.Recipients[0].Params.Transit = transitPerson + alice.ID.String()
	w.deposit(transit)
	w.has(alice, 1)
}

// TestMailRuleHeld checks that a held message keeps what rules decided.
func TestMailRuleHeld(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", addressed("alice"))
	w.rule("move", `{"when":{"verdict":["held"]},"do":{"move":"Checked"}}`)
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Hold = "virus scanner"
	w.deposit(sub)
	w.ok(w.Moderation.Release(bg, w.queue(1)[0].ID))
	if n := w.folder(alice, "Checked"); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// TestMailRuleRecipients checks added and replaced recipients, and the result that each recipient of the envelope gets.
func TestMailRuleRecipients(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		do                 string // of rules, separated by |
		answer             Answer
		to                 string
		alice, bob, queued int
		want               string // of the recipients of the envelope
	}{
		{`{"add":["bob@example.com"]}`, AnswerOnce, "alice", 1, 1, 0, "<nil>"},
		{`{"add":["alice@example.com"]}`, AnswerOnce, "alice", 1, 0, 0, "<nil>"},
		{`{"add":["nobody@example.com"]}`, AnswerOnce, "alice", 1, 0, 0, "<nil>"},
		{`{"add":["auditor@far.example"]}`, AnswerOnce, "alice", 1, 0, 1, "<nil>"},
		{`{"add":["full@example.com"]}`, AnswerEach, "alice", 1, 0, 1, "<nil>"},
		{`{"add":["bob@example.com"]}`, AnswerOnce, "full", 0, 1, 1, "<nil>"},
		{`{"add":["bob@example.com"]}`, AnswerEach, "full", 0, 1, 0, "452 4.2.2"},
		{`{"replace":["bob@example.com"]}`, AnswerOnce, "alice", 0, 1, 0, "<nil>"},
		{`{"replace":["bob@example.com"]}`, AnswerEach, "alice", 0, 1, 0, "<nil>"},
		{`{"replace":["bob@example.com"]}`, AnswerOnce, "full", 0, 1, 0, "<nil>"},
		{`{"replace":["nobody@example.com"]}`, AnswerOnce, "alice", 1, 0, 0, "<nil>"},
		{`{"add":["bob@example.com"]}|{"replace":["carol@example.com"]}`, AnswerOnce, "alice", 0, 1, 0, "<nil>"},
		{`{"add":["bob@example.com"]}|{"replace":["nobody@example.com"]}`, AnswerOnce, "alice", 1, 1, 0, "<nil>"},
		{`{"replace":["empty@example.com"]}`, AnswerOnce, "alice", 0, 0, 0, "550 5.2.4"},
		{`{"replace":["empty@example.com"]}`, AnswerEach, "alice", 0, 0, 0, "550 5.2.4"},
	} {
		t.Run(fmt.Sprint(x.do, x.answer, x.to), func(t *testing.T) {
			t.Parallel()
			w := open(t, Options{})
			alice, bob := w.person("alice", addressed("alice")), w.person("bob", addressed("bob"))
			w.quota(w.person("full", addressed("full")), 1)
			_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Empty",
				InternetAddress: "empty@example.com", Kind: directory.GroupMail})
			w.ok(err)
			w.person("carol", addressed("carol"))
			for i, do := range strings.Split(x.do, "|") {
				w.rule(fmt.Sprint(i), `{"do":`+do+`}`)
			}
			sub := w.from("eve@far.example", x.to+"@example.com")
			sub.Answer = x.answer
			results := make([]error, 1)
			_, err = w.Deposits.Deposit(bg, sub, results)
			if x.answer == AnswerEach {
				w.ok(err)
				err = results[0]
			}
			if got := replyCode(err); got != x.want {
				t.Errorf("result %s, want %s", got, x.want)
			}
			if len(sub.Recipients) != 1 {
				t.Error("the submission of the caller was changed")
			}
			w.has(alice, x.alice)
			w.has(bob, x.bob)
			w.queue(x.queued)
		})
	}
}

// TestMailRuleLoop checks that a message which a rule sent to another domain, and which comes back, keeps its
// recipients, and that nobody else can make that mark.
func TestMailRuleLoop(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", addressed("alice"))
	w.rule("r", `{"do":{"replace":["archive@far.example"]}}`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 0)
	k := w.Queue.Boxes.KeyOf(&w.queue(1)[0])
	raw, err := w.Queue.Message(bg, k, 0)
	w.ok(err)
	_, rest, ok := strings.Cut(string(raw), fieldRule+": ")
	if !ok {
		t.Fatalf("no mark in %q", raw)
	}
	back := w.from("eve@far.example", "alice@example.com")
	back.Message = raw
	w.deposit(back)
	w.has(alice, 1)
	w.queue(1)
	mark := rest[:32]
	forged := w.from("eve@far.example", "alice@example.com")
	forged.Message = []byte(fieldRule + ": " + strings.Repeat("0", 32) + "\r\n" + plain)
	w.deposit(forged)
	w.has(alice, 1)
	other := w.from("eve@far.example", "alice@example.com")
	other.Message = []byte(fieldRule + ": " + mark + "\r\n" + strings.ReplaceAll(plain, "<1@far", "<2@far"))
	w.deposit(other)
	w.has(alice, 1)
	w.queue(3)
}

// TestMailRuleText checks that a text is put under mail of people here alone, and that signed mail stays.
func TestMailRuleText(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice", addressed("alice")), w.person("bob", addressed("bob"))
	w.rule("out", `{"do":{"text":"Example Ltd."}}`)
	w.rule("out2", `{"do":{"text":"Second."}}`)
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	if got := w.has(bob, 1)[0]; strings.Contains(got, "Example Ltd.") {
		t.Errorf("text in mail from outside: %q", got)
	}
	w.shows("Mail.Rules.Failures = 1")
	const own = "From: alice@example.com\r\nSubject: a\r\n"
	w.deposit(w.sent(alice, own+"\r\nHi\r\n", "bob@example.com"))
	if got := w.has(bob, 2)[1]; !strings.HasSuffix(got, "\r\n\r\nHi\r\n\r\nExample Ltd.\r\n\r\nSecond.\r\n") {
		t.Errorf("no text in %q", got)
	}
	w.deposit(w.sent(alice, own+"DKIM-Signature: v=1; d=far.example\r\n\r\nHi\r\n", "bob@example.com"))
	if got := w.has(bob, 3)[2]; !strings.HasSuffix(got, "\r\n\r\nHi\r\n") {
		t.Errorf("text in signed mail: %q", got)
	}
	w.shows("Mail.Rules.Failures = 2")
	// A resent message must stay the message that was delivered.
	w.grant(bob.MailDatabase, bob, note.Manager)
	w.ok(w.again(bob, resent(bob, w.has(bob, 3)[0]), "alice@example.com"))
	if got := w.has(alice, 1)[0]; !strings.HasSuffix(got, plain) {
		t.Errorf("resent: %q", got)
	}
	w.shows("Mail.Rules.Failures = 3")
}

// TestMailRuleJournals checks that a rule journals a message that the rules of the journal leave out, with an added
// recipient.
func TestMailRuleJournals(t *testing.T) {
	t.Parallel()
	only, err := journal.ParseRules("from=nobody@far.example")
	if err != nil {
		t.Fatal(err)
	}
	w := journaling(t, Options{}, journal.Options{Keys: journal.ServerKey, Rules: only})
	w.person("alice", addressed("alice"))
	w.person("bob", addressed("bob"))
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.rule("r", `{"when":{"from":["@far.example"]},"do":{"journal":true,"add":["bob@example.com"]}}`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	list := w.entries()
	if len(list) != 1 || strings.Join(list[0].Entry.Recipients, " ") != "alice@example.com bob@example.com" {
		t.Errorf("%+v", list)
	}
}

// TestMailRuleGroups checks the condition on members of groups of every kind: submitters, recipients, disabled ones
// too, and the group itself.
func TestMailRuleGroups(t *testing.T) {
	t.Parallel()
	for _, kind := range []directory.GroupKind{directory.GroupMulti, directory.GroupMail} {
		testMailRuleGroups(t, kind)
	}
}

func testMailRuleGroups(t *testing.T, kind directory.GroupKind) {
	w := open(t, Options{})
	w.person("dora", addressed("dora"), func(s *directory.PersonSpec) { s.Disabled = true })
	alice, bob := w.person("alice", addressed("alice")), w.person("bob", addressed("bob"))
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Board",
		InternetAddress: "board@example.com", Kind: kind, Members: []string{"alice@example.com", "dora"}})
	w.ok(err)
	w.rule("r", `{"when":{"group":["board"]},"do":{"refuse":"no"}}`)
	for i, x := range []struct {
		sub     *Submission
		refused bool
	}{
		{w.from("eve@far.example", "bob@example.com"), false},
		{w.from("eve@far.example", "alice@example.com"), true},
		{w.from("eve@far.example", "dora@example.com"), true},
		{w.from("eve@far.example", "board@example.com"), true},
		{w.sent(alice, plain, "bob@example.com"), true},
	} {
		_, err := w.Deposits.Deposit(bg, x.sub, nil)
		if refused := replyCode(err) == "550 5.7.1" && strings.HasSuffix(err.Error(), " no"); refused != x.refused {
			t.Errorf("kind %v, %d: %v, want refused %v", kind, i, err, x.refused)
		}
	}
	w.has(bob, 1)
}

// TestMailRuleUnreadable checks that a document that cannot be read is reported, and stops no mail and no other rule.
func TestMailRuleUnreadable(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", addressed("alice"))
	r := w.rule("later", `{"do":{"encrypt":true}}`)
	w.rule("move", `{"do":{"move":"Moved"}}`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	if n := w.folder(alice, "Moved"); n != 1 {
		t.Errorf("%d messages", n)
	}
	list, err := w.Rules.Unreadable(bg)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0], "later: ") {
		t.Errorf("%q %v", list, err)
	}
	if s, err := w.Rules.State(bg); err != nil || s[r.ID].Err == nil {
		t.Errorf("%+v %v", s, err)
	}
	w.shows("Mail.Rules.Unreadable = 1")
}

// TestMailRuleMates checks that the folder reaches a mate that delivers, and that a mate delivers there.
func TestMailRuleMates(t *testing.T) {
	t.Parallel()
	m := &mates{have: map[note.DatabaseID]bool{}}
	w := open(t, Options{Mates: m})
	alice, bob := w.person("alice", addressed("alice")), w.person("bob", addressed("bob"))
	w.rule("move", `{"do":{"move":"Moved"}}`)
	w.ok(w.db.RemoveDatabase(note.System, bob.MailDatabase))
	m.have[bob.MailDatabase] = true
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	w.route()
	w.queue(0)
	if len(m.handed) != 1 || m.handed[0].Folder != "Moved" {
		t.Errorf("the mate has %+v", m.handed)
	}
	w.ok(w.Deposits.Take(bg, &Handed{ID: note.UNID{4}, Date: w.fix.Clock.Now(), Person: alice.ID,
		Kind: directory.TargetPerson, Database: alice.MailDatabase, Folder: "Moved"}, []byte(plain)))
	if n := w.folder(alice, "Moved"); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// TestMailRuleScheduled checks that rules run at the time of a scheduled message, once, and that its sender gets a
// report if they refuse it.
func TestMailRuleScheduled(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice", addressed("alice")), w.person("bob", addressed("bob"))
	schedule := func() {
		t.Helper()
		_, err := w.Scheduled.Defer(bg, w.sent(alice, "From: alice@example.com\r\nSubject: a\r\n\r\nHi\r\n",
			"bob@example.com"), w.fix.Clock.Now().Add(time.Minute))
		w.ok(err)
		w.waits(1)
	}
	schedule()
	w.fix.Time.Advance(time.Hour)
	r := w.rule("text", `{"do":{"text":"Example Ltd."}}`)
	w.waits(0)
	if got := w.has(bob, 1)[0]; strings.Count(got, "Example Ltd.") != 1 {
		t.Errorf("%q", got)
	}
	w.ok(w.people.MailRules.Remove(bg, note.System, r.ID))
	w.rule("no", `{"do":{"refuse":"Not today"}}`)
	schedule()
	w.fix.Time.Advance(time.Hour)
	w.waits(0)
	w.route()
	w.has(bob, 1)
	if got := w.has(alice, 1)[0]; !strings.Contains(got, "Not today") {
		t.Errorf("%q", got)
	}
}
