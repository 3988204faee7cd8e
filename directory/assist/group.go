package assist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/client/ldap"
)

// ErrTooMany reports a group with too many members, or groups that are nested too deep.
var ErrTooMany = errors.New("assist: too many members")

// Bounds of a group: the entries that are read, members and groups within, and how deep groups are nested.
const (
	maxMembers = 500
	maxDepth   = 8
)

// Group returns the addresses of the members of the group with an address, also of those of groups within. Members
// without an address are left out. It keeps answers for a while, ErrNobody too. Errors: ErrNobody, ErrAmbiguous,
// ErrTooMany, ErrAway, password.ErrBusy.
func (c *Client) Group(ctx context.Context, address string) ([]string, error) {
	if len(address) > maxName || !c.set.Trusts(address) {
		return nil, ErrNobody
	}
	key := strings.ToLower(address)
	if list, ok := c.groups.get(key, c.env.Clock.Now()); ok {
		if list == nil {
			return nil, ErrNobody
		}
		return list, nil
	}
	c.stat.Searches.Inc()
	var g gathering
	err := c.with(ctx, 2*c.set.Timeout, func(ctx context.Context, k *conn) error {
		g = gathering{c: c, k: k, seen: map[string]bool{}, addresses: []string{}}
		list, more, err := g.find(ctx, ldap.Query{Base: c.set.Base, Scope: ldap.ScopeSubtree,
			Filter: fill(c.set.Groups, address), Limit: 2})
		switch {
		case err != nil:
			return err
		case len(list) == 0 && !more:
			return ErrNobody
		case len(list) != 1 || more:
			return ErrAmbiguous
		}
		g.seen[strings.ToLower(list[0].DN)] = true
		return g.members(ctx, &list[0], 1)
	})
	switch now := c.env.Clock.Now(); {
	case err == nil:
		c.groups.put(key, g.addresses, now, now.Add(c.set.Cache))
	case errors.Is(err, ErrNobody):
		c.groups.put(key, nil, now, now.Add(c.set.Cache))
	}
	return g.addresses, err
}

// gathering gathers the addresses of a group.
type gathering struct {
	c         *Client
	k         *conn
	seen      map[string]bool // DNs in lower case
	addresses []string
}

func (g *gathering) find(ctx context.Context, q ldap.Query) ([]ldap.Entry, bool, error) {
	q.Attributes = []string{g.c.set.Mail, g.c.set.Member}
	return g.c.query(ctx, g.k, q)
}

func (g *gathering) members(ctx context.Context, group *ldap.Entry, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: groups are nested deeper than %d", ErrTooMany, maxDepth)
	}
	for _, dn := range group.Attributes[strings.ToLower(g.c.set.Member)] {
		key := strings.ToLower(dn)
		if g.seen[key] || dn == "" {
			continue
		}
		if g.seen[key] = true; len(g.seen) > maxMembers+1 {
			return fmt.Errorf("%w: more than %d", ErrTooMany, maxMembers)
		}
		list, _, err := g.find(ctx, ldap.Query{Base: dn, Scope: ldap.ScopeBase, Filter: "(objectClass=*)", Limit: 1})
		switch {
		case errors.Is(err, ldap.ErrNoEntry), err == nil && len(list) == 0:
			continue // it was removed, or the bind DN may not read it
		case err != nil:
			return err
		case len(list[0].Attributes[strings.ToLower(g.c.set.Member)]) > 0:
			if err := g.members(ctx, &list[0], depth+1); err != nil {
				return err
			}
			continue
		}
		if a := one(&list[0], g.c.set.Mail); a != "" && !slices.Contains(g.addresses, a) {
			g.addresses = append(g.addresses, a)
		}
	}
	return nil
}
