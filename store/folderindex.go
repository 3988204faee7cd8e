package store

import (
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store/layout"
)

// Members calls fn for the members of a folder with lo ≤ UID ≤ hi, ascending, until fn returns false.
func (sn *snapshot) Members(folder note.ID, lo, hi uint32, fn func(uid uint32, id note.ID) bool) error {
	return sn.eachMember(folder, lo, hi, func(m *member) (bool, error) {
		if m.id == 0 {
			return false, sn.damagedMember(m.uid)
		}
		return fn(m.uid, m.id), nil
	})
}

func (sn *snapshot) damagedMember(uid uint32) error {
	return fmt.Errorf("%w: member %d in database %s", ErrDamaged, uid, sn.db.id)
}

// MarkedDeleted calls fn for the UIDs of a folder that are marked \Deleted. Unless all members in the range are in
// memory, it reads the rows of the marks alone.
func (sn *snapshot) MarkedDeleted(folder note.ID, lo, hi uint32, fn func(uid uint32) bool) error {
	if l := sn.st.listings.of(folder); l != nil && l.inMemory(lo, hi) {
		return sn.eachMember(folder, lo, hi, func(m *member) (bool, error) { return !m.deleted || fn(m.uid), nil })
	}
	return sn.scanUIDs(layout.KindDeleted, folder, lo, hi, func(uid uint32, _ []byte) bool { return fn(uid) })
}

// scanUIDs calls fn for the rows of a kind and a folder with lo ≤ UID ≤ hi, ascending, until fn returns false.
func (sn *snapshot) scanUIDs(kind layout.Kind, folder note.ID, lo, hi uint32, fn func(uint32, []byte) bool) error {
	from := layout.FolderUIDKey(sn.db.num, kind, folder, lo)
	to := layout.After(layout.FolderUIDKey(sn.db.num, kind, folder, hi))
	return scanRange(sn.eng, from, to, func(k, v []byte) error {
		if !fn(layout.Tail32(k), v) {
			return errStop
		}
		return nil
	})
}

// Member returns the note under a UID of a folder. It reads one row if the member is not in memory.
func (sn *snapshot) Member(folder note.ID, uid uint32) (note.ID, error) {
	if l := sn.st.listings.of(folder); l != nil {
		i, ok := l.find(uid >> layout.ChunkShift)
		if !ok {
			return 0, ErrNotFound
		}
		if list := l.chunks[i].members.Load(); list != nil {
			sn.s.dbs.listed.hits.Add(1)
			i, ok := findMember(*list, uid)
			if !ok {
				return 0, ErrNotFound
			}
			if sn.found = (*list)[i]; sn.found.id == 0 {
				return 0, sn.damagedMember(uid)
			}
			return sn.found.id, nil
		}
	}
	v, closer, err := sn.eng.Get(layout.FolderUIDKey(sn.db.num, layout.KindMember, folder, uid))
	if err != nil {
		return 0, engineError(err)
	}
	id, err := layout.ReadUNIDRow(v)
	return id, errors.Join(err, engineError(closer.Close()))
}

// Rank returns the number of members of a folder with a UID below uid.
func (sn *snapshot) Rank(folder note.ID, uid uint32) (uint32, error) {
	l, err := sn.listing(folder)
	if err != nil {
		return 0, err
	}
	i, ok := l.find(uid >> layout.ChunkShift)
	var rank uint32
	for _, c := range l.chunks[:i] {
		rank += c.counts.Total
	}
	if !ok || uid&(1<<layout.ChunkShift-1) == 0 {
		return rank, nil
	}
	list, err := sn.members(l, l.chunks[i])
	below, _ := findMember(list, uid)
	return rank + uint32(below), err
}

// At returns the UID of the member of a folder that has rank members before it, or ErrNotFound if the folder is
// shorter.
func (sn *snapshot) At(folder note.ID, rank uint32) (uint32, error) {
	f := sn.st.folder(folder)
	if f == nil || rank >= f.Total {
		return 0, ErrNotFound
	}
	l, err := sn.listing(folder)
	if err != nil {
		return 0, err
	}
	for _, c := range l.chunks {
		if rank >= c.counts.Total {
			rank -= c.counts.Total
			continue
		}
		list, err := sn.members(l, c)
		if err != nil {
			return 0, err
		}
		if int(rank) < len(list) {
			return list[rank].uid, nil
		}
		break
	}
	return 0, fmt.Errorf("%w: counters of folder %d of database %s", ErrDamaged, folder, sn.db.id)
}

// FirstUnseen returns the lowest UID of a folder that the person has not seen, or ErrNotFound if all are seen. It skips
// chunks that are seen entirely.
func (r *Reader) FirstUnseen(folder note.ID, person note.UNID) (uint32, error) {
	f := r.st.folder(folder)
	if f == nil || layout.SeenBy(f.Seen, person) >= f.Total {
		return 0, ErrNotFound
	}
	l, err := r.listing(folder)
	if err != nil {
		return 0, err
	}
	found := uint32(0)
	for _, c := range l.chunks {
		if layout.SeenBy(c.counts.Seen, person) >= c.counts.Total {
			continue
		}
		first := c.number << layout.ChunkShift
		err := r.Members(folder, first, first|(1<<layout.ChunkShift-1), func(uid uint32, id note.ID) bool {
			n, err := r.note(id)
			if err == nil && !n.SeenBy(person) {
				found = uid
			}
			return found == 0
		})
		if err != nil || found != 0 {
			return found, err
		}
	}
	return 0, ErrNotFound
}
