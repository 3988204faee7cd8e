package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// List lists the messages in mail.box in order of arrival, at most limit (1,000 where 0) from
// after, which is empty at the beginning. next is where to go on, empty at the end.
func (s *Service) List(ctx context.Context, limit int, after string) (list []Entry, next string, err error) {
	if limit <= 0 {
		limit = 1000
	}
	var from place
	if after != "" {
		if _, err := fmt.Sscanf(after, "%d.%d", &from.box, &from.note); err != nil {
			return nil, "", fmt.Errorf("mail: list: not a place in the queue: %.40q", after)
		}
	}
	err = s.eachEntry(ctx, from, func(e *Entry) bool {
		if len(list) == limit {
			next = fmt.Sprintf("%d.%d", uint64(e.box), uint64(e.note))
			return false
		}
		list = append(list, *e)
		return true
	})
	return list, next, err
}

// OwnerOf is the member of a cluster in whose mail.box a message waits; zero where the server is, or was, alone.
func (s *Service) OwnerOf(e *Entry) note.UNID {
	if b := s.boxOf(e.box); b != nil {
		return b.owner
	}
	return note.UNID{}
}

// Show returns one message's entry by queue id, and the first bytes of its header. Errors:
// ErrNotQueued.
func (s *Service) Show(ctx context.Context, id note.UNID) (Entry, []byte, error) {
	var e *Entry
	box, err := s.locate(ctx, id)
	if err != nil {
		return Entry{}, nil, err
	}
	err = s.store.Read(ctx, note.System, box, func(r *store.Reader) error {
		n, err := r.Find(id)
		if err != nil {
			return err
		}
		e, err = load(r, n)
		return err
	})
	if err != nil {
		return Entry{}, nil, notQueued(err)
	}
	head, _, err := s.returned(ctx, e, nil)
	return *e, head, err
}

func notQueued(err error) error {
	if errors.Is(err, store.ErrNotHome) {
		return ErrHomeElsewhere
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return ErrNotQueued
	}
	return err
}

// Retry makes all recipients of a message due now, those of a dead one too.
func (s *Service) Retry(ctx context.Context, id note.UNID) error {
	var now Entry
	err := s.change(ctx, id, func(e *Entry) {
		for i := range e.Recipients {
			q := &e.Recipients[i]
			q.Next = time.Time{}
			if q.State == Failed && e.Dead {
				q.State = Pending
				if q.Target.IsZero() {
					q.State = Waiting
				}
			}
		}
		e.Dead = false
		now = *e
	})
	if err == nil {
		s.probe(ctx, &now)
	}
	return err
}

// Hold keeps a message in mail.box until it is released.
func (s *Service) Hold(ctx context.Context, id note.UNID) error {
	return s.change(ctx, id, func(e *Entry) { e.Held = true })
}

// Drop removes a message from mail.box. Nobody is told.
func (s *Service) Drop(ctx context.Context, id note.UNID) error {
	var hops []Hop
	err := s.change(ctx, id, func(e *Entry) {
		hops = nil
		for i := range e.Recipients {
			hops = append(hops, s.hop(e, &e.Recipients[i], HopDropped, "", ""))
		}
		e.Recipients = nil
	})
	if err == nil {
		s.trace.add(hops...)
	}
	return err
}

// change changes an entry; what changes nothing writes nothing.
func (s *Service) change(ctx context.Context, id note.UNID, fn func(*Entry)) error {
	box, err := s.locate(ctx, id)
	if err != nil {
		return err
	}
	err = s.settleEntry(ctx, box, func(w *store.Writer) (tally, error) {
		n, err := w.Find(id)
		if err != nil {
			return tally{}, err
		}
		e, err := load(&w.Reader, n)
		if err != nil {
			return tally{}, err
		}
		was := *e
		was.Recipients = slices.Clone(e.Recipients)
		fn(e)
		if e.Held == was.Held && e.Dead == was.Dead && slices.Equal(e.Recipients, was.Recipients) {
			return tally{}, nil
		}
		return s.save(w, e, was.tally())
	})
	return notQueued(err)
}

// Traffic is what waits for a destination.
type Traffic struct {
	// Destination is a domain, or the server that a route names.
	Destination string
	// Due and Waiting are messages that could be sent now, and later; Sending are on their way.
	Due, Waiting, Sending int
	Connections           int
	// Failures in a row, and until when the destination is left alone for them. Reply is why, Host
	// who said so.
	Failures int
	Until    time.Time
	Reply    string
	Host     string
}

// Destinations tells of every destination that something waits for, by name. It is the router's
// view, in which a message that has changed may stand twice for a while; it is empty in a server
// that does not route.
func (s *Service) Destinations() []Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agenda.sweep()
	out := make([]Traffic, 0, len(s.agenda.dests))
	for _, d := range s.agenda.dests {
		out = append(out, Traffic{
			Destination: d.name, Due: len(d.ready), Waiting: len(d.later), Sending: d.busy, Connections: d.open,
			Failures: d.failures, Until: d.retryAt, Reply: d.reply, Host: d.host,
		})
	}
	slices.SortFunc(out, func(a, b Traffic) int { return strings.Compare(a.Destination, b.Destination) })
	return out
}

// probe lets destinations that are left alone be tried at once.
func (s *Service) probe(ctx context.Context, e *Entry) {
	for i := range e.Recipients {
		q := &e.Recipients[i]
		to, err := smtp.ParsePath(q.Address)
		if q.State != Waiting || err != nil {
			continue
		}
		name, _, err := s.destinationFor(ctx, e.TLS, q, &to)
		if err != nil {
			continue
		}
		s.mu.Lock()
		if d := s.agenda.dests[name]; d != nil {
			d.retryAt = time.Time{}
			s.agenda.arrange(d)
		}
		s.mu.Unlock()
	}
	nudge(s.wakeOut)
}

// Known completes an entry's recipients that wait for a destination that is left alone, with why and
// until when.
func (s *Service) Known(ctx context.Context, e *Entry) {
	for i := range e.Recipients {
		q := &e.Recipients[i]
		if q.State != Waiting {
			continue
		}
		reply, host, until, held := s.trouble(ctx, e.TLS, q)
		if q.Reply == "" {
			q.Reply, q.Remote = reply, host
		}
		if until.After(q.Next) {
			q.Next = until
		}
		if held && q.Reply == "" {
			q.Reply = "the route is on hold"
		}
	}
}

// queueStats puts into the tree what is known of destinations.
func (s *Service) queueStats() {
	t := s.opt.Stats
	gauge := func(name, help string, fn func() int) {
		t.GaugeFunc(name, help, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(fn())
		})
	}
	gauge("Mail.Transfer.Destinations", "destinations that are known to the router now", func() int { return len(s.agenda.dests) })
	gauge("Mail.Transfer.OpenConnections", "connections to other mail servers", func() int { return s.lanes })
	gauge("Mail.Transfer.Appointments", "entries of the router's index in memory", func() int { return s.agenda.items })
	gauge("Mail.Transfer.Unreachable", "destinations that are left alone for a while after failures", func() int {
		n := 0
		for _, d := range s.agenda.dests {
			if d.failures > 0 {
				n++
			}
		}
		return n
	})
}
