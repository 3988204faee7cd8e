package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
)

// List lists the messages in mail.box in order of arrival, at most limit (1,000 where 0) from
// after, which is empty at the beginning. next is where to go on, empty at the end.
func (s *Service) List(ctx context.Context, limit int, after string) (list []Entry, next string, err error) {
	if limit <= 0 {
		limit = 1000
	}
	from := note.ID(0)
	if after != "" {
		var n uint64
		if _, err := fmt.Sscanf(after, "%d", &n); err != nil {
			return nil, "", fmt.Errorf("mail: list: not a place in the queue: %.40q", after)
		}
		from = note.ID(n)
	}
	err = s.eachEntry(ctx, from, func(e *Entry) bool {
		if len(list) == limit {
			next = fmt.Sprint(uint64(e.note))
			return false
		}
		list = append(list, *e)
		return true
	})
	return list, next, err
}

// Show returns one message's entry by queue id, and the first bytes of its header. Errors:
// ErrNotQueued.
func (s *Service) Show(ctx context.Context, id note.UNID) (Entry, []byte, error) {
	var e *Entry
	err := s.store.Read(ctx, note.System, BoxID, func(r *store.Reader) error {
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
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return ErrNotQueued
	}
	return err
}

// Retry makes all recipients of a message due now, those of a dead one too.
func (s *Service) Retry(ctx context.Context, id note.UNID) error {
	return s.change(ctx, id, func(e *Entry) {
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
	})
}

// Hold keeps a message in mail.box until it is released.
func (s *Service) Hold(ctx context.Context, id note.UNID) error {
	return s.change(ctx, id, func(e *Entry) { e.Held = true })
}

// Release ends Hold.
func (s *Service) Release(ctx context.Context, id note.UNID) error {
	return s.change(ctx, id, func(e *Entry) { e.Held = false })
}

// Drop removes a message from mail.box. Nobody is told.
func (s *Service) Drop(ctx context.Context, id note.UNID) error {
	return s.change(ctx, id, func(e *Entry) { e.Recipients = nil })
}

// change changes an entry; what changes nothing writes nothing.
func (s *Service) change(ctx context.Context, id note.UNID, fn func(*Entry)) error {
	err := s.settleEntry(ctx, func(w *store.Writer) (tally, error) {
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
		return save(w, e, was.tally())
	})
	return notQueued(err)
}
