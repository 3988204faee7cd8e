package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"doublet/admin"

	"filippo.io/age"
)

// TestJournal reads a journal on the command line with the key of a person, which the server does not have, and
// verifies an archive without a server. A message that cannot be journaled is put off.
func TestJournal(t *testing.T) {
	t.Parallel()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, keys, archive := filepath.Join(dir, "data"), filepath.Join(dir, "key.txt"), filepath.Join(dir, "archive.tar")
	if err := os.WriteFile(keys, []byte("# a comment\n"+id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	doors, stop := startDemo(t, data, "DOUBLET_JOURNAL_ENABLED=true", "DOUBLET_JOURNAL_READERS=bob",
		"DOUBLET_JOURNAL_RECIPIENTS="+id.Recipient().String())
	defer stop()
	send := func(text string) error {
		return deliver(doors["smtp"], mustPath(t, "eve@far.example"), mustPath(t, "alice@example.com"),
			[]byte("From: eve@far.example\r\nTo: alice@example.com\r\nSubject: plan\r\n\r\n"+text+"\r\n"))
	}
	if err := send("an uncommon turbine"); err != nil {
		t.Fatal(err)
	}
	ask := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := command(t, "demo\n", append([]string{"--data", data, "journal"}, args...)...)
		if code != want {
			t.Fatalf("%q: %d, want %d\n%s\n%s", args, code, want, out, errs)
		}
		return out + errs
	}
	var list []admin.JournalDatabase
	if err := json.Unmarshal([]byte(ask(0, "list", "--json")), &list); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	db := list[0].ID
	var found admin.JournalFound
	if err := json.Unmarshal([]byte(ask(0, "search", "--text", "TURBINE", "--from", "eve@far.example", "--reason",
		"case 7", "--as", "bob", "--identity", keys, "--json")), &found); err != nil || len(found.Entries) != 1 {
		t.Fatal(found, err)
	}
	number := found.Entries[0].Number
	show := []string{"show", db, strconv.FormatUint(number, 10), "--reason", "case 7",
		"--as"}
	if out := ask(0, append(show, "bob", "--identity", keys)...); !strings.Contains(out, "an uncommon turbine") ||
		!strings.Contains(out, "signed in") && !strings.Contains(out, "envelope") {
		t.Error(out)
	}
	ask(exitFailed, append(show, "bob")...)       // the server has no key
	ask(exitPermission, append(show, "alice")...) // an administrator
	ask(0, "export", db, archive, "--reason", "case 7", "--as", "bob")
	signer := regexp.MustCompile(`[0-9a-f]{64}`).FindString(ask(0, "keys", "--json"))
	if out := ask(0, "verify", archive, "--signer", signer); !strings.Contains(out, "complete and unchanged") {
		t.Error(out)
	}
	ask(exitFailed, "verify", archive, "--signer", strings.Repeat("0", 64))
	if out := ask(0, "verify", db); !strings.Contains(out, "complete and unchanged") {
		t.Error(out)
	}
	if code, out, errs := command(t, "", "--data", data, "db", "set", db, "--service=false"); code != 0 {
		t.Fatal(out, errs)
	}
	if err := send("later"); err == nil || !strings.Contains(err.Error(), "452") {
		t.Errorf("a message that cannot be journaled: %v", err)
	}
	if code, out, errs := command(t, "", "--data", data, "db", "set", db, "--service"); code != 0 {
		t.Fatal(out, errs)
	}
	if err := send("later"); err != nil {
		t.Error(err)
	}
	_, out, _ := command(t, "", "--data", data, "show", "stat", "Journal")
	if !strings.Contains(out, "Journal.Deferred = 1") {
		t.Error(out)
	}
	if code, _, errs := command(t, "", "--data", data, "config", "check"); code != 0 {
		t.Error(errs)
	}
}
