package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

var (
	owner  = note.Who{Person: note.UNID{1}}
	friend = note.Who{Person: note.UNID{2}}
)

// shared is owner's mail file, with a folder to which friend has a level of access, and friend's copy.
func shared(t *testing.T, base, folder note.Level) (hub, laptop *server, seen, hidden note.UNID) {
	t.Helper()
	hub, laptop = newServer(t, "hub"), newServer(t, "laptop")
	acl := note.ACL{Default: note.NoAccess}.With(note.Entry{ID: owner.Person, Level: note.Manager})
	if base > note.NoAccess {
		acl = acl.With(note.Entry{ID: friend.Person, Level: base})
	} else {
		acl, _ = acl.Marked(friend.Person)
	}
	hub.make(testDB, store.Create{Title: "Mail", Kind: "mail", Owner: owner.Person, ACL: acl})
	laptop.make(testDB, store.Create{Title: "Mail", Kind: "mail", Owner: owner.Person, ACL: acl})
	rng := rand.New(rand.NewPCG(1, 9))
	hub.must(hub.update(testDB, func(w *store.Writer) error {
		if _, err := w.CreateFolder("INBOX", ""); err != nil {
			return err
		}
		f, err := w.CreateFolder("Project", "")
		if err != nil {
			return err
		}
		own := acl.With(note.Entry{ID: friend.Person, Level: folder})
		return w.SetFolderACL(f, &own)
	}))
	hub.deliver(testDB, "INBOX", letter(rng, 60_000))
	hub.deliver(testDB, "Project", letter(rng, 60_000))
	hub.read(testDB, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			hub.must(r.Members(f.Note, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
				n, err := r.Note(id)
				hub.must(err)
				if f.Name == "Project" {
					seen = n.UNID
				} else {
					hidden = n.UNID
				}
				return true
			}))
		}
		return nil
	})
	return hub, laptop, seen, hidden
}

func idOf(t *testing.T, x *server, u note.UNID) (id note.ID) {
	t.Helper()
	x.read(testDB, func(r *store.Reader) (err error) { id, err = r.Find(u); return err })
	return id
}

func (x *server) pull(to *server, who note.Who) (Result, error) {
	return Send(context.Background(), x.svc.As(who), to.side(), testDB, SendOptions{})
}

func (x *server) push(to *server, who note.Who) (Result, error) {
	return Send(context.Background(), x.side(), to.svc.As(who), testDB, SendOptions{})
}

// TestNobody checks that a person without access gets an error from every verb.
func TestNobody(t *testing.T) {
	t.Parallel()
	hub, _, seen, _ := shared(t, note.NoAccess, note.NoAccess)
	stranger := hub.svc.As(note.Who{Person: note.UNID{9}})
	ctx := context.Background()
	ref := store.ObjectRef{Size: 4}
	for verb, fn := range map[string]func() error{
		"hello":  func() error { _, err := stranger.Hello(ctx, testDB, Peer{}); return err },
		"heads":  func() error { _, err := stranger.Heads(ctx, testDB, Query{Scope: All}); return err },
		"wants":  func() error { _, err := stranger.Wants(ctx, testDB, []Head{{UNID: seen}}); return err },
		"notes":  func() error { _, err := stranger.Notes(ctx, testDB, []Ask{{UNID: seen}}, 1000); return err },
		"apply":  func() error { _, err := stranger.Apply(ctx, testDB, &ChangePage{}); return err },
		"graves": func() error { _, err := stranger.Graves(ctx, testDB, []note.UNID{seen}); return err },
		"bury":   func() error { _, err := stranger.Bury(ctx, testDB, Peer{}, []note.UNID{seen}); return err },
		"mark":   func() error { return stranger.Mark(ctx, testDB, Mark{Peer: Peer{1, 2}}) },
		"lacks":  func() error { _, err := stranger.Lacks(ctx, testDB, []store.ObjectRef{ref}); return err },
		"object": func() error { _, err := stranger.Object(ctx, testDB, seen, ref, 0); return err },
		"put":    func() error { return stranger.PutObject(ctx, testDB, ref, 0, strings.NewReader("abcd")) },
		"ledger": func() error { _, err := stranger.Ledger(ctx, testDB, store.Position{}, nil, 1000); return err },
		"page":   func() error { _, err := stranger.ApplyLedger(ctx, testDB, &LedgerPage{}); return err },
	} {
		if err := fn(); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestSharedFolder checks that a person who may read one folder gets its notes, and not even the names of the others.
func TestSharedFolder(t *testing.T) {
	t.Parallel()
	hub, laptop, seen, hidden := shared(t, note.NoAccess, note.Reader)
	hub.must(hub.update(testDB, func(w *store.Writer) error {
		id, err := w.Find(seen)
		if err != nil {
			return err
		}
		if err := w.SetSeen(id, owner.Person, true); err != nil {
			return err
		}
		return w.SetSeen(id, friend.Person, true)
	}))
	r, err := hub.pull(laptop, friend)
	laptop.must(err)
	if p := laptop.places(testDB); r.Added != 2 || len(p) != 1 || len(p["Project"]) != 1 {
		t.Fatalf("%+v %v", r, p)
	}
	laptop.read(testDB, func(rd *store.Reader) error {
		if _, err := rd.Find(hidden); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a hidden note: %v", err)
		}
		n, err := rd.Note(idOf(t, laptop, seen))
		if err != nil || n.SeenBy(owner.Person) || !n.SeenBy(friend.Person) {
			t.Errorf("what others have seen: %v %v", n, err)
		}
		return nil
	})
	side := hub.svc.As(friend)
	ctx := context.Background()
	if p, err := side.Notes(ctx, testDB, []Ask{{UNID: hidden}}, 1000); err != nil || len(p.Notes)+len(p.Refused) != 0 {
		t.Errorf("asked for by name: %+v %v", p, err)
	}
	wants, err := side.Wants(ctx, testDB, []Head{{UNID: hidden}, {UNID: note.UNID{7}}})
	if err != nil || wants[0] != wants[1] {
		t.Errorf("a hidden note and none at all are told apart: %v %v", wants, err)
	}
	// An object is readable only through a note that names it and that the person may read.
	var ref store.ObjectRef
	hub.read(testDB, func(rd *store.Reader) error {
		n, err := rd.Remote(idOf(t, hub, hidden))
		hub.must(err)
		list, err := objectsOf(n)
		ref = list[0]
		return err
	})
	for _, of := range []note.UNID{hidden, seen} {
		if _, err := side.Object(ctx, testDB, of, ref, 0); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the object of a hidden note: %v", err)
		}
	}
}

// TestReaderBringsNothing checks that a reader's changes are rejected, and that replication continues with the other
// notes.
func TestReaderBringsNothing(t *testing.T) {
	t.Parallel()
	hub, laptop, _, hidden := shared(t, note.Reader, note.Reader)
	d := hub.doc(testDB, "as it was")
	_, err := hub.pull(laptop, friend)
	laptop.must(err)
	laptop.edit(testDB, d, "changed")
	mine := laptop.doc(testDB, "mine")
	laptop.must(laptop.update(testDB, func(w *store.Writer) error {
		id, err := w.Find(hidden)
		if err != nil {
			return err
		}
		return w.SetSeen(id, friend.Person, true)
	}))
	r, err := laptop.push(hub, friend)
	laptop.must(err)
	if len(r.Refused) != 2 || r.Refused[0].Kind != "denied" {
		t.Errorf("%+v", r)
	}
	if hub.subject(testDB, d) != "as it was" || hub.subject(testDB, mine) != "" {
		t.Error("a reader changed something")
	}
	hub.read(testDB, func(rd *store.Reader) error {
		n, err := rd.Note(idOf(t, hub, hidden))
		if err != nil || !n.SeenBy(friend.Person) {
			t.Errorf("what a reader has seen is the reader's to say: %v", err)
		}
		return nil
	})
}

// TestEditorBrings checks that an editor's changes are accepted, except those that an editor may not make.
func TestEditorBrings(t *testing.T) {
	t.Parallel()
	hub, laptop, _, _ := shared(t, note.Editor, note.Editor)
	d, gone := hub.doc(testDB, "as it was"), hub.doc(testDB, "to be deleted")
	_, err := hub.pull(laptop, friend)
	laptop.must(err)
	laptop.edit(testDB, d, "changed")
	laptop.must(laptop.update(testDB, func(w *store.Writer) error { return w.Peers.Set(hub.replica(), 0) }))
	laptop.destroy(testDB, gone)
	mine := laptop.doc(testDB, "mine")
	laptop.must(laptop.update(testDB, func(w *store.Writer) error {
		if _, err := w.CreateFolder("new", ""); err != nil {
			return err
		}
		f, err := w.FolderNamed("Project")
		if err != nil {
			return err
		}
		return w.SetFolderACL(f.Note, &note.ACL{Default: note.Manager})
	}))
	rng := rand.New(rand.NewPCG(4, 9))
	laptop.deliver(testDB, "INBOX", letter(rng, 70_000))
	r, err := laptop.push(hub, friend)
	laptop.must(err)
	if len(r.Refused) != 2 {
		t.Errorf("refused: %+v", r.Refused)
	}
	if hub.subject(testDB, d) != "changed" || hub.subject(testDB, mine) != "mine" || hub.subject(testDB, gone) != "" {
		t.Errorf("%q %q %q", hub.subject(testDB, d), hub.subject(testDB, mine), hub.subject(testDB, gone))
	}
	if p := hub.places(testDB); len(p["INBOX"]) != 2 || p["new"] != nil {
		t.Errorf("%v", p)
	}
	hub.read(testDB, func(rd *store.Reader) error {
		f, err := rd.FolderNamed("Project")
		hub.must(err)
		if f.ACL.Default != note.NoAccess {
			t.Errorf("the access list was changed: %+v", f.ACL)
		}
		return nil
	})
	hub.check()
}

// TestMarks checks that a person may register only a few copies and may not change the records of other people's
// copies.
func TestMarks(t *testing.T) {
	t.Parallel()
	hub, laptop, _, _ := shared(t, note.Reader, note.Reader)
	ctx := context.Background()
	side := hub.svc.As(friend)
	_, err := hub.pull(laptop, owner)
	laptop.must(err)
	theirs := Peer{Store: laptop.s.Incarnation(), Replica: laptop.replica()}
	if err := side.Mark(ctx, testDB, Mark{Peer: theirs, Gives: true, Given: 1}); !errors.Is(err, store.ErrDenied) {
		t.Errorf("the mark of somebody else's copy: %v", err)
	}
	if err := side.Mark(ctx, testDB, Mark{Peer: Peer{1, 99}, Gives: true, Given: 1 << 40}); !errors.Is(err, ErrFormat) {
		t.Errorf("a mark beyond everything: %v", err)
	}
	for i := range 3 * maxCopies {
		hub.must(side.Mark(ctx, testDB, Mark{Peer: Peer{1, note.ReplicaID(i + 1)}, Knows: true}))
	}
	list, err := hub.svc.History(ctx)
	hub.must(err)
	mine := 0
	for _, x := range list {
		if x.Person == friend.Person {
			mine++
		}
	}
	if mine != maxCopies || len(list) != maxCopies+1 {
		t.Errorf("%d copies of one person of %d", mine, len(list))
	}
	hub.reopen()
	again, err := hub.svc.History(ctx)
	hub.must(err)
	if !reflect.DeepEqual(again, list) {
		t.Errorf("after a restart\n%+v\n%+v", again, list)
	}
}

// TestForged checks that data from a person is parsed or verified here.
func TestForged(t *testing.T) {
	t.Parallel()
	hub, laptop, _, hidden := shared(t, note.Editor, note.Editor)
	_, err := hub.pull(laptop, friend)
	laptop.must(err)
	ctx := context.Background()
	side := hub.svc.As(friend)
	// A message with a forged summary: lists must show the contents of the message.
	rng := rand.New(rand.NewPCG(8, 8))
	laptop.deliver(testDB, "INBOX", letter(rng, 70_000))
	_, err = Send(ctx, &forger{Side: laptop.side()}, side, testDB, SendOptions{})
	laptop.must(err)
	hub.read(testDB, func(r *store.Reader) error {
		return r.Notes(1, func(id note.ID, n *layout.Note) bool {
			sum, err := r.Summary(nil, id)
			if err != nil || bytes.Contains(sum, []byte("BYE")) {
				t.Errorf("a forged summary was kept: %q %v", sum, err)
			}
			return true
		})
	})
	if len(hub.places(testDB)["INBOX"]) != 2 {
		t.Fatalf("%v", hub.places(testDB))
	}
	// Content under the id of another revision.
	d := hub.doc(testDB, "as it was")
	_, err = hub.pull(laptop, friend)
	laptop.must(err)
	laptop.edit(testDB, d, "changed")
	page, err := laptop.side().Notes(ctx, testDB, []Ask{{UNID: d}}, 1<<20)
	laptop.must(err)
	for _, c := range page.Notes[0].Note.Contents {
		c.Items = c.Items.With("Subject", note.Text("forged"))
	}
	ack, err := side.Apply(ctx, testDB, page)
	if err != nil || len(ack.Refused) != 1 || ack.Refused[0].Kind != "format" || hub.subject(testDB, d) != "as it was" {
		t.Errorf("a forged revision: %+v %v %q", ack, err, hub.subject(testDB, d))
	}
	// An object of somebody else with a known digest: naming it must not grant access.
	var recipe *store.Remote
	hub.read(testDB, func(r *store.Reader) error { recipe, err = r.Remote(idOf(t, hub, hidden)); return err })
	recipe.UNID = note.UNID{44}
	list, err := objectsOf(recipe)
	hub.must(err)
	lacks, err := side.Lacks(ctx, testDB, list)
	if err != nil || len(lacks) != len(list) {
		t.Errorf("a person is told of objects that others brought: %v %v", lacks, err)
	}
	ack, err = side.Apply(ctx, testDB, &ChangePage{Notes: []Change{{Note: recipe}}})
	if err != nil || len(ack.Missing) != len(list) || ack.Added != 0 {
		t.Errorf("a note with an object that was not brought: %+v %v", ack, err)
	}
	hub.read(testDB, func(r *store.Reader) error {
		if _, err := r.Find(recipe.UNID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
		return nil
	})
	// An object from one person must not be used for another.
	put := store.ObjectRef{Digest: note.Digest{}, Size: 3}
	if err := hub.svc.As(owner).PutObject(ctx, testDB, put, 0, strings.NewReader("abc")); !errors.Is(err,
		store.ErrDamaged) {
		t.Errorf("an object under another digest: %v", err)
	}
}

// forger sends its own summaries and notes without an author.
type forger struct{ Side }

func (f *forger) Notes(ctx context.Context, db note.DatabaseID, asks []Ask, most int64) (*ChangePage, error) {
	p, err := f.Side.Notes(ctx, db, asks, most)
	if err == nil {
		for _, c := range p.Notes {
			if len(c.Note.Message) > 0 {
				c.Note.Summary = []byte("\x10)\r\n* BYE gotcha\r\n")
			}
		}
	}
	return p, err
}

// TestStageIsBounded checks that staged objects stay within the memory limit, and that objects without a note expire.
func TestStageIsBounded(t *testing.T) {
	t.Parallel()
	x := newServer(t, "bounded")
	s := &stage{env: x.f.Env, most: 1 << 20, parts: map[stageKey]*staged{}}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		b := make([]byte, 100_000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		ref := store.ObjectRef{Digest: digestOf(b), Size: uint64(len(b))}
		k := stageKey{digest: ref.Digest}
		if err := s.put(k, ref, 0, bytes.NewReader(b)); err != nil || !bytes.Equal(s.take(k, ref), b) {
			t.Fatal(err)
		}
		if s.size > s.most || s.size < 0 {
			t.Fatalf("%d bytes are held", s.size)
		}
	}
	big := store.ObjectRef{Digest: note.Digest{1}, Size: 600_000}
	if err := s.put(stageKey{digest: big.Digest}, big, 0, strings.NewReader("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an object over half of it: %v", err)
	}
	// An interruption: the received bytes are kept, and only their end is accepted as the next offset.
	b := bytes.Repeat([]byte("0123456789"), 40_000)
	ref := store.ObjectRef{Digest: digestOf(b), Size: uint64(len(b))}
	k := stageKey{digest: ref.Digest}
	if err := s.put(k, ref, 0, io.LimitReader(bytes.NewReader(b), 300_001)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if have, done := s.have(k, ref); have != 300_001 || done {
		t.Fatalf("%d %v", have, done)
	}
	if err := s.put(k, ref, 7, bytes.NewReader(b[7:])); !errors.Is(err, ErrFormat) {
		t.Errorf("from elsewhere: %v", err)
	}
	if err := s.put(k, ref, 300_001, bytes.NewReader(b[300_001:])); err != nil || !bytes.Equal(s.take(k, ref), b) {
		t.Errorf("gone on with: %v", err)
	}
	s.mu.Lock()
	s.age(x.f.Env.Clock.Now().Add(keepStaged + time.Second))
	s.mu.Unlock()
	if s.size != 0 || len(s.parts) != 0 {
		t.Errorf("%d bytes are held after %s", s.size, keepStaged)
	}
}

func digestOf(b []byte) note.Digest {
	var d note.Digest
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}
