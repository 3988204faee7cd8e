package directory

import (
	"context"
	"fmt"
	"slices"

	"doublet/note"
)

// AddMailIn gives a database an address under which it receives mail. Without a mail server the database is one of this place.
func (d *Directory) AddMailIn(ctx context.Context, who note.Who, f MailInFields) (MailIn, error) {
	if err := RequireAdmin(who); err != nil {
		return MailIn{}, err
	}
	if f.MailServer.IsZero() {
		f.MailServer = d.mailServer(ctx)
	}
	var out MailIn
	err := d.update(ctx, who, func(e *edit) error {
		if err := e.checkMailIn(&f, ""); err != nil {
			return err
		}
		out = MailIn{ID: d.s.UNID(), MailInFields: f}
		return e.create(out.ID, f.write(nil))
	})
	return out, err
}

// SetMailIn changes a mail-in database document under the lock of the directory; fn must be quick.
func (d *Directory) SetMailIn(ctx context.Context, who note.Who, id note.UNID, fn func(*MailInFields) error) (MailIn, error) {
	if err := RequireAdmin(who); err != nil {
		return MailIn{}, err
	}
	var out MailIn
	err := d.update(ctx, who, func(e *edit) error {
		return e.change(id, formMailIn, func(items note.Items) (note.Items, error) {
			f := readMailIn(id, items).MailInFields
			was := f.InternetAddress
			if err := fn(&f); err != nil {
				return nil, err
			}
			if err := e.checkMailIn(&f, was); err != nil {
				return nil, err
			}
			out = MailIn{ID: id, MailInFields: f}
			return f.write(items), nil
		})
	})
	return out, err
}

func (e *edit) checkMailIn(f *MailInFields, was string) error {
	var err error
	if f.Name, err = cleanName(f.Name); err != nil {
		return fmt.Errorf("mail-in database: %w", err)
	}
	if f.Database == 0 {
		return fmt.Errorf("%w mail-in database %q: it needs the id of the database that takes the mail", ErrInvalid, f.Name)
	}
	domains, err := readDomains(&e.w.Reader)
	if err != nil {
		return err
	}
	if err := checkAddress(f.InternetAddress, withDomainsOf(slices.Clone(domains), []string{was})); err != nil {
		return fmt.Errorf("mail-in database %q: %w", f.Name, err)
	}
	return checkSizes(f.SizeLimit)
}

// MailIn returns a mail-in database document by id; one that was removed is found too.
func (d *Directory) MailIn(ctx context.Context, id note.UNID) (MailIn, error) {
	var m MailIn
	err := d.document(ctx, id, formMailIn, func(items note.Items) { m = readMailIn(id, items) })
	return m, err
}

// MailInByName finds a mail-in database document by name or address.
func (d *Directory) MailInByName(ctx context.Context, name string) (MailIn, error) {
	t, err := d.Lookup(ctx, name)
	if err != nil {
		return MailIn{}, err
	}
	if t.Kind != TargetMailIn {
		return MailIn{}, fmt.Errorf("%w: %q is a %s, not a mail-in database", ErrNotFound, name, t.Kind)
	}
	return d.MailIn(ctx, t.ID)
}

// RemoveMailIn removes the document, as RemovePerson does a person. The database stays, for ever.
func (d *Directory) RemoveMailIn(ctx context.Context, who note.Who, id note.UNID) error {
	return d.remove(ctx, who, id, formMailIn)
}

// ListMailIns lists mail-in database documents by name, as ListPersons does people.
func (d *Directory) ListMailIns(ctx context.Context, prefix string, limit int, after string) (list []MailIn, next string, err error) {
	next, err = d.list(ctx, 'm', prefix, limit, after, func(u note.UNID, items note.Items) {
		list = append(list, readMailIn(u, items))
	})
	return list, next, err
}
