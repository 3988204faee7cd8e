package query

import (
	"errors"
	"time"

	"doublet/search/text"
)

// ErrQuery is what is wrong with a query, for whoever wrote it.
var ErrQuery = errors.New("query")

// Op says what a Node tests.
type Op uint8

// The tests. All, Any and Not combine others; the rest looks at the note: its text, who has seen it, its
// keywords, size, date and folders.
const (
	OpAll Op = iota // of Kids; without any: everything
	OpAny
	OpNot // Kids[0]
	OpText
	OpUnread
	OpKeyword // Word
	OpAttachment
	OpLarger  // than Number bytes
	OpSmaller // than Number bytes
	OpBefore  // Time
	OpAfter   // Time, or at it
	OpFolder  // named Word, or of that special use
)

// Node is a query or a part of one.
type Node struct {
	Op     Op
	Kids   []*Node
	Text   *Text
	Word   string
	Number uint64
	Time   time.Time
}

// The bounds of a query: depth, nodes, bytes.
const (
	maxDepth = 50
	maxNodes = 500
	maxBytes = 10_000
)

func all(kids []*Node) *Node {
	if len(kids) == 1 {
		return kids[0]
	}
	return &Node{Op: OpAll, Kids: kids}
}

// Texts calls fn for each test of a text, with whether it is under an odd number of negations.
func (n *Node) Texts(fn func(t *Text, not bool)) { n.texts(fn, false) }

func (n *Node) texts(fn func(*Text, bool), not bool) {
	if n.Op == OpText {
		fn(n.Text, not)
	}
	for _, k := range n.Kids {
		k.texts(fn, not != (n.Op == OpNot))
	}
}

// Words is a text filter of JMAP (RFC 8621 section 4.4.1): words that must all be there, in any order and place
// of the fields; those between quotes, single or double, follow each other. Without a word in it, it is found
// nowhere. A star behind a word stands for any end, one before it for any beginning.
func Words(fields text.Field, s string) *Node {
	if len(s) > maxBytes {
		s = s[:maxBytes]
	}
	var kids []*Node
	add := func(phrase string) {
		if t := Phrase(fields, phrase); !t.Never() && len(kids) < maxNodes {
			kids = append(kids, &Node{Op: OpText, Text: t})
		}
	}
	for s != "" {
		var tok string
		tok, s = filterToken(s)
		add(tok)
	}
	if len(kids) == 0 {
		return &Node{Op: OpText, Text: Phrase(fields, "")}
	}
	return all(kids)
}

// filterToken takes a word or a phrase off the start of s. A quote within a word is an apostrophe, one without its
// fellow a letter like another.
func filterToken(s string) (tok, rest string) {
	i := 0
	for i < len(s) && blank(s[i]) {
		i++
	}
	if s = s[i:]; s == "" {
		return "", ""
	}
	if q := s[0]; q == '"' || q == '\'' {
		var b []byte
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '\\' && i+1 < len(s):
				i++
				b = append(b, s[i])
			case s[i] == q && (q == '"' || i+1 == len(s) || blank(s[i+1])):
				return string(b), s[i+1:]
			default:
				b = append(b, s[i])
			}
		}
		s = s[1:]
	}
	i = 0
	for i < len(s) && !blank(s[i]) && s[i] != '"' {
		i++
	}
	return s[:i], s[i:]
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
