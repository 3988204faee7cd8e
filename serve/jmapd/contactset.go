package jmapd

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"doublet/contact"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// contactCardSet answers ContactCard/set.
//
// Implements: RFC 9610 §3.5 ContactCard/set
func contactCardSet(c *call) error {
	s, err := c.setArguments(false)
	if err != nil {
		return err
	}
	x := &cardSetting{set: s}
	return x.run(func() { s.append(x.before, x.after) })
}

// cardSetting is a ContactCard/set or /copy in progress.
type cardSetting struct {
	*set
	file             *groupware.File
	books            owned
	have             map[note.UNID]*cardOf
	creates, updates []cardWrite // parallel to create and update
	before, after    string
	createdAt        []note.UNID // parallel to create
}

// cardWrite is a card to be written: its new content, or the reason why it is not written.
type cardWrite struct {
	err    error
	card   contact.Card
	parsed *groupware.Parsed // nil for an update that only moves the card
	etag   string
	book   string // name of the address book
	told   []byte // the properties that the server changed, as JSON
}

// maxRaces bounds how often a /set starts again because a card has changed since it was read.
const maxRaces = 10

// run makes the changes, and then calls answer.
func (x *cardSetting) run(answer func()) (err error) {
	if x.file, err = x.c.box(); err != nil {
		return err
	}
	if x.books, err = x.c.collectionsOf(addressBooks); err != nil {
		return err
	}
	for range maxRaces {
		err = x.try()
		if errors.Is(err, groupware.ErrChanged) {
			continue
		}
		if err == nil {
			answer()
		}
		return err
	}
	return &jmap.Error{Type: "serverUnavailable", Description: "The cards change all the time."}
}

// try makes the changes once.
func (x *cardSetting) try() error {
	defer x.release()
	if err := x.prepare(); err != nil {
		return err
	}
	return x.commit()
}

// commit makes the changes that prepare has prepared. It returns groupware.ErrChanged if a card has changed since.
func (x *cardSetting) commit() error {
	x.createdAt = make([]note.UNID, len(x.set.create))
	errs, before, after, err := x.set.changeGroupware(x.file, groupware.AddressBook, ofEntries,
		&groupwareSteps{create: x.create, update: x.update, destroy: x.destroy})
	if err != nil {
		return err
	}
	x.before, x.after = before, after
	x.set.record(errs, x.created)
	for i := range x.updates {
		id := x.set.update[i].id
		for k := range x.set.updated {
			if x.set.updated[k].id == id {
				x.set.updated[k].json = x.updates[i].told
			}
		}
	}
	return nil
}

func (x *cardSetting) release() {
	for _, list := range [][]cardWrite{x.creates, x.updates} {
		for i := range list {
			if p := list[i].parsed; p != nil {
				p.Release()
			}
		}
	}
	x.creates, x.updates = nil, nil
}

// prepare makes the vCards outside of the update, which must not take long.
func (x *cardSetting) prepare() error {
	x.have = map[note.UNID]*cardOf{}
	var ids []string
	for _, p := range x.set.update {
		ids = append(ids, p.real)
	}
	var inner error
	err := x.file.ByID(x.c.ctx, groupware.AddressBook, cardUNIDs(ids), true, func(e *groupware.Entry) bool {
		if inner = x.c.hold(int64(e.Size) * cardCost); inner != nil {
			return false
		}
		if card, err := readCard(e); err == nil {
			x.have[e.UNID] = card
		}
		return true
	})
	if err = errors.Join(err, inner); err != nil {
		return err
	}
	for _, p := range x.set.create {
		w := cardWrite{}
		w.err = x.new(&w, contact.Parse(p.object))
		x.creates = append(x.creates, w)
	}
	for _, p := range x.set.update {
		w := cardWrite{}
		w.err = x.patch(&w, &p)
		x.updates = append(x.updates, w)
	}
	return nil
}

// now returns the time in the form of a UTCDate.
func (x *cardSetting) now() string { return x.c.s.env.Clock.Now().UTC().Format(time.RFC3339) }

// new makes the vCard of a new card.
func (x *cardSetting) new(w *cardWrite, card contact.Card) (err error) {
	if _, ok := card["id"]; ok {
		return badProperties("The server sets it.", "id")
	}
	if w.book, err = x.book(card); err != nil {
		return err
	}
	delete(card, "addressBookIds")
	if _, ok := card["uid"]; !ok {
		card["uid"] = x.newUID()
	}
	for _, name := range []string{"created", "updated"} {
		if _, ok := card[name]; !ok {
			card[name] = x.now()
		}
	}
	uid, _ := card["uid"].(string)
	return x.content(w, contact.New(uid), card, note.UNID{})
}

// newUID returns a UID for a card that has none.
func (x *cardSetting) newUID() string {
	name, _, _ := strings.Cut(x.c.s.backend.Groupware().NewName(groupware.AddressBook), ".")
	b, _ := hex.DecodeString(name) //nolint:errcheck // NewName returns hex
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// book returns the name of the address book of the property addressBookIds, and that of the default one without it.
func (x *cardSetting) book(card contact.Card) (string, error) {
	v, ok := card["addressBookIds"]
	if !ok {
		for i := range x.books.list {
			if x.books.list[i].Default {
				return x.books.list[i].Name, nil
			}
		}
		return "", badProperties("It is missing.", "addressBookIds")
	}
	ids, _ := v.(contact.Card)
	if len(ids) != 1 {
		return "", badProperties("A card is in one AddressBook.", "addressBookIds")
	}
	for id, on := range ids {
		real, _ := x.c.real(id)
		if b := x.books.find(letterBook)(real); b != nil && on == true {
			return b.Name, nil
		}
	}
	return "", badProperties("There is no such AddressBook.", "addressBookIds")
}

// content makes the vCard with a card, from the vCard before.
func (x *cardSetting) content(w *cardWrite, before *ical.Component, card contact.Card, id note.UNID) error {
	if err := x.inline(card, id); err != nil {
		return err
	}
	card, bad := contact.Check(card)
	if bad != nil {
		return badProperties("They are not as RFC 9553 has them, or are missing.", bad...)
	}
	w.card = card
	text := ical.Append(nil, contact.Apply(before, card))
	p, err := x.books.file.Parse(x.c.ctx, groupware.AddressBook, text)
	w.parsed = p
	return cardError(err)
}

// inline replaces blobs in the media of a card by data: URIs. id is the card that a client changes: its blobs may be
// sent back.
//
// Implements: RFC 9610 §3 blobId of Media
func (x *cardSetting) inline(card contact.Card, id note.UNID) error {
	media, _ := card["media"].(contact.Card)
	for key, v := range media {
		item, _ := v.(contact.Card)
		blobID, ok := item["blobId"].(string)
		if !ok {
			continue
		}
		if _, both := item["uri"]; both {
			return badProperties("It has a uri, or a blobId.", "media/"+key)
		}
		uri, err := x.blobURI(blobID, item["mediaType"], id)
		if err != nil {
			return err
		}
		item = maps.Clone(item)
		delete(item, "blobId")
		delete(item, "mediaType") // it is in the URI
		item["uri"] = uri
		media[key] = item
	}
	return nil
}

// blobURI returns a blob as a data: URI.
func (x *cardSetting) blobURI(id string, kind any, card note.UNID) (string, error) {
	if have := x.have[card]; have != nil {
		media, _ := have.card["media"].(contact.Card)
		for _, v := range media {
			item, _ := v.(contact.Card)
			if uri, _ := item["uri"].(string); mediaBlob(card, uri).String() == id {
				return uri, nil
			}
		}
	}
	b, err := x.c.openBlob(x.c.account, id)
	if err != nil {
		return "", err
	}
	defer b.close()
	if b.size > groupware.MaxEntry/2 {
		return "", groupware.ErrTooLarge
	}
	if err := x.c.hold(cardCost * b.size); err != nil {
		return "", err
	}
	content, err := b.all()
	if err != nil {
		return "", err
	}
	name, ok := kind.(string)
	if !ok {
		name = b.kind
	}
	return "data:" + name + ";base64," + base64.StdEncoding.EncodeToString(content), nil
}

// cardFixed are the properties that stay as they were created.
var cardFixed = []string{"id", "uid", "@type", "version"}

// patch makes the vCard of a card that a client changes.
func (x *cardSetting) patch(w *cardWrite, p *patch) error {
	u, _ := parseID(letterCard, p.real)
	have := x.have[u]
	if have == nil {
		return &jmap.Error{Type: "notFound"}
	}
	w.etag = have.entry.ETag
	object := have.object()
	current, err := asValue(object)
	if err != nil { // a card of CardDAV can have more parameters than a JSON value may have members
		return groupware.ErrTooLarge
	}
	k := kind{fixed: oneOf(cardFixed...), mutable: cardProperties}
	for i := range p.object.Len() {
		if name, _, _ := strings.Cut(p.object.Name(i), "/"); strings.Contains(name, ":") {
			k.mutable = append(slices.Clip(k.mutable), jmap.PointerToken(name))
		}
	}
	return k.apply(p.object, current, func(changed *jmap.Value) error {
		for i := range changed.Len() {
			if v := changed.At(i); v.IsNull() {
				delete(object, changed.Name(i))
			} else {
				object[changed.Name(i)] = decodeCard(v)
			}
		}
		onlyMoved := changed.Len() == 1 && changed.Get("addressBookIds") != nil
		if w.book, err = x.book(object); err != nil || changed.Len() == 0 || onlyMoved {
			return err
		}
		if changed.Get("updated") == nil {
			now := x.now()
			object["updated"] = now
			w.told = jmap.MakeObject([]string{"updated"}, []jmap.Value{jmap.Text(now)}).Append(nil)
		}
		delete(object, "id")
		delete(object, "addressBookIds")
		return x.content(w, have.vcard, object, u)
	})
}

// decodeCard decodes a JSON value of any type.
func decodeCard(v *jmap.Value) any {
	return contact.Parse(jmap.MakeObject([]string{"v"}, []jmap.Value{*v}))["v"]
}

func (x *cardSetting) create(w *groupware.Changing, i int) error {
	p := &x.creates[i]
	if p.err != nil {
		return p.err
	}
	name := x.c.s.backend.Groupware().NewName(groupware.AddressBook)
	e, _, err := w.Put(groupware.AddressBook, p.book, name, p.parsed, groupware.Condition{New: true})
	x.createdAt[i] = e.UNID
	return cardError(err)
}

// created returns the id of the i-th new card, and the properties that the client did not send.
func (x *cardSetting) created(i int) (string, []byte) {
	id := idOf(letterCard, x.createdAt[i])
	made := cardOf{card: x.creates[i].card}
	made.entry.UNID = x.createdAt[i]
	for k := range x.books.list {
		if x.books.list[k].Name == x.creates[i].book {
			made.entry.Collection = x.books.list[k].UNID
		}
	}
	object, err := asValue(made.object())
	if err != nil {
		return id, nil
	}
	return id, told(x.set.create[i].object, object)
}

func (x *cardSetting) update(w *groupware.Changing, i int) error {
	p := &x.updates[i]
	if p.err != nil {
		return p.err
	}
	u, _ := parseID(letterCard, x.set.update[i].real)
	e, place, err := w.Locate(groupware.AddressBook, u)
	if err != nil {
		return err
	}
	if e.ETag != p.etag {
		return store.Abort(groupware.ErrChanged)
	}
	if place.Collection != p.book {
		if err := w.Shift(groupware.AddressBook, u, p.book); err != nil {
			return cardError(err)
		}
	}
	if p.parsed == nil {
		return nil
	}
	_, _, err = w.Put(groupware.AddressBook, p.book, place.Name, p.parsed, groupware.Condition{Old: true})
	return cardError(err)
}

func (x *cardSetting) destroy(w *groupware.Changing, id string) error {
	u, _ := parseID(letterCard, id)
	_, place, err := w.Locate(groupware.AddressBook, u)
	if err != nil {
		return err
	}
	return w.Remove(groupware.AddressBook, place.Collection, place.Name, groupware.Condition{})
}

// cardError converts the errors of a card that an address book does not take.
func cardError(err error) error {
	var conflict *groupware.UIDConflictError
	switch {
	case errors.As(err, &conflict):
		return badProperties("Another card of the AddressBook has this uid.", "uid")
	case errors.Is(err, groupware.ErrExists):
		return badProperties("Another card of the AddressBook has its name in CardDAV.", "addressBookIds")
	case errors.Is(err, groupware.ErrInvalid):
		return badProperties(err.Error())
	}
	return err
}
