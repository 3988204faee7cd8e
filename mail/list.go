package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/wire/smtp"
)

// posting is a message to a mailing list.
type posting struct {
	group directory.Group
	// hold is the reason to wait for the moderators. It is empty if the message is sent at once.
	hold string
	// strange is set if the policy of the author's domain is unknown.
	strange bool
}

var (
	replyListLoop = smtp.NewReply(554, 5, 4, 6, "The message has been through this list already")
	replyListAuto = smtp.NewReply(550, 5, 7, 1, "The list takes no automatic answers")
	replyNoOwner  = smtp.NewReply(550, 5, 2, 4, "The list has no owner")
)

// listIdentifier returns the identifier for List-Id: the list's address with a dot for the @.
func listIdentifier(g *directory.Group) string {
	return strings.ToLower(strings.Replace(g.InternetAddress, "@", ".", 1))
}

// part returns an auxiliary address of the list: "owner" gives list-owner@domain.
func part(g *directory.Group, word string) smtp.Path {
	at := strings.LastIndexByte(g.InternetAddress, '@')
	if at < 0 {
		return smtp.Path{}
	}
	return smtp.Path{Local: g.InternetAddress[:at] + "-" + word, Domain: g.InternetAddress[at+1:]}
}

// list accepts a message for a mailing list. It rejects messages that the list itself has sent, and automatic replies,
// because they would loop.
func (s *Lists) list(ctx context.Context, sub *Submission, b *batch, i int, r *Recipient) error {
	g, err := s.dir.Groups.Get(ctx, r.Target.ID)
	if err != nil {
		return fmt.Errorf("list %s: %w", r.Target.Name, err)
	}
	if slices.ContainsFunc(b.lists, func(p posting) bool { return p.group.ID == g.ID }) {
		return nil
	}
	h := fields.ReadFacts(sub.Message)
	switch {
	case slices.Contains(h.Lists, listIdentifier(&g)):
		b.refuse(i, r, nil, replyListLoop, false)
		return nil
	case sub.From.IsNull(), h.Auto == "auto-replied", h.Auto == "auto-notified":
		b.refuse(i, r, nil, replyListAuto, false)
		return nil
	}
	p := posting{group: g}
	if p.hold, err = s.mayPost(ctx, sub, &g, h); err != nil {
		return fmt.Errorf("list %s: %w", g.Name, err)
	}
	b.lists = append(b.lists, p)
	b.taken = true
	return nil
}

// failedCheck reports whether the message came from outside and its author was checked in vain.
func (sub *Submission) failedCheck() bool {
	return sub.Submitter == nil && sub.Checked && !sub.Proven && !sub.Unproven
}

// mayPost returns the reason to hold a message for the moderators, or "" if none applies.
func (s *Lists) mayPost(ctx context.Context, sub *Submission, g *directory.Group, h *fields.Facts) (string, error) {
	author := h.AuthorPath()
	id, err := s.authorID(ctx, sub, author)
	if err != nil {
		return "", err
	}
	known, proven, err := s.trust(ctx, sub, author)
	if err != nil {
		return "", err
	}
	if proven && sub.Hold == "" {
		if ok, err := s.among(ctx, slices.Concat(g.List.Moderators, g.List.Owners), id, author); ok || err != nil {
			return "", err
		}
	}
	if reason := holdReason(sub, g, h); reason != "" {
		return reason, nil
	}
	switch {
	case g.List.Post == directory.PostAnyone:
		return "", nil
	case sub.failedCheck():
		return "its author is not proven", nil
	case !known:
		return "its sender may be forged", nil
	}
	if ok, err := s.among(ctx, g.Members, id, author); ok || err != nil {
		return "", err
	}
	return "its author is no member", nil
}

// trust reports how far the author of a message is trusted. Anyone can forge From, so the author has to be
// authenticated (proven). If messages are not checked (verification is off, or an exempt relay), it is enough for
// members that nothing indicates forgery (known).
func (s *Lists) trust(ctx context.Context, sub *Submission, author smtp.Path) (known, proven bool, err error) {
	if sub.Submitter == nil {
		return sub.Proven || !sub.Checked && !sub.Unproven, sub.Proven, nil
	}
	right, err := s.dir.Names.SendRight(ctx, sub.Submitter.Who, author.String())
	known = right != directory.SendNever // otherwise they resend someone else's message
	return known, known, err
}

// among reports whether the members include the author, by directory ID or by address.
func (s *Lists) among(ctx context.Context, members []string, id note.UNID, author smtp.Path) (bool, error) {
	if len(members) == 0 {
		return false, nil
	}
	x, err := s.dir.Names.ExpandMembers(ctx, members)
	return err == nil && (!id.IsZero() && slices.ContainsFunc(x.Recipients,
		func(m directory.Recipient) bool { return m.ID == id }) ||
		slices.ContainsFunc(x.Outside, func(a string) bool { return strings.EqualFold(a, author.String()) })), err
}

// holdReason returns the reason to hold a message that does not depend on its author, or "".
func holdReason(sub *Submission, g *directory.Group, h *fields.Facts) string {
	switch {
	case sub.Hold != "":
		return "a filter holds it: " + sub.Hold
	case sub.Junk:
		return "it looks like junk"
	case h.Auto != "", h.Precedence == "bulk", h.Precedence == "junk":
		return "a program sent it"
	case g.List.Post == directory.PostModerators:
		return "only moderators write to this list"
	}
	return ""
}

// authorID returns the directory ID of the author. It is zero for unknown authors, and for unauthenticated messages
// with a local address.
func (s *Lists) authorID(ctx context.Context, sub *Submission, author smtp.Path) (note.UNID, error) {
	if sub.Submitter == nil && !sub.Proven || author.IsNull() {
		return note.UNID{}, nil
	}
	t, err := s.dir.Names.Resolve(ctx, author.String())
	switch {
	case errors.Is(err, directory.ErrNoSuchRecipient), errors.Is(err, directory.ErrNotLocal),
		errors.Is(err, directory.ErrInvalid):
		return note.UNID{}, nil
	case err != nil:
		return note.UNID{}, err
	case t.Kind == directory.TargetGroup && sub.Submitter != nil:
		return sub.Submitter.Who.Person, nil // a person who may write for a group keeps their own ID
	}
	return t.ID, nil
}

// post sends a message to a list, or holds it for the moderators.
func (s *Lists) post(ctx context.Context, sub *Submission, b *batch, p *posting, rest []byte) error {
	if p.hold != "" {
		return s.holdPost(ctx, b, p, sub.From, rest)
	}
	return s.distribute(ctx, b, p, sub.AuthorPolicy, rest)
}

// maxPersonal is the maximum number of remote members that get individual copies, with an unsubscribe link and a return
// path that names the member. maxPersonalBytes is the maximum total size of the copies. Above a limit, all members
// share one copy.
const (
	maxPersonal      = 500
	maxPersonalBytes = 32 << 20
)

// distribute creates the copies for a list's members: one for all local members, and one for each remote member.
func (s *Lists) distribute(ctx context.Context, b *batch, p *posting, policy string, rest []byte) error {
	g := &p.group
	x, err := s.dir.Names.Expand(ctx, []directory.Target{{Kind: directory.TargetGroup, ID: g.ID}})
	if err != nil {
		return fmt.Errorf("expand %s: %w", g.Name, err)
	}
	if err := s.membersForward(ctx, &x); err != nil {
		return err
	}
	c := s.newListCopy(ctx, g, rest, policy, p.strange)
	from := part(g, "bounces")
	rows := rowsOf(&x, g.InternetAddress, smtp.NotifyFailure)
	if s.url != "" && len(x.Outside) <= maxPersonal && len(x.Outside)*len(rest) <= maxPersonalBytes {
		rows = rows[:len(x.Recipients)]
		for _, a := range x.Outside {
			own := from
			own.Local += "+" + strings.Replace(a, "@", "=", 1)
			if len(own.Local) > 64 {
				own = from
			}
			link := ""
			if slices.ContainsFunc(g.Members, func(m string) bool { return strings.EqualFold(m, a) }) {
				link = s.UnsubscribeLink(g.ID, a)
			}
			raw, n := c.bytes(own, link)
			row := []queue.Recipient{{Address: a, Notify: smtp.NotifyFailure, State: queue.Waiting}}
			o, err := s.follow.send(ctx, b, "list "+g.ID.String()+" "+a, raw, n, own, row)
			if err != nil {
				return err
			}
			o.entry.Unsigned, o.entry.Checker = b.entry.Unsigned && !c.rewritten, b.entry.Checker
		}
	}
	if len(rows) == 0 {
		return nil
	}
	raw, n := c.bytes(from, "")
	o, err := s.follow.send(ctx, b, "list "+g.ID.String(), raw, n, from, rows)
	if err == nil {
		o.entry.Unsigned, o.entry.Checker = b.entry.Unsigned && !c.rewritten, b.entry.Checker
	}
	return err
}

// forwards adds the recipients to whom a person's mail is forwarded.
func (s *Lists) forwards(ctx context.Context, p *directory.Person, to *directory.Expansion) error {
	for _, a := range p.Forward {
		rows, err := s.follow.address(ctx, a, 0)
		if err != nil {
			return err
		}
		for _, q := range rows {
			if q.State == queue.Waiting {
				to.Outside = append(to.Outside, q.Address)
			} else {
				to.Recipients = append(to.Recipients, directory.Recipient{Kind: q.Kind, ID: q.Target, Name: q.Name})
			}
		}
	}
	return nil
}

// membersForward replaces members that forward their mail by their forwarding addresses.
func (s *Lists) membersForward(ctx context.Context, x *directory.Expansion) error {
	var also directory.Expansion
	out := x.Recipients[:0]
	for _, r := range x.Recipients {
		if !r.Own || r.Kind != directory.TargetPerson {
			out = append(out, r)
			continue
		}
		p, err := s.dir.Names.Person(ctx, r.ID)
		if err != nil {
			return err
		}
		before := len(also.Outside) + len(also.Recipients)
		if err := s.forwards(ctx, &p, &also); err != nil {
			return err
		}
		if !p.ForwardOnly || len(also.Outside)+len(also.Recipients) == before {
			out = append(out, r)
		}
	}
	for _, r := range also.Recipients {
		if !slices.ContainsFunc(out, func(o directory.Recipient) bool { return o.ID == r.ID }) {
			out = append(out, r)
		}
	}
	for _, a := range also.Outside {
		if !slices.Contains(x.Outside, a) {
			x.Outside = append(x.Outside, a)
		}
	}
	x.Recipients = out
	return nil
}

// noRequest reports whether a message is not the request of a person.
func noRequest(sub *Submission, h *fields.Facts) bool {
	return h.Auto != "" || fields.Machine(sub.From) || sub.Unproven || sub.Junk
}

// listPart accepts a message for one of the auxiliary addresses of a list.
func (s *Lists) listPart(ctx context.Context, sub *Submission, b *batch, i int, r *Recipient) error {
	g, err := s.dir.Groups.Get(ctx, r.Target.ID)
	if err != nil {
		return fmt.Errorf("list %s: %w", r.Target.Name, err)
	}
	h := fields.ReadFacts(sub.Message)
	if word := r.Target.ListPart; word == "unsubscribe" || word == "confirm" {
		if noRequest(sub, h) {
			b.refuse(i, r, nil, replyListAuto, false)
			return nil
		}
		if word == "unsubscribe" {
			return s.askUnsubscribe(ctx, b, &g, h)
		}
		return s.confirmUnsubscribe(ctx, b, i, r, &g, h)
	}
	x, err := s.owners(ctx, &g)
	if err != nil {
		return fmt.Errorf("owners of list %s: %w", g.Name, err)
	}
	if len(x.Recipients)+len(x.Outside) == 0 {
		b.refuse(i, r, nil, replyNoOwner, false)
		return nil
	}
	if sub.Junk {
		if x.Outside = nil; len(x.Recipients) == 0 {
			b.refuse(i, r, nil, replyJunk, false)
			return nil
		}
	}
	for k := range x.Recipients {
		b.add(i, r, &x.Recipients[k], uint64(len(sub.Message)), true)
	}
	for _, a := range x.Outside {
		b.outside(i, r, a)
	}
	return nil
}

// owners returns the owners of a list, or else postmaster.
func (s *Lists) owners(ctx context.Context, g *directory.Group) (directory.Expansion, error) {
	x, err := s.dir.Names.ExpandMembers(ctx, g.List.Owners)
	if err != nil || len(x.Recipients)+len(x.Outside) > 0 {
		return x, err
	}
	t, err := s.dir.Names.Resolve(ctx, "postmaster@"+domainOf(g.InternetAddress))
	if errors.Is(err, directory.ErrNoSuchRecipient) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	return s.dir.Names.Expand(ctx, []directory.Target{t})
}

// Lists processes messages to mailing lists, and unsubscriptions.
type Lists struct {
	env    *env.Env
	dir    *directory.Directory
	follow *followUps
	url    string
}
