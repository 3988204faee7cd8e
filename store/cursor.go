package store

import (
	"bytes"
	"errors"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// cursor reads rows of one kind by note id. The first few reads are single look-ups. A caller that reads more usually
// reads a list, whose notes lie near each other, so the cursor then uses one iterator.
type cursor struct {
	it    *pebble.Iterator
	reads int
	key   []byte
}

// walkFrom is the number of look-ups after which a cursor uses an iterator.
const walkFrom = 3

// row calls fn with a note's row. The bytes are valid only during the call.
func (r *rows) row(c *cursor, kind layout.Kind, id note.ID, fn func(v []byte) error) error {
	c.key = layout.AppendPrefix(c.key[:0], r.db.num, kind)
	c.key = appendID(c.key, id)
	if c.reads++; c.reads <= walkFrom || r.dirty != nil {
		v, closer, err := r.eng.Get(c.key)
		if err != nil {
			return engineError(err)
		}
		return errors.Join(fn(v), engineError(closer.Close()))
	}
	if c.it == nil {
		prefix := layout.Prefix(r.db.num, kind)
		it, err := r.eng.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		if err != nil {
			return engineError(err)
		}
		c.it = it
	} else if c.step() {
		return c.value(fn)
	}
	if !c.it.SeekGE(c.key) || !bytes.Equal(c.it.Key(), c.key) {
		if err := c.it.Error(); err != nil {
			return engineError(err)
		}
		return ErrNotFound
	}
	return c.value(fn)
}

// step moves to the row next to the current one, in the direction of the wanted row, and reports whether it is the
// wanted row. Folders are read from their beginning, lists from the newest back.
func (c *cursor) step() bool {
	if !c.it.Valid() {
		return false
	}
	switch way := bytes.Compare(c.key, c.it.Key()); {
	case way < 0 && !c.it.Prev(), way > 0 && !c.it.Next():
		return false
	}
	return bytes.Equal(c.it.Key(), c.key)
}

func (c *cursor) value(fn func(v []byte) error) error {
	v, err := c.it.ValueAndErr()
	if err != nil {
		return engineError(err)
	}
	return fn(v)
}

func (c *cursor) close() error {
	if c.it == nil {
		return nil
	}
	return engineError(c.it.Close())
}

func appendID(dst []byte, id note.ID) []byte {
	for shift := 56; shift >= 0; shift -= 8 {
		dst = append(dst, byte(id>>shift))
	}
	return dst
}
