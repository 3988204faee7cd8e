package directory

import (
	"fmt"
	"slices"
	"strings"

	"doublet/note"
)

const (
	itemList           = "MailingList" // the settings as one list: post, reply-to, rewrite, tag
	itemListOwners     = "ListOwners"
	itemListModerators = "ListModerators"
)

// ListPost is the set of people who may write to a mailing list without moderation.
type ListPost string

// The values of ListPost.
const (
	PostMembers    ListPost = "members"
	PostAnyone     ListPost = "anyone"
	PostModerators ListPost = "moderators"
)

// ListFields are the settings of a mailing list.
type ListFields struct {
	On bool
	// Owners receive bounces and errors of the list's mail. Moderators decide about messages from people who may not
	// write. Both are UNIDs of people and groups, or addresses in other domains. Without moderators, the owners decide.
	Owners, Moderators []string
	Post               ListPost // PostMembers if empty
	// Tag is put before the subject, as "[tag] "; empty for none.
	Tag string
	// ReplyTo is "list" to direct replies to the list. If empty, the author's Reply-To stays.
	ReplyTo string
	// Rewrite is "always", "never" or empty. It selects when the list's address replaces the author's in From. Empty
	// means: if the author's domain publishes a DMARC policy that forbids others to send for it.
	Rewrite string
}

func (l *ListFields) write(f *fields) {
	if !l.On {
		f.list(itemList, nil)
		f.list(itemListOwners, nil)
		f.list(itemListModerators, nil)
		return
	}
	f.list(itemList, []string{string(l.Post), l.ReplyTo, l.Rewrite, l.Tag})
	f.list(itemListOwners, l.Owners)
	f.list(itemListModerators, l.Moderators)
}

func readList(items note.Items) (l ListFields) {
	list := items.Get(itemList).AsTextList()
	if len(list) != 4 {
		return l
	}
	return ListFields{
		On: true, Post: ListPost(list[0]), ReplyTo: list[1], Rewrite: list[2], Tag: list[3],
		Owners: items.Get(itemListOwners).AsTextList(), Moderators: items.Get(itemListModerators).AsTextList(),
	}
}

func (g *GroupFields) clone() GroupFields {
	f := *g
	f.Members = slices.Clone(g.Members)
	f.SendAs, f.OnBehalf = slices.Clone(g.SendAs), slices.Clone(g.OnBehalf)
	f.List.Owners, f.List.Moderators = slices.Clone(g.List.Owners), slices.Clone(g.List.Moderators)
	return f
}

// wrong returns what is wrong with the fields apart from names, or "".
func (l *ListFields) wrong() string {
	switch {
	case l.Post != PostMembers && l.Post != PostAnyone && l.Post != PostModerators:
		return "who may write is members, anyone or moderators"
	case l.ReplyTo != "" && l.ReplyTo != "list":
		return "the reply-to is list or nothing"
	case l.Rewrite != "" && l.Rewrite != "always" && l.Rewrite != "never":
		return "From is rewritten always, never or, where nothing is said, as DMARC asks for it"
	case len(l.Tag) > 60 || strings.ContainsFunc(l.Tag, outsideTag):
		return "the tag is at most 60 characters of ASCII without brackets"
	case len(l.Owners) > maxSenders || len(l.Moderators) > maxSenders:
		return "it has too many owners or moderators"
	}
	return ""
}

func outsideTag(r rune) bool { return r < ' ' || r > '~' || r == '[' || r == ']' }

// checkList checks and normalizes the fields of a mailing list, and turns names into ids.
func (e *edit) checkList(f, was *GroupFields, domains []string) error {
	l := &f.List
	if !l.On {
		*l = ListFields{}
		return nil
	}
	bad := func(text string) error { return fmt.Errorf("%w list %q: %s", ErrInvalid, f.Name, text) }
	if f.InternetAddress == "" {
		return bad("a mailing list needs an address")
	}
	if l.Post == "" {
		l.Post = PostMembers
	}
	if wrong := l.wrong(); wrong != "" {
		return bad(wrong)
	}
	var had []string
	if was != nil {
		had = append(slices.Clone(was.List.Owners), was.List.Moderators...)
	}
	for _, list := range []*[]string{&l.Owners, &l.Moderators} {
		for i, m := range *list {
			if slices.Contains(had, m) {
				continue
			}
			id, err := e.member(m, domains)
			if err != nil {
				return fmt.Errorf("owner or moderator %.80q of list %q: %w", m, f.Name, err)
			}
			(*list)[i] = id
		}
	}
	return nil
}
