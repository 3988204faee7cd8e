package search

import (
	"errors"

	"doublet/note"
	"doublet/store"
)

// block stops the build of a database that cannot be read, and retries after retryEvery.
func (w *worker) block(db note.DatabaseID, err error) {
	if errors.Is(err, store.ErrDamaged) {
		w.s.log.Warn("search: cannot read a database", "database", db.String(), "err", err)
	}
	w.blocked[db] = w.s.env.Clock.Now().Add(retryEvery)
}

// pastDamage reads the rows after upto one by one, up to the first row of a note, readable or not. It is for a damaged
// row: Reader.Notes ends there without naming the note. It returns the last id that it read. ended means that there are
// no more rows.
func (w *worker) pastDamage(
	r *store.Reader, t *step, db note.DatabaseID, upto note.ID, kind texts,
) (last note.ID, ended bool, err error) {
	end := r.Counters().NextNote
	for id := upto + 1; id < end; id++ {
		row, err := r.Row(id)
		if errors.Is(err, store.ErrNotFound) { // no note, or a deletion stub
			if id-upto >= buildRows {
				return id, false, nil
			}
			continue
		}
		l := learned{db: db, id: id}
		switch {
		case errors.Is(err, store.ErrDamaged):
			w.notes.unreadable(&l, err)
		case err != nil:
			return upto, false, err
		default:
			l.seq = row.Seq
			if err := w.notes.fill(r, row, &l, kind); err != nil {
				return upto, false, err
			}
		}
		t.add(l)
		return id, false, nil
	}
	return max(upto, end-1), true, nil
}
