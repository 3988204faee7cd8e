package jmapd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

// collectionType is a type of collection: AddressBook, Calendar or TaskList.
type collectionType struct {
	kind       groupware.Kind
	letter     byte // of ids
	properties []string
	// patch lists the properties that a client may change: isSubscribed, shareWith, and those of readers.
	patch   kind
	readers map[string]propertyReader
	rights  []shareRight
	// is reports whether a collection of the kind is one of this type.
	is     func(x *groupware.Collection) bool
	append func(dst []byte, x *groupware.Collection, owner note.UNID, wants func(string) bool) []byte
	// components are those of a new collection.
	components []string
	// withContents is the argument of /set that allows to destroy a collection with entries; notEmpty is the SetError
	// without it.
	withContents, notEmpty string
}

// hasDefault reports whether one collection of the type is the default one.
func (t *collectionType) hasDefault() bool { return slices.Contains(t.properties, "isDefault") }

// setProperty is a change of the properties of a calendar.
type setProperty func(p *groupware.Properties)

// propertyReader reads a property that a client sets; ok is false if the collection may not have the value.
type propertyReader func(v *jmap.Value) (change setProperty, ok bool)

func readName(v *jmap.Value) (setProperty, bool) {
	text, ok := v.Text()
	return func(p *groupware.Properties) { p.Title = nfc(text) },
		ok && strings.TrimSpace(text) != "" && len(text) <= groupware.MaxName
}

func readDescription(v *jmap.Value) (setProperty, bool) {
	text, ok := v.Text()
	return func(p *groupware.Properties) { p.Description = text }, ok || v.IsNull()
}

func readSortOrder(v *jmap.Value) (setProperty, bool) {
	n, ok := v.Int()
	return func(p *groupware.Properties) { p.Order = int(n) }, ok && 0 <= n && n < 1<<31
}

// owned are the collections of a kind in an account.
type owned struct {
	file  *groupware.File
	list  []groupware.Collection
	owner note.UNID // of the mail file
	state string
}

// collectionsOf reads the collections of a type.
func (c *call) collectionsOf(t *collectionType) (x owned, err error) {
	if x.file, err = c.box(); err != nil {
		return x, err
	}
	m, err := x.file.Moments(c.ctx, t.kind) // before the list: a change in between is told again
	if err != nil {
		return x, err
	}
	x.state = m.Collections.String()
	if x.list, err = x.file.Collections(c.ctx, t.kind); err != nil {
		return x, err
	}
	x.list = slices.DeleteFunc(x.list, func(b groupware.Collection) bool { return !t.is(&b) })
	x.owner, err = x.file.Owner(c.ctx)
	return x, err
}

// find returns a function that finds a collection by its id.
func (x *owned) find(letter byte) func(id string) *groupware.Collection {
	return func(id string) *groupware.Collection {
		u, ok := parseID(letter, id)
		i := slices.IndexFunc(x.list, func(c groupware.Collection) bool { return c.UNID == u })
		if !ok || i < 0 {
			return nil
		}
		return &x.list[i]
	}
}

// get answers a /get.
func (t *collectionType) get(c *call) error {
	g, err := c.getArguments(false, t.properties)
	if err != nil {
		return err
	}
	x, err := c.collectionsOf(t)
	if err != nil {
		return err
	}
	if g.all {
		if err := c.atMost(len(x.list), "collections", "maxObjectsInGet"); err != nil {
			return err
		}
	}
	answerGet(&g, x.state, x.list, x.find(t.letter), func(dst []byte, b *groupware.Collection) []byte {
		return t.append(dst, b, x.owner, g.wants)
	})
	return nil
}

// changes answers a /changes.
func (t *collectionType) changes(c *call) error {
	return c.groupwareChanges(t.kind, t.letter, func(f *groupware.File, ctx context.Context, kind groupware.Kind,
		since groupware.Moment, limit int) (groupware.Delta, error) {
		x, err := f.CollectionChanges(ctx, kind, since, limit)
		if err != nil {
			return x, err
		}
		list, err := f.Collections(ctx, kind)
		seen := map[note.UNID]bool{}
		for i := range list {
			seen[list[i].UNID] = t.is(&list[i])
		}
		onlySeen(&x, seen)
		return x, err
	})
}

// object returns a collection as /get shows it.
func (t *collectionType) object(x *groupware.Collection, owner note.UNID) (*jmap.Value, error) {
	return jmap.Parse(string(t.append(nil, x, owner, wantsAll)), jmap.Bounds{})
}

// collectionSetting is a /set of collections in progress.
type collectionSetting struct {
	*set
	t        *collectionType
	have     owned
	contents bool                            // the argument withContents
	made     map[string]groupware.Collection // by creation id
}

// set answers a /set.
func (t *collectionType) set(c *call) error {
	own := []string{t.withContents}
	if t.hasDefault() {
		own = append(own, "onSuccessSetIsDefault")
	}
	s, err := c.setArguments(false, own...)
	if err != nil {
		return err
	}
	x := &collectionSetting{set: s, t: t, made: map[string]groupware.Collection{}}
	if x.contents, err = c.bool(t.withContents, false); err != nil {
		return err
	}
	chosen := ""
	if t.hasDefault() {
		if chosen, err = c.text("onSuccessSetIsDefault"); err != nil {
			return err
		}
	}
	if x.have, err = c.collectionsOf(t); err != nil {
		return err
	}
	errs, before, after, err := s.changeGroupware(x.have.file, t.kind, ofCollections,
		&groupwareSteps{create: x.create, update: x.update, destroy: x.destroy})
	if err != nil {
		return err
	}
	s.record(errs, func(i int) (string, []byte) {
		p := s.create[i]
		b := x.made[p.id]
		object, err := t.object(&b, x.have.owner)
		if err != nil {
			return idOf(t.letter, b.UNID), nil
		}
		return idOf(t.letter, b.UNID), told(p.object, object)
	})
	if err := x.tellDefault(); err != nil {
		return err
	}
	if failed := len(s.notCreated) + len(s.notUpdated) + len(s.not); chosen != "" && failed == 0 {
		next, err := x.setDefault(chosen)
		if err != nil {
			return err
		}
		after = cmp.Or(next, after)
	}
	s.append(before, after)
	return nil
}

// wantsAll is the function wants for all properties.
func wantsAll(string) bool { return true }

// setDefault makes a collection the default one, and reports the change of isDefault in the response. It returns the
// state after that, "" if the collection is not there or the caller may not choose it: then nothing changes.
func (x *collectionSetting) setDefault(chosen string) (string, error) {
	s, f, kind, letter := x.set, x.have.file, x.t.kind, x.t.letter
	list, err := f.Collections(s.c.ctx, kind)
	if err != nil {
		return "", err
	}
	real, _ := s.c.real(chosen)
	u, _ := parseID(letter, real)
	to := slices.IndexFunc(list, func(x groupware.Collection) bool { return x.UNID == u })
	if to < 0 || list[to].Default {
		return "", nil
	}
	out, err := f.ChangeEach(s.c.ctx, kind, 1, func(groupware.Moments) error { return nil },
		func(w *groupware.Changing, _ int) error { return w.SetDefault(kind, list[to].Name) })
	if err != nil || out.Errs[0] != nil {
		return "", err
	}
	for i := range list {
		if list[i].Default {
			s.tell(idOf(letter, list[i].UNID), "isDefault", "false")
		}
	}
	s.tell(real, "isDefault", "true")
	return out.After.Collections.String(), nil
}

// tell reports the value of a property, as JSON, that the server has changed in an object.
func (s *set) tell(id, property, json string) {
	for i := range s.created {
		if at := &s.created[i]; s.c.created[at.id] == id {
			v, err := jmap.Parse(string(at.json), jmap.Bounds{})
			value, err2 := jmap.Parse(json, jmap.Bounds{})
			if err == nil && err2 == nil {
				changed := v.With(property, *value)
				at.json = changed.Append(nil)
			}
			return
		}
	}
	object := []byte(`{"` + property + `":` + json + `}`)
	for i := range s.updated {
		if real, _ := s.c.real(s.updated[i].id); real == id {
			s.updated[i].json = object
			return
		}
	}
	s.updated = append(s.updated, entry{id, object})
}

// tellDefault reports the collection that became the default one because the one before was destroyed.
func (x *collectionSetting) tellDefault() error {
	if len(x.set.destroyed) == 0 || !x.t.hasDefault() {
		return nil
	}
	now, err := x.c.collectionsOf(x.t)
	for i := range now.list {
		b := &now.list[i]
		id := idOf(x.t.letter, b.UNID)
		if was := x.have.find(x.t.letter)(id); was != nil && b.Default && !was.Default {
			x.tell(id, "isDefault", "true")
		}
	}
	return err
}

// collectionChange is a change of a collection that a client sends. Nil fields do not change.
type collectionChange struct {
	properties []setProperty
	subscribed *bool
	grants     map[note.UNID]note.Rights
}

// read reads the properties that a client sets in a collection.
func (x *collectionSetting) read(v *jmap.Value, b *groupware.Collection) (ch collectionChange, err error) {
	var bad []string
	for i := range v.Len() {
		name, ok := v.Name(i), false
		switch read := x.t.readers[name]; {
		case name == "shareWith":
			if x.t == taskLists && calendars.is(b) {
				return ch, &jmap.Error{Type: "forbidden", Description: "It is also a calendar: share that."}
			}
			if ch.grants, err = x.c.readShareWith(v.At(i), x.t.rights, b, x.have.owner); err != nil {
				return ch, err
			}
			continue
		case name == "isSubscribed":
			ch.subscribed = new(bool)
			*ch.subscribed, ok = v.At(i).Bool()
		case read != nil:
			var change setProperty
			change, ok = read(v.At(i))
			ch.properties = append(ch.properties, change)
		}
		if !ok {
			bad = append(bad, name)
		}
	}
	if bad != nil {
		return ch, badProperties("", bad...)
	}
	return ch, nil
}

// set changes the properties.
func (ch *collectionChange) set(p *groupware.Properties) {
	for _, change := range ch.properties {
		change(p)
	}
}

// apply makes the changes but those of the properties.
func (ch *collectionChange) apply(w *groupware.Changing, kind groupware.Kind, name string) error {
	if ch.subscribed != nil {
		if err := w.Subscribe(kind, name, *ch.subscribed); err != nil {
			return err
		}
	}
	if len(ch.grants) == 0 {
		return nil
	}
	return w.Share(kind, name, ch.grants)
}

func (x *collectionSetting) create(w *groupware.Changing, i int) error {
	p := &x.set.create[i]
	for k := range p.object.Len() {
		if n := p.object.Name(k); !slices.Contains(x.t.patch.mutable, n) {
			return badProperties("It cannot be set.", n)
		}
	}
	if p.object.Get("name") == nil {
		return badProperties("It is missing.", "name")
	}
	ch, err := x.read(p.object, &groupware.Collection{})
	if err != nil {
		return err
	}
	properties := groupware.Properties{Components: x.t.components}
	ch.set(&properties)
	name, _, _ := strings.Cut(x.c.s.backend.Groupware().NewName(x.t.kind), ".")
	if err := w.Create(x.t.kind, name, properties); err != nil {
		return err
	}
	if err := ch.apply(w, x.t.kind, name); err != nil {
		return err
	}
	x.made[p.id], err = w.Collection(x.t.kind, name)
	return err
}

func (x *collectionSetting) update(w *groupware.Changing, i int) error {
	p := &x.set.update[i]
	b, err := x.named(w, p.real)
	if err != nil {
		return err
	}
	current, err := x.t.object(&b, x.have.owner)
	if err != nil {
		return err
	}
	return x.t.patch.apply(p.object, current, func(changed *jmap.Value) error {
		ch, err := x.read(changed, &b)
		if err != nil {
			return err
		}
		if len(ch.properties) > 0 {
			ch.set(&b.Properties)
			if err := w.SetProperties(x.t.kind, b.Name, b.Properties); err != nil {
				return err
			}
		}
		return ch.apply(w, x.t.kind, b.Name)
	})
}

// named returns the collection with an id.
func (x *collectionSetting) named(w *groupware.Changing, id string) (groupware.Collection, error) {
	u, _ := parseID(x.t.letter, id)
	name, err := w.NameOf(x.t.kind, u)
	if err != nil {
		return groupware.Collection{}, err
	}
	b, err := w.Collection(x.t.kind, name)
	if err == nil && !x.t.is(&b) {
		err = groupware.ErrNoCollection
	}
	return b, err
}

// destroy deletes a collection. Its entries can be restored, as those that were removed one by one. A client of tasks
// does not show the events of a calendar that holds both, so that such a calendar stays, and one of events likewise.
func (x *collectionSetting) destroy(w *groupware.Changing, id string) error {
	b, err := x.named(w, id)
	if err != nil {
		return err
	}
	if b.Total > 0 && !x.contents {
		return &jmap.Error{Type: x.t.notEmpty}
	}
	err = w.Delete(x.t.kind, b.Name, x.t.components...)
	if errors.Is(err, groupware.ErrComponent) {
		return &jmap.Error{Type: "forbidden", Description: "It also holds entries of another kind: remove these, " +
			"or its own one by one."}
	}
	return err
}
