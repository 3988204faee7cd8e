package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"doublet/note"
	"doublet/store"
)

// pair is a server and a copy of one of its databases.
func pair(t *testing.T) (hub, laptop *server) {
	t.Helper()
	hub, laptop = newServer(t, "hub"), newServer(t, "laptop")
	for _, x := range []*server{hub, laptop} {
		x.make(testDB, store.Create{Title: "Mail", Kind: "mail"})
	}
	hub.must(hub.update(testDB, func(w *store.Writer) error { _, err := w.CreateFolder("INBOX", ""); return err }))
	return hub, laptop
}

// doc creates a document and returns its UNID.
func (x *server) doc(db note.DatabaseID, subject string) note.UNID {
	x.t.Helper()
	u := x.s.UNID()
	x.must(x.update(db, func(w *store.Writer) error {
		_, err := w.Create(store.New{UNID: u,
			Content: note.Content{Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text(subject)})}})
		return err
	}))
	return u
}

func (x *server) edit(db note.DatabaseID, u note.UNID, subject string) {
	x.t.Helper()
	x.must(x.update(db, func(w *store.Writer) error {
		id, err := w.Find(u)
		if err != nil {
			return err
		}
		c, err := w.Content(id)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		next := c.Content
		next.Items = next.Items.With("Subject", note.Text(subject))
		_, err = w.Revise(id, win.Rev, next, nil)
		return err
	}))
}

func (x *server) destroy(db note.DatabaseID, u note.UNID) {
	x.t.Helper()
	x.must(x.update(db, func(w *store.Writer) error {
		id, err := w.Find(u)
		if err != nil {
			return err
		}
		return w.Destroy(id)
	}))
}

// subject returns the subject of a note, "" if the note does not exist.
func (x *server) subject(db note.DatabaseID, u note.UNID) (out string) {
	x.t.Helper()
	x.read(db, func(r *store.Reader) error {
		id, err := r.Find(u)
		if err != nil {
			return nil
		}
		if c, err := r.Content(id); err == nil {
			out = c.Content.Items.Get("Subject").AsText()
		}
		return nil
	})
	return out
}

func (x *server) send(to *server, o SendOptions) Result {
	x.t.Helper()
	r, err := Send(context.Background(), x.side(), to.side(), testDB, o)
	x.must(err)
	return r
}

func (x *server) both(y *server) (a, b Result) {
	x.t.Helper()
	a, b, err := Both(context.Background(), x.side(), y.side(), testDB, SendOptions{From: x.name, To: y.name})
	x.must(err)
	return a, b
}

// TestOnlyWhatIsMissing checks that a second Send transfers only names and that a change of flags transfers no content.
func TestOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		hub.deliver(testDB, "INBOX", letter(rng, 60_000))
	}
	far, line := hub.far(note.System, rng, 0)
	go1, back, err := Both(context.Background(), far, laptop.side(), testDB, SendOptions{})
	laptop.must(err)
	if go1.Added != 21 || back.Added+back.Updated != 0 || go1.Objects != 20 {
		t.Fatalf("the first time: %+v, %+v", go1, back)
	}
	same(t, "copied", testDB, hub, laptop)
	hub.must(hub.update(testDB, func(w *store.Writer) error {
		return w.SetKeyword(5, "$flagged", true)
	}))
	line.bytes = 0
	go2, back, err := Both(context.Background(), far, laptop.side(), testDB, SendOptions{})
	laptop.must(err)
	if go2.Updated != 1 || go2.Looked != 1 || go2.Added+go2.Objects+back.Updated+back.Added != 0 {
		t.Fatalf("after a flag: %+v, %+v", go2, back)
	}
	if line.bytes > 3000 {
		t.Errorf("a flag took %d bytes", line.bytes)
	}
	same(t, "flagged", testDB, hub, laptop)
	// A message with content that another message already has transfers no object.
	raw := letter(rand.New(rand.NewPCG(5, 5)), 60_000)
	hub.deliver(testDB, "INBOX", raw)
	hub.both(laptop)
	other := []byte(strings.Replace(string(raw), "Subject: ", "Subject: Fwd: ", 1))
	laptop.deliver(testDB, "INBOX", other)
	_, up := hub.both(laptop)
	if up.Added != 1 || up.Objects != 0 {
		t.Errorf("a forwarded attachment: %+v", up)
	}
	same(t, "forwarded", testDB, hub, laptop)
}

// TestDeletions checks that a deletion on one side reaches the other and stays, and that a tombstone is dropped once
// both sides have it.
func TestDeletions(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	a, b, c := hub.doc(testDB, "a"), hub.doc(testDB, "b"), hub.doc(testDB, "c")
	hub.both(laptop)
	hub.destroy(testDB, a)
	laptop.destroy(testDB, b)
	laptop.edit(testDB, c, "edited")
	hub.destroy(testDB, c)
	hub.both(laptop)
	hub.both(laptop)
	for _, x := range []*server{hub, laptop} {
		if x.subject(testDB, a)+x.subject(testDB, b) != "" {
			t.Errorf("%s: a deleted note is there", x.name)
		}
		if got := x.subject(testDB, c); got != "edited" {
			t.Errorf("%s: an edit is to beat a deletion: %q", x.name, got)
		}
	}
	same(t, "deleted", testDB, hub, laptop)
	for _, x := range []*server{hub, laptop} {
		x.must(x.s.Maintain(context.Background(), testDB))
		x.read(testDB, func(r *store.Reader) error {
			if _, err := r.Find(a); !errors.Is(err, store.ErrGrave) {
				t.Errorf("%s: a deletion that everybody has passed is still a stub: %v", x.name, err)
			}
			return nil
		})
	}
	hub.both(laptop)
	same(t, "buried", testDB, hub, laptop)
}

// TestGraveBeforeMeeting checks that a note deleted for good before two replicas first met is deleted at the other too.
func TestGraveBeforeMeeting(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	a, b := hub.doc(testDB, "a"), hub.doc(testDB, "b")
	hub.both(laptop)
	third := newServer(t, "third")
	third.make(testDB, store.Create{Title: "Mail", Kind: "mail"})
	laptop.both(third)
	// The hub has no record of the third replica, so it keeps nothing for it.
	hub.destroy(testDB, a)
	hub.both(laptop)
	for _, x := range []*server{hub, laptop} {
		x.must(x.s.Maintain(context.Background(), testDB))
	}
	third.edit(testDB, b, "edited by the third")
	hub.both(third)
	if hub.subject(testDB, a)+third.subject(testDB, a) != "" {
		t.Error("a note that was deleted for good is there")
	}
	if got := hub.subject(testDB, b); got != "edited by the third" {
		t.Errorf("an edit: %q", got)
	}
}

// TestEditMeetsGrave checks that an edit of a note that was deleted for good survives as a new note.
func TestEditMeetsGrave(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	a, b := hub.doc(testDB, "a"), hub.doc(testDB, "b")
	hub.both(laptop)
	laptop.must(laptop.svc.Forget(context.Background(), testDB, hub.replica()))
	hub.must(hub.svc.Forget(context.Background(), testDB, laptop.replica()))
	hub.destroy(testDB, a)
	hub.destroy(testDB, b)
	// As if the laptop had been silent for long: the hub keeps no deletions for it.
	hub.must(hub.update(testDB, func(w *store.Writer) error { return w.Peers.Set(laptop.replica(), 1<<40) }))
	hub.must(hub.s.Maintain(context.Background(), testDB))
	laptop.edit(testDB, a, "what I wrote on the plane")
	hub.both(laptop)
	hub.both(laptop)
	for _, x := range []*server{hub, laptop} {
		if x.subject(testDB, a)+x.subject(testDB, b) != "" {
			t.Errorf("%s: a buried note is there", x.name)
		}
		found := 0
		x.read(testDB, func(r *store.Reader) error {
			return r.Since(0, func(_ uint64, id note.ID) bool {
				if c, err := r.Content(id); err == nil &&
					c.Content.Items.Get("Subject").AsText() == "what I wrote on the plane" &&
					c.Content.Items.Get("$Conflict").AsText() == a.String() {
					found++
				}
				return true
			})
		})
		if found != 1 {
			t.Errorf("%s: the edit is there %d times", x.name, found)
		}
	}
	same(t, "edited", testDB, hub, laptop)
}

func (x *server) replica() note.ReplicaID {
	info, err := x.s.Info(testDB)
	x.must(err)
	return info.Replica
}

// clone returns a server on a copy of x's disk, as after a crash.
func (x *server) clone(name string) *server {
	x.t.Helper()
	c := &server{t: x.t, name: name, f: x.f.Crash(0, 9), cache: x.cache}
	c.open()
	x.t.Cleanup(func() { _ = c.s.Close() })
	return c
}

// TestRestore checks that a server restored from an old backup gets back what the copy has and loses no newer changes.
// A restored copy gets back what it lost, including deletions.
func TestRestore(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	a, gone := hub.doc(testDB, "a"), hub.doc(testDB, "gone")
	hub.both(laptop)
	old, oldLaptop := hub.clone("restored"), laptop.clone("restored laptop")
	for range 3 { // its sequence numbers exceed those at which the backup continues
		hub.reopen()
	}
	hub.edit(testDB, a, "newer")
	b := hub.doc(testDB, "b")
	hub.destroy(testDB, gone)
	c := laptop.doc(testDB, "c")
	hub.both(laptop)
	for _, x := range []*server{hub, laptop} {
		x.must(x.s.Maintain(context.Background(), testDB)) // the tombstone is dropped
	}
	// The hub's machine is lost and its backup started.
	old.must(old.s.Rebranch())
	d := old.doc(testDB, "d")
	down, up := old.both(laptop)
	if !down.Restored {
		t.Errorf("nobody noticed that the server was restored: %+v %+v", down, up)
	}
	old.both(laptop)
	if laptop.subject(testDB, d) != "d" {
		t.Error("what the restored server wrote was passed over")
	}
	if got := old.subject(testDB, a); got != "newer" {
		t.Errorf("the restored server has %q", got)
	}
	if old.subject(testDB, b) != "b" || old.subject(testDB, c) != "c" || old.subject(testDB, gone) != "" {
		t.Errorf("the restored server lacks what the copy has: %q %q %q", old.subject(testDB, b),
			old.subject(testDB, c), old.subject(testDB, gone))
	}
	same(t, "server restored", testDB, old, laptop)
	// The same for the laptop.
	oldLaptop.must(oldLaptop.s.Rebranch())
	down, _ = old.both(oldLaptop)
	if !down.Restored {
		t.Errorf("nobody noticed that the laptop was restored: %+v", down)
	}
	old.both(oldLaptop)
	if oldLaptop.subject(testDB, gone) != "" {
		t.Error("a deletion that was passed long ago is undone by a restore")
	}
	same(t, "laptop restored", testDB, old, oldLaptop)
	old.check()
	oldLaptop.check()
}

// TestRolledBack checks that a store whose files were set back unnoticed is detected by its sequence numbers, and that
// nothing written afterwards is skipped.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	hub.both(laptop)
	old := hub.clone("rolled back")
	for range 3 { // each start continues above all numbers of the one before
		hub.reopen()
	}
	lost := hub.doc(testDB, "made before the rollback")
	hub.both(laptop)
	mine := old.doc(testDB, "made after the rollback")
	down, _ := old.both(laptop)
	if !down.Restored || !down.Compared || laptop.subject(testDB, mine) == "" {
		t.Errorf("a rollback was not found: %+v", down)
	}
	old.both(laptop)
	if old.subject(testDB, lost) == "" {
		t.Error("what the copy has did not come back")
	}
	same(t, "rolled back", testDB, old, laptop)
}

// TestCloned checks that two stores with copies of the same files are rejected.
func TestCloned(t *testing.T) {
	t.Parallel()
	hub, _ := pair(t)
	copied := hub.clone("copy")
	_, err := Send(context.Background(), hub.side(), copied.side(), testDB, SendOptions{})
	if !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "file copy of the other") {
		t.Errorf("%v", err)
	}
}

// TestPoison checks that a note that cannot be read or applied is set aside and reported while the others are
// transferred, and that it is transferred once it is good.
func TestPoison(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	rng := rand.New(rand.NewPCG(2, 2))
	for range 10 {
		hub.deliver(testDB, "INBOX", letter(rng, 50_000))
	}
	good := hub.doc(testDB, "good")
	p := &poisoner{Side: hub.side()}
	r, err := Send(context.Background(), p, laptop.side(), testDB, SendOptions{})
	laptop.must(err)
	if len(r.Refused) != 2 || r.Added != 10 || laptop.subject(testDB, good) != "good" {
		t.Fatalf("%+v", r)
	}
	for _, x := range r.Refused {
		if x.Kind != "mismatch" && x.Kind != "not found" || x.UNID.IsZero() || x.Text == "" {
			t.Errorf("set aside: %+v", x)
		}
	}
	// The note is still bad: it is reported again, and only it is retried.
	r, err = Send(context.Background(), p, laptop.side(), testDB, SendOptions{})
	laptop.must(err)
	if len(r.Refused) != 2 || r.Looked != 2 {
		t.Fatalf("the second time: %+v", r)
	}
	p.healed = true
	r, err = Send(context.Background(), p, laptop.side(), testDB, SendOptions{})
	laptop.must(err)
	if len(r.Refused) != 0 || r.Added != 2 {
		t.Fatalf("mended: %+v", r)
	}
	same(t, "mended", testDB, hub, laptop)
	r = hub.send(laptop, SendOptions{})
	if r.Looked != 0 {
		t.Errorf("what was taken is tried again: %+v", r)
	}
}

// poisoner corrupts the recipe of one message and the object of another.
type poisoner struct {
	Side
	healed bool
	n      int
	recipe note.UNID
	object note.UNID
}

func (p *poisoner) Notes(ctx context.Context, db note.DatabaseID, asks []Ask, most int64) (*ChangePage, error) {
	page, err := p.Side.Notes(ctx, db, asks, most)
	if err != nil || p.healed {
		return page, err
	}
	for _, c := range page.Notes {
		if len(c.Note.Message) == 0 {
			continue
		}
		if p.n++; p.n == 3 {
			p.recipe = c.Note.UNID
		}
		if p.n == 5 {
			p.object = c.Note.UNID
		}
		if c.Note.UNID == p.recipe {
			c.Note.Message = slices.Clone(c.Note.Message)
			c.Note.Message[len(c.Note.Message)-4] ^= 1 // in the text after the attachment
		}
		if c.Note.UNID == p.object {
			for rev, content := range c.Note.Contents {
				next := *content
				next.Attachments = []note.Attachment{{Name: "x", Digest: note.Digest{9}, Size: 5}}
				c.Note.Contents[rev] = &next
			}
		}
	}
	return page, nil
}

// TestTooManyRefused checks that a general failure ends the Send and is not treated as many bad notes.
func TestTooManyRefused(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	for i := range maxAside + 20 {
		hub.doc(testDB, fmt.Sprint(i))
	}
	_, err := Send(context.Background(), allBad{hub.side()}, laptop.side(), testDB, SendOptions{})
	if !errors.Is(err, ErrTooManyRefused) {
		t.Fatal(err)
	}
	if r := hub.send(laptop, SendOptions{}); r.Added != maxAside+21 {
		t.Errorf("%+v", r)
	}
}

type allBad struct{ Side }

func (b allBad) Notes(_ context.Context, _ note.DatabaseID, asks []Ask, _ int64) (*ChangePage, error) {
	p := &ChangePage{}
	for _, a := range asks {
		p.Refused = append(p.Refused, Refused{UNID: a.UNID, Kind: "damaged", Text: "bad"})
	}
	return p, nil
}

// TestSelection checks that a copy receives only selected notes, and that notes it has are kept up to date.
func TestSelection(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	hub.must(hub.update(testDB,
		func(w *store.Writer) error { _, err := w.CreateFolder("Archive/2020", ""); return err }))
	rng := rand.New(rand.NewPCG(3, 3))
	for range 3 {
		hub.deliver(testDB, "INBOX", letter(rng, 100))
		hub.deliver(testDB, "Archive/2020", letter(rng, 100))
	}
	hub.deliver(testDB, "INBOX", letter(rng, 90_000))
	hub.doc(testDB, "in no folder")
	inbox := SendOptions{Select: Selection{Folders: []string{"INBOX"}, MaxSize: 50_000}}
	r := hub.send(laptop, inbox)
	if p := laptop.places(testDB); len(p["INBOX"]) != 3 || len(p["Archive/2020"]) != 0 || r.Added != 5 {
		t.Fatalf("%+v %v", r, p)
	}
	// A message that moves out of the selection leaves its folder in the copy too.
	hub.must(hub.update(testDB, func(w *store.Writer) error {
		in, err := w.FolderNamed("INBOX")
		if err != nil {
			return err
		}
		out, err := w.FolderNamed("Archive/2020")
		if err != nil {
			return err
		}
		var id note.ID
		if err := w.Members(in.Note, 1, note.MaxUID, func(_ uint32,
			n note.ID) bool {
			id = n
			return false
		}); err != nil {
			return err
		}
		if _, err := w.AddTo(id, out.Note); err != nil {
			return err
		}
		return w.RemoveFrom(id, in.Note)
	}))
	hub.send(laptop, inbox)
	if p := laptop.places(testDB); len(p["INBOX"]) != 2 || len(p["Archive/2020"]) != 1 {
		t.Fatalf("moved: %v", p)
	}
	// A wider selection brings the notes that were excluded.
	hub.send(laptop, SendOptions{Select: Selection{Folders: []string{"INBOX", "Archive"}}})
	if p := laptop.places(testDB); len(p["INBOX"]) != 3 || len(p["Archive/2020"]) != 4 {
		t.Fatalf("widened: %v", p)
	}
	hub.send(laptop, SendOptions{})
	same(t, "everything", testDB, hub, laptop)
	dated := Selection{Since: 1_800_000_000}
	c := chosen{Selection: &dated}
	if c.takes(&store.Remote{Class: note.Document, Date: 1_700_000_000}) ||
		!c.takes(&store.Remote{Class: note.Document, Date: 1_800_000_001}) ||
		!c.takes(&store.Remote{Class: note.Folder}) {
		t.Error("a selection by date")
	}
}

// TestReseed checks that a database of any size is copied page by page with reports of progress, and that an
// interrupted copy resumes.
func TestReseed(t *testing.T) {
	t.Parallel()
	hub, laptop := pair(t)
	rng := rand.New(rand.NewPCG(4, 4))
	x := hub
	raw := letter(rng, 400_000)
	x.deliver(testDB, "INBOX", raw)
	for i := range 20 {
		x.must(x.update(testDB, func(w *store.Writer) error {
			for j := range 200 {
				items := note.MakeItems(note.Item{Name: "Subject", Value: note.Text(fmt.Sprint(i, j))},
					note.Item{Name: "Body", Value: note.Text(strings.Repeat("x", 500))})
				if _, err := w.Create(store.New{Content: note.Content{Items: items}}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	var told []Progress
	ctx, cancel := context.WithCancel(context.Background())
	o := SendOptions{Most: 50_000, Progress: func(p Progress) {
		if told = append(told, p); p.Done > 2500 && p.Done < 3500 {
			cancel()
		}
	}}
	_, err := Send(ctx, hub.side(), laptop.side(), testDB, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = func(p Progress) { told = append(told, p) }
	r, err := Send(context.Background(), hub.side(), laptop.side(), testDB, o)
	laptop.must(err)
	last := told[len(told)-1]
	if r.Looked > 4000-1900 || last.Total < 4000 || len(told) < 5 {
		t.Errorf("it began again: %d looked at; told %d times, last %+v", r.Looked, len(told), last)
	}
	same(t, "reseeded", testDB, hub, laptop)
	if laptop.svc.stage.size != 0 {
		t.Errorf("%d bytes of objects are still held", laptop.svc.stage.size)
	}
}
