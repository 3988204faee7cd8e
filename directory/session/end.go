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

// What is ended stays so wherever word of it comes in whatever order: beside the deletion of the session's note, which an
// edit elsewhere would undo, stands a note that says that it is ended. Nobody edits that, and it is deleted when no session
// of that time can be in use any more.

// outlives is how much longer than a session may last it is remembered that it was ended: clocks and settings of members differ,
// and some have been away.
const outlives = 30 * 24 * time.Hour

// markOf is the id of the note that says that a session is ended.
func markOf(session note.UNID) note.UNID { return note.DeriveUNID([]byte("session ended"), session[:]) }

// marked says whether a session of that id was ended by itself.
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

// endedWithAll says whether a session was ended with all of its person, or of everybody.
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
			if s.Created.Before(unix(items.Get(itemBefore))) && items.Get(itemBut).AsText() != s.ID.String() && !strings.Contains(s.After, u.String()) {
				return true, nil
			}
		}
	}
	return false, nil
}

// cuts are the ids of the notes that have ended all sessions of a person, or of everybody: what begins now, begins after them,
// whatever the clocks say.
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

// over says whether a session that is here was ended.
func over(r *store.Reader, s *Session) (bool, error) {
	ended, err := marked(r, s.ID)
	if err == nil && !ended {
		ended, err = endedWithAll(r, s)
	}
	return ended, err
}

// endOne ends the session of a note.
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

// mark says that a session is ended.
func (x *Service) mark(w *store.Writer, s *Session) error {
	ends := s.Created.Add(x.opt.Life)
	if s.Ends.After(ends) {
		ends = s.Ends
	}
	items := note.Items(nil).With(itemForm, note.Text(formEnded)).With(itemPerson, note.Text(s.Person.String())).With(itemEnds, note.Int(ends.Add(outlives).Unix()))
	_, err := w.Create(store.New{UNID: markOf(s.ID), Content: note.Content{Items: items}})
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
		err = nil
	}
	return err
}

// End ends a session of a person; the zero UNID is anybody. Errors: ErrNone.
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
		if absent(err) { // it has not come here yet, or was ended meanwhile
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

// EndAll ends the sessions of a person, of the zero UNID those of everybody, but one, which may be the zero UNID, and says
// how many were known here. Those that began elsewhere in a second before this one, by the clock there, and of which no word has
// come here yet, are ended too.
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
		for _, at := range earlier { // this one says more
			err = errors.Join(err, w.Destroy(at))
		}
		if err != nil {
			return err
		}
		items := note.Items(nil).With(itemForm, note.Text(formCut)).With(itemPerson, note.Text(person.String())).With(itemBefore, note.Int(now.Unix())).
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
