package check

import (
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

// folders holds the heads of the folders of a database, and the counters that they should have.
type folders struct {
	*numbers
	*notes
	sums   map[note.ID]*sums
	heads  map[note.ID]*layout.Folder
	marked map[string]bool // see claimed
}

// sums holds the expected counters of a folder.
type sums struct {
	total, deleted uint32
	size           uint64
	seen           map[note.UNID]uint32
	chunks         map[uint32]*chunkSums
	highUID        uint32
	highMod        note.ModSeq
	// note is set if the folder's note lives. ahead means that the note has changes that no home (primary
	// replica) has numbered: the head then shows the state before them.
	note       bool
	ahead      bool
	unid       note.UNID
	name, use  string
	acl        *note.ACL
	subscribed []note.UNID
}

type chunkSums struct {
	total uint32
	seen  map[note.UNID]uint32
}

func folderItems(f *layout.Folder) note.Items {
	items := note.MakeItems(note.Item{Name: itemName, Value: note.Text(f.Name)},
		note.Item{Name: itemSpecialUse, Value: note.Text(f.SpecialUse)})
	if f.HasACL {
		items = items.With(itemACL, note.Binary(note.AppendACL(nil, &f.ACL)))
	}
	return items
}

func (fs *folders) readHeads() error {
	return fs.scan(fs.prefix(layout.KindFolder), func(k, v []byte) error {
		id := note.ID(layout.Tail64(k))
		f, err := layout.ReadFolder(id, v)
		if err != nil || len(k) != 14 {
			fs.report(FolderRow, k, []change{drop(k)}, "head of folder %d cannot be read", id)
			return nil
		}
		fs.heads[id] = f
		return nil
	})
}

func (fs *folders) of(folder note.ID) *sums {
	s := fs.sums[folder]
	if s == nil {
		s = &sums{seen: map[note.UNID]uint32{}, chunks: map[uint32]*chunkSums{}}
		fs.sums[folder] = s
	}
	return s
}

// add adds a note's memberships to the sums.
func (fs *folders) add(n *layout.Note) {
	for _, m := range n.Members {
		s := fs.of(m.Folder)
		s.total++
		s.size += n.Size
		s.highUID = max(s.highUID, m.UID)
		s.highMod = max(s.highMod, n.Mod)
		fs.highUID = max(fs.highUID, m.UID)
		fs.lastTime = max(fs.lastTime, m.Saved)
		if m.Deleted {
			s.deleted++
		}
		ch := s.chunks[m.UID>>layout.ChunkShift]
		if ch == nil {
			ch = &chunkSums{seen: map[note.UNID]uint32{}}
			s.chunks[m.UID>>layout.ChunkShift] = ch
		}
		ch.total++
		for _, it := range n.State {
			if it.Kind == note.Seen && it.Value == note.On && len(it.Key) == len(note.UNID{}) {
				p := note.UNID([]byte(it.Key))
				s.seen[p]++
				ch.seen[p]++
			}
		}
	}
}

// folderNote records the expected contents of a folder's head.
func (fs *folders) folderNote(id note.ID, n *layout.Note, row *layout.Content) {
	s := fs.of(id)
	s.note, s.ahead, s.unid = true, n.Unnumbered, n.UNID
	s.name, s.use = row.Content.Items.Get(itemName).AsText(), row.Content.Items.Get(itemSpecialUse).AsText()
	if v := row.Content.Items.Get(itemACL).AsBinary(); v != nil {
		acl, rest, err := note.ReadACL(append([]byte(nil), v...))
		if err != nil || len(rest) != 0 {
			fs.report(FolderRow, layout.NoteKey(fs.num, layout.KindFolder, id), nil,
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
}

// memberships compares a note's memberships with its state and with each other.
func (fs *folders) memberships(n, fixed *layout.Note) (wrong string) {
	members := fixed.Clone().Members
	for i := range members {
		m := &members[i]
		f := fs.heads[m.Folder]
		if f == nil {
			continue // reported when the heads are checked
		}
		if n.Unnumbered {
			continue // its memberships are those from before the change
		}
		v, at := n.State.Get(note.Member, string(f.UNID[:]))
		if v == note.Off && at == (note.Stamp{}) {
			// The state has no entry for this folder: the folder's identity was lost and it was created again.
			wrong = fmt.Sprintf("in folder %d, of which its state knows nothing", m.Folder)
			v = note.On
			if m.Deleted {
				v = note.Deleted
			}
			fixed.State = fixed.State.Set(note.Member, string(f.UNID[:]), v, note.Stamp{Time: 1})
		} else if v == note.Off {
			wrong = fmt.Sprintf("in folder %d, but its state says that it is not", m.Folder)
		} else if (v == note.Deleted) != m.Deleted {
			wrong = fmt.Sprintf("\\Deleted in folder %d is %v, its state says %v", m.Folder, m.Deleted,
				v == note.Deleted)
			m.Deleted = v == note.Deleted
		}
		for _, o := range members[:i] {
			if o.Folder == m.Folder {
				wrong = fmt.Sprintf("twice in folder %d", m.Folder)
			}
		}
	}
	fixed.Members = members
	return wrong
}

// members compares the folder index with the notes. The \Deleted rows have the same keys after their prefix, so they
// are walked side by side.
func (fs *folders) members() error {
	marks, err := fs.walk(fs.prefix(layout.KindDeleted))
	if err != nil {
		return err
	}
	defer marks.close()
	err = fs.scan(fs.prefix(layout.KindMember), func(k, v []byte) error {
		fs.rep.Members++
		if err := fs.strayMarks(marks, string(k[6:])); err != nil {
			return err
		}
		marked := marks.ok && string(marks.key[6:]) == string(k[6:])
		deleted, ok := fs.member(k, v)
		switch {
		case ok && deleted && !marked:
			key := append(fs.prefix(layout.KindDeleted), k[6:]...)
			fs.report(DeletedRow, key, []change{put(key, nil)}, "missing")
		case marked && !deleted:
			fs.report(DeletedRow, marks.key, []change{drop(marks.key)}, "the membership is not marked")
		}
		if marked {
			return marks.next()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fs.strayMarks(marks, "")
}

// strayMarks reports \Deleted rows below a key that belong to no member; with "" it reports all that are left.
func (fs *folders) strayMarks(marks *walker, below string) error {
	return marks.while(func(key []byte) bool { return below == "" || string(key[6:]) < below }, func(key []byte) error {
		// The member row may be what is missing. Then the note's own row shows whether the member is marked.
		if !fs.claimed(string(key[6:])) {
			fs.report(DeletedRow, key, []change{drop(key)}, "no such member")
		}
		return nil
	})
}

// claimed reports whether a note has a membership with this key suffix that is marked \Deleted.
func (fs *folders) claimed(suffix string) bool {
	if fs.marked == nil {
		fs.marked = map[string]bool{}
		for i := range fs.list {
			for _, m := range fs.list[i].members {
				if m.Deleted {
					fs.marked[string(layout.FolderUIDKey(0, 0, m.Folder, m.UID)[6:])] = true
				}
			}
		}
	}
	return fs.marked[suffix]
}

// member checks one row of the folder index. ok means that a note claims it.
func (fs *folders) member(k, v []byte) (deleted, ok bool) {
	if len(k) != 18 {
		fs.report(MemberRow, k, []change{drop(k)}, "a key of %d bytes", len(k))
		return false, false
	}
	folder, uid := note.ID(layout.Tail64(k[6:14])), layout.Tail32(k)
	id, err := layout.ReadUNIDRow(v)
	if err != nil {
		fs.report(MemberRow, k, []change{drop(k)}, "cannot be read")
		return false, false
	}
	if r := fs.find(id); r != nil {
		for _, m := range r.members {
			if m.Folder == folder && m.UID == uid {
				r.found++
				return m.Deleted, true
			}
		}
	}
	changes := []change{drop(k)}
	if s := fs.sums[folder]; s != nil && s.note && uid > 0 {
		changes = append(changes, fs.expunge(layout.Change{Note: id, Folder: folder, UID: uid}))
	}
	fs.report(MemberRow, k, changes, "note %d is not in folder %d under UID %d", id, folder, uid)
	return false, false
}

// missingMembers reports memberships without a row.
func (fs *folders) missingMembers(r *rec) error {
	for _, m := range r.members {
		key := layout.FolderUIDKey(fs.num, layout.KindMember, m.Folder, m.UID)
		v, ok, err := fs.get(key)
		if err != nil {
			return err
		}
		if !ok {
			changes := []change{put(key, layout.UNIDRow(r.id))}
			if m.Deleted {
				changes = append(changes, put(layout.FolderUIDKey(fs.num, layout.KindDeleted, m.Folder, m.UID), nil))
			}
			fs.report(MemberRow, key, changes, "missing: note %d", r.id)
			continue
		}
		if id, err := layout.ReadUNIDRow(v); err == nil && id != r.id && fs.find(id) != nil {
			fs.report(MemberRow, key, []change{put(key, layout.UNIDRow(r.id))},
				"leads to note %d, note %d claims it", id, r.id)
		}
	}
	return nil
}

// chunks checks the counters of each 1,024 UIDs.
func (fs *folders) chunks() error {
	seen := map[note.ID]map[uint32]bool{}
	err := fs.scan(fs.prefix(layout.KindChunk), func(k, v []byte) error {
		if len(k) != 18 {
			fs.report(ChunkRow, k, []change{drop(k)}, "a key of %d bytes", len(k))
			return nil
		}
		folder, number := note.ID(layout.Tail64(k[6:14])), layout.Tail32(k)
		var want *chunkSums
		if s := fs.sums[folder]; s != nil {
			want = s.chunks[number]
		}
		if want == nil {
			fs.report(ChunkRow, k, []change{drop(k)}, "counts a part of folder %d that holds nothing", folder)
			return nil
		}
		if seen[folder] == nil {
			seen[folder] = map[uint32]bool{}
		}
		seen[folder][number] = true
		if c, err := layout.ReadChunk(v); err != nil || c.Total != want.total || !sameSeen(c.Seen, want.seen) {
			fs.report(ChunkRow, k, []change{put(append([]byte(nil), k...), want.row())},
				"counts %+v, should be %d and %v", c, want.total, want.seen)
		}
		return nil
	})
	for folder, s := range fs.sums {
		for number, want := range s.chunks {
			if err == nil && !seen[folder][number] {
				key := layout.FolderUIDKey(fs.num, layout.KindChunk, folder, number)
				fs.report(ChunkRow, key, []change{put(key, want.row())}, "missing: counts %d", want.total)
			}
		}
	}
	return err
}

func (c *chunkSums) row() []byte {
	return layout.AppendChunk(nil, &layout.Chunk{Total: c.total, Seen: seenList(c.seen)})
}

func sameSeen(list []layout.SeenCount, want map[note.UNID]uint32) bool {
	if len(list) != len(want) {
		return false
	}
	for _, s := range list {
		if want[s.Person] != s.Count {
			return false
		}
	}
	return true
}

func seenList(want map[note.UNID]uint32) []layout.SeenCount {
	var out []layout.SeenCount
	for _, p := range slices.SortedFunc(maps.Keys(want), note.UNID.Compare) {
		out = append(out, layout.SeenCount{Person: p, Count: want[p]})
	}
	return out
}
