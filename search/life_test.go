package search

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/search/index"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
)

// hand runs the steps of an index one by one.
type hand struct {
	*world
	k *worker
	x *index.Index
}

func (w *world) hand() *hand {
	w.t.Helper()
	x, err := w.svc.open()
	if err != nil {
		w.t.Fatal(err)
	}
	w.svc.idx.Store(x)
	h := &hand{w, newWorker(w.svc, x), x}
	if err := h.k.begin(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.stop = func() {
		w.svc.idx.Store(nil)
		if err := x.Close(); err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
	return h
}

// all runs all pending steps except for attachments.
func (h *hand) all() {
	h.t.Helper()
	for more := true; more; {
		if err := h.k.errands(h.ctx); err != nil {
			h.t.Fatal(err)
		}
		var err error
		if more, err = h.k.read(h.ctx); err != nil {
			h.t.Fatal(err)
		}
		built, err := h.k.build(h.ctx)
		if err != nil {
			h.t.Fatal(err)
		}
		more = more || built
	}
	for {
		db, ok := h.k.merges.take()
		if !ok {
			return
		}
		if err := h.k.merges.one(h.ctx, db); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hand) state(db note.DatabaseID) *index.State {
	h.t.Helper()
	s, err := h.x.State(db)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// ask runs Query for the text of a search box.
func (w *world) ask(db note.DatabaseID, s string) []note.ID {
	w.t.Helper()
	n, err := query.Parse(s, query.Context{Now: w.f.Clock.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := w.svc.Query(w.ctx, note.System, db, Request{Query: n.Node()})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []note.ID
	for _, h := range got.Hits {
		out = append(out, h.ID)
	}
	return out
}

func (w *world) found(db note.DatabaseID, s string, want ...note.ID) {
	w.t.Helper()
	if got := w.ask(db, s); !slices.Equal(got, want) {
		w.t.Errorf("%s: %v, want %v", s, got, want)
	}
}

// verdict returns the answer of the index alone for a word.
func (w *world) verdict(db note.DatabaseID, word string, id note.ID) Answer {
	w.t.Helper()
	var out Answer
	w.read(db, func(r *store.Reader) error {
		v, err := w.svc.Find(w.ctx, r, []*query.Text{query.Phrase(text.Any, word)})
		out = v[0].On(id)
		return err
	})
	return out
}

func mail(subject, body string) string {
	return "From: Ann <ann@example.com>\r\nTo: Bob <bob@example.org>\r\nSubject: " + subject +
		"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + body + "\r\n"
}

func withODT(body, attached string) string {
	return "From: a@example.com\r\nSubject: with attachment\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" +
		"--b\r\n\r\n" + body +
		"\r\n--b\r\nContent-Type: application/vnd.oasis.opendocument.text\r\n" +
		"Content-Disposition: attachment; filename=x.odt\r\nContent-Transfer-Encoding: base64\r\n\r\n" + odt(attached) +
		"\r\n--b--\r\n"
}

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestAttachmentsLater checks that the words of attachments are indexed later than those of the message, and are found
// nevertheless.
func TestAttachmentsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	id := w.deliver(withODT("plain body", "hidden treasure"), day, db)[0]
	other := w.deliver(mail("none", "nothing here"), day, db)[0]
	h.all()
	if got := w.verdict(db, "treasure", id); got != Ask {
		t.Errorf("while the attachment waits the verdict is %d", got)
	}
	if got := w.verdict(db, "treasure", other); got != No {
		t.Errorf("on a message without attachment it is %d", got)
	}
	w.found(db, "treasure", id)
	w.found(db, "body:treasure body", id)
	w.found(db, "has:attachment", id)
	w.found(db, "-treasure", other)
	a, seen := newAnalyser(), recipes{}
	if ok, err := h.k.attachments.one(w.ctx, lateNote{db, h.state(db).Active.ID, id}, a, &seen); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := w.verdict(db, "treasure", id); got != Yes {
		t.Errorf("once it is read the verdict is %d", got)
	}
	w.found(db, "treasure plain", id)
	if v := h.state(db).Active; v.Records != 1 {
		t.Errorf("%+v", v)
	}
}

// TestDocuments changes, adds and removes notes that are not mail.
func TestDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database("directory")
	h := w.hand()
	person := func(name string) note.Content {
		return note.Content{Items: note.MakeItems(note.Item{Name: "Form", Value: note.Text("Person")},
			note.Item{Name: "FullName", Value: note.TextList(name, "Alias "+name)},
			note.Item{Name: "InternetAddress", Value: note.Text(strings.ToLower(name[:3]) + "@example.com")},
			note.Item{Name: "HTTPPassword", Value: note.Text("secret")})}
	}
	var id note.ID
	w.update(db, func(x *store.Writer) (err error) {
		id, err = x.Create(store.New{Content: person("Annette Müller")})
		return err
	})
	h.all()
	w.found(db, "muller", id)
	w.found(db, "from:example", id)
	w.found(db, "secret")
	revise := func(c note.Content) {
		w.update(db, func(x *store.Writer) error {
			had, err := x.Content(id)
			if err != nil {
				return err
			}
			win, _ := had.Tree.Winner()
			_, err = x.Revise(id, win.Rev, c, nil)
			return err
		})
	}
	revise(person("Berta Schmidt"))
	// Before and after the index has read it.
	for range 2 {
		w.found(db, "muller")
		w.found(db, "schmidt", id)
		if got := w.verdict(db, "muller", id); got == Yes {
			t.Error("what the index knows of a note that changes is not sure")
		}
		h.all()
	}
	gone := person("Berta Schmidt")
	gone.Items = gone.Items.With("Removed", note.Int(1))
	revise(gone)
	w.found(db, "schmidt")
	h.all()
	w.found(db, "schmidt")
	revise(person("Carla"))
	h.all()
	w.found(db, "carla", id)
	w.same(db, &query.Node{Op: query.OpText, Text: query.Phrase(text.Any, "alias")}, "alias")
}

// TestOtherMessage checks a note whose message is not the one that was indexed, which replication can cause. The words
// of the old message are not found, and those of the new one are.
func TestOtherMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	ids := []note.ID{w.deliver(mail("one", "apple"), day, db)[0], w.deliver(withODT("plain", "treasure"), day, db)[0]}
	h.all()
	flag := func(on bool) {
		w.update(db, func(x *store.Writer) error {
			return errors.Join(x.SetKeyword(ids[0], "$flagged", on), x.SetKeyword(ids[1], "$flagged", on))
		})
		h.all()
	}
	flag(true)
	if b := h.state(db).Active; b.Again || b.Records != 0 || b.Notes != 2 {
		t.Fatalf("a flag makes the index read again: %+v", b)
	}
	// Make the index as if both notes had held other messages before.
	if err := h.x.Update(func(u *index.Writer) error {
		s, err := u.State(db)
		if err != nil {
			return err
		}
		b := s.Active
		if err := u.Pack(db, b); err != nil {
			return err
		}
		a := newAnalyser()
		for i, text2 := range []string{"banana split", "cherry"} {
			p := a.document(&text.Document{Stretches: []text.Stretch{text.Make(text.Body, text2)},
				HasAttachment: i == 0}).piece()
			p.Note = ids[i]
			u.Put(db, b, p)
			u.Keep(db, b, ids[i], note.RecipeID(1000+i))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		w.found(db, "banana")
		w.found(db, "cherry")
		w.found(db, "apple", ids[0])
		w.found(db, "treasure plain", ids[1])
		w.found(db, "has:attachment", ids[1])
	}
	w.update(db, func(x *store.Writer) error {
		return errors.Join(x.SetKeyword(ids[0], "$flagged", false), x.SetKeyword(ids[1], "$flagged", false))
	})
	check() // before the index has read it
	h.all()
	check()
	if b := h.state(db).Active; !b.Again {
		t.Errorf("%+v", b)
	}
	if ok, err := h.k.attachments.one(w.ctx, lateNote{db, h.state(db).Active.ID, ids[1]}, newAnalyser(),
		&recipes{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	check()
	// After a merge only the latest piece remains.
	for range 3 {
		if err := h.x.Update(func(u *index.Writer) error {
			s, err := u.State(db)
			if err != nil {
				return err
			}
			s.Active.Gone = 1000
			return u.Pack(db, s.Active)
		}); err != nil {
			t.Fatal(err)
		}
		if err := h.k.merges.one(w.ctx, db); err != nil {
			t.Fatal(err)
		}
		check()
	}
	if b := h.state(db).Active; len(b.Segments) != 1 || b.Segments[0].Docs != 3 {
		t.Errorf("%+v", b)
	}
}

// TestRebuild rebuilds an index while mail arrives.
func TestRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := &asks{&writer{rand.New(rand.NewPCG(5, 5))}}
	db, other := w.database(kindMail), w.database(kindMail)
	live := map[note.DatabaseID][]note.ID{}
	h := w.hand()
	for range 300 {
		w.change(g, []note.DatabaseID{db}, live)
	}
	h.all()
	before := h.state(db).Active.ID
	w.svc.Rebuild(0)
	if err := h.k.errands(w.ctx); err != nil {
		t.Fatal(err)
	}
	if s := h.state(db); s.Next == nil || s.Active.ID != before || h.state(other).Next == nil {
		t.Fatalf("%+v", s)
	}
	steps := 0
	for h.state(db).Next != nil {
		for range 7 {
			w.change(g, []note.DatabaseID{db}, live)
		}
		if _, err := h.k.read(w.ctx); err != nil {
			t.Fatal(err)
		}
		if got := h.state(db).Active.ID; got != before {
			t.Fatalf("build %d answers before it is whole", got)
		}
		n := g.text()
		w.same(db, n, describe(n))
		if _, err := h.k.build(w.ctx); err != nil {
			t.Fatal(err)
		}
		if steps++; steps > 1000 {
			t.Fatal("it does not end")
		}
	}
	if s := h.state(db); s.Active.ID == before || !s.Active.Done || steps < 1 {
		t.Errorf("after %d steps %+v", steps, s.Active)
	}
	for range 20 {
		n := g.query(2)
		w.same(db, n, describe(n))
	}
	h.all()
	for range 20 {
		n := g.query(2)
		w.same(db, n, describe(n))
	}
	// Nothing of the old build remains in the index.
	left := 0
	if err := h.x.Lates(func(d note.DatabaseID, build uint32, _ note.ID) bool {
		if d == db && build == before {
			left++
		}
		return true
	}); err != nil || left > 0 {
		t.Errorf("%d rows of the old build are left, %v", left, err)
	}
}

// TestOutOfService checks that the index catches up with changes in a database that could not be read for a while.
func TestOutOfService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db, dir := w.database(kindMail), w.database("directory")
	h := w.hand()
	a := w.deliver(mail("one", "apple"), day, db)[0]
	var p note.ID
	w.update(dir, func(x *store.Writer) (err error) {
		p, err = x.Create(store.New{Content: note.Content{Items: note.MakeItems(note.Item{Name: "FullName",
			Value: note.Text("Old Name")})}})
		return err
	})
	h.all()
	b := w.deliver(mail("two", "banana"), day.Add(time.Hour), db)[0]
	w.update(dir, func(x *store.Writer) error {
		c, err := x.Content(p)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		_, err = x.Revise(p, win.Rev,
			note.Content{Items: note.MakeItems(note.Item{Name: "FullName", Value: note.Text("New Name")})}, nil)
		return err
	})
	for _, id := range []note.DatabaseID{db, dir} {
		if err := w.s.SetInfo(note.System, id, func(i *layout.Info) { i.State = layout.OutOfService }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.k.read(w.ctx); err != nil {
		t.Fatal(err)
	}
	if s := h.state(db); s.Active.Done || s.Active.Seq == 0 {
		t.Errorf("%+v", s.Active)
	}
	if more, err := h.k.build(w.ctx); err != nil || more {
		t.Fatal("it is tried at once", more, err)
	}
	for _, id := range []note.DatabaseID{db, dir} {
		if err := w.s.SetInfo(note.System, id, func(i *layout.Info) { i.State = layout.InService }); err != nil {
			t.Fatal(err)
		}
	}
	w.found(db, "banana", b)
	w.found(dir, "new", p)
	h.all()
	if got := w.verdict(db, "banana", b); got != Yes {
		t.Errorf("the verdict is %d", got)
	}
	w.found(db, "apple OR banana", b, a)
	w.found(dir, "new", p)
	w.found(dir, "old")
	if s := h.state(dir); !s.Active.Done {
		t.Errorf("%+v", s.Active)
	}
}
