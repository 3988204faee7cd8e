package store

import (
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// numberAll assigns numbers to the notes of the update that changed without getting any: on another replica, or here
// while another replica was home. Folders come first, so that notes find their folders. Folders that are deleted come
// last.
//
// A note stays unnumbered while a folder that it is in is not here yet.
func (num *numbering) numberAll() error {
	var folders, rest, gone []*txNote
	for _, id := range num.order {
		switch t := num.dirty[id]; {
		case t.row == nil || !t.row.Unnumbered:
		case t.row.Class != note.Folder:
			rest = append(rest, t)
		case t.row.Stub:
			gone = append(gone, t)
		default:
			folders = append(folders, t)
		}
	}
	for _, t := range folders {
		if err := num.numberFolder(t); err != nil {
			return err
		}
	}
	if num.madeHead {
		waiting, err := num.waiting()
		if err != nil {
			return err
		}
		rest = append(rest, waiting...)
	}
	for _, t := range rest {
		if err := num.numberNote(t); err != nil {
			return err
		}
	}
	for _, t := range gone {
		if err := num.numberGoneFolder(t); err != nil {
			return err
		}
	}
	return nil
}

// numberStep bounds the number of notes that one update numbers in addition to its own.
const numberStep = 1000

// waiting returns notes that may wait for a folder that the update created.
func (num *numbering) waiting() (list []*txNote, err error) {
	ids, _, err := num.unnumbered(0, numberStep)
	for _, id := range ids {
		if num.dirty[id] != nil {
			continue
		}
		t, err := num.change(id)
		if err != nil {
			return nil, err
		}
		if t.row.Class != note.Folder {
			list = append(list, t)
		}
	}
	return list, err
}

// unnumbered returns up to n unnumbered notes that changed after a sequence, and the sequence of the last one.
func (sn *snapshot) unnumbered(after uint64, n int) (ids []note.ID, last uint64, err error) {
	err = sn.scanUnnumbered(after, func(seq uint64, v []byte) error {
		id, err := layout.ReadUNIDRow(v)
		if err != nil {
			return fmt.Errorf("%w: unnumbered row in database %s", ErrDamaged, sn.db.id)
		}
		ids, last = append(ids, id), seq
		if len(ids) >= n {
			return errStop
		}
		return nil
	})
	return ids, last, err
}

// numberedTo bounds the notes that may wait to be numbered: none that changed up to seq waits. That holds for readers
// that see the database as of sequence at or later. If waits is not 0, a note waits as of sequence waits. A reader that
// scans the waiting rows sets a numberedTo, and each commit advances it.
type numberedTo struct{ seq, at, waits uint64 }

// advance extends numberedTo over a commit. The caller holds db.write and db.publish.
func (num *numbering) advance() {
	to, was, now := num.db.numbered.Load(), num.db.cur.Load().counters.Seq, num.st.counters.Seq
	if to == nil {
		to = &numberedTo{}
	}
	waits := slices.ContainsFunc(num.order, func(id note.ID) bool {
		t := num.dirty[id]
		return t.row != nil && t.row.Unnumbered
	})
	switch {
	case waits:
		num.db.numbered.Store(&numberedTo{to.seq, to.at, now})
	case to.seq >= was:
		num.db.numbered.Store(&numberedTo{seq: now, at: now})
	}
}

// pending reports whether a note waits to be numbered. known is false if only the rows tell.
func (sn *snapshot) pending() (yes, known bool) {
	to, now := sn.db.numbered.Load(), sn.st.counters.Seq
	if to == nil || now == 0 {
		return false, false
	}
	return to.waits == now, to.waits == now || to.at <= now && to.seq >= now
}

// scanUnnumbered calls fn for the rows of the notes that wait to be numbered and that changed after a sequence.
//
// A follower writes such a row with each delivery, and a page of the home removes it. Until the engine has dropped
// them, the removed rows lie in front of the waiting ones. numberedTo avoids stepping over them each time. Invariant: a
// new row has a higher sequence than all before it, so a range that was found empty stays empty.
func (sn *snapshot) scanUnnumbered(after uint64, fn func(seq uint64, v []byte) error) error {
	now := sn.st.counters.Seq
	from, to := uint64(0), sn.db.numbered.Load()
	if to != nil && to.at <= now {
		from = to.seq
	}
	if from >= now {
		return nil
	}
	first, seen := now+1, false
	lo := layout.IDKey(sn.db.num, layout.KindUnnumbered, max(from, after)+1)
	err := scanRange(sn.eng, lo, layout.After(layout.Prefix(sn.db.num, layout.KindUnnumbered)),
		func(k, v []byte) error {
			seq := layout.Tail64(k)
			if !seen {
				first, seen = seq, true
			}
			return fn(seq, v)
		})
	if after <= from && (err == nil || seen) {
		next := &numberedTo{seq: first - 1, at: now}
		if seen {
			next.waits = now
		}
		sn.db.numbered.CompareAndSwap(to, next)
	}
	return err
}

// numberNote assigns a note's memberships. Each membership in its state gets a UID, and memberships that ended are
// removed. A note that was in a folder and is in none any more is deleted.
func (num *numbering) numberNote(t *txNote) error {
	row := t.row
	row.Unnumbered = false
	if row.Stub {
		row.Members = nil
		t.dropMessage()
		return nil
	}
	if err := num.rescue(t); err != nil {
		return err
	}
	row.Members = num.lasting(row)
	for _, it := range row.State {
		if it.Kind != note.Member || it.Value == note.Off {
			continue
		}
		f := num.headOf(it.Key)
		if f == nil {
			row.Unnumbered = true // rescue has left only folders that may still come
			continue
		}
		if _, ok := row.Member(f.Note); ok {
			continue
		}
		uid, err := num.uid()
		if err != nil {
			return err
		}
		row.Members = append(row.Members, layout.Membership{
			Folder: f.Note, UID: uid, Saved: int64(it.Stamp.Time >> 16 / 1000), Deleted: it.Value == note.Deleted,
		})
	}
	if len(row.Members) == 0 && row.Foldered && !row.Unnumbered {
		return num.bury(t.id, t)
	}
	return nil
}

// lasting returns the memberships of a note that its state has not ended, with the state's deletion marks.
func (num *numbering) lasting(row *layout.Note) []layout.Membership {
	members := row.Members[:0:0]
	for _, m := range row.Members {
		f := num.st.folder(m.Folder)
		if f == nil {
			continue
		}
		if v, _ := row.State.Get(note.Member, string(f.UNID[:])); v != note.Off {
			m.Deleted = v == note.Deleted
			members = append(members, m)
		}
	}
	return members
}

// headOf returns the head of a folder by its UNID, given as the key of a state item.
func (fh *folderHeads) headOf(key string) *layout.Folder {
	for _, f := range fh.st.folders {
		if string(f.UNID[:]) == key {
			return f
		}
	}
	return nil
}

// rescue finds another folder for a note that is alive but in no folder, although nobody removed it: its folder was
// deleted while it was put there, or the note was edited while it was deleted. If a note has other memberships, rescue
// ends its membership of a deleted folder.
func (num *numbering) rescue(t *txNote) error {
	lives, lost, err := num.places(t.row.State)
	if err != nil {
		return err
	}
	if !lives && (len(lost) > 0 || t.saved && t.row.Foldered) {
		value, key := note.On, ""
		if len(lost) > 0 {
			value = lost[0].Value
		} else {
			key = num.lastPlace(t.row.State)
		}
		if key == "" && len(num.st.folders) > 0 {
			key = string(num.st.folders[0].UNID[:]) // the oldest: in a mail file, INBOX
		}
		if key == "" {
			return nil // the note waits for the first folder
		}
		num.setState(t, note.Member, key, value)
	}
	for _, it := range lost {
		num.setState(t, note.Member, it.Key, note.Off)
	}
	return nil
}

// places returns a note's memberships of deleted folders, and reports whether it has one of a folder that exists or
// may still come.
func (num *numbering) places(state note.State) (lives bool, lost []note.StateItem, err error) {
	for _, it := range state {
		if it.Kind != note.Member || it.Value == note.Off {
			continue
		}
		gone := false
		if num.headOf(it.Key) == nil {
			if gone, err = num.goneFolder(it.Key); err != nil {
				return false, nil, err
			}
		}
		if gone {
			lost = append(lost, it)
		} else {
			lives = true
		}
	}
	return lives, lost, nil
}

// lastPlace returns the key of the existing folder whose membership ended last, or "".
func (num *numbering) lastPlace(state note.State) string {
	var last note.StateItem
	for _, it := range state {
		if it.Kind == note.Member && it.Value == note.Off && num.headOf(it.Key) != nil &&
			(last.Key == "" || last.Stamp.Less(it.Stamp)) {
			last = it
		}
	}
	return last.Key
}

// goneFolder reports whether a folder without a head was deleted. Otherwise it is yet to come.
func (dr *draft) goneFolder(key string) (bool, error) {
	if len(key) != len(note.UNID{}) {
		return true, nil
	}
	id, err := dr.findOwn(note.UNID([]byte(key)))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if errors.Is(err, ErrGrave) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	n, err := dr.note(id)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return err == nil && (n.Stub || n.Class != note.Folder), err
}

// numberFolder creates a folder's head from its note, or updates the head.
func (num *numbering) numberFolder(t *txNote) error {
	t.row.Unnumbered = false
	c, err := num.load(t.id, t)
	if err != nil {
		return err
	}
	made := num.st.folder(t.id) == nil
	if made {
		num.addHead(&layout.Folder{Note: t.id, UNID: t.row.UNID, UIDNext: 1, Told: 1})
	}
	f, err := num.head(t.id)
	if err != nil {
		return err
	}
	fillHead(f, &c.Content.Items, t.row.State)
	if name := c.Content.Items.Get(itemName).AsText(); made || f.Name != name {
		return num.nameFolder(t.id, name)
	}
	return nil
}

// nameFolder names a folder. If the name is taken, it uses another one.
func (fh *folderHeads) nameFolder(id note.ID, name string) error {
	f, err := fh.head(id)
	if err != nil {
		return err
	}
	free, err := fh.freeName(f, name)
	if err != nil || free == f.Name {
		return err
	}
	if f.UIDValidity, err = fh.validity(free, f.UIDValidity); err != nil {
		return err
	}
	f.Name = free
	return nil
}

// fillHead copies what a folder's note defines into its head, except the name.
func fillHead(f *layout.Folder, items *note.Items, state note.State) {
	f.SpecialUse = items.Get(itemSpecialUse).AsText()
	f.HasACL, f.ACL = false, note.ACL{}
	if v := items.Get(itemACL).AsBinary(); v != nil {
		acl, rest, err := note.ReadACL(slices.Clone(v))
		if f.HasACL = true; err == nil && len(rest) == 0 {
			f.ACL = acl // an access list that cannot be read grants nothing
		}
	}
	f.Subscribed = nil
	for _, it := range state {
		if it.Kind == note.Subscribed && it.Value == note.On && len(it.Key) == len(note.UNID{}) {
			f.Subscribed = append(f.Subscribed, note.UNID([]byte(it.Key)))
		}
	}
}

// freeName resolves a conflict between two folders of the same name that were created or renamed on two replicas. The
// folder with the lower UNID keeps the name. The other gets a suffix, as a revision of its note.
func (fh *folderHeads) freeName(f *layout.Folder, name string) (string, error) {
	var other *layout.Folder
	taken := make(map[string]bool, len(fh.st.folders))
	for _, x := range fh.st.folders {
		if t := fh.dirty[x.Note]; x.Note == f.Note || t != nil && t.row != nil && t.row.Stub {
			continue // one that is being deleted, or that gets another name if it stays
		}
		if taken[x.Name] = true; x.Name == name {
			other = x
		}
	}
	if other == nil {
		return name, nil
	}
	free := ""
	for i := 2; free == "" || taken[free]; i++ {
		free = fmt.Sprintf("%s %d", name, i)
	}
	if other.UNID.Compare(f.UNID) < 0 {
		return free, fh.reviseFolder(f.Note, itemName, note.Text(free))
	}
	h, err := fh.head(other.Note)
	if err != nil {
		return "", err
	}
	if h.UIDValidity, err = fh.validity(free, h.UIDValidity); err != nil {
		return "", err
	}
	h.Name = free
	return name, fh.reviseFolder(other.Note, itemName, note.Text(free))
}

// numberGoneFolder removes the head of a folder that was deleted on another replica. A folder that still holds notes is
// kept, with a revision above its deletion stub.
func (num *numbering) numberGoneFolder(t *txNote) error {
	t.row.Unnumbered = false
	f := num.st.folder(t.id)
	if f == nil {
		return nil
	}
	if num.leftByNumber(f) == 0 {
		num.dropHead(t.id)
		return nil
	}
	cur, err := num.load(t.id, t)
	if err != nil {
		return err
	}
	kept := note.Content{Items: note.MakeItems(note.Item{Name: itemName, Value: note.Text(f.Name)},
		note.Item{Name: itemSpecialUse, Value: note.Text(f.SpecialUse)})}
	if f.HasACL {
		kept.Items = kept.Items.With(itemACL, note.Binary(note.AppendACL(nil, &f.ACL)))
	}
	if t.before != nil {
		if was, ok := t.before.Tree.Winner(); ok && !was.Deleted {
			kept = t.before.Content
		}
	}
	win, _ := cur.Tree.Winner()
	node := note.Node{Rev: note.NextRevision(win.Rev, note.Folder, false, &kept), Parent: win.Rev,
		Changed: note.Changes(&note.Content{}, &kept)}
	num.graft(t, cur, []grown{{node: node, content: &kept}})
	t.row.Stub = false
	return num.nameFolder(t.id, f.Name)
}
