package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
)

// TargetKind says what a name stands for.
type TargetKind uint8

// The kinds of target.
const (
	TargetPerson TargetKind = iota + 1
	TargetGroup
	TargetMailIn
)

func (k TargetKind) String() string {
	switch k {
	case TargetPerson:
		return "person"
	case TargetGroup:
		return "group"
	case TargetMailIn:
		return "mail-in database"
	}
	return "nothing"
}

// Target is what an address or name stands for.
type Target struct {
	Kind TargetKind
	ID   note.UNID
	// Name is the canonical name.
	Name string
	// Detail is what follows + in the address, as it was spelled.
	Detail string
	// Database is the mail file or mail-in database, 0 for groups.
	Database note.DatabaseID
	// MailServer is the server that has it, as a person's.
	MailServer note.UNID
	// SizeLimit is the greatest message taken, in bytes; 0 is none of its own.
	SizeLimit uint64
	// Quota and Warning of the mail file, in bytes; 0 is none.
	Quota, Warning uint64
	// ByRole says that the administrator gets it since nobody has the address postmaster or abuse.
	ByRole bool
	// Own says that mail is more than put into a mail file: the person forwards it or has a vacation
	// notice, or the group is a mailing list.
	Own bool
	// ListPart is "bounces", "owner", "subscribe" … where the address is a mailing list's with such a
	// word behind it, "list-owner@domain"; ID and Name are the list's.
	ListPart string

	groupKind GroupKind
}

// Names finds people, groups, mail-in databases and domains by address, name or id, and computes the rights of a
// person. Its answers are cached for one version of the directory.
type Names struct {
	*base
	domains *Domains
	cache   *nameCache
}

// Resolve tells who gets mail for an address: local@domain, or postmaster alone (RFC 5321 section
// 4.5.1). Looked for, in this order: the address as it stands; without +detail; a person or
// mail-in database whose name is the local part. Errors: ErrNotLocal, ErrNoSuchRecipient, ErrInvalid.
func (ns *Names) Resolve(ctx context.Context, address string) (Target, error) {
	version := ns.version.Load()
	if a, ok := ns.cache.get(cacheKey{kind: 'a', text: address}, version); ok {
		return a.target, nil
	}
	l, err := ns.domains.now(ctx, nil, version)
	if err != nil {
		return Target{}, err
	}
	full := address
	if strings.IndexByte(address, '@') < 0 && strings.EqualFold(address, "postmaster") && l.first() != "" {
		full = address + "@" + l.first()
	}
	a, err := ParseAddress(full)
	if err != nil {
		return Target{}, err
	}
	if !l.has(a.Domain) {
		return Target{}, fmt.Errorf("%w: %s", ErrNotLocal, a.Domain)
	}
	var t Target
	err = ns.read(ctx, func(r *store.Reader) error {
		t, err = resolve(r, a)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Target{}, fmt.Errorf("%w: %s", ErrNoSuchRecipient, address)
	}
	if err != nil {
		return Target{}, err
	}
	ns.cache.put(cacheKey{kind: 'a', text: strings.Clone(address)}, version, answer{target: t})
	return t, nil
}

// resolve finds who gets mail for an address of a local domain, or ErrNotFound.
func resolve(r *store.Reader, a Address) (Target, error) {
	plain, detail := a, ""
	t, err := byAddress(r, a)
	if i := strings.IndexByte(a.Local, '+'); i > 0 && errors.Is(err, ErrNotFound) {
		plain.Local, detail = a.Local[:i], a.Local[i+1:]
		t, err = byAddress(r, plain)
	}
	t.Detail = detail
	if errors.Is(err, ErrNotFound) {
		if part, bad := listPart(r, plain); !errors.Is(bad, ErrNotFound) {
			part.Detail = detail
			return part, bad
		}
	}
	if role := lower(plain.Local); errors.Is(err, ErrNotFound) && (role == "postmaster" || role == "abuse") {
		return administrator(r, detail)
	}
	return t, err
}

// byAddress looks for an address that is written down, then for its local part as a name.
func byAddress(r *store.Reader, a Address) (Target, error) {
	t, err := lookup(r, append([]byte{'a'}, a.Key()...))
	if err == nil && t.groupKind != GroupAccess || err != nil && !errors.Is(err, ErrNotFound) {
		return t, err
	}
	k := nameKey('n', a.Local)
	if k == nil {
		return Target{}, ErrNotFound
	}
	if t, err = lookup(r, k); err == nil && t.Kind == TargetGroup {
		// A group gets mail only under an address that it was given.
		return Target{}, ErrNotFound
	}
	return t, err
}

// administrator is the first person with the role Admin who can be written to; else the first.
func administrator(r *store.Reader, detail string) (Target, error) {
	ids, err := r.Lookup(indexRoles, append([]byte{'r'}, lower(RoleAdmin)...))
	if err != nil {
		return Target{}, err
	}
	var best Target
	for _, id := range ids {
		t, err := targetOf(r, id)
		if err != nil {
			return Target{}, err
		}
		c, err := r.Content(id)
		if err != nil {
			return Target{}, err
		}
		fit := t.Database != 0 && !c.Content.Items.Get(itemDisabled).AsBool()
		if best.ID.IsZero() || fit {
			best = t
		}
		if fit {
			break
		}
	}
	if best.ID.IsZero() {
		return Target{}, ErrNotFound
	}
	best.Detail, best.ByRole = detail, true
	return best, nil
}

// listParts are the words behind a mailing list's name, with a hyphen, that have a meaning.
var listParts = []string{"bounces", "owner", "subscribe", "unsubscribe", "confirm", "help"}

// listPart finds the mailing list of an address with such a word, or ErrNotFound.
func listPart(r *store.Reader, a Address) (Target, error) {
	i := strings.LastIndexByte(a.Local, '-')
	if i <= 0 {
		return Target{}, ErrNotFound
	}
	word := lower(a.Local[i+1:])
	if !slices.Contains(listParts, word) {
		return Target{}, ErrNotFound
	}
	a.Local = a.Local[:i]
	t, err := lookup(r, append([]byte{'a'}, a.Key()...))
	if err == nil && (t.Kind != TargetGroup || !t.Own) {
		return Target{}, ErrNotFound
	}
	t.ListPart = word
	return t, err
}

// lookup finds the one document under a name key. Should two replicas have given a name twice, all
// servers choose the same of the two.
func lookup(r *store.Reader, key []byte) (Target, error) {
	ids, err := r.Lookup(indexNames, key)
	if err != nil {
		return Target{}, err
	}
	var best Target
	for i, id := range ids {
		t, err := targetOf(r, id)
		if err != nil {
			return Target{}, err
		}
		if i == 0 || t.ID.Compare(best.ID) < 0 {
			best = t
		}
	}
	if len(ids) == 0 {
		return Target{}, ErrNotFound
	}
	return best, nil
}

func targetOf(r *store.Reader, id note.ID) (Target, error) {
	row, err := r.Note(id)
	if err != nil {
		return Target{}, err
	}
	c, err := r.Content(id)
	if err != nil {
		return Target{}, err
	}
	t, ok := makeTarget(row.UNID, c.Content.Items)
	if !ok {
		return Target{}, ErrNotFound
	}
	return t, nil
}

// makeTarget is false for documents that are neither person, group nor mail-in database.
func makeTarget(u note.UNID, items note.Items) (Target, bool) {
	t := Target{ID: u, Name: canonical(items)}
	switch items.Get(itemForm).AsText() {
	case formPerson:
		t.Kind = TargetPerson
		t.Quota, t.Warning = uint64(max(0, items.Get(itemQuota).AsInt())), uint64(max(0, items.Get(itemWarning).AsInt()))
		t.Own = items.Get(itemForward) != nil || items.Get(itemVacation) != nil
	case formMailIn:
		t.Kind = TargetMailIn
	case formGroup:
		t.Kind, t.groupKind = TargetGroup, GroupKind(items.Get(itemGroupKind).AsText())
		t.Own = items.Get(itemList) != nil
		return t, true
	default:
		return t, false
	}
	t.Database, t.MailServer = readDatabase(items.Get(itemMailDatabase)), readUNID(items.Get(itemMailServer))
	t.SizeLimit = uint64(max(0, items.Get(itemSizeLimit).AsInt()))
	return t, true
}

// TargetOf is what an id stands for; one that was removed is ErrNotFound.
func (ns *Names) TargetOf(ctx context.Context, id note.UNID) (t Target, err error) {
	version := ns.version.Load()
	if a, ok := ns.cache.get(cacheKey{kind: 't', id: id}, version); ok {
		return a.target, nil
	}
	err = ns.read(ctx, func(r *store.Reader) error {
		_, c, err := find(r, id)
		if err != nil {
			return err
		}
		known := false
		if t, known = makeTarget(id, c.Content.Items); !known || c.Content.Items.Get(itemRemoved) != nil {
			return fmt.Errorf("%w: %s", ErrNotFound, id)
		}
		return nil
	})
	if err == nil {
		ns.cache.put(cacheKey{kind: 't', id: id}, version, answer{target: t})
	}
	return t, err
}

// keyOf is the name key of what a person typed: an address where there is an @, else a name. It is
// nil where nothing can have that name.
func keyOf(name string) []byte {
	if strings.IndexByte(name, '@') >= 0 {
		return addressKey(name)
	}
	return nameKey('n', name)
}

// Lookup finds a person, group or mail-in database by name or address, as it stands: no +detail, no
// role.
func (ns *Names) Lookup(ctx context.Context, name string) (Target, error) {
	version := ns.version.Load()
	if a, ok := ns.cache.get(cacheKey{kind: 'n', text: name}, version); ok {
		return a.target, nil
	}
	k := keyOf(name)
	if k == nil {
		return Target{}, fmt.Errorf("%w: %.80q", ErrNotFound, name)
	}
	var t Target
	err := ns.read(ctx, func(r *store.Reader) (err error) {
		if t, err = lookup(r, k); !errors.Is(err, ErrNotFound) || k[0] != 'a' {
			return err
		}
		t, err = ns.shortAddress(ctx, r, name, version)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Target{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if err != nil {
		return Target{}, err
	}
	ns.cache.put(cacheKey{kind: 'n', text: strings.Clone(name)}, version, answer{target: t})
	return t, nil
}

// shortAddress takes name@domain for name, under the local domains.
func (ns *Names) shortAddress(ctx context.Context, r *store.Reader, name string, version uint64) (Target, error) {
	a, err := parseAddress(name)
	if err != nil {
		return Target{}, ErrNotFound
	}
	l, err := ns.domains.now(ctx, r, version)
	if err != nil {
		return Target{}, err
	}
	if !l.has(a.Domain) {
		return Target{}, ErrNotFound
	}
	return byAddress(r, a)
}

// NameOf is the canonical name of an entry, removed ones included: for showing access lists.
func (ns *Names) NameOf(ctx context.Context, id note.UNID) (string, error) {
	var name string
	err := ns.read(ctx, func(r *store.Reader) error {
		_, c, err := find(r, id)
		if err == nil {
			name = canonical(c.Content.Items)
		}
		return err
	})
	return name, err
}

// Person returns a person by id; one who was removed is found too, with Removed set.
func (ns *Names) Person(ctx context.Context, id note.UNID) (Person, error) {
	p, err := ns.person(ctx, nil, id)
	if err != nil {
		return Person{}, err
	}
	return *p, nil
}

// person returns a shared person; r may be nil.
func (ns *Names) person(ctx context.Context, r *store.Reader, id note.UNID) (*Person, error) {
	version := ns.version.Load()
	if a, ok := ns.cache.get(cacheKey{kind: 'p', id: id}, version); ok {
		return a.person, nil
	}
	var p *Person
	take := func(r *store.Reader) error {
		_, c, err := find(r, id)
		if err != nil {
			return err
		}
		if c.Content.Items.Get(itemForm).AsText() != formPerson {
			return fmt.Errorf("%w: %s is no person", ErrNotFound, id)
		}
		found := readPerson(id, c.Content.Items)
		p = &found
		return nil
	}
	if r != nil {
		// The reader's snapshot may be older than the version: it is not kept.
		err := take(r)
		return p, err
	}
	if err := ns.read(ctx, take); err != nil {
		return nil, err
	}
	ns.cache.put(cacheKey{kind: 'p', id: id}, version, answer{person: p})
	return p, nil
}

// PersonNamed finds a person by full name, short name or address.
func (ns *Names) PersonNamed(ctx context.Context, name string) (Person, error) {
	t, err := ns.Lookup(ctx, name)
	if err != nil {
		return Person{}, err
	}
	if t.Kind != TargetPerson {
		return Person{}, fmt.Errorf("%w: %q is a %s, not a person", ErrNotFound, name, t.Kind)
	}
	return ns.Person(ctx, t.ID)
}
