package check_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
)

// TestCut flips a byte at many places in tables and blob files. Repair must cut out what cannot be read, and report it.
// The rest must be clean, in service, and unchanged.
func TestCut(t *testing.T) {
	t.Parallel()
	base, dbs := cutWorld(t)
	var files []string
	names, err := base.Mem.List("/data/notes")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") || strings.HasSuffix(n, ".blob") {
			files = append(files, "/data/notes/"+n)
		}
	}
	cut, lost := 0, 0
	for _, name := range files {
		info, err := base.Mem.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		places := 5
		if strings.HasSuffix(name, ".blob") {
			places = 2 // the engine takes long to report a bad block
		}
		for i := range places {
			f := base.Crash(0, 1)
			at := info.Size() * (2*int64(i) + 1) / int64(2*places)
			flipByte(t, f, name, at)
			c, l := cutOne(t, f, dbs, fmt.Sprintf("%s at %d of %d", name, at, info.Size()))
			cut, lost = cut+c, lost+l
		}
	}
	t.Logf("%d ranges cut, %d databases without their own record", cut, lost)
	if cut == 0 {
		t.Error("no damage was cut")
	}
}

const cutNotes = 400

func cutStore(f *env.Fixture) (*store.Store, error) {
	return store.Open(f.Env, "/data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 8 << 20,
		CacheSize: 1 << 20, OnFatal: func(error) {}})
}

func cutWorld(t *testing.T) (*env.Fixture, []note.DatabaseID) {
	f := env.TestRealTime(t)
	s, err := cutStore(f)
	if err != nil {
		t.Fatal(err)
	}
	var dbs []note.DatabaseID
	for n := range 4 {
		db, err := s.CreateDatabase(note.System, store.Create{Title: fmt.Sprint("db ", n), Kind: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		dbs = append(dbs, db)
		err = s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			folder, err := w.CreateFolder("INBOX", "")
			for i := 0; i < cutNotes && err == nil; i++ {
				text := fmt.Sprintf("%x", noise(100+i, uint64(i)))
				_, err = w.Create(store.New{Content: note.Content{Items: items(text[:50], text)},
					Folders: []note.ID{folder}})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return f, dbs
}

func flipByte(t *testing.T, f *env.Fixture, name string, at int64) {
	t.Helper()
	file, err := f.Mem.OpenReadWrite(name, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := file.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// cutOne repairs a damaged store and checks what is left.
func cutOne(t *testing.T, f *env.Fixture, dbs []note.DatabaseID, what string) (cuts, lost int) {
	t.Helper()
	s, err := cutStore(f)
	if err != nil {
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		return 0, 0
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
	}()
	ctx := context.Background()
	rep, err := check.Run(ctx, s, check.Options{})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if rep.Clean() {
		return 0, 0
	}
	rep, err = check.Repair(ctx, s, rep)
	if err != nil {
		t.Errorf("%s: repair: %v", what, err)
		return 0, 0
	}
	gone := map[note.DatabaseID]int{}
	for _, l := range rep.Lost {
		gone[l.Database]++
		if l.Note == 0 {
			cuts++
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: close: %v", what, err)
	}
	if s, err = cutStore(f); err != nil {
		t.Errorf("%s: open after the repair: %v", what, err)
		return cuts, 0
	}
	rep, err = check.Run(ctx, s, check.Options{Deep: true})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	broken := map[note.DatabaseID]bool{}
	for _, f := range rep.Findings {
		if f.Kind != check.Info {
			t.Errorf("%s: left: %s", what, f)
		}
		broken[f.Database] = true
	}
	for _, db := range dbs {
		if broken[db] {
			lost++
			continue
		}
		n := 0
		err := s.Read(ctx, note.System, db, func(r *store.Reader) error {
			h, err := r.Folder(1)
			if err == nil {
				n = int(h.Total)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: a database is not served: %v", what, err)
		}
		if n != cutNotes && gone[db] == 0 {
			t.Errorf("%s: %d notes are missing without a word", what, cutNotes-n)
		}
	}
	return cuts, lost
}
