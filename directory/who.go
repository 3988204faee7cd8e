package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
)

// maxClosure limits the number of groups that a person is in, directly or through other groups.
const maxClosure = 10_000

// WhoOf returns the identity with which the store checks access: a person's direct and indirect groups, their roles,
// and the directory's version. Errors: ErrNotFound for a person who was removed, ErrDisabled.
func (ns *Names) WhoOf(ctx context.Context, id note.UNID) (note.Who, error) {
	version := ns.version.Load()
	if a, ok := ns.cache.get(cacheKey{kind: 'w', id: id}, version); ok {
		return *a.who, nil
	}
	who := note.Who{Person: id, Directory: version}
	err := ns.read(ctx, func(r *store.Reader) error {
		p, err := ns.person(ctx, r, id)
		if err != nil {
			return err
		}
		if !p.Removed.IsZero() {
			return fmt.Errorf("%w: %q was removed", ErrNotFound, p.Name())
		}
		if p.Disabled {
			return fmt.Errorf("%w: %s", ErrDisabled, p.Name())
		}
		who.Roles = p.Roles
		who.Groups, err = closure(r, id, memberAccess)
		return err
	})
	if err != nil {
		return note.Who{}, err
	}
	ns.cache.put(cacheKey{kind: 'w', id: id}, version, answer{who: &who})
	return who, nil
}

// AllGroupsOf returns the groups of every kind that a person, group or mail-in database is in, directly or through
// other groups, also those for mail only. The person may be disabled. The caller must not change the result.
func (ns *Names) AllGroupsOf(ctx context.Context, id note.UNID) ([]note.UNID, error) {
	version := ns.version.Load()
	if a, ok := ns.cache.get(cacheKey{kind: 'g', id: id}, version); ok {
		return a.groups, nil
	}
	groups, err := ns.allGroups(ctx, id)
	if err != nil {
		return nil, err
	}
	ns.cache.put(cacheKey{kind: 'g', id: id}, version, answer{groups: groups})
	return groups, nil
}

func (b *base) allGroups(ctx context.Context, id note.UNID) (out []note.UNID, err error) {
	err = b.read(ctx, func(r *store.Reader) error {
		out, err = closure(r, id, memberAccess, memberMail)
		return err
	})
	return out, err
}

// closure finds all groups of some kinds (the prefixes of indexMembers) that a member is in, also through others of
// these. It uses only the index, so it reads no member lists, which may be long.
func closure(r *store.Reader, id note.UNID, kinds ...byte) ([]note.UNID, error) {
	var out []note.UNID
	seen := map[note.UNID]bool{id: true}
	grow := func(member note.UNID) error {
		var ids []note.ID
		for _, kind := range kinds {
			some, err := r.Lookup(indexMembers, memberKey(kind, member))
			if err != nil {
				return err
			}
			ids = append(ids, some...)
		}
		for _, g := range ids {
			row, err := r.Note(g)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if !seen[row.UNID] {
				seen[row.UNID] = true
				out = append(out, row.UNID)
			}
		}
		return nil
	}
	if err := grow(id); err != nil {
		return nil, err
	}
	for i := 0; i < len(out); i++ {
		if len(out) > maxClosure {
			return nil, fmt.Errorf("%w: %s is in more than %d groups", ErrTooMany, id, maxClosure)
		}
		if err := grow(out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// SendRight is a person's right to use an address as the author of a message.
type SendRight uint8

// The rights. Each includes the one before it.
const (
	SendNever    SendRight = iota
	SendOnBehalf           // with their own address in Sender
	SendFully
)

// MaySendAs reports whether a person may use an address as its owner. A person owns their internet address, their
// aliases, and their short name and full names under a local domain, each with or without +detail. The first
// administrator also owns postmaster and abuse, if no entry has these addresses. The address of another person or a
// group needs an entry in SendAs for the caller or one of the caller's groups.
func (ns *Names) MaySendAs(ctx context.Context, who note.Who, address string) (bool, error) {
	right, err := ns.SendRight(ctx, who, address)
	return right == SendFully, err
}

// SendRight is MaySendAs, but also distinguishes the right to write on somebody's behalf.
func (ns *Names) SendRight(ctx context.Context, who note.Who, address string) (SendRight, error) {
	if who.System {
		return SendFully, nil
	}
	t, err := ns.Resolve(ctx, address)
	switch {
	case err == nil:
	case errors.Is(err, ErrNoSuchRecipient), errors.Is(err, ErrNotLocal), errors.Is(err, ErrInvalid):
		return SendNever, nil
	default:
		return SendNever, err
	}
	var as, behalf []string
	switch t.Kind {
	case TargetPerson:
		if t.ID == who.Person {
			return SendFully, nil
		}
		p, err := ns.person(ctx, nil, t.ID)
		if err != nil {
			return SendNever, err
		}
		as, behalf = p.SendAs, p.OnBehalf
	case TargetGroup:
		err := ns.document(ctx, t.ID, formGroup, func(items note.Items) {
			g := readGroup(t.ID, items)
			as, behalf = g.SendAs, g.OnBehalf
		})
		if err != nil {
			return SendNever, err
		}
	}
	switch {
	case names(as, who):
		return SendFully, nil
	case names(behalf, who):
		return SendOnBehalf, nil
	}
	return SendNever, nil
}

// names reports whether a list of UNIDs contains the person or one of the person's groups.
func names(list []string, who note.Who) bool {
	for _, s := range list {
		id, err := note.ParseUNID(s)
		if err == nil && (id == who.Person || slices.Contains(who.Groups, id)) {
			return true
		}
	}
	return false
}
