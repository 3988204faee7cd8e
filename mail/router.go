package mail

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/smtp"
)

// Bounds of the router: entries read of mail.box at a time, entries remembered with the time at
// which they are due, and how long an entry is left alone that could not be worked on.
const (
	catchUpStep  = 1000
	maxAgenda    = 100_000
	troublePause = time.Minute
)

// agenda knows which entries are due when. What does not fit is found again by reading mail.box
// from its beginning once the agenda has run empty.
type agenda struct {
	heap  []appointment
	at    map[note.ID]time.Time // the valid appointment of each entry
	since note.ModSeq           // changes of mail.box up to here have been seen
	full  bool
}

type appointment struct {
	at time.Time
	id note.ID
}

func (a *agenda) Len() int           { return len(a.heap) }
func (a *agenda) Less(i, j int) bool { return a.heap[i].at.Before(a.heap[j].at) }
func (a *agenda) Swap(i, j int)      { a.heap[i], a.heap[j] = a.heap[j], a.heap[i] }
func (a *agenda) Push(x any)         { a.heap = append(a.heap, x.(appointment)) }
func (a *agenda) Pop() any {
	n := len(a.heap) - 1
	x := a.heap[n]
	a.heap = a.heap[:n]
	return x
}

// set makes an entry due at a time, never when it is zero.
func (a *agenda) set(id note.ID, at time.Time) {
	if a.at == nil {
		a.at = make(map[note.ID]time.Time)
	}
	have, ok := a.at[id]
	switch {
	case at.IsZero():
		delete(a.at, id)
		return
	case ok && have.Equal(at):
		return
	case !ok && len(a.at) >= maxAgenda || len(a.heap) >= 2*maxAgenda:
		a.full = true
		return
	}
	a.at[id] = at
	heap.Push(a, appointment{at, id})
}

// next takes the entry that is due first, if it is due now; else it says when the first one is.
func (a *agenda) next(now time.Time) (id note.ID, due time.Time, ok bool) {
	for len(a.heap) > 0 {
		x := a.heap[0]
		if at, valid := a.at[x.id]; !valid || !at.Equal(x.at) {
			heap.Pop(a)
			continue
		}
		if x.at.After(now) {
			return 0, x.at, false
		}
		heap.Pop(a)
		delete(a.at, x.id)
		return x.id, x.at, true
	}
	return 0, time.Time{}, false
}

// Run is the router: it works on mail.box until ctx ends. There is one for each server.
func (s *Service) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	nudge := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	stop, err := s.store.Watch(BoxID, nudge)
	if err != nil {
		return fmt.Errorf("mail: router: %w", err)
	}
	defer stop()
	for ctx.Err() == nil {
		next, err := s.Route(ctx)
		if errors.Is(err, store.ErrClosed) {
			return fmt.Errorf("mail: router: %w", err)
		}
		if err != nil && ctx.Err() == nil {
			s.env.Log.Error("mail: router", "err", err)
			next = s.now().Add(troublePause)
		}
		cancel := func() bool { return true }
		if !next.IsZero() {
			cancel = s.env.Clock.AfterFunc(next.Sub(s.now()), nudge)
		}
		select {
		case <-ctx.Done():
		case <-wake:
		}
		cancel()
	}
	return nil
}

// Route does all that is due in mail.box now, and says when there will be something again: zero
// when not before mail.box changes.
func (s *Service) Route(ctx context.Context) (next time.Time, err error) {
	s.routing.Lock()
	defer s.routing.Unlock()
	for {
		if err := s.catchUp(ctx); err != nil {
			return time.Time{}, err
		}
		id, due, ok := s.agenda.next(s.now())
		if !ok {
			if s.agenda.full && len(s.agenda.at) < maxAgenda/2 {
				s.agenda.full, s.agenda.since = false, 0
				continue
			}
			return due, nil
		}
		due, err := s.routeOne(ctx, id)
		if err != nil {
			if ctx.Err() != nil {
				s.agenda.set(id, s.now()) // for the router that is started next
				return time.Time{}, ctx.Err()
			}
			s.env.Log.Error("mail: entry of mail.box", "note", uint64(id), "err", err)
			due = s.now().Add(troublePause)
		}
		s.agenda.set(id, due)
	}
}

// catchUp reads what has changed in mail.box.
func (s *Service) catchUp(ctx context.Context) error {
	for more := true; more; {
		more = false
		err := s.store.Read(ctx, note.System, BoxID, func(r *store.Reader) error {
			n := 0
			return r.Changes(s.agenda.since, func(mod note.ModSeq, c layout.Change) bool {
				if n++; n > catchUpStep {
					more = true
					return false
				}
				s.agenda.since = mod
				s.note(r, c)
				return true
			})
		})
		if err != nil {
			return fmt.Errorf("read mail.box: %w", err)
		}
	}
	return nil
}

func (s *Service) note(r *store.Reader, c layout.Change) {
	if c.Expunged || c.Gone {
		s.agenda.set(c.Note, time.Time{})
		return
	}
	e, err := load(r, c.Note)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.agenda.set(c.Note, time.Time{})
	case err != nil:
		// One bad note does not stop the rest; check names it.
		s.env.Log.Error("mail: entry of mail.box cannot be read", "note", uint64(c.Note), "err", err)
	default:
		s.agenda.set(c.Note, e.due())
	}
}

// routeOne does all that is due for one entry, and says when there is something again.
func (s *Service) routeOne(ctx context.Context, id note.ID) (time.Time, error) {
	j := &job{s: s, id: id}
	defer j.release()
	for {
		e, err := s.entry(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, err
		}
		due := e.due()
		if due.IsZero() || due.After(s.now()) {
			return due, nil
		}
		if err := j.step(ctx, e); err != nil && !errors.Is(err, errChanged) {
			return time.Time{}, err
		}
	}
}

func (s *Service) entry(ctx context.Context, id note.ID) (e *Entry, err error) {
	err = s.store.Read(ctx, note.System, BoxID, func(r *store.Reader) (err error) {
		e, err = load(r, id)
		return err
	})
	return e, err
}

// job is the work on one entry: its message is read and prepared once.
type job struct {
	s        *Service
	id       note.ID
	composed *mailbox.Composed
}

func (j *job) release() {
	if j.composed != nil {
		j.composed.Release()
	}
}

func (j *job) compose(ctx context.Context) (*mailbox.Composed, error) {
	if j.composed != nil {
		return j.composed, nil
	}
	raw, err := j.s.message(ctx, j.id, 0)
	if err != nil {
		return nil, err
	}
	j.composed, err = j.s.mailbox.Compose(ctx, raw)
	return j.composed, err
}

// message reads the stored message of an entry, or its first limit bytes.
func (s *Service) message(ctx context.Context, id note.ID, limit int64) ([]byte, error) {
	var stored *store.Stored
	err := s.store.Read(ctx, note.System, BoxID, func(r *store.Reader) error {
		n, err := r.Note(id)
		if err != nil {
			return err
		}
		stored, err = r.Message(n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("message in mail.box: %w", err)
	}
	n := stored.Size()
	if limit > 0 {
		n = min(n, limit)
	}
	raw, err := stored.AppendRange(make([]byte, 0, n), 0, n)
	if err != nil {
		return nil, fmt.Errorf("message in mail.box: %w", err)
	}
	return raw, nil
}

// step does one update's work on an entry: a piece of its recipients, or else its reports.
func (j *job) step(ctx context.Context, e *Entry) error {
	piece, err := j.piece(ctx, e)
	if err != nil {
		return err
	}
	if len(piece) > 0 {
		return j.deliver(ctx, e, piece)
	}
	return j.s.report(ctx, e)
}

// attempt is a recipient that is to be delivered to now.
type attempt struct {
	delivery
	reply *smtp.Reply // why it cannot be, found before the update
	final bool
}

// piece picks the recipients that are due, at most as many as one update takes.
func (j *job) piece(ctx context.Context, e *Entry) ([]attempt, error) {
	now := j.s.now()
	var out []attempt
	for i := range e.Recipients {
		q := &e.Recipients[i]
		if q.State != Pending || q.Next.After(now) {
			continue
		}
		a, err := j.s.find(ctx, q)
		if err != nil {
			return nil, err
		}
		if out = append(out, a); len(out) == j.s.opt.MaxLocal {
			break
		}
	}
	return out, nil
}

// find looks up where a recipient's mail goes today.
func (s *Service) find(ctx context.Context, q *QueueRecipient) (attempt, error) {
	a := attempt{delivery: delivery{id: q.Target, kind: q.Kind}}
	removed := false
	var err error
	if q.Kind == directory.TargetMailIn {
		var m directory.MailIn
		m, err = s.dir.MailIn(ctx, q.Target)
		a.database, removed = m.Database, !m.Removed.IsZero()
	} else {
		var p directory.Person
		p, err = s.dir.Person(ctx, q.Target)
		a.database, a.quota, removed = p.MailDatabase, p.Quota, !p.Removed.IsZero()
	}
	switch {
	case errors.Is(err, directory.ErrNotFound), err == nil && removed:
		a.reply, a.final = replyNoUser, true
	case err != nil:
		return a, fmt.Errorf("directory: %w", err)
	case a.database == 0:
		a.reply, a.final = replyNoFile, true
	case !s.inService(a.database):
		a.reply = replyTrouble
	}
	return a, nil
}

// deliver tries a piece. If one mail file spoils it, smaller pieces are tried, down to the one.
func (j *job) deliver(ctx context.Context, e *Entry, piece []attempt) error {
	for {
		err := j.try(ctx, e, piece)
		if !databaseTrouble(err) {
			return err
		}
		if len(piece) > 1 {
			piece = piece[:len(piece)/2]
			continue
		}
		if piece[0].reply != nil {
			return err // it was not that mail file, then
		}
		j.s.env.Log.Error("mail: delivery failed", "id", e.ID.String(), "database", piece[0].database.String(), "err", err)
		piece[0].reply = replyTrouble
	}
}

func (j *job) try(ctx context.Context, e *Entry, piece []attempt) error {
	names := []note.DatabaseID{BoxID}
	for i := range piece {
		if piece[i].reply == nil {
			names = append(names, piece[i].database)
		}
	}
	c := j.composed
	if len(names) > 1 {
		var err error
		if c, err = j.compose(ctx); err != nil {
			return err
		}
	}
	var delivered int
	var moved tally
	err := j.s.store.Update(ctx, note.System, names, func(tx *store.Tx) error {
		delivered, moved = 0, tally{}
		w, err := tx.Database(BoxID)
		if err != nil {
			return err
		}
		cur, err := load(&w.Reader, j.id)
		if errors.Is(err, store.ErrNotFound) || err == nil && cur.Held {
			return nil // an administrator was faster
		}
		if err != nil {
			return err
		}
		before := cur.tally()
		for i := range piece {
			n, err := j.s.attempt(tx, c, cur, &piece[i])
			if err != nil {
				return err
			}
			delivered += n
		}
		moved, err = save(w, cur, before)
		return err
	})
	if err == nil {
		j.s.stat.deliveredTo(delivered, int64(e.Size))
		j.s.stat.queue(moved)
	}
	return err
}

// attempt delivers to one recipient of an entry under change, and writes down what came of it.
func (s *Service) attempt(tx *store.Tx, c *mailbox.Composed, e *Entry, a *attempt) (delivered int, err error) {
	i := slices.IndexFunc(e.Recipients, func(q QueueRecipient) bool { return q.Target == a.id && q.State == Pending })
	if i < 0 {
		return 0, nil
	}
	q := &e.Recipients[i]
	reply, final := a.reply, a.final
	if reply == nil {
		err := s.deliver(tx, c, e.Created, e.ID, &a.delivery)
		switch {
		case errors.Is(err, mailbox.ErrOverQuota):
			reply = replyQuota
		case err != nil:
			return 0, err
		case q.Notify&smtp.NotifySuccess != 0 && !e.From.IsNull():
			q.State, q.Reply = Delivered, ""
			return 1, nil
		default:
			e.Recipients = slices.Delete(e.Recipients, i, i+1)
			return 1, nil
		}
	}
	if !final {
		reply, final = s.expired(e, reply)
	}
	if final {
		q.State, q.Reply = Failed, reply.Error()
		q.Attempts++
		return 0, nil
	}
	*q = s.deferred(*q, reply)
	return 0, nil
}

// expired gives up on a recipient when it was tried for long enough.
func (s *Service) expired(e *Entry, reply *smtp.Reply) (*smtp.Reply, bool) {
	keep, last := s.opt.KeepOther, replyExpired
	if reply == replyQuota {
		keep, last = s.opt.KeepOverQuota, replyFull
	}
	if s.now().Sub(e.Created) < keep {
		return reply, false
	}
	return last, true
}
