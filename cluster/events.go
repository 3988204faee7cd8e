package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// EventKind is a kind of trouble.
type EventKind string

// The kinds of events.
const (
	// EventSilent: a member does not answer.
	EventSilent EventKind = "silent"
	// EventLag: replication to a member is behind.
	EventLag EventKind = "lag"
	// EventClock: a member's clock is off.
	EventClock EventKind = "clock"
	// EventTwin: two processes present one member's certificate.
	EventTwin EventKind = "twin"
	// EventAside: a member does not take some notes; they are set aside, and the rest of the database goes on.
	EventAside EventKind = "set aside"
	// EventRoom: a disk is full, here or at a member.
	EventRoom EventKind = "no room"
	// EventHome: databases have no primary.
	EventHome EventKind = "no home"
	// EventDamaged: replicas here cannot be read.
	EventDamaged EventKind = "damaged"
	// EventSetBack: replicas here are suspect, until their primaries have begun new terms.
	EventSetBack EventKind = "set back"
	// EventDegraded: changes were acknowledged though no mate had confirmed them.
	EventDegraded EventKind = "degraded"
)

var eventKinds = []EventKind{
	EventSilent, EventLag, EventClock, EventTwin, EventAside,
	EventRoom, EventHome, EventDamaged, EventSetBack, EventDegraded,
}

// Event is trouble in the cluster as this server sees it, with the cause as far as it is known.
type Event struct {
	Kind EventKind `json:"kind"`
	// Server is the member with the trouble; empty: this server, or the cluster.
	Server string `json:"server,omitempty"`
	// Cause is the latest that is known.
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
	// Until is when it was over; zero while it is not.
	Until time.Time `json:"until,omitzero"`
}

// The bounds of events.
const (
	// maxEvents bounds the events that are over and are remembered, and those that are open.
	maxEvents = 200
	// lookEvery is the time between two looks. An event that was not found for overAfter is over.
	lookEvery = time.Second
	overAfter = 5 * time.Second
	// Limits above which there is an event: lag, a clock's distance, the time of a flush and of a probe, the time
	// in which one database is sent.
	lagLimit   = 10 * time.Second
	clockLimit = time.Minute
	flushLimit = 100 * time.Millisecond
	probeLimit = 200 * time.Millisecond
	longSend   = 5 * time.Second
	// silentAfter is how long a member may be silent, homeAfter how long databases may have no primary.
	silentAfter = 10 * time.Second
	homeAfter   = 10 * time.Second
	// degradedFor is how long acknowledgements that no mate confirmed are shown.
	degradedFor = time.Minute
)

// eventKey identifies an event as long as it is open.
type eventKey struct {
	kind   EventKind
	server string
}

// events remembers which events are open and which were.
type events struct {
	mu     sync.Mutex
	looked time.Time
	open   map[eventKey]*openEvent
	over   []Event
	// flush and noRoom are the state of the disk here at the last look.
	flush  time.Duration
	noRoom bool
	// degraded counts the acknowledgements that no mate had confirmed, grew is when that last became more.
	degraded uint64
	grew     time.Time
}

type openEvent struct {
	Event
	seen time.Time
}

// found is trouble that one look found.
type found struct {
	eventKey
	cause string
}

// begin reports whether it is time for a look.
func (e *events) begin(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.looked) < lookEvery {
		return false
	}
	e.looked = now
	return true
}

// setDisk notes the state of the disk here.
func (e *events) setDisk(flush time.Duration, noRoom bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush, e.noRoom = flush, noRoom
}

// disk returns the state of the disk here at the last look.
func (e *events) disk() (flush time.Duration, noRoom bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flush, e.noRoom
}

// grown notes how many acknowledgements no mate has confirmed, and reports whether that became more lately.
func (e *events) grown(count uint64, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if count > e.degraded {
		e.degraded, e.grew = count, now
	}
	return !e.grew.IsZero() && now.Sub(e.grew) < degradedFor
}

// count returns how many events are open, of one kind or, for the empty kind, of all.
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

// take takes up what one look found, and returns the events that began and those that are over.
func (e *events) take(now time.Time, list []found) (began, over []Event) {
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
			o = &openEvent{Event: Event{Kind: f.kind, Server: f.server, Cause: f.cause, Since: now.UTC()}}
			e.open[f.eventKey] = o
			began = append(began, o.Event)
		}
		o.Cause, o.seen = f.cause, now
	}
	for key, o := range e.open {
		if now.Sub(o.seen) >= overAfter {
			delete(e.open, key)
			o.Until = o.seen.UTC()
			over = append(over, o.Event)
		}
	}
	slices.SortFunc(over, func(a, b Event) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Server, b.Server))
	})
	e.over = append(e.over, over...)
	e.over = e.over[max(0, len(e.over)-maxEvents):]
	return began, over
}

// list returns the open events, then those that are over, each with the newest first.
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
	for _, x := range slices.Backward(e.over) {
		out = append(out, x)
	}
	return out
}

// lagging is what is known of replication to one member.
type lagging struct {
	name  string
	alive bool
	heard time.Time
	// waiting databases are to be sent, the oldest since lag.
	waiting int
	lag     time.Duration
	// trouble is the last error of a database.
	trouble string
	// sending is the title of the database that has been under way longest, size its bytes, sends for how long;
	// comparing says that all databases are being compared.
	sending   string
	size      uint64
	sends     time.Duration
	comparing bool
	rtt       time.Duration
	// flush and noRoom are the state of the member's disk, ownFlush that of ours.
	flush, ownFlush time.Duration
	noRoom          bool
	// inFlight requests have no answer yet, credit is the number that waits to be sent.
	inFlight, credit int
}

// cause returns the reason for which replication to a member lags, the most certain one first. It is a pure
// function.
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
		why = l.name + " has not been heard since this server started"
	case !l.alive:
		why = l.name + " is not heard since " + l.heard.UTC().Format(time.RFC3339)
	case l.noRoom:
		why = "the disk of " + l.name + " is full"
	case l.flush >= flushLimit:
		why = "the disk of " + l.name + " is slow (a flush takes " + round(l.flush) + ")"
	case l.ownFlush >= flushLimit:
		why = "the disk here is slow (a flush takes " + round(l.ownFlush) + ")"
	case l.sending != "" && l.sends >= longSend:
		why = fmt.Sprintf("the database %q of %s is being brought there, for %s",
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
		why = "more changes than are carried there"
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
