package jmapd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mail"
	"doublet/mail/compose"
	"doublet/mail/identity"
	"doublet/wire/jmap"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// envelope reads the envelope into sub, or makes one from the header and the identity. It returns the envelope as JSON.
func (x *submitting) envelope(v *jmap.Value, raw []byte, who *identity.Identity, sub *Submission) (string, error) {
	if v.IsNull() {
		v = defaultEnvelope(raw, who)
	}
	from, to := v.Get("mailFrom"), v.Get("rcptTo")
	email, ok := from.Get("email").Text()
	if !ok || to.Kind() != jmap.Array || v.Len() != 2 {
		return "", badProperties("An envelope has mailFrom and rcptTo.", "envelope")
	}
	if email != "" {
		if err := x.mailFrom(email, sub); err != nil {
			return "", err
		}
	}
	if err := x.mailParameters(from.Get("parameters"), sub); err != nil {
		return "", err
	}
	if err := x.recipients(to, sub); err != nil {
		return "", err
	}
	sub.Params.UTF8 = sub.Params.UTF8 || !compose.ASCII(email)
	return string(v.Append(nil)), nil
}

// mailFrom sets the sender of an envelope, if the caller may send under the address.
func (x *submitting) mailFrom(email string, sub *Submission) (err error) {
	if sub.From, err = smtp.ParsePath(email); err != nil {
		return badProperties("mailFrom is no address.", "envelope")
	}
	right, err := x.c.s.backend.SendRight(x.c.ctx, x.c.caller.Who, sub.From.String())
	if err == nil && right != directory.SendFully {
		err = &jmap.Error{Type: "forbiddenMailFrom", Description: "mailFrom is not one of your addresses."}
	}
	return err
}

// recipients reads rcptTo.
func (x *submitting) recipients(to *jmap.Value, sub *Submission) error {
	if to.Len() == 0 {
		return &jmap.Error{Type: "noRecipients"}
	}
	if n := x.c.s.backend.MaxRecipients(); to.Len() > n {
		return &jmap.Error{Type: "tooManyRecipients", LimitName: "maxRecipients", Limit: uint64(n)}
	}
	var refused []string
	for i := range to.Len() {
		r := to.At(i)
		email, ok := r.Get("email").Text()
		path, err := smtp.ParsePath(email)
		if !ok || err != nil || path.IsNull() {
			refused = append(refused, email)
			continue
		}
		one := mail.Addressee{To: path}
		if err := rcptParameters(r.Get("parameters"), &one.Params); err != nil {
			return err
		}
		sub.To = append(sub.To, one)
		sub.Params.UTF8 = sub.Params.UTF8 || !compose.ASCII(email)
	}
	if refused != nil {
		return &jmap.Error{Type: "invalidRecipients", Recipients: refused}
	}
	return nil
}

// defaultEnvelope returns the envelope for a message without one. The sender is the header's if the identity allows it,
// otherwise the identity's address. The recipients are all those in the header.
//
// Implements: RFC 8621 §7.5 the envelope that the header gives
func defaultEnvelope(raw []byte, who *identity.Identity) *jmap.Value {
	address := func(email string) jmap.Value {
		return *jmap.MakeObject([]string{"email", "parameters"}, []jmap.Value{jmap.Text(email), {}})
	}
	from := who.Email
	if sender := headerSender(raw); allows(who.Email, sender) {
		from = sender
	}
	var to []jmap.Value
	for _, email := range compose.Recipients(raw) {
		to = append(to, address(email))
	}
	return jmap.MakeObject([]string{"mailFrom", "rcptTo"}, []jmap.Value{address(from), jmap.List(to...)})
}

// headerSender returns the address in the Sender field, or the first in From, or "".
func headerSender(raw []byte) string {
	value, ok := mime.Get(raw, "Sender")
	if !ok {
		value, _ = mime.Get(raw, "From")
	}
	for _, a := range mime.ParseAddressList([]byte(value)) {
		if !a.Group && a.Host != "" {
			return a.Mailbox + "@" + a.Host
		}
	}
	return ""
}

// allows reports whether an identity's address, which may be "*@" and a domain, covers an address.
func allows(email, address string) bool {
	if domain, any := strings.CutPrefix(email, "*@"); any {
		_, of, ok := strings.Cut(address, "@")
		return ok && strings.EqualFold(domain, of)
	}
	return strings.EqualFold(email, address)
}

// appendSubmissionExtensions appends the SMTP extensions that an envelope may use.
//
// Implements: RFC 8621 §1.3.2 submissionExtensions
func (s *Server) appendSubmissionExtensions(dst []byte) []byte {
	o := jmap.NewWriter(dst)
	o.Raw("DSN", "[]")
	o.Strings("FUTURERELEASE", strconv.FormatInt(int64(s.opt.Limits.Delay.Seconds()), 10),
		string(jmap.AppendDate(nil, s.env.Clock.Now().Add(s.opt.Limits.Delay).UTC())))
	o.Raw("MT-PRIORITY", `["-9","9"]`)
	o.Raw("REQUIRETLS", "[]")
	o.Raw("SMTPUTF8", "[]")
	o.Strings("SIZE", strconv.Itoa(s.backend.Mail().MessageSize()))
	return o.End()
}

// mailParameters reads the parameters of mailFrom.
func (x *submitting) mailParameters(v *jmap.Value, sub *Submission) error {
	if err := onlyOnce(v); err != nil {
		return err
	}
	for i := range v.Len() {
		if name := strings.ToUpper(v.Name(i)); !x.setMailParameter(name, v.At(i), sub) {
			return badProperties(fmt.Sprintf("The parameter %.40q of mailFrom cannot be that.", name), "envelope")
		}
	}
	return nil
}

// setMailParameter sets a parameter of mailFrom. It reports whether the value is valid.
func (x *submitting) setMailParameter(name string, p *jmap.Value, sub *Submission) bool {
	text, isText := p.Text()
	switch name {
	case "HOLDFOR", "HOLDUNTIL":
		return x.hold(name, text, sub)
	case "ENVID", "RET", "BODY", "AUTH":
		return isText && sub.Params.Set(name, text) == nil
	case "SIZE":
		n, err := strconv.ParseUint(text, 10, 63)
		return err == nil && n <= uint64(x.c.s.backend.Mail().MessageSize())
	case "MT-PRIORITY":
		n, err := strconv.Atoi(text)
		ok := err == nil && -9 <= n && n <= 9
		sub.Params.Priority, sub.Params.HasPriority = int8(max(-9, min(n, 9))), ok
		return ok
	case "REQUIRETLS":
		sub.Params.RequireTLS = true
		return p.IsNull()
	case "SMTPUTF8":
		sub.Params.UTF8 = true
		return isText || p.IsNull()
	}
	return false
}

// hold sets the time before which a message is not sent. Without a time in the future it is sent at once.
//
// Implements: RFC 4865 §4 HOLDFOR and HOLDUNTIL in an envelope
func (x *submitting) hold(name, text string, sub *Submission) bool {
	now, delay := x.c.s.env.Clock.Now(), x.c.s.opt.Limits.Delay
	var at time.Time
	ok := false
	if name == "HOLDUNTIL" {
		at, ok = jmap.ParseDate(text, false)
	} else {
		n, err := strconv.ParseInt(text, 10, 64)
		ok = err == nil && n >= 0 && n <= int64(delay.Seconds())
		at = now.Add(time.Duration(n) * time.Second)
	}
	if !ok || at.Sub(now) > delay {
		return false
	}
	if at.After(now) {
		sub.Release = at
	}
	return true
}

// onlyOnce returns an error for envelope parameters that occur twice, ignoring case, and for HOLDFOR together with
// HOLDUNTIL (RFC 4865 section 4).
func onlyOnce(v *jmap.Value) error {
	seen := map[string]bool{}
	for i := range v.Len() {
		name := strings.ToUpper(v.Name(i))
		if name == "HOLDUNTIL" {
			name = "HOLDFOR"
		}
		if seen[name] {
			return badProperties(fmt.Sprintf("The parameter %.40q comes twice, or beside one that means the same.",
				v.Name(i)), "envelope")
		}
		seen[name] = true
	}
	return nil
}

// rcptParameters reads the parameters of a recipient.
func rcptParameters(v *jmap.Value, to *smtp.RcptParams) error {
	if err := onlyOnce(v); err != nil {
		return err
	}
	for i := range v.Len() {
		name := strings.ToUpper(v.Name(i))
		text, ok := v.At(i).Text()
		switch name {
		case "NOTIFY", "ORCPT":
			ok = ok && to.Set(name, text, true) == nil
		default:
			ok = false
		}
		if !ok {
			return badProperties(fmt.Sprintf("The parameter %.40q of a recipient cannot be that.", name), "envelope")
		}
	}
	return nil
}
