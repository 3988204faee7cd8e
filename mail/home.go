package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
)

// In a cluster a mail.box has its home at the server whose it is, and a replica at a mate. What is in it is routed by its home
// alone: where the server dies, by the mate whose replica is home then, and again by the server when it has been handed back.
//
// Every decision on an entry is an update that asks whether the database still has its home here (store.Tx.Home), so that none is
// made twice. An answer of another server is written in any case: where the home has moved away under it, it goes there as a
// change that nobody has numbered. What was sent when a server died and had not told a mate yet is sent again, as after any
// answer that was lost (RFC 5321 section 4.5.4.1).

// standIn is how long what waits in the mail.box of another server is left alone after that has fallen to this one: a server
// that starts again is back by then, with what it had sent last.
const standIn = 5 * time.Second

// homePoll is how often a member of a cluster looks, at least, which mail.box databases it leads.
const homePoll = time.Second

// ErrHomeElsewhere says that another server leads the mail.box that a message is in.
var ErrHomeElsewhere = errors.New("mail: the message is in a mail.box that another server leads: ask there")

// lookAround takes up which boxes are led here now, while catching is held.
func (s *Service) lookAround(ctx context.Context) {
	if err := s.noticeBoxes(); err != nil {
		s.env.Log.Error("mail: router", "err", err)
	}
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	if server.IsZero() {
		return
	}
	now := s.now()
	for _, b := range s.boxes() {
		if !b.replicated() {
			continue
		}
		leads := s.store.Leads(b.id)
		s.mu.Lock()
		switch {
		case !leads:
			b.due = 0
		case b.due == 0 && b.owner != server:
			b.due = now.Add(standIn).Unix()
		}
		leads = leads && b.vacating == 0 && b.due <= now.Unix()
		begins, ends := leads && !b.leads, !leads && b.leads
		if ends {
			s.drop(b)
		}
		if begins { // together with the question: whoever vacates it from here on ends that
			b.leads, b.since = true, 0
		}
		s.mu.Unlock()
		if begins {
			s.begin(ctx, b)
		}
	}
}

// begin begins to work on a box that is led here now.
func (s *Service) begin(ctx context.Context, b *box) {
	if err := s.countFrom(ctx, b, note.ID(1<<boxShift-1)); err != nil && !errors.Is(err, store.ErrClosed) {
		s.env.Log.Error("mail: messages cannot be counted", "database", b.id.String(), "err", err)
	}
	nudge(s.wakeLocal)
	nudge(s.wakeOut)
	s.env.Log.Info("mail: routes mail.box", "database", b.id.String(), "of", b.owner.String())
}

// drop ends the work on a box, under the lock: what is known of it is forgotten.
func (s *Service) drop(b *box) {
	b.leads, b.since = false, 0
	s.agenda.forget(b.index)
	s.stat.queue(tally{}.minus(b.sum))
	b.sum = tally{}
	s.env.Log.Info("mail: routes mail.box no more", "database", b.id.String(), "of", b.owner.String())
}

// Vacate is called before the home of a mail.box is handed to another server. It returns when nothing of it is under way here
// any more, and nothing is begun until resume is called, however the moving went. Of other databases it knows nothing. An error
// says that something takes longer than ctx lasts; then the home must stay.
func (s *Service) Vacate(ctx context.Context, db note.DatabaseID) (resume func(), err error) {
	if resume, mine, err := s.outbox.vacate(ctx, db); mine {
		return resume, err
	}
	b := s.boxOf(db)
	if b == nil || !b.replicated() {
		return func() {}, nil
	}
	s.mu.Lock()
	b.vacating++
	if b.leads {
		s.drop(b)
	}
	s.mu.Unlock()
	resume = func() {
		s.mu.Lock()
		b.vacating--
		s.mu.Unlock()
		nudge(s.wakeLocal)
		nudge(s.wakeOut)
	}
	// What is delivered here is one entry at a time, and ends when it asks for the home; what is sent has to come to its end.
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moved.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	for s.agenda.sendingOf(b.index) && ctx.Err() == nil {
		s.moved.Wait()
	}
	busy := s.agenda.sendingOf(b.index)
	s.mu.Unlock()
	if busy {
		resume()
		return nil, fmt.Errorf("mail: messages of mail.box %s are still being sent: %w", db, ctx.Err())
	}
	return resume, nil
}

// moves moves the gauges by what has changed in a box.
func (s *Service) moves(db note.DatabaseID, t tally) {
	if t == (tally{}) {
		return
	}
	b := s.boxOf(db)
	if b != nil && b.replicated() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !b.leads {
			return
		}
		b.sum = b.sum.plus(t)
	}
	s.stat.queue(t)
}

// decide opens a mail.box in an update that decides on one of its entries: only its home may. Nobody waits for a mate to have the
// decision; for what it puts into mail files mates are waited for as ever.
func decide(tx *store.Tx, box note.DatabaseID) (*store.Writer, error) {
	w, err := tx.Home(box)
	if err == nil {
		w.Unconfirmed()
	}
	return w, err
}
