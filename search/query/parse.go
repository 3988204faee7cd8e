package query

import (
	"fmt"
	"strings"
	"time"
)

// Context holds the facts on which the meaning of a query depends. The zero Context is midnight of year 1 in UTC.
type Context struct {
	// Now is the present time. Days begin at midnight in its time zone.
	Now time.Time
	// Me holds the addresses for which "me" stands after from:, to:, cc: and bcc:.
	Me []string
}

// Parse parses a query from a search box. It knows Gmail's operators:
//
//	report 2025              both words, anywhere
//	"annual report"          words in sequence
//	contract*  *vertrag      words with this beginning or end; *vertrag* contains it
//	-draft, NOT draft        without the word
//	a OR b, {a b}            either; x a OR b means x (a OR b)
//	(a b) OR c               brackets
//	from:ann subject:"annual report" to: cc: bcc: body: filename: header: list: deliveredto: rfc822msgid:
//	has:attachment is:unread is:read is:starred is:answered is:draft, or is: any keyword
//	before:2025-03-01 after:2025-03-01 (including that day), or 7d, 2w, 3m, 1y before now; older_than:7d newer_than:7d
//	larger:1MB size:1MB smaller:20KB
//	in:Archive in:anywhere label:work
//
// The result lists the understood terms and the unknown parts. Parse fails with an ErrQuery only if the query is too
// long, too deep or has too many conditions. It adds missing closing quotes and brackets at the end.
func Parse(s string, c Context) (*Parsed, error) {
	if len(s) > maxBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrQuery, maxBytes)
	}
	p := parser{s: strings.ToValidUTF8(s, " "), Context: c}
	out := &Parsed{Text: p.s}
	for p.peek() != 0 {
		list, err := p.all(0, 0)
		if err != nil {
			return nil, err
		}
		out.Terms = append(out.Terms, list...)
		if p.peek() != 0 { // a closing bracket without an opening one
			p.at++
		}
	}
	out.Unknown = p.unknown
	return out, nil
}

type parser struct {
	Context
	s     string
	at    int
	terms int
	// field is the kind of the operator before the enclosing bracket, such as from:( ); "" for none.
	field   Kind
	unknown []Unknown
}

// peek skips blanks and returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.s) && (blank(p.s[p.at]) || p.s[p.at] == 0) {
		p.at++
	}
	if p.at == len(p.s) {
		return 0
	}
	return p.s[p.at]
}

// ahead reports whether the next word is w.
func (p *parser) ahead(w string) bool {
	p.peek()
	rest, ok := strings.CutPrefix(p.s[p.at:], w)
	return ok && (rest == "" || blank(rest[0]) || strings.IndexByte(`(){}"`, rest[0]) >= 0)
}

// word skips the next word if it is w, and reports whether it was.
func (p *parser) word(w string) bool {
	ok := p.ahead(w)
	if ok {
		p.at += len(w)
	}
	return ok
}

// either parses terms joined by OR. ok is false if there are none.
func (p *parser) either(depth int) (t Term, ok bool, err error) {
	var list []Term
	for {
		one, found, err := p.one(depth)
		if err != nil {
			return t, false, err
		}
		if found {
			list = append(list, one)
		}
		if !p.word("OR") {
			break
		}
		for p.word("OR") || p.word("AND") {
			continue
		}
		if c := p.peek(); c == 0 || c == ')' || c == '}' {
			break
		}
	}
	return joined(KindAny, list)
}

// joined combines terms to one.
func joined(k Kind, list []Term) (t Term, ok bool, err error) {
	switch len(list) {
	case 0:
		return t, false, nil
	case 1:
		return list[0], true, nil
	}
	return Term{Kind: k, Of: list, Start: list[0].Start, End: list[len(list)-1].End}, true, nil
}

// all parses terms up to the closing bracket end, or up to any closing bracket if end is 0.
func (p *parser) all(depth int, end byte) ([]Term, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: brackets are more than %d deep", ErrQuery, maxDepth)
	}
	var list []Term
	for {
		switch c := p.peek(); {
		case c == 0 || c == end, end == 0 && (c == ')' || c == '}'):
			return list, nil
		case c == ')' || c == '}':
			p.at++ // does not belong to the opening bracket
			continue
		}
		if p.word("AND") || p.word("OR") && len(list) == 0 {
			continue
		}
		t, ok, err := p.either(depth)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, t)
		}
	}
}

// one parses one term. ok is false if there is none.
func (p *parser) one(depth int) (t Term, ok bool, err error) {
	if p.terms++; p.terms > maxNodes {
		return t, false, fmt.Errorf("%w: more than %d conditions", ErrQuery, maxNodes)
	}
	p.peek()
	start, not := p.at, false
	for p.peek() == '-' && p.at+1 < len(p.s) && !blank(p.s[p.at+1]) {
		p.at++
		not = !not
	}
	if p.word("NOT") {
		not = !not
		if c := p.peek(); c == 0 || c == ')' || c == '}' {
			return t, false, nil
		}
	}
	if t, ok, err = p.condition(depth, start); ok {
		t.Not, t.Start, t.End = t.Not != not, start, p.at
	}
	return t, ok, err
}

// name parses what may be the name of a field or condition.
func (p *parser) name() string {
	begin := p.at
	for p.at < len(p.s) && !blank(p.s[p.at]) && strings.IndexByte(`:(){}"`, p.s[p.at]) < 0 {
		p.at++
	}
	return strings.ToLower(p.s[begin:p.at])
}

// condition parses a term without its minus, which stands at start.
func (p *parser) condition(depth, start int) (Term, bool, error) {
	if c := p.peek(); c == '(' || c == '{' {
		return p.bracket(depth, p.field)
	}
	begin := p.at
	name := p.name()
	if p.at < len(p.s) && p.s[p.at] == ':' && name != "" {
		if k, ok := fieldNames[name]; ok {
			p.at++
			if p.at < len(p.s) && (p.s[p.at] == '(' || p.s[p.at] == '{') {
				return p.bracket(depth, k)
			}
			return p.words(k, start)
		}
		if read := conditions[name]; read != nil {
			p.at++
			return p.tested(read, start)
		}
	}
	p.at = begin
	k := p.field
	if k == "" {
		k = KindText
	}
	return p.words(k, start)
}

// bracket parses the terms between ( ) or, of which one is enough, between { }.
func (p *parser) bracket(depth int, k Kind) (t Term, ok bool, err error) {
	outer := p.field
	end, join := byte(')'), KindAll
	if p.s[p.at] == '{' {
		end, join = '}', KindAny
	}
	p.at++
	p.field = k
	list, err := p.all(depth+1, end)
	p.field = outer
	if err != nil {
		return t, false, err
	}
	if p.peek() == end {
		p.at++
	}
	return joined(join, list)
}

// value reads a value: the text up to a blank, a bracket or a quote, or the text between quotes.
func (p *parser) value() (v string, quoted bool) {
	if p.at < len(p.s) && p.s[p.at] == '"' {
		p.at++
		start := p.at
		if i := strings.IndexByte(p.s[start:], '"'); i >= 0 {
			p.at = start + i + 1
			return p.s[start : start+i], true
		}
		p.at = len(p.s)
		return p.s[start:], true
	}
	start := p.at
	for p.at < len(p.s) && !blank(p.s[p.at]) && strings.IndexByte(`(){}"`, p.s[p.at]) < 0 {
		p.at++
	}
	return p.s[start:p.at], false
}

// words parses a word or a phrase to search for.
func (p *parser) words(k Kind, start int) (Term, bool, error) {
	v, quoted := p.value()
	if quoted && p.at < len(p.s) && p.s[p.at] == '*' {
		p.at++
		v += "*"
	}
	if !quoted && k == KindText {
		v = strings.TrimPrefix(v, "+") // Gmail's exact word, as every word here
	}
	t, why := p.search(k, v, quoted)
	return p.found(t, why, start)
}

// tested parses a value with read.
func (p *parser) tested(read reader, start int) (Term, bool, error) {
	v, _ := p.value()
	if v == "" {
		return p.found(Term{}, ReasonEmpty, start)
	}
	t, why := read(p, v)
	return p.found(t, why, start)
}

// found returns an understood term, or records an unknown part.
func (p *parser) found(t Term, why Reason, start int) (Term, bool, error) {
	if why == "" {
		return t, true, nil
	}
	p.unknown = append(p.unknown, Unknown{why, p.s[start:p.at], start, p.at})
	return t, false, nil
}
