package store

import (
	"bytes"
	"errors"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// maxIndex is the highest number of an index.
const maxIndex = 255

// Index is a set of sorted keys that are computed from each note's content and updated in the same batch as the note.
// So it always matches what was committed. It is declared when the store is opened. Keys must be a pure function of its
// arguments.
type Index struct {
	// Number identifies the index in keys, permanently: 1–255. Kind is the kind of database that has the index.
	Number uint64
	Kind   string
	Keys   func(c note.Class, content *note.Content) [][]byte
}

// indexKey returns the key of a note's row in an index: number, key, 0x00, note id. Keys contain no 0x00 byte, so the
// rows of one key never lie among those of another.
func indexKey(db uint32, number uint64, key []byte, id note.ID) []byte {
	k := append(layout.IDKey(db, layout.KindView, number), key...)
	return append(append(k, 0), uint64Bytes(uint64(id))...)
}

// settleIndexes compares the keys of a note before and after the update.
func (se *settlement) settleIndexes(t *txNote) error {
	if t.content == nil && t.row != nil || len(se.s.opt.Indexes) == 0 {
		return nil
	}
	for _, x := range se.s.opt.Indexes {
		if x.Kind != se.st.info.Kind {
			continue
		}
		var before, after [][]byte
		if t.orig != nil && !t.orig.Stub {
			if err := se.loadBefore(t); err != nil {
				return err
			}
			before = x.Keys(t.orig.Class, &t.before.Content)
		}
		if t.row != nil && !t.row.Stub {
			after = x.Keys(t.row.Class, &t.content.Content)
		}
		se.compareKeys(t, x.Number, before, after)
	}
	return nil
}

// compareKeys merges both lists in sorted order, because a group of thousands of members has thousands of keys.
func (se *settlement) compareKeys(t *txNote, index uint64, before, after [][]byte) {
	slices.SortFunc(before, bytes.Compare)
	slices.SortFunc(after, bytes.Compare)
	add := func(k []byte, remove bool) {
		se.entries = append(se.entries, entry{indexKey(se.db.num, index, k, t.id), remove})
	}
	for len(before) > 0 || len(after) > 0 {
		c := 0
		switch {
		case len(before) == 0:
			c = 1
		case len(after) == 0:
			c = -1
		default:
			c = bytes.Compare(before[0], after[0])
		}
		switch {
		case c < 0:
			add(before[0], true)
			before = before[1:]
		case c > 0:
			add(after[0], false)
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
}

type entry struct {
	key    []byte
	remove bool
}

// loadBefore reads the content before the update.
func (se *settlement) loadBefore(t *txNote) error {
	if t.before != nil {
		return nil
	}
	c, err := se.storedContent(t.id)
	if err == nil {
		t.before = c
	}
	return err
}

// Lookup returns the notes with exactly key in an index, in order of arrival. In an update, it sees the state before
// the update.
func (sn *snapshot) Lookup(index uint64, key []byte) ([]note.ID, error) {
	var out []note.ID
	prefix := append(append(layout.IDKey(sn.db.num, layout.KindView, index), key...), 0)
	err := scan(sn.eng, prefix, func(k, _ []byte) error {
		if len(k) == len(prefix)+8 {
			out = append(out, note.ID(layout.Tail64(k)))
		}
		return nil
	})
	return out, err
}

// Scan calls fn for the entries of an index from key from on, in order, until fn returns false. key is valid only
// during the call.
func (sn *snapshot) Scan(index uint64, from []byte, fn func(key []byte, id note.ID) bool) error {
	prefix := layout.IDKey(sn.db.num, layout.KindView, index)
	lo := append(slices.Clone(prefix), from...)
	return scanRange(sn.eng, lo, layout.After(prefix), func(k, _ []byte) error {
		if len(k) < len(prefix)+9 || !fn(k[len(prefix):len(k)-9], note.ID(layout.Tail64(k))) {
			return errStop
		}
		return nil
	})
}

// Derive writes rows that are computed from committed data, such as the entries of a lazy view. fn reads a snapshot and
// fills a batch. The batch is applied without waiting for the disk, because after a crash the rows are computed again.
// number is the database's number in keys.
func (s *Store) Derive(id note.DatabaseID, fn func(r pebble.Reader, number uint32, b *pebble.Batch) error) error {
	return deriveRows(s, id, fn, func(_ *database, b *pebble.Batch) error {
		return engineError(b.Commit(pebble.NoSync))
	})
}

// ErrKeyed means that a database has a key of its own: rows that show its content are not written.
var ErrKeyed = errors.New("store: the database has a key of its own")

// ErrReplaced means that the row that DerivePlain was to continue from is another one, or gone.
var ErrReplaced = errors.New("store: the derived rows were replaced meanwhile")

// DerivePlain is Store.Derive for rows that show content. If the database has a key of its own when the batch is to be
// applied, it applies nothing and returns ErrKeyed. SetKey waits for the batch, so that Settle, which removes such
// rows, finds all. The database may also have got a key and lost it again since the rows before were written. So key
// and value are those of the row from which fn continues, with nil for none; if it is not there any more, DerivePlain
// applies nothing and returns ErrReplaced.
func DerivePlain(s *Store, id note.DatabaseID, key, value []byte,
	fn func(r pebble.Reader, number uint32, b *pebble.Batch) error) error {
	return deriveRows(s, id, fn, func(db *database, b *pebble.Batch) error {
		db.write.Lock()
		defer db.write.Unlock()
		if db.cur.Load().info.Key != nil {
			return ErrKeyed
		}
		have, err := getValue(s.eng, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if !bytes.Equal(have, value) {
			return ErrReplaced
		}
		return engineError(b.Commit(pebble.NoSync))
	})
}

// deriveRows has fn fill a batch, and apply apply it.
func deriveRows(s *Store, id note.DatabaseID, fn func(r pebble.Reader, number uint32, b *pebble.Batch) error,
	apply func(*database, *pebble.Batch) error) error {
	db, err := s.dbs.acquire(id)
	if err != nil {
		return err
	}
	defer s.dbs.release(db)
	snap := s.eng.NewSnapshot()
	defer snap.Close()
	b := s.eng.NewBatch()
	defer b.Close()
	if err := fn(snap, db.num, b); err != nil {
		return err
	}
	return apply(db, b)
}

// Inspect calls fn with a snapshot of all rows, for check and dump.
func (s *Store) Inspect(fn func(r pebble.Reader) error) error {
	if err := s.dbs.enter(); err != nil {
		return err
	}
	defer s.dbs.leave()
	snap := s.eng.NewSnapshot()
	err := s.hz.wait(s.hz.taken()) // everything that fn sees is durable, as in Read
	if err == nil {
		err = fn(snap)
	}
	return errors.Join(err, snap.Close())
}

// Indexes returns the indexes that the store was opened with, for check.
func (s *Store) Indexes() []Index { return s.opt.Indexes }
