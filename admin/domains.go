package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/directory"
	"doublet/note"
)

// Domain is a local domain.
type Domain struct {
	Name    string `json:"name"`
	Default bool   `json:"default,omitempty"`
}

// MailIn is a database that receives mail at an address.
type MailIn struct {
	Name      string    `json:"name"`
	Address   string    `json:"address,omitempty"`
	Database  string    `json:"database"`
	SizeLimit Size      `json:"size_limit,omitempty"`
	Removed   time.Time `json:"removed,omitzero"`
	ID        string    `json:"id"`
}

// DomainSet are the arguments of domain set.
type DomainSet struct {
	Name    string `json:"name" arg:"required" help:"domain"`
	Default bool   `json:"default" help:"make it the default domain"`
}

// MailInAdd are the arguments of mailin add.
type MailInAdd struct {
	Name      string `json:"name" arg:"required" help:"name of the mail-in database"`
	Address   string `json:"address" help:"address under which it receives mail" required:"true"`
	Database  string `json:"database" help:"id or title of the database; without one a new mail file is made"`
	SizeLimit Size   `json:"size_limit" help:"greatest message taken"`
}

// MailInSet are the arguments of mailin set. A nil field leaves the value unchanged.
type MailInSet struct {
	Name      string  `json:"name" arg:"required" help:"name, address or id"`
	Rename    *string `json:"rename" help:"new name"`
	Address   *string `json:"address" help:"address under which it receives mail"`
	Database  *string `json:"database" help:"id or title of the database"`
	SizeLimit *Size   `json:"size_limit" help:"greatest message taken, 0 for the server's"`
}

func domains() []*Verb {
	return []*Verb{
		define("domain add", "make a domain local: its mail is delivered here",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				if err := c.Directory.Domains.Add(ctx, c.Who, a.Name); err != nil {
					return Done{}, err
				}
				return Done{"domain " + a.Name + " is local; doublet dns show " + a.Name + " prints what to publish"},
					c.EnsureKeys(ctx, c.Who, a.Name)
			}, changes),
		define("domain list", "list the local domains", func(ctx context.Context, c *Call,
			_ *struct{}) ([]Domain, error) {
			names, err := c.Directory.Domains.List(ctx)
			out := make([]Domain, 0, len(names))
			for i, n := range names {
				out = append(out, Domain{n, i == 0})
			}
			return out, err
		}),
		define("domain show", "show a local domain", func(ctx context.Context, c *Call, a *Named) (Domain, error) {
			return c.domain(ctx, a.Name)
		}),
		define("domain set", "change a local domain", func(ctx context.Context, c *Call, a *DomainSet) (Domain, error) {
			if _, err := c.domain(ctx, a.Name); err != nil {
				return Domain{}, err
			}
			if a.Default {
				if err := c.Directory.Domains.SetDefault(ctx, c.Who, a.Name); err != nil {
					return Domain{}, err
				}
			}
			return c.domain(ctx, a.Name)
		}, changes),
		define("domain remove", "make a domain a stranger's; adding it again brings back its addresses",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				if _, err := c.domain(ctx, a.Name); err != nil {
					return Done{}, err
				}
				return Done{"domain " + a.Name + " is not local any more"},
					c.Directory.Domains.Remove(ctx, c.Who, a.Name)
			}, changes),
	}
}

func (c *Call) domain(ctx context.Context, name string) (Domain, error) {
	normal, err := directory.NormalDomain(name)
	if err != nil {
		return Domain{}, err
	}
	all, err := c.Directory.Domains.List(ctx)
	if err != nil {
		return Domain{}, err
	}
	i := slices.Index(all, normal)
	if i < 0 {
		return Domain{}, fmt.Errorf("domain %q: %w", name, directory.ErrNotFound)
	}
	return Domain{normal, i == 0}, nil
}

// mailIns describes the mail-in databases of the directory.
func (c *Call) mailIns() documents[directory.MailIn, MailIn] {
	all := c.Directory.MailIns
	return documents[directory.MailIn, MailIn]{"MailIn", "mail-in database", all.List, all.Get, all.Named,
		func(_ context.Context, m directory.MailIn) MailIn { return mailInOf(m) },
		func(m *directory.MailIn) []string { return []string{m.Name, m.InternetAddress} }}
}

func mailIns() []*Verb {
	return []*Verb{
		define("mailin add", "give a database an address under which it receives mail", mailInAdd, changes),
		define("mailin list", "list mail-in databases", listDocuments((*Call).mailIns)),
		define("mailin show", "show a mail-in database", func(ctx context.Context, c *Call, a *Named) (MailIn, error) {
			m, err := c.mailIns().find(ctx, a.Name)
			return mailInOf(m), err
		}),
		define("mailin set", "change a mail-in database", mailInSet, changes),
		define("mailin remove", "take its address from a mail-in database; the database stays",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				m, err := c.mailIns().find(ctx, a.Name)
				if err != nil {
					return Done{}, err
				}
				return Done{"removed mail-in database " + m.Name + undoTime},
					c.Directory.MailIns.Remove(ctx, c.Who, m.ID)
			}, changes),
		define("mailin undo", "bring back a mail-in database that was removed", undo("MailIn"), changes),
	}
}

func mailInOf(m directory.MailIn) MailIn {
	return MailIn{
		Name: m.Name, Address: m.InternetAddress, Database: m.Database.String(), SizeLimit: Size(m.SizeLimit),
		Removed: m.Removed, ID: m.ID.String(),
	}
}

func mailInAdd(ctx context.Context, c *Call, a *MailInAdd) (MailIn, error) {
	f := directory.MailInFields{Name: a.Name, InternetAddress: a.Address, SizeLimit: uint64(a.SizeLimit)}
	if a.Database == "" {
		m, err := c.newMailIn(ctx, f)
		return mailInOf(m), err
	}
	info, err := c.database(a.Database)
	if err != nil {
		return MailIn{}, err
	}
	f.Database = info.ID
	m, err := c.Directory.MailIns.Add(ctx, c.Who, f)
	return mailInOf(m), err
}

// newMailIn adds a mail-in database and makes its database.
func (c *Call) newMailIn(ctx context.Context, f directory.MailInFields) (m directory.MailIn, err error) {
	// Check the address first, so that no database is left behind if it is taken.
	if _, err := c.Directory.Names.Lookup(ctx, f.InternetAddress); err == nil {
		return m, fmt.Errorf("address %s: %w", f.InternetAddress, directory.ErrNameTaken)
	}
	if f.Database, err = c.Mailbox.Make(ctx, note.UNID{}, f.Name, 0, 0); err != nil {
		return m, err
	}
	if m, err = c.Directory.MailIns.Add(ctx, c.Who, f); err != nil {
		err = errors.Join(err, c.Store.RemoveDatabase(note.System, f.Database))
	}
	return m, err
}

func mailInSet(ctx context.Context, c *Call, a *MailInSet) (MailIn, error) {
	m, err := c.mailIns().find(ctx, a.Name)
	if err != nil {
		return MailIn{}, err
	}
	var db *note.DatabaseID
	if a.Database != nil {
		info, err := c.database(*a.Database)
		if err != nil {
			return MailIn{}, err
		}
		db = &info.ID
	}
	m, err = c.Directory.MailIns.Set(ctx, c.Who, m.ID, func(f *directory.MailInFields) error {
		assign(&f.Name, a.Rename)
		assign(&f.InternetAddress, a.Address)
		if db != nil { // the database is on this server
			f.Database, f.MailServer = *db, c.Directory.Servers.Self()
		}
		assign((*Size)(&f.SizeLimit), a.SizeLimit)
		return nil
	})
	return mailInOf(m), err
}
