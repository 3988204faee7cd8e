package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"doublet/note"
	"doublet/store/layout"
	"doublet/store/object"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// Stored is a stored message, open for reading. It stays readable after its reader has ended, as long as the note
// lives. It holds nothing in memory but the recipe.
type Stored struct {
	s     *objects
	size  uint64
	steps []step
}

type step struct {
	kind    byte
	inline  []byte
	digest  note.Digest
	key     *sealKey // that the object is stored with
	loc     object.Location
	size    int64 // of the object
	lineLen int
	final   bool
	start   int64 // in the message
	length  int64
}

// Message opens the message of a note. n is the note's row, read by the caller.
func (r *Reader) Message(n *layout.Note) (*Stored, error) {
	row, fresh := r.messageUnderWay(n)
	var k *sealKey
	switch {
	case fresh != nil:
		k = fresh.key
	case n.Recipe == 0:
		return nil, ErrNotFound
	default:
		var err error
		if row, k, err = r.s.storedRecipe(r.eng, n.Recipe); err != nil {
			return nil, err
		}
	}
	st, err := parseRecipe(r.s.objects, k, row)
	if err != nil {
		return nil, err
	}
	for i := range st.steps {
		x := &st.steps[i]
		if x.kind == stepInline {
			continue
		}
		if fresh == nil {
			x.loc, err = r.s.find(r.eng, k, x.digest)
		} else if x.loc, err = fresh.located(k.name(x.digest)); err != nil {
			x.loc, err = r.s.find(r.eng, k, x.digest)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: object %s: %w", ErrDamaged, x.digest, err)
		}
	}
	return st, nil
}

// Attachment opens an attachment that a note references, as Message opens a message.
func (r *Reader) Attachment(id note.ID, d note.Digest, size int64) (*Stored, error) {
	c, err := r.Content(id)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.Content.Attachments,
		func(a note.Attachment) bool { return a.Digest == d && int64(a.Size) == size }) {
		return nil, ErrNotFound
	}
	loc, k, err := r.findAttached(d)
	if err != nil {
		return nil, fmt.Errorf("%w: object %s: %w", ErrDamaged, d, err)
	}
	return &Stored{s: r.s.objects, size: uint64(size), steps: []step{{kind: stepObject, digest: d, key: k, loc: loc,
		size: size, length: size}}}, nil
}

// storedRecipe returns the recipe with an id, not sealed, and the key that its objects are stored with.
func (o *objects) storedRecipe(r pebble.Reader, id note.RecipeID) ([]byte, *sealKey, error) {
	key := layout.NumberKey(layout.SpaceRecipe, uint64(id))
	v, err := getValue(r, key)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: recipe %d: %w", ErrDamaged, id, err)
	}
	return o.unsealRecipe(key, v)
}

// messageUnderWay returns the recipe of a note that this update creates.
func (r *rows) messageUnderWay(n *layout.Note) ([]byte, *Message) {
	for _, t := range r.dirty {
		if t.row == n && t.message != nil && t.message.recipe == 0 {
			return t.message.row, t.message
		}
	}
	return nil, nil
}

// located returns the location of an object that the message has added and that no index row references yet, by its
// name.
func (m *Message) located(name note.Digest) (object.Location, error) {
	for _, p := range m.objects {
		if p.name == name && p.isNew {
			return p.loc, nil
		}
	}
	return object.Location{}, ErrNotFound
}

// parseRecipe parses a recipe that is not sealed. Its objects are stored with the key k.
func parseRecipe(s *objects, k *sealKey, b []byte) (*Stored, error) {
	st := &Stored{s: s}
	bad := fmt.Errorf("%w: recipe", ErrDamaged)
	if len(b) < 33 {
		return nil, bad
	}
	size, n := binary.Uvarint(b[32:])
	if n <= 0 {
		return nil, bad
	}
	st.size = size
	b = b[32+n:]
	at := int64(0)
	for len(b) > 0 {
		x, rest, ok := parseStep(b)
		if !ok {
			return nil, bad
		}
		x.start, x.key = at, k
		at += x.length
		b = rest
		st.steps = append(st.steps, x)
	}
	if at != int64(size) {
		return nil, bad
	}
	return st, nil
}

func parseStep(b []byte) (x step, rest []byte, ok bool) {
	x.kind, b = b[0], b[1:]
	if x.kind == stepInline {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return x, nil, false
		}
		x.inline, x.length = b[k:k+int(n)], int64(n)
		return x, b[k+int(n):], true
	}
	if len(b) < 33 || x.kind > stepBase64 {
		return x, nil, false
	}
	copy(x.digest[:], b)
	n, k := binary.Uvarint(b[32:])
	if k <= 0 || n > object.MaxSize {
		return x, nil, false
	}
	x.size, b = int64(n), b[32+k:]
	x.length = x.size
	if x.kind == stepBase64 {
		form, k := binary.Uvarint(b)
		if k <= 0 || form>>1 == 0 || form>>1 > 1000 {
			return x, nil, false
		}
		x.lineLen, x.final, b = int(form>>1), form&1 == 1, b[k:]
		x.length = base64Length(x.size, x.lineLen, x.final)
	}
	return x, b, true
}

// base64Length returns the length of size bytes encoded in lines of base64 with CRLF between them.
func base64Length(size int64, lineLen int, final bool) int64 {
	chars := (size + 2) / 3 * 4
	n := chars
	if lines := (chars + int64(lineLen) - 1) / int64(lineLen); lines > 0 {
		n += 2 * (lines - 1)
	}
	if final {
		n += 2
	}
	return n
}

// Size returns the message's size in bytes.
func (m *Stored) Size() int64 { return int64(m.size) }

// kept returns the step whose base64 form is exactly the bytes [off, end), or nil if there is none.
func (m *Stored) kept(off, end int64) *step {
	for i := range m.steps {
		if x := &m.steps[i]; x.kind == stepBase64 && x.start == off && x.start+x.length == end {
			return x
		}
	}
	return nil
}

// Decoded returns the decoded size of the bytes [off, end) of the message. ok is false if they are not stored decoded.
func (m *Stored) Decoded(off, end int64) (size int64, ok bool) {
	x := m.kept(off, end)
	if x == nil {
		return 0, false
	}
	return x.size, true
}

// AppendDecoded appends n bytes of the decoded part, starting at offset at; fewer at its end. off and end are as in
// Decoded.
func (m *Stored) AppendDecoded(dst []byte, off, end, at, n int64) ([]byte, error) {
	x := m.kept(off, end)
	if x == nil {
		return dst, ErrNotFound
	}
	at = min(max(at, 0), x.size)
	return m.s.readObject(x.loc, x.key, x.digest, at, min(n, x.size-at), dst)
}

// Whole returns the message without a copy if its recipe holds all of it, as it does for messages without large parts.
// The caller must not change it.
func (m *Stored) Whole() (raw []byte, ok bool) {
	if len(m.steps) == 1 && m.steps[0].kind == stepInline {
		return m.steps[0].inline, true
	}
	return nil, false
}

// AppendRange appends the bytes [off, off+n) of the message, fewer at its end.
func (m *Stored) AppendRange(dst []byte, off, n int64) ([]byte, error) {
	off = max(off, 0)
	end := int64(m.size)
	if n < end-off {
		end = off + n
	}
	for i := range m.steps {
		x := &m.steps[i]
		lo, hi := max(off, x.start), min(end, x.start+x.length)
		if lo >= hi {
			continue
		}
		var err error
		if dst, err = m.appendStep(dst, x, lo-x.start, hi-x.start); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Reach returns ErrAway if a part of the bytes [off, off+n) is in an evicted segment whose copy cannot be read now. It
// is for callers that announce the bytes before they read them. It reads nothing if no segment was evicted.
func (m *Stored) Reach(off, n int64) error {
	if n <= 0 {
		return nil
	}
	for i := range m.steps {
		x := &m.steps[i]
		if x.kind == stepInline || x.start >= off+n || x.start+x.length <= off ||
			!m.s.obj.Eviction.Away(x.loc.Segment) {
			continue
		}
		if _, err := m.s.readObject(x.loc, x.key, x.digest, 0, 1, nil); errors.Is(err, ErrAway) {
			return err
		}
	}
	return nil
}

func (m *Stored) appendStep(dst []byte, x *step, lo, hi int64) ([]byte, error) {
	switch x.kind {
	case stepInline:
		return append(dst, x.inline[lo:hi]...), nil
	case stepObject:
		return m.s.readObject(x.loc, x.key, x.digest, lo, hi-lo, dst)
	}
	// Encode the whole lines around the range, then cut the range out of them. All lines have the same length, so their
	// offset in the object can be computed.
	line := int64(x.lineLen) + 2
	first := lo / line
	last := (hi + line - 1) / line
	from := first * int64(x.lineLen) / 4 * 3
	to := min(last*int64(x.lineLen)/4*3, x.size)
	data := takeScratch()
	defer data.give()
	raw, err := m.s.readObject(x.loc, x.key, x.digest, from, to-from, data.b)
	if err != nil {
		return dst, err
	}
	data.b = raw
	if lo == 0 && hi == x.length {
		return mime.AppendBase64Lines(dst, raw, x.lineLen, x.final), nil
	}
	text := mime.AppendBase64Lines(nil, raw, x.lineLen, to < x.size || x.final)
	start := lo - first*line
	if start > int64(len(text)) || start+hi-lo > int64(len(text)) {
		return dst, fmt.Errorf("%w: base64 part", ErrDamaged)
	}
	return append(dst, text[start:start+hi-lo]...), nil
}

// WriteTo writes the whole message, one part at a time.
func (m *Stored) WriteTo(w io.Writer) (int64, error) {
	var sum int64
	for i := range m.steps {
		x := &m.steps[i]
		b := x.inline
		if x.kind != stepInline {
			var err error
			if b, err = m.appendStep(nil, x, 0, x.length); err != nil {
				return sum, err
			}
		}
		n, err := w.Write(b)
		sum += int64(n)
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}
