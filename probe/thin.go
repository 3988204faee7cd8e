package probe

import (
	"context"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Thin removes closed events that have not changed for keep, and the oldest closed ones beyond maxEvents, from memory
// and from the database, with the silences that have ended. Open and permanently closed events stay: the latter hold a
// decision of a person.
func (l *Log) Thin(ctx context.Context, keep time.Duration) (removed int, err error) {
	l.changing.Lock()
	defer l.changing.Unlock()
	now := l.env.Clock.Now()
	l.mu.Lock()
	l.drop(now.Add(-keep))
	for id, s := range l.silences {
		if !now.Before(s.Until) {
			delete(l.silences, id)
		}
	}
	l.mu.Unlock()
	var gone []note.ID
	err = l.each(ctx, func(id note.ID, it note.Items) error {
		if !l.has(it) {
			gone = append(gone, id)
		}
		return nil
	})
	for some := range slices.Chunk(gone, piece) {
		if err == nil {
			err = l.update(ctx, func(w *store.Writer) (err error) {
				for i := 0; err == nil && i < len(some); i++ {
					err = w.Destroy(some[i])
				}
				return err
			})
		}
	}
	return len(gone), err
}

// has reports whether memory holds what a note describes.
func (l *Log) has(it note.Items) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch it.Get(itemForm).AsText() {
	case formEvent:
		return l.events[unid(it.Get(itemProbe).AsText(), it.Get(itemTarget).AsText())] != nil
	case formSilence:
		return l.silences[parseSilence(it).unid()] != nil
	}
	return true
}

// drop removes closed events from memory: those that have not changed since a time, and then the oldest ones until at
// most maxEvents are left. The caller holds mu.
func (l *Log) drop(before time.Time) {
	var closed []*Event
	for id, e := range l.events {
		switch {
		case e.State != StateClosed:
		case e.Changed.Before(before) && e.Last.Before(before):
			l.forget(id)
		default:
			closed = append(closed, e)
		}
	}
	slices.SortFunc(closed, func(a, b *Event) int {
		if c := a.Changed.Compare(b.Changed); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	for _, e := range closed[:min(len(closed), max(0, len(l.events)-maxEvents))] {
		l.forget(unid(e.Probe, e.Target))
	}
}

// forget removes an event from memory. Nobody is notified of it any more. The caller holds mu.
func (l *Log) forget(id note.UNID) {
	delete(l.events, id)
	for _, o := range l.outboxes {
		delete(o.waiting, id)
	}
}
