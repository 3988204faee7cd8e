package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"doublet/mailbox"
)

// TestMemory checks that a reader reserves memory before it reads the rest of a large message, that a message
// keeps memory by its true size, and that a small message is read while others hold all memory.
func TestMemory(t *testing.T) {
	t.Parallel()
	const limit = 5 << 20
	m := newMemory()
	r := m.reader()
	for _, n := range []int{0, 1, unreserved - 1, unreserved, unreserved + 1, unreserved + 2, 3 << 20, limit - 1, limit,
		limit + 1} {
		text := bytes.Repeat([]byte("x"), n)
		got, err := r.read(context.Background(), bytes.NewReader(text), limit)
		if n > limit && errors.Is(err, mailbox.ErrTooBig) {
			r.release()
			continue
		}
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%d bytes: %d %v", n, len(got), err)
		}
		if n > unreserved+1 && r.held < weight(int64(n)) {
			t.Errorf("%d bytes: %d reserved", n, r.held)
		}
		w, err := r.keep(context.Background(), int64(n))
		if err != nil || w != weight(int64(n)) || r.held != 0 {
			t.Errorf("%d bytes: keeps %d of %d, %v", n, w, r.held, err)
		}
		r.free(w)
	}
	for _, stated := range []int64{0, 10, 2 << 20, limit} {
		f := &stating{strings.NewReader(strings.Repeat("x", 2*limit)), stated}
		if _, err := r.read(context.Background(), f, limit); !errors.Is(err, mailbox.ErrTooBig) ||
			r.held < weight(limit) {
			t.Errorf("a file that is larger than the %d bytes that it states: %v, %d reserved", stated, err, r.held)
		}
		r.release()
	}
	if _, err := r.read(context.Background(), &stating{nil, limit + 1}, limit); !errors.Is(err, mailbox.ErrTooBig) {
		t.Errorf("a file that states a size above the limit: %v", err)
	}
	exact := &stating{strings.NewReader(strings.Repeat("x", 3<<20)), 3 << 20}
	if got, err := r.read(context.Background(), exact, limit); err != nil || len(got) != 3<<20 ||
		r.held != weight(3<<20) {
		t.Errorf("a file of the size that it states: %d bytes, %v, %d reserved", len(got), err, r.held)
	}
	r.release()
	if !r.of.TryAcquire(memoryBytes) {
		t.Fatal("memory is left reserved")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	other := m.reader()
	if _, err := other.read(ended, strings.NewReader(strings.Repeat("x", unreserved)), limit); err != nil {
		t.Errorf("a small message: %v", err)
	}
	if _, err := other.read(ended, strings.NewReader(strings.Repeat("x", 3<<20)), limit); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a large message without memory: %v", err)
	}
}

// TestLargestMessage checks that the largest message leaves memory for another one of that size.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	s := newService(t)
	slow := s.memory.reader()
	if err := slow.need(context.Background(), int64(s.mailbox.MessageSize())); err != nil {
		t.Fatal(err)
	}
	if !slow.of.TryAcquire(weight(int64(s.mailbox.MessageSize()))) {
		t.Error("one message reserves all memory")
	}
}

// stating is a file that states a size.
type stating struct {
	io.Reader
	size int64
}

func (s *stating) Stat() (fs.FileInfo, error) { return statedSize{size: s.size}, nil }

type statedSize struct {
	fs.FileInfo
	size int64
}

func (s statedSize) Size() int64 { return s.size }

// TestFew checks that a list of an export is bounded while it is read.
func TestFew(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{},`, n), ",") + "]" }
	for n, want := range map[int]bool{0: true, 1: true, maxFew: true, maxFew + 1: false} {
		var p exportedPerson
		err := json.Unmarshal([]byte(`{"names":null,"folders":`+list(n)+`}`), &p)
		if (err == nil) != want || want && len(p.Folders) != n {
			t.Errorf("%d folders: %d %v", n, len(p.Folders), err)
		}
	}
	var p exportedPerson
	if err := json.Unmarshal([]byte(`{"names":"x"}`), &p); err == nil {
		t.Error("a text in place of a list is read")
	}
}
