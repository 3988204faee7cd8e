package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
)

// domainList holds the local domains, the default one first.
type domainList struct {
	version uint64
	list    []string
}

func (l *domainList) has(domain string) bool { return slices.Contains(l.list, domain) }

// first returns the default domain, or "" if there is none.
func (l *domainList) first() string {
	if len(l.list) == 0 {
		return ""
	}
	return l.list[0]
}

// Domains reads and changes the list of local domains. The first is the default.
type Domains struct {
	*base
	local atomic.Pointer[domainList]
}

// now returns the local domains as of version or later. r may be nil.
func (ds *Domains) now(ctx context.Context, r *store.Reader, version uint64) (*domainList, error) {
	if l := ds.local.Load(); l != nil && l.version == version {
		return l, nil
	}
	l := &domainList{version: version}
	take := func(r *store.Reader) (err error) {
		l.list, err = readDomains(r)
		return err
	}
	var err error
	if r != nil {
		err = take(r)
	} else {
		err = ds.read(ctx, take)
	}
	if err != nil {
		return nil, err
	}
	ds.local.Store(l)
	return l, nil
}

func readDomains(r *store.Reader) ([]string, error) {
	_, c, err := find(r, unidDomains)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Content.Items.Get(itemDomains).AsTextList(), nil
}

// List returns the local domains. The first is the default.
func (ds *Domains) List(ctx context.Context) ([]string, error) {
	l, err := ds.now(ctx, nil, ds.version.Load())
	if err != nil {
		return nil, err
	}
	return slices.Clone(l.list), nil
}

// IsLocal reports whether a domain, in any spelling, is local.
func (ds *Domains) IsLocal(ctx context.Context, domain string) (bool, error) {
	n, err := normalDomain(domain)
	if err != nil {
		return false, nil //nolint:nilerr // what is no domain is not a local one
	}
	l, err := ds.now(ctx, nil, ds.version.Load())
	if err != nil {
		return false, err
	}
	return l.has(n), nil
}

// maxDomains limits the number of local domains.
const maxDomains = 10_000

// Add adds a local domain. The first one added is the default.
func (ds *Domains) Add(ctx context.Context, who note.Who, domain string) error {
	return ds.set(ctx, who, domain, func(list []string, n string) []string {
		if slices.Contains(list, n) {
			return list
		}
		return append(list, n)
	})
}

// SetDefault makes a domain the default, and adds it if it was not local.
func (ds *Domains) SetDefault(ctx context.Context, who note.Who, domain string) error {
	return ds.set(ctx, who, domain, func(list []string, n string) []string {
		return append([]string{n}, slices.DeleteFunc(list, func(o string) bool { return o == n })...)
	})
}

// Remove removes a local domain. Entries keep their addresses in it, but these no longer resolve.
func (ds *Domains) Remove(ctx context.Context, who note.Who, domain string) error {
	return ds.set(ctx, who, domain, func(list []string, n string) []string {
		return slices.DeleteFunc(list, func(o string) bool { return o == n })
	})
}

func (ds *Domains) set(ctx context.Context, who note.Who, domain string,
	fn func(list []string, n string) []string) error {
	if err := RequireAdmin(who); err != nil {
		return err
	}
	n, err := NormalDomain(domain)
	if err != nil {
		return err
	}
	return ds.update(ctx, who, func(e *edit) error {
		f := fields{}
		f.text(itemForm, formDomain)
		id, c, err := find(&e.w.Reader, unidDomains)
		if errors.Is(err, ErrNotFound) {
			f.list(itemDomains, fn(nil, n))
			_, err = e.w.Create(store.New{UNID: unidDomains, Content: note.Content{Items: f.items}})
			return err
		}
		if err != nil {
			return err
		}
		list := fn(c.Content.Items.Get(itemDomains).AsTextList(), n)
		if len(list) > maxDomains {
			return fmt.Errorf("%w: at most %d domains are local", ErrInvalid, maxDomains)
		}
		f.items = c.Content.Items
		f.list(itemDomains, list)
		return e.revise(id, c, f.items)
	})
}

// first sets the default domain if there is no local domain.
func (ds *Domains) first(ctx context.Context, domain string) error {
	if _, err := NormalDomain(domain); err != nil {
		return err
	}
	var have []string
	err := ds.read(ctx, func(r *store.Reader) (err error) {
		have, err = readDomains(r)
		return err
	})
	if err != nil || len(have) > 0 {
		return err
	}
	return ds.Add(ctx, note.System, domain)
}

// checkAddress rejects a malformed address and an address outside the given domains.
func checkAddress(address string, domains []string) error {
	a, err := ParseAddress(address)
	if err != nil {
		return err
	}
	if !slices.Contains(domains, a.Domain) {
		return fmt.Errorf("%w address %q: %s is not a local domain: add it first, or use a local one", ErrInvalid,
			address, a.Domain)
	}
	return nil
}
