package directory

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
)

// Recipient is a database to which a message is delivered.
type Recipient struct {
	Kind TargetKind // TargetPerson or TargetMailIn
	ID   note.UNID
	Name string
	// Detail is the text after + in the address, empty for members of groups.
	Detail                    string
	Database                  note.DatabaseID
	MailServer                note.UNID // as in Target
	SizeLimit, Quota, Warning uint64
	Own                       bool // as in Target
}

// Expansion is the result of expanding targets.
type Expansion struct {
	Recipients []Recipient
	// Outside lists the addresses of other domains that are members of groups.
	Outside []string
}

// maxDepth limits the nesting of groups.
const maxDepth = 64

// Expand turns targets into recipients, each once, in order of appearance. It replaces groups by their members,
// including nested groups. It skips members that were removed. It returns ErrTooMany for more than MaxMembers
// recipients.
func (ns *Names) Expand(ctx context.Context, targets []Target) (Expansion, error) {
	domains, err := ns.domains.now(ctx, nil, ns.version.Load())
	if err != nil {
		return Expansion{}, err
	}
	x := expander{limit: ns.opt.MaxMembers, seen: make(map[note.UNID]bool, len(targets)), out: make(map[string]bool),
		domains: domains}
	groups := false
	for i := range targets {
		groups = groups || targets[i].Kind == TargetGroup
	}
	if !groups {
		for i := range targets {
			x.add(&targets[i])
		}
		return x.Expansion, x.check()
	}
	err = ns.read(ctx, func(r *store.Reader) error {
		for i := range targets {
			if err := x.target(r, &targets[i], 0); err != nil {
				return err
			}
		}
		return nil
	})
	return x.Expansion, err
}

type expander struct {
	Expansion
	domains *domainList // for groups of other directories
	limit   int
	read    int // number of group members read so far
	seen    map[note.UNID]bool
	out     map[string]bool
}

func (x *expander) check() error {
	if len(x.Recipients)+len(x.Outside) > x.limit {
		return fmt.Errorf("%w: more than %d recipients", ErrTooMany, x.limit)
	}
	return nil
}

// add appends a target that is not a group, unless it is already a recipient.
func (x *expander) add(t *Target) {
	if x.seen[t.ID] {
		return
	}
	x.seen[t.ID] = true
	x.Recipients = append(x.Recipients, Recipient{Kind: t.Kind, ID: t.ID, Name: t.Name, Detail: t.Detail,
		Database: t.Database, MailServer: t.MailServer, SizeLimit: t.SizeLimit, Quota: t.Quota, Warning: t.Warning,
		Own: t.Own})
}

func (x *expander) target(r *store.Reader, t *Target, depth int) error {
	if t.Kind != TargetGroup {
		x.add(t)
		return x.check()
	}
	if x.seen[t.ID] {
		return nil
	}
	x.seen[t.ID] = true
	if t.other != nil {
		return x.others(r, t.other, depth+1)
	}
	_, c, err := find(r, t.ID)
	if errors.Is(err, ErrNotFound) || err == nil && c.Content.Items.Get(itemRemoved) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	return x.members(r, c.Content.Items.Get(itemMembers).AsTextList(), depth+1)
}

func (x *expander) members(r *store.Reader, list []string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: groups are nested deeper than %d", ErrTooMany, maxDepth)
	}
	// Limit the members read as well as the recipients: many groups may contain the same people.
	if x.read += 1 + len(list); x.read > 10*x.limit {
		return fmt.Errorf("%w: more than %d entries in groups", ErrTooMany, 10*x.limit)
	}
	for _, m := range list {
		u, err := note.ParseUNID(m)
		if err != nil {
			if !x.out[m] {
				x.out[m] = true
				x.Outside = append(x.Outside, m)
			}
			if err := x.check(); err != nil {
				return err
			}
			continue
		}
		if x.seen[u] {
			continue
		}
		if err := x.member(r, u, depth); err != nil {
			return err
		}
	}
	return nil
}

func (x *expander) member(r *store.Reader, u note.UNID, depth int) error {
	_, c, err := find(r, u)
	if errors.Is(err, ErrNotFound) || err == nil && c.Content.Items.Get(itemRemoved) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	t, ok := makeTarget(u, c.Content.Items)
	if !ok || t.groupKind == GroupAccess {
		return nil
	}
	if t.Kind == TargetGroup {
		x.seen[u] = true
		return x.members(r, c.Content.Items.Get(itemMembers).AsTextList(), depth+1)
	}
	x.add(&t)
	return x.check()
}

// ExpandMembers is Expand for the member list of a group: UNIDs, and addresses in other domains.
func (ns *Names) ExpandMembers(ctx context.Context, members []string) (Expansion, error) {
	x := expander{limit: ns.opt.MaxMembers, seen: make(map[note.UNID]bool, len(members)), out: make(map[string]bool)}
	err := ns.read(ctx, func(r *store.Reader) error { return x.members(r, members, 1) })
	return x.Expansion, err
}
