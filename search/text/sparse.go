package text

import "doublet/wire/mime"

// Sparse is a message without the bodies of its large non-text parts. It suffices for Sparse.Text, and is much smaller
// if there are attachments.
type Sparse struct {
	raw []byte
	cut map[int]int
}

// ReadSparse reads a message using the index of its parts. get appends n bytes of the message from off.
func ReadSparse(size int64, parts mime.Index, get func(dst []byte, off, n int64) ([]byte, error)) (*Sparse, error) {
	s := &Sparse{}
	size = min(size, MaxMessage)
	var err error
	at := int64(0)
	ok := parts.Leaves(func(p mime.SectionSpan) bool {
		n := p.BodyEnd - p.BodyStart
		if n < Large || p.Kind != mime.KindOther || int64(p.BodyStart) < at || int64(p.BodyEnd) > size {
			return true
		}
		if s.raw, err = get(s.raw, at, int64(p.BodyStart)-at); err != nil {
			return false
		}
		if s.cut == nil {
			s.cut = make(map[int]int)
		}
		s.cut[len(s.raw)] = n
		at = int64(p.BodyEnd)
		return true
	})
	if err != nil {
		return nil, err
	}
	if !ok { // the index is damaged: read the whole message
		s.raw, s.cut, at = s.raw[:0], nil, 0
	}
	s.raw, err = get(s.raw, at, size-at)
	return s, err
}

// Raw returns the message without the bodies that were left out.
func (s *Sparse) Raw() []byte { return s.raw }

// Text returns the same document as Message does for the complete message.
func (s *Sparse) Text(l Limits) *Document { return read(s.raw, s.cut, l.filled(), false) }
