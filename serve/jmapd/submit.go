package jmapd

import (
	"errors"

	"doublet/directory"
	"doublet/mail"
	"doublet/mail/identity"
	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/wire/jmap"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// submit sends the message of a new EmailSubmission.
func (x *submitting) submit(v *jmap.Value) (*submission.Record, error) {
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
	m := &submission.Record{}
	c.s.env.Fill(m.ID[:])
	var who *identity.Identity
	raw, err := x.message(m, identityID, emailID, &who)
	if err != nil {
		return nil, err
	}
	var sub Submission
	sub.Params.Size = -1
	if m.Envelope, err = x.envelope(v.Get("envelope"), raw, who, &sub); err != nil {
		return nil, err
	}
	if err := x.mayFrom(raw); err != nil {
		return nil, err
	}
	return m, x.send(m, &sub, raw)
}

// message reads the message to send, and finds the identity.
func (x *submitting) message(m *submission.Record, identityID, emailID string,
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
		m.Identity = real
		real, _ = c.real(emailID)
		e, err := c.email(d, real)
		if err == mailbox.ErrNoMessage {
			return badProperties("There is no such Email.", "emailId")
		}
		if err != nil {
			return err
		}
		m.Email, m.Thread = e.UNID(), e.Thread()
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
func (x *submitting) send(m *submission.Record, sub *Submission, raw []byte) error {
	c := x.c
	now := c.s.env.Clock.Now()
	m.SendAt = now.Unix()
	if !sub.Release.IsZero() {
		m.SendAt = sub.Release.Unix()
	}
	sub.Message = raw
	var err error
	m.Queue, err = c.s.backend.Submit(c.ctx, &c.caller.Account, sub)
	var refused []string
	var last error
	for i := range sub.To {
		to := sub.To[i].To.String()
		m.Recipients = append(m.Recipients, to)
		why := ""
		if sub.To[i].Refused != nil {
			why, last = sub.To[i].Refused.Error(), sub.To[i].Refused
			refused = append(refused, to)
		}
		m.Refusals = append(m.Refusals, why)
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
