package text

import "doublet/wire/mime"

// Sparse is a message without the bodies of its large parts that are no text: enough for Sparse.Text, and a
// fraction of the bytes where there are attachments.
type Sparse struct {
	raw []byte
	cut map[int]int
}

// ReadSparse reads a message by the index of its parts: get appends so many of its bytes from an offset.
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
	if !ok { // a damaged index: the message has to be read whole
		s.raw, s.cut, at = s.raw[:0], nil, 0
	}
	s.raw, err = get(s.raw, at, size-at)
	return s, err
}

// Text is what Message gives of the whole message.
func (s *Sparse) Text(l Limits) *Document { return read(s.raw, s.cut, l.filled(), false) }
