package jmapd

import (
	"context"
	"errors"
	"slices"

	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

// The first letters of the ids of collections and entries.
const (
	letterBook     = 'k'
	letterCard     = 'c'
	letterCalendar = 'l'
	letterEvent    = 'e'
	letterTaskList = 'j'
	letterTask     = 'd'
)

// collectionTypes maps the kinds of collection to the types of objects of this protocol.
var collectionTypes = []struct {
	kind             groupware.Kind
	collection, item string
}{
	{groupware.AddressBook, "AddressBook", "ContactCard"},
	{groupware.Calendar, "Calendar", "CalendarEvent"},
	{groupware.Calendar, "TaskList", "Task"}, // of the same states: a change of a task may be one of no event
}

// box returns the calendars and address books of the account. It creates the standard ones of the person's own account,
// as the doors of CalDAV and CardDAV do.
func (c *call) box() (*groupware.File, error) {
	f := c.s.backend.Groupware().File(c.caller.Who, c.account.Database)
	if !c.account.Personal {
		return f, nil
	}
	if err := f.Ensure(c.ctx, ""); err != nil && !errors.Is(err, store.ErrNotHome) {
		return nil, err
	}
	return f, nil
}

// collections are the calendars and address books of an account that the caller sees.
type collections []groupware.Collection

// collections returns the calendars and address books of a mail file that the caller sees. There are none in a mail
// file that cannot be read.
func (s *Server) collections(ctx context.Context, c *Caller, db note.DatabaseID) (all collections, err error) {
	f := s.backend.Groupware().File(c.Who, db)
	for _, kind := range []groupware.Kind{groupware.AddressBook, groupware.Calendar} {
		list, err := mailbox.Visible(f.Collections(ctx, kind))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// writable reports whether the caller may change anything in the collections.
func (x collections) writable() bool {
	const writing = note.Write | note.Insert | note.Expunge | note.Create | note.Remove
	return slices.ContainsFunc(x, func(c groupware.Collection) bool { return c.Rights&writing != 0 })
}

// of reports whether there is a collection of a kind.
func (x collections) of(kind groupware.Kind) bool {
	return slices.ContainsFunc(x, func(c groupware.Collection) bool { return c.Kind == kind })
}

// appendCapabilities appends the account capabilities of calendars and address books. create is set if the caller may
// create collections in the account, feeds if the server publishes calendars and shows feeds.
//
// Implements: RFC 9610 §1.4.1 urn:ietf:params:jmap:contacts
func (x collections) appendCapabilities(o *jmap.Writer, a *Account, create, feeds bool) {
	if a.Personal || x.of(groupware.AddressBook) {
		o.Object(jmap.Contacts, func(in *jmap.Writer) {
			in.Uint("maxAddressBooksPerCard", 1)
			in.Bool("mayCreateAddressBook", create)
		})
	}
	if a.Personal || x.of(groupware.Calendar) {
		appendCalendarsCapability(o, create)
		appendTasksCapability(o, create)
		if feeds {
			o.Raw(jmap.Feeds, "{}")
		}
	}
}

// groupwareStates adds the states of the types of calendars and address books that the caller sees in an account.
func (s *Server) groupwareStates(ctx context.Context, c *Caller, a *Account, out map[string]string) error {
	seen, err := s.collections(ctx, c, a.Database)
	if err != nil {
		return err
	}
	f := s.backend.Groupware().File(c.Who, a.Database)
	for _, t := range collectionTypes {
		if !a.Personal && !seen.of(t.kind) {
			continue
		}
		m, err := f.Moments(ctx, t.kind)
		if err != nil {
			return err
		}
		out[t.collection], out[t.item] = m.Collections.String(), m.Entries.String()
	}
	return nil
}

// momentOf selects the moment of a type.
type momentOf func(groupware.Moments) groupware.Moment

func ofCollections(m groupware.Moments) groupware.Moment { return m.Collections }
func ofEntries(m groupware.Moments) groupware.Moment     { return m.Entries }

// groupwareChanges answers a /changes of collections or entries, whose ids begin with letter.
func (c *call) groupwareChanges(kind groupware.Kind, letter byte,
	of func(f *groupware.File, ctx context.Context, kind groupware.Kind, since groupware.Moment,
		limit int) (groupware.Delta, error)) error {
	state, limit, err := c.changesArguments(false)
	if err != nil {
		return err
	}
	since, err := groupware.ParseMoment(state)
	if err != nil {
		return err
	}
	f, err := c.box()
	if err != nil {
		return err
	}
	x, err := of(f, c.ctx, kind, since, limit)
	if err != nil {
		return err
	}
	c.appendChanges(state, &delta{state: x.Moment.String(), more: x.More, letter: letter,
		unids: [changeKinds][]note.UNID{x.Created, x.Updated, x.Destroyed}})
	return nil
}

// groupwareDelta returns the changes of the results of a query since a state. The results may have moved only if an
// object changed that it finds or found, so all objects that changed are removed and added again.
func (c *call) groupwareDelta(kind groupware.Kind, letter byte, state string,
	find func() (queryResults, error)) (out queryDelta, err error) {
	since, err := groupware.ParseMoment(state)
	if err != nil {
		return out, err
	}
	f, err := c.box()
	if err != nil {
		return out, err
	}
	x, err := f.EntryChanges(c.ctx, kind, since, 0)
	if err != nil {
		return out, err
	}
	if out.queryResults, err = find(); err != nil {
		return out, err
	}
	for _, list := range [][]note.UNID{x.Created, x.Updated, x.Destroyed} {
		for _, u := range list {
			out.removed = append(out.removed, idOf(letter, u))
		}
	}
	out.added = out.removed
	out.state = x.Moment.String()
	slices.Sort(out.removed)
	return out, nil
}

// source returns the calendars and address books of the account to copy from, if the entries of a kind are in the state
// that the client expects.
func (x *copying) source(kind groupware.Kind) (*groupware.File, error) {
	f := x.c.s.backend.Groupware().File(x.c.caller.Who, x.from.Database)
	if x.fromState == "" {
		return f, nil
	}
	m, err := f.Moments(x.c.ctx, kind)
	if err != nil {
		return nil, err
	}
	return f, x.fromMismatch(m.Entries.String())
}

// groupwareSteps make the changes of a /set in an update of collections or entries: of the i-th creation, of the i-th
// patch, and of an id to destroy.
type groupwareSteps struct {
	create, update func(w *groupware.Changing, i int) error
	destroy        func(w *groupware.Changing, id string) error
}

// changeGroupware makes all changes of a /set in one update, if the type is in the state that the client expects. It
// returns the result for each change, for record, and the states before and after.
func (s *set) changeGroupware(f *groupware.File, kind groupware.Kind, of momentOf,
	by *groupwareSteps) (errs []error, before, after string, err error) {
	nc, nu := len(s.create), len(s.update)
	out, err := f.ChangeEach(s.c.ctx, kind, s.size(), func(m groupware.Moments) error {
		return s.mismatch(of(m).String())
	}, func(w *groupware.Changing, i int) error {
		switch {
		case i < nc:
			return by.create(w, i)
		case i < nc+nu:
			return by.update(w, i-nc)
		}
		return by.destroy(w, s.destroy[i-nc-nu])
	})
	if err != nil {
		return nil, "", "", err
	}
	return out.Errs, of(out.Before).String(), of(out.After).String(), nil
}

// groupwareErrors are the SetErrors of package groupware.
var groupwareErrors = []struct {
	is  error
	say *jmap.Error
}{
	{groupware.ErrNoEntry, &jmap.Error{Type: "notFound"}},
	{groupware.ErrNoCollection, &jmap.Error{Type: "notFound"}},
	{groupware.ErrTooLarge, &jmap.Error{Type: "tooLarge"}},
	{groupware.ErrFull, &jmap.Error{Type: "overQuota", Description: groupware.ErrFull.Error()}},
}
