package jmapd

import (
	"encoding/hex"
	gomime "mime"
	"strings"
	"time"
	"unicode/utf8"

	"doublet/mailbox"
	"doublet/wire/mime"
)

// messageWriter prints a message.
type messageWriter struct {
	s      *Server
	fields []field
	seen   map[string]bool // fields that there are, in lower case
	now    time.Time
	b      []byte
	err    error
}

// message prints the whole: the fields that the client gave, those that every message has, and the parts.
func (w *messageWriter) message(root *newPart) ([]byte, error) {
	for i := range w.fields {
		w.field(&w.fields[i])
	}
	if !w.seen["date"] {
		w.field(&field{name: "Date", words: []string{w.now.UTC().Format(mailDate)}})
	}
	if !w.seen["message-id"] {
		w.field(&field{name: "Message-ID", words: []string{"<" + w.random() + "@" + w.domain() + ">"}})
	}
	if !w.seen["mime-version"] {
		w.b = append(w.b, "MIME-Version: 1.0\r\n"...)
	}
	w.part(root)
	return w.b, w.err
}

func (w *messageWriter) random() string {
	var b [16]byte
	w.s.env.Fill(b[:])
	return hex.EncodeToString(b[:])
}

// domain is that of the author, for the Message-ID.
func (w *messageWriter) domain() string {
	for i := range w.fields {
		if f := &w.fields[i]; strings.EqualFold(f.name, "From") && len(f.words) > 0 {
			last := strings.Trim(f.words[len(f.words)-1], "<>,; ")
			if at := strings.LastIndexByte(last, '@'); at > 0 && token(last[at+1:]) {
				return last[at+1:]
			}
		}
	}
	return "localhost"
}

// maxLine is how long header lines are where they can be folded.
const maxLine = 76

// field prints a header field, folded between its words.
func (w *messageWriter) field(f *field) {
	w.b = append(append(w.b, f.name...), ':')
	if f.words == nil {
		raw := strings.ReplaceAll(strings.ReplaceAll(f.raw, "\r\n", "\n"), "\n", "\r\n")
		if !strings.HasPrefix(raw, " ") && raw != "" {
			w.b = append(w.b, ' ')
		}
		w.b = append(append(w.b, raw...), "\r\n"...)
		return
	}
	col := len(f.name) + 1
	for i, word := range f.words {
		if i > 0 && col+1+len(word) > maxLine {
			w.b = append(w.b, "\r\n"...)
			col = 0
		}
		w.b = append(append(w.b, ' '), word...)
		col += 1 + len(word)
	}
	w.b = append(w.b, "\r\n"...)
}

// part prints a part's header and body.
func (w *messageWriter) part(p *newPart) {
	params := map[string]string{}
	for k, v := range p.params {
		params[k] = v
	}
	if p.children != nil {
		params["boundary"] = "=_" + w.random()
	}
	if p.isText {
		params["charset"] = "utf-8"
	} else if p.charset != "" {
		params["charset"] = p.charset
	}
	if p.name != "" && p.disposition == "" {
		params["name"] = p.name
	}
	w.mimeField("Content-Type", p.kind+"/"+p.subtype, params)
	if p.disposition != "" {
		params := map[string]string{}
		if p.name != "" {
			params["filename"] = p.name
		}
		w.mimeField("Content-Disposition", p.disposition, params)
	}
	if p.cid != "" {
		w.field(&field{name: "Content-ID", words: []string{"<" + p.cid + ">"}})
	}
	if p.location != "" {
		w.field(&field{name: "Content-Location", words: []string{p.location}})
	}
	if p.language != nil {
		w.field(&field{name: "Content-Language", words: []string{strings.Join(p.language, ", ")}})
	}
	for i := range p.fields {
		w.field(&p.fields[i])
	}
	switch {
	case p.children != nil:
		w.b = append(w.b, "\r\n"...)
		for _, child := range p.children {
			w.b = append(append(append(w.b, "--"...), params["boundary"]...), "\r\n"...)
			w.part(child)
			w.b = append(w.b, "\r\n"...)
		}
		w.b = append(append(append(w.b, "--"...), params["boundary"]...), "--\r\n"...)
	case p.isText:
		w.text(p.text)
	case p.blob != nil:
		w.attachment(p)
	default:
		w.b = append(append(w.b, "\r\n"...), p.plain...)
	}
}

// mimeField prints a field with parameters, each on a line of its own where one line is too short.
func (w *messageWriter) mimeField(name, value string, params map[string]string) {
	f := field{name: name, words: []string{value}}
	for _, k := range sorted(params) {
		one := gomime.FormatMediaType("x", map[string]string{k: params[k]})
		_, text, ok := strings.Cut(one, "; ")
		if !ok { // what cannot be printed is left out
			continue
		}
		f.words[len(f.words)-1] += ";"
		f.words = append(f.words, text)
	}
	w.field(&f)
}

// text prints a body in the encoding that changes least.
func (w *messageWriter) text(s string) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	longest, high, odd := 0, 0, false
	for line := range strings.SplitSeq(s, "\n") {
		longest = max(longest, len(line))
		odd = odd || strings.HasSuffix(line, " ") || strings.HasPrefix(line, "From ") || strings.IndexByte(line, '\r') >= 0
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

func (w *messageWriter) base64(content []byte) {
	w.b = append(w.b, "Content-Transfer-Encoding: base64\r\n\r\n"...)
	w.b = mime.AppendBase64Lines(w.b, content, maxLine, false)
}

// appendQuotedPrintable prints text with lines that end with LF (RFC 2045 section 6.7).
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
		plain := c > ' ' && c < 0x7f && c != '=' || (c == ' ' || c == '\t') && !end
		if col == 0 && (c == '.' || c == 'F' && strings.HasPrefix(s[i:], "From ")) {
			plain = false
		}
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

// attachment prints a blob. A message stands as it is: no encoding of it is allowed (RFC 2046 section 5.2.1).
func (w *messageWriter) attachment(p *newPart) {
	if w.err != nil {
		return
	}
	if p.blob.size > int64(w.s.backend.Mail().MessageSize()) {
		w.err = mailbox.ErrTooBig
		return
	}
	content, err := p.blob.all()
	if err != nil {
		w.err = err
		return
	}
	if p.kind == "message" && (p.subtype == "rfc822" || p.subtype == "global") {
		encoding := "7bit"
		for _, c := range content {
			if c >= 0x80 {
				encoding = "8bit"
				break
			}
		}
		w.b = append(append(append(w.b, "Content-Transfer-Encoding: "...), encoding...), "\r\n\r\n"...)
		w.b = append(w.b, crlf(content)...)
		return
	}
	w.base64(content)
}

// crlf is a message as lines that end with CRLF; one that is so already is itself.
func crlf(raw []byte) []byte {
	for i, c := range raw {
		if c == '\n' && (i == 0 || raw[i-1] != '\r') || c == '\r' && (i+1 == len(raw) || raw[i+1] != '\n') {
			return mime.AppendCRLF(make([]byte, 0, len(raw)+len(raw)/50+64), raw)
		}
	}
	return raw
}

// maxEncodedWord is the longest encoded word (RFC 2047 section 2).
const maxEncodedWord = 75

// encodeText makes the words of a text field: as they are, or encoded where they hold more than ASCII.
func encodeText(s string) []string {
	if ascii(s) && printable(s) && !strings.Contains(s, "=?") && longest(s) < 900 {
		return splitWords(s)
	}
	return encodeWords(s)
}

// splitWords cuts at single blanks, so that the blanks come back by joining.
func splitWords(s string) []string {
	if strings.Contains(s, "  ") || strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") || strings.Contains(s, "\t") {
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

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// encodeWords cuts a text into encoded words, each with whole characters.
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

// encodePhrase makes the words of a display name: atoms, a quoted string, or encoded words.
func encodePhrase(s string) []string {
	if !ascii(s) || !printable(s) || strings.Contains(s, "=?") || len(s) > 200 {
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
