package imap

// Functions for untagged responses include the CRLF. Servers build FETCH themselves, from AppendFetchHead, items with
// AppendItemName, ")" and CRLF.

// AppendNumber prints "* n NAME": EXISTS, EXPUNGE, RECENT.
func AppendNumber(dst []byte, n uint32, name string) []byte {
	dst = appendUint(append(dst, "* "...), uint64(n))
	dst = append(dst, ' ')
	dst = append(dst, name...)
	return append(dst, "\r\n"...)
}

// AppendFetchHead prints "* n FETCH (".
func AppendFetchHead(dst []byte, seq uint32) []byte {
	dst = appendUint(append(dst, "* "...), uint64(seq))
	return append(dst, " FETCH ("...)
}

// AppendUIDFetchHead prints "* n UIDFETCH (" of UIDONLY (RFC 9586).
func AppendUIDFetchHead(dst []byte, uid uint32) []byte {
	dst = appendUint(append(dst, "* "...), uint64(uid))
	return append(dst, " UIDFETCH ("...)
}

// AppendModSeq prints "MODSEQ (n)".
func AppendModSeq(dst []byte, n uint64) []byte {
	return append(appendUint(append(dst, "MODSEQ ("...), n), ')')
}

var itemNames = [...]string{
	ItemFlags: "FLAGS", ItemUID: "UID", ItemInternalDate: "INTERNALDATE", ItemSize: "RFC822.SIZE",
	ItemEnvelope: "ENVELOPE", ItemBody: "BODY", ItemBodyStructure: "BODYSTRUCTURE", ItemBodySection: "BODY",
	ItemRFC822: "RFC822", ItemRFC822Header: "RFC822.HEADER", ItemRFC822Text: "RFC822.TEXT",
	ItemBinary: "BINARY", ItemBinarySize: "BINARY.SIZE", ItemModSeq: "MODSEQ", ItemEmailID: "EMAILID",
	ItemThreadID: "THREADID", ItemPreview: "PREVIEW", ItemSaveDate: "SAVEDATE",
}

// AppendItemName prints the name of an item as in a FETCH response, before the value: "BODY[1.HEADER.FIELDS
// (From)]<0>".
func AppendItemName(dst []byte, item *FetchItem) []byte {
	if item.Kind == 0 || int(item.Kind) >= len(itemNames) {
		return dst
	}
	dst = append(dst, itemNames[item.Kind]...)
	switch item.Kind {
	case ItemBodySection, ItemBinary, ItemBinarySize:
		dst = appendSection(dst, &item.Section)
		if item.HasPartial {
			dst = append(appendUint(append(dst, '<'), uint64(item.Offset)), '>')
		}
	}
	return dst
}

// AppendFetchItem prints an item as in a FETCH command: "BODY.PEEK[TEXT]<0.100>".
func AppendFetchItem(dst []byte, item *FetchItem) []byte {
	if item.Kind == 0 || int(item.Kind) >= len(itemNames) {
		return dst
	}
	dst = append(dst, itemNames[item.Kind]...)
	switch item.Kind {
	case ItemBodySection, ItemBinary, ItemBinarySize:
		if item.Peek && item.Kind != ItemBinarySize {
			dst = append(dst, ".PEEK"...)
		}
		dst = appendSection(dst, &item.Section)
		if item.HasPartial {
			dst = append(appendUint(append(dst, '<'), uint64(item.Offset)), '.')
			dst = append(appendUint(dst, uint64(item.Size)), '>')
		}
	case ItemPreview:
		if item.Lazy {
			dst = append(dst, " (LAZY)"...)
		}
	}
	return dst
}

var sectionNames = [...]string{
	TextAll: "", TextHeader: "HEADER", TextHeaderFields: "HEADER.FIELDS", TextHeaderFieldsNot: "HEADER.FIELDS.NOT",
	TextText: "TEXT", TextMIME: "MIME",
}

func appendSection(dst []byte, s *Section) []byte {
	dst = append(dst, '[')
	for i, n := range s.Part {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = appendUint(dst, uint64(n))
	}
	if s.Text != TextAll {
		if len(s.Part) > 0 {
			dst = append(dst, '.')
		}
		dst = append(dst, sectionNames[s.Text]...)
	}
	if s.Text == TextHeaderFields || s.Text == TextHeaderFieldsNot {
		for i, f := range s.Fields {
			if i == 0 {
				dst = append(dst, " ("...)
			} else {
				dst = append(dst, ' ')
			}
			dst = AppendAString(dst, f, false)
		}
		dst = append(dst, ')')
	}
	return append(dst, ']')
}

// AppendSearch prints the SEARCH response of IMAP4rev1. If modSeq is above 0, it is appended (RFC 7162).
func AppendSearch(dst []byte, numbers Set, modSeq uint64) []byte {
	dst = append(dst, "* SEARCH"...)
	numbers.Each(func(n uint32) bool {
		dst = appendUint(append(dst, ' '), uint64(n))
		return true
	})
	if modSeq > 0 {
		dst = append(appendUint(append(dst, " (MODSEQ "...), modSeq), ')')
	}
	return append(dst, "\r\n"...)
}

// AppendESearch prints an ESEARCH response.
func AppendESearch(dst []byte, e *ESearch, utf8Names bool) []byte {
	dst = append(dst, "* ESEARCH"...)
	if e.Tag != "" {
		dst = append(dst, " (TAG "...)
		dst = AppendString(dst, e.Tag, false)
		if e.UIDValidity != 0 {
			dst = AppendMailbox(append(dst, " MAILBOX "...), e.Mailbox, utf8Names)
			dst = appendUint(append(dst, " UIDVALIDITY "...), uint64(e.UIDValidity))
		}
		dst = append(dst, ')')
	}
	if e.UID {
		dst = append(dst, " UID"...)
	}
	if e.Has&ReturnMin != 0 {
		dst = appendUint(append(dst, " MIN "...), uint64(e.Min))
	}
	if e.Has&ReturnMax != 0 {
		dst = appendUint(append(dst, " MAX "...), uint64(e.Max))
	}
	if e.Has&ReturnCount != 0 {
		dst = appendUint(append(dst, " COUNT "...), uint64(e.Count))
	}
	if e.Has&ReturnAll != 0 && len(e.All) > 0 { // an empty result has no ALL
		dst = AppendSet(append(dst, " ALL "...), e.All)
	}
	if e.Has&ReturnPartial != 0 {
		dst = append(appendPartial(append(dst, " PARTIAL ("...), e.Partial), ' ')
		if len(e.PartialAll) > 0 {
			dst = AppendSet(dst, e.PartialAll)
		} else {
			dst = append(dst, "NIL"...)
		}
		dst = append(dst, ')')
	}
	if e.ModSeq > 0 {
		dst = appendUint(append(dst, " MODSEQ "...), e.ModSeq)
	}
	return append(dst, "\r\n"...)
}

// AppendList prints a LIST (or LSUB) response.
func AppendList(dst []byte, verb string, l *ListData, utf8Names bool) []byte {
	dst = append(append(dst, "* "...), verb...)
	dst = appendWords(append(dst, ' '), l.Attrs)
	dst = appendDelimiter(append(dst, ' '), l.Delimiter)
	dst = AppendMailbox(append(dst, ' '), l.Mailbox, utf8Names)
	if l.OldName != "" || len(l.ChildInfo) > 0 {
		dst = append(dst, " ("...)
		if len(l.ChildInfo) > 0 {
			dst = append(dst, `"CHILDINFO" (`...)
			for i, c := range l.ChildInfo {
				if i > 0 {
					dst = append(dst, ' ')
				}
				dst = AppendString(dst, c, false)
			}
			dst = append(dst, ')')
		}
		if l.OldName != "" {
			if len(l.ChildInfo) > 0 {
				dst = append(dst, ' ')
			}
			dst = append(dst, `"OLDNAME" (`...)
			dst = append(AppendMailbox(dst, l.OldName, utf8Names), ')')
		}
		dst = append(dst, ')')
	}
	return append(dst, "\r\n"...)
}

func appendDelimiter(dst []byte, d byte) []byte {
	switch d {
	case 0:
		return append(dst, "NIL"...)
	case '"', '\\':
		return append(dst, '"', '\\', d, '"')
	}
	return append(dst, '"', d, '"')
}

// AppendStatus prints a STATUS response.
func AppendStatus(dst []byte, s *StatusData, utf8Names bool) []byte {
	dst = AppendMailbox(append(dst, "* STATUS "...), s.Mailbox, utf8Names)
	sep := " ("
	if s.Items == 0 {
		dst = append(dst, sep...)
	}
	for _, it := range statusItems {
		if s.Items&it.item == 0 {
			continue
		}
		dst = append(append(dst, sep...), it.name...)
		dst = append(dst, ' ')
		sep = " "
		switch it.item {
		case StatusMailboxID:
			dst = append(append(append(dst, '('), s.MailboxID...), ')')
		case StatusAppendLimit:
			if s.AppendLimit == 0 {
				dst = append(dst, "NIL"...)
				continue
			}
			dst = appendUint(dst, s.AppendLimit)
		default:
			dst = appendUint(dst, s.value(it.item))
		}
	}
	return append(dst, ")\r\n"...)
}

// value returns the value of one attribute.
func (s *StatusData) value(item StatusItem) uint64 {
	switch item {
	case StatusMessages:
		return uint64(s.Messages)
	case StatusRecent:
		return uint64(s.Recent)
	case StatusUIDNext:
		return uint64(s.UIDNext)
	case StatusUIDValidity:
		return uint64(s.UIDValidity)
	case StatusUnseen:
		return uint64(s.Unseen)
	case StatusDeleted:
		return uint64(s.Deleted)
	case StatusSize:
		return s.Size
	case StatusHighestModSeq:
		return s.HighestModSeq
	case StatusDeletedStorage:
		return s.DeletedStorage
	}
	return 0
}

// AppendStatusItems prints the attributes of a STATUS command, in parentheses.
func AppendStatusItems(dst []byte, items StatusItem) []byte {
	dst = append(dst, '(')
	first := true
	for _, it := range statusItems {
		if items&it.item != 0 {
			if !first {
				dst = append(dst, ' ')
			}
			dst = append(dst, it.name...)
			first = false
		}
	}
	return append(dst, ')')
}

// AppendVanished prints a VANISHED response.
func AppendVanished(dst []byte, uids Set, earlier bool) []byte {
	dst = append(dst, "* VANISHED "...)
	if earlier {
		dst = append(dst, "(EARLIER) "...)
	}
	return append(AppendSet(dst, uids), "\r\n"...)
}

// AppendNamespace prints a NAMESPACE response.
func AppendNamespace(dst []byte, n *Namespace, utf8Names bool) []byte {
	dst = append(dst, "* NAMESPACE"...)
	for _, list := range [...][]NamespaceItem{n.Personal, n.Other, n.Shared} {
		if len(list) == 0 {
			dst = append(dst, " NIL"...)
			continue
		}
		dst = append(dst, " ("...)
		for _, it := range list {
			dst = append(dst, '(')
			dst = appendMailboxString(dst, it.Prefix, utf8Names)
			dst = append(appendDelimiter(append(dst, ' '), it.Delimiter), ')')
		}
		dst = append(dst, ')')
	}
	return append(dst, "\r\n"...)
}

// AppendID prints an ID response; nil params are NIL.
func AppendID(dst []byte, params []IDParam) []byte {
	dst = append(dst, "* ID "...)
	return append(appendIDParams(dst, params), "\r\n"...)
}

func appendIDParams(dst []byte, params []IDParam) []byte {
	if params == nil {
		return append(dst, "NIL"...)
	}
	dst = append(dst, '(')
	for i, p := range params {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = AppendString(dst, p.Name, true)
		dst = AppendNString(append(dst, ' '), p.Value, p.Value != "", true)
	}
	return append(dst, ')')
}

// AppendWords prints "* NAME word word": CAPABILITY, ENABLED.
func AppendWords(dst []byte, name string, words []string) []byte {
	dst = append(append(dst, "* "...), name...)
	for _, w := range words {
		dst = append(append(dst, ' '), w...)
	}
	return append(dst, "\r\n"...)
}

// AppendFlagsResponse prints "* FLAGS (…)".
func AppendFlagsResponse(dst []byte, flags []Flag) []byte {
	return append(AppendFlags(append(dst, "* FLAGS "...), flags), "\r\n"...)
}
