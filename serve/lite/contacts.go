package lite

import (
	"cmp"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doublet/contact"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/safehtml"
)

// contactsOnPage bounds the contacts of a page, maxMembersShown the members of a group that its page names, and
// maxLines the values of one kind on the page of a contact.
const (
	contactsOnPage  = 30
	maxMembersShown = 30
	maxLines        = 10
)

// contactsPage is a page of the list of contacts.
type contactsPage struct {
	*frame
	Words, New         string
	Rows               []contactRow
	First, Last, Of    int
	Newer, Older, Back string
}

type contactRow struct{ Name, More, Href string }

// indexed is an entry of the list, with the key that it is sorted by.
type indexed struct {
	unid note.UNID
	key  string
}

// contacts lists contacts by their names: all, or those that contain the words of the search.
func (v *visit) contacts() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	fr, _, err := v.framed("conContacts", note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "contacts"
	page := &contactsPage{frame: fr, Words: fit(v.form.line("words"), 200, 300)}
	all, err := p.listContacts(strings.Fields(contact.Fold(page.Words)))
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(v.form.Get("p"))
	n = max(0, min(n, (len(all)-1)/contactsOnPage))
	part := all[n*contactsOnPage : min(len(all), (n+1)*contactsOnPage)]
	page.First, page.Last, page.Of = n*contactsOnPage+1, n*contactsOnPage+len(part), len(all)
	link := func(n int) string { return v.at(pathContacts, "words", page.Words, "p", strconv.Itoa(n)) }
	if n > 0 {
		page.Newer = link(n - 1)
	}
	if page.Last < len(all) {
		page.Older = link(n + 1)
	}
	books, err := p.books(note.Insert)
	if err != nil {
		return err
	}
	if len(books) > 0 {
		page.New = v.at(pathContact, "edit", "new")
	}
	if page.Rows, err = p.contactRows(part); err != nil {
		return err
	}
	v.toldOf(fr, "")
	v.s.show(v.w, http.StatusOK, "contacts.html", page)
	return nil
}

// listContacts returns the contacts with all of the words, sorted by their names. It reads their texts only if there
// are words.
func (p *planner) listContacts(words []string) (list []indexed, err error) {
	err = p.All(p.v.ctx, groupware.AddressBook, len(words) > 0, func(e *groupware.Entry) bool {
		if len(words) > 0 {
			x, err := readContact(e)
			if err != nil || !contact.HasWords(x.card.Texts(contact.SearchPaths...), words) {
				return p.v.ctx.Err() == nil
			}
		}
		list = append(list, indexed{e.UNID, contact.Fold(e.Subject)})
		return p.v.ctx.Err() == nil
	})
	slices.SortFunc(list, func(a, b indexed) int { return cmp.Or(cmp.Compare(a.key, b.key), a.unid.Compare(b.unid)) })
	return list, cmp.Or(err, p.v.ctx.Err())
}

// contactRows reads what the list shows of contacts.
func (p *planner) contactRows(part []indexed) (rows []contactRow, err error) {
	var ids []note.UNID
	for _, x := range part {
		ids = append(ids, x.unid)
	}
	err = p.ByID(p.v.ctx, groupware.AddressBook, ids, true, func(e *groupware.Entry) bool {
		r := contactRow{Name: cmp.Or(fit(e.Subject, 80, 120), p.v.T("conNoName")),
			Href: p.v.at(pathContact, "c", e.UNID.String())}
		if x, err := readContact(e); err == nil {
			more := slices.Concat(x.values("emails", "address"), x.values("phones", "number"))
			if len(more) > 0 {
				r.More = fit(more[0].Text, 80, 120)
			}
		}
		rows = append(rows, r)
		return true
	})
	return rows, err
}

// books returns the address books in which the user has a right.
func (p *planner) books(r note.Rights) (list []groupware.Collection, err error) {
	all, err := p.Collections(p.v.ctx, groupware.AddressBook)
	for i := range all {
		if all[i].Rights&r != 0 {
			list = append(list, all[i])
		}
	}
	return list, err
}

// contactOf is a contact that was read.
type contactOf struct {
	groupware.Entry
	vcard *ical.Component
	card  contact.Card
}

func readContact(e *groupware.Entry) (*contactOf, error) {
	c, err := ical.Parse(e.Text, contact.Limits)
	if err != nil {
		return nil, err
	}
	return &contactOf{*e, c, contact.Read(c)}, nil
}

// contactValue is an address, number or the like of a contact.
type contactValue struct{ ID, Text, Kind string }

// values returns the values of a property: the member of each item, with the kind work, private, mobile or "".
func (x *contactOf) values(property, member string) (list []contactValue) {
	items, _ := x.card[property].(contact.Card)
	for _, id := range slices.Sorted(maps.Keys(items)) {
		item, _ := items[id].(contact.Card)
		if text, _ := item[member].(string); text != "" {
			list = append(list, contactValue{id, text, kindOf(item)})
		}
	}
	return list
}

// kindOf returns the kind of a value: work, private or mobile, "" for others.
func kindOf(item contact.Card) string {
	has := func(set, name string) bool {
		m, _ := item[set].(contact.Card)
		return m[name] == true
	}
	switch {
	case has("features", "mobile"):
		return "mobile"
	case has("contexts", "work"):
		return "work"
	case has("contexts", "private"):
		return "private"
	}
	return ""
}

// components returns the texts of the components of some kinds of a name or an address.
func components(item contact.Card, kinds ...string) string {
	list, _ := item["components"].([]any)
	var out []string
	for _, kind := range kinds {
		for _, v := range list {
			c, _ := v.(contact.Card)
			if text, _ := c["value"].(string); c["kind"] == kind && text != "" {
				out = append(out, text)
			}
		}
	}
	return strings.Join(out, " ")
}

// contactPage is the page of a contact.
type contactPage struct {
	*frame
	ID, ETag, Heading string
	Lines             []contactLine
	Notes             template.HTML // sanitized by safehtml
	Members           []contactRow
	MoreMembers       int
	Ask               bool
	Edit, Delete      string
}

// contactLine is a value of a contact. Href is the target of its link, "" for none. It is of a type that html/template
// does not filter, which allows only http, https and mailto: the functions that return it let no other scheme through
// than their own.
type contactLine struct {
	Title, Text string
	Href        template.URL
}

// contact shows a contact, or the form to edit one.
func (v *visit) contact() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	if v.form.Get("edit") == "new" {
		return v.showContactForm(p, nil, contactForm{}, nil)
	}
	x, in, err := p.contactNamed()
	if err != nil {
		return err
	}
	if v.form.Get("edit") != "" {
		if in.Rights&note.Write == 0 {
			return store.ErrDenied
		}
		return v.showContactForm(p, x, readContactForm(x), nil)
	}
	return v.showContact(p, x, in)
}

// contactNamed reads the contact that the request names, and its address book.
func (p *planner) contactNamed() (x *contactOf, in *groupware.Collection, err error) {
	id, err := unid(p.v.form.Get("c"))
	if err != nil {
		return nil, nil, err
	}
	books, err := p.books(note.Read)
	if err != nil {
		return nil, nil, err
	}
	var bad error
	err = p.ByID(p.v.ctx, groupware.AddressBook, []note.UNID{id}, true, func(e *groupware.Entry) bool {
		in = collectionOf(books, e.Collection)
		x, bad = readContact(e)
		return false
	})
	if err = errors.Join(err, bad); err == nil && (x == nil || in == nil) {
		err = errNotFound
	}
	return x, in, err
}

func (v *visit) showContact(p *planner, x *contactOf, in *groupware.Collection) error {
	fr, _, err := v.framed("conContact", note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "contacts"
	page := &contactPage{frame: fr, ID: x.UNID.String(), ETag: x.ETag, Ask: v.form.Get("ask") != "",
		Heading: cmp.Or(fit(x.Subject, 200, 400), v.T("conNoName"))}
	fr.Title = clip(page.Heading, 80)
	if in.Rights&note.Write != 0 {
		page.Edit = v.at(pathContact, "c", page.ID, "edit", "1")
	}
	if in.Rights&note.Expunge != 0 {
		page.Delete = v.at(pathContact, "c", page.ID, "ask", "1")
	}
	v.contactLines(page, x)
	if page.Members, page.MoreMembers, err = p.members(x); err != nil {
		return err
	}
	v.toldOf(fr, "")
	v.s.show(v.w, http.StatusOK, "contact.html", page)
	return nil
}

// contactLines puts the values of a contact on its page.
func (v *visit) contactLines(page *contactPage, x *contactOf) {
	for _, k := range []struct {
		key, property, member string
		href                  func(text string) template.URL
	}{
		{"conNickname", "nicknames", "name", nil}, {"conOrganization", "organizations", "name", nil},
		{"conJob", "titles", "name", nil},
		{"conEmail", "emails", "address", mailAddress}, {"conPhone", "phones", "number", telephone},
		{"conLink", "links", "uri", webAddress},
	} {
		list := x.values(k.property, k.member)
		for _, one := range list[:min(len(list), maxLines)] {
			l := contactLine{Title: v.T(k.key), Text: fit(one.Text, 200, 300)}
			if one.Kind != "" {
				l.Title += " (" + v.T("conKind_"+one.Kind) + ")"
			}
			if k.href != nil && len(one.Text) <= 200 {
				l.Href = k.href(one.Text)
			}
			page.Lines = append(page.Lines, l)
		}
	}
	addresses, _ := x.card["addresses"].(contact.Card)
	for _, id := range slices.Sorted(maps.Keys(addresses))[:min(len(addresses), maxLines)] {
		item, _ := addresses[id].(contact.Card)
		full, _ := item["full"].(string)
		text := cmp.Or(full, strings.Join(nonEmpty(components(item, streets...), strings.TrimSpace(components(item,
			"postcode")+" "+components(item, "locality")), components(item, "region"), components(item, "country")),
			", "))
		page.Lines = append(page.Lines, contactLine{Title: v.T("conAddress"), Text: fit(text, 300, 500)})
	}
	for _, k := range []struct{ kind, key string }{{"birth", "conBirthday"}, {"wedding", "conAnniversary"}} {
		if day := anniversaryOf(x.card, k.kind); day != "" {
			page.Lines = append(page.Lines, contactLine{Title: v.T(k.key), Text: day})
		}
	}
	var notes []string
	for _, n := range x.values("notes", "note") {
		notes = append(notes, n.Text)
	}
	if text := strings.Join(notes, "\n\n"); text != "" {
		pieces := safehtml.Text(text, &safehtml.Options{Piece: 6 << 10, Pieces: 1, Link: link})
		page.Notes = template.HTML("<pre>" + pieces[0] + "</pre>")
	}
}

// streets are the components of the line of an address that names the street.
var streets = []string{"number", "name", "block", "direction", "landmark", "apartment", "postOfficeBox"}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// webAddress returns the target of a link to a page, "" for other schemes.
func webAddress(s string) template.URL {
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		return template.URL(s)
	}
	return ""
}

// mailAddress returns the target of a link that writes to an address.
func mailAddress(s string) template.URL {
	return template.URL(pathCompose + "?to=" + url.QueryEscape(s))
}

// telephone returns the target of a link that calls a number, without its separators and parameters (RFC 3966 section
// 3), "" for a text without a digit.
func telephone(s string) template.URL {
	s, _, _ = strings.Cut(s, ";")
	number := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789+*#", r) {
			return r
		}
		return -1
	}, s)
	if !strings.ContainsAny(number, "0123456789") {
		return ""
	}
	return template.URL("tel:" + strings.ReplaceAll(number, "#", "%23"))
}

// anniversaryOf returns a day of a card: 1990-02-28, --02-28 without a year, "" for none.
func anniversaryOf(card contact.Card, kind string) string {
	_, a := anniversaryItem(card, kind)
	date, _ := a["date"].(contact.Card)
	if at, _ := date["utc"].(string); len(at) >= 10 {
		return at[:10]
	}
	month, _ := date["month"].(float64)
	day, _ := date["day"].(float64)
	year, _ := date["year"].(float64)
	switch {
	case month < 1 || month > 12 || day < 1 || day > 31:
		return ""
	case year < 1:
		return "--" + two(int(month)) + "-" + two(int(day))
	}
	return strconv.Itoa(int(year)) + "-" + two(int(month)) + "-" + two(int(day))
}

// anniversaryItem returns the first anniversary of a kind and its id, which is "" for none.
func anniversaryItem(card contact.Card, kind string) (string, contact.Card) {
	items, _ := card["anniversaries"].(contact.Card)
	for _, id := range slices.Sorted(maps.Keys(items)) {
		if item, _ := items[id].(contact.Card); item["kind"] == kind {
			return id, item
		}
	}
	return "", nil
}

func two(n int) string { return strconv.Itoa(n/10%10) + strconv.Itoa(n%10) }

// members returns the members of a group that are contacts of the mail file; more counts those that are not shown.
func (p *planner) members(x *contactOf) (rows []contactRow, more int, err error) {
	uids, _ := x.card["members"].(contact.Card)
	if len(uids) == 0 {
		return nil, 0, nil
	}
	err = p.All(p.v.ctx, groupware.AddressBook, false, func(e *groupware.Entry) bool {
		if uids[e.UID] == true && len(rows) < maxMembersShown {
			rows = append(rows, contactRow{Name: cmp.Or(fit(e.Subject, 80, 120), p.v.T("conNoName")),
				Href: p.v.at(pathContact, "c", e.UNID.String())})
		}
		return len(rows) < maxMembersShown
	})
	return rows, len(uids) - len(rows), err
}
