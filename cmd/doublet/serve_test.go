package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"doublet/test/program"
)

// lines collects a server's log. A test can wait for a text in it.
type lines struct {
	mu   sync.Mutex
	more *sync.Cond
	b    bytes.Buffer
	over bool
}

func newLines() *lines {
	l := &lines{}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.more.Broadcast()
	return l.b.Write(p)
}

// end wakes callers that wait for a line that will not come.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.more.Broadcast()
}

// await returns the log as soon as it contains text.
func (l *lines) await(t *testing.T, text string) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !strings.Contains(l.b.String(), text) {
		if l.over {
			t.Fatalf("the server ended without %q:\n%s", text, l.b.String())
		}
		l.more.Wait()
	}
	return l.b.String()
}

// door returns the address of an open door.
func (l *lines) door(t *testing.T, name string) string {
	t.Helper()
	said := l.await(t, "server started")
	m := regexp.MustCompile(`door=` + name + ` address=(\S+)`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("no door %s:\n%s", name, said)
	}
	return m[1]
}

// startServe runs `doublet serve` in its own process.
func startServe(t *testing.T, log *lines, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(binary, append(append([]string{"serve"}, args...), random...)...)
	p.Env = append(append(os.Environ(), quick...), environ...)
	out, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	go func() {
		_, _ = io.Copy(log, out)
		log.end()
	}()
	return p
}
