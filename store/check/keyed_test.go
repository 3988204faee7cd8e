package check_test

import (
	"context"
	"slices"
	"testing"

	"doublet/note"
	"doublet/store/check"
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
