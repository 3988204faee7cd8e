package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// outbox tracks the outboxes with replicas here, and the due times of the messages in those that are led here.
type outbox struct {
	wake chan struct{}

	mu    sync.Mutex
	boxes outboxList
	// own is the outbox for new messages, once the server is a cluster member. came lists databases that may be new
	// outboxes.
	own  note.DatabaseID
	self note.UNID
	came []note.DatabaseID
	// done is signaled when a deposit from an outbox ends.
	done *sync.Cond
}

// outboxList is a list of outboxes, ordered by ID.
type outboxList []*deferring

// deferring is one outbox.
type deferring struct {
	id    note.DatabaseID
	owner note.UNID
	// leads is set if this server sends its messages. from is the time from which it does, after the home has moved to
	// this server.
	leads bool
	from  time.Time
	// seen is the position up to which changes were read. due holds the times of the messages, and again the retry
	// times of messages whose deposit failed.
	seen  uint64
	due   map[note.UNID]int64
	again map[note.UNID]int64
	// vacating counts the callers that are about to move the home. busy is set while one of its messages is being
	// deposited.
	vacating int
	busy     bool
	stop     func()
}

// Scheduler holds messages until the time that their senders chose, and then deposits them.
type Scheduler struct {
	store   *store.Store
	env     *env.Env
	dir     *directory.Directory
	mailbox *mailbox.Service
	queue   *queue.Queue
	deposit *Depositor
	mates   Mates
	outbox  outbox
}

// openScheduler creates the outbox of a standalone server, and opens the outboxes that are here.
func openScheduler(db *store.Store, e *env.Env, d *directory.Directory, m *mailbox.Service, q *queue.Queue,
	deposit *Depositor, opt *Options) (*Scheduler, error) {
	s := &Scheduler{store: db, env: e, dir: d, mailbox: m, queue: q, deposit: deposit, mates: opt.Mates}
	o := &s.outbox
	o.wake = make(chan struct{}, 1)
	o.done = sync.NewCond(&o.mu)
	if _, err := s.store.Info(queue.OutboxID); errors.Is(err, store.ErrNotFound) {
		_, err := s.store.CreateDatabase(note.System, store.Create{ID: queue.OutboxID, Title: "outbox",
			Kind: queue.OutboxKind, Queue: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return nil, fmt.Errorf("mail: create outbox: %w", err)
		}
	}
	opt.Stats.GaugeFunc("Mail.Deferred", "messages that wait here for the time that their senders gave them",
		func() float64 { return float64(o.count()) })
	o.came = []note.DatabaseID{queue.OutboxID}
	err := s.store.Infos(func(i *layout.Info) {
		if i.Kind == queue.DeferredKind {
			o.came = append(o.came, i.ID)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	s.store.WatchInfos(func(id note.DatabaseID) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.self.IsZero() {
			o.came = append(o.came, id)
			nudge(o.wake)
		}
	})
	return s, s.lookAtOutboxes(context.Background())
}

// joinOutbox makes the server use its own outbox in a cluster. If the cluster has it already, it is replicated from a
// mate instead of created.
func (s *Scheduler) joinOutbox(server note.UNID, name string, known func(note.DatabaseID) bool) error {
	id := queue.OwnedOutboxID(server)
	_, err := s.store.Info(id)
	if errors.Is(err, store.ErrNotFound) && !known(id) {
		_, err = s.store.CreateDatabase(note.System, store.Create{ID: id, Title: "outbox of " + name,
			Kind: queue.DeferredKind, Queue: true, Owner: server, Ack: layout.AckCluster})
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("mail: outbox: %w", err)
	}
	o := &s.outbox
	o.mu.Lock()
	o.own, o.self = id, server
	if b := o.boxes.find(id); b != nil {
		b.from = time.Time{} // the owner was not known before
	}
	o.came = append(o.came, id)
	o.mu.Unlock()
	nudge(o.wake)
	return s.lookAtOutboxes(context.Background())
}

// outboxFor returns the outbox for a new message: the server's own one in its cluster, unless that is not in service.
func (s *Scheduler) outboxFor() note.DatabaseID {
	s.outbox.mu.Lock()
	own := s.outbox.own
	s.outbox.mu.Unlock()
	if own != 0 && s.deposit.files.inService(own) {
		return own
	}
	return queue.OutboxID
}

// ids returns the IDs of the outboxes here.
func (o *outbox) ids() []note.DatabaseID {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]note.DatabaseID, len(o.boxes))
	for i, b := range o.boxes {
		out[i] = b.id
	}
	return out
}

// count returns the number of messages in the outboxes that are led here.
func (o *outbox) count() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.boxes {
		n += len(b.due)
	}
	return n
}

// find returns the outbox with this ID, or nil.
func (l outboxList) find(id note.DatabaseID) *deferring {
	for _, b := range l {
		if b.id == id {
			return b
		}
	}
	return nil
}

// add records a new message.
func (o *outbox) add(box note.DatabaseID, id note.UNID, until int64) {
	o.mu.Lock()
	if b := o.boxes.find(box); b != nil && b.leads {
		b.due[id] = until
	}
	o.mu.Unlock()
	nudge(o.wake)
}

func (o *outbox) forget(h *held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.boxes.find(h.box); b != nil {
		delete(b.due, h.id)
		delete(b.again, h.id)
	}
}

// lookAtOutboxes updates which outboxes are here, which of them are led here, and their messages.
func (s *Scheduler) lookAtOutboxes(ctx context.Context) error {
	o := &s.outbox
	o.mu.Lock()
	came := o.came
	o.came = nil
	o.mu.Unlock()
	var errs []error
	for _, id := range came {
		errs = append(errs, s.noticeOutbox(id))
	}
	now := s.env.Clock.Now()
	for _, id := range o.ids() {
		leads := s.store.Leads(id)
		o.mu.Lock()
		b := o.boxes.find(id)
		switch {
		case !leads:
			b.leads, b.from, b.seen = false, time.Time{}, 0
			clear(b.due)
			clear(b.again)
		case b.from.IsZero():
			if b.from = now; !b.owner.IsZero() && b.owner != o.self {
				b.from = now.Add(queue.StandIn)
			}
		}
		leads = leads && b.vacating == 0 && !now.Before(b.from)
		if leads && !b.leads {
			b.leads, b.seen = true, 0
		}
		since := b.seen
		o.mu.Unlock()
		if leads {
			errs = append(errs, s.readOutbox(ctx, id, since))
		}
	}
	return errors.Join(errs...)
}

// noticeOutbox adds a new outbox, or removes a deleted one.
func (s *Scheduler) noticeOutbox(id note.DatabaseID) error {
	info, err := s.store.Info(id)
	o := &s.outbox
	if errors.Is(err, store.ErrNotFound) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.boxes = slices.DeleteFunc(o.boxes, func(b *deferring) bool { return b.id == id })
		return nil
	}
	if err != nil || info.Kind != queue.DeferredKind && id != queue.OutboxID {
		return err
	}
	stop, err := s.store.Watch(id, func() { nudge(o.wake) })
	if err != nil {
		return fmt.Errorf("mail: outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.boxes.find(id); b != nil {
		b.stop()
		b.stop, b.seen = stop, 0
		return nil
	}
	o.boxes = append(o.boxes, &deferring{id: id, owner: info.Owner, due: map[note.UNID]int64{},
		again: map[note.UNID]int64{}, stop: stop})
	slices.SortFunc(o.boxes, func(a, b *deferring) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return nil
}

// readOutbox reads the due times of new messages in an outbox, and when the notes of recalled ones are removed.
func (s *Scheduler) readOutbox(ctx context.Context, id note.DatabaseID, since uint64) error {
	due := map[note.UNID]int64{}
	err := s.store.Read(ctx, note.System, id, func(r *store.Reader) error {
		clear(due)
		var ids []note.ID
		if err := r.Since(since, func(seq uint64, id note.ID) bool {
			since = seq
			ids = append(ids, id)
			return true
		}); err != nil {
			return err
		}
		for _, id := range ids {
			c, err := r.Content(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			row, err := r.Note(id)
			if err != nil {
				return err
			}
			if form := c.Content.Items.Get(outItemForm).AsText(); form == formDeferred || form == formRecalled {
				due[row.UNID] = c.Content.Items.Get(itemUntil).AsInt()
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mail: outbox: %w", err)
	}
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.boxes.find(id); b != nil && b.leads && b.seen <= since {
		b.seen = since
		for u, at := range due {
			b.due[u] = at
		}
	}
	return nil
}

// Run deposits messages when they become due, until ctx ends. Each server runs it once.
func (s *Scheduler) Run(ctx context.Context) error {
	o := &s.outbox
	for ctx.Err() == nil {
		next := s.ReleaseDue(ctx)
		o.mu.Lock()
		member := !o.self.IsZero()
		o.mu.Unlock()
		if look := s.env.Clock.Now().Add(queue.HomePoll); member && (next.IsZero() || look.Before(next)) {
			next = look // the home of a mate's outbox may have moved here
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = s.env.Clock.After(max(next.Sub(s.env.Clock.Now()), 0))
		}
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-timer:
		}
	}
	return nil
}

// ReleaseDue deposits the messages that are due now. It returns the time when the next one is due; zero means never.
func (s *Scheduler) ReleaseDue(ctx context.Context) (next time.Time) {
	if err := s.lookAtOutboxes(ctx); err != nil && ctx.Err() == nil {
		s.env.Log.Error("mail: outbox", "err", err)
	}
	o := &s.outbox
	now := s.env.Clock.Now().Unix()
	sooner := func(at int64) {
		if next.IsZero() || at < next.Unix() {
			next = time.Unix(at, 0)
		}
	}
	var ready []*held
	o.mu.Lock()
	for _, b := range o.boxes {
		for id, at := range b.due {
			if at = max(at, b.again[id]); at <= now {
				ready = append(ready, &held{b.id, id})
			} else {
				sooner(at)
			}
		}
	}
	o.mu.Unlock()
	for _, h := range ready {
		if ctx.Err() != nil {
			return next
		}
		b, own := o.begin(h.box)
		if b == nil {
			continue // the home is about to move
		}
		err := s.release(ctx, h, own)
		o.end(b)
		switch {
		case err == nil, errors.Is(err, store.ErrNotHome):
			o.forget(h)
			continue
		}
		s.env.Log.Error("mail: scheduled message stays queued", "id", h.id.String(), "err", err)
		later := now + int64(troublePause/time.Second)
		o.mu.Lock()
		b.again[h.id] = later
		o.mu.Unlock()
		sooner(later)
	}
	return next
}

// begin marks that a message of an outbox is being deposited, until end is called. b is nil if the home is about to
// move. own reports whether the outbox is the server's own.
func (o *outbox) begin(id note.DatabaseID) (b *deferring, own bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b = o.boxes.find(id)
	if b == nil || !b.leads || b.vacating > 0 {
		return nil, false
	}
	b.busy = true
	return b, b.owner.IsZero() || b.owner == o.self
}

func (o *outbox) end(b *deferring) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b.busy = false
	o.done.Broadcast()
}

// vacate is Vacate for an outbox; mine is false for other databases.
func (o *outbox) vacate(ctx context.Context, id note.DatabaseID) (resume func(), mine bool, err error) {
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.done.Broadcast()
	})
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.boxes.find(id)
	if b == nil {
		return nil, false, nil
	}
	b.vacating++
	for b.busy && ctx.Err() == nil {
		o.done.Wait()
	}
	if b.busy {
		b.vacating--
		return nil, true, fmt.Errorf("mail: a message of outbox %s is still being sent: %w", id, ctx.Err())
	}
	b.leads = false
	clear(b.due)
	clear(b.again)
	return func() {
		o.mu.Lock()
		b.vacating--
		o.mu.Unlock()
		nudge(o.wake)
	}, true, nil
}
