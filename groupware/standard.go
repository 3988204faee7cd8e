package groupware

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// The names of the collections that Ensure creates.
const (
	DefaultCalendar = "calendar"
	DefaultTasks    = "tasks"
	DefaultContacts = "contacts"
)

// Ensure creates the standard collections of a mail file that has none of their kind, for its owner. It does nothing
// for other people.
func (f *File) Ensure(ctx context.Context, timeZone string) error {
	missing := map[Kind]bool{Calendar: true, AddressBook: true}
	err := f.read(ctx, func(d *reading) error {
		if d.f.who.Person.IsZero() || d.r.Info().Owner != d.f.who.Person {
			clear(missing)
		}
		for _, h := range d.r.AllFolders() {
			if kind, _, ok := parseFolder(h.Name); ok {
				delete(missing, kind)
			}
		}
		return nil
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return f.Change(ctx, func(c *Changing) error { return c.ensure(missing, timeZone) })
}

// ensure creates the standard collections of some kinds.
func (c *Changing) ensure(missing map[Kind]bool, timeZone string) error {
	for _, x := range []struct {
		kind Kind
		name string
		p    Properties
	}{
		{Calendar, DefaultCalendar, Properties{Title: "Calendar", TimeZone: timeZone,
			Components: []string{calendar.Event}}},
		{Calendar, DefaultTasks, Properties{Title: "Tasks", TimeZone: timeZone, Order: 1,
			Components: []string{calendar.Task}}},
		{AddressBook, DefaultContacts, Properties{Title: "Contacts"}},
	} {
		if !missing[x.kind] {
			continue
		}
		if err := c.Create(x.kind, x.name, x.p); err != nil && !errors.Is(err, ErrExists) {
			return err
		}
	}
	return nil
}

// markDefault sets Collection.Default.
func (d *reading) markDefault(kind Kind, list []Collection) error {
	h, _, err := d.defaultOf(kind, 0)
	for i := range list {
		list[i].Default = h != nil && list[i].UNID == h.UNID
	}
	return err
}

// defaultOf returns the default collection of a kind, nil if there is none, without regard to the one that is about to
// be deleted. It is the one that was chosen; collections of older versions, of which none was chosen, have the one that
// Ensure creates, or else the oldest.
func (d *reading) defaultOf(kind Kind, without note.ID) (h *layout.Folder, chosen bool, err error) {
	var first, usual *layout.Folder
	for _, x := range d.r.AllFolders() {
		if !d.holds(kind, x) || x.Note == without {
			continue
		}
		items, err := d.r.FolderItems(x.Note)
		if err != nil {
			return nil, false, err
		}
		if items.Get(itemDefault).AsBool() && (!chosen || x.Note < h.Note) {
			h, chosen = x, true
		}
		holds := items.Get(itemComponents).AsTextList()
		if len(holds) > 0 && !slices.Contains(holds, calendar.Event) || items.Get(itemSource) != nil {
			continue // events that no calendar was chosen for do not fit there
		}
		if first == nil || x.Note < first.Note {
			first = x
		}
		if _, name, _ := parseFolder(x.Name); name == DefaultCalendar || name == DefaultContacts {
			usual = x
		}
	}
	return cmp.Or(h, usual, first), chosen, nil
}

// SetDefault makes a collection the default one of its kind. The person needs the right to create folders in the mail
// file.
func (c *Changing) SetDefault(kind Kind, name string) error {
	to, err := c.find(kind, name, note.Lookup)
	if err != nil {
		return err
	}
	if c.rights(nil)&note.Create == 0 {
		return store.ErrDenied
	}
	return c.choose(kind, to)
}

// choose marks the default collection. The one that was it changes too, so that clients learn both.
func (c *Changing) choose(kind Kind, to *layout.Folder) error {
	was, _, err := c.defaultOf(kind, 0)
	if err != nil {
		return err
	}
	for _, h := range c.r.AllFolders() {
		if !c.holds(kind, h) {
			continue
		}
		items, err := c.r.FolderItems(h.Note)
		if err != nil {
			return err
		}
		on := h.Note == to.Note
		if items.Get(itemDefault).AsBool() == on && (on || h.Note != was.Note) {
			continue
		}
		if err := c.write().SetFolderItem(h.Note, itemDefault, note.Bool(on), 0); err != nil {
			return err
		}
	}
	return nil
}

// keepDefault marks the default collection of a kind if it is not marked: a new one must not become it by its name. It
// reports whether there is none.
func (c *Changing) keepDefault(kind Kind) (none bool, err error) {
	have, chosen, err := c.defaultOf(kind, 0)
	if err != nil || have == nil || chosen {
		return have == nil, err
	}
	return false, c.choose(kind, have)
}

// subscribed returns Collection.Subscribed. The owner of the mail file sees a collection unless they chose otherwise,
// and others only if they chose to.
func subscribed(d *reading, h *layout.Folder, items note.Items) bool {
	if d.f.who.Person == d.r.Info().Owner {
		return !items.Get(itemHidden).AsBool()
	}
	return slices.Contains(h.Subscribed, d.f.who.Person)
}

// Subscribe sets Collection.Subscribed for the person.
func (c *Changing) Subscribe(kind Kind, name string, on bool) error {
	h, err := c.find(kind, name, note.Lookup)
	if err != nil {
		return err
	}
	items, err := c.r.FolderItems(h.Note)
	if err != nil || subscribed(&c.reading, h, items) == on {
		return err
	}
	if c.f.who.Person == c.r.Info().Owner {
		return c.write().SetFolderItem(h.Note, itemHidden, note.Bool(!on), 0)
	}
	return c.write().Subscribe(h.Note, c.f.who.Person, on)
}
