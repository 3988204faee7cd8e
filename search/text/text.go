// Package text makes the text of a message out of its bytes: what people read and write in its header,
// its body and its attachments, field by field. It is the definition of what can be searched
// (doc/search.md): the index is made of it, and whatever is not sure from the index is looked up in it.
//
// Everything is bounded: bytes, depth, entries, work. What lies beyond a bound is no text; what cannot be
// read is skipped and counted.
package text

import (
	"strings"

	"doublet/search/words"
	"doublet/wire/mime"
)

// Field is a set of the places in a message where a text stands.
type Field uint16

// The fields. Body is what the sender wrote, Quoted what is quoted there (lines behind >, blockquote).
// Header are the fields of the header as they stand, Filename the names of parts.
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

	// Any is all of them, Content what is not in the header.
	Any     Field = 1<<iota - 1
	Content       = Body | Quoted | Attached
)

// Stretch is a piece of text without a gap: no word and no phrase reaches from one into another. Its text
// is in the form of words.Normal.
type Stretch struct {
	Field Field
	Text  string
}

// Document is the text of a message.
type Document struct {
	Stretches []Stretch
	// HasAttachment is what Limits.Attached says.
	HasAttachment bool
	// Clipped says that the header has more than is here.
	Clipped bool
	// Later counts attachments whose text takes work to get at: it is not here, see Attachments.
	Later int
	Skipped
}

// Skipped counts what has no text here though it may hold some.
type Skipped struct {
	// Encrypted parts, Broken ones, and those Beyond a limit: too big, too much work, or text cut off.
	Encrypted, Broken, Beyond int
}

// Add adds counts.
func (s *Skipped) Add(o Skipped) {
	s.Encrypted += o.Encrypted
	s.Broken += o.Broken
	s.Beyond += o.Beyond
}

// Limits bound what is read. The zero value means the defaults.
type Limits struct {
	// Part and Message are bytes of text: of one part (1 MB), and of one message without its attachments, and
	// again of all its attachments (2 MB).
	Part, Message int
	// Attachment is the largest attachment that is opened, in bytes (20 MB).
	Attachment int
	// MIME bounds the tree of parts.
	MIME mime.Limits
	// Attached says whether a message has attachments, as clients show it; nil: none has.
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

// What is read of a header: bytes of one field, and of all.
const (
	fieldBytes  = 4 << 10
	headerBytes = 64 << 10
)

// unread are the fields of a header that are for programs alone: traces, signatures, keys, the make of the
// message, its dates and its thread. Prefixes end with a hyphen.
var unread = func() map[string]bool {
	m := make(map[string]bool)
	for _, n := range strings.Fields(`received return-path dkim-signature domainkey-signature authentication-results received-spf
		arc- x-received x-google- x-gm- x-ms- x-microsoft- x-forefront- x-exchange- x-mimecast- x-proofpoint- x-barracuda-
		x-ironport- x-sg- x-ses- autocrypt autocrypt-gossip openpgp face x-face date resent-date delivery-date mime-version content- thread-index
		references in-reply-to x-uidl x-uid status x-status x-mozilla- x-tuid x-originatororg x-provags-id x-ui- bimi- list-unsubscribe
		list-unsubscribe-post lines`) {
		m[n] = true
	}
	return m
}()

// Unread says whether a field of the header is one that is never text. Name in any case.
func Unread(name string) bool {
	name = strings.ToLower(name)
	if unread[name] {
		return true
	}
	for i := 1; i < len(name) && i < 16; i++ {
		if name[i] == '-' && unread[name[:i+1]] {
			return true
		}
	}
	return false
}

// FieldOf is where the text of a field of the header stands in a Document beside Header.
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

// reader makes one Document.
type reader struct {
	raw []byte
	l   Limits
	d   *Document
	// left is how many bytes of text still fit.
	left int
	// late reads the attachments that take work, and nothing else.
	late bool
	// cut tells how many bytes of the body of the part that begins at an offset are not in raw; nil: none.
	cut map[int]int
}

// MaxMessage is how many bytes of a message are looked at: what lies behind is no text.
const MaxMessage = 64 << 20

// Large is the size from which a part that is no text/* need not be there when Message reads the text: see Sparse.
const Large = 16 << 10

// HeaderOnly are the fields that the header alone tells: see Head.
const HeaderOnly = Subject | From | To | Cc | Bcc | Header

// Head reads the header of a message: what Message gives of the fields of HeaderOnly.
func Head(header []byte, l Limits) *Document {
	l = l.filled()
	r := reader{raw: header, l: l, d: &Document{}, left: l.Message}
	p := mime.Parse(header, l.MIME)
	r.addresses(p.Envelope)
	r.header(p.Header(header))
	return r.d
}

// Message reads the text of a message, but for what takes long: see Document.Later.
func Message(raw []byte, l Limits) *Document { return read(raw, nil, l.filled(), false) }

// Attachments reads what Message leaves for later.
func Attachments(raw []byte, l Limits) *Document { return read(raw, nil, l.filled(), true) }

// Whole is both.
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
	raw = raw[:min(len(raw), MaxMessage)]
	r := reader{raw: raw, l: l, d: &Document{}, left: l.Message, late: late, cut: cut}
	root := mime.Parse(raw, l.MIME)
	if !late {
		r.addresses(root.Envelope)
		r.header(root.Header(raw))
		r.d.Clipped = r.d.Clipped || r.left <= 0
		r.d.HasAttachment = l.Attached != nil && l.Attached(root)
	}
	r.part(root, false)
	return r.d
}

// add takes a text into the document, as far as there is room.
func (r *reader) add(f Field, s string) {
	if s == "" {
		return
	}
	s = words.Normal(s)
	if len(s) > r.left {
		r.d.Beyond++
		s = clip(s, r.left)
	}
	if s == "" {
		return
	}
	r.left -= len(s)
	r.d.Stretches = append(r.d.Stretches, Stretch{f, s})
}

// clip is the longest start of s of at most n bytes that ends with a whole rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:max(n, 0)]
}

// addresses adds those of the envelope, each as a list shows it.
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

// maxAddresses bounds those that are read of one field.
const maxAddresses = 10_000

// Address is an address as it is searched: the name, then the mailbox between angle brackets.
func Address(a mime.Address) string {
	var b strings.Builder
	if a.Name != "" {
		b.WriteString(mime.DecodeWords(a.Name))
		b.WriteByte(' ')
	}
	b.WriteString("<" + a.Mailbox + "@" + a.Host + ">")
	return b.String()
}

// header adds the fields that people read. The first Subject is a field of its own.
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

// Make makes a stretch of a text of any quality.
func Make(f Field, s string) Stretch {
	return Stretch{f, words.Normal(strings.ToValidUTF8(s, "\ufffd"))}
}
