package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// Writer collects changes to several databases, which are written together with the cursor in one batch. It holds the
// lock of all states, so there is only one at a time, and it should be short-lived.
type Writer struct {
	x      *Index
	b      *pebble.Batch
	states map[note.DatabaseID]*State
	err    error
}

// Update calls fn with a Writer and commits its changes. If fn returns an error, nothing is written.
func (x *Index) Update(fn func(*Writer) error) error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	x.state.Lock()
	defer x.state.Unlock()
	w := &Writer{x: x, b: x.eng.NewBatch(), states: make(map[note.DatabaseID]*State)}
	defer w.b.Close()
	if err := errors.Join(fn(w), w.err); err != nil {
		return err
	}
	for db, s := range w.states {
		w.set(w.b.Set(dbKey(spaceState, db), appendState(nil, s), nil))
	}
	if w.err == nil {
		w.err = w.b.Commit(pebble.NoSync)
	}
	return engineError(w.err)
}

func (w *Writer) set(err error) {
	if w.err == nil {
		w.err = err
	}
}

// State returns the state of a database. The caller may modify it; Update writes it.
func (w *Writer) State(db note.DatabaseID) (*State, error) {
	if s := w.states[db]; s != nil {
		return s, nil
	}
	s, err := stateOf(w.x.eng, db)
	if err == nil {
		w.states[db] = s
	}
	return s, err
}

// Begin creates a new build of a database: as Active if there is none, otherwise as Next. An existing Next is dropped.
func (w *Writer) Begin(db note.DatabaseID) error {
	s, err := w.State(db)
	if err != nil {
		return err
	}
	b := &Build{ID: s.number()}
	if s.Active == nil {
		s.Active = b
		return nil
	}
	dropBuild(w.b, db, s.Next)
	s.Next = b
	return nil
}

// Swap replaces Active by Next.
func (w *Writer) Swap(db note.DatabaseID) error {
	s, err := w.State(db)
	if err != nil || s.Next == nil {
		return err
	}
	dropBuild(w.b, db, s.Active)
	s.Active, s.Next = s.Next, nil
	return nil
}

// Drop removes the builds of a database. It keeps the counter of numbers, so that a number in the cache is never
// reused.
func (w *Writer) Drop(db note.DatabaseID) error {
	s, err := w.State(db)
	if err != nil {
		return err
	}
	dropBuild(w.b, db, s.Active)
	dropBuild(w.b, db, s.Next)
	s.Active, s.Next = nil, nil
	return nil
}

// Restart drops the builds of a database and begins a new one.
func (w *Writer) Restart(db note.DatabaseID) error {
	if err := w.Drop(db); err != nil {
		return err
	}
	return w.Begin(db)
}

// Put adds a piece. It replaces a waiting piece of the same note and kind.
func (w *Writer) Put(db note.DatabaseID, b *Build, p *Piece) {
	row := appendRecord(make([]byte, 0, 28+4*len(p.Pairs)+len(p.Coded)), p)
	w.set(w.b.Set(recordKey(db, b.ID, p.Note, byte(p.Kind)), row, nil))
	b.Records++
	b.RecordBytes += uint64(len(row))
}

// Late records that a note's attachments are still to be read or, if done is set, that they have been read.
func (w *Writer) Late(db note.DatabaseID, b *Build, id note.ID, done bool) {
	if done {
		w.set(w.b.Delete(lateKey(db, b.ID, id), nil))
		return
	}
	w.set(w.b.Set(lateKey(db, b.ID, id), nil, nil))
}

// Keep records the message that a note had when it was read; 0 removes the record.
func (w *Writer) Keep(db note.DatabaseID, b *Build, id note.ID, message note.RecipeID) {
	key := messageKey(db, b.ID, id)
	if message == 0 {
		w.set(w.b.Delete(key, nil))
		return
	}
	w.set(w.b.Set(key, binary.AppendUvarint(nil, uint64(message)), nil))
}

// Kept returns the message that a build has recorded for a note, as of before this update; 0 if there is none.
func (w *Writer) Kept(db note.DatabaseID, b *Build, id note.ID) (note.RecipeID, error) {
	return kept(w.x.eng, db, b.ID, id)
}

func kept(r pebble.Reader, db note.DatabaseID, build uint32, id note.ID) (note.RecipeID, error) {
	v, closer, err := r.Get(messageKey(db, build, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, engineError(err)
	}
	n, k := binary.Uvarint(v)
	if err = engineError(closer.Close()); err == nil && k <= 0 {
		err = fmt.Errorf("%w: message of note %d", ErrDamaged, id)
	}
	return note.RecipeID(n), err
}

// Kept returns the message that a build of a database has recorded for a note, or 0.
func (x *Index) Kept(db note.DatabaseID, build uint32, id note.ID) (note.RecipeID, error) {
	if err := x.enter(); err != nil {
		return 0, err
	}
	defer x.leave()
	return kept(x.eng, db, build, id)
}

// Kept returns the message that the view's build has recorded for a note, or 0.
func (v *View) Kept(id note.ID) (note.RecipeID, error) { return kept(v.snap, v.db, v.Build.ID, id) }

// Cursor sets the index's cursor.
func (w *Writer) Cursor(c Cursor) { w.set(putCursor(w.b, c)) }

// Full reports whether enough records wait to be made a segment with Pack.
func (b *Build) Full() bool { return b.Records >= recordsMax || b.RecordBytes >= recordBytesMax }

// Pack makes a segment of the waiting records of a build. It includes only records of earlier updates.
func (w *Writer) Pack(db note.DatabaseID, b *Build) error {
	var pieces []*Piece
	prefix := partKey(spaceRecord, db, b.ID)
	err := scan(w.x.eng, prefix, func(k, v []byte) (bool, error) {
		id, ok := recordNote(k)
		p, whole := readRecord(id, slices.Clone(v))
		if !ok || !whole {
			return false, fmt.Errorf("%w: record %x", ErrDamaged, k)
		}
		pieces = append(pieces, p)
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := w.Add(db, b, pieces); err != nil {
		return err
	}
	w.set(w.b.DeleteRange(prefix, after(prefix), nil))
	b.Records, b.RecordBytes = 0, 0
	return nil
}

// Add adds pieces to a build as a segment of their own.
func (w *Writer) Add(db note.DatabaseID, b *Build, pieces []*Piece) error {
	if len(pieces) == 0 {
		return nil
	}
	s, err := w.State(db)
	if err != nil {
		return err
	}
	sw := w.x.newSegment(db, s.number(), nil)
	if err := invert(sw, pieces); err != nil {
		return errors.Join(err, sw.batch.Close())
	}
	info, err := sw.finish(w.b)
	if err != nil {
		return err
	}
	b.Segments = append(b.Segments, info)
	return nil
}

func recordNote(k []byte) (note.ID, bool) {
	if len(k) != 1+8+4+8+1 {
		return 0, false
	}
	id := note.ID(0)
	for _, c := range k[13:21] {
		id = id<<8 | note.ID(c)
	}
	return id, true
}

// invert writes pieces as a segment.
func invert(w *segmentWriter, pieces []*Piece) error {
	var docs Docs
	total := 0
	for _, p := range pieces {
		docs.addPiece(p)
		total += p.Count
	}
	w.docs(&docs)
	invertPairs(w, &docs, pieces)
	t := newTerms(total)
	for ord, p := range pieces {
		if !t.add(uint32(ord), p) {
			return fmt.Errorf("%w: words of note %d", ErrDamaged, p.Note)
		}
	}
	t.each(func(term []byte, list []posting) {
		for _, p := range list {
			w.posting(p.ord, p.code)
		}
		w.term(term)
	})
	return nil
}

// Forget removes the record that a note's attachments are still to be read, for a build that no longer exists.
func (w *Writer) Forget(db note.DatabaseID, build uint32, id note.ID) error {
	w.set(w.b.Delete(lateKey(db, build, id), nil))
	return w.err
}
