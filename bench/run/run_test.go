package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/workload"
	"doublet/env"
)

// script is a workload of one action a second.
const script = `
name = "tick"
title = "one poll in each second"
protocol = "imap"
loop = "1s"
stagger = "0s..1s"
[[action]]
do = "poll"
`

// fake is a server with known delays.
type fake struct {
	mu    sync.Mutex
	calls int
	// delay returns the duration of call n; err returns its error.
	delay func(n int) time.Duration
	err   func(n int) error
	opens int
	// close is the duration of signing out; nil means none.
	close func() time.Duration
}

func (f *fake) open(context.Context, *drive.User) (drive.Session, drive.Traffic, error) {
	f.mu.Lock()
	f.opens++
	f.mu.Unlock()
	return &session{f}, drive.Traffic{}, nil
}

type session struct{ f *fake }

func (s *session) Do(context.Context, *workload.Planned) (drive.Traffic, error) {
	s.f.mu.Lock()
	n := s.f.calls
	s.f.calls++
	s.f.mu.Unlock()
	time.Sleep(s.f.delay(n))
	if s.f.err != nil {
		return drive.Traffic{}, s.f.err(n)
	}
	return drive.Traffic{Received: 5}, nil
}

func (s *session) Close() error {
	if s.f.close != nil {
		time.Sleep(s.f.close())
	}
	return nil
}

// simulate runs a plan in simulated time and reads its file.
func simulate(t *testing.T, f *fake, change func(*Plan)) (run *record.Run) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := workload.Parse("tick", []byte(script))
		if err != nil {
			t.Fatal(err)
		}
		users := make([]drive.User, 100)
		for i := range users {
			users[i].Index = i
		}
		p := &Plan{
			Env: env.Real(slog.New(slog.NewTextHandler(io.Discard, nil))), Workload: w, Protocol: "imap", Seed: 1,
			Users: users, Open: f.open,
			Steps: []int{10}, Interval: 10 * time.Second, Window: 5 * time.Minute, LoginRate: 6000,
			MaxFailed: 0.01,
		}
		ctx := context.Background()
		if change != nil {
			change(p)
		}
		var file bytes.Buffer
		out := record.NewWriter(&file, record.Header{ID: "x"})
		if err := p.Run(ctx, out); err != nil {
			t.Fatal(err)
		}
		if run, err = record.Read(&file); err != nil {
			t.Fatal(err)
		}
	})
	return run
}

func TestKnownDelays(t *testing.T) {
	t.Parallel()
	// One call in ten takes 200 ms, the others 10 ms: far less than a user's interval of one second.
	f := &fake{delay: func(n int) time.Duration {
		if n%10 == 9 {
			return 200 * time.Millisecond
		}
		return 10 * time.Millisecond
	}}
	run := simulate(t, f, nil)
	all := run.Total(0, "poll")
	if n := all.Latency.Count(); n < 2990 || n > 3010 {
		t.Errorf("%d actions of 10 users in 300 s", n)
	}
	for p, want := range map[float64]time.Duration{50: 10 * time.Millisecond, 89: 10 * time.Millisecond,
		91: 200 * time.Millisecond, 99: 200 * time.Millisecond} {
		if got := all.Latency.Percentile(p); (got - want).Abs() > want/100 {
			t.Errorf("p%v is %v, want %v", p, got, want)
		}
	}
	if s := run.Steps[0]; s.Outcome != record.Measured || s.Users != 10 || s.Registered != 100 ||
		run.End.Reason != "done" {
		t.Errorf("%+v %+v", s, run.End)
	}
	if tpm := run.TPM(&run.Steps[0]); tpm < 598 || tpm > 602 {
		t.Errorf("TPM %v", tpm)
	}
}

// TestStalledServer checks for coordinated omission. The server stalls for a minute; a driver that waits for its
// answers would see ten slow actions. Here every action that a user wanted meanwhile must be slow or missed.
func TestStalledServer(t *testing.T) {
	t.Parallel()
	stall := time.Time{}
	var mu sync.Mutex
	f := &fake{delay: func(n int) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if n == 1000 {
			stall = time.Now().Add(time.Minute)
		}
		if d := time.Until(stall); d > 0 {
			return d
		}
		return time.Millisecond
	}}
	run := simulate(t, f, nil)
	all := run.Total(0, "poll")
	wanted := all.Latency.Count() + int64(all.Missed)
	if wanted < 2990 || wanted > 3010 {
		t.Errorf("%d actions were wanted, %d of them missed", wanted, all.Missed)
	}
	// 59 actions of each user could not begin in time.
	if all.Missed < 570 || all.Missed > 610 {
		t.Errorf("%d missed in a minute's stall of 10 users", all.Missed)
	}
	if m := all.Latency.Max(); m < 59*time.Second || m > 62*time.Second {
		t.Errorf("the longest took %v", m)
	}
}

// TestStallAtTheEnd checks that a stall that reaches the end of the window counts: the actions that users wanted in it
// have no answer by then.
func TestStallAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, stall := range []time.Duration{4100 * time.Millisecond, time.Minute} {
		var from atomic.Int64
		f := &fake{delay: func(int) time.Duration {
			if at := from.Load(); at != 0 && time.Now().UnixNano() >= at {
				return time.Hour
			}
			return time.Millisecond
		}}
		run := simulate(t, f, func(p *Plan) {
			p.During = func(ctx context.Context, _ func(mark, text string)) {
				from.Store(time.Now().Add(p.Window - stall).UnixNano())
				<-ctx.Done()
			}
		})
		all := run.Total(0, "poll")
		if wanted := all.Latency.Count() + int64(all.Missed); wanted < 2990 || wanted > 3010 {
			t.Errorf("stall of %v: %d actions were wanted", stall, wanted)
		}
		if m := all.Latency.Max(); m < stall-2*time.Second || m > stall {
			t.Errorf("stall of %v: the longest is %v", stall, m)
		}
		if late := int(all.Missed + all.Pending); late < 10*int(stall.Seconds())-15 || all.Pending < 10 {
			t.Errorf("stall of %v: %d missed, %d pending", stall, all.Missed, all.Pending)
		}
		if want := float64(all.Completed()) / 5; run.TPM(&run.Steps[0]) != want {
			t.Errorf("stall of %v: TPM %v, want %v: pending actions count as completed", stall,
				run.TPM(&run.Steps[0]), want)
		}
	}
}

// TestHangingSignOut checks that what a user wants while his signing out hangs counts: a server that dies takes the
// answer to LOGOUT with it.
func TestHangingSignOut(t *testing.T) {
	t.Parallel()
	var from atomic.Int64
	f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
	f.close = func() time.Duration {
		if at := from.Load(); at != 0 && time.Now().UnixNano() >= at {
			return time.Hour
		}
		return 0
	}
	run := simulate(t, f, func(p *Plan) {
		p.Workload.Session = "loop"
		p.During = func(ctx context.Context, _ func(mark, text string)) {
			from.Store(time.Now().Add(p.Window - time.Minute).UnixNano())
			<-ctx.Done()
		}
	})
	all := run.Total(0, "poll")
	if wanted := all.Latency.Count() + int64(all.Missed); wanted < 2990 || wanted > 3010 {
		t.Errorf("%d actions were wanted", wanted)
	}
	if s := run.Steps[0]; all.Missed < 570 || s.Outcome != record.Discarded {
		t.Errorf("%d missed in the last minute, and the step is %s", all.Missed, s.Outcome)
	}
}

// TestFailuresDiscard checks that a step with too many failures or missed actions is not compared.
func TestFailuresDiscard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every int
		want  record.Outcome
	}{{200, record.Measured}, {50, record.Discarded}} {
		f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
		f.err = func(n int) error {
			if n%c.every == 0 {
				return &drive.Refusal{Text: "NO later"}
			}
			return nil
		}
		if s := simulate(t, f, nil).Steps[0]; s.Outcome != c.want {
			t.Errorf("one failure in %d actions: %s %s", c.every, s.Outcome, s.Reason)
		}
	}
}

// TestLostSession checks that a user who cannot sign in again causes one error for each attempt, the server's, and that
// what he wanted meanwhile is missed.
func TestLostSession(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
	f.err = func(int) error {
		if down.Load() {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	run := simulate(t, f, func(p *Plan) {
		p.Open = func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
			if down.Load() {
				return nil, drive.Traffic{}, &drive.Refusal{Text: "NO [UNAVAILABLE]"}
			}
			return f.open(ctx, u)
		}
		p.During = func(ctx context.Context, _ func(mark, text string)) {
			time.Sleep(100 * time.Second)
			down.Store(true)
			time.Sleep(100 * time.Second)
			down.Store(false)
			<-ctx.Done()
		}
	})
	all, login := run.Total(0, "poll"), run.Total(0, "login")
	if n := all.Errors["connection closed by the server"]; len(all.Errors) != 1 || n != 10 {
		t.Errorf("errors of the action: %v", all.Errors)
	}
	if n := login.Errors["NO [UNAVAILABLE]"]; n < 970 || uint64(n) != all.Missed {
		t.Errorf("%d sign-ins failed, %d actions were missed", n, all.Missed)
	}
	if n := all.Latency.Count(); n < 1970 || n > 2030 {
		t.Errorf("%d succeeded", n)
	}
}

// TestSteady checks which intervals are steady.
func TestSteady(t *testing.T) {
	t.Parallel()
	type load struct {
		n      int
		median time.Duration
		spread time.Duration
		wanted int64
	}
	for name, c := range map[string]struct {
		loads []load
		want  bool
	}{
		"equal":                   {[]load{{1000, 20e6, 1e6, 0}, {1010, 20e6, 1e6, 0}, {990, 20e6, 1e6, 0}}, true},
		"too few":                 {[]load{{1000, 20e6, 1e6, 0}, {1010, 20e6, 1e6, 0}}, false},
		"a rising rate":           {[]load{{1000, 20e6, 1e6, 0}, {1500, 20e6, 1e6, 0}, {2000, 20e6, 1e6, 0}}, false},
		"few in bursts":           {[]load{{300, 20e6, 1e6, 310}, {400, 20e6, 1e6, 405}, {200, 20e6, 1e6, 196}}, true},
		"a backlog that grows":    {[]load{{300, 20e6, 1e6, 500}, {400, 20e6, 1e6, 500}, {200, 20e6, 1e6, 500}}, false},
		"a rising median":         {[]load{{1000, 20e6, 1e6, 0}, {1000, 25e6, 1e6, 0}, {1000, 30e6, 1e6, 0}}, false},
		"people who only wait":    {[]load{{0, 0, 0, 0}, {2, 5e6, 0, 0}, {0, 0, 0, 0}}, true},
		"nobody does anything":    {[]load{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}, true},
		"few with a wide spread":  {[]load{{12, 20e6, 30e6, 0}, {10, 28e6, 30e6, 0}, {9, 24e6, 30e6, 0}}, true},
		"many with a wide spread": {[]load{{9000, 20e6, 30e6, 0}, {9000, 28e6, 30e6, 0}, {9000, 24e6, 30e6, 0}}, false},
	} {
		var s steadiness
		got := false
		for _, l := range c.loads {
			var h record.Histogram
			for i := range l.n {
				h.Add(l.median + time.Duration(float64(l.spread)*(float64(i)+0.5-float64(l.n)/2)/float64(l.n)))
			}
			got = s.add(&h, int64(l.n), l.wanted)
		}
		if got != c.want {
			t.Errorf("%s: steady is %v", name, got)
		}
	}
}

// TestLateActionsCountFromTheIntendedTime uses a server that is slower than the users' pace.
func TestLateActionsCountFromTheIntendedTime(t *testing.T) {
	t.Parallel()
	f := &fake{delay: func(int) time.Duration { return 1500 * time.Millisecond }}
	run := simulate(t, f, nil)
	all := run.Total(0, "poll")
	if all.Service.Percentile(50).Round(10*time.Millisecond) != 1500*time.Millisecond {
		t.Errorf("service time %v", all.Service.Percentile(50))
	}
	if all.Latency.Mean() <= all.Service.Mean() || all.Missed == 0 {
		t.Errorf("latency %v, service %v, %d missed: the delay of earlier ones is hidden", all.Latency.Mean(),
			all.Service.Mean(), all.Missed)
	}
	if s := run.Steps[0]; s.Outcome != record.Discarded || !strings.Contains(s.Reason, "over 1s") {
		t.Errorf("a step with an average over a second: %+v", s)
	}
}

func TestErrorsAreCountedAndTheRunGoesOn(t *testing.T) {
	t.Parallel()
	f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
	f.err = func(n int) error {
		switch n % 10 {
		case 3:
			return &drive.Refusal{Text: "NO [UNAVAILABLE] later"}
		case 7:
			return io.ErrUnexpectedEOF
		case 9:
			return drive.ErrNothing
		}
		return nil
	}
	run := simulate(t, f, nil)
	all := run.Total(0, "poll")
	if n := all.Errors["NO [UNAVAILABLE] later"]; n < 290 || n > 310 {
		t.Errorf("%d refusals", n)
	}
	if n := all.Errors["connection closed by the server"]; n < 290 || n > 310 {
		t.Errorf("%d lost connections", n)
	}
	if n := all.Latency.Count(); n < 2090 || n > 2110 {
		t.Errorf("%d succeeded; what there was nothing to do with is no action", n)
	}
	if all.Nothing < 290 || all.Nothing > 310 {
		t.Errorf("%d times nothing to do", all.Nothing)
	}
	if f.opens < 300 {
		t.Errorf("signed in %d times: a lost connection is opened anew", f.opens)
	}
}

// TestShutOut checks that a user who cannot sign in until the end of the measurement counts as a failed failover, and
// that a user who only ends does not.
func TestShutOut(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{true, false} {
		var down atomic.Bool
		f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
		f.err = func(int) error {
			if down.Load() {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		run := simulate(t, f, func(p *Plan) {
			p.Failover, p.Window = true, time.Minute
			p.Open = func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
				if down.Load() {
					return nil, drive.Traffic{}, io.ErrUnexpectedEOF
				}
				return f.open(ctx, u)
			}
			p.During = func(ctx context.Context, _ func(mark, text string)) {
				time.Sleep(40 * time.Second)
				down.Store(dies)
				<-ctx.Done()
			}
		})
		want := uint64(0)
		if dies {
			want = 10
		}
		if got := run.Total(0, Failover); got.Errors[notLetIn] != want || got.Failed != want ||
			got.Latency.Count() != 0 {
			t.Errorf("a server that dies (%v): %d people were shut out, want %d: %+v", dies, got.Failed, want,
				got.Errors)
		}
	}
}

func TestInterruptedKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
	synctest.Test(t, func(t *testing.T) {
		w, _ := workload.Parse("tick", []byte(script))
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		p := &Plan{Env: env.Real(slog.New(slog.NewTextHandler(io.Discard, nil))), Workload: w, Protocol: "imap",
			Users: make([]drive.User, 5), Open: f.open, Steps: []int{5, 5}, Window: time.Hour, LoginRate: 6000}
		var file bytes.Buffer
		if err := p.Run(ctx, record.NewWriter(&file, record.Header{ID: "x"})); err != nil {
			t.Fatal(err)
		}
		run, err := record.Read(&file)
		if err != nil || run.End == nil || run.End.Reason != "interrupted" || len(run.Steps) != 1 ||
			run.Steps[0].Outcome != record.Interrupted {
			t.Fatalf("%v %+v %+v", err, run.End, run.Steps)
		}
		if all := run.Total(0, "poll"); all.Latency.Count() < 300 {
			t.Error("what was measured is lost")
		}
	})
}

func TestStepsAreFreshAndUsersFew(t *testing.T) {
	t.Parallel()
	var made []int
	f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
	run := simulate(t, f, func(p *Plan) {
		p.Steps, p.Window = []int{5, 10, 20}, time.Minute
		p.Fresh = func(_ context.Context, users []drive.User) error { made = append(made, len(users)); return nil }
	})
	if !slices.Equal(made, []int{5, 10, 20}) || len(run.Steps) != 3 {
		t.Errorf("made fresh for %v", made)
	}
	for i, s := range run.Steps {
		want := float64(60 * s.Users)
		if tpm := run.TPM(&run.Steps[i]); tpm < want*0.95 || tpm > want*1.05 {
			t.Errorf("step %d of %d users: TPM %v", i, s.Users, tpm)
		}
	}
}

func TestDriverBound(t *testing.T) {
	t.Parallel()
	f := &fake{delay: func(int) time.Duration { return time.Millisecond }}
	run := simulate(t, f, func(p *Plan) {
		p.Cores = 2
		p.Self = func() map[string]float64 { return map[string]float64{"cpu": 1.9} }
	})
	if s := run.Steps[0]; s.Outcome != record.DriverBound {
		t.Errorf("%+v", s)
	}
}

func TestKind(t *testing.T) {
	t.Parallel()
	if k := drive.Kind(errors.New("x")); k != "connection lost" {
		t.Error(k)
	}
}
