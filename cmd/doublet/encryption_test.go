package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEncryptedBackup backs an encrypted store up, loses it with its key, and restores it with a new key into folders
// that are encrypted, too.
func TestEncryptedBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("data"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := "[server]\nname = \"mail.example.org\"\ndomain = \"example.org\"\n[data]\nsegments_dir = '" +
		at("segments") + "'\nwal_dir = '" + at("log") + "'\nbackup_dir = '" + at("backup") +
		"'\nencryption_key_file = '" + at("key") + "'\n"
	if err := os.WriteFile(at("data/doublet.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := command(t, "secret\n", append(args, "--data", at("data"))...)
		if code != want {
			t.Fatalf("%v: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	// readable returns the number of files of the store that have a person's name.
	readable := func(folders ...string) (n int) {
		t.Helper()
		for _, folder := range folders {
			err := filepath.WalkDir(at(folder), func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				if bytes.Contains(b, []byte("Lovelace")) {
					n++
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	run(0, "encryption", "key", at("key"))
	made(t, at("data"))
	run(0, "user", "add", "Ada Lovelace")
	before, _ := run(0, "user", "list")
	run(0, "backup")
	if n := readable("data", "log", "segments"); n > 0 {
		t.Errorf("%d files of the store can be read", n)
	}
	if readable("backup") == 0 {
		t.Error("a backup without a key of its own is encrypted: it would need the server's key")
	}
	if out, _ := run(0, "encryption"); !strings.Contains(out, "for new files") || strings.Contains(out, "plain") {
		t.Errorf("encryption: %s", out)
	}
	for _, name := range []string{"data", "segments", "log", "key"} {
		if err := os.RemoveAll(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs := run(1, "restore", at("backup")); !strings.Contains(errs, "encryption key file") {
		t.Errorf("restore without a key file: %s", errs)
	}
	run(0, "encryption", "key", at("key"))
	if out, _ := run(0, "restore", at("backup")); !strings.Contains(out, "clean") {
		t.Errorf("restore: %s", out)
	}
	if after, _ := run(0, "user", "list"); after != before {
		t.Errorf("people are\n%s, and were\n%s", after, before)
	}
	if n := readable("data", "log", "segments"); n > 0 {
		t.Errorf("%d files of the restored store can be read", n)
	}
}
