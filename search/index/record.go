package index

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
)

// Piece is a part of a note that is read at once: its message, or its attachments.
type Piece struct {
	Note note.ID
	Kind Kind
	Flags
	// Date is the note's date in Unix seconds. Length is the number of words.
	Date   int64
	Length uint32
	// Coded holds Count terms, encoded by AppendTerm.
	Coded []byte
	Count int
	// Pairs holds the pairs of adjacent words, ascending, if Flags has Paired.
	Pairs []Pair
}

// Kind is the kind of a piece.
type Kind uint8

// The kinds of piece.
const (
	Main Kind = iota
	Attachments
)

// Flags are properties of a piece.
type Flags uint8

// The flags. Mutable: the note may have had other words, so a match in the index must be checked in the text. Cut: the
// note has a word longer than its term, or its header was not read completely. HasAttachment: see text.Document.
// Paired: the pairs of the piece are known. Those of pieces from older versions of the index are not.
const (
	Mutable Flags = 1 << iota
	Cut
	HasAttachment
	flagAttachments // the piece is of that kind
	Paired
)

// Code describes the occurrences of a term in a piece: the fields, whether normalization changed more than the case,
// and a frequency class.
type Code uint32

// MakeCode returns a code.
func MakeCode(fields uint16, sure bool, count int) Code {
	c := Code(fields)<<3 | Code(countClass(count))
	if !sure {
		c |= 4
	}
	return c
}

// Fields returns the fields that contain the term.
func (c Code) Fields() uint16 { return uint16(c >> 3) }

// Sure reports whether all occurrences differ from the term only in case.
func (c Code) Sure() bool { return c&4 == 0 }

// Count returns the approximate number of occurrences: 1, 2, 4 or 8.
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

// usual is the code of most terms: one occurrence in the body. It is not stored.
const usual = Code(1) << 3

// AppendTerm appends the encoding of a term: its length, its bytes and its code.
func AppendTerm(dst, term []byte, c Code) []byte {
	dst = append(append(dst, byte(len(term))), term...)
	return binary.AppendUvarint(dst, uint64(c))
}

// cutTerm decodes the output of AppendTerm at the beginning of b.
func cutTerm(b []byte) (term []byte, c Code, rest []byte, ok bool) {
	if len(b) == 0 || len(b) <= 1+int(b[0]) {
		return nil, 0, nil, false
	}
	term, b = b[1:1+int(b[0])], b[1+int(b[0]):]
	v, n := binary.Uvarint(b)
	return term, Code(v), b[max(n, 0):], n > 0
}

// appendRecord appends the encoding of a piece: a header, the pairs if it has them, then the terms in any order.
func appendRecord(dst []byte, p *Piece) []byte {
	f := p.Flags
	if p.Kind == Attachments {
		f |= flagAttachments
	}
	dst = binary.AppendVarint(append(dst, byte(f)), p.Date)
	dst = binary.AppendUvarint(dst, uint64(p.Length))
	dst = binary.AppendUvarint(dst, uint64(p.Count))
	if f&Paired != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(p.Pairs)))
		for _, x := range p.Pairs {
			dst = binary.BigEndian.AppendUint32(dst, uint32(x))
		}
	}
	return append(dst, p.Coded...)
}

// readRecord decodes the output of appendRecord, but for the terms, which alias b.
func readRecord(id note.ID, b []byte) (*Piece, bool) {
	r := pack.Reader{B: b}
	f := Flags(r.Byte())
	p := &Piece{Note: id, Flags: f &^ flagAttachments, Date: r.Varint(), Length: uint32(r.Uvarint())}
	if f&flagAttachments != 0 {
		p.Kind = Attachments
	}
	p.Count = r.Count(2)
	if f&Paired != 0 {
		p.Pairs = make([]Pair, r.Count(4))
		for i := range p.Pairs {
			p.Pairs[i] = Pair(binary.BigEndian.Uint32(r.Take(4)))
		}
	}
	p.Coded = r.Take(len(r.B))
	return p, r.Done()
}
