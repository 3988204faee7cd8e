// Package store is the note store: all databases of a server in one Pebble, objects beside it,
// one door for writing and one for reading, and one durable feed of what changed. doc/store.md
// states its rules and its key map; store/layout is that map as code.
//
// Everything that leaves the store is durable. Update returns when its batch survives a power cut;
// Read waits until all that it will see does; the feed and the watchers stop at the same horizon.
package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// The kinds of error that callers branch on.
var (
	ErrNotFound     = errors.New("store: not found")
	ErrExists       = errors.New("store: exists already")
	ErrDenied       = errors.New("store: access denied")
	ErrNoSpace      = errors.New("store: no space left above the floor")
	ErrOutOfService = errors.New("store: database is out of service")
	ErrConflict     = errors.New("store: the revision is not a leaf")
	ErrGrave        = errors.New("store: the note was deleted for good")
	ErrNotNamed     = errors.New("store: the database was not named when the update began")
	ErrFormat       = errors.New("store: written by a newer version")
	ErrDamaged      = errors.New("store: damaged")
	ErrClosed       = errors.New("store: closed")
)

// Options are the settings of a store. Zero values take the defaults.
type Options struct {
	// LogDir holds the write-ahead log, on a device of its own if the administrator says so.
	LogDir string
	// IndexDir holds the engine's tables, SegmentsDir the object segments; empty: notes and objects in
	// the data folder.
	IndexDir, SegmentsDir string
	// CacheSize is the buffer pool in bytes (64 MB); MemTableSize is per memtable (16 MB).
	CacheSize    int64
	MemTableSize uint64
	// LogSyncInterval is the least time between two flushes of the log under load (500 µs): commits
	// that come meanwhile share the next one.
	LogSyncInterval time.Duration
	// Databases is how many databases are kept open (2,000).
	Databases int
	// FloorBytes and FloorPercent: below the greater of both of free space, writes are refused
	// (1 GB and 5 % where both are 0). One that is not positive counts for nothing; if neither is,
	// there is no floor.
	FloorBytes   int64
	FloorPercent int
	// Ballast is the size of a file that is given up when space runs out all the same (64 MB; negative: none).
	Ballast int64
	// FeedKeep is how many sequences the feed keeps for the slowest cursor (10 million). Those that a
	// start skips (at most 65,536) count.
	FeedKeep uint64
	// Indexes are the views that are part of every write.
	Indexes []Index
	// Still keeps the engine from rewriting its tables by itself: for a store that is only read.
	Still bool
	Stats *stat.Tree
	// Confirm waits until a mate has what was changed up to a sequence. It is asked after the change is durable
	// here, outside all locks, for databases that are acknowledged by more than this server; its error is
	// ErrUnconfirmed, and the change stays. Where nobody can confirm, Admit refuses beforehand: it is
	// asked for databases whose acknowledgement is strict, before anything is changed.
	Confirm func(ctx context.Context, ids []note.DatabaseID, seq uint64) error
	Admit   func(ctx context.Context, ids []note.DatabaseID) error
	// Mend brings an object that is missing or damaged here from elsewhere (MendObject). Whoever reads it waits for that.
	Mend func(d note.Digest) error
	// OnFatal is told of an error after which nothing may be acknowledged: a failed flush of the
	// log. It must end the process; start-up recovers.
	OnFatal func(error)
	// Restoring opens a store whose restore has put its files in place and is not done: it must get
	// its new incarnation (Rebranch) before anyone uses it. Without it such a store is refused.
	Restoring bool
}

func (o *Options) fill() {
	if o.CacheSize == 0 {
		o.CacheSize = 64 << 20
	}
	if o.MemTableSize == 0 {
		o.MemTableSize = 16 << 20
	}
	if o.LogSyncInterval == 0 {
		o.LogSyncInterval = 500 * time.Microsecond
	}
	if o.Databases == 0 {
		o.Databases = 2000
	}
	if o.FloorBytes == 0 && o.FloorPercent == 0 {
		o.FloorBytes, o.FloorPercent = 1<<30, 5
	}
	o.FloorBytes, o.FloorPercent = max(o.FloorBytes, 0), max(o.FloorPercent, 0)
	if o.Ballast == 0 {
		o.Ballast = 64 << 20
	}
	if o.FeedKeep == 0 {
		o.FeedKeep = 10_000_000
	}
	if o.OnFatal == nil {
		o.OnFatal = func(err error) { panic(err) }
	}
}

// Store is an open note store. Its parts share core and each keep the state of one subject.
type Store struct {
	*core
	*disk
	*objects
	*feed
	*catalog
	*damage

	lock    io.Closer
	flushes flushes
	stat    storeStats
	// capturing is held from Capture to Release: there is one backup at a time.
	capturing sync.Mutex
}

// core holds what every part of the store reads and writes with.
type core struct {
	env *env.Env
	opt Options
	log *slog.Logger
	eng *pebble.DB
	obj *object.Store

	incarnation uint64
	hz          *horizon
	dbs         databases
	watch       watchers
	leaders     leaders
	space       space
	clock       clock
	// making is held for reading while a database is made, for writing to keep any from being made.
	making sync.RWMutex

	fatal  atomic.Pointer[error]
	closed atomic.Bool
}

// The names of facts under SpaceMeta.
const (
	metaFormat      = "format"
	metaIncarnation = "incarnation"
	metaCeiling     = "ceiling"
	metaNumber      = "number"
	metaBranches    = "branches"
)

// Open opens the store in dir, and makes it where there is none. Another process that has it open
// is an error that says so.
func Open(e *env.Env, dir string, o Options) (*Store, error) {
	o.fill()
	s := compose(e, dir, o)
	if err := e.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: make %s: %w", dir, err)
	}
	if err := syncDirs(e.FS, dir); err != nil {
		return nil, fmt.Errorf("store: make %s: %w", dir, err)
	}
	var err error
	if s.lock, err = e.FS.Lock(e.FS.PathJoin(dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("store: %s is in use by another process: %w", dir, err)
	}
	defer close(s.opened)
	if err := s.open(); err != nil {
		s.closed.Store(true)
		s.release()
		return nil, err
	}
	return s, nil
}

// compose makes the parts of a store that is not open yet.
func compose(e *env.Env, dir string, o Options) *Store {
	c := &core{env: e, opt: o, log: e.Log, hz: newHorizon()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	d := &disk{core: c, dir: dir}
	cat := &catalog{core: c}
	return &Store{
		core: c, disk: d, objects: &objects{core: c, workspace: newWorkspace()}, feed: &feed{core: c}, catalog: cat,
		damage: &damage{core: c, disk: d, catalog: cat, opened: make(chan struct{})},
	}
}

// syncDirs makes a folder and those above it durable: what lies in a folder that a power cut takes
// away was never written.
func syncDirs(fs env.FS, dir string) error {
	for {
		d, err := fs.OpenDir(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
		up := fs.PathDir(dir)
		if up == dir || up == "" {
			return nil
		}
		dir = up
	}
}

func (s *Store) open() error {
	if err := s.restored(); err != nil {
		return err
	}
	s.space.init(s.disk)
	index, err := s.there(s.indexDir())
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := s.ownIndex(!index); err != nil {
		return err
	}
	if s.eng, err = openEngine(s); err != nil {
		return err
	}
	if err := s.readMeta(); err != nil {
		return err
	}
	if err := s.ownSegments(); err != nil {
		return err
	}
	if s.obj, err = object.Open(s.env, s.segmentsDir(), object.Options{}); err != nil {
		return fmt.Errorf("store: objects: %w", err)
	}
	if err := s.dbs.init(s.core); err != nil {
		return err
	}
	s.pins.init()
	s.stat.init(s)
	return nil
}

// readMeta checks the format and takes up the numbers where they stood. Sequences restart at the
// ceiling, above every number that was ever given, so that holes are possible and reuse is not.
func (s *Store) readMeta() error {
	format, err := s.metaUint(metaFormat)
	if err != nil {
		return err
	}
	if format > layout.FormatVersion {
		return fmt.Errorf("%w: format %d, this program reads up to %d: upgrade doublet", ErrFormat, format, layout.FormatVersion)
	}
	if format == 0 {
		if err := s.ownIndex(true); err != nil {
			return err
		}
		b := s.eng.NewBatch()
		putUint(b, metaFormat, layout.FormatVersion)
		putUint(b, metaIncarnation, s.env.Uint64()|1)
		putUint(b, metaCeiling, ceilingStep)
		if err := b.Commit(pebble.Sync); err != nil {
			return fmt.Errorf("store: create: %w", err)
		}
	}
	if format > 0 && format < layout.FormatVersion { // from now on it may hold rows that an older program cannot read
		b := s.eng.NewBatch()
		putUint(b, metaFormat, layout.FormatVersion)
		if err := b.Commit(pebble.Sync); err != nil {
			return fmt.Errorf("store: raise format: %w", err)
		}
	}
	if err := s.own(); err != nil {
		return err
	}
	if s.incarnation, err = s.metaUint(metaIncarnation); err != nil {
		return err
	}
	ceiling, err := s.metaUint(metaCeiling)
	if err != nil {
		return err
	}
	if ceiling == 0 || s.incarnation == 0 {
		return fmt.Errorf("%w: the store's own record is incomplete; restore it from a backup", ErrDamaged)
	}
	start := ceiling
	if format == 0 {
		start = 1
	} else if err := s.eng.Set(layout.MetaKey(metaCeiling), uint64Bytes(ceiling+ceilingStep), pebble.Sync); err != nil {
		return fmt.Errorf("store: ceiling: %w", err)
	} else {
		ceiling += ceilingStep
	}
	s.hz.start(start, ceiling)
	return nil
}

func uint64Bytes(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func putUint(b *pebble.Batch, name string, v uint64) {
	// Setting in a batch fails only for batches that were committed already.
	_ = b.Set(layout.MetaKey(name), uint64Bytes(v), nil)
}

func (c *core) metaUint(name string) (uint64, error) { return metaUint(c.eng, name) }

func metaUint(r pebble.Reader, name string) (uint64, error) {
	v, err := getValue(r, layout.MetaKey(name))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: %s", ErrDamaged, name)
	}
	return binary.BigEndian.Uint64(v), nil
}

// getValue reads a row into memory of its own.
func getValue(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if err != nil {
		return nil, engineError(err)
	}
	out := append([]byte(nil), v...)
	return out, engineError(closer.Close())
}

// engineError gives the engine's errors the store's names.
func engineError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pebble.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, pebble.ErrClosed):
		return ErrClosed
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("store: engine: %w", err)
}

// Incarnation names this life of the store: a restore, reseed or clone gets another.
func (c *core) Incarnation() uint64 { return c.incarnation }

// Horizon is the highest sequence below which everything is applied and durable.
func (c *core) Horizon() uint64 { return c.hz.durable() }

// die ends all acknowledging after an error whose outcome is unknown.
func (c *core) die(err error) error {
	err = fmt.Errorf("store: cannot go on: %w", err)
	c.fatal.CompareAndSwap(nil, &err)
	c.hz.fail(err)
	c.opt.OnFatal(err)
	return err
}

// alive says why the store takes nothing more, if so.
func (c *core) alive() error {
	if p := c.fatal.Load(); p != nil {
		return *p
	}
	if c.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Close waits for what is under way and closes the store. Updates that come later fail with ErrClosed.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.quarantined.Wait()
	s.dbs.drain()
	if s.alive() == ErrClosed {
		// A log that was flushed to tables holds nothing that damage to its tail could take, and is
		// not read when the store opens again.
		if err := s.eng.Flush(); err != nil {
			s.log.Error("flush at close", "err", err)
		}
	}
	return s.release()
}

func (s *Store) release() error {
	var errs []error
	if s.obj != nil {
		errs = append(errs, s.obj.Close())
	}
	if s.eng != nil {
		errs = append(errs, s.eng.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// stamp returns the stamp for a write that replaces an item stamped above.
func (c *core) stamp(replica note.ReplicaID, above note.Stamp) note.Stamp {
	return note.Stamp{Time: c.clock.next(c.env.Clock.Now().UnixMilli(), above), Replica: replica}
}

// seeStamp moves the clock past a received stamp, and reports if the stamp was plausible.
func (c *core) seeStamp(st note.Stamp) bool { return c.clock.see(c.env.Clock.Now().UnixMilli(), st) }

// clock is the store's hybrid clock. Times are in milliseconds.
type clock struct {
	mu sync.Mutex
	c  note.Clock
}

func (c *clock) next(now int64, above note.Stamp) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.c.Next(now, above)
}

func (c *clock) see(now int64, st note.Stamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.c.See(now, st)
}

// UNID draws a new note's name.
func (c *core) UNID() note.UNID {
	var u note.UNID
	c.env.Fill(u[:])
	return u
}
