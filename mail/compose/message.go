// Package compose writes the messages that people send or keep as drafts, from header fields, texts and files. All
// protocols use it.
package compose

import (
	"encoding/hex"
	"maps"
	gomime "mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"doublet/env"
	"doublet/mailbox"
	"doublet/wire/mime"
)

// Part is a part of a message to be written. Its body is one of Children, Text (with IsText), Content, or Plain, which
// is copied unchanged.
type Part struct {
	Type, Subtype string
	Charset       string // of a part without IsText; texts are UTF-8
	Disposition   string
	Name          string
	ID, Location  string // Content-ID without angle brackets
	Language      []string
	Fields        []Field // additional header fields
	Children      []*Part
	Params        map[string]string // additional parameters of the type
	Plain         []byte
	Text          string // lines end with LF or CRLF
	IsText        bool
	// Size and Content describe a file. Content reads it when the part is written.
	Size    int64
	Content func() ([]byte, error)
}

// Field is a header field to be written. Words are written with folding between them.
type Field struct {
	Name  string
	Words []string // folding does not split a word; joined by blanks
	Raw   string   // written unchanged if Words is nil
}

// Writer writes a message.
type Writer struct {
	Env *env.Env
	// MaxSize is the maximum size of a file in bytes.
	MaxSize int
	// Room is the approximate size of the message in bytes, which is allocated at once.
	Room   int
	Fields []Field
	b      []byte
	err    error
}

// DateLayout is the layout of a Date field.
const DateLayout = "Mon, 2 Jan 2006 15:04:05 -0700"

// Message writes the message: the given fields, the fields that every message needs, and the parts. It returns
// mailbox.ErrTooBig if a file is larger than MaxSize.
func (w *Writer) Message(root *Part) ([]byte, error) {
	w.b = slices.Grow(w.b, w.Room)
	for i := range w.Fields {
		w.field(&w.Fields[i])
	}
	if !w.has("Date") {
		w.field(&Field{Name: "Date", Words: []string{w.Env.Clock.Now().UTC().Format(DateLayout)}})
	}
	if !w.has("Message-ID") {
		w.field(&Field{Name: "Message-ID", Words: []string{"<" + w.random() + "@" + w.domain() + ">"}})
	}
	if !w.has("MIME-Version") {
		w.b = append(w.b, "MIME-Version: 1.0\r\n"...)
	}
	w.part(root)
	return w.b, w.err
}

func (w *Writer) has(name string) bool {
	return slices.ContainsFunc(w.Fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

func (w *Writer) random() string {
	var b [16]byte
	w.Env.Fill(b[:])
	return hex.EncodeToString(b[:])
}

// domain returns the author's domain, for the Message-ID.
func (w *Writer) domain() string {
	for i := range w.Fields {
		if f := &w.Fields[i]; strings.EqualFold(f.Name, "From") && len(f.Words) > 0 {
			last := strings.Trim(f.Words[len(f.Words)-1], "<>,; ")
			if at := strings.LastIndexByte(last, '@'); at > 0 && Token(last[at+1:]) {
				return last[at+1:]
			}
		}
	}
	return "localhost"
}

// maxLine is the maximum length of header lines that can be folded.
const maxLine = 76

// field writes a header field, folded between its words.
func (w *Writer) field(f *Field) {
	w.b = append(append(w.b, f.Name...), ':')
	if f.Words == nil {
		raw := strings.ReplaceAll(strings.ReplaceAll(f.Raw, "\r\n", "\n"), "\n", "\r\n")
		if !strings.HasPrefix(raw, " ") && raw != "" {
			w.b = append(w.b, ' ')
		}
		w.b = append(append(w.b, raw...), "\r\n"...)
		return
	}
	col := len(f.Name) + 1
	for i, word := range f.Words {
		if i > 0 && col+1+len(word) > maxLine {
			w.b = append(w.b, "\r\n"...)
			col = 0
		}
		w.b = append(append(w.b, ' '), word...)
		col += 1 + len(word)
	}
	w.b = append(w.b, "\r\n"...)
}

// part writes a part's header and body.
func (w *Writer) part(p *Part) {
	params := map[string]string{}
	for k, v := range p.Params {
		params[k] = v
	}
	if p.Children != nil {
		params["boundary"] = "=_" + w.random()
	}
	if p.IsText {
		params["charset"] = "utf-8"
	} else if p.Charset != "" {
		params["charset"] = p.Charset
	}
	if p.Name != "" && p.Disposition == "" {
		params["name"] = p.Name
	}
	w.mimeField("Content-Type", p.Type+"/"+p.Subtype, params)
	if p.Disposition != "" {
		params := map[string]string{}
		if p.Name != "" {
			params["filename"] = p.Name
		}
		w.mimeField("Content-Disposition", p.Disposition, params)
	}
	if p.ID != "" {
		w.field(&Field{Name: "Content-ID", Words: []string{"<" + p.ID + ">"}})
	}
	if p.Location != "" {
		w.field(&Field{Name: "Content-Location", Words: []string{p.Location}})
	}
	if p.Language != nil {
		w.field(&Field{Name: "Content-Language", Words: []string{strings.Join(p.Language, ", ")}})
	}
	for i := range p.Fields {
		w.field(&p.Fields[i])
	}
	w.body(p, params["boundary"])
}

// body writes the body of a part, or its parts between boundaries.
func (w *Writer) body(p *Part, boundary string) {
	switch {
	case p.Children != nil:
		w.b = append(w.b, "\r\n"...)
		for _, child := range p.Children {
			w.b = append(append(append(w.b, "--"...), boundary...), "\r\n"...)
			w.part(child)
			w.b = append(w.b, "\r\n"...)
		}
		w.b = append(append(append(w.b, "--"...), boundary...), "--\r\n"...)
	case p.IsText:
		w.text(p.Text)
	case p.Content != nil:
		w.attachment(p)
	default:
		w.b = append(append(w.b, "\r\n"...), p.Plain...)
	}
}

// mimeField writes a field with parameters, folded between them.
func (w *Writer) mimeField(name, value string, params map[string]string) {
	f := Field{Name: name, Words: []string{value}}
	for _, k := range slices.Sorted(maps.Keys(params)) {
		one := gomime.FormatMediaType("x", map[string]string{k: params[k]})
		_, text, ok := strings.Cut(one, "; ")
		if !ok { // a parameter that cannot be written is left out
			continue
		}
		f.Words[len(f.Words)-1] += ";"
		f.Words = append(f.Words, text)
	}
	w.field(&f)
}

// text writes a body with the most readable encoding that is safe.
func (w *Writer) text(s string) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	longest, high, odd := 0, 0, false
	for line := range strings.SplitSeq(s, "\n") {
		longest = max(longest, len(line))
		odd = odd || strings.HasSuffix(line, " ") || strings.HasPrefix(line, "From ") ||
			strings.IndexByte(line, '\r') >= 0
	}
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] < ' ' && s[i] != '\n' && s[i] != '\t' {
			high++
		}
	}
	switch {
	case high == 0 && longest <= 900 && !odd:
		w.b = append(w.b, "Content-Transfer-Encoding: 7bit\r\n\r\n"...)
		w.b = mime.AppendCRLF(w.b, []byte(s))
	case high*3 > len(s):
		w.base64([]byte(strings.ReplaceAll(s, "\n", "\r\n")))
	default:
		w.b = append(w.b, "Content-Transfer-Encoding: quoted-printable\r\n\r\n"...)
		w.b = appendQuotedPrintable(w.b, s)
	}
}

func (w *Writer) base64(content []byte) {
	w.b = append(w.b, "Content-Transfer-Encoding: base64\r\n\r\n"...)
	w.b = mime.AppendBase64Lines(w.b, content, maxLine, false)
}

// isLiteral reports whether the first byte of s needs no encoding at this place of its line. A blank at the end would
// be lost, and a dot or "From " at the start changed on the way.
func isLiteral(s string, start, end bool) bool {
	switch c := s[0]; {
	case c == ' ' || c == '\t':
		return !end
	case start && (c == '.' || strings.HasPrefix(s, "From ")):
		return false
	default:
		return c > ' ' && c < 0x7f && c != '='
	}
}

// appendQuotedPrintable appends a text in quoted-printable (RFC 2045 section 6.7). Its lines end with LF.
func appendQuotedPrintable(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	col := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\n' {
			dst = append(dst, "\r\n"...)
			col = 0
			continue
		}
		end := i+1 == len(s) || s[i+1] == '\n'
		plain := isLiteral(s[i:], col == 0, end)
		width := 1
		if !plain {
			width = 3
		}
		if col+width > maxLine-1 && !(end && col+width <= maxLine) {
			dst = append(dst, "=\r\n"...)
			col = 0
		}
		if plain {
			dst = append(dst, c)
		} else {
			dst = append(dst, '=', digits[c>>4], digits[c&15])
		}
		col += width
	}
	return dst
}

// attachment writes a file. A message is written without encoding, because none is allowed (RFC 2046 section 5.2.1).
func (w *Writer) attachment(p *Part) {
	if w.err != nil {
		return
	}
	if p.Size > int64(w.MaxSize) {
		w.err = mailbox.ErrTooBig
		return
	}
	content, err := p.Content()
	if err != nil {
		w.err = err
		return
	}
	if p.Type == "message" && (p.Subtype == "rfc822" || p.Subtype == "global") {
		encoding := "7bit"
		for _, c := range content {
			if c >= 0x80 {
				encoding = "8bit"
				break
			}
		}
		w.b = append(append(append(w.b, "Content-Transfer-Encoding: "...), encoding...), "\r\n\r\n"...)
		w.b = append(w.b, CRLF(content)...)
		return
	}
	w.base64(content)
}

// CRLF returns a message with CRLF line ends. It returns raw itself if there is nothing to change.
func CRLF(raw []byte) []byte {
	for i, c := range raw {
		if c == '\n' && (i == 0 || raw[i-1] != '\r') || c == '\r' && (i+1 == len(raw) || raw[i+1] != '\n') {
			return mime.AppendCRLF(make([]byte, 0, len(raw)+len(raw)/50+64), raw)
		}
	}
	return raw
}

// maxEncodedWord is the maximum length of an encoded word (RFC 2047 section 2).
const maxEncodedWord = 75

// EncodeText returns the words of a text field: unchanged if they are plain ASCII, else encoded.
func EncodeText(s string) []string {
	if ASCII(s) && Printable(s) && !strings.Contains(s, "=?") && longest(s) < 900 {
		return splitWords(s)
	}
	return encodeWords(s)
}

// splitWords splits at single blanks, so that joining restores the text.
func splitWords(s string) []string {
	if strings.Contains(s, "  ") || strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") ||
		strings.Contains(s, "\t") {
		return []string{s}
	}
	return strings.Split(s, " ")
}

func longest(s string) int {
	n := 0
	for w := range strings.SplitSeq(s, " ") {
		n = max(n, len(w))
	}
	return n
}

// Printable reports whether a string has no control characters except tabs.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// encodeWords splits a text into encoded words that do not split characters.
func encodeWords(s string) []string {
	var out []string
	const room = maxEncodedWord - len("=?utf-8?b?") - len("?=")
	for s != "" {
		n := 0
		for n < len(s) {
			_, k := utf8.DecodeRuneInString(s[n:])
			if (n+k+2)/3*4 > room {
				break
			}
			n += k
		}
		word := append([]byte("=?utf-8?b?"), mime.AppendBase64Lines(nil, []byte(s[:n]), 1<<10, false)...)
		out = append(out, string(append(word, "?="...)))
		s = s[n:]
	}
	if out == nil {
		return []string{""}
	}
	return out
}

// EncodePhrase returns the words of a display name: atoms, a quoted string, or encoded words.
func EncodePhrase(s string) []string {
	if !ASCII(s) || !Printable(s) || strings.Contains(s, "=?") || len(s) > 200 {
		return encodeWords(s)
	}
	for i := range len(s) {
		if c := s[i]; c != ' ' && strings.IndexByte("()<>[]:;@\\,.\"\t", c) >= 0 {
			q := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
			return []string{`"` + q + `"`}
		}
	}
	if s == "" || len(splitWords(s)) == 1 && strings.Contains(s, " ") {
		return []string{`"` + s + `"`}
	}
	return splitWords(s)
}

// Token reports whether a word may stand in a MIME header without quotes (RFC 2045 section 5.1).
func Token(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?=`, s[i]) >= 0 {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// ASCII reports whether a string has only ASCII characters.
func ASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Multipart returns a multipart part.
func Multipart(subtype string, children ...*Part) *Part {
	return &Part{Type: "multipart", Subtype: subtype, Children: children}
}

// Body returns the part tree of a message from its text, its HTML form, the parts that the HTML shows (inline), and
// attachments. Each may be missing.
func Body(text, html *Part, inline, attached []*Part) *Part {
	if html != nil && inline != nil {
		html = Multipart("related", append([]*Part{html}, inline...)...)
	}
	root := text
	switch {
	case text != nil && html != nil:
		root = Multipart("alternative", text, html)
	case html != nil:
		root = html
	case text == nil && len(attached) == 0:
		root = &Part{Type: "text", Subtype: "plain", IsText: true}
	}
	if attached == nil {
		return root
	}
	if root != nil {
		attached = append([]*Part{root}, attached...)
	}
	return Multipart("mixed", attached...)
}

// Address returns the words of an address with a display name, which may be "". ok is false if the address could break
// the header. The address may be incomplete, because drafts can contain such addresses.
func Address(name, email string) (words []string, ok bool) {
	if email == "" || strings.ContainsAny(email, "<>\r\n\x00") || len(email) > 900 ||
		strings.ContainsAny(name, "\r\n\x00") {
		return nil, false
	}
	if a, err := mime.ParseMailbox(email); err != nil || a.Name != "" {
		if strings.ContainsAny(email, " \t,;:\"()[]\\") {
			return nil, false
		}
	}
	if name == "" {
		return []string{email}, true
	}
	return append(EncodePhrase(name), "<"+email+">"), true
}

// Recipients returns the addresses in the To, Cc and Bcc fields of a message, without duplicates.
func Recipients(raw []byte) (list []string) {
	seen := map[string]bool{}
	for f := range mime.Fields(raw) {
		if !f.Is("To") && !f.Is("Cc") && !f.Is("Bcc") {
			continue
		}
		for _, a := range mime.ParseAddressList(f.Value) {
			email := a.Mailbox + "@" + a.Host
			if key := strings.ToLower(email); !a.Group && a.Host != "" && !seen[key] {
				seen[key] = true
				list = append(list, email)
			}
		}
	}
	return list
}

// Resent returns the fields of a resent message (RFC 5322 section 3.6.6), which go before all its other fields. from
// and to are addresses from Address. id is the Resent-Message-ID with its angle brackets.
func Resent(from, to []string, date time.Time, id string) []byte {
	var w Writer
	for _, f := range []Field{
		{Name: "Resent-From", Words: from}, {Name: "Resent-To", Words: to},
		{Name: "Resent-Date", Words: []string{date.UTC().Format(DateLayout)}},
		{Name: "Resent-Message-ID", Words: []string{id}},
	} {
		w.field(&f)
	}
	return w.b
}
