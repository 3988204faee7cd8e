package object

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Source is an open segment. Several goroutines may call ReadAt.
type Source interface {
	io.ReaderAt
	io.Closer
}

// Elsewhere has copies of sealed segments in another place.
type Elsewhere interface {
	// Copies lists the segments that have a copy.
	Copies() []SegmentInfo
	// Open opens the copy of a segment, without waiting for the place. Reads fail with ErrAway if a later one may
	// succeed, and with another error if the copy is damaged. If there is no copy any more, Open returns ErrNotFound.
	Open(id uint64) (Source, error)
}

// Eviction evicts and recalls segments of a Store.
type Eviction struct{ s *Store }

// list adds the segments that have no file but a copy.
func (e *Eviction) list() {
	s := e.s
	if s.o.Elsewhere == nil {
		return
	}
	for _, c := range s.o.Elsewhere.Copies() {
		e.add(c.ID, c.Size)
	}
}

// add adds a segment that has a copy, if it has no file. The caller holds mu, or nobody else uses the store yet.
func (e *Eviction) add(id uint64, size int64) {
	s := e.s
	s.next = max(s.next, id+1)
	if s.segments[id] == nil {
		s.segments[id] = &segment{id: id, size: size, sealed: true, flushed: true, away: true}
	}
}

// Found adds a segment of size bytes that has no file, and of which Elsewhere has a copy from now on.
func (e *Eviction) Found(id uint64, size int64) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	e.add(id, size)
}

// Evict deletes the file of a sealed segment. From then on the segment is read from its copy, which the caller has
// verified. Running reads are not disturbed; the last one deletes the file. After a crash the file may exist again.
func (e *Eviction) Evict(id uint64) error {
	s := e.s
	if s.o.Elsewhere == nil {
		return errors.New("object: evict: there is no other place")
	}
	return s.detach(id, true)
}

// Away reports whether a segment was evicted.
func (e *Eviction) Away(id uint64) bool {
	s := e.s
	if s.o.Elsewhere == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[id]
	return g != nil && g.away
}

// OpenSegment opens a segment for reading as a whole, for a backup or a copy.
func (s *Store) OpenSegment(id uint64) (Source, error) {
	h, err := s.acquire(id)
	if err != nil {
		return nil, err
	}
	return &whole{s, h}, nil
}

// whole is a segment that OpenSegment opened.
type whole struct {
	s *Store
	h *handle
}

// ReadAt implements io.ReaderAt.
func (w *whole) ReadAt(p []byte, off int64) (int, error) { return w.h.f.ReadAt(p, off) }

// Close implements io.Closer.
func (w *whole) Close() error {
	w.s.release(w.h)
	return nil
}

// ReadCopy is ReadRange from the copy of a segment whose file is damaged. named means that the object was appended by
// AppendNamed.
func (e *Eviction) ReadCopy(loc Location, d Digest, off, n int64, dst []byte) (out []byte, named bool, err error) {
	f, err := e.s.o.Elsewhere.Open(loc.Segment)
	if err != nil {
		return nil, false, err
	}
	out, named, err = e.readIn(f, loc, d, off, n, dst)
	return out, named, errors.Join(err, f.Close())
}

// ReadFrom returns an object from an open copy of its segment.
func (e *Eviction) ReadFrom(f Source, loc Location, d Digest) ([]byte, error) {
	out, _, err := e.readIn(f, loc, d, 0, int64(loc.Size), nil)
	return out, err
}

func (e *Eviction) readIn(f Source, loc Location, d Digest, off, n int64, dst []byte) (out []byte, named bool,
	err error) {
	out, err = readRange(e.s, loc, off, n, dst, func(fn func(*reader) *fault) error {
		return withIn(e.s, f, loc, d, func(r *reader) *fault {
			named = r.h.named
			return fn(r)
		})
	})
	return out, named, err
}

// use records that n bytes of an object in a segment are read.
func (e *Eviction) use(id uint64, n int64) {
	s := e.s
	if s.o.Elsewhere == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[id]
	if g == nil {
		return
	}
	s.reads++
	g.used = s.reads
	if g.away {
		g.fetched += n
	}
}

// recallSuffix ends the name of a file that will become that of a segment.
const recallSuffix = ".fetch"

// left records that the file of an evicted segment is deleted.
func (e *Eviction) left(id uint64) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if g := e.s.segments[id]; g != nil {
		g.leaving = false
	}
}

// errLeaving means that a reader still uses the file that an eviction deletes.
var errLeaving = errors.New("object: a reader still uses the evicted file")

// Recall makes the file of an evicted segment again. fetch writes the content, which it has verified. Calls of Recall,
// Heal and Evict for one segment must not run at the same time.
func (e *Eviction) Recall(id uint64, fetch func(io.Writer) error) error {
	return e.fetchFile("recall", id, true, fetch, nil)
}

// Heal replaces the file of a sealed segment, which is damaged or lost, by what fetch writes, unless check returns an
// error. check gets the damaged ranges of what fetch wrote. Running reads end with the old file.
func (e *Eviction) Heal(id uint64, fetch func(io.Writer) error, check func([]DamagedRange) error) error {
	return e.fetchFile("heal", id, false, fetch, check)
}

// fetchFile makes the file of a sealed segment that is evicted or not, as away says. check may be nil.
func (e *Eviction) fetchFile(verb string, id uint64, away bool, fetch func(io.Writer) error,
	check func([]DamagedRange) error) error {
	s := e.s
	size, err := e.fetchable(id, away)
	if err != nil {
		return fmt.Errorf("object: %s segment %d: %w", verb, id, err)
	}
	path := s.path(id) + recallSuffix
	err = e.writeFile(path, size, fetch)
	if err == nil && check != nil {
		err = e.checkFile(path, id, size, check)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("object: %s segment %d: %w", verb, id, err), s.env.FS.Remove(path))
	}
	err = s.env.FS.Rename(path, s.path(id))
	if err == nil {
		err = s.flushFolder()
	}
	if err != nil {
		return fmt.Errorf("object: %s segment %d: %w", verb, id, err)
	}
	return e.attach(id)
}

// fetchable returns the size of a sealed segment that is evicted or not, as away says.
func (e *Eviction) fetchable(id uint64, away bool) (int64, error) {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch g := s.segments[id]; {
	case s.closed:
		return 0, ErrClosed
	case g == nil || !g.sealed || g.away != away:
		return 0, ErrNotFound
	case g.leaving:
		return 0, errLeaving
	default:
		return g.size, nil
	}
}

// writeFile writes a file of size bytes durably. It is flushed while it is written, because a single flush of
// everything at the end would delay the flushes of other files.
func (e *Eviction) writeFile(path string, size int64, fetch func(io.Writer) error) error {
	s := e.s
	f, err := s.env.FS.Create(path, category)
	if err != nil {
		return err
	}
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: 1 << 20})
	if err = fetch(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	info, err := s.env.FS.Stat(path)
	if err == nil && info.Size() != size {
		err = fmt.Errorf("%d bytes of %d: %w", info.Size(), size, io.ErrUnexpectedEOF)
	}
	return err
}

// checkFile calls check with the damaged ranges of a file with a segment of size bytes.
func (e *Eviction) checkFile(path string, id uint64, size int64, check func([]DamagedRange) error) error {
	f, err := e.s.env.FS.Open(path)
	if err != nil {
		return err
	}
	var damaged []DamagedRange
	o := ScanOptions{Damaged: func(r DamagedRange) { damaged = append(damaged, r) }}
	err = scanIn(e.s, f, false, id, size, o, func(Digest, Location) error { return nil })
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return check(damaged)
}

// attach makes readers use the file of a segment again. If the segment was removed meanwhile, it deletes the file.
func (e *Eviction) attach(id uint64) error {
	s := e.s
	s.mu.Lock()
	g := s.segments[id]
	if g == nil {
		s.mu.Unlock()
		if err := s.env.FS.Remove(s.path(id)); !errors.Is(err, fs.ErrNotExist) { // else the removal came last
			return err
		}
		return nil
	}
	g.away, g.fetched = false, 0
	f, _ := s.handles.drop(id, false)
	s.mu.Unlock()
	if f != nil {
		return f.Close()
	}
	return nil
}
