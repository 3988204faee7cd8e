//go:build unix

package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestImportMaildirPipe imports a Maildir in which a pipe replaces a folder, and a pipe in place of a Maildir. The
// import must report them and not block.
func TestImportMaildirPipe(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	disk := *s.env // the store stays in memory
	disk.FS = vfs.Default
	s.env = &disk
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(os.MkdirAll(at("M/new"), 0o700), syscall.Mkfifo(at("M/cur"), 0o600)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s, at("M/new/1000000000.M1.host"), "Subject: one\r\n\r\nx\r\n")
	done := must[Result](t)(s.job().Maildir(t.Context(), &Maildir{Path: at("M"), User: "ada"}))
	if done.Messages != 1 || done.Failed != 1 {
		t.Errorf("%+v", done)
	}
	if done, err := s.job().Maildir(t.Context(), &Maildir{Path: at("M/cur"), User: "ada"}); err == nil {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestImportPipe imports a pipe, and what a tree and a table of people have in place of a file. Each import must report
// the pipe and not block.
func TestImportPipe(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	disk := *s.env
	disk.FS = vfs.Default
	s.env = &disk
	root := t.TempDir()
	pipe := filepath.Join(root, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(*Job) error{
		"mbox":   func(j *Job) error { _, err := j.Mbox(t.Context(), &Mbox{Path: pipe, User: "ada"}); return err },
		"people": func(j *Job) error { _, err := j.People(t.Context(), &Table{File: pipe, Format: "csv"}); return err },
		"rows":   func(j *Job) error { _, err := j.Rows(t.Context(), &Rows{File: pipe}); return err },
		"person": func(j *Job) error { _, err := j.ImportPerson(t.Context(), &PersonImport{Path: pipe}); return err },
		"imap": func(j *Job) error {
			_, err := j.IMAP(t.Context(), &IMAP{Server: "127.0.0.1", TLS: "none", Wait: "1s", People: pipe})
			return err
		},
	} {
		if err := run(s.job()); !errors.Is(err, env.ErrNotRegular) {
			t.Errorf("import %s of a pipe: %v", name, err)
		}
	}
	if done := must[Result](t)(s.job().Mbox(t.Context(), &Mbox{Path: root, User: "ada"})); done.Messages != 0 ||
		done.Failed != 1 {
		t.Errorf("import of a folder with a pipe: %+v", done)
	}
}

// TestExportPipe exports onto a pipe, and onto a file: both stay as they are.
func TestExportPipe(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	disk := *s.env
	disk.FS = vfs.Default
	s.env = &disk
	root := t.TempDir()
	for _, name := range []string{"pipe", "pipe.zip"} {
		if err := syscall.Mkfifo(filepath.Join(root, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, s, filepath.Join(root, "file"), "text")
	for _, name := range []string{"pipe", "pipe.zip", "file"} {
		path := filepath.Join(root, name)
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := s.job().Export(t.Context(), &Export{User: "ada", Path: path,
			Format: "mbox"}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("export onto %s: %+v, %v", name, done, err)
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
			t.Errorf("%s is another file: %v", name, err)
		}
	}
}
