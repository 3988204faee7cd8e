package groupware

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Condition is the state of an entry that a change requires: nothing, if it is the zero Condition.
type Condition struct {
	ETag string // the ETag that it has
	New  bool   // it does not exist
	Old  bool   // it exists
	// ScheduleTag is the Schedule-Tag that it has.
	ScheduleTag string
}

// Holds reports whether an entry is in the state that a change requires; nil stands for one that does not exist.
func (x *Condition) Holds(e *Entry) bool {
	switch {
	case e == nil:
		return x.ETag == "" && x.ScheduleTag == "" && !x.Old
	case x.New:
		return false
	}
	return (x.ETag == "" || x.ETag == e.ETag) && (x.ScheduleTag == "" || x.ScheduleTag == e.ScheduleTag)
}

// Put writes an entry. It returns the entry, without its text, and reports whether it is new. The person needs the
// right to insert or to write.
func (c *Changing) Put(kind Kind, collection, name string, p *Parsed, x Condition) (e Entry, created bool, err error) {
	h, err := c.find(kind, collection, note.Lookup)
	if err != nil {
		return e, false, err
	}
	if name, err = checkName(name); err != nil {
		return e, false, err
	}
	have, err := c.taken(h, name)
	if err != nil {
		return e, false, err
	}
	if err := c.mayPut(h, have, p, x); err != nil {
		return e, false, err
	}
	content, err := p.contentFor(c, name, have)
	if err != nil {
		return e, false, err
	}
	id := note.ID(0)
	if have != nil {
		id = have.id
		err = c.write().Rewrite(id, content)
	} else {
		id, err = c.write().Create(store.New{Content: content, Folders: []note.ID{h.Note}})
	}
	if err != nil {
		return e, false, err
	}
	c.fresh(h, id, name, p.UID)
	written, err := c.entry(h, id, false)
	if err == nil && written == nil {
		err = ErrNoEntry
	}
	if err == nil {
		e = *written
	}
	return e, have == nil, err
}

// taken returns the entry that has a name, nil for none. It returns store.ErrDenied for one that the person may not
// see: a name stands for one entry.
func (c *Changing) taken(h *layout.Folder, name string) (*Entry, error) {
	id, err := c.lookup(h, nameKey(name))
	if err != nil || id == 0 {
		return nil, err
	}
	e, err := c.entry(h, id, false)
	if err == nil && e == nil {
		err = store.ErrDenied
	}
	return e, err
}

// mayPut checks the rights of the person, and the rules of the collection.
func (c *Changing) mayPut(h *layout.Folder, have *Entry, p *Parsed, x Condition) error {
	right := note.Insert
	if have != nil {
		right = note.Write
	}
	if c.rights(h)&right == 0 {
		return store.ErrDenied
	}
	if !x.Holds(have) {
		return ErrChanged
	}
	return c.mayHold(h, have, p)
}

// mayHold checks the rules of a collection for an entry that replaces another one, or nil.
func (c *Changing) mayHold(h *layout.Folder, have *Entry, p *Parsed) error {
	items, err := c.r.FolderItems(h.Note)
	if err != nil {
		return err
	}
	allowed := items.Get(itemComponents).AsTextList()
	if len(allowed) > 0 && !slices.Contains(allowed, p.Component) {
		return fmt.Errorf("%w: %s", ErrComponent, p.Component)
	}
	if err := c.uniqueUID(h, have, p.UID); err != nil {
		return err
	}
	if have == nil && int(h.Total) >= MaxEntries {
		return fmt.Errorf("%w: at most %d entries", ErrFull, MaxEntries)
	}
	return nil
}

// uniqueUID checks that no other entry of the collection has a UID.
func (c *Changing) uniqueUID(h *layout.Folder, have *Entry, uid string) error {
	id, err := c.lookup(h, uidKey(uid))
	if err != nil || id == 0 || have != nil && id == have.id {
		return err
	}
	other, err := c.entry(h, id, false)
	switch {
	case err != nil:
		return err
	case other == nil:
		return store.ErrDenied // a private entry of somebody else
	case other.UID == uid:
		return &UIDConflictError{other.Name}
	}
	return nil
}

// fits checks that an entry of a size, with its attachments, has room in the mail file, in place of another one or of
// nil.
func (c *Changing) fits(have *Entry, size int) error {
	if have != nil {
		size -= have.Size + total(have.Attachments)
	}
	if info := c.r.Info(); size > 0 && info.Quota > 0 && mailbox.Used(c.r)+uint64(size) > info.Quota {
		return mailbox.ErrOverQuota
	}
	return nil
}

// Put writes an entry in an update of its own: see Changing.Put. The entry may name the offered attachments: see
// Parsed.Offer.
func (f *File) Put(ctx context.Context, kind Kind, collection, name string, text []byte,
	x Condition, offered ...Attachment) (e Entry, created bool, err error) {
	p, err := f.Parse(ctx, kind, text)
	if err != nil {
		return e, false, err
	}
	defer p.Release()
	p.Offer(offered...)
	err = f.Change(ctx, func(c *Changing) (err error) {
		e, created, err = c.Put(kind, collection, name, p, x)
		return err
	})
	return e, created, err
}

// Place names an entry of a collection.
type Place struct{ Collection, Name string }

// Move moves an entry, which has to fulfil has, to another place. It reports whether it replaced an entry there, which
// has to fulfil x.
func (f *File) Move(ctx context.Context, kind Kind, from, to Place, has, x Condition) (replaced bool, err error) {
	if from == to {
		return false, fmt.Errorf("%w: it is there already", ErrBadName)
	}
	e, err := f.Entry(ctx, kind, from.Collection, from.Name)
	if err != nil {
		return false, err
	}
	if !has.Holds(&e) {
		return false, ErrChanged
	}
	p, err := f.Parse(ctx, kind, e.Text)
	if err != nil {
		return false, err
	}
	defer p.Release()
	p.ScheduleTag = e.ScheduleTag
	p.Offer(e.Attachments...) // the entry that has them goes in the same update
	err = f.Change(ctx, func(c *Changing) error {
		if err := c.take(kind, from.Collection, from.Name, Condition{ETag: e.ETag}, moved); err != nil {
			return err
		}
		_, created, err := c.Put(kind, to.Collection, to.Name, p, x)
		replaced = !created
		return err
	})
	return replaced, err
}

// Remove removes an entry in an update of its own: see Changing.Remove.
func (f *File) Remove(ctx context.Context, kind Kind, collection, name string, x Condition) error {
	return f.Change(ctx, func(c *Changing) error { return c.Remove(kind, collection, name, x) })
}

// NewName returns a name for an entry whose client gave none.
func (s *Service) NewName(kind Kind) string {
	u := s.store.UNID()
	if kind == AddressBook {
		return hex.EncodeToString(u[:]) + ".vcf"
	}
	return hex.EncodeToString(u[:]) + ".ics"
}
