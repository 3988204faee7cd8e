package mail

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/journal"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// journaling opens a server that journals.
func journaling(t *testing.T, o Options, r journal.Options) *world {
	t.Helper()
	w := open(t, o)
	w.record = &r
	w.restart()
	return w
}

// restart stops the server and starts it again.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.closed = false
	w.start()
}

// entry is an entry of the journal, decrypted.
type journalEntry struct {
	journal.Entry
	journal.Details
	raw string
}

// entries returns all entries of the journal, and verifies its databases.
func (w *world) entries() (out []journalEntry) {
	w.t.Helper()
	list, err := w.journal.Databases(bg)
	w.ok(err)
	for _, d := range list {
		r, err := w.journal.Verify(bg, d.ID, func(uint64) {})
		w.ok(err)
		for _, f := range r.Findings {
			w.t.Errorf("journal: %s", f)
		}
		for n := uint64(1); n <= d.Entries; n++ {
			e, content, err := w.journal.Entry(bg, note.System, d.ID, n)
			w.ok(err)
			var sealed bytes.Buffer
			_, err = content.WriteTo(&sealed)
			w.ok(err)
			details, raw, err := journal.Unseal(sealed.Bytes(), w.journal.Identity())
			w.ok(err)
			out = append(out, journalEntry{*e, *details, string(raw)})
		}
	}
	return out
}

// journals compares the newest entries with lines such as "in eve@far.example > alice@example.com".
func (w *world) journals(before int, want ...string) []journalEntry {
	w.t.Helper()
	all := w.entries()
	all = all[min(before, len(all)):]
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%s %s > %s", e.Direction, e.From, strings.Join(e.Recipients, " ")))
	}
	sorted := slices.Clone(want)
	sort.Strings(got)
	sort.Strings(sorted)
	if !slices.Equal(got, sorted) {
		w.t.Fatalf("journal has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(sorted, "\n"))
	}
	return all
}

// by returns a submission by a person who signed in.
func (w *world) by(p directory.Person, to ...string) *Submission {
	w.t.Helper()
	who, err := w.people.Names.WhoOf(bg, p.ID)
	w.ok(err)
	sub := w.from(p.InternetAddress, to...)
	sub.Message = []byte("From: " + p.InternetAddress + "\r\nTo: alice@example.com\r\nBcc: bob@example.com\r\n" +
		"Subject: plan\r\n\r\nx\r\n")
	sub.Submitter = &Submitter{Who: who, Address: p.InternetAddress}
	return sub
}

func TestJournalDirections(t *testing.T) {
	t.Parallel()
	w := journaling(t, Options{}, journal.Options{})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team",
		InternetAddress: "team@example.com", Members: []string{"alice", "bob", "zoe@far.example"}})
	w.ok(err)
	in := w.from("eve@far.example", "alice@example.com", "bob@example.com")
	w.deposit(in)
	e := w.journals(0, "in eve@far.example > alice@example.com bob@example.com")[0]
	if got := w.has(alice, 1)[0]; e.raw != got || e.Size != uint64(len(got)) || e.ID != in.ID ||
		e.MessageID != "<1@far.example>" || e.SignIn != "" || e.Helo != "far.example" {
		t.Errorf("%+v\n%q\n%q", e, e.raw, got)
	}
	if !slices.Equal(e.Hidden, []string{"bob@example.com"}) {
		t.Errorf("hidden %q", e.Hidden)
	}
	w.deposit(w.by(carol, "alice@example.com", "bob@example.com"))
	e = w.journals(1, "internal carol@example.com > alice@example.com bob@example.com")[0]
	if e.SignIn != "carol Example" || !slices.Equal(e.Hidden, []string{"bob@example.com"}) ||
		strings.Contains(e.raw, "Bcc:") {
		t.Errorf("%+v", e)
	}
	w.deposit(w.by(carol, "zoe@far.example"))
	w.journals(2, "out carol@example.com > zoe@far.example")
	w.deposit(w.by(carol, "team@example.com"))
	e = w.journals(3, "out carol@example.com > alice@example.com bob@example.com zoe@far.example")[0]
	if !slices.Equal(e.Envelope, []string{"team@example.com"}) {
		t.Errorf("envelope %q", e.Envelope)
	}
	w.shows("Journal.Entries = 4", "Journal.Failures = 0", "Journal.RollOvers = 1")
	w.has(bob, 3)
}

// TestJournalCaused checks that messages that follow from a message have entries of their own.
func TestJournalCaused(t *testing.T) {
	t.Parallel()
	w := journaling(t, Options{RetryFirst: time.Minute}, journal.Options{})
	alice, bob := w.person("alice"), w.person("bob")
	carol := w.person("carol")
	w.set(alice, func(f *directory.PersonFields) { f.Forward = []string{"alice@else.example"} })
	w.script(bob, `require "copy"; redirect :copy "bob@else.example";`)
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	got := w.journals(0, "in eve@far.example > alice@example.com bob@example.com",
		"out "+w.queue(2)[0].From.String()+" > "+w.queue(2)[0].Recipients[0].Address,
		"out "+w.queue(2)[1].From.String()+" > "+w.queue(2)[1].Recipients[0].Address)
	for _, q := range w.queue(2) {
		if !slices.ContainsFunc(got, func(e journalEntry) bool { return e.ID == q.ID && e.raw == w.raw(q) }) {
			t.Errorf("no entry for %s", q.ID)
		}
	}
	w.set(carol, func(f *directory.PersonFields) {
		f.Vacation = directory.Vacation{On: true, Subject: "away", Text: "Back on Monday."}
	})
	sub := w.from("alice@example.com", "carol@example.com")
	sub.Checked, sub.Proven = true, true
	sub.Message = []byte(strings.ReplaceAll(strings.ReplaceAll(plain, "alice@", "carol@"), "eve@far.example",
		"alice@example.com"))
	w.deposit(sub)
	w.journals(3, "in alice@example.com > carol@example.com", "internal  > alice@example.com")
	w.mailingList(func(f *directory.GroupFields) { f.List.Moderators = []string{"carol"} }, "bob", "zoe@far.example")
	n := len(w.entries())
	sub = w.from("zoe@far.example", "chess@example.com") // a member
	sub.Checked, sub.Proven = true, true
	sub.Message = []byte(strings.ReplaceAll(toList, "eve@far.example", "zoe@far.example"))
	w.deposit(sub)
	if after := w.entries()[n:]; len(after) != 2 || !strings.Contains(after[1].raw, "List-Id:") ||
		!slices.Equal(after[1].Recipients, []string{"bob@example.com", "zoe@far.example"}) {
		t.Errorf("%+v", after)
	}
	n = len(w.entries())
	w.ok(w.post(nil))
	after := w.entries()[n:]
	if len(after) != 2 || after[0].Recipients[0] != "chess@example.com" || !strings.Contains(after[1].raw, "is held") {
		t.Errorf("%d entries of a message that waits for moderators: %+v", len(after), after)
	}
	// A delivery report.
	n = len(w.entries())
	dave, _ := w.person("dave"), w.person("erin")
	w.script(dave, `require "reject"; reject "no";`)
	w.deposit(w.by(carol, "dave@example.com", "erin@example.com"))
	w.route()
	w.route()
	w.journals(n, "internal carol@example.com > dave@example.com erin@example.com",
		"out chess-bounces@example.com > bob@else.example", "internal  > carol@example.com")
}

// srsOf returns the sender of the newest entry for bob@else.example.
func srsOf(w *world) (from string) {
	for _, e := range w.entries() {
		if e.Recipients[0] == "bob@else.example" {
			from = e.From
		}
	}
	return from
}

// TestJournalOnce checks that a message is journaled once, however often and in how many steps it is delivered, and
// that one that nobody accepts is not.
func TestJournalOnce(t *testing.T) {
	t.Parallel()
	w := journaling(t, Options{MaxLocal: 2}, journal.Options{})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com", "carol@example.com")
	w.deposit(sub) // goes through mail.box
	w.deposit(sub)
	w.route()
	w.has(alice, 1)
	w.has(bob, 1)
	w.has(carol, 1)
	w.journals(0, "in eve@far.example > alice@example.com bob@example.com carol@example.com")
	held := w.from("eve@far.example", "alice@example.com")
	held.Hold = "virus?"
	w.deposit(held)
	w.ok(w.Moderation.Release(bg, held.ID))
	w.has(alice, 2)
	w.journals(1, "in eve@far.example > alice@example.com")
	id := w.later(alice, time.Minute, "bob@example.com")
	back := w.later(alice, time.Minute, "bob@example.com")
	w.recall(back, RecalledBack)
	w.journals(2)
	w.fix.Time.Advance(time.Minute)
	w.Scheduled.ReleaseDue(bg)
	if e := w.journals(2, "internal alice@example.com > bob@example.com"); e[0].ID != id {
		t.Errorf("%+v", e)
	}
	w.quota(carol, 1)
	if _, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "carol@example.com"), nil); err == nil {
		t.Error("a full mail file accepts a message")
	}
	w.journals(3)
	part := w.from("eve@far.example", "alice@example.com", "carol@example.com")
	part.Answer = AnswerEach
	w.deposit(part)
	w.journals(3, "in eve@far.example > alice@example.com")
}

// between hands deliveries from one server to another, as members of a cluster do.
type between struct {
	mates
	to     *world
	person directory.Person // the recipient as the other server knows it
}

func (m *between) Deliver(_ context.Context, h *Handed, raw []byte) error {
	h.Person, h.Database = m.person.ID, m.person.MailDatabase
	return m.to.Take(bg, h, raw)
}

// TestJournalInCluster checks that the member that accepts a message journals it, and the one that delivers it does
// not. Messages that a script causes there are journaled there.
func TestJournalInCluster(t *testing.T) {
	t.Parallel()
	there := journaling(t, Options{}, journal.Options{})
	bobThere := there.person("bob")
	m := &between{mates{have: map[note.DatabaseID]bool{}}, there, bobThere}
	here := journaling(t, Options{Mates: m}, journal.Options{})
	bob := here.person("bob")
	here.ok(here.db.RemoveDatabase(note.System, bob.MailDatabase))
	m.have[bob.MailDatabase] = true
	here.deposit(here.from("eve@far.example", "bob@example.com"))
	here.route()
	here.queue(0)
	there.has(bobThere, 1)
	here.journals(0, "in eve@far.example > bob@example.com")
	there.journals(0)
	there.script(bobThere, `require "copy"; redirect :copy "bob@else.example";`)
	here.deposit(here.from("eve@far.example", "bob@example.com"))
	here.route()
	here.journals(1, "in eve@far.example > bob@example.com")
	there.journals(0, "out "+srsOf(there)+" > bob@else.example")
}

func TestJournalFails(t *testing.T) {
	t.Parallel()
	for _, deliver := range []bool{false, true} {
		w := journaling(t, Options{}, journal.Options{Deliver: deliver})
		alice := w.person("alice")
		w.set(alice, func(f *directory.PersonFields) { f.Forward = []string{"alice@else.example"} })
		w.deposit(w.from("eve@far.example", "alice@example.com"))
		list, err := w.journal.Databases(bg)
		w.ok(err)
		state := func(s layout.DatabaseState) {
			w.ok(w.db.SetInfo(note.System, list[0].ID, func(i *layout.Info) { i.State = s }))
		}
		state(layout.OutOfService)
		sub := w.from("eve@far.example", "alice@example.com")
		_, err = w.Deposits.Deposit(bg, sub, nil)
		if deliver {
			w.ok(err)
			w.has(alice, 2)
			w.queue(2)
			w.shows("Journal.NotJournaled = 1", "Journal.Deferred = 0", "Journal.Entries = 2")
			state(layout.InService)
			continue
		}
		if replyCode(err) != "452 4.3.0" {
			t.Errorf("reply %v", err)
		}
		w.has(alice, 1)
		w.queue(1)
		w.shows("Journal.Deferred = 1", "Journal.NotJournaled = 0", "Journal.Entries = 2")
		state(layout.InService)
		w.deposit(sub)
		w.has(alice, 2)
		if e := w.entries(); len(e) != 4 {
			t.Errorf("%d entries", len(e))
		}
	}
}

// TestJournalDamaged checks both settings with a database whose head is damaged.
func TestJournalDamaged(t *testing.T) {
	t.Parallel()
	for _, deliver := range []bool{false, true} {
		w := journaling(t, Options{}, journal.Options{Deliver: deliver})
		alice := w.person("alice")
		w.deposit(w.from("eve@far.example", "alice@example.com"))
		list, err := w.journal.Databases(bg)
		w.ok(err)
		w.ok(w.db.Update(bg, note.System, []note.DatabaseID{list[0].ID}, func(tx *store.Tx) error {
			x, err := tx.Database(list[0].ID)
			if err != nil {
				return err
			}
			return x.Put(note.DeriveUNID([]byte("journal head")), note.Profile, note.Content{})
		}))
		_, err = w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com"), nil)
		if deliver {
			w.ok(err)
			w.has(alice, 2)
		} else if replyCode(err) != "452 4.3.0" {
			t.Errorf("reply %v", err)
		}
	}
}

// TestJournalOff checks that without the switch nothing is written.
func TestJournalOff(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	all, err := w.db.Databases()
	w.ok(err)
	for _, i := range all {
		if i.Kind == journal.Kind {
			t.Errorf("database %s", i.Title)
		}
	}
	if w.Deposits.recorder != nil {
		t.Error("there is a recorder")
	}
}

func TestJournalRules(t *testing.T) {
	t.Parallel()
	rules, err := journal.ParseRules(`out; group=Board; group=List; to=team@example.com`)
	if err != nil {
		t.Fatal(err)
	}
	w := journaling(t, Options{}, journal.Options{Rules: rules})
	w.person("alice")
	carol := w.person("carol")
	w.person("bob")
	w.person("dora")
	_, err = w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Board", Members: []string{"bob"}})
	w.ok(err)
	_, err = w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "List", Kind: directory.GroupMail,
		Members: []string{"dora"}})
	w.ok(err)
	_, err = w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team",
		InternetAddress: "team@example.com", Members: []string{"alice"}})
	w.ok(err)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	w.deposit(w.from("eve@far.example", "dora@example.com"))
	w.deposit(w.from("eve@far.example", "team@example.com"))
	w.deposit(w.by(carol, "alice@example.com"))
	w.deposit(w.by(carol, "zoe@far.example"))
	w.journals(0, "in eve@far.example > bob@example.com", "in eve@far.example > dora@example.com",
		"in eve@far.example > alice@example.com", "out carol@example.com > zoe@far.example")
}
