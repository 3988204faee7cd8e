package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Tasks are the server tasks of a running server. task.Supervisor implements it.
type Tasks interface {
	Status() []Task
	// Load starts a task that has quit, or runs one with a schedule now. It does not wait for the run.
	Load(name string, args []string) error
	// Quit stops a task until it is loaded, and waits for the end of its run, at most until ctx ends.
	Quit(ctx context.Context, name string) error
	// Restart is Quit and Load.
	Restart(ctx context.Context, name string) error
}

// Task is the status of a server task.
type Task struct {
	Name string `json:"name"`
	// State is idle, running, waiting after a failure, or stopped. Since is the time at which it began.
	State string `json:"state"`
	// Continuous marks a task without a schedule, which runs all the time.
	Continuous bool      `json:"continuous,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	// Runs, Failed and Crashes count since the start of the server; a crash (panic) is a failure too.
	Runs    uint64    `json:"runs"`
	Failed  uint64    `json:"failed"`
	Crashes uint64    `json:"crashes" show:"always"`
	LastRun time.Time `json:"last_run,omitzero"`
	Took    string    `json:"took,omitempty"`
	NextRun time.Time `json:"next_run,omitzero"`
	// Progress is the progress of the present run, or the result of the last one.
	Progress string `json:"progress,omitempty"`
	Error    string `json:"error,omitempty"`
}

// The errors of Tasks.
var (
	ErrNoTask   = errors.New("no such server task")
	ErrTaskRuns = errors.New("task runs already")
)

// TaskNamed are the arguments of verbs that take a task.
type TaskNamed struct {
	Name string `json:"name" arg:"required" help:"task, as show tasks names it, in any case"`
}

// TaskLoad are the arguments of task load.
type TaskLoad struct {
	Name string   `json:"name" arg:"required" help:"task, as show tasks names it, in any case"`
	Args []string `json:"args" arg:"words" help:"arguments of the run, such as the databases to compact"`
}

// TaskTell are the arguments of task tell.
type TaskTell struct {
	Name    string   `json:"name" arg:"required" help:"task, as show tasks names it, in any case"`
	Command []string `json:"command" arg:"words" help:"quit, restart, run [ARGUMENTS], show; or a command of the task"`
}

func tasks() []*Verb {
	return []*Verb{
		onServer("show tasks", "the server tasks: state, since when, last and next run, crashes, last error", taskList),
		onServer("task list", "list the server tasks, as show tasks does", taskList),
		onServer("task load", "start a task that has quit, or run one with a schedule now", taskLoad, changes,
			long("The run goes on in the server; show tasks shows its progress, and then its result. The maintenance "+
				"tasks take the\narguments of the verbs that they run: load compact ada is compact ada.")),
		onServer("task tell", "give a command to a task", taskTell, changes,
			long("Every task knows quit, restart, run and show. help tell in the console lists the commands of single "+
				"tasks.")),
		onServer("task restart", "stop a task and start it again", taskRestart, changes),
		onServer("task quit", "stop a task until it is loaded, or the server starts again", taskQuit, changes),
	}
}

func taskList(_ context.Context, c *ServerCall, _ *struct{}) ([]Task, error) {
	return c.Server.Tasks.Status(), nil
}

func taskLoad(_ context.Context, c *ServerCall, a *TaskLoad) (Done, error) {
	return Done{a.Name + " is loaded; show tasks shows its progress"}, c.Server.Tasks.Load(a.Name, a.Args)
}

// taskStop is the time that a task has to end its run before its verb reports that it is still stopping.
const taskStop = 20 * time.Second

func taskRestart(ctx context.Context, c *ServerCall, a *TaskNamed) (Done, error) {
	ctx, cancel := context.WithTimeout(ctx, taskStop)
	defer cancel()
	return Done{a.Name + " has started again"}, c.Server.Tasks.Restart(ctx, a.Name)
}

func taskQuit(ctx context.Context, c *ServerCall, a *TaskNamed) (Done, error) {
	ctx, cancel := context.WithTimeout(ctx, taskStop)
	defer cancel()
	return Done{a.Name + " has quit; load starts it"}, c.Server.Tasks.Quit(ctx, a.Name)
}

// taskTell runs the commands that every task knows. Those of single tasks are commands of the console.
func taskTell(ctx context.Context, c *ServerCall, a *TaskTell) (Output, error) {
	words := append([]string{"tell", a.Name}, a.Command...)
	if x, rest, err := resolve(words); err == nil && x.Verb != "task tell" {
		return runTyped(ctx, c.Call, x, rest)
	}
	var verb string
	switch word, args := first(a.Command); strings.ToLower(word) {
	case "quit", "stop":
		verb = "task quit"
	case "restart":
		verb = "task restart"
	case "run", "now":
		return runTyped(ctx, c.Call, Command{Verb: "task load"}, append([]string{a.Name}, args...))
	case "show", "status":
		for _, t := range c.Server.Tasks.Status() {
			if strings.EqualFold(t.Name, a.Name) {
				return rendered(&t)
			}
		}
		return Output{}, fmt.Errorf("%w: %q", ErrNoTask, a.Name)
	default:
		return Output{}, fmt.Errorf("%w: %s does not know %q: quit, restart, run and show are known to every task, "+
			"help tell lists others", ErrUsage, a.Name, word)
	}
	return runTyped(ctx, c.Call, Command{Verb: verb}, []string{a.Name})
}

// first splits words into the first one and the rest.
func first(words []string) (string, []string) {
	if len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}
