package check

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// The items of a folder's note, as the store writes them.
const (
	itemName       = "Name"
	itemSpecialUse = "SpecialUse"
	itemACL        = "$ACL"
)

func folderItems(f *layout.Folder) note.Items {
	items := note.MakeItems(note.Item{Name: itemName, Value: note.Text(f.Name)},
		note.Item{Name: itemSpecialUse, Value: note.Text(f.SpecialUse)})
	if f.HasACL {
		items = items.With(itemACL, note.Binary(note.AppendACL(nil, &f.ACL)))
	}
	return items
}

// folderNote records the expected contents of a folder's head.
func (d *database) folderNote(id note.ID, n *layout.Note, row *layout.Content) error {
	s := d.sums(id)
	s.note, s.ahead, s.unid = true, n.Unnumbered, n.UNID
	s.name, s.use = row.Content.Items.Get(itemName).AsText(), row.Content.Items.Get(itemSpecialUse).AsText()
	if v := row.Content.Items.Get(itemACL).AsBinary(); v != nil {
		acl, rest, err := note.ReadACL(append([]byte(nil), v...))
		if err != nil || len(rest) != 0 {
			d.report(FolderRow, layout.NoteKey(d.num, layout.KindFolder, id), nil,
				"the access list of folder %d cannot be read", id)
		} else {
			s.acl = &acl
		}
	}
	for _, it := range n.State {
		if it.Kind == note.Subscribed && it.Value == note.On && len(it.Key) == len(note.UNID{}) {
			s.subscribed = append(s.subscribed, note.UNID([]byte(it.Key)))
		}
	}
	return nil
}

// members compares the folder index with the notes. The \Deleted rows have the same keys after their prefix, so they
// are walked side by side.
func (d *database) members() error {
	marks, err := d.walk(d.prefix(layout.KindDeleted))
	if err != nil {
		return err
	}
	defer marks.close()
	err = d.scan(d.prefix(layout.KindMember), func(k, v []byte) error {
		d.rep.Members++
		if err := d.strayMarks(marks, string(k[6:])); err != nil {
			return err
		}
		marked := marks.ok && string(marks.key[6:]) == string(k[6:])
		deleted, ok := d.member(k, v)
		switch {
		case ok && deleted && !marked:
			key := append(d.prefix(layout.KindDeleted), k[6:]...)
			d.report(DeletedRow, key, []change{put(key, nil)}, "missing")
		case marked && !deleted:
			d.report(DeletedRow, marks.key, []change{drop(marks.key)}, "the membership is not marked")
		}
		if marked {
			return marks.next()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.strayMarks(marks, "")
}

// strayMarks reports \Deleted rows below a key that belong to no member; with "" it reports all that are left.
func (d *database) strayMarks(marks *walker, below string) error {
	for marks.ok && (below == "" || string(marks.key[6:]) < below) {
		// The member row may be what is missing. Then the note's own row shows whether the member is marked.
		if !d.claimed(string(marks.key[6:])) {
			d.report(DeletedRow, marks.key, []change{drop(marks.key)}, "no such member")
		}
		if err := marks.next(); err != nil {
			return err
		}
	}
	return nil
}

// claimed reports whether a note has a membership with this key suffix that is marked \Deleted.
func (d *database) claimed(suffix string) bool {
	if d.marked == nil {
		d.marked = map[string]bool{}
		for i := range d.notes {
			for _, m := range d.notes[i].members {
				if m.Deleted {
					d.marked[string(layout.FolderUIDKey(0, 0, m.Folder, m.UID)[6:])] = true
				}
			}
		}
	}
	return d.marked[suffix]
}

// member checks one row of the folder index. ok means that a note claims it.
func (d *database) member(k, v []byte) (deleted, ok bool) {
	if len(k) != 18 {
		d.report(MemberRow, k, []change{drop(k)}, "a key of %d bytes", len(k))
		return false, false
	}
	folder, uid := note.ID(layout.Tail64(k[6:14])), layout.Tail32(k)
	id, err := layout.ReadUNIDRow(v)
	if err != nil {
		d.report(MemberRow, k, []change{drop(k)}, "cannot be read")
		return false, false
	}
	if r := d.find(id); r != nil {
		for _, m := range r.members {
			if m.Folder == folder && m.UID == uid {
				r.found++
				return m.Deleted, true
			}
		}
	}
	changes := []change{drop(k)}
	if s := d.folders[folder]; s != nil && s.note && uid > 0 {
		changes = append(changes, d.expunge(layout.Change{Note: id, Folder: folder, UID: uid}))
	}
	d.report(MemberRow, k, changes, "note %d is not in folder %d under UID %d", id, folder, uid)
	return false, false
}

// missingMembers reports memberships without a row.
func (d *database) missingMembers(r *rec) error {
	for _, m := range r.members {
		key := layout.FolderUIDKey(d.num, layout.KindMember, m.Folder, m.UID)
		v, ok, err := d.get(key)
		if err != nil {
			return err
		}
		if !ok {
			changes := []change{put(key, layout.UNIDRow(r.id))}
			if m.Deleted {
				changes = append(changes, put(layout.FolderUIDKey(d.num, layout.KindDeleted, m.Folder, m.UID), nil))
			}
			d.report(MemberRow, key, changes, "missing: note %d", r.id)
			continue
		}
		if id, err := layout.ReadUNIDRow(v); err == nil && id != r.id && d.find(id) != nil {
			d.report(MemberRow, key, []change{put(key, layout.UNIDRow(r.id))},
				"leads to note %d, note %d claims it", id, r.id)
		}
	}
	return nil
}

// chunks checks the counters of each 1,024 UIDs.
func (d *database) chunks() error {
	seen := map[note.ID]map[uint32]bool{}
	err := d.scan(d.prefix(layout.KindChunk), func(k, v []byte) error {
		if len(k) != 18 {
			d.report(ChunkRow, k, []change{drop(k)}, "a key of %d bytes", len(k))
			return nil
		}
		folder, number := note.ID(layout.Tail64(k[6:14])), layout.Tail32(k)
		var want *chunkSums
		if s := d.folders[folder]; s != nil {
			want = s.chunks[number]
		}
		if want == nil {
			d.report(ChunkRow, k, []change{drop(k)}, "counts a part of folder %d that holds nothing", folder)
			return nil
		}
		if seen[folder] == nil {
			seen[folder] = map[uint32]bool{}
		}
		seen[folder][number] = true
		if c, err := layout.ReadChunk(v); err != nil || c.Total != want.total || !sameSeen(c.Seen, want.seen) {
			d.report(ChunkRow, k, []change{put(append([]byte(nil), k...), want.row())},
				"counts %+v, should be %d and %v", c, want.total, want.seen)
		}
		return nil
	})
	for folder, s := range d.folders {
		for number, want := range s.chunks {
			if err == nil && !seen[folder][number] {
				key := layout.FolderUIDKey(d.num, layout.KindChunk, folder, number)
				d.report(ChunkRow, key, []change{put(key, want.row())}, "missing: counts %d", want.total)
			}
		}
	}
	return err
}

func (c *chunkSums) row() []byte {
	return layout.AppendChunk(nil, &layout.Chunk{Total: c.total, Seen: seenList(c.seen)})
}

// checkHeads compares the heads of folders with their notes and members, and with the register of names.
func (d *database) checkHeads() error {
	names := map[string]note.ID{}
	for _, id := range slices.Sorted(maps.Keys(d.heads)) {
		f := d.heads[id]
		key := layout.NoteKey(d.num, layout.KindFolder, id)
		s := d.folders[id]
		if s == nil || !s.note {
			d.orphanHead(key, f, s)
			continue
		}
		if other, ok := names[f.Name]; ok && !d.counters.Ledger.Partial {
			d.report(FolderRow, key, nil, "folders %d and %d are both named %q", other, id, f.Name)
		}
		names[f.Name] = id
		fixed, wrong := d.compareHead(f, s)
		if wrong != nil {
			d.report(FolderRow, key, []change{put(key, layout.AppendFolder(nil, &fixed))}, "folder %d %q: wrong: %q",
				id, f.Name, wrong)
		}
		if err := d.name(f); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.folders)) {
		if s := d.folders[id]; d.heads[id] == nil {
			if err := d.headless(id, s); err != nil {
				return err
			}
		}
	}
	return d.nameRows()
}

func (d *database) orphanHead(key []byte, f *layout.Folder, s *sums) {
	if s == nil || s.total == 0 {
		d.report(FolderRow, key, []change{drop(key)}, "head of %q without a folder note", f.Name)
		return
	}
	// Notes are in the folder. The folder's note is created again from its head, with the UNID that the notes' state
	// names.
	c := note.Content{Items: folderItems(f)}
	tree := note.Tree{{Rev: note.NextRevision(note.Revision{}, note.Folder, false, &c)}}
	row, ok := d.spare(f)
	if !ok {
		d.report(FolderRow, key, nil, "head of %q without a folder note, with %d notes in it", f.Name, s.total)
		return
	}
	d.report(FolderRow, key, []change{
		put(layout.NoteKey(d.num, layout.KindNote, f.Note), layout.AppendNote(nil, row)),
		put(layout.NoteKey(d.num, layout.KindContent, f.Note),
			layout.AppendContentRow(nil, &layout.Content{Tree: tree, Content: c})),
	}, "head of %q without a folder note, with %d notes in it", f.Name, s.total)
}

// spare returns a new row for a lost folder note.
func (d *database) spare(f *layout.Folder) (*layout.Note, bool) {
	seq, ok := d.freeSequence()
	if !ok {
		return nil, false
	}
	mod := d.freeMod()
	n := &layout.Note{UNID: f.UNID, Class: note.Folder, Seq: seq, Mod: mod, Created: mod}
	for _, p := range f.Subscribed {
		n.State = n.State.Set(note.Subscribed, string(p[:]), note.On, note.Stamp{})
	}
	return n, true
}

func (d *database) compareHead(f *layout.Folder, s *sums) (fixed layout.Folder, wrong []string) {
	fixed = *f
	bad := func(is bool, what string) bool {
		if is {
			wrong = append(wrong, what)
		}
		return is
	}
	if bad(f.UNID != s.unid, "UNID") {
		fixed.UNID = s.unid
	}
	if bad(!s.ahead && (f.Name != s.name || f.SpecialUse != s.use), "name") {
		fixed.Name, fixed.SpecialUse = s.name, s.use
	}
	if bad(!s.ahead && (f.HasACL != (s.acl != nil) || s.acl != nil &&
		string(note.AppendACL(nil, &f.ACL)) != string(note.AppendACL(nil, s.acl))), "access list") {
		if fixed.HasACL = s.acl != nil; s.acl != nil {
			fixed.ACL = *s.acl
		}
	}
	if bad(f.Total != s.total, fmt.Sprintf("total %d, should be %d", f.Total, s.total)) {
		fixed.Total = s.total
	}
	if bad(f.Deleted != s.deleted, fmt.Sprintf("deleted %d, should be %d", f.Deleted, s.deleted)) {
		fixed.Deleted = s.deleted
	}
	if bad(f.Size != s.size, fmt.Sprintf("size %d, should be %d", f.Size, s.size)) {
		fixed.Size = s.size
	}
	if bad(!sameSeen(f.Seen, s.seen), "seen") {
		fixed.Seen = seenList(s.seen)
	}
	if bad(f.UIDNext <= s.highUID || f.UIDNext == 0, "UIDNEXT") {
		fixed.UIDNext = s.highUID + 1
	}
	if bad(f.Mod < s.highMod, "latest MODSEQ") {
		fixed.Mod = s.highMod
	}
	if bad(!d.noCount && f.Mod > d.top() && d.newMod < f.Mod, "latest MODSEQ above the ledger's") {
		fixed.Mod = s.highMod
	}
	if bad(f.UIDValidity == 0, "UIDVALIDITY") {
		fixed.UIDValidity = uint32(d.lastTime) + 1
	}
	have := slices.SortedFunc(slices.Values(f.Subscribed), note.UNID.Compare)
	want := slices.SortedFunc(slices.Values(s.subscribed), note.UNID.Compare)
	if bad(!s.ahead && !slices.Equal(have, want), "subscriptions") {
		fixed.Subscribed = want
	}
	return fixed, wrong
}

// headless handles folders without a head. If the folder's note lives, the folder gets a new head with a new
// UIDVALIDITY, because it is not known how far its UIDs went.
func (d *database) headless(id note.ID, s *sums) error {
	key := layout.NoteKey(d.num, layout.KindFolder, id)
	if s.ahead && s.total == 0 {
		return nil // the folder will get its head from its home
	}
	if !s.note {
		// The folder's name and identity are lost, but not its notes. The next pass creates the folder note from the
		// head.
		f := &layout.Folder{
			Note: id, UNID: note.DeriveUNID(key), Name: fmt.Sprint("Recovered ", id),
			UIDValidity: uint32(d.lastTime) + 1,
			UIDNext:     s.highUID + 1, Mod: s.highMod,
		}
		nameKey := append(d.prefix(layout.KindName), f.Name...)
		d.report(FolderRow, key, []change{
			put(key, layout.AppendFolder(nil, f)), put(nameKey, binary.BigEndian.AppendUint32(nil, f.UIDValidity)),
		}, "%d notes are in folder %d, which does not exist", s.total, id)
		return nil
	}
	nameKey := append(d.prefix(layout.KindName), s.name...)
	v, _, err := d.get(nameKey)
	if err != nil {
		return err
	}
	f := &layout.Folder{Note: id, UNID: s.unid, Name: s.name, SpecialUse: s.use, UIDNext: s.highUID + 1, Mod: s.highMod}
	f.UIDValidity = max(uint32(d.lastTime), layout.Tail32(v)) + 1
	fixed, _ := d.compareHead(f, s)
	d.report(FolderRow, key, []change{
		put(key, layout.AppendFolder(nil, &fixed)), put(nameKey, binary.BigEndian.AppendUint32(nil, f.UIDValidity)),
	}, "head of folder %d %q is missing", id, s.name)
	return nil
}

// name checks that the register of names has the UIDVALIDITY shown under a folder's name.
func (d *database) name(f *layout.Folder) error {
	key := append(d.prefix(layout.KindName), f.Name...)
	v, ok, err := d.get(key)
	if err == nil && (!ok || len(v) != 4 || layout.Tail32(v) < f.UIDValidity) {
		d.report(NameRow, key, []change{put(key, binary.BigEndian.AppendUint32(nil, f.UIDValidity))},
			"%q has shown UIDVALIDITY %d, which the register of names does not know", f.Name, f.UIDValidity)
	}
	return err
}

func (d *database) nameRows() error {
	return d.scan(d.prefix(layout.KindName), func(k, v []byte) error {
		if len(v) != 4 {
			d.report(NameRow, k, []change{drop(k)}, "cannot be read")
		}
		return nil
	})
}
