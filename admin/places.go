package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/bus/pki"
	"doublet/directory"
	"doublet/note"
	"doublet/replica/https"
)

// Self describes this server for the other servers of a domain.
type Self struct {
	// Own returns the server's key, nil if it has none. Make creates one.
	Own  func() *pki.Own
	Make func() (*pki.Own, error)
	// Tokens are the tokens with which other servers join the domain here.
	Tokens *pki.Tokens
	// Host is its host name.
	Host string
}

// AnnounceDoors updates the addresses of this server's doors in its server document if they have changed. It does
// nothing outside a domain.
func (s *Running) AnnounceDoors(ctx context.Context) error {
	places, err := s.Directory.Servers.Places(ctx)
	if err != nil || len(places) == 0 {
		return err
	}
	own := s.Self.Own()
	if own == nil {
		return nil
	}
	doors := s.Reached()
	f, known, err := s.Directory.Servers.ByKey(ctx, own.Key)
	if err != nil || known && strings.Join(f.Doors, "\n") == strings.Join(doors, "\n") {
		return err
	}
	_, err = s.Directory.Servers.Set(ctx, note.System, own.ID, func(f *directory.ServerFields) error {
		f.Doors, f.Key = doors, own.Key
		return nil
	})
	if errors.Is(err, directory.ErrNotFound) {
		s.Env.Log.Error("this server has no document in the directory, so it serves no mail file: restore "+
			"server.key in the folder cluster of its data folder", "id", own.ID.String())
		return nil
	}
	return err
}

// DomainServer is a server of the domain in the result of show domain.
type DomainServer struct {
	Server string `json:"server"`
	// Place is the name of its cluster, or of the server itself.
	Place string `json:"place"`
	Here  bool   `json:"here,omitempty"`
	Doors string `json:"doors,omitempty"`
	ID    string `json:"id"`
}

func places() []*Verb {
	return []*Verb{
		onServer("domain token", "make a token with which one other server joins the domain", domainToken, changes,
			long(domainTokenLong)),
		define("domain token list", "list the tokens that were given out", domainTokenList),
		define("domain token remove", "make a token that nobody has used worthless", domainTokenRemove, changes),
		define("show domain", "servers and clusters that share this directory, and where they are reached",
			func(ctx context.Context, c *Call, _ *struct{}) ([]DomainServer, error) {
				list, err := c.Directory.Servers.Places(ctx)
				out := []DomainServer{}
				for _, p := range list {
					for _, s := range p.Servers {
						out = append(out, DomainServer{Server: s.Name, Place: p.Name,
							Here: s.ID == c.Directory.Servers.Self(), Doors: strings.Join(s.Doors, ", "),
							ID: s.ID.String()})
					}
				}
				return out, err
			}),
		define("server remove", "take a server that is in no cluster out of the domain: the others believe it no more",
			serverRemove, changes),
		define("server undo", "bring back a server that was removed", undo("Server"), changes),
	}
}

// serverRemove revokes the trust in a server's key. The server keeps its mail files; other servers queue mail for them.
func serverRemove(ctx context.Context, c *Call, a *Named) (Done, error) {
	s, err := c.Directory.Servers.Named(ctx, a.Name)
	if err != nil {
		return Done{}, err
	}
	first, err := c.Directory.Servers.PlaceOf(ctx, note.UNID{})
	if err != nil {
		return Done{}, err
	}
	switch {
	case s.Cluster != "" && !s.Gone:
		return Done{}, fmt.Errorf("%w: %s is a member of the cluster %s: doublet cluster remove %s there", ErrUsage,
			s.Name, s.Cluster, s.Name)
	case s.ID == c.Directory.Servers.Self():
		return Done{}, fmt.Errorf("%w: %s is this server: remove it at another one", ErrUsage, s.Name)
	case slices.ContainsFunc(first.Servers, func(o directory.Server) bool { return o.ID == s.ID }):
		return Done{},
			fmt.Errorf("%w: %s is the first server of the domain and owns the people created before the domain",
				ErrUsage, s.Name)
	}
	return Done{"removed server " + s.Name + undoTime}, c.Directory.Servers.Remove(ctx, c.Who, s.ID)
}

// placeNamed returns the id of a server that represents a place.
func (c *Call) placeNamed(ctx context.Context, name string) (note.UNID, error) {
	if name == "" {
		return note.UNID{}, nil
	}
	s, err := c.Directory.Servers.Named(ctx, name)
	return s.ID, err
}

// placeName returns the name of a mail server's place, "" outside a domain.
func (c *Call) placeName(ctx context.Context, mailServer note.UNID) string {
	p, err := c.Directory.Servers.PlaceOf(ctx, mailServer)
	if err != nil {
		return ""
	}
	return p.Name
}

// runsHere reports whether this server has to run a connection.
func (s *System) runsHere(ctx context.Context, c *directory.Connection) bool {
	if c.Peer.IsZero() {
		return c.Server == s.Name
	}
	server, err := s.Directory.Servers.Named(ctx, c.Server)
	if err != nil {
		return false
	}
	place, err := s.Directory.Servers.PlaceOf(ctx, server.ID)
	if err != nil || !place.Here {
		return false
	}
	node := s.Member.Node()
	if node == nil {
		return true
	}
	home, err := node.Opens.Where(ctx, directory.ID) // in a cluster, the home of the directory runs it
	return err == nil && home.Self
}

// peerJob returns the job of a connection to a server of the domain. turn selects the server of the other place.
func (s *System) peerJob(ctx context.Context, f *directory.ConnectionFields, turn uint64) (*https.Job, error) {
	own := s.Self.Own()
	if own == nil {
		return nil,
			errors.New("this server has no key of its own: put back server.key in the folder cluster of its data " +
				"folder")
	}
	place, err := s.Directory.Servers.PlaceOf(ctx, f.Peer)
	if err != nil {
		return nil, err
	}
	if place.Here {
		return nil, fmt.Errorf("%w: the connection %s leads to this server's own place", ErrUsage, f.Name)
	}
	var reached []directory.Server
	for _, x := range place.Servers {
		if x.Door("web") != "" {
			reached = append(reached, x)
		}
	}
	if len(reached) == 0 {
		return nil, fmt.Errorf("no server of %s has an https address in the directory", place.Name)
	}
	to := reached[turn%uint64(len(reached))]
	return s.jobOver(f, https.ClientOptions{URL: to.Door("web"), TLS: own.Client(to.Key, s.Env.Clock.Now)})
}
