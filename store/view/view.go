// Package view maintains user-defined views: persistent sorted lists of documents, defined by a design note (a Mango
// selector, and columns with sort, categories and totals). A view is lazy: Refresh updates it from the view's own
// cursor, and Read shows its rows without reading a note's content.
package view

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// ErrNotBuilt means that a view was never refreshed.
var ErrNotBuilt = errors.New("view: not built yet")

// View is a user-defined view of a database.
type View struct {
	s    *store.Store
	db   note.DatabaseID
	note note.ID
	keys keys
	// batch is the number of notes that one batch handles.
	batch int

	mu     sync.Mutex
	parsed map[string]*Definition // by text; at most a few
}

// refreshing serializes the Refreshes of a view, however many times it is open. Several views may share a lock.
var refreshing [64]sync.Mutex

// Open opens the view that a design note defines. It reads only the definition.
func Open(s *store.Store, db note.DatabaseID, viewNote note.ID) (*View, error) {
	info, err := s.Info(db)
	if err != nil {
		return nil, err
	}
	v := &View{s: s, db: db, note: viewNote, keys: keys{info.Number, Number(viewNote)}, batch: stepNotes,
		parsed: map[string]*Definition{}}
	err = s.Read(context.Background(), note.System, db, func(r *store.Reader) error {
		text, err := v.definition(r)
		if err == nil {
			_, err = v.parse(text)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("view: open %d: %w", viewNote, err)
	}
	return v, nil
}

// Definition returns the present definition in the design note.
func (v *View) Definition(ctx context.Context) (*Definition, error) {
	var d *Definition
	err := v.s.Read(ctx, note.System, v.db, func(r *store.Reader) error {
		text, err := v.definition(r)
		if err == nil {
			d, err = v.parse(text)
		}
		return err
	})
	return d, err
}

func (v *View) definition(r *store.Reader) (string, error) {
	n, err := r.Note(v.note)
	if err != nil {
		return "", err
	}
	c, err := r.Content(v.note)
	if err != nil {
		return "", err
	}
	text := c.Content.Items.Get(ItemView).AsText()
	if n.Class != note.Design || text == "" {
		return "", fmt.Errorf("%w: note %d is not a design note with a view", ErrDefinition, v.note)
	}
	return text, nil
}

func (v *View) parse(text string) (*Definition, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d := v.parsed[text]; d != nil {
		return d, nil
	}
	d, err := ParseDefinition([]byte(text))
	if err != nil {
		return nil, err
	}
	if len(v.parsed) >= 4 {
		clear(v.parsed)
	}
	v.parsed[text] = d
	return d, nil
}

// Drop removes all rows of a view. It is called when the design note is deleted.
func Drop(s *store.Store, db note.DatabaseID, viewNote note.ID) error {
	return s.Derive(db, func(_ pebble.Reader, num uint32, b *pebble.Batch) error {
		var errs []error
		for _, kind := range []layout.Kind{layout.KindView, layout.KindViewNote, layout.KindViewMeta} {
			prefix := layout.IDKey(num, kind, Number(viewNote))
			errs = append(errs, b.DeleteRange(prefix, layout.After(prefix), nil))
		}
		return errors.Join(errs...)
	})
}

func get(r pebble.Reader, key []byte) ([]byte, error) {
	p, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	v := append([]byte{}, p...)
	return v, closer.Close()
}

func (v *View) readMeta(r pebble.Reader) (*meta, error) {
	row, err := get(r, v.keys.meta())
	if err != nil {
		return nil, err
	}
	return readMeta(row)
}

// clearGeneration removes all rows of a generation.
func (v *View) clearGeneration(b *pebble.Batch, generation byte) error {
	var errs []error
	for _, kind := range []layout.Kind{layout.KindView, layout.KindViewNote, layout.KindViewMeta} {
		prefix := v.keys.of(kind, generation)
		errs = append(errs, b.DeleteRange(prefix, layout.After(prefix), nil))
	}
	return errors.Join(errs...)
}
