package lite

import (
	"encoding/json"
	"slices"
	"time"

	"doublet/mail"
	"doublet/mail/identity"
	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
)

// laterTime returns the time at which the message in the form is to be sent, or zero for now. It returns a problem if
// the time is not between now and submission.MaxDelay.
func (v *visit) laterTime() (time.Time, error) {
	text := v.form.line("later")
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.ParseInLocation(localLayout, text, v.Location)
	now := v.s.env.Clock.Now()
	if err != nil || !t.After(now) || t.Sub(now) > submission.MaxDelay {
		return t, &problem{"later.badTime", []any{v.Long(now.Add(submission.MaxDelay))}}
	}
	return t, nil
}

// scheduled is a message that was given to be sent later.
type scheduled struct {
	as    *identity.Identity
	at    time.Time
	queue note.UNID
	to    []mail.Addressee
}

// envelope returns the envelope as EmailSubmission has it (RFC 8621 section 7).
func (x *scheduled) envelope() (string, error) {
	type address struct {
		Email      string            `json:"email"`
		Parameters map[string]string `json:"parameters"`
	}
	var e struct {
		MailFrom address   `json:"mailFrom"`
		RcptTo   []address `json:"rcptTo"`
	}
	e.MailFrom = address{x.as.Email, map[string]string{"HOLDUNTIL": x.at.UTC().Format(time.RFC3339)}}
	for i := range x.to {
		e.RcptTo = append(e.RcptTo, address{Email: x.to[i].To.String()})
	}
	raw, err := json.Marshal(&e)
	return string(raw), err
}

// record stores a scheduled message as the full client does, so that each client shows it and can take it back. In the
// same change the message stops being a draft: nobody can send it again, even if it then cannot be moved to Sent.
func (v *visit) record(own *box, email note.UNID, x *scheduled) error {
	m := &submission.Record{Identity: x.as.ID, Email: email, SendAt: x.at.Unix(), Queue: x.queue}
	v.s.env.Fill(m.ID[:])
	var err error
	if m.Envelope, err = x.envelope(); err != nil {
		return err
	}
	for i := range x.to {
		why := ""
		if x.to[i].Refused != nil {
			why = x.to[i].Refused.Error()
		}
		m.Recipients, m.Refusals = append(m.Recipients, x.to[i].To.String()), append(m.Refusals, why)
	}
	return v.changeSubmissions(own, func(c *mailbox.Changing, list *submission.List) error {
		e, err := c.EmailOf(email)
		if err != nil {
			return err
		}
		m.Thread = e.Thread()
		if err := c.SetKeyword(e.ID, mailbox.Draft, false); err != nil {
			return err
		}
		if err := m.Put(c); err != nil {
			return err
		}
		return list.Put(c, []submission.Entry{m.Entry()}, nil)
	})
}

// changeSubmissions changes the records of the user's mail file.
func (v *visit) changeSubmissions(own *box, fn func(*mailbox.Changing, *submission.List) error) error {
	r, err := own.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
		list, err := submission.Read(c.Reading, own.File, v.s.env.Clock.Now())
		if err != nil {
			return err
		}
		return fn(c, list)
	})
	if err == nil {
		err = r.Errs[0]
	}
	return err
}

// pending returns the records of the messages that wait for their time.
func (v *visit) pending(d *mailbox.Reading) ([]*submission.Record, error) {
	list, err := submission.Read(d, v.box.File, v.s.env.Clock.Now())
	if err != nil {
		return nil, err
	}
	return list.Pending(d)
}

// sendTimes returns when the messages that wait for their time are sent, by message.
func (v *visit) sendTimes(d *mailbox.Reading) (map[note.UNID]time.Time, error) {
	list, err := v.pending(d)
	out := make(map[note.UNID]time.Time, len(list))
	for _, m := range list {
		out[m.Email] = time.Unix(m.SendAt, 0)
	}
	return out, err
}

// unsend makes a message that waits for its time a draft again.
func (a *action) unsend(ids []note.UNID) error {
	v := a.v
	var m *submission.Record
	err := v.box.Read(v.ctx, func(d *mailbox.Reading) error {
		list, err := v.pending(d)
		if i := slices.IndexFunc(list, func(m *submission.Record) bool { return m.Email == ids[0] }); i >= 0 {
			m = list[i]
		}
		return err
	})
	if err != nil {
		return err
	}
	back := false
	if m != nil {
		if back, err = v.s.mail.Scheduled.Recall(v.ctx, m.Queue); err != nil {
			return err
		}
	}
	if !back {
		return v.back("later.tooLate", 0, "")
	}
	err = v.changeSubmissions(v.box, func(c *mailbox.Changing, list *submission.List) error {
		now, err := list.Load(c.Reading, m.ID)
		if err == nil && now != nil {
			now.Canceled = true
			if err = now.Put(c); err == nil {
				err = list.Put(c, []submission.Entry{now.Entry()}, nil)
			}
		}
		if err != nil {
			return err
		}
		return a.redraft(c, m.Email)
	})
	if err != nil {
		return err
	}
	return v.leave(pathCompose, "draft", m.Email.String(), "said", "later.takenBack")
}

// redraft makes a message a draft again.
func (a *action) redraft(c *mailbox.Changing, u note.UNID) error {
	e, err := c.EmailOf(u)
	if err != nil {
		return err
	}
	id, in := e.ID, slices.Collect(e.Folders)
	drafts, err := c.ForUse(mailbox.UseDrafts)
	if err != nil {
		return err
	}
	if err := c.SetKeyword(id, mailbox.Draft, true); err != nil {
		return err
	}
	in = slices.DeleteFunc(in, func(f note.UNID) bool { return f == drafts })
	return c.SetFolders(id, []note.UNID{drafts}, in)
}
