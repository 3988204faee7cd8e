package check

import (
	"errors"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// database is the check of one database. It collects the data of the notes and their content in one pass, and then
// compares every derived row with it.
type database struct {
	*checker
	*entry
	info     *layout.Info
	counters layout.Counters
	lostInfo bool
	noCount  bool // the counters are lost

	notes   []rec // ascending ids
	live    uint64
	size    uint64
	folders map[note.ID]*sums
	heads   map[note.ID]*layout.Folder
	indexes []index
	marked  map[string]bool // see claimed
	used    map[uint64]bool // see freeSequence

	highSeq  uint64
	highMod  note.ModSeq
	highUID  uint32
	highNote note.ID
	lastTime int64
	expunged uint64
	// newMod is the last MODSEQ given to the expunges of what repair removed.
	newMod note.ModSeq
}

// rec is a note, in as little memory as possible, with which the derived rows must agree.
type rec struct {
	id      note.ID
	unid    note.UNID
	thread  note.UNID
	seq     uint64
	mod     note.ModSeq
	members []layout.Membership
	recipe  note.RecipeID
	found   uint32 // member rows found
	mark    uint8
	stub    bool
	// listed means that the note has a row under its MODSEQ, unnumbered that it has one among the unnumbered notes.
	listed, unnumbered bool
}

// Flags for the derived rows of a note that were found.
const (
	hasUNID = 1 << iota
	hasSequence
	hasModSeq
	hasThread
	hasUnnumbered
)

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

// index is a declared index and its expected and actual number of rows.
type index struct {
	store.Index
	want, have uint64
}

func (c *checker) database(e *entry) error {
	d := &database{checker: c, entry: e, folders: map[note.ID]*sums{}, heads: map[note.ID]*layout.Folder{}}
	for _, step := range []func() error{
		d.readInfo, d.readCounters, d.readHeads, d.readNotes, d.unids, d.sequences, d.unnumbered, d.threads, d.members,
		d.chunks, d.modseqs, d.checkHeads, d.peers, d.checkIndexes, d.missing, d.unknown, d.checkCounters,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) report(kind Kind, key []byte, changes []change, format string, args ...any) {
	d.found(d.id, kind, key, changes, format, args...)
}

func (d *database) prefix(k layout.Kind) []byte { return layout.Prefix(d.num, k) }

func (d *database) readInfo() error {
	key := d.prefix(layout.KindInfo)
	v, ok, err := d.get(key)
	if err != nil {
		return err
	}
	if !ok {
		d.lostInfo = true
		d.report(Info, key, nil, "missing: restore the database")
		return nil
	}
	if d.info, err = layout.ReadInfo(v); err != nil {
		d.lostInfo = true
		d.report(Info, key, nil, "cannot be read: restore the database")
		return nil
	}
	if d.info.ID != d.id || d.info.Number != d.num {
		fixed := *d.info
		fixed.ID, fixed.Number = d.id, d.num
		d.report(Info, key, []change{put(key, layout.AppendInfo(nil, &fixed))}, "says database %s, number %d",
			d.info.ID, d.info.Number)
	}
	for _, x := range d.s.Indexes() {
		if x.Kind == d.info.Kind {
			d.indexes = append(d.indexes, index{Index: x})
		}
	}
	return nil
}

func (d *database) readCounters() error {
	v, ok, err := d.get(d.prefix(layout.KindCounters))
	if err != nil {
		return err
	}
	if ok {
		d.counters, err = layout.ReadCounters(v)
	}
	d.noCount = !ok || err != nil
	return nil
}

func (d *database) readHeads() error {
	return d.scan(d.prefix(layout.KindFolder), func(k, v []byte) error {
		id := note.ID(layout.Tail64(k))
		f, err := layout.ReadFolder(id, v)
		if err != nil || len(k) != 14 {
			d.report(FolderRow, k, []change{drop(k)}, "head of folder %d cannot be read", id)
			return nil
		}
		d.heads[id] = f
		return nil
	})
}

// find returns the note with an id, or nil if there is none.
func (d *database) find(id note.ID) *rec {
	i, ok := slices.BinarySearchFunc(d.notes, id, func(r rec, id note.ID) int {
		switch {
		case r.id < id:
			return -1
		case r.id > id:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &d.notes[i]
}

func (d *database) sums(folder note.ID) *sums {
	s := d.folders[folder]
	if s == nil {
		s = &sums{seen: map[note.UNID]uint32{}, chunks: map[uint32]*chunkSums{}}
		d.folders[folder] = s
	}
	return s
}

// add adds a note's memberships to the sums.
func (d *database) add(n *layout.Note) {
	for _, m := range n.Members {
		s := d.sums(m.Folder)
		s.total++
		s.size += n.Size
		s.highUID = max(s.highUID, m.UID)
		s.highMod = max(s.highMod, n.Mod)
		d.highUID = max(d.highUID, m.UID)
		d.lastTime = max(d.lastTime, m.Saved)
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

// expunge returns the change that tells clients of a membership that repair had to end.
func (d *database) expunge(c layout.Change) change {
	c.Expunged, c.Time = true, d.lastTime
	return put(layout.IDKey(d.num, layout.KindModSeq, uint64(d.freeMod())), layout.AppendChange(nil, &c))
}

// freeMod returns a MODSEQ above every known one. The next pass raises the ledger to it.
func (d *database) freeMod() note.ModSeq {
	d.newMod = max(d.newMod, d.counters.Ledger.Last, d.highMod) + 1
	return d.newMod
}

// freeSequence returns a sequence that the database has passed and that no note uses.
func (d *database) freeSequence() (uint64, bool) {
	if d.used == nil {
		d.used = make(map[uint64]bool, len(d.notes))
		for i := range d.notes {
			d.used[d.notes[i].seq] = true
		}
	}
	for seq := max(d.counters.Seq, d.highSeq); seq > 0; seq-- {
		if !d.used[seq] {
			d.used[seq] = true
			return seq, true
		}
	}
	return 0, false
}

func (d *database) peers() error {
	return d.scan(d.prefix(layout.KindPeer), func(k, v []byte) error {
		p, err := layout.ReadPeer(v)
		switch {
		case err != nil || len(k) != 14:
			d.report(PeerRow, k, []change{drop(k)}, "cannot be read")
		case !d.noCount && p.Passed > d.counters.Seq:
			d.report(PeerRow, k, []change{drop(k)}, "has passed sequence %d, the database stands at %d", p.Passed,
				d.counters.Seq)
		}
		return nil
	})
}

// unknown finds rows of kinds that do not exist.
func (d *database) unknown() error {
	it, err := d.r.NewIter(nil)
	if err != nil {
		return errDamage{err}
	}
	defer it.Close()
	const kinds = "imncxusyqhfketzpvwV"
	at := layout.Prefix(d.num, 0)[:5]
	end := string(layout.After(at))
	for it.SeekGE(at) && string(it.Key()) < end {
		_, kind, rest, ok := layout.Split(it.Key())
		switch {
		case ok && kind == layout.KindView && len(rest) >= 8 && layout.Tail64(rest[:8])-256 < 1<<63-256:
			d.report(Unknown, it.Key(), []change{drop(it.Key())}, "a view number that neither an index nor a view has")
			at = append(append(at[:0], it.Key()...), 0)
			continue
		case ok && slices.Contains([]byte(kinds), byte(kind)):
			at = d.afterKind(kind, rest)
		default:
			d.report(Unknown, it.Key(), []change{drop(it.Key())}, "a row of no kind that this release writes")
			at = append(append(at[:0], it.Key()...), 0)
		}
		if err := d.count(it.Key(), nil); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return errDamage{err}
	}
	return nil
}

// afterKind returns the key at which the search for unknown rows continues after a row of a known kind. Within the rows
// of views, it continues at the next view number.
func (d *database) afterKind(kind layout.Kind, rest []byte) []byte {
	if kind == layout.KindView && len(rest) >= 8 {
		if next := layout.After(rest[:8]); next != nil {
			return append(d.prefix(kind), next...)
		}
	}
	return layout.After(d.prefix(kind))
}

// top returns the highest MODSEQ that may exist. A replica that has received only a part of a run of its home's pages
// may have rows above its own last MODSEQ.
func (d *database) top() note.ModSeq {
	l := &d.counters.Ledger
	if l.Partial {
		return max(l.Last, l.Complete, l.High)
	}
	return l.Last
}

// checkCounters runs last, when everything that the counters count has been read.
func (d *database) checkCounters() error {
	key := d.prefix(layout.KindCounters)
	want := d.counters
	want.Notes, want.Size, want.Expunged = d.live, d.size, d.expunged
	var wrong []string
	if d.noCount {
		wrong = []string{"missing or not readable"}
		want = layout.Counters{Notes: d.live, Size: d.size, Expunged: d.expunged}
	}
	if want.Seq < d.highSeq {
		wrong, want.Seq = append(wrong, "sequence"), d.highSeq
	}
	if d.top() < d.highMod {
		wrong, want.Ledger.Last = append(wrong, "last MODSEQ"), d.highMod
	}
	if want.Ledger.UID < d.highUID {
		wrong, want.Ledger.UID = append(wrong, "last UID"), d.highUID
	}
	if want.NextNote <= d.highNote {
		wrong, want.NextNote = append(wrong, "next note id"), d.highNote+1
	}
	if d.noCount {
		// The last numbers assigned are not known: continue as after the loss of a home.
		want.NextNote += 1 << 16
		if err := want.Ledger.TakeOver(); err != nil {
			d.report(Counters, key, nil, "cannot be rebuilt: %v", err)
			return nil
		}
	} else {
		for _, x := range []struct {
			name       string
			have, want uint64
		}{
			{"notes", d.counters.Notes, want.Notes}, {"size", d.counters.Size, want.Size},
			{"expunges", d.counters.Expunged, want.Expunged},
		} {
			if x.have != x.want {
				wrong = append(wrong, x.name)
			}
		}
		if d.counters.Seq >= d.ceiling {
			d.report(Counters, key, nil, "sequence %d is above the store's ceiling %d", d.counters.Seq, d.ceiling)
		}
	}
	if wrong != nil {
		d.report(Counters, key, []change{put(key, layout.AppendCounters(nil, &want))}, "wrong: %q: have %+v, want %+v",
			wrong, d.counters, want)
	}
	return nil
}

// checkIndexes checks the declared indexes. While the notes were read, each key that their content gives was looked up.
// So if the number of rows is right, the rows are right. Otherwise checkIndexes compares each row with its note.
func (d *database) checkIndexes() error {
	for i := range d.indexes {
		x := &d.indexes[i]
		prefix := layout.IDKey(d.num, layout.KindView, x.Number)
		err := d.scan(prefix, func(_, _ []byte) error {
			x.have++
			return nil
		})
		if err != nil {
			return err
		}
		if x.have == x.want {
			continue
		}
		err = d.scan(prefix, func(k, _ []byte) error { return d.indexRow(x, prefix, k) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *database) indexRow(x *index, prefix, k []byte) error {
	if len(k) < len(prefix)+9 {
		d.report(IndexRow, k, []change{drop(k)}, "index %d: a key that is too short", x.Number)
		return nil
	}
	id := note.ID(layout.Tail64(k))
	n, c, err := d.read(id)
	if err != nil {
		return err
	}
	if n == nil || c == nil || n.Stub || !slices.ContainsFunc(x.Keys(n.Class, &c.Content), func(o []byte) bool {
		return string(o) == string(k[len(prefix):len(k)-9])
	}) {
		d.report(IndexRow, k, []change{drop(k)}, "index %d: note %d does not stand under this key", x.Number, id)
	}
	return nil
}

// readNote reads a note. It returns nil if the note does not exist or cannot be read.
func (c *checker) readNote(num uint32, id note.ID) (*layout.Note, error) {
	v, ok, err := c.get(layout.NoteKey(num, layout.KindNote, id))
	if err != nil || !ok {
		return nil, err
	}
	n, err := layout.ReadNote(v)
	if err != nil {
		return nil, nil //nolint:nilerr // its own finding
	}
	return n, nil
}

func (c *checker) readContent(num uint32, id note.ID) (*layout.Content, error) {
	v, ok, err := c.get(layout.NoteKey(num, layout.KindContent, id))
	if err != nil || !ok {
		return nil, err
	}
	row, err := layout.ReadContentRow(v)
	if err != nil {
		return nil, nil //nolint:nilerr // its own finding
	}
	return row, nil
}

func (d *database) read(id note.ID) (*layout.Note, *layout.Content, error) {
	n, err := d.readNote(d.num, id)
	c, cerr := d.readContent(d.num, id)
	return n, c, errors.Join(err, cerr)
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
