package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store/layout"
)

// listings holds the listings of the folders of a state that readers have used. A commit derives those of the next
// state from them (settlement.relisted), so a reader's listings always agree with its snapshot.
type listings struct {
	mu   sync.Mutex
	list []*listing // in order of folder
}

// of returns the listing of a folder, or nil if there is none.
func (ls *listings) of(folder note.ID) *listing {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if i, ok := findListing(ls.list, folder); ok {
		return ls.list[i]
	}
	return nil
}

// findListing returns the index of the listing of a folder, or of the first one above it.
func findListing(list []*listing, folder note.ID) (int, bool) {
	return slices.BinarySearchFunc(list, folder, func(l *listing, id note.ID) int { return cmp.Compare(l.folder, id) })
}

// add adds a listing. If the folder has one already, add returns that one and false.
func (ls *listings) add(l *listing) (*listing, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	i, ok := findListing(ls.list, l.folder)
	if ok {
		return ls.list[i], false
	}
	ls.list = slices.Insert(ls.list, i, l)
	return l, true
}

// listing is the list of a folder's members in memory. It has all chunks of the folder, in order of UID.
type listing struct {
	folder note.ID
	chunks []*listedChunk
	// kept is not set for a listing that one reader uses alone, because there was no room for it.
	kept bool
}

// listedChunk is a chunk of a folder. Its members are read when they are needed first.
//
// Invariant: a chunk belongs to all states between two commits that change its members or their rows. So what a reader
// of one of these states puts into it is right for all of them. A commit replaces the chunk by a changed copy, also if
// the members were not read.
type listedChunk struct {
	number  uint32
	counts  layout.Chunk
	members atomic.Pointer[[]*member]
	// seq is the sequence of the commit that made the chunk, or 0 if it was read.
	seq uint64
}

// member is a member of a folder. A commit that changes it or its row replaces it, so readers share it as they share
// the chunk.
type member struct {
	uid     uint32
	deleted bool    // marked \Deleted
	id      note.ID // 0 if the row of the membership is damaged
	row     atomic.Pointer[layout.Note]
}

// Sizes in bytes, about, of what a listing holds.
const (
	chunkWeight  = 80
	memberWeight = 40
)

func rowWeight(n *layout.Note) int64 {
	size := 176 + 32*len(n.Members)
	for i := range n.State {
		size += 48 + len(n.State[i].Key)
	}
	return int64(size)
}

func (m *member) weight() int64 {
	if n := m.row.Load(); n != nil {
		return memberWeight + rowWeight(n)
	}
	return memberWeight
}

func (c *listedChunk) weight() int64 {
	size := int64(chunkWeight)
	if list := c.members.Load(); list != nil {
		for _, m := range *list {
			size += m.weight()
		}
	}
	return size
}

// inMemory reports whether all members in a range of UIDs are in memory.
func (l *listing) inMemory(lo, hi uint32) bool {
	first, _ := l.find(lo >> layout.ChunkShift)
	for _, c := range l.chunks[first:] {
		if c.number > hi>>layout.ChunkShift {
			break
		}
		if c.members.Load() == nil {
			return false
		}
	}
	return true
}

func (l *listing) weight() (size int64) {
	for _, c := range l.chunks {
		size += c.weight()
	}
	return size
}

// find returns the index of a chunk, or of the first one above it.
func (l *listing) find(number uint32) (int, bool) {
	return slices.BinarySearchFunc(l.chunks, number, func(c *listedChunk, n uint32) int {
		return cmp.Compare(c.number, n)
	})
}

// findMember returns the index of the member with a UID, or of the first one above it.
func findMember(list []*member, uid uint32) (int, bool) {
	return slices.BinarySearchFunc(list, uid, func(m *member, uid uint32) int { return cmp.Compare(m.uid, uid) })
}

// listing returns the listing of a folder. If there is none, it reads the counters of the folder's chunks.
func (sn *snapshot) listing(folder note.ID) (*listing, error) {
	if l := sn.listed; l != nil && l.folder == folder {
		return l, nil
	}
	l := sn.st.listings.of(folder)
	if l == nil {
		l = &listing{folder: folder}
		prefix := layout.NoteKey(sn.db.num, layout.KindChunk, folder)
		err := scan(sn.eng, prefix, func(k, v []byte) error {
			c := &listedChunk{number: layout.Tail32(k)}
			l.chunks = append(l.chunks, c)
			var err error
			if c.counts, err = layout.ReadChunk(v); err != nil {
				err = fmt.Errorf("%w: counters of folder %d of database %s", ErrDamaged, folder, sn.db.id)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if sn.s.dbs.listed.room(sn.db) {
			l.kept = true
			have, added := sn.st.listings.add(l)
			if added {
				sn.s.dbs.listed.weigh(sn.db, chunkWeight*int64(len(l.chunks)))
			}
			l = have
		}
	}
	sn.listed = l
	return l, nil
}

// members returns the members of a chunk. If they are not in memory, it reads them, and keeps them there if there is
// room.
func (sn *snapshot) members(l *listing, c *listedChunk) ([]*member, error) {
	use := &sn.s.dbs.listed
	if list := c.members.Load(); list != nil {
		use.hits.Add(1)
		return *list, nil
	}
	if sn.unkept.chunk == c {
		return sn.unkept.members, nil
	}
	list, err := sn.readMembers(l.folder, c)
	if err != nil {
		return nil, err
	}
	use.reads.Add(1)
	switch {
	case !l.kept || !use.room(sn.db):
		sn.unkept.chunk, sn.unkept.members = c, list
	case c.members.CompareAndSwap(nil, &list):
		use.weigh(sn.db, memberWeight*int64(len(list)))
	default:
		list = *c.members.Load()
	}
	return list, nil
}

func (sn *snapshot) readMembers(folder note.ID, c *listedChunk) ([]*member, error) {
	rows := func(kind layout.Kind, fn func(uid uint32, v []byte)) error {
		first := c.number << layout.ChunkShift
		return sn.scanUIDs(kind, folder, first, first|(1<<layout.ChunkShift-1), func(uid uint32, v []byte) bool {
			fn(uid, v)
			return true
		})
	}
	all := make([]member, 0, min(c.counts.Total, 1<<layout.ChunkShift))
	err := rows(layout.KindMember, func(uid uint32, v []byte) {
		id, err := layout.ReadUNIDRow(v)
		if err != nil {
			id = 0
		}
		all = append(all, member{uid: uid, id: id})
	})
	list := make([]*member, len(all))
	for i := range all {
		list[i] = &all[i]
	}
	return list, errors.Join(err, rows(layout.KindDeleted, func(uid uint32, _ []byte) {
		if i, ok := findMember(list, uid); ok {
			list[i].deleted = true
		}
	}))
}

// eachMember calls fn for the members of a folder with lo ≤ UID ≤ hi, ascending, until fn returns false.
func (sn *snapshot) eachMember(folder note.ID, lo, hi uint32, fn func(*member) (bool, error)) error {
	l, err := sn.listing(folder)
	if err != nil {
		return err
	}
	first, _ := l.find(lo >> layout.ChunkShift)
	for _, c := range l.chunks[first:] {
		if c.number > hi>>layout.ChunkShift {
			return nil
		}
		list, err := sn.members(l, c)
		if err != nil {
			return err
		}
		from, _ := findMember(list, lo)
		kept := c.members.Load() != nil
		for _, m := range list[from:] {
			if m.uid > hi {
				return nil
			}
			if sn.found = m; !kept {
				sn.found = nil
			}
			if more, err := fn(m); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// relisted returns the listings of the state that the update publishes. It changes them as write changes the rows. The
// caller holds db.publish.
func (se *settlement) relisted() *listings {
	old := se.st.listings
	old.mu.Lock()
	r := relisting{list: slices.Clone(old.list), seq: se.st.counters.Seq}
	old.mu.Unlock()
	for _, folder := range se.dropped {
		if i, ok := findListing(r.list, folder); ok {
			se.s.dbs.listed.weigh(se.db, -r.list[i].weight())
			r.list = slices.Delete(r.list, i, i+1)
		}
	}
	if len(r.list) == 0 {
		return &listings{}
	}
	r.patches = make([]*patch, len(r.list))
	r.apply(se)
	for i, p := range r.patches {
		if p != nil && p.cloned {
			se.s.dbs.listed.weigh(se.db, p.weight)
			r.list[i] = &listing{folder: p.folder, chunks: p.chunks, kept: true}
		}
	}
	return &listings{list: r.list}
}

// relisting changes the listings of a database by a commit. It looks at each change once, however many folders are
// listed.
type relisting struct {
	list    []*listing
	patches []*patch // for each of list, nil as long as no change concerns it
	seq     uint64   // of the commit
}

// of returns the patch of a folder, or nil if the folder is not listed.
func (r *relisting) of(folder note.ID) *patch {
	i, ok := findListing(r.list, folder)
	if !ok {
		return nil
	}
	if r.patches[i] == nil {
		r.patches[i] = &patch{listing: *r.list[i], seq: r.seq}
	}
	return r.patches[i]
}

// apply makes the changes in the order in which writeIndex makes them, because a commit that renumbers a folder can
// give one note the UID that another had.
func (r *relisting) apply(se *settlement) {
	for i := range se.members {
		if m := &se.members[i]; m.id == 0 {
			if p := r.of(m.folder); p != nil {
				p.remove(m.uid)
			}
		}
	}
	for i := range se.members {
		if m := &se.members[i]; m.id != 0 {
			if p := r.of(m.folder); p != nil {
				p.put(m)
			}
		}
	}
	for _, id := range se.order {
		row := se.dirty[id].row
		if row == nil {
			continue
		}
		for _, m := range row.Members {
			if p := r.of(m.Folder); p != nil {
				p.setRow(m.UID, id, row)
			}
		}
	}
	for k, counts := range se.chunks {
		if p := r.of(k.folder); p != nil {
			p.setCounts(k.chunk, counts)
		}
	}
}

// patch changes a listing by a commit. It copies what it changes.
type patch struct {
	listing
	seq    uint64 // of the commit
	cloned bool   // chunks is a copy
	weight int64  // of what was added, less that of what was removed
}

// chunk returns a chunk for changing, and its members if they are in memory. It returns nil if the folder does not have
// the chunk and add is not set.
func (p *patch) chunk(number uint32, add bool) (*listedChunk, *[]*member) {
	i, ok := p.find(number)
	if ok && p.chunks[i].seq == p.seq {
		return p.chunks[i], p.chunks[i].members.Load()
	}
	if !ok && !add {
		return nil, nil
	}
	if !p.cloned {
		p.chunks, p.cloned = slices.Clone(p.chunks), true
	}
	c := &listedChunk{number: number, seq: p.seq}
	if !ok {
		c.members.Store(new([]*member))
		p.chunks = slices.Insert(p.chunks, i, c)
		p.weight += chunkWeight
		return c, c.members.Load()
	}
	c.counts = p.chunks[i].counts
	if list := p.chunks[i].members.Load(); list != nil {
		list := append(make([]*member, 0, len(*list)+4), *list...) // room for deliveries
		c.members.Store(&list)
	}
	p.chunks[i] = c
	return c, c.members.Load()
}

func (p *patch) remove(uid uint32) {
	_, list := p.chunk(uid>>layout.ChunkShift, false)
	if list == nil {
		return
	}
	if i, ok := findMember(*list, uid); ok {
		p.weight -= (*list)[i].weight()
		*list = slices.Delete(*list, i, i+1)
	}
}

func (p *patch) put(m *memberRow) {
	_, list := p.chunk(m.uid>>layout.ChunkShift, true)
	if list == nil {
		return
	}
	x := &member{uid: m.uid, id: m.id, deleted: m.mark > 0}
	p.weight += memberWeight
	i, ok := findMember(*list, m.uid)
	if !ok {
		*list = slices.Insert(*list, i, x)
		return
	}
	p.weight -= (*list)[i].weight()
	x.deleted = x.deleted || m.mark == 0 && (*list)[i].deleted
	(*list)[i] = x
}

func (p *patch) setRow(uid uint32, id note.ID, row *layout.Note) {
	_, list := p.chunk(uid>>layout.ChunkShift, false)
	if list == nil {
		return
	}
	if i, ok := findMember(*list, uid); ok && (*list)[i].id == id {
		x := &member{uid: uid, id: id, deleted: (*list)[i].deleted}
		x.row.Store(row)
		p.weight += x.weight() - (*list)[i].weight()
		(*list)[i] = x
	}
}

func (p *patch) setCounts(number uint32, counts *layout.Chunk) {
	c, _ := p.chunk(number, counts.Total > 0)
	if c == nil {
		return
	}
	if c.counts = *counts; counts.Total == 0 {
		p.weight -= c.weight()
		p.chunks = slices.DeleteFunc(p.chunks, func(x *listedChunk) bool { return x == c })
	}
}

// listingUse is the memory that the listings of all databases take. It is an upper bound: what a reader adds to a chunk
// that a commit has replaced meanwhile counts until the listings of that database are dropped.
type listingUse struct {
	most  int64
	bytes atomic.Int64
	// hits counts the uses of a chunk's members in memory, reads those that were read, drops the databases whose
	// listings were dropped for lack of memory.
	hits, reads, drops atomic.Int64
}

// listingsOfCache is the part of the size of the buffer pool that listings may take in addition: an eighth.
const listingsOfCache = 8

// listingShare is the part of the memory for listings that one database can take: half of it, so that a huge folder
// leaves memory for others.
const listingShare = 2

// room reports whether more of a database may be kept.
func (u *listingUse) room(db *database) bool {
	return db.listed.Load() < u.most/listingShare && u.bytes.Load() < u.most
}

func (u *listingUse) weigh(db *database, size int64) {
	db.listed.Add(size)
	u.bytes.Add(size)
}

// forget subtracts the listings of a database that is closed.
func (u *listingUse) forget(db *database) { u.bytes.Add(-db.listed.Swap(0)) }

// dropListings drops the listings of a database. It does nothing and returns false while a commit publishes a state,
// which derives its listings from them.
func (d *databases) dropListings(db *database) bool {
	if !db.publish.TryLock() {
		return false
	}
	defer db.publish.Unlock()
	ls := db.cur.Load().listings
	ls.mu.Lock()
	ls.list = nil
	ls.mu.Unlock()
	d.listed.forget(db)
	d.listed.drops.Add(1)
	return true
}

// shedListings drops the listings of db if commits have made them larger than the share of a database by a quarter:
// readers add nothing beyond the share, and what they have there stays of use. If the listings of all take their whole
// memory, it drops those of the databases that were not used for the longest time, until a quarter of it is free. So it
// seldom has to look for them.
func (d *databases) shedListings(db *database) {
	u := &d.listed
	share := u.most / listingShare
	if size := db.listed.Load(); size > 0 && size >= share+share/4 && !d.dropListings(db) {
		return
	}
	if u.bytes.Load() < u.most {
		return
	}
	for u.bytes.Load() >= u.most-u.most/4 {
		oldest := d.oldestListed()
		if oldest == nil || !d.dropListings(oldest) {
			return
		}
	}
}

func (d *databases) oldestListed() (oldest *database) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, db := range d.open {
		if db.listed.Load() > 0 && (oldest == nil || db.used < oldest.used) {
			oldest = db
		}
	}
	return oldest
}
