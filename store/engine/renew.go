package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Renewal writes all files of an engine anew, so that nothing stays on the disk of what was deleted or replaced. The
// engine itself removes that only in compactions for which it sees a reason: a small value may stay in a large file of
// values for ever.
type Renewal struct {
	fs   vfs.FS
	dirs []string
	// values means that compactions write all values anew, logs that no file of the log is used again.
	values, logs atomic.Bool
}

// Prepare adds the renewal to the options of an engine, to which Share was applied. dirs are the folders that hold its
// tables, its log, and the files of its log that it has no use for any more.
func (r *Renewal) Prepare(o *pebble.Options, dirs ...string) {
	r.fs, r.dirs = o.FS, dirs
	o.FS = renewingFS{o.FS, r}
	policy := o.Experimental.ValueSeparationPolicy
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		p := policy()
		if r.values.Load() {
			p.MaxBlobReferenceDepth = 0 // a compaction writes all values anew
		}
		return p
	}
}

// renewingFS is the file system of an engine. From Mark on no file of the log is used again, until none is left from
// before: what it held would stay behind the end of what is written now.
type renewingFS struct {
	vfs.FS
	r *Renewal
}

// Unwrap implements vfs.FS.
func (f renewingFS) Unwrap() vfs.FS { return f.FS }

// ReuseForWrite implements vfs.FS.
func (f renewingFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !f.r.logs.Load() {
		return f.FS.ReuseForWrite(from, to, category)
	}
	if err := f.Remove(from); err != nil {
		return nil, err
	}
	return f.Create(to, category)
}

// mergeTables and renewTables bound the tables of one compaction.
const (
	mergeTables = 32
	renewTables = 4
)

// Merge compacts all tables, so that none has what was deleted or replaced. A snapshot from before keeps what it sees.
// Files of values stay as they are. step is called before each compaction.
func (r *Renewal) Merge(ctx context.Context, db *pebble.DB, step func() error) error {
	if err := db.Flush(); err != nil {
		return err
	}
	list, err := tables(db, func(*pebble.SSTableInfo) bool { return true })
	if err != nil {
		return err
	}
	lo := []byte{0}
	compact := func(hi []byte) error {
		if bytes.Compare(lo, hi) >= 0 {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
		defer func() { lo = hi }()
		return db.Compact(ctx, lo, hi, false)
	}
	for i := mergeTables; i < len(list); i += mergeTables {
		if err := compact(list[i].Smallest.UserKey); err != nil {
			return err
		}
	}
	return compact([]byte{0xff})
}

// Mark returns a number above those of all files that the engine has now.
func (r *Renewal) Mark() (mark uint64, err error) {
	r.logs.Store(true)
	err = r.files(func(number uint64) { mark = max(mark, number+1) })
	return mark, err
}

// Left returns the number of files below a mark. If it is 0, the renewal is complete.
func (r *Renewal) Left(mark uint64) (left int, err error) {
	err = r.files(func(number uint64) {
		if number < mark {
			left++
		}
	})
	if err == nil && left == 0 {
		r.logs.Store(false)
	}
	return left, err
}

// files calls fn with the number of every table, every file of values and every file of the log.
func (r *Renewal) files(fn func(number uint64)) error {
	for _, dir := range r.dirs {
		names, err := r.fs.List(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			base, ext, _ := strings.Cut(name, ".")
			base, _, _ = strings.Cut(base, "-")
			number, err := strconv.ParseUint(base, 10, 64)
			if err == nil && slices.Contains([]string{"sst", "blob", "log"}, ext) {
				fn(number)
			}
		}
	}
	return nil
}

// Renew writes every table and every value anew that lies in a file below a mark, and begins new files of the log. The
// old files are removed when nobody reads them any more. step is called before each compaction; those that are done
// need not be done again.
func (r *Renewal) Renew(ctx context.Context, db *pebble.DB, mark uint64, step func() error) error {
	r.logs.Store(true)
	r.values.Store(true)
	defer r.values.Store(false)
	old := func(t *pebble.SSTableInfo) bool {
		if uint64(t.BackingSSTNum) < mark {
			return true
		}
		for _, id := range t.GetBlobReferenceFiles() {
			if uint64(id) < mark {
				return true
			}
		}
		return false
	}
	size := renewTables
	for before := -1; ; size = 1 { // a pass may leave tables of a single row
		list, err := tables(db, old)
		if err != nil {
			return err
		}
		if len(list) == 0 || len(list) == before {
			break
		}
		for before = len(list); len(list) > 0; {
			if err := step(); err != nil {
				return err
			}
			last, err := r.rewrite(ctx, db, list[:min(size, len(list))])
			if err != nil {
				return err
			}
			// A compaction also takes other tables in, which are not old any more then.
			if list, err = tables(db, func(t *pebble.SSTableInfo) bool {
				return bytes.Compare(t.Smallest.UserKey, last) > 0 && old(t)
			}); err != nil {
				return err
			}
		}
	}
	// The engine keeps some files of its log for use again. Each flush takes one of them.
	for range stopWrites + 2 {
		if err := db.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// rewrite compacts tables that lie side by side, and returns the highest of their first keys. The engine does not
// compact tables of its last level alone. So rows are deleted that do not exist, at the bounds of the range and in each
// table: what deletes them lies above, and is merged with them. The range ends in the last table, because a table may
// reach over many others, or all. A deletion of what no table below may have is dropped on the way, which can be all of
// them beside a table with a single row. The snapshot keeps them for a table that is compacted alone.
func (r *Renewal) rewrite(ctx context.Context, db *pebble.DB, list []pebble.SSTableInfo) (last []byte, err error) {
	if len(list) == 1 {
		snap := db.NewSnapshot()
		defer func() { err = errors.Join(err, snap.Close()) }()
	}
	b := db.NewBatch()
	defer b.Close()
	lo := before(list[0].Smallest.UserKey)
	err = b.Delete(lo, nil)
	for _, t := range list {
		last = t.Smallest.UserKey
		if err == nil {
			err = b.Delete(after(last), nil)
		}
	}
	if err == nil {
		err = b.Commit(pebble.NoSync)
	}
	if err == nil {
		err = db.Flush()
	}
	if err == nil {
		err = db.Compact(ctx, lo, after(last), false)
	}
	return last, err
}

// before and after return keys that lie directly before and after a key. No row has them.
func before(k []byte) []byte {
	last := len(k) - 1
	if k[last] == 0 {
		return slices.Clone(k[:last])
	}
	out := append(slices.Clone(k[:last]), k[last]-1)
	return append(out, bytes.Repeat([]byte{0xff}, 16)...)
}

func after(k []byte) []byte { return append(slices.Clone(k), 0) }

// tables returns the tables that fit, in the order of their first keys.
func tables(db *pebble.DB, fits func(*pebble.SSTableInfo) bool) (list []pebble.SSTableInfo, err error) {
	levels, err := db.SSTables()
	for _, level := range levels {
		for i := range level {
			if fits(&level[i]) {
				list = append(list, level[i])
			}
		}
	}
	slices.SortFunc(list, func(a, b pebble.SSTableInfo) int {
		return bytes.Compare(a.Smallest.UserKey, b.Smallest.UserKey)
	})
	return list, err
}
