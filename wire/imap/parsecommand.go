package imap

import (
	"encoding/base64"
	"strings"
)

// ParseCommand parses one command: its text without the final CRLF, with literals in place. The message of an APPEND is
// only announced as "{n}" at the end.
func ParseCommand(text string, limits *Limits, utf8Names bool) (*Command, error) {
	var lit *literal
	// The announcement fits into the last 32 bytes.
	tail := text[max(0, len(text)-32):]
	if l, ok := literalAtEnd([]byte(tail)); ok {
		l.at += len(text) - len(tail)
		if isMessageLiteral([]byte(text[:l.at])) {
			lit = &l
		}
	}
	cmd, err := parseCommand(text, limits, utf8Names, lit)
	if err == nil && lit != nil {
		appendOf(cmd).announced(lit)
	}
	return cmd, err
}

// parseCommand parses a command. lit is the message literal at its end, or nil.
func parseCommand(text string, limits *Limits, utf8Names bool, lit *literal) (*Command, error) {
	p := parser{s: text, limits: limits, utf8: utf8Names}
	if lit != nil {
		p.s, p.message = text[:lit.at], true
	}
	cmd := &Command{Tag: p.run(tagChar)}
	if !isTag(cmd.Tag) {
		return nil, &SyntaxError{Tag: "*", Text: "Invalid tag"}
	}
	p.space()
	cmd.Name = p.word()
	if cmd.Name == "UID" && p.err == nil {
		p.space()
		cmd.UID = true
		cmd.Name = p.word()
	}
	p.arguments(cmd)
	if p.err == nil && lit == nil {
		for p.try(' ') { // some clients send spaces at the end
		}
	}
	if p.err == nil && !p.end() {
		p.fail("Unexpected text at the end")
	}
	if p.err != nil {
		p.err.Tag = cmd.Tag
		return nil, p.err
	}
	cmd.Given = p.given
	return cmd, nil
}

// arguments parses the arguments of the verb.
func (p *parser) arguments(cmd *Command) {
	if p.err != nil {
		return
	}
	if cmd.UID {
		p.uidArguments(cmd)
		return
	}
	switch cmd.Name {
	case "NOOP", "CAPABILITY", "CHECK", "CLOSE", "EXPUNGE", "IDLE", "LOGOUT", "NAMESPACE", "STARTTLS", "UNSELECT":
		return
	case "RESETKEY":
		cmd.Args = p.resetKey()
		return
	case "FETCH", "STORE", "SEARCH", "SORT", "THREAD", "COPY", "MOVE", "REPLACE":
		p.messageArguments(cmd)
		return
	}
	parse, ok := verbs[cmd.Name]
	if !ok {
		p.failWith(&SyntaxError{Text: "Unknown command", Unknown: true})
		return
	}
	p.space()
	if p.err == nil {
		cmd.Args = parse(p)
	}
}

func (p *parser) uidArguments(cmd *Command) {
	switch cmd.Name {
	case "EXPUNGE":
		p.space()
		cmd.Args = &Expunge{p.target()}
	case "FETCH", "STORE", "SEARCH", "SORT", "THREAD", "COPY", "MOVE", "REPLACE":
		p.messageArguments(cmd)
	default:
		p.failWith(&SyntaxError{Text: "Unknown command", Unknown: true})
	}
}

// messageArguments parses the arguments of the verbs that have a UID variant.
func (p *parser) messageArguments(cmd *Command) {
	p.space()
	switch cmd.Name {
	case "FETCH":
		cmd.Args = p.fetch()
	case "STORE":
		cmd.Args = p.store()
	case "SEARCH":
		cmd.Args = p.search()
	case "SORT":
		cmd.Args = p.sort()
	case "THREAD":
		cmd.Args = p.thread()
	case "COPY", "MOVE":
		c := &Copy{Target: p.target()}
		p.space()
		c.Mailbox = p.mailbox()
		cmd.Args = c
	case "REPLACE":
		cmd.Args = p.replace()
	}
}

var verbs = map[string]func(*parser) any{
	"APPEND":       (*parser).append,
	"AUTHENTICATE": (*parser).authenticate,
	"CANCELUPDATE": (*parser).cancelUpdate,
	"COMPRESS":     func(p *parser) any { return &Compress{p.word()} },
	"CREATE":       (*parser).create,
	"DELETE":       (*parser).oneMailbox,
	"DELETEACL":    func(p *parser) any { return p.access("DELETEACL") },
	"ENABLE":       (*parser).enable,
	"ESEARCH":      (*parser).multiSearch,
	"EXAMINE":      (*parser).selectMailbox,
	"GENURLAUTH":   (*parser).genURLAuth,
	"GETACL":       func(p *parser) any { return p.access("GETACL") },
	"GETMETADATA":  (*parser).getMetadata,
	"GETQUOTA":     func(p *parser) any { return p.quota("GETQUOTA") },
	"GETQUOTAROOT": func(p *parser) any { return p.quota("GETQUOTAROOT") },
	"ID":           (*parser).id,
	"LIST":         (*parser).listMailboxes,
	"LISTRIGHTS":   func(p *parser) any { return p.access("LISTRIGHTS") },
	"LOGIN":        (*parser).login,
	"LSUB":         (*parser).lsub,
	"MYRIGHTS":     func(p *parser) any { return p.access("MYRIGHTS") },
	"NOTIFY":       (*parser).notify,
	"RENAME":       (*parser).rename,
	"SELECT":       (*parser).selectMailbox,
	"SETACL":       func(p *parser) any { return p.access("SETACL") },
	"SETMETADATA":  (*parser).setMetadata,
	"SETQUOTA":     func(p *parser) any { return p.quota("SETQUOTA") },
	"STATUS":       (*parser).status,
	"SUBSCRIBE":    (*parser).oneMailbox,
	"UIDBATCHES":   (*parser).uidBatches,
	"UNSUBSCRIBE":  (*parser).oneMailbox,
	"URLFETCH":     (*parser).urlFetch,
}

func (p *parser) login() any {
	l := &Login{User: p.astring()}
	p.space()
	l.Password = p.astring()
	return l
}

func (p *parser) authenticate() any {
	a := &Authenticate{Mechanism: p.word()}
	if !p.try(' ') {
		return a
	}
	a.HasInitial = true
	text := p.s[p.i:]
	if end := strings.IndexByte(text, ' '); end >= 0 {
		text = text[:end]
	}
	p.i += len(text)
	if text == "=" {
		return a
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || text == "" {
		p.fail("Invalid base64")
	}
	a.Initial = b
	return a
}

func (p *parser) oneMailbox() any { return &Mailbox{Name: p.mailbox()} }

func (p *parser) rename() any {
	r := &Rename{From: p.mailbox()}
	p.space()
	r.To = strings.TrimSuffix(p.mailbox(), "/")
	return r
}

func (p *parser) create() any {
	c := &Create{Mailbox: p.mailbox()}
	if len(c.Mailbox) > 1 && strings.HasSuffix(c.Mailbox, "/") {
		c.Mailbox, c.Trailing = canonicalInbox(strings.TrimSuffix(c.Mailbox, "/")), true
	}
	if !p.try(' ') {
		return c
	}
	p.list(false, func() {
		if !p.tryWord("USE") {
			p.fail("Unknown parameter of CREATE")
			return
		}
		p.space()
		p.list(true, func() { c.Use = append(c.Use, p.flag()) })
	})
	return c
}

func (p *parser) enable() any {
	e := &Enable{}
	for {
		e.Capabilities = append(e.Capabilities, p.word())
		if len(e.Capabilities) > p.limits.Items {
			p.fail("Too many capabilities")
		}
		if !p.try(' ') || p.end() {
			return e
		}
	}
}

func (p *parser) id() any {
	id := &ID{}
	if p.tryWord("NIL") {
		return id
	}
	id.Params = p.idParams()
	return id
}

func (p *parser) idParams() []IDParam {
	params := []IDParam{}
	p.list(true, func() {
		name := p.str()
		p.space()
		value, _ := p.nstring()
		params = append(params, IDParam{name, value})
	})
	return params
}

func (p *parser) selectMailbox() any {
	s := &Select{Mailbox: p.mailbox()}
	if !p.try(' ') || p.end() {
		return s
	}
	p.list(false, func() {
		switch p.word() {
		case "CONDSTORE":
			s.CondStore = true
		case "QRESYNC":
			p.space()
			s.QResync = p.qresync()
		default:
			p.fail("Unknown parameter of SELECT")
		}
	})
	return s
}

// qresync parses (uidvalidity modseq [known-uids] [(seqs uids)]), RFC 7162 section 3.2.5.
func (p *parser) qresync() *QResync {
	q := &QResync{}
	p.expect('(')
	q.UIDValidity = p.nzNumber32()
	p.space()
	q.ModSeq = p.number64()
	if p.peek() == ' ' && p.i+1 < len(p.s) && p.s[p.i+1] != '(' {
		p.space()
		q.KnownUIDs = p.plainSet()
	}
	if p.try(' ') {
		p.expect('(')
		q.SeqMatch.Seqs = p.plainSet()
		p.space()
		q.SeqMatch.UIDs = p.plainSet()
		p.expect(')')
		if p.err == nil && q.SeqMatch.Seqs.count() != q.SeqMatch.UIDs.count() {
			p.fail("Message numbers and UIDs differ in number")
		}
	}
	p.expect(')')
	return q
}

// plainSet parses a set without `*`.
func (p *parser) plainSet() Set {
	s := p.set()
	if s.Dynamic() {
		p.fail("* is not allowed here")
	}
	return s
}

// count is Len for a set that is not resolved.
func (s Set) count() uint64 {
	var n uint64
	for _, r := range s {
		lo, hi := r.resolved(0)
		n += uint64(hi) - uint64(lo) + 1
	}
	return n
}

var statusItems = []struct {
	name string
	item StatusItem
}{
	{"MESSAGES", StatusMessages},
	{"RECENT", StatusRecent},
	{"UIDNEXT", StatusUIDNext},
	{"UIDVALIDITY", StatusUIDValidity},
	{"UNSEEN", StatusUnseen},
	{"DELETED", StatusDeleted},
	{"SIZE", StatusSize},
	{"HIGHESTMODSEQ", StatusHighestModSeq},
	{"MAILBOXID", StatusMailboxID},
	{"APPENDLIMIT", StatusAppendLimit},
	{"DELETED-STORAGE", StatusDeletedStorage},
}

func (p *parser) status() any {
	s := &Status{Mailbox: p.mailbox()}
	p.space()
	s.Items = p.statusItems()
	return s
}

func (p *parser) statusItems() (set StatusItem) {
	p.list(false, func() {
		name := p.word()
		for _, it := range statusItems {
			if it.name == name {
				set |= it.item
				return
			}
		}
		p.fail("Unknown STATUS item")
	})
	return set
}

// append parses APPEND up to its message literal, which is not in the text.
func (p *parser) append() any {
	a := &Append{Mailbox: p.mailbox()}
	p.space()
	p.messages(a, true)
	return a
}

// replace parses REPLACE up to its message literal.
func (p *parser) replace() any {
	r := &Replace{}
	if !p.try('*') {
		r.Message = p.nzNumber32()
	}
	p.space()
	r.Mailbox = p.mailbox()
	p.space()
	p.messages(&r.Append, false)
	return r
}

func (p *parser) store() any {
	s := &Store{Target: p.target()}
	p.space()
	if p.peek() == '(' {
		p.list(false, func() {
			if !p.tryWord("UNCHANGEDSINCE") {
				p.fail("Unknown modifier of STORE")
				return
			}
			p.space()
			s.UnchangedSince, s.HasUnchangedSince = p.number64(), true
		})
		p.space()
	}
	switch {
	case p.try('+'):
		s.Op = StoreAdd
	case p.try('-'):
		s.Op = StoreRemove
	}
	switch p.word() {
	case "FLAGS":
	case "FLAGS.SILENT":
		s.Silent = true
	default:
		p.fail("Unknown STORE item")
	}
	p.space()
	if p.peek() == '(' {
		s.Flags = p.flagList()
		return s
	}
	for p.err == nil {
		s.Flags = append(s.Flags, p.flag())
		if len(s.Flags) > p.limits.Items {
			p.fail("Too many flags")
		}
		if !p.try(' ') || p.end() {
			break
		}
	}
	return s
}
