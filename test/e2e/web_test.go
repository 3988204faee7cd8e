package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/netns"
	"doublet/test/program"
)

// TestBrowser runs the tests of the web client in Chromium: test/e2e/web, in four parts of about equal length, each
// against a demo of its own.
func TestBrowser(t *testing.T) {
	t.Parallel()
	browsePart(t, "", "files")
}

// TestBrowserMore runs the second part of the files of TestBrowser.
func TestBrowserMore(t *testing.T) {
	t.Parallel()
	browsePart(t, "files", "lite")
}

// TestBrowserOther runs the third part of the files of TestBrowser.
func TestBrowserOther(t *testing.T) {
	t.Parallel()
	browsePart(t, "lite", "rules")
}

// TestBrowserRest runs the fourth part of the files of TestBrowser.
func TestBrowserRest(t *testing.T) {
	t.Parallel()
	browsePart(t, "rules", "~")
}

// browsePart runs the files whose names are not before from, and before to.
func browsePart(t *testing.T, from, to string) {
	t.Helper()
	external.Need(t, "node", "chromium")
	s := demo(t)
	// hostile.test.mjs
	s.Doublet("user", "add", "Hostile Harry", "--short", "harry", "--address", "harry@example.com",
		"--password", "demo")
	web, err := filepath.Glob("web/*.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range web {
		if name = filepath.Base(name); name >= from && name < to {
			files = append(files, name)
		}
	}
	browse(t, 12*time.Minute, []string{"WEB=http://127.0.0.1:" + s.Port["http"], "SMTP=" + s.Port["smtp"],
		// setup.test.mjs opens its doors long after it has chosen them.
		"PORTS=" + strings.Join(program.FreePorts(t, 5), " ")}, files...)
}

// inFirefox lists the files that run in Firefox too: doc/testing.md says why others do not.
var inFirefox = []string{"firefox.mjs", "history.test.mjs", "tasks.test.mjs", "folders.test.mjs", "drafts.test.mjs",
	"reading.test.mjs", "writing.test.mjs", "quote.test.mjs", "rooms.test.mjs"}

// TestBrowserFirefox goes the main ways through the client in Firefox.
func TestBrowserFirefox(t *testing.T) {
	t.Parallel()
	firefox := external.Need(t, "firefox-esr")[0]
	s := demo(t)
	browse(t, 12*time.Minute, []string{"WEB=http://127.0.0.1:" + s.Port["http"], "SMTP=" + s.Port["smtp"],
		"FIREFOX=" + firefox}, inFirefox...)
}

// TestBrowserMany uses a folder of 100,000 messages.
func TestBrowserMany(t *testing.T) {
	t.Parallel()
	external.Need(t, "node", "chromium")
	s := demo(t)
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	var many bytes.Buffer
	for i := range 100_000 {
		at := time.Date(2026, 9, 1, 0, -i, 0, 0, time.UTC)
		fmt.Fprintf(&many, "From x@elsewhere.example %s\nDate: %s\nFrom: Sender %d <s%[3]d@elsewhere.example>\n"+
			"To: many@example.com\nSubject: Number %[4]d of many\nMessage-ID: <many%[4]d@elsewhere.example>\n\n"+
			"Body %[4]d\n\n",
			at.Format(time.ANSIC), at.Format(time.RFC1123Z), i%23, i)
	}
	file := filepath.Join(t.TempDir(), "many.mbox")
	if err := os.WriteFile(file, many.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Run(t, "", nil, path, "user", "add", "Many Mails", "--short", "many", "--address", "many@example.com",
		"--password", "demo", "--data", s.Data)
	program.Run(t, "", nil, path, "import", "mbox", file, "--user", "many", "--data", s.Data)
	browse(t, 5*time.Minute, []string{"WEB=http://127.0.0.1:" + s.Port["http"], "SMTP=" + s.Port["smtp"]}, "many.mjs")
}

// TestBrowserFailover kills the server that a browser uses. A mate behind the same address takes over.
func TestBrowserFailover(t *testing.T) {
	t.Parallel()
	external.Need(t, "node", "chromium", "curl")
	curl := external.Need(t, "curl")[0]
	one, two := pairOf(t)
	one.deliver("alone")
	one.sees(curl, "alone")
	two.sees(curl, "alone")
	browse(t, 4*time.Minute, []string{"WEB=http://127.0.0.1:" + one.Port["http"], "SMTP=" + one.Port["smtp"],
		"ADMIN=admin"}, "members.mjs")
	browse(t, 4*time.Minute, []string{
		"WEB=http://" + before(t, "127.0.0.1:"+one.Port["http"], "127.0.0.1:"+two.Port["http"]),
		"SMTP=" + two.Port["smtp"], "VICTIM=" + strconv.Itoa(one.Cmd.Process.Pid),
		"MATE=http://127.0.0.1:" + two.Port["http"],
	}, "failover.mjs")
	two.sees(curl, "alone", "Through a death") // once
}

// pairOf returns two servers of a cluster that both have Anna's mail file.
func pairOf(t *testing.T) (one, two *member) {
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	one, two = newMember(t), newMember(t)
	program.Run(t, "secret\n", nil, path, "init", "--data", one.Data, "--domain", "cluster.example")
	program.Run(t, "secret\n", nil, path, "user", "add", "Anna", "--short", "anna", "--address", "anna@cluster.example",
		"--data", one.Data)
	program.Run(t, "", nil, path, "config", "set", "cluster.direct", "127.0.0.1:"+one.Port["direct"],
		"cluster.routes", "127.0.0.1:"+one.Port["routes"], "cluster.advertise", "127.0.0.1", "--data", one.Data)
	one.serve()
	one.Doublet("cluster", "init", "test")
	token := strings.Fields(one.Doublet("cluster", "token"))[1]
	program.Run(t, "", nil, path, append([]string{"cluster", "join", token, "--name", "two", "--data", two.Data},
		two.addresses...)...)
	two.serve()
	return one, two
}

// before returns an address whose connections are passed to the first server that accepts them, as if all had one name.
func before(t *testing.T, servers ...string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go carry(c, servers)
		}
	}()
	return l.Addr().String()
}

// carry relays a connection to the first server that accepts it, until either side ends it.
func carry(c net.Conn, servers []string) {
	defer func() { _ = c.Close() }()
	for _, address := range servers {
		s, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		defer func() { _ = s.Close() }()
		go func() {
			_, _ = io.Copy(s, c) // the end of one direction ends the connection
			_ = s.Close()
		}()
		_, _ = io.Copy(c, s)
		return
	}
}

// browse runs files of test/e2e/web in node, by default all tests.
func browse(t *testing.T, limit time.Duration, environ []string, files ...string) {
	t.Helper()
	paths := external.Need(t, "node", "chromium")
	netns.Still(t)
	if _, err := os.Stat("web/node_modules/playwright-core"); err != nil {
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatal("the browser tests' packages are missing: npm --prefix test/e2e/web ci")
		}
		t.Skip("the browser tests' packages are missing: npm --prefix test/e2e/web ci")
	}
	doublet, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	cmd := exec.CommandContext(ctx, paths[0], append([]string{"--test", "--test-reporter=spec", "--test-concurrency=1"},
		files...)...)
	cmd.Dir, cmd.WaitDelay = "web", 10*time.Second // browsers outlive a node that was killed, and have its output
	cmd.Env = append(append(os.Environ(), "CHROMIUM="+paths[1], "DOUBLET="+doublet), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s", out) // with -v, how long each test took
}
