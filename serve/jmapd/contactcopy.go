package jmapd

import (
	"errors"

	"doublet/contact"
	"doublet/groupware"
	"doublet/wire/jmap"
)

// contactCardCopy answers ContactCard/copy.
//
// Implements: RFC 9610 §3.6 ContactCard/copy
func contactCardCopy(c *call) error {
	from, err := c.twoAccounts("ifFromInState", "ifInState", "create", "onSuccessDestroyOriginal",
		"destroyFromIfInState")
	if err != nil {
		return err
	}
	if err := c.needWritable(); err != nil {
		return err
	}
	if from.ID == c.account.ID {
		return invalid("a card is copied into another account")
	}
	destroy, err := c.bool("onSuccessDestroyOriginal", false)
	if err != nil {
		return err
	}
	x := &cardSetting{set: &set{c: c}}
	if err := x.condition(); err != nil {
		return err
	}
	if err := x.creations("create"); err != nil {
		return err
	}
	copied, err := x.originals(from)
	if err != nil {
		return err
	}
	if err := x.run(func() { x.appendCopied(from) }); err != nil {
		return err
	}
	var gone []string
	for _, e := range x.set.created {
		gone = append(gone, copied[e.id])
	}
	if destroy && len(gone) > 0 {
		c.implicit = func() { c.destroyCopied(from, "ContactCard/set", gone) }
	}
	return nil
}

func (x *cardSetting) appendCopied(from *Account) {
	o := jmap.NewWriter(x.c.out)
	o.Text("fromAccountId", from.ID)
	o.Text("accountId", x.c.account.ID)
	o.Text("oldState", x.before)
	o.Text("newState", x.after)
	x.c.appendBoth(&o, "created", x.set.created, "notCreated", x.notCreated)
	x.c.out = o.End()
}

// originals replaces the creations by whole cards: the originals with the properties that the client sent. It returns
// the ids of the originals by creation id.
func (x *cardSetting) originals(from *Account) (map[string]string, error) {
	c, ids := x.c, map[string]string{}
	f := c.s.backend.Groupware().File(c.caller.Who, from.Database)
	if state, err := c.text("ifFromInState"); err != nil || state != "" {
		m, err2 := f.Moments(c.ctx, groupware.AddressBook)
		if err = errors.Join(err, err2); err != nil {
			return nil, err
		}
		if m.Entries.String() != state {
			return nil, &jmap.Error{Type: "stateMismatch"}
		}
	}
	var left []creation
	for _, p := range x.set.create {
		id, _ := p.object.Get("id").Text()
		id, _ = c.real(id)
		var object *jmap.Value
		var inner error
		err := f.ByID(c.ctx, groupware.AddressBook, cardUNIDs([]string{id}), true, func(e *groupware.Entry) bool {
			if inner = c.hold(int64(e.Size) * cardCost); inner == nil {
				object, inner = copyOf(e, p.object)
			}
			return false
		})
		if err = errors.Join(err, inner); err != nil {
			return nil, err
		}
		if object == nil {
			x.notCreated = append(x.notCreated, failure{p.id, &jmap.Error{Type: "notFound"}})
			continue
		}
		ids[p.id] = id
		left = append(left, creation{p.id, object})
	}
	x.set.create = left
	return ids, nil
}

// copyOf returns a card to create: an original, with its media as data: URIs, and the properties that the client sent.
func copyOf(e *groupware.Entry, sent *jmap.Value) (*jmap.Value, error) {
	x, err := readCard(e)
	if err != nil {
		return nil, err
	}
	card := contact.Card{}
	for name, v := range x.card {
		card[name] = v
	}
	for name, v := range contact.Parse(sent) {
		if name != "id" {
			card[name] = v
		}
	}
	return asValue(card)
}
