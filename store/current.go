package store

import (
	"context"

	"doublet/note"
	"doublet/store/layout"
)

// Current is the state of a database after its latest commit.
type Current struct {
	// Info is the description. The caller must not change it.
	Info     *layout.Info
	Counters layout.Counters
	Position Position
}

// Current returns the state of a database, for the server itself. Like Read it waits until that state is durable. It
// takes no snapshot of the engine if it is known whether a note waits to be numbered: it is for replication, which asks
// this several times for each change.
func (s *Store) Current(ctx context.Context, id note.DatabaseID) (c Current, err error) {
	if err := ctx.Err(); err != nil {
		return c, err
	}
	db, err := s.dbs.acquire(id)
	if err != nil {
		return c, err
	}
	defer s.dbs.release(db)
	r := &Reader{who: &note.System}
	r.snapshot = snapshot{s: s, db: db, st: db.cur.Load()}
	waits, known := r.pending()
	if r.st.counters.Ledger.Shared && !known {
		err := s.Read(ctx, note.System, id, func(r *Reader) error {
			c = r.Current()
			return nil
		})
		return c, err
	}
	if err := s.hz.wait(r.st.latest()); err != nil {
		return c, err
	}
	if err := r.serving(); err != nil {
		return c, err
	}
	return Current{Info: r.st.info, Counters: r.st.counters, Position: r.position(waits)}, nil
}

// Current returns the state of the database.
func (sn *snapshot) Current() Current {
	return Current{Info: sn.st.info, Counters: sn.st.counters, Position: sn.Position()}
}
