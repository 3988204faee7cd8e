package mail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/smtp"
)

// Limits of the router: the number of entries read from mail.box at a time, and the delay after an error with an entry.
const (
	catchUpStep  = 1000
	troublePause = time.Minute
)

// Run is the router: it processes mail.box until ctx ends. Each server runs it once. Local delivery and sending run in
// separate goroutines, so that neither waits for the other.
func (s *Router) Run(ctx context.Context) error {
	var out sync.WaitGroup
	out.Add(2)
	ctx, cancel := context.WithCancel(ctx)
	s.env.Go("router: count", func() {
		defer out.Done()
		s.queue.CountRest(ctx)
	})
	s.env.Go("router: transfer", func() {
		defer out.Done()
		s.transfers.sending(ctx, s.catchUp)
	})
	defer func() {
		cancel()
		out.Wait()
		s.trace.Flush(context.Background())
	}()
	for ctx.Err() == nil {
		next, err := s.Route(ctx)
		if errors.Is(err, store.ErrClosed) {
			return fmt.Errorf("mail: router: %w", err)
		}
		if err != nil && ctx.Err() == nil {
			s.env.Log.Error("mail: router", "err", err)
			next = s.env.Clock.Now().Add(troublePause)
		}
		if again := s.env.Clock.Now().Add(queue.HomePoll); s.queue.Boxes.Member() &&
			(next.IsZero() || again.Before(next)) {
			next = again
		}
		stop := func() bool { return true }
		if !next.IsZero() {
			stop = s.env.Clock.AfterFunc(next.Sub(s.env.Clock.Now()), func() { nudge(s.wakeLocal) })
		}
		select {
		case <-ctx.Done():
		case <-s.wakeLocal:
		}
		stop()
	}
	return nil
}

// Flush does all work in mail.box that is due now, local and remote, and closes its connections. Do not call it while
// Run is running.
func (s *Router) Flush(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.transfers.endLanes()
	for {
		if _, err := s.Route(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		gen := s.agenda.gen
		s.mu.Unlock()
		s.transfers.dispatch(inner)
		s.mu.Lock()
		for s.inFlight > 0 || s.unsettled > 0 || s.lanes > len(s.idle) {
			s.moved.Wait()
		}
		quiet := s.agenda.gen == gen && len(s.agenda.runnable) == 0 && len(s.agenda.refresh) == 0
		s.mu.Unlock()
		if !quiet {
			continue
		}
		more, err := s.catchUp(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		quiet = s.agenda.gen == gen && !more
		s.mu.Unlock()
		if quiet {
			s.trace.Flush(ctx)
			return nil
		}
	}
}

// Route does all local work in mail.box that is due now. It returns the time of the next work, or zero if there is none
// until mail.box changes.
func (s *Router) Route(ctx context.Context) (next time.Time, err error) {
	s.routing.Lock()
	defer s.routing.Unlock()
	for {
		more, err := s.catchUp(ctx)
		if err != nil {
			return time.Time{}, err
		}
		s.mu.Lock()
		k, due, ok := s.agenda.next(s.env.Clock.Now())
		if !ok && more {
			s.mu.Unlock()
			continue
		}
		if !ok && s.agenda.spilled(s.env.Clock.Now()) {
			s.readAnew()
			s.mu.Unlock()
			continue
		}
		s.mu.Unlock()
		if !ok {
			return due, nil
		}
		due, err = s.routeOne(ctx, k)
		if errors.Is(err, store.ErrNotHome) {
			continue // another server leads it now
		}
		if err != nil {
			if ctx.Err() == nil {
				s.env.Log.Error("mail: entry of mail.box", "note", uint64(k.Note()), "err", err)
			}
			due = s.env.Clock.Now().Add(troublePause)
		}
		now := s.env.Clock.Now()
		if ctx.Err() != nil {
			due = now // for the next start of the router
		}
		if !due.IsZero() {
			s.mu.Lock()
			s.agenda.readd(k, nil, dueFrom(due, now), seconds(now))
			s.mu.Unlock()
		}
		if ctx.Err() != nil {
			return time.Time{}, ctx.Err()
		}
	}
}

// catchUp reads the changes of mail.box, or everything if the routes have changed. It reads one piece of each database,
// so that the router works on the known entries while a long queue is still being read. more reports whether there is
// more to read.
func (s *Router) catchUp(ctx context.Context) (more bool, err error) {
	s.catching.Lock()
	defer s.catching.Unlock()
	edition, err := s.dir.Routes.Edition(ctx)
	if err != nil {
		return false, fmt.Errorf("routes: %w", err)
	}
	servers, err := s.dir.Servers.Edition(ctx)
	if err != nil {
		return false, err
	}
	edition += servers // both only increase
	s.mu.Lock()
	if s.edition != edition {
		if s.edition != 0 {
			s.readAnew()
		}
		s.edition = edition
	}
	again := s.agenda.refresh
	s.agenda.refresh = nil
	s.mu.Unlock()
	for i, k := range again {
		if err := s.lookAgain(ctx, k); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.mu.Lock()
			s.agenda.refresh = append(s.agenda.refresh, again[i:]...)
			s.mu.Unlock()
			return false, fmt.Errorf("read mail.box: %w", err)
		}
	}
	for _, b := range s.queue.Look(ctx) {
		s.ended(b)
	}
	for _, b := range s.queue.Boxes.Led() {
		further, err := s.catchUpBox(ctx, b)
		if b.Replicated() && queue.DatabaseTrouble(err) {
			s.env.Log.Error("mail: router", "database", b.ID.String(), "err", err)
			continue // may be temporary, while another server leads it: go on with the other databases
		}
		if err != nil {
			return false, fmt.Errorf("read mail.box: %w", err)
		}
		more = more || further
	}
	return more, nil
}

// seen is an entry that was read without the agenda's lock, on its way into the agenda.
type seen struct {
	key  queue.Key
	work work
}

func (s *Router) catchUpBox(ctx context.Context, b *queue.Box) (more bool, err error) {
	s.mu.Lock()
	since := s.since[b.Index]
	s.mu.Unlock()
	var list []seen
	var failed error
	last := since
	err = s.store.Read(ctx, note.System, b.ID, func(r *store.Reader) error {
		n := 0
		return r.Changes(since, func(mod note.ModSeq, c layout.Change) bool {
			if n++; n > catchUpStep {
				more = true
				return false
			}
			if list, failed = s.note(ctx, r, b.Key(c.Note), &c, list); failed != nil {
				return false
			}
			last = mod
			return true
		})
	})
	if err == nil {
		err = failed
	}
	if err != nil || last == since {
		return false, err
	}
	if err := s.queue.CountArrived(ctx, b); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if leads := b.Led(); !leads || s.since[b.Index] != since {
		return leads, nil // all is read again
	}
	s.take(list, s.queue, s.env.Clock.Now())
	s.since[b.Index] = last
	return more, nil
}

// take adds entries to the agenda.
func (w *progress) take(list []seen, q *queue.Queue, now time.Time) {
	for i := range list {
		if q.Boxes.Of(list[i].key).Led() {
			w.agenda.set(list[i].key, &list[i].work, seconds(now))
		}
	}
}

// lookAgain reads one entry again.
func (s *Router) lookAgain(ctx context.Context, k queue.Key) error {
	var list []seen
	err := s.store.Read(ctx, note.System, s.queue.Boxes.Of(k).ID, func(r *store.Reader) (err error) {
		list, err = s.note(ctx, r, k, &layout.Change{Note: k.Note()}, nil)
		return err
	})
	s.mu.Lock()
	s.take(list, s.queue, s.env.Clock.Now())
	s.mu.Unlock()
	return err
}

// note reads the pending work of a changed entry.
func (s *Router) note(ctx context.Context, r *store.Reader, k queue.Key, c *layout.Change, to []seen) ([]seen, error) {
	if c.Expunged || c.Gone {
		return append(to, seen{key: k}), nil
	}
	e, err := queue.Load(r, c.Note)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return append(to, seen{key: k}), nil
	case err != nil:
		// A bad note does not stop the others; the check command reports it.
		s.env.Log.Error("mail: cannot read an entry of mail.box", "note", uint64(c.Note), "err", err)
		return to, nil
	}
	w, err := s.workOf(ctx, e)
	return append(to, seen{key: k, work: w}), err
}

// workOf returns the pending work on an entry, local and remote.
func (s *Router) workOf(ctx context.Context, e *queue.Entry) (work, error) {
	w := work{local: s.due(ctx, e), urgency: e.Urgency}
	if e.Held || e.Dead {
		return w, nil
	}
	last := ""
	for i := range e.Recipients {
		q := &e.Recipients[i]
		if q.State != queue.Waiting {
			continue
		}
		to, err := smtp.ParsePath(q.Address)
		if err != nil || q.Target.IsZero() && to.Domain == last && q.Next.IsZero() {
			continue
		}
		name, _, err := s.routes.destinationFor(ctx, e.TLS, q, &to)
		if err != nil {
			return w, err
		}
		if last = ""; q.Target.IsZero() && q.Next.IsZero() {
			last = to.Domain
		}
		if name != heldName && name != hereName {
			w.add(name, q.Next)
		}
	}
	return w, nil
}

// add adds an appointment at a destination. There is one per destination, at the earliest time.
func (w *work) add(dest string, due time.Time) {
	for i := range w.out {
		o := &w.out[i]
		if o.dest == dest {
			if due.Before(o.due) {
				o.due = due
			}
			return
		}
	}
	w.out = append(w.out, outWork{dest, due})
}

// Vacate must be called before the home of a mail.box is handed over to another server. When it returns, no work on the
// database is in progress here, and none begins until resume is called, whether the move succeeded or not. It does
// nothing for other databases. An error means that some work does not end before ctx; then the home must stay.
func (s *Router) Vacate(ctx context.Context, db note.DatabaseID) (resume func(), err error) {
	b, resume, mine := s.queue.Vacate(db)
	if !mine {
		return func() {}, nil
	}
	s.ended(b)
	// A local delivery works on one entry, and ends when its update finds that the home has moved. A transfer must end
	// first.
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moved.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	for s.agenda.sendingOf(b.Index) && ctx.Err() == nil {
		s.moved.Wait()
	}
	busy := s.agenda.sendingOf(b.Index)
	s.mu.Unlock()
	if busy {
		resume()
		return nil, fmt.Errorf("mail: messages of mail.box %s are still being sent: %w", db, ctx.Err())
	}
	return resume, nil
}

// Router processes the messages in mail.box: it delivers locally, sends to other servers, and reports to senders.
type Router struct {
	*board
	store     *store.Store
	env       *env.Env
	dir       *directory.Directory
	mailbox   *mailbox.Service
	queue     *queue.Queue
	trace     *trace.Trace
	deposit   *Depositor
	files     *Files
	srs       *SRS
	opt       *Options
	stat      *routerStats
	routes    *routes
	transfers *transfers
	outcomes  *outcomes
	reports   *Reporter
	// routing is held during local delivery, catching while mail.box is read.
	routing, catching sync.Mutex
}

func newRouter(s *store.Store, e *env.Env, d *directory.Directory, m *mailbox.Service, q *queue.Queue, t *trace.Trace,
	p *Depositor, bells bells, o *Options) *Router {
	b := newBoard(e, bells)
	stats := newRouterStats(o.Stats)
	r := &Router{
		board: b, store: s, env: e, dir: d, mailbox: m, queue: q, trace: t, deposit: p, files: p.files, srs: p.srs,
		opt: o, stat: stats,
		routes:   &routes{dir: d, files: p.files, smarthost: o.Smarthost},
		outcomes: &outcomes{board: b, store: s, env: e, queue: q, trace: t, opt: o, stat: stats},
		reports: &Reporter{env: e, dir: d, mailbox: m, queue: q, trace: t, deposit: p, srs: p.srs, opt: o,
			stat: stats},
	}
	r.transfers = &transfers{
		board: b, store: s, env: e, queue: q, opt: o, routes: r.routes, outcomes: r.outcomes, srs: p.srs,
		signer: &signer{dir: d, env: e, opt: o},
	}
	r.queueStats()
	return r
}
