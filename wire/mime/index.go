package mime

import "encoding/binary"

// Kind is the class of a part's type in an Index.
type Kind uint8

// The kinds. KindMultipart and KindMessage have child parts. A multipart or message without parsed children is
// KindOther.
const (
	KindOther Kind = iota
	KindTextPlain
	KindTextHTML
	KindText
	KindMultipart
	KindMessage
	kinds
)

// KindOf returns the kind of a parsed part.
func KindOf(p *Part) Kind {
	switch {
	case len(p.Children) > 0 && p.Type == "multipart":
		return KindMultipart
	case p.IsMessage():
		return KindMessage
	case p.Type == "text" && p.Subtype == "plain":
		return KindTextPlain
	case p.Type == "text" && p.Subtype == "html":
		return KindTextHTML
	case p.Type == "text":
		return KindText
	}
	return KindOther
}

// SectionSpan holds the position of a part in its message.
type SectionSpan struct {
	// The header, which includes its empty line and may be empty, is [HeaderStart, BodyStart). The body is [BodyStart,
	// BodyEnd).
	HeaderStart, BodyStart, BodyEnd int
	Kind                            Kind
	Encoding                        Encoding
	// InnerBody, for KindMessage only, separates the header [BodyStart, InnerBody) of the enclosed message from its
	// text [InnerBody, BodyEnd). These are HEADER and TEXT of that section.
	InnerBody int
}

// Index is the tree of parts in a few bytes per part. It allows to find BODY[1.2], BINARY[1.2] and blobs without
// parsing the message again. AppendIndex makes it. Its methods accept any bytes: in damaged data they find no section.
//
// The format is a version byte, then the nodes in preorder. A node is a byte (kind | encoding << 4) and three varints:
// the gap from the end of the previous sibling, or from the start of the container's body, to the header; the header
// length; the body length. A container then has the number of children and the length in bytes of their nodes.
type Index []byte

const (
	indexVersion = 1
	maxOffset    = 1 << 40
)

// AppendIndex appends the index of a tree from Parse.
func AppendIndex(dst []byte, root *Part) []byte {
	return appendNode(append(dst, indexVersion), root, 0)
}

func appendNode(dst []byte, p *Part, from int) []byte {
	kind := KindOf(p)
	dst = append(dst, byte(kind)|byte(EncodingOf(p.Encoding))<<4)
	dst = binary.AppendUvarint(dst, uint64(p.HeaderStart-from))
	dst = binary.AppendUvarint(dst, uint64(p.BodyStart-p.HeaderStart))
	dst = binary.AppendUvarint(dst, uint64(p.BodyEnd-p.BodyStart))
	if kind < KindMultipart {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Children)))
	start := len(dst)
	from = p.BodyStart
	for _, c := range p.Children {
		dst = appendNode(dst, c, from)
		from = c.BodyEnd
	}
	var size [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(size[:], uint64(len(dst)-start))
	dst = append(dst, size[:n]...)
	copy(dst[start+n:], dst[start:len(dst)-n])
	copy(dst[start:], size[:n])
	return dst
}

// node is a decoded node. inside holds the encoded children.
type node struct {
	SectionSpan
	children int
	inside   []byte
}

// nodeAt decodes the node at the start of b and returns the bytes after it. from is the base of the gap, end the end of
// the container.
func nodeAt(b []byte, from, end int) (n node, rest []byte, ok bool) {
	if len(b) == 0 {
		return n, nil, false
	}
	n.Kind, n.Encoding = Kind(b[0]&15), Encoding(b[0]>>4)
	b = b[1:]
	if n.Kind >= kinds || n.Encoding > EncodingUnknown {
		return n, nil, false
	}
	var v [5]int
	fields := 3
	if n.Kind >= KindMultipart {
		fields = 5
	}
	for i := range fields {
		u, w := binary.Uvarint(b)
		if w <= 0 || u > maxOffset {
			return n, nil, false
		}
		v[i], b = int(u), b[w:]
	}
	n.HeaderStart = from + v[0]
	n.BodyStart = n.HeaderStart + v[1]
	n.BodyEnd = n.BodyStart + v[2]
	if n.BodyEnd > end || v[4] > len(b) {
		return n, nil, false
	}
	n.children, n.inside = v[3], b[:v[4]]
	return n, b[v[4]:], true
}

// child decodes the child with a number, from 1.
func (n node) child(number int) (c node, ok bool) {
	if number < 1 || number > n.children {
		return c, false
	}
	b, from := n.inside, n.BodyStart
	for range number {
		if c, b, ok = nodeAt(b, from, n.BodyEnd); !ok {
			return c, false
		}
		from = c.BodyEnd
	}
	return c, true
}

func (x Index) root() (node, bool) {
	if len(x) == 0 || x[0] != indexVersion {
		return node{}, false
	}
	n, _, ok := nodeAt(x[1:], 0, maxOffset)
	return n, ok
}

// Section finds a part by its IMAP numbers (RFC 9051 section 6.4.5.1). An empty path is the whole message. A number
// selects a part of a multipart. A message that is not a multipart has one part, 1, which is its body. Numbers after a
// message/rfc822 part apply to the enclosed message. For part 1 of a non-multipart message, the header is the message's
// own. ok is false if the part does not exist or the index is damaged.
func (x Index) Section(path []int) (s SectionSpan, ok bool) {
	n, ok := x.root()
	if !ok {
		return s, false
	}
	message := true // n is a message, not a part of a multipart
	for _, number := range path {
		if n.Kind == KindMessage && !message {
			if n, ok = n.child(1); !ok {
				return s, false
			}
			message = true
		}
		switch {
		case n.Kind == KindMultipart:
			if n, ok = n.child(number); !ok {
				return s, false
			}
			message = false
		case message && number == 1:
			message = false
		default:
			return s, false
		}
	}
	return n.span()
}

func (n node) span() (SectionSpan, bool) {
	s := n.SectionSpan
	if s.Kind == KindMessage {
		inner, ok := n.child(1)
		if !ok {
			return s, false
		}
		s.InnerBody = inner.BodyStart
	}
	return s, true
}

// Leaves calls yield for each part without child parts, in order, until yield returns false. It reports whether the
// index was valid as far as it was read.
func (x Index) Leaves(yield func(SectionSpan) bool) (ok bool) {
	n, ok := x.root()
	if !ok {
		return false
	}
	// A stack of the unread siblings, one entry per level of the tree.
	type open struct {
		b         []byte
		left      int
		from, end int
	}
	if n.Kind < KindMultipart {
		yield(n.SectionSpan)
		return true
	}
	stack := []open{{n.inside, n.children, n.BodyStart, n.BodyEnd}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.left == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		c, rest, ok := nodeAt(top.b, top.from, top.end)
		if !ok {
			return false
		}
		top.b, top.left, top.from = rest, top.left-1, c.BodyEnd
		if c.Kind >= KindMultipart {
			stack = append(stack, open{c.inside, c.children, c.BodyStart, c.BodyEnd})
		} else if !yield(c.SectionSpan) {
			return true
		}
	}
	return true
}
