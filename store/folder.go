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

// above returns the access list of the parent folder of name, or nil if the parent does not have one of its own.
func (w *Writer) above(name string) *note.ACL {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if f := w.named(name[:i]); f != nil && f.HasACL {
			return &f.ACL
		}
	}
	return nil
}

// MayCreateFolder reports whether the access list that applies at name permits creating a folder there, or renaming one
// to that name.
func (w *Writer) MayCreateFolder(name string) bool {
	rights := w.rights
	if above := w.above(name); above != nil {
		rights = above.Rights(w.who)
	}
	return w.who.System || rights&note.Create != 0
}

// CreateFolder creates a folder. name is the full path in its final form; specialUse is the attribute without the
// backslash, or "". If the parent has its own access list, that list decides, and the new folder inherits it.
func (w *Writer) CreateFolder(name, specialUse string) (note.ID, error) {
	above := w.above(name)
	if !w.MayCreateFolder(name) {
		return 0, ErrDenied
	}
	if w.named(name) != nil {
		return 0, fmt.Errorf("%w: folder %s", ErrExists, name)
	}
	made := New{Class: note.Folder}
	if !w.numbers {
		if id, err := w.unnumberedFolder(&made, name); err != nil || id != 0 {
			return id, err
		}
	}
	items := note.MakeItems(note.Item{Name: itemName, Value: note.Text(name)},
		note.Item{Name: itemSpecialUse, Value: note.Text(specialUse)})
	if above != nil {
		items = items.With(itemACL, note.Binary(note.AppendACL(nil, above)))
	}
	had := w.rights
	w.rights |= note.Create // the right was checked above, so Create must not check that of the database
	made.Content.Items = items
	id, err := w.Create(made)
	w.rights = had
	if err != nil || !w.numbers {
		return id, err
	}
	validity, err := w.validity(name, 0)
	if err != nil {
		return 0, err
	}
	f := &layout.Folder{Note: id, UNID: w.dirty[id].row.UNID, Name: name, SpecialUse: specialUse, UIDValidity: validity,
		UIDNext: 1, Told: 1}
	if above != nil {
		f.HasACL, f.ACL = true, *above
	}
	w.addHead(f)
	return id, nil
}

// addHead adds the head of a folder.
func (fh *folderHeads) addHead(f *layout.Folder) {
	st := fh.mutable()
	if fh.cloned == nil {
		fh.cloned = make(map[note.ID]bool)
	}
	i, _ := slices.BinarySearchFunc(st.folders, f.Note, func(x *layout.Folder,
		id note.ID) int {
		return cmp.Compare(x.Note, id)
	})
	st.folders = slices.Insert(slices.Clone(st.folders), i, f)
	fh.cloned[f.Note], fh.madeHead = true, true
}

// dropHead removes the head of a folder and the rows of its index.
func (fh *folderHeads) dropHead(id note.ID) {
	st := fh.mutable()
	st.folders = slices.DeleteFunc(slices.Clone(st.folders), func(x *layout.Folder) bool { return x.Note == id })
	delete(fh.cloned, id)
	fh.dropped = append(fh.dropped, id)
}

// unnumberedFolder finds a folder with a name that was created here before and that the home has not numbered. It
// returns id 0 if there is none. Two replicas that create the same folder create the same note: its UNID is derived
// from the name, and from how many folders of that name came before.
func (w *Writer) unnumberedFolder(n *New, name string) (id note.ID, err error) {
	for i := uint64(0); ; i++ {
		n.UNID = note.DeriveUNID([]byte("folder"), uint64Bytes(uint64(w.db.id)), []byte(name), uint64Bytes(i))
		id, err := w.findOwn(n.UNID)
		switch {
		case errors.Is(err, ErrNotFound):
			return 0, nil
		case errors.Is(err, ErrGrave):
			continue
		case err != nil:
			return 0, err
		}
		row, err := w.note(id)
		if err != nil {
			return 0, err
		}
		if row.Stub || w.st.folder(id) != nil {
			continue // deleted, or renamed since
		}
		c, err := w.content(id)
		if err == nil && c.Content.Items.Get(itemName).AsText() == name {
			return id, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// folderUNID returns the UNID of a folder that can hold notes: one with a head, or, on a replica that is not the home,
// one that has no head yet.
func (num *numbering) folderUNID(id note.ID) (note.UNID, error) {
	if f := num.st.folder(id); f != nil {
		return f.UNID, nil
	}
	if !num.numbers {
		if n, err := num.note(id); err == nil && n.Class == note.Folder && !n.Stub {
			return n.UNID, nil
		}
	}
	return note.UNID{}, fmt.Errorf("%w: folder %d", ErrNotFound, id)
}

// holds reports whether a note is in a folder: by its membership if this replica assigns numbers, else by its state.
func (num *numbering) holds(n *layout.Note, f *layout.Folder) bool {
	if num.numbers {
		_, ok := n.Member(f.Note)
		return ok
	}
	v, _ := n.State.Get(note.Member, string(f.UNID[:]))
	return v != note.Off
}

func (fh *folderHeads) named(name string) *layout.Folder {
	for _, f := range fh.st.folders {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// validity returns the UIDVALIDITY for a folder that gets a name: the time in Unix seconds, or more if needed to be
// above the highest that was ever shown under that name. have is kept if it is high enough.
func (fh *folderHeads) validity(name string, have uint32) (uint32, error) {
	high, err := fh.shown(name)
	if err != nil {
		return 0, err
	}
	out := have
	if out <= high {
		out = max(high+1, uint32(fh.s.env.Clock.Now().Unix()))
		if c := &fh.mutable().counters; c.Ledger.Shared {
			// Other replicas may have shown a UIDVALIDITY under this name that is not known here yet.
			out = max(out, c.LastUIDValidity+1)
			c.LastUIDValidity = out
		}
	}
	fh.names[name] = out
	return out, nil
}

// shown returns the highest UIDVALIDITY that was ever shown under a name. It prepares names for the new one.
func (fh *folderHeads) shown(name string) (uint32, error) {
	if fh.names == nil {
		fh.names = make(map[string]uint32)
	}
	if high, ok := fh.names[name]; ok {
		return high, nil
	}
	v, err := getValue(fh.eng, append(layout.Prefix(fh.db.num, layout.KindName), name...))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil || len(v) != 4 {
		return 0, err
	}
	return layout.Tail32(v), nil
}

// RenameFolder renames a folder. The folder gets a new UIDVALIDITY if the name has shown a higher one. The caller must
// rename the folders below it in the same update.
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
	if err := w.reviseFolder(id, itemName, note.Text(name)); err != nil || !w.numbers {
		return err
	}
	if f.UIDValidity, err = w.validity(name, f.UIDValidity); err != nil {
		return err
	}
	f.Name = name
	return nil
}

// SetSpecialUse sets a folder's special use to an attribute without the backslash, or clears it with "".
func (w *Writer) SetSpecialUse(id note.ID, use string) error {
	f, err := w.head(id)
	if err != nil {
		return err
	}
	if !w.who.System && w.FolderRights(f)&note.Remove == 0 {
		return ErrDenied
	}
	if err := w.reviseFolder(id, itemSpecialUse, note.Text(use)); err != nil || !w.numbers {
		return err
	}
	f.SpecialUse = use
	return nil
}

// SetFolderACL sets a folder's own access list, or removes it with nil.
func (w *Writer) SetFolderACL(id note.ID, acl *note.ACL) error {
	f, err := w.head(id)
	if err != nil {
		return err
	}
	if !w.who.System && w.FolderRights(f)&note.Administer == 0 {
		return ErrDenied
	}
	var v note.Value
	if acl != nil {
		v = note.Binary(note.AppendACL(nil, acl))
	}
	if err := w.reviseFolder(id, itemACL, v); err != nil || !w.numbers {
		return err
	}
	if f.HasACL, f.ACL = acl != nil, (note.ACL{}); acl != nil {
		f.ACL = *acl
	}
	return nil
}

// FolderItems returns the items of a folder's note. The caller must not change them.
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

// SetFolderItem sets an item of a folder's note that the store does not interpret, or removes it with nil. The caller
// must have right on the folder.
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

func (fh *folderHeads) reviseFolder(id note.ID, item string, v note.Value) error {
	t, err := fh.change(id)
	if err != nil {
		return err
	}
	if t.row.Stub {
		return fmt.Errorf("%w: folder was deleted here, and its home does not know that yet", ErrNotFound)
	}
	cur, err := fh.load(id, t)
	if err != nil {
		return err
	}
	winner, _ := cur.Tree.Winner()
	c := cur.Content
	c.Items = c.Items.With(item, v)
	node := note.Node{Rev: note.NextRevision(winner.Rev, note.Folder, false, &c), Parent: winner.Rev,
		Changed: []string{item}}
	fh.graft(t, cur, []grown{{node: node, content: &c}})
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
	left, err := w.left(f)
	if err != nil {
		return err
	}
	if left != 0 {
		return fmt.Errorf("%w: folder %s holds %d notes", ErrExists, f.Name, left)
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	if w.numbers {
		w.dropHead(id)
	}
	return w.bury(id, t)
}

// left returns the number of members of a folder, with the changes of this update.
func (w *Writer) left(f *layout.Folder) (int, error) {
	if !w.numbers {
		return w.leftByState(f)
	}
	return w.leftByNumber(f), nil
}

func (fh *folderHeads) leftByNumber(f *layout.Folder) int {
	n := int(f.Total)
	for _, t := range fh.dirty {
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

// leftByState counts the notes in a folder on a replica that assigns no numbers: numbered memberships that have not
// ended, and notes that nobody has numbered there.
func (w *Writer) leftByState(f *layout.Folder) (n int, err error) {
	in := make(map[note.ID]bool)
	if err := w.Members(f.Note, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
		in[id] = true
		return true
	}); err != nil {
		return 0, err
	}
	err = scan(w.eng, layout.Prefix(w.db.num, layout.KindUnnumbered), func(_, v []byte) error {
		id, err := layout.ReadUNIDRow(v)
		in[id] = true
		return err
	})
	for id := range w.dirty {
		in[id] = true
	}
	for id := range in {
		row, rerr := w.note(id)
		if rerr == nil && w.holds(row, f) && !row.Stub {
			n++
		}
		if rerr != nil && !errors.Is(rerr, ErrNotFound) {
			return n, rerr
		}
	}
	return n, err
}

// UID returns the UID in a folder of a note that this update created or changed; 0 if it has none, or none yet.
func (w *Writer) UID(id, folder note.ID) uint32 {
	if t := w.dirty[id]; t != nil && t.row != nil {
		m, _ := t.row.Member(folder)
		return m.UID
	}
	return 0
}

// AddTo puts a note into a folder and returns its UID there, or 0 if the home will assign it. If the note is in the
// folder already, AddTo returns ErrExists.
func (w *Writer) AddTo(id, folder note.ID) (uint32, error) {
	unid, err := w.folderUNID(folder)
	if err != nil {
		return 0, err
	}
	if f := w.st.folder(folder); f != nil && !w.who.System && w.FolderRights(f)&(note.Insert|note.Post) == 0 {
		return 0, ErrDenied
	}
	t, err := w.need(id, note.Read, 0)
	if err != nil {
		return 0, err
	}
	_, at := t.row.State.Get(note.Member, string(unid[:]))
	return w.join(t, folder, false, w.stamp(at))
}

// join creates a membership: its state item and its number.
func (num *numbering) join(t *txNote, folder note.ID, deleted bool, at note.Stamp) (uint32, error) {
	unid, err := num.folderUNID(folder)
	if err != nil {
		return 0, err
	}
	value := note.On
	if deleted {
		value = note.Deleted
	}
	if !num.numbers {
		if v, _ := t.row.State.Get(note.Member, string(unid[:])); v != note.Off {
			return 0, ErrExists
		}
		t.row.Foldered = true
		t.row.State = t.row.State.Set(note.Member, string(unid[:]), value, at)
		return 0, nil
	}
	if _, ok := t.row.Member(folder); ok {
		return 0, ErrExists
	}
	uid, err := num.uid()
	if err != nil {
		return 0, err
	}
	t.row.Foldered = true
	t.row.State = t.row.State.Set(note.Member, string(unid[:]), value, at)
	t.row.Members = append(t.row.Members, layout.Membership{
		Folder: folder, UID: uid, Saved: num.s.env.Clock.Now().Unix(), Deleted: deleted,
	})
	return uid, nil
}

func (num *numbering) uid() (uint32, error) {
	uid, err := num.mutable().counters.Ledger.NextUID()
	if !errors.Is(err, note.ErrExhausted) {
		return uid, err
	}
	if err := num.renumber(); err != nil {
		return 0, err
	}
	return num.mutable().counters.Ledger.NextUID()
}

// renumber restarts the numbering of the whole database: every folder gets a new UIDVALIDITY, every membership a new
// UID. This happens once in four billion UIDs.
func (num *numbering) renumber() error {
	c := &num.mutable().counters
	if c.Ledger.Restart(); c.Ledger.Shared && !num.renewed {
		// The recorded expunges name UIDs of the old numbering, which no client asks for any more.
		if err := num.forgetExpunges(0, c.Ledger.Last); err != nil {
			return err
		}
		c.Floor = c.Ledger.Last
	}
	for _, f := range slices.Clone(num.st.folders) {
		h, err := num.head(f.Note)
		if err != nil {
			return err
		}
		if h.UIDValidity, err = num.validity(h.Name, 0); err != nil {
			return err
		}
		first, told := h.Told, uint32(1)
		h.UIDNext = 1
		if num.st.counters.Ledger.Shared {
			t, err := num.change(f.Note)
			if err != nil {
				return err
			}
			t.again = true // the other replicas learn of it with the folder
		}
		members, err := num.membersNow(f.Note)
		if err != nil {
			return err
		}
		for _, id := range members {
			was, uid, err := num.renumberMember(id, f.Note)
			if err != nil {
				return err
			}
			if was < first {
				told = uid + 1
			}
		}
		h.Told = told
	}
	return nil
}

// membersNow returns a folder's members with the changes of this update, in order of UID.
func (dr *draft) membersNow(folder note.ID) ([]note.ID, error) {
	type place struct {
		uid uint32
		id  note.ID
	}
	var list []place
	err := dr.Members(folder, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
		if dr.dirty[id] == nil {
			list = append(list, place{uid, id})
		}
		return true
	})
	for id, t := range dr.dirty {
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

// renumberMember assigns a new UID to a note in a folder, and returns the old UID and the new one.
func (num *numbering) renumberMember(id, folder note.ID) (was, uid uint32, err error) {
	t, err := num.change(id)
	if err != nil {
		return 0, 0, err
	}
	if uid, err = num.mutable().counters.Ledger.NextUID(); err != nil {
		return 0, 0, err
	}
	for i := range t.row.Members {
		if t.row.Members[i].Folder == folder {
			was, t.row.Members[i].UID = t.row.Members[i].UID, uid
		}
	}
	return was, uid, nil
}

// RemoveFrom removes a note from a folder. A note that is in no folder any more is deleted.
func (w *Writer) RemoveFrom(id, folder note.ID) error {
	f := w.st.folder(folder)
	if f == nil {
		return fmt.Errorf("%w: folder %d", ErrNotFound, folder)
	}
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if !w.holds(n, f) {
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
	if len(t.row.Members) == 0 && w.numbers && !t.row.Unnumbered {
		return w.bury(id, t)
	}
	return nil
}

func (num *numbering) leave(t *txNote, folder note.ID) {
	f := num.st.folder(folder)
	if f != nil {
		num.setState(t, note.Member, string(f.UNID[:]), note.Off)
	}
	if num.numbers {
		t.row.Members = slices.DeleteFunc(t.row.Members, func(m layout.Membership) bool { return m.Folder == folder })
	}
}

// MarkDeleted sets or clears \Deleted on a note's membership of a folder.
func (w *Writer) MarkDeleted(id, folder note.ID, on bool) error {
	f := w.st.folder(folder)
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if f == nil || !w.holds(n, f) {
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
	if !w.numbers {
		return nil
	}
	for i := range t.row.Members {
		if t.row.Members[i].Folder == folder {
			t.row.Members[i].Deleted = on
		}
	}
	return nil
}

// SetDate sets the INTERNALDATE of a note that this update created, in Unix seconds.
func (w *Writer) SetDate(id note.ID, date int64) error {
	t := w.dirty[id]
	if t == nil || t.row == nil || t.orig != nil {
		return ErrNotFound
	}
	t.row.Date = date
	return nil
}

// CopyNote copies a mail note of from, another database of this update or the same one, into folder. The copy is a new
// note of the same message, with its own UNID; unid may be zero. Flags that the writer may not set there are left out.
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
	return copied, w.settlement.adopt(t)
}
