package store_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// These tests check the rules of shared databases one by one. The model test covers them only by chance.

// put creates a mail note in a folder of a node.
func (x *clusterNode) put(folder string) (u note.UNID, id note.ID) {
	x.w.t.Helper()
	u = x.s.UNID()
	m := x.message(u)
	defer m.Release()
	x.update(func(w *store.Writer) error {
		h, err := w.FolderNamed(folder)
		if err == nil {
			id, err = w.Create(store.New{UNID: u, Message: m, Content: items("x"), Folders: []note.ID{h.Note}})
		}
		return err
	})
	return u, id
}

// uid returns the UID of a note in a folder, or 0 if it is not there.
func (x *clusterNode) uid(u note.UNID, folder string) (uid uint32) {
	x.read(func(r *store.Reader) error {
		h, err := r.FolderNamed(folder)
		x.w.must(err)
		return r.Members(h.Note, 1, note.MaxUID, func(n uint32, id note.ID) bool {
			if row, err := r.Row(id); err == nil && row.UNID == u {
				uid = n
			}
			return true
		})
	})
	return uid
}

// vanished returns the UIDs of a folder that are reported as vanished to a client that knows everything up to a MODSEQ.
// all means that the client is told to discard its cache.
func (x *clusterNode) vanished(folder string, since note.ModSeq) (uids []uint32, all bool) {
	x.read(func(r *store.Reader) error {
		h, err := r.FolderNamed(folder)
		x.w.must(err)
		c := r.Counters()
		all = !c.Ledger.Knows(since) || since < c.Floor
		return r.Changes(since, func(_ note.ModSeq, ch layout.Change) bool {
			if ch.Expunged && ch.Folder == h.Note {
				uids = append(uids, ch.UID)
			}
			return true
		})
	})
	return uids, all
}

func (w *clusterWorld) together() {
	for _, x := range w.nodes[1:] {
		if !w.nodes[0].sendLedger(x, 20) {
			w.t.Fatal("a follower does not come up to its home")
		}
	}
}

// TestFollowerDelivers checks that a delivery at a follower works, waits without a number, and is shown when the home
// has numbered it. The follower refuses operations that number for a client.
func TestFollowerDelivers(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 1, false)
	home, other := w.nodes[0], w.nodes[1]
	w.together()
	u, _ := other.put("INBOX")
	err := other.s.Update(w.ctx, note.System, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		_, err := tx.Home(w.db)
		return err
	})
	if !errors.Is(err, store.ErrNotHome) || other.uid(u, "INBOX") != 0 || !other.position().Pending {
		t.Errorf("at the follower it has UID %d: %v", other.uid(u, "INBOX"), err)
	}
	var made [2]note.ID
	for i := range made { // as for mail into a folder that its owner has deleted
		other.update(func(wr *store.Writer) (err error) {
			if made[i], err = wr.CreateFolder("Junk", "Junk"); err == nil {
				_, err = wr.Create(store.New{Folders: []note.ID{made[i]}})
			}
			return err
		})
	}
	if made[0] != made[1] {
		t.Error("the folder was made twice")
	}
	other.sendChanges(home, false)
	w.together()
	for _, x := range w.nodes {
		x.check()
		x.read(func(r *store.Reader) error {
			h, err := r.FolderNamed("Junk")
			if err != nil || h.Total != 2 {
				t.Errorf("node %d: Junk is %+v: %v", x.i, h, err)
			}
			return nil
		})
	}
	if a, b := home.uid(u, "INBOX"), other.uid(u, "INBOX"); a == 0 || a != b {
		t.Errorf("it has UID %d at its home and %d at the follower", a, b)
	}
}

// TestFolderDeletedAtFollower checks that a folder that was deleted at a follower is listed there until its home has
// ended it. It cannot be changed meanwhile: a revision above the deletion would restore it without its contents.
func TestFolderDeletedAtFollower(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 1, false)
	home, other := w.nodes[0], w.nodes[1]
	w.together()
	var b *layout.Folder
	other.read(func(r *store.Reader) (err error) { b, err = r.FolderNamed("B"); return err })
	other.update(func(wr *store.Writer) error { return wr.DeleteFolder(b.Note) })
	for name, change := range map[string]func(wr *store.Writer) error{
		"rename":      func(wr *store.Writer) error { return wr.RenameFolder(b.Note, "C") },
		"access list": func(wr *store.Writer) error { return wr.SetFolderACL(b.Note, &note.ACL{Default: note.Reader}) },
		"special use": func(wr *store.Writer) error { return wr.SetSpecialUse(b.Note, "Junk") },
		"item":        func(wr *store.Writer) error { return wr.SetFolderItem(b.Note, "Colour", note.Text("red"), 0) },
		"subscribe":   func(wr *store.Writer) error { return wr.Subscribe(b.Note, persons[0], true) },
	} {
		if err := other.try(change); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other.sendChanges(home, false)
	w.together()
	for _, x := range w.nodes {
		x.check()
		x.read(func(r *store.Reader) error {
			if _, err := r.FolderNamed("B"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("node %d has the folder: %v", x.i, err)
			}
			return nil
		})
	}
}

// TestFollowerLearnsOfRecents checks that a follower learns what sessions at the home were told of, with the next page
// that concerns the folder, and that the value never decreases.
func TestFollowerLearnsOfRecents(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 1, false)
	home, other := w.nodes[0], w.nodes[1]
	inbox := func(x *clusterNode) (f layout.Folder) {
		x.read(func(r *store.Reader) error {
			h, err := r.FolderNamed("INBOX")
			if err == nil {
				f = *h
			}
			return err
		})
		return f
	}
	home.put("INBOX")
	w.together()
	h := inbox(home)
	if _, err := store.NewRecents(home.s).Claim(w.db, h.Note, h.UIDValidity, h.UIDNext); err != nil {
		t.Fatal(err)
	}
	home.put("A")
	w.together()
	if f := inbox(other); f.Told >= h.UIDNext {
		t.Errorf("the follower knows of %d though no page concerned the folder", f.Told)
	}
	home.put("INBOX")
	w.together()
	f := inbox(other)
	if f.Told != h.UIDNext || f.UIDNext <= f.Told {
		t.Errorf("the follower knows of %d, want %d, UIDNEXT %d", f.Told, h.UIDNext, f.UIDNext)
	}
	if _, err := store.NewRecents(other.s).Claim(w.db, f.Note, f.UIDValidity, f.UIDNext); err != nil {
		t.Fatal(err)
	}
	home.put("INBOX")
	w.together()
	if g := inbox(other); g.Told != f.UIDNext {
		t.Errorf("the follower's own %d became %d", f.UIDNext, g.Told)
	}
}

// TestPages checks that a page that is not the next one changes nothing, nor does one that was applied already.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 3, 1, false)
	home, other := w.nodes[0], w.nodes[1]
	w.together()
	home.put("INBOX")
	first, err := home.page(other, 100)
	w.must(err)
	home.put("A")
	home.sendLedger(w.nodes[2], 20)
	home.put("B")
	second, err := home.page(w.nodes[2], 100)
	w.must(err)
	before := other.position()
	if err := other.take(home, second); !errors.Is(err, store.ErrGap) || other.position().Last != before.Last {
		t.Errorf("a page with a gap before it: %v", err)
	}
	w.must(other.take(home, first))
	at := other.position().Last
	w.must(other.take(home, first))
	if other.position().Last != at || at != first.To {
		t.Errorf("after a page twice it stands at %x", uint64(other.position().Last))
	}
	if err := home.take(home, first); !errors.Is(err, store.ErrParted) {
		t.Errorf("a page at a home: %v", err)
	}
	w.together()
	w.compare()
}

// TestPartialTakeover checks a replica that becomes home in the middle of a run of pages. It does not claim to know
// what a client saw that was further. A note whose latest change has not arrived has its earlier state here.
func TestPartialTakeover(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 1, false)
	home, other := w.nodes[0], w.nodes[1]
	_, x := home.put("INBOX")
	_, y := home.put("INBOX")
	w.together()
	flag := func(id note.ID, on bool) note.ModSeq {
		home.update(func(wr *store.Writer) error { return wr.SetKeyword(id, "k", on) })
		return home.position().Last
	}
	complete := home.position().Last
	flag(x, true)
	seen := flag(y, true)
	flag(x, false)
	p, err := home.page(other, 1)
	w.must(err)
	w.must(other.take(home, p))
	if at := other.position(); !p.More || !at.Partial || at.Last != seen {
		t.Fatalf("it stands at %+v", at)
	}
	w.must(other.s.Lead(w.ctx, w.db, store.LeadOptions{}))
	other.read(func(r *store.Reader) error {
		l := r.Counters().Ledger
		if l.Knows(seen) || !l.Knows(complete) {
			t.Errorf("it knows %x: %v, and %x: %v", uint64(seen), l.Knows(seen), uint64(complete), l.Knows(complete))
		}
		return nil
	})
}

// TestStepDownTellsOfExpunges checks that the next leader reports the expunges of a loser to clients, although the
// winner never saw them.
func TestStepDownTellsOfExpunges(t *testing.T) {
	t.Parallel()
	for _, next := range []int{0, 2} { // the loser itself, and one that has it from the loser, unnumbered
		w := newClusterWorld(t, 3, 1, false)
		loser, winner := w.nodes[0], w.nodes[1]
		u, id := loser.put("INBOX")
		w.together()
		uid, known := loser.uid(u, "INBOX"), loser.position().Last
		w.must(winner.s.Lead(w.ctx, w.db, store.LeadOptions{}))
		loser.update(func(wr *store.Writer) error { return wr.Destroy(id) })
		winner.survive(loser)
		if next != 0 {
			if !winner.sendLedger(w.nodes[next], 20) {
				t.Fatal("the winner's pages do not come")
			}
			loser.sendChanges(w.nodes[next], false)
		}
		x := w.nodes[next]
		x.check()
		w.must(x.s.Lead(w.ctx, w.db, store.LeadOptions{}))
		if gone, all := x.vanished("INBOX", known); !all && !slices.Contains(gone, uid) {
			t.Errorf("node %d: a client that knows UID %d is told that %v vanished", next, uid, gone)
		}
		w.settle()
		w.compare()
	}
}

// TestStepDownKeepsFolders checks that a loser voids the folder that it changed after the common history, and no other:
// the winner numbers a voided folder again, and its clients read it again.
func TestStepDownKeepsFolders(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 1, false)
	loser, winner := w.nodes[0], w.nodes[1]
	w.together()
	numbers := func() map[string]note.ModSeq {
		mods := map[string]note.ModSeq{}
		loser.read(func(r *store.Reader) error {
			for _, f := range r.Folders() {
				row, err := r.Row(f.Note)
				w.must(err)
				mods[f.Name] = row.Mod
			}
			return nil
		})
		return mods
	}
	want := numbers()
	want["A"] = 0
	w.must(winner.s.Lead(w.ctx, w.db, store.LeadOptions{}))
	loser.put("A")
	winner.survive(loser)
	if got := numbers(); !maps.Equal(got, want) {
		t.Errorf("the folders have the numbers %v, want %v", got, want)
	}
	w.settle()
	w.compare()
}

// TestStepDownSaveDate checks that a membership that the loser ended and the winner kept has its save date (RFC 8514)
// again as soon as the winner's pages are here. Until then it is not earlier than the true one: what goes by it, such
// as a search for old messages in Trash, does not find the message too early.
func TestStepDownSaveDate(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 1, false)
	loser, winner := w.nodes[0], w.nodes[1]
	u, id := loser.put("INBOX")
	loser.put("A")
	w.together()
	saved := func(x *clusterNode) (at int64) {
		x.read(func(r *store.Reader) error {
			f, err := r.FolderNamed("INBOX")
			w.must(err)
			n, err := r.Find(u)
			w.must(err)
			row, err := r.Row(n)
			w.must(err)
			m, ok := row.Member(f.Note)
			if !ok {
				t.Errorf("node %d: the message is not in INBOX", x.i)
			}
			at = m.Saved
			return nil
		})
		return at
	}
	want := saved(loser)
	w.clock.Advance(time.Hour)
	w.must(winner.s.Lead(w.ctx, w.db, store.LeadOptions{}))
	loser.update(func(wr *store.Writer) error {
		from, err := wr.FolderNamed("INBOX")
		w.must(err)
		to, err := wr.FolderNamed("A")
		w.must(err)
		_, err = wr.AddTo(id, to.Note)
		w.must(err)
		return wr.RemoveFrom(id, from.Note)
	})
	w.clock.Advance(time.Hour)
	winner.update(func(wr *store.Writer) error { // later than the move: the membership stays
		f, err := wr.FolderNamed("INBOX")
		w.must(err)
		n, err := wr.Find(u)
		w.must(err)
		return wr.MarkDeleted(n, f.Note, true)
	})
	winner.survive(loser)
	if got := saved(loser); got < want {
		t.Errorf("until the winner's pages come it is %d, before %d", got, want)
	}
	w.settle()
	w.compare()
	for _, x := range w.nodes {
		if got := saved(x); got != want {
			t.Errorf("node %d: it is %d, want %d", x.i, got, want)
		}
	}
}

// TestConfirm checks that a change of a database that requires it waits for a mate, and fails if there is none.
func TestConfirm(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.must(m.s.Close())
	o := options()
	var asked []note.DatabaseID
	refuse := errors.New("nobody there")
	var confirm, admit error
	o.Confirm = func(_ context.Context, ids []note.DatabaseID, _ uint64) error { asked = ids; return confirm }
	o.Admit = func(context.Context, []note.DatabaseID) error { return admit }
	var err error
	m.s, err = store.Open(m.f.Env, "data", o)
	m.must(err)
	dbs := make([]*modelDB, 3)
	for i, ack := range []layout.Ack{layout.AckLocal, layout.AckCluster, layout.AckStrict} {
		id, err := m.s.CreateDatabase(note.System, store.Create{Ack: ack})
		m.must(err)
		dbs[i] = &modelDB{id: id}
	}
	create := func(d *modelDB) error {
		asked = nil
		return m.update(func(ws ...*store.Writer) error { _, err := ws[0].Create(store.New{}); return err }, d)
	}
	count := func(d *modelDB) (n uint64) {
		m.read(d, func(r *store.Reader) error { n = r.Counters().Notes; return nil })
		return n
	}
	for i, d := range dbs {
		m.must(create(d))
		if want := i > 0; (len(asked) == 1) != want {
			t.Errorf("%d: asked for %v", i, asked)
		}
	}
	// An unconfirmed change does not wait; the change that the same update makes in another database does.
	asked = nil
	m.must(m.update(func(ws ...*store.Writer) error {
		ws[0].Unconfirmed()
		_, err := ws[0].Create(store.New{})
		_, err2 := ws[1].Create(store.New{})
		return errors.Join(err, err2)
	}, dbs[1], dbs[2]))
	if len(asked) != 1 || asked[0] != dbs[2].id {
		t.Errorf("asked for %v, not for %v alone", asked, dbs[2].id)
	}
	confirm = refuse
	if err := create(dbs[1]); !errors.Is(err, store.ErrUnconfirmed) || count(dbs[1]) != 3 {
		t.Errorf("unconfirmed: %v, %d notes", err, count(dbs[1]))
	}
	m.must(m.s.Replicate(m.ctx, dbs[1].id, func(w *store.Writer) error { _, err := w.Create(store.New{}); return err }))
	// A client that finds the change done by another, but not confirmed yet, waits too.
	for i, d := range dbs[:2] {
		err := m.update(func(...*store.Writer) error { return nil }, d)
		if want := i > 0; errors.Is(err, store.ErrUnconfirmed) != want {
			t.Errorf("%d: nothing changed, nothing confirmed: %v", i, err)
		}
	}
	if admit = refuse; !errors.Is(create(dbs[2]), refuse) || count(dbs[2]) != 2 {
		t.Errorf("refused beforehand, there are %d notes", count(dbs[2]))
	}
	m.must(create(dbs[0]))
}
