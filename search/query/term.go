package query

import "strings"

// Kind names the test of a Term, independently of any language.
type Kind string

// The kinds of terms. KindAll and KindAny combine the terms in Of. KindText to KindList search words. KindOn stands for
// a whole day.
const (
	KindAll         Kind = "all"
	KindAny         Kind = "any"
	KindText        Kind = "text" // words anywhere in the message
	KindFrom        Kind = "from"
	KindTo          Kind = "to"
	KindCc          Kind = "cc"
	KindBcc         Kind = "bcc"
	KindRecipient   Kind = "recipient" // to, cc or bcc
	KindPerson      Kind = "person"    // from, to, cc or bcc
	KindSubject     Kind = "subject"
	KindBody        Kind = "body"
	KindFilename    Kind = "filename"
	KindHeader      Kind = "header"
	KindList        Kind = "list"
	KindDeliveredTo Kind = "deliveredTo"
	KindMessageID   Kind = "messageId"
	KindFolder      Kind = "folder"
	KindAnywhere    Kind = "anywhere"
	KindLabel       Kind = "label" // in a folder with this name, or marked with this keyword
	KindUnread      Kind = "unread"
	KindRead        Kind = "read"
	KindKeyword     Kind = "keyword"
	KindAttachment  Kind = "attachment"
	KindBefore      Kind = "before"
	KindAfter       Kind = "after"
	KindOn          Kind = "on"
	KindLarger      Kind = "larger"
	KindSmaller     Kind = "smaller"
)

// Term is a part of a query as it was understood. Value holds the words, the name of a folder, a keyword, a day such as
// 2026-03-01, or a size in bytes as a decimal number. Start and End delimit the term in the text, in bytes, with its
// operator and its minus.
type Term struct {
	Kind       Kind
	Value      string
	Not        bool
	Start, End int
	Of         []Term

	node *Node
}

// Reason is why a part of a query was not understood.
type Reason string

// The reasons.
const (
	ReasonOperator Reason = "operator" // the server cannot test this
	ReasonValue    Reason = "value"    // the value is malformed, such as before:tomorrow
	ReasonEmpty    Reason = "empty"    // the operator has no value
	ReasonWords    Reason = "words"    // the text has no letter or digit
	ReasonFolder   Reason = "folder"   // no folder has this name
)

// Unknown is a part of a query that was not understood. The search ignores it, except ReasonFolder, which matches
// nothing.
type Unknown struct {
	Reason     Reason
	Text       string
	Start, End int
}

// Parsed is a query from a search box. A message must match all Terms.
type Parsed struct {
	Text    string // the text to which the positions refer
	Terms   []Term
	Unknown []Unknown
}

// Node returns the query. A blank text matches every note, another one without any term that was understood matches
// none.
func (p *Parsed) Node() *Node {
	if len(p.Terms) == 0 && strings.TrimSpace(p.Text) != "" {
		return Words(0, "")
	}
	t := Term{Kind: KindAll, Of: p.Terms}
	return t.compile()
}

func (t *Term) compile() *Node {
	n := t.node
	if t.Kind == KindAll || t.Kind == KindAny {
		kids := make([]*Node, len(t.Of))
		for i := range t.Of {
			kids[i] = t.Of[i].compile()
		}
		if n = all(kids); t.Kind == KindAny && len(kids) > 1 {
			n = &Node{Op: OpAny, Kids: kids}
		}
	}
	if t.Not {
		n = &Node{Op: OpNot, Kids: []*Node{n}}
	}
	return n
}

// Leaves calls fn for every term that combines no others. not reports whether the term is negated.
func (p *Parsed) Leaves(fn func(t *Term, not bool)) { leaves(p.Terms, false, fn) }

func leaves(list []Term, not bool, fn func(*Term, bool)) {
	for i := range list {
		t := &list[i]
		if t.Kind == KindAll || t.Kind == KindAny {
			leaves(t.Of, not != t.Not, fn)
			continue
		}
		fn(t, not != t.Not)
	}
}
