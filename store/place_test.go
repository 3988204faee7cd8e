package store

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPaths puts log, index and segments into folders of their own. A store whose setting was lost is refused, and no
// new one is created.
func TestPaths(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	o := crashOptions()
	o.LogDir, o.IndexDir, o.SegmentsDir = "/fast/log", "/ssd/index", "/slow/segments"
	s, err := Open(f.Env, "/data", o)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.CreateDatabase(note.System, Create{})
	if err != nil {
		t.Fatal(err)
	}
	raw := mime.AppendBase64Lines([]byte("Content-Transfer-Encoding: base64\r\n\r\n"),
		bytes.Repeat([]byte("abcde"), 20_000), 76, true)
	m, err := s.Prepare(context.Background(), raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), PartSize))
	if err != nil {
		t.Fatal(err)
	}
	var id note.ID
	if err := s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *Tx) error {
		w, err := tx.Database(db)
		if err == nil {
			id, err = w.Create(New{Message: m})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	m.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, suffix := range map[string]string{"/fast/log": ".log", "/ssd/index": ".sst", "/slow/segments": ".seg"} {
		names, err := f.FS.List(dir)
		if err != nil || !strings.Contains(strings.Join(names, " "), suffix) {
			t.Errorf("%s holds %v, %v", dir, names, err)
		}
	}
	names, err := f.FS.List("/data")
	if err != nil || strings.Contains(strings.Join(names, " "), "notes") ||
		strings.Contains(strings.Join(names, " "), "objects") {
		t.Errorf("the data folder holds %v, %v", names, err)
	}
	for _, lost := range []func(*Options){func(o *Options) { o.IndexDir = "" },
		func(o *Options) { o.SegmentsDir = "" }} {
		bad := o
		lost(&bad)
		if s, err := Open(f.Env, "/data", bad); !errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), "see the setting") {
			t.Errorf("with a setting lost: %v, %v", s, err)
		}
	}
	if s, err = Open(f.Env, "/data", o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Read(context.Background(), note.System, db,
		func(r *Reader) error { return readBack(r, id, raw) }); err != nil {
		t.Error(err)
	}
}

// devices is a file system whose folders are on devices of their own.
type devices struct {
	env.FS
	free map[string]uint64
}

func (d devices) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	for dir, free := range d.free {
		if strings.HasPrefix(path, dir) {
			return vfs.DiskUsage{AvailBytes: free, TotalBytes: 100 << 30, UsedBytes: 100<<30 - free}, nil
		}
	}
	return vfs.DiskUsage{AvailBytes: 50 << 30, TotalBytes: 100 << 30}, nil
}

// TestFloorOfEachDevice checks that additions are refused when any of the devices is below its floor.
func TestFloorOfEachDevice(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	free := map[string]uint64{}
	f.Env.FS = devices{f.FS, free}
	o := crashOptions()
	o.LogDir, o.IndexDir, o.SegmentsDir, o.FloorBytes, o.FloorPercent = "/fast", "/ssd", "/slow", 1<<30, 0
	s, err := Open(f.Env, "/data", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, dir := range []string{"/fast", "/ssd", "/slow", "/data"} {
		free[dir] = 1 << 20
		f.Time.Advance(2 * spaceEvery)
		if _, err := s.CreateDatabase(note.System, Create{}); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%s is full: %v", dir, err)
		}
		delete(free, dir)
		f.Time.Advance(2 * spaceEvery)
		if _, err := s.CreateDatabase(note.System, Create{}); err != nil {
			t.Errorf("%s has room again: %v", dir, err)
		}
	}
}

// TestSequencesPerStart checks that the number of sequences that a start skips is bounded, also after a crash.
func TestSequencesPerStart(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	for i := range uint64(6) {
		s, err := Open(f.Env, "/data", crashOptions())
		if err != nil {
			t.Fatal(err)
		}
		before := s.Horizon()
		if before > i*(ceilingStep+1) {
			t.Errorf("start %d begins at %d", i, before)
		}
		db, err := s.CreateDatabase(note.System, Create{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *Tx) error {
			w, err := tx.Database(db)
			if err == nil {
				_, err = w.Create(New{})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if s.Horizon() <= before {
			t.Errorf("start %d: the horizon stands at %d", i, s.Horizon())
		}
		after := f
		if i%2 == 0 {
			after = f.Crash(0, i)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		f = after
	}
}
