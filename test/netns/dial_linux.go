package netns

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A thread that went to a host never comes back. The first thread is the process to all others, so it must not be one of them:
// the main goroutine keeps it.
func init() { runtime.LockOSThread() }

// Dial connects on the host, from this process: so its loopback is reached too.
func (h *Host) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread is never given back: it ends with this goroutine, and no other finds itself on the host.
		runtime.LockOSThread()
		ns, err := os.Open(filepath.Join("/run/netns", h.Name))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- result{nil, err}
			return
		}
		c, err := net.DialTimeout(network, address, timeout)
		done <- result{c, err}
	}()
	r := <-done
	return r.conn, r.err
}

// lock waits until no other process has the file, and has it until the test ends.
func lock(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		t.Cleanup(func() { _ = f.Close() })
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
}
