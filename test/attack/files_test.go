//go:build unix

package attack

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"doublet/test/program"
)

// forOthers lists the names of files that other accounts of the machine may read, with the reason. There are none.
var forOthers = map[string]string{}

// TestFilesOfOthers checks that another account of the machine cannot read any file that the program creates, even if
// the folders above permit access, whatever the umask of the caller. It covers stores, their sockets and certificates,
// backups of running and stopped servers, exports, restored data, and the identity of a cluster. It is not parallel,
// because the umask belongs to the process.
func TestFilesOfOthers(t *testing.T) {
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	defer syscall.Umask(syscall.Umask(0))
	s := program.Demo(t)
	s.Doublet("backup", at("backup"))
	s.Doublet("backup", at("backup"), "--check", "full")
	s.Doublet("backup", "verify", at("backup"))
	s.Doublet("export", "person", "alice", at("person"))
	s.Doublet("export", "person", "alice", at("person.zip"))
	s.Doublet("export", "alice", at("mbox"))
	s.Doublet("export", "alice", at("mbox.zip"), "--format", "maildir")
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{"secret\n", []string{"init", "--domain", "one.example", "--data", at("one")}},
		{"secret\n", []string{"user", "add", "Anna", "--short", "anna", "--address", "anna@one.example", "--data",
			at("one")}},
		{"", []string{"cluster", "init", "test", "--data", at("one")}},
		{"", []string{"backup", at("backup of a stopped one"), "--data", at("one")}},
		{"", []string{"restore", at("backup of a stopped one"), "--data", at("restored")}},
	} {
		program.Run(t, c.stdin, nil, path, c.args...)
	}
	seen := 0
	for _, root := range []string{dir, s.Data} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == dir { // the folder itself is the test's
				return skipGone(err)
			}
			info, err := d.Info()
			if err != nil {
				return skipGone(err)
			}
			if info.Mode()&fs.ModeSymlink != 0 || forOthers[d.Name()] != "" {
				return nil
			}
			seen++
			if perm := info.Mode().Perm(); perm&0o077 != 0 {
				t.Errorf("%s has mode %s", name, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"person.zip", "mbox.zip", "one/doublet.toml", "restored/notes", "one/cluster",
		"backup/pieces"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Error(err)
		}
	}
	if seen < 50 {
		t.Errorf("only %d files", seen)
	}
}

// skipGone ignores the error of a file that the running server has removed meanwhile.
func skipGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
