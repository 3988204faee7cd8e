package index

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
)

// State is the state of a database: the build that answers queries, and possibly a new one that will replace it.
type State struct {
	Active, Next *Build
	// Made counts the numbers assigned to builds and segments. A number is never reused.
	Made uint32
}

// Growing returns the build that notes are added to until it is complete: the new one, or if there is none the active
// one. It is nil if there is neither.
func (s *State) Growing() *Build {
	if s.Next != nil {
		return s.Next
	}
	return s.Active
}

// Build is an index of one database.
//
// Invariant: a build contains the words of every note up to Upto, except for changes after the cursor of the whole
// index. If Seq is not 0, it may also lack changes after Seq. Done means that the build has reached the last note and
// caught up; the feed then adds later notes.
type Build struct {
	ID   uint32
	Upto note.ID
	Done bool
	Seq  uint64
	// MaxSeq is the highest sequence of a change in the build. A store that has not reached it has another history, for
	// example because it was restored from a backup.
	MaxSeq uint64
	Totals
	// Records and RecordBytes are the number and the bytes of the records that are not in a segment yet.
	Records     uint32
	RecordBytes uint64
	Segments    []Segment
	// Again is set if some notes were read more than once, with different words.
	Again bool
	// Writing is the number of the segment that is being written, or 0. After a crash, that segment is incomplete.
	Writing uint32
}

// Totals holds counts of a build.
type Totals struct {
	// Notes counts the notes with words, Gone those of them that no longer exist.
	Notes, Gone uint64
	// Text is the size of the text, in bytes.
	Text                      uint64
	Encrypted, Broken, Beyond uint64
}

// Segment is an immutable part of a build.
type Segment struct {
	ID    uint32
	Docs  uint32
	Terms uint32
	Bytes uint64
}

// tier returns the size class of a segment. Each class is eight times as large as the one before.
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
	b.Totals = Totals{Notes: r.Uvarint(), Gone: r.Uvarint(), Text: r.Uvarint(), Encrypted: r.Uvarint(),
		Broken: r.Uvarint(), Beyond: r.Uvarint()}
	b.Records, b.RecordBytes, b.Writing = uint32(r.Uvarint()), r.Uvarint(), uint32(r.Uvarint())
	if n := r.Count(4); n > 0 {
		b.Segments = make([]Segment, n)
	}
	for i := range b.Segments {
		b.Segments[i] = Segment{ID: uint32(r.Uvarint()), Docs: uint32(r.Uvarint()), Terms: uint32(r.Uvarint()),
			Bytes: r.Uvarint()}
	}
	return b
}

// number assigns the next number for a build or a segment.
func (s *State) number() uint32 {
	s.Made++
	return s.Made
}

// Add adds o to the counts.
func (t *Totals) Add(o *Totals) {
	t.Notes += o.Notes
	t.Gone += o.Gone
	t.Text += o.Text
	t.Encrypted += o.Encrypted
	t.Broken += o.Broken
	t.Beyond += o.Beyond
}
