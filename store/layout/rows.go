package layout

import (
	"encoding/binary"
	"slices"

	"doublet/note"
	"doublet/note/pack"
)

// Membership is the ledger's part of a note's place in a folder.
type Membership struct {
	Folder note.ID
	UID    uint32
	// Saved is when the note came into the folder, Unix seconds (RFC 8514).
	Saved int64
	// Deleted mirrors the membership's state: marked \Deleted.
	Deleted bool
}

// Note is the row of a note: everything that changes without its content, and what lists need of
// it. A flag change rewrites this row, about a hundred bytes, and never content.
type Note struct {
	UNID  note.UNID
	Class note.Class
	// Seq is the store's sequence of the latest change, Mod its MODSEQ, Created the MODSEQ of the
	// first.
	Seq     uint64
	Mod     note.ModSeq
	Created note.ModSeq
	// Shown is the MODSEQ at which a membership was marked \Deleted last, or no longer, or the note was Hidden or no longer;
	// 0 where that never happened. For clients that know no such mark the note came or went then.
	Shown note.ModSeq
	// Recipe is the stored message; 0 for notes that hold none. Size is its size in bytes, Date its
	// INTERNALDATE in Unix seconds, Thread its thread.
	Recipe note.RecipeID
	Size   uint64
	Date   int64
	Thread note.UNID
	// Author is who made the note; what Author access to one's own notes goes by.
	Author note.UNID
	// Stub marks a deleted note whose stub is still held for replicas.
	Stub bool
	// Foldered marks a note that lives only as long as it is in a folder.
	Foldered bool
	// Attached marks a note whose content names objects or has conflicts; of the others, content
	// need not be read when they go.
	Attached bool
	// Unnumbered marks a note that has changed since a home numbered it, or that none has numbered: it
	// has a row by the sequence of that change. Its members are those that were numbered last.
	Unnumbered bool
	Members    []Membership
	State      note.State
}

// Clone copies the row so that the copy can be changed.
func (n *Note) Clone() *Note {
	c := *n
	c.Members = slices.Clone(n.Members)
	return &c
}

// Listed says that the note has a row under its MODSEQ. A stub has none, unless what made it one is not
// numbered; one that never was numbered has MODSEQ 0.
func (n *Note) Listed() bool { return n.Mod != 0 && (!n.Stub || n.Unnumbered) }

// Member returns the note's place in a folder.
func (n *Note) Member(folder note.ID) (Membership, bool) {
	for _, m := range n.Members {
		if m.Folder == folder {
			return m, true
		}
	}
	return Membership{}, false
}

// Hidden says that the note is marked \Deleted in every folder that it is in: for clients that know no such mark it is
// not there.
func (n *Note) Hidden() bool {
	for _, m := range n.Members {
		if !m.Deleted {
			return false
		}
	}
	return len(n.Members) > 0
}

// Remarked says whether other memberships are marked \Deleted than were before, or the note is Hidden and was not, or was.
func (n *Note) Remarked(before *Note) bool {
	for _, m := range n.Members {
		if was, ok := before.Member(m.Folder); ok && was.Deleted != m.Deleted {
			return true
		}
	}
	return n.Hidden() != before.Hidden()
}

// SeenBy says whether a person has seen the note.
func (n *Note) SeenBy(person note.UNID) bool {
	v, _ := n.State.Get(note.Seen, string(person[:]))
	return v == note.On
}

// Keywords yields the note's keywords that are on.
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

// AppendNote appends the row's stored form.
func AppendNote(dst []byte, n *Note) []byte {
	var f byte
	if n.Stub {
		f |= noteStub
	}
	if n.Foldered {
		f |= noteFoldered
	}
	if n.Attached {
		f |= noteAttached
	}
	if n.Unnumbered {
		f |= noteUnnumbered
	}
	if n.Shown != 0 {
		f |= noteShown
	}
	dated := n.Recipe != 0 || n.Size != 0 || n.Date != 0 || !n.Thread.IsZero()
	if dated {
		f |= noteDated
	}
	if !n.Author.IsZero() {
		f |= noteAuthor
	}
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

// ReadNote reads a row.
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
	// Summary is what lists show, computed once from the content by who wrote it; the store does
	// not look inside.
	Summary []byte
}

// AppendContentRow appends the row's stored form: the summary first, so that it can be had alone.
func AppendContentRow(dst []byte, c *Content) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Summary)))
	dst = append(dst, c.Summary...)
	dst = note.AppendTree(dst, c.Tree)
	return note.AppendContent(dst, &c.Content)
}

// ReadSummary reads the summary alone. It aliases b.
func ReadSummary(b []byte) ([]byte, error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, note.ErrCorrupt
	}
	return b[k : k+int(n)], nil
}

// ReadContentRow reads the row. Values alias b.
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
	// Notes and Size count live notes and the bytes of their messages: what quotas go by.
	Notes uint64
	Size  uint64
	// Floor is the MODSEQ below which expunges are no longer known; Expunged counts those known.
	Floor    note.ModSeq
	Expunged uint64
	// LastUIDValidity is the highest UIDVALIDITY given to any folder, where the database is shared.
	LastUIDValidity uint32
}

// AppendCounters appends the row's stored form.
func AppendCounters(dst []byte, c *Counters) []byte {
	for _, v := range []uint64{uint64(c.NextNote), c.Seq, c.Notes, c.Size, uint64(c.Floor), c.Expunged, uint64(c.LastUIDValidity)} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = note.AppendLedger(dst, &c.Ledger)
	if c.Ledger.Partial {
		dst = binary.AppendUvarint(dst, uint64(c.Ledger.CompleteUID))
	}
	return dst
}

// ReadCounters reads the row.
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
		l.CompleteUID = l.UID // earlier rows do not have it
	default:
		l.CompleteUID = uint32(r.Uvarint())
	}
	if r.Bad || len(r.B) != 0 {
		err = note.ErrCorrupt
	}
	return c, err
}

// SeenCount is how many notes of a folder one person has seen.
type SeenCount struct {
	Person note.UNID
	Count  uint32
}

// Chunk counts the members of a folder within 1,024 UIDs.
type Chunk struct {
	Total uint32
	Seen  []SeenCount
}

// SeenBy is the number that a person has seen.
func SeenBy(list []SeenCount, person note.UNID) uint32 {
	for _, s := range list {
		if s.Person == person {
			return s.Count
		}
	}
	return 0
}

// AddSeen changes a person's number; entries at 0 vanish. The list passed in is not changed.
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
	if delta <= 0 { // a count that damage has taken away does not become four billion
		return out
	}
	return append(out, SeenCount{person, uint32(delta)})
}

// AppendChunk appends the row's stored form.
func AppendChunk(dst []byte, c *Chunk) []byte {
	return appendSeen(binary.AppendUvarint(dst, uint64(c.Total)), c.Seen)
}

// ReadChunk reads the row.
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

// Folder is the head of a folder: what LIST, STATUS and SELECT show, without a scan.
type Folder struct {
	Note note.ID
	UNID note.UNID
	// Name is the full path, separator /. SpecialUse is the attribute without its backslash.
	Name, SpecialUse string
	UIDValidity      uint32
	// UIDNext is the last UID ever given in the folder + 1.
	UIDNext uint32
	// Told is the first UID that no session has been told of as recent (RFC 3501 section 2.3.2): UIDNext where sessions
	// know all messages, as in rows of older versions.
	Told    uint32
	Total   uint32
	Deleted uint32
	Size    uint64
	// Mod is the MODSEQ of the latest change in the folder.
	Mod  note.ModSeq
	Seen []SeenCount
	// Subscribed lists the persons who subscribed to it.
	Subscribed []note.UNID
	// ACL replaces the database's list here, where HasACL is set.
	HasACL bool
	ACL    note.ACL
	// Keywords lists keywords that notes have had while they were in the folder, sorted: see AddKeywords. Rows of older
	// versions have none, and take in those of each note when it changes next.
	Keywords []string
}

// The bounds of Keywords of a Folder, whose row every change in the folder rewrites.
const (
	MaxFolderKeywords     = 100
	maxFolderKeywordBytes = 4 << 10
)

// AddKeywords takes in the keywords of a note that is in the folder, as far as there is room. The list that was is not
// changed.
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

// KnowsKeywords says that AddKeywords of the note would change nothing, room aside.
func (f *Folder) KnowsKeywords(n *Note) bool {
	for k := range n.Keywords {
		if _, ok := slices.BinarySearch(f.Keywords, k); !ok {
			return false
		}
	}
	return true
}

// The flags behind the subscriptions of a folder's row.
const (
	folderACL = 1 << iota
	folderKeywords
	folderTold
)

// AppendFolder appends the row's stored form.
func AppendFolder(dst []byte, f *Folder) []byte {
	dst = append(dst, f.UNID[:]...)
	dst = appendString(appendString(dst, f.Name), f.SpecialUse)
	for _, v := range []uint64{uint64(f.UIDValidity), uint64(f.UIDNext), uint64(f.Total), uint64(f.Deleted), f.Size, uint64(f.Mod)} {
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

// ReadFolder reads the row of the folder with note id id.
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

// Change is the row under a MODSEQ: what it was given for.
//
// Folder is NoFolder at a replica that was told of the end of a place in a folder which was gone by then.
type Change struct {
	Note note.ID
	// Expunged says that the note left Folder, where it had UID; Gone that it left the database.
	Expunged bool
	Gone     bool
	Folder   note.ID
	UID      uint32
	UNID     note.UNID
	// Time is when, Unix seconds: expunges are kept for a time.
	Time int64
	// Class, Thread, Created and Shown are those of a note that is gone: what it was, and since when; Hidden says that it
	// was. They are zero in rows of older versions.
	Class          note.Class
	Thread         note.UNID
	Created, Shown note.ModSeq
	Hidden         bool
}

// NoFolder is no folder's id.
const NoFolder note.ID = 1<<64 - 1

// AppendChange appends the row's stored form.
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

// The kinds of change rows: of a note, of the end of a membership, of the last one, and the same with what the note was,
// and with whether it was hidden.
const (
	changeNote = iota
	changeExpunged
	changeGoneBare
	changeGone
	changeGoneShown
)

// ReadChange reads the row.
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
