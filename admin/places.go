package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/directory"
	"doublet/note"
)

// DomainToken are the arguments of domain token.
type DomainToken struct {
	Expires string `json:"expires" default:"1h" help:"how long the token is good"`
	Address string `json:"address" help:"host:port of this https door for the other server (default: see show domain)"`
}

// DomainTokenRemove are the arguments of domain token remove.
type DomainTokenRemove struct {
	ID string `json:"id" arg:"required" help:"id of the token, as domain token list shows it"`
}

// TokenShown describes a token that was created. The token itself is not stored.
type TokenShown struct {
	ID      string    `json:"id"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	// UsedBy is the server that joined with the token.
	UsedBy string    `json:"used_by,omitempty"`
	UsedAt time.Time `json:"used_at,omitzero"`
}

const domainTokenLong = `Anybody who has the token can add one server to the domain while it is valid: keep it like a
password. A server of the domain receives the whole directory, with password hashes and signing keys, and may read every
mail file. The token contains this server's key and the address of its https door, which the other server must reach.
On the other machine: doublet domain join TOKEN, then doublet serve.`

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

// domainToken creates a token. If this server is not in a domain, it first founds one.
func domainToken(ctx context.Context, c *ServerCall, a *DomainToken) (JoinToken, error) {
	life, err := tokenLife(a.Expires)
	if err != nil {
		return JoinToken{}, err
	}
	address, err := c.Server.webAddress(a.Address)
	if err != nil {
		return JoinToken{}, err
	}
	token, until, err := c.Domain.NewToken(ctx, c.Who, address, c.Server.Reached(), life)
	if err != nil {
		return JoinToken{}, err
	}
	return JoinToken{Token: token.String(), Expires: until,
		Next: "on the other machine: doublet domain join TOKEN, then doublet serve"}, nil
}

// tokenLife parses the life of a token.
func tokenLife(text string) (time.Duration, error) {
	life, err := time.ParseDuration(text)
	if err != nil || life < time.Minute || life > 30*24*time.Hour {
		return 0, fmt.Errorf("%w: --expires %q: a duration of 1m to 720h", ErrUsage, text)
	}
	return life, nil
}

// webAddress returns host:port of the https door, as other servers reach it.
func (s *Running) webAddress(given string) (string, error) {
	if given != "" {
		if _, _, err := net.SplitHostPort(given); err != nil {
			return "", fmt.Errorf("%w: --address is host:port: %w", ErrUsage, err)
		}
		return given, nil
	}
	for _, door := range s.Reached() {
		text, web := strings.CutPrefix(door, "web ")
		u, err := url.Parse(text)
		if !web || err != nil {
			continue
		}
		if u.Port() == "" {
			return net.JoinHostPort(u.Hostname(), "443"), nil
		}
		return u.Host, nil
	}
	return "", fmt.Errorf("%w: needs the door https (doors.https) and its address (server.name or cluster.advertise)",
		ErrUsage)
}

func domainTokenList(ctx context.Context, c *Call, _ *struct{}) ([]TokenShown, error) {
	return rows(func(x pki.Issued) TokenShown {
		t := TokenShown{ID: x.ID, Made: x.Made, Expires: x.Expires, UsedAt: x.UsedAt}
		if x.UsedBy != (bus.Key{}) {
			t.UsedBy = pki.ServerID(x.UsedBy).String()
			if f, known, bad := c.Directory.Servers.ByKey(ctx, x.UsedBy); bad == nil && known {
				t.UsedBy = f.Name
			}
		}
		return t
	})(c.Domain.Tokens().List())
}

func domainTokenRemove(_ context.Context, c *Call, a *DomainTokenRemove) (Done, error) {
	err := c.Domain.Tokens().Remove(a.ID)
	if errors.Is(err, pki.ErrTokenUnknown) {
		err = fmt.Errorf("%w: no token %.40q", directory.ErrNotFound, a.ID)
	}
	return Done{"removed the token " + a.ID}, err
}
