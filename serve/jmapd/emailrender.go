package jmapd

import (
	"doublet/mailbox"
	"doublet/store"
	"doublet/wire/imap"
	"doublet/wire/jmap"
	"doublet/wire/mime"
)

// renderer prints Emails. It prints messages of the mail file from their summaries where these suffice, and also
// messages that only a blob holds. It caches data of the current message for further properties.
type renderer struct {
	c    *call
	view *view
	d    *mailbox.Reading

	m    *mailbox.Email // message of the mail file; if nil, the three fields below are set
	raw  []byte         // octets of the message
	root *mime.Part
	blob blobRef // blob that holds the message

	env      envelope
	hasEnv   bool
	header   []byte
	hasHead  bool
	body     *store.Stored
	parts    *mime.Part
	places   map[*mime.Part]string
	bodies   mailbox.Bodies
	hasParts bool
	index    mime.Index
	scratch  []byte
	held     int64 // bytes reserved for scratch
}

func (r *renderer) reset() {
	r.m, r.raw, r.root, r.blob = nil, nil, nil, blobRef{}
	r.hasEnv, r.hasHead, r.body, r.hasParts, r.index = false, false, nil, false, nil
}

// derived appends a property that is computed from the message itself.
func (r *renderer) derived(p *property) error {
	c := r.c
	switch p.kind {
	case propPreview:
		b, err := r.preview()
		c.out = jmap.AppendBytes(c.out, b)
		return err
	case propHasAttachment:
		on, err := r.attached()
		c.out = jmap.AppendBool(c.out, on)
		return err
	case propSubject, propSentAt, propFrom, propTo, propCc, propBcc, propMessageID, propInReplyTo:
		return r.fromEnvelope(p.kind)
	case propSender, propReplyTo, propReferences, propHeaders, propHeader:
		return r.fromHeader(p)
	case propBodyStructure, propBodyValues, propTextBody, propHTMLBody, propAttachments:
		return r.fromBody(p.kind)
	}
	c.out = append(c.out, "null"...)
	return nil
}

func (r *renderer) preview() ([]byte, error) {
	if r.m != nil {
		return r.m.Preview()
	}
	return []byte(mime.Preview(r.raw, r.root)), nil
}

func (r *renderer) attached() (bool, error) {
	if r.m != nil {
		return r.m.Attached()
	}
	return mailbox.HasAttachment(r.root), nil
}

// fromEnvelope appends a property that the ENVELOPE contains.
func (r *renderer) fromEnvelope(k propertyKind) error {
	if err := r.readEnvelope(); err != nil {
		return err
	}
	c, e := r.c, &r.env
	switch k {
	case propSubject:
		c.out = e.appendSubject(c.out)
	case propSentAt:
		c.out = e.appendSent(c.out)
	case propFrom:
		c.out = e.appendAddresses(c.out, envFrom)
	case propTo:
		c.out = e.appendAddresses(c.out, envTo)
	case propCc:
		c.out = e.appendAddresses(c.out, envCc)
	case propBcc:
		c.out = e.appendAddresses(c.out, envBcc)
	case propMessageID, propInReplyTo:
		field := envMessageID
		if k == propInReplyTo {
			field = envInReplyTo
		}
		s, ok := e.text(field)
		if !ok {
			c.out = append(c.out, "null"...)
			return nil
		}
		c.out = appendMessageIDs(c.out, s)
	}
	return nil
}

func (r *renderer) readEnvelope() error {
	if r.hasEnv {
		return nil
	}
	var text []byte
	var err error
	if r.m != nil {
		text, err = r.m.Envelope()
	} else {
		text = imap.AppendEnvelope(nil, r.root.Envelope)
	}
	if err != nil {
		return err
	}
	r.env, r.hasEnv = envelope{}, true
	if e, ok := cutEnvelope(text); ok {
		r.env = e
	}
	return nil
}

// Header fields with properties of their own that an ENVELOPE cannot provide: it has no References, and it has From in
// place of a missing Sender or Reply-To (RFC 9051 section 7.5.2).
var (
	senderField     = header{name: "Sender", form: asAddresses}
	replyToField    = header{name: "Reply-To", form: asAddresses}
	referencesField = header{name: "References", form: asMessageIDs}
)

// fromHeader appends a property that needs the header.
func (r *renderer) fromHeader(p *property) error {
	if p.kind == propHeader && r.m != nil && p.header.resent() {
		block, ok, err := r.m.Resent()
		if ok {
			r.c.out = p.header.append(r.c.out, block)
		}
		if ok || err != nil {
			return err
		}
	}
	if err := r.readHeader(); err != nil {
		return err
	}
	c := r.c
	switch p.kind {
	case propSender:
		c.out = senderField.append(c.out, r.header)
	case propReplyTo:
		c.out = replyToField.append(c.out, r.header)
	case propReferences:
		c.out = referencesField.append(c.out, r.header)
	case propHeaders:
		c.out = appendHeaders(c.out, r.header)
	default:
		c.out = p.header.append(c.out, r.header)
	}
	return nil
}

func (r *renderer) readHeader() error {
	if r.hasHead {
		return nil
	}
	if r.m == nil {
		r.header, r.hasHead = r.root.Header(r.raw), true
		return nil
	}
	span, err := r.section(nil)
	if err != nil {
		return err
	}
	// scratch is reused for the next messages until the call ends.
	if more := int64(span.BodyStart-span.HeaderStart) - r.held; more > 0 {
		if err := r.c.hold(more); err != nil {
			return err
		}
		r.held += more
	}
	r.header, err = r.bytes(r.scratch[:0], int64(span.HeaderStart), int64(span.BodyStart))
	r.scratch, r.hasHead = r.header, err == nil
	return err
}

// section returns the span of the part with these numbers.
func (r *renderer) section(path []int) (mime.SectionSpan, error) {
	if r.index == nil {
		if r.m != nil {
			var err error
			if r.index, err = r.m.Index(); err != nil {
				return mime.SectionSpan{}, err
			}
		} else {
			r.index = mime.AppendIndex(nil, r.root)
		}
	}
	span, _ := r.index.Section(path) // empty if there is no such part
	return span, nil
}

// bytes appends the octets [from, to) of the message.
func (r *renderer) bytes(dst []byte, from, to int64) ([]byte, error) {
	if r.m == nil {
		return append(dst, r.raw[from:to]...), nil
	}
	if err := r.open(); err != nil {
		return dst, err
	}
	return r.body.AppendRange(dst, from, to-from)
}

func (r *renderer) open() error {
	if r.body != nil {
		return nil
	}
	var err error
	r.body, err = r.m.Body()
	return err
}
