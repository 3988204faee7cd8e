package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// UserMove are the arguments of user move.
type UserMove struct {
	Name string `json:"name" arg:"required" help:"name, address or id"`
	From string `json:"from" help:"former place: fetch the rest after an interrupted move"`
}

// Moved is the result of moving a person.
type Moved struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	// Notes is the number of notes copied, including those that arrived during the move.
	Notes int    `json:"notes" show:"always"`
	Next  string `json:"next,omitempty"`
}

// settled is the time for deliveries and commands at the old place to end before late changes are copied. movePasses is
// the maximum number of such copies.
const (
	settled    = 2 * time.Second
	movePasses = 5
)

// oldPlace returns the place that a person's mail file comes from. cutShort is that of a move that is run again, or "".
func (c *ServerCall) oldPlace(ctx context.Context, p *directory.Person, cutShort string) (note.UNID, error) {
	switch away := c.gone(ctx, p); {
	case away && cutShort != "":
		return note.UNID{},
			fmt.Errorf("%w: --from is for a move that was cut short behind its middle: the mail file of %s is not "+
				"here yet", ErrUsage, p.Name())
	case cutShort != "":
		return c.placeNamed(ctx, cutShort)
	case !away:
		return note.UNID{},
			fmt.Errorf("%w: mail file of %s is at this place: run the move on a server of the new place", ErrUsage,
				p.Name())
	}
	return p.MailServer, nil
}

// bringRest copies what every server of the old place may have received meanwhile, until there is nothing new.
func (c *ServerCall) bringRest(ctx context.Context, bring func(all bool) (int, error)) error {
	for range movePasses {
		select {
		case <-c.Env.Clock.After(settled):
		case <-ctx.Done():
			return ctx.Err()
		}
		if n, err := bring(true); err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// userMove moves a person's mail file here from another place of the domain, while it is in use. It first copies a
// replica, then changes the directory. Then it copies notes that arrived at any server of the old place meanwhile. An
// interrupted move can be run again.
func userMove(ctx context.Context, c *ServerCall, a *UserMove) (Moved, error) {
	p, err := c.Directory.Names.PersonOf(ctx, a.Name)
	if err != nil {
		return Moved{}, err
	}
	if p.MailDatabase == 0 {
		return Moved{}, fmt.Errorf("%w: %s has no mail file", ErrUsage, p.Name())
	}
	old, err := c.oldPlace(ctx, &p, a.From)
	if err != nil {
		return Moved{}, err
	}
	from, err := c.Directory.Servers.PlaceOf(ctx, old)
	if err != nil {
		return Moved{}, err
	}
	out := Moved{Name: p.Name(), From: from.Name, To: c.placeName(ctx, c.Directory.Servers.Self())}
	mail := directory.ConnectionFields{Name: "move of " + p.Name(), Peer: old,
		Databases: []string{p.MailDatabase.String()}, Direction: "pull"}
	bring := func(all bool) (int, error) {
		n, err := c.Connections.Exchange(ctx, &mail, len(from.Servers), all)
		if errors.Is(err, store.ErrNotFound) { // it was never created
			return 0, nil
		}
		out.Notes += n
		return n, err
	}
	if _, err := bring(false); err != nil {
		return out, fmt.Errorf("bring the mail file, which stays on %s for now: %w", from.Name, err)
	}
	if _, err := c.Directory.People.Set(ctx, c.Who, p.ID,
		func(f *directory.PersonFields) error { f.MailServer = c.Directory.Servers.Self(); return nil }); err != nil {
		return out, err
	}
	if err := c.Directory.People.EnsureMailFile(ctx, p.ID); err != nil {
		return out, err
	}
	known := directory.ConnectionFields{Name: mail.Name, Peer: old, Databases: []string{directory.ID.String()},
		Direction: "both"}
	_, err = c.Connections.Exchange(ctx, &known, len(from.Servers), false)
	if err == nil {
		err = c.bringRest(ctx, bring)
	}
	if err != nil {
		return out,
			fmt.Errorf("mail file moved, but the latest mail is still at %s: fetch it with doublet user move "+
				"--from: %w", from.Name, err)
	}
	out.Next = "the old copy stays until it is removed there: doublet db remove " + p.MailDatabase.String()
	return out, nil
}

// gone reports whether a person's mail file is at another place of the domain.
func (s *System) gone(ctx context.Context, p *directory.Person) bool {
	away, err := s.Directory.Servers.Away(ctx, p.MailServer)
	return err == nil && away
}
