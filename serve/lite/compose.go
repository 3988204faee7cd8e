package lite

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// composePage is a message being written. The form holds its whole state, so nothing is lost if the session ends.
type composePage struct {
	*frame
	Action     string
	Identities []identity.Identity
	Identity   string
	To, Cc     string
	Bcc        string
	Subject    string
	Text       string
	Draft      string // UNID of the stored draft, or ""
	Re, Kind   string // reference to the message that is answered or forwarded, and "reply", "all" or "forward"
	Files      []heldFile
	Find       string
	Found      []person
	Looked     bool
	MaxSize    string
	Later      string // when to send the message, as the user typed it; "" for now
}

// heldFile is an attachment that is already stored. Ref is a reference to it.
type heldFile struct{ Ref, Name, Size string }

// reference identifies a message or a part of one: "box:message" or "box:message:part". The box is "" for the user's
// own mail file.
type reference struct {
	box   string
	id    note.UNID
	place string
}

func (x reference) String() string {
	s := x.box + ":" + x.id.String()
	if x.place != "" {
		s += ":" + x.place
	}
	return s
}

func parseReference(s string) (x reference, err error) {
	parts := strings.SplitN(s, ":", 3)
	if len(parts) < 2 {
		return x, errNotFound
	}
	x.box = parts[0]
	if len(parts) == 3 {
		x.place = parts[2]
	}
	x.id, err = unid(parts[1])
	return x, err
}

// letter returns the reference of the message that contains the part.
func (x reference) letter() reference { return reference{x.box, x.id, ""} }

// allFiles, as the place of a reference, stands for all attachments of a message. It is used for more than manyHeld
// attachments, because a form that listed them all would be too long.
const (
	allFiles = "*"
	manyHeld = 40
)

// named returns the parts that a reference selects, or none if they do not exist.
func (l *letter) named(x reference) (out []*mime.Part) {
	if x.place != allFiles {
		if p := l.partAt(x.place); p != nil {
			out = append(out, p)
		}
		return out
	}
	for _, p := range l.bodies.Attachments {
		if l.places[p] != "" {
			out = append(out, p)
		}
	}
	return out
}

// referred opens the message of a reference. It returns errNotFound if the user may not read it.
func (v *visit) referred(x reference) (*letter, *box, error) {
	all, err := v.boxes()
	if err != nil {
		return nil, nil, err
	}
	for _, b := range all {
		if b.ID != x.box {
			continue
		}
		l := v.letters[x.letter()]
		if l == nil {
			if l, err = v.open(b, x.id, false); err != nil {
				return nil, nil, err
			}
			if v.letters == nil {
				v.letters = map[reference]*letter{}
			}
			v.letters[x.letter()] = l
		}
		return l, b, nil
	}
	return nil, nil, errNotFound
}

// own returns the user's own mail file, in which everything that they write is stored.
func (v *visit) own() (*box, error) {
	if v.id.Database == 0 {
		return nil, errNotFound
	}
	return &box{v.s.files.File(v.id.Who, v.id.Database), "", v.id.Name, v.id.Database}, nil
}

// identities returns the identities that the user can write as.
func (v *visit) identities() (*identity.List, error) {
	own, err := v.own()
	if err != nil {
		return nil, err
	}
	p, err := v.s.dir.Names.Person(v.ctx, v.id.Who.Person)
	if err != nil {
		return nil, err
	}
	var x *identity.List
	err = own.Read(v.ctx, func(d *mailbox.Reading) error {
		x, err = identity.Read(d, own.ProfileID(identity.Profile), p.Name(), p.Addresses())
		return err
	})
	if err != nil {
		return nil, err
	}
	// An identity for a whole domain has no address to choose.
	x.All = slices.DeleteFunc(x.All, func(i identity.Identity) bool { return strings.HasPrefix(i.Email, "*") })
	return x, nil
}

// compose shows a form: empty, or for a reply, a forwarded message or a draft.
func (v *visit) compose() error {
	p, x, err := v.composePage()
	if err != nil {
		return err
	}
	f := v.form
	p.To, p.Cc, p.Bcc, p.Subject = f.line("to"), f.line("cc"), f.line("bcc"), f.line("subject")
	p.Later = clip(f.line("later"), 40)
	switch draft, re := f.Get("draft"), f.Get("re"); {
	case draft != "":
		err = v.fromDraft(p, x, draft)
	case re != "":
		var id note.UNID
		if id, err = unid(re); err == nil {
			err = v.answer(p, x, reference{v.box.ID, id, ""}, f.Get("kind"))
		}
	default:
		mailto(p, f.Get("mailto"))
		p.Text += signature(x, p.Identity)
	}
	if err != nil {
		return err
	}
	v.toldOf(p.frame, "")
	v.s.show(v.w, http.StatusOK, "compose.html", p)
	return nil
}

func (v *visit) composePage() (*composePage, *identity.List, error) {
	x, err := v.identities()
	if err != nil {
		return nil, nil, err
	}
	fr, _, err := v.framed("compose", note.UNID{})
	if err != nil {
		return nil, nil, err
	}
	p := &composePage{frame: fr, Action: pathCompose, Identities: x.All,
		MaxSize: size(float64(v.s.files.MessageSize()))}
	if len(x.All) > 0 {
		p.Identity = x.All[0].ID
	}
	return p, x, nil
}

// kept shows the form again after a sign-in, with the text that was sent when the session had ended.
func (v *visit) kept() error {
	p, _, err := v.posted()
	if err != nil {
		return err
	}
	p.say("textKept", false)
	v.s.show(v.w, http.StatusOK, "compose.html", p)
	return nil
}

// posted returns the page with the content of the form that was sent.
func (v *visit) posted() (*composePage, *identity.List, error) {
	p, x, err := v.composePage()
	if err != nil {
		return nil, nil, err
	}
	f := v.form
	p.To, p.Cc, p.Bcc, p.Subject = f.line("to"), f.line("cc"), f.line("bcc"), f.line("subject")
	p.Later = clip(f.line("later"), 40)
	p.Text, p.Draft, p.Re, p.Kind, p.Find = f.Get("text"), f.Get("draft"), f.Get("re"), f.Get("kind"), f.line("find")
	if x.Find(f.Get("identity")) != nil {
		p.Identity = f.Get("identity")
	}
	for _, s := range f.Values["file"] {
		ref, err := parseReference(s)
		if err != nil || len(p.Files) >= maxFiles {
			continue
		}
		l, _, err := v.referred(ref)
		if errors.Is(err, errNotFound) || errors.Is(err, mailbox.ErrNoMessage) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, nil, err
		}
		if ref.place == allFiles {
			v.hold(p, l, ref.box)
		} else if part := l.partAt(ref.place); part != nil {
			p.Files = append(p.Files, v.held(l, ref, part))
		}
	}
	return p, x, nil
}

func (v *visit) held(l *letter, ref reference, part *mime.Part) heldFile {
	h := heldFile{Ref: ref.String(), Name: fileName(part)}
	if c, err := l.content(ref.place); err == nil {
		h.Size = size(float64(c.Size))
	}
	return h
}

// hold lists the attachments of a message in the form.
func (v *visit) hold(p *composePage, l *letter, box string) {
	if n := len(l.bodies.Attachments); n > manyHeld {
		p.Files = append(p.Files, heldFile{reference{box, l.id, allFiles}.String(), v.T("attachments", n), ""})
		return
	}
	for _, part := range l.bodies.Attachments {
		if place := l.places[part]; place != "" && len(p.Files) < maxFiles {
			p.Files = append(p.Files, v.held(l, reference{box, l.id, place}, part))
		}
	}
}

// signature returns the text signature of an identity, with its separator.
func signature(x *identity.List, id string) string {
	i := x.Find(id)
	if i == nil {
		return ""
	}
	text := i.Text
	if text == "" && i.HTML != "" {
		text = mime.HTMLText(i.HTML)
	}
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "\n\n-- \n" + text + "\n"
}

// fromDraft fills in a draft.
func (v *visit) fromDraft(p *composePage, x *identity.List, draft string) error {
	id, err := unid(draft)
	if err != nil {
		return err
	}
	own, err := v.own()
	if err != nil {
		return err
	}
	l, err := v.open(own, id, false)
	if err != nil {
		return err
	}
	if p.Draft = id.String(); !l.has(mailbox.Draft) {
		p.Draft = "" // a sent message is used as a template and kept
	}
	p.To, p.Cc, p.Bcc, p.Subject = formatList(l.env.To), formatList(l.env.Cc), formatList(l.env.Bcc),
		clip(subjectOf(l.env), 2000)
	text, cut, err := l.wholeText()
	if err != nil {
		return err
	}
	if cut {
		return errLongDraft // saving the page would lose the rest
	}
	p.Text = text
	if len(l.env.From) > 0 {
		p.as(x, l.env.From)
	}
	p.Re, p.Kind = v.form.Get("origin"), v.form.Get("kind")
	v.hold(p, l, "")
	return nil
}

// as selects the identity whose address is in list. It reports whether there is one.
func (p *composePage) as(x *identity.List, list []mime.Address) bool {
	for i := range list {
		for k := range x.All {
			if strings.EqualFold(x.All[k].Email, list[i].Mailbox+"@"+list[i].Host) {
				p.Identity = x.All[k].ID
				return true
			}
		}
	}
	return false
}

// wholeText returns the text of a message as plain text, at most half of maxForm. It reports whether there is more.
func (l *letter) wholeText() (text string, cut bool, err error) {
	var b strings.Builder
	for _, p := range l.bodies.Text {
		if p.Type != "text" {
			continue
		}
		text, more, err := l.text(p, maxForm/2)
		if err != nil {
			return "", false, err
		}
		if cut = cut || more; p.Subtype == "html" {
			text = mime.HTMLText(text)
		}
		b.WriteString(strings.TrimRight(text, "\n"))
		b.WriteByte('\n')
	}
	text, more := clipBytes(b.String(), maxForm/2)
	return text, cut || more, nil
}

func clipBytes(s string, most int) (text string, cut bool) {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], ""), true
	}
	return s, false
}

// omission stands in an answer where the text of the other message was cut.
const omission = "[…]"

var answerPrefix = regexp.MustCompile(`(?i)^((re|aw|fwd?|wg|回复|转发)\s*[:：]\s*)+`)

// answer fills in a reply to a message, or a forwarded message.
func (v *visit) answer(p *composePage, x *identity.List, ref reference, kind string) error {
	l, b, err := v.referred(ref)
	if err != nil {
		return err
	}
	p.Re, p.Kind = ref.String(), kind
	p.as(x, slices.Concat(l.env.To, l.env.Cc))
	subject := answerPrefix.ReplaceAllString(clip(subjectOf(l.env), 2000), "")
	text, cut, err := l.wholeText()
	if err != nil {
		return err
	}
	if cut {
		text += omission + "\n"
	}
	when := v.Long(l.date)
	if sent, ok := mime.ParseDate(l.env.Date); ok {
		when = v.Long(sent)
	}
	if kind == "forward" {
		p.Subject = "Fwd: " + subject
		head := v.T("from") + ": " + formatList(l.env.From) + "\n" + v.T("date") + ": " + when + "\n" + v.T("subject") +
			": " + clip(subjectOf(l.env), 2000) + "\n" + v.T("to") + ": " + formatList(l.env.To) + "\n"
		p.Text = signature(x, p.Identity) + "\n\n---------- " + v.T("forwarded") + " ----------\n" + head + "\n" + text
		v.hold(p, l, b.ID)
		return nil
	}
	p.Subject = "Re: " + subject
	mine := map[string]bool{}
	for i := range x.All {
		mine[strings.ToLower(x.All[i].Email)] = true
	}
	to := l.env.ReplyTo // without Reply-To, the envelope has From there
	if p.as(x, l.env.From) {
		to, mine = l.env.To, map[string]bool{}
	}
	p.To = formatList(others(to, mine))
	if p.To == "" {
		p.To = formatList(to)
	}
	if kind == "all" {
		for i := range to {
			mine[strings.ToLower(to[i].Mailbox+"@"+to[i].Host)] = true
		}
		p.Cc = formatList(others(slices.Concat(l.env.To, l.env.Cc), mine))
	}
	quoted, cut := clipBytes("> "+strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n> "), maxForm/2)
	if cut {
		quoted += "\n> " + omission
	}
	p.Text = "\n\n" + v.T("wrote", when, names(l.env.From)) + "\n" + strings.ReplaceAll(quoted, "\n> >", "\n>>") +
		"\n" + signature(x, p.Identity)
	return nil
}

// others returns the addresses of a list that are not in known, each once. It adds them to known.
func others(list []mime.Address, known map[string]bool) (out []mime.Address) {
	for i := range list {
		key := strings.ToLower(list[i].Mailbox + "@" + list[i].Host)
		if !list[i].Group && list[i].Host != "" && !known[key] {
			known[key] = true
			out = append(out, list[i])
		}
	}
	return out
}

// formatList prints addresses as users type them.
func formatList(list []mime.Address) string {
	var out []string
	for i := range list {
		if s := formatAddress(&list[i]); s != "" && !list[i].Group {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

func formatAddress(a *mime.Address) string {
	email := a.Mailbox
	if a.Host != "" {
		email += "@" + a.Host
	}
	name := strings.NewReplacer(`"`, "", `\`, "", "<", "", ">", "").Replace(clip(mailName(a), 200))
	switch {
	case name == "" || email == "":
		return clip(email, 400)
	case strings.ContainsAny(name, "()[]:;@,."):
		return `"` + name + `" <` + clip(email, 400) + ">"
	}
	return name + " <" + clip(email, 400) + ">"
}

// mailto fills in the fields of a mailto: link (RFC 6068). It ignores all fields but to, cc, bcc, subject and body.
func mailto(p *composePage, link string) {
	rest, ok := strings.CutPrefix(link, "mailto:")
	if !ok || len(link) > 8000 {
		return
	}
	path, query, _ := strings.Cut(rest, "?")
	to, err := url.PathUnescape(path)
	if err != nil {
		return
	}
	p.To = clip(to, 2000)
	values, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B"))
	if err != nil {
		return
	}
	p.Cc, p.Bcc, p.Subject = clip(values.Get("cc"), 2000), clip(values.Get("bcc"),
		2000), clip(values.Get("subject"), 500)
	p.Text = strings.ToValidUTF8(strings.ReplaceAll(strings.ReplaceAll(values.Get("body"), "\r\n", "\n"), "\x00", ""),
		"")
}

// composed handles the form of a message.
func (v *visit) composed() error {
	do := v.form.Get("do")
	if add, ok := strings.CutPrefix(do, "add:"); ok {
		p, _, err := v.posted()
		if err != nil {
			return err
		}
		p.To = withAddress(p.To, add)
		p.Find = ""
		v.s.show(v.w, http.StatusOK, "compose.html", p)
		return nil
	}
	switch do {
	case "discard":
		return v.discard()
	case "find":
		p, _, err := v.posted()
		if err == nil {
			p.Found, err = v.find(p.Find)
		}
		if err != nil {
			return err
		}
		p.Looked = true
		v.s.show(v.w, http.StatusOK, "compose.html", p)
		return nil
	case "attach", "save":
		p, u, err := v.keepDraft()
		if err != nil || p != nil {
			return v.unfinished(p, err)
		}
		return v.leave(pathCompose, "draft", u.String(), "origin", v.form.Get("re"), "kind", v.form.Get("kind"), "said",
			"draftSaved", "later", v.form.line("later"))
	case "send":
		return v.sendLetter()
	}
	return errForm
}

// unfinished shows the form again with the error, so that no input is lost.
func (v *visit) unfinished(p *composePage, err error) error {
	if p == nil {
		var bad error
		if p, _, bad = v.posted(); bad != nil {
			return errors.Join(err, bad)
		}
	}
	status := http.StatusUnprocessableEntity
	if err != nil {
		var key string
		if status, key = refusal(err); status == http.StatusServiceUnavailable {
			v.s.env.Log.Error("lite: cannot save a draft", "person", v.id.Name, "error", err)
		}
		p.say(key, true, size(float64(v.s.files.MessageSize())))
	}
	v.s.show(v.w, status, "compose.html", p)
	return nil
}

// discard deletes the draft.
func (v *visit) discard() error {
	own, err := v.own()
	if err != nil {
		return err
	}
	if u, err := unid(v.form.Get("draft")); err == nil {
		err = v.dropDraft(v.ctx, own, u)
		if err != nil {
			return err
		}
	}
	v.box = own
	return v.leave(Path, "said", "discarded")
}

// dropDraft destroys a message if it is a draft.
func (v *visit) dropDraft(ctx context.Context, own *box, u note.UNID) error {
	r, err := own.Change(ctx, 1, func(c *mailbox.Changing, _ int) error {
		m, err := c.EmailOf(u)
		if err != nil {
			return err
		}
		if !slices.Contains(slices.Collect(m.Keywords), mailbox.Draft) {
			return nil
		}
		return c.Destroy(m.ID)
	})
	if err == nil && r.Errs[0] != nil && !errors.Is(r.Errs[0], mailbox.ErrNoMessage) {
		err = r.Errs[0]
	}
	return err
}
