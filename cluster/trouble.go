package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
)

// watcher checks for problems and records them as events.
type watcher struct {
	*core
	events *events
	aside  *asides
}

// asides records the notes that mates rejected.
type asides struct {
	mu sync.Mutex
	by map[asideKey]asideNotes
}

type asideKey struct {
	mate note.UNID
	db   note.DatabaseID
}

// asideNotes are the notes of one database that a mate rejected. text names the first one and the reason.
type asideNotes struct {
	notes int
	text  string
}

// note records the notes of a database that a mate rejected in a send.
func (a *asides) note(mate note.UNID, db note.DatabaseID, list []replica.Refused, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := asideKey{mate, db}
	switch {
	case len(list) > 0:
		if a.by == nil {
			a.by = map[asideKey]asideNotes{}
		}
		if _, have := a.by[key]; have || len(a.by) < maxEvents {
			a.by[key] = asideNotes{len(list), "note " + list[0].UNID.String() + ": " + list[0].Text}
		}
	case err == nil:
		delete(a.by, key)
	}
}

// byMate returns, for each mate, the databases with such notes in ascending order. It drops the entries for which keep
// returns false.
func (a *asides) byMate(keep func(asideKey) bool) map[note.UNID][]asideDatabase {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[note.UNID][]asideDatabase{}
	for key, x := range a.by {
		if !keep(key) {
			delete(a.by, key)
			continue
		}
		out[key.mate] = append(out[key.mate], asideDatabase{key.db, x})
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b asideDatabase) int { return cmp.Compare(a.db, b.db) })
	}
	return out
}

type asideDatabase struct {
	db note.DatabaseID
	asideNotes
}

// look checks for problems, at most once a second.
func (w *watcher) look() {
	v := w.members.view()
	if !w.events.begin(v.now) {
		return
	}
	states := map[note.UNID]bus.PeerState{}
	for _, p := range w.bus.Peers() {
		states[p.ID] = p
	}
	w.events.setDisk(w.store.FlushTime(), !w.store.HasSpace())
	list := append(w.own(v.now), w.setAside(v)...)
	for _, id := range v.mates {
		if l := w.links.get(id); l != nil {
			list = append(list, w.ofMate(v, v.peers[id], l, states[id])...)
		}
	}
	w.events.take(v.now, list)
}

// own returns the problems of this server.
func (w *watcher) own(now time.Time) (list []found) {
	add := func(kind EventKind, format string, args ...any) {
		list = append(list, found{eventKey{kind: kind}, fmt.Sprintf(format, args...)})
	}
	if _, noRoom := w.events.disk(); noRoom {
		add(EventRoom, "the disk here is full: nothing new is taken")
	}
	homeless, damaged, setBack := 0, 0, 0
	for h := range w.holdings.all() {
		if h.homeless() && now.Sub(h.orphaned) >= homeAfter {
			homeless++
		}
		if h.out {
			damaged++
		}
		if h.suspect {
			setBack++
		}
	}
	if homeless > 0 {
		add(EventHome, "%d databases have no live primary", homeless)
	}
	if damaged > 0 {
		add(EventDamaged, "%d replicas here are out of service; damaged ones are replaced from a mate", damaged)
	}
	if setBack > 0 {
		add(EventSetBack, "the store here was lost or restored from a backup: "+
			"%d replicas wait for their primaries to begin new terms", setBack)
	}
	if count := w.stat.ackDegraded.Value(); w.events.grown(count, now) {
		add(EventDegraded, "changes are acknowledged though no mate has confirmed them: %d since the start", count)
	}
	return list
}

// setAside returns an event for each member that rejects some notes.
func (w *watcher) setAside(v view) (list []found) {
	by := w.aside.byMate(func(key asideKey) bool {
		return v.peers[key.mate] != nil && w.catalogue.get(key.db) != nil
	})
	for mate, dbs := range by {
		first := dbs[0]
		list = append(list, found{
			eventKey{EventAside, v.members[mate].Name},
			fmt.Sprintf("%d notes of %q are set aside (databases with such notes: %d): %s",
				first.notes, w.catalogue.get(first.db).Title, len(dbs), first.text),
		})
	}
	return list
}

// ofMate returns the problems of a member.
func (w *watcher) ofMate(v view, p *peer, l *link, b bus.PeerState) (list []found) {
	name := v.members[p.id].Name
	add := func(kind EventKind, cause string) { list = append(list, found{eventKey{kind, name}, cause}) }
	if cause := v.silence(p, b.Error); cause != "" {
		add(EventSilent, cause)
	}
	if lag := w.lag(v, p, l, b); lag.waiting > 0 && lag.lag >= lagLimit {
		add(EventLag, lag.cause())
	}
	if b.Twin != "" {
		add(EventTwin, "two servers present its certificate, the other at "+b.Twin+
			": a data folder was copied; stop one of them")
	}
	if !p.alive {
		return list
	}
	if off := time.UnixMilli(p.hello.clock).Sub(p.helloAt); p.hello.clock != 0 && off.Abs() >= clockLimit {
		word := "ahead of"
		if off < 0 {
			word = "behind"
		}
		add(EventClock, "its clock is "+off.Abs().Round(time.Second).String()+" "+word+" the clock here")
	}
	if p.hello.noRoom {
		add(EventRoom, "its disk is full: it takes nothing new, and changes for it wait here")
	}
	return list
}

// silence returns the cause of an event if a mate has been silent for too long; else "".
func (v view) silence(p *peer, err string) string {
	heard, since := p.heard, "no answer since "+p.heard.UTC().Format(time.RFC3339)
	if heard.IsZero() {
		heard, since = v.start, "no answer since this server started"
	}
	if p.alive || v.now.Sub(heard) < silentAfter || v.starting() {
		return ""
	}
	if err != "" {
		since += ": " + err
	}
	return since
}

// lag collects the state of replication to a mate.
func (w *watcher) lag(v view, p *peer, l *link, b bus.PeerState) *lagging {
	flush, _ := w.events.disk()
	out := &lagging{
		name: v.members[p.id].Name, alive: p.alive, heard: p.heard, rtt: p.rtt, flush: p.hello.flush, ownFlush: flush,
		noRoom: p.hello.noRoom, inFlight: b.InFlight, credit: b.Waiting,
	}
	waiting := l.state(v.now)
	out.waiting, out.lag, out.trouble = waiting.databases, waiting.lag, waiting.trouble
	for _, r := range l.reps {
		db, since, comparing := r.doing()
		out.comparing = out.comparing || comparing
		if e := w.catalogue.get(db); e != nil && v.now.Sub(since) > out.sends {
			out.sending, out.sends = e.Title, v.now.Sub(since)
			if out.sends >= longSend {
				out.size, _ = w.store.Size(db) // 0 if it is gone
			}
		}
	}
	return out
}
