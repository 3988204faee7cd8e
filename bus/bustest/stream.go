package bustest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"doublet/bus"
)

func testStream(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.both", digest)
		b.HandleStream("test.talk", converse)
	})
	a, b := nodes[0], nodes[1]
	for _, size := range []int{0, 1, 100_000, 3_000_000} {
		header := random(min(size, 2000))
		s, err := a.Stream(long(t), b.Self(), "test.both", header)
		if err != nil {
			t.Fatal(err)
		}
		body := random(size)
		if n, err := s.Write(body); err != nil || n != size {
			t.Fatalf("write: %d, %v", n, err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		back, err := io.ReadAll(s)
		sum, self := sha256.Sum256(body), a.Self()
		want := append(append(sum[:], self[:]...), bytes.Repeat(header, 1000)...)
		if err != nil || !bytes.Equal(back, want) {
			t.Fatalf("%d bytes: %d came back of %d, %v", size, len(back), len(want), err)
		}
		if _, err := s.Write([]byte("more")); err == nil {
			t.Error("write after the end succeeded")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	talk(t, a, b)
}

// digest handles a stream: it sends the digest of the data that it reads, then 1,000 copies of the header.
func digest(_ context.Context, from bus.ServerID, header []byte, s bus.Stream) error {
	h := sha256.New()
	if _, err := io.Copy(h, s); err != nil {
		return err
	}
	if _, err := s.Write(append(h.Sum(nil), from[:]...)); err != nil {
		return err
	}
	for range 1000 {
		if _, err := s.Write(header); err != nil {
			return err
		}
	}
	return nil
}

// converse handles a stream: it answers each read.
func converse(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
	buf := make([]byte, 100)
	for {
		n, err := s.Read(buf)
		if errors.Is(err, io.EOF) {
			_, err = s.Write([]byte("bye"))
			return err
		}
		if err != nil {
			return err
		}
		if _, err := s.Write(bytes.ToUpper(buf[:n])); err != nil {
			return err
		}
	}
}

// talk exchanges messages on one stream in turn.
func talk(t *testing.T, a, b bus.Bus) {
	s, err := a.Stream(long(t), b.Self(), "test.talk", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 50 {
		if _, err := s.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(s, buf); err != nil || string(buf) != "HELLO" {
			t.Fatalf("%q, %v", buf, err)
		}
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(s); err != nil || string(rest) != "bye" {
		t.Errorf("%q, %v", rest, err)
	}
}

// wantRefusals opens a stream whose handler fails, and one without a handler.
func wantRefusals(t *testing.T, a, b bus.Bus) {
	s, err := a.Stream(long(t), b.Self(), "test.fails", nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(s)
	wantError(t, "a handler that fails", err, bus.ErrRefused)
	if string(data) != "half" || bus.Code(err) != "gone" {
		t.Errorf("a handler that fails: %q, code %q", data, bus.Code(err))
	}
	_ = s.Close()
	_, err = a.Stream(long(t), b.Self(), "test.unknown", nil)
	wantError(t, "no such stream", err, bus.ErrRefused)
	if bus.Code(err) != bus.CodeNoVerb {
		t.Errorf("no such stream: code %q", bus.Code(err))
	}
}

func testStreamEnds(t *testing.T, w World) {
	ended := make(chan error, 10)
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.fails", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			if _, err := s.Write([]byte("half")); err != nil {
				return err
			}
			return bus.Refuse("gone", "the object is gone")
		})
		b.HandleStream("test.reads", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			_, err := io.Copy(io.Discard, s)
			ended <- err
			return err
		})
	})
	a, b := nodes[0], nodes[1]
	for range 3 { // also over a reused connection
		wantRefusals(t, a, b)
	}
	// Closing early differs from ending.
	s, err := a.Stream(long(t), b.Self(), "test.reads", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("half an obj")); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	given := <-ended
	wantError(t, "a stream given up", given, bus.ErrNoAnswer)
	if errors.Is(given, io.EOF) {
		t.Errorf("a stream given up looks like one that ended: %v", given)
	}
	if s, err = a.Stream(long(t), b.Self(), "test.reads", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a stream that has ended: %v", err)
	}
	_ = s.Close()
}

// testStreamHalf checks that a stream left early by either side leaves no data in the next stream.
func testStreamHalf(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.much", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			_, err := s.Write(make([]byte, 100_000))
			return err
		})
		b.HandleStream("test.deaf", func(context.Context, bus.ServerID, []byte, bus.Stream) error { return nil })
		b.HandleStream("test.name", func(_ context.Context, _ bus.ServerID, header []byte, s bus.Stream) error {
			_, err := s.Write(header)
			return err
		})
	})
	a, b := nodes[0], nodes[1]
	for i := range 12 {
		verb := []string{"test.much", "test.deaf", "test.name"}[i%3]
		name := fmt.Sprintf("stream %d", i)
		s, err := a.Stream(long(t), b.Self(), verb, []byte(name))
		if err != nil {
			t.Fatalf("%s, %s: %v", name, verb, err)
		}
		switch verb {
		case "test.much":
			_ = s.CloseWrite()
			if _, err := io.ReadFull(s, make([]byte, 5000)); err != nil {
				t.Fatal(err)
			}
		case "test.deaf":
			_, _ = s.Write(make([]byte, 1_000_000)) // the error of a refusal may come already
			_ = s.CloseWrite()
		default:
			if out, err := io.ReadAll(s); err != nil || string(out) != name {
				t.Errorf("%s: %q, %v", name, out, err)
			}
		}
		_ = s.Close()
	}
}
