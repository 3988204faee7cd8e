package object

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestNamed appends content whose name is not its digest. It is read, scanned, copied and verified by its checksums,
// and damage is found. It is never compressed.
func TestNamed(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{})
	name, content := Digest{7}, bytes.Repeat([]byte("text "), 100_000)
	loc, err := AppendNamed(s, name, content)
	if err != nil {
		t.Fatal(err)
	}
	plain := put(t, s, noise(rand.New(rand.NewPCG(1, 2)), 1000))
	check(t, s, blob{name, loc, content})
	if loc.Stored < uint32(len(content)) {
		t.Errorf("%d bytes were stored as %d", len(content), loc.Stored)
	}
	if err := errors.Join(s.Seal(), s.Verify(loc, name), s.Verify(plain.loc, plain.d)); err != nil {
		t.Fatal(err)
	}
	copied, err := s.Copy(loc, name)
	if err != nil {
		t.Fatal(err)
	}
	check(t, s, blob{name, copied, content})
	if err := errors.Join(s.Seal(), s.Verify(copied, name)); err != nil {
		t.Error("the copy is not known to be named: ", err)
	}
	for _, c := range []Check{CheckSums, CheckHeaders, CheckDigests} {
		if got := scanAll(t, s, loc.Segment, ScanOptions{Check: c}); got[name] != loc || got[plain.d] != plain.loc {
			t.Errorf("check %d found %v", c, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flipByte(t, fs, loc, int64(loc.Stored)-100)
	s = open(t, fs, Options{})
	if err := s.Verify(loc, name); !errors.Is(err, ErrDamaged) {
		t.Error("damage was not found: ", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// flipByte damages a byte of a record.
func flipByte(t *testing.T, fs vfs.FS, loc Location, at int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(fs.PathJoin("objects", FileName(loc.Segment)), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, int64(loc.Offset)+at)
	b[0] ^= 1
	_, werr := f.WriteAt(b, int64(loc.Offset)+at)
	if err = errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}
