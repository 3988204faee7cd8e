package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/bus"
	"doublet/note"
	"doublet/store"
)

// Place is where mail files are: a server of the domain that is in no cluster, or a cluster.
type Place struct {
	// Name is the cluster's, or the server's.
	Name string
	// Servers are those that take mail for it, in order of id; none, where all have gone.
	Servers []Server
	// Here says that this server is one of them.
	Here bool
}

// serverTable holds all servers, as of a version of the directory.
type serverTable struct {
	version uint64
	// edition is another number where the servers are others.
	edition uint64
	first   note.UNID // of the domain; zero outside one
	servers []Server  // by id
}

// UseServer says which server document is this server's.
func (sv *Servers) UseServer(id note.UNID) { sv.self.Store(&id) }

// Self is the id of this server's document, zero outside a domain.
func (sv *Servers) Self() note.UNID {
	if id := sv.self.Load(); id != nil {
		return *id
	}
	return note.UNID{}
}

// now reads the servers again when the directory has changed.
func (sv *Servers) now(ctx context.Context) (*serverTable, error) {
	version := sv.version.Load()
	old := sv.table.Load()
	if old != nil && old.version == version {
		return old, nil
	}
	t := &serverTable{version: version, edition: 1}
	err := sv.read(ctx, func(r *store.Reader) error {
		_, c, err := find(r, unidDomains)
		if err == nil {
			t.first = readUNID(c.Content.Items.Get(itemFirstServer))
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		if t.first.IsZero() {
			return nil
		}
		return ServerDocuments(r, func(id note.UNID, _ string, items note.Items) {
			t.servers = append(t.servers, readServer(id, items))
		})
	})
	if err != nil {
		return nil, fmt.Errorf("directory: servers: %w", err)
	}
	slices.SortFunc(t.servers, func(a, b Server) int { return a.ID.Compare(b.ID) })
	if old != nil {
		t.edition = old.edition
		if t.first != old.first || !slices.EqualFunc(t.servers, old.servers, sameServer) {
			t.edition++
		}
	}
	if !sv.table.CompareAndSwap(old, t) { // else two that read at once could give others the same edition
		return sv.now(ctx)
	}
	return t, nil
}

func sameServer(a, b Server) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Host == b.Host && a.Key == b.Key && a.Cluster == b.Cluster && a.Gone == b.Gone && slices.Equal(a.Doors, b.Doors)
}

func (t *serverTable) server(id note.UNID) *Server {
	i, ok := slices.BinarySearchFunc(t.servers, id, func(s Server, id note.UNID) int { return s.ID.Compare(id) })
	if !ok {
		return nil
	}
	return &t.servers[i]
}

// sameCluster says that two servers have their mail files together. One that has left its cluster stands for it still: its
// mail files stay there.
func sameCluster(a, b *Server) bool {
	return a.ID == b.ID || a.Cluster != "" && a.Cluster == b.Cluster
}

// named is the server that a document names as its mail server, nil for one that is not known.
func (t *serverTable) named(id note.UNID) *Server {
	if id.IsZero() {
		id = t.first
	}
	return t.server(id)
}

// Away says that the mail files of a mail server are at another place of the domain. Outside a domain nothing is; nor is
// what belongs to a server that nobody knows, here.
func (sv *Servers) Away(ctx context.Context, mailServer note.UNID) (bool, error) {
	t, err := sv.now(ctx)
	if err != nil || t.first.IsZero() {
		return false, err
	}
	me, other := t.server(sv.Self()), t.named(mailServer)
	if me == nil {
		return other == nil || other.ID != sv.Self(), nil
	}
	return other == nil || !sameCluster(me, other), nil
}

// PlaceOf is where the mail files of a mail server are.
func (sv *Servers) PlaceOf(ctx context.Context, mailServer note.UNID) (Place, error) {
	t, err := sv.now(ctx)
	if err != nil {
		return Place{}, err
	}
	s := t.named(mailServer)
	if s == nil {
		return Place{}, fmt.Errorf("%w: no server of the domain has the id %s", ErrNotFound, mailServer)
	}
	return t.place(s, sv.Self()), nil
}

func (t *serverTable) place(s *Server, self note.UNID) Place {
	p := Place{Name: s.Name}
	if s.Cluster != "" {
		p.Name = s.Cluster
	}
	for i := range t.servers {
		if o := &t.servers[i]; sameCluster(o, s) {
			p.Here = p.Here || o.ID == self
			if !o.Gone && o.Key != (bus.Key{}) {
				p.Servers = append(p.Servers, *o)
			}
		}
	}
	return p
}

// ElsewhereError says that a person's mail file is at another place of the domain.
type ElsewhereError struct {
	Place Place
	// User is a name under which the person signs in there.
	User string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("directory: the mail file of %s is on %s", e.User, e.Place.Name)
}

// Door is where a door of the place is reached, "" where none of its servers tells.
func (e *ElsewhereError) Door(name string) string {
	for i := range e.Place.Servers {
		if at := e.Place.Servers[i].Door(name); at != "" {
			return at
		}
	}
	return ""
}

// Server is the name of a server of the place.
func (e *ElsewhereError) Server() string {
	if len(e.Place.Servers) == 0 {
		return e.Place.Name
	}
	return e.Place.Servers[0].Name
}

// Moved is an *ElsewhereError where a person's mail file has moved to another place.
func (ps *People) Moved(ctx context.Context, person note.UNID) error {
	p, err := ps.names.Person(ctx, person)
	if err != nil {
		return err
	}
	return ps.elsewhere(ctx, &p)
}

func (ps *People) elsewhere(ctx context.Context, p *Person) error {
	away, err := ps.servers.Away(ctx, p.MailServer)
	if err != nil || !away {
		return err
	}
	place, err := ps.servers.PlaceOf(ctx, p.MailServer)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err != nil {
		place.Name = "a server that the directory does not have"
	}
	user := p.ShortName
	if all := p.Addresses(); user == "" && len(all) > 0 {
		user = all[0]
	}
	if user == "" {
		user = p.Name()
	}
	return &ElsewhereError{Place: place, User: user}
}

// Places lists the places of the domain by name; none outside a domain.
func (sv *Servers) Places(ctx context.Context) ([]Place, error) {
	t, err := sv.now(ctx)
	if err != nil {
		return nil, err
	}
	var out []Place
	for i := range t.servers {
		p := t.place(&t.servers[i], sv.Self())
		if !slices.ContainsFunc(out, func(o Place) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(lower(a.Name), lower(b.Name)) })
	return out, nil
}

// Named finds the server that stands for a place: one by the name or id of a server, or by that of a cluster.
func (sv *Servers) Named(ctx context.Context, name string) (Server, error) {
	t, err := sv.now(ctx)
	if err != nil {
		return Server{}, err
	}
	for _, fits := range []func(*Server) bool{
		func(s *Server) bool { return strings.EqualFold(s.Name, name) || s.ID.String() == name },
		func(s *Server) bool { return s.Cluster != "" && !s.Gone && strings.EqualFold(s.Cluster, name) },
	} {
		for i := range t.servers {
			if fits(&t.servers[i]) {
				return t.servers[i], nil
			}
		}
	}
	return Server{}, fmt.Errorf("%w: the domain has no server or cluster %.80q", ErrNotFound, name)
}

// ByKey finds the server of the domain that has a key. One that was removed has none any more.
func (sv *Servers) ByKey(ctx context.Context, key bus.Key) (Server, bool, error) {
	t, err := sv.now(ctx)
	if err != nil || key == (bus.Key{}) {
		return Server{}, false, err
	}
	for _, s := range t.servers {
		if s.Key == key && !s.Gone {
			return s, true, nil
		}
	}
	return Server{}, false, nil
}

// Edition is another number whenever the servers are others.
func (sv *Servers) Edition(ctx context.Context) (uint64, error) {
	t, err := sv.now(ctx)
	if err != nil {
		return 0, err
	}
	return t.edition, nil
}

// FoundDomain makes this server the first one of a domain. Whose mail files were made before are its own.
func (sv *Servers) FoundDomain(ctx context.Context, who note.Who, first note.UNID) error {
	if err := RequireAdmin(who); err != nil {
		return err
	}
	return sv.update(ctx, who, func(e *edit) error {
		id, c, err := find(&e.w.Reader, unidDomains)
		if errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%w: add the Internet domain first (doublet domain add)", ErrInvalid)
		}
		if err != nil {
			return err
		}
		if c.Content.Items.Get(itemFirstServer) != nil {
			return nil
		}
		f := fields{c.Content.Items}
		f.unid(itemFirstServer, first)
		return e.revise(id, c, f.items)
	})
}

// mailServer is the mail server of who is made here.
func (sv *Servers) mailServer(ctx context.Context) note.UNID {
	if t, err := sv.now(ctx); err == nil && !t.first.IsZero() {
		return sv.Self()
	}
	return note.UNID{}
}
