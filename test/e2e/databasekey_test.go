package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/program"
)

// TestDatabaseKey gives a mail file a key of its own. Without its key file the server starts, serves the others, and
// keeps mail for this one until it is unlocked. A backup holds nothing that can be read, and is restored with the key.
func TestDatabaseKey(t *testing.T) {
	dir := t.TempDir()
	s := &encryptedServer{program.Demo(t), filepath.Join(dir, "alice.key")}
	s.Doublet("encryption", "key", s.keyFile)
	program.Want(t, s.Doublet("db", "encrypt", "alice", "--key", s.keyFile), "own key", s.keyFile)
	if err := s.deliver("sealed"); err != nil {
		t.Fatal(err)
	}
	if n := s.subjects(secretWord); n != 1 {
		t.Errorf("%d messages of 1", n)
	}
	program.Want(t, s.Doublet("check", "--deep"), "clean")
	if out, err := s.Try("search", "rebuild", "--database", "alice"); err == nil {
		t.Errorf("the mail file is indexed: %s", out)
	}

	s.Doublet("db", "lock", "alice")
	program.Want(t, s.Doublet("db", "show", "alice"), "locked", "own key, not given")
	if err := s.deliver("waiting"); err != nil {
		t.Fatal(err)
	}
	program.Want(t, s.Doublet("queue", "list"), "alice")
	program.Want(t, s.Doublet("check"), "clean", "it is locked")
	s.Doublet("db", "unlock", "alice")
	s.retry()
	s.arrive(2)

	away := filepath.Join(dir, "away.key")
	if err := os.Rename(s.keyFile, away); err != nil {
		t.Fatal(err)
	}
	s.Stop(syscall.SIGTERM)
	s.Start()
	program.Want(t, s.Doublet("db", "show", "alice"), "out of service", "locked")
	if out, err := s.Try("db", "unlock", "alice"); err == nil || !strings.Contains(out, s.keyFile) {
		t.Errorf("unlocked without the key file: %s", out)
	}
	program.Want(t, s.Doublet("db", "unlock", "alice", "--key", away), "own key", away)
	s.arrive(2)

	backup := filepath.Join(dir, "backup")
	s.Doublet("backup", backup)
	program.Want(t, s.Doublet("db", "restore", "alice", backup, "--as", "Copy"), "Copy")
	other := filepath.Join(dir, "other.key")
	s.Doublet("encryption", "key", other)
	program.Want(t, s.Doublet("db", "encrypt", "alice", "--key", other), "own key", other)
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Try("db", "restore", "alice", backup, "--as", "Another"); err == nil {
		t.Errorf("restored without the key: %s", out)
	}
	program.Want(t, s.Doublet("db", "encrypt", "alice", "--off"), "Alice Liddell")
	if out := s.Doublet("db", "show", "alice"); strings.Contains(out, "own key") {
		t.Errorf("there still is a key: %s", out)
	}
	s.arrive(2)
	program.Want(t, s.Doublet("check", "--deep"), "clean")
}

// retry makes the router try what waits.
func (s *encryptedServer) retry() {
	s.T.Helper()
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(s.Doublet("queue", "list", "--json")), &list); err != nil || len(list) == 0 {
		s.T.Fatal(list, err)
	}
	for _, e := range list {
		s.Doublet("queue", "retry", e.ID)
	}
}

// arrive waits until the mail file has n messages.
func (s *encryptedServer) arrive(n int) {
	s.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got := s.subjects(secretWord)
		if got == n {
			return
		}
		if got > n || time.Now().After(deadline) {
			s.T.Fatalf("%d messages of %d", got, n)
		}
	}
}
