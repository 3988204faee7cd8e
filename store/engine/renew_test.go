package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRenew replaces some values in tables on several levels, whose files also hold values that stay. After Merge and
// Renew no file of the engine holds what was replaced, and each row has its value. No compaction takes in a
// large part of the last level, though tables come in that reach from the first row to the last.
func TestRenew(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 2, 20, 2000} {
		testRenew(t, rows)
	}
}

func testRenew(t *testing.T, rows int) {
	const secret = "Rumpelstilzchen"
	fs := vfs.NewMem()
	var r Renewal
	o := &pebble.Options{FS: fs, MemTableSize: 64 << 10, Logger: silent{}}
	Share(o, 256, func() *block.CompressionProfile { return block.NoCompression })
	o.LBaseMaxBytes = 16 << 10
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = 2 << 10
	}
	var most atomic.Int64 // tables of the last level in one compaction
	o.EventListener = &pebble.EventListener{CompactionBegin: func(c pebble.CompactionInfo) {
		for _, level := range c.Input {
			if n := int64(len(level.Tables)); level.Level == len(o.Levels)-1 && n > most.Load() {
				most.Store(n)
			}
		}
	}}
	r.Prepare(o, "db")
	db, err := pebble.Open("db", o)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	key := func(i int) []byte { return fmt.Appendf(nil, "row %05d", i) }
	value := func(word string, i int) []byte {
		n := 1 + i%2*40
		if i%100/2 == 25 { // the second of these has a table of its own
			n = 400
		}
		return bytes.Repeat(fmt.Appendf(nil, "%s %d ", word, i), n)
	}
	word := func(i, round int) string {
		if i%3 == 0 && round == 0 {
			return secret
		}
		return "straw"
	}
	for round := range 2 {
		for i := range rows {
			if round == 0 || i%3 == 0 {
				must(db.Set(key(i), value(word(i, round), i), pebble.NoSync))
			}
		}
		must(db.Flush())
	}
	holds := func() (names []string) {
		list, err := fs.List("db")
		must(err)
		for _, name := range list {
			f, err := fs.Open(fs.PathJoin("db", name))
			if errors.Is(err, os.ErrNotExist) {
				continue // the engine has removed it meanwhile
			}
			must(err)
			info, err := f.Stat()
			must(err)
			b := make([]byte, info.Size())
			if len(b) > 0 {
				_, err = f.ReadAt(b, 0)
			}
			must(errors.Join(err, f.Close()))
			if bytes.Contains(b, []byte(secret)) {
				names = append(names, name)
			}
		}
		return names
	}
	if len(holds()) == 0 {
		t.Fatal("no file holds what was replaced")
	}
	// Meanwhile people go on working. Each table of that reaches from the first row to the last.
	step := func() error {
		for _, i := range []int{0, rows - 1} {
			must(db.Set(key(i), value("straw", i), pebble.NoSync))
		}
		return nil
	}
	must(r.Merge(context.Background(), db, step))
	must(step())
	must(db.Flush())
	mark, err := r.Mark()
	must(err)
	levels, err := db.SSTables()
	must(err)
	bottom := len(levels[len(levels)-1])
	most.Store(0)
	must(r.Renew(context.Background(), db, mark, step))
	if got := int(most.Load()); got == 0 || rows == 2000 && got > bottom/4 {
		t.Errorf("%d rows: a compaction took in %d of %d tables of the last level", rows, got, bottom)
	}
	for i := range rows {
		v, closer, err := db.Get(key(i))
		must(err)
		if !bytes.Equal(v, value("straw", i)) {
			t.Errorf("%d rows: row %d changed", rows, i)
		}
		must(closer.Close())
	}
	it, err := db.NewIter(nil)
	must(err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	must(it.Close())
	if n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
	must(db.Close()) // waits until old files are removed
	if left, err := r.Left(mark); err != nil || left != 0 {
		t.Errorf("%d rows: %d files from before are left: %v", rows, left, err)
	}
	if names := holds(); names != nil {
		t.Errorf("%d rows: %v hold what was replaced", rows, names)
	}
}
