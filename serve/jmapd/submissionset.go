package jmapd

import (
	"context"
	"slices"

	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

// submitting is an EmailSubmission/set in progress.
type submitting struct {
	*set
	sent   []*submission.Record // parallel to set.create, nil if it failed
	failed []error              // parallel to set.create: the error, or nil
	emails map[string]note.UNID
	// recalled holds the error of each update, or nil. If nil, a pending message to cancel was already taken back from
	// the queue.
	recalled []error

	// The submissions as the current change finds them, and what this update has done so far. The list is written
	// last, so that its MODSEQ is the greatest.
	list    *submissions
	before  string // the state of the list
	updated []submission.Entry
	gone    []note.UNID
}

// submissionSet answers EmailSubmission/set.
//
// Implements: RFC 8621 §7.5 EmailSubmission/set
func submissionSet(c *call) error {
	s, err := c.setArguments(own, "onSuccessUpdateEmail", "onSuccessDestroyEmail")
	if err != nil {
		return err
	}
	for _, a := range [...]struct {
		name string
		kind jmap.Kind
	}{{"onSuccessUpdateEmail", jmap.Object}, {"onSuccessDestroyEmail", jmap.Array}} {
		if k := c.args.Get(a.name).Kind(); k != jmap.Null && k != a.kind {
			return invalid("%s is not what it should be", a.name)
		}
	}
	x := &submitting{set: s, sent: make([]*submission.Record, len(s.create)), failed: make([]error, len(s.create)),
		emails: map[string]note.UNID{}}
	if err := x.check(); err != nil {
		return err
	}
	// A sent message cannot be taken back. So all are sent first, and then stored together. From here on the request is
	// executed to its end though its client goes away: otherwise a sent message would stay a draft, and be sent again.
	c.ctx = context.WithoutCancel(c.ctx)
	for i := range s.create {
		x.sent[i], x.failed[i] = x.submit(s.create[i].object)
	}
	for i := range s.update {
		x.recalled = append(x.recalled, x.recall(&s.update[i]))
	}
	if err := x.write(); err != nil {
		return err
	}
	after, err := x.state()
	if err != nil {
		return err
	}
	s.append(x.before, after)
	if update, destroy := x.follows(); update != nil || destroy != nil {
		c.implicit = func() { c.follow("Email/set", c.id, x.emailSet(update, destroy)) }
	}
	return nil
}

// check returns an error if the client expects another state, or if the list, in which new submissions are stored,
// cannot be read. Then nothing may be sent: a client to which the call has failed sends its message again.
func (x *submitting) check() error {
	switch c, s := x.c, x.set; {
	case s.checks:
		state, err := x.state()
		if err != nil {
			return err
		}
		return s.mismatch(state)
	case len(s.create) > 0:
		return c.account.File.Read(c.ctx,
			func(d *mailbox.Reading) error { return submission.Readable(d, c.account.File) })
	}
	return nil
}

// state returns the current state.
func (x *submitting) state() (state string, err error) {
	err = x.c.account.File.Read(x.c.ctx, func(d *mailbox.Reading) error {
		list, err := x.c.readSubmissions(d)
		if err == nil {
			state = list.state()
		}
		return err
	})
	return state, err
}

// write stores the new submissions, cancels and removes others, and records the result of each.
func (x *submitting) write() error {
	c, s := x.c, x.set
	by := &steps{x.add, x.cancel, x.remove}
	res, err := c.account.File.Change(c.ctx, s.size()+1, func(w *mailbox.Changing, i int) (err error) {
		if w.Calls == 1 {
			x.updated, x.gone = nil, nil
			if x.list, err = c.readSubmissions(w.Reading); err != nil {
				return store.Abort(err)
			}
			x.before = x.list.state()
		}
		if i < s.size() {
			return s.step(by, w, i)
		}
		if err := x.writeList(w); err != nil {
			return store.Abort(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	errs := res.Errs[:s.size()]
	for i, m := range x.sent {
		if x.failed[i] == nil && errs[i] != nil { // the message was sent anyway
			c.s.env.Log.Error("jmap: cannot store a submission", "person", c.caller.Name, "queue", m.Queue.String(),
				"error", errs[i])
			errs[i] = nil
		}
	}
	s.record(errs, func(i int) (string, []byte) {
		m := x.sent[i]
		id := idOf(letterSubmission, m.ID)
		x.emails["#"+s.create[i].id], x.emails[id] = m.Email, m.Email
		return id, x.createdObject(m, s.create[i].object)
	})
	return nil
}

// add stores a submission that was sent.
func (x *submitting) add(w *mailbox.Changing, i int) error {
	if x.failed[i] != nil {
		return x.failed[i]
	}
	m := x.sent[i]
	x.updated = append(x.updated, m.Entry())
	return m.Put(w)
}

// createdObject returns the response for a new submission.
func (x *submitting) createdObject(m *submission.Record, sent *jmap.Value) []byte {
	object, err := x.c.submissionObject(m, x.c.s.env.Clock.Now().Unix(), func(string) bool { return true })
	if err != nil {
		object = jmap.MakeObject([]string{"id"}, []jmap.Value{jmap.Text(idOf(letterSubmission, m.ID))})
	}
	return told(sent, object)
}

// writeList stores the list with the changes of this update.
func (x *submitting) writeList(w *mailbox.Changing) error {
	if len(x.updated)+len(x.gone) == 0 {
		return nil
	}
	return x.list.Put(w, x.updated, x.gone)
}

// recall checks an update of a submission. If the client cancels a pending one, recall takes the message back from the
// queue.
//
// Implements: RFC 8621 §7 undoStatus
func (x *submitting) recall(p *patch) error {
	c := x.c
	var m *submission.Record
	var now int64
	err := c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := c.readSubmissions(d)
		if err == nil {
			now = list.Now
			m, err = list.find(d, p.real)
		}
		return err
	})
	if err != nil {
		return err
	}
	status, err := c.newUndoStatus(m, now, p.object)
	if err != nil {
		return err
	}
	gone := &jmap.Error{Type: "cannotUnsend", Description: "It has gone already."}
	switch {
	case status == m.UndoStatus(now):
		return nil
	case status != "canceled":
		return badProperties("A submission can be canceled, and nothing else.", "undoStatus")
	case m.UndoStatus(now) != "pending":
		return gone
	}
	back, err := c.s.backend.Recall(c.ctx, m.Queue)
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
func (c *call) newUndoStatus(m *submission.Record, now int64, patch *jmap.Value) (string, error) {
	current, err := c.submissionObject(m, now, submissionKind.named(patch))
	if err != nil {
		return "", err
	}
	status := m.UndoStatus(now)
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
func (c *call) submissionObject(m *submission.Record, now int64, wants func(string) bool) (*jmap.Value, error) {
	return c.rendered(func() error { return c.appendSubmission(m, now, wants) })
}

// cancel stores that a submission was canceled.
func (x *submitting) cancel(w *mailbox.Changing, i int) error {
	if x.recalled[i] != nil {
		return x.recalled[i]
	}
	p := &x.set.update[i]
	m, err := x.list.find(w.Reading, p.real)
	if err != nil {
		return err
	}
	x.emails[p.real] = m.Email
	if status, _ := p.object.Get("undoStatus").Text(); status != "canceled" || m.Canceled {
		return nil
	}
	m.Canceled = true
	x.updated = append(x.updated, m.Entry())
	return m.Put(w)
}

func (x *submitting) remove(w *mailbox.Changing, id string) error {
	m, err := x.list.find(w.Reading, id)
	if err != nil {
		return err
	}
	x.emails[id] = m.Email
	x.gone = append(x.gone, m.ID)
	return w.RemoveProfile(m.ID)
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
		names, values = append(names, "destroy"), append(values, textList(destroy))
	}
	return jmap.MakeObject(names, values)
}
