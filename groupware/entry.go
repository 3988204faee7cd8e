package groupware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/contact"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/ical"

	"golang.org/x/text/unicode/norm"
)

// items of an entry. Form and Subject are Domino's.
const (
	itemForm     = "Form"
	itemSubject  = "Subject"
	itemName     = "EntryName" // the last segment of its address
	itemUID      = "EntryUID"
	itemBody     = "Body"     // the iCalendar object or vCard; an attachment holds a large one
	itemModified = "Modified" // the time of the last change in Unix seconds
	itemPrivate  = "Private"
	itemSpan     = "Span" // span.text of the times of an entry of a calendar
	// itemScheduleTag is the Schedule-Tag of RFC 6638 section 3.2.10.
	itemScheduleTag = "ScheduleTag"
	// itemShown is set if the private entry was public before: others have it and must be told that it has gone.
	itemShown = "Shown"
	// itemMailAlarm is set if an alarm of the entry sends mail.
	itemMailAlarm = "MailAlarm"
	// itemOwed is set if a message about the entry was not sent yet.
	itemOwed = "Owed"
	// itemRemoved is the time of the removal in Unix seconds, itemFrom the UNID of the collection.
	itemRemoved = "RemovedTime"
	itemFrom    = "RemovedFrom"
)

// The forms of entries.
var forms = map[string]string{calendar.Event: "Appointment", calendar.Task: "Task", calendar.Journal: "Journal",
	vcard: "Contact"}

// components are the components of the forms.
var components = func() map[string]string {
	out := map[string]string{}
	for component, form := range forms {
		out[form] = component
	}
	return out
}()

// vcard is the component of a contact.
const vcard = "VCARD"

// maxInline is the size in bytes up to which the text of an entry is an item of its note.
const maxInline = 32 << 10

// Entry is an event, task, journal entry or contact: an iCalendar object or a vCard.
type Entry struct {
	UNID note.UNID
	// Collection is the UNID of the collection; of a removed entry, that from which it was removed.
	Collection note.UNID
	Name       string
	UID        string
	Component  string // VEVENT, VTODO, VJOURNAL or VCARD
	ETag       string // the revision
	Size       int    // bytes of the text
	Subject    string
	Modified   time.Time
	Removed    time.Time // zero, but for removed entries
	// Private is set for an event whose CLASS is not PUBLIC. Only those who own the calendar see it.
	Private bool
	// ScheduleTag is the Schedule-Tag of an event with an organizer and attendees, "" for others. It stays when the
	// server records the answers of attendees.
	ScheduleTag string
	// Text is the object. Lists leave it out unless they were asked for it.
	Text []byte
	// Attachments are the managed attachments that the object names.
	Attachments []Attachment

	id     note.ID
	object note.Attachment
	shown  bool // private now, public before
}

// Parsed is an entry on its way into a collection: it was parsed and checked.
type Parsed struct {
	Text      []byte
	UID       string
	Component string
	Subject   string
	Private   bool
	// ScheduleTag is Entry.ScheduleTag of the entry to write.
	ScheduleTag string
	// mailAlarm is set if an alarm of the entry sends mail.
	mailAlarm bool
	owed      bool // a message about the entry was not sent yet
	// Object is the parsed object of a calendar, nil for a contact. Card is a contact.
	Object *calendar.Object
	Card   *ical.Component
	// Rewritten is set if the text is another than the client wrote: it has other addresses of managed attachments.
	Rewritten bool
	stored    *store.Object
	offered   []Attachment
}

// Parse parses and checks the text of an entry of the mail file. Managed attachments get their addresses there. Errors
// match ErrInvalid, ErrTooLarge or ErrAttachments. The caller must call Release when the updates that use the entry
// have ended.
func (f *File) Parse(ctx context.Context, kind Kind, text []byte) (*Parsed, error) {
	if len(text) > MaxEntry {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(text), MaxEntry)
	}
	p, err := parse(kind, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := p.readdress(ctx, f); err != nil {
		return nil, err
	}
	if len(p.Text) > maxInline {
		if p.stored, err = f.svc.store.Attach(ctx, p.Text, f.db); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Release frees the objects that Parse has stored for the entry.
func (p *Parsed) Release() {
	if p.stored != nil {
		p.stored.Release()
		p.stored = nil
	}
}

func parse(kind Kind, text []byte) (*Parsed, error) {
	if kind == AddressBook {
		return parseCard(text)
	}
	o, err := calendar.ReadObject(text)
	if err != nil {
		return nil, err
	}
	p := &Parsed{Text: text, UID: o.UID, Component: o.Kind, Subject: o.Parts[0].Text("SUMMARY"), Object: o,
		mailAlarm: o.Kind != calendar.Journal && o.HasAlarm("EMAIL"), owed: itip.Owes(o)}
	for _, c := range o.Parts {
		class := strings.ToUpper(strings.TrimSpace(c.Text("CLASS")))
		p.Private = p.Private || class != "" && class != "PUBLIC"
	}
	return p, nil
}

// parseCard parses a contact.
//
// Implements: RFC 6352 §5.1 address object resources
func parseCard(text []byte) (*Parsed, error) {
	all, err := ical.ParseAll(text, contact.Limits)
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1 || all[0].Name != vcard:
		return nil, errors.New("it is not one VCARD")
	}
	c := all[0]
	switch version := strings.TrimSpace(c.Text("VERSION")); {
	case version != "3.0" && version != "4.0":
		return nil, fmt.Errorf("VERSION is %.20q, must be 3.0 or 4.0", version)
	case c.Get("FN") == nil:
		return nil, errors.New("VCARD without FN")
	}
	uid := strings.TrimSpace(c.Text("UID"))
	if uid == "" || len(uid) > maxUID {
		return nil, fmt.Errorf("VCARD without a UID of at most %d bytes", maxUID)
	}
	return &Parsed{Text: text, UID: uid, Component: vcard, Subject: c.Text("FN"), Card: c}, nil
}

// maxUID bounds the UID of an entry in bytes.
const maxUID = 1000

// content returns the content of the note of an entry that is written now.
func (p *Parsed) content(name string, now time.Time) note.Content {
	items := []note.Item{{Name: itemForm, Value: note.Text(forms[p.Component])},
		{Name: itemName, Value: note.Text(name)},
		{Name: itemUID, Value: note.Text(p.UID)}, {Name: itemSubject, Value: note.Text(cut(p.Subject, maxText))},
		{Name: itemModified, Value: note.Int(now.Unix())}}
	if p.ScheduleTag != "" {
		items = append(items, note.Item{Name: itemScheduleTag, Value: note.Text(p.ScheduleTag)})
	}
	if p.mailAlarm {
		items = append(items, note.Item{Name: itemMailAlarm, Value: note.Bool(true)})
	}
	if p.owed {
		items = append(items, note.Item{Name: itemOwed, Value: note.Bool(true)})
	}
	if p.Private {
		items = append(items, note.Item{Name: itemPrivate, Value: note.Bool(true)})
	}
	if p.Object != nil {
		items = append(items, note.Item{Name: itemSpan, Value: note.Text(spanOf(p.Object.Series).text())})
	}
	c := note.Content{}
	if p.stored == nil {
		items = append(items, note.Item{Name: itemBody, Value: note.Binary(p.Text)})
	} else {
		c.Attachments = []note.Attachment{{Name: itemBody, Type: contentType(p.Component), Digest: p.stored.Digest,
			Size: p.stored.Size}}
	}
	c.Items = note.MakeItems(items...)
	return c
}

// contentType returns the media type of the text of an entry.
func contentType(component string) string {
	if component == vcard {
		return "text/vcard; charset=utf-8"
	}
	return "text/calendar; charset=utf-8; component=" + strings.ToLower(component)
}

// ContentType returns the media type of the text of the entry.
func (e *Entry) ContentType() string { return contentType(e.Component) }

// cut returns the first n bytes of a text, less what would be half a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// entry reads an entry; nil if the note is none, or one that the person may not see.
func (d *reading) entry(h *layout.Folder, id note.ID, text bool) (*Entry, error) {
	e, err := d.whole(h, id)
	if err != nil || e == nil || d.hides(h, e) {
		return nil, err
	}
	if text {
		err = d.text(e)
	}
	return e, err
}

// hides reports whether the person may not see an entry.
func (d *reading) hides(h *layout.Folder, e *Entry) bool { return e.Private && !d.owns(h) }

// whole reads an entry without its text, also one that the person may not see; nil if the note is none.
func (d *reading) whole(h *layout.Folder, id note.ID) (*Entry, error) {
	row, content, err := d.r.Document(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.read(h, id, row, content), nil
}

// read makes an Entry of a note; nil if it is none.
func (d *reading) read(h *layout.Folder, id note.ID, row *layout.Note, c *layout.Content) *Entry {
	items := c.Content.Items
	winner, ok := c.Tree.Winner()
	component := components[items.Get(itemForm).AsText()]
	if !ok || component == "" || row.Class != note.Document {
		return nil
	}
	e := &Entry{UNID: row.UNID, Collection: h.UNID, Name: items.Get(itemName).AsText(),
		UID:       items.Get(itemUID).AsText(),
		Component: component, ETag: winner.Rev.String(), Private: items.Get(itemPrivate).AsBool(), id: id,
		shown: items.Get(itemShown).AsBool(), ScheduleTag: items.Get(itemScheduleTag).AsText(),
		Subject: items.Get(itemSubject).AsText(), Modified: time.Unix(items.Get(itemModified).AsInt(), 0).UTC()}
	if at := items.Get(itemRemoved).AsInt(); at != 0 {
		e.Removed = time.Unix(at, 0).UTC()
		e.Collection, _ = note.ParseUNID(items.Get(itemFrom).AsText())
	}
	body(e, &c.Content)
	return e
}

// body sets the text of an entry from the content of its note, or where it is stored, and its attachments.
func body(e *Entry, c *note.Content) {
	e.Attachments = managed(c)
	if text := c.Items.Get(itemBody); text != nil {
		e.Text = text.AsBinary()
		e.Size = len(e.Text)
	} else if i := slices.IndexFunc(c.Attachments,
		func(a note.Attachment) bool { return a.Name == itemBody }); i >= 0 {
		e.object = c.Attachments[i]
		e.Size = int(e.object.Size)
	}
}

// text reads the text of an entry if it is stored apart.
func (d *reading) text(e *Entry) error {
	if e.object.Digest.IsZero() {
		e.Text = bytes.Clone(e.Text)
		return nil
	}
	body, err := d.r.Attachment(e.id, e.object.Digest, int64(e.object.Size))
	if err != nil {
		return err
	}
	e.Text, err = body.AppendRange(make([]byte, 0, body.Size()), 0, body.Size())
	return err
}

// Entry returns an entry of a collection by its name, with its text.
func (f *File) Entry(ctx context.Context, kind Kind, collection, name string) (e Entry, err error) {
	err = f.read(ctx, func(d *reading) error {
		h, err := d.find(kind, collection, note.Read)
		if err != nil {
			return err
		}
		found, err := d.named(h, name, true)
		if err == nil {
			e = *found
		}
		return err
	})
	return e, err
}

// Select chooses entries of a collection.
type Select struct {
	// Names lists the wanted entries; nil means all.
	Names []string
	// Component restricts the kind of entry: "" means all.
	Component string
	// Text includes the text of the entries.
	Text bool
}

// Entries calls fn for entries of a collection, in the order of Select.Names or of their arrival, until fn returns
// false. Entries that do not exist are left out.
func (f *File) Entries(ctx context.Context, kind Kind, collection string, s Select, fn func(*Entry) bool) error {
	return f.read(ctx, func(d *reading) error {
		h, err := d.find(kind, collection, note.Read)
		if err != nil {
			return err
		}
		if s.Names == nil {
			return d.each(h, s, fn)
		}
		for _, name := range s.Names {
			e, err := d.named(h, name, s.Text)
			if errors.Is(err, ErrNoEntry) {
				continue
			}
			if err != nil {
				return err
			}
			if (s.Component == "" || s.Component == e.Component) && !fn(e) {
				return nil
			}
		}
		return nil
	})
}

// each calls fn for all entries of a collection that s selects.
func (d *reading) each(h *layout.Folder, s Select, fn func(*Entry) bool) error {
	var inner error
	err := d.r.Members(h.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
		e, err := d.entry(h, id, s.Text)
		if inner = err; err != nil {
			return false
		}
		return e == nil || s.Component != "" && s.Component != e.Component || fn(e)
	})
	return errors.Join(err, inner)
}

// named returns the entry of a collection with a name.
func (d *reading) named(h *layout.Folder, name string, text bool) (*Entry, error) {
	name = norm.NFC.String(name) // as checkName stores it
	id, err := d.lookup(h, nameKey(name))
	if err != nil {
		return nil, err
	}
	if id == 0 {
		return nil, fmt.Errorf("%w: %.80q", ErrNoEntry, name)
	}
	e, err := d.entry(h, id, text)
	if err == nil && (e == nil || e.Name != name) {
		err = fmt.Errorf("%w: %.80q", ErrNoEntry, name)
	}
	return e, err
}

// lookup returns the note of a collection with a key, 0 for none.
func (d *reading) lookup(h *layout.Folder, key []byte) (note.ID, error) {
	list, err := d.r.Lookup(indexEntries, key)
	if err != nil {
		return 0, err
	}
	if id, ok := d.keys[freshKey{h.Note, string(key)}]; ok {
		list = append([]note.ID{id}, list...)
	}
	for _, id := range list {
		row, err := d.r.Row(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if _, in := row.Member(h.Note); in && !row.Stub {
			return id, nil
		}
	}
	return 0, nil
}
