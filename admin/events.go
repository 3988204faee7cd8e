package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/probe"
)

// ShowEvents are the arguments of show events.
type ShowEvents struct {
	Type     string `json:"type" help:"type of the probe, such as Messaging or Security"`
	Probe    string `json:"probe" help:"name of the probe, as show probes has it"`
	Severity string `json:"severity" help:"at least this one: normal, warning-low, warning-high, failure or fatal"`
	State    string `json:"state" help:"open, closed, permanently-closed or any (default: open)"`
	Target   string `json:"target" help:"targets that hold this text"`
	Since    string `json:"since" help:"found or changed since: so long ago, such as 90m or 7d, or a day, 2026-03-01"`
	Limit    int    `json:"limit" help:"at most so many (100)"`
}

// EventRow is an event in the result of show events.
type EventRow struct {
	ID       string         `json:"id"`
	Severity probe.Severity `json:"severity"`
	State    probe.State    `json:"state"`
	Type     probe.Type     `json:"type"`
	Probe    string         `json:"probe"`
	Target   string         `json:"target,omitempty"`
	First    time.Time      `json:"first"`
	Last     time.Time      `json:"last"`
	Changed  time.Time      `json:"changed"`
	Count    uint64         `json:"count"`
	Assigned string         `json:"assigned,omitempty"`
	Silenced time.Time      `json:"silenced,omitzero"`
	Cause    string         `json:"cause"`
}

// EventID are the arguments of verbs on one event.
type EventID struct {
	ID string `json:"id" arg:"required" help:"id of the event, as show events has it"`
}

// EventAssign are the arguments of event assign.
type EventAssign struct {
	ID     string `json:"id" arg:"required" help:"id of the event"`
	Person string `json:"person" arg:"optional" help:"who takes care of it; nobody without one"`
}

// EventComment are the arguments of event comment.
type EventComment struct {
	ID   string `json:"id" arg:"required" help:"id of the event"`
	Text string `json:"text" arg:"required" help:"the comment; it replaces the last one"`
}

// EventClose are the arguments of event close.
type EventClose struct {
	ID          string `json:"id" arg:"required" help:"id of the event"`
	Permanently bool   `json:"permanently" help:"it does not open again until event reopen"`
}

// EventSilence are the arguments of event silence.
type EventSilence struct {
	ID     string `json:"id" arg:"optional" help:"id of one event; else give --probe or --target"`
	Probe  string `json:"probe" help:"name of the probe; * is any text"`
	Target string `json:"target" help:"its target; * is any text"`
	For    string `json:"for" required:"true" help:"for how long, such as 4h or 7d"`
	Reason string `json:"reason" help:"why"`
}

// EventUnsilence are the arguments of event unsilence.
type EventUnsilence struct {
	ID string `json:"id" arg:"required" help:"id of a silence, or of a silenced event"`
}

// events returns the verbs of events and probes.
func events() []*Verb {
	return []*Verb{
		define("show events", "problems of this server: severity, cause, target, since when", showEvents,
			long("Probes find the problems; doc/probes.md says what each of them looks at. event show prints the "+
				"remedy and "+
				"the history.")),
		onServer("show probes", "the probes: whether they run, how often, thresholds, and what they last found",
			func(_ context.Context, c *ServerCall, _ *struct{}) ([]probe.Status, error) {
				return c.Server.Probes(),
					nil
			}),
		define("event show", "show an event: cause, remedy, history",
			func(_ context.Context, c *Call, a *EventID) (probe.Event, error) { return c.Events.Event(a.ID) }),
		define("event assign", "give an event to a person who takes care of it", assignEvent, changes),
		define("event comment", "write a comment on an event",
			func(ctx context.Context, c *Call, a *EventComment) (probe.Event, error) {
				return c.Events.Comment(ctx, a.ID, callerOf(ctx, c), a.Text)
			}, changes),
		define("event close", "close an event; it opens again when its cause returns or grows worse",
			func(ctx context.Context, c *Call, a *EventClose) (probe.Event, error) {
				return c.Events.Close(ctx, a.ID, callerOf(ctx, c), a.Permanently)
			}, changes),
		define("event reopen", "let a closed event open again at its next finding",
			func(ctx context.Context, c *Call, a *EventID) (probe.Event, error) {
				return c.Events.Reopen(ctx, a.ID, callerOf(ctx, c))
			}, changes),
		define("event silence", "notify nobody of an event, or of a target, for a time", silenceEvent, changes,
			long("What is silenced is recorded all the same; mail, webhook and the log of notifications leave it "+
				"out.")),
		define("event unsilence", "end a silence", unsilenceEvent, changes),
		define("event silences", "list the silences of targets",
			func(_ context.Context, c *Call, _ *struct{}) ([]probe.Silence, error) {
				return c.Events.Silences(), nil
			}),
	}
}

// callerOf returns the name of the person who runs the verb, for the history.
func callerOf(ctx context.Context, c *Call) string {
	if c.Who.System {
		return "console"
	}
	return cmp.Or(strings.Join(c.names(ctx, []string{c.Who.Person.String()}), ""), c.Who.Person.String())
}

func showEvents(_ context.Context, c *Call, a *ShowEvents) ([]EventRow, error) {
	q := probe.Query{Type: a.Type, Probe: a.Probe, Target: a.Target, State: probe.State(cmp.Or(a.State, "open")),
		Limit: a.Limit}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	switch q.State {
	case "any":
		q.State = ""
	case probe.StateOpen, probe.StateClosed, probe.StatePermanent:
	default:
		return nil, fmt.Errorf("%w: --state is open, closed, permanently-closed or any, not %q", ErrUsage, a.State)
	}
	if a.Type != "" && !slices.ContainsFunc(probe.Types, func(t probe.Type) bool {
		return strings.EqualFold(string(t), a.Type)
	}) {
		return nil, fmt.Errorf("%w: --type is one of %v, not %q", ErrUsage, probe.Types, a.Type)
	}
	var err error
	if a.Severity != "" {
		if q.Severity, err = probe.ParseSeverity(a.Severity); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	if a.Since != "" {
		if q.Since, err = since(a.Since, c.Env.Clock.Now()); err != nil {
			return nil, err
		}
	}
	list := c.Events.List(q)
	out := make([]EventRow, 0, len(list))
	for i := range list {
		e := &list[i]
		out = append(out, EventRow{e.ID, e.Severity, e.State, e.Type, e.Probe, e.Target, e.First, e.Last, e.Changed,
			e.Count,
			e.Assigned, e.Silenced, e.Cause})
	}
	return out, nil
}

func assignEvent(ctx context.Context, c *Call, a *EventAssign) (probe.Event, error) {
	name := ""
	if a.Person != "" {
		t, err := c.Directory.Names.Lookup(ctx, a.Person)
		if err != nil {
			return probe.Event{}, fmt.Errorf("person %q: %w", a.Person, err)
		}
		name = strings.Join(c.names(ctx, []string{t.ID.String()}), "")
	}
	return c.Events.Assign(ctx, a.ID, callerOf(ctx, c), name)
}

// period parses how long something lasts: a duration, with d for days.
func period(text string, now time.Time) (time.Time, error) {
	from, err := since(text, now)
	if err != nil || strings.Contains(text, "-") {
		return now, fmt.Errorf("%w: %q is no time such as 90m, 4h or 7d", ErrUsage, text)
	}
	return now.Add(now.Sub(from)), nil
}

func silenceEvent(ctx context.Context, c *Call, a *EventSilence) (Done, error) {
	until, err := period(a.For, c.Env.Clock.Now())
	if err != nil {
		return Done{}, err
	}
	switch {
	case a.ID != "" && (a.Probe != "" || a.Target != ""):
		return Done{}, fmt.Errorf("%w: give the id of an event, or --probe and --target", ErrUsage)
	case a.ID != "":
		e, err := c.Events.SilenceEvent(ctx, a.ID, callerOf(ctx, c), until)
		return Done{e.ID + " is silenced until " + until.UTC().Format(time.RFC3339)}, err
	}
	s, err := c.Events.Silence(ctx, probe.Silence{Probe: a.Probe, Target: a.Target, Until: until, By: callerOf(ctx, c),
		Reason: a.Reason})
	return Done{"silence " + s.ID + " lasts until " + until.UTC().Format(time.RFC3339)}, err
}

func unsilenceEvent(ctx context.Context, c *Call, a *EventUnsilence) (Done, error) {
	if _, err := c.Events.Event(a.ID); err == nil {
		_, err = c.Events.SilenceEvent(ctx, a.ID, callerOf(ctx, c), time.Time{})
		return Done{a.ID + " is not silenced any more"}, err
	}
	return Done{"silence " + a.ID + " has ended"}, c.Events.EndSilence(ctx, a.ID)
}
