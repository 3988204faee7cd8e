package directory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"doublet/directory/password"
	"doublet/note"
	"doublet/store"
)

// Bounds of what one person has.
const (
	maxFullNames = 32
	maxAliases   = 256
	maxRoles     = 64
)

// PersonSpec is what a new person is made of.
type PersonSpec struct {
	PersonFields
	// Password may be empty: the person then cannot sign in yet. Scram opts in to SCRAM-SHA-256.
	Password string
	// Hash, in place of Password, is what another system stored of it (see password.Check). It is
	// replaced at the first sign-in.
	Hash  string
	Scram bool
}

// People adds, changes, lists and removes people, and makes their mail files.
type People struct {
	*base
	names     *Names
	domains   *Domains
	servers   *Servers
	passwords *Passwords
	files     atomic.Pointer[MailFiles]
}

// Add makes a person. Without a MailDatabase they get a mail file of their own. Without an
// InternetAddress they get their short name under the default domain, where it is fit for one and
// free. Errors: ErrInvalid, ErrNameTaken, ErrDenied, and what making the mail file gives.
func (ps *People) Add(ctx context.Context, who note.Who, spec PersonSpec) (Person, error) {
	if err := RequireAdmin(who); err != nil {
		return Person{}, err
	}
	n, err := ps.prepare(ctx, &spec)
	if err != nil {
		return Person{}, err
	}
	// Most clashes of names are found here, before a mail file is made for nothing.
	err = ps.read(ctx, func(r *store.Reader) error { return n.free(r) })
	if err != nil {
		return Person{}, err
	}
	if err := ps.makeMailFile(ctx, n); err != nil {
		return Person{}, err
	}
	err = ps.update(ctx, who, func(e *edit) error { return e.addPerson(n) })
	if err != nil {
		return Person{}, errors.Join(err, ps.dropMailFile(ctx, n))
	}
	return readPerson(n.id, n.items), nil
}

// newPerson is a person on the way in.
type newPerson struct {
	id    note.UNID
	items note.Items
	// own says that the mail file is theirs from now on, and made with them.
	own    bool
	fields PersonFields
}

// prepare checks a spec and computes what needs no lock.
func (ps *People) prepare(ctx context.Context, spec *PersonSpec) (*newPerson, error) {
	l, err := ps.domains.now(ctx, nil, ps.version.Load())
	if err != nil {
		return nil, err
	}
	n := &newPerson{id: ps.s.UNID(), fields: spec.clone()}
	if n.fields.InternetAddress == "" && n.fields.ShortName != "" && l.first() != "" {
		a := n.fields.ShortName + "@" + l.first()
		if _, err := parseAddress(a); err == nil {
			n.fields.InternetAddress = a
		}
	}
	if err := checkPerson(&n.fields, l.list); err != nil {
		return nil, err
	}
	if err := ps.read(ctx, func(r *store.Reader) error { return checkRights(r, &n.fields.SendAs, &n.fields.OnBehalf) }); err != nil {
		return nil, err
	}
	if len(spec.Password) > password.MaxLength {
		return nil, fmt.Errorf("%w password: it must have at most %d bytes", ErrInvalid, password.MaxLength)
	}
	c, err := ps.passwords.prepare(ctx, spec.Password, spec.Scram, ps.passwords.newSalt(n.id))
	if err != nil {
		return nil, err
	}
	if spec.Hash != "" {
		if err := password.Check(spec.Hash); err != nil {
			return nil, fmt.Errorf("%w password: %w", ErrInvalid, err)
		}
		c.hash = spec.Hash
	}
	for n.fields.MailDatabase == 0 {
		n.fields.MailDatabase, n.own = note.DatabaseID(ps.env.Uint64()), true
	}
	if n.fields.MailServer.IsZero() {
		n.fields.MailServer = ps.servers.mailServer(ctx)
	}
	n.items = ps.passwords.newID(c.write(n.fields.write(nil)))
	return n, nil
}

// free looks whether the person's names are free as far as a reader can tell.
func (n *newPerson) free(r *store.Reader) error {
	for _, k := range nameKeys(formPerson, n.items) {
		ids, err := r.Lookup(indexNames, k)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			return taken(k)
		}
	}
	return nil
}

func (e *edit) addPerson(n *newPerson) error {
	return e.create(n.id, n.items)
}

func (ps *People) makeMailFile(ctx context.Context, n *newPerson) error {
	files := ps.files.Load()
	if !n.own || files == nil {
		return nil
	}
	if away, err := ps.servers.Away(ctx, n.fields.MailServer); err != nil || away {
		return err // whose it is makes it when it is needed
	}
	if err := (*files).MakeMailFile(ctx, n.fields.MailDatabase, n.id, n.fields.Name()); err != nil {
		return fmt.Errorf("directory: mail file of %q: %w", n.fields.Name(), err)
	}
	return nil
}

// dropMailFile takes a mail file back whose person did not come about.
func (ps *People) dropMailFile(ctx context.Context, n *newPerson) error {
	files := ps.files.Load()
	if !n.own || files == nil {
		return nil
	}
	if err := (*files).RemoveMailFile(ctx, n.fields.MailDatabase); err != nil {
		return fmt.Errorf("directory: mail file of %q, which was not added: %w", n.fields.Name(), err)
	}
	return nil
}

// checkPerson checks and tidies fields. domains are the local ones; nil takes addresses anywhere.
func checkPerson(f *PersonFields, domains []string) error {
	if len(f.FullName) == 0 && f.ShortName != "" {
		f.FullName = []string{f.ShortName}
	}
	if len(f.FullName) == 0 {
		return fmt.Errorf("%w person: a full name is needed", ErrInvalid)
	}
	if len(f.FullName) > maxFullNames || len(f.MailAddress) > maxAliases || len(f.Roles) > maxRoles {
		return fmt.Errorf("%w person %q: at most %d full names, %d aliases and %d roles", ErrInvalid, f.Name(), maxFullNames, maxAliases, maxRoles)
	}
	var err error
	for i, n := range f.FullName {
		if f.FullName[i], err = cleanName(n); err != nil {
			return fmt.Errorf("full name: %w", err)
		}
	}
	for i, n := range f.Roles {
		if f.Roles[i], err = cleanName(n); err != nil {
			return fmt.Errorf("role: %w", err)
		}
	}
	if f.ShortName != "" {
		if f.ShortName, err = cleanName(f.ShortName); err != nil {
			return fmt.Errorf("short name: %w", err)
		}
	}
	for _, a := range f.Addresses() {
		if err := checkAddress(a, domains); err != nil {
			return err
		}
	}
	if err := checkForward(f); err != nil {
		return err
	}
	return checkSizes(f.Quota, f.Warning, f.SizeLimit)
}

// MailFileOf is a person's mail file, which is made where a crash or a bulk import left it out. It may be on
// another server of the cluster; an *ElsewhereError says that it is at another place of the domain.
func (ps *People) MailFileOf(ctx context.Context, p *Person) (note.DatabaseID, error) {
	if err := ps.elsewhere(ctx, p); err != nil {
		return 0, err
	}
	if _, err := ps.s.Info(p.MailDatabase); !errors.Is(err, store.ErrNotFound) || ps.files.Load() == nil {
		return p.MailDatabase, nil
	}
	return p.MailDatabase, ps.EnsureMailFile(ctx, p.ID)
}

// EnsureMailFile makes a person's mail file where it is missing: after a bulk import, or after a
// crash. One that is another server's stays there.
func (ps *People) EnsureMailFile(ctx context.Context, id note.UNID) error {
	p, err := ps.names.Person(ctx, id)
	if err != nil {
		return err
	}
	if away, err := ps.servers.Away(ctx, p.MailServer); err != nil || away {
		return err
	}
	if files := ps.files.Load(); files != nil && (*files).Elsewhere(p.MailDatabase) {
		return nil
	}
	return ps.makeMailFile(ctx, &newPerson{id: p.ID, own: p.MailDatabase != 0, fields: p.PersonFields})
}

// Set changes a person's fields under the lock of the directory; fn must be quick.
func (ps *People) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*PersonFields) error) (Person, error) {
	if err := RequireAdmin(who); err != nil {
		return Person{}, err
	}
	var out Person
	err := ps.update(ctx, who, func(e *edit) error {
		domains, err := readDomains(&e.w.Reader)
		if err != nil {
			return err
		}
		return e.change(id, formPerson, func(items note.Items) (note.Items, error) {
			p := readPerson(id, items)
			f := p.clone()
			if err := fn(&f); err != nil {
				return nil, err
			}
			// An address that was there may be of a domain that is not local any more.
			if err := checkPerson(&f, withDomainsOf(domains, p.Addresses())); err != nil {
				return nil, err
			}
			if err := checkRights(&e.w.Reader, &f.SendAs, &f.OnBehalf); err != nil {
				return nil, err
			}
			items = f.write(items)
			out = readPerson(id, items)
			return items, nil
		})
	})
	return out, err
}

// withDomainsOf adds to the domains those of addresses.
func withDomainsOf(domains, addresses []string) []string {
	for _, s := range addresses {
		if a, err := parseAddress(s); err == nil {
			domains = append(domains, a.Domain)
		}
	}
	return domains
}

// Remove removes a person: their names stop resolving at once, and are free. Undo brings them
// back until Purge has taken them; their mail stays until then.
func (ps *People) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return ps.remove(ctx, who, id, formPerson)
}

// List lists people by canonical full name. prefix, in any case, picks those whose name
// begins so; at most limit are returned (1,000 where 0). next is where to go on: hand it in as
// after. It is empty at the end.
func (ps *People) List(ctx context.Context, prefix string, limit int, after string) (list []Person, next string, err error) {
	next, err = ps.list(ctx, 'p', prefix, limit, after, func(u note.UNID, items note.Items) {
		list = append(list, readPerson(u, items))
	})
	return list, next, err
}
