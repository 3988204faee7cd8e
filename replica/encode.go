package replica

import (
	"encoding/binary"
	"fmt"

	"doublet/note"
	"doublet/note/pack"
	"doublet/store"
)

// The wire format is one version byte and then fields in a fixed order: counts and numbers as varints, strings with
// their length, ids as raw bytes. A field added by a later version is written and read only in that version, so each
// side can talk to one that is one version older.

// MaxNote is the maximum size of a note on the wire in bytes, without its objects. A larger note is set aside.
const MaxNote = 16 << 20

// Maximum lengths of lists and words on the wire.
const (
	maxHeads   = 10_000
	maxRefs    = 10_000
	maxRefused = 1000
	maxWord    = 100
)

func appendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

func appendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendBool(dst []byte, on bool) []byte {
	if on {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// reader decodes received data. It records any failure (see pack.Reader), so a page is decoded without checks in
// between.
type reader struct {
	pack.Reader
	v uint8
}

// read returns a reader for b and checks the version byte.
func read(b []byte) (*reader, error) {
	if len(b) == 0 {
		return nil, formatError("it is empty")
	}
	if b[0] < Oldest || b[0] > Version {
		return nil, fmt.Errorf("%w: it is of version %d, this side understands %d to %d", ErrVersion, b[0],
			Oldest, Version)
	}
	return &reader{pack.Reader{B: b[1:]}, b[0]}, nil
}

// end returns ErrFormat unless all data was read without failure.
func (r *reader) end() error {
	if !r.Done() {
		return ErrFormat
	}
	return nil
}

func appendRevision(dst []byte, r note.Revision) []byte {
	return append(binary.AppendUvarint(dst, r.Generation), r.Hash[:]...)
}

func (r *reader) revision() (rev note.Revision) {
	rev.Generation = r.Uvarint()
	r.Fixed(rev.Hash[:])
	return rev
}

// Flags of a note on the wire.
const (
	flagThin = 1 << iota
	flagFoldered
	flagThread
	flagAuthor
	flagMessage
	flagSummary
	flagVoid
)

// appendNote appends a note. If thin is true, it omits the content.
func appendNote(dst []byte, n *store.Remote, thin bool) []byte {
	var f byte
	set := func(on bool, flag byte) {
		if on {
			f |= flag
		}
	}
	set(thin, flagThin)
	set(n.Foldered, flagFoldered)
	set(n.Void, flagVoid)
	set(!n.Thread.IsZero(), flagThread)
	set(!n.Author.IsZero(), flagAuthor)
	set(!thin && len(n.Message) > 0, flagMessage)
	set(!thin && len(n.Summary) > 0, flagSummary)
	dst = append(append(dst, f, byte(n.Class)), n.UNID[:]...)
	dst = binary.AppendVarint(dst, n.Date)
	dst = binary.AppendUvarint(dst, n.Size)
	if f&flagThread != 0 {
		dst = append(dst, n.Thread[:]...)
	}
	if f&flagAuthor != 0 {
		dst = append(dst, n.Author[:]...)
	}
	dst = note.AppendTree(dst, n.Tree)
	dst = note.AppendState(dst, n.State)
	if thin {
		return dst
	}
	if f&flagMessage != 0 {
		dst = appendBytes(dst, n.Message)
	}
	if f&flagSummary != 0 {
		dst = appendBytes(dst, n.Summary)
	}
	leaves := liveLeaves(n)
	dst = binary.AppendUvarint(dst, uint64(len(leaves)))
	for _, rev := range leaves {
		dst = appendRevision(dst, rev)
		dst = appendBytes(dst, note.AppendContent(nil, n.Contents[rev]))
	}
	return dst
}

// liveLeaves returns the leaves whose content the note carries, in order.
func liveLeaves(n *store.Remote) []note.Revision {
	var out []note.Revision
	for _, l := range n.Tree.Leaves() {
		if !l.Deleted && n.Contents[l.Rev] != nil {
			out = append(out, l.Rev)
		}
	}
	return out
}

// note reads a note. The note aliases the input.
func (r *reader) note() (n *store.Remote, thin bool) {
	f := r.Byte()
	n = &store.Remote{Class: note.Class(r.Byte()), UNID: r.UNID(), Foldered: f&flagFoldered != 0, Void: f&flagVoid != 0}
	n.Date, n.Size = r.Varint(), r.Uvarint()
	if f&flagThread != 0 {
		n.Thread = r.UNID()
	}
	if f&flagAuthor != 0 {
		n.Author = r.UNID()
	}
	thin = f&flagThin != 0
	r.history(n)
	if thin {
		return n, true
	}
	n.Contents = map[note.Revision]*note.Content{}
	if f&flagMessage != 0 {
		n.Message = r.Bytes()
	}
	if f&flagSummary != 0 {
		n.Summary = r.Bytes()
	}
	leaves := map[note.Revision]bool{}
	for _, l := range n.Tree.Leaves() {
		leaves[l.Rev] = !l.Deleted
	}
	for range r.Count(19) {
		rev := r.revision()
		c, rest, err := note.ReadContent(r.Bytes())
		if err != nil || len(rest) != 0 || !leaves[rev] || !ordered(&c) {
			r.Spoil()
			return n, false
		}
		leaves[rev] = false // each leaf at most once
		n.Contents[rev] = &c
	}
	return n, false
}

// history reads the parts that every note has: its revisions and its state.
func (r *reader) history(n *store.Remote) {
	if r.Bad {
		return
	}
	var err error
	if n.Tree, r.B, err = note.ReadTree(r.B); err != nil || len(n.Tree) == 0 {
		r.Spoil()
		return
	}
	if n.State, r.B, err = note.ReadState(r.B); err != nil || !sane(n.State) {
		r.Spoil()
	}
}

// sane reports whether a state has only known kinds and is sorted, as the searches in it require.
func sane(s note.State) bool {
	for i, it := range s {
		switch it.Kind {
		case note.Keyword:
			if it.Key == "" || it.Value > note.On {
				return false
			}
		case note.Seen, note.Subscribed:
			if len(it.Key) != len(note.UNID{}) || it.Value > note.On {
				return false
			}
		case note.Member:
			if len(it.Key) != len(note.UNID{}) || it.Value > note.Deleted {
				return false
			}
		default:
			return false
		}
		if i > 0 && (s[i-1].Kind > it.Kind || s[i-1].Kind == it.Kind && s[i-1].Key >= it.Key) {
			return false
		}
	}
	return true
}

// ordered reports whether items are sorted by name, as the searches in them require.
func ordered(c *note.Content) bool {
	for i := 1; i < len(c.Items); i++ {
		if c.Items[i-1].Name >= c.Items[i].Name {
			return false
		}
	}
	return true
}
