package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestDataFolderPutBack resets a data folder to an older state, as a snapshot of the machine does, and continues from
// there. Pieces that were backed up in the lost time have the same names and positions as present data. The next
// backups must be whole all the same.
func TestDataFolderPutBack(t *testing.T) {
	t.Parallel()
	fix := env.TestRealTime(t)
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var s *store.Store
	var db note.DatabaseID
	var folder note.ID
	// The machine's randomness is reset with it.
	open := func() { fix.Env.Rand = env.Seeded(9); s = openStore(t, fix.Env, "data") }
	// write stores a message whose length is always the same, and whose content is always different.
	rng := rand.New(rand.NewPCG(3, 4))
	write := func(n int) {
		t.Helper()
		for range n {
			raw := append([]byte("Subject: x\r\n\r\n"), make([]byte, 100_000)...)
			for i := 14; i < len(raw); i++ {
				raw[i] = byte(33 + rng.IntN(90))
			}
			storeMessage(t, s, db, folder, append(raw, "\r\n"...))
		}
	}
	take := func() Generation {
		t.Helper()
		g, err := Take(ctx, fix.Env, s, "backup", Options{})
		must(err)
		return g
	}
	open()
	var err error
	db, err = s.CreateDatabase(note.System, store.Create{Title: "db", Kind: "mail"})
	must(err)
	must(s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Database(db)
		if err == nil {
			folder, err = w.CreateFolder("INBOX", "")
		}
		return err
	}))
	write(5)
	first := take()
	must(s.Close())
	copyFolder(t, fix.Env.FS, "data", "snapshot")
	open()
	write(20)
	take()
	must(s.Close())
	must(fix.Env.FS.RemoveAll("data"))
	copyFolder(t, fix.Env.FS, "snapshot", "data")
	open()
	write(20)
	third := take()
	write(3)
	fourth := take()
	must(s.Close())
	for _, g := range []Generation{first, third, fourth} {
		if _, err := Verify(ctx, fix.Env, "backup", g.Number, Options{}); err != nil {
			t.Errorf("generation %d: %v", g.Number, err)
		}
	}
	if fourth.Copied*2 > fourth.Bytes {
		t.Errorf("the backup after it copied %d of %d bytes", fourth.Copied, fourth.Bytes)
	}
}

func storeMessage(t *testing.T, s *store.Store, db note.DatabaseID, folder note.ID, raw []byte) {
	t.Helper()
	ctx := context.Background()
	msg, err := s.Prepare(ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), store.PartSize))
	if err == nil {
		defer msg.Release()
		err = s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err == nil {
				_, err = w.Create(store.New{Message: msg, Folders: []note.ID{folder}})
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copyFolder copies the present contents of a folder.
func copyFolder(t *testing.T, files env.FS, from, to string) {
	t.Helper()
	names, err := files.List(from)
	err = errors.Join(err, files.MkdirAll(to, 0o700))
	for _, name := range names {
		path := files.PathJoin(from, name)
		info, statErr := files.Stat(path)
		if err = errors.Join(err, statErr); err != nil {
			break
		}
		if info.IsDir() {
			copyFolder(t, files, path, files.PathJoin(to, name))
			continue
		}
		var b bytes.Buffer
		f, openErr := files.Open(path)
		if err = openErr; err != nil {
			break
		}
		_, err = io.Copy(&b, f)
		out, createErr := files.Create(files.PathJoin(to, name), vfs.WriteCategoryUnspecified)
		if err = errors.Join(err, f.Close(), createErr); err != nil {
			break
		}
		_, err = out.Write(b.Bytes())
		if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
