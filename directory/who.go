package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
)

// maxClosure bounds the groups that a person is in, directly or through others.
const maxClosure = 10_000

// WhoOf makes what the store checks of a person: the closure of their groups, their roles, and the
// version at which that was so. Errors: ErrNotFound for people who were removed, ErrDisabled.
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
		who.Groups, err = closure(r, id)
		return err
	})
	if err != nil {
		return note.Who{}, err
	}
	ns.cache.put(cacheKey{kind: 'w', id: id}, version, answer{who: &who})
	return who, nil
}

// closure walks the groups upwards through the index alone: no group's list is read, however long.
func closure(r *store.Reader, id note.UNID) ([]note.UNID, error) {
	var out []note.UNID
	seen := map[note.UNID]bool{id: true}
	grow := func(member note.UNID) error {
		ids, err := r.Lookup(indexMembers, memberKey(memberAccess, member))
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
		return err
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

// SendRight says in which way somebody may use an address as a message's author.
type SendRight uint8

// The rights, each more than the one before it.
const (
	SendNever    SendRight = iota
	SendOnBehalf           // beside an address of their own in Sender
	SendFully
)

// MaySendAs says whether an address is the person's own: their internet address or an alias, their
// short name or full name under a local domain, each with or without +detail; the administrator's
// also postmaster and abuse where nobody else has them; and that of a person or group whose field
// SendAs names them, or a group that they are in.
func (ns *Names) MaySendAs(ctx context.Context, who note.Who, address string) (bool, error) {
	right, err := ns.SendRight(ctx, who, address)
	return right == SendFully, err
}

// SendRight is MaySendAs with the right to write on behalf of somebody told apart.
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

// names says whether a list of UNIDs has the person or a group that they are in.
func names(list []string, who note.Who) bool {
	for _, s := range list {
		id, err := note.ParseUNID(s)
		if err == nil && (id == who.Person || slices.Contains(who.Groups, id)) {
			return true
		}
	}
	return false
}
