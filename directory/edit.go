package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// edit is one transaction on the directory. It holds the directory's write lock.
type edit struct {
	b *base
	w *store.Writer
	// claimed holds the name keys that this transaction assigns. The index shows only the state before the transaction.
	claimed map[string]note.UNID
}

// claim returns ErrNameTaken if another document has one of the names and addresses in items. It ignores names that are
// also in had: a document keeps its names even if another replica has assigned one of them too.
func (e *edit) claim(owner note.UNID, items, had note.Items) error {
	keys := nameKeys(items.Get(itemForm).AsText(), items)
	if had != nil {
		before := nameKeys(had.Get(itemForm).AsText(), had)
		keys = slices.DeleteFunc(keys, func(k []byte) bool {
			return slices.ContainsFunc(before, func(b []byte) bool { return bytes.Equal(b, k) })
		})
	}
	for _, k := range keys {
		if other, ok := e.claimed[string(k)]; ok && other != owner {
			return taken(k)
		}
		ids, err := e.w.Lookup(indexNames, k)
		if err != nil {
			return err
		}
		for _, id := range ids {
			n, err := e.w.Note(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if n.UNID != owner {
				return taken(k)
			}
		}
	}
	if e.claimed == nil {
		e.claimed = make(map[string]note.UNID)
	}
	for _, k := range keys {
		e.claimed[string(k)] = owner
	}
	return nil
}

func taken(key []byte) error {
	what := "name"
	switch key[0] {
	case 'a':
		what = "address"
	case 's':
		what = "server name"
	}
	return fmt.Errorf("%w: the %s %q belongs to another entry; choose another, or change that one first", ErrNameTaken,
		what, key[1:])
}

// create creates a document, if its names are free.
func (e *edit) create(u note.UNID, items note.Items) error {
	if err := e.claim(u, items, nil); err != nil {
		return err
	}
	_, err := e.w.Create(store.New{UNID: u, Content: note.Content{Items: items}})
	return err
}

// document reads a document of a form. Form "" accepts every form that List lists.
func (e *edit) document(u note.UNID, form string) (note.ID, *layout.Content, error) {
	id, c, err := find(&e.w.Reader, u)
	if err != nil {
		return 0, nil, err
	}
	have := c.Content.Items.Get(itemForm).AsText()
	if form == "" && listLetter(have) == 0 || form != "" && have != form {
		return 0, nil, fmt.Errorf("%w: %s is no %s", ErrNotFound, u, formWord(form))
	}
	return id, c, nil
}

func formWord(form string) string {
	switch form {
	case formPerson:
		return "person"
	case formGroup:
		return "group"
	case formMailIn:
		return "mail-in database"
	case formServer:
		return "server"
	case formRoute:
		return "route"
	case formConnection:
		return "connection"
	case formMailRule:
		return "mail rule"
	case formRetention:
		return "retention policy"
	case formAssistance:
		return "other directory"
	}
	return "entry"
}

// revise replaces a document's items.
func (e *edit) revise(id note.ID, c *layout.Content, items note.Items) error {
	next := c.Content
	next.Items = items
	return e.w.Rewrite(id, next)
}

// change replaces the items of a document of a form with those that fn returns. It fails if the document was removed.
func (e *edit) change(u note.UNID, form string, fn func(note.Items) (note.Items, error)) error {
	id, c, err := e.document(u, form)
	if err != nil {
		return err
	}
	if !readRemoved(c.Content.Items).IsZero() {
		return fmt.Errorf("%w: the %s was removed; undo that first", ErrNotFound, formWord(form))
	}
	items, err := fn(c.Content.Items)
	if err != nil {
		return err
	}
	if err := e.claim(u, items, c.Content.Items); err != nil {
		return err
	}
	return e.revise(id, c, items)
}

// remove marks a document as removed: its names stop resolving and become free.
func (b *base) remove(ctx context.Context, who note.Who, u note.UNID, form string) error {
	if err := RequireAdmin(who); err != nil {
		return err
	}
	now := b.env.Clock.Now().Unix()
	return b.update(ctx, who, func(e *edit) error {
		id, c, err := e.document(u, form)
		if err != nil {
			return err
		}
		if !readRemoved(c.Content.Items).IsZero() {
			return nil
		}
		f := fields{c.Content.Items}
		f.int(itemRemoved, max(now, 1))
		return e.revise(id, c, f.items)
	})
}

// destroy deletes a document for good.
func (b *base) destroy(ctx context.Context, who note.Who, u note.UNID, form string) error {
	if err := RequireAdmin(who); err != nil {
		return err
	}
	return b.update(ctx, who, func(e *edit) error {
		id, _, err := e.document(u, form)
		if err != nil {
			return err
		}
		return e.w.Destroy(id)
	})
}

// Removals restores removed entries, and purges them after KeepRemoved.
type Removals struct {
	*base
	people *People
}

// Undo restores a removed entry. It fails if Purge has deleted the entry or another entry has taken one of its names.
func (rm *Removals) Undo(ctx context.Context, who note.Who, u note.UNID) error {
	if err := RequireAdmin(who); err != nil {
		return err
	}
	return rm.update(ctx, who, func(e *edit) error {
		id, c, err := e.document(u, "")
		if err != nil {
			return err
		}
		if c.Content.Items.Get(itemRemoved) == nil {
			return nil
		}
		items := c.Content.Items.With(itemRemoved, nil)
		if err := e.claim(u, items, nil); err != nil {
			return err
		}
		return e.revise(id, c, items)
	})
}

// Removed is an entry that was removed. It can be restored until Until.
type Removed struct {
	ID          note.UNID
	Form, Name  string
	Time, Until time.Time
}

// List lists removed entries, the oldest first. A non-empty name selects entries with that canonical name.
func (rm *Removals) List(ctx context.Context, name string, limit int) ([]Removed, error) {
	var out []Removed
	err := rm.read(ctx, func(r *store.Reader) error {
		var ids []note.ID
		var err error
		if name != "" {
			k, bad := NormalName(name)
			if bad != nil {
				return bad
			}
			ids, err = r.Lookup(indexRemoved, append([]byte{'n'}, k...))
		} else {
			err = r.Scan(indexRemoved, []byte{'t'}, func(_ []byte, id note.ID) bool {
				ids = append(ids, id)
				return len(ids) < limit
			})
		}
		for _, id := range ids[:min(len(ids), limit)] {
			row, bad := r.Note(id)
			if bad != nil {
				return errors.Join(err, bad)
			}
			c, bad := r.Content(id)
			if bad != nil {
				return errors.Join(err, bad)
			}
			at := readRemoved(c.Content.Items)
			out = append(out, Removed{ID: row.UNID, Form: c.Content.Items.Get(itemForm).AsText(),
				Name: canonical(c.Content.Items), Time: at, Until: at.Add(rm.opt.KeepRemoved)})
		}
		return err
	})
	return out, err
}

// purgeAtOnce is the maximum number of entries that one call of Purge handles.
const purgeAtOnce = 1000

// Purge deletes entries that were removed more than KeepRemoved ago, with their mail files and group memberships. It
// returns the number of deleted entries. One call deletes at most 1,000: if it returns that many, there may be more.
func (rm *Removals) Purge(ctx context.Context, who note.Who) (int, error) {
	if err := RequireAdmin(who); err != nil {
		return 0, err
	}
	due, err := rm.List(ctx, "", purgeAtOnce)
	if err != nil {
		return 0, err
	}
	now := rm.env.Clock.Now()
	for n, x := range due {
		if x.Until.After(now) {
			return n, nil
		}
		if err := rm.purge(ctx, who, x.ID); err != nil {
			return n, fmt.Errorf("directory: purge %s %q: %w", formWord(x.Form), x.Name, err)
		}
	}
	return len(due), nil
}

func (rm *Removals) purge(ctx context.Context, who note.Who, u note.UNID) error {
	var file note.DatabaseID
	err := rm.update(ctx, who, func(e *edit) error {
		id, c, err := e.document(u, "")
		if err != nil || c.Content.Items.Get(itemRemoved) == nil {
			return err // the entry was restored meanwhile
		}
		for _, prefix := range []byte{memberAccess, memberMail} {
			groups, err := e.w.Lookup(indexMembers, memberKey(prefix, u))
			if err != nil {
				return err
			}
			for _, g := range groups {
				if err := e.dropMember(g, u); err != nil {
					return err
				}
			}
		}
		if c.Content.Items.Get(itemForm).AsText() == formPerson {
			file = readDatabase(c.Content.Items.Get(itemMailDatabase))
		}
		return e.w.Destroy(id)
	})
	files := rm.opt.MailFiles
	if err != nil || file == 0 || files == nil {
		return err
	}
	// Remove the mail last: a person who can still be restored must find it. A crash before this line leaves a mail
	// file without an owner, which the check command reports.
	return files.RemoveMailFile(ctx, file)
}

func (e *edit) dropMember(group note.ID, u note.UNID) error {
	c, err := e.w.Content(group)
	if err != nil {
		return err
	}
	var keep []string
	for _, m := range c.Content.Items.Get(itemMembers).AsTextList() {
		if m != u.String() {
			keep = append(keep, m)
		}
	}
	f := fields{c.Content.Items}
	f.list(itemMembers, keep)
	return e.revise(group, c, f.items)
}
