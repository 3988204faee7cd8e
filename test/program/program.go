// Package program builds the program as it is shipped and runs it for tests: demos on free ports, verbs against them.
package program

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// folder returns the folder for programs that tests of this process have built.
var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "doublet-program") })

// made reports whether folder exists.
var made atomic.Bool

// Path builds the program once for all tests of a package, as it is shipped, and returns its path.
var Path = sync.OnceValues(func() (string, error) { return Build("doublet", ".") })

// Build builds the program as it is shipped from the sources in dir, with additional environment variables, and returns
// its path. Tests that build several programs need different names.
func Build(name, dir string, environ ...string) (string, error) {
	made.Store(true)
	to, err := folder()
	if err != nil {
		return "", err
	}
	if err := readSources(); err != nil {
		return "", err
	}
	path := filepath.Join(to, name)
	build := exec.Command("go", "build", "-trimpath", "-o", path, "doublet/cmd/doublet")
	build.Dir, build.Env = dir, append(append(os.Environ(), "CGO_ENABLED=0"), environ...)
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// readSources opens every folder of the module that can hold sources. go test caches the result of a test until a file
// or folder that the test opened changes, and does not notice the files that go build opens.
func readSources() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "bin" ||
			d.Name() == "data") {
			return fs.SkipDir
		}
		return err
	})
}

// Main runs the tests of a package and removes the programs that they built. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	if made.Load() {
		if dir, err := folder(); err == nil {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// Server is a process of the program, usually a demo, that runs during its test.
type Server struct {
	T    *testing.T
	Cmd  *exec.Cmd
	Data string            // the data folder
	Port map[string]string // by door, on 127.0.0.1
	Out  *Output           // standard output and error
}

// Output collects the output of a process and can be read concurrently.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Output) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the output so far.
func (l *Output) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Doors are the doors that Demo opens.
var Doors = []string{"http", "https", "smtp", "submission", "lmtp", "imap", "imaps", "pop3", "pop3s", "sieve",
	"ldap", "ldaps"}

// givenPorts holds every port that FreePorts returned to a test of this process.
var givenPorts sync.Map

// FreePorts returns ports that are free now, each to one caller only, also of several test processes. They are below
// the ephemeral ports (from 32768 on), so that no outgoing connection takes one before a server starts, or while it is
// down.
func FreePorts(t *testing.T, n int) []string {
	t.Helper()
	const first, end = 10_000, 32_768
	var out []string
	for range 100 * n {
		number := first + rand.IntN(end-first)
		port := strconv.Itoa(number)
		if free, err := lockPort(number); err != nil {
			t.Fatal(err)
		} else if !free {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		_ = l.Close()
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		if out = append(out, port); len(out) == n {
			return out
		}
	}
	t.Fatal("no free ports")
	return nil
}

// Demo starts `doublet demo` on free ports and waits until all its doors are open. It ends with the test.
func Demo(t *testing.T) *Server {
	t.Helper()
	s := &Server{T: t, Data: filepath.Join(t.TempDir(), "data"), Port: map[string]string{}}
	for i, p := range FreePorts(t, len(Doors)) {
		s.Port[Doors[i]] = p
	}
	s.Start()
	return s
}

// Start starts the demo and waits until all its doors are open.
func (s *Server) Start() {
	s.T.Helper()
	path, err := Path()
	if err != nil {
		s.T.Fatal(err)
	}
	args := []string{"demo", "--data", s.Data}
	for _, d := range Doors {
		args = append(args, "--"+d, "127.0.0.1:"+s.Port[d])
	}
	s.Out = &Output{}
	s.Cmd = exec.Command(path, args...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Out, s.Out
	if err := s.Cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	s.Await("imap")
	s.Await("smtp")
	// The other doors open after these two; the demo prints a line when all are open.
	for deadline := time.Now().Add(60 * time.Second); !strings.Contains(s.Out.String(),
		"is running"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.T.Fatalf("it does not say that it runs:\n%s", s.Out)
		}
	}
}

// Await returns when a door greets its client.
func (s *Server) Await(door string) {
	s.T.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.Port[door], time.Second)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if door == "http" { // there the client speaks first
				_, _ = c.Write([]byte("GET /healthz HTTP/1.0\r\n\r\n"))
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			c.Close()
			if err == nil && line != "" {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.T.Fatalf("door %s did not answer:\n%s", door, s.Out)
}

// Stop sends a signal to the process and waits for its end. It does nothing when the process has ended.
func (s *Server) Stop(sig syscall.Signal) {
	if s.Cmd == nil || s.Cmd.ProcessState != nil {
		return
	}
	_ = s.Cmd.Process.Signal(sig)
	_ = s.Cmd.Wait()
}

// Run runs a program and returns its output; it fails the test if the program fails.
func Run(t *testing.T, stdin string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(stdin)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Doublet runs a verb of the program against the running server, and fails the test if the verb fails.
func (s *Server) Doublet(args ...string) string {
	s.T.Helper()
	path, err := Path()
	if err != nil {
		s.T.Fatal(err)
	}
	return Run(s.T, "", nil, path, append(args, "--data", s.Data)...)
}

// Try runs a verb of the program against the running server. The verb may fail.
func (s *Server) Try(args ...string) (string, error) {
	s.T.Helper()
	path, err := Path()
	if err != nil {
		s.T.Fatal(err)
	}
	return Command(path, append(args, "--data", s.Data)...)
}

// Want fails the test for each part that out does not contain.
func Want(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			t.Errorf("missing %q in:\n%s", p, out)
		}
	}
}

// Command runs a program that may fail, for at most a minute.
func Command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}
