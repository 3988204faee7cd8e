package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"doublet/env"
	"doublet/store/blob"
	"doublet/store/blob/s3test"
)

var ctx = context.Background()

func openPlace(t *testing.T, s *s3test.Server, timeout string) blob.Place {
	t.Helper()
	p, err := blob.Open(env.Real(slog.New(slog.DiscardHandler)), s.Place("mail/one", timeout))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// content is a blob.Source.
type content struct {
	*bytes.Reader
	resets int
}

func newContent(n int) (*content, []byte) {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = rng.Read(b)
	return &content{Reader: bytes.NewReader(b)}, b
}

func (c *content) Reset() error {
	c.resets++
	_, err := c.Seek(0, io.SeekStart)
	return err
}

// TestS3 writes, lists, reads and removes objects: in parts, in pages, and in ranges. The server checks signatures and
// checksums.
func TestS3(t *testing.T) {
	t.Parallel()
	s := s3test.New(t)
	p := openPlace(t, s, "30s")
	for i := range 20 {
		if err := p.Put(ctx, fmt.Sprintf("a/%02d x+y", i), []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Put(ctx, "ab", nil); err != nil {
		t.Fatal(err)
	}
	list, err := p.List(ctx, "a/")
	if err != nil || len(list) != 20 || list[3] != (blob.Info{Name: "a/03 x+y", Size: 7}) {
		t.Errorf("%v %v", list, err)
	}
	if pages, _ := s.Pages(); pages != 3 {
		t.Errorf("%d pages", pages)
	}
	if b, err := p.Get(ctx, "a/19 x+y", 7); err != nil || string(b) != "content" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := p.Get(ctx, "a/19 x+y", 6); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("read beyond the limit: %v", err)
	}
	if err := errors.Join(p.Remove(ctx, "ab"), p.Remove(ctx, "ab")); err != nil {
		t.Error(err)
	}
	if err := p.Remove(ctx, "a/01 x+y", "a/02 x+y", "a/none"); err != nil {
		t.Error(err)
	}
	if list, err := p.List(ctx, "a/0"); err != nil || len(list) != 8 || p.Remove(ctx) != nil {
		t.Errorf("%v %v", list, err)
	}
	if _, err := p.Get(ctx, "ab", 7); !errors.Is(err, blob.ErrNotFound) {
		t.Error(err)
	}
	if _, err := p.Open(ctx, "ab"); !errors.Is(err, blob.ErrNotFound) {
		t.Error(err)
	}
	for _, n := range []int{1, 1 << 20, 17<<20 + 5} {
		from, want := newContent(n)
		name := fmt.Sprint("piece-", n)
		if err := p.Write(ctx, "pieces", from, int64(n), func() string { return name }); err != nil {
			t.Fatal(err)
		}
		if have := s.Objects()["mail/one/pieces/"+name]; !bytes.Equal(have, want) {
			t.Errorf("%d bytes: %d are there", n, len(have))
		}
		readRanges(t, p, "pieces/"+name, want)
	}
	if _, uploads := s.Pages(); uploads != 0 || len(s.Refused()) != 0 {
		t.Errorf("%d uploads are open; refused: %q", uploads, s.Refused())
	}
}

// readRanges reads a blob from its start and in random places.
func readRanges(t *testing.T, p blob.Place, name string, want []byte) {
	t.Helper()
	r, err := p.Open(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if r.Size() != int64(len(want)) {
		t.Errorf("size %d", r.Size())
	}
	all, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil || !bytes.Equal(all, want) {
		t.Errorf("%d of %d bytes, %v", len(all), len(want), err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		from := rng.IntN(len(want))
		b := make([]byte, 1+rng.IntN(200<<10))
		n, err := r.ReadAt(b, int64(from))
		rest := want[from:min(from+len(b), len(want))]
		if !bytes.Equal(b[:n], rest) || (n < len(b)) != errors.Is(err, io.EOF) {
			t.Errorf("%d bytes from %d of %d: %d, %v", len(b), from, len(want), n, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestS3Faults checks that each fault is an error of a write and a read, that the store counts as away and not as
// empty, and that nothing wrong is stored or returned.
func TestS3Faults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault s3test.Fault
	}{{"unavailable", s3test.Unavailable}, {"stall", s3test.Stall}, {"cut", s3test.Cut}, {"lose", s3test.Lose},
		{"wrong", s3test.Wrong}, {"page", s3test.Page}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := s3test.New(t)
			timeout := "30s"
			if c.fault == s3test.Stall {
				timeout = "300ms" // the server never answers, so that no machine is too slow for it
			}
			p := openPlace(t, s, "30s")
			if err := p.Put(ctx, "a/1", []byte("old content")); err != nil {
				t.Fatal(err)
			}
			s.Fail(c.fault, nil)
			p = openPlace(t, s, timeout)
			if err := p.Put(ctx, "a/2", []byte("new content")); !errors.Is(err, blob.ErrAway) && c.fault != s3test.Cut {
				t.Errorf("put: %v", err) // the answer to a write has no body that could be cut
			}
			if list, err := p.List(ctx, "a/"); !errors.Is(err, blob.ErrAway) && c.fault != s3test.Wrong {
				t.Errorf("list: %v %v", list, err) // a listing has no checksum; what it names has
			}
			if err := p.Remove(ctx, "a/3", "a/4"); !errors.Is(err, blob.ErrAway) {
				t.Errorf("remove: %v", err)
			}
			b, err := p.Get(ctx, "a/1", 100)
			if !errors.Is(err, map[bool]error{false: blob.ErrAway, true: blob.ErrDamaged}[c.fault == s3test.Wrong]) {
				t.Errorf("get: %q %v", b, err)
			}
			s.Fail(s3test.None, nil)
			if have := s.Objects()["mail/one/a/2"]; have != nil && string(have) != "new content" {
				t.Errorf("stored: %q", have)
			}
			if err := openPlace(t, s, "30s").Put(ctx, "a/2", []byte("new content")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestS3CutOnce breaks or changes every other answer. A read succeeds without an error of the caller.
func TestS3CutOnce(t *testing.T) {
	t.Parallel()
	s := s3test.New(t)
	p := openPlace(t, s, "30s")
	from, want := newContent(3 << 20)
	if err := p.Write(ctx, "pieces", from, 3<<20, func() string { return "x" }); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(ctx, "a", []byte("content")); err != nil {
		t.Fatal(err)
	}
	n := 0
	every := func(r *http.Request) bool { n++; return r.Method == http.MethodGet && n%2 == 0 }
	s.Fail(s3test.Cut, every)
	readRanges(t, p, "pieces/x", want)
	if n < 6 {
		t.Errorf("%d requests", n)
	}
	for _, f := range []s3test.Fault{s3test.Cut, s3test.Wrong} {
		s.Fail(f, every)
		for range 3 {
			if b, err := p.Get(ctx, "a", 100); err != nil || string(b) != "content" {
				t.Errorf("get: %q %v", b, err)
			}
		}
	}
}

// TestS3Abort breaks an upload in parts. Nothing has the name, and the upload is given up.
func TestS3Abort(t *testing.T) {
	t.Parallel()
	s := s3test.New(t)
	p := openPlace(t, s, "30s")
	from, _ := newContent(20 << 20)
	s.Fail(s3test.Unavailable, func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "2" })
	err := p.Write(ctx, "pieces", from, 20<<20, func() string { return "x" })
	if _, uploads := s.Pages(); !errors.Is(err, blob.ErrAway) || uploads != 0 || len(s.Objects()) != 0 {
		t.Errorf("%v, %d uploads, %d objects", err, uploads, len(s.Objects()))
	}
}

// TestS3Lock locks a prefix twice in one process.
func TestS3Lock(t *testing.T) {
	t.Parallel()
	s := s3test.New(t)
	one, err := openPlace(t, s, "30s").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openPlace(t, s, "30s").Lock(ctx); err == nil {
		t.Error("locked twice")
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two, err := openPlace(t, s, "30s").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
}

// TestS3WrongKey uses credentials that the server does not accept.
func TestS3WrongKey(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	s := s3test.New(t)
	text := s.Place("x", "30s")
	i := strings.Index(text, "credentials=")
	text = text[:i] + text[i+strings.Index(text[i:], "&")+1:]
	p, err := blob.Open(env.Real(slog.New(slog.DiscardHandler)), text)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(ctx, "a", nil); !errors.Is(err, blob.ErrAway) || len(s.Refused()) == 0 {
		t.Errorf("%v", err)
	}
}

// TestS3NoCredentials uses a file of credentials that does not exist yet. The place is away until it does.
func TestS3NoCredentials(t *testing.T) {
	t.Parallel()
	s := s3test.New(t)
	text := strings.Replace(s.Place("x", "30s"), "credentials=", "credentials=%2Fnowhere", 1)
	p, err := blob.Open(env.Real(slog.New(slog.DiscardHandler)), text)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(ctx, "a", nil); !errors.Is(err, blob.ErrAway) || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("%v", err)
	}
}

// TestS3URL parses places.
func TestS3URL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"s3://", "s3:///x", "s3://b/../x", "s3://b/a//b", "s3://u:p@b/x",
		"s3://b/x?colour=red", "s3://b/x?timeout=soon",
		"s3://b/x?timeout=-1s", "s3://b?endpoint=ftp://x", "s3://b?endpoint=https://x/path",
		"s3://b?region=", "s3://b?region=a&region=b", "s3://b/%zz", "s3://b/x#y", "s3://b?region=%zz"} {
		if err := blob.Check(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	for _, good := range []string{"/mnt/backup", "s3://b", "s3://b/", "s3://b/x/y/", "s3://b/x?region=eu-central-1",
		"s3://b?endpoint=http://127.0.0.1:9000&credentials=/etc/doublet/s3&profile=p&timeout=1m"} {
		if err := blob.Check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// FuzzS3URL parses any text.
func FuzzS3URL(f *testing.F) {
	f.Add("s3://b/x?region=eu-central-1&endpoint=http://127.0.0.1:9000")
	f.Fuzz(func(t *testing.T, text string) {
		if blob.Check(text) == nil && blob.IsS3(text) && strings.Contains(text, "/../") {
			t.Errorf("%q is accepted", text)
		}
	})
}
