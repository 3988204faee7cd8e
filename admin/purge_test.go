package admin

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"doublet/env"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
)

// TestPurgeFolders checks that Purge deletes the rest of a folder whose deletion a crash interrupted.
func TestPurgeFolders(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	if _, err := s.Run(ctx, note.System, "user add", json.RawMessage(`{"name":"Ada Lovelace","short":"ada"}`),
		nil); err != nil {
		t.Fatal(err)
	}
	i, err := (&Call{System: s.System}).database("ada")
	if err != nil {
		t.Fatal(err)
	}
	var left note.ID
	err = s.Store.Update(ctx, note.System, []note.DatabaseID{i.ID}, func(tx *store.Tx) error {
		w, err := tx.Database(i.ID)
		if err == nil {
			left, err = w.CreateFolder("\x7fdeleted 1", "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Purge(ctx); err != nil {
		t.Error(err)
	}
	_ = s.Store.Read(ctx, note.System, i.ID, func(r *store.Reader) error {
		if f, err := r.Folder(left); err == nil {
			t.Errorf("%+v is left", f)
		}
		return nil
	})
}

// lateClock is a clock that is ahead.
type lateClock struct {
	env.Clock
	by time.Duration
}

// Now implements env.Clock.
func (c lateClock) Now() time.Time { return c.Clock.Now().Add(c.by) }

// TestPurgeEntries checks that Purge destroys removed contacts after 30 days, and not before.
func TestPurgeEntries(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	f := withContact(t, s)
	const book, contacts = groupware.AddressBook, groupware.DefaultContacts
	if err := f.Remove(ctx, book, contacts, "a.vcf", groupware.Condition{}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		days, purged, left int
	}{{29, 0, 1}, {31, 1, 0}} {
		late, then := *s.System, *s.Env
		then.Clock = lateClock{s.Env.Clock, time.Duration(x.days) * 24 * time.Hour}
		late.Env = &then
		out, err := late.Purge(ctx)
		if err != nil || out.Entries != x.purged {
			t.Errorf("after %d days: %+v, %v", x.days, out, err)
		}
		if list, err := f.Removed(ctx); err != nil || len(list) != x.left {
			t.Errorf("after %d days %d entries are left: %v", x.days, len(list), err)
		}
	}
}
