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

// Place is a location of mail files: a cluster, or a server of the domain outside any cluster.
type Place struct {
	// Name is the name of the cluster or the server.
	Name string
	// Servers are the servers that accept mail for the place, ordered by id. It is empty if all were removed.
	Servers []Server
	// Here reports that this server is one of them.
	Here bool
}

// serverTable holds all servers, as of one version of the directory.
type serverTable struct {
	version uint64
	// edition changes whenever the servers change.
	edition uint64
	first   note.UNID // of the domain; zero outside one
	servers []Server  // by id
}

// UseServer sets the id of this server's document. It changes when the server founds a domain.
func (sv *Servers) UseServer(id note.UNID) { sv.self.Store(&id) }

// Self returns the id of this server's document, zero outside a domain.
func (sv *Servers) Self() note.UNID {
	if id := sv.self.Load(); id != nil {
		return *id
	}
	return note.UNID{}
}

// now returns the current servers. It reads them again if the directory has changed.
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
	if !sv.table.CompareAndSwap(old, t) { // concurrent reads must not give different servers the same edition
		return sv.now(ctx)
	}
	return t, nil
}

func sameServer(a, b Server) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Host == b.Host && a.Key == b.Key && a.Cluster == b.Cluster &&
		a.Gone == b.Gone && slices.Equal(a.Doors, b.Doors)
}

func (t *serverTable) server(id note.UNID) *Server {
	i, ok := slices.BinarySearchFunc(t.servers, id, func(s Server, id note.UNID) int { return s.ID.Compare(id) })
	if !ok {
		return nil
	}
	return &t.servers[i]
}

// sameCluster reports whether two servers share their mail files. A server that was removed still counts as a member of
// its cluster, because its mail files stay there.
func sameCluster(a, b *Server) bool {
	return a.ID == b.ID || a.Cluster != "" && a.Cluster == b.Cluster
}

// named returns the server with the id that a document gives as its mail server. Zero is the domain's first server. It
// returns nil for an unknown server.
func (t *serverTable) named(id note.UNID) *Server {
	if id.IsZero() {
		id = t.first
	}
	return t.server(id)
}

// Away reports whether the mail files of a mail server are at another place of the domain. It returns false outside a
// domain. It returns true for an unknown server, whose mail files cannot be here.
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

// PlaceOf returns the place of a mail server's mail files.
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

// ElsewhereError reports that a person's mail file is at another place of the domain.
type ElsewhereError struct {
	Place Place
	// User is a name with which the person can sign in there.
	User string
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("directory: the mail file of %s is on %s", e.User, e.Place.Name)
}

// Door returns the address of the named door at the place, "" if no server document of the place has one.
func (e *ElsewhereError) Door(name string) string {
	for i := range e.Place.Servers {
		if at := e.Place.Servers[i].Door(name); at != "" {
			return at
		}
	}
	return ""
}

// Server returns the name of the place's first server, or of the place if it has no server.
func (e *ElsewhereError) Server() string {
	if len(e.Place.Servers) == 0 {
		return e.Place.Name
	}
	return e.Place.Servers[0].Name
}

// Moved returns an *ElsewhereError if the person's mail file is at another place.
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

// Places lists the places of the domain by name. It returns none outside a domain.
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

// Named finds the server with a name or id, or else one server of the cluster with that name.
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

// Known reports whether the domain has a server with a host name or name.
func (sv *Servers) Known(ctx context.Context, host string) (bool, error) {
	t, err := sv.now(ctx)
	if err != nil {
		return false, err
	}
	return host != "" && slices.ContainsFunc(t.servers, func(s Server) bool {
		return !s.Gone && (strings.EqualFold(s.Host, host) || strings.EqualFold(s.Name, host))
	}), nil
}

// ByKey finds the server of the domain with a public key. It does not find a removed server.
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

// Edition returns a number that changes whenever the servers change.
func (sv *Servers) Edition(ctx context.Context) (uint64, error) {
	t, err := sv.now(ctx)
	if err != nil {
		return 0, err
	}
	return t.edition, nil
}

// FoundDomain makes this server the first of a domain. Existing mail files without a mail server then belong to it.
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

// mailServer returns the mail server of people who are added here: this server, or zero outside a domain.
func (sv *Servers) mailServer(ctx context.Context) note.UNID {
	if t, err := sv.now(ctx); err == nil && !t.first.IsZero() {
		return sv.Self()
	}
	return note.UNID{}
}
