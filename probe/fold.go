package probe

import (
	"encoding/hex"
	"time"
)

// What a round did to an event.
type outcome int

const (
	same    outcome = iota
	changed         // to be stored soon
	news            // the event opened, became worse or closed: it is stored and logged
)

// saveEvery is the time between two writes of an event that only repeats.
const saveEvery = 15 * time.Minute

// flapping is the time within which an event that opens again stays open for longer; longestClear bounds that time.
const (
	flapping     = 24 * time.Hour
	longestClear = 6 * time.Hour
)

// newEvent returns an event that a finding opens.
func newEvent(k *Kind, f *Finding, now time.Time) *Event {
	id := unid(k.Name, f.Target)
	e := &Event{ID: hex.EncodeToString(id[:6]), Type: k.Type, Probe: k.Name, Target: f.Target, First: now,
		Severity: f.Severity}
	e.open(k, f, now, "opened")
	return e
}

// open opens an event, for the first time or again.
func (e *Event) open(k *Kind, f *Finding, now time.Time, word string) {
	e.State, e.Severity, e.Changed, e.dismissed, e.missing = StateOpen, f.Severity, now, false, time.Time{}
	e.worst = f.Severity
	e.found(k, f, now)
	e.remember(now, "", word+", "+f.Severity.String()+": "+e.Cause)
}

// found updates what every finding updates.
func (e *Event) found(k *Kind, f *Finding, now time.Time) {
	e.Last, e.Cause, e.Remedy = now, cut(f.Cause, maxText), cut(f.Remedy, maxText)
	if e.Remedy == "" {
		e.Remedy = k.Remedy
	}
	e.Count++
}

// seen folds a finding into the event.
func (e *Event) seen(k *Kind, f *Finding, now time.Time) outcome {
	gone := !e.missing.IsZero() && now.Sub(e.missing) >= k.Clear
	e.missing = time.Time{}
	switch {
	case e.State == StatePermanent, e.State == StateClosed && e.dismissed && !gone && f.Severity <= e.Severity:
		e.found(k, f, now)
	case e.State == StateClosed:
		e.Reopened++
		e.open(k, f, now, "opened again")
		return news
	case f.Severity > e.Severity, f.Severity < e.Severity && e.lessened(k, now):
		e.found(k, f, now)
		e.remember(now, "", e.Severity.String()+" is now "+f.Severity.String()+": "+e.Cause)
		worse := f.Severity > e.Severity
		e.Severity, e.Changed, e.lower = f.Severity, now, time.Time{}
		e.worst = max(e.worst, e.Severity)
		if worse {
			return news
		}
		return changed
	default:
		e.found(k, f, now)
		if f.Severity == e.Severity {
			e.lower = time.Time{}
		}
	}
	if now.Sub(e.saved) >= saveEvery {
		return changed
	}
	return same
}

// lessened reports whether findings have been less severe for long enough to lower the severity: a value that moves
// about a threshold is not news again and again.
func (e *Event) lessened(k *Kind, now time.Time) bool {
	if e.lower.IsZero() {
		e.lower = now
	}
	return now.Sub(e.lower) >= k.Clear
}

// missed records that a run of the probe did not find the problem. The event closes when that lasts.
func (e *Event) missed(k *Kind, now time.Time) outcome {
	if e.missing.IsZero() {
		e.missing = now
	}
	away := now.Sub(e.missing)
	switch {
	case e.State == StateOpen && away >= e.clear(k):
		e.State, e.Changed = StateClosed, now
		e.remember(now, "", "closed: the cause is gone since "+e.missing.UTC().Format(time.RFC3339))
		return news
	case e.State == StateClosed && e.dismissed && away >= k.Clear:
		e.dismissed = false
		return changed
	}
	return same
}

// clear returns the time without findings after which the event closes. It doubles with each time that the event has
// opened again, so that a problem that comes and goes is one open event and not a stream of them.
func (e *Event) clear(k *Kind) time.Duration {
	d := k.Clear
	for n := e.Reopened; n > 0 && d < longestClear && e.Last.Sub(e.First) < flapping*time.Duration(e.Reopened); n-- {
		d *= 2
	}
	return min(d, max(longestClear, k.Clear))
}
