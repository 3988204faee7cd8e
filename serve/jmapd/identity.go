package jmapd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// Identities are of two kinds: one for each address that the directory gives a person, and those that the person made,
// for addresses that they may write from. What the person has said of them stands in a profile note of the mail file.
const (
	identitiesProfile = "Identities"
	identityItem      = "Identity."
	identityGone      = "Gone"     // "sequence id", the oldest first
	identitySequence  = "Sequence" // of changes to identities
	letterIdentity    = 'i'
)

// Bounds of identities.
const (
	maxIdentities = 200
	maxSignature  = 64 << 10
	maxIdentityGo = 100 // that are remembered as gone
)

// identity is one way to send mail.
type identity struct {
	id            string
	name, email   string
	replyTo, bcc  string // JSON, "" for null
	text, html    string // signatures
	mayDelete     bool
	made, changed int64 // sequence numbers; 0 for one that only the directory knows
}

// identities are those of the caller.
type identities struct {
	list     []identity
	items    note.Items // of the profile note
	sequence int64
	// given says what the directory gives: what changes there changes the state.
	given string
}

func (x *identities) state() string { return strconv.FormatInt(x.sequence, 16) + "-" + x.given }

// sender is what the directory says of the caller. It is asked before the mail file is opened for changing.
type sender struct {
	name      string
	addresses []string
}

func (c *call) sender() (s sender, err error) {
	s.name, s.addresses, err = c.s.backend.Sender(c.ctx, c.caller.Who.Person)
	return s, err
}

// readIdentities reads the identities of the caller's account.
func (c *call) readIdentities(d *mailbox.Reading, given sender) (*identities, error) {
	name, addresses := given.name, given.addresses
	x := &identities{}
	var err error
	if x.items, _, err = d.Profile(c.account.File.ProfileID(identitiesProfile)); err != nil {
		return nil, err
	}
	x.sequence = x.items.Get(identitySequence).AsInt()
	hash := note.DeriveUNID([]byte(name), []byte(strings.Join(addresses, "\x00")))
	x.given = hash.String()[:8]
	taken := map[string]bool{}
	for _, a := range addresses {
		id := idOf(letterIdentity, note.DeriveUNID([]byte("identity"), []byte(strings.ToLower(a))))
		one := identity{id: id, name: name, email: a}
		if v := x.items.Get(identityItem + id); v != nil {
			one.read(v.AsTextList())
			one.email = a
		}
		taken[id] = true
		x.list = append(x.list, one)
	}
	for _, it := range x.items {
		id, ok := strings.CutPrefix(it.Name, identityItem)
		if !ok || taken[id] {
			continue
		}
		one := identity{id: id}
		if one.read(it.Value.AsTextList()); one.mayDelete {
			x.list = append(x.list, one)
		}
	}
	return x, nil
}

// columns are an identity as its item holds it.
func (i *identity) columns() []string {
	own := ""
	if i.mayDelete {
		own = "own"
	}
	return []string{i.name, i.email, i.replyTo, i.bcc, i.text, i.html, own, strconv.FormatInt(i.made, 10), strconv.FormatInt(i.changed, 10)}
}

func (i *identity) read(list []string) {
	if len(list) != 9 {
		return
	}
	i.name, i.email, i.replyTo, i.bcc, i.text, i.html, i.mayDelete = list[0], list[1], list[2], list[3], list[4], list[5], list[6] != ""
	i.made, _ = strconv.ParseInt(list[7], 10, 64)
	i.changed, _ = strconv.ParseInt(list[8], 10, 64)
}

func (x *identities) find(id string) *identity {
	for i := range x.list {
		if x.list[i].id == id {
			return &x.list[i]
		}
	}
	return nil
}

var identityProperties = []string{"id", "name", "email", "replyTo", "bcc", "textSignature", "htmlSignature", "mayDelete"}

func (i *identity) append(dst []byte, wants func(string) bool) []byte {
	o := newObject(dst)
	o.text("id", i.id)
	for _, p := range [...]struct{ name, value string }{{"name", i.name}, {"email", i.email}, {"textSignature", i.text}, {"htmlSignature", i.html}} {
		if wants(p.name) {
			o.text(p.name, p.value)
		}
	}
	for _, p := range [...]struct{ name, json string }{{"replyTo", i.replyTo}, {"bcc", i.bcc}} {
		if wants(p.name) {
			if p.json == "" {
				p.json = "null"
			}
			o.raw(p.name, p.json)
		}
	}
	if wants("mayDelete") {
		o.bool("mayDelete", i.mayDelete)
	}
	return o.end()
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
		c.beginGet(x.state())
		var notFound []string
		n := 0
		put := func(i *identity) {
			if n++; n > 1 {
				c.out = append(c.out, ',')
			}
			c.out = i.append(c.out, g.wants)
		}
		if g.all {
			for i := range x.list {
				put(&x.list[i])
			}
		}
		for _, id := range g.ids {
			if i := x.find(id); i != nil {
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
		if err != nil || given != x.given || from > x.sequence {
			return mailbox.ErrForgotten
		}
		return c.identityChangesSince(x, since, from, limit)
	})
}

func (c *call) identityChangesSince(x *identities, since string, from int64, limit int) error {
	type change struct {
		seq int64
		id  string
		f   int // created, updated, destroyed
	}
	var list []change
	for i := range x.list {
		switch one := &x.list[i]; {
		case one.made > from && one.mayDelete:
			list = append(list, change{one.changed, one.id, 0})
		case one.changed > from:
			list = append(list, change{one.changed, one.id, 1})
		}
	}
	gone := x.items.Get(identityGone).AsTextList()
	for i, line := range gone {
		s, id, _ := strings.Cut(line, " ")
		seq, _ := strconv.ParseInt(s, 10, 64)
		if seq > from {
			list = append(list, change{seq, id, 2})
			if i == 0 && len(gone) >= maxIdentityGo {
				return mailbox.ErrForgotten
			}
		}
	}
	slices.SortFunc(list, func(a, b change) int { return int(a.seq - b.seq) })
	state, more := x.state(), false
	if limit > 0 && len(list) > limit {
		list, more = list[:limit], true
		state = strconv.FormatInt(list[limit-1].seq, 16) + "-" + x.given
	}
	var ids [3][]string
	for _, ch := range list {
		ids[ch.f] = append(ids[ch.f], ch.id)
	}
	c.appendIDChanges(since, state, more, ids)
	return nil
}

// appendIDChanges prints the response to a /changes; ids are those created, updated and destroyed.
func (c *call) appendIDChanges(since, state string, more bool, ids [3][]string) {
	o := newObject(c.out)
	o.text("accountId", c.account.ID)
	o.text("oldState", since)
	o.text("newState", state)
	o.bool("hasMoreChanges", more)
	for i, name := range []string{"created", "updated", "destroyed"} {
		o.list(name, ids[i]...)
	}
	c.out = o.end()
}

// readIdentity reads the properties of an identity that a client may set into i.
func readIdentity(v *jmap.Value, i *identity, create bool) error {
	var bad []string
	for k := range v.Len() {
		name, x := v.Name(k), v.At(k)
		text, ok := x.Text()
		switch name {
		case "name":
			ok = ok && len(text) <= 1000 && !strings.ContainsAny(text, "\r\n\x00")
			i.name = text
		case "email":
			ok = ok && create && validSender(text)
			i.email = text
		case "textSignature":
			ok = ok && len(text) <= maxSignature
			i.text = text
		case "htmlSignature":
			ok = ok && len(text) <= maxSignature
			i.html = text
		case "replyTo", "bcc":
			if _, ok = readAddresses(x); ok || x.IsNull() || x.Kind() == jmap.Array && x.Len() == 0 {
				ok = true
				json := ""
				if !x.IsNull() {
					json = string(x.Append(nil))
				}
				if name == "bcc" {
					i.bcc = json
				} else {
					i.replyTo = json
				}
			}
		case "id":
			ok = ok && !create && text == i.id
		case "mayDelete":
			on, isBool := x.Bool()
			ok = !create && isBool && on == i.mayDelete
		default:
			ok = false
		}
		if !ok {
			bad = append(bad, name)
		}
	}
	if create && i.email == "" && !slices.Contains(bad, "email") {
		bad = append(bad, "email")
	}
	if bad != nil {
		return badProperties("", bad...)
	}
	return nil
}

// validSender says whether a string is one mailbox's address, or any of a domain ("*@example.com").
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
	profile := c.account.File.ProfileID(identitiesProfile)
	made := make([]identity, len(s.create))
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
			before = x.state()
			if err := s.mismatch(before); err != nil {
				return mailbox.Abort(err)
			}
		}
		after = x.state()
		x.sequence++
		var item string
		var v note.Value
		switch {
		case i < nc:
			if bad[i] != nil {
				return bad[i]
			}
			if len(x.list) >= maxIdentities {
				return &jmap.Error{Type: "overQuota", Description: fmt.Sprintf("There are at most %d identities.", maxIdentities)}
			}
			made[i].made, made[i].changed = x.sequence, x.sequence
			item, v = made[i].id, note.TextList(made[i].columns()...)
		case i < nc+nu:
			one := x.find(s.update[i-nc].real)
			if one == nil {
				return &jmap.Error{Type: "notFound"}
			}
			if err := readIdentity(s.update[i-nc].object, one, false); err != nil {
				return err
			}
			one.changed = x.sequence
			item, v = one.id, note.TextList(one.columns()...)
		case i < nc+nu+len(s.destroy):
			one := x.find(s.destroy[i-nc-nu])
			if one == nil {
				return &jmap.Error{Type: "notFound"}
			}
			if !one.mayDelete {
				return &jmap.Error{Type: "forbidden", Description: "An identity that the directory gives stays."}
			}
			item = one.id
		default:
			return nil // the last item only looks at the state
		}
		return w.PutProfile(profile, x.with(item, v))
	})
	if err != nil {
		return err
	}
	for i, err := range res.Errs[:nc+nu+len(s.destroy)] {
		switch {
		case i < nc && err == nil:
			s.made(s.create[i].id, made[i].id, made[i].created(s.create[i].object))
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

// makeIdentity makes one: the address must be one that the person may write from.
func (c *call) makeIdentity(v *jmap.Value) (i identity, err error) {
	if err := readIdentity(v, &i, true); err != nil {
		return i, err
	}
	right, err := c.s.backend.SendRight(c.ctx, c.caller.Who, i.email)
	if err == nil && right == directory.SendNever {
		err = &jmap.Error{Type: "forbiddenFrom", Description: "The address is not one of yours."}
	}
	var u note.UNID
	c.s.env.Fill(u[:])
	i.id, i.mayDelete = idOf(letterIdentity, u), true
	return i, err
}

// created is what the client did not say of an identity that it made.
func (i *identity) created(v *jmap.Value) []byte {
	return i.append(nil, func(p string) bool { return v.Get(p) == nil })
}

// with is the items of the profile note with one identity set, or gone where v is nil.
func (x *identities) with(id string, v note.Value) note.Items {
	items := x.items.With(identityItem+id, v).With(identitySequence, note.Int(x.sequence))
	if items.Get("Form") == nil {
		items = items.With("Form", note.Text(identitiesProfile))
	}
	if v == nil {
		gone := append(items.Get(identityGone).AsTextList(), strconv.FormatInt(x.sequence, 10)+" "+id)
		items = items.With(identityGone, note.TextList(gone[max(0, len(gone)-maxIdentityGo):]...))
	}
	return items
}
