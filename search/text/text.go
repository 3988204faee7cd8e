// Package text extracts the text of a message, field by field: the text that people read and write in the header, the
// body and the attachments. It defines what can be searched (doc/search.md): the index is built from it, and tests that
// the index cannot decide are run on it.
//
// All work is bounded: bytes, depth, entries and steps. Content beyond a limit is not part of the text. Content that
// cannot be read is skipped and counted.
package text

import (
	"strings"
	"unicode/utf8"

	"doublet/search/words"
	"doublet/wire/mime"
)

// Field is a set of places in a message.
type Field uint16

// The fields. Body is the sender's own text; Quoted is quoted text in the body (lines that begin with >, and
// blockquote). Header holds all other header fields, Filename the names of parts.
const (
	Body Field = 1 << iota
	Quoted
	Attached
	Subject
	From
	To
	Cc
	Bcc
	Header
	Filename

	// Any is all fields. Content is all fields outside of the header.
	Any     Field = 1<<iota - 1
	Content       = Body | Quoted | Attached
)

// Stretch is a continuous piece of text. Words and phrases do not extend from one stretch into another. The text is in
// the form of words.Normal.
type Stretch struct {
	Field Field
	Text  string
}

// Document is the text of a message.
type Document struct {
	Stretches []Stretch
	// HasAttachment is the result of Limits.Attached.
	HasAttachment bool
	// Clipped is set if the header was not read completely.
	Clipped bool
	// Later counts attachments whose text is slow to read. Their text is not in this Document; see Attachments.
	Later int
	Skipped
}

// Skipped counts parts whose text is missing although they may have some.
type Skipped struct {
	// Encrypted counts encrypted parts, Broken malformed ones, and Beyond those that exceed a limit or whose text was
	// cut.
	Encrypted, Broken, Beyond int
}

// Add adds o to the counts.
func (s *Skipped) Add(o Skipped) {
	s.Encrypted += o.Encrypted
	s.Broken += o.Broken
	s.Beyond += o.Beyond
}

// Limits limits the work on a message. Zero values mean the defaults.
type Limits struct {
	// Part is the maximum text of one part (1 MB). Message is the maximum text of a message without its attachments,
	// and also the maximum text of all its attachments together (2 MB). Both are in bytes.
	Part, Message int
	// Attachment is the maximum size of an attachment that is opened, in bytes (20 MB).
	Attachment int
	// MIME limits the tree of parts.
	MIME mime.Limits
	// Attached reports whether a message has attachments that a client would list. If it is nil, no message has.
	Attached func(*mime.Part) bool
}

func (l Limits) filled() Limits {
	if l.Part <= 0 {
		l.Part = 1 << 20
	}
	if l.Message <= 0 {
		l.Message = 2 << 20
	}
	if l.Attachment <= 0 {
		l.Attachment = 20 << 20
	}
	return l
}

// Limits on the text of a header: bytes of one field, and of all fields.
const (
	fieldBytes  = 4 << 10
	headerBytes = 64 << 10
)

// unread lists header fields that only programs use: traces, signatures, keys, and fields for the format, date and
// thread. Entries that end with a hyphen are prefixes.
var unread = func() map[string]bool {
	m := make(map[string]bool)
	for _, n := range strings.Fields(`received return-path dkim-signature domainkey-signature authentication-results
		received-spf arc- x-received x-google- x-gm- x-ms- x-microsoft- x-forefront- x-exchange- x-mimecast-
		x-proofpoint- x-barracuda- x-ironport- x-sg- x-ses- autocrypt autocrypt-gossip openpgp face x-face date
		resent-date delivery-date mime-version content- thread-index references in-reply-to x-uidl x-uid status
		x-status x-mozilla- x-tuid x-originatororg x-provags-id x-ui- bimi- list-unsubscribe list-unsubscribe-post
		lines doublet-merge-table`) {
		m[n] = true
	}
	return m
}()

// unreadMax is at least the length of the longest entry of unread.
const unreadMax = 32

// Unread reports whether a header field is never part of the text. The case of name does not matter.
func Unread(name string) bool {
	var buf [unreadMax]byte
	lower := buf[:min(len(name), unreadMax)]
	for i := range lower {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	if len(name) == len(lower) && unread[string(lower)] {
		return true
	}
	for i := 1; i < len(lower) && i < 16; i++ {
		if lower[i] == '-' && unread[string(lower[:i+1])] {
			return true
		}
	}
	return false
}

// FieldOf returns the field for a header field that has its own, or 0.
func FieldOf(name string) Field {
	switch strings.ToLower(name) {
	case "subject":
		return Subject
	case "from":
		return From
	case "to":
		return To
	case "cc":
		return Cc
	case "bcc":
		return Bcc
	}
	return 0
}

// reader builds one Document.
type reader struct {
	raw []byte
	l   Limits
	d   *Document
	// left is the number of bytes that the text may still take.
	left int
	// late makes the reader read only the slow attachments.
	late bool
	// cut maps the offset of a part's body to the number of its bytes that are missing in raw; nil if none are.
	cut map[int]int
	// test, if not nil, is asked of the stretches in place of collecting them, until found is set. skips permits to
	// skip parts that lack its word.
	test         *Test
	found, skips bool
}

// MaxMessage is the number of bytes of a message that are read. The rest is ignored.
const MaxMessage = 64 << 20

// Large is the size in bytes from which Message does not need the body of a part other than text; see Sparse.
const Large = 16 << 10

// HeaderOnly is the set of fields that depend on the header alone; see Head.
const HeaderOnly = Subject | From | To | Cc | Bcc | Header

// Head returns the text of a header. In the fields of HeaderOnly it equals the result of Message.
func Head(header []byte, l Limits) *Document {
	l = l.filled()
	r := reader{raw: header, l: l, d: &Document{}, left: l.Message}
	p := mime.Parse(header, l.MIME)
	r.addresses(p.Envelope)
	r.header(p.Header(header))
	return r.d
}

// Message returns the text of a message without slow attachments; see Document.Later.
func Message(raw []byte, l Limits) *Document { return read(raw, nil, l.filled(), false) }

// Attachments returns the text of the attachments that Message leaves out.
func Attachments(raw []byte, l Limits) *Document { return read(raw, nil, l.filled(), true) }

// Whole returns the text of both Message and Attachments.
func Whole(raw []byte, l Limits) *Document {
	d := Message(raw, l)
	if d.Later > 0 {
		more := Attachments(raw, l)
		d.Stretches = append(d.Stretches, more.Stretches...)
		d.Skipped.Add(more.Skipped)
		d.Later = 0
	}
	return d
}

func read(raw []byte, cut map[int]int, l Limits, late bool) *Document {
	r := reader{raw: raw, l: l, d: &Document{}, left: l.Message, late: late, cut: cut}
	r.read()
	return r.d
}

func (r *reader) read() {
	r.raw = r.raw[:min(len(r.raw), MaxMessage)]
	root := mime.Parse(r.raw, r.l.MIME)
	if !r.late {
		r.addresses(root.Envelope)
		r.header(root.Header(r.raw))
		r.d.Clipped = r.d.Clipped || r.left <= 0
		r.d.HasAttachment = r.l.Attached != nil && r.l.Attached(root)
	}
	r.part(root, false)
}

// add adds a text to the document, cut to the bytes left. The text may contain invalid UTF-8: addresses are as the
// sender wrote them.
func (r *reader) add(f Field, s string) {
	if s == "" {
		return
	}
	s = Make(f, s).Text
	if len(s) > r.left {
		r.d.Beyond++
		s = clip(s, r.left)
	}
	if s == "" {
		return
	}
	r.left -= len(s)
	if r.test != nil {
		r.found = r.found || f&r.test.Fields != 0 && r.test.In(s)
		return
	}
	r.d.Stretches = append(r.d.Stretches, Stretch{f, s})
}

// clip returns the longest prefix of s that has at most n bytes and ends with a complete rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:max(n, 0)]
}

// addresses adds the addresses of the envelope.
func (r *reader) addresses(e *mime.Envelope) {
	if e == nil {
		return
	}
	for _, x := range []struct {
		f    Field
		list []mime.Address
	}{{From, e.From}, {To, e.To}, {Cc, e.Cc}, {Bcc, e.Bcc}} {
		for i, a := range x.list {
			if i == maxAddresses {
				r.d.Beyond++
				r.d.Clipped = true
				break
			}
			r.add(x.f, Address(a))
		}
	}
}

// maxAddresses is the maximum number of addresses read from one field.
const maxAddresses = 10_000

// Address returns the searchable form of an address: the name, then the mailbox in angle brackets.
func Address(a mime.Address) string {
	var b strings.Builder
	if a.Name != "" {
		b.WriteString(mime.DecodeWords(a.Name))
		b.WriteByte(' ')
	}
	b.WriteString("<" + a.Mailbox + "@" + a.Host + ">")
	return b.String()
}

// header adds the header fields that people read. The first Subject gets its own field.
func (r *reader) header(h []byte) {
	subject, left := false, headerBytes
	for f := range mime.Fields(h) {
		if len(f.Name) == 0 || Unread(string(f.Name)) {
			continue
		}
		if left <= 0 {
			r.d.Beyond++
			r.d.Clipped = true
			return
		}
		whole := mime.DecodeWords(f.Text())
		t := clip(whole, min(fieldBytes, left))
		r.d.Clipped = r.d.Clipped || len(t) < len(whole)
		left -= len(t)
		if !subject && f.Is("Subject") {
			subject = true
			r.add(Subject, t)
			continue
		}
		r.add(Header, t)
	}
}

// Make returns a stretch for a text, which may contain invalid UTF-8.
func Make(f Field, s string) Stretch {
	return Stretch{f, words.Normal(validUTF8(s))}
}

// validUTF8 replaces invalid UTF-8. The check before it is many times as fast as the replacement, and nearly all texts
// pass it.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
