package store

import (
	"errors"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// settlement derives the rows that an update writes from the difference between each note before and after, and encodes
// them. Every index follows from this difference alone, so no caller can forget to update one.
type settlement struct {
	*Writer
	chunks  map[chunkKey]*layout.Chunk
	members []memberRow
	entries []entry    // rows of indexes
	key     *sealKey   // of the database, if it has one of its own
	kept    []*Message // attachments that the update adds, in the form of the database
	brought []*Message // those of them that only this update has pinned
}

type chunkKey struct {
	folder note.ID
	chunk  uint32
}

// memberRow is a change of the folder index.
type memberRow struct {
	folder note.ID
	uid    uint32
	id     note.ID // 0 removes
	mark   int8    // \Deleted row: 1 adds, -1 removes, 0 leaves it
}

// settle compares each note before and after the update. From the difference it derives the changes to the ledger, the
// folder heads, the counters of chunks and the sizes of the database. settle may read and may fail; write only encodes
// the result.
func (se *settlement) settle() error {
	if err := se.settleKey(); err != nil {
		return err
	}
	if se.numbers {
		if err := se.numberAll(); err != nil {
			return err
		}
	} else if err := se.unnumberUnnamed(); err != nil {
		return err
	}
	se.order = slices.DeleteFunc(se.order, func(id note.ID) bool { return se.dirty[id].unchanged() })
	for _, id := range se.order {
		t := se.dirty[id]
		if t.orig == nil && t.row == nil {
			continue // created and destroyed within one update
		}
		if err := se.settleNote(t); err != nil {
			return err
		}
	}
	return nil
}

func (se *settlement) settleNote(t *txNote) error {
	if r := t.row; r != nil && r.Stub && len(r.Members) == 0 {
		t.dropMessage() // the stub was kept for memberships that the home had not ended
	}
	if err := se.measure(t); err != nil {
		return err
	}
	if err := se.settleMembers(t); err != nil {
		return err
	}
	if err := se.settleNamed(t); err != nil {
		return err
	}
	if err := se.settleIndexes(t); err != nil {
		return err
	}
	se.settleSizes(t)
	return se.settleMod(t)
}

// settleMod assigns a MODSEQ to a changed note.
func (se *settlement) settleMod(t *txNote) error {
	switch {
	case t.row == nil:
		return nil
	case t.given:
	case !se.numbers:
		se.leaveUnnumbered(t)
		return nil
	case t.row.Stub:
		se.settleStub(t)
		return nil
	default:
		t.row.Mod = se.mutable().counters.Ledger.NextMod()
		if !t.wasShown() || t.renewed {
			t.row.Created = t.row.Mod
		}
	}
	if t.wasShown() && !t.row.Stub && t.row.Remarked(t.orig) {
		t.row.Shown = t.row.Mod
	}
	for _, m := range t.row.Members {
		if err := se.touchHead(m.Folder, t.row.Mod); err != nil {
			return err
		}
	}
	return nil
}

// leaveUnnumbered marks a change for the home to number. The note keeps the numbers that it has.
func (num *numbering) leaveUnnumbered(t *txNote) {
	if t.orig != nil && !t.orig.Listed() {
		t.row.Mod = 0
	}
	if t.orig == nil || t.orig.Foldered != t.row.Foldered || !slices.Equal(t.orig.State, t.row.State) ||
		t.content != nil && !sameLeaves(t.before, t.content) {
		t.row.Unnumbered = true
	}
}

// sameLeaves reports whether two contents have the same leaf revisions. Older revisions are not compared, because each
// replica prunes them on its own.
func sameLeaves(a, b *layout.Content) bool {
	return a != nil && slices.EqualFunc(a.Tree.Leaves(), b.Tree.Leaves(),
		func(x, y note.Node) bool { return x.Rev == y.Rev })
}

// unchanged reports whether a note was loaded for changing but did not change. It gets no new numbers then, so applying
// a change twice, setting the present value, and a refused change notify nobody.
func (t *txNote) unchanged() bool {
	if t.orig == nil || t.row == nil || t.content != nil || t.renewed || t.again {
		return false
	}
	return equalRows(t.orig, t.row)
}

// equalRows compares what an update can change in a row without changing the content.
func equalRows(a, b *layout.Note) bool {
	return a.Stub == b.Stub && a.Foldered == b.Foldered && a.Attached == b.Attached && a.Recipe == b.Recipe &&
		a.Size == b.Size && a.Unnumbered == b.Unnumbered && a.Mod == b.Mod && a.Created == b.Created &&
		slices.Equal(a.Members, b.Members) && slices.Equal(a.State, b.State)
}

// wasLive reports whether the note existed before the update and was not deleted.
func (t *txNote) wasLive() bool { return t.orig != nil && !t.orig.Stub }

// wasShown reports whether clients could see the note before the update.
func (t *txNote) wasShown() bool { return t.wasLive() && t.orig.Created != 0 }

func (fh *folderHeads) touchHead(folder note.ID, mod note.ModSeq) error {
	h, err := fh.head(folder)
	if err != nil {
		return err
	}
	h.Mod = max(h.Mod, mod)
	return nil
}

func (se *settlement) settleStub(t *txNote) {
	if se.st.counters.Ledger.Shared && (t.orig == nil || t.orig.Stub && len(t.orig.Members) == 0) {
		se.expunged(t, layout.Membership{}, true) // without a MODSEQ it would never reach followers
	}
}

// filed holds what the heads of a note's folders count of it.
type filed struct {
	members []layout.Membership
	seen    []note.UNID
	size    uint64
}

func filedOf(n *layout.Note) filed {
	if n == nil {
		return filed{}
	}
	return filed{n.Members, seenPersons(n), n.Size}
}

// index returns the index of the membership with the folder and UID of m, or -1.
func (f *filed) index(m layout.Membership) int {
	return slices.IndexFunc(f.members, func(n layout.Membership) bool { return n.Folder == m.Folder && n.UID == m.UID })
}

// settleMembers compares a note's memberships before and after.
func (se *settlement) settleMembers(t *txNote) error {
	before, after := filedOf(t.orig), filedOf(t.row)
	gone := t.row == nil || t.row.Stub
	for _, m := range before.members {
		var err error
		if i := after.index(m); i < 0 {
			err = se.unlist(t, m, before.seen, before.size, gone)
		} else {
			err = se.relist(t, m, after.members[i], &before, &after)
		}
		if err != nil {
			return err
		}
	}
	for _, m := range after.members {
		if before.index(m) >= 0 {
			continue
		}
		if err := se.list(t, m, after.seen, after.size); err != nil {
			return err
		}
	}
	if err := se.listKeywords(t.row, after.members); err != nil {
		return err
	}
	if gone && se.numbers && len(before.members) == 0 && t.wasLive() {
		se.expunged(t, layout.Membership{}, true)
	}
	return nil
}

// relist changes the counts of a folder in which the note stays.
func (se *settlement) relist(t *txNote, was, is layout.Membership, before, after *filed) error {
	if err := se.remark(t, was, is, before.seen, after.seen); err != nil {
		return err
	}
	if before.size == after.size {
		return nil
	}
	h, err := se.head(was.Folder)
	if err != nil {
		return err
	}
	h.Size += after.size - min(h.Size+after.size, before.size)
	return nil
}

// listKeywords adds the keywords of a note to the lists of its folders.
func (se *settlement) listKeywords(n *layout.Note, in []layout.Membership) error {
	for _, m := range in {
		if f := se.st.folder(m.Folder); f == nil || f.KnowsKeywords(n) {
			continue
		}
		h, err := se.head(m.Folder)
		if err != nil {
			return err
		}
		h.AddKeywords(n)
	}
	return nil
}

func seenPersons(n *layout.Note) []note.UNID {
	var out []note.UNID
	for _, it := range n.State {
		if it.Kind == note.Seen && it.Value == note.On && len(it.Key) == len(note.UNID{}) {
			out = append(out, note.UNID([]byte(it.Key)))
		}
	}
	return out
}

func (se *settlement) list(t *txNote, m layout.Membership, seen []note.UNID, size uint64) error {
	h, err := se.head(m.Folder)
	if err != nil {
		return err
	}
	c, err := se.chunk(m.Folder, m.UID)
	if err != nil {
		return err
	}
	h.Total++
	h.Size += size
	h.UIDNext = max(h.UIDNext, m.UID+1)
	c.Total++
	for _, p := range seen {
		h.Seen, c.Seen = layout.AddSeen(h.Seen, p, 1), layout.AddSeen(c.Seen, p, 1)
	}
	row := memberRow{folder: m.Folder, uid: m.UID, id: t.id}
	if m.Deleted {
		h.Deleted++
		row.mark = 1
	}
	se.members = append(se.members, row)
	return nil
}

func (se *settlement) unlist(t *txNote, m layout.Membership, seen []note.UNID, size uint64, gone bool) error {
	if se.numbers && (gone || se.st.counters.Ledger.Epoch == se.db.cur.Load().counters.Ledger.Epoch ||
		!se.st.counters.Ledger.Shared) {
		se.expunged(t, m, gone)
	}
	if se.st.folder(m.Folder) == nil {
		return nil // the folder is removed too, with all its rows
	}
	h, err := se.head(m.Folder)
	if err != nil {
		return err
	}
	c, err := se.chunk(m.Folder, m.UID)
	if err != nil {
		return err
	}
	h.Total--
	h.Size -= min(h.Size, size)
	if se.numbers {
		h.Mod = se.st.counters.Ledger.Last
	}
	c.Total--
	for _, p := range seen {
		h.Seen, c.Seen = layout.AddSeen(h.Seen, p, -1), layout.AddSeen(c.Seen, p, -1)
	}
	row := memberRow{folder: m.Folder, uid: m.UID}
	if m.Deleted {
		h.Deleted--
		row.mark = -1
	}
	se.members = append(se.members, row)
	return nil
}

// remark applies changes of \Deleted and \Seen to a membership that stays.
func (se *settlement) remark(t *txNote, before, after layout.Membership, seenBefore, seenAfter []note.UNID) error {
	if before.Deleted == after.Deleted && slices.Equal(seenBefore, seenAfter) {
		return nil
	}
	h, err := se.head(after.Folder)
	if err != nil {
		return err
	}
	if before.Deleted != after.Deleted {
		row := memberRow{folder: after.Folder, uid: after.UID, id: t.id, mark: 1}
		h.Deleted++
		if before.Deleted {
			row.mark = -1
			h.Deleted -= 2
		}
		se.members = append(se.members, row)
	}
	if slices.Equal(seenBefore, seenAfter) {
		return nil
	}
	c, err := se.chunk(after.Folder, after.UID)
	if err != nil {
		return err
	}
	for _, p := range seenBefore {
		if !slices.Contains(seenAfter, p) {
			h.Seen, c.Seen = layout.AddSeen(h.Seen, p, -1), layout.AddSeen(c.Seen, p, -1)
		}
	}
	for _, p := range seenAfter {
		if !slices.Contains(seenBefore, p) {
			h.Seen, c.Seen = layout.AddSeen(h.Seen, p, 1), layout.AddSeen(c.Seen, p, 1)
		}
	}
	return nil
}

// expunged assigns a MODSEQ to the end of a membership, so that clients can be told of it later.
func (num *numbering) expunged(t *txNote, m layout.Membership, gone bool) {
	st := num.mutable()
	st.counters.Ledger.NextMod()
	st.counters.Expunged++
	was := t.orig
	if was == nil { // a stub that came from another replica
		was = t.row
	}
	c := layout.Change{
		Note: t.id, Expunged: true, Gone: gone, Folder: m.Folder, UID: m.UID, UNID: was.UNID,
		Time: num.s.env.Clock.Now().Unix(),
	}
	if gone {
		c.Class, c.Thread, c.Created = was.Class, was.Thread, was.Created
		c.Shown, c.Hidden = was.Shown, was.Hidden()
	}
	num.ended(st.counters.Ledger.Last, c)
}

// ended records the end of a membership under its MODSEQ.
func (num *numbering) ended(mod note.ModSeq, c layout.Change) {
	num.gone, num.goneMods = append(num.gone, c), append(num.goneMods, mod)
}

// measure sets the size of a document in folders that is no message: that of its items and attachments. Like a message
// it counts towards the quota.
func (se *settlement) measure(t *txNote) (err error) {
	if t.row == nil || t.row.Stub || !t.row.Foldered || t.row.Class != note.Document || t.row.Recipe != 0 ||
		t.message != nil {
		return nil
	}
	c := t.content
	if c == nil {
		if t.orig != nil && t.orig.Foldered {
			return nil // it was measured when it changed last
		}
		if c, err = se.content(t.id); err != nil {
			return err
		}
	}
	t.row.Size = 0
	for _, it := range c.Content.Items {
		t.row.Size += uint64(len(it.Value))
	}
	for _, a := range c.Content.Attachments {
		t.row.Size += a.Size
	}
	return nil
}

func (se *settlement) settleSizes(t *txNote) {
	c := &se.mutable().counters
	if t.orig != nil && !t.orig.Stub {
		c.Notes--
		c.Size -= min(c.Size, t.orig.Size)
	}
	if t.row != nil && !t.row.Stub {
		c.Notes++
		c.Size += t.row.Size
	}
}

// chunk returns the counters of the chunk that holds a UID, for changing.
func (se *settlement) chunk(folder note.ID, uid uint32) (*layout.Chunk, error) {
	k := chunkKey{folder, uid >> layout.ChunkShift}
	if c, ok := se.chunks[k]; ok {
		return c, nil
	}
	if se.chunks == nil {
		se.chunks = make(map[chunkKey]*layout.Chunk)
	}
	c := new(layout.Chunk)
	se.chunks[k] = c
	if l := se.st.listings.of(folder); l != nil {
		if i, ok := l.find(k.chunk); ok {
			*c = l.chunks[i].counts
		}
		return c, nil
	}
	if t := &se.db.tail; t.valid && t.folder == folder && t.chunk == k.chunk {
		*c = t.row
		return c, nil
	}
	v, err := getValue(se.eng, layout.FolderUIDKey(se.db.num, layout.KindChunk, folder, k.chunk))
	if errors.Is(err, ErrNotFound) {
		return c, nil
	}
	if err == nil {
		*c, err = layout.ReadChunk(v)
	}
	return c, err
}

// write encodes what settle derived into the batch. Each changed note takes the next sequence, starting at *seq.
func (se *settlement) write(b *pebble.Batch, seq *uint64, feed []layout.FeedItem) []layout.FeedItem {
	db := se.db.num
	st := se.mutable()
	if se.renewed {
		se.clearMods(b)
	}
	for _, id := range se.order {
		t := se.dirty[id]
		if t.orig != nil {
			del(b, layout.IDKey(db, layout.KindSequence, t.orig.Seq))
			if t.orig.Listed() && !se.renewed && !se.sameRow(t) {
				del(b, layout.IDKey(db, layout.KindModSeq, uint64(t.orig.Mod)))
			}
			if t.orig.Unnumbered {
				del(b, layout.IDKey(db, layout.KindUnnumbered, t.orig.Seq))
			}
		}
		feed = append(feed, layout.FeedItem{Database: db, Note: id, Seq: *seq})
		st.counters.Seq = *seq
		se.writeNote(b, t, *seq)
		*seq++
	}
	if len(se.order) == 0 { // only the state of the database changed
		st.counters.Seq = *seq
		*seq++
	}
	se.writeIndex(b)
	if se.infoChanged {
		st.described = st.counters.Seq
		set(b, layout.Prefix(db, layout.KindInfo), layout.AppendInfo(nil, st.info))
	}
	set(b, layout.Prefix(db, layout.KindCounters), layout.AppendCounters(nil, &st.counters))
	return feed
}

// sameRow reports whether the note keeps its row under its MODSEQ.
func (se *settlement) sameRow(t *txNote) bool {
	return !se.renewed && t.orig != nil && t.orig.Listed() && t.row != nil && t.row.Listed() && t.row.Mod == t.orig.Mod
}

func (se *settlement) writeNote(b *pebble.Batch, t *txNote, seq uint64) {
	db := se.db.num
	se.writeReferences(b, t)
	if t.row == nil {
		if t.orig != nil {
			se.deleteNote(b, t)
		}
		return
	}
	t.row.Seq = seq
	if t.message != nil {
		t.row.Recipe = t.message.recipe
	}
	set(b, layout.NoteKey(db, layout.KindNote, t.id), layout.AppendNote(nil, t.row))
	if t.content != nil {
		key := layout.NoteKey(db, layout.KindContent, t.id)
		set(b, key, se.key.sealContent(se.s.env, key, layout.AppendContentRow(nil, t.content), &t.content.Content))
	}
	for rev, c := range t.leaves {
		if key := layout.LeafKey(db, t.id, rev); c == nil {
			del(b, key)
		} else {
			set(b, key, se.key.sealContent(se.s.env, key, note.AppendContent(nil, c), c))
		}
	}
	set(b, layout.IDKey(db, layout.KindSequence, seq), layout.UNIDRow(t.id))
	if t.row.Listed() && !se.sameRow(t) {
		set(b, layout.IDKey(db, layout.KindModSeq, uint64(t.row.Mod)),
			layout.AppendChange(nil, &layout.Change{Note: t.id}))
	}
	if t.row.Unnumbered {
		set(b, layout.IDKey(db, layout.KindUnnumbered, seq), layout.UNIDRow(t.id))
	}
	if t.orig == nil {
		set(b, layout.UNIDKey(db, t.row.UNID), layout.UNIDRow(t.id))
	}
	if lives := !t.row.Stub; lives != t.wasLive() && !t.row.Thread.IsZero() {
		if lives {
			set(b, layout.ThreadKey(db, t.row.Thread, t.id), nil)
		} else {
			del(b, layout.ThreadKey(db, t.row.Thread, t.id))
		}
	}
}

// writeReferences writes a row for every shared recipe and object that the note references, and removes the rows of
// those that it no longer references. It records for the sweeper what may have lost its last reference.
func (se *settlement) writeReferences(b *pebble.Batch, t *txNote) {
	var before, after note.RecipeID
	if t.orig != nil {
		before = t.orig.Recipe
	}
	if t.row != nil {
		after = t.row.Recipe
		if t.message != nil {
			after = t.message.recipe
		}
	}
	if before != after {
		if before != 0 {
			del(b, layout.RecipeRefKey(before, se.db.num, t.id))
			set(b, layout.SweepRecipe(before), nil)
		}
		if after != 0 {
			set(b, layout.RecipeRefKey(after, se.db.num, t.id), nil)
		}
	}
	for d := range t.wasNamed {
		if _, ok := t.named[d]; !ok {
			del(b, layout.ObjectByNote(d, se.db.num, t.id))
			set(b, layout.SweepObject(d), nil)
		}
	}
	for d := range t.named {
		if !t.wasNamed[d] {
			set(b, layout.ObjectByNote(d, se.db.num, t.id), nil)
		}
	}
}

// deleteNote removes the rows of a note. A queue needs no grave: nothing brings a queue's note again.
func (se *settlement) deleteNote(b *pebble.Batch, t *txNote) {
	db := se.db.num
	del(b, layout.NoteKey(db, layout.KindNote, t.id))
	del(b, layout.NoteKey(db, layout.KindContent, t.id))
	prefix := layout.NoteKey(db, layout.KindLeaf, t.id)
	if t.hadLeaves {
		_ = b.DeleteRange(prefix, layout.After(prefix), nil)
	}
	if !t.orig.Thread.IsZero() {
		del(b, layout.ThreadKey(db, t.orig.Thread, t.id))
	}
	if se.st.info.Queue {
		del(b, layout.UNIDKey(db, t.orig.UNID))
	} else {
		set(b, layout.UNIDKey(db, t.orig.UNID), layout.Grave)
	}
}

// writeIndex encodes the changes of the folder index, heads, expunges and names.
func (se *settlement) writeIndex(b *pebble.Batch) {
	db := se.db.num
	se.writeMembers(b)
	se.writeHeads(b)
	for _, mod := range se.trimmed { // before new rows: an expunge that was forgotten may be written again
		del(b, layout.IDKey(db, layout.KindModSeq, uint64(mod)))
	}
	for i := range se.gone {
		set(b, layout.IDKey(db, layout.KindModSeq, uint64(se.goneMods[i])), layout.AppendChange(nil, &se.gone[i]))
	}
	for _, e := range se.entries {
		if e.remove {
			del(b, e.key)
		} else {
			set(b, e.key, nil)
		}
	}
	for _, id := range se.Peers.changed {
		key := layout.IDKey(db, layout.KindPeer, uint64(id))
		if p, ok := se.st.peers[id]; ok {
			set(b, key, layout.AppendPeer(nil, &p))
		} else {
			del(b, key)
		}
	}
	se.writeObjects(b)
	for _, u := range se.graves {
		set(b, layout.UNIDKey(db, u), layout.Grave)
	}
	for name, v := range se.names {
		set(b, append(layout.Prefix(db, layout.KindName), name...), uint64Bytes(uint64(v))[4:])
	}
}

// writeMembers encodes the changes of memberships and of their deletion marks.
func (se *settlement) writeMembers(b *pebble.Batch) {
	db := se.db.num
	// Removals come first: when a folder is renumbered, one note can get the UID that another had.
	for _, m := range se.members {
		if m.id == 0 {
			del(b, layout.FolderUIDKey(db, layout.KindMember, m.folder, m.uid))
		}
		if m.mark < 0 {
			del(b, layout.FolderUIDKey(db, layout.KindDeleted, m.folder, m.uid))
		}
	}
	for _, m := range se.members {
		if m.id != 0 {
			set(b, layout.FolderUIDKey(db, layout.KindMember, m.folder, m.uid), layout.UNIDRow(m.id))
		}
		if m.mark > 0 {
			set(b, layout.FolderUIDKey(db, layout.KindDeleted, m.folder, m.uid), nil)
		}
	}
}

// writeHeads encodes the counters of chunks and the heads of folders.
func (se *settlement) writeHeads(b *pebble.Batch) {
	db := se.db.num
	for k, c := range se.chunks {
		key := layout.FolderUIDKey(db, layout.KindChunk, k.folder, k.chunk)
		if c.Total == 0 {
			del(b, key)
		} else {
			set(b, key, layout.AppendChunk(nil, c))
		}
	}
	for id := range se.cloned {
		if f := se.st.folder(id); f != nil {
			set(b, layout.NoteKey(db, layout.KindFolder, id), layout.AppendFolder(nil, f))
		}
	}
	for _, id := range se.dropped {
		del(b, layout.NoteKey(db, layout.KindFolder, id))
		for _, k := range []layout.Kind{layout.KindMember, layout.KindDeleted, layout.KindChunk} {
			prefix := layout.NoteKey(db, k, id)
			_ = b.DeleteRange(prefix, layout.After(prefix), nil)
		}
	}
}

// writeObjects encodes the locations of objects that the update's messages and attachments have added.
func (se *settlement) writeObjects(b *pebble.Batch) {
	for _, m := range se.kept {
		for _, p := range m.objects {
			if p.isNew {
				set(b, layout.Key(layout.SpaceObject, p.name[:]), p.loc.Append(nil))
				if !se.namesObject(p.name) {
					set(b, layout.SweepObject(p.name), nil)
				}
			}
		}
	}
}

// namesObject reports whether a note of the update references an object, by its name.
func (se *settlement) namesObject(name note.Digest) bool {
	return slices.ContainsFunc(se.order, func(id note.ID) bool {
		_, ok := se.dirty[id].named[name]
		return ok
	})
}

// publish makes the new state visible to readers. The caller holds db.publish.
func (se *settlement) publish() {
	if !se.private {
		return
	}
	se.remember()
	se.st.listings = se.relisted()
	se.advance()
	se.db.cur.Store(se.st)
	t := &se.db.tail
	if slices.Contains(se.dropped, t.folder) {
		t.valid = false // the folder may come back under its id, without this chunk
	}
	for k, c := range se.chunks {
		if !t.valid || t.folder != k.folder || k.chunk >= t.chunk {
			*t = tailChunk{k.folder, k.chunk, *c, true}
		}
	}
}
