package jmapd

import (
	"encoding/base64"
	"errors"
	"hash/fnv"
	"slices"
	"strings"

	"doublet/contact"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// letterMedia begins the id of a blob that is a data: URI in the media of a ContactCard. Its steps are a hash.
const letterMedia = 'g'

// cardOf is a ContactCard that was read.
type cardOf struct {
	entry groupware.Entry
	vcard *ical.Component
	card  contact.Card // as in the vCard, with data: URIs
}

// readCard parses the vCard of an entry.
func readCard(e *groupware.Entry) (*cardOf, error) {
	v, err := ical.Parse(e.Text, contact.Limits)
	if err != nil {
		return nil, err
	}
	return &cardOf{entry: *e, vcard: v, card: contact.Read(v)}, nil
}

// object returns the ContactCard as ContactCard/get shows it: with ids, and with blobs in place of data: URIs.
//
// Implements: RFC 9610 §3 ContactCards
func (x *cardOf) object() contact.Card {
	out := contact.Card{}
	for name, v := range x.card {
		out[name] = v
	}
	out["id"] = idOf(letterCard, x.entry.UNID)
	out["addressBookIds"] = contact.Card{idOf(letterBook, x.entry.Collection): true}
	media, _ := x.card["media"].(contact.Card)
	if media == nil {
		return out
	}
	shown := contact.Card{}
	for key, v := range media {
		item, _ := v.(contact.Card)
		uri, _ := item["uri"].(string)
		kind, _, ok := dataURI(uri)
		if !ok {
			shown[key] = v
			continue
		}
		copied := contact.Card{"mediaType": kind}
		for name, value := range item {
			if name != "uri" {
				copied[name] = value
			}
		}
		copied["blobId"] = mediaBlob(x.entry.UNID, uri).String()
		shown[key] = copied
	}
	out["media"] = shown
	return out
}

// mediaBlob identifies a data: URI of a card. The id changes with the content, because blobs do not change.
func mediaBlob(card note.UNID, uri string) blobRef {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uri))
	sum := h.Sum64()
	const bits = 1<<20 - 1
	return blobRef{letterMedia, card, []int{int(sum & bits), int(sum >> 20 & bits), int(sum >> 40 & bits)}}
}

// dataURI decodes a data: URI in base64 (RFC 2397).
func dataURI(uri string) (kind string, content []byte, ok bool) {
	rest, ok := strings.CutPrefix(uri, "data:")
	kind, data, based := strings.Cut(rest, ";base64,")
	if !ok || !based {
		return "", nil, false
	}
	content, err := base64.StdEncoding.DecodeString(data)
	if kind == "" {
		kind = "application/octet-stream"
	}
	return kind, content, err == nil
}

// openMedia opens the blob of a data: URI in a card.
func (c *call) openMedia(a *Account, ref blobRef) (out *blob, err error) {
	f := c.s.backend.Groupware().File(c.caller.Who, a.Database)
	err = f.ByID(c.ctx, groupware.AddressBook, []note.UNID{ref.unid}, true, func(e *groupware.Entry) bool {
		x, err := readCard(e)
		if err != nil {
			return false
		}
		media, _ := x.card["media"].(contact.Card)
		for _, v := range media {
			item, _ := v.(contact.Card)
			uri, _ := item["uri"].(string)
			kind, content, ok := dataURI(uri)
			if ok && mediaBlob(e.UNID, uri).String() == ref.String() {
				out = memoryBlob(content, kind)
			}
		}
		return false
	})
	if err == nil && out == nil {
		err = errNoBlob
	}
	return out, err
}

// cardProperties are the properties of a ContactCard. A client may ask for extensions too, whose names have a colon.
var cardProperties = slices.Concat([]string{"id", "addressBookIds"}, contact.Properties)

// contactCardGet answers ContactCard/get.
//
// Implements: RFC 9610 §3.1 ContactCard/get
func contactCardGet(c *call) error {
	g, err := c.getArguments(false, nil)
	if err != nil {
		return err
	}
	for _, p := range g.properties {
		if !slices.Contains(cardProperties, p) && !strings.Contains(p, ":") {
			return invalid("%.100q is no property", p)
		}
	}
	f, err := c.box()
	if err != nil {
		return err
	}
	m, err := f.Moments(c.ctx, groupware.AddressBook)
	if err != nil {
		return err
	}
	g.begin(m.Entries.String())
	if err := g.cards(f); err != nil {
		return err
	}
	g.end()
	return nil
}

// cards appends the cards.
func (g *get) cards(f *groupware.File) error {
	var inner error
	put := func(e *groupware.Entry) bool {
		inner = g.card(e)
		return inner == nil
	}
	if g.all {
		n := 0
		err := f.All(g.c.ctx, groupware.AddressBook, true, func(e *groupware.Entry) bool {
			if n++; n > g.c.s.opt.Limits.ObjectsInGet {
				inner = tooLarge("There are more cards than maxObjectsInGet.")
				return false
			}
			return put(e)
		})
		return errors.Join(err, inner)
	}
	found := make(map[string]bool, len(g.ids))
	ids := cardUNIDs(g.ids)
	err := f.ByID(g.c.ctx, groupware.AddressBook, ids, true, func(e *groupware.Entry) bool {
		found[idOf(letterCard, e.UNID)] = true
		return put(e)
	})
	for _, id := range g.ids {
		if !found[id] {
			g.miss(id)
		}
	}
	return errors.Join(err, inner)
}

// cardUNIDs returns the UNIDs of those ids that are ids of cards.
func cardUNIDs(ids []string) (out []note.UNID) {
	for _, id := range ids {
		if u, ok := parseID(letterCard, id); ok {
			out = append(out, u)
		}
	}
	return out
}

// cardCost is about the memory that a card takes while it is printed, for each byte of its vCard.
const cardCost = 12

// card appends one card.
func (g *get) card(e *groupware.Entry) error {
	cost := int64(e.Size) * cardCost
	if err := g.c.hold(cost); err != nil {
		return err
	}
	defer g.c.mem.drop(cost)
	x, err := readCard(e)
	if err != nil {
		return err
	}
	object := x.object()
	for name := range object {
		if !g.wants(name) {
			delete(object, name)
		}
	}
	g.next()
	g.c.out = object.Append(g.c.out)
	return g.c.settle()
}

// contactCardChanges answers ContactCard/changes.
//
// Implements: RFC 9610 §3.2 ContactCard/changes
func contactCardChanges(c *call) error {
	return c.groupwareChanges(groupware.AddressBook, letterCard, (*groupware.File).EntryChanges)
}

// asValue returns a card as a JSON value.
func asValue(x contact.Card) (*jmap.Value, error) {
	return jmap.Parse(string(x.Append(nil)), jmap.Bounds{})
}
