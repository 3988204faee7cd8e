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

// A thread that has entered a host's namespace never returns. Other processes take the first thread for the whole
// process, so the main goroutine keeps that one locked.
func init() { runtime.LockOSThread() }

// Dial connects from within the host, in this process, so that the host's loopback can be reached too.
func (h *Host) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread is never unlocked: it ends with this goroutine, so that no other goroutine runs in the host's
		// namespace.
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

// lock waits for a lock on a file in the temporary folder, shared or exclusive, and holds it until the test ends.
func lock(t testing.TB, name string, shared bool) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		t.Cleanup(func() { _ = f.Close() })
		how := syscall.LOCK_EX
		if shared {
			how = syscall.LOCK_SH
		}
		err = syscall.Flock(int(f.Fd()), how)
	}
	if err != nil {
		t.Fatal(err)
	}
}
