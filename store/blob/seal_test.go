package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"doublet/env"
	"doublet/store/blob"

	"filippo.io/age"
)

// newKeys returns keys that encrypt, and those that decrypt.
func newKeys(t *testing.T) (to, from blob.Keys) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to, err = blob.ParseKeys(id.Recipient().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	from, err = blob.ParseKeys("", strings.NewReader(id.String()))
	if err != nil {
		t.Fatal(err)
	}
	return to, from
}

// TestSeal encrypts contents of sizes around the chunks of age and reads them back, whole and in ranges. Without the
// identity, with another one, or changed, nothing is returned.
func TestSeal(t *testing.T) {
	t.Parallel()
	to, from := newKeys(t)
	_, other := newKeys(t)
	f := env.Test(t)
	p := blob.Folder(f.FS, "place")
	if _, err := p.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 100, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 300000} {
		source, want := newContent(n)
		sealed, err := to.Seal(want)
		if err != nil || int64(len(sealed)) != to.SealedSize(int64(n)) {
			t.Fatalf("%d bytes: %d, want %d, %v", n, len(sealed), to.SealedSize(int64(n)), err)
		}
		if back, err := from.Unseal(sealed); err != nil || !bytes.Equal(back, want) {
			t.Errorf("%d bytes: %v", n, err)
		}
		for _, k := range []blob.Keys{{}, other} {
			if b, err := k.Unseal(sealed); !errors.Is(err, blob.ErrSealed) || bytes.Equal(b, want) {
				t.Errorf("%d bytes without the key: %v", n, err)
			}
		}
		sealed[len(sealed)-1] ^= 1
		if _, err := from.Unseal(sealed); !errors.Is(err, blob.ErrForged) {
			t.Errorf("%d bytes, changed: %v", n, err)
		}
		s := to.SealSource(source)
		if _, err := io.CopyN(io.Discard, s, int64(n)); err != nil { // an attempt that is given up
			t.Fatal(err)
		}
		if err := s.Reset(); err != nil {
			t.Fatal(err)
		}
		if err := p.Write(ctx, "pieces", s, to.SealedSize(int64(n)), func() string { return "x" }); err != nil {
			t.Fatal(err)
		}
		readRanges(t, unsealing{p, from}, "pieces/x", want)
		if _, err := (unsealing{p, other}).Open(ctx, "pieces/x"); !errors.Is(err, blob.ErrSealed) {
			t.Errorf("opened with another key: %v", err)
		}
	}
}

// unsealing decrypts what it opens.
type unsealing struct {
	blob.Place
	keys blob.Keys
}

// Open implements blob.Place.
func (u unsealing) Open(ctx context.Context, name string) (blob.Reader, error) {
	r, err := u.Place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return u.keys.UnsealReader(r)
}

// TestKeys reads recipients and identities.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"age1", "x", "AGE-SECRET-KEY-1"} {
		if _, err := blob.ParseKeys(bad, nil); err == nil {
			t.Errorf("recipient %q is accepted", bad)
		}
		if _, err := blob.ParseKeys("", strings.NewReader(bad)); err == nil {
			t.Errorf("identity %q is accepted", bad)
		}
	}
	one, _ := newKeys(t)
	two, _ := newKeys(t)
	var none blob.Keys
	if one.Tag() == two.Tag() || one.Tag() == "" || none.Seals() || none.SealedSize(7) != 7 {
		t.Errorf("%q %q", one.Tag(), two.Tag())
	}
}

// FuzzUnseal decrypts anything, whole and in ranges.
func FuzzUnseal(f *testing.F) {
	id, err := age.ParseX25519Identity("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX")
	if err != nil {
		f.Fatal(err)
	}
	to, err := blob.ParseKeys(id.Recipient().String(), nil)
	if err != nil {
		f.Fatal(err)
	}
	from, err := blob.ParseKeys("", strings.NewReader(id.String()))
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := to.Seal([]byte("content"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, err := from.Unseal(b)
		if err != nil && !errors.Is(err, blob.ErrForged) && !errors.Is(err, blob.ErrSealed) {
			t.Error(err)
		}
		r, err2 := from.UnsealReader(memory{bytes.NewReader(b)})
		if err2 != nil {
			return
		}
		again, err2 := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
		if err == nil && (err2 != nil || !bytes.Equal(again, plain)) {
			t.Errorf("%d bytes in ranges, %d whole: %v", len(again), len(plain), err2)
		}
	})
}

// memory is a blob.Reader.
type memory struct{ *bytes.Reader }

// Close implements blob.Reader.
func (memory) Close() error { return nil }
