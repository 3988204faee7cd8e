package jmapd

import (
	"slices"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// The first letter of an id shows the type of the object.
const (
	letterFolder  = 'f'
	letterEmail   = 'm'
	letterThread  = 't'
	letterMessage = 'b' // the blob of a message
	letterPart    = 'p' // the blob of a part
	letterUpload  = 'u'
	letterScript  = 'v'
	letterSieve   = 'w' // the blob of a script: a hash of its text
)

// propertyKind identifies a property of an Email.
type propertyKind uint8

const (
	propID propertyKind = iota
	propBlobID
	propThreadID
	propMailboxIDs
	propKeywords
	propSize
	propReceivedAt
	propHasAttachment
	propPreview
	propSubject
	propSentAt
	propFrom
	propTo
	propCc
	propBcc
	propSender
	propReplyTo
	propMessageID
	propInReplyTo
	propReferences
	propHeaders
	propHeader
	propBodyStructure
	propBodyValues
	propTextBody
	propHTMLBody
	propAttachments
)

// emailProperties are the named properties in the order of RFC 8621 section 4.1. usual marks those that Email/get
// returns if the client names none.
var emailProperties = []struct {
	name  string
	kind  propertyKind
	usual bool
}{
	{"id", propID, true}, {"blobId", propBlobID, true}, {"threadId", propThreadID, true},
	{"mailboxIds", propMailboxIDs, true},
	{"keywords", propKeywords, true}, {"size", propSize, true}, {"receivedAt", propReceivedAt, true},
	{"headers", propHeaders, false}, {"messageId", propMessageID, true}, {"inReplyTo", propInReplyTo, true},
	{"references", propReferences, true},
	{"sender", propSender, true}, {"from", propFrom, true}, {"to", propTo, true}, {"cc", propCc, true},
	{"bcc", propBcc, true},
	{"replyTo", propReplyTo, true}, {"subject", propSubject, true}, {"sentAt", propSentAt, true},
	{"bodyStructure", propBodyStructure, false}, {"bodyValues", propBodyValues, true}, {"textBody", propTextBody, true},
	{"htmlBody", propHTMLBody, true}, {"attachments", propAttachments, true},
	{"hasAttachment", propHasAttachment, true}, {"preview", propPreview, true},
}

// property is a requested property.
type property struct {
	kind   propertyKind
	prefix string // `"name":`, with a comma before it unless it is the first
	header header
}

// view holds the requested properties of Emails.
type view struct {
	properties []property
	body       []property // of body parts: from bodyProperties, header: properties included
	text, html bool       // fetchTextBodyValues and fetchHTMLBodyValues
	all        bool
	most       int // bound of a body value in octets
}

// maxNames bounds the properties of one kind that a call may name. Without it header: properties would be unlimited.
const maxNames = 1000

// errManyNames is the error for a call that names more than maxNames.
var errManyNames = invalid("more than %d properties are named", maxNames)

// compileProperties prepares the requested properties for printing. Those of kinds in skip do not exist in this type.
func compileProperties(names []string, some bool, skip ...propertyKind) ([]property, error) {
	var out []property
	add := func(name string, kind propertyKind, h header) {
		prefix := string(jmap.AppendString(nil, name)) + ":"
		if len(out) > 0 {
			prefix = "," + prefix
		}
		out = append(out, property{kind, prefix, h})
	}
	if !some {
		for _, p := range emailProperties {
			if p.usual && !slices.Contains(skip, p.kind) {
				add(p.name, p.kind, header{})
			}
		}
		return out, nil
	}
	if len(names) > maxNames {
		return nil, errManyNames
	}
	if !slices.Contains(skip, propID) {
		add("id", propID, header{})
	}
	seen := map[string]bool{"id": true}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if h, ok := parseHeader(name); ok {
			add(name, propHeader, h)
			continue
		}
		i := slices.IndexFunc(emailProperties, func(p struct {
			name  string
			kind  propertyKind
			usual bool
		}) bool {
			return p.name == name
		})
		if i < 0 || slices.Contains(skip, emailProperties[i].kind) {
			return nil, invalid("%.100q is no property of an Email", name)
		}
		add(name, emailProperties[i].kind, header{})
	}
	return out, nil
}

// viewArguments reads the arguments that select parts of Emails. names are the requested properties if some is set.
func (c *call) viewArguments(names []string, some bool, skip ...propertyKind) (v view, err error) {
	if v.properties, err = compileProperties(names, some, skip...); err != nil {
		return v, err
	}
	body, someBody, err := c.list("bodyProperties")
	if err != nil {
		return v, err
	}
	if v.body, err = compileBodyProperties(body, someBody); err != nil {
		return v, err
	}
	for _, a := range []struct {
		name string
		to   *bool
	}{{"fetchTextBodyValues", &v.text}, {"fetchHTMLBodyValues", &v.html}, {"fetchAllBodyValues", &v.all}} {
		if *a.to, err = c.bool(a.name, false); err != nil {
			return v, err
		}
	}
	most, err := c.uint("maxBodyValueBytes", 0)
	v.most = c.s.opt.Limits.BodyValues
	if most > 0 {
		v.most = int(min(most, int64(v.most)))
	}
	return v, err
}

var viewArgumentNames = []string{"bodyProperties", "fetchTextBodyValues", "fetchHTMLBodyValues", "fetchAllBodyValues",
	"maxBodyValueBytes"}

// emailGet answers Email/get.
//
// Implements: RFC 8621 §4.2 Email/get
func emailGet(c *call) error {
	g, err := c.getArguments(false, nil, viewArgumentNames...)
	if err != nil {
		return err
	}
	v, err := c.viewArguments(g.properties, g.some)
	if err != nil {
		return err
	}
	if g.all {
		return tooLarge("Emails are got by their ids.")
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		states, err := d.States()
		if err != nil {
			return err
		}
		g.begin(states.Email.String())
		r := renderer{c: c, view: &v, d: d}
		for _, id := range g.ids {
			m, err := c.email(d, id)
			if err == mailbox.ErrNoMessage {
				g.miss(id)
				continue
			}
			if err != nil {
				return err
			}
			g.next()
			if err := r.stored(m); err != nil {
				return err
			}
			if err := c.settle(); err != nil {
				return err
			}
		}
		g.end()
		return nil
	})
}

// email returns a message by its id. It returns mailbox.ErrNoMessage if there is none.
func (c *call) email(d *mailbox.Reading, id string) (*mailbox.Email, error) {
	u, ok := parseID(letterEmail, id)
	if !ok {
		return nil, mailbox.ErrNoMessage
	}
	if known, ok := c.known[u]; ok {
		// A message in another account can have the same UNID.
		if m, err := d.Email(known); err == nil && m.UNID() == u {
			return m, nil
		}
	}
	return d.EmailOf(u)
}

// remember stores the note ids of hits, so that an Email/get of the same request need not look them up.
func (b *batch) remember(hits []mailbox.Hit) {
	if b.known == nil {
		b.known = make(map[note.UNID]note.ID, len(hits))
	}
	for _, h := range hits {
		if len(b.known) < maxResults {
			b.known[h.UNID] = h.ID
		}
	}
}

// stored appends a message of the mail file.
func (r *renderer) stored(m *mailbox.Email) error {
	r.reset()
	r.m = m
	c := r.c
	c.out = append(c.out, '{')
	for i := range r.view.properties {
		p := &r.view.properties[i]
		c.out = append(c.out, p.prefix...)
		switch p.kind {
		case propID:
			c.out = appendID(c.out, letterEmail, m.UNID())
		case propBlobID:
			c.out = appendID(c.out, letterMessage, m.UNID())
		case propThreadID:
			c.out = appendID(c.out, letterThread, m.Thread())
		case propMailboxIDs:
			c.out = appendMailboxIDs(c.out, m)
		case propKeywords:
			c.out = appendKeywords(c.out, m)
		case propSize:
			c.out = jmap.AppendUint(c.out, m.Size())
		case propReceivedAt:
			c.out = jmap.AppendUTCDate(c.out, time.Unix(m.Received(), 0))
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

func appendMailboxIDs(dst []byte, m *mailbox.Email) []byte {
	dst = append(dst, '{')
	first := true
	for u := range m.Folders {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendID(dst, letterFolder, u), ":true"...)
	}
	return append(dst, '}')
}

// hiddenKeyword reports whether a keyword is hidden from the list of keywords. IMAP clients may have set these as
// ordinary keywords, but JMAP gives them another meaning.
func hiddenKeyword(k string) bool { return k == mailbox.Seen || k == "$recent" || k == "$deleted" }

// appendKeywords appends the keywords of a message.
//
// Implements: RFC 8621 §4.1.1 keywords
func appendKeywords(dst []byte, m *mailbox.Email) []byte {
	dst = append(dst, '{')
	first := true
	add := func(k string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jmap.AppendString(dst, k), ":true"...)
	}
	if m.Seen() {
		add(mailbox.Seen)
	}
	for k := range m.Keywords {
		if !hiddenKeyword(k) {
			add(k)
		}
	}
	return append(dst, '}')
}
