package directory

import (
	"context"
	"fmt"

	"doublet/note"
)

// record is the frame that adds, changes and reads the documents of a form. R is a document, F its fields, which an
// administrator sets.
type record[R, F any] struct {
	form string
	// letter begins the keys of the form in the list by name.
	letter byte
	read   func(note.UNID, note.Items) R
	fields func(*R) *F
	write  func(*F, note.Items) note.Items
	// check checks and normalizes fields. was holds the present ones, nil for a new document.
	check func(e *edit, f, was *F) error
}

// add adds a document.
func (x *record[R, F]) add(ctx context.Context, b *base, who note.Who, f F) (out R, err error) {
	if err := RequireAdmin(who); err != nil {
		return out, err
	}
	id := b.s.UNID()
	err = b.update(ctx, who, func(e *edit) error {
		if err := x.check(e, &f, nil); err != nil {
			return err
		}
		items := x.write(&f, nil)
		out = x.read(id, items)
		return e.create(id, items)
	})
	return out, err
}

// set changes the fields of a document. It calls fn under the directory's lock.
func (x *record[R, F]) set(ctx context.Context, b *base, who note.Who, id note.UNID, fn func(*F) error) (out R,
	err error) {
	if err := RequireAdmin(who); err != nil {
		return out, err
	}
	err = b.update(ctx, who, func(e *edit) error {
		return e.change(id, x.form, func(items note.Items) (note.Items, error) {
			was, now := x.read(id, items), x.read(id, items) // two, because fn may change lists in place
			f := x.fields(&now)
			if err := fn(f); err != nil {
				return nil, err
			}
			if err := x.check(e, f, x.fields(&was)); err != nil {
				return nil, err
			}
			items = x.write(f, items)
			out = x.read(id, items)
			return items, nil
		})
	})
	return out, err
}

// hidden replaces a stored password that administrators cannot read.
const hidden = "***"

// setHidden calls fn with a stored password hidden. If fn leaves it hidden, the password stays, provided that same
// reports that it is still sent to the same place.
func setHidden(password *string, fn func() error, same func() bool) error {
	stored := *password
	if stored != "" {
		*password = hidden
	}
	if err := fn(); err != nil || *password != hidden {
		return err
	}
	if !same() {
		return fmt.Errorf("%w: give the password again, because it would be sent to another place", ErrInvalid)
	}
	*password = stored
	return nil
}

// get returns a document by id. It also finds one that was removed.
func (x *record[R, F]) get(ctx context.Context, b *base, id note.UNID) (out R, err error) {
	err = b.document(ctx, id, x.form, func(items note.Items) { out = x.read(id, items) })
	return out, err
}

// list lists documents by name, as base.list does.
func (x *record[R, F]) list(ctx context.Context, b *base, prefix string, limit int,
	after string) (out []R, next string, err error) {
	next, err = b.list(ctx, x.letter, prefix, limit, after, func(u note.UNID, items note.Items) {
		out = append(out, x.read(u, items))
	})
	return out, next, err
}
