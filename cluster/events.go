package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// EventKind is a kind of problem.
type EventKind string

// Kinds of events.
const (
	// EventSilent means that a member does not answer.
	EventSilent EventKind = "silent"
	// EventLag means that replication to a member lags.
	EventLag EventKind = "lag"
	// EventClock means that a member's clock is wrong.
	EventClock EventKind = "clock"
	// EventTwin means that two processes use the certificate of one member.
	EventTwin EventKind = "twin"
	// EventAside means that a member rejects some notes. They are set aside, and replication of the database continues.
	EventAside EventKind = "set aside"
	// EventRoom means that a disk is full, here or at a member.
	EventRoom EventKind = "no room"
	// EventHome means that databases have no primary.
	EventHome EventKind = "no home"
	// EventDamaged means that local replicas cannot be read.
	EventDamaged EventKind = "damaged"
	// EventSetBack means that local replicas are suspect until their primaries begin new terms.
	EventSetBack EventKind = "set back"
	// EventDegraded means that changes were acknowledged without a confirmation by a mate.
	EventDegraded EventKind = "degraded"
)

var eventKinds = []EventKind{
	EventSilent, EventLag, EventClock, EventTwin, EventAside,
	EventRoom, EventHome, EventDamaged, EventSetBack, EventDegraded,
}

// Event is a problem in the cluster as this server sees it now, with its cause if known. The room probe keeps them and
// tells people.
type Event struct {
	Kind EventKind `json:"kind"`
	// Server is the member with the problem; empty: this server or the cluster.
	Server string `json:"server,omitempty"`
	// Cause is the latest known cause.
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
}

// Limits of events.
const (
	// maxEvents is the maximum number of events.
	maxEvents = 200
	// lookEvery is the time between two checks. An event ends when checks have not found it for overAfter.
	lookEvery = time.Second
	overAfter = 5 * time.Second
	// Values above these limits are events: the lag, the clock difference, the time of a flush, of a probe, and of
	// sending one database.
	lagLimit   = 10 * time.Second
	clockLimit = time.Minute
	flushLimit = 100 * time.Millisecond
	probeLimit = 200 * time.Millisecond
	longSend   = 5 * time.Second
	// silentAfter is the maximum silence of a member. homeAfter is the maximum time without a primary.
	silentAfter = 10 * time.Second
	homeAfter   = 10 * time.Second
	// degradedFor is the time for which unconfirmed acknowledgements are reported.
	degradedFor = time.Minute
)

// eventKey identifies an open event.
type eventKey struct {
	kind   EventKind
	server string
}

// events holds the present events.
type events struct {
	mu     sync.Mutex
	looked time.Time
	open   map[eventKey]*openEvent
	// flush and noRoom are the state of the local disk at the last check.
	flush  time.Duration
	noRoom bool
	// degraded counts the acknowledgements without confirmation. grew is the time of the last increase.
	degraded uint64
	grew     time.Time
}

type openEvent struct {
	Event
	seen time.Time
}

// found is a problem that one check found.
type found struct {
	eventKey
	cause string
}

// begin reports whether the next check is due, and starts it.
func (e *events) begin(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.looked) < lookEvery {
		return false
	}
	e.looked = now
	return true
}

// setDisk records the state of the local disk.
func (e *events) setDisk(flush time.Duration, noRoom bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush, e.noRoom = flush, noRoom
}

// disk returns the state of the local disk at the last check.
func (e *events) disk() (flush time.Duration, noRoom bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flush, e.noRoom
}

// grown records the number of unconfirmed acknowledgements, and reports whether it has grown within degradedFor.
func (e *events) grown(count uint64, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if count > e.degraded {
		e.degraded, e.grew = count, now
	}
	return !e.grew.IsZero() && now.Sub(e.grew) < degradedFor
}

// count returns the number of open events of one kind or, for the empty kind, of all kinds.
func (e *events) count(kind EventKind) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.open {
		if kind == "" || key.kind == kind {
			n++
		}
	}
	return n
}

// take processes the results of one check.
func (e *events) take(now time.Time, list []found) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = map[eventKey]*openEvent{}
	}
	for _, f := range list {
		o := e.open[f.eventKey]
		if o == nil {
			if len(e.open) >= maxEvents {
				continue
			}
			o = &openEvent{Event: Event{Kind: f.kind, Server: f.server, Since: now.UTC()}}
			e.open[f.eventKey] = o
		}
		o.Cause, o.seen = f.cause, now
	}
	for key, o := range e.open {
		if now.Sub(o.seen) >= overAfter {
			delete(e.open, key)
		}
	}
}

// list returns the events, newest first.
func (e *events) list() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Event{}
	for _, o := range e.open {
		out = append(out, o.Event)
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Server, b.Server))
	})
	return out
}

// lagging holds the state of replication to one member.
type lagging struct {
	name  string
	alive bool
	heard time.Time
	// waiting is the number of databases to be sent. lag is the time for which the oldest has waited.
	waiting int
	lag     time.Duration
	// trouble is the last error of a database.
	trouble string
	// sending is the title of the database that has been in transfer longest, with its size in bytes and the time so
	// far. comparing means that all databases are being compared.
	sending   string
	size      uint64
	sends     time.Duration
	comparing bool
	rtt       time.Duration
	// flush and noRoom are the state of the member's disk. ownFlush is the flush time of the local disk.
	flush, ownFlush time.Duration
	noRoom          bool
	// inFlight is the number of requests without an answer yet. credit is the number of requests that wait for credit
	// to be sent.
	inFlight, credit int
}

// cause describes why replication to a member lags. It names the most certain reason. It is a pure function.
func (l *lagging) cause() string {
	why := ""
	round := func(d time.Duration) string {
		if d < time.Second {
			return d.Round(time.Millisecond).String()
		}
		return d.Round(time.Second).String()
	}
	switch {
	case !l.alive && l.heard.IsZero():
		why = l.name + " has not answered since this server started"
	case !l.alive:
		why = l.name + " has not answered since " + l.heard.UTC().Format(time.RFC3339)
	case l.noRoom:
		why = "the disk of " + l.name + " is full"
	case l.flush >= flushLimit:
		why = "the disk of " + l.name + " is slow (a flush takes " + round(l.flush) + ")"
	case l.ownFlush >= flushLimit:
		why = "the disk here is slow (a flush takes " + round(l.ownFlush) + ")"
	case l.sending != "" && l.sends >= longSend:
		why = fmt.Sprintf("the database %q of %s has been in transfer there for %s",
			l.sending, bytesText(l.size), round(l.sends))
	case l.credit > 0:
		why = fmt.Sprintf("no credit: %s answers slowly (%d requests are under way, %d wait)",
			l.name, l.inFlight, l.credit)
	case l.rtt >= probeLimit:
		why = "the network is slow: a probe takes " + round(l.rtt)
	case l.trouble != "":
		why = l.trouble
	case l.comparing:
		why = "all databases are being compared with " + l.name
	default:
		why = "changes arrive faster than they are sent"
	}
	return fmt.Sprintf("replication to %s lags %s, %d databases wait: %s", l.name, round(l.lag), l.waiting, why)
}

func bytesText(n uint64) string {
	for _, u := range []struct {
		size uint64
		word string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "KB"}} {
		if n >= u.size {
			return strconv.FormatFloat(float64(n)/float64(u.size), 'f', 1, 64) + " " + u.word
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}
