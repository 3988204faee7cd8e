package object

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"doublet/env"
)

// Options are the options of a Store. Zero values mean the defaults.
type Options struct {
	// SegmentSize is the size in bytes after which a new segment begins; default 256 MB, at most 2 GB. A larger blob
	// gets a segment of its own.
	SegmentSize int64
	// OpenFiles bounds the segment files held open for reading; default 64.
	OpenFiles int
	// FirstSegment is the lowest number of a new segment. New numbers are always above every file found. FirstSegment
	// also prevents the reuse of the numbers of removed segments.
	FirstSegment uint64
	// NoCompression stores content uncompressed.
	NoCompression bool
	// Elsewhere has copies of segments, from which evicted ones are read. It may be nil.
	Elsewhere Elsewhere
}

// SegmentInfo describes one segment file.
type SegmentInfo struct {
	ID     uint64
	Size   int64 // bytes of the file up to the end of its last record
	Sealed bool  // nothing more will be appended
	// Away means that the segment was evicted: it has no file, and is read from its copy.
	Away bool
	// Used orders segments by their last read in this process; 0 is none. Fetched is the number of bytes that were read
	// since the segment was evicted.
	Used    uint64
	Fetched int64
}

// Records returns the bytes of a segment's records.
func (i SegmentInfo) Records() int64 { return i.Size - segmentHeader }

// Store is a folder of segments. All methods are safe for concurrent use.
type Store struct {
	env *env.Env
	dir string
	o   Options
	enc *zstd.Encoder
	dec *zstd.Decoder

	// appendMu serializes writes to the active segment. It is locked before mu. It is held during the write of one
	// record, never during a flush.
	appendMu sync.Mutex
	active   *segment // nil: the next append begins a segment
	next     uint64   // number of the next segment

	// mu guards the following fields. It is never held during input or output.
	mu       sync.Mutex
	synced   sync.Cond // a flush ended
	segments map[uint64]*segment
	handles  handles
	tail     position   // everything before it is written
	durable  position   // everything before it is flushed
	dirty    []*segment // segments written to since the start of the flush that covered them, in ascending order
	newNames bool       // a segment was created since the directory was flushed
	reads    uint64     // counts the reads of objects
	syncing  bool
	failed   error // set once by a failed flush
	closed   bool

	count counters

	// Eviction evicts and recalls segments, if Options.Elsewhere is set.
	Eviction Eviction
}

// segment is one file. Its fields are guarded by Store.mu, except w, which is the appender's.
type segment struct {
	id     uint64
	size   int64
	sealed bool
	w      env.File // for appending; nil once sealed
	f      env.File // for flushing; nil once sealed and flushed
	// flushed means that the bytes left by an earlier process are known to be on the device.
	flushed bool
	away    bool   // it has no file; Elsewhere has a copy
	leaving bool   // it was evicted, and a reader still uses the file
	used    uint64 // Store.reads at the last read
	fetched int64  // bytes read since it was evicted
}

// position orders the bytes of all segments.
type position struct {
	segment uint64
	offset  int64
}

func (p position) before(q position) bool {
	return p.segment < q.segment || (p.segment == q.segment && p.offset < q.offset)
}

const suffix = ".seg"

// FileName returns the name of a segment's file.
func FileName(id uint64) string { return fmt.Sprintf("%012d%s", id, suffix) }

func (s *Store) path(id uint64) string { return s.env.FS.PathJoin(s.dir, FileName(id)) }

// Open opens the folder dir, creating it if needed. It reads only names and sizes. Segments that hold nothing but a
// header are removed. All others are sealed, because nothing may be appended after a torn end.
func Open(e *env.Env, dir string, o Options) (*Store, error) {
	if o.SegmentSize <= 0 {
		o.SegmentSize = 256 << 20
	}
	o.SegmentSize = min(o.SegmentSize, 1<<31)
	if o.OpenFiles <= 0 {
		o.OpenFiles = 64
	}
	s := &Store{env: e, dir: dir, o: o, segments: map[uint64]*segment{}, next: max(o.FirstSegment, 1)}
	s.synced.L = &s.mu
	s.Eviction.s = s
	s.handles.init(o.OpenFiles)
	var err error
	if s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(blockSize), zstd.WithSingleSegment(true)); err != nil {
		return nil, fmt.Errorf("object: compressor: %w", err)
	}
	// The capacity limit bounds the unpacked size of a frame by the room of its block.
	if s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(1<<20),
		zstd.WithDecodeAllCapLimit(true)); err != nil {
		return nil, fmt.Errorf("object: decompressor: %w", err)
	}
	if err := e.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("object: create folder: %w", err)
	}
	if err := s.list(); err != nil {
		return nil, err
	}
	s.Eviction.list()
	// This process has flushed nothing below the first new segment, so positions begin there.
	s.tail = position{segment: s.next}
	s.durable = s.tail
	return s, nil
}

func (s *Store) list() error {
	names, err := s.env.FS.List(s.dir)
	if err != nil {
		return fmt.Errorf("object: list folder: %w", err)
	}
	for _, name := range names {
		id, ok := segmentNumber(name)
		if !ok {
			if strings.HasSuffix(name, suffix+recallSuffix) { // of a recall that was interrupted
				if err := s.env.FS.Remove(s.env.FS.PathJoin(s.dir, name)); err != nil {
					return fmt.Errorf("object: remove %s: %w", name, err)
				}
			}
			continue
		}
		// The number of an empty segment is not reused within this process.
		s.next = max(s.next, id+1)
		info, err := s.env.FS.Stat(s.path(id))
		if err != nil {
			return fmt.Errorf("object: stat segment: %w", err)
		}
		if info.Size() <= segmentHeader {
			if err := s.env.FS.Remove(s.path(id)); err != nil {
				return fmt.Errorf("object: remove empty segment: %w", err)
			}
			continue
		}
		s.segments[id] = &segment{id: id, size: info.Size(), sealed: true}
	}
	return nil
}

func segmentNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 12 {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil
}

// Segments lists the segments in ascending order of their numbers.
func (s *Store) Segments() []SegmentInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]SegmentInfo, 0, len(s.segments))
	for _, id := range slices.Sorted(maps.Keys(s.segments)) {
		g := s.segments[id]
		out = append(out, SegmentInfo{ID: id, Size: g.size, Sealed: g.sealed, Away: g.away, Used: g.used,
			Fetched: g.fetched})
	}
	return out
}

// Unlisted counts the files of removed segments with numbers below a bound: a reader still uses them, or they could not
// be deleted.
func Unlisted(s *Store, below uint64) (n int, err error) {
	names, err := s.env.FS.List(s.dir)
	if err != nil {
		return 0, fmt.Errorf("object: list folder: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		// A segment that is removed while it is recalled may have a file with the suffix of a recall.
		id, ok := segmentNumber(strings.TrimSuffix(name, recallSuffix))
		if ok && id < below && s.segments[id] == nil {
			n++
		}
	}
	return n, nil
}

// Seal ends the active segment, if there is one, and returns when it is durable. The next append begins a new segment.
func (s *Store) Seal() error {
	s.appendMu.Lock()
	s.sealActive()
	s.appendMu.Unlock()
	return s.SyncAll()
}

// sealActive is called with appendMu held.
func (s *Store) sealActive() {
	g := s.active
	if g == nil {
		return
	}
	s.active = nil
	// The handle for flushing reports errors of the device; this one has nothing more to write.
	_ = g.w.Close()
	g.w = nil
	s.mu.Lock()
	g.sealed = true
	done := s.retire()
	s.mu.Unlock()
	closeAll(done)
}

// retire removes the sealed and flushed segments from the dirty list and returns their handles for closing. The caller
// holds mu.
func (s *Store) retire() (done []io.Closer) {
	if s.syncing {
		return nil // the flusher uses the handles, and calls retire when it has finished
	}
	s.dirty = slices.DeleteFunc(s.dirty, func(g *segment) bool {
		if !g.sealed || s.durable.before(position{g.id, g.size}) {
			return false
		}
		done = append(done, g.f)
		g.f = nil
		return true
	})
	return done
}

// closeAll closes handles that are read-only or flushed.
func closeAll(files []io.Closer) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Remove deletes a sealed segment. Every Location in it then causes ErrNotFound. Running reads are not disturbed; the
// last one deletes the file. After a crash a removed segment may exist again. A copy elsewhere stays.
func (s *Store) Remove(id uint64) error {
	if err := s.detach(id, false); err != nil {
		return fmt.Errorf("remove segment %d: %w", id, err)
	}
	return nil
}

// detach deletes the file of a sealed segment once no reader uses it. The segment leaves the table, or stays in it as
// one that is away.
func (s *Store) detach(id uint64, away bool) error {
	f, linked, err := s.forget(id, away)
	if err != nil {
		return err
	}
	if linked {
		return s.unlink(id, f)
	}
	if f != nil {
		return f.Close()
	}
	return nil
}

// forget removes a sealed segment's handle from the tables, and the segment too unless it stays as one that is away. f
// is the handle if no reader uses it. linked means that the caller has to delete the file.
func (s *Store) forget(id uint64, away bool) (f Source, linked bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		g := s.segments[id]
		switch {
		case s.closed:
			return nil, false, ErrClosed
		case g == nil:
			return nil, false, ErrNotFound
		case !g.sealed:
			return nil, false, ErrActive
		case g.f == nil:
			var busy bool
			f, busy = s.handles.drop(id, !g.away)
			linked = !busy && !g.away
			g.leaving = g.leaving || busy && !g.away
			if g.away, g.flushed = away, true; !away {
				delete(s.segments, id)
			}
			return f, linked, nil
		case s.failed != nil:
			return nil, false, s.failed
		case s.syncing:
			s.synced.Wait()
		default:
			s.flush()
		}
	}
}

// unlink closes the read handle f, if any, and deletes the file of a removed segment.
func (s *Store) unlink(id uint64, f Source) error {
	var closing error
	if f != nil {
		closing = f.Close()
	}
	return errors.Join(closing, s.env.FS.Remove(s.path(id)))
}

// Close flushes what was appended and closes all files. Running reads are not disturbed.
func (s *Store) Close() error {
	s.appendMu.Lock()
	s.sealActive()
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.appendMu.Unlock()
	if again {
		return nil
	}
	err := s.SyncAll()
	s.mu.Lock()
	for s.syncing {
		s.synced.Wait()
	}
	idle := s.handles.closeAll()
	for _, g := range s.dirty { // left only after a failed flush
		idle = append(idle, g.f)
		g.f = nil
	}
	s.dirty = nil
	s.mu.Unlock()
	closeAll(idle)
	// The codecs are not closed: they hold no goroutines when used one block at a time, and readers may still use them.
	return err
}
