package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"doublet/client/ldap"
	"doublet/directory/assist"
	"doublet/directory/password"
	"doublet/note"
	"doublet/store"
)

// maxEntry limits the DN or address of a group of another directory, in bytes.
const maxEntry = 1000

// failedGroup is a group that could not be followed.
type failedGroup struct {
	directory, name string
	err             error
}

// checkFollowed checks a group whose members are those of a group of another directory.
func (e *edit) checkFollowed(f, was *GroupFields) error {
	f.Entry = strings.TrimSpace(f.Entry)
	if f.Assistance.IsZero() && f.Entry == "" {
		return nil
	}
	switch {
	case f.Assistance.IsZero() || f.Entry == "":
		return fmt.Errorf("%w group %q: name both the other directory and the group there", ErrInvalid, f.Name)
	case len(f.Entry) > maxEntry || strings.ContainsFunc(f.Entry, func(r rune) bool { return r < ' ' }):
		return fmt.Errorf("%w group %q: the group there is one line of at most %d bytes", ErrInvalid, f.Name, maxEntry)
	case f.Kind == GroupMail || f.InternetAddress != "":
		return fmt.Errorf("%w group %q: it is for access only, the group in the other directory receives mail",
			ErrInvalid, f.Name)
	}
	f.Kind = GroupAccess
	if err := assist.CheckGroup(f.Entry); err != nil {
		return fmt.Errorf("%w group %q: the group there is a DN or an address: %w", ErrInvalid, f.Name, err)
	}
	if err := checkAssisted(&e.w.Reader, f.Assistance); err != nil {
		return err
	}
	return f.checkFollowed(was)
}

// checkFollowed returns an error if members were added here. Those of before the group followed another one go.
func (f *GroupFields) checkFollowed(was *GroupFields) error {
	var had []string
	if was != nil && was.Assistance == f.Assistance && was.Entry == f.Entry {
		had = was.Members
	} else if was != nil && slices.Equal(was.Members, f.Members) {
		f.Members = nil // those of another group
	}
	if slices.ContainsFunc(f.Members, func(m string) bool { return !slices.Contains(had, m) }) {
		return fmt.Errorf("%w group %q: its members are those of %s in another directory, add them there", ErrInvalid,
			f.Name, f.Entry)
	}
	return nil
}

// Follow asks the other directories for the members of the groups that have those of a group there, and changes the
// groups. Members are people whose password that directory keeps: no other bond says that the two are one person. While
// the directory is away, a group keeps the members that it had. One that is not found there has none.
func (gs *Groups) Follow(ctx context.Context) error {
	var groups []Group
	err := gs.read(ctx, func(r *store.Reader) error {
		ids, err := r.Lookup(indexAssistance, []byte{'g'})
		if err != nil {
			return err
		}
		return eachDocument(r, ids, func(id note.UNID, items note.Items) {
			groups = append(groups, readGroup(id, items))
		})
	})
	if err != nil {
		return fmt.Errorf("directory: groups of other directories: %w", err)
	}
	gs.names.assistance.forget(groups)
	var failed error
	for i := range groups {
		failed = errors.Join(failed, gs.follow(ctx, &groups[i]))
	}
	return failed
}

// FollowOne is Follow for one group, which may also be one with members of its own. It returns the group as it is then.
func (gs *Groups) FollowOne(ctx context.Context, id note.UNID) (g Group, err error) {
	if g, err = gs.Get(ctx, id); err != nil {
		return g, err
	}
	if g.Assistance.IsZero() {
		gs.names.assistance.follows(&g, "", nil)
		return g, nil
	}
	if err := gs.follow(ctx, &g); err != nil {
		return g, err
	}
	return gs.Get(ctx, id)
}

// Unfollowed returns the reason for which a group may have other members than the group of another directory.
func (gs *Groups) Unfollowed(id note.UNID) error {
	as := gs.names.assistance
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.failed[id].err
}

// follow changes the members of a group. The error is of the store.
func (gs *Groups) follow(ctx context.Context, g *Group) error {
	as := gs.names.assistance
	list, err := as.now(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(o otherClient) bool { return o.ID == g.Assistance })
	if at < 0 || list[at].Off || list[at].Client == nil {
		as.follows(g, "", fmt.Errorf("%w: the other directory is off, or was removed", assist.ErrAway))
		return nil
	}
	o := &list[at]
	people, why := o.Members(ctx, g.Entry)
	bonds, err := gs.bonded(ctx, o, people)
	if err != nil {
		return err
	}
	var members []string
	if why == nil {
		members, why = o.confirmed(ctx, bonds)
	}
	if ctx.Err() != nil || errors.Is(why, password.ErrBusy) {
		return nil // the next run
	}
	as.follows(g, o.OtherDirectory.Name, why)
	if why != nil && !errors.Is(why, assist.ErrNobody) {
		return nil
	}
	if slices.Equal(members, g.Members) {
		return nil
	}
	return gs.replace(ctx, g, o.OtherDirectory.Name, members)
}

// replace sets the members of a group to those in another directory, unless it follows another group by now.
func (gs *Groups) replace(ctx context.Context, g *Group, directory string, members []string) error {
	err := gs.update(ctx, note.System, func(e *edit) error {
		return e.change(g.ID, formGroup, func(items note.Items) (note.Items, error) {
			now := readGroup(g.ID, items)
			if now.Assistance != g.Assistance || now.Entry != g.Entry {
				return items, nil
			}
			now.Members = members
			return now.write(items), nil
		})
	})
	if errors.Is(err, ErrNotFound) {
		return nil // it was removed meanwhile
	}
	if err == nil {
		gs.names.assistance.env.Log.InfoContext(ctx, "directory assistance: members of a group have changed",
			"group", g.Name, "directory", directory, "members", len(members), "before", len(g.Members))
	}
	return err
}

// bond is a person here who has the name of a member of a group of another directory.
type bond struct {
	id note.UNID
	assist.SignIn
}

// bonded returns the people here whose names are those of members of a group of another directory.
func (gs *Groups) bonded(ctx context.Context, o *otherClient, people []assist.Member) (out []bond, err error) {
	for i := range people {
		m := &people[i]
		name := cmp.Or(m.Short, m.Mail)
		if name == "" {
			continue
		}
		p, err := gs.names.PersonNamed(ctx, name)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) {
			if p, err = gs.names.PersonNamed(ctx, m.Mail); errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if p.Assistance != o.ID {
			continue
		}
		// As verify finds the entry of a person.
		if p.ShortName != "" && plain(p.ShortName) == plain(m.Short) ||
			p.ShortName == "" && strings.EqualFold(p.InternetAddress, m.Mail) {
			out = append(out, bond{p.ID, assist.SignIn{Name: cmp.Or(p.ShortName, p.InternetAddress), DN: m.DN}})
		}
	}
	return out, nil
}

// confirmed returns the UNIDs of the people whose sign-in finds the entry of the member, sorted. The names of an entry
// are not enough: another one may have them too, and a group may have members that are not below the base.
func (o *otherClient) confirmed(ctx context.Context, bonds []bond) (out []string, err error) {
	list := make([]assist.SignIn, len(bonds))
	for i := range bonds {
		list[i] = bonds[i].SignIn
	}
	found, err := o.Confirm(ctx, list)
	if err != nil {
		return nil, err
	}
	for i := range bonds {
		if found[i] {
			out = append(out, bonds[i].id.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// follows remembers if a group can be followed, and logs a failure that is new.
func (as *Assistance) follows(g *Group, directory string, err error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	was := as.failed[g.ID]
	if err == nil {
		delete(as.failed, g.ID)
		return
	}
	if as.failed == nil {
		as.failed = map[note.UNID]failedGroup{}
	}
	as.failed[g.ID] = failedGroup{directory, g.Name, err}
	if was.err != nil {
		return
	}
	what := "directory assistance: cannot follow a group, its members stay"
	if errors.Is(err, assist.ErrNobody) {
		what = "directory assistance: a group is not there, it has no members"
	}
	as.env.Log.Warn(what, "group", g.Name, "entry", g.Entry, "err", err)
}

// forget forgets the failures of groups that are not among those that are followed.
func (as *Assistance) forget(groups []Group) {
	as.mu.Lock()
	defer as.mu.Unlock()
	maps.DeleteFunc(as.failed, func(id note.UNID, _ failedGroup) bool {
		return !slices.ContainsFunc(groups, func(g Group) bool { return g.ID == id })
	})
}

// unfollowed returns the groups that could not be followed although their directory serves.
func (as *Assistance) unfollowed() (out []Away) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, f := range as.failed {
		if f.directory == "" || !errors.Is(f.err, assist.ErrAway) || errors.Is(f.err, ldap.ErrReferral) {
			out = append(out, Away{strings.TrimSpace(f.directory + " (group " + f.name + ")"), f.err})
		}
	}
	slices.SortFunc(out, func(a, b Away) int { return strings.Compare(a.Name, b.Name) })
	return out
}
