package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/note"
	"doublet/store"
)

// replicas are databases that exchange whole notes, in any order.
type replicas struct {
	*model
	all []*modelDB
}

func newReplicas(t *testing.T, n int) *replicas {
	r := &replicas{model: newModel(t)}
	for i := range n {
		id, err := r.s.CreateDatabase(note.System, store.Create{Title: fmt.Sprint(i), Kind: "mail"})
		r.must(err)
		r.all = append(r.all, &modelDB{id: id})
	}
	return r
}

// send applies the notes of one replica at another, and returns how many changed there.
func (r *replicas) send(from, to *modelDB, only ...note.UNID) (changed int) {
	r.t.Helper()
	var list []*store.Remote
	r.read(from, func(rd *store.Reader) error {
		return rd.Since(0, func(_ uint64, id note.ID) bool {
			in, err := rd.Remote(id)
			r.must(err)
			if len(only) == 0 || slices.Contains(only, in.UNID) {
				list = append(list, in)
			}
			return true
		})
	})
	before := r.counters(to)
	for _, in := range list {
		r.must(r.update(func(ws ...*store.Writer) error {
			_, err := ws[0].Apply(in, nil)
			return err
		}, to))
	}
	return int(r.counters(to) - before)
}

func (r *replicas) counters(d *modelDB) (seq uint64) {
	r.read(d, func(rd *store.Reader) error { seq = rd.Counters().Seq; return nil })
	return seq
}

// picture returns everything on which replicas must agree.
func (r *replicas) picture(d *modelDB) map[note.UNID]string {
	out := map[note.UNID]string{}
	r.read(d, func(rd *store.Reader) error {
		return rd.Since(0, func(_ uint64, id note.ID) bool {
			in, err := rd.Remote(id)
			r.must(err)
			text := fmt.Sprint(in.Tree, in.State)
			for _, leaf := range in.Tree.Leaves() {
				text += fmt.Sprint(leaf.Rev, leaf.Deleted, in.Contents[leaf.Rev])
			}
			out[in.UNID] = text
			return true
		})
	})
	return out
}

func TestReplication(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		r := newReplicas(t, 3)
		rng := rand.New(rand.NewPCG(seed, 11))
		for _, d := range r.all { // deletion stubs are kept
			r.must(r.update(func(ws ...*store.Writer) error { return ws[0].Peers.Set(1, 0) }, d))
		}
		var unids []note.UNID
		for range 150 {
			d := r.all[rng.IntN(3)]
			if rng.IntN(4) == 0 || len(unids) == 0 {
				u := r.s.UNID()
				unids = append(unids, u)
				r.must(r.update(func(ws ...*store.Writer) error {
					_, err := ws[0].Create(store.New{UNID: u, Content: items("first")})
					return err
				}, d))
				continue
			}
			if rng.IntN(4) == 0 {
				r.send(d, r.all[rng.IntN(3)])
				continue
			}
			r.edit(d, unids[rng.IntN(len(unids))], rng)
		}
		for range 3 {
			for _, a := range r.all {
				for _, b := range r.all {
					r.send(a, b)
				}
			}
		}
		want := r.picture(r.all[0])
		for _, d := range r.all[1:] {
			if got := r.picture(d); !maps.Equal(got, want) {
				t.Fatalf("seed %d: replicas differ:\n%v\n%v", seed, got, want)
			}
		}
		if n := r.send(r.all[0], r.all[1]); n != 0 {
			t.Errorf("seed %d: applying what is there made %d changes: replicas would never rest", seed, n)
		}
		r.check()
	}
}

// edit changes a note if the replica has it.
func (r *replicas) edit(d *modelDB, u note.UNID, rng *rand.Rand) {
	r.must(r.update(func(ws ...*store.Writer) error {
		w := ws[0]
		id, err := w.Find(u)
		if err != nil {
			return ignore(err, store.ErrNotFound)
		}
		if _, err := w.Note(id); err != nil { // a deletion stub
			return ignore(err, store.ErrNotFound)
		}
		c, err := w.Content(id)
		if err != nil {
			return err
		}
		leaves := append(c.Tree.Conflicts(), c.Tree.Leaves()[0])
		next := c.Content
		next.Items = next.Items.With(fmt.Sprint("I", rng.IntN(3)), note.Int(rng.Int64N(50)))
		switch rng.IntN(7) {
		case 0, 1:
			_, err = w.Revise(id, leaves[len(leaves)-1].Rev, next, nil)
		case 2:
			_, err = w.Revise(id, leaves[0].Rev, next, nil)
		case 3:
			err = w.SetKeyword(id, fmt.Sprint("k", rng.IntN(2)), rng.IntN(2) == 0)
		case 4:
			err = w.SetSeen(id, persons[rng.IntN(2)], rng.IntN(2) == 0)
		case 5:
			if d == r.all[0] { // only the home merges
				_, err = w.MergeConflicts(id)
			}
		case 6:
			if rng.IntN(3) == 0 {
				err = w.Destroy(id)
			}
		}
		return err
	}, d))
}

func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// TestStubAndMembership checks that a deletion that did not see a live membership does not remove the content, and that
// one that does not know the content does not restore an empty note.
func TestStubAndMembership(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 2)
	a, b := r.all[0], r.all[1]
	u := r.s.UNID()
	r.must(r.update(func(ws ...*store.Writer) error {
		r.must(ws[0].Peers.Set(1, 0))
		_, err := ws[0].Create(store.New{UNID: u, Content: items("kept")})
		return err
	}, a))
	r.send(a, b)
	r.must(r.update(func(ws ...*store.Writer) error {
		f, err := ws[0].CreateFolder("copied to", "")
		r.must(err)
		id, err := ws[0].Find(u)
		r.must(err)
		_, err = ws[0].AddTo(id, f)
		return err
	}, b))
	r.must(r.update(func(ws ...*store.Writer) error {
		id, err := ws[0].Find(u)
		r.must(err)
		return ws[0].Destroy(id)
	}, a))
	var stub *store.Remote
	r.read(a, func(rd *store.Reader) error {
		id, err := rd.Find(u)
		r.must(err)
		stub, err = rd.Remote(id)
		return err
	})
	r.must(r.update(func(ws ...*store.Writer) error { _, err := ws[0].Apply(stub, nil); return err }, b))
	kept := func(d *modelDB) {
		t.Helper()
		r.read(d, func(rd *store.Reader) error {
			id, err := rd.Find(u)
			r.must(err)
			c, err := rd.Content(id)
			if err != nil || c.Content.Items.Get("Subject").AsText() != "kept" {
				t.Errorf("the note is %v: %v", c, err)
			}
			return nil
		})
	}
	kept(b)
	r.send(b, a, u)
	kept(a)
}

// TestGraves checks that a note that was deleted for good returns neither by replication nor by its UNID.
func TestGraves(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 2)
	a, b := r.all[0], r.all[1]
	u := r.s.UNID()
	r.must(r.update(func(ws ...*store.Writer) error {
		_, err := ws[0].Create(store.New{UNID: u, Content: items("x")})
		return err
	}, a))
	r.send(a, b)
	r.must(r.update(func(ws ...*store.Writer) error {
		id, err := ws[0].Find(u)
		r.must(err)
		return ws[0].Destroy(id)
	}, a))
	var in *store.Remote
	r.read(b, func(rd *store.Reader) error {
		id, err := rd.Find(u)
		r.must(err)
		in, err = rd.Remote(id)
		return err
	})
	err := r.update(func(ws ...*store.Writer) error { _, err := ws[0].Apply(in, nil); return err }, a)
	if !errors.Is(err, store.ErrGrave) {
		t.Error("a buried note was applied: ", err)
	}
	err = r.update(func(ws ...*store.Writer) error { _, err := ws[0].Create(store.New{UNID: u}); return err }, a)
	if !errors.Is(err, store.ErrGrave) {
		t.Error("a buried note was made again: ", err)
	}
}

// TestPruneKeepsAttachments checks that pruning a history with a conflict keeps the conflict's attachment.
func TestPruneKeepsAttachments(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 2)
	a, b := r.all[0], r.all[1]
	u := r.s.UNID()
	obj, err := r.s.Attach(r.ctx, []byte("precious"))
	r.must(err)
	revise := func(d *modelDB, c note.Content) {
		r.must(r.update(func(ws ...*store.Writer) error {
			ws[0].Keep(obj)
			id, err := ws[0].Find(u)
			r.must(err)
			cur, err := ws[0].Content(id)
			r.must(err)
			_, err = ws[0].Revise(id, cur.Tree.Leaves()[0].Rev, c, nil)
			return err
		}, d))
	}
	r.must(r.update(func(ws ...*store.Writer) error {
		_, err := ws[0].Create(store.New{UNID: u, Content: items("x")})
		return err
	}, a))
	r.send(a, b)
	with := items("with")
	with.Attachments = []note.Attachment{{Name: "a", Digest: obj.Digest, Size: obj.Size}}
	revise(b, with)
	revise(a, items("one"))
	revise(a, items("two"))
	r.send(b, a)
	obj.Release()
	r.must(r.update(func(ws ...*store.Writer) error {
		id, err := ws[0].Find(u)
		r.must(err)
		return ws[0].Prune(id, 1)
	}, a))
	r.must(r.s.RemoveDatabase(note.System, b.id))
	_, err = r.s.Sweep(r.ctx, 100)
	r.must(err)
	r.read(a, func(rd *store.Reader) error {
		id, err := rd.Find(u)
		r.must(err)
		c, err := rd.Content(id)
		r.must(err)
		if len(c.Tree.Conflicts()) != 1 || len(c.Tree) != 2 {
			t.Fatalf("tree %v", c.Tree)
		}
		return nil
	})
	r.check()
}

// TestPut creates a note with a UNID once, then writes revisions above the winner, and none above a grave.
func TestPut(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	id, err := m.s.CreateDatabase(note.System, store.Create{})
	m.must(err)
	d := &modelDB{id: id}
	u := note.DeriveUNID([]byte("put"))
	put := func(text string) error {
		return m.update(func(ws ...*store.Writer) error { return ws[0].Put(u, note.Profile, items(text)) }, d)
	}
	for i, text := range []string{"a", "b", "c"} {
		m.must(put(text))
		m.read(d, func(r *store.Reader) error {
			id, err := r.Find(u)
			m.must(err)
			c, err := r.Content(id)
			m.must(err)
			if win, _ := c.Tree.Winner(); win.Rev.Generation != uint64(i+1) ||
				string(c.Content.Items[0].Value) != string(items(text).Items[0].Value) || r.Counters().Notes != 1 {
				t.Errorf("%s: generation %d, %v, %d notes", text, win.Rev.Generation, c.Content.Items,
					r.Counters().Notes)
			}
			return nil
		})
	}
	m.must(m.update(func(ws ...*store.Writer) error {
		id, err := ws[0].Find(u)
		m.must(err)
		return ws[0].Destroy(id)
	}, d))
	m.must(m.s.Maintain(m.ctx, d.id))
	if err := put("d"); !errors.Is(err, store.ErrGrave) {
		t.Errorf("above a grave: %v", err)
	}
}
