package object

import (
	"fmt"
	"io"

	"doublet/env"
)

// Sync returns when the record at upTo, and every one appended before it, is durable. One flush serves all waiting
// callers. A Location of an earlier process is durable already. An error of the device is final: all waiting callers
// get it, and nothing more is accepted.
func (s *Store) Sync(upTo Location) error {
	return s.syncTo(position{upTo.Segment, upTo.End()})
}

// SyncAll is Sync of everything appended so far.
func (s *Store) SyncAll() error {
	s.mu.Lock()
	want := s.tail
	s.mu.Unlock()
	return s.syncTo(want)
}

func (s *Store) syncTo(want position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := false
	for {
		switch {
		case !s.durable.before(want):
			return nil
		case s.failed != nil:
			return s.failed
		case s.tail.before(want):
			return fmt.Errorf("object: sync: location (%d, %d) was never appended", want.segment, want.offset)
		}
		if !waited {
			waited = true
			s.count.syncWaits.Add(1)
		}
		if s.syncing {
			s.synced.Wait()
			continue
		}
		s.flush()
	}
}

// flush writes everything appended so far to the device. The caller holds mu and has checked that no flush is running.
// flush unlocks mu meanwhile, and returns with mu locked.
func (s *Store) flush() {
	target := s.tail
	names := s.newNames
	s.newNames = false
	var files []env.File
	for _, g := range s.dirty {
		if s.durable.before(position{g.id, g.size}) {
			files = append(files, g.f)
		}
	}
	s.syncing = true
	s.mu.Unlock()

	err := s.flushFiles(files, names)

	s.mu.Lock()
	s.syncing = false
	var done []io.Closer
	if err != nil {
		s.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	} else {
		s.durable = target
		done = s.retire()
	}
	s.synced.Broadcast()
	if len(done) > 0 {
		s.mu.Unlock()
		closeAll(done)
		s.mu.Lock()
	}
}

// flushFiles flushes the files in order, and the folder if names were added to it.
func (s *Store) flushFiles(files []env.File, names bool) error {
	for _, f := range files {
		s.count.syncs.Add(1)
		if err := f.SyncData(); err != nil {
			return fmt.Errorf("flush segment: %w", err)
		}
	}
	if !names {
		return nil
	}
	return s.flushFolder()
}

// flushFolder makes the names of the segments durable, and that of the folder itself.
func (s *Store) flushFolder() error {
	for _, name := range [2]string{s.dir, s.env.FS.PathDir(s.dir)} {
		d, err := s.env.FS.OpenDir(name)
		if err != nil {
			return fmt.Errorf("flush folder: %w", err)
		}
		if err := d.Sync(); err != nil {
			_ = d.Close()
			return fmt.Errorf("flush folder: %w", err)
		}
		if err := d.Close(); err != nil {
			return fmt.Errorf("flush folder: %w", err)
		}
	}
	return nil
}

// settle ensures that what a scan of segment g will find is on the device. If only the process crashed, bytes that
// nobody waited for may be in the system's cache only.
func (s *Store) settle(g *segment) error {
	s.mu.Lock()
	flushed := g.flushed
	s.mu.Unlock()
	if flushed {
		return s.SyncAll()
	}
	f, err := s.env.FS.OpenReadWrite(s.path(g.id), category)
	if err != nil {
		return fmt.Errorf("flush segment: %w", err)
	}
	s.count.syncs.Add(1)
	if err := f.SyncData(); err != nil {
		_ = f.Close()
		return fmt.Errorf("flush segment: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("flush segment: %w", err)
	}
	if err := s.flushFolder(); err != nil {
		return err
	}
	s.mu.Lock()
	g.flushed = true
	s.mu.Unlock()
	return nil
}
