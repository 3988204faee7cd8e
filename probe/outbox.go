package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
)

// ErrLater makes an outbox wait without a complaint: its channel cannot be used now.
var ErrLater = errors.New("notifications wait")

// Channel is a way on which changes of events leave the server.
type Channel struct {
	Name string
	// Least is the least severity that is notified, Every the least time between two notifications.
	Least Severity
	Every time.Duration
	// Batch is the number of events that Send takes at most. more is the number of those that follow.
	Batch int
	Send  func(ctx context.Context, list []Event, more int) error
}

// The pause after a failed notification. It doubles.
const (
	firstPause = 30 * time.Second
	maxPause   = time.Hour
)

// outbox holds the events that a channel has not sent: at most one entry for each event, its latest state. So it is
// bounded as the events are. The cursor in the database is the sequence up to which everything was sent: over a restart
// nothing is lost, and nothing is sent twice except what was under way. The log's mu guards waiting, Deliver the rest.
type outbox struct {
	Channel
	waiting map[note.UNID]*Event
	next    time.Time
	pause   time.Duration
}

func (o *outbox) add(id note.UNID, e *Event) {
	if e.Severity >= o.Least {
		o.waiting[id] = e
	}
}

// Attach makes a channel send the changes of events: from now on if it is new, else those that it has not sent. It is
// called before the first round.
func (l *Log) Attach(c Channel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &outbox{Channel: c, waiting: map[note.UNID]*Event{}}
	if from, known := l.cursors[c.Name]; known {
		for id, e := range l.events {
			if e.sequence > from {
				o.add(id, e)
			}
		}
	} else {
		l.cursors[c.Name] = l.last
	}
	l.outboxes = append(l.outboxes, o)
}

// Notify sends what waits on every channel until ctx ends.
func (l *Log) Notify(ctx context.Context) error {
	for {
		l.Deliver(ctx)
		select {
		case <-l.env.Clock.After(Tick):
		case <-ctx.Done():
			return nil
		}
	}
}

// Deliver sends one batch on each channel that has something to send and does not pause.
func (l *Log) Deliver(ctx context.Context) {
	for _, o := range l.outboxes {
		now := l.env.Clock.Now()
		list, more := l.batch(o)
		if len(list) == 0 || now.Before(o.next) {
			continue
		}
		err := o.Send(ctx, list, more)
		switch {
		case err == nil:
			o.pause, o.next = 0, now.Add(o.Every)
			err = l.sent(ctx, o, list)
		case errors.Is(err, ErrLater):
			continue
		default:
			o.pause = min(max(firstPause, 2*o.pause), maxPause)
			o.next = now.Add(o.pause)
		}
		if err != nil && ctx.Err() == nil {
			l.env.Log.Warn("events cannot be notified, "+
				"retrying", "channel", o.Name, "waiting", len(list)+more, "err", err)
		}
	}
}

// batch returns the oldest changes that wait in an outbox, and the number of the others.
func (l *Log) batch(o *outbox) (list []Event, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range o.waiting {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Event) int { return int(max(-1, min(1, a.sequence-b.sequence))) })
	n := min(len(list), o.Batch)
	return list[:n], len(list) - n
}

// sent removes sent events from an outbox and stores the cursor. An event that has changed since stays.
func (l *Log) sent(ctx context.Context, o *outbox, list []Event) error {
	cursor := list[len(list)-1].sequence
	l.mu.Lock()
	for _, e := range list {
		id := unid(e.Probe, e.Target)
		if w := o.waiting[id]; w != nil && w.sequence == e.sequence {
			delete(o.waiting, id)
		}
	}
	l.cursors[o.Name] = cursor
	l.mu.Unlock()
	l.changing.Lock()
	defer l.changing.Unlock()
	err := l.update(ctx, func(w *store.Writer) error {
		items := note.MakeItems(textItem(itemForm, formCursor), textItem(itemChannel, o.Name),
			intItem(itemSequence, cursor))
		return w.Put(note.DeriveUNID([]byte("cursor"), []byte(o.Name)), note.Document, note.Content{Items: items})
	})
	if err != nil {
		return fmt.Errorf("cursor of %s: %w", o.Name, err)
	}
	return nil
}
