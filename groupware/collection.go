package groupware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"golang.org/x/text/unicode/norm"
)

// Collection is a calendar or an address book.
type Collection struct {
	UNID   note.UNID
	Kind   Kind
	Name   string // the last segment of its address
	Rights note.Rights
	// HasACL is set if the collection has an access list of its own.
	HasACL bool
	ACL    note.ACL
	Total  int
	Size   uint64 // bytes of the entries
	Token  string // the state of its entries: see File.Changes
	// Default is set for the collection of its kind that gets entries for which no other one was chosen.
	Default bool
	// Subscribed is set if the person wants to see the collection in programs.
	Subscribed bool
	// Revision identifies the state of the Properties.
	Revision string
	// Published has the links by which everyone reads the calendar, Source the feed that it shows: see Source.
	Published Published
	Source    Source
	Properties
}

// Properties are the properties of a collection that its owner sets.
type Properties struct {
	Title, Description string
	Color              string // #rrggbb
	Order              int
	// TimeZone is the name of the time zone of times without one, from the IANA database; "" means UTC.
	TimeZone string
	// Components lists the kinds of entry that a calendar holds: VEVENT, VTODO, VJOURNAL. Empty means all.
	Components []string
	// Transparent excludes the entries from free time.
	Transparent bool
	// BusyFor names the people who see the busy times: everyone who signed in if it is empty, NobodySees for nobody but
	// those who may read the calendar.
	BusyFor string
	// Invisible is set if programs do not show the entries at the moment.
	Invisible bool
	// AlertsWithTime and AlertsWithoutTime are the alerts of events that have none of their own, of a time and of whole
	// days: JSON of JMAP for Calendars, "" for none.
	AlertsWithTime, AlertsWithoutTime string
	// Extra holds properties that clients set and the server does not interpret, by name.
	Extra map[string]string
}

// NobodySees is the value of BusyFor that hides the busy times of a calendar.
const NobodySees = "nobody"

// Limits of Properties: bytes of a text, number of extra properties, bytes of one.
const (
	maxText      = 1000
	maxExtra     = 50
	maxExtraText = 4 << 10
)

// items of the folder of a collection.
const (
	itemTitle       = "Title"
	itemDescription = "Description"
	itemColor       = "Color"
	itemOrder       = "Order"
	itemTimeZone    = "TimeZone"
	itemComponents  = "Components"
	itemTransparent = "Transparent"
	itemBusyFor     = "BusyFor"
	itemExtra       = "Extra"
	itemDefault     = "Default"
	itemInvisible   = "Invisible"
	itemAlerts      = "AlertsWithTime"
	itemDayAlerts   = "AlertsWithoutTime"
	itemHidden      = "Hidden"  // the owner does not want to see the collection
	itemDeleted     = "Deleted" // of removedFolder: the UNID of the collection that was deleted last
)

// removedFolder holds entries that were removed, until Purge. They keep the names that clients have to be told, and can
// be restored.
const removedFolder = mailbox.Hidden + "removed"

// folderName returns the name of the folder of a collection.
func folderName(kind Kind, name string) string { return mailbox.Hidden + string(kind) + ":" + name }

// parseFolder is the inverse of folderName; ok is false for other folders.
func parseFolder(folder string) (kind Kind, name string, ok bool) {
	rest, hidden := strings.CutPrefix(folder, mailbox.Hidden)
	k, name, found := strings.Cut(rest, ":")
	kind = Kind(k)
	return kind, name, hidden && found && (kind == Calendar || kind == AddressBook)
}

// checkName returns the canonical form of a name of a collection or an entry.
func checkName(name string) (string, error) {
	name = norm.NFC.String(name)
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return r < 0x20 || r == 0x7f || r == '/' || r == 0xfffd || r >= 0x80 && r < 0xa0
	})
	if name == "" || name == "." || name == ".." || len(name) > MaxName || bad {
		return "", fmt.Errorf("%w: %.40q", ErrBadName, name)
	}
	return name, nil
}

// collection returns the collection of a folder, or nil if it is none or the person may not see it.
func (d *reading) collection(h *layout.Folder) (*Collection, error) {
	kind, name, ok := parseFolder(h.Name)
	if !ok || d.rights(h)&note.Lookup == 0 {
		return nil, nil
	}
	c := &Collection{UNID: h.UNID, Kind: kind, Name: name, Rights: d.rights(h), HasACL: h.HasACL, ACL: h.ACL,
		Total: int(h.Total), Size: h.Size, Token: d.token(h, h.Mod)}
	items, err := d.r.FolderItems(h.Note)
	if err != nil {
		return nil, err
	}
	row, err := d.r.Row(h.Note)
	if err != nil {
		return nil, err
	}
	c.Revision = fmt.Sprintf("%x", uint64(row.Mod))
	c.Properties = readProperties(items)
	if c.Published, c.Source = readFeeds(items); c.Rights&note.Administer == 0 {
		c.Source = c.Source.outward()
	}
	c.Subscribed = subscribed(d, h, items)
	if c.Title == "" {
		c.Title = name
	}
	return c, nil
}

func readProperties(items note.Items) Properties {
	text := func(name string) string { return items.Get(name).AsText() }
	p := Properties{Title: text(itemTitle), Description: text(itemDescription), Color: text(itemColor),
		Order: int(items.Get(itemOrder).AsInt()), TimeZone: text(itemTimeZone),
		Components:  items.Get(itemComponents).AsTextList(),
		Transparent: items.Get(itemTransparent).AsBool(), BusyFor: text(itemBusyFor),
		Invisible: items.Get(itemInvisible).AsBool(), AlertsWithTime: text(itemAlerts),
		AlertsWithoutTime: text(itemDayAlerts)}
	if m, ok := items.Get(itemExtra).Any().(map[string]any); ok {
		p.Extra = make(map[string]string, len(m))
		for k, v := range m {
			p.Extra[k], _ = v.(string)
		}
	}
	return p
}

// items returns the items of the properties; a value that is nil removes its item.
func (p *Properties) items() ([]note.Item, error) {
	text := func(s string) note.Value {
		if s == "" {
			return nil
		}
		return note.Text(s)
	}
	for _, s := range []string{p.Title, p.Description, p.Color, p.TimeZone, p.BusyFor} {
		if len(s) > maxText {
			return nil, fmt.Errorf("%w: property of over %d bytes", ErrTooLarge, maxText)
		}
	}
	if len(p.AlertsWithTime) > maxExtraText || len(p.AlertsWithoutTime) > maxExtraText {
		return nil, fmt.Errorf("%w: alerts of over %d bytes", ErrTooLarge, maxExtraText)
	}
	list := []note.Item{{Name: itemTitle, Value: text(p.Title)}, {Name: itemDescription, Value: text(p.Description)},
		{Name: itemColor, Value: text(p.Color)}, {Name: itemTimeZone, Value: text(p.TimeZone)},
		{Name: itemBusyFor, Value: text(p.BusyFor)}, {Name: itemOrder}, {Name: itemComponents},
		{Name: itemTransparent}, {Name: itemExtra}, {Name: itemInvisible},
		{Name: itemAlerts, Value: text(p.AlertsWithTime)}, {Name: itemDayAlerts, Value: text(p.AlertsWithoutTime)}}
	if p.Order != 0 {
		list[5].Value = note.Int(int64(p.Order))
	}
	if len(p.Components) > 0 {
		list[6].Value = note.TextList(p.Components...)
	}
	if p.Transparent {
		list[7].Value = note.Bool(true)
	}
	if len(p.Extra) > 0 {
		v, err := extraValue(p.Extra)
		if err != nil {
			return nil, err
		}
		list[8].Value = v
	}
	if p.Invisible {
		list[9].Value = note.Bool(true)
	}
	return list, nil
}

// Collections lists the collections of a kind that the person may see, by order and title.
func (f *File) Collections(ctx context.Context, kind Kind) (list []Collection, err error) {
	err = f.read(ctx, func(d *reading) error {
		for _, h := range d.r.AllFolders() {
			c, err := d.collection(h)
			if err != nil {
				return err
			}
			if c != nil && c.Kind == kind {
				list = append(list, *c)
			}
		}
		return d.markDefault(kind, list)
	})
	slices.SortStableFunc(list, func(a, b Collection) int {
		if a.Order != b.Order {
			return a.Order - b.Order
		}
		return strings.Compare(a.Title, b.Title)
	})
	return list, err
}

// Collection returns a collection by its name.
func (f *File) Collection(ctx context.Context, kind Kind, name string) (c Collection, err error) {
	err = f.read(ctx, func(d *reading) error {
		c, err = d.collectionNamed(kind, name)
		return err
	})
	return c, err
}

// Collection returns a collection by its name, with the changes of this update.
func (c *Changing) Collection(kind Kind, name string) (Collection, error) {
	return c.collectionNamed(kind, name)
}

func (d *reading) collectionNamed(kind Kind, name string) (Collection, error) {
	h, err := d.find(kind, name, note.Lookup)
	if err != nil {
		return Collection{}, err
	}
	c, err := d.collection(h)
	if err != nil {
		return Collection{}, err
	}
	list := []Collection{*c}
	err = d.markDefault(kind, list)
	return list[0], err
}

// find returns the folder of a collection in which the person has rights. A collection that the person may not see does
// not exist for them.
func (d *reading) find(kind Kind, name string, rights note.Rights) (*layout.Folder, error) {
	name, err := checkName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrNoCollection, name)
	}
	h, err := d.r.FolderNamed(folderName(kind, name))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("%w: %s", ErrNoCollection, name)
	case err != nil:
		return nil, err
	case d.rights(h)&note.Lookup == 0:
		return nil, fmt.Errorf("%w: %s", ErrNoCollection, name)
	case d.rights(h)&rights != rights:
		return nil, store.ErrDenied
	}
	return h, nil
}

// Create creates a collection, to which the person is subscribed. The person needs the right to create folders in the
// mail file. The first collection of its kind is the default one.
func (c *Changing) Create(kind Kind, name string, p Properties) error {
	name, err := checkName(name)
	if err != nil {
		return err
	}
	if err := c.mayCreate(); err != nil {
		return err
	}
	first, err := c.keepDefault(kind)
	if err != nil {
		return err
	}
	id, err := c.write().CreateFolder(folderName(kind, name), "")
	if errors.Is(err, store.ErrExists) {
		return fmt.Errorf("%w: %s", ErrExists, name)
	}
	if err != nil {
		return err
	}
	if person := c.f.who.Person; !person.IsZero() && person != c.r.Info().Owner {
		if err := c.write().Subscribe(id, person, true); err != nil {
			return err
		}
	}
	if first {
		if err := c.write().SetFolderItem(id, itemDefault, note.Bool(true), 0); err != nil {
			return err
		}
	}
	return c.setItems(id, &p)
}

// mayCreate checks that the person may create a collection, and that there is room for one more.
func (c *Changing) mayCreate() error {
	if c.rights(nil)&note.Create == 0 {
		return store.ErrDenied
	}
	n := 0
	for _, h := range c.r.AllFolders() {
		if _, _, ok := parseFolder(h.Name); ok {
			n++
		}
	}
	if n >= MaxCollections {
		return fmt.Errorf("%w: at most %d collections", ErrFull, MaxCollections)
	}
	return nil
}

func (c *Changing) setItems(id note.ID, p *Properties) error {
	list, err := p.items()
	if err != nil {
		return err
	}
	have, err := c.r.FolderItems(id)
	if err != nil {
		return err
	}
	for _, it := range list {
		if string(have.Get(it.Name)) == string(it.Value) {
			continue
		}
		if err := c.write().SetFolderItem(id, it.Name, it.Value, 0); err != nil {
			return err
		}
	}
	return nil
}

// Properties returns the properties of a collection, as the update has left them.
func (c *Changing) Properties(kind Kind, name string) (p Properties, err error) {
	h, err := c.find(kind, name, note.Lookup)
	if err != nil {
		return p, err
	}
	items, err := c.r.FolderItems(h.Note)
	return readProperties(items), err
}

// SetProperties replaces the properties of a collection. The person needs the right to create folders in it.
func (c *Changing) SetProperties(kind Kind, name string, p Properties) error {
	h, err := c.find(kind, name, note.Create)
	if err != nil {
		return err
	}
	return c.setItems(h.Note, &p)
}

// Delete deletes a collection. Its entries are removed as by Remove, so that they can be restored. If only is not
// empty, an entry of another component makes it fail with ErrComponent, also one that the person may not see.
func (c *Changing) Delete(kind Kind, name string, only ...string) error {
	h, err := c.find(kind, name, note.Remove)
	if err != nil {
		return err
	}
	ids, err := members(&c.reading, h, only)
	if err != nil {
		return err
	}
	items, err := c.r.FolderItems(h.Note)
	if err != nil {
		return err
	}
	way := removed
	if items.Get(itemSource) != nil {
		way = moved // the entries are another server's
	}
	for _, id := range ids {
		if err := c.remove(h, id, way); err != nil {
			return err
		}
	}
	if next, chosen, err := c.defaultOf(kind, h.Note); err != nil {
		return err
	} else if next != nil && !chosen {
		if err := c.write().SetFolderItem(next.Note, itemDefault, note.Bool(true), 0); err != nil {
			return err
		}
	}
	bin, err := c.bin()
	if err != nil {
		return err
	}
	// Without a change there, the moment of the collections could go back to that of the latest of those left.
	if err := c.write().SetFolderItem(bin, itemDeleted, note.Text(h.UNID.String()), 0); err != nil {
		return err
	}
	return c.write().DeleteFolder(h.Note)
}

// members returns the notes of a collection. Unless only is empty, it returns ErrComponent for an entry of another
// component.
func members(d *reading, h *layout.Folder, only []string) (ids []note.ID, err error) {
	var inner error
	err = d.r.Members(h.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
		ids = append(ids, id)
		if len(only) == 0 {
			return true
		}
		var e *Entry
		if e, inner = d.whole(h, id); inner == nil && e != nil && !slices.Contains(only, e.Component) {
			inner = fmt.Errorf("%w: %s", ErrComponent, e.Component)
		}
		return inner == nil
	})
	return ids, errors.Join(err, inner)
}
