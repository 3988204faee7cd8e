package blob

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"doublet/env"
)

// TestFolder writes, lists, reads and removes blobs, and checks that a power cut leaves a blob whole or not there.
func TestFolder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := env.Test(t)
	s := Folder(f.FS, "target")
	if err := s.Put(ctx, "a/b/1", []byte("x")); err == nil {
		t.Error("a target that is not there was made")
	}
	if _, err := s.List(ctx, "a"); err == nil {
		t.Error("a target that is not there is an empty one")
	}
	if err := f.FS.MkdirAll("target", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syncDir(f.FS, f.FS.PathDir("target")); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.Put(ctx, fmt.Sprintf("a/b/%d", 3-i), []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	f = f.Crash(0, 1)
	s = Folder(f.FS, "target")
	f.Faults.FailFrom(env.OpSync, 1, nil)
	if err := s.Put(ctx, "a/b/4", []byte("torn")); err == nil {
		t.Error("no error of the device")
	}
	f = f.Crash(50, 2)
	s = Folder(f.FS, "target")
	list, err := s.List(ctx, "a")
	if err != nil || fmt.Sprint(list) != "[{a/b/1 7} {a/b/2 7} {a/b/3 7}]" {
		t.Errorf("%v %v", list, err)
	}
	if b, err := s.Get(ctx, "a/b/2", 7); err != nil || string(b) != "content" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := s.Get(ctx, "a/b/2", 6); err == nil {
		t.Error("read beyond the limit")
	}
	if err := errors.Join(s.Remove(ctx, "a/b/2"), s.Remove(ctx, "a/b/2")); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, "a/b/2", 7); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
