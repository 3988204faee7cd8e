package store

import (
	"errors"
	"fmt"
	"time"

	"doublet/store/engine"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/wal"
)

// separate is the size in bytes from which values are stored in blob files.
const separate = 256

// openEngine opens Pebble with settings that measurements showed to suit the store (doc/performance.md).
func openEngine(s *Store) (*pebble.DB, error) {
	cache := pebble.NewCache(s.opt.CacheSize)
	defer cache.Unref()
	o := &pebble.Options{
		FS:                          s.env.FS,
		Cache:                       cache,
		MemTableSize:                s.opt.MemTableSize,
		L0StopWritesThreshold:       24,
		MaxOpenFiles:                1000,
		WALDir:                      s.opt.LogDir,
		DisableAutomaticCompactions: s.opt.Still,
		WALMinSyncInterval:          func() time.Duration { return s.opt.LogSyncInterval },
		Logger:                      engineLog{s},
		EventListener:               s.engineEvents(cache.Size),
	}
	if s.opt.Still {
		o.L0StopWritesThreshold = 1 << 30 // a write would wait for a compaction that does not come
	}
	if s.opt.KeepLog > 0 {
		o.FS, o.Cleaner = keepingFS{s.env.FS, s.opt.KeepLog}, pebble.ArchiveCleaner{}
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	engine.Share(o, separate, s.compression)
	s.renewal.Prepare(o, s.engineDirs()...)
	// A backup that ended with the process may have left files, which only take space.
	left := s.env.FS.PathJoin(s.indexDir(), CheckpointName)
	if there, err := s.there(left); err == nil && there {
		if err := s.env.FS.RemoveAll(left); err != nil {
			s.log.Warn("cannot remove leftovers of a backup", "err", err)
		}
	}
	if err := s.prepareLog(); err != nil {
		return nil, fmt.Errorf("store: prepare the log: %w", err)
	}
	db, err := pebble.Open(s.indexDir(), o)
	var moved pebble.ErrMissingWALRecoveryDir
	if errors.As(err, &moved) {
		// The log was moved to another device. Recover what the old folder still holds, once.
		o.WALRecoveryDirs = append(o.WALRecoveryDirs, wal.Dir{FS: s.env.FS, Dirname: moved.Dir})
		db, err = pebble.Open(s.indexDir(), o)
	}
	if err != nil {
		if pebble.IsCorruptionError(err) {
			return nil, fmt.Errorf("%w: the log or the manifest: restore the store from a backup: %w", ErrDamaged, err)
		}
		return nil, fmt.Errorf("store: open engine: %w", err)
	}
	return db, nil
}

// engineDirs returns the folders that hold the engine's tables, its log, and the log that waits for the archive.
func (d *disk) engineDirs() []string {
	dirs := []string{d.indexDir()}
	if log := d.places().Log; log != dirs[0] {
		dirs = append(dirs, log)
	}
	if d.opt.KeepLog > 0 {
		dirs = append(dirs, d.env.FS.PathJoin(d.places().Log, KeptName))
	}
	return dirs
}

// compression returns the compression of new blocks of the engine's tables.
func (s *Store) compression() *block.CompressionProfile {
	if s.opt.NoCompression {
		return block.NoCompression
	}
	return block.SnappyCompression
}

// engineEvents returns what the engine calls at its events. pool returns the bytes of the buffer pool in use.
func (s *Store) engineEvents(pool func() int64) *pebble.EventListener {
	return &pebble.EventListener{
		CompactionEnd:   func(pebble.CompactionInfo) { s.stat.pool.seen(pool()) },
		BackgroundError: func(err error) { s.log.Error("engine background work failed", "err", err) },
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			s.log.Error("engine found damage", "file", i.Path, "details", i.Details)
			s.quarantine(i)
		},
	}
}

// engineLog writes the engine's errors to the server's log. A fatal error is a failed write of the log or the manifest:
// nothing can be acknowledged after it.
type engineLog struct{ s *Store }

func (l engineLog) Infof(format string, args ...any) {}

func (l engineLog) Errorf(format string, args ...any) {
	l.s.log.Error("engine", "msg", fmt.Sprintf(format, args...))
}

func (l engineLog) Fatalf(format string, args ...any) {
	// Pebble expects that Fatalf does not return. OnFatal ends the process.
	panic(l.s.die(fmt.Errorf(format, args...)))
}
