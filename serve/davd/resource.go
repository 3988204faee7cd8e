package davd

import (
	"errors"
	"net/url"
	"strings"

	"doublet/directory"
	"doublet/groupware"
)

// place is the kind of a resource.
type place int

const (
	atRoot place = iota
	atPrincipals
	atPrincipal
	atHomes // /dav/calendars/
	atHome
	atSchedule // the inbox or the outbox of scheduling
	atCollection
	atEntry
)

// resource represents the thing at a path. A collection or entry need not exist: request.load finds that out.
type resource struct {
	at    place
	owner *owner
	kind  groupware.Kind
	col   string // name of the collection
	name  string // name of the entry
	// collection and entry are what was found.
	collection *groupware.Collection
	entry      *groupware.Entry
}

// path returns the path of the resource.
func (x *resource) path() string {
	switch x.at {
	case atPrincipals:
		return Path + "principals/"
	case atPrincipal:
		return x.owner.principal()
	case atHomes:
		return Path + segments[x.kind] + "/"
	case atHome:
		return x.owner.home(x.kind)
	case atSchedule, atCollection:
		return x.owner.home(x.kind) + url.PathEscape(x.col) + "/"
	case atEntry:
		return x.owner.home(x.kind) + url.PathEscape(x.col) + "/" + url.PathEscape(x.name)
	}
	return Path
}

// find returns the resource of a path. What the person may not see is not found.
func (q *request) find(path string) (*resource, error) {
	rest, ok := strings.CutPrefix(path, Path)
	if !ok {
		return nil, errNotFound
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if rest == "" {
		return &resource{at: atRoot, owner: q.self}, nil
	}
	x := &resource{owner: q.self}
	switch parts[0] {
	case "principals":
		if x.at = atPrincipals; len(parts) > 2 {
			return nil, errNotFound
		}
	case segments[groupware.Calendar]:
		x.at, x.kind = atHomes, groupware.Calendar
	case segments[groupware.AddressBook]:
		x.at, x.kind = atHomes, groupware.AddressBook
	default:
		return nil, errNotFound
	}
	if len(parts) == 1 {
		return x, nil
	}
	var err error
	if x.owner, err = q.ownerNamed(parts[1]); err != nil {
		return nil, err
	}
	if schedules(x.kind, parts) {
		return scheduleResource(q, x, parts[2:])
	}
	switch {
	case x.at == atPrincipals:
		x.at = atPrincipal
	case len(parts) == 2:
		x.at = atHome
	case len(parts) == 3:
		x.at, x.col = atCollection, parts[2]
	case len(parts) == 4 && !strings.HasSuffix(rest, "/"):
		x.at, x.col, x.name = atEntry, parts[2], parts[3]
	default:
		return nil, errNotFound
	}
	return x, nil
}

// ownerNamed finds a person of whose collections the caller may see one: there are no others for them. It asks once in
// a request, because a multiget has thousands of addresses.
func (q *request) ownerNamed(name string) (*owner, error) {
	if o, known := q.owners[name]; known {
		if o == nil {
			return nil, errNotFound
		}
		return o, nil
	}
	o, err := q.lookUp(name)
	if err == nil || errors.Is(err, errNotFound) {
		if q.owners == nil {
			q.owners = map[string]*owner{}
		}
		q.owners[name] = o
	}
	return o, err
}

func (q *request) lookUp(name string) (*owner, error) {
	if strings.EqualFold(name, q.self.name) && q.self.db != 0 {
		return q.self, nil
	}
	p, err := q.s.dir.Names.PersonNamed(q.ctx, name)
	if errors.Is(err, directory.ErrNotFound) || errors.Is(err, directory.ErrInvalid) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, err
	}
	if p.ID == q.self.id && q.self.db != 0 {
		return q.self, nil
	}
	o := &owner{name: nameOf(p.InternetAddress, p.Name()), title: p.Name(), address: p.InternetAddress,
		db: p.MailDatabase, id: p.ID}
	if o.db == 0 {
		return nil, errNotFound
	}
	for kind := range segments {
		list, err := q.file(o).Collections(q.ctx, kind)
		if err != nil {
			return nil, errNotFound //nolint:nilerr // nothing of a file that cannot be read here is visible here
		}
		if len(list) > 0 {
			return o, nil
		}
	}
	return nil, errNotFound
}

// load reads the collection or entry of the resource.
func (q *request) load(x *resource) error {
	f := q.file(x.owner)
	if (x.at == atCollection || x.at == atEntry) && x.collection == nil {
		c, err := f.Collection(q.ctx, x.kind, x.col)
		if err != nil {
			return err
		}
		x.collection = &c
	}
	if x.at == atEntry {
		e, err := f.Entry(q.ctx, x.kind, x.col, x.name)
		if err != nil {
			return err
		}
		x.entry = &e
	}
	return nil
}

// with returns the resource of an entry in the collection x.
func (x *resource) with(e *groupware.Entry) *resource {
	return &resource{at: atEntry, owner: x.owner, kind: x.kind, col: x.col, name: e.Name, collection: x.collection,
		entry: e}
}

// children calls fn for the resources one level below, until it fails.
func (q *request) children(x *resource, fn func(*resource) error) error {
	var list []*resource
	switch x.at {
	case atRoot:
		list = []*resource{{at: atPrincipals, owner: x.owner},
			{at: atHomes, owner: x.owner, kind: groupware.Calendar},
			{at: atHomes, owner: x.owner, kind: groupware.AddressBook}}
	case atPrincipals:
		list = []*resource{{at: atPrincipal, owner: q.self}}
	case atHomes:
		list = []*resource{{at: atHome, owner: q.self, kind: x.kind}}
	case atHome:
		if x.owner.db == 0 {
			return nil
		}
		all, err := q.file(x.owner).Collections(q.ctx, x.kind)
		if err != nil {
			return err
		}
		for i := range all {
			list = append(list, &resource{at: atCollection, owner: x.owner, kind: x.kind, col: all[i].Name,
				collection: &all[i]})
		}
	case atCollection:
		return q.entries(x, fn)
	}
	for _, c := range list {
		if err := fn(c); err != nil {
			return err
		}
	}
	return nil
}

// entries calls fn for the entries of a collection, until it fails or the client has gone. It does not collect them,
// because there may be many.
func (q *request) entries(x *resource, fn func(*resource) error) error {
	var inner error
	err := q.file(x.owner).Entries(q.ctx, x.kind, x.col, groupware.Select{}, func(e *groupware.Entry) bool {
		if inner = q.ctx.Err(); inner == nil {
			inner = fn(x.with(e))
		}
		return inner == nil
	})
	return errors.Join(err, inner)
}
