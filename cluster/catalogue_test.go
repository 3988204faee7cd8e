package cluster

import (
	"context"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// TestCatalogueOrder checks that an edit is in the catalogue when it returns, and is never replaced by an older version
// that a concurrent refresh has read.
func TestCatalogueOrder(t *testing.T) {
	t.Parallel()
	ctx, fix := context.Background(), env.TestRealTime(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1})
	must(err)
	defer func() { must(st.Close()) }()
	must(Found(st))
	c := &catalogue{base: &base{store: st}}
	const db = note.DatabaseID(77)
	must(c.enter(ctx, []*Entry{{ID: db, Kind: "mail", Title: "before"}}))
	// The catalogue of a second process life reads the document while it is edited.
	c = &catalogue{base: &base{store: st}}
	edited := make(chan error, 1)
	c.opt.Local = func(*layout.Info) bool { // refresh has read the document, and not entered it
		c.opt.Local = nil
		go func() {
			edited <- c.edit(ctx, db, func(e *Entry) error {
				e.Title = "after"
				return nil
			})
		}()
		select {
		case err := <-edited:
			edited <- err
		case <-time.After(200 * time.Millisecond): // it waits for the refresh
		}
		return false
	}
	must(c.refresh(ctx))
	must(<-edited)
	if got := c.get(db).Title; got != "after" {
		t.Errorf("after the edit the catalogue has the version %q", got)
	}
}
