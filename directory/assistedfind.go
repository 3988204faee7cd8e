package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory/assist"
	"doublet/note"
	"doublet/store"
)

// maxOutside is the number of found people of other directories that are kept for Known.
const maxOutside = 5000

// FindMore appends people of other directories to those that Find has found by the text of a search, up to MaxFound. It
// leaves out addresses that are in the list, and those of local domains that nobody has here: mail to them would be
// refused. A directory that does not answer adds nothing.
func (ns *Names) FindMore(ctx context.Context, s Search, list []Entry) ([]Entry, error) {
	as := ns.assistance
	if ns.opt.Private || s.Text == "" || s.Name+s.Email != "" || s.Kind == TargetGroup {
		return list, nil
	}
	others, err := as.serving(ctx, assist.UseLookup)
	for i := range others {
		if len(list) >= MaxFound {
			break
		}
		people, bad := others[i].Search(ctx, s.Text)
		if bad != nil {
			as.env.Log.DebugContext(ctx, "directory assistance: no names", "directory", others[i].OtherDirectory.Name,
				"err", bad)
		}
		for j := range people {
			if list, err = ns.more(ctx, list, &others[i], &people[j]); err != nil {
				return list, err
			}
		}
	}
	return list, err
}

// more appends a person of another directory to a list.
func (ns *Names) more(ctx context.Context, list []Entry, o *otherClient, p *assist.Person) ([]Entry, error) {
	if len(list) >= MaxFound ||
		slices.ContainsFunc(list, func(e Entry) bool { return strings.EqualFold(e.Address, p.Mail) }) {
		return list, nil
	}
	e := Entry{ID: note.DeriveUNID([]byte("other directory"), o.ID[:], []byte(p.DN)), Kind: TargetPerson,
		Name: cmp.Or(p.Name, p.Short, p.Mail), Address: p.Mail}
	_, err := ns.Resolve(ctx, p.Mail)
	switch {
	case errors.Is(err, ErrNoSuchRecipient), errors.Is(err, ErrInvalid):
		return list, nil
	case err != nil && !errors.Is(err, ErrNotLocal):
		return list, err
	}
	as := ns.assistance
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.outside == nil || len(as.outside) >= maxOutside {
		as.outside = map[note.UNID]Entry{}
	}
	as.outside[e.ID] = e
	return append(list, e), nil
}

// Known returns those of the ids that FindMore has returned a short while ago on this server.
func (ns *Names) Known(ids []note.UNID) (list []Entry) {
	as := ns.assistance
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, id := range ids {
		if e, ok := as.outside[id]; ok {
			list = append(list, e)
		}
	}
	return list
}

// otherGroup is a group of another directory.
type otherGroup struct{ addresses []string }

// Recipient is Resolve for a message that is accepted: it also finds groups of other directories, where nobody has the
// address here. It returns assist.ErrAway if one of these cannot be asked, ErrTooMany for a group that is too large.
func (ns *Names) Recipient(ctx context.Context, address string) (Target, error) {
	t, err := ns.Resolve(ctx, address)
	if !errors.Is(err, ErrNoSuchRecipient) {
		return t, err
	}
	others, bad := ns.assistance.serving(ctx, assist.UseGroups)
	if bad != nil {
		return t, bad
	}
	for i := range others {
		o := &others[i]
		list, bad := o.Group(ctx, address)
		switch {
		case errors.Is(bad, assist.ErrNobody):
			continue
		case errors.Is(bad, assist.ErrTooMany):
			return t, fmt.Errorf("%w: group %s of directory %s: %w", ErrTooMany, address, o.OtherDirectory.Name, bad)
		case bad != nil:
			return t, fmt.Errorf("directory: group %s: %w", address, bad)
		}
		return Target{Kind: TargetGroup, ID: note.DeriveUNID([]byte("other group"), o.ID[:], []byte(lower(address))),
			Name: address, groupKind: GroupMail, other: &otherGroup{list}}, nil
	}
	return t, err
}

// others expands a group of another directory. An address of a local domain that nobody has here stays outside: the
// sender is told of it.
func (x *expander) others(r *store.Reader, g *otherGroup, depth int) error {
	if x.read += len(g.addresses); x.read > 10*x.limit {
		return fmt.Errorf("%w: more than %d entries in groups", ErrTooMany, 10*x.limit)
	}
	for _, address := range g.addresses {
		a, err := ParseAddress(address)
		if err != nil {
			continue
		}
		err = ErrNotFound
		var t Target
		if x.domains.has(a.Domain) {
			t, err = resolve(r, a)
		}
		switch {
		case err == nil:
			err = x.target(r, &t, depth)
		case errors.Is(err, ErrNotFound) && !x.out[address]:
			x.out[address] = true
			x.Outside = append(x.Outside, address)
			err = x.check()
		case errors.Is(err, ErrNotFound):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
