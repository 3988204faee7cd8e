package imap

var (
	macroFast = []FetchItem{
		{Kind: ItemFlags, Peek: true}, {Kind: ItemInternalDate, Peek: true}, {Kind: ItemSize, Peek: true},
	}
	macroAll  = append(macroFast[:3:3], FetchItem{Kind: ItemEnvelope, Peek: true})
	macroFull = append(macroAll[:4:4], FetchItem{Kind: ItemBody, Peek: true})
)

func (p *parser) fetch() any {
	f := &Fetch{Target: p.target()}
	p.space()
	switch {
	case p.peek() == '(':
		p.list(false, func() { f.Items = append(f.Items, p.fetchItem()) })
	case p.tryWord("ALL"):
		f.Items = macroAll[:4:4]
	case p.tryWord("FULL"):
		f.Items = macroFull[:5:5]
	case p.tryWord("FAST"):
		f.Items = macroFast[:3:3]
	default:
		f.Items = []FetchItem{p.fetchItem()}
	}
	if p.err != nil || !p.try(' ') || p.end() {
		return f
	}
	p.list(false, func() { p.fetchModifier(f) })
	if f.Vanished && f.ChangedSince == 0 {
		p.fail("VANISHED needs CHANGEDSINCE")
	}
	return f
}

func (p *parser) fetchModifier(f *Fetch) {
	switch p.word() {
	case "CHANGEDSINCE":
		p.space()
		f.ChangedSince = p.number64()
		if f.ChangedSince == 0 {
			p.fail("CHANGEDSINCE must be above 0")
		}
	case "VANISHED":
		f.Vanished = true
	case "PARTIAL":
		if f.Partial != (Partial{}) {
			p.fail("PARTIAL twice")
		}
		p.space()
		f.Partial = p.partialRange()
	default:
		p.fail("Unknown modifier of FETCH")
	}
}

// itemName parses letters, digits and dots.
func (p *parser) itemName() string {
	start := p.i
	for p.i < len(p.s) {
		c := p.s[p.i]
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' {
			p.i++
			continue
		}
		break
	}
	return upper(p.s[start:p.i])
}

var fetchNames = map[string]ItemKind{
	"FLAGS": ItemFlags, "UID": ItemUID, "INTERNALDATE": ItemInternalDate, "RFC822.SIZE": ItemSize,
	"ENVELOPE": ItemEnvelope, "BODY": ItemBody, "BODYSTRUCTURE": ItemBodyStructure, "RFC822": ItemRFC822,
	"RFC822.HEADER": ItemRFC822Header, "RFC822.TEXT": ItemRFC822Text, "BINARY": ItemBinary,
	"BINARY.PEEK": ItemBinary, "BINARY.SIZE": ItemBinarySize, "BODY.PEEK": ItemBodySection,
	"MODSEQ": ItemModSeq, "EMAILID": ItemEmailID, "THREADID": ItemThreadID, "PREVIEW": ItemPreview,
	"SAVEDATE": ItemSaveDate,
}

// fetchItem parses one fetch-att.
func (p *parser) fetchItem() (item FetchItem) {
	name := p.itemName()
	kind, ok := fetchNames[name]
	if !ok {
		p.fail("Unknown FETCH item")
		return item
	}
	item.Kind, item.Peek = kind, true
	switch kind {
	case ItemBody, ItemBodySection:
		if kind == ItemBody && p.peek() != '[' {
			return item
		}
		item.Kind, item.Peek = ItemBodySection, kind == ItemBodySection
		item.Section = p.section()
		p.partial(&item)
	case ItemBinary, ItemBinarySize:
		item.Peek = name != "BINARY"
		item.Section = p.section()
		if item.Section.Text != TextAll {
			p.fail("BINARY takes part numbers alone")
		}
		if kind == ItemBinary {
			p.partial(&item)
		}
	case ItemRFC822, ItemRFC822Text:
		item.Peek = false
	case ItemPreview:
		item.Lazy = p.tryText(" (LAZY)")
	}
	return item
}

// maxPath is the maximum number of part numbers in a section. The MIME limits allow no deeper part.
const maxPath = 200

// section parses "[" … "]".
func (p *parser) section() (s Section) {
	p.expect('[')
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		if s.Part = append(s.Part, p.nzNumber32()); len(s.Part) > maxPath {
			p.fail("Too many part numbers")
			return s
		}
		if !p.try('.') {
			p.expect(']')
			return s
		}
	}
	if p.err != nil || len(s.Part) == 0 && p.try(']') {
		return s
	}
	switch name := p.itemName(); name {
	case "HEADER":
		s.Text = TextHeader
	case "TEXT":
		s.Text = TextText
	case "MIME":
		s.Text = TextMIME
		if len(s.Part) == 0 {
			p.fail("MIME needs a part number")
		}
	case "HEADER.FIELDS", "HEADER.FIELDS.NOT":
		s.Text = TextHeaderFields
		if name == "HEADER.FIELDS.NOT" {
			s.Text = TextHeaderFieldsNot
		}
		p.space()
		p.list(false, func() { s.Fields = append(s.Fields, p.fieldName()) })
	default:
		p.fail("Unknown section")
	}
	p.expect(']')
	return s
}

// fieldName parses the name of a header field: printable ASCII without a colon (RFC 5322 section 2.2).
func (p *parser) fieldName() string {
	s := p.astring()
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == ':' {
			p.fail("Invalid field name")
			return ""
		}
	}
	return s
}

// partial parses <offset.size>.
func (p *parser) partial(item *FetchItem) {
	if !p.try('<') {
		return
	}
	item.HasPartial = true
	item.Offset = p.number32()
	p.expect('.')
	item.Size = p.nzNumber32()
	p.expect('>')
}
