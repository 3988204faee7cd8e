package object

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// handles holds the segment files open for reading. When there are more than max, the least recently used ones are
// closed. More than max are open only while that many reads are running. Everything is guarded by Store.mu, except that
// a handle's file is opened outside of it.
type handles struct {
	max  int
	open map[uint64]*handle
	lru  list.List // of *handle, the last used first
}

type handle struct {
	id   uint64
	away bool // f reads the copy elsewhere
	once sync.Once
	f    Source
	err  error
	refs int
	elem *list.Element
	gone bool // no longer in the table: the last release closes it
	// unlink means that the last release deletes the file.
	unlink bool
}

func (t *handles) init(limit int) {
	t.max = limit
	t.open = map[uint64]*handle{}
	t.lru.Init()
}

func (t *handles) len() int { return len(t.open) }

// get returns the handle of a segment and adds a reference.
func (t *handles) get(id uint64, away bool) *handle {
	h := t.open[id]
	if h == nil {
		h = &handle{id: id, away: away}
		h.elem = t.lru.PushFront(h)
		t.open[id] = h
	} else {
		t.lru.MoveToFront(h.elem)
	}
	h.refs++
	return h
}

func (t *handles) takeOut(h *handle) {
	delete(t.open, h.id)
	t.lru.Remove(h.elem)
	h.gone = true
}

// evict removes unused handles until at most max are left, and returns their files for closing.
func (t *handles) evict() (idle []io.Closer) {
	for e := t.lru.Back(); e != nil && len(t.open) > t.max; {
		h := e.Value.(*handle)
		e = e.Prev()
		if h.refs == 0 {
			t.takeOut(h)
			idle = append(idle, h.f)
		}
	}
	return idle
}

// drop removes the handle of a removed or evicted segment. It returns the file for closing and, if unlink is set,
// deleting. If a reader uses the file, the reader's release does both.
func (t *handles) drop(id uint64, unlink bool) (f Source, busy bool) {
	h := t.open[id]
	if h == nil {
		return nil, false
	}
	t.takeOut(h)
	if h.refs > 0 {
		h.unlink = unlink
		return nil, true
	}
	return h.f, false
}

// closeAll removes every handle and returns the files of the unused ones.
func (t *handles) closeAll() (idle []io.Closer) {
	for _, h := range t.open {
		t.takeOut(h)
		if h.refs == 0 {
			idle = append(idle, h.f)
		}
	}
	return idle
}

// acquire returns the handle of a segment, opened for reading. The caller must call release.
func (s *Store) acquire(id uint64) (*handle, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	g := s.segments[id]
	if g == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("segment %d: %w", id, ErrNotFound)
	}
	h := s.handles.get(id, g.away)
	idle := s.handles.evict()
	s.mu.Unlock()
	closeAll(idle)
	h.once.Do(func() { h.f, h.err = s.openSegment(h) })
	if h.err != nil {
		err := h.err
		s.release(h)
		return nil, err
	}
	return h, nil
}

func (s *Store) release(h *handle) {
	s.mu.Lock()
	h.refs--
	last := h.refs == 0
	if last && h.err != nil && !h.gone {
		s.handles.takeOut(h) // so that the next reader tries again
	}
	end, unlink := last && h.gone, h.unlink
	idle := s.handles.evict()
	s.mu.Unlock()
	closeAll(idle)
	switch {
	case !end:
	case unlink:
		if err := s.unlink(h.id, h.f); err != nil {
			// The next Open will find the file as a segment without live records.
			s.env.Log.Warn("object: cannot delete a removed segment", "segment", h.id, "err", err)
		}
		s.Eviction.left(h.id)
	case h.f != nil:
		_ = h.f.Close()
	}
}

// errMissing is the cause of damage if a segment's file does not exist.
var errMissing = errors.New("segment file is missing")

// openSegment opens the file of a segment, or its copy. A damaged segment header does no harm, since every record
// describes itself. A header of a newer format is an error.
func (s *Store) openSegment(h *handle) (Source, error) {
	if h.away {
		return s.o.Elsewhere.Open(h.id)
	}
	id := h.id
	f, err := s.env.FS.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errMissing, err)
	}
	if err != nil {
		return nil, fmt.Errorf("object: open segment: %w", err)
	}
	var b [segmentHeader]byte
	if readFull(f, b[:], 0) == nil {
		if v, ok := checkSegmentHeader(b[:], id); ok && v > segmentVersion {
			_ = f.Close()
			return nil, fmt.Errorf("segment %d has version %d: %w", id, v, ErrFormat)
		}
	}
	return f, nil
}
