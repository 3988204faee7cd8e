package attack

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/long"
)

// zipped creates a zip file. A content "zeros 500" stands for 500 MB of zeros.
func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		var n int
		if _, other := fmt.Sscanf(text, "zeros %d", &n); err == nil && other == nil {
			_, err = io.Copy(w, io.LimitReader(zeros{}, int64(n)<<20))
		} else if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "in.zip")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestMemoryOfTransfers imports and exports much mail concurrently, and imports files that unpack to far more than
// their size.
func TestMemoryOfTransfers(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	v.may += memoryTransfers
	v.attackBombs()
	var box bytes.Buffer
	for i := range 2 {
		fmt.Fprintf(&box, "From a@b.example Mon Jan  5 09:00:00 2026\nSubject: %d\n\n%s\n", i,
			strings.Repeat("line\n", 15<<20/5))
	}
	path := filepath.Join(t.TempDir(), "mbox")
	if err := os.WriteFile(path, box.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	users := []string{"bob", "carol", "alice"}
	// An import or export waits for memory, so none of them may fail.
	done := func(args ...string) bool {
		out, err := doublet(t, v.Server, args...)
		if err != nil || strings.Contains(out, "failed") {
			t.Errorf("%s: %v %.500s", args[0], err, out)
		}
		return err != nil
	}
	v.attack("imports", 12, func(i int) bool { return done("import", "mbox", path, "--user", users[i%3]) })
	dir := t.TempDir()
	v.attack("exports", 12, func(i int) bool {
		return done("export", users[i%3], filepath.Join(dir, fmt.Sprint(i, ".zip")))
	})
}

// attackBombs imports exports of a person that unpack to hundreds of megabytes. None of it is stored.
func (v *victim) attackBombs() {
	person := `{"form":"doublet person 1","names":["Alice"],"address":"alice@example.com","mail":"maildir",` +
		`"folders":[{"name":"Bomb","path":"B","index":"i"}]}`
	for _, bomb := range []struct {
		name, want string
		files      map[string]string
	}{
		{"messages", "", map[string]string{"person.json": person, "i": strings.Repeat(`{"uid":1,"file":"a"}`+"\n", 10),
			"B/cur/a": "zeros 19"}},
		{"message", "failed", map[string]string{"person.json": person,
			"i": strings.Repeat(`{"uid":1,"file":"a"}`+"\n", 10), "B/cur/a": "zeros 500"}},
		{"index", "token too long", map[string]string{"person.json": person, "i": "zeros 500", "B/cur/a": "x"}},
		{"person", "is no export of a person", map[string]string{"person.json": "zeros 500"}},
		{"folders", "is no export of a person",
			map[string]string{"person.json": `{"form":"doublet person 1","folders":[` +
				strings.Repeat("{},", 1<<20) + `{}]}`}},
	} {
		path := zipped(v.t, bomb.files)
		v.attack("bomb: "+bomb.name, 12, func(int) bool {
			out, err := doublet(v.t, v.Server, "import", "person", path, "--user", "bob")
			if !strings.Contains(out, bomb.want) {
				v.t.Errorf("bomb %s: %v, %.500s", bomb.name, err, out)
			}
			return err != nil
		})
	}
	if all := mailOf(v.t, v.Server, "bob"); len(all) > 20<<20 {
		v.t.Errorf("bob has %d MB of mail", len(all)>>20)
	}
}
