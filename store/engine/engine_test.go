package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestDiskUsage compares DiskUsage with the files of an engine: after it is opened again, and after the blob files that
// were there have gone.
func TestDiskUsage(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	open := func() *pebble.DB {
		o := &pebble.Options{FS: fs, DisableAutomaticCompactions: true, Logger: silent{}}
		Share(o, 256, func() *block.CompressionProfile { return block.NoCompression })
		db, err := pebble.Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	files := func() (n uint64) {
		names, err := fs.List("db")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := fs.Stat(fs.PathJoin("db", name)); err == nil {
				n += uint64(info.Size())
			}
		}
		return n
	}
	check := func(when string, db *pebble.DB) {
		t.Helper()
		db.TestOnlyWaitForCleaning()
		// Some small files, such as the marker of the manifest, are not counted.
		if got, want := DiskUsage(db.Metrics()), files(); got > want+1<<16 || got+1<<16 < want {
			t.Errorf("%s: %d bytes, the files have %d", when, got, want)
		}
	}
	write := func(db *pebble.DB, round uint64) {
		r := rand.NewChaCha8([32]byte{byte(round)})
		value := make([]byte, 10<<10)
		for i := range 100 {
			_, _ = r.Read(value)
			if err := db.Set(fmt.Appendf(nil, "%03d", i), bytes.Clone(value), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	db := open()
	write(db, 1)
	check("written", db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	check("opened again", db)
	write(db, 2)
	if err := db.Compact(context.Background(), []byte("0"), []byte("9"), false); err != nil {
		t.Fatal(err)
	}
	check("compacted", db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// silent drops the log messages of an engine.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
