package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// older is a commit that stands for the previous version. Clusters must work while their members run both versions.
// Each release advances it.
const older = "ba03211"

// oldest is the first build: it has no clusters, and its data folder must still open.
const oldest = "3060f26"

var built sync.Map // commit → func() (path, error)

// buildOf builds the program of an earlier commit; it skips the test if the history is missing.
func buildOf(t *testing.T, commit string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf("commit %s is not here: CI needs the whole history (git fetch --unshallow)", commit)
		}
		t.Skipf("commit %s is not here: no git history, or a shallow one", commit)
	}
	once, _ := built.LoadOrStore(commit, sync.OnceValues(func() (string, error) {
		dir := filepath.Join(t.TempDir(), "src")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		archive, err := exec.Command("git", "-C", root, "archive", commit).Output()
		if err != nil {
			return "", err
		}
		tar := exec.Command("tar", "-x", "-C", dir)
		tar.Stdin = bytes.NewReader(archive)
		if err := tar.Run(); err != nil {
			return "", err
		}
		return buildPatiently("doublet-"+commit, dir)
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// buildPatiently builds the program of a folder. An old commit needs modules that the present one does not. Only this
// build downloads them, so it is tried again if they could not be fetched.
func buildPatiently(name, dir string) (path string, err error) {
	for range 3 {
		path, err = program.Build(name, dir)
		if err == nil || !strings.Contains(err.Error(), ": Get \"http") {
			break
		}
		time.Sleep(10 * time.Second)
	}
	return path, err
}

// holds waits until the member's own replica of Anna's mail file has so many messages.
func (m *member) holds(messages int) {
	m.T.Helper()
	eventually(m.T, "the member's own replica is up to date", func() string {
		var db struct {
			Folders []struct {
				Name     string
				Messages int
			}
		}
		if err := json.Unmarshal([]byte(m.Doublet("db", "show", "Anna", "--json")), &db); err != nil {
			return err.Error()
		}
		for _, f := range db.Folders {
			if f.Name == "INBOX" && f.Messages == messages {
				return ""
			}
		}
		return fmt.Sprintf("%+v", db)
	})
}

// queueOf returns the row of the mail.box of a member, in the view of m.
func (m *member) queueOf(name string) (d placed) {
	m.T.Helper()
	for _, d = range m.shared() {
		if d.Title == "mail.box of "+name {
			return d
		}
	}
	return placed{}
}

// TestClusterUpgrade upgrades a cluster of the previous version, one member at a time. Meanwhile members of both
// versions work together: mail reaches each and can be read at each, homes move, and nothing is lost.
func TestClusterUpgrade(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	now, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	was := buildOf(t, older)
	list := foundBy(t, was, []string{"one", "two"})
	one, two := list[0], list[1]
	subjects := []string{}
	mail := func(m *member, subject string) {
		m.deliver(subject)
		subjects = append(subjects, subject)
	}
	mail(one, "old-one")
	mail(two, "old-two")
	two.sees(curl, subjects...)

	two.Stop(syscall.SIGTERM)
	mail(one, "while-two-is-away")
	two.program = []string{now}
	two.serve()
	mail(two, "new-two")
	one.sees(curl, subjects...) // two hands it over, and may have to wait
	mail(one, "old-one-again")
	one.sees(curl, subjects...)
	two.sees(curl, subjects...)
	two.holds(len(subjects))  // the messages seen may have been in one's replica only
	one.Stop(syscall.SIGKILL) // the new one takes over from an old one
	mail(two, "without-one")
	two.sees(curl, subjects...)
	one.serve()
	one.sees(curl, subjects...)
	if d := two.queueOf("two"); len(d.Replicas) != 1 {
		t.Errorf("an old one, which keeps its mail.box to itself, was given one of a new one: %+v", d)
	}
	one.holds(len(subjects))  // the messages seen may have been in two's replica only
	two.Stop(syscall.SIGKILL) // and an old one takes over from a new one
	mail(one, "without-two")
	one.sees(curl, subjects...)
	two.serve()
	two.sees(curl, subjects...)

	one.Stop(syscall.SIGTERM)
	one.program = []string{now}
	one.serve()
	mail(one, "all-new")
	eventually(t, "each mail.box has a replica at the other", func() string {
		for _, name := range []string{two.name(), one.name()} {
			if d := one.queueOf(name); len(d.Replicas) != 2 {
				return fmt.Sprintf("%s: %+v", name, d)
			}
		}
		return ""
	})
	three := two.admits("three")
	mail(three, "to-a-third")
	for _, m := range []*member{one, two, three} {
		m.sees(curl, subjects...)
	}
	for _, m := range []*member{one, two, three} {
		m.Stop(syscall.SIGTERM)
		if out, err := program.Command(now, "check", "--data", m.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
}

// TestFirstBuildJoins: the program opens the data folder of the first build and founds a cluster, and its mail can be
// read at the server that joins.
func TestFirstBuildJoins(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	was := buildOf(t, oldest)
	one := newMember(t)
	program.Run(t, "secret\n", nil, was, "init", "--data", one.Data, "--domain", "cluster.example")
	program.Run(t, "secret\n", nil, was, "user", "add", "Anna", "--short", "anna", "--address", "anna@cluster.example",
		"--data", one.Data)
	// Settings have other names since then.
	settings := "[cluster]\ndirect = \"127.0.0.1:" + one.Port["direct"] + "\"\nroutes = \"127.0.0.1:" +
		one.Port["routes"] + "\"\nadvertise = \"127.0.0.1\"\n"
	if err := os.WriteFile(filepath.Join(one.Data, "doublet.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	one.serve()
	one.deliver("alone")
	one.Doublet("cluster", "init", "test")
	two := one.admits("two")
	two.sees(curl, "alone")
	two.deliver("by-two")
	one.sees(curl, "alone", "by-two")
}
