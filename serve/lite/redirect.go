package lite

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"doublet/mail"
	"doublet/mail/compose"
	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// redirectPage is the form to redirect (resend) a message.
type redirectPage struct {
	*frame
	ID, Subject, Back string
	// Once is a unique id of the form, used as the Resent-Message-ID. If the form is sent twice, the message is resent
	// only once.
	Once       string
	Identities []identity.Identity
	Identity   string
	To, Find   string
	Found      []person
	Looked     bool
}

// redirect shows the form.
func (v *visit) redirect() error {
	p, _, _, err := v.redirectPage()
	if err == nil {
		v.s.show(v.w, http.StatusOK, "redirect.html", p)
	}
	return err
}

// redirectPage returns the page with the request's values, the identities and the message.
func (v *visit) redirectPage() (*redirectPage, *identity.List, *letter, error) {
	l, err := v.named(false)
	if err != nil {
		return nil, nil, nil, err
	}
	x, err := v.identities()
	if err != nil {
		return nil, nil, nil, err
	}
	fr, _, err := v.framed("redirect", note.UNID{})
	if err != nil {
		return nil, nil, nil, err
	}
	p := &redirectPage{frame: fr, ID: l.id.String(), Back: v.at(pathRead, "m", l.id.String()), Identities: x.All,
		To: v.form.line("to"), Find: v.form.line("find")}
	if p.Subject = fit(subjectOf(l.env), 120, 160); p.Subject == "" {
		p.Subject = v.T("noSubject")
	}
	once, err := unid(v.form.Get("once"))
	if err != nil {
		v.s.env.Fill(once[:])
	}
	p.Once = once.String()
	if len(x.All) > 0 {
		p.Identity = x.All[0].ID
	}
	if x.Find(v.form.Get("identity")) != nil {
		p.Identity = v.form.Get("identity")
	}
	return p, x, l, nil
}

// redirectAgain returns the address of the form with its values, for use after a sign-in.
func redirectAgain(f *form) string {
	q := url.Values{}
	for _, name := range []string{"b", "m", "to", "identity", "once"} {
		if s := f.Get(name); s != "" {
			q.Set(name, s)
		}
	}
	return pathRedirect + "?" + q.Encode()
}

// redirected handles the form.
func (v *visit) redirected() error {
	p, x, l, err := v.redirectPage()
	if err != nil {
		return err
	}
	do := v.form.Get("do")
	if add, ok := strings.CutPrefix(do, "add:"); ok {
		p.To, p.Find = withAddress(p.To, add), ""
		v.s.show(v.w, http.StatusOK, "redirect.html", p)
		return nil
	}
	switch do {
	case "find":
		if p.Found, err = v.find(p.Find); err != nil {
			return err
		}
		p.Looked = true
		v.s.show(v.w, http.StatusOK, "redirect.html", p)
		return nil
	case "send":
		refused, why, err := v.sendOn(p, x, l)
		if err != nil {
			return v.notSentOn(p, err)
		}
		if len(refused) > 0 {
			p.say("notTaken", true, clip(strings.Join(refused, ", "), 500), clip(why.Error(), 300))
			v.s.show(v.w, http.StatusOK, "plain.html", p)
			return nil
		}
		return v.leave(pathRead, "m", p.ID, "said", "messageSent")
	}
	return errForm
}

// notSentOn shows the form again with the error.
func (v *visit) notSentOn(p *redirectPage, err error) error {
	var told *problem
	var reply *smtp.Reply
	status, key := refusal(err)
	switch {
	case errors.As(err, &told):
		status = http.StatusUnprocessableEntity
		p.say(told.key, true, told.values...)
	case errors.As(err, &reply):
		status = http.StatusUnprocessableEntity
		p.say("refusedByServer", true, clip(reply.Error(), 300))
	default:
		if status == http.StatusServiceUnavailable {
			v.s.env.Log.Error("lite: cannot redirect a message", "person", v.id.Name, "error", err)
		}
		p.say(key, true, size(float64(v.s.files.MessageSize())))
	}
	v.s.show(v.w, status, "redirect.html", p)
	return nil
}

// sendOn resends a message unchanged, with Resent- fields in front of it, and keeps a copy in Sent. If only some
// recipients were rejected, it returns them in refused, and the error of the last one in why.
func (v *visit) sendOn(p *redirectPage, x *identity.List, l *letter) (refused []string, why, err error) {
	own, err := v.own()
	if err != nil {
		return nil, nil, err
	}
	as := x.Find(p.Identity)
	if as == nil {
		return nil, nil, &problem{"notAllowed", nil}
	}
	from, ok := compose.Address(as.Name, as.Email)
	sub := mail.Submission{Received: &mail.Received{Protocol: "HTTP"},
		Submitter: &mail.Submitter{Who: v.id.Who, Address: v.id.Address}}
	if sub.From, err = smtp.ParsePath(as.Email); err != nil || !ok {
		return nil, nil, &problem{"badAddress", []any{as.Email}}
	}
	words, err := addressWords(p.To, true)
	if err != nil {
		return nil, nil, err
	}
	if words == nil {
		return nil, nil, &problem{"noRecipients", nil}
	}
	id := "<" + p.Once + "@" + as.Email[strings.LastIndexByte(as.Email, '@')+1:] + ">"
	if was, err := v.wasSentOn(own, id); was || err != nil {
		return nil, nil, err
	}
	fields := compose.Resent(from, words, v.s.env.Clock.Now(), id)
	to, err := v.resentTo(fields, &sub)
	if err != nil {
		return nil, nil, err
	}
	if int64(len(fields))+l.body.Size() > int64(v.s.files.MessageSize()) {
		return nil, nil, mailbox.ErrTooBig
	}
	if !v.form.room(l.body.Size()) {
		return nil, nil, listen.ErrMemory
	}
	raw, err := l.body.AppendRange(fields, 0, l.body.Size())
	if err != nil {
		return nil, nil, err
	}
	draft, err := v.store(own, raw, mailbox.UseDrafts, []string{mailbox.Draft}, note.UNID{})
	if err != nil {
		return nil, nil, err
	}
	sub.Params.Size, sub.Message = -1, raw
	_, err = v.s.mail.Send(v.ctx, &sub, to, time.Time{})
	if refused, why, err = refusals(to, err); err != nil {
		return nil, nil, errors.Join(err, v.dropDraft(v.ctx, own, draft))
	}
	v.form.Set("re", reference{v.box.ID, l.id, ""}.String())
	v.form.Set("kind", "forward")
	if err := v.file(own, draft); err != nil {
		v.s.env.Log.Error("lite: cannot file a redirected message", "person", v.id.Name, "error", err)
	}
	return refused, why, nil
}

// resentTo returns the recipients in Resent-To.
func (v *visit) resentTo(fields []byte, sub *mail.Submission) (to []mail.Addressee, err error) {
	value, _ := mime.Get(fields, "Resent-To")
	seen := map[string]bool{}
	for _, a := range mime.ParseAddressList([]byte(value)) {
		email := a.Mailbox + "@" + a.Host
		path, err := smtp.ParsePath(email)
		if err != nil {
			return nil, &problem{"badAddress", []any{clip(email, 100)}}
		}
		if key := strings.ToLower(email); !seen[key] {
			seen[key] = true
			to = append(to, mail.Addressee{To: path})
			sub.Params.UTF8 = sub.Params.UTF8 || !compose.ASCII(email)
		}
	}
	if len(to) > v.s.opt.Recipients {
		return nil, &problem{"refusedByServer", []any{itoa(v.s.opt.Recipients)}}
	}
	return to, nil
}

// wasSentOn reports whether Sent already contains a message with this Resent-Message-ID. The response to the first
// request may have been lost.
func (v *visit) wasSentOn(own *box, id string) (bool, error) {
	folders, err := own.Folders(v.ctx)
	sent := mailbox.ForUse(folders, mailbox.UseSent)
	if err != nil || sent == nil {
		return false, err
	}
	found, err := own.Query(v.ctx,
		&mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterAnd, Of: []mailbox.Filter{
			{Kind: mailbox.FilterIn, Folders: []note.UNID{sent.UNID}},
			{Kind: mailbox.FilterText, Text: mailbox.Criteria{Test: mailbox.TestHeader, Name: "Resent-Message-ID",
				Text: id}},
		}}, Limit: 1})
	return err == nil && len(found.Hits) > 0, err
}

// sentOnBy returns who resent a message, the latest first.
func (v *visit) sentOnBy(l *letter) (out [][]person, err error) {
	head, err := l.head()
	if err != nil || !bytes.Contains(bytes.ToLower(head), []byte("resent-")) {
		return nil, err
	}
	for f := range mime.Fields(head) {
		if (f.Is("Resent-From") || f.Is("Resent-Sender")) && len(out) < maxPeople {
			if list, _ := v.people(mime.ParseAddressList(f.Value)); len(list) > 0 {
				out = append(out, list)
			}
		}
	}
	return out, nil
}
