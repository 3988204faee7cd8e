package index

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
)

// Piece is a part of a note whose words were read at once: the message, or its attachments.
type Piece struct {
	Note note.ID
	Kind Kind
	Flags
	// Date is the note's, Unix seconds; Length counts its words.
	Date   int64
	Length uint32
	Terms  []Term
	// Coded stands for Terms where a piece is written: what AppendTerm made of so many of them.
	Coded []byte
	Count int
}

// Kind tells the pieces of a note apart.
type Kind uint8

// The kinds of piece.
const (
	Main Kind = iota
	Attachments
)

// Flags are facts about a piece.
type Flags uint8

// The flags. Mutable: the note may have had other words, so that they are looked up in it again. Cut: it has a
// word that is longer than its term, or more of a header than was read. HasAttachment: as in text.Document.
const (
	Mutable Flags = 1 << iota
	Cut
	HasAttachment
	flagAttachments // the piece is of that kind
)

// Term is a word of a piece.
type Term struct {
	Text []byte
	Code Code
}

// Code says where in a piece a term stands and how often: fields, whether some of them came of more than a
// change of case, and a class of frequency.
type Code uint32

// MakeCode makes a code.
func MakeCode(fields uint16, sure bool, count int) Code {
	c := Code(fields)<<3 | Code(countClass(count))
	if !sure {
		c |= 4
	}
	return c
}

// Fields are the places where the term stands.
func (c Code) Fields() uint16 { return uint16(c >> 3) }

// Sure says that wherever the term stands only case was changed.
func (c Code) Sure() bool { return c&4 == 0 }

// Count is about how often it stands there.
func (c Code) Count() int { return [4]int{1, 2, 4, 8}[c&3] }

func countClass(n int) int {
	switch {
	case n <= 1:
		return 0
	case n == 2:
		return 1
	case n <= 5:
		return 2
	}
	return 3
}

// usual is the code of most terms: once in the body. It is not written.
const usual = Code(1) << 3

// AppendTerm appends the stored form of a term: its length, its bytes and its code.
func AppendTerm(dst, term []byte, c Code) []byte {
	dst = append(append(dst, byte(len(term))), term...)
	return binary.AppendUvarint(dst, uint64(c))
}

// appendRecord appends the stored form of a piece: what stands before the terms, then these, in no order.
func appendRecord(dst []byte, p *Piece) []byte {
	f := p.Flags
	if p.Kind == Attachments {
		f |= flagAttachments
	}
	dst = binary.AppendVarint(append(dst, byte(f)), p.Date)
	dst = binary.AppendUvarint(dst, uint64(p.Length))
	dst = binary.AppendUvarint(dst, uint64(p.Count))
	return append(dst, p.Coded...)
}

// readRecord reads what appendRecord wrote. Terms alias b.
func readRecord(id note.ID, b []byte) (*Piece, bool) {
	r := pack.Reader{B: b}
	f := Flags(r.Byte())
	p := &Piece{Note: id, Flags: f &^ flagAttachments, Date: r.Varint(), Length: uint32(r.Uvarint())}
	if f&flagAttachments != 0 {
		p.Kind = Attachments
	}
	if n := r.Count(2); n > 0 {
		p.Terms = make([]Term, n)
	}
	for i := range p.Terms {
		p.Terms[i] = Term{r.Take(int(r.Byte())), Code(r.Uvarint())}
	}
	return p, r.Done()
}
