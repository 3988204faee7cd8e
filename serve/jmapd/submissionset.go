package jmapd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mail"
	"doublet/mail/compose"
	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// submitting is an EmailSubmission/set in progress.
type submitting struct {
	*set
	made   []*submission // parallel to create, nil if it failed
	emails map[string]note.UNID
	// recalled holds the error of each update, or nil. If nil, a pending message to cancel was already taken back from
	// the queue.
	recalled []error

	// What this update has done so far. The list is written last, so that its MODSEQ is the greatest.
	added   []listed
	gone    []note.UNID
	touched bool
}

// submissionSet answers EmailSubmission/set.
//
// Implements: RFC 8621 §7.5 EmailSubmission/set
func submissionSet(c *call) error {
	s, err := c.setArguments(own, "onSuccessUpdateEmail", "onSuccessDestroyEmail")
	if err != nil {
		return err
	}
	for _, n := range []string{"onSuccessUpdateEmail", "onSuccessDestroyEmail"} {
		if k := c.args.Get(n).Kind(); k != jmap.Null && k != map[bool]jmap.Kind{true: jmap.Array,
			false: jmap.Object}[n == "onSuccessDestroyEmail"] {
			return invalid("%s is not what it should be", n)
		}
	}
	x := &submitting{set: s, made: make([]*submission, len(s.create)), emails: map[string]note.UNID{}}
	var before string
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := c.readSubmissions(d)
		if err != nil {
			return err
		}
		before = list.state()
		return s.mismatch(before)
	})
	if err != nil {
		return err
	}
	// A sent message cannot be taken back. So all are sent first, and then stored together.
	failed := make([]error, len(s.create))
	for i := range s.create {
		x.made[i], failed[i] = x.submit(s.create[i].object)
	}
	for i := range s.update {
		x.recalled = append(x.recalled, x.recall(&s.update[i]))
	}
	after, err := x.write(failed)
	if err != nil {
		return err
	}
	s.append(before, after)
	if update, destroy := x.follows(); update != nil || destroy != nil {
		c.implicit = func() { c.follow("Email/set", c.id, x.emailSet(update, destroy)) }
	}
	return nil
}

// write stores the new submissions, cancels and removes others, and records the result of each.
func (x *submitting) write(failed []error) (after string, err error) {
	c, s := x.c, x.set
	nc, nu := len(s.create), len(s.update)
	lists := c.account.File.ProfileID(submissionsProfile)
	res, err := c.account.File.Change(c.ctx, nc+nu+len(s.destroy)+1, func(w *mailbox.Changing, i int) error {
		if w.Calls == 1 {
			x.added, x.gone, x.touched = nil, nil, false
		}
		list, err := c.readSubmissions(w.Reading)
		if err != nil {
			return mailbox.Abort(err)
		}
		switch {
		case i < nc:
			if failed[i] != nil {
				return failed[i]
			}
			x.added = append(x.added, listed{x.made[i].unid, x.made[i].sendAt})
			return w.PutProfile(x.made[i].unid, x.made[i].items())
		case i < nc+nu:
			if err := x.recalled[i-nc]; err != nil {
				return err
			}
			return x.cancel(w, list, &s.update[i-nc])
		case i < nc+nu+len(s.destroy):
			return x.remove(w, list, s.destroy[i-nc-nu])
		}
		if err := x.writeList(w, lists, list); err != nil {
			return mailbox.Abort(err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := c.readSubmissions(d)
		if err == nil {
			after = list.state()
		}
		return err
	})
	for i, err := range res.Errs[:nc+nu+len(s.destroy)] {
		switch {
		case i < nc && failed[i] == nil:
			m := x.made[i]
			if err != nil { // the message was sent anyway
				c.s.env.Log.Error("jmap: cannot store a submission", "person", c.caller.Name, "queue", m.queue.String(),
					"error", err)
			}
			id := idOf(letterSubmission, m.unid)
			x.emails["#"+s.create[i].id], x.emails[id] = m.email, m.email
			s.made(s.create[i].id, id, x.createdObject(m, s.create[i].object))
		case i < nc:
			s.notCreated = append(s.notCreated, failure{s.create[i].id, failed[i]})
		case i < nc+nu && err == nil:
			s.updated = append(s.updated, entry{s.update[i-nc].id, nil})
		case i < nc+nu:
			s.notUpdated = append(s.notUpdated, failure{s.update[i-nc].id, err})
		case err == nil:
			s.destroyed = append(s.destroyed, s.destroy[i-nc-nu])
		default:
			s.not = append(s.not, failure{s.destroy[i-nc-nu], err})
		}
	}
	return after, err
}

// createdObject returns the response for a new submission. If the delivery status cannot be read now, it is omitted,
// because the message was sent.
func (x *submitting) createdObject(m *submission, sent *jmap.Value) []byte {
	c, now := x.c, x.c.s.env.Clock.Now().Unix()
	object, err := c.submissionObject(m, now, func(string) bool { return true })
	if err != nil {
		object, err = c.submissionObject(m, now, func(p string) bool { return p != "deliveryStatus" })
	}
	if err != nil {
		object = jmap.MakeObject([]string{"id"}, []jmap.Value{jmap.Text(idOf(letterSubmission, m.unid))})
	}
	return told(sent, object)
}

// writeList stores the list with the changes of this update.
func (x *submitting) writeList(w *mailbox.Changing, lists note.UNID, list *submissions) error {
	if len(x.added)+len(x.gone) == 0 && !x.touched {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(list.list), func(l listed) bool { return slices.Contains(x.gone, l.unid) })
	left, old := list.trim(append(left, x.added...))
	for _, u := range old {
		if err := w.RemoveProfile(u); err != nil {
			return err
		}
	}
	return w.PutProfile(lists, list.itemsOf(left, append(old, x.gone...)))
}

// recall checks an update of a submission. If the client cancels a pending one, recall takes the message back from the
// queue.
//
// Implements: RFC 8621 §7 undoStatus
func (x *submitting) recall(p *patch) error {
	c := x.c
	u, _ := parseID(letterSubmission, p.real)
	var m *submission
	var now int64
	err := c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := c.readSubmissions(d)
		if err == nil {
			now = list.now
			m, err = list.load(d, u)
		}
		return err
	})
	if err != nil {
		return err
	}
	if m == nil {
		return &jmap.Error{Type: "notFound"}
	}
	status, err := c.newUndoStatus(m, now, p.object)
	if err != nil {
		return err
	}
	gone := &jmap.Error{Type: "cannotUnsend", Description: "It has gone already."}
	switch {
	case status == m.undo(now):
		return nil
	case status != "canceled":
		return badProperties("A submission can be canceled, and nothing else.", "undoStatus")
	case m.undo(now) != "pending":
		return gone
	}
	back, err := c.s.backend.Recall(c.ctx, m.queue)
	if err == nil && !back {
		return gone
	}
	return err
}

// submissionKind lists the properties of an EmailSubmission that a client may change.
var submissionKind = kind{
	mutable: []string{"undoStatus"},
	fixed: oneOf("id", "identityId", "emailId", "threadId", "envelope", "sendAt", "deliveryStatus", "dsnBlobIds",
		"mdnBlobIds"),
}

// newUndoStatus returns the undoStatus that a patch requests, or the current one.
func (c *call) newUndoStatus(m *submission, now int64, patch *jmap.Value) (string, error) {
	current, err := c.submissionObject(m, now, submissionKind.named(patch))
	if err != nil {
		return "", err
	}
	status := m.undo(now)
	err = submissionKind.apply(patch, current, func(v *jmap.Value) error {
		if wanted := v.Get("undoStatus"); v.Len() > 0 {
			var ok bool
			if status, ok = wanted.Text(); !ok {
				return badProperties("undoStatus is no string.", "undoStatus")
			}
		}
		return nil
	})
	return status, err
}

// submissionObject returns a submission as EmailSubmission/get shows it.
func (c *call) submissionObject(m *submission, now int64, wants func(string) bool) (*jmap.Value, error) {
	return c.rendered(func() error { return c.appendSubmission(m, now, wants) })
}

// cancel stores that a submission was canceled.
func (x *submitting) cancel(w *mailbox.Changing, list *submissions, p *patch) error {
	u, _ := parseID(letterSubmission, p.real)
	m, err := list.load(w.Reading, u)
	if err != nil {
		return err
	}
	if m == nil {
		return &jmap.Error{Type: "notFound"}
	}
	x.emails[p.real] = m.email
	if status, _ := p.object.Get("undoStatus").Text(); status != "canceled" || m.canceled {
		return nil
	}
	m.canceled = true
	x.touched = true
	return w.PutProfile(m.unid, m.items())
}

func (x *submitting) remove(w *mailbox.Changing, list *submissions, id string) error {
	u, _ := parseID(letterSubmission, id)
	m, err := list.load(w.Reading, u)
	if err != nil {
		return err
	}
	if m == nil {
		return &jmap.Error{Type: "notFound"}
	}
	x.emails[id] = m.email
	x.gone = append(x.gone, u)
	return w.RemoveProfile(u)
}

// follows returns the updates and destroys of Emails that the client requested for submissions that succeeded.
func (x *submitting) follows() (update *jmap.Value, destroy []string) {
	c := x.c
	done := map[string]bool{}
	for _, e := range x.set.created {
		done["#"+e.id] = true
	}
	for _, e := range x.set.updated {
		done[e.id] = true
	}
	for _, id := range x.set.destroyed {
		done[id] = true
	}
	email := func(id string) (string, bool) {
		u, ok := x.emails[id]
		if !ok {
			real, _ := c.real(id)
			u, ok = x.emails[real]
		}
		return idOf(letterEmail, u), ok && done[id]
	}
	patches := c.args.Get("onSuccessUpdateEmail")
	var names []string
	var values []jmap.Value
	for i := range patches.Len() {
		if id, ok := email(patches.Name(i)); ok && !slices.Contains(names, id) {
			names, values = append(names, id), append(values, *patches.At(i))
		}
	}
	if names != nil {
		update = jmap.MakeObject(names, values)
	}
	ids := c.args.Get("onSuccessDestroyEmail")
	for i := range ids.Len() {
		text, _ := ids.At(i).Text()
		if id, ok := email(text); ok && !slices.Contains(destroy, id) {
			destroy = append(destroy, id)
		}
	}
	return update, destroy
}

// emailSet returns the arguments of the implicit Email/set.
func (x *submitting) emailSet(update *jmap.Value, destroy []string) *jmap.Value {
	names, values := []string{"accountId"}, []jmap.Value{jmap.Text(x.c.account.ID)}
	if update != nil {
		names, values = append(names, "update"), append(values, *update)
	}
	if destroy != nil {
		list := make([]jmap.Value, len(destroy))
		for i, id := range destroy {
			list[i] = jmap.Text(id)
		}
		names, values = append(names, "destroy"), append(values, jmap.List(list...))
	}
	return jmap.MakeObject(names, values)
}

// submit sends the message of a new EmailSubmission.
func (x *submitting) submit(v *jmap.Value) (*submission, error) {
	c := x.c
	var bad []string
	for i := range v.Len() {
		if n := v.Name(i); n != "identityId" && n != "emailId" && n != "envelope" {
			bad = append(bad, n)
		}
	}
	identityID, ok := v.Get("identityId").Text()
	emailID, ok2 := v.Get("emailId").Text()
	if !ok {
		bad = append(bad, "identityId")
	}
	if !ok2 {
		bad = append(bad, "emailId")
	}
	if bad != nil {
		return nil, badProperties("", bad...)
	}
	m := &submission{}
	c.s.env.Fill(m.unid[:])
	var who *identity.Identity
	raw, err := x.message(m, identityID, emailID, &who)
	if err != nil {
		return nil, err
	}
	var sub Submission
	sub.Params.Size = -1
	if m.envelope, err = x.envelope(v.Get("envelope"), raw, who, &sub); err != nil {
		return nil, err
	}
	if err := x.mayFrom(raw); err != nil {
		return nil, err
	}
	return m, x.send(m, &sub, raw)
}

// message reads the message to send, and finds the identity.
func (x *submitting) message(m *submission, identityID, emailID string,
	who **identity.Identity) (raw []byte, err error) {
	c := x.c
	given, err := c.sender()
	if err != nil {
		return nil, err
	}
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := c.readIdentities(d, given)
		if err != nil {
			return err
		}
		real, _ := c.real(identityID)
		if *who = list.Find(real); *who == nil {
			return badProperties("There is no such identity.", "identityId")
		}
		m.identity = real
		real, _ = c.real(emailID)
		e, err := c.email(d, real)
		if err == mailbox.ErrNoMessage {
			return badProperties("There is no such Email.", "emailId")
		}
		if err != nil {
			return err
		}
		m.email, m.thread = e.UNID(), e.Thread()
		if size := uint64(c.s.backend.Mail().MessageSize()); e.Size() > size {
			return &jmap.Error{Type: "tooLarge", LimitName: "maxSize", Limit: size}
		}
		body, err := e.Body()
		if err == nil {
			raw, err = body.AppendRange(make([]byte, 0, body.Size()), 0, body.Size())
		}
		return err
	})
	return raw, err
}

// send submits a message to the queue, and records its recipients in m.
func (x *submitting) send(m *submission, sub *Submission, raw []byte) error {
	c := x.c
	now := c.s.env.Clock.Now()
	m.sendAt = now.Unix()
	if !sub.Release.IsZero() {
		m.sendAt = sub.Release.Unix()
	}
	sub.Message = raw
	var err error
	m.queue, err = c.s.backend.Submit(c.ctx, &c.caller.Account, sub)
	var refused []string
	var last error
	for i := range sub.To {
		to := sub.To[i].To.String()
		m.recipients = append(m.recipients, to)
		why := ""
		if sub.To[i].Refused != nil {
			why, last = sub.To[i].Refused.Error(), sub.To[i].Refused
			refused = append(refused, to)
		}
		m.refusals = append(m.refusals, why)
	}
	if err == nil && len(refused) < len(sub.To) {
		return nil
	}
	if err == nil {
		err = last
	}
	var reply *smtp.Reply
	switch {
	case len(refused) == len(sub.To) && len(refused) > 0:
		return &jmap.Error{Type: "invalidRecipients", Recipients: refused, Description: err.Error()}
	case errors.As(err, &reply) && reply.Code == 552:
		return &jmap.Error{Type: "tooLarge", LimitName: "maxSize", Limit: uint64(c.s.backend.Mail().MessageSize()),
			Description: reply.Error()}
	case mail.ForbiddenFrom(err):
		return &jmap.Error{Type: "forbiddenFrom", Description: err.Error()}
	case errors.As(err, &reply):
		return &jmap.Error{Type: "forbiddenToSend", Description: reply.Error()}
	}
	return err
}

// mayFrom returns an error if the caller may not send from the addresses in From. For a resent message it checks
// Resent-From instead (RFC 5322 section 3.6.6). Earlier Resent-From fields, further down, are checked at submission.
func (x *submitting) mayFrom(raw []byte) error {
	c := x.c
	from, ok := mime.Get(raw, "Resent-From")
	if !ok {
		from, ok = mime.Get(raw, "From")
	}
	list := mime.ParseAddressList([]byte(from))
	if !ok || len(list) == 0 {
		return &jmap.Error{Type: "invalidEmail", Description: "The message has no From.", Properties: []string{"from"}}
	}
	for i := range list {
		a := &list[i]
		if a.Group {
			continue
		}
		right, err := c.s.backend.SendRight(c.ctx, c.caller.Who, a.Mailbox+"@"+a.Host)
		if err != nil {
			return err
		}
		if right == directory.SendNever {
			return &jmap.Error{Type: "forbiddenFrom", Description: "From is not one of your addresses."}
		}
	}
	return nil
}

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
	var err error
	if email != "" {
		if sub.From, err = smtp.ParsePath(email); err != nil {
			return "", badProperties("mailFrom is no address.", "envelope")
		}
		right, err := x.c.s.backend.SendRight(x.c.ctx, x.c.caller.Who, sub.From.String())
		if err != nil {
			return "", err
		}
		if right != directory.SendFully {
			return "", &jmap.Error{Type: "forbiddenMailFrom", Description: "mailFrom is not one of your addresses."}
		}
	}
	if err := x.mailParameters(from.Get("parameters"), sub); err != nil {
		return "", err
	}
	if to.Len() == 0 {
		return "", &jmap.Error{Type: "noRecipients"}
	}
	if n := x.c.s.backend.MaxRecipients(); to.Len() > n {
		return "", &jmap.Error{Type: "tooManyRecipients", LimitName: "maxRecipients", Limit: uint64(n)}
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
			return "", err
		}
		sub.To = append(sub.To, one)
		sub.Params.UTF8 = sub.Params.UTF8 || !compose.ASCII(email)
	}
	if refused != nil {
		return "", &jmap.Error{Type: "invalidRecipients", Recipients: refused}
	}
	sub.Params.UTF8 = sub.Params.UTF8 || !compose.ASCII(email)
	return string(v.Append(nil)), nil
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
//
// Implements: RFC 4865 §4 HOLDFOR and HOLDUNTIL in an envelope
func (x *submitting) mailParameters(v *jmap.Value, sub *Submission) error {
	now := x.c.s.env.Clock.Now()
	if err := onlyOnce(v); err != nil {
		return err
	}
	for i := range v.Len() {
		name, p := strings.ToUpper(v.Name(i)), v.At(i)
		text, isText := p.Text()
		ok := isText || p.IsNull()
		switch name {
		case "HOLDFOR":
			n, err := strconv.ParseInt(text, 10, 64)
			ok = err == nil && n >= 0 && n <= int64(x.c.s.opt.Limits.Delay.Seconds())
			if ok && n > 0 {
				sub.Release = now.Add(time.Duration(n) * time.Second)
			}
		case "HOLDUNTIL":
			at, valid := jmap.ParseDate(text, false)
			ok = valid && at.Sub(now) <= x.c.s.opt.Limits.Delay
			if ok && at.After(now) {
				sub.Release = at
			}
		case "ENVID", "RET", "BODY", "AUTH":
			ok = isText && sub.Params.Set(name, text) == nil
		case "SIZE":
			n, err := strconv.ParseUint(text, 10, 63)
			ok = err == nil && n <= uint64(x.c.s.backend.Mail().MessageSize())
		case "MT-PRIORITY":
			n, err := strconv.Atoi(text)
			ok = err == nil && -9 <= n && n <= 9
			sub.Params.Priority, sub.Params.HasPriority = int8(max(-9, min(n, 9))), ok
		case "REQUIRETLS":
			ok, sub.Params.RequireTLS = p.IsNull(), true
		case "SMTPUTF8":
			sub.Params.UTF8 = true
		default:
			ok = false
		}
		if !ok {
			return badProperties(fmt.Sprintf("The parameter %.40q of mailFrom cannot be that.", name), "envelope")
		}
	}
	return nil
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
