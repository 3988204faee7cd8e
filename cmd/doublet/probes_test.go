package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/admin"
	"doublet/probe/check"
	"doublet/test/long"
	"doublet/test/program"
)

// ofMachine are the probes that look at the machine, which may be slow or full while tests run.
var ofMachine = []string{"DiskSpace", "DiskLatency", "CPU", "Memory", "WebLatency", "DeliverTime"}

// awaitLine runs a verb until its output holds a text.
func awaitLine(t *testing.T, s *program.Server, text string, args ...string) string {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out := s.Doublet(args...)
		if strings.Contains(out, text) {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v does not show %q:\n%s", args, text, out)
		}
	}
}

// events returns the events that show events lists.
func events(t *testing.T, s *program.Server, args ...string) (list []admin.EventRow) {
	t.Helper()
	out := s.Doublet(append([]string{"show", "events", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err, out)
	}
	return list
}

// TestProbesOfTheProgram checks that a healthy demo raises no event, that a failed task raises one,
// that a threshold can change while the server runs and opens and closes an event,
// and that a restart keeps what people did to an event. That an event closes takes minutes, so it is part of the long
// tests.
func TestProbesOfTheProgram(t *testing.T) {
	t.Parallel()
	s := program.Demo(t)
	probes := awaitLine(t, s, "QueueLength", "show", "probes")
	for _, k := range check.Kinds() {
		if !strings.Contains(probes, k.Name) {
			t.Errorf("show probes has no %s", k.Name)
		}
	}
	for _, task := range []string{"Event", "Notify"} {
		program.Want(t, s.Doublet("show", "tasks"), task)
	}
	healthy := func(faults ...string) {
		t.Helper()
		for _, e := range events(t, s, "--state", "any") {
			if !slices.Contains(faults, e.Probe) && !slices.Contains(ofMachine, e.Probe) {
				t.Errorf("an event of a healthy server: %+v", e)
			}
		}
	}
	healthy()
	// Fixup refuses its arguments: the run fails.
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	program.Run(t, "", nil, path, "--data", s.Data, "task", "load", "fixup", "no-such-database")
	out := awaitLine(t, s, "TaskCrash", "show", "events", "--type", "server")
	program.Want(t, out, "Fixup", "warning-high", "open")
	list := events(t, s, "--probe", "TaskCrash")
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	id := list[0].ID
	s.Doublet("event", "assign", id, "alice")
	s.Doublet("event", "comment", id, "a typing error")
	// A threshold takes effect at once.
	settings := filepath.Join(s.Data, "doublet.toml")
	if err := os.WriteFile(settings, []byte("[probes]\nlimits = \"DiskSpace.low=100% DiskSpace.high=0\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.Doublet("config", "apply")
	awaitLine(t, s, "DiskSpace", "show", "events", "--severity", "warning-low")
	s.Stop(syscall.SIGTERM)
	s.Start()
	program.Want(t, s.Doublet("event", "show", id), "a typing error", "Alice", "console: comment")
	awaitLine(t, s, "DiskSpace", "show", "events")
	if !long.On() {
		return
	}
	// The fault goes away. The event closes minutes later, since it had opened twice.
	if err := os.WriteFile(settings, []byte("[probes]\nlimits = \"DiskSpace.low=0 DiskSpace.high=0\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.Doublet("config", "apply")
	awaitLine(t, s, "DiskSpace", "show", "events", "--state", "closed")
	healthy("TaskCrash")
}
