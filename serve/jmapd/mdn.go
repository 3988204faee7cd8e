package jmapd

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"doublet/mail"
	"doublet/mail/compose"
	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// keywordMDNSent is the keyword of an Email for which a read receipt was sent.
const keywordMDNSent = "$mdnsent"

// mdn is a message disposition notification (RFC 8098), with the properties of RFC 9007.
type mdn struct {
	email                         note.UNID
	subject, text                 string
	original                      bool // the original message is included
	agent                         string
	action, sending, kind         string
	gateway, originalTo, finalTo  string
	messageID                     string
	errors                        []string
	extensions                    [][2]string
	hasSubject, hasText, hasFinal bool
}

// mdnSend answers MDN/send.
//
// Implements: RFC 9007 §2.1 MDN/send
func mdnSend(c *call) error {
	if err := c.arguments(own, "identityId", "send", "onSuccessUpdateEmail"); err != nil {
		return err
	}
	identityID, err := c.needText("identityId")
	if err != nil {
		return err
	}
	s := &set{c: c}
	if c.args.Get("send").IsNull() {
		return invalid("send is no object")
	}
	if err := s.creations("send"); err != nil {
		return err
	}
	given, err := c.sender()
	if err != nil {
		return err
	}
	var who *identity.Identity
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := c.readIdentities(d, given)
		if err == nil {
			real, _ := c.real(identityID)
			who = list.Find(real)
		}
		return err
	})
	if err != nil {
		return err
	}
	if who == nil {
		return invalid("there is no such identity")
	}
	var names []string
	var values []jmap.Value
	for i := range s.create {
		p := &s.create[i]
		m, json, err := c.sendMDN(p.object, who)
		if err != nil {
			s.notCreated = append(s.notCreated, failure{p.id, err})
			continue
		}
		s.created = append(s.created, entry{p.id, json})
		id := idOf(letterEmail, m.email)
		patch := c.args.Get("onSuccessUpdateEmail").Get("#" + p.id)
		if patch == nil {
			patch = jmap.MakeObject([]string{"keywords/" + keywordMDNSent}, []jmap.Value{jmap.True()})
		}
		if !slices.Contains(names, id) {
			names, values = append(names, id), append(values, *patch)
		}
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	c.appendBoth(&o, "sent", s.created, "notSent", s.notCreated)
	c.out = o.End()
	if names != nil {
		c.implicit = func() {
			c.follow("Email/set", c.id, jmap.MakeObject([]string{"accountId", "update"},
				[]jmap.Value{jmap.Text(c.account.ID), *jmap.MakeObject(names, values)}))
		}
	}
	return nil
}

// readMDN reads an MDN to send.
func (c *call) readMDN(v *jmap.Value) (m mdn, err error) {
	var bad []string
	for i := range v.Len() {
		if name := v.Name(i); !c.setMDN(&m, name, v.At(i)) {
			bad = append(bad, name)
		}
	}
	if m.kind == "" && !slices.Contains(bad, "disposition") {
		bad = append(bad, "disposition")
	}
	if bad != nil {
		return m, badProperties("", bad...)
	}
	return m, nil
}

// setMDN sets a property of an MDN. It reports whether the value is valid.
func (c *call) setMDN(m *mdn, name string, x *jmap.Value) bool {
	text, isText := x.Text()
	valid := isText && !strings.ContainsRune(text, 0)
	switch name {
	case "forEmailId":
		real, _ := c.real(text)
		m.email, _ = parseID(letterEmail, real)
		return valid
	case "subject":
		m.subject, m.hasSubject = text, isText
		return x.IsNull() || valid && !strings.ContainsAny(text, "\r\n")
	case "textBody":
		m.text, m.hasText = text, isText
		return x.IsNull() || valid
	case "includeOriginalMessage":
		m.original, valid = x.Bool()
		return valid
	case "reportingUA":
		m.agent = text
		return x.IsNull() || valid && oneLine(text)
	case "finalRecipient":
		m.finalTo = text
		kind, address, typed := strings.Cut(text, ";")
		return x.IsNull() || valid && oneLine(text) && typed && compose.Token(kind) && strings.TrimSpace(address) != ""
	case "disposition":
		return m.setDisposition(x)
	case "extensionFields":
		return x.IsNull() || m.setExtensions(x)
	}
	return false
}

func (m *mdn) setDisposition(x *jmap.Value) bool {
	word := func(name string) string {
		text, _ := x.Get(name).Text()
		return strings.ToLower(text)
	}
	m.action, m.sending, m.kind = word("actionMode"), word("sendingMode"), word("type")
	return slices.Contains([]string{"manual-action", "automatic-action"}, m.action) &&
		slices.Contains([]string{"mdn-sent-manually", "mdn-sent-automatically"}, m.sending) &&
		slices.Contains([]string{"deleted", "dispatched", "displayed", "processed"}, m.kind)
}

func (m *mdn) setExtensions(x *jmap.Value) bool {
	valid := x.Kind() == jmap.Object && x.Len() <= 50
	for k := range x.Len() {
		value, isText := x.At(k).Text()
		valid = valid && isText && fieldName(x.Name(k)) && oneLine(value)
		m.extensions = append(m.extensions, [2]string{x.Name(k), value})
	}
	return valid
}

func oneLine(s string) bool { return !strings.ContainsAny(s, "\r\n\x00") && len(s) <= 900 }

// sendMDN sends a read receipt for an Email that requests one.
func (c *call) sendMDN(v *jmap.Value, who *identity.Identity) (m mdn, json []byte, err error) {
	if m, err = c.readMDN(v); err != nil {
		return m, nil, err
	}
	raw, err := c.acknowledged(m.email)
	if err != nil {
		return m, nil, err
	}
	head := raw[:mime.HeaderEnd(raw)]
	asked, _ := mime.Get(head, "Disposition-Notification-To")
	list := mime.ParseAddressList([]byte(asked))
	if len(list) != 1 || list[0].Group {
		return m, nil, &jmap.Error{Type: "notFound", Description: "The Email asks nobody for a receipt to be sent to."}
	}
	to, err := smtp.ParsePath(list[0].Mailbox + "@" + list[0].Host)
	if err != nil {
		return m, nil,
			&jmap.Error{Type: "notFound", Description: "The Email asks for a receipt to be sent to no address."}
	}
	m.hasFinal = m.finalTo != ""
	if !m.hasFinal {
		m.finalTo = "rfc822; " + who.Email
	}
	if o, ok := mime.Get(head, "Original-Recipient"); ok && oneLine(o) {
		m.originalTo = o
	}
	m.messageID, _ = mime.Get(head, "Message-ID")
	m.complete(head)
	w := c.s.writer(nil)
	message, err := m.message(w, who, &list[0], raw)
	if err != nil {
		return m, nil, err
	}
	sub := Submission{To: []mail.Addressee{{To: to, Params: smtp.RcptParams{Notify: smtp.NotifyNever}}},
		Message: message}
	sub.Params.Size = -1
	_, err = c.s.backend.Submit(c.ctx, &c.caller.Account, &sub)
	if err == nil {
		err = sub.To[0].Refused
	}
	var reply *smtp.Reply
	if errors.As(err, &reply) {
		err = &jmap.Error{Type: "forbidden", Description: reply.Error()}
	}
	return m, m.sentObject(), err
}

// acknowledged returns the message of an Email for which no read receipt was sent yet.
func (c *call) acknowledged(email note.UNID) (raw []byte, err error) {
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		e, err := d.EmailOf(email)
		if err != nil {
			return err
		}
		for k := range e.Keywords {
			if k == keywordMDNSent {
				return &jmap.Error{Type: "mdnAlreadySent"}
			}
		}
		body, err := e.Body()
		if err == nil {
			raw, err = body.AppendRange(make([]byte, 0, body.Size()), 0, body.Size())
		}
		return err
	})
	return raw, err
}

// complete sets defaults for what the client left out. head is the header of the Email.
func (m *mdn) complete(head []byte) {
	if !m.hasSubject {
		subject, _ := mime.Get(head, "Subject")
		m.subject = "Read receipt: " + mime.DecodeWords(subject)
	}
	if !m.hasText {
		m.text = "This receipt says that your message was " + m.kind +
			".\nIt does not say that it was read or understood.\n"
	}
}

// sentObject returns the properties that the client did not set.
func (m *mdn) sentObject() []byte {
	o := jmap.NewWriter(nil)
	if !m.hasSubject {
		o.Text("subject", m.subject)
	}
	if !m.hasText {
		o.Text("textBody", m.text)
	}
	if !m.hasFinal {
		o.Text("finalRecipient", m.finalTo)
	}
	if m.originalTo != "" {
		o.Text("originalRecipient", m.originalTo)
	}
	if m.messageID != "" {
		o.Text("originalMessageId", m.messageID)
	}
	return o.End()
}

// message composes the receipt as a message.
//
// Implements: RFC 8098 §3 The format of a message disposition notification
func (m *mdn) message(w *compose.Writer, who *identity.Identity, to *mime.Address, original []byte) ([]byte, error) {
	from := []string{who.Email}
	if who.Name != "" {
		from = append(compose.EncodePhrase(who.Name), "<"+who.Email+">")
	}
	w.Fields = []compose.Field{
		{Name: "From", Words: from}, {Name: "To", Words: []string{to.Mailbox + "@" + to.Host}},
		{Name: "Subject", Words: compose.EncodeText(m.subject)},
	}
	if ids, ok := messageIDs(m.messageID); ok {
		w.Fields = append(w.Fields, compose.Field{Name: "In-Reply-To", Words: []string{"<" + ids[0] + ">"}},
			compose.Field{Name: "References", Words: []string{"<" + ids[0] + ">"}})
	}
	w.Fields = append(w.Fields, compose.Field{Name: "Auto-Submitted", Words: []string{"auto-replied"}})
	var b bytes.Buffer
	line := func(name, value string) {
		if value != "" {
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	line("Reporting-UA", m.agent)
	line("Original-Recipient", m.originalTo)
	line("Final-Recipient", m.finalTo)
	line("Original-Message-ID", m.messageID)
	line("Disposition", m.action+"/"+m.sending+"; "+m.kind)
	for _, x := range m.extensions {
		line(x[0], x[1])
	}
	root := compose.Multipart("report",
		&compose.Part{Type: "text", Subtype: "plain", IsText: true, Text: m.text},
		&compose.Part{Type: "message", Subtype: "disposition-notification", Plain: b.Bytes()})
	root.Params = map[string]string{"report-type": "disposition-notification"}
	if m.original {
		root.Children = append(root.Children, &compose.Part{Type: "message", Subtype: "rfc822",
			Size: int64(len(original)), Content: func() ([]byte, error) { return original, nil }})
	}
	return w.Message(root)
}

// mdnParse answers MDN/parse.
//
// Implements: RFC 9007 §2.2 MDN/parse
func mdnParse(c *call) error {
	if err := c.arguments(false, "blobIds"); err != nil {
		return err
	}
	return c.parseBlobs(func(_ string, raw []byte) error {
		m, err := parseMDN(raw)
		if err == nil {
			c.out = m.append(c.out)
		}
		return err
	})
}

// parseMDN parses a message as a disposition notification.
func parseMDN(raw []byte) (*mdn, error) {
	root := mime.Parse(raw, mime.DefaultLimits)
	if root.Type != "multipart" || root.Subtype != "report" || len(root.Children) < 2 {
		return nil, errNotParsable
	}
	report := root.Children[1]
	if report.Type != "message" || report.Subtype != "disposition-notification" {
		return nil, errNotParsable
	}
	text, _ := mime.DecodeText(root.Children[0], raw, identity.MaxSignature)
	m := &mdn{subject: nfc(mime.DecodeWords(root.Envelope.Subject)), text: strings.ReplaceAll(text, "\r\n", "\n"),
		original: len(root.Children) > 2}
	body, _ := mime.DecodeText(report, raw, 1<<20)
	m.readReport([]byte(body))
	if m.finalTo == "" || m.kind == "" {
		return nil, errNotParsable
	}
	return m, nil
}

// readReport reads the fields of a disposition notification.
func (m *mdn) readReport(body []byte) {
	for f := range mime.Fields(body) {
		value := f.Text()
		switch {
		case f.Is("Reporting-UA"):
			m.agent = value
		case f.Is("MDN-Gateway"):
			m.gateway = value
		case f.Is("Original-Recipient"):
			m.originalTo = value
		case f.Is("Final-Recipient"):
			m.finalTo = value
		case f.Is("Original-Message-ID"):
			m.messageID = value
		case f.Is("Error"):
			m.errors = append(m.errors, value)
		case f.Is("Disposition"):
			modes, kind, _ := strings.Cut(strings.ToLower(value), ";")
			m.action, m.sending, _ = strings.Cut(strings.TrimSpace(modes), "/")
			m.kind, _, _ = strings.Cut(strings.TrimSpace(kind), "/")
		case len(f.Name) > 0 && len(m.extensions) < 50:
			m.extensions = append(m.extensions, [2]string{string(f.Name), value})
		}
	}
}

// append appends a parsed MDN.
func (m *mdn) append(dst []byte) []byte {
	o := jmap.NewWriter(dst)
	o.Raw("forEmailId", "null")
	for _, p := range [...]struct{ name, value string }{
		{"subject", m.subject}, {"textBody", m.text}, {"reportingUA", m.agent}, {"mdnGateway", m.gateway},
		{"originalRecipient", m.originalTo}, {"finalRecipient", m.finalTo}, {"originalMessageId", m.messageID},
	} {
		if p.value == "" {
			o.Raw(p.name, "null")
		} else {
			o.Text(p.name, p.value)
		}
	}
	o.Bool("includeOriginalMessage", m.original)
	o.Name("disposition")
	in := jmap.NewWriter(o.B)
	in.Text("actionMode", m.action)
	in.Text("sendingMode", m.sending)
	in.Text("type", m.kind)
	o.B = in.End()
	if m.errors == nil {
		o.Raw("error", "null")
	} else {
		o.Strings("error", m.errors...)
	}
	o.Name("extensionFields")
	seen := map[string]string{}
	for _, x := range m.extensions {
		seen[x[0]] = x[1]
	}
	if len(seen) == 0 {
		o.B = append(o.B, "null"...)
	} else {
		o.B = appendMap(o.B, seen)
	}
	return o.End()
}
