package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// A session that was ended must stay ended on every member, whatever the order in which changes arrive. An edit by
// another member would undo the deletion of the session's note. So a second note marks the session as ended. Nobody
// edits that note. It is deleted when no session of that time can still be in use.

// outlives is the time for which an end mark is kept beyond the session's maximum life. The clocks and settings of
// members may differ, and some members may have been offline.
const outlives = 30 * 24 * time.Hour

// markOf returns the id of the note that marks a session as ended.
func markOf(session note.UNID) note.UNID { return note.DeriveUNID([]byte("session ended"), session[:]) }

// marked reports whether a session was ended individually.
func marked(r *store.Reader, session note.UNID) (bool, error) {
	_, err := r.Find(markOf(session))
	switch {
	case err == nil, errors.Is(err, store.ErrGrave):
		return true, nil
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	}
	return false, err
}

// endedWithAll reports whether a session ended because all sessions of its person, or of everybody, were ended.
func endedWithAll(r *store.Reader, s *Session) (bool, error) {
	for _, person := range []note.UNID{s.Person, {}} {
		ids, err := r.Lookup(indexCuts, personKey(person))
		if err != nil {
			return false, err
		}
		for _, id := range ids {
			u, items, err := document(r, id)
			if err != nil {
				return false, err
			}
			if s.Created.Before(unix(items.Get(itemBefore))) && items.Get(itemBut).AsText() != s.ID.String() &&
				!strings.Contains(s.After, u.String()) {
				return true, nil
			}
		}
	}
	return false, nil
}

// cuts returns the ids of the notes that ended all sessions of a person, or of everybody. A new session records them:
// they do not apply to it, even if the clock of the server that wrote them is ahead.
func cuts(r *store.Reader, person note.UNID) (out string, err error) {
	for _, who := range []note.UNID{person, {}} {
		ids, err := r.Lookup(indexCuts, personKey(who))
		if err != nil {
			return "", err
		}
		for _, id := range ids {
			row, err := r.Note(id)
			if err != nil {
				return "", err
			}
			out += row.UNID.String() + " "
		}
	}
	return out, nil
}

// over reports whether a session that is stored here was ended.
func over(r *store.Reader, s *Session) (bool, error) {
	ended, err := marked(r, s.ID)
	if err == nil && !ended {
		ended, err = endedWithAll(r, s)
	}
	return ended, err
}

// endOne ends the session in a note.
func (x *Service) endOne(w *store.Writer, at note.ID) error {
	s, _, err := readSession(&w.Reader, at)
	if err != nil {
		return err
	}
	if err := x.mark(w, &s); err != nil {
		return err
	}
	return w.Destroy(at)
}

// mark writes the note that marks a session as ended.
func (x *Service) mark(w *store.Writer, s *Session) error {
	ends := s.Created.Add(x.opt.Life)
	if s.Ends.After(ends) {
		ends = s.Ends
	}
	items := note.Items(nil).With(itemForm, note.Text(formEnded)).With(itemPerson,
		note.Text(s.Person.String())).With(itemEnds, note.Int(ends.Add(outlives).Unix()))
	_, err := w.Create(store.New{UNID: markOf(s.ID), Content: note.Content{Items: items}})
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
		err = nil
	}
	return err
}

// End ends a session of a person. The zero UNID means any person. Errors: ErrNone.
func (x *Service) End(ctx context.Context, person, id note.UNID) error {
	s, err := x.Get(ctx, id)
	if err != nil {
		return err
	}
	if !person.IsZero() && s.Person != person {
		return ErrNone
	}
	err = x.update(ctx, func(w *store.Writer) error {
		at, err := w.Find(id)
		if err == nil {
			err = x.endOne(w, at)
		}
		if absent(err) { // not replicated to this server yet, or just ended
			err = x.mark(w, &s)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("session: end: %w", err)
	}
	x.endedHere([]note.UNID{id})
	return nil
}

// EndAll ends all sessions of a person, except the session but, which may be zero. The zero UNID as person means
// everybody. EndAll returns the number of ended sessions that were stored here. It also ends sessions that are not
// replicated yet, if their server's clock shows an earlier second as their beginning.
func (x *Service) EndAll(ctx context.Context, person, but note.UNID) (int, error) {
	var gone []note.UNID
	id := x.s.UNID()
	now := x.now()
	err := x.update(ctx, func(w *store.Writer) error {
		gone = nil
		ids, err := list(&w.Reader, indexSessions, person)
		for _, at := range ids {
			s, _, bad := readSession(&w.Reader, at)
			if bad == nil && s.ID != but {
				gone = append(gone, s.ID)
				bad = x.endOne(w, at)
			}
			if bad != nil {
				return errors.Join(err, bad)
			}
		}
		if err != nil {
			return err
		}
		earlier, err := w.Lookup(indexCuts, personKey(person))
		for _, at := range earlier { // the new note replaces it
			err = errors.Join(err, w.Destroy(at))
		}
		if err != nil {
			return err
		}
		items := note.Items(nil).With(itemForm, note.Text(formCut)).With(itemPerson,
			note.Text(person.String())).With(itemBefore, note.Int(now.Unix())).
			With(itemBut, note.Text(but.String())).With(itemEnds, note.Int(now.Add(x.opt.Life+outlives).Unix()))
		_, err = w.Create(store.New{UNID: id, Content: note.Content{Items: items}})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("session: end: %w", err)
	}
	x.endedHere(gone)
	return len(gone), nil
}

func (x *Service) endedHere(ids []note.UNID) {
	if len(ids) == 0 {
		return
	}
	x.ended.Add(uint64(len(ids)))
	x.mu.Lock()
	list := x.enders
	x.mu.Unlock()
	for _, fn := range list {
		fn(ids)
	}
}
