package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// Writer gathers changes of several databases that are written in one step with the cursor. It holds the
// lock of all states: there is one at a time, and it is short-lived.
type Writer struct {
	x      *Index
	b      *pebble.Batch
	states map[note.DatabaseID]*State
	err    error
}

// Update calls fn with a writer and writes what it did. An error of fn leaves no trace.
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

// State is a database's, for changing.
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

// Begin makes a new build of a database, as Active where there is none and else as Next. A Next that was there goes.
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

// Swap lets Next take the place of Active.
func (w *Writer) Swap(db note.DatabaseID) error {
	s, err := w.State(db)
	if err != nil || s.Next == nil {
		return err
	}
	dropBuild(w.b, db, s.Active)
	s.Active, s.Next = s.Next, nil
	return nil
}

// Drop removes all there is of a database, but for its numbers: what is cached under them is never something else.
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

// Restart drops what there is of a database and begins anew.
func (w *Writer) Restart(db note.DatabaseID) error {
	if err := w.Drop(db); err != nil {
		return err
	}
	return w.Begin(db)
}

// Put adds a piece. One of the same note and kind that still waits is replaced.
func (w *Writer) Put(db note.DatabaseID, b *Build, p *Piece) {
	row := appendRecord(make([]byte, 0, 24+len(p.Coded)), p)
	w.set(w.b.Set(recordKey(db, b.ID, p.Note, byte(p.Kind)), row, nil))
	b.Records++
	b.RecordBytes += uint64(len(row))
}

// Late says that a note's attachments are still to be read, or, with done, that they are no more.
func (w *Writer) Late(db note.DatabaseID, b *Build, id note.ID, done bool) {
	if done {
		w.set(w.b.Delete(lateKey(db, b.ID, id), nil))
		return
	}
	w.set(w.b.Set(lateKey(db, b.ID, id), nil, nil))
}

// Keep remembers which message a note had when it was read; 0 forgets it.
func (w *Writer) Keep(db note.DatabaseID, b *Build, id note.ID, message note.RecipeID) {
	key := messageKey(db, b.ID, id)
	if message == 0 {
		w.set(w.b.Delete(key, nil))
		return
	}
	w.set(w.b.Set(key, binary.AppendUvarint(nil, uint64(message)), nil))
}

// Kept is the message that a build remembers of a note, as it was before this update; 0 where there is none.
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

// Kept is the message that a build of a database remembers of a note.
func (x *Index) Kept(db note.DatabaseID, build uint32, id note.ID) (note.RecipeID, error) {
	if err := x.enter(); err != nil {
		return 0, err
	}
	defer x.leave()
	return kept(x.eng, db, build, id)
}

// Kept is the message that the view's build remembers of a note.
func (v *View) Kept(id note.ID) (note.RecipeID, error) { return kept(v.snap, v.db, v.Build.ID, id) }

// Cursor moves the index's cursor.
func (w *Writer) Cursor(c Cursor) { w.set(putCursor(w.b, c)) }

// Full says whether so many records wait that they should become a segment: see Pack.
func (b *Build) Full() bool { return b.Records >= recordsMax || b.RecordBytes >= recordBytesMax }

// Pack makes a segment of the records that wait in a build. They are those of earlier updates.
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
	s, err := w.State(db)
	if err != nil {
		return err
	}
	if len(pieces) > 0 {
		sw := w.x.newSegment(db, s.number(), nil)
		invert(sw, pieces)
		info, err := sw.finish(w.b)
		if err != nil {
			return err
		}
		b.Segments = append(b.Segments, info)
	}
	w.set(w.b.DeleteRange(prefix, after(prefix), nil))
	b.Records, b.RecordBytes = 0, 0
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

// invert writes a segment of pieces.
func invert(w *segmentWriter, pieces []*Piece) {
	var docs Docs
	total := 0
	for _, p := range pieces {
		docs.addPiece(p)
		total += len(p.Terms)
	}
	w.docs(&docs)
	// One entry a posting, each with the next of its term: appending lists would take as much again.
	type posting struct {
		ord  uint32
		code Code
		next int32
	}
	type list struct {
		term        []byte
		first, last int32
	}
	postings := make([]posting, 0, total)
	lists := make([]list, 0, total/3+16)
	byTerm := make(map[string]int32, total/3+16)
	for ord, p := range pieces {
		for _, t := range p.Terms {
			at := int32(len(postings))
			postings = append(postings, posting{uint32(ord), t.Code, -1})
			// The terms lie in rows that nobody changes.
			n, ok := byTerm[unsafe.String(unsafe.SliceData(t.Text), len(t.Text))]
			if !ok {
				byTerm[unsafe.String(unsafe.SliceData(t.Text), len(t.Text))] = int32(len(lists))
				lists = append(lists, list{t.Text, at, at})
				continue
			}
			postings[lists[n].last].next = at
			lists[n].last = at
		}
	}
	slices.SortFunc(lists, func(a, b list) int { return compareTerms(a.term, b.term) })
	for _, l := range lists {
		for at := l.first; at >= 0; at = postings[at].next {
			w.posting(postings[at].ord, postings[at].code)
		}
		w.term(l.term)
	}
}

// Forget takes a note off the list of those whose attachments are still to be read, for a build that is no more.
func (w *Writer) Forget(db note.DatabaseID, build uint32, id note.ID) error {
	w.set(w.b.Delete(lateKey(db, build, id), nil))
	return w.err
}
