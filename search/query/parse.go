package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/search/text"
	"doublet/wire/size"
)

// Parse parses a query from a search box:
//
//	report 2025          both words, anywhere
//	"annual report"      words in sequence
//	contract*  *vertrag  words with this beginning or end; *vertrag* contains it
//	-draft, NOT draft    without the word
//	a OR b, (a b) OR c   either
//	from:ann subject:"annual report" to: cc: bcc: body: filename: header:
//	has:attachment is:unread is:read is:flagged is:answered is:draft, or is: any keyword
//	before:2025-03-01 after:2025-03-01 (including that day), or 7d, 2w, 3m, 1y before now
//	larger:1MB smaller:20KB
//	in:Archive
//
// A condition with a malformed value is an ErrQuery. Missing closing quotes and brackets are added at the end. Days are
// in UTC.
func Parse(s string, now time.Time) (*Node, error) {
	if len(s) > maxBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrQuery, maxBytes)
	}
	p := parser{s: strings.ToValidUTF8(s, " "), now: now.UTC()}
	n, err := p.any(0)
	for err == nil && p.peek() == ')' { // skip a closing bracket without an opening one
		p.at++
		var more *Node
		if more, err = p.any(0); err == nil {
			n = &Node{Op: OpAll, Kids: []*Node{n, more}}
		}
	}
	return n, err
}

type parser struct {
	s     string
	at    int
	now   time.Time
	nodes int
	// field is the field before the enclosing bracket, such as from:( ); 0 for none.
	field text.Field
}

// peek skips blanks and returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.s) && blank(p.s[p.at]) {
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
	return ok && (rest == "" || blank(rest[0]) || rest[0] == '(' || rest[0] == ')' || rest[0] == '"')
}

// word skips the next word if it is w, and reports whether it was.
func (p *parser) word(w string) bool {
	ok := p.ahead(w)
	if ok {
		p.at += len(w)
	}
	return ok
}

// any parses alternatives up to a closing bracket or the end.
func (p *parser) any(depth int) (*Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: brackets are more than %d deep", ErrQuery, maxDepth)
	}
	var list []*Node
	for {
		n, err := p.all(depth)
		if err != nil {
			return nil, err
		}
		if n != nil {
			list = append(list, n)
		}
		if !p.word("OR") {
			break
		}
	}
	switch len(list) {
	case 0:
		return &Node{}, nil
	case 1:
		return list[0], nil
	}
	return &Node{Op: OpAny, Kids: list}, nil
}

// all parses conditions that must all match, up to OR, a closing bracket or the end. It returns nil if there are none.
func (p *parser) all(depth int) (*Node, error) {
	var list []*Node
	for {
		if c := p.peek(); c == 0 || c == ')' {
			break
		}
		if p.ahead("OR") {
			break
		}
		if p.word("AND") {
			continue
		}
		n, err := p.one(depth)
		if err != nil {
			return nil, err
		}
		if n != nil {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return all(list), nil
}

// one parses one condition. It returns nil if there is none.
func (p *parser) one(depth int) (*Node, error) {
	if p.nodes++; p.nodes > maxNodes {
		return nil, fmt.Errorf("%w: more than %d conditions", ErrQuery, maxNodes)
	}
	not := false
	for p.peek() == '-' && p.at+1 < len(p.s) && !blank(p.s[p.at+1]) {
		p.at++
		not = !not
	}
	if p.word("NOT") {
		not = !not
		if c := p.peek(); c == 0 || c == ')' {
			return nil, nil
		}
	}
	n, err := p.condition(depth)
	if n == nil || err != nil {
		return nil, err
	}
	if not {
		n = &Node{Op: OpNot, Kids: []*Node{n}}
	}
	return n, nil
}

func (p *parser) condition(depth int) (*Node, error) {
	if p.peek() == '(' {
		return p.bracket(depth, p.field)
	}
	start := p.at
	for p.at < len(p.s) && !blank(p.s[p.at]) && !strings.ContainsRune(`:()"`, rune(p.s[p.at])) {
		p.at++
	}
	name := p.s[start:p.at]
	if p.at < len(p.s) && p.s[p.at] == ':' && name != "" {
		if f, ok := fieldNames[strings.ToLower(name)]; ok {
			p.at++
			if p.at < len(p.s) && p.s[p.at] == '(' {
				return p.bracket(depth, f)
			}
			return p.phrase(f), nil
		}
		if read := conditions[strings.ToLower(name)]; read != nil {
			p.at++
			return read(p, p.value())
		}
	}
	p.at = start
	f := p.field
	if f == 0 {
		f = text.Any
	}
	return p.phrase(f), nil
}

func (p *parser) bracket(depth int, f text.Field) (*Node, error) {
	outer := p.field
	p.at++
	p.field = f
	n, err := p.any(depth + 1)
	p.field = outer
	if err == nil && p.peek() == ')' {
		p.at++
	}
	return n, err
}

// value reads a value: the text up to a blank, a bracket or a quote, or the text between quotes.
func (p *parser) value() string {
	if p.at < len(p.s) && p.s[p.at] == '"' {
		p.at++
		start := p.at
		if i := strings.IndexByte(p.s[start:], '"'); i >= 0 {
			p.at = start + i + 1
			return p.s[start : start+i]
		}
		p.at = len(p.s)
		return p.s[start:]
	}
	start := p.at
	for p.at < len(p.s) && !blank(p.s[p.at]) && !strings.ContainsRune(`()"`, rune(p.s[p.at])) {
		p.at++
	}
	return p.s[start:p.at]
}

// phrase parses a word or a phrase to search for. It returns nil if it contains no word.
func (p *parser) phrase(f text.Field) *Node {
	start := p.at
	v := p.value()
	if p.at == start { // a field name without a value
		return nil
	}
	if p.at < len(p.s) && p.s[p.at] == '*' && p.s[p.at-1] == '"' {
		p.at++
		v += "*"
	}
	t := Phrase(f, v)
	if t.Never() {
		return nil
	}
	return &Node{Op: OpText, Text: t}
}

var fieldNames = map[string]text.Field{
	"from": text.From, "to": text.To, "cc": text.Cc, "bcc": text.Bcc, "subject": text.Subject,
	"body": text.Content, "filename": text.Filename, "header": text.Header,
	"recipient": text.To | text.Cc | text.Bcc,
}

var conditions = map[string]func(p *parser, v string) (*Node, error){
	"has": func(_ *parser, v string) (*Node, error) {
		if strings.EqualFold(v, "attachment") || strings.EqualFold(v, "attachments") {
			return &Node{Op: OpAttachment}, nil
		}
		return nil, fmt.Errorf("%w: has:%s: only has:attachment is known", ErrQuery, v)
	},
	"is": func(_ *parser, v string) (*Node, error) {
		switch v = strings.ToLower(v); v {
		case "":
			return nil, fmt.Errorf("%w: is: needs a value", ErrQuery)
		case "unread", "unseen":
			return &Node{Op: OpUnread}, nil
		case "read", "seen":
			return &Node{Op: OpNot, Kids: []*Node{{Op: OpUnread}}}, nil
		case "flagged", "answered", "draft", "forwarded":
			v = "$" + v
		case "starred":
			v = "$flagged"
		case "replied":
			v = "$answered"
		}
		return &Node{Op: OpKeyword, Word: v}, nil
	},
	"in": func(_ *parser, v string) (*Node, error) {
		if v == "" {
			return nil, fmt.Errorf("%w: in: needs the name of a folder", ErrQuery)
		}
		return &Node{Op: OpFolder, Word: v}, nil
	},
	"before": func(p *parser, v string) (*Node, error) { return p.day(OpBefore, v) },
	"older":  func(p *parser, v string) (*Node, error) { return p.day(OpBefore, v) },
	"after":  func(p *parser, v string) (*Node, error) { return p.day(OpAfter, v) },
	"since":  func(p *parser, v string) (*Node, error) { return p.day(OpAfter, v) },
	"newer":  func(p *parser, v string) (*Node, error) { return p.day(OpAfter, v) },
	"on": func(p *parser, v string) (*Node, error) {
		from, err := p.day(OpAfter, v)
		if err != nil {
			return nil, err
		}
		return &Node{Op: OpAll, Kids: []*Node{from, {Op: OpBefore, Time: from.Time.AddDate(0, 0, 1)}}}, nil
	},
	"larger":  func(_ *parser, v string) (*Node, error) { return sized(OpLarger, v) },
	"smaller": func(_ *parser, v string) (*Node, error) { return sized(OpSmaller, v) },
}

// day parses a date, or a time span before now.
func (p *parser) day(op Op, v string) (*Node, error) {
	today := time.Date(p.now.Year(), p.now.Month(), p.now.Day(), 0, 0, 0, 0, time.UTC)
	switch v = strings.ToLower(v); v {
	case "today":
		return &Node{Op: op, Time: today}, nil
	case "yesterday":
		return &Node{Op: op, Time: today.AddDate(0, 0, -1)}, nil
	}
	for _, form := range []string{"2006-01-02", "2006/01/02", "20060102", "2006-01", "2006"} {
		if t, err := time.Parse(form, v); err == nil {
			return &Node{Op: op, Time: t}, nil
		}
	}
	if len(v) > 1 {
		if n, err := strconv.Atoi(v[:len(v)-1]); err == nil && n >= 0 && n <= 100_000 {
			switch v[len(v)-1] {
			case 'd':
				return &Node{Op: op, Time: today.AddDate(0, 0, -n)}, nil
			case 'w':
				return &Node{Op: op, Time: today.AddDate(0, 0, -7*n)}, nil
			case 'm':
				return &Node{Op: op, Time: today.AddDate(0, -n, 0)}, nil
			case 'y':
				return &Node{Op: op, Time: today.AddDate(-n, 0, 0)}, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: %q is not a day: write 2025-03-01, or 7d, 2w, 3m, 1y", ErrQuery, v)
}

func sized(op Op, v string) (*Node, error) {
	if n, err := size.Parse(v); err == nil {
		return &Node{Op: op, Number: uint64(n)}, nil
	}
	return nil, fmt.Errorf("%w: %q is not a size such as 500KB", ErrQuery, v)
}
