package jmapd

import (
	"slices"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// emailCopy answers Email/copy.
//
// Implements: RFC 8621 §4.7 Email/copy
func emailCopy(c *call) error {
	begun, err := c.beginCopy("an Email")
	if err != nil {
		return err
	}
	x := &emailCopying{copying: begun}
	return x.run()
}

type emailCopying struct {
	copying
	drafts []draft
	ids    []note.UNID
	stored []stored
}

func (x *emailCopying) run() error {
	c, s := x.c, x.set
	x.stored = make([]stored, len(s.create))
	for i := range s.create {
		d := draft{creation: s.create[i].id}
		bad := c.places(s.create[i].object, &d)
		id, _ := s.create[i].object.Get("id").Text()
		real, _ := c.real(id)
		u, _ := parseID(letterEmail, real)
		for k := range s.create[i].object.Len() {
			if n := s.create[i].object.Name(k); !slices.Contains([]string{"id", "mailboxIds", "keywords", "receivedAt"},
				n) {
				bad = append(bad, n)
			}
		}
		if bad != nil {
			d.err = badProperties("", bad...)
		}
		x.drafts, x.ids = append(x.drafts, d), append(x.ids, u)
	}
	res, err := c.account.File.ChangeFrom(c.ctx, x.from.File, len(x.drafts),
		func(w, from *mailbox.Changing, i int) error {
			if err := s.mismatch(w.Before.Email.String()); err != nil {
				return store.Abort(err)
			}
			return x.copy(w, from, i)
		})
	if err == nil && len(res.Errs) == 0 {
		err = s.mismatch(res.Before.Email.String())
	}
	if err != nil {
		return err
	}
	var copied []string
	s.record(res.Errs, func(i int) (string, []byte) {
		copied = append(copied, idOf(letterEmail, x.ids[i]))
		return x.stored[i].told()
	})
	x.end(res.Before.Email.String(), res.After.Email.String(), "Email/set", copied)
	return nil
}

func (x *emailCopying) copy(w, from *mailbox.Changing, i int) error {
	if x.fromState != "" {
		states, err := from.States()
		if err != nil {
			return err
		}
		if err := x.fromMismatch(states.Email.String()); err != nil {
			return store.Abort(err)
		}
	}
	d := &x.drafts[i]
	if d.err != nil {
		return d.err
	}
	m, err := from.EmailOf(x.ids[i])
	if err != nil {
		return err
	}
	keep := x.set.create[i].object
	if keep.Get("keywords") == nil {
		d.Flags = mailbox.Flags{Seen: m.Seen(), Keywords: slices.Collect(m.Keywords)}
	}
	if keep.Get("receivedAt") == nil {
		d.Received = time.Unix(m.Received(), 0)
	}
	size, thread := m.Size(), m.Thread()
	u, err := w.Copy(from, m.ID, d.Folders, d.Flags, d.Received)
	x.stored[i] = stored{unid: u, thread: thread, size: size}
	return err
}
