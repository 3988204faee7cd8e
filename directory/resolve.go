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

// TargetKind is the kind of entry that a name refers to.
type TargetKind uint8

// The kinds of targets.
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

// Target is the entry that an address or name refers to.
type Target struct {
	Kind TargetKind
	ID   note.UNID
	// Name is the canonical name.
	Name string
	// Detail is the text after + in the address, in its original spelling.
	Detail string
	// Database is the mail file or mail-in database, 0 for groups.
	Database note.DatabaseID
	// MailServer is the server that holds the database. See PersonFields.
	MailServer note.UNID
	// SizeLimit is the maximum size of a message, in bytes; 0 is no limit of its own.
	SizeLimit uint64
	// Quota and Warning are the limits of the mail file, in bytes; 0 is none.
	Quota, Warning uint64
	// ByRole reports that no entry has the address postmaster or abuse, so an administrator receives its mail.
	ByRole bool
	// Own reports that mail needs more than delivery to a mail file: the person forwards it or has a vacation notice,
	// or the group is a mailing list.
	Own bool
	// Resource reports that people book the mail-in database: it is a room or another resource.
	Resource bool
	// ListPart is the word after a mailing list's name, "bounces", "owner", "subscribe" …, as in "list-owner@domain".
	// ID and Name are the list's.
	ListPart string

	groupKind GroupKind
	// other is a group of another directory, nil for all others.
	other *otherGroup
}

// Names finds people, groups, mail-in databases and domains by address, name or id, and computes the rights of a
// person. It caches its answers for one version of the directory.
type Names struct {
	*base
	domains    *Domains
	assistance *Assistance
	cache      *nameCache
	books      books
}

// Resolve finds the recipient of an address: local@domain, or postmaster alone (RFC 5321 section 4.5.1). It tries the
// whole address, then the address without +detail. Each of these is also tried as the name of a person or mail-in
// database, by its local part. Last come the parts of a mailing list, and the roles postmaster and abuse. Errors:
// ErrNotLocal, ErrNoSuchRecipient, ErrInvalid.
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

// resolve finds the recipient of an address in a local domain, or returns ErrNotFound.
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

// byAddress looks up a stored address, then the local part as a name.
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
		// A group receives mail only at its stored address.
		return Target{}, ErrNotFound
	}
	return t, err
}

// administrator returns the first enabled person with the role Admin and a mail file. If there is none, it returns the
// first person with the role Admin.
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

// listParts are the words that have a meaning after a mailing list's name and a hyphen.
var listParts = []string{"bounces", "owner", "subscribe", "unsubscribe", "confirm", "help"}

// listPart finds the mailing list of an address that ends in one of listParts, or returns ErrNotFound.
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

// lookup finds the document under a name key. If two replicas have assigned a name twice, all servers choose the same
// document: the one with the lower UNID.
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

// makeTarget returns false for a document that is not a person, group or mail-in database.
func makeTarget(u note.UNID, items note.Items) (Target, bool) {
	t := Target{ID: u, Name: canonical(items)}
	switch items.Get(itemForm).AsText() {
	case formPerson:
		t.Kind = TargetPerson
		t.Quota, t.Warning = uint64(max(0, items.Get(itemQuota).AsInt())),
			uint64(max(0, items.Get(itemWarning).AsInt()))
		t.Own = items.Get(itemForward) != nil || items.Get(itemVacation) != nil
	case formMailIn:
		t.Kind = TargetMailIn
		t.Resource = items.Get(itemResourceType) != nil
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

// TargetOf returns the entry with an id. It returns ErrNotFound if the entry was removed.
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

// keyOf returns the name key of a user's input: an address if it contains @, otherwise a name. It returns nil if no
// entry can have that name.
func keyOf(name string) []byte {
	if strings.IndexByte(name, '@') >= 0 {
		return addressKey(name)
	}
	return nameKey('n', name)
}

// Lookup finds a person, group or mail-in database by exact name or address. It handles neither +detail nor roles for a
// name.
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

// shortAddress resolves name@domain, for a local domain, like name.
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

// NameOf returns the canonical name of an entry, even of a removed one, for display in access lists.
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

// Person returns a person by id. A removed person is found too, with Removed set.
func (ns *Names) Person(ctx context.Context, id note.UNID) (Person, error) {
	p, err := ns.person(ctx, nil, id)
	if err != nil {
		return Person{}, err
	}
	return *p, nil
}

// person returns a person that callers share and must not change. r may be nil.
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
		// Do not cache it: the reader's snapshot may be older than the version.
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

// PersonOf finds a person by full name, short name, address or id.
func (ns *Names) PersonOf(ctx context.Context, name string) (Person, error) {
	p, err := ns.PersonNamed(ctx, name)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) {
		if id, bad := note.ParseUNID(name); bad == nil {
			return ns.Person(ctx, id)
		}
	}
	if err != nil {
		return p, fmt.Errorf("person %q: %w", name, err)
	}
	return p, nil
}
