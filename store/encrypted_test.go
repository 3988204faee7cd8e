package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"testing"

	"doublet/env"
	"doublet/store/crypt"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// EncryptedEnv returns an environment in which the store in data is encrypted, with a key file beside it.
func EncryptedEnv(t *testing.T, e *env.Env) (*env.Env, *crypt.FS) {
	t.Helper()
	if _, err := e.FS.Stat("keys"); errors.Is(err, fs.ErrNotExist) {
		line, err := crypt.NewKey(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(e.FS, "keys", []byte(line)); err != nil {
			t.Fatal(err)
		}
		if err := syncDir(e.FS, ""); err != nil {
			t.Fatal(err)
		}
	}
	files, err := crypt.Open(e, crypt.Options{Dir: "data", Folders: []string{"data/notes", "data/objects"},
		KeyFile: "keys"})
	if err != nil {
		t.Fatal(err)
	}
	inside := *e
	inside.FS = files
	return &inside, files
}

// rotating makes new keys and encrypts all files anew, until ctx ends.
func rotating(ctx context.Context, t *testing.T, files *crypt.FS) {
	for ctx.Err() == nil {
		if _, err := files.Rotate(); err != nil {
			t.Error("rotate: ", err)
			return
		}
		if _, err := files.Rewrite(ctx, nil); err != nil && ctx.Err() == nil {
			t.Error("rewrite: ", err)
			return
		}
	}
}

// TestFailedAppendIsNotOverwritten fills the device in the middle of an object. The next object must not be written
// over the torn one, because both would be encrypted with the same key stream.
func TestFailedAppendIsNotOverwritten(t *testing.T) {
	f := env.TestRealTime(t)
	e, _ := EncryptedEnv(t, f.Env)
	s, err := Open(e, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	append1 := func(fill byte, n int) error {
		content := bytes.Repeat([]byte{fill}, n)
		for i := range content {
			content[i] ^= byte(i * i >> 7) // hard to compress
		}
		_, err := s.obj.Append(object.Digest(sha256.Sum256(content)), content)
		return err
	}
	if err := append1(1, 1000); err != nil {
		t.Fatal(err)
	}
	f.Faults.SetSpace(100 << 10)
	if err := append1(2, 400<<10); !env.IsNoSpace(err) {
		t.Fatal(err)
	}
	torn := segmentsOnDisk(t, f.FS)
	f.Faults.SetSpace(-1)
	if err := append1(3, 400<<10); err != nil {
		t.Fatal(err)
	}
	for name, was := range torn {
		if now := segmentsOnDisk(t, f.FS)[name]; len(was) > 0 && !bytes.HasPrefix(now, was) {
			t.Errorf("%s was written over", name)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func segmentsOnDisk(t *testing.T, files vfs.FS) map[string][]byte {
	t.Helper()
	names, err := files.List("data/objects")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		h, err := files.Open("data/objects/" + name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := h.Stat()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = make([]byte, info.Size())
		if _, err := h.ReadAt(out[name], 0); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
