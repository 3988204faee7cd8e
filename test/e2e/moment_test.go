package e2e

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"doublet/test/long"
	"doublet/test/program"
)

// empty deletes all messages in the INBOX of alice.
func empty(t *testing.T, s *program.Server) {
	t.Helper()
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.Port["imap"], 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "a LOGIN alice demo\r\nb SELECT INBOX\r\n"+
		"c STORE 1:* +FLAGS.SILENT (\\Deleted)\r\nd EXPUNGE\r\ne LOGOUT\r\n"); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(out), "\nb OK", "\nc OK", "\nd OK")
}

// TestMoment follows the walk-through of doc/operate.md: a mail file is emptied by mistake, and the administrator
// brings it back as of the second before, while the server runs; then one folder of it; then, with the server stopped,
// the whole server.
func TestMoment(t *testing.T) {
	long.Test(t)
	dir := filepath.Join(t.TempDir(), "archive")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	moment(t, dir, func() {})
}

// moment is TestMoment with an archive at a place, to which fault happens before the moment is archived.
func moment(t *testing.T, dir string, fault func()) {
	t.Helper()
	t.Setenv("DOUBLET_ARCHIVE_TARGET", dir)
	t.Setenv("DOUBLET_ARCHIVE_INTERVAL", "200ms")
	s := program.Demo(t)
	type database struct {
		id       string
		messages int
	}
	mailbox := func() (d database) {
		t.Helper()
		var shown struct {
			ID      string
			Folders []struct{ Messages int }
		}
		err := json.Unmarshal([]byte(s.Doublet("db", "show", "alice", "--json")), &shown)
		d.id = shown.ID
		for _, f := range shown.Folders {
			d.messages += f.Messages
		}
		if err != nil || d.messages == 0 {
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
	to := at.Format(time.RFC3339Nano)
	fault()
	covered(at)
	empty(t, s)
	if out, err := s.Try("restore", dir, "--to", to, "--replace"); err == nil {
		t.Errorf("a restore over the running server: %s", out)
	}
	if out, err := s.Try("restore", dir, "--database", "alice", "--to", "2020-01-01 00:00:00"); err == nil {
		t.Errorf("a moment before the archive: %s", out)
	} else {
		program.Want(t, out, "the nearest before it: none", "the nearest after it: 20")
	}
	s.Doublet("restore", dir, "--database", "alice", "--to", to)
	if after := mailbox(); after.id == before.id || after.messages != before.messages {
		t.Errorf("%+v, before the mistake %+v", after, before)
	}
	s.Doublet("restore", dir, "--database", "alice", "--folder", "INBOX", "--as", "INBOX as it was", "--to", to)
	if after := mailbox(); after.messages <= before.messages {
		t.Errorf("the folder did not come back: %+v", after)
	}
	program.Want(t, s.Doublet("backup", "verify", dir), "moments")
	s.Stop(syscall.SIGTERM)
	program.Want(t, s.Doublet("restore", dir, "--to", to, "--replace"), "and the archive as of")
	s.Start()
	if after := mailbox(); after != before {
		t.Errorf("%+v, at the moment %+v", after, before)
	}
	// The restored server begins a new timeline, with a backup of its own.
	covered(time.Now())
}
