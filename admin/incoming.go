package admin

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

// ImportedPeople is what an import of people, groups and aliases came to.
type ImportedPeople struct {
	People  int `json:"people"`
	Groups  int `json:"groups"`
	Aliases int `json:"aliases"`
	// Present were there already, and stay as they are.
	Present int `json:"present,omitempty"`
	Failed  int `json:"failed"`
	// Notes are what came in otherwise than it was; Errors what did not.
	Notes  []string `json:"notes,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// Bad says that something was left out: the command line's exit code.
func (i ImportedPeople) Bad() bool { return i.Failed > 0 }

// incomingGroup is a group on its way in. Members are DNs, names or addresses.
type incomingGroup struct {
	where   string
	fields  directory.GroupFields
	members []string
}

// incomingAlias is an address whose mail goes elsewhere.
type incomingAlias struct {
	where, address string
	targets        []string
}

// intake gathers what a source of people gives: people go in 500 at a time, groups and aliases, which
// name them, when all are there.
type intake struct {
	*Call
	check bool // nothing is written
	scram bool
	specs []directory.PersonSpec
	where []string
	// named says by what name the directory knows the entry of a DN or of a login there, in small
	// letters.
	named   map[string]string
	groups  []incomingGroup
	aliases []incomingAlias
	domain  string
	out     ImportedPeople
}

// Bounds of what is held until the end, and of what is told.
const (
	maxIncoming      = 200_000
	maxIncomingNotes = 1000
)

func (c *Call) newIntake(ctx context.Context, check bool, scram *bool) (*intake, error) {
	in := &intake{Call: c, check: check, scram: c.scram(scram), named: map[string]string{}}
	list, err := c.Directory.Domains.List(ctx)
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

// secret puts a password from another system into a spec: one that cannot be verified here is left
// out, and the person comes without.
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

// person takes a person. also are further names that groups may call them by.
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

// known says whether somebody has one of a person's names: then they are there already.
func (in *intake) known(ctx context.Context, spec *directory.PersonSpec) bool {
	for _, name := range []string{spec.InternetAddress, spec.ShortName} {
		if name == "" {
			continue
		}
		if p, err := in.Directory.Names.PersonNamed(ctx, name); err == nil && (p.Name() == spec.Name() || strings.EqualFold(p.InternetAddress, spec.InternetAddress) && spec.InternetAddress != "") {
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
	res, err := in.Directory.People.Import(ctx, in.Who, specs, directory.ImportOptions{})
	in.out.People += res.Added
	for _, e := range res.Errors {
		in.fail(where[e.Row], e.Err)
	}
	in.Progress(Progress{Stage: "people", Done: uint64(in.out.People + in.out.Failed)})
	return err
}

func (in *intake) group(g incomingGroup) error {
	if in.groups = append(in.groups, g); len(in.groups) > maxIncoming {
		return fmt.Errorf("%w: more than %d groups", ErrUsage, maxIncoming)
	}
	return nil
}

func (in *intake) alias(a incomingAlias) error {
	if in.aliases = append(in.aliases, a); len(in.aliases) > maxIncoming {
		return fmt.Errorf("%w: more than %d aliases", ErrUsage, maxIncoming)
	}
	return nil
}

// finish brings what is left.
func (in *intake) finish(ctx context.Context) (ImportedPeople, error) {
	if err := in.flush(ctx); err != nil {
		return in.out, err
	}
	// A group may have another one as a member: those whose members are all known go first, and the
	// rest follows without what is missing.
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

// resolve says what the directory calls a member, or that it has no such entry.
func (in *intake) resolve(ctx context.Context, member string) (string, bool) {
	if name, ok := in.named[strings.ToLower(member)]; ok {
		member = name
	}
	if in.check && slices.ContainsFunc(in.groups, func(g incomingGroup) bool { return g.fields.Name == member }) {
		return member, true
	}
	if i := strings.LastIndexByte(member, '@'); i > 0 && !strings.Contains(member, "=") {
		if local, err := in.Directory.Domains.IsLocal(ctx, member[i+1:]); err == nil && !local {
			return member, true // elsewhere
		}
	}
	if _, err := in.Directory.Names.PersonNamed(ctx, member); err == nil {
		return member, true
	}
	if _, err := in.Directory.Groups.Named(ctx, member); err == nil {
		return member, true
	}
	if _, err := in.Directory.MailIns.Named(ctx, member); err == nil {
		return member, true
	}
	if in.check && len(in.named) > 0 {
		for _, name := range in.named {
			if name == member {
				return member, true
			}
		}
	}
	return member, false
}

// addGroup adds a group; with force also one whose members are not all there.
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
	_, err = in.Directory.Groups.Add(ctx, in.Who, g.fields)
	switch {
	case err == nil:
		in.out.Groups++
	case errors.Is(err, directory.ErrNameTaken):
		if have, bad := in.Directory.Groups.Named(ctx, g.fields.Name); bad == nil && strings.EqualFold(have.Name, g.fields.Name) {
			in.out.Present++
			return true, ctx.Err()
		}
		in.fail(g.where, err)
	default:
		in.fail(g.where, err)
	}
	return true, ctx.Err()
}

// addAlias gives a person another address, or makes a group for an address that goes to several, or
// elsewhere.
func (in *intake) addAlias(ctx context.Context, a *incomingAlias) error {
	address := in.qualify(a.address)
	if p, err := in.Directory.Names.PersonNamed(ctx, address); err == nil {
		if len(a.targets) == 1 {
			if t, err := in.Directory.Names.PersonNamed(ctx, in.target(a.targets[0])); err == nil && t.ID == p.ID {
				in.out.Present++
				return ctx.Err()
			}
		}
		in.fail(a.where, fmt.Errorf("%w: %s belongs to %s", directory.ErrNameTaken, address, p.Name()))
		return ctx.Err()
	}
	if _, err := in.Directory.Groups.Named(ctx, address); err == nil {
		in.out.Present++
		return ctx.Err()
	}
	if len(a.targets) == 1 {
		if p, err := in.Directory.Names.PersonNamed(ctx, in.target(a.targets[0])); err == nil {
			in.out.Aliases++
			if in.check {
				return ctx.Err()
			}
			if _, err := in.Directory.People.Set(ctx, in.Who, p.ID, func(f *directory.PersonFields) error {
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
	g := incomingGroup{where: a.where, fields: directory.GroupFields{Name: in.aliasName(address), InternetAddress: address, Kind: directory.GroupMail}}
	for _, t := range a.targets {
		g.members = append(g.members, in.target(t))
	}
	_, err := in.addGroup(ctx, &g, true)
	return err
}

// qualify gives an address without domain that of the server.
func (in *intake) qualify(address string) string {
	if strings.IndexByte(address, '@') < 0 && in.domain != "" {
		return address + "@" + in.domain
	}
	return address
}

// aliasName is what the group of an address is called: a name holds no @.
func (in *intake) aliasName(address string) string {
	local, domain, _ := strings.Cut(address, "@")
	if domain == in.domain {
		return "alias " + local
	}
	return "alias " + local + " at " + domain
}

// target is a target of an alias as the directory may know it: a short name, or an address.
func (in *intake) target(t string) string {
	if _, ok := in.named[strings.ToLower(t)]; ok {
		return in.named[strings.ToLower(t)]
	}
	return in.qualify(t)
}
