package directory

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/store"
)

// Position is a position in this server's changes of the directory. It has no meaning on another server, and none after
// this one was restored from a backup.
type Position struct{ Incarnation, Seq uint64 }

// Changes returns the ids of the entries that have changed after a position, and the position after them. ok is false
// if the position is not from this store, or more than 20,000 notes have changed: then any entry may have changed.
func (ns *Names) Changes(ctx context.Context, after Position) (changed map[note.UNID]bool, now Position, ok bool,
	err error) {
	now.Incarnation = ns.s.Now().Incarnation
	err = ns.read(ctx, func(r *store.Reader) error {
		now.Seq = r.Counters().Seq
		if ok = after.Incarnation == now.Incarnation && after.Seq <= now.Seq; !ok {
			return nil
		}
		var ids []note.ID
		err := r.Since(after.Seq, func(_ uint64, id note.ID) bool {
			ids = append(ids, id)
			return len(ids) <= maxBook
		})
		if ok = len(ids) <= maxBook; !ok || err != nil {
			return err
		}
		changed = make(map[note.UNID]bool, len(ids))
		for _, id := range ids {
			row, err := r.Note(id)
			if err == nil {
				changed[row.UNID] = true
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	return changed, now, ok, err
}
