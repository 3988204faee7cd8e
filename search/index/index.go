// Package index is the full-text index of all databases of a server: it maps words to the notes that contain them. It
// is stored in its own engine beside the store. It is built from the store alone and may be lost: writes become durable
// only later, and after a crash the index continues from its cursor.
//
// Each database has its own part. Notes are added together, as a segment: a dictionary and lists of postings, which
// never change. When there are enough segments of one size, they are merged into one of the next size. So each word is
// rewritten about once each time its mail file grows by a factor of eight. The words of a note that changes later are
// written as a record, and records become a segment when there are enough. All writes are sequential. No write updates
// a single term. doc/search.md explains why.
//
// The index finds candidates by their words. It does not know texts, notes or ACLs.
package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/engine"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Errors of the index.
var (
	// ErrDamaged reports that the index cannot be read or written any more. It has to be built again.
	ErrDamaged = errors.New("index: damaged")
	// ErrFormat reports an index of another version, or one with other settings (Options.Make).
	ErrFormat = errors.New("index: written by another version")
	ErrClosed = errors.New("index: closed")
)

// Cursor is a position in the store's feed.
type Cursor struct{ Incarnation, Seq uint64 }

// Options are the settings of an index. Zero values mean the defaults.
type Options struct {
	// CacheSize is the size of the block cache (32 MB), MemTableSize that of a memtable (8 MB), and DocsSize that of
	// the cache of segments' documents (16 MB). All are in bytes.
	CacheSize, MemTableSize, DocsSize int64
	// Make identifies the settings that determine the words in the index. Opening an index with another value is
	// ErrFormat.
	Make uint64
}

// Index is an open index.
type Index struct {
	env  *env.Env
	eng  *pebble.DB
	docs docsCache

	// state is held while the State of a database is read, changed and written.
	state sync.Mutex
	// use is held for reading during each operation, and for writing by Close.
	use    sync.RWMutex
	closed bool

	dead  chan struct{} // closed when the engine has failed
	cause atomic.Pointer[error]
}

// separate is the size in bytes from which values are stored in blob files. Records, blocks and chunks are larger. They
// are written once, when a memtable is flushed, and not again by compactions of the engine: merges rewrite them anyway.
const separate = 1 << 10

// Open opens the index in a folder, and creates it if necessary.
func Open(e *env.Env, dir string, o Options) (*Index, error) {
	if o.CacheSize == 0 {
		o.CacheSize = 32 << 20
	}
	if o.MemTableSize == 0 {
		o.MemTableSize = 8 << 20
	}
	if o.DocsSize == 0 {
		o.DocsSize = 16 << 20
	}
	x := &Index{env: e, dead: make(chan struct{}), docs: docsCache{max: o.DocsSize}}
	var err error
	// If the engine fails fatally, the call does not return; see engineLog.
	if e := x.Guard(context.Background(), func(context.Context) { x.eng, err = x.openEngine(dir, &o) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, engineError(err)
	}
	if err := x.checkFormat(o.Make); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func (x *Index) openEngine(dir string, o *Options) (*pebble.DB, error) {
	cache := pebble.NewCache(o.CacheSize)
	defer cache.Unref()
	opt := &pebble.Options{
		FS:    x.env.FS,
		Cache: cache,
		// Nothing here must be durable at once, and all of it can be built again.
		DisableWAL:            true,
		MemTableSize:          uint64(o.MemTableSize),
		L0StopWritesThreshold: 40,
		MaxOpenFiles:          500,
		Logger:                engineLog{x},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { x.env.Log.Warn("index: engine background work failed", "err", err) },
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				x.env.Log.Error("index: engine found damage", "file", i.Path, "details", i.Details)
			},
		},
	}
	opt.CompactionConcurrencyRange = func() (int, int) { return 1, 1 }
	engine.Share(opt, separate, func() *sstable.CompressionProfile { return sstable.BalancedCompression })
	return pebble.Open(dir, opt)
}

const (
	metaFormat = "format"
	metaCursor = "cursor"
)

func (x *Index) checkFormat(made uint64) error {
	want := binary.BigEndian.AppendUint64([]byte{Format}, made)
	older := binary.BigEndian.AppendUint64([]byte{unpaired}, made)
	v, err := getValue(x.eng, metaKey(metaFormat))
	if errors.Is(err, pebble.ErrNotFound) {
		if v, err := getValue(x.eng, metaKey(metaCursor)); err == nil {
			return fmt.Errorf("%w: no format beside cursor %x", ErrDamaged, v)
		}
		return engineError(x.eng.Set(metaKey(metaFormat), want, pebble.NoSync))
	}
	if err != nil {
		return engineError(err)
	}
	switch string(v) {
	case string(want):
		return nil
	case string(older):
		return engineError(x.eng.Set(metaKey(metaFormat), want, pebble.NoSync))
	}
	return ErrFormat
}

// grace is the time that Guard waits after the engine has failed, for goroutines that are not blocked in it.
const grace = 5 * time.Second

// Guard runs fn, which uses the index, and returns when fn has returned. When the engine fails fatally, calls into it
// block forever. Guard then cancels fn's context, and if fn does not return soon, Guard returns without it.
//
// fn runs on another goroutine, where a panic would end the process. Guard logs it and panics in its place, on the
// goroutine of the caller, which may be a session that ends alone. So fn must defer the release of what it holds.
func (x *Index) Guard(ctx context.Context, fn func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	var failed any // the panic of fn, once done is closed
	x.env.Go("index", func() {
		defer close(done)
		defer func() {
			if failed = recover(); failed != nil {
				x.env.Log.Error("index: panic", "panic", failed, "stack", string(debug.Stack()))
			}
		}()
		fn(ctx)
	})
	var err error
	select {
	case <-done:
	case <-x.dead:
		cancel()
		err = x.Err()
		select {
		case <-done:
		case <-x.env.Clock.After(grace):
			return err
		}
	}
	if failed != nil {
		panic(failed)
	}
	return err
}

// Dead returns a channel that is closed when the engine has failed. The index can then be neither used nor closed.
func (x *Index) Dead() <-chan struct{} { return x.dead }

// Err returns the reason why the engine failed, or nil if it has not.
func (x *Index) Err() error {
	if p := x.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// enter is called before the engine is used, and leave after.
func (x *Index) enter() error {
	x.use.RLock()
	if x.closed {
		x.use.RUnlock()
		return ErrClosed
	}
	if err := x.Err(); err != nil {
		x.use.RUnlock()
		return err
	}
	return nil
}

func (x *Index) leave() { x.use.RUnlock() }

// Close waits until the index is not in use, writes all data in memory to disk, and closes the index. It does nothing
// if the engine has failed.
func (x *Index) Close() error {
	if x.Err() != nil {
		return nil
	}
	x.use.Lock()
	defer x.use.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	var err error
	if e := x.Guard(context.Background(),
		func(context.Context) { err = errors.Join(x.eng.Flush(), x.eng.Close()) }); e != nil {
		return nil
	}
	return engineError(err)
}

// Flush makes all writes durable.
func (x *Index) Flush() error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	return engineError(x.eng.Flush())
}

// Cursor returns the position up to which the feed was read.
func (x *Index) Cursor() (Cursor, error) {
	if err := x.enter(); err != nil {
		return Cursor{}, err
	}
	defer x.leave()
	return readCursor(x.eng)
}

func readCursor(r pebble.Reader) (Cursor, error) {
	v, err := getValue(r, metaKey(metaCursor))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return Cursor{}, nil
	case err != nil:
		return Cursor{}, engineError(err)
	case len(v) != 16:
		return Cursor{}, fmt.Errorf("%w: cursor", ErrDamaged)
	}
	return Cursor{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, nil
}

func putCursor(b *pebble.Batch, c Cursor) error {
	return b.Set(metaKey(metaCursor), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.Incarnation),
		c.Seq), nil)
}

// States calls fn with the state of each database, until fn returns false.
func (x *Index) States(fn func(note.DatabaseID, *State) bool) error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	prefix := []byte{spaceState}
	return scan(x.eng, prefix, func(k, v []byte) (bool, error) {
		s, ok := readState(v)
		if !ok || len(k) != 9 {
			return false, fmt.Errorf("%w: state %x", ErrDamaged, k)
		}
		return fn(note.DatabaseID(binary.BigEndian.Uint64(k[1:])), s), nil
	})
}

// stateOf reads the state of a database. It is empty for an unknown database.
func stateOf(r pebble.Reader, db note.DatabaseID) (*State, error) {
	v, err := getValue(r, dbKey(spaceState, db))
	if errors.Is(err, pebble.ErrNotFound) {
		return &State{}, nil
	}
	if err != nil {
		return nil, engineError(err)
	}
	s, ok := readState(v)
	if !ok {
		return nil, fmt.Errorf("%w: state of database %s", ErrDamaged, db)
	}
	return s, nil
}

// State returns the state of a database.
func (x *Index) State(db note.DatabaseID) (*State, error) {
	if err := x.enter(); err != nil {
		return nil, err
	}
	defer x.leave()
	return stateOf(x.eng, db)
}

// Size returns the size of the index on disk, in bytes.
func (x *Index) Size() uint64 {
	if x.enter() != nil {
		return 0
	}
	defer x.leave()
	return engine.DiskUsage(x.eng.Metrics())
}

// Settle compacts the engine completely. It is for measurements.
func (x *Index) Settle(ctx context.Context) error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	return engineError(errors.Join(x.eng.Flush(), x.eng.Compact(ctx, []byte{0}, []byte{0xff}, false)))
}

// getValue returns a copy of a row.
func getValue(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), v...)
	return out, closer.Close()
}

// scan calls fn for the rows with a prefix, until fn returns false.
func scan(r pebble.Reader, prefix []byte, fn func(k, v []byte) (bool, error)) (err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return engineError(err)
	}
	defer func() { err = errors.Join(err, engineError(it.Close())) }()
	for it.First(); it.Valid(); it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return engineError(err)
		}
		if more, err := fn(it.Key(), v); err != nil || !more {
			return err
		}
	}
	return engineError(it.Error())
}

func engineError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, pebble.ErrClosed):
		return ErrClosed
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("index: engine: %w", err)
}

// engineLog passes the engine's messages to the server's log. The engine reports a fatal error when it cannot write its
// manifest: the index is then dead, and the server continues without it.
type engineLog struct{ x *Index }

func (l engineLog) Infof(format string, args ...any) {}

func (l engineLog) Errorf(format string, args ...any) {
	l.x.env.Log.Warn("index: engine", "msg", fmt.Sprintf(format, args...))
}

// Fatalf never returns, as the engine requires. The calling goroutine blocks forever and keeps its locks.
func (l engineLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	if l.x.cause.CompareAndSwap(nil, &err) {
		l.x.env.Log.Error("index: engine gives up", "err", err)
		close(l.x.dead)
	}
	select {}
}

// Lates calls fn for each note whose attachments are not read yet, with the build that waits for them, until fn returns
// false.
func (x *Index) Lates(fn func(db note.DatabaseID, build uint32, id note.ID) bool) error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	return scan(x.eng, []byte{spaceLate}, func(k, _ []byte) (bool, error) {
		if len(k) != 21 {
			return false, fmt.Errorf("%w: late note %x", ErrDamaged, k)
		}
		return fn(note.DatabaseID(binary.BigEndian.Uint64(k[1:])), binary.BigEndian.Uint32(k[9:]),
			note.ID(binary.BigEndian.Uint64(k[13:]))), nil
	})
}
