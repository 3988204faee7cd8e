package imap

// listMailboxes parses the arguments of LIST with RFC 5258: LIST [(selection)] reference pattern|(patterns) [RETURN
// (…)].
func (p *parser) listMailboxes() any {
	l := &List{}
	if p.peek() == '(' {
		l.Extended = true
		p.list(true, func() { l.Select |= p.selectOption() })
		p.space()
		if l.Select&ListRecursiveMatch != 0 && l.Select&^(ListRecursiveMatch|ListRemote) == 0 {
			p.fail("RECURSIVEMATCH needs another selection option")
		}
	}
	l.Reference = p.listName(p.astring())
	p.space()
	if p.peek() == '(' {
		l.Extended = true
		p.list(false, func() { l.Patterns = append(l.Patterns, p.pattern()) })
	} else {
		l.Patterns = []string{p.pattern()}
	}
	if !p.try(' ') || p.end() {
		return l
	}
	l.Extended = true
	if !p.tryWord("RETURN") {
		p.fail("Expected RETURN")
	}
	p.space()
	p.list(true, func() { l.Return |= p.returnOption(l) })
	return l
}

func (p *parser) lsub() any {
	l := &List{Reference: p.listName(p.astring())}
	p.space()
	l.Patterns = []string{p.pattern()}
	return l
}

func (p *parser) selectOption() ListOption {
	switch p.word() {
	case "SUBSCRIBED":
		return ListSubscribed
	case "REMOTE":
		return ListRemote
	case "RECURSIVEMATCH":
		return ListRecursiveMatch
	case "SPECIAL-USE":
		return ListSpecialUse
	}
	p.fail("Unknown selection option of LIST")
	return 0
}

func (p *parser) returnOption(l *List) ListOption {
	switch p.word() {
	case "SUBSCRIBED":
		return ListSubscribed
	case "CHILDREN":
		return ListChildren
	case "SPECIAL-USE":
		return ListSpecialUse
	case "MYRIGHTS":
		return ListMyRights
	case "METADATA":
		p.space()
		l.Metadata = nil
		p.list(false, func() { l.Metadata = append(l.Metadata, p.entryName()) })
		return ListMetadata
	case "STATUS":
		p.space()
		l.Status = p.statusItems()
		return ListStatus
	}
	p.fail("Unknown return option of LIST")
	return 0
}

// pattern parses list-mailbox: a mailbox name with wildcards.
func (p *parser) pattern() string {
	s := p.run(listChar)
	if s == "" {
		s = p.str()
	}
	return p.listName(s)
}

// noMailbox is a pattern that matches no name, because names have no control characters.
const noMailbox = "\x01"

// listName decodes a reference or a pattern. An invalid name is no error: LIST then finds nothing.
func (p *parser) listName(s string) string {
	name, err := DecodeMailbox(s, p.utf8)
	if err != nil {
		return noMailbox
	}
	return name
}
