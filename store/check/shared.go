package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// feed checks the server's feed. Any damage is repaired by cutting the feed: readers then use the databases' own rows.
func (c *checker) feed() error {
	var last, high uint64
	var bad []byte
	report := func(k []byte, format string, args ...any) {
		bad = slices.Clone(k)
		c.found(0, FeedRow, k, append(c.cutFeed(), drop(k)), format, args...)
	}
	err := c.scan(layout.Key(layout.SpaceFeed), func(k, v []byte) error {
		first := layout.Tail64(k)
		items, err := layout.ReadFeed(first, v)
		if err != nil || len(k) != 9 {
			report(k, "entry %d cannot be read", first)
			return nil
		}
		c.rep.Feed++
		if first <= last && last != 0 {
			report(k, "entry %d begins before the end of the one before it, %d", first, last)
		}
		if first <= c.cut {
			report(k, "entry %d lies below the cut %d", first, c.cut)
		}
		last = first
		for _, it := range items {
			last = it.Seq
			if err := c.feedItem(k, it, report); err != nil {
				return err
			}
		}
		high = max(high, last)
		return nil
	})
	if err != nil {
		return err
	}
	if horizon := c.s.Horizon(); high > horizon {
		report(layout.NumberKey(layout.SpaceFeed, high), "goes up to %d, above the horizon %d", high, horizon)
	}
	for i := range c.dbs {
		if e := &c.dbs[i]; bad == nil && !e.partial && e.fresh != e.fed {
			c.found(e.id, FeedRow, nil, c.cutFeed(), "names %d of the %d latest changes behind its cut", e.fed, e.fresh)
		}
	}
	return nil
}

func (c *checker) feedItem(k []byte, it layout.FeedItem, report func([]byte, string, ...any)) error {
	if it.Database == 0 || uint64(it.Database) > c.number {
		report(k, "sequence %d names database number %d, which was never given", it.Seq, it.Database)
		return nil
	}
	e := c.byNum[it.Database]
	if e == nil {
		return nil // removed since
	}
	v, ok, err := c.get(layout.IDKey(it.Database, layout.KindSequence, it.Seq))
	if err != nil || !ok {
		return err
	}
	if id, err := layout.ReadUNIDRow(v); err != nil || id != it.Note {
		report(k, "sequence %d is of note %d, in the database of note %d", it.Seq, it.Note, id)
		return nil
	}
	e.fed++
	return nil
}

// cutFeed returns the changes that remove the feed up to the present horizon.
func (c *checker) cutFeed() []change {
	horizon := c.s.Horizon()
	return []change{
		put(layout.MetaKey("cut"), binary.BigEndian.AppendUint64(nil, horizon)),
		{key: layout.NumberKey(layout.SpaceFeed, 0), to: layout.NumberKey(layout.SpaceFeed, horizon+1)},
	}
}

func (c *checker) cursors() error {
	return c.scan(layout.Key(layout.SpaceCursor), func(k, v []byte) error {
		switch {
		case len(v) != 16:
			c.found(0, CursorRow, k, []change{drop(k)}, "%q cannot be read", k[1:])
		case binary.BigEndian.Uint64(v) == c.s.Incarnation() && binary.BigEndian.Uint64(v[8:]) > c.s.Horizon():
			c.found(0, CursorRow, k, []change{drop(k)}, "%q lies above the horizon", k[1:])
		}
		return nil
	})
}

// objects walks the object index and the references to objects side by side.
func (c *checker) objects() error {
	c.evicted = map[uint64]int64{}
	for _, seg := range c.s.Objects().Segments() {
		if seg.Away {
			c.evicted[seg.ID] = seg.Size
		}
	}
	rows, err := c.walk(layout.Key(layout.SpaceObject))
	if err != nil {
		return err
	}
	defer rows.close()
	refs, err := c.walk(layout.Key(layout.SpaceObjectRef))
	if err != nil {
		return err
	}
	defer refs.close()
	for rows.ok || refs.ok {
		if rows.ok && len(rows.key) != 33 {
			c.found(0, Object, rows.key, []change{drop(rows.key)}, "a key of %d bytes", len(rows.key))
			if err := rows.next(); err != nil {
				return err
			}
			continue
		}
		var d note.Digest
		switch {
		case !rows.ok || refs.ok && string(refs.key[1:min(33, len(refs.key))]) < string(rows.key[1:]):
			copy(d[:], refs.key[1:])
		default:
			copy(d[:], rows.key[1:])
		}
		if err := c.oneObject(d, rows, refs); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) oneObject(d note.Digest, rows, refs *walker) error {
	have := rows.ok && string(rows.key[1:]) == string(d[:])
	if have {
		c.rep.Objects++
		if err := c.stored(d, rows.value); err != nil {
			return err
		}
		if err := rows.next(); err != nil {
			return err
		}
	}
	valid := 0
	upTo := func(k []byte) bool { return string(k[1:min(33, len(k))]) <= string(d[:]) }
	err := refs.while(upTo, func(k []byte) error {
		ok, err := c.named(k)
		if ok {
			valid++
		}
		return err
	})
	if err != nil {
		return err
	}
	if !have && valid > 0 {
		c.want(d)
		c.found(0, Object, layout.Key(layout.SpaceObject, d[:]), nil, "object %s is not in the index", d)
	}
	if have && valid == 0 {
		return c.require(0, SweepRow, layout.SweepObject(d), "missing: nothing refers to object %s", d)
	}
	return nil
}

func (c *checker) want(d note.Digest) {
	if c.wanted == nil {
		c.wanted = map[note.Digest]bool{}
	}
	c.wanted[d] = true
}

// stored checks that an object can be read where the index says.
func (c *checker) stored(d note.Digest, row []byte) error {
	key := layout.Key(layout.SpaceObject, d[:])
	for try := 0; ; try++ {
		loc, rest, err := object.ParseLocation(row)
		if err != nil || len(rest) != 0 {
			c.want(d)
			c.found(0, Object, key, nil, "the place of object %s cannot be read", d)
			return nil
		}
		switch size, away := c.evicted[loc.Segment]; {
		case c.o.Deep:
			err = c.s.Objects().Verify(loc, object.Digest(d))
		case away && loc.End() <= size:
			c.rep.Elsewhere++
			return nil
		default:
			_, err = c.s.Objects().ReadRange(loc, object.Digest(d), 0, 0, nil)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, object.ErrAway):
			return fmt.Errorf("check: object %s: %w", d, err)
		}
		// The object may have moved since the snapshot was taken.
		now := row
		if try == 0 {
			if rerr := c.s.Inspect(func(r pebble.Reader) error {
				fresh := &checker{r: r}
				var ok bool
				var err error
				if now, ok, err = fresh.get(key); !ok {
					now = nil
				}
				return err
			}); rerr != nil {
				return rerr
			}
		}
		if now == nil {
			return nil // swept meanwhile
		}
		if string(now) == string(row) {
			c.want(d)
			damaged(c, loc.Segment)
			c.found(0, Object, key, nil, "object %s: %v", d, err)
			return nil
		}
		row = now
	}
}

// damaged lists a segment with a damaged object, if it is on disk.
func damaged(c *checker, segment uint64) {
	if _, away := c.evicted[segment]; !away && !slices.Contains(c.rep.Damaged, segment) {
		c.rep.Damaged = append(c.rep.Damaged, segment)
	}
}

// named reports whether a reference to an object is right: the recipe or note that it stands for references the object.
func (c *checker) named(key []byte) (bool, error) {
	bad := []change{drop(key)}
	if len(key) >= 33 {
		bad = append(bad, put(layout.SweepObject(note.Digest(key[1:33])), nil))
	}
	switch {
	case len(key) == 42 && key[33] == 'r':
		id := layout.Tail64(key)
		v, ok, err := c.get(layout.NumberKey(layout.SpaceRecipe, id))
		if err != nil {
			return false, err
		}
		if names, err := recipeNames(v); ok && err != nil {
			return true, nil // the recipe has a finding of its own
		} else if ok && slices.Contains(names, note.Digest(key[1:33])) {
			return true, nil
		}
		c.found(0, ObjectReference, key, bad, "recipe %d does not name this object", id)
	case len(key) == 46 && key[33] == 'n':
		num, id := layout.Tail32(key[:38]), note.ID(layout.Tail64(key))
		ok, err := c.names(num, id, note.Digest(key[1:33]))
		if err != nil || ok {
			return ok, err
		}
		c.found(c.byNum[num].databaseID(), ObjectReference, key, bad, "note %d does not name this object", id)
	default:
		c.found(0, ObjectReference, key, bad, "cannot be read")
	}
	return false, nil
}

// names reports whether a note references an object in any of its stored revisions.
func (c *checker) names(num uint32, id note.ID, d note.Digest) (bool, error) {
	n, err := c.readNote(num, id)
	if err != nil || n == nil || n.Stub || c.byNum[num] == nil {
		return false, err
	}
	if !c.byNum[num].locked {
		found, err := namedOpen(c, num, id, d)
		if !errors.Is(err, store.ErrLocked) { // since its rows were checked
			return found, err
		}
	}
	return namedLocked(c, num, id, d)
}

// namedOpen is names for a database whose key is given, or that has none.
func namedOpen(c *checker, num uint32, id note.ID, d note.Digest) (bool, error) {
	row, names, err := readNamed(c, num, id)
	if err != nil || row == nil {
		return false, err
	}
	leaves := map[note.Revision]*leaf{}
	for _, l := range row.Tree.Conflicts() {
		key := layout.LeafKey(num, id, l.Rev)
		v, ok, err := c.get(key)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		lc, err := readLeaf(c, key, v)
		if errors.Is(err, store.ErrLocked) {
			return false, err
		}
		if err == nil {
			leaves[l.Rev] = lc
		}
	}
	return named(row, names, leaves)[d], nil
}

// namedLocked is names for a database whose key is not given. Sealed rows show the names of their objects. The rows of
// leaves that the history does not have count, too.
func namedLocked(c *checker, num uint32, id note.ID, d note.Digest) (found bool, err error) {
	v, ok, err := c.get(layout.NoteKey(num, layout.KindContent, id))
	if err != nil || !ok {
		return false, err
	}
	var content note.Content
	if row, err := layout.ReadContentRow(v); err == nil {
		content = row.Content
	}
	found = slices.Contains(rowNames(v, &content), d)
	err = c.scan(layout.NoteKey(num, layout.KindLeaf, id), func(_, v []byte) error {
		content, _, _ := note.ReadContent(v)
		found = found || slices.Contains(rowNames(v, &content), d)
		return nil
	})
	return found, err
}

// readable reports the rows of a space that cannot be read.
func (c *checker) readable(space layout.Space, kind Kind, ok func(k, v []byte) bool) error {
	return c.scan(layout.Key(space), func(k, v []byte) error {
		if !ok(k, v) {
			c.found(0, kind, k, []change{drop(k)}, "cannot be read")
		}
		return nil
	})
}

func isSweep(k, _ []byte) bool { return len(k) == 10 && k[1] == 'r' || len(k) == 34 && k[1] == 'o' }

// isCopy reports whether a row of the copy of a segment can be read. Without it, a segment that was evicted is lost.
func isCopy(k, v []byte) bool {
	_, err := layout.ReadCopy(v)
	return err == nil && len(k) == len(layout.CopyKey(0))
}
