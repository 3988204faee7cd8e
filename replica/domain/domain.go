// Package domain makes servers share one directory: it admits a server that joins with a token, and enters the servers
// and their addresses in the directory.
package domain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica/https"
	"doublet/store"
)

// Applicant describes a server that asks to join a domain. Its key is the one in its TLS certificate.
type Applicant struct {
	Name    string `json:"name"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// Secret is the secret of the token.
	Secret []byte `json:"secret"`
}

// Admission is the answer to an Applicant.
type Admission struct {
	// Domain is the default Internet domain, for addresses without one.
	Domain string `json:"domain,omitempty"`
	// Server is the server that admitted the applicant.
	Server string `json:"server"`
}

// Apply asks a server of the domain for admission. It may be repeated.
func Apply(ctx context.Context, client *https.Client, a Applicant) (Admission, error) {
	var answer Admission
	question, err := json.Marshal(a)
	if err != nil {
		return answer, err
	}
	raw, err := client.Admit(ctx, question)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("%s: %w", client.Host(), err)
	}
	return answer, nil
}

// Options describe this server for the other servers of a domain.
type Options struct {
	// Name is the server's name, Host its host name.
	Name, Host string
	// Own returns the server's key, nil if it has none. Make creates one.
	Own  func() *pki.Own
	Make func() (*pki.Own, error)
	// Tokens are the tokens with which other servers join the domain here.
	Tokens *pki.Tokens
}

// Service is this server's part in a domain.
type Service struct {
	env       *env.Env
	directory *directory.Directory
	o         Options
}

// New returns the Service. The server need not be in a domain yet.
func New(e *env.Env, d *directory.Directory, o Options) *Service { return &Service{e, d, o} }

// Tokens returns the tokens with which other servers join the domain here.
func (s *Service) Tokens() *pki.Tokens { return s.o.Tokens }

// NewToken creates a token for one server, valid for life. address (host:port) is that of this server's https door,
// doors are the addresses of all doors. If this server is not in a domain, NewToken first founds one.
func (s *Service) NewToken(ctx context.Context, who note.Who, address string, doors []string,
	life time.Duration) (pki.Token, time.Time, error) {
	own, err := s.found(ctx, who, doors)
	if err != nil {
		return pki.Token{}, time.Time{}, err
	}
	return s.o.Tokens.NewDomainToken(address, own.Key, life)
}

// found makes this server the first of a domain, if it is in none.
func (s *Service) found(ctx context.Context, who note.Who, doors []string) (*pki.Own, error) {
	own, err := s.o.Make()
	if err != nil {
		return nil, err
	}
	if _, err := s.directory.Servers.Enter(ctx, who, own.ID,
		directory.ServerFields{Name: s.o.Name, Host: hostName(s.o.Host), Key: own.Key}); err != nil {
		return nil, err
	}
	s.directory.Servers.UseServer(own.ID)
	if err := s.directory.Servers.FoundDomain(ctx, who, own.ID); err != nil {
		return nil, err
	}
	return own, s.Announce(ctx, doors)
}

// Announce updates the addresses of this server's doors in its server document if they have changed. It does nothing
// outside a domain.
func (s *Service) Announce(ctx context.Context, doors []string) error {
	places, err := s.directory.Servers.Places(ctx)
	if err != nil || len(places) == 0 {
		return err
	}
	own := s.o.Own()
	if own == nil {
		return nil
	}
	f, known, err := s.directory.Servers.ByKey(ctx, own.Key)
	if err != nil || known && strings.Join(f.Doors, "\n") == strings.Join(doors, "\n") {
		return err
	}
	_, err = s.directory.Servers.Set(ctx, note.System, own.ID, func(f *directory.ServerFields) error {
		f.Doors, f.Key = doors, own.Key
		return nil
	})
	if errors.Is(err, directory.ErrNotFound) {
		s.env.Log.Error("this server has no document in the directory, so it serves no mail file: restore "+
			"server.key in the folder cluster of its data folder", "id", own.ID.String())
		return nil
	}
	return err
}

// Admit enters a server of another place, which has authenticated with its key and presents a token of this server. It
// also adds the connection that replicates the directory between the two. It may be repeated for a server that did not
// receive the answer.
func (s *Service) Admit(ctx context.Context, key bus.Key, question []byte) ([]byte, error) {
	var a Applicant
	if err := json.Unmarshal(question, &a); err != nil {
		return nil, fmt.Errorf("%w: malformed request to join: %w", store.ErrDenied, err)
	}
	own := s.o.Own()
	if own == nil {
		return nil, fmt.Errorf("%w: %w", store.ErrDenied, pki.ErrTokenUnknown)
	}
	if strings.EqualFold(a.Name, s.o.Name) {
		return nil, fmt.Errorf("%w: this server is called %s too: give the other one a name of its own (--name)",
			store.ErrExists, s.o.Name)
	}
	if _, err := s.o.Tokens.Redeem(a.Secret, key); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	domains, err := s.directory.Domains.List(ctx)
	if err != nil {
		return nil, err
	}
	x, err := s.directory.Servers.Enter(ctx, note.System, pki.ServerID(key),
		directory.ServerFields{Name: a.Name, Host: hostName(a.Host), Key: key})
	if err == nil {
		_, err = s.directory.Connections.Add(ctx, note.System, directory.ConnectionFields{
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
	s.env.Log.Info("server joins the domain", "name", x.Name, "key", key.String(), "version", a.Version)
	return json.Marshal(Admission{Domain: strings.Join(domains[:min(len(domains), 1)], ""), Server: s.o.Name})
}

// hostName returns a host name that others can resolve, or "" for a machine's own short name.
func hostName(host string) string {
	if !strings.Contains(host, ".") {
		return ""
	}
	return host
}
