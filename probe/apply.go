package probe

import (
	"context"
	"log/slog"
	"time"

	"doublet/note"
)

// fold makes the events of a probe follow the findings of one run. Of two findings with one target the first counts.
func (m *Monitor) fold(r *running, list []Finding, now time.Time) {
	l, k := m.log, r.Kind
	l.changing.Lock()
	defer l.changing.Unlock()
	mine, room := l.of(k.Name)
	before := r.held
	r.held, r.left = map[note.UNID]time.Time{}, max(0, len(list)-maxLooked)
	list = list[:min(len(list), maxLooked)]
	seen := map[note.UNID]bool{}
	for i := range list {
		f := &list[i]
		f.Target = cut(f.Target, maxTarget)
		id := unid(k.Name, f.Target)
		e := mine[id]
		if _, waits := r.held[id]; waits || seen[id] {
			continue
		}
		if e == nil || e.State == StateClosed && !e.dismissed {
			if !r.lasts(id, before, room, now) {
				continue
			}
			room--
		}
		seen[id] = true
		m.apply(e, k, f, now)
	}
	for id, e := range mine {
		if !seen[id] && (e.State == StateOpen || e.State == StateClosed && e.dismissed) {
			c := e.clone()
			m.tell(c, c.missed(k, now))
		}
	}
}

// lasts reports whether a problem without an open event has lasted for Hold and there is room for its event. Otherwise
// it is held, or left out if too many are held. before are the problems that the last run held.
func (r *running) lasts(id note.UNID, before map[note.UNID]time.Time, room int, now time.Time) bool {
	since, known := before[id]
	if !known {
		since = now
	}
	lasted := now.Sub(since) >= r.Hold
	if lasted && room > 0 {
		return true
	}
	if lasted || len(r.held) >= maxFindings {
		r.left++
	}
	if len(r.held) < maxFindings {
		r.held[id] = since
	}
	return false
}

// apply folds one finding.
func (m *Monitor) apply(old *Event, k *Kind, f *Finding, now time.Time) {
	if old == nil {
		m.tell(newEvent(k, f, now), news)
		return
	}
	c := old.clone()
	m.tell(c, c.seen(k, f, now))
}

// tell stores an event in memory and logs it if it is news.
func (m *Monitor) tell(e *Event, what outcome) {
	m.log.put(e, what)
	if what != news {
		return
	}
	level, word := slog.LevelInfo, "event closed"
	if e.State == StateOpen {
		level, word = slog.LevelWarn, "event open"
		if e.Severity >= Failure {
			level = slog.LevelError
		}
	}
	m.env.Log.LogAttrs(context.Background(), level, word, slog.String("id", e.ID), slog.String("type", string(e.Type)),
		slog.String("probe", e.Probe), slog.String("target", e.Target), slog.String("severity", e.Severity.String()),
		slog.String("cause", e.Cause))
}

// of returns the events of a probe, and for how many more there is room. It drops old closed events to make room.
func (l *Log) of(probe string) (mine map[note.UNID]*Event, room int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) > maxEvents {
		l.drop(time.Time{})
	}
	mine = map[note.UNID]*Event{}
	open, own, kept := 0, 0, 0
	for id, e := range l.events {
		if e.State == StateOpen {
			open++
		}
		if e.State != StateClosed {
			kept++
		}
		if e.Probe != probe {
			continue
		}
		mine[id] = e
		if e.State == StateOpen {
			own++
		}
	}
	return mine, min(maxFindings-own, maxOpen-open, maxEvents-kept)
}
