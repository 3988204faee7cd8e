package directory

import (
	"context"
	"errors"
	"fmt"

	"doublet/directory/password"
	"doublet/note"
	"doublet/store"
)

// Limits of one person's lists.
const (
	maxFullNames = 32
	maxAliases   = 256
	maxRoles     = 64
)

// PersonSpec describes a new person.
type PersonSpec struct {
	PersonFields
	// Password may be empty: the person then cannot sign in yet. Scram also creates SCRAM-SHA-256 credentials.
	Password string
	// Hash is a password hash from another system (see password.Check), used instead of Password. The first sign-in
	// replaces it.
	Hash  string
	Scram bool
}

var personRecord = record[Person, PersonFields]{formPerson, 'p', readPerson,
	func(p *Person) *PersonFields { return &p.PersonFields }, (*PersonFields).write, (*edit).checkChange}

// People adds, changes, lists and removes people, and creates their mail files.
type People struct {
	*base
	names     *Names
	domains   *Domains
	servers   *Servers
	passwords *Passwords
}

// Add adds a person. If MailDatabase is zero, Add creates a mail file for the person. If InternetAddress is empty, Add
// forms it from the short name and the default domain, if the result is a valid address. Errors: ErrInvalid,
// ErrNameTaken, ErrDenied, and errors of creating the mail file.
func (ps *People) Add(ctx context.Context, who note.Who, spec PersonSpec) (Person, error) {
	if err := RequireAdmin(who); err != nil {
		return Person{}, err
	}
	n, err := ps.prepare(ctx, &spec)
	if err != nil {
		return Person{}, err
	}
	// Check the names before creating a mail file. This finds most conflicts; the update below finds the rest.
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

// newPerson is a person who is being added.
type newPerson struct {
	id    note.UNID
	items note.Items
	// own reports that the mail file was assigned here and is created together with the person.
	own    bool
	fields PersonFields
}

// prepare checks a spec, and computes everything that does not need the directory's lock.
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
	if err := ps.read(ctx, func(r *store.Reader) error {
		return errors.Join(checkRights(r, &n.fields.SendAs, &n.fields.OnBehalf), spec.checkAssisted(r))
	}); err != nil {
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

// free returns ErrNameTaken if one of the person's names is already in use in the snapshot of r.
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
	files := ps.opt.MailFiles
	if !n.own || files == nil {
		return nil
	}
	if away, err := ps.servers.Away(ctx, n.fields.MailServer); err != nil || away {
		return err // the server that holds the mail file creates it when it is needed
	}
	f := MailFile{
		ID: n.fields.MailDatabase, Owner: n.id, Title: n.fields.Name(), Quota: n.fields.Quota,
		Warning: n.fields.Warning,
	}
	if err := files.MakeMailFile(ctx, f); err != nil {
		return fmt.Errorf("directory: mail file of %q: %w", n.fields.Name(), err)
	}
	return nil
}

// dropMailFile removes the mail file of a person who could not be added.
func (ps *People) dropMailFile(ctx context.Context, n *newPerson) error {
	files := ps.opt.MailFiles
	if !n.own || files == nil {
		return nil
	}
	if err := files.RemoveMailFile(ctx, n.fields.MailDatabase); err != nil {
		return fmt.Errorf("directory: mail file of %q, which was not added: %w", n.fields.Name(), err)
	}
	return nil
}

func cleanNames(list []string) (err error) {
	for i, n := range list {
		if list[i], err = cleanName(n); err != nil {
			return err
		}
	}
	return nil
}

// checkPerson checks and normalizes fields. domains are the local domains; nil accepts addresses of any domain.
func checkPerson(f *PersonFields, domains []string) error {
	if len(f.FullName) == 0 && f.ShortName != "" {
		f.FullName = []string{f.ShortName}
	}
	if len(f.FullName) == 0 {
		return fmt.Errorf("%w person: a full name is needed", ErrInvalid)
	}
	if len(f.FullName) > maxFullNames || len(f.MailAddress) > maxAliases || len(f.Roles) > maxRoles {
		return fmt.Errorf("%w person %q: at most %d full names, %d aliases and %d roles", ErrInvalid, f.Name(),
			maxFullNames, maxAliases, maxRoles)
	}
	if err := cleanNames(f.FullName); err != nil {
		return fmt.Errorf("full name: %w", err)
	}
	if err := cleanNames(f.Roles); err != nil {
		return fmt.Errorf("role: %w", err)
	}
	if f.ShortName != "" {
		var err error
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

// MailFileOf returns a person's mail file. It creates the file if a crash or a bulk import left it out. The mail file
// may be on another server of the cluster. MailFileOf returns an *ElsewhereError if it is at another place of the
// domain.
func (ps *People) MailFileOf(ctx context.Context, p *Person) (note.DatabaseID, error) {
	if err := ps.elsewhere(ctx, p); err != nil {
		return 0, err
	}
	if _, err := ps.s.Info(p.MailDatabase); !errors.Is(err, store.ErrNotFound) || ps.opt.MailFiles == nil {
		return p.MailDatabase, nil
	}
	return p.MailDatabase, ps.EnsureMailFile(ctx, p.ID)
}

// EnsureMailFile creates a person's mail file if it is missing, after a bulk import or a crash. It does nothing if the
// mail file belongs to another server.
func (ps *People) EnsureMailFile(ctx context.Context, id note.UNID) error {
	p, err := ps.names.Person(ctx, id)
	if err != nil {
		return err
	}
	if away, err := ps.servers.Away(ctx, p.MailServer); err != nil || away {
		return err
	}
	if files := ps.opt.MailFiles; files != nil && files.Elsewhere(p.MailDatabase) {
		return nil
	}
	return ps.makeMailFile(ctx, &newPerson{id: p.ID, own: p.MailDatabase != 0, fields: p.PersonFields})
}

// Set changes a person's fields. It calls fn under the directory's lock, so fn must be quick.
func (ps *People) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*PersonFields) error) (Person, error) {
	return personRecord.set(ctx, ps.base, who, id, fn)
}

// checkChange checks and normalizes the changed fields of a person.
func (e *edit) checkChange(f, was *PersonFields) error {
	domains, err := readDomains(&e.w.Reader)
	if err != nil {
		return err
	}
	// The domain of an existing address may no longer be local: accept it.
	if err := checkPerson(f, withDomainsOf(domains, was.Addresses())); err != nil {
		return err
	}
	if f.Assistance != was.Assistance {
		if err := checkAssisted(&e.w.Reader, f.Assistance); err != nil {
			return err
		}
	}
	return checkRights(&e.w.Reader, &f.SendAs, &f.OnBehalf)
}

// withDomainsOf appends the domains of addresses to domains.
func withDomainsOf(domains, addresses []string) []string {
	for _, s := range addresses {
		if a, err := parseAddress(s); err == nil {
			domains = append(domains, a.Domain)
		}
	}
	return domains
}

// Remove removes a person. The person's names stop resolving at once and become free. Undo restores the person until
// Purge deletes them; the mail file stays until then.
func (ps *People) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return ps.remove(ctx, who, id, formPerson)
}

// List lists people by canonical full name. A prefix, in any case, selects names that begin with it. List returns at
// most limit people, 1,000 if limit is 0. Pass next as after to get the next page; next is empty at the end.
func (ps *People) List(ctx context.Context, prefix string, limit int, after string) ([]Person, string, error) {
	return personRecord.list(ctx, ps.base, prefix, limit, after)
}
