package query

import (
	"errors"
	"time"

	"doublet/search/text"
)

// ErrQuery reports a malformed query. The message is meant for the user.
var ErrQuery = errors.New("query")

// Op is the test of a Node.
type Op uint8

// The tests. OpAll, OpAny and OpNot combine other nodes. The others test a note: its text, whether the person has seen
// it, its keywords, size, date and folders.
const (
	OpAll Op = iota // all of Kids; without Kids, every note
	OpAny
	OpNot // not Kids[0]
	OpText
	OpUnread
	OpKeyword // Word is set
	OpAttachment
	OpLarger  // larger than Number bytes
	OpSmaller // smaller than Number bytes
	OpBefore  // before Time
	OpAfter   // at Time or later
	OpFolder  // in a folder with name or special use Word
	OpHeader  // the header field Name contains Word; only package mailbox tests it, as the index lacks such fields
)

// Node is a query or a part of it.
type Node struct {
	Op     Op
	Kids   []*Node
	Text   *Text
	Word   string
	Name   string
	Number uint64
	Time   time.Time
}

// Limits on a query: depth, nodes and bytes.
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

// Texts calls fn for each text test. not reports whether the test is under an odd number of negations.
func (n *Node) Texts(fn func(t *Text, not bool)) { n.texts(fn, false) }

func (n *Node) texts(fn func(*Text, bool), not bool) {
	if n.Op == OpText {
		fn(n.Text, not)
	}
	for _, k := range n.Kids {
		k.texts(fn, not != (n.Op == OpNot))
	}
}

// Words returns the query for a JMAP text filter (RFC 8621 section 4.4.1). All words must occur, in any order and in
// any of the fields; words in single or double quotes must be in sequence. A star after or before a word makes it a
// prefix or a suffix. A filter without words matches nothing.
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

// quotedToken splits off the phrase in the quotes of the kind at the start of s. ok is false if they are not closed.
func quotedToken(s string) (tok, rest string, ok bool) {
	q := s[0]
	var b []byte
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b = append(b, s[i])
		case s[i] == q && (q == '"' || i+1 == len(s) || blank(s[i+1])):
			return string(b), s[i+1:], true
		default:
			b = append(b, s[i])
		}
	}
	return "", "", false
}

// filterToken splits the first word or phrase off s. A quote within a word is an apostrophe; an unpaired quote is an
// ordinary character.
func filterToken(s string) (tok, rest string) {
	i := 0
	for i < len(s) && blank(s[i]) {
		i++
	}
	if s = s[i:]; s == "" {
		return "", ""
	}
	if s[0] == '"' || s[0] == '\'' {
		if tok, rest, ok := quotedToken(s); ok {
			return tok, rest
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
