package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/directory/password"
)

// ImportedPeople is the result of an import of people, groups and aliases.
type ImportedPeople struct {
	People, Groups, Aliases int
	// Present counts entries that exist already. They are not changed.
	Present int
	Failed  int
	// Notes lists entries that were imported with changes. Errors lists entries that were not imported.
	Notes, Errors []string
}

// incomingGroup is a group to import. Members are DNs, names or addresses.
type incomingGroup struct {
	where   string
	fields  directory.GroupFields
	members []string
}

// incomingAlias is an address whose mail is forwarded to targets.
type incomingAlias struct {
	where, address string
	targets        []string
}

// intake imports the entries of a source. It adds people 500 at a time. It adds groups and aliases at the end, because
// they refer to people.
type intake struct {
	*Job
	check bool // nothing is written
	scram bool
	specs []directory.PersonSpec
	where []string
	// named holds the directory name of the entry with a DN or login. Keys are in lower case.
	named   map[string]string
	groups  []incomingGroup
	aliases []incomingAlias
	domain  string
	out     ImportedPeople
}

// Limits of the entries held until the end, and of the reported notes and errors.
const (
	maxIncoming      = 200_000
	maxIncomingNotes = 1000
)

func (j *Job) newIntake(ctx context.Context, check, scram bool) (*intake, error) {
	in := &intake{Job: j, check: check, scram: scram, named: map[string]string{}}
	list, err := j.directory.Domains.List(ctx)
	if len(list) > 0 {
		in.domain = list[0]
	}
	return in, err
}

func (in *intake) fail(where string, err error) {
	in.out.Failed++
	if len(in.out.Errors) < maxIncomingNotes {
		in.out.Errors = append(in.out.Errors, where+": "+err.Error())
	}
}

func (in *intake) note(where, text string) {
	if len(in.out.Notes) < maxIncomingNotes {
		in.out.Notes = append(in.out.Notes, where+": "+text)
	}
}

// secret sets the password in a spec from another system's value. If the value cannot be verified here, the person is
// imported without a password.
func (in *intake) secret(where string, spec *directory.PersonSpec, value string) {
	if value == "" {
		return
	}
	if pw, ok := password.Plain(value); ok {
		spec.Password = pw
		return
	}
	if !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "$") {
		spec.Password = value
		return
	}
	if err := password.Check(value); err != nil {
		in.note(where, "comes without a password: "+strings.TrimPrefix(err.Error(), "password: "))
		return
	}
	spec.Hash = value
}

// person adds a person. also lists further names by which groups may refer to the person.
func (in *intake) person(ctx context.Context, where string, spec directory.PersonSpec, also ...string) error {
	spec.Scram = spec.Scram || in.scram && spec.Hash == ""
	name := cmp.Or(spec.InternetAddress, spec.ShortName, spec.Name())
	for _, k := range also {
		if k != "" && len(in.named) < 4*maxIncoming {
			in.named[strings.ToLower(k)] = name
		}
	}
	in.specs, in.where = append(in.specs, spec), append(in.where, where)
	if len(in.specs) < bulkRows {
		return nil
	}
	return in.flush(ctx)
}

// known reports whether an existing person has one of a person's names. The person is then imported already.
func (in *intake) known(ctx context.Context, spec *directory.PersonSpec) bool {
	for _, name := range []string{spec.InternetAddress, spec.ShortName} {
		if name == "" {
			continue
		}
		if p, err := in.directory.Names.PersonNamed(ctx, name); err == nil && (p.Name() == spec.Name() ||
			strings.EqualFold(p.InternetAddress, spec.InternetAddress) && spec.InternetAddress != "") {
			return true
		}
	}
	return false
}

func (in *intake) flush(ctx context.Context) error {
	specs, where := in.specs[:0], in.where[:0]
	for i := range in.specs {
		if in.known(ctx, &in.specs[i]) {
			in.out.Present++
			continue
		}
		specs, where = append(specs, in.specs[i]), append(where, in.where[i])
	}
	in.specs, in.where = nil, nil
	if len(specs) == 0 {
		return nil
	}
	if in.check {
		in.out.People += len(specs)
		return ctx.Err()
	}
	res, err := in.directory.People.Import(ctx, in.who, specs, directory.ImportOptions{})
	in.out.People += res.Added
	for _, e := range res.Errors {
		in.fail(where[e.Row], e.Err)
	}
	in.progress(Progress{Stage: "people", Done: uint64(in.out.People + in.out.Failed)})
	return err
}

func (in *intake) group(g incomingGroup) error {
	if in.groups = append(in.groups, g); len(in.groups) > maxIncoming {
		return fmt.Errorf("%w: more than %d groups", ErrInvalid, maxIncoming)
	}
	return nil
}

func (in *intake) alias(a incomingAlias) error {
	if in.aliases = append(in.aliases, a); len(in.aliases) > maxIncoming {
		return fmt.Errorf("%w: more than %d aliases", ErrInvalid, maxIncoming)
	}
	return nil
}

// finish imports the remaining people, the groups and the aliases.
func (in *intake) finish(ctx context.Context) (ImportedPeople, error) {
	if err := in.flush(ctx); err != nil {
		return in.out, err
	}
	// A group may contain other groups. Add groups whose members are all known first. Then add the rest without the
	// unknown members.
	left := in.groups
	for len(left) > 0 {
		var later []incomingGroup
		for i := range left {
			done, err := in.addGroup(ctx, &left[i], false)
			if err != nil {
				return in.out, err
			}
			if !done {
				later = append(later, left[i])
			}
		}
		if len(later) == len(left) {
			for i := range later {
				if _, err := in.addGroup(ctx, &later[i], true); err != nil {
					return in.out, err
				}
			}
			break
		}
		left = later
	}
	for i := range in.aliases {
		if err := in.addAlias(ctx, &in.aliases[i]); err != nil {
			return in.out, err
		}
	}
	return in.out, nil
}

// resolve returns a member's name in the directory, or false if the directory has no such entry.
func (in *intake) resolve(ctx context.Context, member string) (string, bool) {
	if name, ok := in.named[strings.ToLower(member)]; ok {
		member = name
	}
	if in.check && slices.ContainsFunc(in.groups, func(g incomingGroup) bool { return g.fields.Name == member }) {
		return member, true
	}
	if i := strings.LastIndexByte(member, '@'); i > 0 && !strings.Contains(member, "=") {
		if local, err := in.directory.Domains.IsLocal(ctx, member[i+1:]); err == nil && !local {
			return member, true // in another domain
		}
	}
	if _, err := in.directory.Names.PersonNamed(ctx, member); err == nil {
		return member, true
	}
	if _, err := in.directory.Groups.Named(ctx, member); err == nil {
		return member, true
	}
	if _, err := in.directory.MailIns.Named(ctx, member); err == nil {
		return member, true
	}
	return member, in.check && in.brings(member)
}

// brings reports whether a person of this name is in the table.
func (in *intake) brings(person string) bool {
	for _, name := range in.named {
		if name == person {
			return true
		}
	}
	return false
}

// addGroup adds a group. With force, it also adds a group with unknown members, without them.
func (in *intake) addGroup(ctx context.Context, g *incomingGroup, force bool) (done bool, err error) {
	var members, missing []string
	for _, m := range g.members {
		if name, ok := in.resolve(ctx, m); ok {
			members = append(members, name)
		} else {
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 && !force {
		return false, nil
	}
	for _, m := range missing {
		in.note(g.where, fmt.Sprintf("without the member %.200q, who is not here", m))
	}
	if in.check {
		in.out.Groups++
		return true, ctx.Err()
	}
	g.fields.Members = members
	_, err = in.directory.Groups.Add(ctx, in.who, g.fields)
	switch {
	case err == nil:
		in.out.Groups++
	case errors.Is(err, directory.ErrNameTaken):
		if have, bad := in.directory.Groups.Named(ctx, g.fields.Name); bad == nil && strings.EqualFold(have.Name,
			g.fields.Name) {
			in.out.Present++
			return true, ctx.Err()
		}
		in.fail(g.where, err)
	default:
		in.fail(g.where, err)
	}
	return true, ctx.Err()
}

// addAlias adds an address to a person. It creates a group if the address has several targets or a target in another
// domain.
func (in *intake) addAlias(ctx context.Context, a *incomingAlias) error {
	address := in.qualify(a.address)
	if p, err := in.directory.Names.PersonNamed(ctx, address); err == nil {
		if len(a.targets) == 1 {
			if t, err := in.directory.Names.PersonNamed(ctx, in.target(a.targets[0])); err == nil && t.ID == p.ID {
				in.out.Present++
				return ctx.Err()
			}
		}
		in.fail(a.where, fmt.Errorf("%w: %s belongs to %s", directory.ErrNameTaken, address, p.Name()))
		return ctx.Err()
	}
	if _, err := in.directory.Groups.Named(ctx, address); err == nil {
		in.out.Present++
		return ctx.Err()
	}
	if len(a.targets) == 1 {
		if p, err := in.directory.Names.PersonNamed(ctx, in.target(a.targets[0])); err == nil {
			in.out.Aliases++
			if in.check {
				return ctx.Err()
			}
			if _, err := in.directory.People.Set(ctx, in.who, p.ID, func(f *directory.PersonFields) error {
				f.MailAddress = append(slices.Clone(f.MailAddress), address)
				return nil
			}); err != nil {
				in.out.Aliases--
				in.fail(a.where, err)
			}
			return ctx.Err()
		}
	}
	if in.check && len(a.targets) == 1 && in.named[strings.ToLower(a.targets[0])] != "" {
		in.out.Aliases++
		return ctx.Err()
	}
	g := incomingGroup{where: a.where, fields: directory.GroupFields{Name: in.aliasName(address),
		InternetAddress: address, Kind: directory.GroupMail}}
	for _, t := range a.targets {
		g.members = append(g.members, in.target(t))
	}
	_, err := in.addGroup(ctx, &g, true)
	return err
}

// qualify appends the default domain to an address without a domain.
func (in *intake) qualify(address string) string {
	if strings.IndexByte(address, '@') < 0 && in.domain != "" {
		return address + "@" + in.domain
	}
	return address
}

// aliasName returns the name of the group for an address, because a name cannot contain @.
func (in *intake) aliasName(address string) string {
	local, domain, _ := strings.Cut(address, "@")
	if domain == in.domain {
		return "alias " + local
	}
	return "alias " + local + " at " + domain
}

// target returns an alias target as the directory may know it: a name or an address.
func (in *intake) target(t string) string {
	if _, ok := in.named[strings.ToLower(t)]; ok {
		return in.named[strings.ToLower(t)]
	}
	return in.qualify(t)
}
