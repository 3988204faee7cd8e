package mail

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"doublet/directory"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// block makes a person block senders.
func (w *world) block(p directory.Person, senders ...string) {
	w.t.Helper()
	res, err := w.files.File(note.Who{Person: p.ID, System: true}, p.MailDatabase).Change(bg, 1,
		func(c *mailbox.Changing, _ int) error { return c.SetBlockedSenders(senders) })
	w.ok(err)
	w.ok(res.Errs[0])
}

// TestSieveQuotaAllOrNone checks that a message which a script stores twice is not stored once if there is room for one
// copy: the sender gets an error, and a retry stores both.
func TestSieveQuotaAllOrNone(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.script(alice, `require ["fileinto", "imap4flags"]; fileinto "Archive"; keep :flags "work";`)
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	size := uint64(len(w.has(bob, 1)[0]))
	w.quota(alice, size+size/2)
	results := make([]error, 1)
	if _, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com"), results); replyCode(
		err) != "452 4.2.2" {
		t.Errorf("alone: %v", err)
	}
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	if n := w.in(alice, "Archive"); n != 0 {
		t.Errorf("%d copies in a full mail file", n)
	}
	w.has(alice, 0)
	w.queue(1)
	w.quota(alice, 0)
	w.fix.Time.Advance(w.opt2().RetryFirst)
	w.route()
	if n := w.in(alice, "Archive"); n != 1 {
		t.Errorf("%d copies", n)
	}
	w.has(alice, 1)
	w.queue(0)
}

// TestSieveBlockedSender checks that mail of blocked senders is junk, whatever the script does.
func TestSieveBlockedSender(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.script(alice, `redirect "far@else.example"; keep;`)
	w.block(alice, "eve@far.example")
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 0)
	if n := w.in(alice, "Junk"); n != 1 {
		t.Errorf("%d messages in Junk", n)
	}
	w.queue(0)
}

// TestSieveKeepInMutedConversation checks that a kept answer in a muted conversation is archived as read.
func TestSieveKeepInMutedConversation(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.script(alice, `require "imap4flags"; keep :flags "$muted";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
	w.script(alice, `require "imap4flags"; keep :flags "work";`)
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Message = []byte(strings.Replace(plain, "Message-ID: <1@far.example>",
		"Message-ID: <2@far.example>\r\nIn-Reply-To: <1@far.example>", 1))
	w.deposit(sub)
	w.has(alice, 1)
	if f := w.flags(alice, "Archive"); !f.Seen || strings.Join(f.Keywords, " ") != "$muted work" {
		t.Errorf("%+v", f)
	}
}

// TestSieveTroubleIsText checks that a failure is recorded as valid UTF-8 also where it is cut, and that each failure
// is counted once.
func TestSieveTroubleIsText(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.script(alice, `require "ihave"; error "a`+strings.Repeat("ä", 199)+`";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	if l := w.trouble(alice); len(l) != 1 || !utf8.ValidString(l[0]) || !strings.Contains(l[0], "aäää") {
		t.Errorf("%q", l)
	}
	w.script(alice, `require ["fileinto", "copy"]; fileinto "None"; redirect :copy "far@else.example";`)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 2)
	w.shows("Mail.SieveFailures = 2")
}

// TestSieveUnprovenByMate checks that a script does not answer a message with a forged sender that a mate hands over:
// no vacation notice, and no report of a rejection.
func TestSieveUnprovenByMate(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	take := func(id byte, unproven bool) {
		t.Helper()
		w.ok(w.Take(bg, &Handed{ID: note.UNID{0: id}, Date: w.fix.Clock.Now(), Person: alice.ID, Unproven: unproven,
			Kind: directory.TargetPerson, Database: alice.MailDatabase, From: "eve@far.example",
			To: "alice@example.com"}, []byte("Return-Path: <eve@far.example>\r\n"+plain)))
	}
	w.script(alice, `require "vacation"; vacation "Away.";`)
	take(1, true)
	w.queue(0)
	take(2, false)
	w.queue(1)
	w.script(alice, `require "reject"; reject "Not here.";`)
	take(3, true)
	for _, e := range w.queue(2) {
		for _, q := range e.Recipients {
			if q.Address == "alice@example.com" && q.Notify != smtp.NotifyNever {
				t.Errorf("%+v", q)
			}
		}
	}
	w.route()
	w.queue(1)
	w.has(alice, 2)
}

// TestSieveRedirectPaths checks that a message does not spread along every path of many people whose scripts redirect
// to each other.
func TestSieveRedirectPaths(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	var people []directory.Person
	for _, name := range strings.Fields("a b c d e f g h i j k l") {
		people = append(people, w.person(name))
	}
	for i, p := range people {
		next := func(n int) string { return people[min(i+n, len(people)-1)].ShortName + "@example.com" }
		w.script(p, `require "copy"; redirect :copy "`+next(1)+`"; redirect :copy "`+next(2)+`";`)
	}
	w.deposit(w.from("eve@far.example", "a@example.com"))
	for range 20 {
		w.route()
	}
	w.queue(0)
	n := 0
	for _, p := range people {
		n += len(w.inbox(p.MailDatabase))
	}
	if n > 64 {
		t.Errorf("%d copies of one message", n)
	}
	if l := w.trouble(people[6]); len(l) == 0 || !strings.Contains(l[0], "too often") {
		t.Errorf("%q", l)
	}
}

// TestSieveScriptBeforeItsText checks that a list of scripts which arrives by replication before the text of its active
// script has no effect on mail that arrives after the text.
func TestSieveScriptBeforeItsText(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	f := w.files.File(note.Who{Person: alice.ID, System: true}, alice.MailDatabase)
	id := w.db.UNID()
	write := func(fn func(c *mailbox.Changing) error) {
		t.Helper()
		res, err := f.Change(bg, 1, func(c *mailbox.Changing, _ int) error { return fn(c) })
		w.ok(err)
		w.ok(res.Errs[0])
	}
	write(func(c *mailbox.Changing) error {
		return c.PutProfile(f.ProfileID("SieveScripts"), note.MakeItems(
			note.Item{Name: "Scripts", Value: note.TextList(id.String() + " main")},
			note.Item{Name: "Active", Value: note.Text(id.String())}))
	})
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
	if l := w.trouble(alice); len(l) != 1 {
		t.Errorf("%q", l)
	}
	write(func(c *mailbox.Changing) error {
		return c.PutProfile(id, note.MakeItems(note.Item{Name: "Text", Value: note.Text("discard;")}))
	})
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
}

// TestSieveReplacedWhileDelivering checks that each message is ruled by one script, stored once and sent on at most
// once, while the script is replaced again and again.
func TestSieveReplacedWhileDelivering(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	versions := []string{`require "fileinto"; fileinto "Archive";`, `require ["editheader"]; addheader "X" "y"; keep;`,
		`require "copy"; redirect :copy "far@else.example";`, `redirect "far@else.example";`}
	const deliveries = 40
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range deliveries / 4 {
				sub := w.from("eve@far.example", "alice@example.com")
				if _, err := w.Deposits.Deposit(bg, sub, make([]error, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				w.script(alice, versions[i%len(versions)])
			}
		}
	})
	all.Wait()
	close(stop)
	writer.Wait()
	if l := w.trouble(alice); len(l) != 0 {
		t.Errorf("%q", l)
	}
	list, _, err := w.Queue.List(bg, 0, "")
	w.ok(err)
	kept, filed := len(w.inbox(alice.MailDatabase)), w.in(alice, "Archive")
	// A message is in the INBOX, in the archive, or redirected. Redirected copies are in both places.
	if n := kept + filed; n > deliveries || n+len(list) < deliveries {
		t.Errorf("%d kept, %d filed, %d redirected of %d", kept, filed, len(list), deliveries)
	}
}

// inZone is a clock whose times are in a time zone, as those of the system's clock are in the server's.
type inZone struct {
	env.Clock
	zone *time.Location
}

func (c inZone) Now() time.Time { return c.Clock.Now().In(c.zone) }

// TestSieveEnvironment checks what a script can ask about the delivery: the address of the client in the session, and
// the time in the server's time zone.
func TestSieveEnvironment(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	fix.Clock = inZone{fix.Clock, time.FixedZone("", 3*3600+1800)}
	w := openOn(t, fix, Options{})
	alice := w.person("alice")
	w.script(alice, `require ["environment", "date", "fileinto"];
		if allof (environment "remote-ip" "192.0.2.7", currentdate "zone" "+0330") { fileinto "Archive"; }`)
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Received.IP = netip.MustParseAddr("::ffff:192.0.2.7")
	w.deposit(sub)
	if n := w.in(alice, "Archive"); n != 1 {
		t.Errorf("%d messages filed", n)
	}
	sub = w.from("eve@far.example", "alice@example.com")
	sub.Received = nil
	w.deposit(sub)
	w.has(alice, 1)
}

// TestSieveFoldersFromMessages checks that strangers cannot make a script create folders without end.
func TestSieveFoldersFromMessages(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	var b strings.Builder
	for i := range 31 {
		fmt.Fprintf(&b, "fileinto :create \"${s}-%d\";\n", i)
	}
	w.script(alice, `require ["fileinto", "mailbox", "variables"];
		if header :matches "subject" "*" { set "s" "${1}"; }`+b.String())
	for i := range 40 {
		sub := w.from("eve@far.example", "alice@example.com")
		sub.Message = []byte(strings.Replace(plain, "hello", fmt.Sprint("s", i), 1))
		w.deposit(sub)
	}
	n := 0
	w.ok(w.db.Read(bg, note.System, alice.MailDatabase, func(r *store.Reader) error {
		n = len(r.AllFolders())
		return nil
	}))
	if n != 1000 {
		t.Errorf("%d folders", n)
	}
	if len(w.inbox(alice.MailDatabase)) == 0 || len(w.trouble(alice)) == 0 {
		t.Error("messages without a folder are not in the INBOX")
	}
}
