package replica

import (
	"encoding/binary"

	"doublet/note"
	"doublet/store"
)

// AppendLedgerPage appends the wire form, in version v, of a ledger page.
func AppendLedgerPage(dst []byte, v uint8, p *LedgerPage) []byte {
	return p.append(append(dst, v), v)
}

// ReadLedgerPage reads the output of AppendLedgerPage. Its notes alias b.
func ReadLedgerPage(b []byte) (*LedgerPage, error) {
	r, err := read(b)
	if err != nil {
		return nil, err
	}
	p := r.ledgerPage()
	return p, r.end()
}

func (p *LedgerPage) append(dst []byte, v uint8) []byte {
	l := &p.LedgerPage
	dst = binary.AppendUvarint(appendPeer(dst, p.Peer), l.Seq)
	for _, m := range []note.ModSeq{l.From, l.To, l.Floor} {
		dst = binary.AppendUvarint(dst, uint64(m))
	}
	dst = appendBool(appendBool(dst, l.More), l.Whole)
	dst = appendInfo(appendPosition(dst, &l.Of), l.Info)
	dst = binary.AppendUvarint(dst, uint64(len(l.Damaged)))
	for _, id := range l.Damaged {
		dst = binary.AppendUvarint(dst, uint64(id))
	}
	for _, list := range [][]store.Numbered{l.Notes, l.Again} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for i := range list {
			dst = appendNumbered(dst, &list[i])
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(l.Expunged)))
	for i := range l.Expunged {
		dst = appendExpunge(dst, &l.Expunged[i])
	}
	if v < 2 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(l.Told)))
	for _, t := range l.Told {
		dst = binary.AppendUvarint(append(dst, t.Folder[:]...), uint64(t.UID))
	}
	return dst
}

func appendNumbered(dst []byte, n *store.Numbered) []byte {
	dst = appendNote(dst, &n.Remote, n.Contents == nil)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(n.Mod)), uint64(n.Created))
	dst = binary.AppendUvarint(appendBool(dst, n.Ahead), uint64(len(n.Members)))
	for _, m := range n.Members {
		dst = appendBool(append(dst, m.Folder[:]...), m.Deleted)
		dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(m.UID)), m.Saved)
	}
	if n.Folder == nil {
		return appendBool(dst, false)
	}
	dst = binary.AppendUvarint(appendBool(dst, true), uint64(n.Folder.UIDValidity))
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(n.Folder.UIDNext)), uint64(n.Folder.Mod))
}

func appendExpunge(dst []byte, e *store.Expunge) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.Mod))
	dst = append(append(dst, e.Note[:]...), e.Folder[:]...)
	dst = binary.AppendUvarint(dst, uint64(e.UID))
	dst = binary.AppendVarint(appendBool(dst, e.Gone), e.Time)
	dst = append(append(dst, byte(e.Class)), e.Thread[:]...)
	dst = binary.AppendUvarint(dst, uint64(e.Created))
	if e.Stub == nil {
		return appendBool(dst, false)
	}
	return appendNote(appendBool(dst, true), e.Stub, e.Stub.Contents == nil)
}

func (r *reader) ledgerPage() *LedgerPage {
	p := &LedgerPage{Peer: r.peer()}
	l := &p.LedgerPage
	l.Seq = r.Uvarint()
	l.From, l.To, l.Floor = note.ModSeq(r.Uvarint()), note.ModSeq(r.Uvarint()), note.ModSeq(r.Uvarint())
	l.More, l.Whole = r.Bool(), r.Bool()
	l.Of, l.Info = r.position(), r.info()
	for range r.Count(1) {
		l.Damaged = append(l.Damaged, note.ID(r.Uvarint()))
	}
	l.Notes, l.Again = r.numberedList(), r.numberedList()
	for range r.Count(1 + 32 + 1 + 1 + 1 + 17 + 1 + 1) {
		l.Expunged = append(l.Expunged, r.expunge())
	}
	if r.v < 2 {
		return p
	}
	for range r.Count(16 + 1) {
		l.Told = append(l.Told, store.ToldFolder{Folder: r.UNID(), UID: r.Uvarint32()})
	}
	return p
}

func (r *reader) numberedList() (list []store.Numbered) {
	for range r.Count(minNote + 5) {
		list = append(list, r.numbered())
	}
	return list
}

func (r *reader) numbered() store.Numbered {
	remote, _ := r.note()
	n := store.Numbered{Remote: *remote, Mod: note.ModSeq(r.Uvarint()), Created: note.ModSeq(r.Uvarint()),
		Ahead: r.Bool()}
	for range r.Count(19) {
		m := store.NumberedMember{Folder: r.UNID(), Deleted: r.Bool(), UID: r.Uvarint32(), Saved: r.Varint()}
		if m.UID > note.MaxUID {
			r.Spoil()
		}
		n.Members = append(n.Members, m)
	}
	if r.Bool() {
		n.Folder = &store.NumberedFolder{UIDValidity: r.Uvarint32(), UIDNext: r.Uvarint32(),
			Mod: note.ModSeq(r.Uvarint())}
	}
	return n
}

func (r *reader) expunge() store.Expunge {
	e := store.Expunge{Mod: note.ModSeq(r.Uvarint()), Note: r.UNID(), Folder: r.UNID(), UID: r.Uvarint32(),
		Gone: r.Bool(), Time: r.Varint()}
	e.Class, e.Thread, e.Created = note.Class(r.Byte()), r.UNID(), note.ModSeq(r.Uvarint())
	if r.Bool() {
		e.Stub, _ = r.note()
	}
	return e
}
