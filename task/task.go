// Package task runs the server tasks on their schedules, and restarts them after failures. A task's work is a function.
package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/stat"
)

// Schedule returns the next time to run after a time.
type Schedule func(after time.Time) time.Time

// Every schedules each run d after the previous one has ended.
func Every(d time.Duration) Schedule {
	return func(after time.Time) time.Time { return after.Add(d) }
}

// Daily schedules one run a day at a time of day, in the clock's time zone.
func Daily(hour, minute int) Schedule {
	return func(after time.Time) time.Time {
		next := time.Date(after.Year(), after.Month(), after.Day(), hour, minute, 0, 0, after.Location())
		if !next.After(after) {
			next = time.Date(after.Year(), after.Month(), after.Day()+1, hour, minute, 0, 0, after.Location())
		}
		return next
	}
}

// Task describes one server task.
type Task struct {
	// Name is the task's name, Domino's if Domino has the task: Router, Update, Collect.
	Name string
	// When is the schedule. If nil, the task runs continuously: Run should return only when ctx ends, and is restarted
	// if it returns earlier.
	When Schedule
	// AtStart makes a scheduled task run at once too.
	AtStart bool
	Run     func(ctx context.Context) error
}

// The pause before a failed task is restarted. It doubles after each consecutive failure. A run longer than maxPause
// resets it.
const (
	firstPause = time.Second
	maxPause   = 5 * time.Minute
)

// The states of a task.
const (
	stateIdle    = "idle"
	stateRunning = "running"
	statePaused  = "waiting after a failure"
	stateStopped = "stopped"
)

// Supervisor runs tasks.
type Supervisor struct {
	env    *env.Env
	ctx    context.Context
	cancel context.CancelFunc
	failed *stat.Counter
	panics *stat.Counter
	wg     sync.WaitGroup

	mu    sync.Mutex
	tasks []*running
}

type running struct {
	Task
	sup    *Supervisor
	status admin.Task
}

// New returns a Supervisor without tasks.
func New(e *env.Env, stats *stat.Tree) *Supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Supervisor{
		env: e, ctx: ctx, cancel: cancel,
		failed: stats.Counter("Server.Tasks.Failed", "runs of server tasks that failed"),
		panics: stats.Counter("Server.Tasks.Panics", "runs of server tasks that panicked"),
	}
	stats.GaugeFunc("Server.Tasks", "server tasks", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.tasks))
	})
	return s
}

// Start starts a task.
func (s *Supervisor) Start(t Task) {
	r := &running{Task: t, sup: s, status: admin.Task{Name: t.Name, State: stateIdle}}
	s.mu.Lock()
	s.tasks = append(s.tasks, r)
	s.mu.Unlock()
	s.wg.Add(1)
	s.env.Go("task "+t.Name, func() {
		defer s.wg.Done()
		r.loop()
	})
}

// Status returns the status of every task, in the order in which they were started.
func (s *Supervisor) Status() []admin.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]admin.Task, 0, len(s.tasks))
	for _, r := range s.tasks {
		out = append(out, r.status)
	}
	return out
}

// Stop stops the tasks and returns when all have ended, or with ctx's error if ctx ends first.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.cancel()
	done := make(chan struct{})
	s.env.Go("task stop", func() {
		s.wg.Wait()
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop tasks: %w", ctx.Err())
	}
}

func (r *running) set(fn func(*admin.Task)) {
	r.sup.mu.Lock()
	defer r.sup.mu.Unlock()
	fn(&r.status)
}

func (r *running) loop() {
	defer r.set(func(t *admin.Task) { t.State, t.NextRun = stateStopped, time.Time{} })
	now := r.sup.env.Clock.Now
	next := now()
	if r.When != nil && !r.AtStart {
		next = r.When(next)
	}
	pause := firstPause
	for r.wait(next, stateIdle) {
		begun := now()
		err := r.once(begun)
		switch {
		case r.sup.ctx.Err() != nil:
			return
		case err == nil && r.When != nil:
			pause, next = firstPause, r.When(now())
			continue
		}
		if now().Sub(begun) > maxPause {
			pause = firstPause
		}
		next = now().Add(pause)
		pause = min(2*pause, maxPause)
		if r.When != nil {
			if due := r.When(begun); due.Before(next) {
				next = due
			}
		}
		if !r.wait(next, statePaused) {
			return
		}
		next = now()
	}
}

// wait returns true at a time, or false if the tasks are stopped first.
func (r *running) wait(until time.Time, state string) bool {
	r.set(func(t *admin.Task) { t.State, t.NextRun = state, until.UTC() })
	d := until.Sub(r.sup.env.Clock.Now())
	if d <= 0 {
		return r.sup.ctx.Err() == nil
	}
	select {
	case <-r.sup.env.Clock.After(d):
		return r.sup.ctx.Err() == nil
	case <-r.sup.ctx.Done():
		return false
	}
}

var errReturned = errors.New("it ended by itself")

// once runs the task once. It turns a panic into an error, so that it does not stop the server.
func (r *running) once(begun time.Time) (err error) {
	r.set(func(t *admin.Task) {
		t.State, t.LastRun, t.NextRun = stateRunning, begun.UTC(), time.Time{}
		t.Runs++
	})
	defer func() {
		log := r.sup.env.Log
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			r.sup.panics.Inc()
			log.Error("server task panicked", "task", r.Name, "panic", p, "stack", string(debug.Stack()))
		}
		took := r.sup.env.Clock.Now().Sub(begun)
		stopping := r.sup.ctx.Err() != nil
		if err == nil && r.When == nil && !stopping {
			err = errReturned
		}
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
			log.LogAttrs(r.sup.ctx, slog.LevelError, "server task failed", slog.String("task", r.Name),
				slog.String("error", err.Error()))
		}
	}()
	return r.Run(r.sup.ctx)
}
