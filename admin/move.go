package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
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
	old := p.MailServer
	switch away := c.gone(ctx, &p); {
	case away && a.From != "":
		return Moved{},
			fmt.Errorf("%w: --from is for a move that was cut short behind its middle: the mail file of %s is not "+
				"here yet", ErrUsage, p.Name())
	case a.From != "":
		if old, err = c.placeNamed(ctx, a.From); err != nil {
			return Moved{}, err
		}
	case !away:
		return Moved{}, fmt.Errorf("%w: mail file of %s is at this place: run the move on a server of the new place",
			ErrUsage, p.Name())
	}
	from, err := c.Directory.Servers.PlaceOf(ctx, old)
	if err != nil {
		return Moved{}, err
	}
	out := Moved{Name: p.Name(), From: from.Name, To: c.placeName(ctx, c.Directory.Servers.Self())}
	mail := directory.ConnectionFields{Name: "move of " + p.Name(), Peer: old,
		Databases: []string{p.MailDatabase.String()}, Direction: "pull"}
	bring := func(all bool) (int, error) {
		n, err := c.exchange(ctx, &mail, len(from.Servers), all)
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
	_, err = c.exchange(ctx, &known, len(from.Servers), false)
	for i := 0; err == nil && i < movePasses; i++ {
		select {
		case <-c.Env.Clock.After(settled):
		case <-ctx.Done():
			return out, ctx.Err()
		}
		var n int
		if n, err = bring(true); n == 0 { // every server of the old place may have received mail meanwhile
			break
		}
	}
	if err != nil {
		return out,
			fmt.Errorf("mail file moved, but the latest mail is still at %s: fetch it with doublet user move "+
				"--from: %w", from.Name, err)
	}
	out.Next = "the old copy stays until it is removed there: doublet db remove " + p.MailDatabase.String()
	return out, nil
}

// exchange replicates with another place: with the first of its servers that succeeds, or with all that have a replica.
// It returns the number of notes that came.
func (c *Call) exchange(ctx context.Context, f *directory.ConnectionFields, servers int, all bool) (int, error) {
	var errs []error
	brought, done, missing := 0, 0, 0
	for turn := range max(servers, 1) {
		n, err := c.exchangeWith(ctx, f, uint64(turn))
		brought += n
		switch {
		case err == nil && !all:
			return brought, nil
		case err == nil:
			done++
			continue
		case ctx.Err() != nil:
			return brought, ctx.Err()
		case errors.Is(err, store.ErrNotFound):
			missing++
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	switch {
	case missing == len(errs) && done > 0:
		return brought, nil
	case missing < len(errs) && errors.Is(err, store.ErrNotFound):
		return brought, fmt.Errorf("not all servers of the other place answer, and the others have no replica: %v", err) //nolint:errorlint // it is not ErrNotFound
	}
	return brought, err
}

// exchangeWith replicates with server number turn of another place.
func (c *Call) exchangeWith(ctx context.Context, f *directory.ConnectionFields, turn uint64) (int, error) {
	job, err := c.job(ctx, f, turn)
	if err != nil {
		return 0, err
	}
	_, list, err := job.Run(ctx)
	job.Client.Close()
	n := 0
	for _, o := range list {
		n += o.In.Added + o.In.Updated + o.In.Deleted
		if err = errors.Join(err, o.Err); len(o.In.Refused) > 0 {
			err = errors.Join(err, fmt.Errorf("%d notes were refused: %s", len(o.In.Refused), o.In.Refused[0].Text))
		}
	}
	return n, err
}

// gone reports whether a person's mail file is at another place of the domain.
func (s *System) gone(ctx context.Context, p *directory.Person) bool {
	away, err := s.Directory.Servers.Away(ctx, p.MailServer)
	return err == nil && away
}
