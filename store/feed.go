package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// Cursor is a consumer's position in the feed: a sequence within one incarnation of the store.
type Cursor struct {
	Incarnation uint64
	Seq         uint64
}

// Change is one changed note in the feed. The consumer reads the note's content from its database, so a late consumer
// sees the latest state.
type Change struct {
	Database note.DatabaseID
	Note     note.ID
	Seq      uint64
}

// Branch means that this incarnation of the store diverged from another one after sequence Seq of the other.
type Branch struct {
	Incarnation, Seq uint64
}

// feed reports changes to consumers, in order, up to the horizon, and stores their cursors.
type feed struct {
	*core
	// reads counts the calls of Feed, and inMemory those of them that read no rows.
	reads, inMemory atomic.Uint64
}

// branches returns the incarnations from which this one descends.
func (f *feed) branches() ([]Branch, error) {
	v, err := getValue(f.eng, layout.MetaKey(metaBranches))
	if errors.Is(err, ErrNotFound) { // a store that never branched
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Branch
	for ; len(v) >= 16; v = v[16:] {
		out = append(out, Branch{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])})
	}
	return out, nil
}

// Rebranch sets a new incarnation of the store, after a restore, a reseed or a clone. Every database takes its ledger
// over first, so that no number is assigned twice. A crash in between leaves the old incarnation, and the command must
// be repeated. Call Rebranch before anything else uses the store.
func (s *Store) Rebranch() error {
	parted := s.hz.durable()
	if err := s.takeOverAll(); err != nil {
		return err
	}
	list, err := s.branches()
	if err != nil {
		return err
	}
	var v []byte
	for _, b := range append(list, Branch{s.incarnation, parted}) {
		v = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(v, b.Incarnation), b.Seq)
	}
	b := s.eng.NewBatch()
	defer b.Close()
	set(b, layout.MetaKey(metaBranches), v)
	next := s.env.Uint64() | 1
	putUint(b, metaIncarnation, next)
	if err := b.Commit(pebble.Sync); err != nil {
		return s.die(err)
	}
	s.incarnation = next
	return nil
}

// resolve turns a cursor into a sequence of this incarnation. A cursor of another branch is limited to the point where
// the branches diverged. A cursor of an unknown incarnation starts at the beginning.
func (f *feed) resolve(c Cursor) (uint64, error) {
	if c.Incarnation == f.incarnation {
		return c.Seq, nil
	}
	list, err := f.branches()
	for _, b := range list {
		if b.Incarnation == c.Incarnation {
			return min(c.Seq, b.Seq), err
		}
	}
	return 0, err
}

// Feed calls fn for the changes after the cursor, in order, up to the horizon, until fn returns false. It returns the
// cursor after the changes taken. A change for which fn returned false was not taken and comes again. If nothing is
// left, the cursor is the horizon. ErrFeedCut means that the cursor lies before the feed's beginning, or that an entry
// is damaged: the consumer reads the databases' own rows (Since) instead and continues from Now.
func (f *feed) Feed(c Cursor, fn func(Change) bool) (Cursor, error) {
	if err := f.dbs.enter(); err != nil {
		return c, err
	}
	defer f.dbs.leave()
	seq, err := f.resolve(c)
	if err != nil {
		return c, err
	}
	f.reads.Add(1)
	r := &feedReader{feed: f, fn: fn, at: seq}
	list, horizon, ok := f.hz.since(seq)
	if ok {
		f.inMemory.Add(1)
		r.take(list)
	} else if err := r.scan(horizon); err != nil {
		return Cursor{f.incarnation, r.at}, err
	}
	if !r.stopped {
		// Sequences without an entry (recipes, gaps after a start) are passed too. Otherwise a consumer would always
		// have something left to read.
		r.at = max(r.at, horizon)
	}
	return Cursor{f.incarnation, r.at}, nil
}

// feedReader passes changes to a consumer. at is the sequence up to which the consumer has taken them, and stopped
// means that it refused the next one.
type feedReader struct {
	*feed
	fn      func(Change) bool
	at      uint64
	stopped bool
}

// take passes the changes above at to the consumer, until it refuses one. A database that was removed is passed over.
func (r *feedReader) take(items []layout.FeedItem) {
	for _, it := range items {
		if it.Seq <= r.at {
			continue
		}
		id, ok := r.dbs.byNumber(it.Database)
		if r.stopped = ok && !r.fn(Change{id, it.Note, it.Seq}); r.stopped {
			return
		}
		r.at = it.Seq
	}
}

// scan reads the changes from the engine, up to the horizon.
func (r *feedReader) scan(horizon uint64) error {
	snap := r.eng.NewSnapshot() // the cut and the entries must be of the same moment
	defer snap.Close()
	if cut, err := metaUint(snap, metaCut); err != nil || r.at < cut {
		return errorOr(err, ErrFeedCut)
	}
	lo, err := entryWith(snap, r.at+1)
	if err != nil {
		return err
	}
	err = scanRange(snap, lo, layout.NumberKey(layout.SpaceFeed, horizon+1), func(k, v []byte) error {
		items, err := layout.ReadFeed(layout.Tail64(k), v)
		if err != nil {
			return fmt.Errorf("%w: feed entry %d", ErrDamaged, layout.Tail64(k))
		}
		if r.take(items); r.stopped {
			return errStop
		}
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		// A damaged feed sends its consumers to the databases' own rows, as a feed that was cut does.
		err = fmt.Errorf("%w: %w", ErrFeedCut, err)
	}
	return err
}

// entryWith returns the key of the feed entry that can hold a sequence: the last entry that begins at or before it. A
// cursor may point between the changes of one commit.
func entryWith(r pebble.Reader, seq uint64) ([]byte, error) {
	it, err := r.NewIter(&pebble.IterOptions{
		LowerBound: layout.Key(layout.SpaceFeed), UpperBound: layout.NumberKey(layout.SpaceFeed, seq+1),
	})
	if err != nil {
		return nil, engineError(err)
	}
	key := layout.NumberKey(layout.SpaceFeed, seq)
	if it.Last() {
		key = append(key[:0], it.Key()...)
	}
	return key, engineError(errors.Join(it.Error(), it.Close()))
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Now returns the cursor after everything durable.
func (f *feed) Now() Cursor { return Cursor{f.incarnation, f.hz.durable()} }

// FeedMoved returns a channel that closes when there are changes after c.
func (f *feed) FeedMoved(c Cursor) <-chan struct{} {
	moved := f.hz.moved()
	if c.Incarnation != f.incarnation || f.hz.durable() > c.Seq {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return moved
}

// Since calls fn for the notes of a database that changed after seq, in order, until fn returns false. It reads the
// database's own rows, which hold each note once, at its latest change, and are never cut.
func (sn *snapshot) Since(seq uint64, fn func(seq uint64, id note.ID) bool) error {
	lo := layout.IDKey(sn.db.num, layout.KindSequence, seq+1)
	return scanRange(sn.eng, lo, layout.After(layout.Prefix(sn.db.num, layout.KindSequence)), func(k, v []byte) error {
		id, err := layout.ReadUNIDRow(v)
		if err != nil {
			return fmt.Errorf("%w: sequence row in database %s", ErrDamaged, sn.db.id)
		}
		if !fn(layout.Tail64(k), id) {
			return errStop
		}
		return nil
	})
}

// SaveCursor stores a consumer's cursor. It becomes durable with the next commit. After a crash the consumer may have
// to repeat a step.
func (f *feed) SaveCursor(consumer string, c Cursor) error {
	if err := f.dbs.enter(); err != nil {
		return err
	}
	defer f.dbs.leave()
	v := binary.BigEndian.AppendUint64(uint64Bytes(c.Incarnation), c.Seq)
	return engineError(f.eng.Set(append([]byte{byte(layout.SpaceCursor)}, consumer...), v, pebble.NoSync))
}

// LoadCursor returns a consumer's cursor. If none was saved, the cursor is at the beginning.
func (f *feed) LoadCursor(consumer string) (Cursor, error) {
	if err := f.dbs.enter(); err != nil {
		return Cursor{}, err
	}
	defer f.dbs.leave()
	v, err := getValue(f.eng, append([]byte{byte(layout.SpaceCursor)}, consumer...))
	if err != nil || len(v) != 16 {
		if err == nil || err == ErrNotFound {
			return Cursor{Incarnation: f.incarnation}, nil
		}
		return Cursor{}, err
	}
	return Cursor{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, nil
}

// DropCursor removes a consumer's cursor, so that the feed no longer keeps entries for it.
func (f *feed) DropCursor(consumer string) error {
	if err := f.dbs.enter(); err != nil {
		return err
	}
	defer f.dbs.leave()
	return engineError(f.eng.Delete(append([]byte{byte(layout.SpaceCursor)}, consumer...), pebble.NoSync))
}

func (d *databases) byNumber(num uint32) (note.DatabaseID, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, ok := d.byNum[num]
	return id, ok
}

// watchers are notified when the horizon passes a change of their database. They get no data but read it themselves, so
// a slow watcher misses nothing and costs nothing.
type watchers struct {
	mu   sync.RWMutex
	next uint64
	by   map[uint32]map[uint64]func()
}

// Watch calls fn after each durable change of the database, until stop is called. fn must not block and must not call
// the store.
func (f *feed) Watch(id note.DatabaseID, fn func()) (stop func(), err error) {
	f.dbs.mu.Lock()
	num, ok := f.dbs.number[id]
	f.dbs.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w: database %s", ErrNotFound, id)
	}
	w := &f.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	key := w.next
	if w.by == nil {
		w.by = make(map[uint32]map[uint64]func())
	}
	if w.by[num] == nil {
		w.by[num] = make(map[uint64]func())
	}
	w.by[num][key] = fn
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.by[num], key); len(w.by[num]) == 0 {
			delete(w.by, num)
		}
	}, nil
}

func (w *watchers) fire(passed []*span) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, sp := range passed {
		for _, num := range sp.databases {
			for _, fn := range w.by[num] {
				fn()
			}
		}
	}
}
