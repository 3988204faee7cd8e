package check

import (
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// indexes are the declared indexes of a database.
type indexes struct {
	scope
	list []index
}

// index is a declared index and its expected and actual number of rows.
type index struct {
	store.Index
	want, have uint64
}

// indexed checks the note's rows in the declared indexes.
func (xs *indexes) indexed(id note.ID, n *layout.Note, c *note.Content) error {
	if n.Stub {
		return nil
	}
	for i := range xs.list {
		x := &xs.list[i]
		keys := map[string]bool{}
		for _, k := range x.Keys(n.Class, c) {
			keys[string(k)] = true
		}
		for k := range keys {
			key := append(layout.IDKey(xs.num, layout.KindView, x.Number), k...)
			key = append(append(key, 0), layout.IDKey(0, 0, uint64(id))[6:]...)
			ok, err := xs.has(key)
			if err != nil {
				return err
			}
			if !ok {
				xs.report(IndexRow, key, []change{put(key, nil)}, "missing: index %d, note %d", x.Number, id)
				continue
			}
			x.want++
		}
	}
	return nil
}

// check checks the declared indexes. While the notes were read, each key that their content gives was looked up. So if
// the number of rows is right, the rows are right. Otherwise check compares each row with its note.
func (xs *indexes) check() error {
	for i := range xs.list {
		x := &xs.list[i]
		prefix := layout.IDKey(xs.num, layout.KindView, x.Number)
		err := xs.scan(prefix, func(_, _ []byte) error {
			x.have++
			return nil
		})
		if err == nil && x.have != x.want {
			err = xs.scan(prefix, func(k, _ []byte) error { return xs.indexRow(x, prefix, k) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (xs *indexes) indexRow(x *index, prefix, k []byte) error {
	if len(k) < len(prefix)+9 {
		xs.report(IndexRow, k, []change{drop(k)}, "index %d: a key that is too short", x.Number)
		return nil
	}
	id := note.ID(layout.Tail64(k))
	n, c, err := xs.read(id)
	if err != nil {
		return err
	}
	if n == nil || c == nil || n.Stub || !slices.ContainsFunc(x.Keys(n.Class, &c.Content), func(o []byte) bool {
		return string(o) == string(k[len(prefix):len(k)-9])
	}) {
		xs.report(IndexRow, k, []change{drop(k)}, "index %d: note %d does not stand under this key", x.Number, id)
	}
	return nil
}
