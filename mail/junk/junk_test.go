package junk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/bayes"
	"doublet/mail/junk"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
	"doublet/wire/mime"
)

var bg = context.Background()

// world is a store with the mail file of one person, and a junk filter.
type world struct {
	t     testing.TB
	fix   *env.Fixture
	store *store.Store
	dir   *directory.Directory
	boxes *mailbox.Service
	db    note.DatabaseID
	file  *mailbox.File
	tree  *stat.Tree
	opt   junk.Options
	f     *junk.Filter
	n     int
}

func open(t testing.TB, o junk.Options) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), opt: o}
	w.start()
	var err error
	p, err := w.dir.People.Add(bg, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: []string{"Alice Example"}, ShortName: "alice"}})
	w.ok(err)
	w.db, err = w.boxes.Make(bg, p.ID, "alice", 0, 0)
	w.ok(err)
	w.file = w.boxes.File(note.Who{Person: p.ID}, w.db)
	t.Cleanup(func() {
		r, err := check.Run(bg, w.store, check.Options{Deep: true})
		w.ok(err)
		for _, f := range r.Findings {
			t.Errorf("check: %s", f)
		}
		w.stop()
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.store, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: 0, FloorPercent: -1, Ballast: -1,
		Indexes: directory.Indexes(), LogSyncInterval: 50 * time.Microsecond, OnFatal: func(error) {}})
	w.ok(err)
	w.dir, err = directory.Open(w.store, w.fix.Env, password.New(w.fix.Env, 2, 100),
		directory.Options{Domain: "example.com"})
	w.ok(err)
	w.boxes = mailbox.New(w.store, w.fix.Env, mailbox.Options{KeepDeleted: 24 * time.Hour})
	w.filter()
}

// filter opens the filter again, as after a crash: it has what was written.
func (w *world) filter() {
	w.t.Helper()
	o := w.opt
	w.tree = stat.New(w.fix.Clock)
	o.Stats, o.Parts = w.tree, mailbox.PartsOf
	var err error
	w.f, err = junk.Open(w.store, w.fix.Env, w.dir, o)
	w.ok(err)
}

func (w *world) stop() {
	w.dir.Close()
	w.ok(w.store.Close())
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// text returns a message whose words are those of one subject, and some of its own.
func text(from, topic string, n int) []byte {
	return fmt.Appendf(nil, "From: %s\r\nSubject: about %s\r\nMessage-ID: <%d.%s@far.example>\r\n\r\n"+
		"The %s one%s two%s three%s and number%d\r\n", from, topic, n, topic, topic, topic, topic, topic, n)
}

// add stores a message in a folder and returns its UNID.
func (w *world) add(folder string, raw []byte, keywords ...string) (u note.UNID) {
	w.t.Helper()
	w.n++
	var seen bool
	for i, k := range keywords {
		if k == "$seen" {
			seen, keywords = true, append(keywords[:i:i], keywords[i+1:]...)
			break
		}
	}
	_, uid, err := w.file.Append(bg, folder, raw, mailbox.Flags{Keywords: keywords, Seen: seen}, w.fix.Clock.Now())
	w.ok(err)
	w.ok(w.store.Read(bg, note.System, w.db, func(r *store.Reader) error {
		h, err := r.FolderNamed(folder)
		if err != nil {
			return err
		}
		id, err := r.Member(h.Note, uid)
		if err != nil {
			return err
		}
		row, err := r.Note(id)
		u = row.UNID
		return err
	}))
	return u
}

func (w *world) folder(name string) (u note.UNID) {
	w.t.Helper()
	folders, err := w.file.Folders(bg)
	w.ok(err)
	for _, f := range folders {
		if f.Name == name {
			return f.UNID
		}
	}
	f, err := w.file.Create(bg, name, "")
	w.ok(err)
	return f.UNID
}

func (w *world) change(u note.UNID, fn func(c *mailbox.Changing, id note.ID) error) {
	w.t.Helper()
	res, err := w.file.Change(bg, 1, func(c *mailbox.Changing, _ int) error {
		id, err := c.Find(u)
		if err != nil {
			return err
		}
		return fn(c, id)
	})
	w.ok(errors.Join(err, res.Errs[0]))
}

func (w *world) mark(u note.UNID, keyword string, on bool) {
	w.t.Helper()
	w.change(u, func(c *mailbox.Changing, id note.ID) error { return c.SetKeyword(id, keyword, on) })
}

func (w *world) move(u note.UNID, from, to string) {
	w.t.Helper()
	a, b := w.folder(from), w.folder(to)
	w.change(u, func(c *mailbox.Changing, id note.ID) error {
		return c.SetFolders(id, []note.UNID{b}, []note.UNID{a})
	})
}

// learned catches up and checks the numbers of messages that were learned.
func (w *world) learned(junk, good int) {
	w.t.Helper()
	w.ok(w.f.Catch(bg))
	own, _, err := w.f.Show(bg, w.db)
	w.ok(err)
	if own.Junk != junk || own.Good != good {
		w.t.Errorf("learned %d junk and %d good, want %d and %d", own.Junk, own.Good, junk, good)
	}
}

func (w *world) verdict(raw []byte) junk.Verdict {
	w.t.Helper()
	v, err := w.f.Judge(bg, w.db, junk.NewMessage(raw, mime.Parse(raw, mime.Limits{})))
	w.ok(err)
	return v
}

const stranger = "eve@far.example"

// TestEvidence checks what each action on a message teaches.
func TestEvidence(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{})
	w.ok(w.f.Catch(bg))
	x := w.add("INBOX", text(stranger, "x", 1))
	w.learned(0, 0)
	w.move(x, "INBOX", "Junk")
	w.learned(1, 0)
	w.move(x, "Junk", "Trash") // junk stays junk
	w.learned(1, 0)
	w.move(x, "Trash", "Junk")
	w.move(x, "Junk", "INBOX")
	w.learned(0, 1)
	w.move(x, "INBOX", "Trash") // deleted mail says nothing
	w.learned(0, 0)
	w.move(x, "Trash", "INBOX")
	w.mark(x, "$junk", true)
	w.learned(1, 0)
	w.mark(x, "$junk", false)
	w.mark(x, "$notjunk", true)
	w.learned(0, 1)
	w.mark(x, "$junk", true) // both: neither counts, but it left Junk
	w.learned(0, 1)
	y := w.add("INBOX", text(stranger, "x", 9)) // the web client undoes: the keyword stays
	w.move(y, "INBOX", "Junk")
	w.mark(y, "$junk", true)
	w.learned(1, 1)
	w.move(y, "Junk", "INBOX")
	w.learned(0, 2)
	w.mark(y, "$junk", false)
	w.mark(y, "$notjunk", true)
	w.move(y, "INBOX", "Junk")
	w.learned(1, 1)
	w.mark(y, "$notjunk", false)
	w.move(y, "Junk", "INBOX")
	w.move(y, "INBOX", "Trash")
	w.learned(1, 1)
	w.move(y, "Trash", "Other")
	w.mark(y, "$notjunk", true)
	w.mark(y, "$notjunk", false)
	w.learned(0, 2)
	w.move(y, "Other", "Trash")
	w.learned(0, 1)

	delivered := w.add("Junk", text(stranger, "y", 2))
	w.learned(0, 1) // the filter's own verdict
	w.mark(delivered, "$seen", true)
	w.learned(0, 1)
	w.mark(delivered, "$junk", true)
	w.learned(1, 1)

	read := w.add("INBOX", text(stranger, "z", 3))
	w.mark(read, "$seen", true)
	w.learned(1, 2)
	w.mark(read, "$seen", false)
	w.learned(1, 1)
	filed := w.add("INBOX", text(stranger, "z", 4))
	w.move(filed, "INBOX", "Lists")
	w.learned(1, 1)
	w.mark(filed, "$seen", true)
	w.learned(1, 2)
	answered := w.add("INBOX", text(stranger, "z", 5))
	w.mark(answered, "$answered", true)
	w.learned(1, 3)
	w.add("Drafts", text("alice@example.com", "z", 6), "$draft")
	w.add("Sent", text("alice@example.com", "z", 7), "$seen")
	w.learned(1, 3)
	w.change(answered, func(c *mailbox.Changing, id note.ID) error { return c.Destroy(id) })
	w.learned(1, 2)
	w.change(delivered, func(c *mailbox.Changing, id note.ID) error { return c.Destroy(id) })
	w.learned(1, 2)
}

// TestWeak checks that nothing is learned before there is junk, and that reading mail in the INBOX counts for the first
// messages only.
func TestWeak(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{})
	w.ok(w.f.Catch(bg))
	w.mark(w.add("INBOX", text(stranger, "z", 999)), "$answered", true)
	w.learned(0, 0) // without any junk there is nothing to tell apart
	w.move(w.add("INBOX", text(stranger, "x", 1)), "INBOX", "Junk")
	w.learned(1, 1)
	for i := range 205 {
		w.mark(w.add("INBOX", text(stranger, "z", i)), "$seen", true)
	}
	w.learned(1, 200)
	x := w.add("INBOX", text(stranger, "z", 1000))
	w.mark(x, "$answered", true)
	w.learned(1, 201)
}

// train learns n junk and n good messages.
func (w *world) train(n int) {
	w.t.Helper()
	w.ok(w.f.Catch(bg))
	for i := range n {
		w.move(w.add("INBOX", text(stranger, "casino", i)), "INBOX", "Junk")
		w.mark(w.add("INBOX", text("bob@near.example", "turbine", i)), "$answered", true)
	}
	w.learned(n, n)
}

// TestJudge checks that there is no verdict before enough is learned, the verdicts after, and that mail of people to
// whom the owner wrote is never junk.
func TestJudge(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{Junk: 5, Good: 5})
	w.train(4)
	bad, good := text("mallory@else.example", "casino", 100), text("carol@else.example", "turbine", 100)
	if v := w.verdict(bad); v != (junk.Verdict{}) {
		t.Errorf("a verdict from too few messages: %+v", v)
	}
	w.move(w.add("INBOX", text(stranger, "casino", 4)), "INBOX", "Junk")
	w.mark(w.add("INBOX", text("bob@near.example", "turbine", 4)), "$answered", true)
	w.learned(5, 5)
	if v := w.verdict(bad); !v.Junk || v.Score < 0.99 || !strings.HasPrefix(v.String(), "yes; score=") ||
		!strings.HasSuffix(v.String(), "; model=own; junk=5; good=5") {
		t.Errorf("junk: %s", v)
	}
	if v := w.verdict(good); v.Junk || v.Score > 0.1 {
		t.Errorf("not junk: %s", v)
	}
	w.add("Sent", []byte("From: alice@example.com\r\nTo: a: Mallory <Mallory@ELSE.example>;\r\n\r\n"))
	w.ok(w.f.Catch(bg))
	if v := w.verdict(bad); v.Junk || !v.Correspondent || v.Score < 0.99 {
		t.Errorf("a correspondent: %s", v)
	}
	for name, want := range map[string]string{"Mail.Junk.Checked": "3", "Mail.Junk.Junk": "1", "Mail.Junk.Spared": "1",
		"Mail.Junk.LearnedJunk": "5", "Mail.Junk.LearnedGood": "5"} {
		if e := w.tree.Snapshot(name); len(e) == 0 || e[0].String() != name+" = "+want {
			t.Errorf("%s: %v, want %s", name, e, want)
		}
	}
	w.filter() // after a crash
	if v := w.verdict(text("new@else.example", "casino", 101)); !v.Junk {
		t.Errorf("after a crash: %s", v)
	}
	w.ok(w.f.Forget(bg, w.db))
	w.filter()
	if v := w.verdict(bad); v.Known {
		t.Errorf("after forgetting: %s", v)
	}
	w.learned(0, 0)
}

// TestShared checks the model of the whole server: it learns from the members of a group, and judges mail of people who
// have filed too little.
func TestShared(t *testing.T) {
	t.Parallel()
	for _, sharers := range []string{"*", "", "sharers"} {
		w := open(t, junk.Options{Junk: 5, Good: 5, Sharers: sharers})
		w.train(5)
		other, err := w.boxes.Make(bg, note.UNID{}, "bob", 0, 0)
		w.ok(err)
		raw := text("mallory@else.example", "casino", 100)
		v, err := w.f.Judge(bg, other, junk.NewMessage(raw, mime.Parse(raw, mime.Limits{})))
		w.ok(err)
		if v.Junk != (sharers == "*") || v.Server != v.Junk { // nobody is in the group, because there is none
			t.Errorf("shared by %q: %s", sharers, v)
		}
	}
}

// TestFirst checks that a mail file is learned from its messages when the filter meets it first, and after the feed was
// cut.
func TestFirst(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{})
	var last note.UNID
	for i := range 30 {
		last = w.add("INBOX", text(stranger, "casino", i))
		w.move(last, "INBOX", "Junk")
		w.mark(w.add("INBOX", text("bob@near.example", "turbine", i)), "$seen", true)
	}
	w.add("Sent", []byte("From: alice@example.com\r\nTo: mallory@else.example\r\n\r\n"), "$seen")
	w.learned(0, 0) // nothing has changed since the filter is there
	w.mark(last, "$flagged", true)
	w.learned(30, 30)
	own, _, err := w.f.Show(bg, w.db)
	w.ok(err)
	if own.Known != 1 {
		t.Errorf("%d correspondents", own.Known)
	}
}

// TestDamaged checks that an invalid note with what was learned is learned anew.
func TestDamaged(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{})
	w.train(3)
	w.ok(w.store.Update(bg, note.System, []note.DatabaseID{junk.ID}, func(tx *store.Tx) error {
		d, err := tx.Database(junk.ID)
		if err != nil {
			return err
		}
		var ids []note.ID
		if err := d.Notes(0, func(id note.ID, _ *layout.Note) bool { ids = append(ids, id); return true }); err != nil {
			return err
		}
		for _, id := range ids {
			err = errors.Join(err, d.Rewrite(id, note.Content{Items: note.MakeItems(
				note.Item{Name: "Memory", Value: note.Binary([]byte("nonsense"))})}))
		}
		return err
	}))
	w.filter()
	w.move(w.add("INBOX", text(stranger, "z", 5)), "INBOX", "Junk")
	w.learned(4, 3)
}

// TestLarge checks that a message with a large attachment has the same tokens when it is learned as at delivery: taking
// back leaves nothing.
func TestLarge(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{})
	w.ok(w.f.Catch(bg))
	raw := []byte("From: eve@far.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" +
		"--b\r\n\r\nbefore\r\n--b\r\n" +
		"Content-Type: application/zip; name=a.zip\r\n\r\n" + strings.Repeat("PK binary\x01\r\n", 40_000) +
		"--b\r\nContent-Type: text/plain\r\n\r\nbehind\r\n--b--\r\n")
	x := w.add("INBOX", raw)
	w.move(x, "INBOX", "Junk")
	w.learned(1, 0)
	want := bayes.NewMemory(16)
	want.Model.Learn(bayes.Read(raw, mime.Parse(raw, mime.Limits{})), bayes.Junk)
	if !bytes.Equal(w.model(), want.Append(nil)) {
		t.Error("the tokens of the stored message differ from those at delivery")
	}
}

// model returns the model of the mail file as it is stored.
func (w *world) model() []byte {
	w.t.Helper()
	var out []byte
	w.ok(w.store.Read(bg, note.System, junk.ID, func(r *store.Reader) error {
		id, err := r.Find(note.DeriveUNID([]byte("junk"), []byte(w.db.String())))
		if err != nil {
			return err
		}
		c, err := r.Content(id)
		if err != nil {
			return err
		}
		m, err := bayes.ReadMemory(c.Content.Items.Get("Memory").AsBinary())
		if err == nil {
			out = (&bayes.Memory{Model: m.Model}).Append(nil)
		}
		return err
	}))
	return out
}

// TestRun checks that the task learns when something changes, and writes when it ends.
func TestRun(t *testing.T) {
	t.Parallel()
	w := open(t, junk.Options{})
	w.ok(w.f.Catch(bg)) // the filter begins here
	ctx, stop := context.WithCancel(bg)
	done := make(chan error, 1)
	w.fix.Go("junk", func() { done <- w.f.Run(ctx) })
	x := w.add("INBOX", text(stranger, "x", 1))
	w.move(x, "INBOX", "Junk")
	for own := (junk.Learned{}); own.Junk == 0; {
		w.fix.Time.Advance(2 * time.Second)
		var err error
		own, _, err = w.f.Show(bg, w.db)
		w.ok(err)
	}
	stop()
	w.ok(<-done)
	w.filter()
	w.learned(1, 0)
}

// message is one of TestModel.
type message struct {
	unid    note.UNID
	raw     []byte
	in      string
	was     map[string]bool // folders that it is or was in
	marks   map[string]bool
	at      map[string]int // step at which a mark was last set, or the message came into Junk or left it
	class   bayes.Class
	removed bool
}

// expect returns the class that a message has now.
func (m *message) expect() bayes.Class {
	isJunk := m.marks["$junk"] && !(m.was["Junk"] && m.in != "Junk" && m.at["$junk"] < m.at["Junk"])
	isGood := m.marks["$notjunk"] && !(m.in == "Junk" && len(m.was) > 1 && m.at["$notjunk"] < m.at["Junk"])
	ordinary := m.in == "INBOX" || m.in == "Lists"
	switch {
	case isJunk && !isGood:
		return bayes.Junk
	case isGood && !isJunk:
		return bayes.Good
	case m.in == "Junk" && len(m.was) > 1:
		return bayes.Junk
	case (m.in == "Trash" || m.in == "") && m.class == bayes.Junk:
		return bayes.Junk
	case ordinary && (m.was["Junk"] || m.marks["$answered"] || m.marks["$seen"]):
		return bayes.Good
	}
	return bayes.Unknown
}

// TestModel moves, marks and deletes messages at random, with crashes of the filter, and compares what was learned with
// a model that learns each message once, as it is at the end.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 5))
			w := open(t, junk.Options{Memory: 1})
			w.ok(w.f.Catch(bg))
			folders := []string{"INBOX", "INBOX", "Junk", "Lists", "Trash"}
			marks := []string{"$junk", "$notjunk", "$seen", "$answered"}
			var list []*message
			for step := range 400 {
				if len(list) < 10 || r.IntN(8) == 0 {
					raw := text(stranger, fmt.Sprint("topic", r.IntN(5)), len(list))
					m := &message{raw: raw, in: folders[r.IntN(4)],
						marks: map[string]bool{}, at: map[string]int{}}
					w.folder("Lists")
					m.unid, m.was = w.add(m.in, m.raw), map[string]bool{m.in: true}
					list = append(list, m)
				}
				m := list[r.IntN(len(list))]
				switch n := r.IntN(20); {
				case m.removed:
				case n < 9:
					if to := folders[r.IntN(len(folders))]; to != m.in {
						w.move(m.unid, m.in, to)
						if m.in == "Junk" || to == "Junk" {
							m.at["Junk"] = step
						}
						m.in, m.was[to] = to, true
					}
				case n < 16:
					k := marks[r.IntN(len(marks))]
					m.marks[k], m.at[k] = !m.marks[k], step
					w.mark(m.unid, k, m.marks[k])
				case n < 17:
					w.change(m.unid, func(c *mailbox.Changing, id note.ID) error { return c.Destroy(id) })
					if m.in == "Junk" {
						m.at["Junk"] = step
					}
					m.in, m.removed = "", true
				case n < 18:
					w.filter()
				}
				if r.IntN(3) == 0 {
					w.ok(w.f.Catch(bg))
					for _, m := range list {
						m.class = m.expect()
					}
				}
			}
			w.ok(w.f.Catch(bg))
			want := bayes.NewModel(16)
			for _, m := range list {
				want.Learn(bayes.Read(m.raw, mime.Parse(m.raw, mime.Limits{})), m.expect())
			}
			if !bytes.Equal(w.model(), (&bayes.Memory{Model: want}).Append(nil)) {
				j, g := want.Messages()
				t.Errorf("the model differs from one that learns each message once: %d junk, %d good", j, g)
				w.learned(j, g)
			}
		})
	}
}
