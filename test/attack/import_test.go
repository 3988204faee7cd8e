package attack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/program"
)

// doublet runs a verb, which may fail, against the running server.
func doublet(t *testing.T, s *program.Server, args ...string) (string, error) {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	return program.Command(path, append(args, "--data", s.Data)...)
}

// mailOf returns all mail of a person.
func mailOf(t *testing.T, s *program.Server, user string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	s.Doublet("export", user, dir)
	var all bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// tree creates a folder of files; a text that begins with "-> " makes a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if to, link := strings.CutPrefix(text, "-> "); err == nil && link {
			err = os.Symlink(to, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestImportLinks imports mail from an attacker's folder. It has links to files that the server may read and the
// attacker may not, and links that form a cycle.
func TestImportLinks(t *testing.T) {
	s := program.Demo(t)
	outside := tree(t, map[string]string{
		"secret":            "Subject: the secret\r\n\r\nprivate key\r\n",
		"Maildir/cur/1:2,S": "Subject: the secret\r\n\r\nprivate key\r\n",
		"mbox":              "From a@b.example Mon Jan  5 09:00:00 2026\nSubject: the secret\n\nprivate key\n",
	})
	const mine = "Subject: mine\r\n\r\nmy own text\r\n"
	maildir := tree(t, map[string]string{
		"cur/1700000001.a:2,S": "-> " + outside + "/secret", "cur/1700000002.b:2,": "-> /dev/zero",
		"cur/1700000003.c:2,": mine,
		"cur/1700000004.d:2,": "-> 1700000003.c:2,", ".Linked": "-> " + outside + "/Maildir", ".Loop": "-> .",
		".Loop2":   "-> .",
		".Sub/cur": "-> " + outside + "/Maildir/cur", "dovecot-keywords": "-> /dev/zero",
	})
	out, err := doublet(t, s, "import", "maildir", maildir, "--user", "bob", "--folder", "Brought")
	t.Logf("%v\n%s", err, out)
	program.Want(t, out, "symbolic link")
	mboxes := tree(t, map[string]string{
		"one": "-> " + outside + "/mbox", "two": "-> " + outside, "loop": "-> .", "zero": "-> /dev/zero",
		"three": "From a@b.example Mon Jan  5 09:00:00 2026\nSubject: mine\n\nmy other text\n",
	})
	out, err = doublet(t, s, "import", "mbox", mboxes, "--user", "bob", "--folder", "Brought")
	t.Logf("%v\n%s", err, out)
	program.Want(t, out, "symbolic link")
	person := `{"form":"doublet person 1","names":["Eve"],"short":"eve","address":"eve@example.com",` +
		`"roles":["Admin"],"mail":"maildir","folders":[` +
		`{"name":"Brought","path":"","index":"1.jsonl"},{"name":"Up","path":"%s","index":"1.jsonl"}]}`
	export := map[string]string{
		"person.json": fmt.Sprintf(person, "M"), "1.jsonl": `{"uid":1,"file":"a"}` + "\n" +
			`{"uid":2,"file":"b"}` + "\n",
		"cur/a": "-> " + outside + "/secret", "cur/b": mine, "M/cur/a": "Subject: nested\r\n\r\nthird text\r\n",
		"M/cur/b": "-> " + outside + "/secret",
	}
	out, err = doublet(t, s, "import", "person", tree(t, export))
	t.Logf("%v\n%s", err, out)
	program.Want(t, out, "roles Admin")
	if text := s.Doublet("user", "show", "eve"); strings.Contains(text, "Admin") {
		t.Errorf("a file makes an administrator:\n%s", text)
	}
	for _, path := range []string{"../M", "/etc", "M/../../x"} {
		export["person.json"] = fmt.Sprintf(person, path)
		if out, err := doublet(t, s, "import", "person", tree(t, export), "--user", "bob"); err == nil {
			t.Errorf("the folder %s was read:\n%s", path, out)
		}
	}
	for user, texts := range map[string][]string{"bob": {"my own text", "my other text"},
		"eve": {"my own text", "third text"}} {
		all := mailOf(t, s, user)
		if strings.Contains(all, "private key") {
			t.Errorf("%s has read what the server may read", user)
		}
		program.Want(t, all, texts...)
	}
}
