package admin

import (
	"context"
	"crypto/x509"
	"time"

	"doublet/client/dns"
)

// Certificates manages the certificates of a running server.
type Certificates interface {
	// Show lists the certificates in use and those that are missing.
	Show() []Certificate
	// Renew renews the certificate of one name, or all if name is empty. newKey makes a new private key.
	Renew(ctx context.Context, name string, newKey bool) error
	// Leaf returns the certificate that is presented to a client that asks for name.
	Leaf(name string) *x509.Certificate
}

// Certificate is one of the doors' certificates, or one that is missing.
type Certificate struct {
	Names []string  `json:"names"`
	From  string    `json:"from"` // file, acme, self-signed
	Until time.Time `json:"until,omitzero"`
	Days  int       `json:"days_left" show:"always"`
	Renew time.Time `json:"renewed_at,omitzero"`
	// SPKI is the SHA-256 of the public key, in hex. It is the data of a TLSA record 3 1 1.
	SPKI   string `json:"spki_sha256,omitempty"`
	Issuer string `json:"issuer,omitempty"`
	File   string `json:"file,omitempty"`
	// Default marks the certificate for clients that ask for an unknown name or none.
	Default bool   `json:"default,omitempty"`
	Error   string `json:"error,omitempty"`
}

// CertificateRenew are the arguments of certificate renew.
type CertificateRenew struct {
	Name   string `json:"name" arg:"optional" help:"name whose certificate is renewed; without it, all"`
	NewKey bool   `json:"new_key" help:"with a new private key: TLSA records that name the old one must be changed"`
}

// Healthy is the result of health.
type Healthy struct {
	State string `json:"state"` // ok, or the problem
}

// Bad reports whether there is a problem, for the exit code.
func (h Healthy) Bad() bool { return h.State != "ok" }

func certificates() []*Verb {
	return []*Verb{
		onServer("health", "whether the server does its work",
			func(ctx context.Context, c *ServerCall, _ *struct{}) (Healthy, error) {
				if err := c.Server.Health(ctx); err != nil {
					return Healthy{err.Error()}, nil
				}
				return Healthy{"ok"}, nil
			}, long("What /readyz says too: the store shows what is durable, the server is not stopping, there is "+
				"room "+
				"on the device, and\nthe certificate is good. The exit code is 1 where it is not: for the health "+
				"check of a container.")),
		onServer("certificate show", "the certificates of the doors: names, end, where from",
			func(_ context.Context, c *ServerCall, _ *struct{}) ([]Certificate, error) {
				return c.Server.Certificates.Show(), nil
			}),
		onServer("certificate renew", "renew certificates now",
			func(ctx context.Context, c *ServerCall, a *CertificateRenew) ([]Certificate, error) {
				if err := c.Server.Certificates.Renew(dns.Fresh(ctx), a.Name, a.NewKey); err != nil {
					return nil, err
				}
				return c.Server.Certificates.Show(), nil
			}, changes,
			long("Files are read anew, certificates from ACME are ordered again, a self-signed one is made again.\n"+
				"Nobody's connection is cut. Without --new-key the private key stays, and TLSA records with it.")),
	}
}
