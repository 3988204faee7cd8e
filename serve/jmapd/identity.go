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
	g, err := c.getArguments(own)
	if err != nil {
		return err
	}
	if err := g.only(identityProperties...); err != nil {
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
		c.beginGet(identityState(x))
		var notFound []string
		n := 0
		put := func(i *identity.Identity) {
			if n++; n > 1 {
				c.out = append(c.out, ',')
			}
			c.out = appendIdentity(c.out, i, g.wants)
		}
		if g.all {
			for i := range x.All {
				put(&x.All[i])
			}
		}
		for _, id := range g.ids {
			if i := x.Find(id); i != nil {
				put(i)
			} else {
				notFound = append(notFound, id)
			}
		}
		c.endGet(notFound)
		return nil
	})
}

// identityChanges answers Identity/changes.
//
// Implements: RFC 8621 §6.2 Identity/changes
func identityChanges(c *call) error {
	since, limit, err := c.changesArguments(own)
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
		seq, given, _ := strings.Cut(since, "-")
		from, err := strconv.ParseInt(seq, 16, 64)
		if err != nil || given != x.Given || from > x.Sequence {
			return mailbox.ErrForgotten
		}
		return c.identityChangesSince(x, since, from, limit)
	})
}

func (c *call) identityChangesSince(x *identity.List, since string, from int64, limit int) error {
	type change struct {
		seq int64
		id  string
		f   int // created, updated, destroyed
	}
	var list []change
	for i := range x.All {
		switch one := &x.All[i]; {
		case one.Made > from && one.MayDelete:
			list = append(list, change{one.Made, one.ID, 0}) // /changes from a later state returns its updates
		case one.Changed > from:
			list = append(list, change{one.Changed, one.ID, 1})
		}
	}
	gone := x.Items.Get(identity.ItemGone).AsTextList()
	for i, line := range gone {
		s, id, _ := strings.Cut(line, " ")
		seq, _ := strconv.ParseInt(s, 10, 64)
		if seq > from {
			list = append(list, change{seq, id, 2})
			if i == 0 && len(gone) >= identity.MaxGone {
				return mailbox.ErrForgotten
			}
		}
	}
	slices.SortFunc(list, func(a, b change) int { return int(a.seq - b.seq) })
	state, more := identityState(x), false
	if limit > 0 && len(list) > limit {
		list, more = list[:limit], true
		state = strconv.FormatInt(list[limit-1].seq, 16) + "-" + x.Given
	}
	var ids [3][]string
	for _, ch := range list {
		ids[ch.f] = append(ids[ch.f], ch.id)
	}
	c.appendIDChanges(since, state, more, ids)
	return nil
}

// appendIDChanges appends the response to a /changes. ids are the created, updated and destroyed ids.
func (c *call) appendIDChanges(since, state string, more bool, ids [3][]string) {
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Text("oldState", since)
	o.Text("newState", state)
	o.Bool("hasMoreChanges", more)
	for i, name := range []string{"created", "updated", "destroyed"} {
		o.Strings(name, ids[i]...)
	}
	c.out = o.End()
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
		name, x := v.Name(k), v.At(k)
		text, ok := x.Text()
		switch name {
		case "name":
			ok = ok && len(text) <= 1000 && !strings.ContainsAny(text, "\r\n\x00")
			i.Name = text
		case "email":
			ok = ok && create && validSender(text)
			i.Email = text
		case "textSignature":
			ok = ok && len(text) <= identity.MaxSignature
			i.Text = text
		case "htmlSignature":
			ok = ok && len(text) <= identity.MaxSignature
			i.HTML = text
		case "replyTo", "bcc":
			if _, ok = readAddresses(x); ok || x.IsNull() || x.Kind() == jmap.Array && x.Len() == 0 {
				ok = true
				json := ""
				if !x.IsNull() {
					json = string(x.Append(nil))
				}
				if name == "bcc" {
					i.BCC = json
				} else {
					i.ReplyTo = json
				}
			}
		default:
			ok = false
		}
		if !ok {
			bad = append(bad, name)
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
	var before, after string
	profile := c.account.File.ProfileID(identity.Profile)
	made := make([]identity.Identity, len(s.create))
	bad := make([]error, len(s.create))
	for i := range s.create {
		made[i], bad[i] = c.makeIdentity(s.create[i].object)
	}
	nc, nu := len(s.create), len(s.update)
	res, err := c.account.File.Change(c.ctx, nc+nu+len(s.destroy)+1, func(w *mailbox.Changing, i int) error {
		x, err := c.readIdentities(w.Reading, given)
		if err != nil {
			return mailbox.Abort(err)
		}
		if w.Calls == 1 {
			before = identityState(x)
			if err := s.mismatch(before); err != nil {
				return mailbox.Abort(err)
			}
		}
		after = identityState(x)
		x.Sequence++
		if i == nc+nu+len(s.destroy) {
			return nil // the last step only reads the state
		}
		item, v, err := c.identityChange(s, x, i, made, bad)
		if err != nil {
			return err
		}
		return w.PutProfile(profile, x.With(item, v))
	})
	if err != nil {
		return err
	}
	for i, err := range res.Errs[:nc+nu+len(s.destroy)] {
		switch {
		case i < nc && err == nil:
			object, err := c.identityObject(&made[i])
			if err != nil {
				return err
			}
			s.made(s.create[i].id, made[i].ID, told(s.create[i].object, object))
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
	s.append(before, after)
	return nil
}

// identityChange makes the i-th change of Identity/set in x. made and bad hold the created identities and their errors.
// It returns the item of the profile that changes, and its value; a zero value removes the item.
func (c *call) identityChange(s *set, x *identity.List, i int, made []identity.Identity, bad []error) (item string,
	v note.Value, err error) {
	nc, nu := len(s.create), len(s.update)
	switch {
	case i < nc:
		if bad[i] != nil {
			return "", v, bad[i]
		}
		if len(x.All) >= identity.Max {
			return "", v, &jmap.Error{Type: "overQuota",
				Description: fmt.Sprintf("There are at most %d identities.", identity.Max)}
		}
		made[i].Made, made[i].Changed = x.Sequence, x.Sequence
		return made[i].ID, note.TextList(made[i].Columns()...), nil
	case i < nc+nu:
		one := x.Find(s.update[i-nc].real)
		if one == nil {
			return "", v, &jmap.Error{Type: "notFound"}
		}
		if err := c.changeIdentity(s.update[i-nc].object, one); err != nil {
			return "", v, err
		}
		one.Changed = x.Sequence
		return one.ID, note.TextList(one.Columns()...), nil
	}
	one := x.Find(s.destroy[i-nc-nu])
	if one == nil {
		return "", v, &jmap.Error{Type: "notFound"}
	}
	if !one.MayDelete {
		return "", v, &jmap.Error{Type: "forbidden", Description: "An identity that the directory gives stays."}
	}
	return one.ID, v, nil
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
