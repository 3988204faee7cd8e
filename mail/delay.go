package mail

import (
	"context"
	"time"

	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/wire/smtp"
)

// due returns when the router next has local work for the entry: to deliver, to report, to send a delay notice, or to
// give up. Zero means never.
func (s *Router) due(ctx context.Context, e *queue.Entry) time.Time {
	var at time.Time
	if e.Held {
		return at
	}
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if e.Dead {
		return e.Created.Add(s.opt.KeepDead)
	}
	if e.Settled() {
		return e.Created
	}
	for i := range e.Recipients {
		q := &e.Recipients[i]
		switch {
		case s.files.ours(ctx, q) && q.Next.IsZero():
			return e.Created
		case s.files.ours(ctx, q):
			sooner(q.Next)
		case q.State == queue.Waiting && s.opt.Mailer != nil:
			sooner(e.Created.Add(s.opt.KeepOther))
		}
	}
	if s.reports.wantsDelay(e) {
		sooner(e.Created.Add(s.opt.DelayReport))
	}
	return at
}

// late reports whether the sender is to be told that the recipient is delayed. Without NOTIFY the sender is told (RFC
// 3461 section 4.1).
//
// Implements: RFC 3461 §4.1 NOTIFY=DELAY
func (s *Reporter) late(q *queue.Recipient) bool {
	if q.Notify != 0 && q.Notify&smtp.NotifyDelay == 0 {
		return false
	}
	return q.State == queue.Pending || q.State == queue.Waiting && s.opt.Mailer != nil
}

func (s *Reporter) wantsDelay(e *queue.Entry) bool {
	if s.opt.DelayReport < 0 || e.Delayed || e.From.IsNull() {
		return false
	}
	for i := range e.Recipients {
		if s.late(&e.Recipients[i]) {
			return true
		}
	}
	return false
}

// outdated reports whether an entry has waited too long for another server.
func (s *Router) outdated(e *queue.Entry) bool {
	if s.opt.Mailer == nil || s.env.Clock.Now().Before(e.Created.Add(s.opt.KeepOther)) {
		return false
	}
	for i := range e.Recipients {
		if e.Recipients[i].State == queue.Waiting {
			return true
		}
	}
	return false
}

// expireWaiting ends the retries for the remote recipients of an entry that is too old.
func (s *Router) expireWaiting(ctx context.Context, e *queue.Entry) error {
	s.mu.Lock()
	sending := s.agenda.beingSent(s.queue.Boxes.KeyOf(e))
	s.mu.Unlock()
	if sending {
		return errBusy
	}
	var hops []trace.Hop
	err := s.queue.ReviseAlone(ctx, e, func(cur *queue.Entry) {
		hops = nil
		for i := range cur.Recipients {
			q := &cur.Recipients[i]
			if q.State != queue.Waiting {
				continue
			}
			if reply, host, _, _ := s.trouble(ctx, cur.TLS, q); q.Reply == "" {
				q.Reply, q.Remote = reply, host
			}
			expire(q)
			hops = append(hops, s.trace.Hop(cur, q, trace.HopBounced, q.Remote, q.Reply))
		}
	})
	if err == nil {
		s.stat.expired.Add(uint64(len(hops)))
		s.stat.transferFailed.Add(uint64(len(hops)))
		s.trace.Add(hops...)
	}
	return err
}

// trouble returns what is known about the destination of a recipient: the last failure, the time of the next attempt,
// and whether its route is on hold.
func (s *Router) trouble(ctx context.Context, tls outbound.Demand,
	q *queue.Recipient) (reply, host string, until time.Time, held bool) {
	to, err := smtp.ParsePath(q.Address)
	if err != nil {
		return "", "", time.Time{}, false
	}
	name, _, err := s.routes.destinationFor(ctx, tls, q, &to)
	if err != nil {
		return "", "", time.Time{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.agenda.dests[name]; d != nil {
		reply, host, until = d.reply, d.host, d.retryAt
	}
	return reply, host, until, name == heldName
}

// reportDelay sends the delay notice of a message, once.
func (s *Router) reportDelay(ctx context.Context, e *queue.Entry) error {
	if !s.reports.wantsDelay(e) || s.env.Clock.Now().Before(e.Created.Add(s.opt.DelayReport)) {
		return errBusy
	}
	var late []queue.Recipient
	for i := range e.Recipients {
		if q := e.Recipients[i]; s.reports.late(&q) {
			if q.State == queue.Waiting && q.Reply == "" {
				q.Reply, q.Remote, _, _ = s.trouble(ctx, e.TLS, &q)
			}
			late = append(late, q)
		}
	}
	err := s.reports.sendReport(ctx, e, late, func(cur *queue.Entry) { cur.Delayed = true })
	if err == nil {
		s.stat.delays.Inc()
	}
	return err
}

// bin removes a dead message after its retention time.
func (s *Reporter) bin(ctx context.Context, e *queue.Entry) error {
	var hops []trace.Hop
	err := s.queue.ReviseAlone(ctx, e, func(cur *queue.Entry) {
		hops = nil
		for i := range cur.Recipients {
			hops = append(hops, s.trace.Hop(cur, &cur.Recipients[i], trace.HopDropped, "", "dead for too long"))
		}
		cur.Recipients = nil
	})
	if err == nil {
		s.stat.dropped.Inc()
		s.trace.Add(hops...)
		s.env.Log.Warn("mail: dead message removed", "id", e.ID.String())
	}
	return err
}
