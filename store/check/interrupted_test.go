package check_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
)

// watched calls a function each time that it is asked for its error, as each pass of a repair does.
type watched struct {
	context.Context
	asked func()
}

func (w watched) Err() error {
	w.asked()
	return w.Context.Err()
}

// unclean checks the store and returns the findings. Without any, no repair would begin.
func (w *world) unclean() check.Report {
	w.t.Helper()
	rep := w.check(false)
	if rep.Clean() {
		w.t.Fatal("there is nothing to repair")
	}
	return rep
}

// interrupted repairs the store, and goes on with the store as it is after a power cut at the first moment of the
// passes at which when returns true.
func (w *world) interrupted(when func() bool) {
	w.t.Helper()
	rep := w.unclean()
	var after *env.Fixture
	if _, err := check.Repair(watched{context.Background(), func() {
		if after == nil && when() {
			// What was written before this is durable after it.
			if err := w.s.SetInfo(note.System, w.docs, func(*layout.Info) {}); err != nil {
				w.t.Fatal(err)
			}
			after = w.f.Crash(0, 1)
		}
	}}, w.s, rep); err != nil || after == nil {
		w.t.Fatal(after, err)
	}
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.f = after
	w.open()
}

// miscount breaks the counters of the mail database. mended reports whether they have been repaired.
func (w *world) miscount() (mended func() bool) {
	key := layout.Prefix(w.num, layout.KindCounters)
	_, sound := w.rows(key)
	editCounters(func(c *layout.Counters) { c.Notes += 7 })(w)
	return func() bool {
		_, v := w.rows(key)
		return bytes.Equal(v[0], sound[0])
	}
}

// repaired repairs the store to the end.
func (w *world) repaired() {
	w.t.Helper()
	left, err := check.Repair(context.Background(), w.s, w.unclean())
	if err != nil || !left.Clean() {
		w.t.Fatalf("%v\n%s", err, list(left))
	}
	w.reopen()
	w.clean(true)
}

// TestInterruptedRepair checks that a repair puts databases back into service that earlier repairs, which were
// interrupted, have taken out, whether anything else was left to repair or not.
func TestInterruptedRepair(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("all is repaired: ", late), func(t *testing.T) {
			t.Parallel()
			w := build(t)
			mended := w.miscount()
			w.interrupted(func() bool { return true })
			w.interrupted(func() bool { return mended() == late })
			for _, f := range w.check(false).Findings {
				if !f.Repairable {
					t.Errorf("not repairable: %s", f)
				}
			}
			w.repaired()
			w.serves()
		})
	}
}

// TestCheckBesideRepair checks that a check reports no database as out of service while a repair runs, and that no
// other repair begins.
func TestCheckBesideRepair(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.miscount()
	out := 0
	left, err := check.Repair(watched{context.Background(), func() {
		info, err := w.s.Info(w.docs)
		if err != nil {
			t.Fatal(err)
		}
		if info.State == layout.OutOfService {
			out++
		}
		rep := w.check(false)
		for _, f := range rep.Findings {
			if f.Kind == check.Info {
				t.Errorf("while a repair runs: %s", f)
			}
		}
		if _, err := check.Repair(context.Background(), w.s, rep); !errors.Is(err, store.ErrOutOfService) {
			t.Errorf("a repair beside another one: %v", err)
		}
	}}, w.s, w.unclean())
	if err != nil || !left.Clean() || out == 0 {
		t.Fatalf("%v, seen %d times\n%s", err, out, list(left))
	}
	w.reopen()
	w.clean(true)
	w.serves()
}

// TestInterruptedRepairKeepsStates checks that interrupted repairs change no other state than being in service.
func TestInterruptedRepairKeepsStates(t *testing.T) {
	t.Parallel()
	w := build(t)
	closed, err := w.s.CreateDatabase(note.System, store.Create{Title: "closed", Kind: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	for id, change := range map[note.DatabaseID]func(*layout.Info){
		w.docs: func(i *layout.Info) { i.Remove(w.f.Clock.Now()) },
		closed: func(i *layout.Info) { i.State, i.Reason = layout.OutOfService, "set so by an administrator" },
	} {
		if err := w.s.SetInfo(note.System, id, change); err != nil {
			t.Fatal(err)
		}
	}
	want, err := w.s.Databases()
	if err != nil {
		t.Fatal(err)
	}
	mended := w.miscount()
	w.interrupted(func() bool { return true })
	w.interrupted(mended)
	w.repaired()
	got, err := w.s.Databases()
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	for i := range got {
		if got[i].State != want[i].State || got[i].Reason != want[i].Reason {
			t.Errorf("%s is %s: %q, want %s: %q", got[i].Title, got[i].State, got[i].Reason, want[i].State,
				want[i].Reason)
		}
	}
}

// TestInterruptedRepairOfWhatDoesNotOpen checks the same for a database that the next repair cannot open at first, and
// for one that is missing in the list.
func TestInterruptedRepairOfWhatDoesNotOpen(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.miscount()
	w.interrupted(func() bool { return true })
	unlisted, num := w.docs, w.num
	if w.mail < w.docs {
		unlisted, num = w.mail, w.dnum
	}
	w.del(layout.NumberKey(layout.SpaceDatabase, uint64(unlisted)))
	w.set(layout.Prefix(num, layout.KindCounters), []byte{1})
	w.reopen()
	w.repaired()
	w.serves()
}
