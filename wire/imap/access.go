package imap

import "strings"

// Access holds the arguments of SETACL, DELETEACL, GETACL, LISTRIGHTS and MYRIGHTS (RFC 4314). Fields that a verb
// doesn't have are "".
type Access struct {
	Mailbox    string
	Identifier string
	// Mode is '+' to add Rights, '-' to remove them, 0 to replace all.
	Mode   byte
	Rights string
}

// Quota holds the arguments of GETQUOTA, GETQUOTAROOT and SETQUOTA (RFC 9208).
type Quota struct {
	// Root is a quota root, or a mailbox for GETQUOTAROOT.
	Root string
	// Limits holds the resources of SETQUOTA, with names in upper case.
	Limits []QuotaLimit
}

// QuotaLimit is a limit of one resource.
type QuotaLimit struct {
	Resource string
	Limit    uint64
}

// MetadataEntry is one annotation. Has is false if the value is NIL.
type MetadataEntry struct {
	Name, Value string
	Has         bool
}

// Metadata holds the arguments of GETMETADATA and SETMETADATA (RFC 5464). Entry names are in lower case.
type Metadata struct {
	Mailbox string // "" for the server
	Entries []MetadataEntry
	// MaxSize, valid with HasMaxSize, omits longer values. Depth is the number of levels below the entries: 0, 1, or -1
	// for all.
	MaxSize    uint32
	HasMaxSize bool
	Depth      int
}

// Compress holds the argument of COMPRESS (RFC 4978).
type Compress struct{ Algorithm string }

func (p *parser) access(name string) any {
	a := &Access{Mailbox: p.mailbox()}
	if name == "GETACL" || name == "MYRIGHTS" {
		return a
	}
	p.space()
	a.Identifier = p.astring()
	if name == "SETACL" {
		p.space()
		a.Rights = p.astring()
		if a.Rights != "" && (a.Rights[0] == '+' || a.Rights[0] == '-') {
			a.Mode, a.Rights = a.Rights[0], a.Rights[1:]
		}
	}
	return a
}

func (p *parser) quota(name string) any {
	if name == "GETQUOTAROOT" {
		return &Quota{Root: p.mailbox()}
	}
	q := &Quota{Root: p.mailbox()} // quota roots have names of mailboxes
	if name == "SETQUOTA" {
		p.space()
		p.list(true, func() {
			l := QuotaLimit{Resource: p.word()}
			p.space()
			l.Limit = p.number64()
			q.Limits = append(q.Limits, l)
		})
	}
	return q
}

// getMetadata parses [options], the mailbox, and an entry or a list of entries. It also accepts the options after the
// mailbox: the RFC's examples have them there, and some clients follow these.
func (p *parser) getMetadata() any {
	m := &Metadata{}
	if p.peek() == '(' {
		p.metadataOptions(m)
		p.space()
	}
	m.Mailbox = p.mailbox()
	p.space()
	if p.peek() != '(' {
		m.Entries = []MetadataEntry{{Name: p.entryName()}}
		return m
	}
	rest := strings.ToUpper(p.s[p.i:min(p.i+9, len(p.s))])
	if strings.HasPrefix(rest, "(MAXSIZE ") || strings.HasPrefix(rest, "(DEPTH ") {
		p.metadataOptions(m)
		p.space()
	}
	if p.peek() != '(' {
		m.Entries = []MetadataEntry{{Name: p.entryName()}}
		return m
	}
	p.list(false, func() { m.Entries = append(m.Entries, MetadataEntry{Name: p.entryName()}) })
	return m
}

func (p *parser) metadataOptions(m *Metadata) {
	p.list(false, func() {
		switch p.word() {
		case "MAXSIZE":
			p.space()
			m.MaxSize, m.HasMaxSize = p.number32(), true
		case "DEPTH":
			p.space()
			switch p.word() {
			case "0":
			case "1":
				m.Depth = 1
			case "INFINITY":
				m.Depth = -1
			default:
				p.fail("Unknown depth")
			}
		default:
			p.fail("Unknown option of GETMETADATA")
		}
	})
}

func (p *parser) setMetadata() any {
	m := &Metadata{Mailbox: p.mailbox()}
	p.space()
	p.list(false, func() {
		e := MetadataEntry{Name: p.entryName()}
		p.space()
		e.Value, e.Has = p.nstring()
		m.Entries = append(m.Entries, e)
	})
	return m
}

// entryName parses the name of an entry. It starts with a slash, is ASCII, and has no empty level and no wildcard (RFC
// 5464 section 3.2).
func (p *parser) entryName() string {
	name := p.astring()
	if p.err != nil {
		return ""
	}
	bad := len(name) < 2 || len(name) > 256 || name[0] != '/' || name[len(name)-1] == '/' ||
		strings.Contains(name, "//")
	for i := range len(name) {
		bad = bad || name[i] <= 0x19 || name[i] >= 0x7f || name[i] == '*' || name[i] == '%'
	}
	if bad {
		p.fail("Not the name of an annotation")
	}
	return strings.ToLower(name)
}

// AppendACL prints an ACL response. entries alternates identifiers and rights.
func AppendACL(dst []byte, mailbox string, entries []string, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* ACL "...), mailbox, utf8Names)
	for _, e := range entries {
		dst = AppendAString(append(dst, ' '), e, utf8Names)
	}
	return append(dst, "\r\n"...)
}

// AppendListRights prints a LISTRIGHTS response: the rights that the identifier always has, then the rights that can be
// granted, each one separately.
func AppendListRights(dst []byte, mailbox, identifier, required string, optional []string, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* LISTRIGHTS "...), mailbox, utf8Names)
	dst = AppendAString(append(dst, ' '), identifier, utf8Names)
	dst = AppendAString(append(dst, ' '), required, utf8Names)
	for _, r := range optional {
		dst = AppendAString(append(dst, ' '), r, utf8Names)
	}
	return append(dst, "\r\n"...)
}

// AppendMyRights prints a MYRIGHTS response.
func AppendMyRights(dst []byte, mailbox, rights string, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* MYRIGHTS "...), mailbox, utf8Names)
	return append(AppendAString(append(dst, ' '), rights, utf8Names), "\r\n"...)
}

// AppendQuotaRoot prints a QUOTAROOT response.
func AppendQuotaRoot(dst []byte, mailbox, root string, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* QUOTAROOT "...), mailbox, utf8Names)
	return append(AppendMailbox(append(dst, ' '), root, utf8Names), "\r\n"...)
}

// AppendQuota prints a QUOTA response. It has the resource STORAGE in units of 1,024 octets, or no resource if limit is
// 0.
func AppendQuota(dst []byte, root string, used, limit uint64, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* QUOTA "...), root, utf8Names)
	dst = append(dst, " ("...)
	if limit > 0 {
		dst = appendUint(append(dst, "STORAGE "...), (used+1023)/1024)
		dst = appendUint(append(dst, ' '), limit/1024)
	}
	return append(dst, ")\r\n"...)
}

// AppendMetadata prints a METADATA response.
func AppendMetadata(dst []byte, mailbox string, entries []MetadataEntry, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* METADATA "...), mailbox, utf8Names)
	dst = append(dst, " ("...)
	for i := range entries {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = AppendAString(dst, entries[i].Name, utf8Names)
		dst = AppendNString(append(dst, ' '), entries[i].Value, entries[i].Has, utf8Names)
	}
	return append(dst, ")\r\n"...)
}

// AppendMetadataChange prints a METADATA response with the names of annotations that changed.
//
// Implements: RFC 5464 §4.4.2 unsolicited METADATA without values
func AppendMetadataChange(dst []byte, mailbox string, names []string, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* METADATA "...), mailbox, utf8Names)
	for _, n := range names {
		dst = AppendAString(append(dst, ' '), n, utf8Names)
	}
	return append(dst, "\r\n"...)
}

// appendAccess prints arguments of the types above. ok is false for others.
func appendAccess(dst []byte, c *Command, u bool) (out []byte, ok bool) {
	switch a := c.Args.(type) {
	case *Access:
		return a.appendArgs(dst, c.Name, u), true
	case *Quota:
		return a.appendArgs(dst, c.Name, u), true
	case *Metadata:
		return a.appendArgs(dst, c.Name, u), true
	case *Compress:
		return append(dst, a.Algorithm...), true
	}
	return dst, false
}

func (a *Access) appendArgs(dst []byte, name string, u bool) []byte {
	dst = AppendMailbox(dst, a.Mailbox, u)
	if name == "GETACL" || name == "MYRIGHTS" {
		return dst
	}
	dst = AppendAString(append(dst, ' '), a.Identifier, u)
	if name != "SETACL" {
		return dst
	}
	rights := a.Rights
	if a.Mode != 0 {
		rights = string(rune(a.Mode)) + rights
	}
	return AppendAString(append(dst, ' '), rights, u)
}

func (q *Quota) appendArgs(dst []byte, name string, u bool) []byte {
	dst = AppendMailbox(dst, q.Root, u)
	if name != "SETQUOTA" {
		return dst
	}
	dst = append(dst, " ("...)
	for i, l := range q.Limits {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = appendUint(append(append(dst, l.Resource...), ' '), l.Limit)
	}
	return append(dst, ')')
}

func (m *Metadata) appendArgs(dst []byte, name string, u bool) []byte {
	if name == "GETMETADATA" && (m.HasMaxSize || m.Depth != 0) {
		dst = append(dst, '(')
		if m.HasMaxSize {
			dst = append(appendUint(append(dst, "MAXSIZE "...), uint64(m.MaxSize)), ' ')
		}
		dst = append(dst, "DEPTH "...)
		switch m.Depth {
		case 0:
			dst = append(dst, '0')
		case 1:
			dst = append(dst, '1')
		default:
			dst = append(dst, "infinity"...)
		}
		dst = append(dst, ") "...)
	}
	dst = append(AppendMailbox(dst, m.Mailbox, u), " ("...)
	for i := range m.Entries {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = AppendAString(dst, m.Entries[i].Name, u)
		if name == "SETMETADATA" {
			dst = AppendNString(append(dst, ' '), m.Entries[i].Value, m.Entries[i].Has, u)
		}
	}
	return append(dst, ')')
}
