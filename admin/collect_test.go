package admin

import (
	"context"
	"encoding/json"
	"testing"

	"doublet/note"
	"doublet/store"
)

// TestCollectFolders checks that Collect deletes the rest of a folder whose deletion a crash interrupted.
func TestCollectFolders(t *testing.T) {
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
	if _, err := s.Collect(ctx); err != nil {
		t.Error(err)
	}
	_ = s.Store.Read(ctx, note.System, i.ID, func(r *store.Reader) error {
		if f, err := r.Folder(left); err == nil {
			t.Errorf("%+v is left", f)
		}
		return nil
	})
}
