package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// copies is a place in memory with copies of segments.
type copies struct {
	mu    sync.Mutex
	files map[uint64][]byte
	// after is the number of reads that succeed before all others fail with fail; fail may be nil.
	after int
	fail  error
}

// Copies implements Elsewhere.
func (c *copies) Copies() (out []SegmentInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.files)) {
		out = append(out, SegmentInfo{ID: id, Size: int64(len(c.files[id])), Sealed: true})
	}
	return out
}

// Open implements Elsewhere.
func (c *copies) Open(id uint64) (Source, error) { return &oneCopy{c, id}, nil }

func (c *copies) failing(after int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after, c.fail = after, err
}

type oneCopy struct {
	c  *copies
	id uint64
}

// ReadAt implements io.ReaderAt.
func (o *oneCopy) ReadAt(p []byte, off int64) (int, error) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.c.after--; o.c.after < 0 && o.c.fail != nil {
		return 0, o.c.fail
	}
	return bytes.NewReader(o.c.files[o.id]).ReadAt(p, off)
}

// Close implements io.Closer.
func (o *oneCopy) Close() error { return nil }

// evict copies a sealed segment and evicts it.
func (c *copies) evict(t testing.TB, s *Store, id uint64) {
	t.Helper()
	f, err := s.OpenSegment(id)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, g := range s.Segments() {
		if g.ID == id {
			b, err = io.ReadAll(io.NewSectionReader(f, 0, g.Size))
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.files[id] = b
	c.mu.Unlock()
	if err := s.Eviction.Evict(id); err != nil {
		t.Fatal(err)
	}
}

// recall makes the file of an evicted segment again.
func (c *copies) recall(t testing.TB, s *Store, id uint64) {
	t.Helper()
	err := s.Eviction.Recall(id, func(w io.Writer) error {
		_, err := w.Write(bytes.Clone(c.files[id]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func noFile(t testing.TB, fs vfs.FS, id uint64) {
	t.Helper()
	if _, err := fs.Stat("objects/" + FileName(id)); err == nil {
		t.Fatalf("segment %d has a file", id)
	}
}

// TestEvicted is TestRandomOperations with evictions, and with a place that fails at times.
func TestEvicted(t *testing.T) {
	t.Parallel()
	rng := seeded()
	fs := vfs.NewMem()
	c := &copies{files: map[uint64][]byte{}}
	o := Options{SegmentSize: 256 << 10, OpenFiles: 4, Elsewhere: c}
	s := open(t, fs, o)
	model := map[Digest]blob{}
	pick := func() (b blob, ok bool) {
		digests := slices.SortedFunc(maps.Keys(model), func(a, b Digest) int { return bytes.Compare(a[:], b[:]) })
		if len(digests) == 0 {
			return blob{}, false
		}
		return model[digests[rng.IntN(len(digests))]], true
	}
	evicted, refused := 0, 0
	for range 800 {
		switch op := rng.IntN(40); {
		case op < 14:
			b := put(t, s, append(content(rng), byte(rng.Uint32()), byte(rng.Uint32())))
			model[b.d] = b
		case op < 26:
			if b, ok := pick(); ok {
				check(t, s, b)
			}
		case op < 30: // the place fails during a read
			b, ok := pick()
			if !ok {
				continue
			}
			c.failing(rng.IntN(3), fmt.Errorf("%w: test", ErrAway))
			got, err := s.Read(b.loc, b.d, nil)
			c.failing(0, nil)
			if err == nil && !bytes.Equal(got, b.content) || err != nil && !errors.Is(err, ErrAway) {
				t.Fatalf("read while the place fails: %v", err)
			}
			if err != nil {
				refused++
			}
		case op < 36:
			for _, g := range s.Segments() {
				switch {
				case g.Sealed && !g.Away && rng.IntN(2) == 0:
					c.evict(t, s, g.ID)
					noFile(t, fs, g.ID)
					evicted++
				case g.Away && rng.IntN(4) == 0:
					c.recall(t, s, g.ID)
				}
			}
		case op < 38:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, fs, o)
		default:
			list := s.Segments()
			rewrite(t, s, model)
			if len(list) > 0 && list[0].Sealed {
				delete(c.files, list[0].ID)
			}
		}
	}
	for _, b := range model {
		check(t, s, b)
	}
	away := 0
	for _, g := range s.Segments() {
		if g.Away {
			away++
		}
	}
	if st := s.Stats(); evicted == 0 || refused == 0 || away == 0 || st.Damaged != 0 || st.Away != away {
		t.Errorf("%d evicted, %d reads refused, %d copies, stats %+v", evicted, refused, len(c.files), st)
	}
}

// TestUnreachable reads, copies and scans a segment whose copy cannot be reached, at each read. Nothing of it may be
// taken for damage.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	rng := seeded()
	c := &copies{files: map[uint64][]byte{}}
	s := open(t, vfs.NewMem(), Options{Elsewhere: c})
	var blobs []blob
	for range 5 {
		blobs = append(blobs, put(t, s, noise(rng, 3*blockSize/2)))
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	c.evict(t, s, 1)
	scan := func(o ScanOptions) (n int, err error) {
		o.Damaged = func(d DamagedRange) { t.Errorf("%+v is taken for damage", d) }
		err = s.Scan(1, o, func(Digest, Location) error { n++; return nil })
		return n, err
	}
	for _, o := range []ScanOptions{{}, {Check: CheckHeaders}, {Check: CheckDigests}} {
		c.failing(0, nil)
		n, err := scan(o)
		if n != len(blobs) || err != nil {
			t.Fatalf("%d records, %v", n, err)
		}
		for after := 0; ; after++ {
			c.failing(after, fmt.Errorf("%w: test", ErrAway))
			n, err := scan(o)
			if err == nil && n == len(blobs) {
				break
			}
			if !errors.Is(err, ErrAway) {
				t.Fatalf("after %d reads: %d records, %v", after, n, err)
			}
		}
	}
	c.failing(0, fmt.Errorf("%w: test", ErrAway))
	_, copied := s.Copy(blobs[0].loc, blobs[0].d)
	for _, err := range []error{copied, s.Verify(blobs[0].loc, blobs[0].d)} {
		if !errors.Is(err, ErrAway) || errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	}
	// A copy that cannot be decrypted is damaged. A scan ends there too.
	c.failing(0, errors.New("forged"))
	if _, err := s.Read(blobs[0].loc, blobs[0].d, nil); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if _, err := scan(ScanOptions{}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	c.failing(0, nil)
	for _, b := range blobs {
		check(t, s, b)
	}
	// Bytes of the place that differ are never returned.
	for at := segmentHeader; at < len(c.files[1]); at += 1 + rng.IntN(8000) {
		c.files[1][at] ^= 4
		for _, b := range blobs {
			got, err := s.Read(b.loc, b.d, nil)
			if err == nil && !bytes.Equal(got, b.content) || err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
		c.files[1][at] ^= 4
	}
}

// TestEvictWhileReading evicts and removes a segment that is being read.
func TestEvictWhileReading(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	c := &copies{files: map[uint64][]byte{}}
	s := open(t, fs, Options{Elsewhere: c})
	b := put(t, s, []byte("content"))
	if err := s.Eviction.Evict(1); !errors.Is(err, ErrActive) {
		t.Errorf("evicted while it grows: %v", err)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	reading, err := s.OpenSegment(1)
	if err != nil {
		t.Fatal(err)
	}
	c.evict(t, s, 1)
	if err := s.Eviction.Evict(1); err != nil {
		t.Errorf("evicted twice: %v", err)
	}
	check(t, s, b)
	if _, err := fs.Stat("objects/" + FileName(1)); err != nil {
		t.Errorf("the file of a reader is gone: %v", err)
	}
	var head [segmentHeader]byte
	if _, err := reading.ReadAt(head[:], 0); err != nil {
		t.Error(err)
	}
	// The end of that reader would delete the new file.
	if err := s.Eviction.Recall(1, func(io.Writer) error { return nil }); !errors.Is(err, errLeaving) {
		t.Errorf("recalled while the old file is in use: %v", err)
	}
	if err := s.Remove(1); err != nil {
		t.Fatal(err)
	}
	if err := reading.Close(); err != nil {
		t.Fatal(err)
	}
	noFile(t, fs, 1)
	if _, err := s.Read(b.loc, b.d, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("read of a removed segment: %v", err)
	}
	if err := s.Eviction.Evict(1); !errors.Is(err, ErrNotFound) {
		t.Errorf("evicted after it was removed: %v", err)
	}
}

// TestRecall makes the file of an evicted segment again, while it is read. One that fails leaves no file.
func TestRecall(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	c := &copies{files: map[uint64][]byte{}}
	o := Options{Elsewhere: c}
	s := open(t, fs, o)
	b := put(t, s, noise(seeded(), 5000))
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	c.evict(t, s, 1)
	reading, err := s.OpenSegment(1)
	if err != nil {
		t.Fatal(err)
	}
	check(t, s, b)
	if g := s.Segments()[0]; g.Fetched != int64(len(b.content)) {
		t.Errorf("%+v", g)
	}
	for _, fetch := range []func(io.Writer) error{
		func(io.Writer) error { return errors.New("away") },
		func(w io.Writer) error { _, err := w.Write([]byte("short")); return err },
	} {
		if err := s.Eviction.Recall(1, fetch); err == nil {
			t.Error("no error")
		}
		if names, err := fs.List("objects"); err != nil || len(names) != 0 {
			t.Errorf("%v %v", names, err)
		}
	}
	c.recall(t, s, 1)
	c.failing(0, errors.New("the copy is used"))
	check(t, s, b)
	if err := reading.Close(); err != nil {
		t.Error(err)
	}
	check(t, s, b)
	if err := s.Eviction.Recall(1, func(io.Writer) error { return nil }); !errors.Is(err, ErrNotFound) {
		t.Errorf("recalled twice: %v", err)
	}
	c.failing(0, nil)
	c.evict(t, s, 1)
	// A recall that a crash interrupted leaves nothing.
	if f, err := fs.Create("objects/"+FileName(1)+recallSuffix, category); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, o)
	check(t, s, b)
	if names, err := fs.List("objects"); err != nil || len(names) != 0 {
		t.Errorf("%v %v", names, err)
	}
}

// TestLostFolder opens a folder whose files are lost. Segments with a copy come back, and no number is given again.
func TestLostFolder(t *testing.T) {
	t.Parallel()
	c := &copies{files: map[uint64][]byte{}}
	fs := vfs.NewMem()
	s := open(t, fs, Options{Elsewhere: c})
	b := put(t, s, []byte("content"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.files[1], _ = fs.UnsafeGetFileDataBuffer("objects/" + FileName(1))
	s = open(t, vfs.NewMem(), Options{Elsewhere: c})
	check(t, s, b)
	if again := put(t, s, []byte("more")); again.loc.Segment != 2 {
		t.Errorf("a new segment has number %d", again.loc.Segment)
	}
	want := []SegmentInfo{{ID: 1, Size: b.loc.End(), Sealed: true, Away: true, Used: 1, Fetched: 7}}
	if got := s.Segments(); !slices.Equal(got[:1], want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if d := s.Durable(); len(d) != 1 || !d[0].Away {
		t.Errorf("durable: %+v", d)
	}
}
