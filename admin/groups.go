package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"doublet/directory"
	"doublet/note"
)

// Group is a group in the results of verbs. Members are names if the directory has them.
type Group struct {
	Name        string   `json:"name"`
	Address     string   `json:"address,omitempty"`
	Kind        string   `json:"kind"`
	Description string   `json:"description,omitempty"`
	Members     []string `json:"members,omitempty"`
	Assistance  string   `json:"assistance,omitempty"`
	Entry       string   `json:"entry,omitempty"`
	// Unfollowed is the reason for which the members may be others than those of the entry.
	Unfollowed string    `json:"unfollowed,omitempty"`
	SendAs     []string  `json:"send_as,omitempty"`
	OnBehalf   []string  `json:"on_behalf,omitempty"`
	List       string    `json:"list,omitempty"`
	Owners     []string  `json:"owners,omitempty"`
	Moderators []string  `json:"moderators,omitempty"`
	Removed    time.Time `json:"removed,omitzero"`
	ID         string    `json:"id"`
}

// GroupAdd are the arguments of group add.
type GroupAdd struct {
	Name        string   `json:"name" arg:"required" help:"name of the group"`
	Member      []string `json:"member" arg:"rest" help:"names or addresses of its members"`
	Address     string   `json:"address" help:"address under which it receives mail"`
	Kind        string   `json:"kind" help:"multi, mail or access" default:"multi"`
	Description string   `json:"description" help:"what it is for"`
	Assistance  string   `json:"assistance" help:"directory that has the members, for access lists here"`
	Entry       string   `json:"entry" help:"DN or address of the group in that directory"`
}

// GroupSet are the arguments of group set. A nil field leaves the value unchanged.
type GroupSet struct {
	Name        string   `json:"name" arg:"required" help:"name, address or id"`
	Rename      *string  `json:"rename" help:"new name"`
	Address     *string  `json:"address" help:"address under which it receives mail"`
	Kind        *string  `json:"kind" help:"multi, mail or access"`
	Description *string  `json:"description" help:"what it is for"`
	Assistance  *string  `json:"assistance" help:"directory that has the members; empty: they stay, and are set here"`
	Entry       *string  `json:"entry" help:"DN or address of the group in that directory"`
	Add         []string `json:"add" help:"name or address of a new member; may be repeated"`
	Remove      []string `json:"remove" help:"name or address of a member that leaves; may be repeated"`

	List      *bool     `json:"list" help:"make it a mailing list, or --list=false a group again"`
	Owner     *[]string `json:"owner" help:"new owners, who get errors of the list; one empty value: none"`
	Moderator *[]string `json:"moderator" help:"new moderators, who approve mail of non-members"`
	Post      *string   `json:"post" help:"who may write without being asked about: members, anyone or moderators"`
	Tag       *string   `json:"tag" help:"word that stands in brackets before subjects; empty for none"`
	ReplyTo   *string   `json:"reply_to" help:"list for answers to the list; empty for answers to the author"`
	Rewrite   *string   `json:"rewrite" help:"rewrite From: always, never, or empty: as DMARC needs"`
}

// groups describes the groups of the directory.
func (c *Call) groups() documents[directory.Group, Group] {
	all := c.Directory.Groups
	return documents[directory.Group, Group]{"Group", "group", all.List, all.Get, all.Named, c.groupOf,
		func(g *directory.Group) []string { return []string{g.Name, g.InternetAddress, g.Description} }}
}

func groups() []*Verb {
	return []*Verb{
		define("group add", "add a group", func(ctx context.Context, c *Call, a *GroupAdd) (Group, error) {
			other, err := assistanceNamed(ctx, c, a.Assistance)
			if err != nil {
				return Group{}, err
			}
			g, err := c.Directory.Groups.Add(ctx, c.Who, directory.GroupFields{
				Name: a.Name, Description: a.Description, InternetAddress: a.Address, Kind: directory.GroupKind(a.Kind),
				Members: a.Member, Assistance: other, Entry: a.Entry,
			})
			if err != nil {
				return Group{}, err
			}
			return followed(ctx, c, g)
		}, changes),
		define("group list", "list groups", listDocuments((*Call).groups)),
		define("group show", "show a group", func(ctx context.Context, c *Call, a *Named) (Group, error) {
			g, err := c.groups().find(ctx, a.Name)
			if err != nil {
				return Group{}, err
			}
			return c.groupOf(ctx, g), nil
		}),
		define("group set", "change a group and its members", groupSet, changes),
		define("group remove", "remove a group; undo brings it back for 30 days",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				g, err := c.groups().find(ctx, a.Name)
				if err != nil {
					return Done{}, err
				}
				return Done{"removed group " + g.Name + undoTime}, c.Directory.Groups.Remove(ctx, c.Who, g.ID)
			}, changes),
		define("group undo", "bring back a group that was removed", undo("Group"), changes),
	}
}

func (c *Call) groupOf(ctx context.Context, g directory.Group) Group {
	out := Group{
		Name: g.Name, Address: g.InternetAddress, Kind: string(g.Kind), Description: g.Description, Removed: g.Removed,
		ID: g.ID.String(),
	}
	out.Assistance, out.Entry = assistanceName(ctx, c, g.Assistance), g.Entry
	if err := c.Directory.Groups.Unfollowed(g.ID); err != nil {
		out.Unfollowed = err.Error()
	}
	out.Members = c.names(ctx, g.Members)
	out.SendAs, out.OnBehalf = c.names(ctx, g.SendAs), c.names(ctx, g.OnBehalf)
	if l := &g.List; l.On {
		out.List, out.Owners, out.Moderators = listText(l), c.names(ctx, l.Owners), c.names(ctx, l.Moderators)
	}
	return out
}

// followed returns a group that was changed, with the members of the group of another directory if it has those.
func followed(ctx context.Context, c *Call, g directory.Group) (Group, error) {
	g, err := c.Directory.Groups.FollowOne(ctx, g.ID)
	if err != nil {
		return Group{}, err
	}
	return c.groupOf(ctx, g), nil
}

func groupSet(ctx context.Context, c *Call, a *GroupSet) (Group, error) {
	g, err := c.groups().find(ctx, a.Name)
	if err != nil {
		return Group{}, err
	}
	leave := make([]string, 0, 2*len(a.Remove))
	for _, m := range a.Remove {
		leave = append(leave, m)
		if t, err := c.Directory.Names.Lookup(ctx, m); err == nil {
			leave = append(leave, t.ID.String())
		}
	}
	var other note.UNID
	if a.Assistance != nil {
		if other, err = assistanceNamed(ctx, c, *a.Assistance); err != nil {
			return Group{}, err
		}
	}
	g, err = c.Directory.Groups.Set(ctx, c.Who, g.ID, func(f *directory.GroupFields) error {
		if a.Assistance != nil {
			if f.Assistance = other; other.IsZero() {
				f.Entry = ""
			}
		}
		assign(&f.Entry, a.Entry)
		assign(&f.Name, a.Rename)
		assign(&f.InternetAddress, a.Address)
		assign((*string)(&f.Kind), a.Kind)
		assign(&f.Description, a.Description)
		members := slices.Clone(f.Members)
		before := len(members)
		members = slices.DeleteFunc(members, func(m string) bool { return slices.Contains(leave, m) })
		if len(a.Remove) > 0 && len(members) == before {
			return fmt.Errorf("member %q of %s: %w", a.Remove[0], f.Name, directory.ErrNotFound)
		}
		f.Members = append(members, a.Add...)
		setList(&f.List, a)
		return nil
	})
	if err != nil {
		return Group{}, err
	}
	return followed(ctx, c, g)
}
