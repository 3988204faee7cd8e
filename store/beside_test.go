package store

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// TestBeside checks that readers beside another one see its moment and its person's notes, on other goroutines.
func TestBeside(t *testing.T) {
	t.Parallel()
	s, err := Open(env.Test(t).Env, "data", damageOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	db, err := s.CreateDatabase(note.System, Create{Title: "db", Kind: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	small := []byte("Subject: small\r\n\r\ntext\r\n")
	large := append([]byte("Content-Type: application/octet-stream\r\n\r\n"),
		bytes.Repeat([]byte("0123456789 "), 8000)...)
	var ids []note.ID
	for _, raw := range [][]byte{small, large} {
		m, err := s.Prepare(ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), PartSize))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		if err := s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			id, err := w.Create(New{Message: m})
			ids = append(ids, id)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	see := func(r *Reader) {
		for range 5 {
			for i, want := range [][]byte{small, large} {
				row, err := r.Note(ids[i])
				if err != nil {
					t.Error(err)
					return
				}
				st, err := r.Message(row)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := st.AppendRange(nil, 0, st.Size())
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("message %d: %d bytes, %v", i, len(got), err)
				}
				whole, ok := st.Whole()
				if ok != (i == 0) || ok && !bytes.Equal(whole, want) {
					t.Errorf("message %d: whole is %v with %d bytes", i, ok, len(whole))
				}
			}
		}
	}
	if err := s.Read(ctx, note.System, db, func(r *Reader) error {
		// A note that was deleted after the moment of the reader.
		if err := s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return w.Destroy(ids[0])
		}); err != nil {
			return err
		}
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() { Beside(r, see) })
		}
		see(r)
		running.Wait()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	closed := func(i *layout.Info) { i.ACL = note.ACL{Default: note.NoAccess} }
	if err := s.SetInfo(note.System, db, closed); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(ctx, note.Who{Person: note.UNID{1}}, db, func(r *Reader) error {
		Beside(r, func(x *Reader) {
			if _, err := x.Note(ids[1]); err == nil {
				t.Error("a stranger reads a note beside")
			}
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
