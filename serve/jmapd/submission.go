package jmapd

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// Each submission is a profile note of the mail file. One more profile note lists them with the send time of each.
// Every change of a submission also changes the list, so the MODSEQ of the list is the state.
const (
	submissionsProfile = "Submissions"
	submissionForm     = "EmailSubmission"
	itemList           = "List" // "unid sendAt", oldest first
	itemGoneList       = "Gone" // "unid modseq", of those removed last
	itemIdentity       = "Identity"
	itemEmail          = "Email"
	itemThread         = "Thread"
	itemEnvelope       = "Envelope" // JSON
	itemSendAt         = "SendAt"
	itemQueueID        = "QueueID"
	itemCanceled       = "Canceled"
	itemRecipients     = "Recipients"
	itemRefusals       = "Refusals" // parallel to Recipients: the SMTP reply, "" for an accepted recipient
	letterSubmission   = 's'
)

// Bounds of submissions: how many are kept, for how long, and how many removed ones are remembered.
const (
	maxSubmissions    = 1000
	keepSubmissions   = 30 * 24 * time.Hour
	maxSubmissionGone = 200
)

// submission is an EmailSubmission.
type submission struct {
	unid            note.UNID
	identity        string
	email, thread   note.UNID
	envelope        string
	sendAt          int64
	queue           note.UNID
	canceled        bool
	recipients      []string
	refusals        []string
	created, change note.ModSeq
}

func (m *submission) items() note.Items {
	return note.MakeItems(
		note.Item{Name: "Form", Value: note.Text(submissionForm)},
		note.Item{Name: itemIdentity, Value: note.Text(m.identity)},
		note.Item{Name: itemEmail, Value: note.Text(m.email.String())},
		note.Item{Name: itemThread, Value: note.Text(m.thread.String())},
		note.Item{Name: itemEnvelope, Value: note.Text(m.envelope)},
		note.Item{Name: itemSendAt, Value: note.Int(m.sendAt)},
		note.Item{Name: itemQueueID, Value: note.Text(m.queue.String())},
		note.Item{Name: itemCanceled, Value: note.Bool(m.canceled)},
		note.Item{Name: itemRecipients, Value: note.TextList(m.recipients...)},
		note.Item{Name: itemRefusals, Value: note.TextList(m.refusals...)},
	)
}

func (m *submission) read(items note.Items) {
	m.identity, m.envelope = items.Get(itemIdentity).AsText(), items.Get(itemEnvelope).AsText()
	m.email, _ = note.ParseUNID(items.Get(itemEmail).AsText())
	m.thread, _ = note.ParseUNID(items.Get(itemThread).AsText())
	m.queue, _ = note.ParseUNID(items.Get(itemQueueID).AsText())
	m.sendAt, m.canceled = items.Get(itemSendAt).AsInt(), items.Get(itemCanceled).AsBool()
	m.recipients, m.refusals = items.Get(itemRecipients).AsTextList(), items.Get(itemRefusals).AsTextList()
	for len(m.refusals) < len(m.recipients) {
		m.refusals = append(m.refusals, "")
	}
}

// undo returns the undoStatus.
func (m *submission) undo(now int64) string {
	switch {
	case m.canceled:
		return "canceled"
	case m.sendAt > now:
		return "pending"
	}
	return "final"
}

// listed is an entry of the list.
type listed struct {
	unid   note.UNID
	sendAt int64
}

// submissions is the list of submissions at time now.
type submissions struct {
	items note.Items
	list  []listed
	mod   note.ModSeq
	now   int64
}

func (c *call) readSubmissions(d *mailbox.Reading) (*submissions, error) {
	x := &submissions{now: c.s.env.Clock.Now().Unix()}
	var err error
	x.items, x.mod, err = d.Profile(c.account.File.ProfileID(submissionsProfile))
	for _, line := range x.items.Get(itemList).AsTextList() {
		id, at, _ := strings.Cut(line, " ")
		u, err := note.ParseUNID(id)
		n, err2 := strconv.ParseInt(at, 10, 64)
		if err == nil && err2 == nil {
			x.list = append(x.list, listed{u, n})
		}
	}
	return x, err
}

// state returns the state: the MODSEQ of the list, and the latest send time that has passed. At its send time a
// submission becomes final without a change of the list.
func (x *submissions) state() string {
	passed := int64(0)
	for _, m := range x.list {
		if m.sendAt <= x.now {
			passed = max(passed, m.sendAt)
		}
	}
	return submissionState(2*uint64(x.mod), passed)
}

// submissionState prints a state. A moment is twice a MODSEQ, so that a removal after a MODSEQ has an odd moment of its
// own before the next MODSEQ.
func submissionState(moment uint64, passed int64) string {
	return strconv.FormatUint(moment, 16) + "-" + strconv.FormatInt(passed, 16)
}

// trim splits a list into the submissions to keep and those that are too old or too many.
func (x *submissions) trim(list []listed) (keep []listed, old []note.UNID) {
	for i, l := range list {
		if len(list)-i > maxSubmissions || l.sendAt < x.now-int64(keepSubmissions.Seconds()) {
			old = append(old, l.unid)
		} else {
			keep = append(keep, l)
		}
	}
	return keep, old
}

// itemsOf returns the items of the list note for these submissions. gone were removed in this change.
func (x *submissions) itemsOf(list []listed, gone []note.UNID) note.Items {
	var lines []string
	for _, l := range list {
		lines = append(lines, l.unid.String()+" "+strconv.FormatInt(l.sendAt, 10))
	}
	items := x.items.With("Form", note.Text(submissionsProfile)).With(itemList, note.TextList(lines...))
	if len(gone) > 0 {
		// The MODSEQ of this change is not known yet, so record the one before it.
		was := x.items.Get(itemGoneList).AsTextList()
		for _, u := range gone {
			was = append(was, u.String()+" "+strconv.FormatUint(uint64(x.mod), 10))
		}
		items = items.With(itemGoneList, note.TextList(was[max(0, len(was)-maxSubmissionGone):]...))
	}
	// Change the note even if the list is the same, so that it gets a new MODSEQ.
	return items.With("Sequence", note.Int(x.items.Get("Sequence").AsInt()+1))
}

// load reads one submission. It returns nil if the submission is not in the list.
func (x *submissions) load(d *mailbox.Reading, u note.UNID) (*submission, error) {
	if !slices.ContainsFunc(x.list, func(l listed) bool { return l.unid == u }) {
		return nil, nil
	}
	items, created, mod, err := d.ProfileSince(u)
	if err != nil || items == nil {
		return nil, err
	}
	m := &submission{unid: u, created: created, change: mod}
	m.read(items)
	return m, nil
}

// find reads the submission with an id. It returns the SetError notFound if there is none.
func (x *submissions) find(d *mailbox.Reading, id string) (*submission, error) {
	u, _ := parseID(letterSubmission, id)
	m, err := x.load(d, u)
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
	var found []*submission
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
			for _, l := range x.list {
				ids = append(ids, l.unid)
			}
		}
		if err := c.atMost(len(ids), "submissions", "maxObjectsInGet"); err != nil {
			return err
		}
		for i, u := range ids {
			m, err := x.load(d, u)
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
		if err := c.appendSubmission(m, x.now, g.wants); err != nil {
			return err
		}
	}
	g.end()
	return nil
}

func (c *call) appendSubmission(m *submission, now int64, wants func(string) bool) error {
	o := jmap.NewWriter(c.out)
	o.Text("id", idOf(letterSubmission, m.unid))
	if wants("identityId") {
		o.Text("identityId", m.identity)
	}
	if wants("emailId") {
		o.Text("emailId", idOf(letterEmail, m.email))
	}
	if wants("threadId") {
		o.Text("threadId", idOf(letterThread, m.thread))
	}
	if wants("envelope") {
		o.Raw("envelope", m.envelope)
	}
	if wants("sendAt") {
		o.Name("sendAt")
		o.B = jmap.AppendUTCDate(o.B, time.Unix(m.sendAt, 0))
	}
	if wants("undoStatus") {
		o.Text("undoStatus", m.undo(now))
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

// appendDelivery appends the deliveryStatus of each recipient.
//
// Implements: RFC 8621 §7 deliveryStatus
func (c *call) appendDelivery(dst []byte, m *submission, now int64) ([]byte, error) {
	if m.undo(now) != "final" {
		return append(dst, "null"...), nil
	}
	progress, err := c.s.backend.Progress(c.ctx, m.queue, m.recipients)
	if err != nil {
		return dst, err
	}
	o := jmap.NewWriter(dst)
	for i, to := range m.recipients {
		p := Progress{Delivered: DeliveryUnknown}
		switch {
		case m.refusals[i] != "":
			p = Progress{m.refusals[i], DeliveryNo}
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
