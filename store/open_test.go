package store

import (
	"context"
	"errors"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// put writes one document with a UNID.
func put(t *testing.T, s *Store, db note.DatabaseID, unid note.UNID) error {
	t.Helper()
	return s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *Tx) error {
		w, err := tx.Database(db)
		if err == nil {
			_, err = w.Create(New{UNID: unid, Content: note.Content{Items: version(1)}})
		}
		return err
	})
}

func has(t *testing.T, s *Store, db note.DatabaseID, unids ...note.UNID) {
	t.Helper()
	err := s.Read(context.Background(), note.System, db, func(r *Reader) error {
		for _, u := range unids {
			if _, err := r.Find(u); err != nil {
				t.Errorf("%s: %v", u, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLogMoves moves the transaction log to a device of its own and back, after power cuts that left commits in the old
// place. Nothing may be lost.
func TestLogMoves(t *testing.T) {
	f := env.TestRealTime(t)
	var db note.DatabaseID
	var all []note.UNID
	for i, dir := range []string{"", "log", "", "other/log", "other/log"} {
		o := crashOptions()
		o.LogDir = dir
		s, err := Open(f.Env, "data", o)
		if err != nil {
			t.Fatalf("log in %q: %v", dir, err)
		}
		if db == 0 {
			if db, err = s.CreateDatabase(note.System, Create{Title: "a", Kind: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		has(t, s, db, all...)
		u := note.UNID{byte(i + 1)}
		if err := put(t, s, db, u); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
		after := f.Crash(0, uint64(i))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		f = after
	}
}

// TestOpensBelowTheFloor checks that a store whose device is nearly full opens, has all its data, and refuses only what
// adds to it.
func TestOpensBelowTheFloor(t *testing.T) {
	f := env.TestRealTime(t)
	f.Faults.SetSpace(1 << 30)
	o := crashOptions()
	o.FloorBytes, o.FloorPercent = 1<<20, 0
	s, err := Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.CreateDatabase(note.System, Create{ID: 7, Kind: "a"})
	if err == nil {
		err = put(t, s, db, note.UNID{1})
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	o.FloorBytes = 1 << 40
	if s, err = Open(f.Env, "data", o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.CreateDatabase(note.System, Create{ID: 7, Kind: "a"}); !errors.Is(err, ErrExists) {
		t.Errorf("a database that is there: %v, want ErrExists", err)
	}
	if _, err := s.CreateDatabase(note.System, Create{ID: 8, Kind: "a"}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("a new database: %v, want ErrNoSpace", err)
	}
	if err := put(t, s, db, note.UNID{2}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("a new note: %v, want ErrNoSpace", err)
	}
	has(t, s, db, note.UNID{1})
}

// TestFloorOfLargeDevice checks that the floor does not grow with the device without end: half a terabyte of free space
// is not a full disk.
func TestFloorOfLargeDevice(t *testing.T) {
	for _, c := range []struct {
		opt         Options
		total, want uint64
	}{
		{Options{}, 10 << 30, 1 << 30},
		{Options{}, 60 << 30, 3 << 30},
		{Options{}, 10 << 40, 5 << 30},
		{Options{FloorBytes: 20 << 30, FloorPercent: 5}, 10 << 40, 20 << 30},
		{Options{FloorBytes: -1, FloorPercent: 20}, 10 << 40, 20 << 30},
	} {
		c.opt.fill()
		f := (&core{opt: c.opt}).FloorOf(c.total)
		if d := int64(f) - int64(c.want); d < -100 || d > 100 {
			t.Errorf("floor of a device of %d bytes: %d, want %d", c.total, f, c.want)
		}
	}
}

// TestFloorOfNothing checks that a share of 0 % is no floor, whatever the bytes.
func TestFloorOfNothing(t *testing.T) {
	for _, o := range []Options{{FloorBytes: -1, FloorPercent: -1}, {FloorBytes: 1, FloorPercent: -1},
		{FloorBytes: -1, FloorPercent: 1}} {
		f := env.TestRealTime(t)
		f.Faults.SetSpace(1 << 20)
		base := crashOptions()
		base.FloorBytes, base.FloorPercent = o.FloorBytes, o.FloorPercent
		s, err := Open(f.Env, "data", base)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateDatabase(note.System, Create{ID: 7, Kind: "a"}); err != nil {
			t.Errorf("floor of %d bytes and %d %%: %v", o.FloorBytes, o.FloorPercent, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedFeed checks that a consumer that reaches a damaged entry of the feed is directed to the databases' own
// rows, finds the same changes there, and continues from there.
func TestDamagedFeed(t *testing.T) {
	f := env.TestRealTime(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.CreateDatabase(note.System, Create{Kind: "a"})
	if err != nil {
		t.Fatal(err)
	}
	start := s.Now()
	for i := range 3 {
		if err := put(t, s, db, note.UNID{byte(i + 1)}); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := s.eng.Set(layout.NumberKey(layout.SpaceFeed, s.Horizon()), []byte{9, 9},
				pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Until the store is opened again, the feed is read in memory.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(f.Env, "data", crashOptions()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	told := 0
	at, err := s.Feed(start, func(Change) bool { told++; return true })
	if !errors.Is(err, ErrFeedCut) || told != 1 {
		t.Fatalf("told of %d changes, then %v; want 1, then ErrFeedCut", told, err)
	}
	err = s.Read(context.Background(), note.System, db, func(r *Reader) error {
		return r.Since(at.Seq, func(uint64, note.ID) bool { told++; return true })
	})
	if err != nil || told != 3 {
		t.Errorf("the database's own rows: %d changes in all, %v; want 3", told, err)
	}
	if err := put(t, s, db, note.UNID{9}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Feed(Cursor{s.Incarnation(), s.Horizon() - 1},
		func(Change) bool { told++; return true }); err != nil || told != 4 {
		t.Errorf("behind the damage: %d changes in all, %v; want 4", told, err)
	}
}
