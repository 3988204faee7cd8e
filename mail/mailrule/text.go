package mailrule

import (
	"bytes"
	"errors"
	"html"
	"mime/quotedprintable"
	"strings"
	"unicode/utf8"

	"doublet/wire/mime"
)

// Reasons for which a text is not put into a message.
var (
	ErrSigned = errors.New("message is signed")
	ErrSealed = errors.New("message is encrypted")
	ErrNoText = errors.New("message has no text that could be extended")
)

// AddText puts a text at the end of the text that readers see: of each alternative, plain and HTML, in its own form. It
// returns a new message. A signed or encrypted message is left alone, because the text would break it: S/MIME, PGP, and
// DKIM or ARC signatures of others. Errors: ErrSigned, ErrSealed, ErrNoText.
func AddText(raw []byte, text string) ([]byte, error) {
	for f := range mime.Fields(raw[:mime.HeaderEnd(raw)]) {
		if f.Is("DKIM-Signature") || f.Is("ARC-Seal") {
			return nil, ErrSigned
		}
	}
	root := mime.Parse(raw, mime.DefaultLimits)
	if err := protected(root, raw); err != nil {
		return nil, err
	}
	parts := readable(root, nil)
	if len(parts) == 0 || len(parts) > maxAlternatives {
		return nil, ErrNoText
	}
	out := make([]byte, 0, len(raw)+len(parts)*(2*len(text)+512))
	at := 0
	for _, p := range parts {
		if p.HeaderStart > 0 && raw[p.HeaderStart-1] != '\n' {
			return nil, ErrNoText // the message ends within a boundary
		}
		more, ok := extended(p, raw, text, p == root)
		if !ok {
			return nil, ErrNoText
		}
		out = append(append(out, raw[at:p.HeaderStart]...), more...)
		at = p.BodyEnd
	}
	return append(out, raw[at:]...), nil
}

// maxAlternatives is the maximum number of parts that are extended.
const maxAlternatives = 20

// maxArmor is the number of bytes of a text in which PGP armor is searched.
const maxArmor = 1 << 20

// protected returns an error for a message with a part that is signed or encrypted.
func protected(p *mime.Part, raw []byte) error {
	switch media := p.Type + "/" + p.Subtype; {
	case media == "multipart/signed", strings.HasSuffix(media, "pkcs7-signature"), media == "application/pgp-signature":
		return ErrSigned
	case media == "multipart/encrypted", strings.HasSuffix(media, "pkcs7-mime"), media == "application/pgp-encrypted":
		return ErrSealed
	case p.Type == "text":
		body, _ := mime.DecodeText(p, raw, maxArmor)
		if strings.Contains(body, "-----BEGIN PGP SIGNED MESSAGE") {
			return ErrSigned
		}
		if strings.Contains(body, "-----BEGIN PGP MESSAGE") {
			return ErrSealed
		}
	}
	if p.IsMessage() {
		return nil // an attached message is not changed
	}
	for _, c := range p.Children {
		if err := protected(c, raw); err != nil {
			return err
		}
	}
	return nil
}

// readable appends the parts that readers see as the text of a message: the first part of a multipart, or all
// alternatives.
func readable(p *mime.Part, to []*mime.Part) []*mime.Part {
	switch {
	case p.IsMultipart() && p.Subtype == "alternative":
		for _, c := range p.Children {
			to = readable(c, to)
		}
	case p.IsMultipart() && p.Subtype == "report":
	case p.IsMultipart():
		if len(p.Children) > 0 {
			to = readable(p.Children[0], to)
		}
	case p.Type == "text" && (p.Subtype == "plain" || p.Subtype == "html") && p.Disposition != "attachment" &&
		!mime.UnknownCharset(p.Param("charset")) && known(p.Encoding):
		to = append(to, p)
	}
	return to
}

// known reports whether a transfer encoding can be decoded.
func known(encoding string) bool {
	switch encoding {
	case "7bit", "8bit", "binary", "quoted-printable", "base64":
		return true
	}
	return false
}

// maxExtended is the maximum size in bytes of a text that is extended. Each is decoded in memory.
const maxExtended = 8 << 20

// extended returns a part with a text at its end. The body becomes UTF-8. ok is false if it cannot be decoded without
// loss.
func extended(p *mime.Part, raw []byte, text string, root bool) (out []byte, ok bool) {
	if p.BodyEnd-p.BodyStart > maxExtended {
		return nil, false
	}
	body, truncated := mime.DecodeText(p, raw, utf8.UTFMax*len(raw)+utf8.UTFMax)
	if truncated || strings.ContainsRune(body, utf8.RuneError) {
		return nil, false
	}
	body = strings.ReplaceAll(body, "\r\n", "\n")
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if p.Subtype == "html" {
		body = extendHTML(body, text)
	} else {
		body = strings.TrimRight(body, "\n") + "\n\n" + stuffed(text, p.Param("format")) + "\n"
	}
	encoding := encodingFor(p, body, root)
	out = headerFor(p, raw, encoding, root)
	body = strings.ReplaceAll(body, "\n", "\r\n")
	encoded := encode(body, encoding)
	if !bytes.HasSuffix(p.Body(raw), []byte("\r\n")) && bytes.HasPrefix(raw[p.BodyEnd:], []byte("\r\n")) {
		// The line break before a boundary belongs to the boundary.
		encoded = bytes.TrimSuffix(encoded, []byte("\r\n"))
	}
	return append(out, encoded...), true
}

// stuffed prepares a text for format=flowed: no line is joined with the next, and none looks quoted.
//
// Implements: RFC 3676 §4.4 Space-stuffing
func stuffed(text, format string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, " ")
		if strings.EqualFold(format, "flowed") &&
			(strings.HasPrefix(l, " ") || strings.HasPrefix(l, ">") || strings.HasPrefix(l, "From ")) {
			l = " " + l
		}
		lines[i] = l
	}
	return strings.Join(lines, "\n")
}

// extendHTML puts a text before the end of the body of an HTML document.
func extendHTML(body, text string) string {
	block := "<div>" + strings.ReplaceAll(html.EscapeString(text), "\n", "<br>\n") + "</div>\n"
	lower := asciiLower(body)
	for _, tag := range []string{"</body", "</html"} {
		if i := strings.LastIndex(lower, tag); i >= 0 {
			return body[:i] + block + body[i:]
		}
	}
	return body + "\n" + block
}

// asciiLower folds ASCII letters only, so that positions stay.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// maxLine is the maximum length of a line without its line break (RFC 5322 section 2.1.1).
const maxLine = 998

// encodingFor keeps base64, and 7bit for ASCII in short lines. All else becomes quoted-printable, and lines in a part
// that could look like a boundary.
func encodingFor(p *mime.Part, body string, root bool) string {
	if p.Encoding == "base64" {
		return "base64"
	}
	for line := range strings.SplitSeq(body, "\n") {
		if len(line) > maxLine || !root && strings.HasPrefix(line, "--") ||
			strings.ContainsFunc(line, func(r rune) bool { return r >= 0x80 || r == '\r' || r == 0 }) {
			return "quoted-printable"
		}
	}
	return "7bit"
}

// headerFor returns the header of a part with another charset and transfer encoding. The other fields stay as they are,
// except a digest of the body.
func headerFor(p *mime.Part, raw []byte, encoding string, root bool) []byte {
	header := p.Header(raw)
	out := make([]byte, 0, len(header)+128)
	version := !root
	for f := range mime.Fields(header) {
		version = version || f.Is("MIME-Version")
		if !f.Is("Content-Type") && !f.Is("Content-Transfer-Encoding") && !f.Is("Content-MD5") {
			out = append(out, header[f.Start:f.End]...)
		}
	}
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, "\r\n"...)
	}
	if !version {
		out = append(out, "MIME-Version: 1.0\r\n"...)
	}
	out = append(append(out, "Content-Type: text/"...), p.Subtype...)
	out = append(out, "; charset=utf-8"...)
	for _, x := range p.Params {
		if x.Name == "format" || x.Name == "delsp" {
			if token(x.Value) {
				out = append(append(append(append(out, "; "...), x.Name...), '='), x.Value...)
			}
		}
	}
	out = append(append(append(out, "\r\nContent-Transfer-Encoding: "...), encoding...), "\r\n\r\n"...)
	return out
}

// token reports whether a parameter's value needs no quotes.
func token(v string) bool {
	return v != "" && strings.Trim(strings.ToLower(v), "abcdefghijklmnopqrstuvwxyz") == ""
}

// encode encodes text with CRLF lines.
func encode(body, encoding string) []byte {
	switch encoding {
	case "base64":
		return mime.AppendBase64Lines(nil, []byte(body), 76, true)
	case "quoted-printable":
		var b bytes.Buffer
		w := quotedprintable.NewWriter(&b)
		_, _ = w.Write([]byte(body)) // a bytes.Buffer takes all
		_ = w.Close()
		text := "\r\n" + b.String()
		return []byte(strings.ReplaceAll(text, "\r\n--", "\r\n=2D-")[len("\r\n"):])
	}
	return []byte(body)
}
