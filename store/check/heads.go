package check

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// checkHeads compares the heads of folders with their notes and members, and with the register of names.
func (fs *folders) checkHeads() error {
	names := map[string]note.ID{}
	for _, id := range slices.Sorted(maps.Keys(fs.heads)) {
		f := fs.heads[id]
		key := layout.NoteKey(fs.num, layout.KindFolder, id)
		s := fs.sums[id]
		if s == nil || !s.note {
			fs.orphanHead(key, f, s)
			continue
		}
		if other, ok := names[f.Name]; ok && !fs.counters.Ledger.Partial {
			fs.report(FolderRow, key, nil, "folders %d and %d are both named %q", other, id, f.Name)
		}
		names[f.Name] = id
		fixed, wrong := fs.compareHead(f, s)
		if wrong != nil {
			fs.report(FolderRow, key, []change{put(key, layout.AppendFolder(nil, &fixed))}, "folder %d %q: wrong: %q",
				id, f.Name, wrong)
		}
		if err := fs.name(f); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(fs.sums)) {
		if s := fs.sums[id]; fs.heads[id] == nil {
			if err := fs.headless(id, s); err != nil {
				return err
			}
		}
	}
	return fs.nameRows()
}

func (fs *folders) orphanHead(key []byte, f *layout.Folder, s *sums) {
	if s == nil || s.total == 0 {
		fs.report(FolderRow, key, []change{drop(key)}, "head of %q without a folder note", f.Name)
		return
	}
	// Notes are in the folder. The folder's note is created again from its head, with the UNID that the notes' state
	// names.
	c := note.Content{Items: folderItems(f)}
	tree := note.Tree{{Rev: note.NextRevision(note.Revision{}, note.Folder, false, &c)}}
	row, ok := fs.spare(f)
	if !ok {
		fs.report(FolderRow, key, nil, "head of %q without a folder note, with %d notes in it", f.Name, s.total)
		return
	}
	fs.report(FolderRow, key, []change{
		put(layout.NoteKey(fs.num, layout.KindNote, f.Note), layout.AppendNote(nil, row)),
		put(layout.NoteKey(fs.num, layout.KindContent, f.Note),
			fs.seal.Content(layout.NoteKey(fs.num, layout.KindContent, f.Note),
				&layout.Content{Tree: tree, Content: c})),
	}, "head of %q without a folder note, with %d notes in it", f.Name, s.total)
}

// spare returns a new row for a lost folder note.
func (fs *folders) spare(f *layout.Folder) (*layout.Note, bool) {
	seq, ok := fs.freeSequence(max(fs.counters.Seq, fs.highSeq))
	if !ok {
		return nil, false
	}
	mod := fs.freeMod()
	n := &layout.Note{UNID: f.UNID, Class: note.Folder, Seq: seq, Mod: mod, Created: mod}
	for _, p := range f.Subscribed {
		n.State = n.State.Set(note.Subscribed, string(p[:]), note.On, note.Stamp{})
	}
	return n, true
}

func (fs *folders) compareHead(f *layout.Folder, s *sums) (fixed layout.Folder, wrong []string) {
	h := headRepair{Folder: *f}
	if h.bad(f.UNID != s.unid, "UNID") {
		h.UNID = s.unid
	}
	if !s.ahead {
		h.compareNote(s)
	}
	compareSum(&h, "total", &h.Total, s.total)
	compareSum(&h, "deleted", &h.Deleted, s.deleted)
	compareSum(&h, "size", &h.Size, s.size)
	if h.bad(!sameSeen(f.Seen, s.seen), "seen") {
		h.Seen = seenList(s.seen)
	}
	if h.bad(f.UIDNext <= s.highUID || f.UIDNext == 0, "UIDNEXT") {
		h.UIDNext = s.highUID + 1
	}
	if h.bad(f.Mod < s.highMod, "latest MODSEQ") {
		h.Mod = s.highMod
	}
	if h.bad(!fs.noCount && f.Mod > fs.top() && fs.newMod < f.Mod, "latest MODSEQ above the ledger's") {
		h.Mod = s.highMod
	}
	if h.bad(f.UIDValidity == 0, "UIDVALIDITY") {
		h.UIDValidity = uint32(fs.lastTime) + 1
	}
	have := slices.SortedFunc(slices.Values(f.Subscribed), note.UNID.Compare)
	want := slices.SortedFunc(slices.Values(s.subscribed), note.UNID.Compare)
	if h.bad(!s.ahead && !slices.Equal(have, want), "subscriptions") {
		h.Subscribed = want
	}
	return h.Folder, h.wrong
}

// headRepair lists the differences of a folder head from its notes. The embedded head is the one as it should be.
type headRepair struct {
	layout.Folder
	wrong []string
}

// bad records a difference if there is one, and returns is.
func (h *headRepair) bad(is bool, what string) bool {
	if is {
		h.wrong = append(h.wrong, what)
	}
	return is
}

// compareNote compares the head's name and access list with those of the folder note.
func (h *headRepair) compareNote(s *sums) {
	if h.bad(h.Name != s.name || h.SpecialUse != s.use, "name") {
		h.Name, h.SpecialUse = s.name, s.use
	}
	if h.bad(h.HasACL != (s.acl != nil) || s.acl != nil &&
		string(note.AppendACL(nil, &h.ACL)) != string(note.AppendACL(nil, s.acl)), "access list") {
		if h.HasACL = s.acl != nil; s.acl != nil {
			h.ACL = *s.acl
		}
	}
}

func compareSum[T uint32 | uint64](h *headRepair, what string, has *T, should T) {
	if h.bad(*has != should, fmt.Sprintf("%s %d, should be %d", what, *has, should)) {
		*has = should
	}
}

// headless handles folders without a head. If the folder's note lives, the folder gets a new head with a new
// UIDVALIDITY, because it is not known how far its UIDs went.
func (fs *folders) headless(id note.ID, s *sums) error {
	key := layout.NoteKey(fs.num, layout.KindFolder, id)
	if s.ahead && s.total == 0 {
		return nil // the folder will get its head from its home
	}
	if !s.note {
		// The folder's name and identity are lost, but not its notes. The next pass creates the folder note from the
		// head.
		f := &layout.Folder{
			Note: id, UNID: note.DeriveUNID(key), Name: fmt.Sprint("Recovered ", id),
			UIDValidity: uint32(fs.lastTime) + 1,
			UIDNext:     s.highUID + 1, Mod: s.highMod,
		}
		nameKey := append(fs.prefix(layout.KindName), f.Name...)
		fs.report(FolderRow, key, []change{
			put(key, layout.AppendFolder(nil, f)), put(nameKey, binary.BigEndian.AppendUint32(nil, f.UIDValidity)),
		}, "%d notes are in folder %d, which does not exist", s.total, id)
		return nil
	}
	nameKey := append(fs.prefix(layout.KindName), s.name...)
	v, _, err := fs.get(nameKey)
	if err != nil {
		return err
	}
	f := &layout.Folder{Note: id, UNID: s.unid, Name: s.name, SpecialUse: s.use, UIDNext: s.highUID + 1, Mod: s.highMod}
	f.UIDValidity = max(uint32(fs.lastTime), layout.Tail32(v)) + 1
	fixed, _ := fs.compareHead(f, s)
	fs.report(FolderRow, key, []change{
		put(key, layout.AppendFolder(nil, &fixed)), put(nameKey, binary.BigEndian.AppendUint32(nil, f.UIDValidity)),
	}, "head of folder %d %q is missing", id, s.name)
	return nil
}

// name checks that the register of names has the UIDVALIDITY shown under a folder's name.
func (fs *folders) name(f *layout.Folder) error {
	key := append(fs.prefix(layout.KindName), f.Name...)
	v, ok, err := fs.get(key)
	if err == nil && (!ok || len(v) != 4 || layout.Tail32(v) < f.UIDValidity) {
		fs.report(NameRow, key, []change{put(key, binary.BigEndian.AppendUint32(nil, f.UIDValidity))},
			"%q has shown UIDVALIDITY %d, which the register of names does not know", f.Name, f.UIDValidity)
	}
	return err
}

func (fs *folders) nameRows() error {
	return fs.scan(fs.prefix(layout.KindName), func(k, v []byte) error {
		if len(v) != 4 {
			fs.report(NameRow, k, []change{drop(k)}, "cannot be read")
		}
		return nil
	})
}
