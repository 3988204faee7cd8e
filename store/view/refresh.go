package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// The bounds of one batch: notes, expunges examined, bytes of rows.
const (
	stepNotes = 256
	stepMods  = 4096
	stepBytes = 4 << 20
)

// ErrKeyed means that the database has a key of its own. Such a database has no views, because their rows hold content.
var ErrKeyed = fmt.Errorf("%w: a database with a key of its own has no views", ErrDefinition)

// Refresh updates the view to what is durable now. After a change of the definition, or with another incarnation of the
// store, it builds a new generation; readers use the old one until that is done. If ctx ends it, the work done so far
// is kept. If the design note is deleted, Refresh removes the view and returns ErrNotFound.
func (v *View) Refresh(ctx context.Context) error { return v.update(ctx, false) }

// Rebuild builds a new generation of the view, whatever the state of the present one, which readers use until the new
// one is done. If ctx ends it, the next Refresh continues.
func (v *View) Rebuild(ctx context.Context) error { return v.update(ctx, true) }

func (v *View) update(ctx context.Context, anew bool) error {
	lock := &refreshing[(uint64(v.db)^uint64(v.note))%uint64(len(refreshing))]
	lock.Lock()
	defer lock.Unlock()
	for {
		if err := v.refresh(ctx, anew); !errors.Is(err, store.ErrReplaced) {
			return err
		}
		// The rows were removed meanwhile, as when the database got a key of its own and lost it again.
	}
}

func (v *View) refresh(ctx context.Context, anew bool) error {
	var text string
	var at layout.Counters
	err := v.s.Read(ctx, note.System, v.db, func(r *store.Reader) (err error) {
		if r.Info().Key != nil {
			return ErrKeyed
		}
		at = r.Counters()
		text, err = v.definition(r)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return errors.Join(err, Drop(v.s, v.db, v.note))
	}
	if err != nil {
		return err
	}
	def, err := v.parse(text)
	if err != nil {
		return err
	}
	var m *meta
	if err := v.s.Inspect(func(r pebble.Reader) (err error) {
		m, err = v.readMeta(r)
		return err
	}); errors.Is(err, note.ErrCorrupt) {
		m = &meta{}
		if err := Drop(v.s, v.db, v.note); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	b, err := v.choose(m, text, def, at, anew)
	if err != nil {
		return err
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if more, err = v.step(ctx, m, b, def); err != nil {
			return err
		}
	}
	if b == m.Building {
		return v.swap(m)
	}
	return nil
}

// choose returns the generation to continue: the active one if it matches the definition and the incarnation of the
// store, else the one being built if it matches, else a new one. With anew it is always a new one.
func (v *View) choose(m *meta, text string, def *Definition, at layout.Counters, anew bool) (*branch, error) {
	fits := func(b *branch) bool {
		// Deletions below the floor are no longer recorded.
		return !anew && b != nil && b.Definition == text && b.Incarnation == v.s.Incarnation() && b.Mod >= at.Floor
	}
	if fits(m.Active) && m.Building == nil {
		return m.Active, nil
	}
	if fits(m.Building) {
		return m.Building, nil
	}
	if fits(m.Active) { // the definition was changed and changed back
		old := m.Building.Generation
		m.Building = nil
		return m.Active, v.derive(m, func(_ pebble.Reader, b *pebble.Batch) error {
			return v.clearGeneration(b, old)
		})
	}
	generation := byte(1)
	if m.Active != nil && m.Active.Generation == 1 {
		generation = 2
	}
	m.Building = &branch{
		Generation: generation, Definition: text, Incarnation: v.s.Incarnation(), Mod: at.Ledger.Last,
		Totals: make([]float64, len(def.Columns)),
	}
	return m.Building, v.derive(m, func(_ pebble.Reader, b *pebble.Batch) error {
		return v.clearGeneration(b, generation)
	})
}

// derive writes rows of the view, which show content, and the meta row. It returns ErrKeyed if the database got a key
// of its own since the refresh began, and store.ErrReplaced if the rows that this refresh continues were removed.
func (v *View) derive(m *meta, fn func(r pebble.Reader, b *pebble.Batch) error) error {
	var row []byte
	err := store.DerivePlain(v.s, v.db, v.keys.meta(), m.row,
		func(r pebble.Reader, _ uint32, b *pebble.Batch) (err error) {
			if err := fn(r, b); err != nil {
				return err
			}
			if row, err = json.Marshal(m); err != nil {
				return fmt.Errorf("view: meta: %w", err)
			}
			return b.Set(v.keys.meta(), row, nil)
		})
	if errors.Is(err, store.ErrKeyed) {
		return ErrKeyed
	}
	if err == nil {
		m.row = row
	}
	return err
}

// swap makes the new generation the one that is read.
func (v *View) swap(m *meta) error {
	old := m.Active
	m.Active, m.Building = m.Building, nil
	return v.derive(m, func(_ pebble.Reader, b *pebble.Batch) error {
		if old == nil {
			return nil
		}
		return v.clearGeneration(b, old.Generation)
	})
}

// placed is a note with its present rows in the view.
type placed struct {
	id   note.ID
	rows []row
	// revs holds the revisions of conflicts, and zero for the document itself. It is as long as rows.
	revs []note.Revision
}

// step applies the next changes and reports whether there may be more.
func (v *View) step(ctx context.Context, m *meta, b *branch, def *Definition) (more bool, err error) {
	var list []placed
	next := *b
	err = v.s.Read(ctx, note.System, v.db, func(r *store.Reader) error {
		ids, again, err := v.changed(r, &next)
		if err != nil {
			return err
		}
		more = again
		bytes := 0
		for i, id := range ids {
			p, err := place(r, def, id.note)
			if err != nil {
				return err
			}
			list = append(list, p)
			for _, x := range p.rows {
				bytes += 2*len(x.key) + maxShown
			}
			if bytes > stepBytes && i+1 < len(ids) && id.seq != 0 {
				// The next step handles the remaining sequence rows.
				next.Seq, more = id.seq, true
				break
			}
		}
		return nil
	})
	if err != nil || next.Seq == b.Seq && next.Mod == b.Mod {
		return false, err
	}
	err = v.derive(m, func(r pebble.Reader, batch *pebble.Batch) error {
		next.Totals = append([]float64(nil), b.Totals...)
		w := &writer{v: v, r: r, batch: batch, def: def, b: &next, cats: map[string]*categoryValue{}}
		for i := range list {
			if err := w.note(&list[i]); err != nil {
				return err
			}
		}
		if err := w.flush(); err != nil {
			return err
		}
		*b = next
		return nil
	})
	return more, err
}

// told is a changed note. seq is 0 if an expunge named it.
type told struct {
	note note.ID
	seq  uint64
}

// changed returns the notes after the cursors, deleted ones first, and advances the cursors.
func (v *View) changed(r *store.Reader, b *branch) (out []told, more bool, err error) {
	seen := map[note.ID]bool{}
	add := func(id note.ID, seq uint64) {
		if !seen[id] {
			seen[id] = true
			out = append(out, told{id, seq})
		}
	}
	n := 0
	err = r.Changes(b.Mod, func(mod note.ModSeq, c layout.Change) bool {
		if n++; n > stepMods || len(out) >= v.batch {
			more = true
			return false
		}
		b.Mod = mod
		if c.Gone {
			add(c.Note, 0)
		}
		return true
	})
	if err != nil {
		return nil, false, err
	}
	n = 0
	err = r.Since(b.Seq, func(seq uint64, id note.ID) bool {
		if n++; n > v.batch {
			more = true
			return false
		}
		b.Seq = seq
		add(id, seq)
		return true
	})
	return out, more, err
}

// place computes the present rows of a note. A note that is not a live document has none. A damaged one has none
// either: check reports it, and the view continues.
func place(r *store.Reader, def *Definition, id note.ID) (placed, error) {
	p := placed{id: id}
	n, err := r.Note(id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) {
		return p, nil
	}
	if err != nil || n.Class != note.Document {
		return p, err
	}
	c, err := r.Content(id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDamaged) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.rows = def.rows(n.UNID, &c.Content)
	p.revs = make([]note.Revision, len(p.rows))
	documents := p.rows
	for _, l := range c.Tree.Conflicts() {
		leaf, err := r.Leaf(id, l.Rev)
		if err != nil {
			continue // an unreadable conflict is not shown
		}
		values := def.show(n.UNID, leaf)
		for _, d := range documents {
			x := row{key: d.key, value: entryValue{conflict: true, ends: d.value.ends, values: values}}
			p.rows, p.revs = append(p.rows, x), append(p.revs, l.Rev)
		}
	}
	return p, nil
}

// show computes the values that a conflict shows. Its position is that of its document.
func (d *Definition) show(u note.UNID, c *note.Content) []note.Value {
	f := fields(u, c)
	out := make([]note.Value, len(d.Columns))
	for i := range d.Columns {
		v, _ := resolve(f, d.Columns[i].path)
		out[i] = shown(v)
	}
	return out
}

// writer writes rows and keeps the totals of a batch.
type writer struct {
	v     *View
	r     pebble.Reader
	batch *pebble.Batch
	def   *Definition
	b     *branch
	cats  map[string]*categoryValue // by key: what this batch adds
}

// note replaces a note's old entries by its new ones.
func (w *writer) note(p *placed) error {
	key := w.v.keys.note(w.b.Generation, p.id)
	old, err := get(w.r, key)
	if err != nil {
		return err
	}
	if old != nil {
		if err := w.remove(old); err != nil {
			return err
		}
	}
	if len(p.rows) == 0 {
		if old == nil {
			return nil
		}
		return w.batch.Delete(key, nil)
	}
	prefix := w.v.keys.of(layout.KindView, w.b.Generation)
	var ends [][]byte
	for i := range p.rows {
		x := &p.rows[i]
		end := suffix(x.key, p.id, p.revs[i])
		ends = append(ends, end)
		if err := w.batch.Set(append(prefix[:len(prefix):len(prefix)], end...), appendEntry(nil, &x.value),
			nil); err != nil {
			return err
		}
		w.total(x.key, &x.value, 1)
	}
	return w.batch.Set(key, appendSuffixes(nil, ends), nil)
}

func (w *writer) remove(old []byte) error {
	ends, err := readSuffixes(old)
	if err != nil {
		return fmt.Errorf("view: reverse row: %w", err)
	}
	prefix := w.v.keys.of(layout.KindView, w.b.Generation)
	for _, end := range ends {
		key := append(prefix[:len(prefix):len(prefix)], end...)
		row, err := get(w.r, key)
		if err != nil {
			return err
		}
		if row == nil {
			continue
		}
		e, err := readEntry(row)
		if err != nil {
			return fmt.Errorf("view: entry: %w", err)
		}
		w.total(end, e, -1)
		if err := w.batch.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// total adds an entry to the totals of the view and of its categories, or subtracts it. Conflicts do not count.
func (w *writer) total(key []byte, e *entryValue, sign float64) {
	if e.conflict {
		return
	}
	w.b.Entries += uint64(int64(sign))
	for i := range w.def.Columns {
		if i < len(e.values) {
			w.b.Totals[i] += sign * w.def.Columns[i].total(e.values[i])
		}
	}
	for level, end := range e.ends {
		if end > len(key) || level >= len(e.values) {
			return
		}
		c := w.cats[string(key[:end])]
		if c == nil {
			c = &categoryValue{totals: make([]float64, len(w.def.Columns))}
			w.cats[string(key[:end])] = c
		}
		c.count += uint64(int64(sign))
		if sign > 0 || c.values == nil {
			c.values = w.def.path(e.values, level+1)
		}
		for i := range w.def.Columns {
			c.totals[i] += sign * w.def.Columns[i].total(e.values[i])
		}
	}
}

// path returns the values of the first categories.
func (d *Definition) path(values []note.Value, levels int) []note.Value {
	var out []note.Value
	for i := range d.Columns {
		if d.Columns[i].Category && len(out) < levels {
			out = append(out, values[i])
		}
	}
	return out
}

// flush adds the batch's totals to the rows of categories.
func (w *writer) flush() error {
	prefix := w.v.keys.of(layout.KindViewMeta, w.b.Generation)
	for k, add := range w.cats {
		key := append(prefix[:len(prefix):len(prefix)], k...)
		row, err := get(w.r, key)
		if err != nil {
			return err
		}
		if row != nil {
			have, err := readCategory(row)
			if err != nil {
				return fmt.Errorf("view: category: %w", err)
			}
			add.count += have.count
			for i := range add.totals {
				if i < len(have.totals) {
					add.totals[i] += have.totals[i]
				}
			}
		}
		if add.count == 0 {
			err = w.batch.Delete(key, nil)
		} else {
			err = w.batch.Set(key, appendCategory(nil, add), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
