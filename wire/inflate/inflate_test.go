package inflate

import (
	"bytes"
	stdflate "compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

// all decodes packed in pieces of lengths from cut, and optionally calls Rest between pieces.
func all(packed []byte, cut func() int, rest bool) ([]byte, error) {
	var d Decoder
	defer d.Close()
	var got []byte
	for {
		piece := packed[:min(len(packed), cut())]
		packed = packed[len(piece):]
		for {
			out, used, err := d.Decode(piece)
			got = append(got, out...)
			piece = piece[used:]
			if err != nil {
				return got, err
			}
			if len(out) == 0 {
				if len(piece) > 0 {
					return got, errors.New("nothing out, and not all used")
				}
				break
			}
		}
		if rest {
			d.Rest()
		}
		if len(packed) == 0 {
			return got, nil
		}
	}
}

func words(r *rand.Rand, n int) []byte {
	list := strings.Fields("the quick brown fox jumps over a lazy dog and FETCH 1:* (UID FLAGS) comes back " +
		"0123456789 again")
	var b []byte
	for len(b) < n {
		b = append(append(b, list[r.IntN(len(list))]...), ' ')
		if r.IntN(4) == 0 {
			b = append(b, byte(r.Uint32()))
		}
		if r.IntN(200) == 0 {
			b = append(b, bytes.Repeat(b[len(b)-1:], r.IntN(3000))...)
		}
	}
	return b[:n]
}

func pack(t testing.TB, text []byte, level int, flushAt int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := stdflate.NewWriter(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	for len(text) > 0 {
		n := min(len(text), flushAt)
		if _, err := w.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDecode covers every kind of block with every division into pieces.
func TestDecode(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, level := range []int{stdflate.HuffmanOnly, 0, 1, 6, 9} {
		for _, size := range []int{0, 1, 300, 40_000, 300_000} {
			text := words(r, size)
			packed := pack(t, text, level, 1+r.IntN(size+1))
			for name, cut := range map[string]func() int{
				"whole": func() int { return len(packed) }, "bytes": func() int { return 1 },
				"random": func() int { return 1 + r.IntN(700) },
			} {
				for _, rest := range []bool{false, true} {
					if got, err := all(packed, cut, rest); err != io.EOF || !bytes.Equal(got, text) {
						t.Fatalf("level %d, %d bytes, %s, rest %v: %d bytes, %v", level, size, name, rest,
							len(got), err)
					}
				}
			}
		}
	}
}

// TestFarthest covers matches at the maximum distance, also after pauses and after the buffer was shifted.
func TestFarthest(t *testing.T) {
	t.Parallel()
	var w bitWriter
	r := rand.New(rand.NewPCG(7, 8))
	past := make([]byte, Window)
	for i := range past {
		past[i] = byte(r.Uint32())
	}
	w.bits(0, 8).bits(Window, 16).bits(Window^0xffff, 16)
	for _, b := range past {
		w.bits(uint(b), 8)
	}
	want := bytes.Clone(past)
	for range 1000 { // blocks with one match: 258 bytes at distance 32768
		w.bits(0, 1).bits(1, 2).code(0xc5, 8).code(29, 5).bits(1<<13-1, 13).code(0, 7)
		want = append(want, want[len(want)-Window:][:maxMatch]...)
	}
	for _, n := range []int{len(w.b), 7, 5000} {
		if got, err := all(w.b, func() int { return n }, n == 7); err != nil || !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: %d bytes, %v", n, len(got), err)
		}
	}
}

// bitWriter writes bits, the lowest first; code writes a Huffman code, the highest bit first.
type bitWriter struct {
	b []byte
	n uint
}

func (w *bitWriter) bits(v, n uint) *bitWriter {
	for i := range n {
		if w.n&7 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[w.n>>3] |= byte(v>>i&1) << (w.n & 7)
		w.n++
	}
	return w
}

func (w *bitWriter) code(v, n uint) *bitWriter {
	for i := range n {
		w.bits(v>>(n-1-i), 1)
	}
	return w
}

// TestAtOnce checks that a literal is output when its last bit has arrived, and that the empty fixed block of a partial
// flush leaves the decoder able to rest.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	var w bitWriter
	w.bits(0, 1).bits(1, 2)
	for _, c := range "hello" {
		w.code(0x30+uint(c), 8)
	}
	w.code(0, 7)                       // end of block
	w.bits(0, 1).bits(1, 2).code(0, 7) // the block that a partial flush adds
	var d Decoder
	got := ""
	for i, b := range w.b {
		out, _, err := d.Decode([]byte{b})
		if err != nil {
			t.Fatal(err)
		}
		// Character k ends with bit 3+8(k+1).
		if got += string(out); len(got) != min(5, (8*(i+1)-3)/8) {
			t.Fatalf("after %d bytes: %q", i+1, got)
		}
	}
	if d.Rest(); got != "hello" || !d.Resting() || len(d.past) != 5 {
		t.Errorf("%q, resting %v, %q", got, d.Resting(), d.past)
	}
}

// TestHostile checks that invalid streams are rejected, and remain so.
func TestHostile(t *testing.T) {
	t.Parallel()
	dynamic := func(codes ...uint) *bitWriter { // lengths of the codes 16 17 18 0 8 …
		w := new(bitWriter)
		w.bits(0, 1).bits(2, 2).bits(0, 5).bits(0, 5).bits(15, 4)
		for i := range 19 {
			if i < len(codes) {
				w.bits(codes[i], 3)
			} else {
				w.bits(0, 3)
			}
		}
		return w
	}
	for name, w := range map[string]*bitWriter{
		"block type 3":           new(bitWriter).bits(0, 1).bits(3, 2),
		"stored length":          new(bitWriter).bits(0, 8).bits(5, 16).bits(5, 16),
		"distance before start":  new(bitWriter).bits(0, 1).bits(1, 2).code(1, 7).code(0, 5),
		"distance symbol 30":     new(bitWriter).bits(0, 1).bits(1, 2).code(0x30+'a', 8).code(1, 7).code(30, 5),
		"length symbol 286":      new(bitWriter).bits(0, 1).bits(1, 2).code(0xc6, 8).bits(0, 40),
		"287 lengths":            new(bitWriter).bits(0, 1).bits(2, 2).bits(30, 5).bits(0, 5).bits(0, 4),
		"31 distances":           new(bitWriter).bits(0, 1).bits(2, 2).bits(0, 5).bits(30, 5).bits(0, 4),
		"over-subscribed codes":  dynamic(1, 1, 1),
		"incomplete codes":       dynamic(2, 2, 2),
		"repeat of nothing":      dynamic(1, 1).bits(0, 8),
		"too many zeros":         dynamic(0, 0, 1, 1).code(1, 1).bits(127, 7).code(1, 1).bits(127, 7),
		"no end of block":        dynamic(0, 0, 1, 1).code(1, 1).bits(127, 7).code(1, 1).bits(109, 7),
		"no code lengths at all": dynamic().bits(0, 8),
	} {
		for _, n := range []int{1, 3, 100} {
			got, err := all(w.b, func() int { return n }, true)
			if err != ErrCorrupt || len(got) > 1 {
				t.Errorf("%s in pieces of %d: %q, %v", name, n, got, err)
			}
		}
		if _, err := io.ReadAll(stdflate.NewReader(bytes.NewReader(append(w.b, make([]byte, 99)...)))); err == nil {
			t.Errorf("%s: another decoder takes it", name)
		}
	}
	var d Decoder
	_, _, err := d.Decode([]byte{6})
	if _, _, again := d.Decode([]byte{0, 0}); err != ErrCorrupt || again != ErrCorrupt {
		t.Error(err, again)
	}
}

// TestEmptyBlocks checks that empty blocks produce no output and hold no memory.
func TestEmptyBlocks(t *testing.T) {
	t.Parallel()
	var d Decoder
	for range 1000 {
		out, used, err := d.Decode(bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 200))
		if len(out) > 0 || used != 1000 || err != nil {
			t.Fatal(len(out), used, err)
		}
	}
	if d.Rest(); !d.Resting() || cap(d.past) > 0 {
		t.Error(cap(d.past))
	}
}

// FuzzDecode compares the output with another decoder, in pieces of all lengths: on compressed text that is then
// corrupted, and on arbitrary input.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for level := range 10 {
		f.Add(pack(f, words(r, 3000), level, 500), uint16(level*7), uint8(level), uint64(level))
	}
	f.Add([]byte{0, 0, 0, 0xff, 0xff}, uint16(0), uint8(0), uint64(1))
	f.Fuzz(func(t *testing.T, packed []byte, at uint16, flip uint8, seed uint64) {
		packed = bytes.Clone(packed)
		if len(packed) > 0 {
			packed[int(at)%len(packed)] ^= flip
		}
		want, wantErr := io.ReadAll(io.LimitReader(stdflate.NewReader(bytes.NewReader(packed)), 1<<22))
		if len(want) == 1<<22 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		most := 1 + int(seed%97)
		got, err := all(packed, func() int { return 1 + r.IntN(most) }, seed&1 == 0)
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case wantErr == nil && (err != io.EOF || !bytes.Equal(got, want)):
			if err != ErrCorrupt || !noEnd(packed) {
				t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
			}
		case wantErr != nil && err == io.EOF:
			t.Fatalf("taken, where the other says %v", wantErr)
		case !bytes.HasPrefix(got, want) && !bytes.HasPrefix(want, got):
			t.Fatal("different before the error")
		case wantErr == io.ErrUnexpectedEOF && err != io.ErrUnexpectedEOF && !noEnd(packed):
			t.Fatalf("%v, where the other waits", err)
		case wantErr == io.ErrUnexpectedEOF && err == io.ErrUnexpectedEOF && len(got) < len(want):
			t.Fatalf("holds back %d of %d bytes", len(want)-len(got), len(want))
		}
	})
}

// noEnd reports whether the other decoder may continue where this one fails: a block without an end code.
func noEnd(packed []byte) bool {
	var d Decoder
	for len(packed) > 0 {
		out, used, err := d.Decode(packed)
		if packed = packed[used:]; err != nil {
			return err == ErrCorrupt && d.r != nil && d.step == inLengths &&
				d.r.dyn.have == d.r.dyn.lits+d.r.dyn.offs && d.r.dyn.of[256] == 0
		}
		_ = out
	}
	return false
}

func BenchmarkDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	text := words(r, 1<<20)
	packed := pack(b, text, 6, 1<<20)
	b.Run("inflate", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var d Decoder
			n := 0
			for rest := packed; ; {
				out, used, err := d.Decode(rest)
				rest = rest[used:]
				if n += len(out); err != nil {
					break
				}
			}
			if d.Close(); n != len(text) {
				b.Fatal(n)
			}
		}
	})
	b.Run("klauspost", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		fr := flate.NewReader(nil)
		buf := make([]byte, Window)
		for b.Loop() {
			if err := fr.(flate.Resetter).Reset(bytes.NewReader(packed), nil); err != nil {
				b.Fatal(err)
			}
			for {
				if _, err := fr.Read(buf); err != nil {
					break
				}
			}
		}
	})
}
