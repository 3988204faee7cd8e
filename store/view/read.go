package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// The default and the maximum number of entries in a page.
const (
	pageDefault = 100
	pageMost    = 10_000
)

// Query selects a page of a view.
type Query struct {
	// From is the position after which the page begins (Entry.Position, Page.Next, Category.Position). nil begins at
	// the start, or with Reverse at the end.
	From    []byte
	Reverse bool
	// Limit is the maximum number of entries (default 100, at most 10,000).
	Limit int
	// Category restricts the page to a category, given by the values of its path.
	Category []note.Value
}

// Entry is one row of a view: a document or a conflict.
type Entry struct {
	Note note.ID
	// Conflict marks a conflict: Revision of Note. It comes after the document itself.
	Conflict bool
	Revision note.Revision
	// Values are those of the columns, in the same order. Texts are cut to 1,024 bytes.
	Values   []note.Value
	Position []byte
}

// Page is a part of a view.
type Page struct {
	Entries []Entry
	// Next is the start of the next page, or nil at the end.
	Next []byte
	// Total and Totals cover all documents of the view, including those that the caller may not read.
	Total  uint64
	Totals []float64
}

// Category is a heading of a view.
type Category struct {
	Path     []note.Value
	Count    uint64
	Totals   []float64 // by column
	Position []byte
}

func (q *Query) limit() int {
	if q.Limit <= 0 {
		return pageDefault
	}
	return min(q.Limit, pageMost)
}

// Read returns a page as of the last Refresh. It skips entries of notes that were deleted since, and of notes that
// the reader, who, may not read.
func (v *View) Read(ctx context.Context, who note.Who, q Query) (Page, error) {
	var page Page
	err := v.reading(ctx, who, func(r *store.Reader, raw pebble.Reader, b *branch, def *Definition) error {
		page.Total, page.Totals = b.Entries, b.Totals
		category, err := def.categoryKey(q.Category)
		if err != nil {
			return err
		}
		limit := q.limit()
		readable := v.reader(r)
		return v.walk(raw, v.keys.of(layout.KindView, b.Generation), category, &q, func(k, value []byte) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			e, _, err := decodeEntry(k, value)
			if err != nil {
				return false, err
			}
			ok, err := readable(e.Note)
			if err != nil || !ok {
				return true, err
			}
			if len(page.Entries) == limit {
				page.Next = page.Entries[limit-1].Position
				return false, nil
			}
			page.Entries = append(page.Entries, e)
			return true, nil
		})
	})
	return page, err
}

// Categories returns the headings below q.Category at every level, in the view's order. If the reader, who, may not
// read all documents, it counts only those that the reader may read.
func (v *View) Categories(ctx context.Context, who note.Who, q Query) ([]Category, error) {
	var out []Category
	err := v.reading(ctx, who, func(r *store.Reader, raw pebble.Reader, b *branch, def *Definition) error {
		category, err := def.categoryKey(q.Category)
		if err != nil {
			return err
		}
		all, err := v.readsAll(raw, r, &who)
		if err != nil {
			return err
		}
		if !all {
			out, err = v.countCategories(ctx, raw, r, b, def, category, &q)
			return err
		}
		return v.walk(raw, v.keys.of(layout.KindViewMeta, b.Generation), category, &q,
			func(k, value []byte) (bool, error) {
				c, err := readCategory(value)
				if err != nil {
					return false, fmt.Errorf("view: category: %w", err)
				}
				out = append(out, Category{c.values, c.count, c.totals, append([]byte(nil), k...)})
				return len(out) < q.limit(), ctx.Err()
			})
	})
	return out, err
}

// reading calls fn with everything that a read needs.
func (v *View) reading(ctx context.Context, who note.Who, fn func(*store.Reader, pebble.Reader, *branch,
	*Definition) error) error {
	return v.s.Read(ctx, who, v.db, func(r *store.Reader) error {
		if _, err := r.Note(v.note); err != nil {
			return err
		}
		return v.s.Inspect(func(raw pebble.Reader) error {
			m, err := v.readMeta(raw)
			if err != nil {
				return err
			}
			if m.Active == nil {
				return ErrNotBuilt
			}
			def, err := v.parse(m.Active.Definition)
			if err != nil {
				return err
			}
			return fn(r, raw, m.Active, def)
		})
	})
}

// walk calls fn for the rows of a generation within a category. Keys are passed without prefix.
func (v *View) walk(raw pebble.Reader, prefix, category []byte, q *Query,
	fn func(k, value []byte) (bool, error)) error {
	lo := append(append([]byte(nil), prefix...), category...)
	it, err := raw.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: layout.After(lo)})
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	ok := false
	from := append(append([]byte(nil), prefix...), q.From...)
	switch {
	case q.Reverse && q.From == nil:
		ok = it.Last()
	case q.Reverse:
		ok = it.SeekLT(from)
	case q.From == nil:
		ok = it.First()
	default:
		ok = it.SeekGE(append(from, 0))
	}
	for ok {
		value, err := it.ValueAndErr()
		more := false
		if err == nil {
			more, err = fn(it.Key()[len(prefix):], value)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
		if q.Reverse {
			ok = it.Prev()
		} else {
			ok = it.Next()
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// categoryKey returns the start of all keys in a category.
func (d *Definition) categoryKey(path []note.Value) ([]byte, error) {
	if len(path) > d.categories {
		return nil, fmt.Errorf("%w: the view has %d categories", ErrDefinition, d.categories)
	}
	var key []byte
	for i, n := 0, 0; n < len(path); i++ {
		if d.Columns[i].Category {
			key = d.Columns[i].appendKey(key, path[n].Any())
			n++
		} else if d.Columns[i].Sort != "none" {
			break
		}
	}
	return key, nil
}

func decodeEntry(k, value []byte) (Entry, *entryValue, error) {
	e, err := readEntry(value)
	end := len(k) - 8
	if err == nil && e.conflict {
		end -= revisionLen
	}
	if err != nil || end < 0 {
		return Entry{}, nil, fmt.Errorf("view: entry: %w", note.ErrCorrupt)
	}
	out := Entry{Note: note.ID(layout.Tail64(k[:end+8])), Conflict: e.conflict, Values: e.values,
		Position: append([]byte(nil), k...)}
	if e.conflict {
		out.Revision.Generation = layout.Tail64(k[end+8 : end+16])
		copy(out.Revision.Hash[:], k[end+16:])
	}
	return out, e, nil
}

// reader returns a function that reports whether a note may be read. It caches the last answer, because a document and
// its conflicts come in sequence.
func (v *View) reader(r *store.Reader) func(note.ID) (bool, error) {
	var last note.ID
	var answer bool
	return func(id note.ID) (bool, error) {
		if id == last {
			return answer, nil
		}
		_, err := r.Note(id)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrDamaged) {
			return false, err
		}
		last, answer = id, err == nil
		return answer, nil
	}
}

// readsAll reports whether the reader, who, may read every document. The access list of the database, and of every
// folder that has its own, must grant it.
func (v *View) readsAll(raw pebble.Reader, r *store.Reader, who *note.Who) (bool, error) {
	if who.System {
		return true, nil
	}
	all := r.Rights()&note.Read != 0
	prefix := layout.Prefix(v.keys.db, layout.KindFolder)
	err := v.walk(raw, prefix, nil, &Query{}, func(k, value []byte) (bool, error) {
		f, err := layout.ReadFolder(note.ID(layout.Tail64(k)), value)
		if err != nil {
			return false, fmt.Errorf("view: folder: %w", err)
		}
		if f.HasACL && f.ACL.Rights(who)&note.Read == 0 {
			all = false
		}
		return all, nil
	})
	return all, err
}

// countCategories computes the headings from the entries that the reader may read.
func (v *View) countCategories(ctx context.Context, raw pebble.Reader, r *store.Reader, b *branch, def *Definition,
	category []byte, q *Query) ([]Category, error) {
	readable := v.reader(r)
	var out []Category
	at := map[string]int{}
	err := v.walk(raw, v.keys.of(layout.KindView, b.Generation), category, &Query{},
		func(k, value []byte) (bool, error) {
			e, ev, err := decodeEntry(k, value)
			if err != nil || e.Conflict {
				return true, err
			}
			ok, err := readable(e.Note)
			if err != nil || !ok {
				return true, errors.Join(err, ctx.Err())
			}
			for level, end := range ev.ends {
				key := string(k[:min(end, len(k))])
				i, ok := at[key]
				if !ok {
					if len(key) < len(category) || !q.behind(key) || len(out) == pageMost {
						continue
					}
					i, at[key] = len(out), len(out)
					out = append(out, Category{def.path(e.Values, level+1), 0, make([]float64, len(def.Columns)),
						[]byte(key)})
				}
				out[i].Count++
				for c := range def.Columns {
					out[i].Totals[c] += def.Columns[c].total(e.Values[c])
				}
			}
			return true, ctx.Err()
		})
	if q.Reverse {
		slices.SortFunc(out, func(a, b Category) int { return bytes.Compare(b.Position, a.Position) })
	}
	return out[:min(len(out), q.limit())], err
}

// behind reports whether a key is after the position at which the query begins.
func (q *Query) behind(key string) bool {
	switch {
	case q.From == nil:
		return true
	case q.Reverse:
		return key < string(q.From)
	}
	return key > string(q.From)
}
