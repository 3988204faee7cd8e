package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"doublet/note"
	"doublet/store"
)

const testDB note.DatabaseID = 0x77

var people = []note.UNID{{1}, {2}}

// world is a server, copies without slots, and the random changes to them.
type world struct {
	t   *testing.T
	rng *rand.Rand
	all []*server
	n   int
}

// step makes a random change at one of the replicas.
func (w *world) step(x *server) {
	w.n++
	switch op := w.rng.IntN(12); {
	case op < 2:
		w.document(x)
	case op < 4:
		size := 10
		if w.rng.IntN(2) == 0 {
			size = 40_000 + w.rng.IntN(90_000)
		}
		w.onFolder(x, func(name string) { x.deliver(testDB, name, letter(w.rng, size)) })
	case op == 4:
		name := fmt.Sprint("F", w.rng.IntN(6))
		err := x.update(testDB, func(wr *store.Writer) error { _, err := wr.CreateFolder(name, ""); return err })
		w.allow(x, err, store.ErrExists)
	case op == 5:
		w.folder(x)
	default:
		w.change(x)
	}
}

func (w *world) allow(x *server, err error, kinds ...error) {
	w.t.Helper()
	for _, k := range kinds {
		if errors.Is(err, k) {
			return
		}
	}
	x.must(err)
}

func (w *world) onFolder(x *server, fn func(name string)) {
	var names []string
	x.read(testDB, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			names = append(names, f.Name)
		}
		return nil
	})
	if len(names) > 0 {
		fn(names[w.rng.IntN(len(names))])
	}
}

// document creates a document, sometimes with an attachment.
func (w *world) document(x *server) {
	c := note.Content{Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text(fmt.Sprint("document ", w.n))})}
	if w.rng.IntN(2) == 0 {
		b := make([]byte, 1+w.rng.IntN(200_000))
		for i := range b {
			b[i] = byte(w.rng.Uint32())
		}
		o, err := x.s.Attach(context.Background(), b)
		x.must(err)
		defer o.Release()
		c.Attachments = []note.Attachment{{Name: "a", Type: "x/y", Digest: o.Digest, Size: o.Size}}
		x.must(x.update(testDB, func(wr *store.Writer) error {
			wr.Keep(o)
			_, err := wr.Create(store.New{Content: c})
			return err
		}))
		return
	}
	x.must(x.update(testDB, func(wr *store.Writer) error { _, err := wr.Create(store.New{Content: c}); return err }))
}

// folder renames a folder or deletes an empty one.
func (w *world) folder(x *server) {
	w.onFolder(x, func(name string) {
		err := x.update(testDB, func(wr *store.Writer) error {
			f, err := wr.FolderNamed(name)
			if err != nil {
				return err
			}
			if w.rng.IntN(2) == 0 {
				return wr.DeleteFolder(f.Note)
			}
			return wr.RenameFolder(f.Note, fmt.Sprint("R", w.rng.IntN(6)))
		})
		w.allow(x, err, store.ErrExists)
	})
}

// change changes, moves or deletes a note.
func (w *world) change(x *server) {
	var ids []note.ID
	var folders []note.ID
	x.read(testDB, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			folders = append(folders, f.Note)
		}
		return r.Since(0, func(_ uint64, id note.ID) bool {
			if n, err := r.Note(id); err == nil && n.Class == note.Document {
				ids = append(ids, id)
			}
			return true
		})
	})
	if len(ids) == 0 {
		return
	}
	id := ids[w.rng.IntN(len(ids))]
	err := x.update(testDB, func(wr *store.Writer) error {
		n, err := wr.Note(id)
		if err != nil {
			return err
		}
		switch w.rng.IntN(8) {
		case 0, 1:
			c, err := wr.Content(id)
			if err != nil {
				return err
			}
			win, _ := c.Tree.Winner()
			next := c.Content
			next.Items = next.Items.With(fmt.Sprint("I", w.rng.IntN(3)), note.Int(w.rng.Int64N(9)))
			_, err = wr.Revise(id, win.Rev, next, c.Summary)
			return err
		case 2:
			return wr.SetKeyword(id, fmt.Sprint("k", w.rng.IntN(3)), w.rng.IntN(2) == 0)
		case 3:
			return wr.SetSeen(id, people[w.rng.IntN(2)], w.rng.IntN(2) == 0)
		case 4:
			if len(folders) > 0 && n.Recipe != 0 {
				_, err = wr.AddTo(id, folders[w.rng.IntN(len(folders))])
			}
			return err
		case 5:
			if len(n.Members) > 0 {
				return wr.RemoveFrom(id, n.Members[w.rng.IntN(len(n.Members))].Folder)
			}
		case 6:
			if len(n.Members) > 0 {
				return wr.MarkDeleted(id, n.Members[0].Folder, w.rng.IntN(2) == 0)
			}
		case 7:
			if w.rng.IntN(3) == 0 {
				return wr.Destroy(id)
			}
		}
		return nil
	})
	w.allow(x, err, store.ErrExists, store.ErrNotFound)
}

// TestConverge checks that copies become equal to the server. They exchange changes over a line that loses, repeats,
// reorders and truncates messages, until the line is good again and nobody makes changes.
func TestConverge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			converge(t, seed, 120, 0.08)
		})
	}
}

func converge(t *testing.T, seed uint64, steps int, rate float64) {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 21))}
	for _, name := range []string{"hub", "laptop", "second"} {
		x := newServer(t, fmt.Sprint(name, seed))
		x.make(testDB, store.Create{Title: "Mail", Kind: "mail"})
		w.all = append(w.all, x)
	}
	hub := w.all[0]
	x := hub
	x.must(x.update(testDB, func(wr *store.Writer) error { _, err := wr.CreateFolder("INBOX", ""); return err }))
	ctx := context.Background()
	var lines []*lossy
	var fars []*Remote
	for range w.all[1:] {
		far, l := hub.far(note.System, w.rng, rate)
		lines, fars = append(lines, l), append(fars, far)
	}
	o := SendOptions{Most: 20_000, Objects: 150_000}
	sync := func(i int) error {
		_, _, err := Both(ctx, fars[i], w.all[i+1].side(), testDB, o)
		return err
	}
	failed := 0
	for range steps {
		for range 3 {
			w.step(w.all[w.rng.IntN(len(w.all))])
		}
		i := w.rng.IntN(len(fars))
		if err := sync(i); err != nil {
			failed++
			if !errors.Is(err, errLost) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrBusy) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if w.rng.IntN(60) == 0 {
			w.all[1+w.rng.IntN(2)].reopen()
		}
	}
	for i := range lines {
		lines[i].rate = 0
	}
	for range 3 {
		for i := range fars {
			if err := sync(i); err != nil {
				t.Fatalf("seed %d: at rest: %v", seed, err)
			}
		}
	}
	for _, x := range w.all[1:] {
		same(t, fmt.Sprint("seed ", seed), testDB, hub, x)
	}
	for i := range fars {
		a, b, err := Both(ctx, fars[i], w.all[i+1].side(), testDB, o)
		if err != nil || a.Looked+b.Looked+a.Added+b.Added+a.Updated+b.Updated+a.Deleted+b.Deleted != 0 {
			t.Errorf("seed %d: replicas at rest go on: %+v %+v %v", seed, a, b, err)
		}
	}
	for _, x := range w.all {
		x.check()
	}
	t.Logf("seed %d: %d notes, %d syncs failed; line 1: %d lost, %d unanswered, %d repeated, %d reordered, %d cut",
		seed, len(hub.picture(testDB)), failed,
		lines[0].lost, lines[0].unanswered, lines[0].repeated, lines[0].reordered, lines[0].cut)
}
