package groupware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/calendar"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Remove removes an entry. It can be restored until Purge. The person needs the right to expunge.
func (c *Changing) Remove(kind Kind, collection, name string, x Condition) error {
	return c.take(kind, collection, name, x, removed)
}

// departure is the way in which an entry leaves a collection.
type departure uint8

const (
	removed departure = iota
	moved             // the folder of removed entries keeps only its name, for clients that synchronize
)

// take moves an entry from a collection to the folder of removed ones.
func (c *Changing) take(kind Kind, collection, name string, x Condition, way departure) error {
	h, err := c.find(kind, collection, note.Lookup|note.Expunge)
	if err != nil {
		return err
	}
	e, err := c.named(h, name, false)
	if err != nil {
		return err
	}
	if !x.Holds(e) {
		return ErrChanged
	}
	return c.remove(h, e.id, way)
}

// remove moves an entry to the folder of removed entries.
func (c *Changing) remove(h *layout.Folder, id note.ID, way departure) error {
	have, err := c.r.Content(id)
	if err != nil {
		return err
	}
	content := have.Content
	at := note.Item{Name: itemRemoved, Value: note.Int(c.f.svc.env.Clock.Now().Unix())}
	if way == moved {
		items := note.MakeItems(at)
		for _, name := range []string{itemForm, itemName, itemPrivate, itemShown} {
			items = items.With(name, content.Items.Get(name))
		}
		content = note.Content{Items: items}
	} else {
		content.Items = content.Items.With(at.Name, at.Value).With(itemFrom, note.Text(h.UNID.String()))
	}
	if err := c.write().Rewrite(id, content); err != nil {
		return err
	}
	bin, err := c.bin()
	if err != nil {
		return err
	}
	if _, err := c.write().AddTo(id, bin); err != nil {
		return err
	}
	return c.write().RemoveFrom(id, h.Note)
}

// bin returns the folder of removed entries. It is created when it is needed.
func (c *Changing) bin() (note.ID, error) {
	h, err := c.r.FolderNamed(removedFolder)
	if err == nil {
		return h.Note, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	return c.write().CreateFolder(removedFolder, "")
}

// Purge deletes the entries of a mail file that were removed before a time, and returns their number. During a hold it
// deletes none.
func (s *Service) Purge(ctx context.Context, db note.DatabaseID, before time.Time) (n int, err error) {
	var old []note.ID
	err = s.File(note.System, db).read(ctx, func(d *reading) error {
		h, err := d.r.FolderNamed(removedFolder)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var inner error
		err = d.r.Members(h.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
			c, err := d.r.Content(id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				inner = err
				return false
			}
			if err == nil && c.Content.Items.Get(itemRemoved).AsInt() < before.Unix() {
				old = append(old, id)
			}
			return true
		})
		return errors.Join(err, inner)
	})
	for part := range slices.Chunk(old, purgePiece) {
		if err == nil {
			var done int
			done, err = s.purgePart(ctx, db, part)
			n += done
		}
	}
	return n, err
}

// purgePart deletes removed entries. A hold that began meanwhile keeps them.
func (s *Service) purgePart(ctx context.Context, db note.DatabaseID, part []note.ID) (n int, err error) {
	err = s.store.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		n = 0
		w, err := tx.Home(db)
		if err != nil {
			return err
		}
		held, err := mailbox.Held(&w.Reader)
		if held || err != nil {
			return err
		}
		for _, id := range part {
			if err := w.Destroy(id); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// purgePiece is the number of entries that one update deletes.
const purgePiece = 500

// Removed returns the entries that were removed and are not purged, for those who manage the mail file.
func (f *File) Removed(ctx context.Context) (list []Entry, err error) {
	err = f.read(ctx, func(d *reading) error {
		h, err := d.r.FolderNamed(removedFolder)
		if errors.Is(err, store.ErrNotFound) || err == nil && !d.owns(nil) {
			return nil
		}
		if err != nil {
			return err
		}
		return d.each(h, Select{}, func(e *Entry) bool {
			if e.Text = nil; !e.Collection.IsZero() { // else it was moved
				list = append(list, *e)
			}
			return true
		})
	})
	return list, err
}

// maxGone bounds the removed entries with one UID that Gone reads.
const maxGone = 20

// Gone returns the removed entries of calendars with a UID, with their objects, in the order of their arrival.
func (d *reading) Gone(uid string) (list []*Departed, err error) {
	bin, err := d.r.FolderNamed(removedFolder)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids, err := d.r.Lookup(indexEntries, uidKey(uid))
	if err != nil {
		return nil, err
	}
	for _, id := range ids[max(0, len(ids)-maxGone):] {
		row, err := d.row(id)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		if _, in := row.Member(bin.Note); !in {
			continue
		}
		e, err := d.entry(bin, id, true)
		if err != nil {
			return nil, err
		}
		if e == nil || e.Component == vcard {
			continue
		}
		if o, err := calendar.ReadObject(e.Text); err == nil && o.UID == uid {
			list = append(list, &Departed{*e, o})
		}
	}
	return list, nil
}

// Departed is a removed entry of a calendar with its object.
type Departed struct {
	Entry
	Object *calendar.Object
}

// Gone returns the removed entries of calendars with a UID, with their objects, in the order of their arrival.
func (f *File) Gone(ctx context.Context, uid string) (list []*Departed, err error) {
	err = f.read(ctx, func(d *reading) error {
		list, err = d.Gone(uid)
		return err
	})
	return list, err
}

// Restore moves a removed entry to a collection. If that has an entry of its name, it gets a new one.
func (c *Changing) Restore(id note.UNID, kind Kind, collection string) error {
	bin, err := c.r.FolderNamed(removedFolder)
	if err != nil || !c.owns(nil) {
		return fmt.Errorf("%w: %s", ErrNoEntry, id)
	}
	h, err := c.find(kind, collection, note.Insert)
	if err != nil {
		return err
	}
	nid, err := c.r.Find(id)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNoEntry, id)
	}
	e, err := c.entry(bin, nid, true)
	if err != nil || e == nil {
		return errors.Join(err, ErrNoEntry)
	}
	p, err := parse(kind, e.Text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.mayPut(h, nil, p, Condition{}); err != nil {
		return err
	}
	if err := c.fits(nil, e.Size+total(e.Attachments)); err != nil {
		return err
	}
	have, err := c.r.Content(nid)
	if err != nil {
		return err
	}
	content := have.Content
	content.Items = content.Items.With(itemRemoved, nil).With(itemFrom, nil)
	if other, err := c.named(h, e.Name, false); err == nil && other != nil {
		content.Items = content.Items.With(itemName, note.Text(c.f.svc.NewName(kind)))
	}
	if err := c.write().Rewrite(nid, content); err != nil {
		return err
	}
	if _, err := c.write().AddTo(nid, h.Note); err != nil {
		return err
	}
	return c.write().RemoveFrom(nid, bin.Note)
}
