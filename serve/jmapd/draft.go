package jmapd

import (
	"errors"
	"math"
	"slices"
	"strings"

	"doublet/mail/compose"
	"doublet/wire/jmap"
)

// emailReader reads a client's Email object into a message to compose.
type emailReader struct {
	c      *call
	draft  *draft
	object *jmap.Value
	values *jmap.Value // bodyValues
	bad    []string
	lost   []string // blobs that do not exist
	err    error    // from a blob that cannot be read now
	fields []compose.Field
	seen   map[string]bool // names of fields, in lower case
	parts  int
	size   int64 // of texts and blobs
	texts  int64 // of the texts
}

// writer returns a Writer for a message with these fields.
func (s *Server) writer(fields []compose.Field) *compose.Writer {
	return &compose.Writer{Env: s.env, MaxSize: s.backend.Mail().MessageSize(), Fields: fields}
}

// Bounds of one new Email: its parts, their nesting, and its header fields.
const (
	maxNewParts  = 1000
	maxNewDepth  = 30
	maxNewFields = 1000
)

func (r *emailReader) fault(property string) { r.bad = append(r.bad, property) }

// compose prepares a new Email from the client's object.
//
// Implements: RFC 8621 §4.6 creation of an Email
func (x *emailSetting) compose(p *creation) draft {
	d := draft{creation: p.id}
	r := emailReader{c: x.c, draft: &d, object: p.object, values: p.object.Get("bodyValues"), seen: map[string]bool{}}
	r.bad = x.c.places(p.object, &d)
	if k := r.values.Kind(); k != jmap.Null && k != jmap.Object {
		r.fault("bodyValues")
	}
	r.header()
	root := r.body()
	r.raise(root)
	switch {
	case r.err != nil:
		d.err = r.err
	case r.bad != nil:
		slices.Sort(r.bad)
		d.err = badProperties("", slices.Compact(r.bad)...)
	case r.lost != nil:
		d.err = &jmap.Error{Type: "blobNotFound", NotFound: r.lost}
	}
	if d.err != nil {
		return d
	}
	w := x.c.s.writer(r.fields)
	// Base64 turns three octets into four plus line ends; quoted-printable turns one into up to three.
	size := r.size + r.size/3 + r.size/50 + int64(p.object.Len())*64
	w.Room = int(size + 2*r.texts)
	d.err = x.prepare(&d, size, int64(w.Room)+r.size+2*r.texts, func() ([]byte, error) { return w.Message(root) })
	return d
}

// header reads the properties that stand for header fields.
func (r *emailReader) header() {
	for i := range r.object.Len() {
		name, v := r.object.Name(i), r.object.At(i)
		switch name {
		case "mailboxIds", "keywords", "receivedAt", "bodyStructure", "textBody", "htmlBody", "attachments",
			"bodyValues":
			continue
		}
		if h, ok := parseHeader(name); ok && !strings.HasPrefix(strings.ToLower(h.name), "content-") {
			r.field(&h, v)
			continue
		}
		h, ok := fieldOf[name]
		if !ok {
			r.fault(name)
			continue
		}
		h.property = name
		r.field(&h, v)
	}
}

// fieldOf maps the properties that stand for a header field to it.
var fieldOf = map[string]header{
	"messageId": {name: "Message-ID", form: asMessageIDs}, "inReplyTo": {name: "In-Reply-To", form: asMessageIDs},
	"references": {name: "References", form: asMessageIDs}, "sender": {name: "Sender", form: asAddresses},
	"from": {name: "From", form: asAddresses},
	"to":   {name: "To", form: asAddresses}, "cc": {name: "Cc", form: asAddresses},
	"bcc":     {name: "Bcc", form: asAddresses},
	"replyTo": {name: "Reply-To", form: asAddresses}, "subject": {name: "Subject", form: asText},
	"sentAt": {name: "Date", form: asDate},
}

// field adds a header field. Two properties must not stand for the same field.
func (r *emailReader) field(h *header, v *jmap.Value) {
	key := strings.ToLower(h.name)
	if r.seen[key] {
		r.fault(h.property)
		return
	}
	if v.IsNull() {
		return
	}
	r.seen[key] = true
	fields, ok := readFields(h, v)
	if !ok || len(r.fields)+len(fields) > maxNewFields {
		r.fault(h.property)
		return
	}
	r.fields = append(r.fields, fields...)
}

// readFields converts a property that stands for a header field into fields: none if it is null, one for each value if
// :all is set, else one.
func readFields(h *header, v *jmap.Value) (fields []compose.Field, ok bool) {
	if v.IsNull() {
		return nil, true
	}
	list := []*jmap.Value{v}
	if h.all {
		if v.Kind() != jmap.Array {
			return nil, false
		}
		list = list[:0]
		for i := range v.Len() {
			list = append(list, v.At(i))
		}
	}
	for _, v := range list {
		f, ok := readField(h, v)
		if !ok {
			return nil, false
		}
		fields = append(fields, f)
	}
	return fields, true
}

// readField converts a value into a field.
func readField(h *header, v *jmap.Value) (f compose.Field, ok bool) {
	f.Name = h.name
	text, isText := v.Text()
	switch h.form {
	case asText:
		if !isText || strings.ContainsAny(text, "\r\n\x00") {
			return f, false
		}
		f.Words = compose.EncodeText(text)
	case asAddresses:
		f.Words, ok = readAddresses(v)
		return f, ok
	case asGroupedAddresses:
		f.Words, ok = readGroups(v)
		return f, ok
	case asMessageIDs:
		f.Words, ok = bracketed(v, 900, "")
		return f, ok
	case asDate:
		t, ok := jmap.ParseDate(text, false)
		f.Words = []string{t.Format(compose.DateLayout)}
		return f, ok && isText
	case asURLs:
		f.Words, ok = bracketed(v, math.MaxInt, ",")
		return f, ok
	default:
		f.Raw = text
		return f, isText && validRaw(text)
	}
	return f, true
}

// bracketed returns a list of message IDs or URLs, each at most limit bytes long, as words in angle brackets with a
// separator between them.
func bracketed(v *jmap.Value, limit int, separator string) (words []string, ok bool) {
	list, ok := texts(v)
	for i, s := range list {
		if s == "" || len(s) > limit || strings.ContainsAny(s, "<> \t\r\n\x00") {
			return words, false
		}
		if i > 0 {
			words[i-1] += separator
		}
		words = append(words, "<"+s+">")
	}
	return words, ok && len(list) > 0
}

// comma returns the separator after element i of n: a comma, or "" after the last one.
func comma(i, n int) string {
	if i < n-1 {
		return ","
	}
	return ""
}

// validRaw reports whether a raw value can be used in a header. Continuation lines must begin with a space or tab and
// must not be blank.
func validRaw(s string) bool {
	if strings.IndexByte(s, 0) >= 0 {
		return false
	}
	for i, line := range strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n") {
		if strings.IndexByte(line, '\r') >= 0 || len(line) > 990 {
			return false
		}
		if i > 0 && (line == "" || line[0] != ' ' && line[0] != '\t' || strings.TrimSpace(line) == "") {
			return false
		}
	}
	return true
}

func readAddresses(v *jmap.Value) (words []string, ok bool) {
	if v.Kind() != jmap.Array || v.Len() > maxAddressesMade {
		return nil, false
	}
	for i := range v.Len() {
		w, ok := readAddress(v.At(i))
		if !ok {
			return nil, false
		}
		w[len(w)-1] += comma(i, v.Len())
		words = append(words, w...)
	}
	return words, len(words) > 0
}

// maxAddressesMade bounds the addresses of one field of a new Email.
const maxAddressesMade = 10_000

func readAddress(v *jmap.Value) (words []string, ok bool) {
	if v.Kind() != jmap.Object {
		return nil, false
	}
	email, ok := v.Get("email").Text()
	name := v.Get("name")
	text, isText := name.Text()
	if !ok || !isText && !name.IsNull() {
		return nil, false
	}
	return compose.Address(text, email)
}

func readGroups(v *jmap.Value) (words []string, ok bool) {
	if v.Kind() != jmap.Array || v.Len() > maxAddressesMade {
		return nil, false
	}
	for i := range v.Len() {
		g := v.At(i)
		name := g.Get("name")
		text, isText := name.Text()
		list := g.Get("addresses")
		if list.Kind() != jmap.Array || !isText && !name.IsNull() || strings.ContainsAny(text, "\r\n\x00") ||
			list.Len() == 0 && !isText {
			return nil, false
		}
		var members []string
		if list.Len() > 0 {
			if members, ok = readAddresses(list); !ok {
				return nil, false
			}
		}
		if isText {
			w := compose.EncodePhrase(text)
			w[len(w)-1] += ":"
			words = append(words, w...)
			if members == nil {
				members = []string{""}
			}
			members[len(members)-1] += ";"
		}
		members[len(members)-1] += comma(i, v.Len())
		words = append(words, members...)
	}
	return words, len(words) > 0
}

// body reads the content of the Email: either bodyStructure, or texts and attachments from which it builds a structure.
func (r *emailReader) body() *compose.Part {
	if v := r.object.Get("bodyStructure"); !v.IsNull() {
		for _, p := range []string{"textBody", "htmlBody", "attachments"} {
			if !r.object.Get(p).IsNull() {
				r.fault(p)
			}
		}
		return r.part(v, "bodyStructure", 0)
	}
	text, html := r.single("textBody", "plain"), r.single("htmlBody", "html")
	var attached, inline []*compose.Part
	if v := r.object.Get("attachments"); !v.IsNull() {
		if v.Kind() != jmap.Array {
			r.fault("attachments")
		}
		for i := range v.Len() {
			if v.Kind() != jmap.Array {
				break
			}
			p := r.part(v.At(i), "attachments", 1)
			if p.Disposition == "" {
				p.Disposition = "attachment"
			}
			if p.Disposition == "inline" && p.ID != "" && html != nil {
				inline = append(inline, p)
			} else {
				attached = append(attached, p)
			}
		}
	}
	return compose.Body(text, html, inline, attached)
}

// single reads textBody or htmlBody, which must have one part of that type.
func (r *emailReader) single(property, subtype string) *compose.Part {
	v := r.object.Get(property)
	if v.IsNull() || v.Kind() == jmap.Array && v.Len() == 0 {
		return nil
	}
	if v.Kind() != jmap.Array || v.Len() != 1 {
		r.fault(property)
		return nil
	}
	p := r.part(v.At(0), property, 1)
	if p.Type == "" {
		p.Type, p.Subtype = "text", subtype
	}
	if p.Type != "text" || p.Subtype != subtype {
		r.fault(property)
	}
	return p
}

// attach makes the blob with this id the content of a part.
func (r *emailReader) attach(p *compose.Part, blobID *jmap.Value, property string) {
	id, ok := blobID.Text()
	if !ok {
		r.fault(property)
		return
	}
	b, err := r.c.openBlob(r.c.account, id)
	if errors.Is(err, errNoBlob) {
		if !slices.Contains(r.lost, id) {
			r.lost = append(r.lost, id)
		}
		return
	}
	if err != nil {
		r.err = err
		return
	}
	if p.Type == "" {
		p.Type, p.Subtype = "application", "octet-stream"
		kind, _, _ := strings.Cut(strings.ToLower(b.kind), ";")
		if k, s, ok := strings.Cut(strings.TrimSpace(kind), "/"); ok && compose.Token(k) && compose.Token(s) &&
			k != "multipart" {
			p.Type, p.Subtype = k, s
		}
	}
	r.draft.uses(b)
	p.Size, p.Content = b.size, b.all
	r.size += b.size
}
