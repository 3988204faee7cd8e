// Package directory implements the Domino Directory: people, groups, mail-in databases, servers and domains, stored as
// notes of one database. It resolves names to ids and authenticates people.
//
// Entries refer to each other by id and never by name, so that a rename changes one note. Names are looked up in
// indexes that each write updates: a committed name resolves at once. Open reads two notes, whatever the size of the
// directory.
package directory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"doublet/directory/assist"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/scram"
)

// ID is the id of the directory's database. It is the same in every domain.
const ID note.DatabaseID = 0x000000000000D1B5

// The kinds of errors that callers distinguish with errors.Is.
var (
	// ErrNoSuchRecipient reports that the domain is local, and no entry has the address (550 5.1.1).
	ErrNoSuchRecipient = errors.New("directory: no such recipient")
	// ErrNotLocal reports that the domain of the address is not local.
	ErrNotLocal = errors.New("directory: not a local domain")
	// ErrNotFound reports that no entry has the name or id.
	ErrNotFound = errors.New("directory: not found")
	// ErrNameTaken reports that another entry already has the name or address.
	ErrNameTaken = errors.New("directory: name is taken")
	// ErrInvalid reports that a value is malformed or out of range.
	ErrInvalid = errors.New("directory: invalid")
	// ErrDenied reports that the caller lacks the role Admin.
	ErrDenied = errors.New("directory: access denied")
	// ErrAuthentication reports that the user name or the password is wrong.
	ErrAuthentication = errors.New("directory: authentication failed")
	// ErrDisabled reports that the account is disabled.
	ErrDisabled = errors.New("directory: the account is disabled")
	// ErrTooMany reports that a group expands to more recipients than allowed, or a list has reached its maximum
	// length.
	ErrTooMany = errors.New("directory: too many members")
)

// RoleAdmin is the role that allows changes to the directory.
const RoleAdmin = "Admin"

// MailFiles creates and removes people's mail files. Repeating a MakeMailFile or RemoveMailFile must have no effect.
type MailFiles interface {
	// Elsewhere reports whether a mail file that is not on this server is on other servers or will be created there.
	// Such a file must not be created here, because the new file would hide the other one.
	Elsewhere(id note.DatabaseID) bool
	MakeMailFile(ctx context.Context, f MailFile) error
	RemoveMailFile(ctx context.Context, id note.DatabaseID) error
}

// Options are the settings of a directory. A zero value selects the default, in parentheses.
type Options struct {
	// Domain is the first local domain. Open adds it to a directory that has no domain.
	Domain string
	// NameCache is the maximum number of cached lookups (10,000).
	NameCache int
	// MaxMembers is the maximum number of recipients that groups expand to, and of members in one group (10,000).
	MaxMembers int
	// KeepRemoved is the time during which a removal can be undone (30 days).
	KeepRemoved time.Duration
	// ScramIterations is the iteration count of new SCRAM credentials (4,096).
	ScramIterations int
	// Scram creates SCRAM-SHA-256 credentials when a password hash from another program is replaced by one of ours.
	Scram bool
	// Private prevents people from looking each other up (Find, Entries).
	Private bool
	// MailFiles may be nil. Mail files then get ids, and the code that first opens a mail file creates it.
	MailFiles MailFiles
	// Server is the id of this server's document; zero outside a domain.
	Server note.UNID
	Stats  *stat.Tree
}

// MailFile describes a mail file that is to be made.
type MailFile struct {
	ID    note.DatabaseID
	Owner note.UNID
	Title string
	// Quota and Warning are in bytes; 0 is none.
	Quota, Warning uint64
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

// Directory is an open directory: one service for each kind of entry, over one database. All methods are safe for
// concurrent use.
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
	MailRules     *MailRules
	Retention     *Retention
	Assistance    *Assistance
	DKIMKeys      *DKIMKeys
	Passwords     *Passwords
	SecondFactors *SecondFactors
	Passkeys      *Passkeys
	SignIns       *SignIns
	Removals      *Removals
	stop          func()
}

// base reads and changes the directory's database. Every service embeds it.
type base struct {
	s   *store.Store
	env *env.Env
	opt Options

	// version increases with every change, and is never 0. A value read at an older version is outdated.
	version atomic.Uint64
}

// UNIDs of the notes that exist once in every directory.
var (
	unidSecret  = note.DeriveUNID([]byte("directory"), []byte("secret"))
	unidDomains = note.DeriveUNID([]byte("directory"), []byte("domains"))
)

// Open opens the directory of a store, and creates it if the store has none. The store must have been opened with
// Indexes.
func Open(s *store.Store, e *env.Env, pool *password.Pool, o Options) (*Directory, error) {
	o.fill()
	ctx := context.Background()
	// Check for the database first, so that an existing directory opens on a full disk too.
	_, err := s.Info(ID)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Directory", Kind: Kind})
	}
	if err != nil {
		return nil, fmt.Errorf("directory: create: %w", err)
	}
	b := &base{s: s, env: e, opt: o}
	b.version.Store(1)
	secret, err := b.readSecret(ctx)
	if err != nil {
		return nil, fmt.Errorf("directory: open: %w", err)
	}
	d := b.compose(pool, secret)
	d.Servers.UseServer(o.Server)
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

// Close stops watching the database, and closes connections to other directories. It does not close the store.
func (d *Directory) Close() {
	d.stop()
	d.Assistance.close()
}

// Version returns the directory's version, which differs after every change while the directory is open and is never 0.
// A note.Who with an older version must be renewed with WhoOf.
func (b *base) Version() uint64 { return b.version.Load() }

// read calls fn with a snapshot of the directory.
func (b *base) read(ctx context.Context, fn func(*store.Reader) error) error {
	return b.s.Read(ctx, note.System, ID, fn)
}

// update changes the directory in one transaction. Every lookup that begins after update returns sees the change.
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
		// Another update may still have to notify the watchers, so increase the version here too.
		b.version.Add(1)
	}
	return err
}

// compose creates the services and connects them to each other.
func (b *base) compose(pool *password.Pool, secret *Secret) *Directory {
	d := &Directory{base: b, Secret: secret, Domains: &Domains{base: b}, Servers: &Servers{base: b},
		Routes:      &Routes{base: b},
		Connections: &Connections{base: b}, DKIMKeys: &DKIMKeys{base: b}, MailRules: &MailRules{base: b},
		Retention: &Retention{base: b}}
	d.Assistance = &Assistance{base: b, stat: assist.NewStats(b.opt.Stats)}
	d.Names = &Names{base: b, domains: d.Domains, assistance: d.Assistance,
		cache: newNameCache(b.opt.NameCache, b.opt.Stats)}
	d.Passwords = &Passwords{base: b, names: d.Names, secret: secret, pool: pool}
	d.SecondFactors = &SecondFactors{base: b, names: d.Names, secret: secret}
	d.Passkeys = &Passkeys{base: b}
	d.People = &People{base: b, names: d.Names, domains: d.Domains, servers: d.Servers, passwords: d.Passwords}
	d.SignIns = &SignIns{base: b, names: d.Names, domains: d.Domains, passwords: d.Passwords, secret: secret,
		assistance: d.Assistance, people: d.People}
	d.SignIns.stat.init(b.opt.Stats)
	d.Groups = &Groups{base: b, names: d.Names}
	d.MailIns = &MailIns{base: b, names: d.Names, servers: d.Servers}
	d.Removals = &Removals{base: b, people: d.People}
	return d
}

// document reads the document id, which must have the given form, and passes its items to fn.
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

// find reads a document by its UNID. It returns ErrNotFound if the document never existed or was deleted for good.
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

// RequireAdmin returns ErrDenied unless who is the server itself or a person with the role Admin.
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
