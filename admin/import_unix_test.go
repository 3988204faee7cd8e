//go:build unix

package admin

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestImportMaildirPipe imports a Maildir in which a pipe replaces a folder, and a pipe in place of a Maildir. The
// import must report them and not block.
func TestImportMaildirPipe(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	must[User](t, s, "user add", UserAdd{Name: "Ada", Password: "x"})
	disk := *s.Env // the store stays in memory
	disk.FS = vfs.Default
	s.Env = &disk
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(os.MkdirAll(at("M/new"), 0o700), syscall.Mkfifo(at("M/cur"), 0o600)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s, at("M/new/1000000000.M1.host"), "Subject: one\r\n\r\nx\r\n")
	done := must[Transferred](t, s, "import maildir", ImportMaildir{Path: at("M"), User: "ada"})
	if done.Messages != 1 || done.Failed != 1 {
		t.Errorf("%+v", done)
	}
	if done, err := Do[Transferred](t.Context(), Direct{s}, "import maildir", ImportMaildir{Path: at("M/cur"), User: "ada"}); err == nil {
		t.Errorf("%+v, %v", done, err)
	}
}
