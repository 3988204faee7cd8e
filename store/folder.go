package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store/layout"
)

// The items of a folder's note.
const (
	itemName       = "Name"
	itemSpecialUse = "SpecialUse"
	itemACL        = "$ACL"
)

// above is the access list of its own that the folder has in which name lies; nil where there is none.
func (w *Writer) above(name string) *note.ACL {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if f := w.named(name[:i]); f != nil && f.HasACL {
			return &f.ACL
		}
	}
	return nil
}

// MayCreateFolder says whether the access list that holds for where name lies lets one make a folder
// there, or bring one there by another name.
func (w *Writer) MayCreateFolder(name string) bool {
	rights := w.rights
	if above := w.above(name); above != nil {
		rights = above.Rights(w.who)
	}
	return w.who.System || rights&note.Create != 0
}

// CreateFolder makes a folder. name is the full path in its final form; specialUse the attribute
// without backslash, or "". Below a folder that has an access list of its own that list decides, and
// holds for the new one too.
func (w *Writer) CreateFolder(name, specialUse string) (note.ID, error) {
	above := w.above(name)
	if !w.MayCreateFolder(name) {
		return 0, ErrDenied
	}
	if w.named(name) != nil {
		return 0, fmt.Errorf("%w: folder %s", ErrExists, name)
	}
	items := note.MakeItems(note.Item{Name: itemName, Value: note.Text(name)}, note.Item{Name: itemSpecialUse, Value: note.Text(specialUse)})
	if above != nil {
		items = items.With(itemACL, note.Binary(note.AppendACL(nil, above)))
	}
	had := w.rights
	w.rights |= note.Create // what was asked above is not asked again of the database
	id, err := w.Create(New{Class: note.Folder, Content: note.Content{Items: items}})
	w.rights = had
	if err != nil {
		return 0, err
	}
	validity, err := w.validity(name, 0)
	if err != nil {
		return 0, err
	}
	f := &layout.Folder{Note: id, UNID: w.dirty[id].row.UNID, Name: name, SpecialUse: specialUse, UIDValidity: validity, UIDNext: 1}
	if above != nil {
		f.HasACL, f.ACL = true, *above
	}
	st := w.mutable()
	if w.heads == nil {
		w.heads = make(map[note.ID]bool)
	}
	st.folders = append(slices.Clone(st.folders), f) // ids ascend
	w.heads[id] = true
	return id, nil
}

func (w *Writer) named(name string) *layout.Folder {
	for _, f := range w.st.folders {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// validity gives the UIDVALIDITY for a folder that takes a name: the second, above the highest that
// was ever shown under that name; have is kept if it is high enough.
func (w *Writer) validity(name string, have uint32) (uint32, error) {
	high, ok := w.names[name]
	if !ok {
		v, err := getValue(w.eng, append(layout.Prefix(w.db.num, layout.KindName), name...))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, err
		}
		if len(v) == 4 {
			high = layout.Tail32(v)
		}
	}
	out := have
	if out <= high {
		out = max(high+1, uint32(w.s.env.Clock.Now().Unix()))
	}
	if w.names == nil {
		w.names = make(map[string]uint32)
	}
	w.names[name] = out
	return out, nil
}

// RenameFolder gives a folder another name, and its UIDVALIDITY if the name has shown a higher one.
// Folders below it are the caller's to rename in the same update.
func (w *Writer) RenameFolder(id note.ID, name string) error {
	f, err := w.head(id)
	if err != nil {
		return err
	}
	if !w.who.System && w.FolderRights(f)&note.Remove == 0 {
		return ErrDenied
	}
	if w.named(name) != nil {
		return fmt.Errorf("%w: folder %s", ErrExists, name)
	}
	if err := w.reviseFolder(id, itemName, note.Text(name)); err != nil {
		return err
	}
	if f.UIDValidity, err = w.validity(name, f.UIDValidity); err != nil {
		return err
	}
	f.Name = name
	return nil
}

// SetFolderACL gives a folder an access list of its own, or none with nil.
func (w *Writer) SetFolderACL(id note.ID, acl *note.ACL) error {
	f, err := w.head(id)
	if err != nil {
		return err
	}
	if !w.who.System && w.FolderRights(f)&note.Administer == 0 {
		return ErrDenied
	}
	var v note.Value
	f.HasACL = acl != nil
	if acl != nil {
		v, f.ACL = note.Binary(note.AppendACL(nil, acl)), *acl
	}
	return w.reviseFolder(id, itemACL, v)
}

// FolderItems are the items of a folder's note. They must not be changed.
func (r *Reader) FolderItems(id note.ID) (note.Items, error) {
	if _, err := r.Folder(id); err != nil {
		return nil, err
	}
	c, err := r.content(id)
	if err != nil {
		return nil, err
	}
	return c.Content.Items, nil
}

// SetFolderItem sets an item of a folder's note that the store does not know, or removes it with nil.
// right is what the caller asks for it; the folder must grant that.
func (w *Writer) SetFolderItem(id note.ID, item string, v note.Value, right note.Rights) error {
	f, err := w.head(id)
	if err != nil {
		return err
	}
	if !w.who.System && w.FolderRights(f)&right != right {
		return ErrDenied
	}
	return w.reviseFolder(id, item, v)
}

func (w *Writer) reviseFolder(id note.ID, item string, v note.Value) error {
	t, err := w.change(id)
	if err != nil {
		return err
	}
	cur, err := w.load(id, t)
	if err != nil {
		return err
	}
	winner, _ := cur.Tree.Winner()
	c := cur.Content
	c.Items = c.Items.With(item, v)
	node := note.Node{Rev: note.NextRevision(winner.Rev, note.Folder, false, &c), Parent: winner.Rev, Changed: []string{item}}
	w.graft(t, cur, []grown{{node: node, content: &c}})
	return nil
}

// DeleteFolder deletes an empty folder.
func (w *Writer) DeleteFolder(id note.ID) error {
	f, err := w.head(id)
	if err != nil {
		return err
	}
	if !w.who.System && w.FolderRights(f)&note.Remove == 0 {
		return ErrDenied
	}
	if left := w.left(f); left != 0 {
		return fmt.Errorf("%w: folder %s holds %d notes", ErrExists, f.Name, left)
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	w.st.folders = slices.DeleteFunc(w.st.folders, func(x *layout.Folder) bool { return x.Note == id })
	delete(w.heads, id)
	w.dropped = append(w.dropped, id)
	return w.bury(id, t)
}

// left is how many members a folder has after what the update did so far.
func (w *Writer) left(f *layout.Folder) int {
	n := int(f.Total)
	for _, t := range w.dirty {
		if t.orig != nil {
			if _, ok := t.orig.Member(f.Note); ok {
				n--
			}
		}
		if t.row != nil {
			if _, ok := t.row.Member(f.Note); ok {
				n++
			}
		}
	}
	return n
}

// UID returns the UID that a note which this update made or changed has in a folder; 0 where it has none.
func (w *Writer) UID(id, folder note.ID) uint32 {
	if t := w.dirty[id]; t != nil && t.row != nil {
		m, _ := t.row.Member(folder)
		return m.UID
	}
	return 0
}

// AddTo puts a note into a folder and returns the UID that it gets there. A note that is in the
// folder already is ErrExists.
func (w *Writer) AddTo(id, folder note.ID) (uint32, error) {
	f := w.st.folder(folder)
	if f == nil {
		return 0, fmt.Errorf("%w: folder %d", ErrNotFound, folder)
	}
	if !w.who.System && w.FolderRights(f)&(note.Insert|note.Post) == 0 {
		return 0, ErrDenied
	}
	t, err := w.need(id, note.Read, 0)
	if err != nil {
		return 0, err
	}
	_, at := t.row.State.Get(note.Member, string(f.UNID[:]))
	return w.join(t, folder, false, w.stamp(at))
}

// join makes a membership: its state and its number in the ledger.
func (w *Writer) join(t *txNote, folder note.ID, deleted bool, at note.Stamp) (uint32, error) {
	if _, ok := t.row.Member(folder); ok {
		return 0, ErrExists
	}
	f := w.st.folder(folder)
	if f == nil {
		return 0, fmt.Errorf("%w: folder %d", ErrNotFound, folder)
	}
	uid, err := w.uid()
	if err != nil {
		return 0, err
	}
	value := note.On
	if deleted {
		value = note.Deleted
	}
	t.row.Foldered = true
	t.row.State = t.row.State.Set(note.Member, string(f.UNID[:]), value, at)
	t.row.Members = append(t.row.Members, layout.Membership{
		Folder: folder, UID: uid, Saved: w.s.env.Clock.Now().Unix(), Deleted: deleted,
	})
	return uid, nil
}

func (w *Writer) uid() (uint32, error) {
	uid, err := w.mutable().counters.Ledger.NextUID()
	if !errors.Is(err, note.ErrExhausted) {
		return uid, err
	}
	if err := w.renumber(); err != nil {
		return 0, err
	}
	return w.mutable().counters.Ledger.NextUID()
}

// renumber starts the numbering of the whole database again: every folder gets a new UIDVALIDITY,
// every membership a new UID. It happens once in four billion UIDs.
func (w *Writer) renumber() error {
	w.mutable().counters.Ledger.UID = 0
	for _, f := range slices.Clone(w.st.folders) {
		h, err := w.head(f.Note)
		if err != nil {
			return err
		}
		if h.UIDValidity, err = w.validity(h.Name, 0); err != nil {
			return err
		}
		h.UIDNext = 1
		members, err := w.membersNow(f.Note)
		if err != nil {
			return err
		}
		for _, id := range members {
			if err := w.renumberMember(id, f.Note); err != nil {
				return err
			}
		}
	}
	return nil
}

// membersNow lists a folder's members as the update has left them, in order of UID.
func (w *Writer) membersNow(folder note.ID) ([]note.ID, error) {
	type place struct {
		uid uint32
		id  note.ID
	}
	var list []place
	err := w.Members(folder, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
		if w.dirty[id] == nil {
			list = append(list, place{uid, id})
		}
		return true
	})
	for id, t := range w.dirty {
		if t.row != nil {
			if m, ok := t.row.Member(folder); ok {
				list = append(list, place{m.UID, id})
			}
		}
	}
	slices.SortFunc(list, func(a, b place) int { return cmp.Compare(a.uid, b.uid) })
	ids := make([]note.ID, len(list))
	for i, p := range list {
		ids[i] = p.id
	}
	return ids, err
}

func (w *Writer) renumberMember(id, folder note.ID) error {
	t, err := w.change(id)
	if err != nil {
		return err
	}
	uid, err := w.mutable().counters.Ledger.NextUID()
	if err != nil {
		return err
	}
	for i := range t.row.Members {
		if t.row.Members[i].Folder == folder {
			t.row.Members[i].UID = uid
		}
	}
	return nil
}

// RemoveFrom takes a note out of a folder. A note that is in no folder any more is deleted.
func (w *Writer) RemoveFrom(id, folder note.ID) error {
	f := w.st.folder(folder)
	if f == nil {
		return fmt.Errorf("%w: folder %d", ErrNotFound, folder)
	}
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if _, ok := n.Member(folder); !ok {
		return ErrNotFound
	}
	g := w.FolderRights(f)
	if !w.who.System && g&note.Expunge == 0 && !(g&note.ExpungeOwn != 0 && w.own(n)) {
		return ErrDenied
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	w.leave(t, folder)
	if len(t.row.Members) == 0 {
		return w.bury(id, t)
	}
	return nil
}

func (w *Writer) leave(t *txNote, folder note.ID) {
	f := w.st.folder(folder)
	if f != nil {
		w.setState(t, note.Member, string(f.UNID[:]), note.Off)
	}
	t.row.Members = slices.DeleteFunc(t.row.Members, func(m layout.Membership) bool { return m.Folder == folder })
}

// MarkDeleted sets or clears \Deleted on a note's membership of a folder.
func (w *Writer) MarkDeleted(id, folder note.ID, on bool) error {
	f := w.st.folder(folder)
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if _, ok := n.Member(folder); !ok || f == nil {
		return ErrNotFound
	}
	g := w.FolderRights(f)
	if !w.who.System && g&note.DeleteMark == 0 && !(g&note.ExpungeOwn != 0 && w.own(n)) {
		return ErrDenied
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	value := note.On
	if on {
		value = note.Deleted
	}
	w.setState(t, note.Member, string(f.UNID[:]), value)
	for i := range t.row.Members {
		if t.row.Members[i].Folder == folder {
			t.row.Members[i].Deleted = on
		}
	}
	return nil
}

// CopyNote copies a mail note of from, a database that the update named too, into folder: a new
// note of the same message, with its own UNID. unid may be zero. Flags that may not be set there are
// left out.
func (w *Writer) CopyNote(from *Writer, id, folder note.ID, unid note.UNID) (note.ID, error) {
	n, err := from.Note(id)
	if err != nil {
		return 0, err
	}
	c, err := from.content(id)
	if err != nil {
		return 0, err
	}
	g := note.Rights(note.All)
	if f := w.st.folder(folder); f != nil && !w.who.System {
		g = w.FolderRights(f)
	}
	var seen []note.UNID
	if n.SeenBy(w.who.Person) && g&note.KeepSeen != 0 {
		seen = append(seen, w.who.Person)
	}
	var keywords []string
	if g&(note.Write|note.WriteOwn) != 0 {
		keywords = slices.Collect(n.Keywords)
	}
	copied, err := w.Create(New{
		UNID: unid, Class: n.Class, Content: c.Content, Summary: c.Summary, Date: n.Date, Thread: n.Thread,
		Folders: []note.ID{folder}, Keywords: keywords, SeenBy: seen,
	})
	if err != nil {
		return 0, err
	}
	t := w.dirty[copied]
	t.row.Recipe, t.row.Size = n.Recipe, n.Size
	if src := from.dirty[id]; src != nil {
		t.message = src.message
	}
	return copied, nil
}
