package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrBusy means that another backup is running.
var ErrBusy = errors.New("store: a backup is under way")

// Moment is the state of the store at one moment, as files that do not change until Release. It contains every batch
// that was acknowledged before Capture began. A batch is contained entirely, with all objects that it references: the
// objects were durable before it was applied, and the lengths of the segments are read after the engine's checkpoint.
type Moment struct {
	// Index is a folder that holds the engine's files and nothing else.
	Index string
	// Segments lists the object segments, each up to its durable length. Open opens one.
	Segments    []object.SegmentInfo
	Incarnation uint64
	// Horizon is a sequence that the moment certainly contains.
	Horizon uint64
	Format  uint64
	// Mark is a random number that the log holds behind everything that the moment contains (MarkOfBatch).
	Mark uint64

	s *Store
}

// CheckpointName is the folder, in the index folder, of the engine's files while a backup copies them. There hard links
// work, whatever device the index is on.
const CheckpointName = "checkpoint"

// Capture returns the state of the store at this moment. Until Release, tables that compactions replace stay on disk,
// and no segment is rewritten; the sweeper and the feed continue. Only one Moment exists at a time: otherwise Capture
// returns ErrBusy.
func (s *Store) Capture(ctx context.Context) (m *Moment, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.dbs.enter(); err != nil {
		return nil, err
	}
	if !s.capturing.TryLock() {
		s.dbs.leave()
		return nil, ErrBusy
	}
	s.keep.RLock()
	m = &Moment{Index: s.env.FS.PathJoin(s.indexDir(), CheckpointName), Incarnation: s.incarnation,
		Mark: s.env.Uint64(), s: s}
	defer func() {
		if err != nil {
			_ = m.Release() // the next Capture removes what is left
		}
	}()
	if m.Format, err = s.metaUint(metaFormat); err != nil {
		return nil, err
	}
	if err := s.env.FS.RemoveAll(m.Index); err != nil {
		return nil, fmt.Errorf("store: remove leftovers of an earlier backup: %w", err)
	}
	m.Horizon = s.hz.durable()
	if err := s.checkpoint(m.Index); err != nil {
		return nil, err
	}
	if err := s.eng.Set(layout.MetaKey(metaMark), uint64Bytes(m.Mark), pebble.Sync); err != nil {
		return nil, s.die(err)
	}
	m.Segments = s.obj.Durable()
	return m, nil
}

// checkpoint creates the engine's part of a moment: everything that was applied before it began, as tables and blob
// files, without a log. The engine's own checkpoint copies the log while the log is written and recycled. Such a copy
// may hold an old block before a new one, and then cannot be opened. It may also hold batches that are later than a
// table that was ingested after the checkpoint's version. Tables alone are a prefix of all batches, unless a range is
// cut out between the flush and the checkpoint. The lock making prevents that.
func (s *Store) checkpoint(dir string) error {
	s.making.RLock()
	defer s.making.RUnlock()
	if err := s.eng.Flush(); err != nil {
		return fmt.Errorf("store: flush for a backup: %w", err)
	}
	if err := s.eng.Checkpoint(dir); err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	names, err := s.env.FS.List(dir)
	if err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		if err := s.env.FS.Remove(s.env.FS.PathJoin(dir, name)); err != nil {
			return fmt.Errorf("store: checkpoint: remove the copy of the log: %w", err)
		}
	}
	return s.homeLog(dir)
}

// homeLog edits the options file of a checkpoint so that its log lies beside it. Otherwise, if the log has a folder of
// its own, opening the copy would read the log of the running store.
func (s *Store) homeLog(dir string) error {
	fs := s.env.FS
	names, err := fs.List(dir)
	if err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		path := fs.PathJoin(dir, name)
		b, err := readAll(fs, path)
		if err != nil {
			return fmt.Errorf("store: checkpoint: %w", err)
		}
		lines := bytes.Split(b, []byte("\n"))
		for i, l := range lines {
			if bytes.HasPrefix(bytes.TrimSpace(l), []byte("wal_dir=")) {
				lines[i] = []byte("  wal_dir=")
			}
		}
		if err := writeAll(fs, path, bytes.Join(lines, []byte("\n"))); err != nil {
			return fmt.Errorf("store: checkpoint: %w", err)
		}
	}
	return nil
}

func readAll(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

func writeAll(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// Open opens a segment, also one that is not on disk.
func (m *Moment) Open(segment uint64) (object.Source, error) { return m.s.obj.OpenSegment(segment) }

// Alive returns an error if the moment can no longer be used, because the store is closing and waits for Release.
func (m *Moment) Alive() error { return m.s.alive() }

// Release removes the files and ends the capture.
func (m *Moment) Release() error {
	err := m.s.env.FS.RemoveAll(m.Index)
	m.s.keep.RUnlock()
	m.s.capturing.Unlock()
	m.s.dbs.leave()
	return err
}
