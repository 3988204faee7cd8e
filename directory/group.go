package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
)

var groupRecord = record[Group, GroupFields]{formGroup, 'g', readGroup,
	func(g *Group) *GroupFields { return &g.GroupFields }, (*GroupFields).write, (*edit).checkGroup}

// Groups adds, changes, lists and removes groups.
type Groups struct {
	*base
	names *Names
}

// Add adds a group.
func (gs *Groups) Add(ctx context.Context, who note.Who, f GroupFields) (Group, error) {
	return groupRecord.add(ctx, gs.base, who, f.clone())
}

// Set changes a group's fields. It calls fn under the directory's lock, so fn must be quick.
func (gs *Groups) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*GroupFields) error) (Group, error) {
	return groupRecord.set(ctx, gs.base, who, id, fn)
}

// checkGroup checks and normalizes fields, and turns members into ids. was holds the group's current fields, nil for a
// new group.
func (e *edit) checkGroup(f, was *GroupFields) error {
	var err error
	if f.Name, err = cleanName(f.Name); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if len(f.Description) > 4096 {
		return fmt.Errorf("%w group %q: the description is longer than 4096 bytes", ErrInvalid, f.Name)
	}
	switch f.Kind {
	case "":
		f.Kind = GroupMulti
	case GroupMulti, GroupMail, GroupAccess:
	default:
		return fmt.Errorf("%w group %q: the kind is %s, %s or %s", ErrInvalid, f.Name, GroupMulti, GroupMail,
			GroupAccess)
	}
	if f.InternetAddress != "" && f.Kind == GroupAccess {
		return fmt.Errorf("%w group %q: a group for access alone has no address", ErrInvalid, f.Name)
	}
	domains, err := readDomains(&e.w.Reader)
	if err != nil {
		return err
	}
	var had []string
	own := domains
	if was != nil {
		had = was.Members
		own = withDomainsOf(slices.Clone(domains), []string{was.InternetAddress})
	}
	if f.InternetAddress != "" {
		if err := checkAddress(f.InternetAddress, own); err != nil {
			return err
		}
	}
	if err := checkRights(&e.w.Reader, &f.SendAs, &f.OnBehalf); err != nil {
		return err
	}
	if err := e.checkList(f, was, domains); err != nil {
		return err
	}
	if err := e.checkFollowed(f, was); err != nil {
		return err
	}
	return e.checkMembers(f, had, domains)
}

func (e *edit) checkMembers(f *GroupFields, had, domains []string) error {
	if limit := e.b.opt.MaxMembers; len(f.Members) > limit {
		return fmt.Errorf("%w: group %q lists more than %d; make groups of groups", ErrTooMany, f.Name, limit)
	}
	known := make(map[string]bool, len(had))
	for _, m := range had {
		known[m] = true
	}
	seen := make(map[string]bool, len(f.Members))
	out := f.Members[:0]
	for _, m := range f.Members {
		if !known[m] {
			id, err := e.member(m, domains)
			if err != nil {
				return fmt.Errorf("member %.80q of group %q: %w", m, f.Name, err)
			}
			m = id
		}
		if !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	f.Members = out
	return nil
}

// member turns a member, given as UNID, name or address, into a UNID or an address in another domain.
func (e *edit) member(m string, domains []string) (string, error) {
	r := &e.w.Reader
	if u, err := note.ParseUNID(strings.ToLower(m)); err == nil {
		if _, c, err := find(r, u); err != nil {
			return "", err
		} else if _, ok := makeTarget(u, c.Content.Items); !ok {
			return "", fmt.Errorf("%w: it is no person, group or mail-in database", ErrInvalid)
		}
		return u.String(), nil
	}
	var t Target
	var err error
	if strings.IndexByte(m, '@') >= 0 {
		a, bad := ParseAddress(m)
		if bad != nil {
			return "", bad
		}
		if !slices.Contains(domains, a.Domain) {
			return m, nil
		}
		t, err = resolve(r, a)
	} else {
		k := nameKey('n', m)
		if k == nil {
			return "", fmt.Errorf("%w name", ErrInvalid)
		}
		t, err = lookup(r, k)
	}
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("%w: no person or group has that name: add it first", ErrNotFound)
	}
	return t.ID.String(), err
}

// Get returns a group by id. It also finds a group that was removed.
func (gs *Groups) Get(ctx context.Context, id note.UNID) (Group, error) {
	return groupRecord.get(ctx, gs.base, id)
}

// Named finds a group by name or address.
func (gs *Groups) Named(ctx context.Context, name string) (Group, error) {
	t, err := gs.names.Lookup(ctx, name)
	if err != nil {
		return Group{}, err
	}
	if t.Kind != TargetGroup {
		return Group{}, fmt.Errorf("%w: %q is a %s, not a group", ErrNotFound, name, t.Kind)
	}
	return gs.Get(ctx, t.ID)
}

// Remove removes a group, as People.Remove removes a person.
func (gs *Groups) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return gs.remove(ctx, who, id, formGroup)
}

// List lists groups by name, as People.List lists people.
func (gs *Groups) List(ctx context.Context, prefix string, limit int, after string) ([]Group, string, error) {
	return groupRecord.list(ctx, gs.base, prefix, limit, after)
}
