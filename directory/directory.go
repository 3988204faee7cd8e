// Package directory is the Domino Directory: people, groups, mail-in databases, servers and domains
// as notes of one database; names resolved to ids, sign-ins to what the store checks.
//
// Everything refers to ids and never to names, so that a rename changes one note. Names are found
// through indexes that are part of every write: what was committed resolves at once, and opening
// the directory reads two notes whatever its size.
package directory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/scram"
)

// ID is the database of the directory, the same in every domain.
const ID note.DatabaseID = 0x000000000000D1B5

// The kinds of error that callers branch on.
var (
	// ErrNoSuchRecipient: the domain is local and has nobody of that address (550 5.1.1).
	ErrNoSuchRecipient = errors.New("directory: no such recipient")
	// ErrNotLocal: the address is of a domain that is not local.
	ErrNotLocal = errors.New("directory: not a local domain")
	// ErrNotFound: there is no entry of that name or id.
	ErrNotFound = errors.New("directory: not found")
	// ErrNameTaken: another entry has the name or address.
	ErrNameTaken = errors.New("directory: name is taken")
	// ErrInvalid: a value cannot be what it should be.
	ErrInvalid = errors.New("directory: invalid")
	// ErrDenied: the verb needs the role Admin.
	ErrDenied = errors.New("directory: access denied")
	// ErrAuthentication: user and password do not go together.
	ErrAuthentication = errors.New("directory: authentication failed")
	// ErrDisabled: the person may not sign in.
	ErrDisabled = errors.New("directory: the account is disabled")
	// ErrTooMany: a group expands to more than is allowed.
	ErrTooMany = errors.New("directory: too many members")
)

// RoleAdmin is the role that may change the directory.
const RoleAdmin = "Admin"

// MailFiles makes and removes people's mail files. Both must be harmless when repeated.
type MailFiles interface {
	// Elsewhere says that a mail file, which is not here, is on other servers or will be made there: one of its own made
	// here would hide it.
	Elsewhere(id note.DatabaseID) bool
	MakeMailFile(ctx context.Context, id note.DatabaseID, owner note.UNID, title string) error
	RemoveMailFile(ctx context.Context, id note.DatabaseID) error
}

// Options are the settings of a directory. Zero values take the defaults.
type Options struct {
	// Domain is the first local domain, where the directory is made.
	Domain string
	// NameCache is how many answers are kept (10,000).
	NameCache int
	// MaxMembers is how many recipients groups expand to at most, and how many members one group
	// lists (10,000).
	MaxMembers int
	// KeepRemoved is how long a removal can be undone (30 days).
	KeepRemoved time.Duration
	// ScramIterations of new credentials (4,096).
	ScramIterations int
	// Scram makes SCRAM-SHA-256 credentials when a password that another program hashed is hashed
	// anew.
	Scram bool
	// Private keeps people from looking each other up (Find, Entries).
	Private bool
	// MailFiles may be nil: mail files then get their ids, and are made by whoever opens them first.
	MailFiles MailFiles
	Stats     *stat.Tree
}

func (o *Options) fill() {
	if o.NameCache == 0 {
		o.NameCache = 10_000
	}
	if o.MaxMembers == 0 {
		o.MaxMembers = 10_000
	}
	if o.KeepRemoved == 0 {
		o.KeepRemoved = 30 * 24 * time.Hour
	}
	o.ScramIterations = max(o.ScramIterations, scram.MinIterations)
}

// Directory is the open directory: one service for each kind of entry, over one database. All methods may be called
// from any goroutine.
type Directory struct {
	*base
	Secret        *Secret
	Names         *Names
	Domains       *Domains
	Servers       *Servers
	Routes        *Routes
	People        *People
	Groups        *Groups
	MailIns       *MailIns
	Connections   *Connections
	DKIMKeys      *DKIMKeys
	Passwords     *Passwords
	SecondFactors *SecondFactors
	SignIns       *SignIns
	Removals      *Removals
	stop          func()
}

// base reads and changes the directory's database; every service has it.
type base struct {
	s   *store.Store
	env *env.Env
	opt Options

	// version grows with every change; a value that was read at an older version is outdated.
	version atomic.Uint64
}

// The notes that every directory has once, under one UNID.
var (
	unidSecret  = note.DeriveUNID([]byte("directory"), []byte("secret"))
	unidDomains = note.DeriveUNID([]byte("directory"), []byte("domains"))
)

// Open opens the directory, and makes it in a store that has none. The store must have been opened
// with Indexes.
func Open(s *store.Store, e *env.Env, pool *password.Pool, o Options) (*Directory, error) {
	o.fill()
	ctx := context.Background()
	// A directory that is there opens on a full disk too.
	_, err := s.Info(ID)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Directory", Kind: Kind})
	}
	if err != nil {
		return nil, fmt.Errorf("directory: create: %w", err)
	}
	b := &base{s: s, env: e, opt: o}
	secret, err := b.readSecret(ctx)
	if err != nil {
		return nil, fmt.Errorf("directory: open: %w", err)
	}
	d := b.compose(pool, secret)
	d.UseMailFiles(o.MailFiles)
	if o.Domain != "" {
		if err := d.Domains.first(ctx, o.Domain); err != nil {
			return nil, err
		}
	}
	if d.stop, err = s.Watch(ID, func() { d.version.Add(1) }); err != nil {
		return nil, fmt.Errorf("directory: watch: %w", err)
	}
	return d, nil
}

// Close ends watching the database. The store stays open.
func (d *Directory) Close() { d.stop() }

// UseMailFiles says who makes mail files from now on.
func (d *Directory) UseMailFiles(m MailFiles) {
	if m == nil {
		d.People.files.Store(nil)
		return
	}
	d.People.files.Store(&m)
}

// Version is the directory's version: it differs after every change, as long as the directory is
// open. A Who whose Directory is not the version any more is to be taken anew, with WhoOf.
func (b *base) Version() uint64 { return b.version.Load() }

// read calls fn with the directory as it is now.
func (b *base) read(ctx context.Context, fn func(*store.Reader) error) error {
	return b.s.Read(ctx, note.System, ID, fn)
}

// update changes the directory. What it changed is seen by every look-up that begins after it.
func (b *base) update(ctx context.Context, who note.Who, fn func(*edit) error) error {
	actor := note.Who{System: true, Person: who.Person}
	err := b.s.Update(ctx, actor, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		return fn(&edit{b: b, w: w})
	})
	if err == nil {
		// The watchers may be told by another update that is still on its way.
		b.version.Add(1)
	}
	return err
}

// compose makes the services, each of those that it is made of.
func (b *base) compose(pool *password.Pool, secret *Secret) *Directory {
	d := &Directory{base: b, Secret: secret, Domains: &Domains{base: b}, Servers: &Servers{base: b}, Routes: &Routes{base: b},
		Connections: &Connections{base: b}, DKIMKeys: &DKIMKeys{base: b}}
	d.Names = &Names{base: b, domains: d.Domains, cache: newNameCache(b.opt.NameCache, b.opt.Stats)}
	d.Passwords = &Passwords{base: b, names: d.Names, secret: secret, pool: pool}
	d.SecondFactors = &SecondFactors{base: b, names: d.Names, secret: secret}
	d.SignIns = &SignIns{base: b, names: d.Names, domains: d.Domains, passwords: d.Passwords, secret: secret}
	d.SignIns.stat.init(b.opt.Stats)
	d.People = &People{base: b, names: d.Names, domains: d.Domains, servers: d.Servers, passwords: d.Passwords}
	d.Groups = &Groups{base: b, names: d.Names}
	d.MailIns = &MailIns{base: b, names: d.Names, servers: d.Servers}
	d.Removals = &Removals{base: b, people: d.People}
	return d
}

// document reads a document of a form.
func (b *base) document(ctx context.Context, id note.UNID, form string, fn func(note.Items)) error {
	return b.read(ctx, func(r *store.Reader) error {
		_, c, err := find(r, id)
		if err != nil {
			return err
		}
		if c.Content.Items.Get(itemForm).AsText() != form {
			return fmt.Errorf("%w: %s is no %s", ErrNotFound, id, formWord(form))
		}
		fn(c.Content.Items)
		return nil
	})
}

// find reads a document by its UNID. One that was never there or is gone for good is ErrNotFound.
func find(r *store.Reader, u note.UNID) (note.ID, *layout.Content, error) {
	id, err := r.Find(u)
	if err == nil {
		var c *layout.Content
		if c, err = r.Content(id); err == nil {
			return id, c, nil
		}
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return 0, nil, fmt.Errorf("%w: no entry has the id %s", ErrNotFound, u)
	}
	return 0, nil, err
}

// RequireAdmin refuses everyone but the server itself and people with the role Admin.
func RequireAdmin(who note.Who) error {
	if who.System || hasRole(who.Roles, RoleAdmin) {
		return nil
	}
	return fmt.Errorf("%w: this needs the role %s", ErrDenied, RoleAdmin)
}

func hasRole(roles []string, role string) bool {
	want := lower(role)
	for _, r := range roles {
		if n, err := NormalName(r); err == nil && n == want {
			return true
		}
	}
	return false
}
