package imapd

import (
	"context"
	"errors"
	"fmt"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/store"
)

// NewBackend returns the Backend of a server: the directory provides accounts and names, package mailbox the mail
// files.
func NewBackend(in *signin.Service, d *directory.Directory, m *mailbox.Service) Backend {
	return &backend{in, d, m}
}

type backend struct {
	in   *signin.Service
	dir  *directory.Directory
	mail *mailbox.Service
}

// SignIn implements Backend.
func (b *backend) SignIn() *signin.Service { return b.in }

// Mail implements Backend.
func (b *backend) Mail() *mailbox.Service { return b.mail }

// Identifier implements Backend. It returns a person's short name, or the full name if there is none.
func (b *backend) Identifier(ctx context.Context, id note.UNID) (string, error) {
	p, err := b.dir.Names.Person(ctx, id)
	if err == nil && p.Removed.IsZero() {
		if p.ShortName != "" {
			return p.ShortName, nil
		}
		return p.Name(), nil
	}
	if err != nil && !errors.Is(err, directory.ErrNotFound) {
		return "", err
	}
	return b.dir.Names.NameOf(ctx, id)
}

// Identify implements Backend.
func (b *backend) Identify(ctx context.Context, name string) (note.UNID, error) {
	t, err := b.dir.Names.Lookup(ctx, name)
	switch {
	case errors.Is(err, directory.ErrNotFound), err == nil && t.Kind == directory.TargetMailIn:
		return note.UNID{}, fmt.Errorf("%w: %q", ErrIdentifier, name)
	case err != nil:
		return note.UNID{}, err
	}
	return t.ID, nil
}

// SetQuota implements Backend. The directory also stores the quota of a person's own mail file.
func (b *backend) SetQuota(ctx context.Context, who note.Who, db note.DatabaseID, limit uint64) error {
	if directory.RequireAdmin(who) != nil {
		return store.ErrDenied
	}
	owner, err := b.mail.Owner(db)
	if err != nil {
		return err
	}
	if p, err := b.dir.Names.Person(ctx, owner); err == nil && p.MailDatabase == db {
		set := func(f *directory.PersonFields) error { f.Quota = limit; return nil }
		if _, err := b.dir.People.Set(ctx, who, owner, set); err != nil {
			return err
		}
	}
	return b.mail.SetQuota(db, limit)
}

// URLSecret implements Backend.
func (b *backend) URLSecret() []byte { return b.dir.Secret.Key("imap urlauth") }
