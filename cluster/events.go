package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
)

// EventKind is what is wrong.
type EventKind string

// The kinds of events.
const (
	// EventSilent: a member is not heard.
	EventSilent EventKind = "silent"
	// EventLag: replication to a member is behind.
	EventLag EventKind = "lag"
	// EventClock: a member's clock is off.
	EventClock EventKind = "clock"
	// EventTwin: two processes show one member's certificate.
	EventTwin EventKind = "twin"
	// EventAside: notes that a member does not take are set aside; the rest of the database goes on.
	EventAside EventKind = "set aside"
	// EventRoom: a disk is full, here or at a member.
	EventRoom EventKind = "no room"
	// EventHome: databases have no home.
	EventHome EventKind = "no home"
	// EventDamaged: replicas here cannot be read.
	EventDamaged EventKind = "damaged"
	// EventSetBack: replicas here are in another life than when they were whole, until a home has put a term between.
	EventSetBack EventKind = "set back"
	// EventDegraded: changes were acknowledged though no mate had confirmed them.
	EventDegraded EventKind = "degraded"
)

var eventKinds = []EventKind{EventSilent, EventLag, EventClock, EventTwin, EventAside, EventRoom, EventHome, EventDamaged, EventSetBack, EventDegraded}

// Event is something that is, or was, wrong in the cluster as this server sees it, with the cause as far as it can be known.
type Event struct {
	Kind EventKind `json:"kind"`
	// Server is the member that it is about; empty: this server, or the cluster.
	Server string `json:"server,omitempty"`
	// Cause is the latest that was known of it.
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
	// Until is when it was over; zero while it is not.
	Until time.Time `json:"until,omitzero"`
}

// The bounds of events.
const (
	// maxEvents is how many that are over are remembered, and how many that are not.
	maxEvents = 200
	// lookEvery is how often it is looked for them; one that has not been there for overAfter is over.
	lookEvery = time.Second
	overAfter = 5 * time.Second
	// What is too much: of lag, of a clock's distance, of a flush, of a probe; of the time that one database is sent.
	lagLimit   = 10 * time.Second
	clockLimit = time.Minute
	flushLimit = 100 * time.Millisecond
	probeLimit = 200 * time.Millisecond
	longSend   = 5 * time.Second
	// silentAfter is how long a member is silent before that is an event; homeless likewise for databases.
	silentAfter = 10 * time.Second
	homeAfter   = 10 * time.Second
	// degradedFor is how long acknowledgements that nobody confirmed are told of.
	degradedFor = time.Minute
)

// eventKey is what makes an event the same one.
type eventKey struct {
	kind   EventKind
	server string
}

// events are those that there are, and the last that there were. Guarded by Node.mu.
type events struct {
	looked time.Time
	// flush and noRoom are how the disk here is, as it was looked at last.
	flush  time.Duration
	noRoom bool
	open   map[eventKey]*openEvent
	over   []Event
	// aside counts notes that are set aside, by member and database, with a word on the last.
	aside map[asideKey]asideWord
	// degraded is how many acknowledgements there were that nobody had confirmed, grew when they last became more.
	degraded uint64
	grew     time.Time
}

type openEvent struct {
	Event
	seen time.Time
}

type asideKey struct {
	mate note.UNID
	db   note.DatabaseID
}

type asideWord struct {
	notes int
	text  string
}

// found is what is wrong at one look.
type found struct {
	eventKey
	cause string
}

// take takes up what one look found, and says what began and what is over.
func (e *events) take(now time.Time, list []found) (began, over []Event) {
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

// list gives those that are there, then those that are over, the newest first.
func (e *events) list() []Event {
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
	name    string
	alive   bool
	heard   time.Time
	waiting int
	lag     time.Duration
	// trouble is why a database failed last.
	trouble string
	// sending is a database that is under way, its size, for how long; comparing says that all are compared.
	sending   string
	size      uint64
	sends     time.Duration
	comparing bool
	rtt       time.Duration
	// flush and noRoom are what it told of its disk, ownFlush is ours.
	flush, ownFlush time.Duration
	noRoom          bool
	// inFlight requests have no answer yet, credit is how many wait for one to be given.
	inFlight, credit int
}

// cause says why replication to a member lags, what is most certain first. It is a pure function.
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
		why = "the database " + strconv.Quote(l.sending) + " of " + bytesText(l.size) + " is being brought there, for " + round(l.sends)
	case l.credit > 0:
		why = fmt.Sprintf("no credit: %s answers slowly (%d requests are under way, %d wait)", l.name, l.inFlight, l.credit)
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

// setAside takes up which notes of a database a mate did not take.
func (n *Node) setAside(mate note.UNID, db note.DatabaseID, list []replica.Refused, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := asideKey{mate, db}
	switch {
	case len(list) > 0:
		if n.events.aside == nil {
			n.events.aside = map[asideKey]asideWord{}
		}
		if _, have := n.events.aside[key]; have || len(n.events.aside) < maxEvents {
			n.events.aside[key] = asideWord{len(list), "note " + list[0].UNID.String() + ": " + list[0].Text}
		}
	case err == nil:
		delete(n.events.aside, key)
	}
}

// watch looks for what is wrong, once a second.
func (n *Node) watch() {
	n.mu.Lock()
	now := n.now()
	if now.Sub(n.events.looked) < lookEvery {
		n.mu.Unlock()
		return
	}
	n.events.looked = now
	n.mu.Unlock()
	states := map[note.UNID]bus.PeerState{}
	for _, p := range n.bus.Peers() {
		states[p.ID] = p
	}
	flush, room := n.store.FlushTime(), n.store.HasSpace()
	n.mu.Lock()
	n.events.flush, n.events.noRoom = flush, !room
	list := append(n.ownTrouble(now), n.asides()...)
	for _, id := range n.mates() {
		list = append(list, n.trouble(now, n.peers[id], states[id])...)
	}
	began, over := n.events.take(now, list)
	n.mu.Unlock()
	for _, e := range began {
		n.log(slog.LevelWarn, "event begins", "kind", string(e.Kind), "server", e.Server, "cause", e.Cause)
	}
	for _, e := range over {
		n.log(slog.LevelInfo, "event is over", "kind", string(e.Kind), "server", e.Server, "took", e.Until.Sub(e.Since).Round(time.Second).String(), "cause", e.Cause)
	}
}

// ownTrouble is what is wrong here. Under mu.
func (n *Node) ownTrouble(now time.Time) (list []found) {
	add := func(kind EventKind, format string, args ...any) {
		list = append(list, found{eventKey{kind: kind}, fmt.Sprintf(format, args...)})
	}
	if n.events.noRoom {
		add(EventRoom, "the disk here is full: nothing new is taken")
	}
	homeless, damaged, setBack := 0, 0, 0
	for _, h := range n.held {
		if !h.leads && !h.lost.IsZero() && now.Sub(h.lost) >= homeAfter {
			homeless++
		}
		if h.out {
			damaged++
		}
		if h.stained {
			setBack++
		}
	}
	if homeless > 0 {
		add(EventHome, "%d databases have no home that lives", homeless)
	}
	if damaged > 0 {
		add(EventDamaged, "%d replicas here are out of service; those that are damaged come anew from a mate", damaged)
	}
	if setBack > 0 {
		add(EventSetBack, "the store here was lost or restored from a backup: %d replicas wait for their homes to begin new terms", setBack)
	}
	if k := n.stat.ackDegraded.Value(); k > n.events.degraded {
		n.events.degraded, n.events.grew = k, now
	}
	if !n.events.grew.IsZero() && now.Sub(n.events.grew) < degradedFor {
		add(EventDegraded, "changes are acknowledged though no mate has confirmed them: %d since the start", n.events.degraded)
	}
	return list
}

// asides are notes that members do not take. Under mu.
func (n *Node) asides() (list []found) {
	by := map[note.UNID][]asideKey{}
	for key := range n.events.aside {
		if n.peers[key.mate] == nil || n.catalog.entries[key.db] == nil {
			delete(n.events.aside, key)
			continue
		}
		by[key.mate] = append(by[key.mate], key)
	}
	for mate, keys := range by {
		slices.SortFunc(keys, func(a, b asideKey) int { return cmp.Compare(a.db, b.db) })
		w := n.events.aside[keys[0]]
		list = append(list, found{
			eventKey{EventAside, n.members[mate].Name},
			fmt.Sprintf("%d notes of %q, of %d databases that have some, are set aside: %s", w.notes, n.catalog.entries[keys[0].db].Title, len(keys), w.text),
		})
	}
	return list
}

// trouble is what is wrong with a member. Under mu.
func (n *Node) trouble(now time.Time, p *peer, b bus.PeerState) (list []found) {
	m := n.members[p.id]
	add := func(kind EventKind, cause string) { list = append(list, found{eventKey{kind, m.Name}, cause}) }
	l := lagging{name: m.Name, alive: p.alive, heard: p.heard, rtt: p.rtt, flush: p.hello.flush, ownFlush: n.events.flush, noRoom: p.hello.noRoom, inFlight: b.InFlight, credit: b.Waiting}
	for _, r := range p.reps {
		waiting, oldest, trouble := r.state()
		l.waiting += waiting
		if waiting > 0 {
			l.lag = max(l.lag, now.Sub(oldest))
		}
		l.trouble = cmp.Or(trouble, l.trouble)
		db, since, comparing := r.doing()
		l.comparing = l.comparing || comparing
		if e := n.catalog.entries[db]; e != nil && now.Sub(since) > l.sends {
			l.sending, l.sends = e.Title, now.Sub(since)
			if l.sends >= longSend {
				l.size, _ = n.store.Size(db) // 0 of one that is gone
			}
		}
	}
	quiet := now.Sub(p.heard)
	if p.heard.IsZero() {
		quiet = now.Sub(n.start)
	}
	if !p.alive && quiet >= silentAfter && !n.starting() {
		cause := "not heard since " + p.heard.UTC().Format(time.RFC3339)
		if p.heard.IsZero() {
			cause = "not heard since this server started"
		}
		if b.Error != "" {
			cause += ": " + b.Error
		}
		add(EventSilent, cause)
	}
	if l.waiting > 0 && l.lag >= lagLimit {
		add(EventLag, l.cause())
	}
	if b.Twin != "" {
		add(EventTwin, "two servers show its certificate, the other at "+b.Twin+": a data folder was copied; stop one of them")
	}
	if !p.alive {
		return list
	}
	if off := time.UnixMilli(p.hello.clock).Sub(p.helloAt); p.hello.clock != 0 && off.Abs() >= clockLimit {
		word := "ahead"
		if off < 0 {
			word = "behind"
		}
		add(EventClock, "its clock is "+off.Abs().Round(time.Second).String()+" "+word+" of the one here")
	}
	if p.hello.noRoom {
		add(EventRoom, "its disk is full: it takes nothing new, and what is for it waits here")
	}
	return list
}

// Events lists what is wrong now, then what was, the newest first.
func (n *Node) Events() []Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.events.list()
}
