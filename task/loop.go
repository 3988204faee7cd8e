package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"doublet/admin"
	"doublet/stat"
	"doublet/stat/cpu"
)

// running is a task of a supervisor. The supervisor's mu guards the fields from status on; cancel and done change only
// under its switching.
type running struct {
	Task
	sup     *Supervisor
	crashes *stat.Counter
	wake    chan struct{} // has room for one signal: asked or when has changed

	cancel context.CancelFunc // ends the loop
	done   chan struct{}      // closed when the loop has ended; nil if it has never run

	status    admin.Task
	when      Schedule
	replanned bool     // when has changed since the loop looked at it
	asked     *request // a load that waits for its run
}

// request is a load of a task that is loaded already.
type request struct{ args []string }

// loaded reports whether the task's loop runs. The caller holds switching.
func (r *running) loaded() bool {
	select {
	case <-r.done:
		return false
	default:
		return r.done != nil
	}
}

// start starts the loop. With args that are not nil, even if there are none, the task runs at once. The caller holds
// switching.
func (r *running) start(args []string) {
	ctx, cancel := context.WithCancel(r.sup.ctx)
	r.cancel, r.done = cancel, make(chan struct{})
	r.sup.mu.Lock()
	r.asked = nil
	if args != nil {
		r.ask(args)
	}
	r.sup.mu.Unlock()
	r.sup.wg.Add(1)
	done := r.done
	r.sup.env.Go("task "+r.Name, func() {
		defer r.sup.wg.Done()
		defer close(done)
		cpu.Label(r.Name)
		r.loop(ctx)
	})
}

// quit ends the loop and waits for it. The caller holds switching.
func (r *running) quit(ctx context.Context) error {
	if !r.loaded() {
		return nil
	}
	r.cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("task %s is still stopping: %w", r.Name, ctx.Err())
	}
}

// ask records a request. The caller holds the supervisor's mu.
func (r *running) ask(args []string) { r.asked = &request{args} }

// signal makes the loop look at asked and when.
func (r *running) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *running) set(fn func(*admin.Task)) {
	r.sup.mu.Lock()
	defer r.sup.mu.Unlock()
	fn(&r.status)
}

func (r *running) state(state string, next time.Time) {
	now := r.sup.env.Clock.Now().UTC()
	r.set(func(t *admin.Task) {
		if t.State != state {
			t.Since = now
		}
		t.State, t.NextRun = state, next
	})
}

// due returns the next time of the schedule, the zero time for none.
func (r *running) due(after time.Time) time.Time {
	r.sup.mu.Lock()
	when := r.when
	r.sup.mu.Unlock()
	return when(after)
}

func (r *running) loop(ctx context.Context) {
	defer r.state(StateStopped, time.Time{})
	now := r.sup.env.Clock.Now
	next := now()
	if r.When != nil {
		if due := r.due(next); !r.AtStart || due.IsZero() { // never: only when it is loaded
			next = due
		}
	}
	state, pause := StateIdle, time.Duration(0)
	for {
		run, ok := r.wait(ctx, next, state)
		if !ok {
			return
		}
		begun := now()
		err := r.once(ctx, run, begun)
		switch {
		case ctx.Err() != nil:
			return
		case r.When != nil && (err == nil || run.Args != nil):
			// A failed run with arguments is not repeated: its administrator decides.
			state, pause, next = StateIdle, 0, r.due(now())
			continue
		}
		ended := now()
		pause = r.pauseAfter(pause, ended.Sub(begun))
		state, next = StatePaused, ended.Add(pause)
		if r.When != nil {
			if due := r.due(ended); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
	}
}

// pauseAfter returns the pause after a failed run. last is the pause after the run before it, 0 if that one succeeded.
// A scheduled run may be heavy and fail late, again and again, so the pause is never shorter than the run was, and
// grows without a limit: the next planned time ends it. A continuous task has no planned time; after a long run its
// pause begins anew.
func (r *running) pauseAfter(last, took time.Duration) time.Duration {
	switch {
	case r.When != nil:
		return max(firstPause, 2*last, took)
	case took > maxPause:
		return firstPause
	}
	return min(max(firstPause, 2*last), maxPause)
}

// wait returns the run to make at a time, never if it is zero, or earlier if a load asks for it. It returns false if
// ctx ends first.
func (r *running) wait(ctx context.Context, until time.Time, state string) (*Run, bool) {
	for {
		r.sup.mu.Lock()
		asked := r.asked
		changed := r.replanned && r.When != nil
		r.asked, r.replanned = nil, false
		r.sup.mu.Unlock()
		if asked != nil {
			return &Run{Args: asked.args, task: r}, ctx.Err() == nil
		}
		now := r.sup.env.Clock.Now()
		if changed {
			until = r.due(now)
		}
		r.state(state, until.UTC())
		if !until.IsZero() && !until.After(now) {
			return &Run{task: r}, ctx.Err() == nil
		}
		timer, stop := r.timer(until, now)
		select {
		case <-timer:
			return &Run{task: r}, ctx.Err() == nil
		case <-r.wake:
			stop()
		case <-ctx.Done():
			stop()
			return nil, false
		}
	}
}

// timer returns a channel that receives at a time, never if it is zero, unless stop is called first.
func (r *running) timer(until, now time.Time) (fired <-chan struct{}, stop func() bool) {
	if until.IsZero() {
		return nil, func() bool { return true }
	}
	c := make(chan struct{}, 1)
	return c, r.sup.env.Clock.AfterFunc(until.Sub(now), func() { c <- struct{}{} })
}

var errReturned = errors.New("it ended by itself")

// once runs the task once. It turns a panic into an error, so that it does not stop the server.
func (r *running) once(ctx context.Context, run *Run, begun time.Time) (err error) {
	r.state(StateRunning, time.Time{})
	r.set(func(t *admin.Task) {
		t.LastRun, t.Progress = begun.UTC(), ""
		t.Runs++
	})
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			r.sup.panics.Inc()
			r.crashes.Inc()
			r.set(func(t *admin.Task) { t.Crashes++ })
			r.sup.env.Log.Error("server task panicked", "task", r.Name, "panic", p, "stack", string(debug.Stack()))
		}
		stopping := ctx.Err() != nil
		if err == nil && r.When == nil && !stopping {
			err = errReturned
		}
		r.ended(r.sup.env.Clock.Now().Sub(begun), err, stopping)
	}()
	return r.Run(ctx, run)
}

// ended records the end of a run. A run that fails while it is stopped has not failed.
func (r *running) ended(took time.Duration, err error, stopping bool) {
	r.set(func(t *admin.Task) {
		t.Took = took.Round(time.Millisecond).String()
		if err != nil && !stopping {
			t.Failed++
			t.Error = err.Error()
		} else if err == nil {
			t.Error = ""
		}
	})
	if err != nil && !stopping {
		r.sup.failed.Inc()
		r.sup.env.Log.LogAttrs(r.sup.ctx, slog.LevelError, "server task failed", slog.String("task", r.Name),
			slog.String("error", err.Error()))
	}
}
