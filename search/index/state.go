package index

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
)

// State is where a database stands: the build that answers, and perhaps one that is made beside it.
type State struct {
	Active, Next *Build
	// Made counts builds and segments: each number is given once.
	Made uint32
}

// Build is an index of one database.
//
// Invariant: the words of every note up to Upto are in it, but for those of changes behind Seq where it is
// not Done; where it is, for those behind the cursor of the whole index.
type Build struct {
	ID   uint32
	Upto note.ID
	Done bool
	Seq  uint64
	// MaxSeq is the highest sequence of a change that it has made something of: a store that never came so far is
	// another one.
	MaxSeq uint64
	Totals
	// Records counts the pieces that are in no segment yet, RecordBytes their rows.
	Records     uint32
	RecordBytes uint64
	Segments    []Segment
	// Again says that some notes were read more than once, with other words.
	Again bool
	// Writing is a segment that is being written, 0 for none: one that a crash left half.
	Writing uint32
}

// Totals count what was read.
type Totals struct {
	// Notes are those with words, Gone those of them that are gone since.
	Notes, Gone uint64
	// Text is bytes of text.
	Text                      uint64
	Encrypted, Broken, Beyond uint64
}

// Segment is a part of a build that changes no more.
type Segment struct {
	ID    uint32
	Docs  uint32
	Terms uint32
	Bytes uint64
}

// tier is the size class of a segment: each is eight times the one before.
func (s *Segment) tier() int {
	t := 0
	for n := s.Docs / recordsMax; n >= fanout; n /= fanout {
		t++
	}
	return t
}

func appendState(dst []byte, s *State) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.Made))
	for _, b := range []*Build{s.Active, s.Next} {
		if b == nil {
			dst = append(dst, 0)
			continue
		}
		dst = appendBuild(append(dst, 1), b)
	}
	return dst
}

func appendBuild(dst []byte, b *Build) []byte {
	flags := uint64(0)
	if b.Done {
		flags |= 1
	}
	if b.Again {
		flags |= 2
	}
	for _, v := range []uint64{
		uint64(b.ID), uint64(b.Upto), flags, b.Seq, b.MaxSeq, b.Notes, b.Gone, b.Text, b.Encrypted, b.Broken, b.Beyond,
		uint64(b.Records), b.RecordBytes, uint64(b.Writing), uint64(len(b.Segments)),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, s := range b.Segments {
		for _, v := range []uint64{uint64(s.ID), uint64(s.Docs), uint64(s.Terms), s.Bytes} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

func readState(b []byte) (*State, bool) {
	r := pack.Reader{B: b}
	s := &State{Made: uint32(r.Uvarint())}
	for _, at := range []**Build{&s.Active, &s.Next} {
		if r.Byte() == 1 {
			*at = readBuild(&r)
		}
	}
	return s, r.Done()
}

func readBuild(r *pack.Reader) *Build {
	b := &Build{ID: uint32(r.Uvarint()), Upto: note.ID(r.Uvarint())}
	flags := r.Uvarint()
	b.Done, b.Again, b.Seq, b.MaxSeq = flags&1 != 0, flags&2 != 0, r.Uvarint(), r.Uvarint()
	b.Totals = Totals{Notes: r.Uvarint(), Gone: r.Uvarint(), Text: r.Uvarint(), Encrypted: r.Uvarint(), Broken: r.Uvarint(), Beyond: r.Uvarint()}
	b.Records, b.RecordBytes, b.Writing = uint32(r.Uvarint()), r.Uvarint(), uint32(r.Uvarint())
	if n := r.Count(4); n > 0 {
		b.Segments = make([]Segment, n)
	}
	for i := range b.Segments {
		b.Segments[i] = Segment{ID: uint32(r.Uvarint()), Docs: uint32(r.Uvarint()), Terms: uint32(r.Uvarint()), Bytes: r.Uvarint()}
	}
	return b
}

// number gives the number of a build or a segment.
func (s *State) number() uint32 {
	s.Made++
	return s.Made
}

// Add adds totals.
func (t *Totals) Add(o *Totals) {
	t.Notes += o.Notes
	t.Gone += o.Gone
	t.Text += o.Text
	t.Encrypted += o.Encrypted
	t.Broken += o.Broken
	t.Beyond += o.Beyond
}
