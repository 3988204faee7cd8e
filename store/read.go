package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// snapshot is a database as of one moment: its state, and the rows of the engine. Its methods read ranges and counters.
// They check no access rights. In an Update, the state is the update's copy and the rows are those before it.
type snapshot struct {
	s   *Store
	db  *database
	st  *state
	eng pebble.Reader
	// listed is the listing that was used last, and unkept the chunk that was read last for which there was no room.
	listed *listing
	unkept struct {
		chunk   *listedChunk
		members []*member
	}
	// found is the member that was looked up or listed last, if it is in memory. Its row is usually read next.
	found *member
}

// rows reads single notes of a snapshot. In an Update it sees the changes of the update. It checks no access rights.
type rows struct {
	snapshot
	// dirty holds the notes that the update has changed so far.
	dirty map[note.ID]*txNote
	// notes and contents are cursors over rows that are read in order.
	notes, contents cursor
	// last caches the row that was read last, because callers often check a note and then use it.
	last   *layout.Note
	lastID note.ID
}

// close closes the cursors.
func (r *rows) close() {
	r.notes.close()
	r.contents.close()
}

// Reader sees one database as of one moment, as one person sees it. In Read, everything that it sees is durable. In an
// Update it sees what is applied, and the notes that the update itself changed. It adds the checks of access rights to
// its parts, which check none.
type Reader struct {
	rows
	who    *note.Who
	rights note.Rights
}

// Read calls fn with a reader of the database. It first waits until everything that fn can see is durable, so that
// nothing leaves the store before. The reader is valid only during the call.
func (s *Store) Read(ctx context.Context, who note.Who, id note.DatabaseID, fn func(*Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db, err := s.dbs.acquire(id)
	if err != nil {
		return err
	}
	defer s.dbs.release(db)
	if !who.System {
		db.work.Add(1)
	}
	db.publish.RLock()
	st := db.cur.Load()
	snap := s.eng.NewSnapshot()
	db.publish.RUnlock()
	defer snap.Close()
	if err := s.hz.wait(st.latest()); err != nil {
		return err
	}
	r := &Reader{who: &who, rights: st.info.ACL.Rights(&who)}
	r.snapshot = snapshot{s: s, db: db, st: st, eng: snap}
	if err := r.serving(); err != nil {
		return err
	}
	defer r.close()
	return fn(r)
}

// Beside calls fn with a reader that sees the same as r, which is one of Read. It is for another goroutine, because a
// reader is used by one at a time. The call of Read must not return before.
func Beside(r *Reader, fn func(*Reader)) {
	x := &Reader{who: r.who, rights: r.rights}
	x.snapshot = snapshot{s: r.s, db: r.db, st: r.st, eng: r.eng} // without what r has read, which it goes on changing
	defer x.close()
	fn(x)
}

// serving refuses a database that is not in service. The server itself may still read one that waits for deletion.
func (r *Reader) serving() error {
	if r.st.info.State != layout.InService && !(r.who.System && r.st.info.State == layout.PendingDelete) {
		return fmt.Errorf("%w: %s: %s", ErrOutOfService, r.st.info.Title, r.st.info.Reason)
	}
	return nil
}

// Info returns the description of the database.
func (sn *snapshot) Info() layout.Info { return *sn.st.info }

// Database returns the id of the database.
func (sn *snapshot) Database() note.DatabaseID { return sn.db.id }

// Counters returns the counters of the database.
func (sn *snapshot) Counters() layout.Counters { return sn.st.counters }

// Rights returns the rights that the database's access list grants to the reader.
func (r *Reader) Rights() note.Rights { return r.rights }

// FolderRights returns the rights in a folder: by its own access list if it has one, else by the database's.
func (r *Reader) FolderRights(f *layout.Folder) note.Rights {
	if f.HasACL {
		return f.ACL.Rights(r.who)
	}
	return r.rights
}

// Folders returns the heads of all folders that the reader may look up, in order of note id. The caller must not change
// them.
func (r *Reader) Folders() []*layout.Folder {
	if r.who.System {
		return r.st.folders
	}
	out := make([]*layout.Folder, 0, len(r.st.folders))
	for _, f := range r.st.folders {
		if r.FolderRights(f)&note.Lookup != 0 {
			out = append(out, f)
		}
	}
	return out
}

// AllFolders returns the heads of all folders, whatever the reader may look up. It is for code that computes what
// someone may see. The caller must not change or reveal them.
func (sn *snapshot) AllFolders() []*layout.Folder { return sn.st.folders }

// Folder returns a folder's head by note id. A folder that may not be looked up causes ErrNotFound.
func (r *Reader) Folder(id note.ID) (*layout.Folder, error) {
	f := r.st.folder(id)
	if f == nil || r.FolderRights(f)&note.Lookup == 0 {
		return nil, ErrNotFound
	}
	return f, nil
}

// FolderNamed returns a folder's head by its full name.
func (r *Reader) FolderNamed(name string) (*layout.Folder, error) {
	for _, f := range r.st.folders {
		if f.Name == name && r.FolderRights(f)&note.Lookup != 0 {
			return f, nil
		}
	}
	return nil, ErrNotFound
}

// Note returns a note's row. The caller must not change it.
func (r *Reader) Note(id note.ID) (*layout.Note, error) {
	n, err := r.note(id)
	if err != nil {
		return nil, err
	}
	if n.Stub || !r.mayRead(n) {
		return nil, ErrNotFound
	}
	return n, nil
}

// Row is Note without the check of read access. It is for code that computes what someone may see.
func (r *rows) Row(id note.ID) (*layout.Note, error) {
	n, err := r.note(id)
	if err == nil && n.Stub {
		return nil, ErrNotFound
	}
	return n, err
}

// mayRead reports whether the reader may read a note. Any of its folders can grant this. For a note in no folder the
// database's access list decides.
func (r *Reader) mayRead(n *layout.Note) bool {
	if r.who.System {
		return true
	}
	for _, m := range n.Members {
		if f := r.st.folder(m.Folder); f != nil && r.FolderRights(f)&note.Read != 0 {
			return true
		}
	}
	if len(n.Members) > 0 {
		return false
	}
	return r.rights&note.Read != 0
}

func (r *rows) note(id note.ID) (*layout.Note, error) {
	if t, ok := r.dirty[id]; ok {
		if t.row == nil {
			return nil, ErrNotFound
		}
		return t.row, nil
	}
	m := r.found
	if m != nil && m.id != id {
		m = nil
	}
	if m != nil {
		if n := m.row.Load(); n != nil {
			return n, nil
		}
	}
	if n := r.st.recent.row(id); n != nil {
		return n, nil
	}
	if r.last != nil && r.lastID == id {
		return r.last, nil
	}
	var n *layout.Note
	err := r.row(&r.notes, layout.KindNote, id, func(v []byte) (err error) {
		if n, err = layout.ReadNote(v); err != nil {
			err = fmt.Errorf("%w: note %d of database %s", ErrDamaged, id, r.db.id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.last, r.lastID = n, id
	if m != nil {
		r.keepRow(m, n)
	}
	return n, nil
}

// keepRow keeps the row of a member in memory if there is room. A commit finds the member by the row's UID, so the row
// of a member that a damaged store lists wrongly is not kept.
func (sn *snapshot) keepRow(m *member, n *layout.Note) {
	use := &sn.s.dbs.listed
	right := slices.ContainsFunc(n.Members, func(x layout.Membership) bool { return x.UID == m.uid })
	if right && use.room(sn.db) && m.row.CompareAndSwap(nil, n) {
		use.weigh(sn.db, rowWeight(n))
	}
}

// Find returns the note id of a UNID. A note that was deleted for good causes ErrGrave.
func (sn *snapshot) Find(u note.UNID) (note.ID, error) {
	v, closer, err := sn.eng.Get(layout.UNIDKey(sn.db.num, u))
	if err != nil {
		return 0, engineError(err)
	}
	id, err := layout.ReadUNIDRow(v)
	if err = errors.Join(err, engineError(closer.Close())); err != nil {
		return 0, fmt.Errorf("%w: UNID %s", ErrDamaged, u)
	}
	if id == 0 {
		return 0, ErrGrave
	}
	return id, nil
}

// Content returns a note's content: its revisions, the winner's items and the summary.
func (r *Reader) Content(id note.ID) (*layout.Content, error) {
	_, c, err := r.Document(id)
	return c, err
}

// Document returns the results of both Note and Content.
func (r *Reader) Document(id note.ID) (*layout.Note, *layout.Content, error) {
	n, err := r.Note(id)
	if err != nil {
		return nil, nil, err
	}
	c, err := r.content(id)
	return n, c, err
}

func (r *rows) content(id note.ID) (*layout.Content, error) {
	if t, ok := r.dirty[id]; ok && t.content != nil {
		return t.content, nil
	}
	return r.storedContent(id)
}

// storedContent returns a note's content, without the changes of an update.
func (sn *snapshot) storedContent(id note.ID) (*layout.Content, error) {
	key := layout.NoteKey(sn.db.num, layout.KindContent, id)
	v, err := getValue(sn.eng, key)
	if err != nil {
		return nil, err
	}
	if v, err = sn.s.Unseal(key, v); err != nil {
		return nil, err
	}
	c, err := layout.ReadContentRow(v)
	if err != nil {
		return nil, fmt.Errorf("%w: content of note %d of database %s", ErrDamaged, id, sn.db.id)
	}
	return c, nil
}

// storedLeaf returns the content of a leaf that lost a conflict, without the changes of an update.
func (sn *snapshot) storedLeaf(id note.ID, rev note.Revision) (*note.Content, error) {
	key := layout.LeafKey(sn.db.num, id, rev)
	v, err := getValue(sn.eng, key)
	if err != nil {
		return nil, err
	}
	if v, err = sn.s.Unseal(key, v); err != nil {
		return nil, err
	}
	c, _, err := note.ReadContent(v)
	if err != nil {
		return nil, fmt.Errorf("%w: conflict of note %d of database %s", ErrDamaged, id, sn.db.id)
	}
	return &c, nil
}

// Summary appends a note's summary to dst, without decoding the rest. It does not check access: the caller has read the
// row.
func (r *rows) Summary(dst []byte, id note.ID) ([]byte, error) {
	if t, ok := r.dirty[id]; ok && t.content != nil {
		return append(dst, t.content.Summary...), nil
	}
	err := r.row(&r.contents, layout.KindContent, id, func(v []byte) error {
		v, err := r.s.Unseal(r.contents.key, v)
		if err != nil {
			return err
		}
		sum, err := layout.ReadSummary(v)
		if err != nil {
			return fmt.Errorf("%w: summary of note %d of database %s", ErrDamaged, id, r.db.id)
		}
		dst = append(dst, sum...)
		return nil
	})
	return dst, err
}

// Leaf returns the content of a leaf that lost a conflict.
func (r *rows) Leaf(id note.ID, rev note.Revision) (*note.Content, error) {
	if t, ok := r.dirty[id]; ok {
		if c, ok := t.leaves[rev]; ok {
			if c == nil {
				return nil, ErrNotFound
			}
			return c, nil
		}
	}
	return r.storedLeaf(id, rev)
}

// Thread returns the notes of a thread, in order of arrival.
func (sn *snapshot) Thread(thread note.UNID) ([]note.ID, error) {
	var out []note.ID
	prefix := append(layout.Prefix(sn.db.num, layout.KindThread), thread[:]...)
	err := scan(sn.eng, prefix, func(k, _ []byte) error {
		out = append(out, note.ID(layout.Tail64(k)))
		return nil
	})
	return out, err
}

// Notes calls fn for every note from id from on that the reader may read, in order of arrival, until fn returns false.
// It fails at a damaged row: see ReadableNotes.
func (r *Reader) Notes(from note.ID, fn func(note.ID, *layout.Note) bool) error {
	return eachNote(r, from, func(_ note.ID, err error) error { return err }, fn)
}

// ReadableNotes calls fn as Notes does, and goes on behind notes whose rows are damaged. It calls damaged for each of
// those. It is for readers that do better with the other notes than with none, such as a search.
func ReadableNotes(r *Reader, from note.ID, damaged func(note.ID, error), fn func(note.ID, *layout.Note) bool) error {
	return eachNote(r, from, func(id note.ID, err error) error { damaged(id, err); return nil }, fn)
}

func eachNote(
	r *Reader, from note.ID, damaged func(note.ID, error) error, fn func(note.ID, *layout.Note) bool,
) error {
	lo := layout.NoteKey(r.db.num, layout.KindNote, from)
	hi := layout.After(layout.Prefix(r.db.num, layout.KindNote))
	return scanRange(r.eng, lo, hi, func(k, v []byte) error {
		n, err := layout.ReadNote(v)
		if err != nil {
			id := layout.Tail64(k)
			return damaged(note.ID(id), fmt.Errorf("%w: note %d of database %s", ErrDamaged, id, r.db.id))
		}
		if n.Stub || !r.mayRead(n) {
			return nil
		}
		if !fn(note.ID(layout.Tail64(k)), n) {
			return errStop
		}
		return nil
	})
}

// Changes calls fn for every change after since, oldest first, until fn returns false. Each note appears once, at its
// latest change. Each expunge after the floor appears.
func (sn *snapshot) Changes(since note.ModSeq, fn func(note.ModSeq, layout.Change) bool) error {
	if list, ok := sn.st.recent.since(since); ok {
		for i := range list {
			if !fn(list[i].mod, list[i].Change) {
				break
			}
		}
		return nil
	}
	lo := layout.IDKey(sn.db.num, layout.KindModSeq, uint64(since)+1)
	hi := layout.After(layout.Prefix(sn.db.num, layout.KindModSeq))
	return scanRange(sn.eng, lo, hi, func(k, v []byte) error {
		c, err := layout.ReadChange(v)
		if err != nil {
			return fmt.Errorf("%w: change in database %s", ErrDamaged, sn.db.id)
		}
		if !fn(note.ModSeq(layout.Tail64(k)), c) {
			return errStop
		}
		return nil
	})
}

// Latest calls fn for the same rows as Changes, latest first, until fn returns false.
func (sn *snapshot) Latest(fn func(note.ModSeq, layout.Change) bool) error {
	rc := &sn.st.recent
	for i := len(rc.changes) - 1; i >= 0; i-- {
		if !fn(rc.changes[i].mod, rc.changes[i].Change) {
			return nil
		}
	}
	prefix := layout.Prefix(sn.db.num, layout.KindModSeq)
	it, err := sn.eng.NewIter(&pebble.IterOptions{LowerBound: prefix,
		UpperBound: layout.IDKey(sn.db.num, layout.KindModSeq, uint64(rc.floor)+1)})
	if err != nil {
		return engineError(err)
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		v, err := it.ValueAndErr()
		if err == nil {
			var c layout.Change
			if c, err = layout.ReadChange(v); err != nil {
				err = fmt.Errorf("%w: change in database %s", ErrDamaged, sn.db.id)
			} else if !fn(note.ModSeq(layout.Tail64(it.Key())), c) {
				break
			}
		}
		if err != nil {
			return errors.Join(engineOrOwn(err), it.Close())
		}
	}
	return engineError(errors.Join(it.Error(), it.Close()))
}

// own reports whether the reader wrote the note.
func (r *Reader) own(n *layout.Note) bool {
	return !n.Author.IsZero() && n.Author == r.who.Person
}

// grants reports whether any of the note's folders grants right. For a note in no folder, the database decides. ifOwn
// suffices for a note that the reader wrote.
func (r *Reader) grants(n *layout.Note, right, ifOwn note.Rights) bool {
	if r.who.System {
		return true
	}
	has := func(g note.Rights) bool { return g&right != 0 || ifOwn != 0 && g&ifOwn != 0 && r.own(n) }
	if len(n.Members) == 0 {
		return has(r.rights)
	}
	return slices.ContainsFunc(n.Members, func(m layout.Membership) bool {
		f := r.st.folder(m.Folder)
		return f != nil && has(r.FolderRights(f))
	})
}
