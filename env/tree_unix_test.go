//go:build unix

package env

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTreePipe lists folders that are pipes. Nobody writes to them, so opening one in the ordinary way blocks forever.
func TestTreePipe(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(os.Mkdir(at("tree"), 0o700), syscall.Mkfifo(at("tree/cur"), 0o600),
		os.Mkdir(at("tree/dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if tree, err := OpenTree(vfs.Default, at("tree/cur")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a pipe was opened as a tree: %v, %v", tree, err)
	}
	tree, err := OpenTree(vfs.Default, at("tree"))
	if err != nil {
		t.Fatal(err)
	}
	if names, err := tree.List("cur"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a pipe was listed: %q, %v", names, err)
	}
	// List must not depend on its check: the pipe may arrive after it.
	if f, err := tree.root.OpenFile("cur", openFolder, 0); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a pipe was opened as a folder: %v, %v", f, err)
	}
	if names, err := tree.List("dir"); err != nil || len(names) != 0 {
		t.Errorf("%q, %v", names, err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}
