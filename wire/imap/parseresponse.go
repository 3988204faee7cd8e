package imap

import "strings"

var responseLimits = Limits{Ranges: 1 << 22, Depth: 256, Items: 1 << 20}

// ParseResponse parses one response: its text without the final CRLF, with literals in place.
func ParseResponse(text string) (*Response, error) { return parseResponse(text, nil, false) }

func parseResponse(text string, left []leftOut, utf8Names bool) (*Response, error) {
	p := parser{s: text, limits: &responseLimits, response: true, left: left, utf8: utf8Names}
	r := &Response{Raw: text}
	switch {
	case p.tryText("+"):
		r.Kind = Continuation
		p.try(' ')
		r.Text = p.rest()
	case p.tryText("* "):
		p.untagged(r)
	default:
		r.Kind = Tagged
		r.Tag = p.run(tagChar)
		p.space()
		r.Name = p.word()
		if !isStatus(r.Name) {
			p.fail("Unknown status")
			break
		}
		p.statusText(r)
	}
	if p.err == nil && r.Kind == Untagged {
		for p.try(' ') {
		}
		if !p.end() {
			p.fail("Unexpected text at the end")
		}
	}
	if p.err != nil {
		return r, &ResponseError{Raw: text, Text: p.err.Text}
	}
	return r, nil
}

func (p *parser) rest() string {
	s := p.s[min(p.i, len(p.s)):]
	p.i = len(p.s)
	return s
}

func isStatus(name string) bool {
	switch name {
	case OK, NO, BAD, BYE, PREAUTH:
		return true
	}
	return false
}

func (p *parser) untagged(r *Response) {
	if c := p.peek(); c >= '0' && c <= '9' {
		p.numbered(r)
		return
	}
	r.Name = p.word()
	if isStatus(r.Name) {
		p.statusText(r)
		return
	}
	p.untaggedData(r)
}

// numbered parses a response about one message.
func (p *parser) numbered(r *Response) {
	r.Number = p.number32()
	p.space()
	r.Name = p.word()
	switch r.Name {
	case "FETCH":
		p.space()
		f := p.fetchData()
		f.Seq = r.Number
		r.Data = f
	case "UIDFETCH": // RFC 9586
		p.space()
		f := p.fetchData()
		f.UID = r.Number
		r.Data = f
	}
}

func (p *parser) untaggedData(r *Response) {
	switch r.Name {
	case "SEARCH", "SORT":
		r.Data = p.searchData()
		return
	case "ESEARCH":
		r.Data = p.esearch()
		return
	case "CAPABILITY", "ENABLED":
		r.Data = p.words()
		return
	}
	p.try(' ')
	switch r.Name {
	case "LIST", "LSUB":
		r.Data = p.listData()
	case "STATUS":
		r.Data = p.statusData()
	case "FLAGS":
		r.Data = p.flagList()
	case "VANISHED":
		v := &Vanished{}
		if p.tryText("(EARLIER) ") {
			v.Earlier = true
		}
		v.UIDs = p.set()
		r.Data = v
	case "THREAD":
		r.Data = p.threads(0)
	case "UIDBATCHES":
		r.Data = p.uidBatchData()
	case "NAMESPACE":
		r.Data = p.namespace()
	case "ID":
		id := &ID{}
		if !p.tryWord("NIL") {
			id.Params = p.idParams()
		}
		r.Data = id
	default:
		p.rest()
	}
}

// words parses atoms, each preceded by a space.
func (p *parser) words() []string {
	words := []string{}
	for p.try(' ') && !p.end() {
		words = append(words, upper(p.run(listChar)))
	}
	return words
}

// statusText parses the rest of a status response: [code] text.
func (p *parser) statusText(r *Response) {
	if p.end() {
		return // the server sent no text
	}
	p.space()
	if p.peek() == '[' {
		if end := p.codeEnd(); end > 0 {
			r.Code = parseCode(p.s[p.i+1 : end])
			p.i = end + 1
			p.try(' ')
		}
	}
	r.Text = p.rest()
}

// codeEnd returns the position of the "]" that ends a code. It skips quoted strings.
func (p *parser) codeEnd() int {
	quoted := false
	for i := p.i + 1; i < len(p.s); i++ {
		switch p.s[i] {
		case '\\':
			if quoted {
				i++
			}
		case '"':
			quoted = !quoted
		case ']':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// parseCode parses a code. Malformed arguments remain in Args only, because a code is just a hint.
func parseCode(s string) *Code {
	name, args, _ := strings.Cut(s, " ")
	c := &Code{Name: upper(name), Args: args}
	p := parser{s: args, limits: &responseLimits, response: true}
	switch c.Name {
	case "UIDNEXT", "UIDVALIDITY", "UNSEEN", "HIGHESTMODSEQ", "APPENDLIMIT":
		c.Number = p.number64()
	case "APPENDUID":
		c.Number = p.number64()
		p.space()
		c.Target = p.set()
	case "COPYUID":
		c.Number = p.number64()
		p.space()
		c.Source = p.set()
		p.space()
		c.Target = p.set()
	case "MODIFIED":
		c.Source = p.set()
	case "PERMANENTFLAGS":
		c.Words = p.flagList()
	case "CAPABILITY":
		p = parser{s: " " + args}
		c.Words = p.words()
	case "MAILBOXID":
		p.list(false, func() { c.Words = append(c.Words, p.atom()) })
	case "BADCHARSET":
		if !p.end() {
			p.list(true, func() { c.Words = append(c.Words, p.astring()) })
		}
	}
	return c
}

func (p *parser) searchData() *SearchData {
	s := &SearchData{}
	for p.try(' ') && !p.end() {
		if p.tryText("(MODSEQ ") {
			s.ModSeq = p.number64()
			p.expect(')')
			break
		}
		s.Numbers = append(s.Numbers, p.number32())
	}
	return s
}

func (p *parser) esearch() *ESearch {
	e := &ESearch{}
	if p.tryText(" (") {
		p.correlator(e)
	}
	if p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
		if p.tryWord("UID") {
			e.UID = true
		} else {
			p.i--
		}
	}
	for p.try(' ') && !p.end() {
		name := p.word()
		p.space()
		switch name {
		case "MIN":
			e.Has |= ReturnMin
			e.Min = p.number32()
		case "MAX":
			e.Has |= ReturnMax
			e.Max = p.number32()
		case "COUNT":
			e.Has |= ReturnCount
			e.Count = p.number32()
		case "ALL":
			e.Has |= ReturnAll
			e.All = p.set()
		case "MODSEQ":
			e.ModSeq = p.number64()
		case "PARTIAL":
			p.partialData(e)
		default:
			p.skipValue()
		}
	}
	return e
}

// correlator parses TAG, MAILBOX and UIDVALIDITY, in any order, after the parenthesis.
func (p *parser) correlator(e *ESearch) {
	for p.err == nil {
		name := p.word()
		p.space()
		switch name {
		case "TAG":
			e.Tag = p.astring()
		case "MAILBOX":
			e.Mailbox = p.looseMailbox()
		case "UIDVALIDITY":
			e.UIDValidity = p.number32()
		default:
			p.skipValue()
		}
		if p.try(')') {
			return
		}
		p.space()
	}
}

// partialData parses (range set) or (range NIL).
func (p *parser) partialData(e *ESearch) {
	e.Has |= ReturnPartial
	p.expect('(')
	e.Partial = p.partialRange()
	p.space()
	if !p.tryWord("NIL") {
		e.PartialAll = p.set()
	}
	p.expect(')')
}

// delimiter parses a quoted character or NIL.
func (p *parser) delimiter() byte {
	s, ok := p.nstring()
	if !ok || s == "" {
		return 0
	}
	return s[0]
}

func (p *parser) listData() *ListData {
	l := &ListData{Attrs: []string{}}
	p.list(true, func() { l.Attrs = append(l.Attrs, p.flag()) })
	p.space()
	l.Delimiter = p.delimiter()
	p.space()
	l.Mailbox = p.looseMailbox()
	if !p.try(' ') {
		return l
	}
	p.list(true, func() {
		name := upper(p.astring())
		p.space()
		switch name {
		case "CHILDINFO":
			p.list(false, func() { l.ChildInfo = append(l.ChildInfo, p.astring()) })
		case "OLDNAME":
			p.expect('(')
			l.OldName = p.looseMailbox()
			p.expect(')')
		default:
			p.skipValue()
		}
	})
	return l
}

// looseMailbox parses a mailbox name from a server, in UTF-8 or modified UTF-7. A name that is neither is returned
// unchanged.
func (p *parser) looseMailbox() string {
	s := p.run(listChar)
	if s == "" {
		s = p.str()
	}
	if name, err := DecodeMailbox(s, p.utf8); err == nil {
		return name
	}
	return s
}

func (p *parser) statusData() *StatusData {
	s := &StatusData{Mailbox: p.looseMailbox()}
	p.space()
	p.list(true, func() {
		name := p.word()
		p.space()
		for _, it := range statusItems {
			if it.name == name {
				s.Items |= it.item
				p.statusValue(s, it.item)
				return
			}
		}
		p.skipValue()
	})
	return s
}

func (p *parser) statusValue(s *StatusData, item StatusItem) {
	switch item {
	case StatusMailboxID:
		p.expect('(')
		s.MailboxID = p.astring()
		p.expect(')')
		return
	case StatusAppendLimit:
		if !p.tryWord("NIL") {
			s.AppendLimit = p.number64()
		}
		return
	}
	for _, f := range [...]struct {
		item  StatusItem
		value *uint64
	}{{StatusSize, &s.Size}, {StatusHighestModSeq, &s.HighestModSeq}, {StatusDeletedStorage, &s.DeletedStorage}} {
		if f.item == item {
			*f.value = p.number64()
			return
		}
	}
	for _, f := range [...]struct {
		item  StatusItem
		value *uint32
	}{{StatusMessages, &s.Messages}, {StatusRecent, &s.Recent}, {StatusUIDNext, &s.UIDNext},
		{StatusUIDValidity, &s.UIDValidity}, {StatusUnseen, &s.Unseen}, {StatusDeleted, &s.Deleted}} {
		if f.item == item {
			*f.value = p.number32()
			return
		}
	}
}

func (p *parser) namespace() *Namespace {
	n := &Namespace{}
	for i, list := range [...]*[]NamespaceItem{&n.Personal, &n.Other, &n.Shared} {
		if i > 0 {
			p.space()
		}
		if p.tryWord("NIL") {
			continue
		}
		p.expect('(')
		for p.err == nil && !p.try(')') {
			p.try(' ')
			p.expect('(')
			var it NamespaceItem
			it.Prefix = p.looseMailbox()
			p.space()
			it.Delimiter = p.delimiter()
			for p.try(' ') { // extensions
				p.skipValue()
			}
			p.expect(')')
			*list = append(*list, it)
		}
	}
	return n
}
