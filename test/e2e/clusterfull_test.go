package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"doublet/client/imap"
	"github.com/cockroachdb/pebble/v2/vfs"

	"doublet/test/external"
	"doublet/test/program"
)

// smallDisk mounts a disk of size MB on a folder until the test ends.
func smallDisk(t *testing.T, dir string, size int) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		external.Missing(t, "root", "a small disk needs Linux and root")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := program.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", size), "tmpfs",
		dir); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf("mount: %v\n%s", err, out)
		}
		t.Skipf("a tmpfs cannot be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// fillDisk fills the disk of a folder with a file until so many bytes are left.
func fillDisk(t *testing.T, dir string, left uint64) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "other files")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	room, err := vfs.Default.GetDiskUsage(dir)
	if err == nil {
		_, err = io.CopyN(f, zeros{}, int64(room.AvailBytes-left))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return ballast
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// says sends an IMAP command and checks that its answer contains a text.
func says(t *testing.T, c *imap.Client, command, want string) {
	t.Helper()
	list, err := c.Raw("x " + command)
	got := ""
	for _, r := range list {
		got += r.Raw + "\n"
	}
	if err != nil || !strings.Contains(got, want) {
		t.Fatalf("%s: not %q, but (%v)\n%s", command, want, err, got)
	}
}

// leads waits until a member is the home of Anna's mail file, in its own view and in another's.
func (m *member) leads(other *member) {
	m.T.Helper()
	name := m.name()
	for _, asked := range []*member{m, other} {
		eventually(m.T, name+" leads Anna's mail file", func() string {
			list := asked.placed()
			for _, d := range list {
				if d.Title == "Anna" && d.Home == name {
					return ""
				}
			}
			return fmt.Sprintf("%+v", list)
		})
	}
}

// name returns the name of a member in the cluster.
func (m *member) name() string {
	m.T.Helper()
	for _, s := range m.status().Members {
		if s.Self {
			return s.Name
		}
	}
	m.T.Fatal("a member does not know itself")
	return ""
}

// TestClusterFullDisk: the disk of a mailbox's home is full. The home refuses new mail with a reason, while its session
// can still read and delete. Its mate accepts the mail, and takes over the mailbox at the next open. After a kill and a
// restart with a full disk it forwards its people as before. When there is space again it receives all missed mail,
// once.
func TestClusterFullDisk(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	path := mustBinary(t)
	const floor = 32 << 20
	one := newMember(t)
	disk := filepath.Dir(one.Data)
	smallDisk(t, disk, 256)
	// A start frees logs of the size of a memtable, which are allocated as a whole. They are small here, so that this
	// frees little space.
	one.env = []string{"DOUBLET_STORE_SPACE_FLOOR=32MB", "DOUBLET_STORE_SPACE_FLOOR_PERCENT=1",
		"DOUBLET_STORE_MEMTABLE_SIZE=1MB"}
	one.program = []string{path}
	one.founds("test")
	two := one.admits("two")
	one.deliver("first")
	one.deliver("second")
	one.sees(curl, "first", "second")
	two.sees(curl, "first", "second")
	two.holds(2)
	one.leads(two)
	session := imapClient(t, one.Port["imap"], "anna", "secret")
	says(t, session, "SELECT INBOX", "* 2 EXISTS")

	refuses := func(subject string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "message")
		if err := os.WriteFile(file, []byte("Subject: "+subject+"\r\n\r\n"+subject+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := program.Command(curl, "-sv", "-m", "10", "--mail-from", "x@elsewhere.example", "--mail-rcpt",
			"anna@cluster.example", "-T", file, "smtp://127.0.0.1:"+one.Port["smtp"])
		if err == nil || !strings.Contains(out, "\n< 452 4.3.1 ") {
			t.Errorf("a full disk does not refuse mail (%v): %s", err, out)
		}
	}
	tells := func() {
		t.Helper()
		program.Want(t, one.until("the disk here is full", "show", "events"), "no room")
		program.Want(t, two.until("its disk is full", "show", "events"), "no room", one.name())
	}
	ballast := fillDisk(t, disk, floor*3/4) // above half of the floor, where the server frees a ballast of its own
	tells()
	refuses("refused")
	says(t, session, "APPEND INBOX {4+}\r\na: b", "x NO [OVERQUOTA]")
	says(t, session, "FETCH 1 BODY.PEEK[TEXT]", "first")
	says(t, session, `STORE 2 +FLAGS.SILENT (\Deleted)`, "x OK")
	says(t, session, "EXPUNGE", "* 2 EXPUNGE")
	two.holds(1)
	two.deliver("third") // one still leads, and cannot accept it
	program.Want(t, two.until("lag", "show", "events"), "the disk of "+one.name()+" is full")
	one.leads(two)
	if err := session.Logout(); err != nil {
		t.Fatal(err)
	}
	one.sees(curl, "first", "third")
	two.leads(one)

	one.Stop(syscall.SIGKILL)
	two.deliver("fourth")
	one.serve()
	tells()
	refuses("refused again")
	two.deliver("fifth")
	one.sees(curl, "first", "third", "fourth", "fifth")
	two.leads(one)

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	one.until("!disk here is full", "show", "events")
	two.until("!disk is full", "show", "events")
	one.holds(4)
	eventually(t, "the mate knows that the server with room again serves", func() string {
		for _, m := range two.status().Members { // until then an open moves nothing to it
			if !m.Serving {
				return fmt.Sprintf("%+v", m)
			}
		}
		return ""
	})
	one.deliver("sixth")
	for _, m := range []*member{one, two} {
		m.sees(curl, "first", "third", "fourth", "fifth", "sixth")
	}
	one.leads(two) // it is the first in the order again
	one.holds(5)
	two.holds(5)
	eventually(t, "all is quiet", func() string {
		for _, m := range []*member{one, two} {
			if st := m.status(); !st.Serving || st.Homeless+st.Waiting > 0 {
				return fmt.Sprintf("%+v", st)
			}
		}
		return ""
	})
	shared := one.shared()
	for _, m := range []*member{one, two} { // both at once, so that neither sees the other leave and takes over
		_ = m.Cmd.Process.Kill()
	}
	for _, m := range []*member{one, two} {
		m.Stop(syscall.SIGKILL)
		if out, err := program.Command(path, "check", "--data", m.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
	equal(t, []*member{one, two}, shared)
}
