// Package libraries compares code of this project with the libraries that do the same, where ours stays: each test
// shows a reason that doc/dependencies.md names. A test that fails means that its library has changed: compare again.
// The folder is a module of its own, so that the server does not depend on what is compared.
//
//	go test -C test/peer/libraries -count=1 -v .
package libraries

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// probes holds what runs in a process of its own, since it may never end, or take all memory.
var probes = map[string]func() error{}

func TestMain(m *testing.M) {
	name := os.Getenv("PROBE")
	if name == "" {
		os.Exit(m.Run())
	}
	if err := probes[name](); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// outcome is the result of a probe.
type outcome struct {
	ended  bool // within the time
	failed bool // with an error, or a crash
	output string
	took   time.Duration
	memory int64 // the most, in MB
}

// run runs a probe, and kills it after three seconds.
func run(t *testing.T, name string, environment ...string) outcome {
	t.Helper()
	return runFor(t, 3*time.Second, name, environment...)
}

func runFor(t *testing.T, most time.Duration, name string, environment ...string) outcome {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), "PROBE="+name), environment...)
	var out limited
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(most, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	o := outcome{ended: timer.Stop(), output: string(out), took: time.Since(begun).Round(time.Millisecond)}
	var exit *exec.ExitError
	o.failed = errors.As(err, &exit)
	o.memory = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%s: ended %v, failed %v, %s, %d MB, %.300q", name, o.ended, o.failed, o.took, o.memory, o.output)
	return o
}

// limited keeps the beginning of what is written.
type limited []byte

func (l *limited) Write(p []byte) (int, error) {
	*l = append(*l, p[:min(len(p), 1000-len(*l))]...)
	return len(p), nil
}
