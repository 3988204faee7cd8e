package pack

import (
	"encoding/binary"
	"testing"

	"doublet/note"
)

func sample() []byte {
	b := binary.AppendVarint(binary.AppendUvarint(nil, 1<<40), -5)
	b = append(b, 7, 1)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 9), 10)
	u := note.DeriveUNID([]byte("x"))
	b = append(b, u[:]...)
	b = append(binary.AppendUvarint(b, 3), "abc"...)
	b = append(binary.AppendUvarint(b, 2), "de"...)
	return binary.AppendUvarint(b, 12)
}

func read(b []byte) (out []any, r *Reader) {
	r = &Reader{B: b}
	out = append(out, r.Uvarint(), r.Varint(), r.Byte(), r.Bool(), r.Uint32(), r.Uint64(), note.UNID(r.UNID()),
		r.String(), r.Word(2), r.Uvarint32())
	return out, r
}

func TestReader(t *testing.T) {
	t.Parallel()
	got, r := read(sample())
	want := []any{uint64(1 << 40), int64(-5), byte(7), true, uint32(9), uint64(10), note.DeriveUNID([]byte("x")), "abc",
		"de", uint32(12)}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("value %d: %v, want %v", i, got[i], want[i])
		}
	}
	if !r.Done() {
		t.Error("not all was read")
	}
	if _, r := read(append(sample(), 0)); r.Done() || r.Bad {
		t.Error("a byte too many is not seen, or is damage")
	}
}

// TestShort truncates an encoding at every length: the reader is then bad, and later values are zero.
func TestShort(t *testing.T) {
	t.Parallel()
	for n := range sample() {
		got, r := read(sample()[:n])
		if !r.Bad || r.Done() {
			t.Errorf("%d bytes are enough", n)
		}
		if got[len(got)-1] != uint32(0) {
			t.Errorf("%d bytes: behind the end stands %v", n, got[len(got)-1])
		}
	}
}

func TestLies(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func(r *Reader) any{
		"more entries than bytes": func(r *Reader) any { r.B = []byte{200, 1, 0}; return r.Count(1) },
		"more than the bound":     func(r *Reader) any { r.B = []byte{3, 1, 2, 3}; return r.AtMost(2, 1) },
		"a bool of 2":             func(r *Reader) any { r.B = []byte{2}; r.Bool(); return 0 },
		"33 bits": func(r *Reader) any {
			r.B = binary.AppendUvarint(nil, 1<<32)
			return int(r.Uvarint32())
		},
		"a number without an end":  func(r *Reader) any { r.B = []byte{255, 255}; return int(r.Uvarint()) },
		"fewer bytes than nothing": func(r *Reader) any { r.B = []byte{1}; return len(r.Take(-1)) },
	} {
		r := &Reader{}
		if got := fn(r); !r.Bad || len(r.B) != 0 || got != 0 {
			t.Errorf("%s: %v, %+v", name, got, r)
		}
	}
}
