// Package e2e runs the built program and lets programs that nobody here wrote work against it.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is built once for all tests of the package, as it is shipped.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "doublet-e2e")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "doublet")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "doublet/cmd/doublet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// server is a running demo.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	data string
	port map[string]string
	out  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var doors = []string{"http", "https", "smtp", "submission", "lmtp", "imap", "imaps", "pop3", "pop3s"}

// givenPorts are those that some test of this process has.
var givenPorts sync.Map

// freePorts finds ports that are free now, for the caller alone. They lie below those that systems give to connections that go
// out (from 32768 on): between here and the start of a server, or while it is down, none of those takes its place.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	const first, end = 10_000, 32_768
	var out []string
	for range 100 * n {
		port := strconv.Itoa(first + rand.IntN(end-first))
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

// demo starts `doublet demo` on free ports and waits until it answers.
func demo(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, data: filepath.Join(t.TempDir(), "data"), port: map[string]string{}}
	for i, p := range freePorts(t, len(doors)) {
		s.port[doors[i]] = p
	}
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	args := []string{"demo", "--data", s.data}
	for _, d := range doors {
		args = append(args, "--"+d, "127.0.0.1:"+s.port[d])
	}
	s.out = &lockedBuffer{}
	s.cmd = exec.Command(path, args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	s.await("imap")
	s.await("smtp")
	// The others open behind these two, and the demo says when all of them have.
	for deadline := time.Now().Add(60 * time.Second); !strings.Contains(s.out.String(), "is running"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("it does not say that it runs:\n%s", s.out)
		}
	}
}

// await returns when a door greets.
func (s *server) await(door string) {
	s.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port[door], time.Second)
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
	s.t.Fatalf("door %s did not answer:\n%s", door, s.out)
}

func (s *server) stop(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait()
}

// run runs a program and returns what it printed; it fails the test if the program fails.
func run(t *testing.T, stdin string, env []string, name string, args ...string) string {
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

// doublet runs a verb of the program against the running server.
func (s *server) doublet(args ...string) string {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	return run(s.t, "", nil, path, append(args, "--data", s.data)...)
}

func want(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			t.Errorf("missing %q in:\n%s", p, out)
		}
	}
}

// command runs a program that may fail.
func command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}
