package groupware

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Batch is the result of ChangeEach.
type Batch struct {
	// Errs has an element for each item: nil, or the reason why the item failed.
	Errs []error
	// Before and After are the moments just before and after the update. After does not include later changes by
	// others.
	Before, After Moments
}

// ChangeEach changes the mail file in one update. It calls check with the moments before the update, and then fn for
// each of n items; the changes of one item take effect completely or not at all. An error of check, or one that
// concerns all items (see store.EachItem), ends the update, and nothing has changed. If an item fails after it has
// changed something, the update starts again without it, so ChangeEach may call fn for an item more than once.
func (f *File) ChangeEach(ctx context.Context, kind Kind, n int, check func(Moments) error,
	fn func(c *Changing, i int) error) (Batch, error) {
	out := Batch{Errs: make([]error, n)}
	for {
		var w *store.Writer
		err := f.Change(ctx, func(c *Changing) (err error) {
			w = c.w
			if out.Before, err = c.moments(kind); err != nil {
				return err
			}
			if err := check(out.Before); err != nil {
				return err
			}
			return store.EachItem(out.Errs, func(i int) (bool, error) {
				c.touched = false
				err := fn(c, i)
				return c.touched, err
			})
		})
		if errors.Is(err, store.ErrRestart) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.After, err = f.after(ctx, kind, w.Counters().Ledger, out.Before)
		return out, err
	}
}

// after returns the moments after an update, at whose end the ledger was l. It leaves out changes that others made
// since, so that the client learns them.
func (f *File) after(ctx context.Context, kind Kind, l note.Ledger, before Moments) (Moments, error) {
	out, err := f.Moments(context.WithoutCancel(ctx), kind)
	for _, m := range []struct{ now, before *Moment }{{&out.Collections, &before.Collections},
		{&out.Entries, &before.Entries}} {
		m.now.Mod = max(min(m.now.Mod, l.Last), m.before.Mod)
		m.now.UID = min(m.now.UID, l.UID)
	}
	return out, err
}

// ByID calls fn for the entries with UNIDs, in this order, with their texts if text is set, until fn returns false. It
// leaves out those that are in no collection of the kind that the person may read.
func (f *File) ByID(ctx context.Context, kind Kind, ids []note.UNID, text bool, fn func(*Entry) bool) error {
	return f.read(ctx, func(d *reading) error {
		for _, u := range ids {
			e, err := d.byID(kind, u, text)
			if err != nil {
				return err
			}
			if e != nil && !fn(e) {
				return nil
			}
		}
		return nil
	})
}

// All calls fn for all entries of the collections of a kind that the person may read, with their texts if text is set,
// until fn returns false.
func (f *File) All(ctx context.Context, kind Kind, text bool, fn func(*Entry) bool) error {
	return f.read(ctx, func(d *reading) error {
		more := true
		for _, h := range d.r.AllFolders() {
			if !more || !d.holds(kind, h) || d.rights(h)&(note.Lookup|note.Read) != note.Lookup|note.Read {
				continue
			}
			err := d.each(h, Select{Text: text}, func(e *Entry) bool {
				more = fn(e)
				return more
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// byID returns the entry with a UNID, nil if there is none that the person may read.
func (d *reading) byID(kind Kind, u note.UNID, text bool) (*Entry, error) {
	id, err := d.r.Find(u)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, err := d.row(id)
	if err != nil || row == nil {
		return nil, err
	}
	h, _ := d.home(kind, row)
	if h == nil {
		return nil, nil
	}
	return d.entry(h, id, text)
}

// Locate returns the entry with a UNID, with its text, and its place. Errors match ErrNoEntry.
func (c *Changing) Locate(kind Kind, u note.UNID) (*Entry, Place, error) {
	e, err := c.byID(kind, u, true)
	if err == nil && e == nil {
		err = fmt.Errorf("%w: %s", ErrNoEntry, u)
	}
	if err != nil {
		return nil, Place{}, err
	}
	name, err := c.nameOf(kind, e.Collection)
	return e, Place{name, e.Name}, err
}

// nameOf returns the name of the collection with a UNID.
func (d *reading) nameOf(kind Kind, u note.UNID) (string, error) {
	for _, h := range d.r.AllFolders() {
		if _, name, _ := parseFolder(h.Name); h.UNID == u && d.holds(kind, h) && d.rights(h)&note.Lookup != 0 {
			return name, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoCollection, u)
}

// NameOf returns the name of the collection with a UNID, also of one that this update created.
func (c *Changing) NameOf(kind Kind, u note.UNID) (string, error) { return c.nameOf(kind, u) }

// Shift moves an entry to another collection. It stays the same note, unlike that of File.Move, and keeps its name. The
// person needs the right to expunge in the old collection and to insert in the new one, which must have neither the
// name nor the UID of the entry.
func (c *Changing) Shift(kind Kind, u note.UNID, to string) error {
	e, from, err := c.Locate(kind, u)
	if err != nil || from.Collection == to {
		return err
	}
	old, err := c.find(kind, from.Collection, note.Lookup|note.Expunge)
	if err != nil {
		return err
	}
	h, err := c.find(kind, to, note.Insert)
	if err != nil {
		return err
	}
	if taken, err := c.taken(h, e.Name); err != nil || taken != nil {
		return errors.Join(err, fmt.Errorf("%w: entry %.80q", ErrExists, e.Name))
	}
	p, err := parse(kind, e.Text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.mayHold(h, nil, p); err != nil {
		return err
	}
	if _, err := c.write().AddTo(e.id, h.Note); err != nil {
		return err
	}
	c.fresh(h, e.id, e.Name, e.UID)
	return c.write().RemoveFrom(e.id, old.Note)
}

// fresh records the keys of an entry that this update writes, because the index has them only when the update is
// durable.
func (c *Changing) fresh(h *layout.Folder, id note.ID, name, uid string) {
	if c.keys == nil {
		c.keys = map[freshKey]note.ID{}
	}
	c.keys[freshKey{h.Note, string(nameKey(name))}] = id
	c.keys[freshKey{h.Note, string(uidKey(uid))}] = id
}
