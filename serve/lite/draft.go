package lite

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mail"
	"doublet/mail/compose"
	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/wire/imap"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

func envelopeOf(m *mailbox.Email) (*mime.Envelope, error) {
	text, err := m.Envelope()
	if err != nil {
		return nil, err
	}
	e, err := imap.ParseEnvelope(text)
	if err != nil {
		return &mime.Envelope{}, nil // leave out a malformed envelope
	}
	return e, nil
}

// problem is an error in the user's input. key and values select the text for it.
type problem struct {
	key    string
	values []any
}

func (e *problem) Error() string { return e.key }

// message composes a message from the form. If strict is set, it rejects input that cannot be sent; a draft may be
// incomplete. The message has the date at, or now if at is zero.
func (v *visit) message(x *identity.List, at time.Time, strict bool) ([]byte, *identity.Identity, error) {
	f := v.form
	as := x.Find(f.Get("identity"))
	if as == nil && len(x.All) > 0 {
		as = &x.All[0]
	}
	if as == nil {
		return nil, nil, &problem{"notAllowed", nil}
	}
	w := compose.Writer{Env: v.s.env, MaxSize: v.s.files.MessageSize()}
	from, ok := compose.Address(as.Name, as.Email)
	if !ok {
		return nil, nil, &problem{"badAddress", []any{as.Email}}
	}
	w.Fields = append(w.Fields, compose.Field{Name: "From", Words: from})
	some := false
	for _, name := range []string{"To", "Cc", "Bcc"} {
		words, err := addressWords(f.line(strings.ToLower(name)), strict)
		if err != nil {
			return nil, nil, err
		}
		if name == "Bcc" && strict {
			words = joined(words, listed(as.BCC))
		}
		if words != nil {
			some = true
			w.Fields = append(w.Fields, compose.Field{Name: name, Words: words})
		}
	}
	if strict && !some {
		return nil, nil, &problem{"noRecipients", nil}
	}
	if words := listed(as.ReplyTo); words != nil {
		w.Fields = append(w.Fields, compose.Field{Name: "Reply-To", Words: words})
	}
	w.Fields = append(w.Fields, compose.Field{Name: "Subject",
		Words: compose.EncodeText(clip(f.line("subject"), 10_000))})
	if !at.IsZero() {
		w.Fields = append(w.Fields, compose.Field{Name: "Date", Words: []string{at.UTC().Format(compose.DateLayout)}})
	}
	refs, err := v.references()
	if err != nil {
		return nil, nil, err
	}
	w.Fields = append(w.Fields, refs...)
	files, err := v.attachments()
	if err != nil {
		return nil, nil, err
	}
	text := &compose.Part{Type: "text", Subtype: "plain", IsText: true, Text: f.Get("text")}
	for _, p := range files {
		w.Room += int(p.Size+p.Size/3+p.Size/50) + 1<<10
	}
	if w.Room > v.s.files.MessageSize()+len(files)<<10 {
		return nil, nil, mailbox.ErrTooBig
	}
	w.Room += 3*len(text.Text) + 4<<10
	raw, err := w.Message(compose.Body(text, nil, nil, files))
	if err == nil && len(raw) > v.s.files.MessageSize() {
		err = mailbox.ErrTooBig
	}
	return raw, as, err
}

// addressWords parses addresses as users type them, separated by commas or semicolons.
func addressWords(typed string, strict bool) (words []string, err error) {
	if strings.TrimSpace(strings.Trim(typed, ",; ")) == "" {
		return nil, nil
	}
	for _, a := range mime.ParseAddressList([]byte(semicolons(typed))) {
		if a.Group {
			continue
		}
		email := a.Mailbox
		if a.Host != "" {
			email += "@" + a.Host
		}
		_, bad := smtp.ParsePath(email)
		if strict && (bad != nil || a.Host == "") {
			return nil, &problem{"badAddress", []any{clip(email, 100)}}
		}
		one, ok := compose.Address(mailName(&a), email)
		if !ok {
			return nil, &problem{"badAddress", []any{clip(email, 100)}}
		}
		words = joined(words, one)
	}
	if words == nil {
		return nil, &problem{"badAddress", []any{clip(typed, 100)}}
	}
	return words, nil
}

// semicolons replaces semicolons by commas. It leaves text with quotes or a group (which has a colon) unchanged.
func semicolons(s string) string {
	if strings.ContainsAny(s, `":`) {
		return s
	}
	return strings.ReplaceAll(s, ";", ",")
}

// joined appends addresses to a list of addresses.
func joined(words, more []string) []string {
	if len(words) > 0 && len(more) > 0 {
		words[len(words)-1] += ","
	}
	return append(words, more...)
}

// listed parses the addresses of an identity, which are stored as JMAP EmailAddress objects.
func listed(text string) (words []string) {
	var list []struct{ Name, Email string }
	if text == "" || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	for _, a := range list {
		if one, ok := compose.Address(a.Name, a.Email); ok {
			words = joined(words, one)
		}
	}
	return words
}

// maxReferences bounds the message ids in the References of a reply.
const maxReferences = 50

// references returns the fields that assign a reply to its thread: computed from the message that it answers, or copied
// from the draft.
func (v *visit) references() ([]compose.Field, error) {
	from, draft := v.form.Get("re"), false
	if from == "" && v.form.Get("draft") != "" {
		from, draft = ":"+v.form.Get("draft"), true
	}
	if from == "" {
		return nil, nil
	}
	ref, err := parseReference(from)
	if err != nil {
		return nil, nil // malformed reference: the message starts a new thread
	}
	l, _, err := v.referred(ref)
	if errors.Is(err, errNotFound) || errors.Is(err, mailbox.ErrNoMessage) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := l.head()
	if err != nil {
		return nil, err
	}
	refs, inReply := ids(head, "References"), ids(head, "In-Reply-To")
	if !draft {
		if refs == nil {
			refs = inReply
		}
		own := ids(head, "Message-ID")
		refs, inReply = append(refs, own...), own
	}
	if v.form.Get("kind") == "forward" {
		inReply = nil
	}
	var out []compose.Field
	if inReply != nil {
		out = append(out, compose.Field{Name: "In-Reply-To", Words: inReply})
	}
	if refs != nil {
		out = append(out, compose.Field{Name: "References", Words: refs[max(0, len(refs)-maxReferences):]})
	}
	return out, nil
}

// ids returns the message ids of a field, with their brackets.
func ids(head []byte, name string) (out []string) {
	text, _ := mime.Get(head, name)
	for w := range strings.FieldsSeq(text) {
		if len(w) > 2 && len(w) < 500 && w[0] == '<' && w[len(w)-1] == '>' &&
			!strings.ContainsAny(w[1:len(w)-1], "<>") && compose.ASCII(w) && compose.Printable(w) {
			out = append(out, w)
		}
	}
	return out
}

// attachments returns the stored files and the uploaded files of the form.
func (v *visit) attachments() (out []*compose.Part, err error) {
	for _, s := range v.form.Values["file"] {
		ref, err := parseReference(s)
		if err != nil || ref.place == "" || len(out) >= maxFiles {
			return nil, errNotFound
		}
		l, _, err := v.referred(ref)
		if err != nil {
			return nil, err
		}
		parts := l.named(ref)
		if len(parts) == 0 {
			return nil, errNotFound
		}
		for _, p := range parts {
			part, err := v.keptFile(l, p)
			if err != nil {
				return nil, err
			}
			out = append(out, part)
		}
	}
	for i := range v.form.files {
		f := &v.form.files[i]
		part := filePart(clip(f.name, 200), f.kind, int64(len(f.content)))
		part.Content = func() ([]byte, error) { return f.content, nil }
		out = append(out, part)
	}
	return out, nil
}

// keptFile returns a part of another message as an attachment.
func (v *visit) keptFile(l *letter, p *mime.Part) (*compose.Part, error) {
	c, err := l.content(l.places[p])
	if err != nil {
		return nil, err
	}
	if !v.form.room(c.Size) {
		return nil, listen.ErrMemory
	}
	part := filePart(fileName(p), p.Type+"/"+p.Subtype, c.Size)
	part.Charset = p.Param("charset")
	part.Content = func() ([]byte, error) { return c.Append(make([]byte, 0, c.Size), 0, c.Size) }
	return part, nil
}

// filePart returns an attachment with a name and media type. An invalid type becomes application/octet-stream.
func filePart(name, kind string, size int64) *compose.Part {
	p := &compose.Part{Type: "application", Subtype: "octet-stream", Disposition: "attachment", Name: name, Size: size}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	if t, sub, ok := strings.Cut(strings.TrimSpace(kind), "/"); ok && compose.Token(t) && compose.Token(sub) &&
		t != "multipart" {
		p.Type, p.Subtype = t, sub
	}
	return p
}

// store stores a message in a folder of the user's mail file. It replaces the draft old, if that is not zero.
func (v *visit) store(own *box, raw []byte, useOf string, words []string, old note.UNID) (u note.UNID, err error) {
	c, err := v.s.files.Compose(v.ctx, raw, own.Database())
	if err != nil {
		return u, err
	}
	defer c.Release()
	r, err := own.Change(v.ctx, 1, func(w *mailbox.Changing, _ int) error {
		folder, err := w.ForUse(useOf)
		if err != nil {
			return err
		}
		if !old.IsZero() {
			m, err := w.EmailOf(old)
			if err == nil && slices.Contains(slices.Collect(m.Keywords), mailbox.Draft) {
				err = w.Destroy(m.ID)
			}
			if err != nil && !errors.Is(err, mailbox.ErrNoMessage) {
				return err
			}
		}
		u, err = w.Create(&mailbox.Imported{Composed: c, Folders: []note.UNID{folder},
			Flags: mailbox.Flags{Seen: true, Keywords: words}, Received: v.s.env.Clock.Now()})
		return err
	})
	if err == nil {
		err = r.Errs[0]
	}
	return u, err
}

// keepDraft stores the form as a draft. If the input has an error, it returns a page that shows it.
func (v *visit) keepDraft() (*composePage, note.UNID, error) {
	own, err := v.own()
	if err != nil {
		return nil, note.UNID{}, err
	}
	x, err := v.identities()
	if err != nil {
		return nil, note.UNID{}, err
	}
	raw, _, err := v.message(x, time.Time{}, false)
	if err != nil {
		p, err := v.wrong(err)
		return p, note.UNID{}, err
	}
	old, _ := note.ParseUNID(v.form.Get("draft")) // zero if there is no draft yet
	u, err := v.store(own, raw, mailbox.UseDrafts, []string{mailbox.Draft}, old)
	return nil, u, err
}

// wrong returns a page that shows an error in the input. It returns other errors unchanged.
func (v *visit) wrong(err error) (*composePage, error) {
	var told *problem
	if !errors.As(err, &told) {
		return nil, err
	}
	p, _, err := v.posted()
	if err == nil {
		p.say(told.key, true, told.values...)
	}
	return p, err
}

// sendLetter sends the message in the form. It stores it as a draft first, so that nothing is lost if sending fails.
func (v *visit) sendLetter() error {
	own, err := v.own()
	if err != nil {
		return err
	}
	x, err := v.identities()
	if err != nil {
		return err
	}
	release, err := v.laterTime()
	var raw []byte
	var as *identity.Identity
	if err == nil {
		raw, as, err = v.message(x, release, true)
	}
	if err != nil {
		p, err := v.wrong(err)
		return v.unfinished(p, err)
	}
	var to []mail.Addressee
	sub := mail.Submission{Received: &mail.Received{Protocol: "HTTP"},
		Submitter: &mail.Submitter{Who: v.id.Who, Address: v.id.Address}}
	sub.Params.Size = -1
	for _, s := range compose.Recipients(raw) {
		path, err := smtp.ParsePath(s)
		if err != nil {
			p, err := v.wrong(&problem{"badAddress", []any{clip(s, 100)}})
			return v.unfinished(p, err)
		}
		to = append(to, mail.Addressee{To: path})
		sub.Params.UTF8 = sub.Params.UTF8 || !compose.ASCII(s)
	}
	if len(to) > v.s.opt.Recipients {
		p, err := v.wrong(&problem{"refusedByServer", []any{itoa(v.s.opt.Recipients)}})
		return v.unfinished(p, err)
	}
	if sub.From, err = smtp.ParsePath(as.Email); err != nil {
		p, err := v.wrong(&problem{"badAddress", []any{as.Email}})
		return v.unfinished(p, err)
	}
	old, _ := note.ParseUNID(v.form.Get("draft")) // zero if there is no draft yet
	draft, err := v.store(own, raw, mailbox.UseDrafts, []string{mailbox.Draft}, old)
	if err != nil {
		return v.unfinished(nil, err)
	}
	if err := v.holdDraft(own, draft); err != nil {
		return err
	}
	sub.Message = slices.Clone(raw) // Send removes fields that must not leave the server, such as Bcc
	queue, err := v.s.mail.Send(v.ctx, &sub, to, release)
	return v.sent(own, draft, &scheduled{as, release, queue, to}, err)
}

// holdDraft makes the form refer to the stored draft and to the files in it.
func (v *visit) holdDraft(own *box, draft note.UNID) error {
	l, err := v.open(own, draft, false)
	if err != nil {
		return err
	}
	var p composePage
	v.hold(&p, l, "")
	v.form.Set("draft", draft.String())
	v.form.Del("file")
	for _, f := range p.Files {
		v.form.Add("file", f.Ref)
	}
	v.form.files = nil
	return nil
}

// sent moves a sent message to Sent, or shows why sending failed.
func (v *visit) sent(own *box, draft note.UNID, x *scheduled, err error) error {
	refused, why, err := refusals(x.to, err)
	var reply *smtp.Reply
	if errors.As(err, &reply) {
		p, err := v.wrong(&problem{"refusedByServer", []any{clip(reply.Error(), 300)}})
		return v.unfinished(p, err)
	}
	if err != nil {
		return v.unfinished(nil, err)
	}
	if !x.at.IsZero() {
		err = v.record(own, draft, x)
	}
	if err = errors.Join(err, v.file(own, draft)); err != nil {
		// The message was sent, which matters most. It stays in Drafts.
		v.s.env.Log.Error("lite: cannot file a sent message", "person", v.id.Name, "error", err)
	}
	v.box = own
	if len(refused) > 0 {
		p, _, err := v.framed("compose", note.UNID{})
		if err != nil {
			return err
		}
		p.say("notTaken", true, clip(strings.Join(refused, ", "), 500), clip(why.Error(), 300))
		v.s.show(v.w, 200, "plain.html", p)
		return nil
	}
	if !x.at.IsZero() {
		return v.leave(Path, "said", "later.isScheduled", "at", strconv.FormatInt(x.at.Unix(), 10))
	}
	return v.leave(Path, "said", "messageSent")
}

// refusals returns the rejected recipients and the error of the last one. err is nil unless all recipients were
// rejected or sending failed.
func refusals(to []mail.Addressee, failed error) (refused []string, why, err error) {
	for i := range to {
		if to[i].Refused != nil {
			refused, why = append(refused, to[i].To.String()), to[i].Refused
		}
	}
	if failed == nil && len(refused) == len(to) {
		failed = why
	}
	return refused, why, failed
}

// file moves a sent draft to Sent, and marks the message that it answers or forwards.
func (v *visit) file(own *box, draft note.UNID) error {
	r, err := own.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
		m, err := c.EmailOf(draft)
		if err != nil {
			return err
		}
		id, in := m.ID, slices.Collect(m.Folders)
		sent, err := c.ForUse(mailbox.UseSent)
		if err != nil {
			return err
		}
		if err := c.SetKeyword(id, mailbox.Draft, false); err != nil {
			return err
		}
		return c.SetFolders(id, []note.UNID{sent}, in)
	})
	if err == nil {
		err = r.Errs[0]
	}
	ref, bad := parseReference(v.form.Get("re"))
	if err != nil || bad != nil {
		return err
	}
	word := mailbox.Answered
	if v.form.Get("kind") == "forward" {
		word = "$forwarded"
	}
	_, b, err := v.referred(ref)
	if err != nil {
		return nil // removed meanwhile
	}
	_, err = b.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
		id, err := c.Find(ref.id)
		if err != nil {
			return err
		}
		return c.SetKeyword(id, word, true)
	})
	return err
}
