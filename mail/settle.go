package mail

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/env"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// settlement is the outcome of sending an entry to one destination, before it is written to mail.box. The entry stays
// busy until then, so that it is not sent twice unless the process dies in between.
type settlement struct {
	key      queue.Key
	dest     *destination
	outcomes []outcome
	again    bool
	took     time.Duration
	size     uint64

	// The results of the update. trouble is set if it failed.
	gone, trouble bool
	sent, bounced int
	created       time.Time
	hops          []trace.Hop
}

// outcome is the result for one recipient.
type outcome struct {
	address string
	target  note.UNID // zero outside the domain
	reply   *smtp.Reply
	remote  string
	secure  string // protection of the connection
	relayed bool
	// permanent and unreached mean that there was no session: permanently, or for now.
	permanent, unreached bool
}

// maxSettle is the maximum number of entries that one update settles.
const maxSettle = 500

// settler collects the settlements of one mail.box. While an update runs, new settlements wait for the next one, so
// that under load more of them share an update.
type settler struct {
	pending []*settlement
	running bool
	// stuck holds settlements whose update failed. They are retried later, and their entries stay busy, because a
	// message that another server has accepted must not be sent again. waits is set if the retry timer is set.
	stuck []*settlement
	waits bool
}

// start marks an update as running. It returns false if one is running already, or if there is nothing to write.
func (w *settler) start() bool {
	if w.running || len(w.pending) == 0 {
		return false
	}
	w.running = true
	return true
}

// retry marks the retry timer as set. It returns false if it is set already, or not needed.
func (w *settler) retry() bool {
	if w.waits || len(w.stuck) == 0 {
		return false
	}
	w.waits = true
	return true
}

// conclude queues a settlement for writing. It returns at once.
func (s *outcomes) conclude(f *settlement) {
	s.mu.Lock()
	w := s.settler(f.key.Box())
	w.pending = append(w.pending, f)
	s.unsettled++
	s.inFlight--
	start := w.start()
	s.mu.Unlock()
	if start {
		s.env.Go("settle mail.box", func() { s.settling(f.key.Box()) })
	}
}

// settleStuck retries the failed settlements.
func (s *outcomes) settleStuck(box int) {
	s.mu.Lock()
	w := s.settler(box)
	w.waits = false
	s.unsettled += len(w.stuck)
	w.pending, w.stuck = append(w.pending, w.stuck...), nil
	start := w.start()
	s.mu.Unlock()
	if start {
		s.env.Go("settle mail.box", func() { s.settling(box) })
	}
}

// settling writes the pending settlements of a mail.box until there are none.
func (s *outcomes) settling(box int) {
	for {
		s.mu.Lock()
		w := s.settler(box)
		list := w.pending[:min(len(w.pending), maxSettle):min(len(w.pending), maxSettle)]
		w.pending = w.pending[len(list):]
		if len(list) == 0 {
			w.pending, w.running = nil, false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if s.beforeSettle != nil {
			s.beforeSettle()
		}
		s.settleAll(box, list)
		s.mu.Lock()
		s.unsettled -= len(list)
		for _, f := range list {
			if f.trouble {
				w.stuck = append(w.stuck, f)
				continue
			}
			s.agenda.done(f.key, f.dest, f.gone, f.again)
		}
		retry := w.retry()
		s.moved.Broadcast()
		s.mu.Unlock()
		if retry {
			s.env.Clock.AfterFunc(troublePause, func() { s.settleStuck(box) })
		}
		nudge(s.wakeOut)
		nudge(s.wakeLocal)
	}
}

// settleAll writes settlements in one update. If that fails for a reason other than disk space, it writes each in its
// own update, so that a bad one does not block the others.
func (s *outcomes) settleAll(box int, list []*settlement) {
	err := s.settleIn(box, list)
	switch {
	case errors.Is(err, store.ErrClosed):
		return
	case errors.Is(err, store.ErrNotFound): // the database was deleted on all servers
		for _, f := range list {
			f.gone = true
		}
		return
	case err != nil && len(list) > 1 && !errors.Is(err, store.ErrNoSpace):
		for i := range list {
			s.settleAll(box, list[i:i+1])
		}
		return
	}
	for _, f := range list {
		if f.trouble = err != nil; f.trouble {
			s.env.Log.Error("mail: cannot store an outcome, retrying", "note", uint64(f.key.Note()), "err", err)
		}
	}
	if err != nil {
		return
	}
	var hops []trace.Hop
	for _, f := range list {
		s.stat.transferred(f.sent, f.size, f.took, s.env.Clock.Now().Sub(f.created))
		s.stat.transferFailed.Add(uint64(f.bounced))
		hops = append(hops, f.hops...)
	}
	s.trace.Add(hops...)
}

func (s *outcomes) settleIn(box int, list []*settlement) error {
	var moved queue.Tally
	db := s.queue.Boxes.Of(queue.MakeKey(box, 0)).ID
	err := s.store.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		moved = queue.Tally{}
		w, err := tx.Database(db) // a reply is written wherever the home is now
		if err != nil {
			return err
		}
		w.Unconfirmed()
		for _, f := range list {
			t, err := s.settleOne(w, f)
			if err != nil {
				return err
			}
			moved = moved.Plus(t)
		}
		return nil
	})
	if err == nil {
		s.queue.Moved(db, moved)
	}
	return err
}

func (s *outcomes) settleOne(w *store.Writer, f *settlement) (queue.Tally, error) {
	f.gone, f.sent, f.bounced, f.hops = false, 0, 0, f.hops[:0]
	e, err := queue.Load(&w.Reader, f.key.Note())
	if errors.Is(err, store.ErrNotFound) {
		f.gone = true
		return queue.Tally{}, nil
	}
	if err != nil {
		return queue.Tally{}, err
	}
	f.created = e.Created
	return s.queue.Alter(w, e, func(e *queue.Entry) error {
		for i := range f.outcomes {
			s.apply(e, &f.outcomes[i], f)
		}
		f.gone = len(e.Recipients) == 0
		return nil
	})
}

// apply writes an outcome to an entry.
func (s *outcomes) apply(e *queue.Entry, o *outcome, f *settlement) {
	i := slices.IndexFunc(e.Recipients, func(q queue.Recipient) bool {
		return q.State == queue.Waiting && q.Address == o.address && q.Target == o.target
	})
	if i < 0 {
		return
	}
	q := &e.Recipients[i]
	reply := short(o.reply)
	hop := s.trace.Hop(e, q, trace.HopSent, o.remote, reply)
	hop.Secure = o.secure
	switch {
	case o.reply.Positive():
		f.sent++
		if o.relayed && q.Notify&smtp.NotifySuccess != 0 && !e.From.IsNull() {
			hop.Event = trace.HopRelayed
			q.State, q.Reply, q.Remote = queue.Relayed, reply, o.remote
			q.Attempts++
		} else {
			e.Recipients = slices.Delete(e.Recipients, i, i+1)
		}
	case o.permanent, !o.reply.Temporary() && !o.unreached:
		f.bounced++
		hop.Event = trace.HopBounced
		q.State, q.Reply, q.Remote = queue.Failed, reply, o.remote
		q.Attempts++
	default:
		hop.Event = trace.HopDeferred
		now := s.env.Clock.Now()
		q.Next, q.Reply, q.Remote = now.Add(s.opt.pause(q.Attempts, !q.Target.IsZero())), reply, o.remote
		q.Attempts++
		if now.Sub(e.Created) >= s.opt.KeepOther {
			f.bounced++
			hop.Event = trace.HopBounced
			expire(q)
		}
	}
	f.hops = append(f.hops, hop)
}

// expire marks a remote recipient as failed after the last retry.
func expire(q *queue.Recipient) {
	text := replyTooLong.Error()
	if q.Reply != "" {
		text += ". Last: " + q.Reply
	}
	q.State, q.Reply = queue.Failed, text[:min(len(text), maxErrorText)]
}

// sent ends the work on an entry for which there was nothing to send.
func (s *transfers) sent(k queue.Key, d *destination, gone, again bool) {
	s.mu.Lock()
	s.inFlight--
	s.agenda.done(k, d, gone, again)
	s.moved.Broadcast()
	s.mu.Unlock()
	nudge(s.wakeOut)
}

// postpone returns an entry that could not be processed to the agenda, to be tried again after a pause.
func (s *transfers) postpone(k queue.Key, d *destination, pause time.Duration) {
	s.mu.Lock()
	s.inFlight--
	s.agenda.done(k, d, false, false)
	now := s.env.Clock.Now()
	s.agenda.readd(k, d, dueFrom(now.Add(pause), now), seconds(now))
	s.moved.Broadcast()
	s.mu.Unlock()
	nudge(s.wakeOut)
}

// readd adds another appointment for an entry, with its current generation and rank; d is nil for local work.
func (a *agenda) readd(k queue.Key, d *destination, due, now uint32) {
	g, ok := a.gens[k]
	if !ok {
		return
	}
	x := g.item(k)
	x.due = due
	a.items++
	if d == nil {
		a.local.add(x, now)
		return
	}
	d.add(x, now)
	a.arrange(d)
}

// remoteName returns a server's name without its address.
func remoteName(remote string) string {
	name, _, _ := strings.Cut(remote, "[")
	return name
}

// outcomes writes the replies of other servers to mail.box.
type outcomes struct {
	*board
	store *store.Store
	env   *env.Env
	queue *queue.Queue
	trace *trace.Trace
	opt   *Options
	stat  *routerStats

	beforeSettle func() // for tests: called between the reply of a server and the update
}
