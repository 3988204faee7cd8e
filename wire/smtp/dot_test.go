package smtp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// refDecode is a simple implementation of the rules, byte by byte.
func refDecode(in []byte) (data, rest []byte, done, bare, nul bool) {
	bol := true
	for i := 0; i < len(in); i++ {
		if bol && in[i] == '.' {
			if bytes.HasPrefix(in[i:], []byte(".\r\n")) {
				return data, in[i+3:], true, bare, nul
			}
			bol = false
			continue
		}
		c := in[i]
		data = append(data, c)
		nul = nul || c == 0
		prevCR := i > 0 && in[i-1] == '\r'
		nextLF := i+1 < len(in) && in[i+1] == '\n'
		bare = bare || c == '\n' && !prevCR || c == '\r' && !nextLF
		bol = c == '\n' && prevCR
	}
	return data, nil, false, bare, nul
}

// decodeChunks calls Decode on in, divided into pieces of the given sizes in rotation.
func decodeChunks(t *testing.T, in []byte, sizes []byte) (data, rest []byte, done bool, d DotDecoder) {
	t.Helper()
	var held []byte
	for i := 0; len(in) > 0 && !done; i++ {
		n := 1
		if len(sizes) > 0 {
			n = max(1, int(sizes[i%len(sizes)]))
		}
		n = min(n, len(in))
		p := append(bytes.Clone(held), in[:n]...)
		in = in[n:]
		var k int
		k, rest, done = d.Decode(p)
		data = append(data, p[:k]...)
		if !done {
			if len(rest) > 2 {
				t.Fatalf("held %q", rest)
			}
			held = bytes.Clone(rest)
		} else {
			rest = append(bytes.Clone(rest), in...)
		}
	}
	return data, rest, done, d
}

func compareDecode(t *testing.T, in, sizes []byte) {
	t.Helper()
	data, rest, done, d := decodeChunks(t, in, sizes)
	wd, wr, wdone, wbare, wnul := refDecode(in)
	if done != wdone {
		t.Fatalf("%q: done %v, want %v", in, done, wdone)
	}
	if !done {
		// Bytes that are held back may be missing at the end, and are not checked yet.
		if !bytes.HasPrefix(wd, data) || len(wd)-len(data) > 2 {
			t.Fatalf("%q: %q, want %q", in, data, wd)
		}
		return
	}
	if !bytes.Equal(data, wd) || !bytes.Equal(rest, wr) || d.Bare != wbare || d.NUL != wnul {
		t.Fatalf("%q: %q rest %q bare %v nul %v, want %q %q %v %v", in, data, rest, d.Bare, d.NUL, wd, wr, wbare, wnul)
	}
}

var dotSeeds = []string{
	".\r\n", "a\r\n.\r\n", "a\r\n..b\r\n.\r\nMAIL FROM:<>\r\n", "a\n.\nb\r\n.\r\n", "a\r.\rb\r\n.\r\n",
	"a\r\n.\nb\r\n.\r\n", "a\n.\r\nb\r\n.\r\n", "a\r\n.\rb\r\n.\r\n", "\x00\r\n.\r\n", "a\r\r\n.\r\n",
	"...\r\n..\r\n.\r\nx",
	"\r\n\r\n.\r\n", "a\r\n.", "a\r\n.\r", "a\r", "", "..\r\n\n.\r\n.\r\n", ".\n.\r\n\r\n.\r\n",
}

func TestDotDecoder(t *testing.T) {
	t.Parallel()
	for _, in := range dotSeeds {
		for size := range 12 {
			compareDecode(t, []byte(in), []byte{byte(size + 1)})
		}
		compareDecode(t, []byte(in), []byte{200})
	}
}

func FuzzDotReader(f *testing.F) {
	for _, in := range dotSeeds {
		f.Add([]byte(in), []byte{3, 1})
	}
	f.Fuzz(func(t *testing.T, in, sizes []byte) {
		compareDecode(t, in, sizes)
		// A message that is written and decoded is unchanged.
		var b bytes.Buffer
		w := NewDotWriter(&b)
		for i, rest := 0, in; len(rest) > 0; i++ {
			n := len(rest)
			if len(sizes) > 0 {
				n = min(n, max(1, int(sizes[i%len(sizes)])))
			}
			if k, err := w.Write(rest[:n]); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b.WriteString("REST")
		want := in
		if len(want) > 0 && !bytes.HasSuffix(want, crlf) {
			want = append(bytes.Clone(want), "\r\n"...)
		}
		r := NewDotReader(&b, 16)
		got, err := io.ReadAll(r)
		rest, _ := io.ReadAll(io.MultiReader(bytes.NewReader(bytes.Clone(r.Rest())), &b))
		if err != nil || !bytes.Equal(got, want) || string(rest) != "REST" {
			t.Fatalf("%q came back as %q, rest %q, %v", in, got, rest, err)
		}
		bare, nul := CheckLines(want)
		if bare != r.Bare || nul != r.NUL {
			t.Fatalf("%q: CheckLines %v %v, decoder %v %v", want, bare, nul, r.Bare, r.NUL)
		}
		normal := AppendNormal(nil, want)
		if bad, _ := CheckLines(normal); bad || len(normal) != len(want)+BareCount(want) {
			t.Fatalf("%q normalized to %q", want, normal)
		}
	})
}

func TestDotReaderEnds(t *testing.T) {
	t.Parallel()
	r := NewDotReader(strings.NewReader("half a mess"), 16)
	if _, err := io.ReadAll(r); !errors.Is(err, ErrDataEnded) || r.Rest() != nil {
		t.Error(err)
	}
}

func TestCountReceived(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"":                0,
		"Received: a\r\n": 1,
		"received: a\r\n b\r\nRECEIVED:\r\nX: y\r\n\r\nReceived: body\r\n": 2,
		"\r\nReceived: a\r\n":                  0,
		"Received-SPF: x\r\nReceived: y":       1,
		strings.Repeat("Received: a\r\n", 300): 100,
	} {
		if got := CountReceived([]byte(in), 100); got != want {
			t.Errorf("%.40q: %d, want %d", in, got, want)
		}
	}
}

func BenchmarkDotDecoder(b *testing.B) {
	line := strings.Repeat("x", 74) + "\r\n"
	msg := []byte(strings.Repeat(line, 1024/76) + ".\r\n")
	p := make([]byte, len(msg))
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		copy(p, msg)
		var d DotDecoder
		if _, _, done := d.Decode(p); !done {
			b.Fatal("not done")
		}
	}
}
