package certs

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"sync"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// challengePath is where HTTP-01 is asked for.
const challengePath = "/.well-known/acme-challenge/"

// challenges are the answers that an authority may come for now.
type challenges struct {
	mu   sync.RWMutex
	http map[string]string           // token -> key authorization
	alpn map[string]*tls.Certificate // name -> certificate
}

// ServeChallenge answers HTTP-01 and says whether the request was for it.
//
// Implements: RFC 8555 §8.3 HTTP-01
func (p *Provider) ServeChallenge(w http.ResponseWriter, r *http.Request) bool {
	token, ok := strings.CutPrefix(r.URL.Path, challengePath)
	if !ok {
		return false
	}
	p.challenges.mu.RLock()
	answer, known := p.challenges.http[token]
	p.challenges.mu.RUnlock()
	if !known || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return true
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write([]byte(answer))
	return true
}

// config answers TLS-ALPN-01; every other handshake goes on with the door's own configuration.
//
// Implements: RFC 8737 TLS-ALPN-01
func (c *challenges) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != acmez.ACMETLS1Protocol {
		return nil, nil
	}
	c.mu.RLock()
	cert := c.alpn[canonical(hello.ServerName)]
	c.mu.RUnlock()
	if cert == nil {
		return nil, nil // refused: the door speaks no such protocol
	}
	return &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{acmez.ACMETLS1Protocol}, MinVersion: tls.VersionTLS12}, nil
}

// overHTTP is the solver of HTTP-01.
type overHTTP struct{ *challenges }

func (s overHTTP) Present(_ context.Context, c acme.Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		s.http = map[string]string{}
	}
	s.http[c.Token] = c.KeyAuthorization
	return nil
}

func (s overHTTP) CleanUp(_ context.Context, c acme.Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.http, c.Token)
	return nil
}

// overALPN is the solver of TLS-ALPN-01.
type overALPN struct{ *challenges }

func (s overALPN) Present(_ context.Context, c acme.Challenge) error {
	cert, err := acmez.TLSALPN01ChallengeCert(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alpn == nil {
		s.alpn = map[string]*tls.Certificate{}
	}
	s.alpn[canonical(c.Identifier.Value)] = cert
	return nil
}

func (s overALPN) CleanUp(_ context.Context, c acme.Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alpn, canonical(c.Identifier.Value))
	return nil
}

// overDNS is the solver of DNS-01: somebody else's program changes the zone.
//
// Implements: RFC 8555 §8.4 DNS-01
type overDNS struct {
	change func(ctx context.Context, action, name, value string) error
}

// Present does nothing yet: it has to be quick, and Wait is what may take long.
func (s overDNS) Present(context.Context, acme.Challenge) error { return nil }

func (s overDNS) Wait(ctx context.Context, c acme.Challenge) error {
	return s.change(ctx, "add", c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}

func (s overDNS) CleanUp(ctx context.Context, c acme.Challenge) error {
	return s.change(ctx, "remove", c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}
