package text

import (
	"errors"
	"strings"

	"doublet/wire/mime"
)

// part reads a part and its children. second is set if it is not the first child of a multipart. mime.Limits bounds the
// depth of the tree.
func (r *reader) part(p *mime.Part, second bool) {
	switch {
	case r.found:
	case r.left <= 0:
		r.d.Beyond++
	case encrypted(p):
		if !r.late {
			r.d.Encrypted++
		}
	case p.IsMessage():
		for _, c := range p.Children {
			r.enclosed(c, p.Filename())
		}
	case len(p.Children) > 0:
		for i, c := range p.Children {
			r.part(c, i > 0)
		}
	case r.late:
		r.lateLeaf(p)
	default:
		r.leaf(p, second)
	}
}

// enclosed reads an attached message. Its text is in field Body, including its header.
func (r *reader) enclosed(m *mime.Part, name string) {
	if !r.late {
		r.add(Filename, name)
		var b strings.Builder
		for f := range mime.Fields(m.Header(r.raw)) {
			if len(f.Name) == 0 || Unread(string(f.Name)) || b.Len() > fieldBytes {
				continue
			}
			b.WriteString(clip(mime.DecodeWords(f.Text()), fieldBytes))
			b.WriteByte('\n')
		}
		r.add(Body, b.String())
	}
	r.part(m, false)
}

func encrypted(p *mime.Part) bool {
	switch {
	case p.Type == "multipart":
		return p.Subtype == "encrypted"
	case p.Type != "application":
		return false
	case p.Subtype == "pgp-encrypted":
		return true
	case p.Subtype == "pkcs7-mime" || p.Subtype == "x-pkcs7-mime":
		kind := strings.ToLower(p.Param("smime-type"))
		return kind != "signed-data" && kind != "certs-only"
	}
	return false
}

// leaf reads a part without children.
func (r *reader) leaf(p *mime.Part, second bool) {
	name := p.Filename()
	r.add(Filename, name)
	switch k := r.later(p, name); {
	case k != kindNone:
		r.d.Later++
		return
	case p.Type != "text" && !textual(p) || p.BodyEnd == p.BodyStart:
		return
	}
	own := Body
	if p.Disposition == "attachment" || p.Type != "text" || name != "" && second {
		own = Attached
	}
	r.text(p, own)
}

// text reads a part that contains text.
func (r *reader) text(p *mime.Part, own Field) {
	limit := r.l.Part
	html := p.Subtype == "html" || p.Subtype == "xhtml+xml"
	if html {
		limit *= 4 // tags do not count as text
	}
	s, cut := mime.DecodeText(p, r.raw, limit)
	if cut {
		r.d.Beyond++
	}
	switch {
	case r.lacks(s, html):
	case html:
		r.html(s, own)
	default:
		r.plain(s, own)
	}
}

// later returns the format that lateLeaf reads, or kindNone if the part is not a slow attachment.
func (r *reader) later(p *mime.Part, name string) kind {
	size := p.BodyEnd - p.BodyStart + r.cut[p.BodyStart]
	switch {
	case size == 0 || p.Type == "text":
		return kindNone
	case textual(p) && size < Large:
		return kindNone
	case textual(p):
		return kindText
	}
	return kindOf(p.Type, p.Subtype, name)
}

// lateLeaf reads a slow attachment.
func (r *reader) lateLeaf(p *mime.Part) {
	k := r.later(p, p.Filename())
	switch {
	case k == kindNone:
		return
	case k == kindText:
		r.text(p, Attached)
		return
	case p.BodyEnd-p.BodyStart > r.l.Attachment/3*4+1024:
		r.d.Beyond++
		return
	}
	body := p.Body(r.raw)
	switch e := mime.EncodingOf(p.Encoding); e {
	case mime.EncodingBase64, mime.EncodingQuotedPrintable:
		body, _ = mime.AppendDecoded(make([]byte, 0, len(body)), body, e, r.l.Attachment)
	}
	s, err := open(body, k, min(r.l.Part, r.left))
	r.add(Attached, s)
	switch {
	case errors.Is(err, errEncrypted):
		r.d.Encrypted++
	case errors.Is(err, errBeyond):
		r.d.Beyond++
	case err != nil:
		r.d.Broken++
	}
}

// open returns the text of an attachment, at most room bytes. It recovers from panics, so that a bug in a format's
// reader affects only this attachment.
func open(b []byte, k kind, room int) (s string, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = "", errBroken
		}
	}()
	if k == kindPDF {
		return pdfText(b, room)
	}
	return office(b, k, room)
}

// textual reports whether a part that is not text/* contains text nevertheless.
func textual(p *mime.Part) bool {
	if p.Type != "application" {
		return false
	}
	switch p.Subtype {
	case "json", "xml", "xhtml+xml", "x-sh", "javascript", "x-tex", "x-subrip", "sql", "yaml", "toml":
		return true
	}
	return false
}

// maxBlocks is the maximum number of changes between quoted and unquoted text; text after that is not split.
const maxBlocks = 1000

// plain adds plain text. Quoted lines, which begin with >, get field Quoted. Armored blocks (PGP, PEM) are left out.
func (r *reader) plain(s string, own Field) {
	s = validUTF8(clip(s, r.l.Part))
	start, quoted, blocks := 0, false, 0
	flush := func(end int) {
		f := own
		if quoted && own == Body {
			f = Quoted
		}
		r.add(f, s[start:end])
		start = end
	}
	for at := 0; at < len(s); {
		end := len(s)
		if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		switch {
		case s[at] == '-' && strings.HasPrefix(s[at:], "-----BEGIN "):
			flush(at)
			if strings.HasPrefix(s[at:], "-----BEGIN PGP MESSAGE") {
				r.d.Encrypted++
			}
			// Signed text follows its first line in clear.
			if !strings.HasPrefix(s[at:], "-----BEGIN PGP SIGNED") {
				end = armourEnd(s, end)
			}
			start = end
		case own == Body && (s[at] == '>') != quoted && blocks < maxBlocks && s[at] != '\n' && s[at] != '\r':
			flush(at)
			quoted = !quoted
			blocks++
		}
		at = end
	}
	flush(len(s))
}

// armourEnd returns the offset after the armored block whose first line ends at at.
func armourEnd(s string, at int) int {
	i := strings.Index(s[at:], "\n-----END ")
	if i < 0 {
		if strings.HasPrefix(s[at:], "-----END ") {
			i = -1
		} else {
			return at // no end line: treat it as text
		}
	}
	at += i + 1
	if j := strings.IndexByte(s[at:], '\n'); j >= 0 {
		return at + j + 1
	}
	return len(s)
}

// kind is the format of an attachment.
type kind uint8

const (
	kindNone kind = iota
	kindPDF
	kindWord
	kindSheet
	kindSlides
	kindODF
	kindText
)

var kinds = map[string]kind{
	"application/pdf": kindPDF, "application/x-pdf": kindPDF, "pdf": kindPDF,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   kindWord,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.template":   kindWord,
	"application/vnd.ms-word.document.macroenabled.12":                          kindWord,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         kindSheet,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.template":      kindSheet,
	"application/vnd.ms-excel.sheet.macroenabled.12":                            kindSheet,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": kindSlides,
	"application/vnd.openxmlformats-officedocument.presentationml.slideshow":    kindSlides,
	"application/vnd.ms-powerpoint.presentation.macroenabled.12":                kindSlides,
	"docx": kindWord, "docm": kindWord, "dotx": kindWord, "xlsx": kindSheet, "xlsm": kindSheet, "xltx": kindSheet,
	"pptx": kindSlides, "pptm": kindSlides, "ppsx": kindSlides, "potx": kindSlides,
	"odt": kindODF, "ods": kindODF, "odp": kindODF, "odg": kindODF, "ott": kindODF, "ots": kindODF, "otp": kindODF,
}

// kindOf determines the format by the media type or, if that is generic, by the file name.
func kindOf(major, minor, name string) kind {
	full := major + "/" + minor
	if k := kinds[full]; k != kindNone {
		return k
	}
	if strings.HasPrefix(full, "application/vnd.oasis.opendocument.") {
		return kindODF
	}
	if major != "application" {
		return kindNone
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot > 8 {
		return kindNone
	}
	return kinds[strings.ToLower(name[dot+1:])]
}
