package task

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schedule returns the next time to run after a time. The zero time means never.
type Schedule func(after time.Time) time.Time

// Every schedules each run d after the previous one has ended.
func Every(d time.Duration) Schedule {
	return func(after time.Time) time.Time { return after.Add(d) }
}

// Aligned schedules runs at the multiples of d on the clock, such as 12:00, 12:15 and 12:30 UTC for 15 minutes.
func Aligned(d time.Duration) Schedule {
	return func(after time.Time) time.Time { return after.Truncate(d).Add(d) }
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

// Never schedules no run: the task runs when it is loaded.
func Never(time.Time) time.Time { return time.Time{} }

// firstOf schedules a run whenever one of some schedules does.
func firstOf(all []Schedule) Schedule {
	return func(after time.Time) (next time.Time) {
		for _, s := range all {
			if at := s(after); next.IsZero() || at.Before(next) {
				next = at
			}
		}
		return next
	}
}

// shortest is the shortest interval of a task.
const shortest = time.Second

// Plan selects the tasks that run, and their times: the settings tasks.run and tasks.at, in place of Domino's
// ServerTasks and ServerTasksAtN. The zero value runs all tasks on their own schedules.
type Plan struct {
	// only holds the names of the tasks that run, none if all do; not holds those that do not. All are in small
	// letters.
	only, not []string
	at        map[string]when
}

// when is a schedule of a plan, with the text that it was parsed from.
type when struct {
	text string
	next Schedule
}

// ParsePlan parses the settings. run holds names separated by spaces: "all", "all -Catalog", "Router Update". at holds
// one entry for each task that has another schedule than its own: "Purge=01:30 Compact=02:00,14:00 Collect=15m
// Catalog=never".
func ParsePlan(run, at string) (p Plan, err error) {
	all := false
	for _, word := range strings.Fields(strings.ReplaceAll(run, ",", " ")) {
		name := strings.ToLower(word)
		switch off := strings.TrimPrefix(name, "-"); {
		case name == "all":
			all = true
		case off == "":
			return p, fmt.Errorf("%q names no task", word)
		case off != name:
			p.not = append(p.not, off)
		default:
			p.only = append(p.only, name)
		}
	}
	if all {
		p.only = nil
	} else if len(p.only) == 0 {
		return p, fmt.Errorf("%q: begin with all, or name the tasks that run", run)
	}
	p.at = map[string]when{}
	for _, word := range strings.Fields(at) {
		name, times, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return p, fmt.Errorf("%q: want NAME=TIME, such as Purge=01:30, Collect=15m or Catalog=never", word)
		}
		next, err := parseTimes(times)
		if err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
		name = strings.ToLower(name)
		if _, twice := p.at[name]; twice {
			return p, fmt.Errorf("%s is there twice: separate times by commas", word)
		}
		p.at[name] = when{times, next}
	}
	return p, nil
}

// parseTimes parses an interval, "never", or times of day that commas separate.
func parseTimes(text string) (Schedule, error) {
	if text == "never" {
		return Never, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < shortest {
			return nil, fmt.Errorf("%s is shorter than %s", text, shortest)
		}
		return Aligned(d), nil
	}
	var all []Schedule
	for _, one := range strings.Split(text, ",") {
		at, err := time.Parse("15:04", one)
		if err != nil {
			return nil, fmt.Errorf("%q is no time of day (01:30), interval (15m) or never", one)
		}
		all = append(all, Daily(at.Hour(), at.Minute()))
	}
	return firstOf(all), nil
}

// Runs reports whether the plan has a task.
func (p Plan) Runs(name string) bool {
	name = strings.ToLower(name)
	return (len(p.only) == 0 || slices.Contains(p.only, name)) && !slices.Contains(p.not, name)
}

// Unknown returns the names in the plan that are none of these, for a warning.
func (p Plan) Unknown(names []string) (unknown []string) {
	known := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
	for _, list := range [][]string{p.only, p.not} {
		for _, name := range list {
			if !known(name) {
				unknown = append(unknown, name)
			}
		}
	}
	for name := range p.at {
		if !known(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// times returns the text of the schedule that replaces a task's own, "" for none.
func (p Plan) times(name string) string { return p.at[strings.ToLower(name)].text }

// schedule returns the schedule of a task. A continuous task has none, whatever the plan says.
func (p Plan) schedule(t Task) Schedule {
	if w, ok := p.at[strings.ToLower(t.Name)]; ok && t.When != nil {
		return w.next
	}
	return t.When
}
