package jmapd

import (
	"errors"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

var snoozedProperties = []string{"id", "until", "unlessAnswered"}

// snoozedKind lists the properties of a SnoozedEmail that a client may change.
var snoozedKind = kind{mutable: []string{"until", "unlessAnswered"}, fixed: oneOf("id")}

// maxSnooze bounds how far in the future a message may come back.
const maxSnooze = 10 * 366 * 24 * time.Hour

func appendSnoozed(dst []byte, s *mailbox.Snoozed, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", idOf(letterEmail, s.Email))
	if wants("until") {
		o.Name("until")
		o.B = jmap.AppendUTCDate(o.B, s.Until)
	}
	if wants("unlessAnswered") {
		o.Bool("unlessAnswered", s.Reminder)
	}
	return o.End()
}

func snoozedState(list []mailbox.Snoozed) string {
	var all []byte
	for i := range list {
		all = appendSnoozed(all, &list[i], func(string) bool { return true })
	}
	u := note.DeriveUNID(all)
	return u.String()[:16]
}

// snoozedGet answers SnoozedEmail/get: the messages that come back to the inbox at a time. Their ids are those of the
// Emails. With unlessAnswered the message stays where it is, and a copy of it comes, unless somebody answers before.
func snoozedGet(c *call) error {
	g, err := c.getArguments(own, snoozedProperties)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		list, err := d.Snoozed()
		if err != nil {
			return err
		}
		answerGet(&g, snoozedState(list), list, func(id string) *mailbox.Snoozed {
			for i := range list {
				if idOf(letterEmail, list[i].Email) == id {
					return &list[i]
				}
			}
			return nil
		}, func(dst []byte, s *mailbox.Snoozed) []byte { return appendSnoozed(dst, s, g.wants) })
		return nil
	})
}

// snoozedSet answers SnoozedEmail/set. An update snoozes an Email until a time, sets a reminder, or changes the time. A
// destroy brings the Email back at once, or removes the reminder.
func snoozedSet(c *call) error {
	s, err := c.setArguments(own)
	if err != nil {
		return err
	}
	for _, p := range s.create {
		s.notCreated = append(s.notCreated, failure{p.id,
			&jmap.Error{Type: "forbidden", Description: "An Email is snoozed by an update."}})
	}
	s.create = nil
	var before, after string
	read := func(w *mailbox.Changing) error {
		list, err := w.Snoozed()
		after = snoozedState(list)
		return err
	}
	by := &steps{
		update:  func(w *mailbox.Changing, i int) error { return c.snooze(w, &s.update[i]) },
		destroy: func(w *mailbox.Changing, id string) error { return c.unsnooze(w, id) },
	}
	// One step more than there are changes: the last one only reads the state.
	res, err := c.account.File.Change(c.ctx, s.size()+1, func(w *mailbox.Changing, i int) error {
		if w.Calls == 1 || i == s.size() {
			if err := read(w); err != nil {
				return store.Abort(err)
			}
		}
		if w.Calls == 1 {
			before = after
			if err := s.mismatch(before); err != nil {
				return store.Abort(err)
			}
		}
		if i == s.size() {
			return nil
		}
		return s.step(by, w, i)
	})
	if err != nil {
		return err
	}
	s.record(res.Errs[:s.size()], nil)
	s.append(before, after)
	return nil
}

func (c *call) snooze(w *mailbox.Changing, p *patch) error {
	u, ok := parseID(letterEmail, p.real)
	if !ok {
		return &jmap.Error{Type: "notFound"}
	}
	current := jmap.MakeObject([]string{"id"}, []jmap.Value{jmap.Text(p.real)})
	err := snoozedKind.apply(p.object, current, func(changed *jmap.Value) error {
		text, _ := changed.Get("until").Text()
		until, ok := jmap.ParseDate(text, true)
		if now := c.s.env.Clock.Now(); !ok || !until.After(now) || until.Sub(now) > maxSnooze {
			return badProperties("It is a time in the future.", "until")
		}
		switch reminder, is := changed.Get("unlessAnswered").Bool(); {
		case !is && !changed.Get("unlessAnswered").IsNull():
			return badProperties("It is true or false.", "unlessAnswered")
		case reminder:
			return w.Remind(u, until)
		}
		return w.Snooze(u, until)
	})
	if errors.Is(err, mailbox.ErrNoMessage) {
		return &jmap.Error{Type: "notFound"}
	}
	if errors.Is(err, mailbox.ErrLimit) {
		return &jmap.Error{Type: "overQuota", Description: err.Error()}
	}
	return err
}

func (c *call) unsnooze(w *mailbox.Changing, id string) error {
	u, ok := parseID(letterEmail, id)
	if !ok {
		return &jmap.Error{Type: "notFound"}
	}
	err := w.Unsnooze(u)
	if errors.Is(err, mailbox.ErrNoMessage) {
		return &jmap.Error{Type: "notFound"}
	}
	return err
}
