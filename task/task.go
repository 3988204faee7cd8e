// Package task runs the server tasks on their schedules, restarts them after failures, and lets administrators load,
// quit and restart them. A task's work is a function.
package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/stat"
)

// Task describes one server task.
type Task struct {
	// Name is the task's name, Domino's if Domino has the task: Router, Update, Collect.
	Name string
	// When is the task's own schedule; Plan may replace it. If nil, the task runs continuously: Run should return only
	// when ctx ends, and is restarted if it returns earlier.
	When Schedule
	// AtStart makes a scheduled task run at once too, unless its schedule is never.
	AtStart bool
	Run     func(ctx context.Context, r *Run) error
}

// Plain returns the Run of a task that takes no arguments and reports no progress.
func Plain(fn func(context.Context) error) func(context.Context, *Run) error {
	return func(ctx context.Context, r *Run) error {
		if len(r.Args) > 0 {
			return fmt.Errorf("%w: the task takes no arguments", admin.ErrUsage)
		}
		return fn(ctx)
	}
}

// Run is one run of a task.
type Run struct {
	// Args are the arguments with which an administrator loaded the task; nil in a run of the schedule.
	Args []string
	task *running
}

// Report replaces the text that show tasks shows for the task: its progress, and after the run its result.
func (r *Run) Report(text string) { r.task.set(func(t *admin.Task) { t.Progress = text }) }

// The pause before a failed task is restarted. It doubles after each consecutive failure: that of a continuous task up
// to maxPause, and a run longer than maxPause resets it; that of a scheduled task as running.pauseAfter says.
const (
	firstPause = time.Second
	maxPause   = 5 * time.Minute
)

// The states of a task.
const (
	StateIdle    = "idle"
	StateRunning = "running"
	StatePaused  = "waiting after a failure"
	StateStopped = "stopped"
)

// Supervisor runs tasks. Its methods may be called from any goroutine.
type Supervisor struct {
	env    *env.Env
	stats  *stat.Tree
	ctx    context.Context
	cancel context.CancelFunc
	failed *stat.Counter
	panics *stat.Counter
	wg     sync.WaitGroup

	// switching serializes the loading and quitting of tasks.
	switching sync.Mutex

	mu    sync.Mutex
	plan  Plan
	tasks []*running
}

// New returns a Supervisor without tasks. plan says which of them run, and when.
func New(e *env.Env, plan Plan, stats *stat.Tree) *Supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Supervisor{
		env: e, stats: stats, ctx: ctx, cancel: cancel, plan: plan,
		failed: stats.Counter("Server.Tasks.Failed", "runs of server tasks that failed"),
		panics: stats.Counter("Server.Tasks.Panics", "runs of server tasks that panicked"),
	}
	stats.GaugeFunc("Server.Tasks", "server tasks that are loaded", func() float64 {
		n := 0
		for _, t := range s.Status() {
			if t.State != StateStopped {
				n++
			}
		}
		return float64(n)
	})
	return s
}

// Start adds a task, and starts it if the plan has it.
func (s *Supervisor) Start(t Task) {
	r := &running{Task: t, sup: s, wake: make(chan struct{}, 1),
		status: admin.Task{Name: t.Name, Continuous: t.When == nil, State: StateStopped,
			Since: s.env.Clock.Now().UTC()},
		crashes: s.stats.Counter("Server.Tasks."+t.Name+".Panics",
			"runs of the server task "+t.Name+" that panicked")}
	s.switching.Lock()
	defer s.switching.Unlock()
	s.mu.Lock()
	s.tasks = append(s.tasks, r)
	r.when = s.plan.schedule(t)
	runs := s.plan.Runs(t.Name)
	s.mu.Unlock()
	if runs {
		r.start(nil)
	}
}

// Status returns the status of every task, in the order in which they were added.
func (s *Supervisor) Status() []admin.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]admin.Task, 0, len(s.tasks))
	for _, r := range s.tasks {
		out = append(out, r.status)
	}
	return out
}

// Replan replaces the plan. It starts and stops the tasks that the new plan treats otherwise than the old one, and
// changes schedules at once. A task that an administrator loaded or quit stays so, unless the plans differ on it.
// ctx bounds the wait for tasks that stop.
func (s *Supervisor) Replan(ctx context.Context, next Plan) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	s.mu.Lock()
	before := s.plan
	s.plan = next
	tasks := append([]*running(nil), s.tasks...)
	for _, r := range tasks {
		if when := next.schedule(r.Task); next.times(r.Name) != before.times(r.Name) {
			r.when, r.replanned = when, true
			r.signal()
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, r := range tasks {
		was, runs := before.Runs(r.Name), next.Runs(r.Name)
		switch {
		case runs && !was && !r.loaded():
			r.start(nil)
		case was && !runs:
			errs = append(errs, r.quit(ctx))
		}
	}
	return errors.Join(errs...)
}

// find returns the task with a name, in any case.
func (s *Supervisor) find(name string) (*running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(s.tasks))
	for i, r := range s.tasks {
		if strings.EqualFold(r.Name, name) {
			return r, nil
		}
		names[i] = r.Name
	}
	return nil, fmt.Errorf("%w: %q: the tasks are %s", admin.ErrNoTask, name, strings.Join(names, ", "))
}

// Load starts a task that has quit. A scheduled task that is idle runs at once, with the arguments. Load does not wait
// for the run. A continuous task that runs already, or a run that is under way, is an error.
func (s *Supervisor) Load(name string, args []string) error {
	r, err := s.find(name)
	if err != nil {
		return err
	}
	args = append([]string{}, args...) // not nil: see start
	s.switching.Lock()
	defer s.switching.Unlock()
	if !r.loaded() {
		r.start(args)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.status.State == StateRunning || r.asked != nil {
		return fmt.Errorf("%w: %s, since %s", admin.ErrTaskRuns, r.Name, r.status.Since.Format(time.RFC3339))
	}
	r.ask(args)
	r.signal()
	return nil
}

// Quit stops a task until it is loaded, or the server restarts. It returns when the task's run has ended, or with
// ctx's error: the run still ends then, later.
func (s *Supervisor) Quit(ctx context.Context, name string) error {
	r, err := s.find(name)
	if err != nil {
		return err
	}
	s.switching.Lock()
	defer s.switching.Unlock()
	return r.quit(ctx)
}

// Restart is Quit and Load.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	r, err := s.find(name)
	if err != nil {
		return err
	}
	s.switching.Lock()
	defer s.switching.Unlock()
	if err := r.quit(ctx); err != nil {
		return err
	}
	r.start(nil)
	return nil
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
