package layout

import (
	"encoding/binary"
	"slices"

	"doublet/note"
	"doublet/note/pack"
)

// Membership holds the numbers of a note's place in a folder.
type Membership struct {
	Folder note.ID
	UID    uint32
	// Saved is the time at which the note was put in the folder, in Unix seconds (RFC 8514).
	Saved int64
	// Deleted mirrors the \Deleted mark of the membership's state.
	Deleted bool
}

// Note is the row of a note. It holds everything that changes without the content, and what lists need of the note. A
// flag change rewrites this row, about a hundred bytes, and never the content.
type Note struct {
	UNID  note.UNID
	Class note.Class
	// Seq is the store's sequence of the latest change, Mod the MODSEQ of that change, Created the MODSEQ of the first
	// change.
	Seq     uint64
	Mod     note.ModSeq
	Created note.ModSeq
	// Shown is the MODSEQ at which a membership was last marked or unmarked \Deleted, or at which Hidden last changed;
	// 0 if that never happened. For clients that do not know the \Deleted mark, the note appeared or disappeared then.
	Shown note.ModSeq
	// Recipe is the stored message, or 0 for a note without one. Size is its size in bytes, Date its INTERNALDATE in
	// Unix seconds, Thread its thread.
	Recipe note.RecipeID
	Size   uint64
	Date   int64
	Thread note.UNID
	// Author is the person who created the note. Rights of an Author to one's own notes depend on it.
	Author note.UNID
	// Stub marks a deletion stub: a deleted note that is still kept for replicas.
	Stub bool
	// Foldered marks a note that is deleted when it leaves its last folder.
	Foldered bool
	// Attached marks a note whose content references objects or has conflicts. When a note without the mark is removed,
	// its content need not be read.
	Attached bool
	// Unnumbered marks a note that changed since a home (a primary replica) numbered it, or that no home has numbered.
	// It has a row by the sequence of that change. Members holds the memberships that were numbered last.
	Unnumbered bool
	Members    []Membership
	State      note.State
}

// Clone returns a copy of the row that can be changed.
func (n *Note) Clone() *Note {
	c := *n
	c.Members = slices.Clone(n.Members)
	return &c
}

// Listed reports whether the note has a row under its MODSEQ. A note that was never numbered has MODSEQ 0 and no row. A
// deletion stub has no row, unless the deletion is not numbered yet.
func (n *Note) Listed() bool { return n.Mod != 0 && (!n.Stub || n.Unnumbered) }

// Member returns the note's membership of a folder.
func (n *Note) Member(folder note.ID) (Membership, bool) {
	for _, m := range n.Members {
		if m.Folder == folder {
			return m, true
		}
	}
	return Membership{}, false
}

// Hidden reports whether the note is marked \Deleted in every folder that it is in. Clients that do not know this mark
// do not see the note.
func (n *Note) Hidden() bool {
	for _, m := range n.Members {
		if !m.Deleted {
			return false
		}
	}
	return len(n.Members) > 0
}

// Remarked reports whether the \Deleted mark of a membership differs from before, or Hidden does.
func (n *Note) Remarked(before *Note) bool {
	for _, m := range n.Members {
		if was, ok := before.Member(m.Folder); ok && was.Deleted != m.Deleted {
			return true
		}
	}
	return n.Hidden() != before.Hidden()
}

// SeenBy reports whether a person has seen the note.
func (n *Note) SeenBy(person note.UNID) bool {
	v, _ := n.State.Get(note.Seen, string(person[:]))
	return v == note.On
}

// Keywords yields the note's keywords that are set.
func (n *Note) Keywords(yield func(string) bool) {
	for _, it := range n.State {
		if it.Kind == note.Keyword && it.Value == note.On && !yield(it.Key) {
			return
		}
	}
}

const (
	noteStub = 1 << iota
	noteFoldered
	noteDated
	noteAuthor
	noteAttached
	noteUnnumbered
	noteShown
)

// AppendNote appends the encoded row.
func AppendNote(dst []byte, n *Note) []byte {
	dated := n.Recipe != 0 || n.Size != 0 || n.Date != 0 || !n.Thread.IsZero()
	f := flag(n.Stub, noteStub) | flag(n.Foldered, noteFoldered) | flag(n.Attached, noteAttached) |
		flag(n.Unnumbered, noteUnnumbered) | flag(n.Shown != 0, noteShown) | flag(dated, noteDated) |
		flag(!n.Author.IsZero(), noteAuthor)
	dst = append(append(dst, f, byte(n.Class)), n.UNID[:]...)
	dst = binary.AppendUvarint(dst, n.Seq)
	dst = binary.AppendUvarint(dst, uint64(n.Mod))
	dst = binary.AppendUvarint(dst, uint64(n.Created))
	if n.Shown != 0 {
		dst = binary.AppendUvarint(dst, uint64(n.Shown))
	}
	if dated {
		dst = binary.AppendUvarint(dst, uint64(n.Recipe))
		dst = binary.AppendUvarint(dst, n.Size)
		dst = binary.AppendVarint(dst, n.Date)
		dst = append(dst, n.Thread[:]...)
	}
	if !n.Author.IsZero() {
		dst = append(dst, n.Author[:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(n.Members)))
	for _, m := range n.Members {
		dst = binary.AppendUvarint(dst, uint64(m.Folder))
		u := uint64(m.UID) << 1
		if m.Deleted {
			u |= 1
		}
		dst = binary.AppendUvarint(dst, u)
		dst = binary.AppendVarint(dst, m.Saved)
	}
	return note.AppendState(dst, n.State)
}

// flag returns f if it is set, else 0.
func flag(set bool, f byte) byte {
	if set {
		return f
	}
	return 0
}

// ReadNote decodes a row.
func ReadNote(b []byte) (*Note, error) {
	if len(b) < 18 {
		return nil, note.ErrCorrupt
	}
	f := b[0]
	n := &Note{Class: note.Class(b[1]), Stub: f&noteStub != 0, Foldered: f&noteFoldered != 0,
		Attached: f&noteAttached != 0, Unnumbered: f&noteUnnumbered != 0}
	copy(n.UNID[:], b[2:])
	r := reader{pack.Reader{B: b[18:]}}
	n.Seq, n.Mod, n.Created = r.Uvarint(), note.ModSeq(r.Uvarint()), note.ModSeq(r.Uvarint())
	if f&noteShown != 0 {
		n.Shown = note.ModSeq(r.Uvarint())
	}
	if f&noteDated != 0 {
		n.Recipe, n.Size, n.Date = note.RecipeID(r.Uvarint()), r.Uvarint(), r.Varint()
		r.Fixed(n.Thread[:])
	}
	if f&noteAuthor != 0 {
		r.Fixed(n.Author[:])
	}
	k := r.Count(3)
	if k > 0 {
		n.Members = make([]Membership, k)
	}
	for i := range n.Members {
		m := &n.Members[i]
		m.Folder = note.ID(r.Uvarint())
		u := r.Uvarint()
		m.UID, m.Deleted = uint32(u>>1), u&1 != 0
		m.Saved = r.Varint()
	}
	if r.Bad {
		return nil, note.ErrCorrupt
	}
	var err error
	n.State, r.B, err = note.ReadState(r.B)
	if err != nil || len(r.B) != 0 {
		return nil, note.ErrCorrupt
	}
	return n, nil
}

// Content is the row of a note's content.
type Content struct {
	Tree    note.Tree
	Content note.Content
	// Summary is shown in lists. The writer computes it once from the content. The store does not interpret it.
	Summary []byte
}

// AppendContentRow appends the encoded row. The summary comes first, so that it can be read alone.
func AppendContentRow(dst []byte, c *Content) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Summary)))
	dst = append(dst, c.Summary...)
	dst = note.AppendTree(dst, c.Tree)
	return note.AppendContent(dst, &c.Content)
}

// ReadSummary returns the summary alone. It aliases b.
func ReadSummary(b []byte) ([]byte, error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, note.ErrCorrupt
	}
	return b[k : k+int(n)], nil
}

// ReadContentRow decodes the row. Values alias b.
func ReadContentRow(b []byte) (*Content, error) {
	var c Content
	var err error
	if c.Summary, err = ReadSummary(b); err != nil {
		return nil, err
	}
	_, k := binary.Uvarint(b)
	b = b[k+len(c.Summary):]
	if c.Tree, b, err = note.ReadTree(b); err != nil {
		return nil, err
	}
	if c.Content, b, err = note.ReadContent(b); err != nil {
		return nil, err
	}
	if len(b) != 0 {
		return nil, note.ErrCorrupt
	}
	return &c, nil
}

// Counters is the row that every change of a database rewrites.
type Counters struct {
	// NextNote is the next note id. Seq is the sequence of the latest change.
	NextNote note.ID
	Seq      uint64
	Ledger   note.Ledger
	// Notes is the number of live notes, and Size the total bytes of their messages. Quotas use them.
	Notes uint64
	Size  uint64
	// Floor is the MODSEQ up to which expunges are forgotten. Expunged is the number of expunges that are kept.
	Floor    note.ModSeq
	Expunged uint64
	// LastUIDValidity is the highest UIDVALIDITY given to any folder, if the database is shared.
	LastUIDValidity uint32
}

// AppendCounters appends the encoded row.
func AppendCounters(dst []byte, c *Counters) []byte {
	for _, v := range []uint64{uint64(c.NextNote), c.Seq, c.Notes, c.Size, uint64(c.Floor), c.Expunged,
		uint64(c.LastUIDValidity)} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = note.AppendLedger(dst, &c.Ledger)
	if c.Ledger.Partial {
		dst = binary.AppendUvarint(dst, uint64(c.Ledger.CompleteUID))
	}
	return dst
}

// ReadCounters decodes the row.
func ReadCounters(b []byte) (Counters, error) {
	r := reader{pack.Reader{B: b}}
	c := Counters{
		NextNote: note.ID(r.Uvarint()), Seq: r.Uvarint(), Notes: r.Uvarint(), Size: r.Uvarint(),
		Floor: note.ModSeq(r.Uvarint()), Expunged: r.Uvarint(), LastUIDValidity: uint32(r.Uvarint()),
	}
	if r.Bad {
		return c, note.ErrCorrupt
	}
	var err error
	if c.Ledger, r.B, err = note.ReadLedger(r.B); err != nil {
		return c, err
	}
	switch l := &c.Ledger; {
	case !l.Partial:
	case len(r.B) == 0:
		l.CompleteUID = l.UID // rows of older versions do not have it
	default:
		l.CompleteUID = uint32(r.Uvarint())
	}
	if r.Bad || len(r.B) != 0 {
		err = note.ErrCorrupt
	}
	return c, err
}

// SeenCount is the number of notes of a folder that one person has seen.
type SeenCount struct {
	Person note.UNID
	Count  uint32
}

// Chunk counts the members of a folder within 1,024 UIDs.
type Chunk struct {
	Total uint32
	Seen  []SeenCount
}

// SeenBy returns the number of notes that a person has seen.
func SeenBy(list []SeenCount, person note.UNID) uint32 {
	for _, s := range list {
		if s.Person == person {
			return s.Count
		}
	}
	return 0
}

// AddSeen changes a person's number by delta and removes entries that become 0. It does not change list.
func AddSeen(list []SeenCount, person note.UNID, delta int) []SeenCount {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Person == person {
			out[i].Count = uint32(int(out[i].Count) + delta)
			if out[i].Count == 0 {
				return slices.Delete(out, i, i+1)
			}
			return out
		}
	}
	if delta <= 0 { // a count that was lost by damage must not wrap around
		return out
	}
	return append(out, SeenCount{person, uint32(delta)})
}

// AppendChunk appends the encoded row.
func AppendChunk(dst []byte, c *Chunk) []byte {
	return appendSeen(binary.AppendUvarint(dst, uint64(c.Total)), c.Seen)
}

// ReadChunk decodes the row.
func ReadChunk(b []byte) (Chunk, error) {
	r := reader{pack.Reader{B: b}}
	c := Chunk{Total: uint32(r.Uvarint())}
	c.Seen = r.seen()
	return c, r.end()
}

func appendSeen(dst []byte, list []SeenCount) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = append(dst, s.Person[:]...)
		dst = binary.AppendUvarint(dst, uint64(s.Count))
	}
	return dst
}

// Folder is the head of a folder. It holds what LIST, STATUS and SELECT show, so that they need no scan.
type Folder struct {
	Note note.ID
	UNID note.UNID
	// Name is the full path with the separator /. SpecialUse is the attribute without its backslash.
	Name, SpecialUse string
	UIDValidity      uint32
	// UIDNext is one above the last UID given in the folder.
	UIDNext uint32
	// Told is the first UID that was not reported to any session as recent (RFC 3501 section 2.3.2). It equals UIDNext
	// if sessions know all messages, and in rows of older versions.
	Told    uint32
	Total   uint32
	Deleted uint32
	Size    uint64
	// Mod is the MODSEQ of the latest change in the folder.
	Mod  note.ModSeq
	Seen []SeenCount
	// Subscribed lists the persons who have subscribed to the folder.
	Subscribed []note.UNID
	// ACL replaces the database's access list in this folder if HasACL is set.
	HasACL bool
	ACL    note.ACL
	// Keywords lists keywords that notes had while they were in the folder, sorted: see AddKeywords. Rows of older
	// versions have none, and add those of each note at the note's next change.
	Keywords []string
}

// Bounds of the Keywords of a Folder. Every change in the folder rewrites the folder's row.
const (
	MaxFolderKeywords     = 100
	maxFolderKeywordBytes = 4 << 10
)

// AddKeywords adds the keywords of a note that is in the folder, as far as there is room. It clones the list before it
// changes it.
func (f *Folder) AddKeywords(n *Note) {
	size := 0
	for _, k := range f.Keywords {
		size += len(k)
	}
	cloned := false
	for k := range n.Keywords {
		i, ok := slices.BinarySearch(f.Keywords, k)
		if ok || len(f.Keywords) >= MaxFolderKeywords || size+len(k) > maxFolderKeywordBytes {
			continue
		}
		if !cloned {
			f.Keywords, cloned = slices.Clone(f.Keywords), true
		}
		f.Keywords = slices.Insert(f.Keywords, i, k)
		size += len(k)
	}
}

// KnowsKeywords reports whether the list has all keywords of the note, so that AddKeywords would add nothing.
func (f *Folder) KnowsKeywords(n *Note) bool {
	for k := range n.Keywords {
		if _, ok := slices.BinarySearch(f.Keywords, k); !ok {
			return false
		}
	}
	return true
}

// The flags after the subscriptions in a folder's row.
const (
	folderACL = 1 << iota
	folderKeywords
	folderTold
)

// AppendFolder appends the encoded row.
func AppendFolder(dst []byte, f *Folder) []byte {
	dst = append(dst, f.UNID[:]...)
	dst = appendString(appendString(dst, f.Name), f.SpecialUse)
	for _, v := range []uint64{uint64(f.UIDValidity), uint64(f.UIDNext), uint64(f.Total), uint64(f.Deleted), f.Size,
		uint64(f.Mod)} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = appendSeen(dst, f.Seen)
	dst = binary.AppendUvarint(dst, uint64(len(f.Subscribed)))
	for _, p := range f.Subscribed {
		dst = append(dst, p[:]...)
	}
	var flags byte
	if f.HasACL {
		flags |= folderACL
	}
	if len(f.Keywords) > 0 {
		flags |= folderKeywords
	}
	if f.Told < f.UIDNext {
		flags |= folderTold
	}
	dst = append(dst, flags)
	if f.HasACL {
		dst = note.AppendACL(dst, &f.ACL)
	}
	if len(f.Keywords) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(f.Keywords)))
		for _, k := range f.Keywords {
			dst = appendString(dst, k)
		}
	}
	if f.Told < f.UIDNext {
		dst = binary.AppendUvarint(dst, uint64(f.Told))
	}
	return dst
}

// ReadFolder decodes the row of the folder with note id id.
func ReadFolder(id note.ID, b []byte) (*Folder, error) {
	f := &Folder{Note: id}
	r := reader{pack.Reader{B: b}}
	r.Fixed(f.UNID[:])
	f.Name, f.SpecialUse = r.String(), r.String()
	f.UIDValidity, f.UIDNext = uint32(r.Uvarint()), uint32(r.Uvarint())
	f.Total, f.Deleted, f.Size, f.Mod = uint32(r.Uvarint()), uint32(r.Uvarint()), r.Uvarint(), note.ModSeq(r.Uvarint())
	f.Seen = r.seen()
	for range r.Count(16) {
		var p note.UNID
		r.Fixed(p[:])
		f.Subscribed = append(f.Subscribed, p)
	}
	flags := r.Byte()
	if flags&folderACL != 0 && !r.Bad {
		var err error
		if f.ACL, r.B, err = note.ReadACL(r.B); err != nil {
			return nil, err
		}
		f.HasACL = true
	}
	if flags&folderKeywords != 0 {
		for range r.Count(1) {
			f.Keywords = append(f.Keywords, r.String())
		}
	}
	if f.Told = f.UIDNext; flags&folderTold != 0 {
		f.Told = uint32(r.Uvarint())
	}
	return f, r.end()
}

// Change is the row under a MODSEQ: the change that got this MODSEQ.
//
// Folder is NoFolder if a replica learned of the end of a membership after the folder was removed there.
type Change struct {
	Note note.ID
	// Expunged means that the note left Folder, where it had UID. Gone means that it left the database.
	Expunged bool
	Gone     bool
	Folder   note.ID
	UID      uint32
	UNID     note.UNID
	// Time is the time of the expunge in Unix seconds. Expunges are kept for a limited time.
	Time int64
	// Class, Thread, Created and Shown are those of a note that is gone; Hidden means that it was hidden. They are zero
	// in rows of older versions.
	Class          note.Class
	Thread         note.UNID
	Created, Shown note.ModSeq
	Hidden         bool
}

// NoFolder is not the id of any folder.
const NoFolder note.ID = 1<<64 - 1

// AppendChange appends the encoded row.
func AppendChange(dst []byte, c *Change) []byte {
	if !c.Expunged {
		return binary.AppendUvarint(append(dst, changeNote), uint64(c.Note))
	}
	f := byte(changeExpunged)
	switch {
	case c.Gone && c.Class != 0 && (c.Hidden || c.Shown != 0):
		f = changeGoneShown
	case c.Gone && c.Class != 0:
		f = changeGone
	case c.Gone:
		f = changeGoneBare
	}
	dst = binary.AppendUvarint(append(dst, f), uint64(c.Note))
	dst = binary.AppendUvarint(dst, uint64(c.Folder))
	dst = binary.AppendUvarint(dst, uint64(c.UID))
	dst = binary.AppendVarint(dst, c.Time)
	dst = append(dst, c.UNID[:]...)
	if f < changeGone {
		return dst
	}
	dst = append(append(dst, byte(c.Class)), c.Thread[:]...)
	dst = binary.AppendUvarint(dst, uint64(c.Created))
	if f != changeGoneShown {
		return dst
	}
	shown := uint64(c.Shown) << 1
	if c.Hidden {
		shown |= 1
	}
	return binary.AppendUvarint(dst, shown)
}

// The kinds of change rows: a change of a note; the end of a membership; the end of the last membership; the latter
// with the Class, Thread and Created of the note; and also with its Shown and Hidden.
const (
	changeNote = iota
	changeExpunged
	changeGoneBare
	changeGone
	changeGoneShown
)

// ReadChange decodes the row.
func ReadChange(b []byte) (Change, error) {
	r := reader{pack.Reader{B: b}}
	f := r.Byte()
	c := Change{Note: note.ID(r.Uvarint()), Expunged: f != changeNote, Gone: f >= changeGoneBare}
	if c.Expunged {
		c.Folder, c.UID, c.Time = note.ID(r.Uvarint()), uint32(r.Uvarint()), r.Varint()
		r.Fixed(c.UNID[:])
	}
	if f >= changeGone {
		c.Class = note.Class(r.Byte())
		r.Fixed(c.Thread[:])
		c.Created = note.ModSeq(r.Uvarint())
	}
	if f == changeGoneShown {
		shown := r.Uvarint()
		c.Shown, c.Hidden = note.ModSeq(shown>>1), shown&1 != 0
	}
	return c, r.end()
}
