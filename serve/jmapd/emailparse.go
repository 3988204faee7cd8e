package jmapd

import (
	"errors"

	"doublet/mail/compose"
	"doublet/wire/jmap"
	"doublet/wire/mime"
)

// parseProperties are the properties that Email/parse returns if the client names none.
var parseProperties = []string{
	"messageId", "inReplyTo", "references", "sender", "from", "to", "cc", "bcc", "replyTo", "subject", "sentAt",
	"hasAttachment", "preview", "bodyValues", "textBody", "htmlBody", "attachments",
}

// emailParse answers Email/parse.
//
// Implements: RFC 8621 §4.9 Email/parse
func emailParse(c *call) error {
	if err := c.arguments(false, append([]string{"blobIds", "properties"}, viewArgumentNames...)...); err != nil {
		return err
	}
	properties, named, err := c.list("properties")
	if err != nil {
		return err
	}
	if !named {
		properties = parseProperties
	}
	v, err := c.viewArguments(properties, true)
	if err != nil {
		return err
	}
	if !named { // the id is returned only if the client asks for it
		v.properties = v.properties[1:]
		v.properties[0].prefix = v.properties[0].prefix[1:]
	}
	r := renderer{c: c, view: &v}
	return c.parseBlobs(r.parse)
}

// parseBlobs answers a /parse. parse appends the object that the content of a blob stands for. It returns
// errNotParsable if there is none.
func (c *call) parseBlobs(parse func(id string, raw []byte) error) error {
	ids, err := c.needIDs("blobIds", "maxObjectsInGet")
	if err != nil {
		return err
	}
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","parsed":`...)
	var notFound, notParsable []string
	parsed := 0
	for _, id := range ids {
		start := len(c.out)
		c.out = append(c.out, "{,"[min(parsed, 1)])
		c.out = append(jmap.AppendString(c.out, id), ':')
		switch err := c.parseBlob(id, parse); {
		case errors.Is(err, errNoBlob):
			notFound = append(notFound, id)
			c.out = c.out[:start]
		case errors.Is(err, errNotParsable):
			notParsable = append(notParsable, id)
			c.out = c.out[:start]
		case err != nil:
			return err
		default:
			parsed++
		}
		if err := c.settle(); err != nil {
			return err
		}
	}
	if parsed == 0 {
		c.out = append(c.out, "null"...)
	} else {
		c.out = append(c.out, '}')
	}
	o := jmap.Writer{B: append(c.out, ',')}
	for _, l := range [...]struct {
		name string
		list []string
	}{{"notParsable", notParsable}, {"notFound", notFound}} {
		if l.list == nil {
			o.Raw(l.name, "null")
		} else {
			o.Strings(l.name, l.list...)
		}
	}
	c.out = o.End()
	return nil
}

// parseBlob reads a blob of text, with CRLF line ends, within the memory of the request.
func (c *call) parseBlob(id string, parse func(id string, raw []byte) error) error {
	b, err := c.openBlob(c.account, id)
	if err != nil {
		return err
	}
	defer b.close()
	if b.size > int64(c.s.backend.Mail().MessageSize()) {
		return errNotParsable
	}
	cost := 2*b.size + parseCost(b.size) // the message as it is, with CRLF line ends, and its parts
	if err := c.hold(cost); err != nil {
		return err
	}
	defer c.mem.drop(cost)
	raw, err := b.all()
	if err != nil {
		return err
	}
	return parse(id, compose.CRLF(raw))
}

// errNotParsable is returned for a blob that is not what the method parses.
var errNotParsable = errors.New("not parsable")

// parse appends the message that a blob holds.
func (r *renderer) parse(id string, raw []byte) error {
	c := r.c
	if !hasFields(raw) {
		return errNotParsable
	}
	r.reset()
	r.raw, r.root = raw, mime.Parse(raw, mime.DefaultLimits)
	r.blob, _ = parseBlobRef(id)
	if r.blob.letter == letterMessage {
		r.blob.letter = letterPart
	} else {
		r.blob.steps = append(r.blob.steps, 0)
	}
	c.out = append(c.out, '{')
	for i := range r.view.properties {
		p := &r.view.properties[i]
		c.out = append(c.out, p.prefix...)
		switch p.kind {
		case propID, propThreadID, propMailboxIDs, propKeywords, propReceivedAt:
			c.out = append(c.out, "null"...)
		case propBlobID:
			c.out = jmap.AppendString(c.out, id)
		case propSize:
			c.out = jmap.AppendUint(c.out, uint64(len(raw)))
		default:
			err := r.derived(p)
			if err == nil {
				err = c.settle()
			}
			if err != nil {
				return err
			}
		}
	}
	c.out = append(c.out, '}')
	return nil
}

// hasFields reports whether octets begin with header fields, as a message does.
func hasFields(raw []byte) bool {
	n := 0
	for f := range mime.Fields(raw) {
		if len(f.Name) == 0 || !fieldName(string(f.Name)) {
			return false
		}
		if n++; n >= 3 {
			break
		}
	}
	return n > 0
}
