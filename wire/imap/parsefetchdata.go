package imap

// fetchData parses the msg-att of a FETCH response.
func (p *parser) fetchData() *FetchData {
	f := &FetchData{}
	p.list(true, func() {
		name := p.itemName()
		kind, ok := fetchNames[name]
		if !ok {
			p.unknownItem(name)
			return
		}
		if kind == ItemBody && p.peek() == '[' {
			kind = ItemBodySection
		}
		switch kind {
		case ItemBodySection, ItemBinary, ItemBinarySize, ItemRFC822, ItemRFC822Header, ItemRFC822Text:
			p.sectionData(f, kind)
		default:
			p.space()
			p.fetchValue(f, kind)
		}
		f.Has |= 1 << kind
	})
	return f
}

// unknownItem skips an item of an extension: its name, which may have brackets, and a value.
func (p *parser) unknownItem(name string) {
	if name == "" {
		p.fail("Expected a FETCH item")
		return
	}
	for p.i < len(p.s) && p.s[p.i] != ' ' {
		p.i++
	}
	p.space()
	p.skipValue()
}

func (p *parser) sectionData(f *FetchData, kind ItemKind) {
	var s SectionData
	s.Item.Kind, s.Item.Peek = kind, true
	if p.peek() == '[' {
		s.Item.Section = p.section()
	}
	if p.try('<') {
		s.Item.HasPartial = true
		s.Item.Offset = p.number32()
		p.expect('>')
	}
	p.space()
	if kind == ItemBinarySize {
		s.Size = int64(p.number64())
	} else {
		before := p.left
		var ok bool
		s.Data, ok = p.nstring()
		s.Nil = !ok
		s.Size = int64(len(s.Data))
		if len(p.left) < len(before) {
			s.Size = before[0].size
		}
	}
	f.Sections = append(f.Sections, s)
}

func (p *parser) fetchValue(f *FetchData, kind ItemKind) {
	switch kind {
	case ItemFlags:
		f.Flags = p.flagList()
	case ItemUID:
		f.UID = p.nzNumber32()
	case ItemInternalDate:
		f.InternalDate = p.dateTime()
	case ItemSize:
		f.Size = int64(p.number64())
	case ItemEnvelope:
		f.EnvelopeText = p.skipValue()
	case ItemBody, ItemBodyStructure:
		f.StructureText = p.skipValue()
	case ItemModSeq:
		p.expect('(')
		f.ModSeq = p.number64()
		p.expect(')')
	case ItemEmailID:
		f.EmailID = p.objectID()
	case ItemThreadID:
		f.ThreadID = p.objectID()
	case ItemPreview:
		f.Preview, _ = p.nstring()
	case ItemSaveDate:
		if !p.tryWord("NIL") {
			f.SaveDate = p.dateTime()
		}
	}
}

// objectID parses "(" id ")" or NIL (RFC 8474).
func (p *parser) objectID() string {
	if p.tryWord("NIL") {
		return ""
	}
	p.expect('(')
	s := p.run(astringChar)
	p.expect(')')
	return s
}
