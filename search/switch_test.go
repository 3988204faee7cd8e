package search

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/test/long"
)

// flip switches the full text of a database off or on.
func (w *world) flip(db note.DatabaseID, off bool) {
	w.t.Helper()
	if err := w.s.SetInfo(note.System, db, func(i *layout.Info) { i.NoFullText = off }); err != nil {
		w.t.Fatal(err)
	}
}

// TestSwitchModel switches the full text of a database off and on, between random changes, restarts and power cuts.
// The answers are always those of brute force, and the index ends without the database, or with all of it.
func TestSwitchModel(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.reopen([]int{1, 12, 128}[seed%3])
			w.run()
			g := &asks{&writer{rand.New(rand.NewPCG(seed, 11))}}
			dbs := []note.DatabaseID{w.database(kindMail), w.database(kindMail)}
			live := map[note.DatabaseID][]note.ID{}
			compare := func(round int, moment string) {
				t.Helper()
				for i := range 6 {
					n := g.query(2)
					w.same(dbs[i%2], n, fmt.Sprintf("round %d, %s: %s", round, moment, describe(n)))
				}
			}
			for round := range long.Pick(6, 16) {
				for range 30 {
					w.change(g, dbs, live)
				}
				off := round%2 == 1
				w.flip(dbs[0], off)
				compare(round, "switched")
				for range 10 {
					w.change(g, dbs, live)
				}
				w.interrupt(g.rng, seed*100+uint64(round))
				compare(round, "on its way")
				w.catch()
				compare(round, "done")
				st, err := w.svc.Status(w.ctx)
				if want := map[bool]int{true: 1}[off]; err != nil || st.Off != want || st.Databases != 2-want {
					t.Errorf("round %d, off is %v: %+v, %v", round, off, st, err)
				}
			}
		})
	}
}

// interrupt goes on, restarts, or cuts the power and starts again, at random.
func (w *world) interrupt(rng *rand.Rand, seed uint64) {
	switch rng.IntN(3) {
	case 0:
		return
	case 1:
		w.close()
	default:
		after := w.f.Crash(50, seed)
		w.stop()
		w.s.Close()
		w.f = after
	}
	w.open()
	w.run()
}

// TestSwitchBetweenSteps checks that a build which missed changes while its database was off does not stay: the feed is
// read after the switch, before the worker looks at the description, and the database is on again when it does.
func TestSwitchBetweenSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database("directory")
	h := w.hand()
	person := func(name string) note.Content {
		return note.Content{Items: note.MakeItems(note.Item{Name: "FullName", Value: note.Text(name)})}
	}
	var p note.ID
	w.update(db, func(x *store.Writer) (err error) {
		p, err = x.Create(store.New{Content: person("Old Name")})
		return err
	})
	h.all()
	if got := w.verdict(db, "nobody", p); got != No {
		t.Fatalf("the index does not know the note: the verdict is %d", got)
	}
	w.flip(db, true)
	w.update(db, func(x *store.Writer) error {
		c, err := x.Content(p)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		_, err = x.Revise(p, win.Rev, person("New Name"), nil)
		return err
	})
	if _, err := h.k.read(w.ctx); err != nil {
		t.Fatal(err)
	}
	if h.state(db).Active != nil {
		t.Error("the cursor passed a change that the build lacks, and the build is there")
	}
	w.found(db, "new", p)
	w.flip(db, false)
	h.all()
	w.found(db, "new", p)
	w.found(db, "old")
	if s := h.state(db); s.Active == nil || !s.Active.Done || s.Active.Notes != 1 {
		t.Errorf("on again, the database is not indexed: %+v", s.Active)
	}
}

// TestSwitchForgets checks that nothing of a database that was switched off stays in the index, attachments that wait
// for being read included, and that a rebuild does not bring it back.
func TestSwitchForgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	id := w.deliver(withODT("plain body", "hidden treasure"), day, db)[0]
	h.all()
	w.flip(db, true)
	w.svc.Rebuild(db)
	h.all()
	if s := h.state(db); s.Active != nil || s.Next != nil {
		t.Errorf("%+v", s)
	}
	late := 0
	if err := h.x.Lates(func(note.DatabaseID, uint32, note.ID) bool { late++; return true }); err != nil || late > 0 {
		t.Errorf("%d notes wait for their attachments, %v", late, err)
	}
	w.found(db, "treasure", id)
	w.found(db, "body:plain", id)
	h.all() // the query asked for the database to be indexed
	if s := h.state(db); s.Active != nil {
		t.Errorf("%+v", s.Active)
	}
}
