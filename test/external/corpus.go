package external

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"doublet/test/long"
	"doublet/wire/mime"
)

// Corpus returns real messages as transmitted, from an archive beside the repository: at most so many (0: all), always
// in the same order. It skips the test if the archive is missing or cannot be unpacked. Tests, but not benchmarks, are
// also skipped if long tests do not run.
func Corpus(t testing.TB, most int) (messages []string) {
	t.Helper()
	if _, measures := t.(*testing.B); !measures {
		long.Test(t)
	}
	archive, found := beside("shared/corpus/spamassassin-easy_ham-spam.tar.xz")
	if !found {
		t.Skip("skipped: the corpus is not there")
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xJf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Skipf("skipped: tar cannot unpack the corpus: %v %s", err, out)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || most > 0 && len(messages) == most {
			return err
		}
		b, err := os.ReadFile(path)
		if i := bytes.IndexByte(b, '\n'); bytes.HasPrefix(b, []byte("From ")) && i > 0 {
			b = b[i+1:]
		}
		if bytes.IndexByte(b, 0) < 0 {
			messages = append(messages, string(mime.AppendCRLF(nil, b)))
		}
		return err
	})
	if err != nil || len(messages) < most || len(messages) == 0 {
		t.Fatalf("%d messages of the corpus: %v", len(messages), err)
	}
	return messages
}

// beside finds a file in a folder above the working directory, which is that of the package under test. It does not use
// the path of this source file, because a build with -trimpath has none.
func beside(name string) (path string, found bool) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		path = filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return "", false
}
