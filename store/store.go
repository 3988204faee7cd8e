// Package store implements the note store. All databases of a server share one Pebble engine, with objects in files
// beside it. There is one way to write (Update), one to read (Read), and one durable feed of changes. doc/store.md
// specifies the rules and the map of keys; store/layout implements that map.
//
// Everything that leaves the store is durable. Update returns after its batch is on disk; only for databases that
// acknowledge early it returns before (layout.AckEarly). Read waits until everything that it will see is on disk. The
// feed and the watchers do not go past the same horizon.
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
	"doublet/store/engine"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors that callers test for.
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
	// LogDir holds the write-ahead log. The administrator can put it on a device of its own.
	LogDir string
	// IndexDir holds the engine's tables, SegmentsDir the object segments. If empty, they are in the folders notes and
	// objects of the data folder.
	IndexDir, SegmentsDir string
	// CacheSize is the size of the block cache in bytes (64 MB). MemTableSize is the size of one memtable (16 MB).
	CacheSize    int64
	MemTableSize uint64
	// LogSyncInterval is the least time between two flushes of the log under load (500 µs). Commits that arrive in
	// between share the next flush.
	LogSyncInterval time.Duration
	// NoCompression stores tables and objects as they are. It applies to what is written from now on: a store may hold
	// both.
	NoCompression bool
	// ObjectSize is the size in bytes from which a message part becomes an object of its own (PartSize; at most 96 KB).
	// It applies to messages that arrive from now on.
	ObjectSize int
	// Databases is the maximum number of databases kept open (2,000).
	Databases int
	// FloorBytes and FloorPercent define the least free space; the greater of the two applies. Below it writes are
	// refused. The percentage is that of the device, of which at most 100 GB count. If both are 0 the defaults are 1 GB
	// and 5 %. A negative value counts as 0; if neither is positive, there is no floor.
	FloorBytes   int64
	FloorPercent int
	// Ballast is the size of a file that is deleted when space runs out despite the floor (64 MB; negative: none).
	Ballast int64
	// FeedKeep is the number of sequences that the feed keeps for the slowest cursor (10 million). It includes the
	// sequences that a start skips (at most 65,536).
	FeedKeep uint64
	// Indexes are derived rows that are updated in the same batch as every write.
	Indexes []Index
	// KeepLog, if it is not 0, keeps the files of the transaction log, and object segments, until they are archived
	// (Archived), and writes into the log the time of each change. It bounds the bytes of files of the log that the
	// engine has no use for any more; beyond it the oldest are removed.
	KeepLog int64
	// Tier, if not nil, keeps copies of sealed object segments in another place. A store with evicted segments cannot
	// be opened without it, unless it is Still.
	Tier *Tier
	// KeyFiles has the key files of databases that have a key of their own; nil is the file system of the store.
	KeyFiles vfs.FS
	// Still keeps the engine from compacting its tables, for a store that is only read, and replayed before.
	Still bool
	Stats *stat.Tree
	// Confirm waits until a mate (another member of the cluster) has the changes up to a sequence. The store calls it
	// after the change is durable here, outside all locks, for databases whose acknowledgement involves other servers.
	// If it fails, the update returns ErrUnconfirmed, and the change stays. Admit is called before anything is changed,
	// for databases whose acknowledgement is strict. It refuses the update if no mate can confirm it.
	Confirm func(ctx context.Context, ids []note.DatabaseID, seq uint64) error
	Admit   func(ctx context.Context, ids []note.DatabaseID) error
	// Mend fetches an object that is missing or damaged here from elsewhere (MendObject). Readers of the object wait
	// for it.
	Mend func(d note.Digest) error
	// OnFatal is called with an error after which nothing may be acknowledged, such as a failed flush of the log. It
	// must end the process; the next start recovers.
	OnFatal func(error)
	// Restoring opens a store whose restore has put the files in place but is not finished. The store must get a new
	// incarnation (Rebranch) before it is used. Without Restoring, Open refuses such a store.
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
	if o.ObjectSize == 0 {
		o.ObjectSize = PartSize
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

// Store is an open note store. Its parts share core, and each part keeps the state of one subject.
type Store struct {
	*core
	*disk
	*objects
	*feed
	*catalog
	*damage
	*transactionLog

	lock    io.Closer
	flushes flushes
	early   early
	stat    storeStats
	// capturing is held from Capture to Release: only one backup runs at a time.
	capturing sync.Mutex
	// erasing is held by Erase, which uses renewal.
	erasing sync.Mutex
	renewal engine.Renewal
}

// core holds the fields that every part of the store uses to read and write.
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
	keys        keyRing
	// making is held for reading while a database is created, and for writing to block the creation of databases.
	making sync.RWMutex

	fatal  atomic.Pointer[error]
	closed atomic.Bool
}

// The names of the rows under SpaceMeta.
const (
	metaFormat      = "format"
	metaIncarnation = "incarnation"
	metaCeiling     = "ceiling"
	metaNumber      = "number"
	metaBranches    = "branches"
	metaBreaks      = "breaks"
	metaMark        = "mark"
)

// Open opens the store in dir, and creates it if there is none. It fails if another process has the store open.
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

// compose returns the parts of a store that is not open yet.
func compose(e *env.Env, dir string, o Options) *Store {
	c := &core{env: e, opt: o, log: e.Log, hz: newHorizon()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	d := &disk{core: c, dir: dir}
	cat := &catalog{core: c}
	l := &transactionLog{core: c, disk: d}
	obj := &objects{core: c, translog: l, workspace: newWorkspace()}
	obj.tiers = &tiers{core: c, translog: l, keep: &obj.keep,
		unhealed: unhealed{core: c, segments: map[uint64][]placed{}}}
	return &Store{
		core: c, disk: d, objects: obj, feed: &feed{core: c},
		catalog: cat, damage: &damage{core: c, disk: d, catalog: cat, opened: make(chan struct{})}, transactionLog: l,
	}
}

// syncDirs makes a folder and all folders above it durable. If a power cut removed the entry of a folder, it would
// remove everything in the folder.
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
	if err := s.openObjects(); err != nil {
		return err
	}
	if err := s.dbs.init(s.core); err != nil {
		return err
	}
	s.pins.init()
	s.stat.init(s)
	return s.openKeys()
}

// openObjects opens the segments, here and elsewhere.
func (s *Store) openObjects() (err error) {
	if err = s.tiers.load(); err != nil {
		return err
	}
	o := object.Options{NoCompression: s.opt.NoCompression}
	if s.tiers.away != nil || len(s.tiers.rows) > 0 {
		o.Elsewhere, o.FirstSegment = s.tiers, s.tiers.above()
	}
	if s.obj, err = object.Open(s.env, s.segmentsDir(), o); err != nil {
		return fmt.Errorf("store: objects: %w", err)
	}
	return s.tiers.reachable()
}

// readMeta checks the format and reads the numbers. Sequences restart at the ceiling, above every sequence ever used.
// This can leave gaps, but a sequence is never used twice.
func (s *Store) readMeta() error {
	format, err := s.metaUint(metaFormat)
	if err != nil {
		return err
	}
	switch {
	case format > layout.FormatVersion:
		return fmt.Errorf("%w: format %d, this program reads up to %d: upgrade doublet", ErrFormat, format,
			layout.FormatVersion)
	case format == 0:
		err = s.createMeta()
	case format < layout.FormatPlain:
		err = s.raiseFormat(layout.FormatPlain)
	}
	if err != nil {
		return err
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

// createMeta writes the numbers of a new store.
func (s *Store) createMeta() error {
	if err := s.ownIndex(true); err != nil {
		return err
	}
	b := s.eng.NewBatch()
	putUint(b, metaFormat, layout.FormatPlain)
	putUint(b, metaIncarnation, s.env.Uint64()|1)
	putUint(b, metaCeiling, ceilingStep)
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("store: create: %w", err)
	}
	return nil
}

// raiseFormat writes a format that is not older than the store's: an older program may not be able to read rows written
// from now on.
func (c *core) raiseFormat(format uint64) error {
	if err := c.eng.Set(layout.MetaKey(metaFormat), uint64Bytes(format), pebble.Sync); err != nil {
		return fmt.Errorf("store: raise format: %w", err)
	}
	return nil
}

func uint64Bytes(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func putUint(b *pebble.Batch, name string, v uint64) {
	// Set fails only in a batch that was committed already.
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

// getValue returns a copy of a row's value.
func getValue(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if err != nil {
		return nil, engineError(err)
	}
	out := append([]byte(nil), v...)
	return out, engineError(closer.Close())
}

// engineError translates errors of the engine to those of the store.
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

// Incarnation returns the number of the store's incarnation. A restore, reseed or clone gets a new one.
func (c *core) Incarnation() uint64 { return c.incarnation }

// Horizon returns the sequence up to which everything is applied and durable.
func (c *core) Horizon() uint64 { return c.hz.durable() }

// die stops all acknowledgements, after an error whose outcome is unknown.
func (c *core) die(err error) error {
	err = fmt.Errorf("store: cannot go on: %w", err)
	c.fatal.CompareAndSwap(nil, &err)
	c.hz.fail(err)
	c.opt.OnFatal(err)
	return err
}

// alive returns an error if the store accepts no more requests.
func (c *core) alive() error {
	if p := c.fatal.Load(); p != nil {
		return *p
	}
	if c.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Close waits for running requests and closes the store. Later updates fail with ErrClosed.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.quarantined.Wait()
	s.tiers.close()
	s.dbs.drain()
	if s.alive() == ErrClosed {
		// If the log was flushed to tables, damage to its end can lose nothing, and the next open does not read it.
		if err := s.eng.Flush(); err != nil {
			s.log.Error("flush at close", "err", err)
		}
	}
	return s.release()
}

func (s *Store) release() error {
	s.tiers.close()
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

// stamp returns a stamp for a write that replaces an item with the stamp above.
func (c *core) stamp(replica note.ReplicaID, above note.Stamp) note.Stamp {
	return note.Stamp{Time: c.clock.next(c.env.Clock.Now().UnixMilli(), above), Replica: replica}
}

// seeStamp moves the clock past a received stamp, and reports whether the stamp was plausible.
func (c *core) seeStamp(st note.Stamp) bool { return c.clock.see(c.env.Clock.Now().UnixMilli(), st) }

// clock is the store's hybrid logical clock. Times are in milliseconds.
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

// UNID returns a random name for a new note.
func (c *core) UNID() note.UNID {
	var u note.UNID
	c.env.Fill(u[:])
	return u
}
