package jmapd

import (
	"cmp"
	"slices"
	"strings"

	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

var addressBookProperties = []string{"id", "name", "description", "sortOrder", "isDefault", "isSubscribed",
	"shareWith", "myRights"}

// addressBookKind lists the properties of an AddressBook that a client may change.
var addressBookKind = kind{mutable: []string{"name", "description", "sortOrder", "isSubscribed", "shareWith"},
	fixed: oneOf("id", "isDefault", "myRights"), defaults: map[string]jmap.Value{"sortOrder": jmap.MakeNumber(0)}}

// addressBookRights maps the members of AddressBookRights to rights in a collection.
//
// Implements: RFC 9610 §2 AddressBookRights
var addressBookRights = []shareRight{
	{"mayRead", note.Lookup | note.Read | note.KeepSeen, note.Lookup | note.Read},
	{"mayWrite", note.Insert | note.Write | note.DeleteMark | note.Expunge, note.Insert | note.Write | note.Expunge},
	{"mayShare", note.Administer, note.Administer},
	{"mayDelete", note.Create | note.Remove, note.Remove},
}

// shareRight is a member of the rights object of a collection: the rights that it grants, and those that it needs.
type shareRight struct {
	name         string
	grants, need note.Rights
}

// appendShareRights appends a rights object.
func appendShareRights(dst []byte, list []shareRight, g note.Rights) []byte {
	o := jmap.NewWriter(dst)
	for _, r := range list {
		o.Bool(r.name, g&r.need == r.need)
	}
	return o.End()
}

// appendShareWith appends the property shareWith: null for those who may not share, and if nobody but the owner has
// rights.
//
// Implements: RFC 9670 §4 shareWith
func appendShareWith(dst []byte, list []shareRight, x *groupware.Collection, owner note.UNID) []byte {
	if x.Rights&note.Administer == 0 || !x.HasACL {
		return append(dst, "null"...)
	}
	o := jmap.NewWriter(dst)
	some := false
	for _, e := range x.ACL.Entries {
		if e.ID == owner || e.ID.IsZero() || e.Rights() == 0 {
			continue
		}
		some = true
		o.Name(principalID(e.ID))
		o.B = appendShareRights(o.B, list, e.Rights())
	}
	if !some {
		return append(dst, "null"...)
	}
	return o.End()
}

// readShareWith reads the property shareWith: the rights of each person and group who has some now or is to have some.
// Without rights they are 0.
func (c *call) readShareWith(v *jmap.Value, list []shareRight, x *groupware.Collection,
	owner note.UNID) (map[note.UNID]note.Rights, error) {
	out := map[note.UNID]note.Rights{}
	if x.HasACL {
		for _, e := range x.ACL.Entries {
			if e.ID != owner && !e.ID.IsZero() {
				out[e.ID] = 0
			}
		}
	}
	if !v.IsNull() && v.Kind() != jmap.Object {
		return nil, badProperties("shareWith maps ids of principals to rights.", "shareWith")
	}
	for i := range v.Len() {
		u, ok := parseID(letterPrincipal, v.Name(i))
		path := "shareWith/" + v.Name(i)
		if !ok || v.At(i).Kind() != jmap.Object || u == owner {
			return nil, badProperties("There is no such principal to share with.", path)
		}
		if _, err := c.s.backend.Name(c.ctx, u); err != nil {
			return nil, badProperties("There is no such principal to share with.", path)
		}
		rights, err := readShareRights(v.At(i), list, path)
		if err != nil {
			return nil, err
		}
		out[u] = rights
	}
	return out, nil
}

func readShareRights(v *jmap.Value, list []shareRight, path string) (g note.Rights, err error) {
	for i := range v.Len() {
		k := slices.IndexFunc(list, func(r shareRight) bool { return r.name == v.Name(i) })
		on, ok := v.At(i).Bool()
		if k < 0 || !ok {
			return 0, badProperties("There is no such right.", path+"/"+v.Name(i))
		}
		if on {
			g |= list[k].grants
		}
	}
	return g, nil
}

// addressBookGet answers AddressBook/get.
//
// Implements: RFC 9610 §2.1 AddressBook/get
func addressBookGet(c *call) error {
	g, err := c.getArguments(false, addressBookProperties)
	if err != nil {
		return err
	}
	x, err := c.collectionsOf(groupware.AddressBook)
	if err != nil {
		return err
	}
	answerGet(&g, x.state, x.list, x.find(letterBook), func(dst []byte, b *groupware.Collection) []byte {
		return appendAddressBook(dst, b, x.owner, g.wants)
	})
	return nil
}

// owned are the collections of a kind in an account.
type owned struct {
	file  *groupware.File
	list  []groupware.Collection
	owner note.UNID // of the mail file
	state string
}

// collectionsOf reads the collections of a kind.
func (c *call) collectionsOf(kind groupware.Kind) (x owned, err error) {
	if x.file, err = c.box(); err != nil {
		return x, err
	}
	m, err := x.file.Moments(c.ctx, kind) // before the list: a change in between is told again
	if err != nil {
		return x, err
	}
	x.state = m.Collections.String()
	if x.list, err = x.file.Collections(c.ctx, kind); err != nil {
		return x, err
	}
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

// appendAddressBook appends an AddressBook.
//
// Implements: RFC 9610 §2 AddressBooks
func appendAddressBook(dst []byte, x *groupware.Collection, owner note.UNID, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Name("id")
	o.B = appendID(o.B, letterBook, x.UNID)
	if wants("name") {
		o.Text("name", x.Title)
	}
	if wants("description") {
		orNull(&o, "description", x.Description)
	}
	if wants("sortOrder") {
		o.Uint("sortOrder", uint64(max(x.Order, 0)))
	}
	if wants("isDefault") {
		o.Bool("isDefault", x.Default)
	}
	if wants("isSubscribed") {
		o.Bool("isSubscribed", x.Subscribed)
	}
	if wants("shareWith") {
		o.Name("shareWith")
		o.B = appendShareWith(o.B, addressBookRights, x, owner)
	}
	if wants("myRights") {
		o.Name("myRights")
		o.B = appendShareRights(o.B, addressBookRights, x.Rights)
	}
	return o.End()
}

// addressBookChanges answers AddressBook/changes.
//
// Implements: RFC 9610 §2.2 AddressBook/changes
func addressBookChanges(c *call) error {
	return c.groupwareChanges(groupware.AddressBook, letterBook, (*groupware.File).CollectionChanges)
}

// addressBookSet answers AddressBook/set.
//
// Implements: RFC 9610 §2.3 AddressBook/set
func addressBookSet(c *call) error {
	s, err := c.setArguments(false, "onDestroyRemoveContents", "onSuccessSetIsDefault")
	if err != nil {
		return err
	}
	contents, err := c.bool("onDestroyRemoveContents", false)
	if err != nil {
		return err
	}
	chosen, err := c.text("onSuccessSetIsDefault")
	if err != nil {
		return err
	}
	have, err := c.collectionsOf(groupware.AddressBook)
	if err != nil {
		return err
	}
	x := &addressBookSetting{set: s, have: have, contents: contents, made: map[string]groupware.Collection{}}
	errs, before, after, err := s.changeGroupware(have.file, groupware.AddressBook, ofCollections,
		&groupwareSteps{create: x.create, update: x.update, destroy: x.destroy})
	if err != nil {
		return err
	}
	s.record(errs, func(i int) (string, []byte) {
		p := s.create[i]
		b := x.made[p.id]
		object, err := jmap.Parse(string(appendAddressBook(nil, &b, have.owner, wantsAll)), jmap.Bounds{})
		if err != nil {
			return idOf(letterBook, b.UNID), nil
		}
		return idOf(letterBook, b.UNID), told(p.object, object)
	})
	if chosen != "" && !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		next, err := s.setDefault(have.file, groupware.AddressBook, letterBook, chosen)
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
func (s *set) setDefault(f *groupware.File, kind groupware.Kind, letter byte, chosen string) (string, error) {
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

// addressBookSetting is an AddressBook/set in progress.
type addressBookSetting struct {
	*set
	have     owned
	contents bool                            // onDestroyRemoveContents
	made     map[string]groupware.Collection // by creation id
}

// collectionChange is a change of a collection that a client sends. Nil fields do not change.
type collectionChange struct {
	title, description *string
	order              *int
	subscribed         *bool
	grants             map[note.UNID]note.Rights
}

// properties returns the Properties after the change.
func (ch *collectionChange) properties(p groupware.Properties) groupware.Properties {
	if ch.title != nil {
		p.Title = nfc(*ch.title)
	}
	if ch.description != nil {
		p.Description = *ch.description
	}
	if ch.order != nil {
		p.Order = *ch.order
	}
	return p
}

func (x *addressBookSetting) create(w *groupware.Changing, i int) error {
	p := x.set.create[i]
	for k := range p.object.Len() {
		if n := p.object.Name(k); !slices.Contains(addressBookKind.mutable, n) {
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
	name := strings.TrimSuffix(x.c.s.backend.Groupware().NewName(groupware.AddressBook), ".vcf")
	if err := w.Create(groupware.AddressBook, name, ch.properties(groupware.Properties{})); err != nil {
		return err
	}
	if err := ch.apply(w, groupware.AddressBook, name); err != nil {
		return err
	}
	x.made[p.id], err = w.Collection(groupware.AddressBook, name)
	return err
}

// apply makes the changes but those of Properties.
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

func (x *addressBookSetting) update(w *groupware.Changing, i int) error {
	p := x.set.update[i]
	u, _ := parseID(letterBook, p.real)
	name, err := w.NameOf(groupware.AddressBook, u)
	if err != nil {
		return err
	}
	b, err := w.Collection(groupware.AddressBook, name)
	if err != nil {
		return err
	}
	current, err := jmap.Parse(string(appendAddressBook(nil, &b, x.have.owner, wantsAll)), jmap.Bounds{})
	if err != nil {
		return err
	}
	return addressBookKind.apply(p.object, current, func(changed *jmap.Value) error {
		ch, err := x.read(changed, &b)
		if err != nil {
			return err
		}
		if ch.title != nil || ch.description != nil || ch.order != nil {
			if err := w.SetProperties(groupware.AddressBook, name, ch.properties(b.Properties)); err != nil {
				return err
			}
		}
		return ch.apply(w, groupware.AddressBook, name)
	})
}

// read reads the properties that a client sets.
func (x *addressBookSetting) read(v *jmap.Value, b *groupware.Collection) (ch collectionChange, err error) {
	var bad []string
	for i := range v.Len() {
		if v.Name(i) == "shareWith" {
			ch.grants, err = x.c.readShareWith(v.At(i), addressBookRights, b, x.have.owner)
			if err != nil {
				return ch, err
			}
			continue
		}
		if !ch.read(v.Name(i), v.At(i)) {
			bad = append(bad, v.Name(i))
		}
	}
	if bad != nil {
		return ch, badProperties("", bad...)
	}
	return ch, nil
}

// read reads a property, and returns false if the value cannot be that.
func (ch *collectionChange) read(name string, v *jmap.Value) bool {
	text, isText := v.Text()
	switch name {
	case "name":
		ch.title = &text
		return isText && strings.TrimSpace(text) != "" && len(text) <= groupware.MaxName
	case "description":
		ch.description = &text
		return isText || v.IsNull()
	case "sortOrder":
		n, ok := v.Int()
		order := int(n)
		ch.order = &order
		return ok && n >= 0 && n < 1<<31
	}
	on, ok := v.Bool()
	ch.subscribed = &on
	return ok
}

func (x *addressBookSetting) destroy(w *groupware.Changing, id string) error {
	u, _ := parseID(letterBook, id)
	name, err := w.NameOf(groupware.AddressBook, u)
	if err != nil {
		return err
	}
	b, err := w.Collection(groupware.AddressBook, name)
	if err != nil {
		return err
	}
	if b.Total > 0 && !x.contents {
		return &jmap.Error{Type: "addressBookHasContents"}
	}
	return w.Delete(groupware.AddressBook, name)
}
