package object

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRandomOperations runs every operation in random order against a map.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	rng := seeded()
	fs := vfs.NewMem()
	o := Options{SegmentSize: 256 << 10, OpenFiles: 4}
	s := open(t, fs, o)
	model := map[Digest]blob{}
	pick := func() (b blob, ok bool) {
		for _, b := range model {
			return b, true
		}
		return blob{}, false
	}
	for range 800 {
		var err error
		switch op := rng.IntN(40); {
		case op < 14:
			b := put(t, s, append(content(rng), byte(rng.Uint32()), byte(rng.Uint32())))
			model[b.d] = b
		case op < 28:
			if b, ok := pick(); ok {
				check(t, s, b)
			}
		case op < 34:
			if b, ok := pick(); ok {
				err = s.Sync(b.loc)
			}
		case op < 36: // objects that are forgotten become garbage
			if b, ok := pick(); ok {
				delete(model, b.d)
			}
		case op < 37:
			err = s.Seal()
		case op < 38:
			err = s.Close()
			s = open(t, fs, o)
		default:
			rewrite(t, s, model)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	for _, b := range model {
		check(t, s, b)
	}
	for _, g := range s.Segments() {
		total += g.Size
	}
	if st := s.Stats(); st.Damaged != 0 || st.Bytes != total || st.OpenFiles > o.OpenFiles {
		t.Errorf("stats %+v, segments hold %d", st, total)
	}
}

// rewrite moves the live records of the oldest sealed segment and removes the segment.
func rewrite(t *testing.T, s *Store, model map[Digest]blob) {
	t.Helper()
	list := s.Segments()
	if len(list) == 0 || !list[0].Sealed {
		return
	}
	err := s.Scan(list[0].ID, ScanOptions{Check: CheckHeaders}, func(d Digest, l Location) error {
		b, ok := model[d]
		if !ok || b.loc != l {
			return nil
		}
		loc, err := s.Copy(l, d)
		model[d] = blob{d, loc, b.content}
		return err
	})
	if err = errors.Join(err, s.SyncAll()); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(list[0].ID); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBytesInLargeRecords is TestEveryFlippedByte for records of several blocks, at a selection of places and
// with ranges. A range that does not touch the damage may be served.
func TestFlippedBytesInLargeRecords(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	rng := seeded()
	s := open(t, fs, Options{})
	half := append(text(rng, 2*blockSize), noise(rng, blockSize/2)...)
	blobs := []blob{put(t, s, noise(rng, 2*blockSize+500)), put(t, s, half), put(t, s, text(rng, 3*blockSize))}
	_ = s.Close()
	data, _ := fs.UnsafeGetFileDataBuffer("objects/000000000001.seg")
	s = open(t, fs, Options{})
	for at := segmentHeader; at < len(data); at += 1 + rng.IntN(8000) {
		data[at] ^= 0x10
		for i, b := range blobs {
			hit := int64(at) >= int64(b.loc.Offset) && int64(at) < b.loc.End()
			if _, err := s.Read(b.loc, b.d, nil); errors.Is(err, ErrDamaged) != hit {
				t.Fatalf("byte %d, blob %d: %v", at, i, err)
			}
			off := rng.IntN(len(b.content))
			got, err := s.ReadRange(b.loc, b.d, int64(off), 5000, nil)
			if err == nil && !bytes.Equal(got, b.content[off:min(off+5000, len(b.content))]) || err != nil && !hit {
				t.Fatalf("byte %d, blob %d: range at %d: %v", at, i, off, err)
			}
			if hit {
				if _, err := s.Copy(b.loc, b.d); !errors.Is(err, ErrDamaged) {
					t.Fatalf("byte %d, blob %d: copied: %v", at, i, err)
				}
			}
		}
		data[at] ^= 0x10
	}
}
