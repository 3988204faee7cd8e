package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/probe"
	"doublet/probe/check"
	"doublet/stat"
	"doublet/store"
	"doublet/task"
)

// TestTaskCrashOpensEvent checks that the panic of a server task opens an event, and that it closes when the task has
// run for a while since.
func TestTaskCrashOpensEvent(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	stats := stat.New(f.Clock)
	events, err := probe.Open(s, f.Env, stats)
	if err != nil {
		t.Fatal(err)
	}
	tasks := task.New(f.Env, task.Plan{}, stats)
	defer func() {
		if err := errors.Join(tasks.Stop(context.Background()), s.Close()); err != nil {
			t.Error(err)
		}
	}()
	r := newReadings(&server{house: &house{env: f.Env}, running: &admin.Running{Tasks: tasks}})
	plan, err := probe.ParsePlan(check.Kinds(), probe.Settings{Run: "all"})
	if err != nil {
		t.Fatal(err)
	}
	m := probe.NewMonitor(events, plan, time.Hour,
		[]*probe.Probe{probe.Bind(&check.TaskCrash, always(r.taskCrashes()))})
	round := func() []probe.Event {
		m.Round(context.Background())
		return events.List(probe.Query{Probe: "TaskCrash"})
	}

	runs := make(chan int)
	n := 0
	tasks.Start(task.Task{Name: "Weak", Run: task.Plain(func(ctx context.Context) error {
		n++
		if n == 2 {
			panic("ouch")
		}
		runs <- n
		<-ctx.Done()
		return nil
	})})
	<-runs
	if list := round(); len(list) != 0 {
		t.Fatalf("events without a crash: %+v", list)
	}
	if err := tasks.Restart(context.Background(), "Weak"); err != nil { // the second run panics
		t.Fatal(err)
	}
	for tasks.Status()[0].State != task.StatePaused {
		time.Sleep(time.Millisecond)
	}
	f.Time.Advance(30 * time.Second) // the probe is due, and the task starts again
	if <-runs; n != 3 {
		t.Fatalf("run %d", n)
	}
	list := round()
	if len(list) != 1 || list[0].Target != "Weak" || list[0].State != probe.StateOpen ||
		list[0].Severity != probe.Failure || !strings.Contains(list[0].Cause, "ouch") {
		t.Fatalf("after a crash: %+v", list)
	}
	for range 60 {
		f.Time.Advance(30 * time.Second)
		list = round()
	}
	if list[0].State != probe.StateClosed || list[0].Count > 25 {
		t.Errorf("the task runs for half an hour: %+v", list)
	}
}

// TestStuck checks that digests wait while test mail does not arrive, and not for other failures of mail: lost journal
// entries and one full queue do not keep mail from the administrators.
func TestStuck(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	events, err := probe.Open(s, f.Env, stat.New(f.Clock))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := probe.ParsePlan(check.Kinds(), probe.Settings{Run: "all"})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{env: f.Env, system: &admin.System{Store: s, Events: events}}
	h.cfg.Probes.TestMail = "test@x.example"
	n := notices{&server{house: h}}
	round := func(p *probe.Probe) {
		probe.NewMonitor(events, plan, time.Hour, []*probe.Probe{p}).Round(context.Background())
	}
	round(probe.Bind(&check.JournalFailure, always(func() check.Journaling { return check.Journaling{Missed: 1} })))
	if list := events.List(probe.Query{State: probe.StateOpen, Severity: probe.Failure}); len(list) != 1 || n.stuck() {
		t.Errorf("a lost journal entry: %+v, stuck %v", list, n.stuck())
	}
	for _, to := range []string{"echo@far.example", "test@x.example"} {
		trips := []check.Trip{{To: to, Refused: "full"}}
		round(probe.Bind(&check.TestMail, always(func() []check.Trip { return trips })))
		if got, want := n.stuck(), to == "test@x.example"; got != want {
			t.Errorf("test mail to %s is refused: stuck %v", to, got)
		}
	}
}
