package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"doublet/admin"
)

// TestBackupAndRestore loses a data folder whose parts are in several places, and restores it with command lines alone,
// settings and people included.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("data"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := "[server]\nname = \"mail.example.org\"\ndomain = \"example.org\"\n[data]\nindex_dir = '" + at("index") +
		"'\nsegments_dir = '" + at("segments") +
		"'\nwal_dir = '" + at("log") + "'\nbackup_dir = '" + at("backup") + "'\n"
	if err := os.WriteFile(at("data/doublet.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	made(t, at("data"))
	run := func(want int, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := command(t, "secret\n", append(args, "--data", at("data"))...)
		if code != want {
			t.Fatalf("%v: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	run(0, "user", "add", "Ada Lovelace")
	before, _ := run(0, "user", "list")
	if out, _ := run(0, "backup"); !strings.Contains(out, "generation:  1") {
		t.Errorf("backup: %s", out)
	}
	run(0, "user", "add", "Grace Hopper")
	run(0, "backup", "--rate", "1GB")
	if out, _ := run(0, "backup", "list"); strings.Count(out, "\n") != 3 {
		t.Errorf("backup list: %s", out)
	}
	run(0, "backup", "verify", "--at", "1")
	run(2, "backup", at("data/inside"))
	if _, errs := run(1, "restore", at("backup")); !strings.Contains(errs, "--replace") {
		t.Errorf("over a store: %s", errs)
	}
	for _, name := range []string{"data", "index", "segments", "log"} {
		if err := os.RemoveAll(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := run(0, "restore", at("backup"), "--list"); strings.Count(out, "\n") != 3 {
		t.Errorf("restore --list: %s", out)
	}
	if out, _ := run(0, "restore", at("backup"), "--at", "1"); !strings.Contains(out, "clean") {
		t.Errorf("restore: %s", out)
	}
	if after, _ := run(0, "user", "list"); after != before {
		t.Errorf("people are\n%s, and were\n%s", after, before)
	}
	if text, err := os.ReadFile(at("data/doublet.toml")); err != nil || string(text) != settings {
		t.Errorf("settings: %v\n%s", err, text)
	}
	if _, err := os.Stat(at("data/notes")); err == nil {
		t.Error("the index lies in the data folder")
	}
	// Restore one mail file into the stopped store.
	if out, _ := run(0, "restore", at("backup"), "--database", "Ada Lovelace", "--as",
		"Ada before"); !strings.Contains(out, "Ada before") {
		t.Errorf("restore --database: %s", out)
	}
	run(2, "restore", at("backup"), "--as", "x")
	run(2, "restore", at("backup"), "--database", "Ada Lovelace", "--replace")
	run(0, "restore", at("backup"), "--replace")
	if after, _ := run(0, "user", "list"); !strings.Contains(after, "Grace") {
		t.Errorf("people are\n%s", after)
	}
}

// TestStopEndsBackup stops a server during a backup that would take hours. The backup ends and reports the reason.
func TestStopEndsBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	made(t, data)
	log := newLines()
	p := startServe(t, log, nil, "--data", data)
	log.await(t, "server started")
	socket, err := admin.Dial(quiet, filepath.Join(data, admin.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(admin.BackupTake{Dir: filepath.Join(dir, "backup"), Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	_, err = socket.Call(context.Background(), "backup", args, func(admin.Progress) {
		once.Do(func() {
			if _, err := socket.Call(context.Background(), "stop", nil, nil); err != nil {
				t.Error(err)
			}
		})
	})
	if admin.Kind(err) != "stopped" {
		t.Errorf("the backup: %v", err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the server: %v", err)
	}
	if code, out, errs := command(t, "", "backup", filepath.Join(dir, "backup"), "--data", data); code != 0 {
		t.Errorf("the next one: %d %s %s", code, out, errs)
	}
}
