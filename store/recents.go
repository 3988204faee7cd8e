package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// Recents records, per folder, up to which UID sessions were told of its messages.
type Recents struct{ s *Store }

// NewRecents returns the record of a store.
func NewRecents(s *Store) Recents { return Recents{s} }

// Claim raises the folder's Told to upTo and returns its previous value. The caller's session is the first to be told
// of the messages with UIDs from there up to upTo-1. If another session was told of all of them, or if the folder is
// gone or has another UIDVALIDITY, Claim returns upTo or more and changes nothing.
//
// Claim does not wait for a flush. The row becomes durable with the next flush of the log. After a crash before that,
// the messages are recent once more. Claim takes no sequence and wakes no watcher, since no note has changed.
func (c Recents) Claim(id note.DatabaseID, folder note.ID, validity, upTo uint32) (from uint32, err error) {
	db, err := c.s.dbs.acquire(id)
	if err != nil {
		return 0, err
	}
	defer c.s.dbs.release(db)
	db.write.Lock()
	defer db.write.Unlock()
	if db.gone {
		return 0, fmt.Errorf("%w: database %s", ErrNotFound, id)
	}
	st := *db.cur.Load()
	i, ok := slices.BinarySearchFunc(st.folders, folder, func(f *layout.Folder,
		id note.ID) int {
		return cmp.Compare(f.Note, id)
	})
	if !ok || st.folders[i].UIDValidity != validity {
		return upTo, nil
	}
	h := *st.folders[i]
	if from = h.Told; from >= upTo {
		return from, nil
	}
	h.Told = upTo
	st.folders = slices.Clone(st.folders)
	st.folders[i] = &h
	return from, c.apply(db, &st, &h)
}

// apply writes the head of a folder and publishes the state that has it. The caller holds db.write.
func (c Recents) apply(db *database, st *state, h *layout.Folder) error {
	b := c.s.eng.NewBatch()
	set(b, layout.NoteKey(db.num, layout.KindFolder, h.Note), layout.AppendFolder(nil, h))
	db.publish.Lock()
	defer db.publish.Unlock()
	if err := c.s.eng.Apply(b, pebble.NoSync); err != nil {
		return c.s.die(errors.Join(err, b.Close()))
	}
	db.cur.Store(st)
	return b.Close()
}
