package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/admin"
	"doublet/env"
)

// steps is a task whose runs report their arguments and wait for their result.
type steps struct {
	begun chan []string
	end   chan error
}

func newSteps() *steps { return &steps{make(chan []string), make(chan error)} }

func (s *steps) run(ctx context.Context, r *Run) error {
	r.Report("working")
	s.begun <- r.Args
	select {
	case err := <-s.end:
		r.Report("done")
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await returns the status of the first task when it has a state. The state changes on the task's own goroutine.
func await(t *testing.T, s *Supervisor, state string) admin.Task {
	t.Helper()
	for by := time.Now().Add(time.Minute); time.Now().Before(by); {
		if st := s.Status()[0]; st.State == state {
			return st
		}
	}
	t.Fatalf("the task is %+v and not %s", s.Status()[0], state)
	return admin.Task{}
}

// TestLoad checks that a scheduled task runs when it is loaded, with its arguments, that a failed run of that kind is
// not repeated, and that the schedule goes on.
func TestLoad(t *testing.T) {
	t.Parallel()
	f, s := supervisor(t)
	x := newSteps()
	s.Start(Task{Name: "Compact", When: Every(time.Hour), Run: x.run})
	f.Time.AwaitPending(1)
	if err := s.Load("compact", []string{"ada", "--share", "20"}); err != nil {
		t.Fatal(err)
	}
	if args := <-x.begun; !slices.Equal(args, []string{"ada", "--share", "20"}) {
		t.Errorf("arguments %q", args)
	}
	st := await(t, s, StateRunning)
	if st.Progress != "working" || !st.Since.Equal(f.Clock.Now()) {
		t.Errorf("%+v", st)
	}
	if err := s.Load("Compact", nil); !errors.Is(err, admin.ErrTaskRuns) {
		t.Errorf("a second run: %v", err)
	}
	x.end <- errors.New("no such database")
	f.Time.AwaitPending(1)
	st = await(t, s, StateIdle)
	if !st.NextRun.Equal(f.Clock.Now().Add(time.Hour)) || st.Error != "no such database" || st.Failed != 1 {
		t.Errorf("%+v", st)
	}
	f.Time.Advance(time.Hour)
	if args := <-x.begun; args != nil {
		t.Errorf("a run of the schedule has the arguments %q", args)
	}
	x.end <- nil
	if st = await(t, s, StateIdle); st.Error != "" || st.Progress != "done" || st.Runs != 2 {
		t.Errorf("%+v", st)
	}
	if err := s.Load("amgr", nil); !errors.Is(err, admin.ErrNoTask) || !strings.Contains(err.Error(), "Compact") {
		t.Errorf("an unknown task: %v", err)
	}
}

// TestHeavyFailures checks that a scheduled task that fails late pauses for as long as it ran, then twice as long, and
// no longer than to its next planned time; and that it does not run at once if that time passed during the run.
func TestHeavyFailures(t *testing.T) {
	t.Parallel()
	f, s := supervisor(t)
	x := newSteps()
	s.Start(Task{Name: "UpdAll", When: Aligned(24 * time.Hour), Run: x.run})
	next := env.TestStart.Truncate(24 * time.Hour).Add(24 * time.Hour)
	day := next.Add(24 * time.Hour)
	wait := func(want time.Duration) {
		t.Helper()
		f.Time.AwaitPending(1)
		if next = s.Status()[0].NextRun; next.Sub(f.Clock.Now()) != want {
			t.Fatalf("the next run is at %s, in %s, want %s", next, next.Sub(f.Clock.Now()), want)
		}
	}
	f.Time.AwaitPending(1)
	for _, c := range []struct{ took, pause time.Duration }{
		{time.Second / 2, time.Second},
		{time.Second / 2, 2 * time.Second},
		{10 * time.Minute, 10 * time.Minute},
		{10 * time.Minute, 20 * time.Minute},
		{3 * time.Hour, 3 * time.Hour},
		{3 * time.Hour, 6 * time.Hour},
	} {
		f.Time.Advance(next.Sub(f.Clock.Now()))
		<-x.begun
		f.Time.Advance(c.took)
		x.end <- errors.New("a damaged view")
		wait(c.pause)
	}
	f.Time.Advance(next.Sub(f.Clock.Now()))
	<-x.begun
	f.Time.Advance(3 * time.Hour)
	x.end <- errors.New("a damaged view")
	wait(day.Sub(f.Clock.Now())) // not 12 hours: the next day is planned
	f.Time.Advance(next.Sub(f.Clock.Now()))
	<-x.begun
	f.Time.Advance(25 * time.Hour)
	x.end <- errors.New("a damaged view")
	wait(23 * time.Hour)
}

// TestQuit checks that a task that has quit runs again only when it is loaded.
func TestQuit(t *testing.T) {
	t.Parallel()
	f, s := supervisor(t)
	x := newSteps()
	s.Start(Task{Name: "Router", Run: x.run})
	<-x.begun
	ctx := context.Background()
	if err := s.Quit(ctx, "router"); err != nil {
		t.Fatal(err)
	}
	if st := s.Status()[0]; st.State != StateStopped || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
	f.Time.Advance(24 * time.Hour)
	if err := errors.Join(s.Quit(ctx, "router"), s.Load("router", nil)); err != nil {
		t.Fatal(err)
	}
	<-x.begun
	if err := s.Restart(ctx, "router"); err != nil {
		t.Fatal(err)
	}
	<-x.begun
	if st := s.Status()[0]; st.State != StateRunning || st.Runs != 3 {
		t.Errorf("%+v", st)
	}
}

// TestQuitDeaf checks that the wait for a task that does not stop is bounded, and that it can be loaded when it has
// stopped after all.
func TestQuitDeaf(t *testing.T) {
	t.Parallel()
	_, s := supervisor(t)
	release, begun := make(chan struct{}), make(chan struct{}, 2)
	s.Start(Task{Name: "Deaf", Run: Plain(func(context.Context) error {
		begun <- struct{}{}
		<-release
		return nil
	})})
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Quit(ctx, "deaf"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := s.Load("deaf", nil); !errors.Is(err, admin.ErrTaskRuns) {
		t.Errorf("%v", err)
	}
	close(release)
	await(t, s, StateStopped)
	if err := errors.Join(s.Quit(context.Background(), "deaf"), s.Load("deaf", nil)); err != nil {
		t.Error(err)
	}
	<-begun
}

// TestCrash checks that a panic is counted for its task and stops no other one.
func TestCrash(t *testing.T) {
	t.Parallel()
	f, s := supervisor(t)
	crashed := make(chan struct{}, 1)
	s.Start(Task{Name: "Weak", Run: Plain(func(context.Context) error {
		defer func() { crashed <- struct{}{} }()
		panic("ouch")
	})})
	x := newSteps()
	s.Start(Task{Name: "Strong", Run: x.run})
	<-x.begun
	<-crashed
	st := await(t, s, StatePaused)
	if st.Crashes != 1 || st.Failed != 1 {
		t.Errorf("%+v", st)
	}
	if e := s.stats.Snapshot("Server.Tasks.Weak.Panics"); len(e) != 1 || e[0].Value != 1 {
		t.Errorf("%+v", e)
	}
	if st := s.Status()[1]; st.State != StateRunning {
		t.Errorf("%+v", st)
	}
	f.Time.AwaitPending(1)
	if err := s.Load("weak", nil); err != nil { // an administrator need not wait for the pause
		t.Error(err)
	}
	<-crashed
}

// TestPlan checks that the settings decide which tasks run and when, also while they run.
func TestPlan(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	parse := func(run, at string) Plan {
		t.Helper()
		p, err := ParsePlan(run, at)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s := New(f.Env, parse("all -Catalog", "purge=never sched=never"), nil)
	defer func() { _ = s.Stop(context.Background()) }()
	idle := Plain(func(context.Context) error { return nil })
	for _, name := range []string{"Catalog", "Purge", "UpdAll"} {
		s.Start(Task{Name: name, When: Daily(2, 0), Run: idle})
	}
	s.Start(Task{Name: "Sched", When: Daily(2, 0), AtStart: true, Run: Plain(func(context.Context) error {
		t.Error("a task that never runs has run at the start")
		return nil
	})})
	f.Time.AwaitPending(1) // UpdAll
	status := func(want ...string) {
		t.Helper()
		for by := time.Now().Add(time.Minute); ; {
			var got []string
			for _, st := range s.Status() {
				text := st.Name + " " + st.State
				if !st.NextRun.IsZero() {
					text += st.NextRun.Format(" 15:04")
				}
				got = append(got, text)
			}
			if slices.Equal(got, want) {
				return
			}
			if time.Now().After(by) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	status("Catalog stopped", "Purge idle", "UpdAll idle 02:00", "Sched idle")
	if err := s.Replan(context.Background(), parse("Catalog Purge", "Purge=23:30,01:15")); err != nil {
		t.Fatal(err)
	}
	now := f.Clock.Now()
	purge := firstOf([]Schedule{Daily(23, 30), Daily(1, 15)})(now)
	status("Catalog idle 02:00", "Purge idle"+purge.Format(" 15:04"), "UpdAll stopped", "Sched stopped")
	if unknown := parse("all -Amgr", "Statlog=01:00 purge=02:00").Unknown([]string{"Purge"}); !slices.Equal(unknown,
		[]string{"amgr", "statlog"}) {
		t.Errorf("%q", unknown)
	}
}

func TestPlanMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"", ""}, {"-", ""}, {"-Router", ""}, {"all", "Purge"}, {"all", "=01:00"},
		{"all", "Purge=25:00"}, {"all", "Purge=10ms"}, {"all", "Purge=01:00 purge=02:00"}, {"all", "Purge=01:00,"}} {
		if _, err := ParsePlan(c[0], c[1]); err == nil {
			t.Errorf("run %q at %q was accepted", c[0], c[1])
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add("all -Catalog", "Purge=01:30 Collect=15m Compact=never")
	f.Add("Router,Replica", "UpdAll=02:00,14:00")
	f.Fuzz(func(t *testing.T, run, at string) {
		p, err := ParsePlan(run, at)
		if err != nil {
			return
		}
		start := env.TestStart
		for name, w := range p.at {
			if next := w.next(start); !next.IsZero() && !next.After(start) {
				t.Errorf("%s runs at %s, which is not after %s", name, next, start)
			}
		}
	})
}
