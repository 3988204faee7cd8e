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
	begun, err := c.beginCopy("a card")
	if err != nil {
		return err
	}
	x := &cardSetting{set: begun.set}
	copied, err := x.originals(&begun)
	if err != nil {
		return err
	}
	return x.run(func() {
		var gone []string
		for _, e := range x.set.created {
			gone = append(gone, copied[e.id])
		}
		begun.end(x.before, x.after, "ContactCard/set", gone)
	})
}

// originals replaces the creations by whole cards: the originals with the properties that the client sent. It returns
// the ids of the originals by creation id.
func (x *cardSetting) originals(begun *copying) (map[string]string, error) {
	c, ids := x.c, map[string]string{}
	f, err := begun.source(groupware.AddressBook)
	if err != nil {
		return nil, err
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
