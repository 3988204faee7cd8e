package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
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
// bounded as the events are: what drop removes leaves the outboxes too. The cursor in the database is the sequence up
// to which everything was sent. Flush writes it, so that a channel does not wait for the disk: over a restart nothing
// is lost, and after a crash what was sent since the last Flush is sent again. The log's mu guards waiting, deliver
// the rest.
type outbox struct {
	Channel
	waiting map[note.UNID]*Event
	next    time.Time
	pause   time.Duration
}

func (o *outbox) add(id note.UNID, e *Event) {
	if e.worst >= o.Least { // its end is notified as its worst time was
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
		l.cursors[c.Name], l.moved[c.Name] = l.last, true
	}
	l.outboxes = append(l.outboxes, o)
}

// Notify sends what waits on every channel until ctx ends. A channel that does not answer does not stop the others:
// a mail waits for the disk, the webhook that reports the disk does not.
func (l *Log) Notify(ctx context.Context) error {
	var all sync.WaitGroup
	for _, o := range l.outboxes {
		all.Add(1)
		l.env.Go("notify "+o.Name, func() {
			defer all.Done()
			l.serve(ctx, o)
		})
	}
	<-ctx.Done()
	all.Wait()
	return l.Flush(context.WithoutCancel(ctx)) // the cursors
}

func (l *Log) serve(ctx context.Context, o *outbox) {
	for {
		l.deliver(ctx, o)
		select {
		case <-l.env.Clock.After(Tick):
		case <-ctx.Done():
			return
		}
	}
}

// Deliver sends one batch on each channel that has something to send and does not pause.
func (l *Log) Deliver(ctx context.Context) {
	for _, o := range l.outboxes {
		l.deliver(ctx, o)
	}
}

func (l *Log) deliver(ctx context.Context, o *outbox) {
	now := l.env.Clock.Now()
	list, more := l.batch(o)
	if len(list) == 0 || now.Before(o.next) {
		return
	}
	err := o.try(ctx, list, more)
	switch {
	case err == nil:
		o.pause, o.next = 0, now.Add(o.Every)
		l.sent(o, list)
		return
	case errors.Is(err, ErrLater), ctx.Err() != nil:
		return
	}
	o.pause = min(max(firstPause, 2*o.pause), maxPause)
	o.next = now.Add(o.pause)
	l.env.Log.Warn("events cannot be notified, retrying", "channel", o.Name, "waiting", len(list)+more, "err", err)
}

// try sends a batch. A panic of the channel is an error, so that it does not stop the server.
func (o *outbox) try(ctx context.Context, list []Event, more int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return o.Send(ctx, list, more)
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

// sent removes sent events from an outbox and moves its cursor. An event that has changed since stays.
func (l *Log) sent(o *outbox, list []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range list {
		id := unid(e.Probe, e.Target)
		if w := o.waiting[id]; w != nil && w.sequence == e.sequence {
			delete(o.waiting, id)
		}
	}
	l.cursors[o.Name], l.moved[o.Name] = list[len(list)-1].sequence, true
}

// flushCursors writes the cursors that have moved. The caller holds changing.
func (l *Log) flushCursors(ctx context.Context) error {
	l.mu.Lock()
	moved := map[string]int64{}
	for name := range l.moved {
		moved[name] = l.cursors[name]
	}
	l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		err := l.update(ctx, func(w *store.Writer) error {
			items := note.MakeItems(textItem(itemForm, formCursor), textItem(itemChannel, name),
				intItem(itemSequence, moved[name]))
			return w.Put(note.DeriveUNID([]byte("cursor"), []byte(name)), note.Document, note.Content{Items: items})
		})
		if err != nil {
			return fmt.Errorf("cursor of %s: %w", name, err)
		}
		l.mu.Lock()
		if l.cursors[name] == moved[name] {
			delete(l.moved, name)
		}
		l.mu.Unlock()
	}
	return nil
}
