package store

import (
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// Members calls fn for the members of a folder with lo ≤ UID ≤ hi, ascending, until fn returns false.
func (sn *snapshot) Members(folder note.ID, lo, hi uint32, fn func(uid uint32, id note.ID) bool) error {
	return sn.members(layout.KindMember, folder, lo, hi, func(uid uint32, v []byte) (bool, error) {
		id, err := layout.ReadUNIDRow(v)
		if err != nil || id == 0 {
			return false, fmt.Errorf("%w: member %d in database %s", ErrDamaged, uid, sn.db.id)
		}
		return fn(uid, id), nil
	})
}

// MarkedDeleted calls fn for the UIDs of a folder that are marked \Deleted.
func (sn *snapshot) MarkedDeleted(folder note.ID, lo, hi uint32, fn func(uid uint32) bool) error {
	return sn.members(layout.KindDeleted, folder, lo, hi, func(uid uint32,
		_ []byte) (bool, error) {
		return fn(uid), nil
	})
}

func (sn *snapshot) members(kind layout.Kind, folder note.ID, lo, hi uint32,
	fn func(uint32, []byte) (bool, error)) error {
	from := layout.FolderUIDKey(sn.db.num, kind, folder, lo)
	to := layout.After(layout.FolderUIDKey(sn.db.num, kind, folder, hi))
	return scanRange(sn.eng, from, to, func(k, v []byte) error {
		more, err := fn(layout.Tail32(k), v)
		if err == nil && !more {
			return errStop
		}
		return err
	})
}

// Member returns the note under a UID of a folder.
func (sn *snapshot) Member(folder note.ID, uid uint32) (note.ID, error) {
	if id, ok := sn.st.recent.member(folder, uid); ok {
		return id, nil
	}
	v, closer, err := sn.eng.Get(layout.FolderUIDKey(sn.db.num, layout.KindMember, folder, uid))
	if err != nil {
		return 0, engineError(err)
	}
	id, err := layout.ReadUNIDRow(v)
	return id, errors.Join(err, engineError(closer.Close()))
}

// Rank returns the number of members of a folder with a UID below uid. Whatever the folder's size, it reads the
// folder's counter rows and at most one chunk.
func (sn *snapshot) Rank(folder note.ID, uid uint32) (uint32, error) {
	chunk := uid >> layout.ChunkShift
	first := chunk << layout.ChunkShift
	count := func(lo, hi uint32) (n uint32, err error) {
		err = sn.members(layout.KindMember, folder, lo, hi, func(uint32, []byte) (bool, error) {
			n++
			return true, nil
		})
		return n, err
	}
	if f := sn.st.folder(folder); f != nil && uid < f.UIDNext &&
		f.UIDNext-uid < max(uid-first, 1<<layout.ChunkShift/4) {
		// Near the end of the folder, where sessions look most often, it counts from the end.
		after, err := count(uid, note.MaxUID)
		return f.Total - after, err
	}
	var rank uint32
	prefix := layout.NoteKey(sn.db.num, layout.KindChunk, folder)
	err := scanRange(sn.eng, prefix, layout.FolderUIDKey(sn.db.num, layout.KindChunk, folder, chunk),
		func(k, v []byte) error {
			c, err := layout.ReadChunk(v)
			rank += c.Total
			return err
		})
	if err != nil || uid == first {
		return rank, err
	}
	before, err := count(first, uid-1)
	return rank + before, err
}

// At returns the UID of the member of a folder that has rank members before it, or ErrNotFound if the folder is
// shorter. A member near the end is found from the end.
func (sn *snapshot) At(folder note.ID, rank uint32) (uint32, error) {
	f := sn.st.folder(folder)
	if f == nil || rank >= f.Total {
		return 0, ErrNotFound
	}
	if back := f.Total - 1 - rank; back < 1<<layout.ChunkShift/4 {
		return sn.fromEnd(folder, back)
	}
	it, err := sn.eng.NewIter(&pebble.IterOptions{
		LowerBound: layout.NoteKey(sn.db.num, layout.KindChunk, folder),
		UpperBound: layout.After(layout.NoteKey(sn.db.num, layout.KindChunk, folder)),
	})
	if err != nil {
		return 0, engineError(err)
	}
	chunk, before, err := findChunk(it, rank, f.Total)
	if err = engineError(errors.Join(err, it.Close())); err != nil {
		return 0, err
	}
	uid, found := uint32(0), false
	left := rank - before
	err = sn.members(layout.KindMember, folder, chunk<<layout.ChunkShift,
		chunk<<layout.ChunkShift|(1<<layout.ChunkShift-1), func(u uint32, _ []byte) (bool, error) {
			if left == 0 {
				uid, found = u, true
				return false, nil
			}
			left--
			return true, nil
		})
	if err == nil && !found {
		err = fmt.Errorf("%w: counters of folder %d of database %s", ErrDamaged, folder, sn.db.id)
	}
	return uid, err
}

// fromEnd returns the UID of the member of a folder that has back members after it.
func (sn *snapshot) fromEnd(folder note.ID, back uint32) (uint32, error) {
	prefix := layout.NoteKey(sn.db.num, layout.KindMember, folder)
	it, err := sn.eng.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, engineError(err)
	}
	ok := it.Last()
	for ; ok && back > 0; back-- {
		ok = it.Prev()
	}
	var uid uint32
	if ok {
		uid = layout.Tail32(it.Key())
	}
	if err := engineError(errors.Join(it.Error(), it.Close())); err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("%w: counters of folder %d of database %s", ErrDamaged, folder, sn.db.id)
	}
	return uid, nil
}

// findChunk finds the chunk that holds the member of a rank, searching from the nearer end. It also returns the number
// of members before that chunk.
func findChunk(it *pebble.Iterator, rank, total uint32) (chunk, before uint32, err error) {
	forward := rank < total/2
	ok, sum := it.First(), uint32(0)
	if !forward {
		ok, sum = it.Last(), total
	}
	for ok {
		v, err := it.ValueAndErr()
		if err != nil {
			return 0, 0, err
		}
		c, err := layout.ReadChunk(v)
		if err != nil {
			return 0, 0, err
		}
		if forward {
			if rank < sum+c.Total {
				return layout.Tail32(it.Key()), sum, nil
			}
			sum += c.Total
			ok = it.Next()
			continue
		}
		sum -= c.Total
		if rank >= sum {
			return layout.Tail32(it.Key()), sum, nil
		}
		ok = it.Prev()
	}
	return 0, 0, errors.Join(it.Error(), note.ErrCorrupt)
}

// FirstUnseen returns the lowest UID of a folder that the person has not seen, or ErrNotFound if all are seen. It skips
// chunks that are seen entirely.
func (r *Reader) FirstUnseen(folder note.ID, person note.UNID) (uint32, error) {
	f := r.st.folder(folder)
	if f == nil || layout.SeenBy(f.Seen, person) >= f.Total {
		return 0, ErrNotFound
	}
	found := uint32(0)
	err := scan(r.eng, layout.NoteKey(r.db.num, layout.KindChunk, folder), func(k, v []byte) error {
		c, err := layout.ReadChunk(v)
		if err != nil || layout.SeenBy(c.Seen, person) >= c.Total {
			return err
		}
		first := layout.Tail32(k) << layout.ChunkShift
		err = r.Members(folder, first, first|(1<<layout.ChunkShift-1), func(uid uint32, id note.ID) bool {
			n, err := r.note(id)
			if err == nil && !n.SeenBy(person) {
				found = uid
			}
			return found == 0
		})
		if err == nil && found != 0 {
			err = errStop
		}
		return err
	})
	if err == nil && found == 0 {
		err = ErrNotFound
	}
	return found, err
}
