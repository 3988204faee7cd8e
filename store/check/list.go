package check

import (
	"encoding/binary"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// list reads the store's own values and the list of databases.
func (c *checker) list() error {
	for _, m := range []struct {
		name string
		at   *uint64
	}{{"ceiling", &c.ceiling}, {"number", &c.number}, {"cut", &c.cut}} {
		key := layout.MetaKey(m.name)
		v, ok, err := c.get(key)
		if err != nil {
			return err
		}
		if ok && len(v) != 8 {
			c.found(0, Meta, key, nil, "%s is %d bytes long", m.name, len(v))
		} else if ok {
			*m.at = binary.BigEndian.Uint64(v)
		}
	}
	err := c.scan(layout.Key(layout.SpaceDatabase), func(k, v []byte) error {
		if len(k) != 9 || len(v) != 4 {
			c.found(0, DatabaseList, k, []change{drop(k)}, "a row that cannot be read")
			return nil
		}
		c.dbs = append(c.dbs, entry{id: note.DatabaseID(layout.Tail64(k)), num: layout.Tail32(v)})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(c.dbs, func(a, b entry) int { return int(int64(a.num) - int64(b.num)) })
	c.byNum = make(map[uint32]*entry, len(c.dbs))
	for i := range c.dbs {
		e := &c.dbs[i]
		if other := c.byNum[e.num]; other != nil {
			c.found(e.id, DatabaseList, layout.NumberKey(layout.SpaceDatabase, uint64(e.id)), nil,
				"shares number %d with %s", e.num, other.id)
		}
		c.byNum[e.num] = e
		if uint64(e.num) > c.number {
			key := layout.MetaKey("number")
			c.found(e.id, Meta, key, []change{put(key, binary.BigEndian.AppendUint64(nil, uint64(e.num)))},
				"database number %d is above the highest given, %d", e.num, c.number)
		}
	}
	return nil
}

// strays finds rows of databases that are not in the list.
func (c *checker) strays() error {
	it, err := c.r.NewIter(nil)
	if err != nil {
		return errDamage{err}
	}
	defer it.Close()
	at := []byte{byte(layout.SpaceData)}
	for it.SeekGE(at) {
		num, _, _, ok := layout.Split(it.Key())
		if !ok {
			if layout.Space(it.Key()[0]) == layout.SpaceData {
				c.found(0, Unknown, it.Key(), []change{drop(it.Key())}, "a key that is too short")
				at = append(append(at[:0], it.Key()...), 0)
				continue
			}
			break
		}
		first := layout.Prefix(num, 0)[:5]
		if c.byNum[num] == nil {
			if err := c.stray(num, first); err != nil {
				return err
			}
		}
		if at = layout.After(first); at == nil {
			break
		}
	}
	if err := it.Error(); err != nil {
		return errDamage{err}
	}
	return nil
}

// stray handles the rows of a number that no database has. With a readable info row they are a database that is missing
// in the list; otherwise, or if the list has that database under another number, they are remnants.
func (c *checker) stray(num uint32, prefix []byte) error {
	v, ok, err := c.get(layout.Prefix(num, layout.KindInfo))
	if err != nil {
		return err
	}
	if ok {
		info, err := layout.ReadInfo(v)
		remnant := err != nil || info.Number != num
		if !remnant {
			if remnant, err = listed(c, info.ID); err != nil {
				return err
			}
		}
		if !remnant {
			key := layout.NumberKey(layout.SpaceDatabase, uint64(info.ID))
			c.found(info.ID, DatabaseList, key, []change{put(key, binary.BigEndian.AppendUint32(nil, num))}, "missing")
			return nil
		}
	}
	return c.scan(prefix, func(k, _ []byte) error {
		c.found(0, Unknown, k, []change{drop(k)}, "row of database number %d, which does not exist", num)
		return nil
	})
}

// listed reports whether a database is in the list under a number whose info row agrees.
func listed(c *checker, id note.DatabaseID) (bool, error) {
	i := slices.IndexFunc(c.dbs, func(e entry) bool { return e.id == id })
	if i < 0 {
		return false, nil
	}
	v, _, err := c.get(layout.Prefix(c.dbs[i].num, layout.KindInfo))
	if err != nil {
		return false, err
	}
	info, bad := layout.ReadInfo(v)
	return bad == nil && info.ID == id && info.Number == c.dbs[i].num, nil
}
