package env

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTree reads a folder that contains links to files outside it.
func TestTree(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("creating a symbolic link needs a privilege on Windows")
	}
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(at("tree/in"), 0o700))
	must(os.Mkdir(at("out"), 0o700))
	must(os.WriteFile(at("secret"), []byte("secret"), 0o600))
	must(os.WriteFile(at("out/secret"), []byte("secret"), 0o600))
	must(os.WriteFile(at("tree/in/file"), []byte("text"), 0o600))
	for link, to := range map[string]string{"file": "../secret", "folder": "../out", "loop": ".", "device": "/dev/zero",
		"inner": "in/file", "none": "gone"} {
		must(os.Symlink(to, at("tree/"+link)))
	}
	must(os.Symlink("tree", at("link")))
	for _, dir := range []string{"tree", "link"} { // the folder itself may be a link
		tree, err := OpenTree(vfs.Default, at(dir))
		must(err)
		for _, path := range []string{"file", "folder/secret", "loop/in/file", "device", "inner", "none", "in",
			"../secret", "/etc/passwd", ""} {
			if f, err := tree.Open(path); err == nil {
				text, _ := io.ReadAll(io.LimitReader(f, 100))
				t.Errorf("%q was opened: %q", path, text)
			}
		}
		for _, path := range []string{"folder", "loop", "..", "/etc", "file"} {
			if names, err := tree.List(path); err == nil {
				t.Errorf("%q was listed: %q", path, names)
			}
		}
		if info, err := tree.Stat("folder"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link: %v, %v", info, err)
		}
		names, err := tree.List(".")
		if slices.Sort(names); err != nil || !slices.Equal(names,
			[]string{"device", "file", "folder", "in", "inner", "loop", "none"}) {
			t.Errorf("%q, %v", names, err)
		}
		f, err := tree.Open("in/file")
		must(err)
		if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
			t.Errorf("%q, %v", text, err)
		}
		must(errors.Join(f.Close(), tree.Close()))
	}
	// In memory there are no links; paths must stay within the folder all the same.
	mem := vfs.NewMem()
	must(mem.MkdirAll("tree", 0o700))
	tree, err := OpenTree(mem, "tree")
	must(err)
	if _, err := tree.Stat("../x"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	must(tree.Close())
}
