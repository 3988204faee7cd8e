package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"doublet/note"
	"doublet/store/layout"
	"doublet/store/object"
	"doublet/wire/mime"
)

// neighbours adds documents with attachments to the database Open, none of which has a word of Own. Files then hold
// what is of both. Between them tables are flushed, so that the engine uses files of its log again.
func (w *keyWorld) neighbours(n int) {
	w.t.Helper()
	for i := range n {
		o, err := w.s.Attach(context.Background(), []byte(strings.Repeat(fmt.Sprint("straw ", i), 300)), w.open)
		w.must(err)
		w.must(w.update(w.open, func(wr *Writer) error {
			wr.Keep(o)
			_, err := wr.Create(New{Content: w.document(o, strings.Repeat("straw ", 100))})
			return err
		}))
		o.Release()
		if i%2 == 0 {
			w.must(w.s.eng.Flush())
		}
	}
}

// newEraseWorld returns a store in which Own was encrypted with what it has, and files still hold its words.
func newEraseWorld(t *testing.T) *keyWorld {
	t.Helper()
	w := newKeyWorld(t)
	w.neighbours(3)
	w.fill(w.own)
	w.neighbours(6)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.must(w.s.Settle(context.Background(), w.own, nil))
	if found := w.anywhere(); len(found) != 3 {
		t.Fatalf("files hold only %q before anything is erased", found)
	}
	return w
}

// anywhere returns those of the words of Own that a file under the data folder holds.
func (w *keyWorld) anywhere() (found []string) {
	w.t.Helper()
	for _, name := range filesOf(w.t, w.f.FS, "data") {
		b := contentOf(w.t, w.f, name)
		for _, word := range []string{keyWord, keyLarge, keyFile} {
			if bytes.Contains(b, []byte(word)) && !slices.Contains(found, word) {
				found = append(found, word)
				w.t.Log(name, "holds", word)
			}
		}
	}
	return found
}

// gone reports an error if a file holds a word of Own, now or after the store was closed, or if something was lost.
func (w *keyWorld) gone() {
	w.t.Helper()
	if found := w.anywhere(); found != nil {
		w.t.Errorf("files hold %q", found)
	}
	w.holds(w.own)
	documents := 0
	w.must(w.s.Read(context.Background(), note.System, w.open, func(r *Reader) error {
		return r.Notes(0, func(id note.ID, _ *layout.Note) bool {
			c, err := r.Content(id)
			w.must(err)
			_, err = r.Object(id, c.Content.Attachments[0].Digest, nil)
			w.must(err)
			documents++
			return true
		})
	}))
	if documents != 9 {
		w.t.Errorf("the other database has %d documents", documents)
	}
	w.must(w.s.Close())
	if found := w.anywhere(); found != nil {
		w.t.Errorf("files of the closed store hold %q", found)
	}
}

func (w *keyWorld) erase(ctx context.Context, step func()) error {
	return Erase(ctx, w.s, func(string, uint64) { step() })
}

// TestErase encrypts a database. The files still hold its words then, and none does after Erase. Another Erase, also
// after a start, has nothing to do.
func TestErase(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.must(w.erase(context.Background(), func() {}))
	w.gone()
	w.start()
	w.must(w.erase(context.Background(), func() { t.Error("erased again") }))
	w.holds(w.own)
	w.must(w.s.Close())
}

// TestEraseGoesOn interrupts Erase before each of its steps, also with a start after it. The next one goes on.
func TestEraseGoesOn(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	runs := 1
	for ; ; runs++ {
		ctx, cancel := context.WithCancel(context.Background())
		left := runs
		err := w.erase(ctx, func() {
			if left--; left == 0 {
				cancel()
			}
		})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if runs%2 == 0 {
			w.restart()
		}
	}
	if runs < 4 {
		t.Errorf("%d runs are too few", runs)
	}
	w.gone()
}

// TestEraseOfWhatIsUsed erases while a snapshot or a backup keeps what was there before. It says so, and finishes when
// they have ended.
func TestEraseOfWhatIsUsed(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.s.keep.RLock()
	if err := w.erase(context.Background(), func() {}); !errors.Is(err, ErrUnerased) {
		t.Error("erased during a backup: ", err)
	}
	w.s.keep.RUnlock()
	snap := w.s.eng.NewSnapshot()
	ctx, cancel := context.WithTimeout(context.Background(), 3*awaitStep)
	if err := w.erase(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("erased what a snapshot sees: ", err)
	}
	cancel()
	w.must(snap.Close())
	w.must(w.erase(context.Background(), func() {}))
	w.gone()
}

// TestEraseMeetsEncrypt encrypts another database while what the first one held is erased. That is erased by the next
// run.
func TestEraseMeetsEncrypt(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	other := w.create("Other")
	w.fill(other)
	done := false
	err := w.erase(context.Background(), func() {
		if !done {
			done = true
			w.must(w.s.SetKey(other, "own.key"))
			w.must(w.s.Settle(context.Background(), other, nil))
		}
	})
	if !errors.Is(err, ErrUnerased) {
		t.Error("all is said to be erased: ", err)
	}
	w.must(w.erase(context.Background(), func() {}))
	w.holds(other)
	w.gone()
}

// TestEraseOfAnotherIncarnation restores a store, which may bring back what its record says was erased.
func TestEraseOfAnotherIncarnation(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.must(w.erase(context.Background(), func() {}))
	w.s.incarnation++
	steps := 0
	w.must(w.erase(context.Background(), func() { steps++ }))
	if steps == 0 {
		t.Error("nothing is erased in the restored store")
	}
	w.s.incarnation--
	w.gone()
}

// refused checks that Erase waits before a stage for what is used, until ctx has ended.
func (w *keyWorld) refused(before string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*awaitStep)
	defer cancel()
	err := Erase(ctx, w.s, func(stage string, _ uint64) {
		if stage == before {
			w.t.Errorf("erase came to %s", stage)
		}
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		w.t.Error("erased what is used: ", err)
	}
}

// TestEraseMeetsDelivery erases while a delivery has the message that Own had in plain. The message is erased when the
// delivery has ended without it.
func TestEraseMeetsDelivery(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	raw := keyMessage()
	m, err := w.s.Prepare(context.Background(), raw,
		mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), PartSize))
	w.must(err)
	w.refused("segments")
	m.Release()
	w.must(w.erase(context.Background(), func() {}))
	w.gone()
}

// TestSweepPassesOver sweeps one row at a time while the list has rows of what is still used. It comes to the end.
func TestSweepPassesOver(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.must(scan(w.s.eng, layout.Key(layout.SpaceObject), func(k, _ []byte) error {
		return w.s.eng.Set(layout.SweepObject(note.Digest(k[1:])), nil, nil)
	}))
	w.must(scan(w.s.eng, layout.Key(layout.SpaceRecipe), func(k, _ []byte) error {
		return w.s.eng.Set(layout.SweepRecipe(note.RecipeID(layout.Tail64(k))), nil, nil)
	}))
	for n := 1; n > 0; {
		var err error
		n, err = w.s.Sweep(context.Background(), 1)
		w.must(err)
	}
	if none, err := w.s.empty(layout.Key(layout.SpaceSweep)); err != nil || !none {
		t.Error("rows are left: ", err)
	}
	w.holds(w.own)
	w.must(w.s.Close())
}

// TestEraseOfRemovedDatabase removes the database after it was encrypted. What it had in plain is erased all the same.
func TestEraseOfRemovedDatabase(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.must(w.s.RemoveDatabase(note.System, w.own))
	w.restart()
	w.must(w.erase(context.Background(), func() {}))
	if found := w.anywhere(); found != nil {
		t.Errorf("files hold %q", found)
	}
	w.must(w.erase(context.Background(), func() { t.Error("erased again") }))
	w.must(w.s.Close())
}

// TestEraseOfOpenSegments erases while a reader has the segments from before open. Their files are erased when it has
// ended.
func TestEraseOfOpenSegments(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.must(w.s.obj.Seal())
	var readers []object.Source
	for _, seg := range w.s.obj.Segments() {
		r, err := w.s.obj.OpenSegment(seg.ID)
		w.must(err)
		readers = append(readers, r)
	}
	w.refused("rows")
	for _, r := range readers {
		w.must(r.Close())
	}
	w.must(w.erase(context.Background(), func() {}))
	w.gone()
}

// TestEraseThenPowerCut cuts the power directly after Erase. No file that it removed comes back.
func TestEraseThenPowerCut(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t)
	w.must(w.erase(context.Background(), func() {}))
	before := w.s
	w.f = w.f.Crash(0, 1)
	w.must(before.Close())
	if found := w.anywhere(); found != nil {
		t.Errorf("after a power cut files hold %q", found)
	}
	w.start()
	w.must(w.erase(context.Background(), func() { t.Error("erased again") }))
	w.gone()
}

// TestEraseKeepsFloor rewrites segments while there is space for some of them only, from files and from copies. It
// stays above the floor, and goes on when there is space.
func TestEraseKeepsFloor(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprint("away ", away), func(t *testing.T) {
			t.Parallel()
			const floor = 1 << 20
			ctx := context.Background()
			m := newTierModel(t, 0)
			m.must(m.s.Close())
			m.reopen(func(o *Options) {
				o.FloorBytes, o.FloorPercent = floor, 0
				if !away {
					o.Tier.Cache = 1 << 40
				}
			})
			for range 3 {
				m.create()
				m.create()
				m.must(m.s.Objects().Seal())
			}
			m.must(m.s.ShipSegments(ctx))
			ids := slices.Sorted(maps.Keys(m.mails))
			for pair := range slices.Chunk(ids, 2) { // more than half of each segment stays
				short := pair[0]
				if len(m.mails[short]) > len(m.mails[pair[1]]) {
					short = pair[1]
				}
				m.remove(short)
			}
			x := &eraser{s: m.s, ctx: ctx, progress: func(string, uint64) {}}
			m.must(x.sweep())
			stays, err := m.s.live(ctx)
			m.must(err)
			sizes := slices.Sorted(maps.Values(stays))
			if len(sizes) != 3 {
				t.Fatalf("%v bytes of segments stay", sizes)
			}
			begun := int64(m.s.obj.Stats().StoredBytes)
			appended := func() int64 { return int64(m.s.obj.Stats().StoredBytes) - begun }
			m.f.Faults.SetSpace(floor + 5000)
			if err := x.segments(); !errors.Is(err, ErrNoSpace) || appended() != 0 {
				t.Errorf("%d bytes were appended without space: %v", appended(), err)
			}
			room := sizes[2] + sizes[0]/2
			m.f.Faults.SetSpace(floor + room)
			err = x.segments()
			if got := appended(); got == 0 || away && got > room || away != errors.Is(err, ErrNoSpace) {
				t.Errorf("%d bytes were appended, with space for %d: %v", got, room, err)
			}
			m.f.Faults.SetSpace(1 << 30)
			m.must(x.segments())
			m.readAll()
			m.must(m.s.Close())
		})
	}
}
