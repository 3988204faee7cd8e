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

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrBusy says that another backup is under way.
var ErrBusy = errors.New("store: a backup is under way")

// Moment is the store as it stood at one moment, as files that nothing changes until Release. Every
// batch that was acknowledged before Capture began is in it, whole, and a batch that is in it has
// all that it names: its objects were durable before it was applied, and the lengths of the segments
// are taken after the engine's checkpoint.
type Moment struct {
	// Index is a folder that holds the engine's files and nothing else.
	Index string
	// Segments are the object segments, each up to the length that is durable; Path finds the file.
	Segments    []object.SegmentInfo
	Incarnation uint64
	// Horizon is a sequence that the moment certainly contains.
	Horizon uint64
	Format  uint64

	s *Store
}

// checkpointName is the folder, within the index, of the engine's files while a backup copies them:
// there hard links work, whatever device the index is on.
const checkpointName = "checkpoint"

// Capture takes the store at one moment. While it is held the sweeper and the feed go on, tables
// that compactions replace stay on disk, and no segment is rewritten. There is one at a time: ErrBusy.
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
	m = &Moment{Index: s.env.FS.PathJoin(s.indexDir(), checkpointName), Incarnation: s.incarnation, Format: layout.FormatVersion, s: s}
	defer func() {
		if err != nil {
			_ = m.Release() // what is left is removed by the next one
		}
	}()
	if err := s.env.FS.RemoveAll(m.Index); err != nil {
		return nil, fmt.Errorf("store: remove what an earlier backup left: %w", err)
	}
	m.Horizon = s.hz.durable()
	if err := s.checkpoint(m.Index); err != nil {
		return nil, err
	}
	m.Segments = s.obj.Durable()
	return m, nil
}

// checkpoint makes the engine's part of a moment: everything that was applied before it began, as tables and blob
// files, without a log. The engine's own checkpoint copies the log while it is written to and recycled, so a copy may
// hold an old block before a new one, which nothing opens any more; and it may hold batches behind a table that was
// ingested after the checkpoint's version. Tables alone are a prefix of all batches, unless a range is cut out
// between the flush and the checkpoint: making keeps that from happening.
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

// homeLog lets the options file of a checkpoint say that its log lies beside it: else whoever opens
// the copy would read the log of the store that goes on, where that has a folder of its own.
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

// Path is the file of a segment.
func (m *Moment) Path(segment uint64) string { return m.s.obj.Path(segment) }

// Alive says why the moment can be used no longer, if so: the store is closing and waits for Release.
func (m *Moment) Alive() error { return m.s.alive() }

// Release lets the files go.
func (m *Moment) Release() error {
	err := m.s.env.FS.RemoveAll(m.Index)
	m.s.keep.RUnlock()
	m.s.capturing.Unlock()
	m.s.dbs.leave()
	return err
}

// FloorOf returns the free space, in bytes, that a device of total bytes has to keep.
func (c *core) FloorOf(total uint64) uint64 {
	return max(uint64(c.opt.FloorBytes), total/100*uint64(c.opt.FloorPercent))
}
