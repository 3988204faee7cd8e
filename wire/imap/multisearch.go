package imap

// FilterKind is the kind of a MailboxFilter.
type FilterKind uint8

// The kinds of filter (RFC 5465 section 6, RFC 7377 section 2.2).
const (
	FilterSelected FilterKind = iota
	FilterSelectedDelayed
	FilterInboxes
	FilterPersonal
	FilterSubscribed
	FilterSubtree
	FilterSubtreeOne
	FilterMailboxes
)

var filterNames = [...]string{
	FilterSelected: "SELECTED", FilterSelectedDelayed: "SELECTED-DELAYED", FilterInboxes: "INBOXES",
	FilterPersonal: "PERSONAL", FilterSubscribed: "SUBSCRIBED", FilterSubtree: "SUBTREE",
	FilterSubtreeOne: "SUBTREE-ONE", FilterMailboxes: "MAILBOXES",
}

// named reports whether mailbox names follow the kind.
func (k FilterKind) named() bool { return k >= FilterSubtree }

// MailboxFilter selects mailboxes. Mailboxes is valid for the last three kinds.
type MailboxFilter struct {
	Kind      FilterKind
	Mailboxes []string
}

// MultiSearch holds the arguments of the ESEARCH command (RFC 7377). If In is nil it searches the selected mailbox.
type MultiSearch struct {
	In []MailboxFilter
	Search
}

func (p *parser) mailboxFilter() (f MailboxFilter) {
	name := p.word()
	for i, n := range filterNames {
		if n == name {
			f.Kind = FilterKind(i)
			if f.Kind.named() {
				p.space()
				f.Mailboxes = p.mailboxes()
			}
			return f
		}
	}
	p.fail("Unknown kind of mailboxes")
	return f
}

// mailboxes parses one-or-more-mailbox.
func (p *parser) mailboxes() (names []string) {
	if p.peek() == '(' {
		p.list(false, func() { names = append(names, p.mailbox()) })
		return names
	}
	return []string{p.mailbox()}
}

func appendMailboxFilter(dst []byte, f *MailboxFilter, u bool) []byte {
	dst = append(dst, filterNames[f.Kind]...)
	if !f.Kind.named() {
		return dst
	}
	for i, name := range f.Mailboxes {
		dst = append(dst, " "...)
		if i == 0 {
			dst = append(dst, '(')
		}
		dst = AppendMailbox(dst, name, u)
	}
	return append(dst, ')')
}

func (p *parser) multiSearch() any {
	m := &MultiSearch{}
	if p.tryWord("IN") {
		p.space()
		p.list(false, func() { m.In = append(m.In, p.mailboxFilter()) })
		p.space()
	}
	p.searchInto(&m.Search)
	return m
}

func appendMultiSearch(dst []byte, m *MultiSearch, u bool) []byte {
	for i := range m.In {
		if i == 0 {
			dst = append(dst, "IN ("...)
		} else {
			dst = append(dst, ' ')
		}
		dst = appendMailboxFilter(dst, &m.In[i], u)
	}
	if len(m.In) > 0 {
		dst = append(dst, ") "...)
	}
	return appendSearch(dst, &m.Search, u)
}
