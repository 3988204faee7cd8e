package e2e

import (
	"runtime"
	"syscall"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// foreign builds the program for another processor and returns the command that runs it here.
func foreign(t *testing.T) []string {
	t.Helper()
	qemu := external.Need(t, "qemu-aarch64-static")[0]
	if runtime.GOARCH == "arm64" {
		t.Skip("this machine is the other one")
	}
	path, err := program.Build("doublet-arm64", ".", "GOARCH=arm64")
	if err != nil {
		t.Fatal(err)
	}
	return []string{qemu, path}
}

// TestClusterArchitectures: a member on arm64 joins one on the processor of this machine. Mail to either is on both,
// either takes over, and each can continue with the data folder of the other.
func TestClusterArchitectures(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	arm := foreign(t)
	one := found(t, []string{"one"})[0]
	two := one.admitsWith(arm, "two")
	one.deliver("at-one")
	two.deliver("at-two")
	one.sees(curl, "at-one", "at-two")
	two.sees(curl, "at-one", "at-two")
	one.Stop(syscall.SIGKILL)
	two.deliver("without-one")
	two.sees(curl, "at-one", "at-two", "without-one")
	one.serve()
	one.sees(curl, "at-one", "at-two", "without-one")

	one.Stop(syscall.SIGTERM)
	two.Stop(syscall.SIGKILL)
	one.program, two.program = two.program, one.program
	two.serve()
	one.serve()
	two.deliver("changed-about")
	one.sees(curl, "at-one", "at-two", "without-one", "changed-about")
	two.sees(curl, "at-one", "at-two", "without-one", "changed-about")
	for _, m := range []*member{one, two} {
		m.Stop(syscall.SIGTERM)
		if out, err := program.Command(mustBinary(t), "check", "--deep", "--data", m.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
}
