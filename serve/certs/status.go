package certs

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"doublet/admin"
)

// Show implements admin.Certificates.
func (p *Provider) Show() []admin.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, now := p.table.Load(), p.env.Clock.Now()
	var out []admin.Certificate
	for _, e := range t.all {
		spki := sha256.Sum256(e.cert.Leaf.RawSubjectPublicKeyInfo)
		c := admin.Certificate{
			Names: e.names(), From: e.source, Until: e.ends().UTC(), Days: int(e.ends().Sub(now).Hours() / 24),
			SPKI: hex.EncodeToString(spki[:]), Issuer: e.cert.Leaf.Issuer.CommonName, File: e.where,
			Default: e == t.fallback,
		}
		switch e.source {
		case fromServer:
			c.Renew = e.ends().Add(-ownRenew).UTC()
		case fromACME:
			for _, m := range p.managed {
				if m.entry == e {
					c.Renew = m.renewAt.UTC()
					if m.err != nil {
						c.Error = m.err.Error()
					}
				}
			}
		}
		out = append(out, c)
	}
	for _, name := range slices.Sorted(maps.Keys(p.managed)) {
		if m := p.managed[name]; m.entry == nil {
			c := admin.Certificate{Names: []string{name}, From: fromACME, Renew: m.notUntil.UTC()}
			if m.notUntil.IsZero() {
				c.Renew = m.notUntil
			}
			if m.err != nil {
				c.Error = m.err.Error()
			}
			out = append(out, c)
		}
	}
	return out
}

// Leaf implements admin.Certificates.
func (p *Provider) Leaf(name string) *x509.Certificate {
	return p.table.Load().pick(canonical(name)).cert.Leaf
}

// Renew implements admin.Certificates.
func (p *Provider) Renew(ctx context.Context, name string, newKey bool) error {
	name = canonical(name)
	var names []string
	if p.opts.ACME != nil {
		var err error
		if names, err = p.wanted(ctx); err != nil {
			return err
		}
	}
	if name != "" && slices.Contains(names, name) {
		return p.obtain(ctx, name, newKey)
	}
	p.mu.Lock()
	own := p.own != nil && (name == "" || name == p.opts.Name)
	err := p.reload()
	if err == nil && own {
		if newKey {
			err = p.env.FS.Remove(p.env.FS.PathJoin(p.opts.Dir, ownKeyFile))
		}
		if err == nil {
			err = p.keepOwn(true)
		}
		p.rebuild()
	}
	known := own || name == "" || p.inFiles(name)
	p.mu.Unlock()
	if err == nil && !known {
		err = fmt.Errorf("%w: no certificate is kept for %s", admin.ErrUsage, name)
	}
	errs := []error{err}
	if name == "" {
		p.forgive(names)
		for _, n := range names {
			if p.opts.ACME.Lookup != nil && n != p.opts.Name && !p.has(n) && !p.due(ctx, n) {
				continue // it is not in DNS
			}
			errs = append(errs, p.obtain(ctx, n, newKey))
		}
	}
	return errors.Join(errs...)
}

func (p *Provider) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.managed[name]
	return m != nil && m.entry != nil
}

// forgive resets the retry delay of names, because an administrator who orders a renewal has fixed the problem.
func (p *Provider) forgive(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range names {
		if m := p.managed[n]; m != nil {
			m.notUntil = time.Time{}
		}
	}
}
