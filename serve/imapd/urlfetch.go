package imapd

import (
	"bytes"
	"doublet/serve/listen"

	"doublet/wire/imap"
	"doublet/wire/mime"
)

// urlFetch returns the data of authorized URLs. It answers NIL for a URL that cannot be opened, for any reason.
//
// Implements: RFC 4467 §6 URLFETCH
// Implements: RFC 5524 §3 extended URLFETCH: BODY, BINARY and BODYPARTSTRUCTURE
func (s *session) urlFetch(cmd *imap.Command) {
	a := cmd.Args.(*imap.URLFetch)
	for i := range a.URLs {
		it := &a.URLs[i]
		s.out.B = imap.AppendString(append(s.out.B, "* URLFETCH "...), it.URL, false)
		s.out.B = append(s.out.B, ' ')
		start := s.out.here()
		err := s.urlData(it)
		if err == nil {
			err = s.room(0)
		}
		if err != nil {
			if !unreadable(err) && err != listen.ErrMemory {
				s.srv.env.Log.Error("imapd: cannot read URL", "account", s.account.Name, "err", err)
			}
			s.out.cut(start)
			s.out.B = append(s.out.B, "NIL"...)
		}
		s.out.B = append(s.out.B, "\r\n"...)
		if s.flushPart() != nil {
			return
		}
	}
	s.done(cmd, "", "URLFETCH completed")
}

// urlData prints the data of a URL. After an error the caller discards the output.
func (s *session) urlData(it *imap.URLFetchItem) error {
	u, err := imap.ParseURL(it.URL)
	if err != nil || u.Token == "" {
		return errURL
	}
	view, err := s.authorized(u)
	if err != nil {
		return err
	}
	p, err := s.locate(view, u, it.BodyPartStructure)
	if err != nil {
		return err
	}
	switch {
	case it.Binary:
		return s.urlBinary(it, u, &p)
	case it.BodyPartStructure:
		s.out.B = appendPartStructure(s.out.B, structureOf(&p, u))
		if !it.Body {
			return nil
		}
		s.out.B = append(s.out.B, ' ')
	}
	if it.Body {
		s.out.B = append(s.out.B, "(BODY "...)
	}
	if err := s.urlText(u, &p); err != nil {
		return err
	}
	if it.Body {
		s.out.B = append(s.out.B, ')')
	}
	return nil
}

// urlText prints data as a literal. Long data is read while it is sent.
func (s *session) urlText(u *imap.URL, p *urlPiece) error {
	if cut := p.span.cut(&u.Item); p.fields == nil && cut.n > copyMost {
		if err := p.body.Reach(cut.off, cut.n); err != nil {
			return err
		}
		s.out.B = imap.AppendLiteralHead(s.out.B, cut.n, false)
		s.out.leave(p.body, cut)
		return nil
	}
	b, held, err := s.bytes(p, &u.Item)
	defer s.memory().Give(held)
	if err == nil {
		err = s.extend(len(b) + literalHead)
	}
	if err == nil {
		s.out.B = imap.AppendLiteral(s.out.B, b)
	}
	return err
}

// urlBinary prints data with its transfer encoding decoded, and its structure in that form.
func (s *session) urlBinary(it *imap.URLFetchItem, u *imap.URL, p *urlPiece) error {
	encoding := mime.EncodingBinary
	if p.part && p.fields == nil {
		encoding = p.encoding
	}
	structure := structureOf(p, u)
	if encoding == mime.EncodingUnknown {
		if it.BodyPartStructure {
			s.out.B = append(appendPartStructure(s.out.B, structure), ' ')
		}
		s.out.B = append(s.out.B, "(BINARY NIL)"...)
		return nil
	}
	cost := p.n // decoded
	if !s.memory().Take(cost) {
		return listen.ErrMemory
	}
	defer s.memory().Give(cost)
	raw, held, err := s.bytes(p, &imap.FetchItem{Section: u.Item.Section})
	defer s.memory().Give(held)
	if err != nil {
		return err
	}
	data := raw
	if encoding != mime.EncodingBinary && encoding != mime.Encoding7Bit && encoding != mime.Encoding8Bit {
		data, _ = mime.AppendDecoded(make([]byte, 0, len(raw)), raw, encoding, -1)
		decodedStructure(structure, data)
	}
	if it.BodyPartStructure {
		s.out.B = append(appendPartStructure(s.out.B, structure), ' ')
	}
	c := span{0, int64(len(data))}.cut(&u.Item)
	data = data[c.off : c.off+c.n]
	if err := s.extend(len(data) + literalHead); err != nil { // reserved until it is sent
		return err
	}
	s.out.B = imap.AppendLiteralHead(append(s.out.B, "(BINARY "...), c.n, bytes.IndexByte(data, 0) >= 0)
	s.out.B = append(append(s.out.B, data...), ')')
	return nil
}

// structureOf returns the structure of the part in a URL, or nil.
func structureOf(p *urlPiece, u *imap.URL) *mime.Part {
	if !p.part || len(p.structure) == 0 {
		return nil
	}
	root, err := imap.ParseBodyStructure(p.structure)
	if err != nil {
		return nil
	}
	part := root
	for _, n := range u.Item.Section.Part {
		if part.IsMessage() {
			part = part.Children[0]
		}
		switch {
		case part.IsMultipart() && int(n) <= len(part.Children):
			part = part.Children[n-1]
		case part.IsMultipart() || n != 1:
			return nil
		}
	}
	return part
}

// decodedStructure changes the structure of a part to match its decoded content.
func decodedStructure(part *mime.Part, data []byte) {
	if part == nil {
		return
	}
	part.BodyEnd, part.Lines, part.Encoding = part.BodyStart+len(data), bytes.Count(data, []byte("\n")), "7bit"
	for _, c := range data {
		if c == 0 {
			part.Encoding = "binary"
			return
		}
		if c >= 0x80 {
			part.Encoding = "8bit"
		}
	}
}

func appendPartStructure(dst []byte, part *mime.Part) []byte {
	dst = append(dst, "(BODYPARTSTRUCTURE "...)
	if part == nil {
		return append(dst, "NIL)"...)
	}
	return append(imap.AppendBodyStructure(dst, part), ')')
}
