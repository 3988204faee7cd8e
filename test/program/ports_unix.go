//go:build unix

package program

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// portLocks is a file with a byte for each port. A process that uses a port locks its byte until the process ends.
var portLocks = sync.OnceValues(func() (*os.File, error) {
	return os.OpenFile(filepath.Join(os.TempDir(), "doublet-test-ports"), os.O_CREATE|os.O_RDWR, 0o600)
})

// lockPort reserves a port for this process. free is false if another process has reserved it.
func lockPort(port int) (free bool, err error) {
	locks, err := portLocks()
	if err != nil {
		return false, err
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
	return syscall.FcntlFlock(locks.Fd(), syscall.F_SETLK, &lock) == nil, nil
}
