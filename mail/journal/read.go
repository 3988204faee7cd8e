package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// page is the number of entries that one read of the store holds.
const page = 200

// Query selects entries by what is readable of them. Zero fields select nothing away.
type Query struct {
	// ID is the queue ID. MessageID is compared without regard to case.
	ID        note.UNID
	MessageID string
	// From and To are addresses of the envelope, Address either of them.
	From, To, Address string
	// After and Before bound the time: After included, Before not.
	After, Before time.Time
	// Above skips entries up to a number, to continue a search.
	Above uint64
}

// selects reports whether an entry matches.
func (q *Query) selects(e *Entry) bool {
	to := func(a string) bool {
		for _, r := range e.Recipients {
			if strings.EqualFold(r, a) {
				return true
			}
		}
		return false
	}
	switch {
	case !q.ID.IsZero() && e.ID != q.ID,
		q.MessageID != "" && !strings.EqualFold(e.MessageID, q.MessageID),
		q.From != "" && !strings.EqualFold(e.From, q.From),
		q.To != "" && !to(q.To),
		q.Address != "" && !strings.EqualFold(e.From, q.Address) && !to(q.Address),
		!q.After.IsZero() && e.Time.Before(q.After),
		!q.Before.IsZero() && !e.Time.Before(q.Before),
		e.Number <= q.Above:
		return false
	}
	return true
}

// start returns the index key at which a search begins, and the prefix that its keys have, without the time. whole
// means that the key is complete.
func (q *Query) start() (from, prefix []byte, whole bool) {
	switch {
	case !q.ID.IsZero():
		k := textKey(byID, q.ID.String())
		return k, k, true
	case q.MessageID != "":
		k := textKey(byMessageID, q.MessageID)
		return k, k, true
	}
	for _, a := range []string{q.From, q.To, q.Address} {
		if a != "" {
			return addressKey(a, q.After), addressPrefix(a), false
		}
	}
	if !q.After.IsZero() || !q.Before.IsZero() {
		return timeKey(q.After), []byte{byTime}, false
	}
	return numberKey(byNumber, q.Above+1), []byte{byNumber}, false
}

// Search calls fn for the entries of a database that a query selects, in the order of time, until it returns false. who
// needs the right to read the database. Errors: store.ErrDenied.
func (j *Journal) Search(ctx context.Context, who note.Who, db note.DatabaseID, q *Query,
	fn func(e *Entry) (bool, error)) error {
	if err := j.isJournal(db); err != nil {
		return err
	}
	w := newWalk(q)
	for w.more {
		if err := ctx.Err(); err != nil {
			return err
		}
		var found []Entry
		var bad error
		err := j.store.Read(ctx, who, db, func(r *store.Reader) error {
			if r.Rights()&note.Read == 0 {
				return store.ErrDenied
			}
			ids, err := w.page(r)
			if err == nil {
				found, bad = readAll(r, ids)
			}
			return err
		})
		if err != nil {
			return err
		}
		for i := range found {
			if !q.selects(&found[i]) {
				continue
			}
			if on, err := fn(&found[i]); err != nil || !on {
				return err
			}
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// walk goes through the keys of the index that may lead to entries of a query, page by page.
type walk struct {
	q            *Query
	from, prefix []byte
	whole        bool    // prefix is the whole key
	last         note.ID // read last under the key from
	more         bool
}

func newWalk(q *Query) *walk {
	w := &walk{q: q, more: true}
	w.from, w.prefix, w.whole = q.start()
	return w
}

// page returns the notes of the next page.
func (w *walk) page(r *store.Reader) (ids []note.ID, err error) {
	w.more = false
	err = r.Scan(indexJournal, w.from, func(key []byte, id note.ID) bool {
		if w.ends(key) {
			return false
		}
		if string(key) == string(w.from) && id <= w.last {
			return true // read before
		}
		if len(ids) == page {
			w.more = true
			return false
		}
		ids, w.from, w.last = append(ids, id), append([]byte(nil), key...), id
		return true
	})
	return ids, err
}

// ends reports whether no entry of the query has this key or a later one.
func (w *walk) ends(key []byte) bool {
	if w.whole {
		return string(key) != string(w.prefix)
	}
	if !fits(key, w.prefix) {
		return true
	}
	return w.prefix[0] != byNumber && !w.q.Before.IsZero() &&
		bytes.Compare(key[len(w.prefix):], timeKey(w.q.Before)[1:]) >= 0
}

// readAll reads entries up to the first that is damaged.
func readAll(r *store.Reader, ids []note.ID) (out []Entry, err error) {
	for _, id := range ids {
		c, err := r.Content(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("journal: note %d: %w", id, err)
		}
		e, ok, err := readEntry(&c.Content)
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}

// isJournal returns store.ErrNotFound for a database that is no journal.
func (j *Journal) isJournal(db note.DatabaseID) error {
	i, err := j.store.Info(db)
	if err == nil && (i.Kind != Kind || i.State == layout.PendingDelete) {
		err = fmt.Errorf("journal %s: %w", db, store.ErrNotFound)
	}
	return err
}

// Entry returns an entry and a function that writes its encrypted part. who needs the right to read the database.
// Errors: store.ErrNotFound, store.ErrDenied.
func (j *Journal) Entry(ctx context.Context, who note.Who, db note.DatabaseID, number uint64) (*Entry, io.WriterTo,
	error) {
	if err := j.isJournal(db); err != nil {
		return nil, nil, err
	}
	var e Entry
	var content *store.Stored
	err := j.store.Read(ctx, who, db, func(r *store.Reader) error {
		if r.Rights()&note.Read == 0 {
			return store.ErrDenied
		}
		ids, err := r.Lookup(indexJournal, numberKey(byNumber, number))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return fmt.Errorf("entry %d of journal %s: %w", number, db, store.ErrNotFound)
		}
		e, content, err = entryAt(r, ids[0])
		return err
	})
	return &e, content, err
}

// entryAt reads an entry and its encrypted part.
func entryAt(r *store.Reader, id note.ID) (e Entry, content *store.Stored, err error) {
	row, c, err := r.Document(id)
	if err != nil {
		return e, nil, err
	}
	e, ok, err := readEntry(&c.Content)
	if err == nil && !ok {
		err = fmt.Errorf("%w: note %d is no journal entry", store.ErrDamaged, id)
	}
	if err == nil {
		content, err = r.Message(row)
	}
	return e, content, err
}
