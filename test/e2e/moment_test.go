package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"doublet/test/long"
	"doublet/test/program"
)

// TestMoment follows the walk-through of doc/operate.md: an administrator deletes a mailbox by mistake, and brings it
// back as of the second before, while the server runs; then one folder of it; then, with the server stopped, the whole
// server.
func TestMoment(t *testing.T) {
	long.Test(t)
	dir := filepath.Join(t.TempDir(), "archive")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOUBLET_ARCHIVE_TARGET", dir)
	t.Setenv("DOUBLET_ARCHIVE_INTERVAL", "200ms")
	s := program.Demo(t)
	type database struct {
		ID    string `json:"id"`
		Notes uint64 `json:"notes"`
	}
	mailbox := func() (d database) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.Doublet("db", "show", "alice", "--json")), &d); err != nil || d.Notes == 0 {
			t.Fatal(d, err)
		}
		return d
	}
	// covered waits until the archive has a moment.
	covered := func(at time.Time) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			var list []struct{ From, To time.Time }
			text := s.Doublet("backup", "moments", dir, "--json")
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				t.Fatal(err)
			}
			if n := len(list); n > 0 && !list[0].From.After(at) && !list[n-1].To.Before(at) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the archive has not %s: %s", at, text)
			}
		}
	}
	// The first backup is taken after the start: the moment must be after it.
	for deadline := time.Now().Add(time.Minute); s.Doublet("backup", "moments", dir, "--json") == "[]\n"; {
		if time.Now().After(deadline) {
			t.Fatalf("no backup:\n%s", s.Out)
		}
	}
	before := mailbox()
	at := time.Now()
	moment := at.Format(time.RFC3339Nano)
	covered(at)
	s.Doublet("db", "remove", "alice")
	if out, err := s.Try("restore", dir, "--to", moment, "--replace"); err == nil {
		t.Errorf("a restore over the running server: %s", out)
	}
	if out, err := s.Try("restore", dir, "--database", "alice", "--to", "2020-01-01 00:00:00"); err == nil {
		t.Errorf("a moment before the archive: %s", out)
	} else {
		program.Want(t, out, "the nearest before it: none", "the nearest after it: 20")
	}
	s.Doublet("restore", dir, "--database", "alice", "--to", moment)
	if after := mailbox(); after.ID == before.ID || after.Notes != before.Notes {
		t.Errorf("%+v, before the mistake %+v", after, before)
	}
	s.Doublet("restore", dir, "--database", "alice", "--folder", "INBOX", "--as", "INBOX as it was", "--to", moment)
	if after := mailbox(); after.Notes <= before.Notes {
		t.Errorf("the folder did not come back: %+v", after)
	}
	program.Want(t, s.Doublet("backup", "verify", dir), "moments")
	s.Stop(syscall.SIGTERM)
	program.Want(t, s.Doublet("restore", dir, "--to", moment, "--replace"), "and the archive as of")
	s.Start()
	if after := mailbox(); after != before {
		t.Errorf("%+v, at the moment %+v", after, before)
	}
	// The restored server begins a new timeline, with a backup of its own.
	covered(time.Now())
}
