package replica

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
	"doublet/store"
	"doublet/store/layout"
)

func appendPeer(dst []byte, p Peer) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.Store)
	return binary.BigEndian.AppendUint64(dst, uint64(p.Replica))
}

func (r *reader) peer() Peer {
	return Peer{Store: r.Uint64(), Replica: note.ReplicaID(r.Uint64())}
}

func appendUNIDs(dst []byte, list []note.UNID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, u := range list {
		dst = append(dst, u[:]...)
	}
	return dst
}

func (r *reader) unids() []note.UNID {
	n := r.AtMost(maxHeads, 16)
	if n == 0 {
		return nil
	}
	list := make([]note.UNID, n)
	for i := range list {
		list[i] = r.UNID()
	}
	return list
}

func appendRefused(dst []byte, list []Refused) []byte {
	list = list[:min(len(list), maxRefused)]
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, x := range list {
		dst = append(dst, x.UNID[:]...)
		dst = appendString(dst, x.Kind[:min(len(x.Kind), maxWord)])
		dst = appendString(dst, x.Text[:min(len(x.Text), maxText)])
	}
	return dst
}

func (r *reader) refused() (list []Refused) {
	for range r.AtMost(maxRefused, 18) {
		list = append(list, Refused{UNID: r.UNID(), Kind: r.Word(maxWord), Text: r.Word(maxText)})
	}
	return list
}

// AppendGreeting appends the wire form of a Greeting. It is the same in every version, because two sides use it to
// negotiate the version.
func AppendGreeting(dst []byte, g *Greeting) []byte {
	dst = append(dst, g.Version, g.Oldest)
	dst = appendPeer(dst, g.Peer)
	dst = appendString(appendString(dst, g.Title), g.Kind)
	dst = append(dst, g.Owner[:]...)
	dst = appendBool(appendBool(dst, g.Shared), g.Leads)
	dst = appendPosition(dst, &g.Position)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, g.Seq), g.Notes)
	dst = appendCursor(dst, g.Seen)
	dst = binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, g.Given.Store), g.Given.Seq)
	dst = appendSelection(dst, &g.Select)
	return appendUNIDs(append(dst, byte(g.May)), g.Aside)
}

// ReadGreeting reads the output of AppendGreeting. It ignores fields that a later version has appended.
func ReadGreeting(b []byte) (Greeting, error) {
	r := &reader{Reader: pack.Reader{B: b}}
	g := Greeting{Version: r.Byte(), Oldest: r.Byte()}
	if r.v = g.Version; !r.Bad && g.Oldest > Version {
		_, err := speak(Version, Oldest, &g)
		return g, err
	}
	g.Peer = r.peer()
	g.Title, g.Kind = r.Word(maxText), r.Word(maxWord)
	g.Owner = r.UNID()
	g.Shared, g.Leads = r.Bool(), r.Bool()
	g.Position = r.position()
	g.Seq, g.Notes = r.Uvarint(), r.Uvarint()
	g.Seen = r.cursor()
	g.Given = Given{Store: r.Uint64(), Seq: r.Uvarint()}
	g.Select = r.selection()
	g.May, g.Aside = May(r.Byte()), r.unids()
	if r.Bad || g.Version <= Version && len(r.B) != 0 || g.Version == 0 || g.Oldest > g.Version {
		return Greeting{}, formatError("a greeting")
	}
	_, err := speak(Version, Oldest, &g)
	return g, err
}

func appendPosition(dst []byte, p *store.Position) []byte {
	return binary.AppendUvarint(note.AppendLedger(dst, &p.Ledger), uint64(p.LastUIDValidity))
}

func (r *reader) position() (p store.Position) {
	if r.Bad {
		return p
	}
	var err error
	if p.Ledger, r.B, err = note.ReadLedger(r.B); err != nil || p.Slot >= note.Slots {
		r.Spoil()
		return p
	}
	p.LastUIDValidity = r.Uvarint32()
	return p
}

func appendCursor(dst []byte, c store.Cursor) []byte {
	return binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, c.Incarnation), c.Seq)
}

func (r *reader) cursor() store.Cursor {
	return store.Cursor{Incarnation: r.Uint64(), Seq: r.Uvarint()}
}

func appendQuery(dst []byte, q *Query) []byte {
	dst = appendCursor(append(dst, byte(q.Scope)), q.After)
	dst = appendUNIDs(dst, q.Only)
	dst = binary.AppendUvarint(dst, uint64(q.Limit))
	return appendSelection(dst, &q.Select)
}

func (r *reader) query() Query {
	q := Query{Scope: Scope(r.Byte()), After: r.cursor(), Only: r.unids(), Limit: int(r.Uvarint32())}
	q.Select = r.selection()
	if q.Scope > Folders {
		r.Spoil()
	}
	return q
}

// minHead is the minimum size of a head in bytes.
const minHead = 1 + 16 + 16 + 1 + 1

func appendHeads(dst []byte, list []Head) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for i := range list {
		h := &list[i]
		dst = binary.AppendUvarint(dst, h.Seq)
		dst = append(append(dst, h.UNID[:]...), h.Version[:]...)
		dst = binary.AppendUvarint(appendBool(dst, h.Out), uint64(len(h.Leaves)))
		for _, l := range h.Leaves {
			dst = appendRevision(dst, l)
		}
	}
	return dst
}

func (r *reader) heads() []Head {
	n := r.AtMost(maxHeads, minHead)
	if n == 0 {
		return nil
	}
	list := make([]Head, n)
	for i := range list {
		h := &list[i]
		h.Seq, h.UNID = r.Uvarint(), r.UNID()
		r.Fixed(h.Version[:])
		h.Out = r.Bool()
		for range r.Count(17) {
			h.Leaves = append(h.Leaves, r.revision())
		}
	}
	return list
}

func appendHeadPage(dst []byte, p *HeadPage) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, p.From), p.To)
	dst = appendRefused(appendHeads(appendBool(dst, p.More), p.Heads), p.Refused)
	return appendInfo(dst, p.Info)
}

// appendInfo appends the stored form of a database's properties with its length; nil has length 0.
func appendInfo(dst []byte, i *layout.Info) []byte {
	if i == nil {
		return append(dst, 0)
	}
	return appendBytes(dst, layout.AppendInfo(nil, i.Sent()))
}

func (r *reader) info() *layout.Info {
	b := r.Bytes()
	if len(b) == 0 {
		return nil
	}
	i, err := layout.ReadInfo(b)
	if err != nil {
		r.Spoil()
	}
	return i
}

func (r *reader) headPage() HeadPage {
	p := HeadPage{From: r.Uvarint(), To: r.Uvarint(), More: r.Bool()}
	p.Heads, p.Refused = r.heads(), r.refused()
	p.Info = r.info()
	if p.To < p.From {
		r.Spoil()
	}
	return p
}

func appendWants(dst []byte, list []Want) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, w := range list {
		dst = append(dst, byte(w))
	}
	return dst
}

func (r *reader) wants() []Want {
	list := make([]Want, r.AtMost(maxHeads, 1))
	for i := range list {
		if list[i] = Want(r.Byte()); list[i] > Buried {
			r.Spoil()
		}
	}
	return list
}

func appendAsks(dst []byte, list []Ask) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, a := range list {
		dst = appendBool(append(dst, a.UNID[:]...), a.Thin)
	}
	return dst
}

func (r *reader) asks() []Ask {
	list := make([]Ask, r.AtMost(maxHeads, 17))
	for i := range list {
		list[i] = Ask{UNID: r.UNID(), Thin: r.Bool()}
	}
	return list
}

// AppendChangePage appends the wire form, in version v, of a page of notes.
func AppendChangePage(dst []byte, v uint8, p *ChangePage) []byte {
	return p.append(append(dst, v))
}

func (p *ChangePage) append(dst []byte) []byte {
	dst = binary.AppendUvarint(appendPeer(dst, p.From), uint64(p.Left))
	dst = appendInfo(appendRefused(dst, p.Refused), p.Info)
	dst = binary.AppendUvarint(dst, uint64(len(p.Notes)))
	for i := range p.Notes {
		dst = appendNote(dst, p.Notes[i].Note, p.Notes[i].Thin)
	}
	return dst
}

// ReadChangePage reads the output of AppendChangePage. Its notes alias b.
func ReadChangePage(b []byte) (*ChangePage, error) {
	r, err := read(b)
	if err != nil {
		return nil, err
	}
	p := r.changePage()
	return p, r.end()
}

// minNote is the minimum size of a note: flags, class, UNID, date, size, a history of one revision, an empty state.
const minNote = 1 + 1 + 16 + 1 + 1 + 21 + 1

func (r *reader) changePage() *ChangePage {
	p := &ChangePage{From: r.peer(), Left: int(r.Uvarint32()), Refused: r.refused(), Info: r.info()}
	for range r.AtMost(maxHeads, minNote) {
		n, thin := r.note()
		p.Notes = append(p.Notes, Change{Thin: thin, Note: n})
	}
	return p
}

func appendRefs(dst []byte, list []store.ObjectRef) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, x := range list {
		dst = appendRef(dst, x)
	}
	return dst
}

func appendRef(dst []byte, x store.ObjectRef) []byte {
	return binary.AppendUvarint(append(dst, x.Digest[:]...), uint64(x.Size))
}

func (r *reader) ref() (x store.ObjectRef) {
	r.Fixed(x.Digest[:])
	x.Size = r.Uvarint()
	return x
}

func (r *reader) refs() (list []store.ObjectRef) {
	for range r.AtMost(maxRefs, 33) {
		list = append(list, r.ref())
	}
	return list
}

func appendLacks(dst []byte, list []Lack) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, x := range list {
		dst = binary.AppendUvarint(appendRef(dst, x.ObjectRef), x.Have)
	}
	return dst
}

func (r *reader) lacks() (list []Lack) {
	for range r.AtMost(maxRefs, 34) {
		list = append(list, Lack{ObjectRef: r.ref(), Have: r.Uvarint()})
	}
	return list
}

func (a *Ack) append(dst []byte) []byte {
	for _, n := range []int{a.Added, a.Updated, a.Deleted} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	dst = appendRefs(appendUNIDs(dst, a.Again), a.Missing)
	return appendPosition(appendRefused(dst, a.Refused), &a.Position)
}

func (r *reader) ack() Ack {
	a := Ack{Added: int(r.Uvarint32()), Updated: int(r.Uvarint32()), Deleted: int(r.Uvarint32())}
	a.Again, a.Missing, a.Refused = r.unids(), r.refs(), r.refused()
	a.Position = r.position()
	return a
}

func (m *Mark) append(dst []byte) []byte {
	dst = appendBool(appendBool(appendPeer(dst, m.Peer), m.Knows), m.Gives)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, m.Received), m.Given)
	dst = appendString(appendSelection(dst, &m.Select), m.Name[:min(len(m.Name), maxText)])
	return appendRefused(appendBool(dst, m.Aside != nil), m.Aside)
}

func (r *reader) mark() Mark {
	m := Mark{Peer: r.peer(), Knows: r.Bool(), Gives: r.Bool(), Received: r.Uvarint(), Given: r.Uvarint()}
	m.Select, m.Name = r.selection(), r.Word(maxText)
	there := r.Bool()
	if m.Aside = r.refused(); there && m.Aside == nil {
		m.Aside = []Refused{}
	}
	return m
}
