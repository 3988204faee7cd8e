package lite

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/contact"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/smtp"
)

// contactForm is a contact as its form shows it. What the form does not show stays as it is on the card.
type contactForm struct {
	Given, Surname, Nickname, Organization, Job        string
	Street, Postcode, Locality, Region, Country, Notes string
	Birthday                                           string
	Emails, Phones                                     []contactValue
}

// valuesOnForm bounds the addresses and the numbers that a form shows; others stay on the card. blankValues are offered
// to add.
const (
	valuesOnForm = 10
	blankValues  = 2
)

// contactFormPage is the form of a contact.
type contactFormPage struct {
	*frame
	contactForm
	ID, ETag, Cancel string
	Books            []target // of a new contact
	Kinds            []choice
}

// firstText returns the member of the first item of a property.
func (x *contactOf) firstText(property, member string) string {
	if list := x.values(property, member); len(list) > 0 {
		return list[0].Text
	}
	return ""
}

// readContactForm returns the form of a contact.
func readContactForm(x *contactOf) contactForm {
	name, _ := x.card["name"].(contact.Card)
	f := contactForm{Given: components(name, "given"), Surname: components(name, "surname"),
		Nickname: x.firstText("nicknames", "name"), Organization: x.firstText("organizations", "name"),
		Job: x.firstText("titles", "name"), Notes: x.firstText("notes", "note"),
		Birthday: anniversaryOf(x.card, "birth"), Emails: x.values("emails", "address"),
		Phones: x.values("phones", "number")}
	if list, _ := name["components"].([]any); len(list) == 0 {
		full, _ := name["full"].(string)
		if at := strings.LastIndexByte(full, ' '); at >= 0 {
			f.Given, f.Surname = full[:at], full[at+1:]
		} else {
			f.Given = full
		}
	}
	_, address := firstItem(x.card, "addresses")
	f.Street, f.Postcode, f.Locality = components(address, streets...), components(address, "postcode"),
		components(address, "locality")
	f.Region, f.Country = components(address, "region"), components(address, "country")
	f.Emails, f.Phones = f.Emails[:min(len(f.Emails), valuesOnForm)], f.Phones[:min(len(f.Phones), valuesOnForm)]
	return f
}

// firstItem returns the first item of a property and its id, which is "" for none.
func firstItem(card contact.Card, property string) (string, contact.Card) {
	items, _ := card[property].(contact.Card)
	for _, id := range slices.Sorted(maps.Keys(items)) {
		item, _ := items[id].(contact.Card)
		return id, item
	}
	return "", nil
}

// givenContact reads the form that the user sent.
func (v *visit) givenContact() contactForm {
	f := v.form
	values := func(name string) (list []contactValue) {
		texts, ids, kinds := f.Values[name], f.Values[name+"id"], f.Values[name+"kind"]
		for i := range texts[:min(len(texts), valuesOnForm+blankValues)] {
			if i < len(ids) && i < len(kinds) {
				list = append(list, contactValue{ids[i], strings.TrimSpace(texts[i]), kinds[i]})
			}
		}
		return list
	}
	return contactForm{Given: f.line("given"), Surname: f.line("surname"), Nickname: f.line("nickname"),
		Organization: f.line("organization"), Job: f.line("job"), Street: f.line("street"),
		Postcode: f.line("postcode"),
		Locality: f.line("locality"), Region: f.line("region"), Country: f.line("country"),
		Notes: strings.TrimRight(f.Get("notes"), "\n"), Birthday: f.line("birthday"), Emails: values("email"),
		Phones: values("phone")}
}

// showContactForm shows a form; x is nil for a new contact, and why the reason for which the form was refused, or nil.
func (v *visit) showContactForm(p *planner, x *contactOf, f contactForm, why error) error {
	title := "conNew"
	if x != nil {
		title = "conEdit"
	}
	fr, _, err := v.framed(title, note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "contacts"
	page := &contactFormPage{frame: fr, contactForm: f, Cancel: v.at(pathContacts), ETag: v.form.Get("state")}
	if x == nil {
		if page.Books, err = p.bookTargets(v.form.Get("book")); err != nil {
			return err
		}
	} else {
		page.ID, page.ETag = x.UNID.String(), cmp.Or(page.ETag, x.ETag)
		page.Cancel = v.at(pathContact, "c", page.ID)
	}
	for _, list := range []*[]contactValue{&page.Emails, &page.Phones} {
		*list = slices.DeleteFunc(*list, func(x contactValue) bool { return x.ID == "" && x.Text == "" })
		for blank := 0; blank < blankValues && len(*list) < valuesOnForm+blankValues; blank++ {
			*list = append(*list, contactValue{})
		}
	}
	for _, k := range []string{"", "private", "work", "mobile"} {
		page.Kinds = append(page.Kinds, choice{Value: k, Name: v.T("conKind_" + cmp.Or(k, "other"))})
	}
	status := http.StatusOK
	if why != nil {
		var known *problem
		key := ""
		if status, key = refusal(why); errors.As(why, &known) {
			status = http.StatusBadRequest
			fr.say(known.key, true, known.values...)
		} else {
			fr.say(key, true)
		}
	}
	v.s.show(v.w, status, "contactform.html", page)
	return nil
}

// bookTargets returns the address books that take new contacts; chosen is the name of the one that is selected, "" for
// the default.
func (p *planner) bookTargets(chosen string) (list []target, err error) {
	books, err := p.books(note.Insert)
	for i := range books[:min(len(books), maxTargets)] {
		t := target{books[i].Name, fit(books[i].Title, 60, 100)}
		if books[i].Default && chosen == "" || books[i].Name == chosen {
			list = append([]target{t}, list...)
		} else {
			list = append(list, t)
		}
	}
	if err == nil && len(books) == 0 {
		err = store.ErrDenied
	}
	return list, err
}

// changeContact writes or deletes a contact.
func (v *visit) changeContact() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	switch v.form.Get("do") {
	case "save":
		return v.saveContact(p)
	case "delete":
		return v.deleteContact(p)
	}
	return errForm
}

func (v *visit) deleteContact(p *planner) error {
	x, in, err := p.contactNamed()
	if err != nil {
		return err
	}
	if err := p.Remove(v.ctx, groupware.AddressBook, in.Name, x.Name,
		groupware.Condition{ETag: v.form.Get("state")}); err != nil {
		return err
	}
	return v.leave(pathContacts, "said", "conDeleted")
}

func (v *visit) saveContact(p *planner) error {
	given := v.givenContact()
	var x *contactOf
	var in *groupware.Collection
	at, condition := groupware.Place{Collection: v.form.Get("book"), Name: v.s.plans.NewName(groupware.AddressBook)},
		groupware.Condition{New: true}
	vcard, before := contact.New(newCardUID(at.Name)), contactForm{}
	if v.form.Get("c") != "" {
		var err error
		if x, in, err = p.contactNamed(); err != nil {
			return err
		}
		vcard, before = x.vcard, readContactForm(x)
		at, condition = groupware.Place{Collection: in.Name, Name: x.Name},
			groupware.Condition{ETag: v.form.Get("state")}
	}
	err := given.check()
	if err == nil {
		err = p.putContact(at, condition, vcard, before, given)
	}
	if err != nil {
		if status, _ := refusal(err); status == http.StatusServiceUnavailable && !errors.As(err, new(*problem)) {
			return err
		}
		return v.showContactForm(p, x, given, err)
	}
	return v.leave(pathContacts, "said", "saved")
}

// newCardUID returns a UID for the contact of a new name: a UUID (RFC 9562, version 4).
func newCardUID(name string) string {
	b, _ := hex.DecodeString(strings.TrimSuffix(name, ".vcf")) //nolint:errcheck // NewName returns hex
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// putContact writes a contact with the differences between two forms of it.
func (p *planner) putContact(at groupware.Place, x groupware.Condition, vcard *ical.Component, before,
	given contactForm) error {
	card := given.apply(before, contact.Read(vcard))
	card["updated"] = p.v.s.env.Clock.Now().UTC().Format(time.RFC3339)
	card, bad := contact.Check(card)
	if bad != nil {
		return &problem{"conBad", nil}
	}
	text := ical.Append(nil, contact.Apply(vcard, card))
	_, _, err := p.Put(p.v.ctx, groupware.AddressBook, at.Collection, at.Name, text, x)
	if errors.Is(err, groupware.ErrInvalid) {
		err = &problem{"conBad", nil}
	}
	return err
}

// check returns the reason for which a form is not stored.
func (f *contactForm) check() error {
	some := f.Given + f.Surname + f.Nickname + f.Organization
	for _, e := range f.Emails {
		some += e.Text
		if _, err := smtp.ParsePath(e.Text); e.Text != "" && err != nil {
			return &problem{"badAddress", []any{clip(e.Text, 100)}}
		}
	}
	for _, n := range f.Phones {
		some += n.Text
	}
	if some == "" {
		return &problem{"conEmpty", nil}
	}
	if f.Birthday != "" && birthValue(f.Birthday) == nil {
		return &problem{"calBadTime", nil}
	}
	return nil
}

// birthValue returns the date of a day 1990-02-28, or --02-28 without a year; nil for other texts.
func birthValue(s string) contact.Card {
	day, yearless := strings.CutPrefix(s, "--")
	if yearless {
		day = "2000-" + day
	}
	t, err := time.Parse(dayLayout, day)
	if err != nil {
		return nil
	}
	out := contact.Card{"@type": "PartialDate", "month": float64(t.Month()), "day": float64(t.Day())}
	if !yearless {
		out["year"] = float64(t.Year())
	}
	return out
}

// apply puts the differences between two forms on a card.
func (f *contactForm) apply(was contactForm, card contact.Card) contact.Card {
	if f.Given != was.Given || f.Surname != was.Surname {
		setComponents(card, "name", map[string]string{"given": f.Given, "surname": f.Surname}, []string{"given",
			"surname"})
	}
	for _, x := range []struct{ was, is, property, member string }{
		{was.Nickname, f.Nickname, "nicknames", "name"}, {was.Organization, f.Organization, "organizations", "name"},
		{was.Job, f.Job, "titles", "name"}, {was.Notes, f.Notes, "notes", "note"},
	} {
		if x.was != x.is {
			id, _ := firstItem(card, x.property)
			setItem(card, x.property, id, x.member, x.is, nil)
		}
	}
	if f.Birthday != was.Birthday {
		id, _ := anniversaryItem(card, "birth")
		items := itemsOf(card, "anniversaries")
		if id = cmp.Or(id, newID(items)); f.Birthday == "" {
			delete(items, id)
		} else {
			items[id] = contact.Card{"@type": "Anniversary", "kind": "birth", "date": birthValue(f.Birthday)}
		}
		setItems(card, "anniversaries", items)
	}
	f.applyAddress(was, card)
	applyValues(card, "emails", "address", was.Emails, f.Emails)
	applyValues(card, "phones", "number", was.Phones, f.Phones)
	return card
}

// applyAddress puts a changed address on a card.
func (f *contactForm) applyAddress(was contactForm, card contact.Card) {
	parts := map[string]string{}
	for _, x := range []struct{ kind, was, is string }{{"name", was.Street, f.Street},
		{"postcode", was.Postcode, f.Postcode}, {"locality", was.Locality, f.Locality},
		{"region", was.Region, f.Region}, {"country", was.Country, f.Country}} {
		if x.was != x.is {
			parts[x.kind] = x.is
		}
	}
	if len(parts) == 0 {
		return
	}
	items := itemsOf(card, "addresses")
	id, item := firstItem(card, "addresses")
	if item = maps.Clone(item); item == nil {
		item = contact.Card{}
	}
	if _, changed := parts["name"]; changed {
		for _, kind := range streets { // the form shows them all in one line
			if kind != "name" {
				parts[kind] = ""
			}
		}
	}
	holder := contact.Card{"a": item}
	setComponents(holder, "a", parts, []string{"name", "postcode", "locality", "region", "country"})
	id = cmp.Or(id, newID(items))
	if next, _ := holder["a"].(contact.Card); next == nil {
		delete(items, id)
	} else {
		items[id] = next
	}
	setItems(card, "addresses", items)
}

// setComponents sets components of a name or an address by kind, "" to remove them. The other components stay. The
// whole text is derived from them again.
func setComponents(card contact.Card, property string, parts map[string]string, order []string) {
	item, _ := card[property].(contact.Card)
	item = maps.Clone(item)
	if item == nil {
		item = contact.Card{}
	}
	old, _ := item["components"].([]any)
	var list []any
	written := map[string]bool{}
	for _, v := range old {
		c, _ := v.(contact.Card)
		kind, _ := c["kind"].(string)
		text, changes := parts[kind]
		switch {
		case !changes:
			list = append(list, v)
		case text != "" && !written[kind]:
			list = append(list, contact.Card{"kind": kind, "value": text})
			written[kind] = true
		}
	}
	for _, kind := range order {
		if parts[kind] != "" && !written[kind] {
			list = append(list, contact.Card{"kind": kind, "value": parts[kind]})
		}
	}
	delete(item, "full")
	delete(item, "sortAs")
	if len(list) == 0 {
		delete(card, property)
		return
	}
	item["components"] = list
	card[property] = item
}

// itemsOf returns a copy of the items of a property.
func itemsOf(card contact.Card, property string) contact.Card {
	items, _ := card[property].(contact.Card)
	if items = maps.Clone(items); items == nil {
		items = contact.Card{}
	}
	return items
}

func setItems(card contact.Card, property string, items contact.Card) {
	if card[property] = items; len(items) == 0 {
		delete(card, property)
	}
}

// newID returns an id that no item has.
func newID(items contact.Card) string {
	for n := 1; ; n++ {
		if id := strconv.Itoa(n); items[id] == nil {
			return id
		}
	}
}

// setItem sets a member of an item, and others; "" removes the item. The id "" makes a new item.
func setItem(card contact.Card, property, id, member, text string, others contact.Card) {
	items := itemsOf(card, property)
	if text == "" {
		delete(items, id)
	} else {
		id = cmp.Or(id, newID(items))
		item, _ := items[id].(contact.Card)
		if item = maps.Clone(item); item == nil {
			item = contact.Card{}
		}
		item[member] = text
		for name, v := range others {
			if item[name] = v; v == nil {
				delete(item, name)
			}
		}
		items[id] = item
	}
	setItems(card, property, items)
}

// applyValues puts changed values on a card.
func applyValues(card contact.Card, property, member string, was, is []contactValue) {
	for _, x := range is {
		i := slices.IndexFunc(was, func(y contactValue) bool { return y.ID == x.ID && x.ID != "" })
		switch {
		case i >= 0 && was[i] == x, i < 0 && x.Text == "":
			continue
		case i < 0:
			x.ID = ""
		}
		var others contact.Card
		if i < 0 || was[i].Kind != x.Kind {
			others = kindMembers(property, x.Kind)
		}
		setItem(card, property, x.ID, member, x.Text, others)
	}
}

// kindMembers returns the members of a value of a kind; nil stands for a member that it does not have.
func kindMembers(property, kind string) contact.Card {
	out := contact.Card{"contexts": nil}
	if kind == "work" || kind == "private" {
		out["contexts"] = contact.Card{kind: true}
	}
	if property == "phones" {
		if out["features"] = nil; kind == "mobile" {
			out["features"] = contact.Card{"mobile": true}
		}
	}
	return out
}
