package check_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// TestLocked checks a store whose databases have keys that are not given. Their rows are not checked, and nothing else
// is reported because of that. A database is then removed without its key, and nothing of it stays.
func TestLocked(t *testing.T) {
	t.Parallel()
	w := buildKeyed(t, true)
	w.clean(true)
	if err := w.f.FS.Rename(keyFile, "/elsewhere"); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	for _, deep := range []bool{false, true} {
		rep := w.check(deep)
		if !rep.Clean() || !slices.Contains(rep.Locked, w.mail) || !slices.Contains(rep.Locked, w.docs) {
			t.Errorf("locked: %v, findings:\n%s", rep.Locked, list(rep))
		}
	}
	if rep, err := check.Repair(context.Background(), w.s, w.check(false)); err != nil || rep.Applied > 0 {
		t.Errorf("repaired %d rows of locked databases: %v", rep.Applied, err)
	}
	if err := w.s.UnlockDatabase(w.mail, "/elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := w.s.RemoveDatabase(note.System, w.docs); err != nil {
		t.Fatal(err)
	}
	w.clean(true)
	for range 3 {
		if _, err := w.s.Sweep(context.Background(), 1000); err != nil {
			t.Fatal(err)
		}
	}
	w.clean(true)
	if rep := w.check(true); rep.Objects != 1 {
		t.Errorf("%d objects are left, want that of the mail file", rep.Objects)
	}
}

// TestLockedMeanwhile locks databases while they are checked: one between its notes, or both before the shared rows.
// What cannot be opened any more is not damaged.
func TestLockedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, between := range []bool{true, false} {
		w := buildKeyed(t, true)
		lock := func(id note.DatabaseID) {
			if err := w.s.LockDatabase(id); err != nil {
				t.Error(err)
			}
		}
		var want []note.DatabaseID
		if between {
			w.indexing, want = func() { lock(w.docs) }, append(want, w.docs)
		}
		rep, err := check.Run(context.Background(), w.s, check.Options{Deep: true, Progress: func(p check.Progress) {
			if p.Stage == "strays" {
				lock(w.mail)
				lock(w.docs)
			}
		}})
		if err != nil || !rep.Clean() || !slices.Equal(rep.Locked, want) {
			t.Errorf("locked: %v, %v, findings:\n%s", rep.Locked, err, list(rep))
		}
	}
}

// TestKeysStayDuringRepair locks databases and sets keys while they are repaired. Both are refused, and
// nothing is lost.
func TestKeysStayDuringRepair(t *testing.T) {
	t.Parallel()
	w := buildKeyed(t, true)
	first(docs(layout.KindSequence))(w)
	found := w.check(false)
	tried := 0
	w.indexing = func() {
		tried++
		for _, err := range []error{w.s.LockDatabase(w.docs), w.s.LockDatabase(w.mail), w.s.SetKey(w.docs, keyFile),
			w.s.DropKey(w.docs), w.s.UnlockDatabase(w.docs, "")} {
			if !errors.Is(err, store.ErrOutOfService) {
				t.Error("a key changed during the repair: ", err)
			}
		}
	}
	left, err := check.Repair(context.Background(), w.s, found)
	if err != nil || !left.Clean() || left.Lost != nil || tried == 0 {
		t.Fatalf("lost %v, %v, left:\n%s", left.Lost, err, list(left))
	}
	w.indexing = nil
	w.reopen()
	w.clean(true)
	w.serves()
	if err := w.s.LockDatabase(w.docs); err != nil {
		t.Error("not locked after the repair: ", err)
	}
}

// TestRepairOfLockedThatDoesNotOpen starts with databases that are locked and whose counters are damaged. Everything
// else serves; with their keys they are repaired.
func TestRepairOfLockedThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	w := buildKeyed(t, true)
	for _, num := range []uint32{w.num, w.dnum} {
		w.set(layout.Prefix(num, layout.KindCounters), []byte{1})
	}
	if err := w.f.FS.Rename(keyFile, "/elsewhere"); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	if left, err := check.Repair(context.Background(), w.s, w.check(false)); err != nil || left.Applied > 0 ||
		!slices.Equal(left.Locked, []note.DatabaseID{w.mail, w.docs}) {
		t.Errorf("%d rows were changed, locked: %v, %v", left.Applied, left.Locked, err)
	}
	if err := w.f.FS.Rename("/elsewhere", keyFile); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	if left, err := check.Repair(context.Background(), w.s, w.check(false)); err != nil || !left.Clean() {
		t.Fatalf("%v\n%s", err, list(left))
	}
	w.reopen()
	w.clean(true)
	w.serves()
}

// TestLockedWithoutDescription repairs databases whose descriptions, with their keys, are lost or cannot be read. Only
// that is found, and no note is removed: a backup of the description, or the whole of it, brings all back.
func TestLockedWithoutDescription(t *testing.T) {
	t.Parallel()
	w := buildKeyed(t, true)
	var before [2][]byte
	keys := [2][]byte{layout.Prefix(w.num, layout.KindInfo), layout.Prefix(w.dnum, layout.KindInfo)}
	for i, key := range keys {
		_, values := w.rows(key)
		before[i] = values[0]
	}
	w.derive(func(b *pebble.Batch) {
		_ = b.Set(keys[0], []byte{0xFF}, nil)
		_ = b.Delete(keys[1], nil)
	})
	w.reopen()
	rep := w.check(true)
	if len(rep.Findings) != 2 || rep.Findings[0].Kind != check.Info || rep.Findings[1].Kind != check.Info {
		t.Errorf("found:\n%s", list(rep))
	}
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil || left.Applied > 0 || left.Lost != nil {
		t.Errorf("%d rows were changed, lost %v: %v", left.Applied, left.Lost, err)
	}
	carrier, err := w.s.CreateDatabase(note.System, store.Create{Title: "other"})
	if err == nil {
		err = w.s.Derive(carrier, func(_ pebble.Reader, _ uint32, b *pebble.Batch) error {
			return errors.Join(b.Set(keys[0], before[0], nil), b.Set(keys[1], before[1], nil))
		})
	}
	if err == nil {
		err = w.s.RemoveDatabase(note.System, carrier)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.reopen()
	w.clean(true)
	w.serves()
}

// sealedHead returns the part of a sealed row that comes before the nonce, as a range of its value.
func sealedHead(t *testing.T, v []byte) (from, to int) {
	t.Helper()
	_, _, s, ok := layout.ReadSealedRecipe(v)
	if !ok {
		var err error
		if s, err = layout.ReadSealed(v); err != nil {
			t.Fatal("a row is not sealed: ", err)
		}
	}
	to = len(v) - len(s.Text) - len(s.Nonce)
	return to - len(s.Head), to
}

// TestFlippedHeader flips a bit in each byte that a sealed row has before what is encrypted: those of a note, a
// conflict and a message. While the key is given that is damage, and is repaired as such. Without the key nobody can
// tell, and the databases are reported as not checked.
func TestFlippedHeader(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[check.Kind]func(*world) []byte{
		check.ContentRow: docs(layout.KindContent), check.LeafRow: docs(layout.KindLeaf),
		check.Recipe: shared(layout.SpaceRecipe),
	} {
		w := buildKeyed(t, true)
		keys, values := w.rows(prefix(w))
		k, v := keys[0], values[0]
		from, to := sealedHead(t, v)
		flip := func(at int) {
			bad := slices.Clone(v)
			bad[at] ^= 1 << (at % 8)
			w.set(k, bad)
		}
		for at := from; at < to; at++ {
			flip(at)
			rep := w.check(false)
			if len(rep.Locked) > 0 || !slices.ContainsFunc(rep.Findings, func(f check.Finding) bool {
				return f.Kind == name && f.Repairable
			}) {
				t.Errorf("%s: byte %d of %d: locked %v, found:\n%s", name, at, to, rep.Locked, list(rep))
			}
		}
		w.set(k, v)
		w.clean(true)
		flip(from + 2) // the id of the database
		if err := errors.Join(w.s.LockDatabase(w.mail), w.s.LockDatabase(w.docs)); err != nil {
			t.Fatal(err)
		}
		if rep := w.check(false); !rep.Clean() || !slices.Equal(rep.Locked, []note.DatabaseID{w.mail, w.docs}) {
			t.Errorf("%s: locked: %v, found:\n%s", name, rep.Locked, list(rep))
		}
		if err := errors.Join(w.s.UnlockDatabase(w.mail, ""), w.s.UnlockDatabase(w.docs, "")); err != nil {
			t.Fatal(err)
		}
		left, err := check.Repair(context.Background(), w.s, w.check(false))
		if err != nil || !left.Clean() || len(left.Lost) == 0 {
			t.Errorf("%s: lost %v: %v, left:\n%s", name, left.Lost, err, list(left))
		}
		w.reopen()
		w.clean(true)
	}
}

// TestKeyThatWasDropped reads rows of a snapshot from when the database had another key. They are not taken for damaged
// ones.
func TestKeyThatWasDropped(t *testing.T) {
	t.Parallel()
	w := buildKeyed(t, true)
	again := func() {
		ctx := context.Background()
		for _, id := range []note.DatabaseID{w.docs, w.mail} {
			if err := errors.Join(w.s.DropKey(id), w.s.Settle(ctx, id, nil), w.s.SetKey(id, keyFile)); err != nil {
				t.Error(err)
			}
		}
	}
	done := false
	rep, err := check.Run(context.Background(), w.s, check.Options{Progress: func(p check.Progress) {
		if p.Stage == "database" && !done {
			done = true
			again()
		}
	}})
	if err != nil || !rep.Clean() {
		t.Errorf("%v, found:\n%s", err, list(rep))
	}
}
