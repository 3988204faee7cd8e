package task

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
)

func supervisor(t *testing.T) (*env.Fixture, *Supervisor) {
	t.Helper()
	f := env.Test(t)
	s := New(f.Env, Plan{}, stat.New(f.Clock))
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f, s
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		when Schedule
		want time.Time
	}{
		{Every(time.Minute), at.Add(time.Minute)},
		{Aligned(25 * time.Minute), at.Truncate(25 * time.Minute).Add(25 * time.Minute)},
		{Aligned(15 * time.Minute), at.Add(15 * time.Minute)},
		{Daily(13, 30), at.Add(90 * time.Minute)},
		{Daily(12, 0), at.AddDate(0, 0, 1)},
		{Daily(1, 30), at.Add(13*time.Hour + 30*time.Minute)},
	} {
		if got := c.when(at); !got.Equal(c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestScheduled(t *testing.T) {
	t.Parallel()
	f, s := supervisor(t)
	ran := make(chan time.Time)
	s.Start(Task{Name: "Tick", When: Every(time.Minute), AtStart: true, Run: Plain(func(context.Context) error {
		ran <- f.Clock.Now()
		return nil
	})})
	for i := range 3 {
		if got, want := <-ran, env.TestStart.Add(time.Duration(i)*time.Minute); !got.Equal(want) {
			t.Errorf("run %d at %s, want %s", i, got, want)
		}
		f.Time.AwaitPending(1)
		if st := s.Status()[0]; st.State != StateIdle || st.Runs != uint64(i+1) ||
			!st.NextRun.Equal(f.Clock.Now().Add(time.Minute)) {
			t.Errorf("after run %d: %+v", i, st)
		}
		f.Time.Advance(time.Minute)
	}
	<-ran // the run that the last Advance started
}

// TestFailures checks that a task that panics, fails or returns early is restarted after increasing pauses.
func TestFailures(t *testing.T) {
	t.Parallel()
	f, s := supervisor(t)
	ran := make(chan int)
	n := 0
	s.Start(Task{Name: "Weak", Run: Plain(func(ctx context.Context) error {
		n++
		ran <- n
		switch n {
		case 1:
			panic("ouch")
		case 2:
			return errors.New("no luck")
		case 3:
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})})
	pause := firstPause
	for i, want := range []string{"panic: ouch", "no luck", errReturned.Error()} {
		if got := <-ran; got != i+1 {
			t.Fatalf("run %d, want %d", got, i+1)
		}
		f.Time.AwaitPending(1)
		st := s.Status()[0]
		if !strings.Contains(st.Error, want) || st.State != StatePaused || st.Failed != uint64(i+1) {
			t.Errorf("after run %d: %+v, want the error %q", i+1, st, want)
		}
		if !st.NextRun.Equal(f.Clock.Now().Add(pause)) {
			t.Errorf("after run %d: next at %s, want a pause of %s", i+1, st.NextRun, pause)
		}
		f.Time.Advance(pause)
		pause *= 2
	}
	<-ran
	if st := s.Status()[0]; st.State != StateRunning || st.Runs != 4 {
		t.Errorf("%+v", st)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := s.Status()[0]; st.State != StateStopped || st.Failed != 3 {
		t.Errorf("after the stop: %+v", st)
	}
	if got := s.panics.Value(); got != 1 {
		t.Errorf("%d panics were counted", got)
	}
}

func TestStopTakesTooLong(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s := New(f.Env, Plan{}, nil)
	release, begun := make(chan struct{}), make(chan struct{})
	s.Start(Task{Name: "Deaf", Run: Plain(func(context.Context) error {
		close(begun)
		<-release
		return nil
	})})
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
