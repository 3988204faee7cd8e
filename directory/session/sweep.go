package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
)

// stepSeconds is the length of a time step. stepKept is the time for which a used step is stored. It is longer than the
// step's code is accepted.
const (
	stepSeconds = 30
	stepKept    = 10 * time.Minute
)

// UseCode uses a time step of a person's second factor, and reports whether it was unused. Of two sign-ins with one
// code, only one gets true. In a cluster, the home of the database decides for all members. While the home is down, a
// code may be used once at each member that has not yet received the other use.
func (gs *guesses) UseCode(ctx context.Context, person note.UNID, step int64) (fresh bool, err error) {
	if m := gs.opt.Mates; m != nil {
		if fresh, asked := m.UseCode(ctx, person, step); asked {
			return fresh, nil
		}
	}
	return gs.useCode(ctx, person, step)
}

// UseCodeAtHome is UseCode, called for a mate. Errors: ErrNotHome.
func (gs *guesses) UseCodeAtHome(ctx context.Context, person note.UNID, step int64) (fresh bool, err error) {
	if gs.adopt(ctx); gs.place.id() != SharedID || !gs.s.Leads(SharedID) {
		return false, ErrNotHome
	}
	return gs.useCode(ctx, person, step)
}

func (gs *guesses) useCode(ctx context.Context, person note.UNID, step int64) (fresh bool, err error) {
	at := binary.BigEndian.AppendUint64(nil, uint64(step))
	// Every member that stores the step must write the same value.
	ends := max(step, 0)*stepSeconds + int64(stepKept/time.Second)
	if now := gs.env.Clock.Now(); ends < now.Unix() {
		ends = now.Add(stepKept).Unix()
	}
	items := note.Items(nil).With(itemForm, note.Text(formCode)).With(itemPerson,
		note.Text(person.String())).With(itemEnds, note.Int(ends))
	err = gs.update(ctx, func(w *store.Writer) error {
		_, err := w.Create(store.New{UNID: note.DeriveUNID([]byte("code"), person[:], at),
			Content: note.Content{Items: items}})
		return err
	})
	switch {
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrGrave):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("session: code: %w", err)
	}
	return true, nil
}

// sweepAtOnce is the maximum number of notes in one update of Sweep.
const sweepAtOnce = 500

// Sweep deletes all expired notes for good, and returns their number.
func (x *Service) Sweep(ctx context.Context) (total int, err error) {
	for n := sweepAtOnce; n == sweepAtOnce && err == nil && ctx.Err() == nil; total += n {
		n, err = x.sweep(ctx)
	}
	return total, err
}

func (x *Service) sweep(ctx context.Context) (n int, err error) {
	if id := x.place.id(); id != 0 && !x.s.Leads(id) {
		return 0, nil // the home deletes them
	}
	now := string(endKey(x.env.Clock.Now().Unix()))
	var ids []note.ID
	find := func(r *store.Reader) error {
		ids = nil
		return r.Scan(indexEnds, endKey(1), func(key []byte, id note.ID) bool {
			if string(key) > now {
				return false
			}
			ids = append(ids, id)
			return len(ids) < sweepAtOnce
		})
	}
	if err := x.read(ctx, find); err != nil || len(ids) == 0 {
		return 0, err
	}
	sessions := 0
	err = x.update(ctx, func(w *store.Writer) error {
		n, sessions = 0, 0
		if err := find(&w.Reader); err != nil {
			return err
		}
		for _, id := range ids {
			_, items, err := document(&w.Reader, id)
			if err == nil {
				if items.Get(itemForm).AsText() == formSession {
					sessions++
				}
				n++
				err = w.Destroy(id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("session: sweep: %w", err)
	}
	x.ended.Add(uint64(sessions))
	return n, nil
}
