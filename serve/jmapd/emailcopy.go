package jmapd

import (
	"slices"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

// emailCopy answers Email/copy.
//
// Implements: RFC 8621 §4.7 Email/copy
func emailCopy(c *call) error {
	from, err := c.twoAccounts("ifFromInState", "ifInState", "create", "onSuccessDestroyOriginal",
		"destroyFromIfInState")
	if err != nil {
		return err
	}
	if err := c.needWritable(); err != nil {
		return err
	}
	if from.ID == c.account.ID {
		return invalid("an Email is copied into another account")
	}
	fromState, err := c.text("ifFromInState")
	if err != nil {
		return err
	}
	destroy, err := c.bool("onSuccessDestroyOriginal", false)
	if err != nil {
		return err
	}
	s := &set{c: c}
	if err := s.condition(); err != nil {
		return err
	}
	if err := s.creations("create"); err != nil {
		return err
	}
	x := &emailCopying{set: s, from: from, fromState: fromState}
	if err := x.run(); err != nil {
		return err
	}
	if destroy && len(x.copied) > 0 {
		c.implicit = func() { c.destroyCopied(from, "Email/set", x.copied) }
	}
	return nil
}

type emailCopying struct {
	*set
	from      *Account
	fromState string
	drafts    []draft
	ids       []note.UNID
	stored    []stored
	copied    []string // ids of the originals
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
	s.record(res.Errs, func(i int) (string, []byte) {
		x.copied = append(x.copied, idOf(letterEmail, x.ids[i]))
		return x.stored[i].told()
	})
	o := jmap.NewWriter(c.out)
	o.Text("fromAccountId", x.from.ID)
	s.appendCreated(&o, &res)
	return nil
}

func (x *emailCopying) copy(w, from *mailbox.Changing, i int) error {
	if x.fromState != "" {
		states, err := from.States()
		if err != nil {
			return err
		}
		if states.Email.String() != x.fromState {
			return store.Abort(&jmap.Error{Type: "stateMismatch"})
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

// destroyCopied adds a /set after a /copy, which destroys the originals.
func (c *call) destroyCopied(from *Account, method string, ids []string) {
	ifInState := c.args.Get("destroyFromIfInState")
	names := []string{"accountId", "destroy"}
	values := []jmap.Value{jmap.Text(from.ID), textList(ids)}
	if !ifInState.IsNull() {
		names, values = append(names, "ifInState"), append(values, *ifInState)
	}
	c.batch.follow(method, c.id, jmap.MakeObject(names, values))
}

// textList returns an array of strings.
func textList(list []string) jmap.Value {
	out := make([]jmap.Value, len(list))
	for i, s := range list {
		out[i] = jmap.Text(s)
	}
	return jmap.List(out...)
}
