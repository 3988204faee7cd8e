package mailbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/store"
	"doublet/store/layout"
)

// TestFolderKeywords checks that a folder lists the keywords that its messages have had, however they were set, also
// after a restart.
func TestFolderKeywords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.append("INBOX", "a: b\r\n\r\n", mailbox.Flags{Keywords: []string{"appended"}})
	v := w.open("INBOX")
	one := mailbox.Set{{Start: 1, Stop: 1}}
	store1 := func(mode mailbox.StoreMode, words ...string) {
		t.Helper()
		op := mailbox.StoreOp{Mode: mode, Flags: mailbox.Flags{Keywords: words}}
		_, err := v.Store(w.ctx, one, false, op, func(*mailbox.Message) {})
		w.must(err)
	}
	store1(mailbox.Add, "stored", mailbox.Flagged)
	_, err := v.Copy(w.ctx, one, false, "Archive")
	w.must(err)
	store1(mailbox.Replace)
	w.reopen()
	want := []string{mailbox.Flagged, "appended", "stored"}
	for _, name := range []string{"INBOX", "Archive"} {
		f, err := w.mf.Folder(w.ctx, name)
		if err != nil || !slices.Equal(f.Keywords, want) {
			t.Errorf("%s: %q, want %q: %v", name, f.Keywords, want, err)
		}
	}
	if f, err := w.mf.Folder(w.ctx, "Drafts"); err != nil || f.Keywords != nil {
		t.Error(f.Keywords, err)
	}
	// The list is bounded, but further keywords can still be set.
	for i := range layout.MaxFolderKeywords + 10 {
		w.append("Drafts", "a: b\r\n\r\n", mailbox.Flags{Keywords: []string{fmt.Sprint("k", i)}})
	}
	if f, err := w.mf.Folder(w.ctx, "Drafts"); err != nil || len(f.Keywords) != layout.MaxFolderKeywords ||
		!slices.IsSorted(f.Keywords) {
		t.Error(len(f.Keywords), err)
	}
}

// reopen closes the store and opens it again.
func (w *world) reopen() {
	w.t.Helper()
	w.must(w.s.Close())
	var err error
	w.s, err = store.Open(w.f.Env, "data", store.Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond,
		OnFatal: func(err error) { w.t.Error(err) },
	})
	w.must(err)
	w.svc = mailbox.New(w.s, w.f.Env, mailbox.Options{MessageSize: 1 << 20})
	w.mf = w.svc.File(w.who, w.db)
}
