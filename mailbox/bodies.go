package mailbox

import (
	"strconv"

	"doublet/store"
	"doublet/wire/mime"
)

// Bodies groups the parts of a message by their use in a client: the parts shown where the client displays plain text,
// those where it displays HTML, and the attachments.
type Bodies struct{ Text, HTML, Attachments []*mime.Part }

// BodiesOf groups the parts of a message.
//
// Implements: RFC 8621 §4.1.4 textBody, htmlBody and attachments
func BodiesOf(root *mime.Part) Bodies {
	var b Bodies
	b.sort([]*mime.Part{root}, "mixed", false, &b.HTML, &b.Text)
	return b
}

func shownMedia(p *mime.Part) bool {
	return p.Type == "image" || p.Type == "audio" || p.Type == "video"
}

func isText(p *mime.Part, subtype string) bool { return p.Type == "text" && p.Subtype == subtype }

// isShown reports whether a part is shown with the text of the message (RFC 8621 section 4.1.4).
func isShown(p *mime.Part, first bool, multipart string) bool {
	return p.Disposition != "attachment" && (isText(p, "plain") || isText(p, "html") || shownMedia(p)) &&
		(first || multipart != "related" && (shownMedia(p) || p.Filename() == ""))
}

// lengthOf returns the length of a list, or -1 for nil.
func lengthOf(list *[]*mime.Part) int {
	if list == nil {
		return -1
	}
	return len(*list)
}

// sort implements the algorithm of RFC 8621. html or text is nil if the parts belong to the other list only.
func (b *Bodies) sort(parts []*mime.Part, multipart string, inAlternative bool, html, text *[]*mime.Part) {
	textLength, htmlLength := lengthOf(text), lengthOf(html)
	for i, p := range parts {
		switch {
		case p.IsMultipart():
			b.sort(p.Children, p.Subtype, inAlternative || p.Subtype == "alternative", html, text)
			continue
		case !isShown(p, i == 0, multipart):
			b.Attachments = append(b.Attachments, p)
			continue
		case multipart == "alternative":
			b.alternative(p, html, text)
			continue
		}
		if inAlternative && isText(p, "plain") {
			html = nil
		}
		if inAlternative && isText(p, "html") {
			text = nil
		}
		b.both(p, html, text)
	}
	if multipart == "alternative" && text != nil && html != nil {
		fillEmpty(html, text, htmlLength, textLength)
	}
}

// alternative adds an alternative to the list of its type.
func (b *Bodies) alternative(p *mime.Part, html, text *[]*mime.Part) {
	switch {
	case isText(p, "plain") && text != nil:
		*text = append(*text, p)
	case isText(p, "html") && html != nil:
		*html = append(*html, p)
	case p.Type != "text":
		b.Attachments = append(b.Attachments, p)
	}
}

// both adds a part to both lists. Media that one of the lists lacks is an attachment too.
func (b *Bodies) both(p *mime.Part, html, text *[]*mime.Part) {
	if text != nil {
		*text = append(*text, p)
	}
	if html != nil {
		*html = append(*html, p)
	}
	if (text == nil || html == nil) && shownMedia(p) {
		b.Attachments = append(b.Attachments, p)
	}
}

// fillEmpty adds the parts of a multipart/alternative to the list that received none of them. The lengths are those of
// the lists before the multipart, or -1 for a list that was absent.
func fillEmpty(html, text *[]*mime.Part, htmlLength, textLength int) {
	if textLength == len(*text) && htmlLength >= 0 && htmlLength != len(*html) {
		*text = append(*text, (*html)[htmlLength:]...)
	} else if htmlLength == len(*html) && textLength >= 0 && textLength != len(*text) {
		*html = append(*html, (*text)[textLength:]...)
	}
}

// HasAttachment reports whether a message has an attachment that is not inline.
//
// Implements: RFC 8621 §4.1.4 hasAttachment
func HasAttachment(root *mime.Part) bool {
	for _, p := range BodiesOf(root).Attachments {
		if p.Disposition != "inline" {
			return true
		}
	}
	return false
}

// PlacesOf returns the IMAP section number, such as "1.2", of each part that has content.
func PlacesOf(root *mime.Part) map[*mime.Part]string {
	places := map[*mime.Part]string{}
	if root.IsMultipart() {
		place(places, root, nil)
	} else {
		places[root] = "1"
	}
	return places
}

func place(places map[*mime.Part]string, p *mime.Part, above []byte) {
	for i, child := range p.Children {
		at := above[:len(above):len(above)]
		if len(at) > 0 {
			at = append(at, '.')
		}
		at = strconv.AppendInt(at, int64(i+1), 10)
		if child.IsMultipart() {
			place(places, child, at)
		} else {
			places[child] = string(at)
		}
	}
}

// Content is a part of a stored message with its transfer encoding removed. It stays readable as long as the message.
type Content struct {
	Size int64
	// Append appends n bytes starting at off, or fewer at the end of the part.
	Append func(dst []byte, off, n int64) ([]byte, error)
}

// ReadWhole reports whether ContentOf reads the whole part and keeps it decoded in memory.
func ReadWhole(body *store.Stored, span mime.SectionSpan) bool {
	if span.Encoding == mime.EncodingBase64 {
		_, ok := body.Decoded(int64(span.BodyStart), int64(span.BodyEnd))
		return !ok
	}
	return span.Encoding == mime.EncodingQuotedPrintable
}

// ContentOf opens a part. It reads the whole part if that is in quoted-printable, or in base64 that is not stored
// decoded.
func ContentOf(body *store.Stored, span mime.SectionSpan) (Content, error) {
	from, to := int64(span.BodyStart), int64(span.BodyEnd)
	if err := body.Reach(from, to-from); err != nil {
		return Content{}, err
	}
	switch span.Encoding {
	case mime.EncodingBase64:
		if n, ok := body.Decoded(from, to); ok {
			return Content{n, func(dst []byte, off, n int64) ([]byte, error) {
				return body.AppendDecoded(dst, from, to, off, n)
			}}, nil
		}
	case mime.EncodingQuotedPrintable:
	default:
		return Content{to - from, func(dst []byte, off, n int64) ([]byte, error) {
			off = min(max(off, 0), to-from)
			return body.AppendRange(dst, from+off, min(n, to-from-off))
		}}, nil
	}
	raw, err := body.AppendRange(make([]byte, 0, to-from), from, to-from)
	if err != nil {
		return Content{}, err
	}
	out, _ := mime.AppendDecoded(make([]byte, 0, len(raw)), raw, span.Encoding, -1)
	return Content{int64(len(out)), func(dst []byte, off, n int64) ([]byte, error) {
		off = min(max(off, 0), int64(len(out)))
		return append(dst, out[off:min(off+n, int64(len(out)))]...), nil
	}}, nil
}
