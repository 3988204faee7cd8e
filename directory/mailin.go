package directory

import (
	"context"
	"fmt"
	"slices"

	"doublet/note"
)

// MailIns adds, changes, lists and removes mail-in databases.
type MailIns struct {
	*base
	names   *Names
	servers *Servers
}

// Add assigns an address to a database, so that it receives mail. Without a MailServer, this server holds the database.
func (ms *MailIns) Add(ctx context.Context, who note.Who, f MailInFields) (MailIn, error) {
	if err := RequireAdmin(who); err != nil {
		return MailIn{}, err
	}
	if f.MailServer.IsZero() {
		f.MailServer = ms.servers.mailServer(ctx)
	}
	var out MailIn
	err := ms.update(ctx, who, func(e *edit) error {
		if err := e.checkMailIn(&f, ""); err != nil {
			return err
		}
		out = MailIn{ID: ms.s.UNID(), MailInFields: f}
		return e.create(out.ID, f.write(nil))
	})
	return out, err
}

// Set changes a mail-in database document. It calls fn under the directory's lock, so fn must be quick.
func (ms *MailIns) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*MailInFields) error) (MailIn, error) {
	if err := RequireAdmin(who); err != nil {
		return MailIn{}, err
	}
	var out MailIn
	err := ms.update(ctx, who, func(e *edit) error {
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
		return fmt.Errorf("%w mail-in database %q: database id is not set", ErrInvalid, f.Name)
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

// Get returns a mail-in database document by id. It also finds a document that was removed.
func (ms *MailIns) Get(ctx context.Context, id note.UNID) (MailIn, error) {
	var m MailIn
	err := ms.document(ctx, id, formMailIn, func(items note.Items) { m = readMailIn(id, items) })
	return m, err
}

// Named finds a mail-in database document by name or address.
func (ms *MailIns) Named(ctx context.Context, name string) (MailIn, error) {
	t, err := ms.names.Lookup(ctx, name)
	if err != nil {
		return MailIn{}, err
	}
	if t.Kind != TargetMailIn {
		return MailIn{}, fmt.Errorf("%w: %q is a %s, not a mail-in database", ErrNotFound, name, t.Kind)
	}
	return ms.Get(ctx, t.ID)
}

// Remove removes the document, as People.Remove removes a person. It never removes the database itself.
func (ms *MailIns) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return ms.remove(ctx, who, id, formMailIn)
}

// List lists mail-in database documents by name, as People.List lists people.
func (ms *MailIns) List(ctx context.Context, prefix string, limit int,
	after string) (list []MailIn, next string, err error) {
	next, err = ms.list(ctx, 'm', prefix, limit, after, func(u note.UNID, items note.Items) {
		list = append(list, readMailIn(u, items))
	})
	return list, next, err
}
