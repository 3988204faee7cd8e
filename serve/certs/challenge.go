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

// challengePath is the path of HTTP-01 requests.
const challengePath = "/.well-known/acme-challenge/"

// challenges holds the responses to the current challenges.
type challenges struct {
	mu   sync.RWMutex
	http map[string]string           // token -> key authorization
	alpn map[string]*tls.Certificate // name -> certificate
}

// ServeChallenge answers an HTTP-01 request, and reports whether the request was one.
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

// config answers TLS-ALPN-01. Every other handshake uses the door's own configuration.
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
		return nil, nil // rejected, because the door does not have this protocol
	}
	return &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{acmez.ACMETLS1Protocol},
		MinVersion: tls.VersionTLS12}, nil
}

// overHTTP solves HTTP-01 challenges.
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

// overALPN solves TLS-ALPN-01 challenges.
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

// overDNS solves DNS-01 challenges. An external program changes the zone.
//
// Implements: RFC 8555 §8.4 DNS-01
type overDNS struct {
	change func(ctx context.Context, action, name, value string) error
}

// Present does nothing, because it must be quick. Wait adds the record and may take long.
func (s overDNS) Present(context.Context, acme.Challenge) error { return nil }

func (s overDNS) Wait(ctx context.Context, c acme.Challenge) error {
	return s.change(ctx, "add", c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}

func (s overDNS) CleanUp(ctx context.Context, c acme.Challenge) error {
	return s.change(ctx, "remove", c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}
