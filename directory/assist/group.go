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

// membersTime is the time for all steps of Members, in timeouts of one request: nobody waits for it.
const membersTime = 12

// anyEntry matches every entry.
const anyEntry = "(objectClass=*)"

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

// Member is a person in a group.
type Member struct{ DN, Short, Mail string }

// Members returns the people of a group, which is named by its DN or its address, also those of groups within. It
// leaves out whoever does not match the filter for people who sign in. It keeps no answers. Errors: ErrNobody,
// ErrAmbiguous, ErrTooMany, ErrAway, password.ErrBusy.
func (c *Client) Members(ctx context.Context, group string) ([]Member, error) {
	c.stat.Searches.Inc()
	q := ldap.Query{Base: group, Scope: ldap.ScopeBase, Filter: anyEntry, Limit: 2}
	if isAddress(group) {
		q = ldap.Query{Base: c.set.Base, Scope: ldap.ScopeSubtree, Filter: fill(c.set.Groups, group), Limit: 2}
	}
	var g gathering
	err := c.with(ctx, membersTime*c.set.Timeout, func(ctx context.Context, k *conn) error {
		g = gathering{c: c, k: k, seen: map[string]bool{}, people: strings.ReplaceAll(c.set.People, "%s", "*")}
		list, more, err := g.find(ctx, q)
		switch {
		case errors.Is(err, ldap.ErrNoEntry), err == nil && len(list) == 0 && !more:
			return ErrNobody
		case err != nil:
			return err
		case len(list) != 1 || more:
			return ErrAmbiguous
		}
		g.seen[strings.ToLower(list[0].DN)] = true
		return g.members(ctx, &list[0], 1)
	})
	if err != nil {
		return nil, err
	}
	return g.found, nil
}

// SignIn is a name with which a person signs in, and the entry that is to be the person's.
type SignIn struct{ Name, DN string }

// Confirm reports for each of the sign-ins if Authenticate finds the entry by the name, and no other. The DNs are those
// of Members. It sends one request for each. Errors: ErrAway, password.ErrBusy.
func (c *Client) Confirm(ctx context.Context, list []SignIn) ([]bool, error) {
	if len(list) == 0 {
		return nil, nil
	}
	found := make([]bool, len(list))
	err := c.with(ctx, membersTime*c.set.Timeout, func(ctx context.Context, k *conn) error {
		for i := range list {
			p, err := c.person(ctx, k, list[i].Name)
			if err != nil && !errors.Is(err, ErrNobody) && !errors.Is(err, ErrAmbiguous) {
				return err
			}
			found[i] = err == nil && strings.EqualFold(p.DN, list[i].DN)
		}
		return nil
	})
	return found, err
}

// CheckGroup returns an error if a group is named neither by a DN nor by an address.
func CheckGroup(group string) error {
	if isAddress(group) {
		return nil
	}
	return ldap.CheckDN(group)
}

func isAddress(group string) bool {
	return strings.Contains(group, "@") && !strings.Contains(group, "=")
}

// gathering gathers the addresses of a group, or its people if there is a filter for them.
type gathering struct {
	c         *Client
	k         *conn
	seen      map[string]bool // DNs in lower case
	addresses []string
	people    string
	found     []Member
}

func (g *gathering) find(ctx context.Context, q ldap.Query) ([]ldap.Entry, bool, error) {
	q.Attributes = []string{g.c.set.Short, g.c.set.Mail, g.c.set.Member}
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
		if err := g.member(ctx, dn, depth); err != nil {
			return err
		}
	}
	return nil
}

// member gathers a member, or those of a group within.
func (g *gathering) member(ctx context.Context, dn string, depth int) error {
	if g.people != "" {
		// First, because a person may have members, and in Active Directory a group has a short name.
		list, err := g.at(ctx, dn, g.people)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			g.found = append(g.found, Member{list[0].DN, one(&list[0], g.c.set.Short), one(&list[0], g.c.set.Mail)})
			return nil
		}
	}
	list, err := g.at(ctx, dn, anyEntry)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return nil // it was removed, or the bind DN may not read it
	case len(list[0].Attributes[strings.ToLower(g.c.set.Member)]) > 0:
		return g.members(ctx, &list[0], depth+1)
	}
	if a := one(&list[0], g.c.set.Mail); g.people == "" && a != "" && !slices.Contains(g.addresses, a) {
		g.addresses = append(g.addresses, a)
	}
	return nil
}

// at returns the entry with a DN, if there is one and it matches a filter.
func (g *gathering) at(ctx context.Context, dn, filter string) ([]ldap.Entry, error) {
	list, _, err := g.find(ctx, ldap.Query{Base: dn, Scope: ldap.ScopeBase, Filter: filter, Limit: 1})
	if errors.Is(err, ldap.ErrNoEntry) {
		return nil, nil
	}
	return list, err
}
