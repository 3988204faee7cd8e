package directory

import (
	"context"
	"fmt"
	"slices"

	"doublet/note"
)

var mailInRecord = record[MailIn, MailInFields]{formMailIn, 'm', readMailIn,
	func(m *MailIn) *MailInFields { return &m.MailInFields }, (*MailInFields).write, (*edit).checkMailIn}

// MailIns adds, changes, lists and removes mail-in databases.
type MailIns struct {
	*base
	names   *Names
	servers *Servers
}

// Add assigns an address to a database, so that it receives mail. Without a MailServer, this server holds the database.
func (ms *MailIns) Add(ctx context.Context, who note.Who, f MailInFields) (MailIn, error) {
	if f.MailServer.IsZero() {
		f.MailServer = ms.servers.mailServer(ctx)
	}
	return mailInRecord.add(ctx, ms.base, who, f)
}

// Set changes a mail-in database document. It calls fn under the directory's lock, so fn must be quick.
func (ms *MailIns) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*MailInFields) error) (MailIn, error) {
	return mailInRecord.set(ctx, ms.base, who, id, fn)
}

func (e *edit) checkMailIn(f, was *MailInFields) error {
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
	if was != nil {
		domains = withDomainsOf(slices.Clone(domains), []string{was.InternetAddress})
	}
	if err := checkAddress(f.InternetAddress, domains); err != nil {
		return fmt.Errorf("mail-in database %q: %w", f.Name, err)
	}
	if err := f.Resource.check(); err != nil {
		return fmt.Errorf("mail-in database %q: %w", f.Name, err)
	}
	return checkSizes(f.SizeLimit)
}

// Get returns a mail-in database document by id. It also finds a document that was removed.
func (ms *MailIns) Get(ctx context.Context, id note.UNID) (MailIn, error) {
	return mailInRecord.get(ctx, ms.base, id)
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
func (ms *MailIns) List(ctx context.Context, prefix string, limit int, after string) ([]MailIn, string, error) {
	return mailInRecord.list(ctx, ms.base, prefix, limit, after)
}
