package listen

import (
	"bytes"
	stdflate "compress/flate"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"doublet/env"
)

// squeezed is a client with another DEFLATE implementation.
type squeezed struct {
	net.Conn
	w *stdflate.Writer
	r io.Reader
}

func squeeze(c net.Conn) *squeezed {
	w, err := stdflate.NewWriter(c, 9)
	if err != nil {
		panic(err)
	}
	return &squeezed{c, w, stdflate.NewReader(c)}
}

func (s *squeezed) Read(p []byte) (int, error) { return s.r.Read(p) }

func (s *squeezed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err == nil {
		err = s.w.Flush()
	}
	return n, err
}

// compressing opens a door that compresses at once and echoes each line in upper case.
func compressing(t testing.TB, o Options, idle chan *Conn) func() net.Conn {
	t.Helper()
	s := New(env.TestRealTime(t).Env, o, nil)
	l, err := s.Open(Door{Name: "x", Network: "tcp", Address: "127.0.0.1:0", Serve: func(c *Conn) {
		if c.Compress() != nil {
			return
		}
		for {
			switch err := c.Await(time.Minute); {
			case errors.Is(err, ErrWoken):
				c.PrintString("news\n")
				continue
			case err != nil:
				return
			}
			line, err := c.ReadLine(BufferSize, time.Minute)
			if err != nil {
				return
			}
			c.Print(bytes.ToUpper(line))
			if idle != nil && string(line) == "idle\n" {
				idle <- c
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx) // closes the remaining sessions
	})
	return func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// TestDeflate checks that input from another implementation arrives unchanged, in pieces of any size and with
// references back across many waits. The other implementation can decompress the output.
func TestDeflate(t *testing.T) {
	t.Parallel()
	dial := compressing(t, Options{}, nil)
	c := squeeze(dial())
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the quick brown fox jumps over the lazy dog and comes back again 0123456789")
	for range 300 {
		var b strings.Builder
		for b.Len() < r.IntN(9000) {
			b.WriteString(words[r.IntN(len(words))])
			if r.IntN(3) == 0 {
				b.WriteByte(byte('a' + r.IntN(26)))
			}
		}
		line := b.String() + "\n"
		if _, err := io.WriteString(c, line); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(line))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != strings.ToUpper(line) {
			t.Fatalf("%.80q came back as %.80q, %v", line, got, err)
		}
	}
	// A slow peer that sends single bytes.
	slow := dial()
	var packed bytes.Buffer
	w, _ := stdflate.NewWriter(&packed, 9)
	io.WriteString(w, strings.Repeat("dribble ", 100)+"\n")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, b := range packed.Bytes() {
		if _, err := slow.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 801)
	if _, err := io.ReadFull(stdflate.NewReader(slow), got); err != nil || !strings.HasPrefix(string(got), "DRIBBLE") {
		t.Fatal(err)
	}
}

// TestDeflatePartialFlush checks that a single line is answered although the flushed data ends in the middle of a byte.
// zlib made the compressed lines with Z_PARTIAL_FLUSH.
func TestDeflatePartialFlush(t *testing.T) {
	t.Parallel()
	c := compressing(t, Options{}, nil)()
	answer := stdflate.NewReader(c)
	for _, l := range []struct{ line, packed string }{
		{"hello\n", "\xca\x48\xcd\xc9\xc9\xe7\x02\x08"},
		{"hello again, hello\n", "\xa0\x0c\x10\xa9\x90\x98\x9e\x98\x99\xa7\xa3\x00\xe6\x70\x01\x04"},
		{"third and hello again\n", "\x50\x49\x46\x66\x51\x8a\x42\x62\x5e\x8a\x02\x92\x24\x17\x40"},
	} {
		if _, err := io.WriteString(c, l.packed); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(l.line))
		if _, err := io.ReadFull(answer, got); err != nil || string(got) != strings.ToUpper(l.line) {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// TestDeflateGarbage checks that malformed input ends the session, not the server.
func TestDeflateGarbage(t *testing.T) {
	t.Parallel()
	dial := compressing(t, Options{}, nil)
	c := dial()
	if _, err := c.Write(bytes.Repeat([]byte{0xff}, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
}

// TestDeflateWake checks that a waiting session can be woken, even in the middle of a block, without loss of input.
func TestDeflateWake(t *testing.T) {
	t.Parallel()
	idle := make(chan *Conn, 1)
	c := squeeze(compressing(t, Options{}, idle)())
	say := func(line, want string) {
		t.Helper()
		if line != "" {
			if _, err := io.WriteString(c, line); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("%q: %q, %v", line, got, err)
		}
	}
	say("idle\n", "IDLE\n")
	server := <-idle
	for range 3 {
		server.Wake()
		say("", "news\n")
		say("hello hello\n", "HELLO HELLO\n")
	}
	// Send half a command, wake the session, then send the other half.
	if _, err := io.WriteString(c, "half"); err != nil {
		t.Fatal(err)
	}
	server.Wake()
	if _, err := io.WriteString(c, " and half\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("news\nHALF AND HALF\n")) // in either order
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "news\nHALF AND HALF\n" &&
		string(got) != "HALF AND HALF\nnews\n" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestDeflateLimit(t *testing.T) {
	t.Parallel()
	dial := compressing(t, Options{MaxCompressed: 1}, nil)
	c := squeeze(dial())
	io.WriteString(c, "x\n")
	got := make([]byte, 2)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if n, err := dial().Read(got); n != 0 || err != io.EOF {
		t.Error("a second connection was compressed", n, err)
	}
}

// TestDeflateIdleCost checks that a waiting connection keeps the client's window, but no decoder.
func TestDeflateIdleCost(t *testing.T) {
	idle := make(chan *Conn, 1)
	dial := compressing(t, Options{}, idle)
	const n = 100
	measure := func() uint64 {
		for range 3 { // pools release memory after two
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := measure()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = dial()
		var b bytes.Buffer
		w, _ := stdflate.NewWriter(&b, 1)
		io.WriteString(w, strings.Repeat("x", 2000)+"\nidle\n")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[i].Write(b.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stdflate.NewReader(conns[i]), make([]byte, 2006)); err != nil {
			t.Fatal(err)
		}
		<-idle
	}
	if per := (measure() - min(before, measure())) / n; per > 8<<10 {
		t.Errorf("%d bytes a waiting connection", per)
	} else {
		t.Logf("%d bytes a waiting connection", per)
	}
	runtime.KeepAlive(conns)
}
