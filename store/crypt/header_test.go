package crypt

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestDamagedHeader damages each sector of a header.
func TestDamagedHeader(t *testing.T) {
	e := env.Test(t)
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	whole := get(t, e.FS, "data/notes/a")
	damage := func(at ...int) []byte {
		b := slices.Clone(whole)
		for _, i := range at {
			b[i] ^= 0x40
		}
		return b
	}
	for _, at := range []int{0, versionAt, idAt, nonceAt, keyAt, copySize - 1, secondCopy, secondCopy + keyAt} {
		put(t, e.FS, "data/notes/a", damage(at))
		if got, err := readAll(f, "data/notes/a"); string(got) != "content" || err != nil {
			t.Errorf("byte %d: %q %v", at, got, err)
		}
	}
	put(t, e.FS, "data/notes/a", damage(keyAt, secondCopy+keyAt))
	if _, err := f.Open("data/notes/a"); !errors.Is(err, ErrHeader) || !strings.Contains(err.Error(), "data/notes/a") {
		t.Errorf("both copies: %v", err)
	}
	if !pebble.IsCorruptionError(func() error { _, err := f.Open("data/notes/a"); return err }()) {
		t.Error("the engine does not take it for damage")
	}
	// A start is not refused for it, and it does not keep the other files from being rewritten.
	put(t, f, "data/notes/b", []byte("another"))
	f = newFS(t, e)
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	if p, err := f.Rewrite(context.Background(), nil); err != nil || p.Files != 1 || p.Left != 1 {
		t.Errorf("rewrite: %+v %v", p, err)
	}
	put(t, e.FS, "data/notes/a", damage(idAt, secondCopy))
	if _, err := f.Open("data/notes/a"); !errors.Is(err, ErrNoKey) {
		t.Errorf("another key: %v", err)
	}
	put(t, e.FS, "data/notes/a", damage(versionAt, secondCopy))
	if _, err := f.Open("data/notes/a"); !errors.Is(err, ErrHeader) {
		t.Errorf("another version: %v", err)
	}
	// The creation of a file was interrupted.
	for _, torn := range [][]byte{make([]byte, 100), make([]byte, HeaderSize), whole[:300], {}} {
		put(t, e.FS, "data/notes/a", torn)
		if got, err := readAll(f, "data/notes/a"); len(got) != 0 || err != nil {
			t.Errorf("torn after %d: %q %v", len(torn), got, err)
		}
		if info, err := f.Stat("data/notes/a"); err != nil || info.Size() != 0 {
			t.Errorf("torn after %d: Stat %v", len(torn), err)
		}
		h, err := f.OpenReadWrite("data/notes/a", vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = h.WriteAt([]byte("anew"), 0)
		must(t, errors.Join(err, h.Close()))
		got := get(t, f, "data/notes/a")
		if string(got) != "anew" || bytes.Contains(get(t, e.FS, "data/notes/a"), got) {
			t.Errorf("torn after %d, written anew: %q", len(torn), got)
		}
	}
	// Someone's mail has the magic word where the second copy would be.
	mail := append(make([]byte, 0, 8192), bytes.Repeat([]byte("m"), secondCopy)...)
	mail = append(append(mail, magic...), bytes.Repeat([]byte("\x01"), 5000)...)
	put(t, e.FS, "data/notes/mail", mail)
	if !bytes.Equal(get(t, f, "data/notes/mail"), mail) {
		t.Error("a file with the magic word inside cannot be read")
	}
}

func TestParseKeys(t *testing.T) {
	good := "key " + strings.Repeat("ab", 32)
	for _, c := range []struct{ text, want string }{
		{good, ""},
		{"# made\n\nplain\n" + good + "\n", ""},
		{"", "no key"},
		{"plain\n", "no key"},
		{good + "\nplain\n", "line 2"},
		{good + "\n" + good, "line 2"},
		{"key abcd", "32 bytes"},
		{"key " + strings.Repeat("zz", 32), "64 hexadecimal digits"},
		{strings.Repeat("ab", 32), "line 1"},
	} {
		_, err := ParseKeys([]byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
		if err != nil && strings.Contains(err.Error(), "abab") {
			t.Errorf("the error has a key: %v", err)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	keys, err := ParseKeys([]byte("key " + strings.Repeat("ab", 32)))
	if err != nil {
		f.Fatal(err)
	}
	s, err := newStream(make([]byte, fileKeySize), keys.list[0].id)
	if err != nil {
		f.Fatal(err)
	}
	whole := s.header(&env.Env{Rand: env.Seeded(1)}, keys.list[0])
	f.Add(whole)
	f.Add(whole[:100])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		head := b[:min(len(b), HeaderSize)]
		s, torn, err := parseHeader(head, int64(len(b)), &keys)
		if s != nil && (torn || err != nil) || torn && (err != nil || len(b) > HeaderSize) {
			t.Fatal(s, torn, err)
		}
		if s != nil && !bytes.Equal(s.key[:], make([]byte, fileKeySize)) {
			t.Fatal("a forged header was accepted")
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("plain\nkey " + strings.Repeat("ab", 32)))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKeys(b)
		if (err == nil) != (len(k.list) > 0) {
			t.Fatal(k, err)
		}
	})
}
