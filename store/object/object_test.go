package object

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"doublet/env"
)

func testEnv(fs env.FS) *env.Env {
	e := env.Real(slog.New(slog.DiscardHandler))
	e.FS = fs
	return e
}

func open(t testing.TB, fs env.FS, o Options) *Store {
	t.Helper()
	s, err := Open(testEnv(fs), "objects", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type blob struct {
	d       Digest
	loc     Location
	content []byte
}

func put(t testing.TB, s *Store, content []byte) blob {
	t.Helper()
	d := Sum(content)
	loc, err := s.Append(d, content)
	if err != nil {
		t.Fatal(err)
	}
	return blob{d, loc, content}
}

func check(t testing.TB, s *Store, b blob) {
	t.Helper()
	got, err := s.Read(b.loc, b.d, nil)
	if err != nil {
		t.Fatalf("read %+v: %v", b.loc, err)
	}
	if !bytes.Equal(got, b.content) {
		t.Fatalf("read %+v: other content", b.loc)
	}
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func text(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = fmt.Appendf(b, "line %d of the minutes\r\n", rng.IntN(1000))
	}
	return b[:n]
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// content returns a random blob whose size is near the limits at which the format changes.
func content(rng *rand.Rand) []byte {
	sizes := []int{0, 1, 127, 128, 4000, joinBelow, joinBelow + 1, 40 << 10, blockSize - 1, blockSize, blockSize + 1,
		3*blockSize + 77}
	n := sizes[rng.IntN(len(sizes))]
	switch rng.IntN(3) {
	case 0:
		return noise(rng, n)
	case 1:
		return text(rng, n)
	}
	return append(text(rng, n/2), noise(rng, n-n/2)...)
}

func TestLocationForm(t *testing.T) {
	t.Parallel()
	for _, l := range []Location{{}, {1, 64, 100, 50}, {maxSegment, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1}} {
		b := l.Append([]byte("x"))
		if len(b)-1 > LocationMaxLen {
			t.Errorf("%+v takes %d bytes", l, len(b)-1)
		}
		got, rest, err := ParseLocation(append(b[1:], "rest"...))
		if err != nil || got != l || string(rest) != "rest" {
			t.Errorf("%+v came back as %+v, %q, %v", l, got, rest, err)
		}
		for n := range len(b) - 1 {
			if _, _, err := ParseLocation(b[1 : 1+n]); err == nil {
				t.Errorf("%+v cut to %d bytes was accepted", l, n)
			}
		}
	}
	if _, _, err := ParseLocation([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1}); err == nil {
		t.Error("an offset over 32 bits was accepted")
	}
}

func FuzzParseLocation(f *testing.F) {
	f.Add(Location{7, 64, 100, 50}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, _, err := ParseLocation(b)
		if err != nil {
			return
		}
		if again, _, err := ParseLocation(l.Append(nil)); err != nil || again != l {
			t.Fatalf("%+v came back as %+v, %v", l, again, err)
		}
	})
}

func TestReadBack(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{SegmentSize: 1 << 20})
	rng := seeded()
	var all []blob
	for range 150 {
		b := put(t, s, content(rng))
		check(t, s, b)
		if err := s.Verify(b.loc, b.d); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	for range 500 {
		b := all[rng.IntN(len(all))]
		off, n := rng.IntN(len(b.content)+1), rng.IntN(len(b.content)+10)
		got, err := s.ReadRange(b.loc, b.d, int64(off), int64(n), []byte("before"))
		want := b.content[off:min(off+n, len(b.content))]
		if err != nil || string(got[:6]) != "before" || !bytes.Equal(got[6:], want) {
			t.Fatalf("range %d+%d of %d: %d bytes, %v", off, n, len(b.content), len(got), err)
		}
	}
	if _, err := s.Read(all[0].loc, Sum([]byte("other")), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("another digest's location was served: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(Digest{}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	s = open(t, fs, Options{})
	for _, b := range all {
		check(t, s, b)
	}
	for _, g := range s.Segments() {
		if !g.Sealed || g.Size > 1<<20 {
			t.Errorf("segment %+v", g)
		}
	}
}

func TestCompressionPaysOrIsLeft(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	rng := seeded()
	if b := put(t, s, text(rng, 300<<10)); int(b.loc.Stored) > len(b.content)/2 {
		t.Errorf("text of %d bytes takes %d", len(b.content), b.loc.Stored)
	}
	b := put(t, s, noise(rng, 300<<10))
	if int(b.loc.Stored) != len(b.content)+headLen(b.loc.Size) {
		t.Errorf("noise of %d bytes takes %d", len(b.content), b.loc.Stored)
	}
}

func TestEmptySegmentsVanishAndNumbersDoNotReturn(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{FirstSegment: 41})
	b := put(t, s, []byte("one"))
	if b.loc.Segment != 41 {
		t.Fatalf("first segment is %d", b.loc.Segment)
	}
	if err := s.Remove(41); !errors.Is(err, ErrActive) {
		t.Fatalf("removed an active segment: %v", err)
	}
	f, _ := fs.Create("objects/000000000050.seg", "x")
	_ = f.Close()
	_ = s.Close()
	s = open(t, fs, Options{})
	if got := s.Segments(); len(got) != 1 || got[0].ID != 41 {
		t.Fatalf("segments: %+v", got)
	}
	if c := put(t, s, []byte("two")); c.loc.Segment != 51 {
		t.Errorf("next segment is %d", c.loc.Segment)
	}
	check(t, s, b)
}

func TestNewerFormatRefused(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{})
	b := put(t, s, []byte("one"))
	_ = s.Close()
	data, _ := fs.UnsafeGetFileDataBuffer("objects/000000000001.seg")
	data[8] = 9
	sumInto(data)
	s = open(t, fs, Options{})
	if _, err := s.Read(b.loc, b.d, nil); !errors.Is(err, ErrFormat) {
		t.Fatalf("read: %v", err)
	}
}

func sumInto(segment []byte) {
	c := sum(segment[:60])
	segment[60], segment[61], segment[62], segment[63] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
}

func scanAll(t testing.TB, s *Store, id uint64, o ScanOptions) map[Digest]Location {
	t.Helper()
	m := map[Digest]Location{}
	if err := s.Scan(id, o, func(d Digest, l Location) error { m[d] = l; return nil }); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRewriteSegment(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{})
	rng := seeded()
	var all []blob
	for range 30 {
		all = append(all, put(t, s, append(content(rng), byte(len(all)))))
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	id := all[0].loc.Segment
	found := scanAll(t, s, id, ScanOptions{Check: CheckHeaders})
	var live []blob
	for i, b := range all {
		if found[b.d] != b.loc {
			t.Fatalf("scan gives %+v for %+v", found[b.d], b.loc)
		}
		if i%3 == 0 {
			loc, err := s.Copy(b.loc, b.d)
			if err != nil {
				t.Fatal(err)
			}
			if loc.Stored != b.loc.Stored {
				t.Error("a copy is packed otherwise")
			}
			live = append(live, blob{b.d, loc, b.content})
		}
	}
	if err := s.SyncAll(); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(all[0].loc, all[0].d, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("read from a removed segment: %v", err)
	}
	if names, _ := fs.List("objects"); len(names) != 1 {
		t.Errorf("files left: %v", names)
	}
	for _, b := range live {
		check(t, s, b)
		if err := s.Verify(b.loc, b.d); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats(); st.Copies != uint64(len(live)) || st.Appends != 30 || st.Segments != 1 {
		t.Errorf("stats: %+v", st)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{SegmentSize: 200 << 10, OpenFiles: 3})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(3, uint64(g)))
			var mine []blob
			for i := range 40 {
				c := append(noise(rng, rng.IntN(20<<10)), byte(g))
				d := Sum(c)
				loc, err := s.Append(d, c)
				if err == nil && i%2 == 0 {
					err = s.Sync(loc)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, blob{d, loc, c})
				b := mine[rng.IntN(len(mine))]
				got, err := s.Read(b.loc, b.d, nil)
				if err != nil || !bytes.Equal(got, b.content) {
					t.Errorf("read: %v", err)
					return
				}
			}
		}()
	}
	// Meanwhile segments are scanned and rewritten, and the old ones are read until they vanish.
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := range 10 {
			c := fmt.Appendf(nil, "old %d", i)
			loc, err := s.Append(Sum(c), c)
			if err = errors.Join(err, s.Seal()); err != nil {
				t.Error(err)
				return
			}
			err = s.Scan(loc.Segment, ScanOptions{}, func(d Digest, l Location) error {
				_, err := s.Copy(l, d)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	wg.Wait()
	if st := s.Stats(); st.OpenFiles > 3 {
		t.Errorf("%d files open", st.OpenFiles)
	}
}

func TestReadersSurviveRemoval(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{OpenFiles: 2})
	var blobs []blob
	for i := range 20 {
		blobs = append(blobs, put(t, s, fmt.Appendf(nil, "blob %d", i)))
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				for _, b := range blobs {
					got, err := s.Read(b.loc, b.d, nil)
					if !errors.Is(err, ErrNotFound) && (err != nil || !bytes.Equal(got, b.content)) {
						t.Errorf("read: %q, %v", got, err)
						return
					}
				}
			}
		}()
	}
	for _, b := range blobs {
		if err := s.Remove(b.loc.Segment); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if names, _ := fs.List("objects"); len(names) != 0 {
		t.Errorf("files left: %v", names)
	}
}
