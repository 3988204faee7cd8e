package check

import (
	"fmt"
	"time"

	"doublet/probe"
)

// Task is the state of a server task.
type Task struct {
	Name string
	// Waiting means that the last run failed and the next one waits. Crashes counts panics since the last reading.
	Waiting bool
	Crashes uint64
	Error   string
	// Again means that it is continuous and runs again after Error.
	Again bool
	// Late is the time for which its next run is overdue. Running is the time of the present run, 0 for continuous
	// tasks.
	Late, Running time.Duration
}

// TaskCrash reports tasks that fail or crash.
var TaskCrash = probe.Check[[]Task]{
	Kind: probe.Kind{Type: probe.Server, Name: "TaskCrash",
		What:  "server tasks that panicked, or whose last run failed",
		Cause: "The task met data or a state that it cannot work on.",
		Remedy: "`show tasks` has the error, the log has the stack of a panic: report it. The task starts again by " +
			"itself.",
		Every: 30 * time.Second, Clear: 10 * time.Minute},
	Find: func(list []Task, _ probe.Limits) (out []probe.Finding) {
		for _, t := range list {
			switch {
			case t.Crashes > 0:
				out = append(out, one(probe.Failure, true, t.Name, fmt.Sprintf("the task %s crashed: "+
					"%s", t.Name, t.Error))...)
			case t.Waiting || t.Error != "" && !t.Again:
				out = append(out, one(probe.WarningHigh, true, t.Name, "the last run of the task "+t.Name+" failed: "+
					t.Error)...)
			}
		}
		return out
	},
}

// TaskLate reports tasks whose next run is overdue.
var TaskLate = probe.Check[[]Task]{
	Kind: probe.Kind{Type: probe.Server, Name: "TaskLate",
		What:   "server tasks whose next run is overdue",
		Cause:  "The machine was suspended, or has no processor time to spare.",
		Remedy: "Look at the probe CPU. `task load NAME` runs it now.",
		Every:  time.Minute, Hold: 2 * time.Minute, Clear: time.Minute,
		Limits: []probe.Limit{low((10 * time.Minute).Seconds(), probe.Time), high((2 * time.Hour).Seconds(),
			probe.Time)}},
	Find: func(list []Task, l probe.Limits) (out []probe.Finding) {
		for _, t := range list {
			s, bad := l.Older(t.Late)
			out = append(out, one(s, bad, t.Name, "the next run of the task "+t.Name+" is "+age(t.Late)+" overdue")...)
		}
		return out
	},
}

// TaskLong reports runs of tasks that take long.
var TaskLong = probe.Check[[]Task]{
	Kind: probe.Kind{Type: probe.Server, Name: "TaskLong",
		What:   "runs of server tasks that take long; continuous tasks do not count",
		Cause:  "There is much to do, or the task hangs.",
		Remedy: "`show tasks` has its progress. `task restart NAME` ends the run; what it has done stays.",
		Every:  time.Minute, Clear: time.Minute,
		Limits: []probe.Limit{low((6 * time.Hour).Seconds(), probe.Time), high(day.Seconds(), probe.Time)}},
	Find: func(list []Task, l probe.Limits) (out []probe.Finding) {
		for _, t := range list {
			s, bad := l.Older(t.Running)
			out = append(out, one(s, bad, t.Name, "the task "+t.Name+" has been running for "+age(t.Running))...)
		}
		return out
	},
}
