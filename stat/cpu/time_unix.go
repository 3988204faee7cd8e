//go:build unix

package cpu

import (
	"syscall"
	"time"
)

// ProcessTime returns the processor time of this process, that of the system's calls included.
func ProcessTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
