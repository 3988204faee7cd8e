package jmapd

import (
	"errors"
	"fmt"
	"slices"

	"doublet/mailbox"
	"doublet/serve/condition"
	"doublet/store"
	"doublet/wire/jmap"
)

// set is a /set in progress: the requested changes and their results.
type set struct {
	c         *call
	ifInState string
	checks    bool
	create    []creation
	update    []patch
	destroy   []string

	created, updated            []entry
	destroyed                   []string
	notCreated, notUpdated, not []failure
}

type creation struct {
	id     string
	object *jmap.Value
}

type patch struct {
	id     string // as sent, may be a creation id
	real   string
	object *jmap.Value
}

// entry is a member of a map in the response. A nil json stands for null.
type entry struct {
	id   string
	json []byte
}

type failure struct {
	id  string
	err error
}

// setArguments reads the arguments of a /set.
//
// Implements: RFC 8620 §5.3 /set
func (c *call) setArguments(personal bool, more ...string) (*set, error) {
	if err := c.arguments(personal, append(more, "ifInState", "create", "update", "destroy")...); err != nil {
		return nil, err
	}
	if err := c.needWritable(); err != nil {
		return nil, err
	}
	s := &set{c: c}
	if err := s.condition(); err != nil {
		return nil, err
	}
	if err := s.changes(); err != nil {
		return nil, err
	}
	// An object to destroy is not updated first (RFC 8620 section 5.3, willDestroy).
	s.update = slices.DeleteFunc(s.update, func(p patch) bool {
		if slices.Contains(s.destroy, p.real) {
			s.notUpdated = append(s.notUpdated, failure{p.id, &jmap.Error{Type: "willDestroy"}})
			return true
		}
		return false
	})
	return s, nil
}

// condition reads the argument ifInState.
func (s *set) condition() (err error) {
	if s.checks = !s.c.args.Get("ifInState").IsNull(); s.checks {
		s.ifInState, err = s.c.text("ifInState")
	}
	return err
}

// changes reads the arguments create, update and destroy.
func (s *set) changes() error {
	if err := s.creations("create"); err != nil {
		return err
	}
	if err := s.patches(s.c.args.Get("update")); err != nil {
		return err
	}
	ids, _, err := s.c.list("destroy")
	if err != nil {
		return err
	}
	s.destroy = s.c.once(ids)
	return s.c.atMost(s.size(), "objects", "maxObjectsInSet")
}

// size returns the number of changes.
func (s *set) size() int { return len(s.create) + len(s.update) + len(s.destroy) }

// creations reads an argument that maps creation ids to objects, at most maxObjectsInSet.
func (s *set) creations(name string) error {
	v := s.c.args.Get(name)
	if v.IsNull() {
		return nil
	}
	if v.Kind() != jmap.Object {
		return invalid("%s is no object", name)
	}
	for i := range v.Len() {
		if v.At(i).Kind() != jmap.Object || !jmap.ValidID(v.Name(i)) {
			return invalid("%s maps ids to objects", name)
		}
		s.create = append(s.create, creation{v.Name(i), v.At(i)})
	}
	return s.c.atMost(len(s.create), "objects", "maxObjectsInSet")
}

func (s *set) patches(v *jmap.Value) error {
	if v.IsNull() {
		return nil
	}
	if v.Kind() != jmap.Object {
		return invalid("update is no object")
	}
	for i := range v.Len() {
		if v.At(i).Kind() != jmap.Object {
			return invalid("update maps ids to PatchObjects")
		}
		real, ok := s.c.real(v.Name(i))
		if !ok {
			s.notUpdated = append(s.notUpdated, failure{v.Name(i), &jmap.Error{Type: "notFound"}})
			continue
		}
		s.update = append(s.update, patch{v.Name(i), real, v.At(i)})
	}
	return nil
}

// mismatch returns an error if the client sent ifInState and it differs from state.
func (s *set) mismatch(state string) error {
	if !s.checks || s.ifInState == state {
		return nil
	}
	return &jmap.Error{Type: "stateMismatch"}
}

// made records an object that was created, and the id that its creation id now stands for.
func (s *set) made(creation, id string, json []byte) {
	s.c.made(creation, id)
	s.created = append(s.created, entry{creation, json})
}

// refuse records the same error for each creation and each id to destroy.
func (s *set) refuse(why error) {
	for _, p := range s.create {
		s.notCreated = append(s.notCreated, failure{p.id, why})
	}
	for _, id := range s.destroy {
		s.not = append(s.not, failure{id, why})
	}
}

// forbid answers a /set of objects that administrators manage: every change is forbidden. why is the description.
func (s *set) forbid(state, why string) error {
	if err := s.mismatch(state); err != nil {
		return err
	}
	no := &jmap.Error{Type: "forbidden", Description: why}
	s.refuse(no)
	for _, p := range s.update {
		s.notUpdated = append(s.notUpdated, failure{p.id, no})
	}
	s.append(state, state)
	return nil
}

// steps make the changes of a /set in an update of the mail file: of the i-th creation, of the i-th patch, and of an id
// to destroy.
type steps struct {
	create, update func(w *mailbox.Changing, i int) error
	destroy        func(w *mailbox.Changing, id string) error
}

// step makes the i-th change.
func (s *set) step(by *steps, w *mailbox.Changing, i int) error {
	nc, nu := len(s.create), len(s.update)
	switch {
	case i < nc:
		return by.create(w, i)
	case i < nc+nu:
		return by.update(w, i-nc)
	}
	return by.destroy(w, s.destroy[i-nc-nu])
}

// change makes all changes in one update of the mail file, if it is in the state that the client expects. state selects
// the state of the type.
func (s *set) change(by *steps, state func(*mailbox.States) string) (mailbox.Result, error) {
	res, err := s.c.account.File.Change(s.c.ctx, s.size(), func(w *mailbox.Changing, i int) error {
		if err := s.mismatch(state(&w.Before)); err != nil {
			return store.Abort(err)
		}
		return s.step(by, w, i)
	})
	if err == nil && s.size() == 0 {
		err = s.mismatch(state(&res.Before))
	}
	return res, err
}

// record records the result of each change. errs has an element for each, nil for success. created returns the id of
// the i-th created object and its part of the response.
func (s *set) record(errs []error, created func(i int) (id string, json []byte)) {
	nc, nu := len(s.create), len(s.update)
	for i, err := range errs {
		switch {
		case i < nc && err == nil:
			id, json := created(i)
			s.made(s.create[i].id, id, json)
		case i < nc:
			s.notCreated = append(s.notCreated, failure{s.create[i].id, err})
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
}

// append appends the response. An empty oldState means that it is not known.
func (s *set) append(oldState, newState string) {
	c := s.c
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	orNull(&o, "oldState", oldState)
	o.Text("newState", newState)
	s.appendOutcome(&o)
	c.out = o.End()
}

// appendOutcome appends the result for each object.
func (s *set) appendOutcome(o *jmap.Writer) {
	for _, m := range [...]struct {
		name string
		list []entry
	}{{"created", s.created}, {"updated", s.updated}} {
		o.Name(m.name)
		o.B = appendEntries(o.B, m.list)
	}
	o.Name("destroyed")
	if len(s.destroyed) == 0 {
		o.B = append(o.B, "null"...)
	} else {
		o.B = jmap.AppendStrings(o.B, s.destroyed)
	}
	for _, m := range [...]struct {
		name string
		list []failure
	}{{"notCreated", s.notCreated}, {"notUpdated", s.notUpdated}, {"notDestroyed", s.not}} {
		o.Name(m.name)
		o.B = s.c.appendFailures(o.B, m.list)
	}
}

func appendEntries(dst []byte, list []entry) []byte {
	if len(list) == 0 {
		return append(dst, "null"...)
	}
	for i, e := range list {
		dst = append(dst, "{,"[min(i, 1)])
		dst = append(jmap.AppendString(dst, e.id), ':')
		if e.json == nil {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, e.json...)
		}
	}
	return append(dst, '}')
}

func (c *call) appendFailures(dst []byte, list []failure) []byte {
	if len(list) == 0 {
		return append(dst, "null"...)
	}
	for i, f := range list {
		dst = append(dst, "{,"[min(i, 1)])
		dst = append(jmap.AppendString(dst, f.id), ':')
		dst = c.setError(f.err).Append(dst)
	}
	return append(dst, '}')
}

// appendCreated completes the response of a method that only creates objects. An empty oldState means that it is not
// known.
func (s *set) appendCreated(o *jmap.Writer, oldState, newState string) {
	o.Text("accountId", s.c.account.ID)
	orNull(o, "oldState", oldState)
	o.Text("newState", newState)
	s.c.appendBoth(o, "created", s.created, "notCreated", s.notCreated)
	s.c.out = o.End()
}

// appendBoth appends the maps of the objects for which a method succeeded and of those for which it failed.
func (c *call) appendBoth(o *jmap.Writer, name string, done []entry, notName string, failed []failure) {
	o.Name(name)
	o.B = appendEntries(o.B, done)
	o.Name(notName)
	o.B = c.appendFailures(o.B, failed)
}

// badProperties returns the SetError invalidProperties.
func badProperties(why string, names ...string) *jmap.Error {
	return &jmap.Error{Type: "invalidProperties", Description: why, Properties: names}
}

// badPatch returns the SetError invalidPatch.
func badPatch(format string, args ...any) *jmap.Error {
	return &jmap.Error{Type: "invalidPatch", Description: fmt.Sprintf(format, args...)}
}

// setError converts the error for one object into a SetError.
func (b *batch) setError(err error) *jmap.Error {
	var e *jmap.Error
	if errors.As(err, &e) {
		return e
	}
	for _, x := range [...]struct {
		is  error
		say *jmap.Error
	}{
		{store.ErrDenied, &jmap.Error{Type: "forbidden"}},
		{mailbox.ErrOverQuota, &jmap.Error{Type: condition.OverQuota.JMAP, Description: err.Error()}},
		{mailbox.ErrTooBig, &jmap.Error{Type: "tooLarge", LimitName: "maxSize",
			Limit: uint64(b.s.backend.Mail().MessageSize())}},
		{mailbox.ErrBadMessage, &jmap.Error{Type: "invalidEmail", Description: err.Error()}},
		{mailbox.ErrNoMessage, &jmap.Error{Type: "notFound"}},
		{mailbox.ErrHomeless, badProperties(err.Error(), "mailboxIds")},
		{mailbox.ErrManyFolders, &jmap.Error{Type: "tooManyMailboxes"}},
		{mailbox.ErrBadFlag, &jmap.Error{Type: "tooManyKeywords", Description: err.Error()}},
		{mailbox.ErrNoFolder, badProperties("There is no such Mailbox.", "mailboxIds")},
		{mailbox.ErrFolderExists, badProperties("A Mailbox with this name already exists.", "name")},
		{mailbox.ErrBadName, badProperties(err.Error(), "name")},
		{mailbox.ErrRole, badProperties(err.Error(), "role")},
		{mailbox.ErrHasChildren, &jmap.Error{Type: "mailboxHasChild"}},
		{mailbox.ErrHasEmail, &jmap.Error{Type: "mailboxHasEmail"}},
		{store.ErrNotFound, &jmap.Error{Type: "notFound"}},
		{errNoBlob, &jmap.Error{Type: "blobNotFound"}},
	} {
		if errors.Is(err, x.is) {
			return x.say
		}
	}
	for _, x := range groupwareErrors {
		if errors.Is(err, x.is) {
			return x.say
		}
	}
	return b.methodError("an object", err)
}
