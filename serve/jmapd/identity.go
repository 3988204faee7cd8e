package jmapd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"doublet/directory"
	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

// sender holds the caller's name and addresses from the directory. It is read before the mail file is opened for
// changing.
type sender struct {
	name      string
	addresses []string
}

func (c *call) sender() (s sender, err error) {
	s.name, s.addresses, err = c.s.backend.Sender(c.ctx, c.caller.Who.Person)
	return s, err
}

// readIdentities reads the identities of the caller's account.
func (c *call) readIdentities(d *mailbox.Reading, given sender) (*identity.List, error) {
	return identity.Read(d, c.account.File.ProfileID(identity.Profile), given.name, given.addresses)
}

func identityState(x *identity.List) string { return strconv.FormatInt(x.Sequence, 16) + "-" + x.Given }

var identityProperties = []string{"id", "name", "email", "replyTo", "bcc", "textSignature", "htmlSignature",
	"mayDelete"}

func appendIdentity(dst []byte, i *identity.Identity, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", i.ID)
	for _, p := range [...]struct{ name, value string }{{"name", i.Name}, {"email", i.Email}, {"textSignature", i.Text},
		{"htmlSignature", i.HTML}} {
		if wants(p.name) {
			o.Text(p.name, p.value)
		}
	}
	for _, p := range [...]struct{ name, json string }{{"replyTo", i.ReplyTo}, {"bcc", i.BCC}} {
		if wants(p.name) {
			if p.json == "" {
				p.json = "null"
			}
			o.Raw(p.name, p.json)
		}
	}
	if wants("mayDelete") {
		o.Bool("mayDelete", i.MayDelete)
	}
	return o.End()
}

// identityGet answers Identity/get.
//
// Implements: RFC 8621 §6.1 Identity/get
func identityGet(c *call) error {
	g, err := c.getArguments(own, identityProperties)
	if err != nil {
		return err
	}
	given, err := c.sender()
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		x, err := c.readIdentities(d, given)
		if err != nil {
			return err
		}
		answerGet(&g, identityState(x), x.All, x.Find, func(dst []byte, i *identity.Identity) []byte {
			return appendIdentity(dst, i, g.wants)
		})
		return nil
	})
}

// identityChanges answers Identity/changes.
//
// Implements: RFC 8621 §6.2 Identity/changes
func identityChanges(c *call) error {
	given, err := c.sender()
	if err != nil {
		return err
	}
	return c.changes(own, func(d *mailbox.Reading, since string, limit int) (delta, error) {
		x, err := c.readIdentities(d, given)
		if err != nil {
			return delta{}, err
		}
		seq, state, _ := strings.Cut(since, "-")
		from, err := strconv.ParseInt(seq, 16, 64)
		if err != nil || state != x.Given || from > x.Sequence {
			return delta{}, mailbox.ErrForgotten
		}
		return identityChangesSince(x, from, limit)
	})
}

func identityChangesSince(x *identity.List, from int64, limit int) (out delta, err error) {
	type change struct {
		seq  int64
		id   string
		kind changeKind
	}
	var list []change
	for i := range x.All {
		switch one := &x.All[i]; {
		case one.Made > from && one.MayDelete:
			list = append(list, change{one.Made, one.ID, wasCreated}) // /changes from a later state returns its updates
		case one.Changed > from:
			list = append(list, change{one.Changed, one.ID, wasUpdated})
		}
	}
	for i, g := range x.Gone {
		if g.Sequence > from {
			list = append(list, change{g.Sequence, g.ID, wasDestroyed})
			if i == 0 && len(x.Gone) >= identity.MaxGone {
				return out, mailbox.ErrForgotten
			}
		}
	}
	slices.SortFunc(list, func(a, b change) int { return int(a.seq - b.seq) })
	out.state = identityState(x)
	if limit > 0 && len(list) > limit {
		list, out.more = list[:limit], true
		out.state = strconv.FormatInt(list[limit-1].seq, 16) + "-" + x.Given
	}
	for _, ch := range list {
		out.ids[ch.kind] = append(out.ids[ch.kind], ch.id)
	}
	return out, nil
}

// identityKind lists the properties of an Identity that a client may change.
var identityKind = kind{
	mutable: []string{"name", "replyTo", "bcc", "textSignature", "htmlSignature"},
	fixed:   oneOf("id", "email", "mayDelete"),
	defaults: map[string]jmap.Value{"name": jmap.Text(""), "textSignature": jmap.Text(""),
		"htmlSignature": jmap.Text("")},
}

// changeIdentity applies a client's patch to an identity.
func (c *call) changeIdentity(patch *jmap.Value, i *identity.Identity) error {
	current, err := c.identityObject(i)
	if err != nil {
		return err
	}
	return identityKind.apply(patch, current, func(v *jmap.Value) error { return readIdentity(v, i, false) })
}

// identityObject returns an identity as Identity/get shows it.
func (c *call) identityObject(i *identity.Identity) (*jmap.Value, error) {
	return c.rendered(func() error {
		c.out = appendIdentity(c.out, i, func(string) bool { return true })
		return nil
	})
}

// readIdentity reads the properties of an identity that a client may set into i.
func readIdentity(v *jmap.Value, i *identity.Identity, create bool) error {
	var bad []string
	for k := range v.Len() {
		if !setIdentity(i, v.Name(k), v.At(k), create) {
			bad = append(bad, v.Name(k))
		}
	}
	if create && i.Email == "" && !slices.Contains(bad, "email") {
		bad = append(bad, "email")
	}
	if bad != nil {
		return badProperties("", bad...)
	}
	return nil
}

// setIdentity sets a property of an identity. It reports whether the value is valid.
func setIdentity(i *identity.Identity, name string, x *jmap.Value, create bool) (ok bool) {
	text, ok := x.Text()
	switch name {
	case "name":
		i.Name = text
		return ok && len(text) <= 1000 && !strings.ContainsAny(text, "\r\n\x00")
	case "email":
		i.Email = text
		return ok && create && validSender(text)
	case "textSignature":
		i.Text = text
		return ok && len(text) <= identity.MaxSignature
	case "htmlSignature":
		i.HTML = text
		return ok && len(text) <= identity.MaxSignature
	case "replyTo":
		i.ReplyTo, ok = addressesJSON(x)
		return ok
	case "bcc":
		i.BCC, ok = addressesJSON(x)
		return ok
	}
	return false
}

// addressesJSON returns a list of addresses, which may be empty, as JSON; "" for null.
func addressesJSON(x *jmap.Value) (json string, ok bool) {
	if x.IsNull() {
		return "", true
	}
	_, ok = readAddresses(x)
	return string(x.Append(nil)), ok || x.Kind() == jmap.Array && x.Len() == 0
}

// validSender reports whether a string is an address of one mailbox, or a whole domain ("*@example.com").
func validSender(s string) bool {
	w, ok := readAddress(jmap.MakeObject([]string{"email"}, []jmap.Value{jmap.Text(s)}))
	return ok && len(w) == 1 && strings.Count(s, "@") == 1 && len(s) <= 254
}

// identitySet answers Identity/set.
//
// Implements: RFC 8621 §6.3 Identity/set
func identitySet(c *call) error {
	s, err := c.setArguments(own)
	if err != nil {
		return err
	}
	given, err := c.sender()
	if err != nil {
		return err
	}
	x := &identitySetting{set: s, profile: c.account.File.ProfileID(identity.Profile)}
	x.created, x.bad = make([]identity.Identity, len(s.create)), make([]error, len(s.create))
	for i := range s.create {
		x.created[i], x.bad[i] = c.makeIdentity(s.create[i].object)
	}
	var before, after string
	by := &steps{x.create, x.update, x.destroy}
	// One step more than there are changes: the last one only reads the state.
	res, err := c.account.File.Change(c.ctx, s.size()+1, func(w *mailbox.Changing, i int) (err error) {
		if x.list, err = c.readIdentities(w.Reading, given); err != nil {
			return store.Abort(err)
		}
		after = identityState(x.list)
		if w.Calls == 1 {
			before = after
			if err := s.mismatch(before); err != nil {
				return store.Abort(err)
			}
		}
		if i == s.size() {
			return nil
		}
		x.list.Sequence++
		return s.step(by, w, i)
	})
	if err != nil {
		return err
	}
	objects := make([][]byte, len(s.create))
	for i := range objects {
		if res.Errs[i] != nil {
			continue
		}
		object, err := c.identityObject(&x.created[i])
		if err != nil {
			return err
		}
		objects[i] = told(s.create[i].object, object)
	}
	s.record(res.Errs[:s.size()], func(i int) (string, []byte) { return x.created[i].ID, objects[i] })
	s.append(before, after)
	return nil
}

// identitySetting is an Identity/set in progress.
type identitySetting struct {
	*set
	profile note.UNID
	list    *identity.List      // as the current change finds it
	created []identity.Identity // parallel to set.create
	bad     []error             // parallel to created: the error, or nil
}

// put stores an identity, or removes it if v is nil.
func (x *identitySetting) put(w *mailbox.Changing, id string, v note.Value) error {
	return w.PutProfile(x.profile, x.list.With(id, v))
}

func (x *identitySetting) create(w *mailbox.Changing, i int) error {
	if x.bad[i] != nil {
		return x.bad[i]
	}
	if len(x.list.All) >= identity.Max {
		return &jmap.Error{Type: "overQuota", Description: fmt.Sprintf("There are at most %d "+
			"identities.", identity.Max)}
	}
	one := &x.created[i]
	one.Made, one.Changed = x.list.Sequence, x.list.Sequence
	return x.put(w, one.ID, note.TextList(one.Columns()...))
}

func (x *identitySetting) update(w *mailbox.Changing, i int) error {
	one := x.list.Find(x.set.update[i].real)
	if one == nil {
		return &jmap.Error{Type: "notFound"}
	}
	if err := x.c.changeIdentity(x.set.update[i].object, one); err != nil {
		return err
	}
	one.Changed = x.list.Sequence
	return x.put(w, one.ID, note.TextList(one.Columns()...))
}

func (x *identitySetting) destroy(w *mailbox.Changing, id string) error {
	one := x.list.Find(id)
	if one == nil {
		return &jmap.Error{Type: "notFound"}
	}
	if !one.MayDelete {
		return &jmap.Error{Type: "forbidden", Description: "An identity that the directory gives stays."}
	}
	return x.put(w, one.ID, nil)
}

// makeIdentity makes a new identity. The person must be allowed to send from its address.
func (c *call) makeIdentity(v *jmap.Value) (i identity.Identity, err error) {
	if err := readIdentity(v, &i, true); err != nil {
		return i, err
	}
	right, err := c.s.backend.SendRight(c.ctx, c.caller.Who, i.Email)
	if err == nil && right == directory.SendNever {
		err = &jmap.Error{Type: "forbiddenFrom", Description: "The address is not one of yours."}
	}
	var u note.UNID
	c.s.env.Fill(u[:])
	i.ID, i.MayDelete = identity.ID(u), true
	return i, err
}
