package mail

import (
	"context"
	"slices"
	"strings"
	"time"

	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/note"
	"doublet/wire/smtp"
)

// Show returns the entry of a message by queue ID, and its header. Errors: queue.ErrNotQueued.
func (s *Service) Show(ctx context.Context, id note.UNID) (queue.Entry, []byte, error) {
	e, err := s.Queue.Find(ctx, id)
	if err != nil {
		return queue.Entry{}, nil, err
	}
	head, _, err := s.Router.reports.returned(ctx, e, nil)
	return *e, head, err
}

// Retry makes all recipients of a message due now, also those of a dead message.
func (s *Service) Retry(ctx context.Context, id note.UNID) error {
	var now queue.Entry
	err := s.Queue.Change(ctx, id, func(e *queue.Entry) {
		for i := range e.Recipients {
			q := &e.Recipients[i]
			q.Next = time.Time{}
			if q.State == queue.Failed && e.Dead {
				q.State = queue.Pending
				if q.Target.IsZero() {
					q.State = queue.Waiting
				}
			}
		}
		e.Dead = false
		now = *e
	})
	if err == nil {
		s.Router.probe(ctx, &now)
	}
	return err
}

// Hold holds a message in mail.box until it is released.
func (s *Service) Hold(ctx context.Context, id note.UNID) error {
	return s.Queue.Change(ctx, id, func(e *queue.Entry) { e.Held = true })
}

// Release ends a hold; see Moderation.Release.
func (s *Service) Release(ctx context.Context, id note.UNID) error {
	return s.Moderation.Release(ctx, id)
}

// Drop removes a message from mail.box. No report is sent.
func (s *Service) Drop(ctx context.Context, id note.UNID) error {
	var hops []trace.Hop
	err := s.Queue.Change(ctx, id, func(e *queue.Entry) {
		hops = nil
		for i := range e.Recipients {
			hops = append(hops, s.Trace.Hop(e, &e.Recipients[i], trace.HopDropped, "", ""))
		}
		e.Recipients = nil
	})
	if err == nil {
		s.Trace.Add(hops...)
	}
	return err
}

// Traffic describes the waiting mail of a destination.
type Traffic struct {
	// Destination is a domain, or the server that a route names.
	Destination string
	// Due and Waiting are the numbers of messages that are due now and later. Sending is the number of messages being
	// sent.
	Due, Waiting, Sending int
	Connections           int
	// Failures counts consecutive failures, and the destination is suspended until Until. Reply is the last failure,
	// Host the server that sent it.
	Failures int
	Until    time.Time
	Reply    string
	Host     string
}

// Destinations returns all destinations with waiting mail, by name. It shows the router's index, which may contain a
// changed message twice for a while. It is empty if the router does not run.
func (s *Router) Destinations() []Traffic {
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

// probe makes suspended destinations of an entry be tried at once.
func (s *Router) probe(ctx context.Context, e *queue.Entry) {
	for i := range e.Recipients {
		q := &e.Recipients[i]
		to, err := smtp.ParsePath(q.Address)
		if q.State != queue.Waiting || err != nil {
			continue
		}
		name, _, err := s.routes.destinationFor(ctx, e.TLS, q, &to)
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

// Known adds to an entry's waiting recipients the failure and the next attempt of their suspended destinations.
func (s *Router) Known(ctx context.Context, e *queue.Entry) {
	for i := range e.Recipients {
		q := &e.Recipients[i]
		if q.State != queue.Waiting {
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

// queueStats adds the statistics of the destinations to the tree.
func (s *Router) queueStats() {
	t := s.opt.Stats
	gauge := func(name, help string, fn func() int) {
		t.GaugeFunc(name, help, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(fn())
		})
	}
	gauge("Mail.Transfer.Destinations", "destinations that are known to the router now",
		func() int { return len(s.agenda.dests) })
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
