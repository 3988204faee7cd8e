package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/store/blob/s3test"
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

// TestWriteNewFile checks that a key file whose name is not durable is an error and is removed: its public key must not
// be used.
func TestWriteNewFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	files := env.WithFaults(world(&config.Config{}, t.Output()).FS)
	files.FailFiles(env.OpSync, func(name string) bool { return name == dir }, nil)
	if err := writeNewFile(files, path, "x"); !errors.Is(err, env.ErrInjected) {
		t.Errorf("%v, want %v", err, env.ErrInjected)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
	files.Heal()
	if err := writeNewFile(files, path, "x"); err != nil {
		t.Error(err)
	}
}

// TestBackupInBucket makes a pair of keys, backs up into a bucket with the public one, loses the machine, and restores
// from the bucket with the private one.
func TestBackupInBucket(t *testing.T) {
	t.Parallel()
	dir, bucket := t.TempDir(), s3test.New(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	place := bucket.Place("mail", "30s")
	code, out, errs := command(t, "", "backup", "key", at("key"))
	_, rest, _ := strings.Cut(out, "backup_recipient = ")
	setting, _, _ := strings.Cut(rest, "\n")
	if code != 0 || !strings.HasPrefix(setting, `"age1`) {
		t.Fatalf("backup key: %d %s%s", code, out, errs)
	}
	if code, _, _ := command(t, "", "backup", "key", at("key")); code == 0 {
		t.Error("a private key was overwritten")
	}
	if info, err := os.Stat(at("key")); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the private key: %v %v", info.Mode(), err)
	}
	if err := os.Mkdir(at("data"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := "[server]\nname = \"mail.example.org\"\ndomain = \"example.org\"\n[data]\nbackup_dir = '" + place +
		"'\nbackup_keep = '1d'\nbackup_recipient = " + setting + "\n"
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
	run(0, "backup")
	run(0, "user", "add", "Grace Hopper")
	if out, _ := run(0, "backup"); !strings.Contains(out, "stored") {
		t.Errorf("backup: %s", out)
	}
	if out, _ := run(0, "backup", "list"); strings.Count(out, "\n") != 2 { // data.backup_keep
		t.Errorf("backup list: %s", out)
	}
	run(0, "backup", "thin", "--dry-run")
	run(0, "backup", "verify", "--identity", at("key"))
	if _, errs := run(1, "backup", "verify"); !strings.Contains(errs, "identity") {
		t.Errorf("verify without the key: %s", errs)
	}
	before, _ := run(0, "user", "list")
	run(0, "restore", place, "--database", "Ada Lovelace", "--as", "Ada before", "--identity", at("key"))
	if err := os.RemoveAll(at("data")); err != nil {
		t.Fatal(err)
	}
	for name, b := range bucket.Objects() {
		if bytes.Contains(b, []byte("example.org")) {
			t.Errorf("%s can be read", name)
		}
	}
	if _, errs := run(1, "restore", place); !strings.Contains(errs, "identity") {
		t.Errorf("restore without the key: %s", errs)
	}
	run(0, "restore", place, "--list")
	if out, _ := run(0, "restore", place, "--identity", at("key")); !strings.Contains(out, "clean") {
		t.Errorf("restore: %s", out)
	}
	if after, _ := run(0, "user", "list"); after != before {
		t.Errorf("people are\n%s, and were\n%s", after, before)
	}
	if text, err := os.ReadFile(at("data/doublet.toml")); err != nil || string(text) != settings {
		t.Errorf("settings: %v\n%s", err, text)
	}
	run(2, "restore", "s3://", "--list")
	if refused := bucket.Refused(); len(refused) > 0 {
		t.Errorf("%q", refused)
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
