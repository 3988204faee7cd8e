// Command run runs go test and prints figures afterwards, also if a test fails: seconds, processor seconds, the slowest
// packages and tests, and the skipped tests by reason.
//
//	run [-metered] [flags of go test] packages
//
// With -metered it also measures the processor time of each package; Go then caches no results of tests. With -race it
// has to run in the root of the module.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// binary is the first argument of this program when go test runs a test binary through it (-exec).
const binary = "-binary"

func main() {
	if len(os.Args) > 2 && os.Args[1] == binary {
		os.Exit(meter(os.Args[2], os.Args[3:]))
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
	}
	os.Exit(code)
}

// run runs go test with args, reports its output, and returns its exit code.
func run(args []string) (int, error) {
	test := []string{"test", "-json"}
	if len(args) > 0 && args[0] == "-metered" {
		self, err := os.Executable()
		if err != nil {
			return 1, err
		}
		test, args = append(test, "-exec", self+" "+binary), args[1:]
	}
	if slices.Contains(args, "-race") {
		path, remove, err := withoutStacks()
		if err != nil {
			return 1, err
		}
		defer remove()
		test = append(test, "-modfile", path)
	}
	began := time.Now()
	c := exec.Command("go", append(test, args...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return 1, err
	}
	stop := forward(c)
	if err := c.Start(); err != nil {
		return 1, err
	}
	r := newReport(os.Stdout)
	if err := r.read(out); err != nil {
		return 1, fmt.Errorf("reading the output of go test: %w", err)
	}
	err = c.Wait()
	stop()
	r.figures(time.Since(began), processor(c.ProcessState))
	if c.ProcessState.ExitCode() < 0 {
		return 1, err
	}
	return c.ProcessState.ExitCode(), nil
}

// forward passes signals that would end this process to c, so that its report is still printed, until stop is called.
func forward(c *exec.Cmd) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if c.Process != nil {
					_ = c.Process.Signal(s)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// meter runs a test binary and prints, in a line of its own, its processor time and that of the programs it waited for.
// It returns the exit code of the binary.
func meter(name string, args []string) int {
	c := exec.Command(name, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	stop := forward(c) // go test sends SIGQUIT to a test that has timed out, for its stacks
	err := c.Run()
	stop()
	if c.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		return 1
	}
	fmt.Printf("%s%.2f\n", meterLine, processor(c.ProcessState).Seconds())
	if code := c.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	fmt.Println("run:", err) // ended by a signal
	return 1
}

// processor returns the processor time of a process and its children.
func processor(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }
