package imapd

import (
	"bytes"

	"doublet/mailbox"
	"doublet/store"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// span holds the offset and length of a section in a message.
type span struct{ off, n int64 }

// cut applies a partial. A piece beyond the end is empty.
//
// Implements: RFC 9051 §6.4.5.2 partial
func (p span) cut(it *imap.FetchItem) span {
	if !it.HasPartial {
		return p
	}
	skip := min(int64(it.Offset), p.n)
	return span{p.off + skip, min(int64(it.Size), p.n-skip)}
}

// place finds a section from the stored offsets, without reading the message. ok is false if the part does not exist.
//
// Implements: RFC 9051 §6.4.5.1 FETCH section specification
func (f *fetcher) place(m *mailbox.Message, i int) (p span, ok bool, err error) {
	it := &f.items[i]
	text := it.Section.Text
	switch it.Kind {
	case imap.ItemRFC822Header:
		text = imap.TextHeader
	case imap.ItemRFC822Text:
		text = imap.TextText
	}
	var path []int
	if f.paths != nil {
		path = f.paths[i]
	}
	if len(path) == 0 && text == imap.TextAll {
		return span{0, m.Size()}, true, nil
	}
	at, ok, err := m.Section(path)
	if err != nil || !ok {
		return p, false, err
	}
	header, body, end := at.HeaderStart, at.BodyStart, at.BodyEnd
	switch {
	case text == imap.TextMIME:
		return between(header, body), true, nil
	case text == imap.TextAll:
		return between(body, end), true, nil
	case len(path) == 0:
		end = int(m.Size())
	case at.Kind == mime.KindMessage:
		header, body = at.BodyStart, at.InnerBody
	default:
		return p, false, nil // only messages have HEADER and TEXT
	}
	if text == imap.TextText {
		return between(body, end), true, nil
	}
	return between(header, body), true, nil
}

func between(from, to int) span { return span{int64(from), int64(max(to-from, 0))} }

// section prints BODY[…] and its older equivalents.
func (f *fetcher) section(m *mailbox.Message, i int) error {
	s, it := f.s, &f.items[i]
	p, ok, err := f.place(m, i)
	if err != nil {
		return err
	}
	var body *store.Stored
	if ok {
		if body, err = m.Body(); err != nil {
			return err
		}
	}
	s.out.B = append(imap.AppendItemName(s.out.B, it), ' ')
	if !ok {
		s.out.B = append(s.out.B, "NIL"...)
		return nil
	}
	if it.Section.Text == imap.TextHeaderFields || it.Section.Text == imap.TextHeaderFieldsNot {
		return s.headerFields(body, p, it)
	}
	p = p.cut(it)
	if err := body.Reach(p.off, p.n); err != nil {
		return err
	}
	s.out.B = imap.AppendLiteralHead(s.out.B, p.n, false)
	if p.n > copyMost {
		s.out.leave(body, p)
		return nil
	}
	if err := s.extend(int(p.n)); err != nil {
		return err
	}
	start := len(s.out.B)
	b, err := body.AppendRange(s.out.B, p.off, p.n)
	s.out.B = b
	if err == nil && int64(len(b)-start) != p.n {
		err = store.ErrDamaged
	}
	hideNUL(b[start:])
	return err
}

// headerFields prints the selected fields of a header, or all others, and the empty line.
//
// Implements: RFC 9051 §6.4.5.1 HEADER.FIELDS
func (s *session) headerFields(body *store.Stored, p span, it *imap.FetchItem) error {
	// The selected fields follow the header, with line breaks.
	if err := s.scratchRoom(2*p.n+4, 0); err != nil {
		return err
	}
	header, err := body.AppendRange(s.scratch.B, p.off, p.n)
	if err != nil {
		return err
	}
	chosen := chosenFields(header, it)
	c := span{0, int64(len(chosen))}.cut(it)
	chosen = chosen[c.off : c.off+c.n]
	hideNUL(chosen)
	if err := s.extend(len(chosen) + literalHead); err != nil {
		return err
	}
	s.out.B = imap.AppendLiteral(s.out.B, chosen)
	return nil
}

// chosenFields returns the selected fields of a header, or all others, and the empty line. It appends them to the
// header, in its memory if that has room.
func chosenFields(header []byte, it *imap.FetchItem) []byte {
	not := it.Section.Text == imap.TextHeaderFieldsNot
	// If append reallocates, header still refers to the old memory.
	all := header
	for field := range mime.Fields(header) {
		if named(field, it.Section.Fields) != not {
			all = append(all, header[field.Start:field.End]...)
			if all[len(all)-1] != '\n' {
				all = append(all, "\r\n"...)
			}
		}
	}
	return append(all, "\r\n"...)[len(header):]
}

func named(field mime.HeaderField, names []string) bool {
	for _, n := range names {
		if field.Is(n) {
			return true
		}
	}
	return false
}

// binary prints BINARY[…] and BINARY.SIZE[…]: a part with its transfer encoding decoded. Its memory counts as a message
// in flight.
//
// Implements: RFC 9051 §6.4.5 BINARY
// Implements: RFC 3516 BINARY
func (f *fetcher) binary(m *mailbox.Message, i int) error {
	s, it := f.s, &f.items[i]
	p, ok, err := f.place(m, i)
	if err != nil {
		return err
	}
	encoding := mime.EncodingBinary
	if ok {
		if encoding, err = f.encoding(m, i); err != nil {
			return err
		}
	}
	name := s.out.here()
	s.out.B = append(imap.AppendItemName(s.out.B, it), ' ')
	switch {
	case !ok && it.Kind == imap.ItemBinarySize:
		s.out.B = append(s.out.B, '0')
		return nil
	case !ok:
		s.out.B = append(s.out.B, "NIL"...)
		return nil
	case encoding == mime.EncodingUnknown:
		return f.notDecoded(name, it, "UNKNOWN-CTE")
	}
	if s.scratchRoom(2*p.n, p.n+literalHead) != nil { // encoded and decoded; in the output
		return f.notDecoded(name, it, "LIMIT")
	}
	return f.decoded(m, p, encoding, it)
}

// encoding returns the transfer encoding of the body part in an item. Multiparts and messages have only identity
// encodings (RFC 2045 section 6.4).
func (f *fetcher) encoding(m *mailbox.Message, i int) (mime.Encoding, error) {
	if len(f.items[i].Section.Part) == 0 {
		return mime.EncodingBinary, nil
	}
	at, _, err := m.Section(f.paths[i])
	if err != nil || at.Kind == mime.KindMultipart || at.Kind == mime.KindMessage {
		return mime.EncodingBinary, err
	}
	return at.Encoding, nil
}

// notDecoded prints NIL, or a size of 0; the tagged NO explains it.
func (f *fetcher) notDecoded(name mark, it *imap.FetchItem, code string) error {
	f.refused = code
	f.s.out.cut(name)
	b := append(imap.AppendItemName(f.s.out.B, it), ' ')
	if it.Kind == imap.ItemBinarySize {
		f.s.out.B = append(b, '0')
		return nil
	}
	f.s.out.B = append(b, "NIL"...)
	return nil
}

func (f *fetcher) decoded(m *mailbox.Message, p span, encoding mime.Encoding, it *imap.FetchItem) error {
	s := f.s
	body, err := m.Body()
	if err != nil {
		return err
	}
	raw, err := body.AppendRange(s.scratch.B, p.off, p.n)
	if err != nil {
		return err
	}
	out, _ := mime.AppendDecoded(raw, raw, encoding, -1)
	data := out[len(raw):]
	if it.Kind == imap.ItemBinarySize {
		s.out.B = appendUint(s.out.B, uint64(len(data)))
		return nil
	}
	c := span{0, int64(len(data))}.cut(it)
	data = data[c.off : c.off+c.n]
	if err := s.extend(len(data) + literalHead); err != nil {
		return err
	}
	s.out.B = imap.AppendLiteralHead(s.out.B, c.n, bytes.IndexByte(data, 0) >= 0)
	s.out.B = append(s.out.B, data...)
	return nil
}
