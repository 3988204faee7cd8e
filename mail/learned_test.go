package mail

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mail/junk"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store/crypt"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// learning returns a world with a junk filter, and two people of whom the first has filed enough junk.
func learning(t testing.TB, o Options) (w *world, alice, bob directory.Person) {
	t.Helper()
	w = open(t, o)
	w.learn = &junk.Options{Junk: 5, Good: 5}
	w.restart()
	alice, bob = w.person("alice"), w.person("bob")
	w.deposit(w.from("eve@far.example", "alice@example.com")) // makes the INBOX
	w.ok(w.junk.Catch(bg))
	f := w.files.File(note.System, alice.MailDatabase)
	for i := range 5 {
		_, _, err := f.Append(bg, "INBOX", casino(i), mailbox.Flags{Keywords: []string{"$junk"}}, w.fix.Clock.Now())
		w.ok(err)
		_, _, err = f.Append(bg, "INBOX", turbine(i), mailbox.Flags{Keywords: []string{"$notjunk"}}, w.fix.Clock.Now())
		w.ok(err)
	}
	w.ok(w.junk.Catch(bg))
	return w, alice, bob
}

func casino(i int) []byte {
	return fmt.Appendf(nil, "From: mallory%d@far.example\r\nTo: alice@example.com\r\nSubject: casino bonus\r\n\r\n"+
		"Jackpot roulette free spins number%d\r\n", i, i)
}

func turbine(i int) []byte {
	return fmt.Appendf(nil, "From: carol%d@near.example\r\nTo: alice@example.com\r\nSubject: turbine plans\r\n\r\n"+
		"Delivery of bearings and rotor number%d\r\n", i, i)
}

// TestLearned checks that mail from outside that resembles filed junk goes to Junk with the reason, for the person who
// filed it only, once however often it is deposited; and that other mail does not.
func TestLearned(t *testing.T) {
	t.Parallel()
	w, alice, bob := learning(t, Options{})
	send := func(raw []byte, change ...func(*Submission)) {
		t.Helper()
		sub := w.from("mallory@far.example", "alice@example.com", "bob@example.com")
		sub.Message = raw
		for _, c := range change {
			c(sub)
		}
		w.deposit(sub)
	}
	const before = 11 // messages in alice's INBOX, of which 10 taught the filter
	again := note.UNID{7}
	send(casino(100), func(s *Submission) { s.ID, s.Checker = again, "mx.example.com" })
	send(casino(100), func(s *Submission) { s.ID, s.Checker = again, "mx.example.com" })
	if w.in(alice, "Junk") != 1 || w.in(bob, "Junk") != 0 {
		t.Fatalf("%d and %d in Junk", w.in(alice, "Junk"), w.in(bob, "Junk"))
	}
	w.has(alice, before)
	if text := w.has(bob, 1)[0]; strings.Contains(text, junkField) {
		t.Error("bob's message has the field")
	}
	text := w.junked(alice)
	_, rest, ok := strings.Cut(text, "\r\n"+junkField+": yes; score=")
	if !ok || !strings.HasPrefix(text, "Return-Path: <mallory@far.example>\r\n"+junkField) ||
		!strings.Contains(rest, "; model=own; junk=5; good=5\r\nReceived:") {
		t.Errorf("the message is %s", text)
	}
	send(turbine(100))
	w.has(alice, before+1)
	own := bytes.Replace(casino(101), []byte("mallory101@far.example"), []byte("bob@example.com"), 1)
	send(own, func(s *Submission) {
		s.Submitter = &Submitter{Who: note.Who{Person: bob.ID}, Address: "bob@example.com"}
	})
	w.has(alice, before+2)                                         // mail of people here is not classified
	send(casino(102), func(s *Submission) { s.ID = note.UNID{8} }) // mail of people at another place of the domain
	w.has(alice, before+3)
	send(casino(103), func(s *Submission) { s.Message = append([]byte("X-Doublet-Junk: no\r\n"), s.Message...) })
	if w.in(alice, "Junk") != 2 {
		t.Errorf("%d in Junk", w.in(alice, "Junk"))
	}
	w.shows("Mail.Junk.Junk = 3") // the repeated message was classified twice
}

// TestMarkedWithKey delivers mail with a large part to a mail file with a key. The junk filter adds a field to the
// first message, a script to the second. No file of the store holds the part.
func TestMarkedWithKey(t *testing.T) {
	t.Parallel()
	w, alice, _ := learning(t, Options{})
	w.script(alice, `require "editheader"; addheader "X-Sieve" "was here";`)
	line, err := crypt.NewKey(w.fix.Env)
	w.ok(err)
	f, err := w.fix.FS.Create("own.key", vfs.WriteCategoryUnspecified)
	w.ok(err)
	_, err = f.Write([]byte(line))
	w.ok(errors.Join(err, f.Close(), w.db.SetKey(alice.MailDatabase, "own.key"),
		w.db.Settle(bg, alice.MailDatabase, nil)))
	random := rand.New(rand.NewPCG(1, 2))
	var parts [][]byte
	for _, text := range [][]byte{casino(500), turbine(500)} {
		part := make([]byte, 1<<20) // random bytes are stored as they are, other ones compressed
		for i := range part {
			part[i] = byte(random.Uint32())
		}
		parts = append(parts, part[1000:1100])
		sub := w.from("mallory@far.example", "alice@example.com")
		head, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
		sub.Message = fmt.Appendf(nil, "%s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"+
			"--b\r\n\r\n%s\r\n--b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n%s--b--\r\n",
			head, body, mime.AppendBase64Lines(nil, part, 76, true))
		w.deposit(sub)
	}
	w.queue(0)
	if text := w.junked(alice); !strings.Contains(text, junkField) {
		t.Error("the filter did not mark the first message")
	}
	if text := w.has(alice, 12)[11]; !strings.Contains(text, "X-Sieve: was here") {
		t.Error("the script did not change the second message")
	}
	w.checkStore()
	w.stop()
	names, err := w.fix.FS.List("data/objects")
	w.ok(err)
	for _, name := range names {
		h, err := w.fix.FS.Open("data/objects/" + name)
		w.ok(err)
		info, err := h.Stat()
		w.ok(err)
		b := make([]byte, info.Size())
		_, err = h.ReadAt(b, 0)
		w.ok(errors.Join(err, h.Close()))
		for i, part := range parts {
			if bytes.Contains(b, part) {
				t.Errorf("%s holds the part of message %d", name, i+1)
			}
		}
	}
}

// junked returns the oldest message in Junk.
func (w *world) junked(p directory.Person) string {
	w.t.Helper()
	f := w.files.File(note.System, p.MailDatabase)
	v, _, err := f.Open(bg, "Junk", true)
	w.ok(err)
	out := ""
	w.ok(v.Fetch(bg, mailbox.Set{{Start: 1, Stop: 1}}, false, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			b, err := m.Body()
			if err != nil {
				return false, err
			}
			var s strings.Builder
			_, err = b.WriteTo(&s)
			out = s.String()
			return false, err
		}, func() error { return nil }))
	return out
}

// TestLearnedThroughBox checks mail that goes through mail.box, mail from a mate, a vacation notice and a script.
func TestLearnedThroughBox(t *testing.T) {
	t.Parallel()
	w, alice, _ := learning(t, Options{MaxLocal: 1})
	sub := w.from("mallory@far.example", "alice@example.com", "bob@example.com")
	sub.Message, sub.Checker = casino(200), "mx.example.com"
	w.deposit(sub)
	w.queue(1)
	w.route()
	if w.in(alice, "Junk") != 1 {
		t.Errorf("%d in Junk through mail.box", w.in(alice, "Junk"))
	}
	h := &Handed{ID: note.UNID{9}, Date: w.fix.Clock.Now(), Person: alice.ID, Database: alice.MailDatabase,
		Kind: directory.TargetPerson, From: "mallory@far.example", To: "alice@example.com"}
	w.ok(w.Take(bg, h, casino(201)))
	if w.in(alice, "Junk") != 1 {
		t.Error("mail that is not from outside was classified")
	}
	h.ID, h.Outside = note.UNID{10}, true
	w.ok(w.Take(bg, h, casino(202)))
	if w.in(alice, "Junk") != 2 {
		t.Error("mail from a mate was not classified")
	}
}

// TestSpamtest checks the score that a script gets: of mail from outside that is not junk, and none of mail of people
// here or of people who filed too little. A dry run shows the same.
func TestSpamtest(t *testing.T) {
	t.Parallel()
	w, alice, bob := learning(t, Options{})
	script := `require ["spamtestplus", "relational", "comparator-i;ascii-numeric", "fileinto", "mailbox"];
		if spamtest "0" { fileinto :create "Unknown"; }
		elsif spamtest :percent :value "lt" :comparator "i;ascii-numeric" "50" { fileinto :create "Clear"; }`
	w.script(alice, script)
	w.script(bob, script)
	sub := w.from("carol@near.example", "alice@example.com", "bob@example.com")
	sub.Message = turbine(400)
	w.deposit(sub)
	if a, b := w.in(alice, "Clear"), w.in(bob, "Unknown"); a != 1 || b != 1 {
		t.Errorf("from outside: %d of 1 for alice, %d of 1 for bob", a, b)
	}
	sub = w.from("bob@example.com", "alice@example.com")
	sub.Message = bytes.Replace(turbine(401), []byte("carol401@near.example"), []byte("bob@example.com"), 1)
	sub.Submitter = &Submitter{Who: note.Who{Person: bob.ID}, Address: "bob@example.com"}
	w.deposit(sub)
	if n := w.in(alice, "Unknown"); n != 1 {
		t.Errorf("%d messages from here in Unknown", n)
	}
	tried, err := w.Deposits.TryScript(bg, &ScriptTrial{File: w.files.File(note.System, alice.MailDatabase),
		Database: alice.MailDatabase, Address: "alice@example.com", Script: script, Folder: "Clear", Limit: 9})
	if err != nil || len(tried) != 1 || tried[0].Outcome.Lines()[0] != "fileinto Clear (created if missing)" {
		t.Errorf("dry run: %+v, %v", tried, err)
	}
	if s := scoreOf(junk.Verdict{Known: true, Correspondent: true, Score: 0.99}); s == nil || *s != 0 {
		t.Error("mail from a correspondent looks like junk")
	}
}

// TestLearnedIsQuiet checks that nobody is told of junk: no vacation notice, no script.
func TestLearnedIsQuiet(t *testing.T) {
	t.Parallel()
	w, alice, _ := learning(t, Options{})
	w.set(alice, func(f *directory.PersonFields) { f.Vacation = directory.Vacation{On: true, Text: "away"} })
	sub := w.from("mallory@far.example", "alice@example.com")
	sub.Message = casino(300)
	w.deposit(sub)
	w.queue(0)
	sub = w.from("carol@near.example", "alice@example.com")
	sub.Message = turbine(300)
	w.deposit(sub)
	w.queue(1)
}
