package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// PlaceApplicant describes a server that asks to join a domain. Its key is the one in its TLS certificate.
type PlaceApplicant struct {
	Name    string `json:"name"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// Secret is the secret of the token.
	Secret []byte `json:"secret"`
}

// PlaceAdmission is the answer to a PlaceApplicant.
type PlaceAdmission struct {
	// Domain is the default Internet domain, for addresses without one.
	Domain string `json:"domain,omitempty"`
	// Server is the server that admitted the applicant.
	Server string `json:"server"`
}

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
	own, err := c.Server.foundDomain(ctx, c.Who)
	if err != nil {
		return JoinToken{}, err
	}
	token, until, err := c.Self.Tokens.NewDomainToken(address, own.Key, life)
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
	list, err := c.Self.Tokens.List()
	out := make([]TokenShown, 0, len(list))
	for _, x := range list {
		t := TokenShown{ID: x.ID, Made: x.Made, Expires: x.Expires, UsedAt: x.UsedAt}
		if x.UsedBy != (bus.Key{}) {
			t.UsedBy = pki.ServerID(x.UsedBy).String()
			if f, known, bad := c.Directory.Servers.ByKey(ctx, x.UsedBy); bad == nil && known {
				t.UsedBy = f.Name
			}
		}
		out = append(out, t)
	}
	return out, err
}

func domainTokenRemove(_ context.Context, c *Call, a *DomainTokenRemove) (Done, error) {
	err := c.Self.Tokens.Remove(a.ID)
	if errors.Is(err, pki.ErrTokenUnknown) {
		err = fmt.Errorf("%w: no token %.40q", directory.ErrNotFound, a.ID)
	}
	return Done{"removed the token " + a.ID}, err
}

// AdmitPlace enters a server of another place, which has authenticated with its key and presents a token of this
// server. It also adds the connection that replicates the directory between the two. It may be repeated for a server
// that did not receive the answer.
func (s *System) AdmitPlace(ctx context.Context, key bus.Key, question []byte) ([]byte, error) {
	var a PlaceApplicant
	if err := json.Unmarshal(question, &a); err != nil {
		return nil, fmt.Errorf("%w: the question of a server that joins: %w", store.ErrDenied, err)
	}
	own := s.Self.Own()
	if own == nil {
		return nil, fmt.Errorf("%w: %w", store.ErrDenied, pki.ErrTokenUnknown)
	}
	if strings.EqualFold(a.Name, s.Name) {
		return nil, fmt.Errorf("%w: this server is called %s too: give the other one a name of its own (--name)",
			store.ErrExists, s.Name)
	}
	if _, err := s.Self.Tokens.Redeem(a.Secret, key); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	domains, err := s.Directory.Domains.List(ctx)
	if err != nil {
		return nil, err
	}
	x, err := s.Directory.Servers.Enter(ctx, note.System, pki.ServerID(key),
		directory.ServerFields{Name: a.Name, Host: hostName(a.Host), Key: key})
	if err == nil {
		_, err = s.Directory.Connections.Add(ctx, note.System, directory.ConnectionFields{
			Name: "domain " + x.Name, Server: x.Name, Peer: own.ID, Databases: []string{directory.ID.String()},
		})
		if errors.Is(err, directory.ErrNameTaken) {
			err = nil // the server has asked before
		}
	}
	switch {
	case errors.Is(err, directory.ErrNameTaken):
		return nil, fmt.Errorf("%w: %w", store.ErrExists, err)
	case errors.Is(err, directory.ErrNotFound):
		return nil, fmt.Errorf("%w: %w (doublet server undo brings it back)", store.ErrDenied, err)
	case err != nil:
		return nil, err
	}
	s.Env.Log.Info("server joins the domain", "name", x.Name, "key", key.String(), "version", a.Version)
	return json.Marshal(PlaceAdmission{Domain: strings.Join(domains[:min(len(domains), 1)], ""), Server: s.Name})
}

// foundDomain makes this server the first of a domain, if it is in none.
func (s *Running) foundDomain(ctx context.Context, who note.Who) (*pki.Own, error) {
	own, err := s.Self.Make()
	if err != nil {
		return nil, err
	}
	if _, err := s.Directory.Servers.Enter(ctx, who, own.ID,
		directory.ServerFields{Name: s.Name, Host: hostName(s.Self.Host), Key: own.Key}); err != nil {
		return nil, err
	}
	s.Directory.Servers.UseServer(own.ID)
	if err := s.Directory.Servers.FoundDomain(ctx, who, own.ID); err != nil {
		return nil, err
	}
	return own, s.AnnounceDoors(ctx)
}

// hostName returns a host name that others can resolve, or "" for a machine's own short name.
func hostName(host string) string {
	if !strings.Contains(host, ".") {
		return ""
	}
	return host
}
