package jmapd

import (
	"strconv"
	"time"

	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

const letterSubmission = 's'

// submissions is the list of submissions of a mail file.
type submissions struct{ *submission.List }

func (c *call) readSubmissions(d *mailbox.Reading) (*submissions, error) {
	list, err := submission.Read(d, c.account.File, c.s.env.Clock.Now())
	return &submissions{list}, err
}

// state returns the state: the MODSEQ of the list, and the latest send time that has passed. At its send time a
// submission becomes final without a change of the list.
func (x *submissions) state() string {
	passed := int64(0)
	for _, m := range x.Entries {
		if m.SendAt <= x.Now {
			passed = max(passed, m.SendAt)
		}
	}
	return submissionState(2*uint64(x.Mod), passed)
}

// submissionState prints a state. A moment is twice a MODSEQ, so that a removal after a MODSEQ has an odd moment of its
// own before the next MODSEQ.
func submissionState(moment uint64, passed int64) string {
	return strconv.FormatUint(moment, 16) + "-" + strconv.FormatInt(passed, 16)
}

// find reads the submission with an id. It returns the SetError notFound if there is none.
func (x *submissions) find(d *mailbox.Reading, id string) (*submission.Record, error) {
	u, _ := parseID(letterSubmission, id)
	m, err := x.Load(d, u)
	if err == nil && m == nil {
		err = &jmap.Error{Type: "notFound"}
	}
	return m, err
}

var submissionProperties = []string{"id", "identityId", "emailId", "threadId", "envelope", "sendAt", "undoStatus",
	"deliveryStatus", "dsnBlobIds", "mdnBlobIds"}

// submissionGet answers EmailSubmission/get.
//
// Implements: RFC 8621 §7.1 EmailSubmission/get
func submissionGet(c *call) error {
	g, err := c.getArguments(own, submissionProperties)
	if err != nil {
		return err
	}
	var x *submissions
	var found []*submission.Record
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) (err error) {
		if x, err = c.readSubmissions(d); err != nil {
			return err
		}
		ids := make([]note.UNID, 0, len(g.ids))
		for _, id := range g.ids {
			u, _ := parseID(letterSubmission, id)
			ids = append(ids, u)
		}
		if g.all {
			for _, l := range x.Entries {
				ids = append(ids, l.ID)
			}
		}
		if err := c.atMost(len(ids), "submissions", "maxObjectsInGet"); err != nil {
			return err
		}
		for i, u := range ids {
			m, err := x.Load(d, u)
			if err != nil {
				return err
			}
			if m == nil && !g.all {
				g.miss(g.ids[i])
			} else if m != nil {
				found = append(found, m)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.begin(x.state())
	for _, m := range found {
		g.next()
		if err := c.appendSubmission(m, x.Now, g.wants); err != nil {
			return err
		}
	}
	g.end()
	return nil
}

func (c *call) appendSubmission(m *submission.Record, now int64, wants func(string) bool) error {
	o := jmap.NewWriter(c.out)
	o.Text("id", idOf(letterSubmission, m.ID))
	if wants("identityId") {
		o.Text("identityId", m.Identity)
	}
	if wants("emailId") {
		o.Text("emailId", idOf(letterEmail, m.Email))
	}
	if wants("threadId") {
		o.Text("threadId", idOf(letterThread, m.Thread))
	}
	if wants("envelope") {
		o.Raw("envelope", m.Envelope)
	}
	if wants("sendAt") {
		o.Name("sendAt")
		o.B = jmap.AppendUTCDate(o.B, time.Unix(m.SendAt, 0))
	}
	if wants("undoStatus") {
		o.Text("undoStatus", m.UndoStatus(now))
	}
	if wants("deliveryStatus") {
		o.Name("deliveryStatus")
		var err error
		if o.B, err = c.appendDelivery(o.B, m, now); err != nil {
			return err
		}
	}
	for _, p := range []string{"dsnBlobIds", "mdnBlobIds"} {
		if wants(p) {
			o.Raw(p, "[]")
		}
	}
	c.out = o.End()
	return nil
}

// appendDelivery appends the deliveryStatus of each recipient. For a new record it looks nothing up: the queue has just
// accepted the message.
//
// Implements: RFC 8621 §7 deliveryStatus
func (c *call) appendDelivery(dst []byte, m *submission.Record, now int64) ([]byte, error) {
	if m.UndoStatus(now) != "final" {
		return append(dst, "null"...), nil
	}
	var progress []Progress
	unlisted := DeliveryQueued
	if m.Changed != 0 {
		unlisted = DeliveryUnknown
		var err error
		if progress, err = c.s.backend.Progress(c.ctx, m.Queue, m.Recipients); err != nil {
			return dst, err
		}
	}
	o := jmap.NewWriter(dst)
	for i, to := range m.Recipients {
		p := Progress{Delivered: unlisted}
		switch {
		case m.Refusals[i] != "":
			p = Progress{m.Refusals[i], DeliveryNo}
		case i < len(progress):
			p = progress[i]
		}
		if p.Reply == "" {
			p.Reply = "250 2.0.0 Queued"
		}
		name := jmap.AppendString(nil, to)
		o.Name(string(name[1 : len(name)-1]))
		in := jmap.NewWriter(o.B)
		in.Text("smtpReply", p.Reply)
		in.Text("delivered", string(p.Delivered))
		in.Text("displayed", "unknown")
		o.B = in.End()
	}
	return o.End(), nil
}
