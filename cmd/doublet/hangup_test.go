package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"doublet/test/external"
)

// TestUntilHangup runs itself in two processes: one ends its work when the terminal is closed, and one that was started
// by nohup does not.
func TestUntilHangup(t *testing.T) {
	t.Parallel()
	const child = "DOUBLET_TEST_HANGUP"
	if os.Getenv(child) == "" {
		external.Need(t, "nohup")
		for _, command := range [][]string{{os.Args[0]}, {"nohup", os.Args[0]}} {
			cmd := exec.Command(command[0], append(command[1:], "-test.run=^TestUntilHangup$")...)
			cmd.Env = append(os.Environ(), child+"=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v %s", command[0], err, out)
			}
		}
		return
	}
	stays := signal.Ignored(syscall.SIGHUP)
	ctx, stop := untilHangup(t.Context())
	defer stop()
	if signal.Ignored(syscall.SIGHUP) != stays {
		t.Fatalf("SIGHUP ignored: %v", !stays)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !stays {
		<-ctx.Done()
	} else if ctx.Err() != nil {
		t.Error(ctx.Err())
	}
}
