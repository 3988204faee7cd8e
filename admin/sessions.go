package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/note"
)

// Session is the session of a browser in the results of verbs.
type Session struct {
	ID      string    `json:"id"`
	Person  string    `json:"person"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	Ends    time.Time `json:"ends"`
	Second  bool      `json:"second_factor,omitempty"`
	Address string    `json:"address,omitempty"`
	Agent   string    `json:"user_agent,omitempty"`
}

// SessionList are the arguments of session list.
type SessionList struct {
	Person string `json:"person" arg:"optional" help:"name, address or id of a person; without one everybody's"`
	Limit  int    `json:"limit" help:"at most so many (1,000 where none is given)"`
}

// SessionEnd are the arguments of session end. Exactly one must be given.
type SessionEnd struct {
	ID     string `json:"id" arg:"optional" help:"id of a session"`
	Person string `json:"person" help:"name, address or id of a person: all their sessions"`
	All    bool   `json:"all" help:"sessions of everybody, for example after a restore"`
}

func sessions() []*Verb {
	return []*Verb{
		define("session list", "browsers that are signed in, the last used first", sessionList),
		define("session end", "sign browsers out at once", sessionEnd, changes),
		onServer("drop", "end the connections and browser sessions of a person, or of all", drop, changes),
		define("user totp off", "take a person's second factor away: the device and the recovery codes are lost",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				p, err := c.Directory.Names.PersonOf(ctx, a.Name)
				if err != nil {
					return Done{}, err
				}
				return Done{"the second factor of " + p.Name() + " is off"},
					c.Directory.SecondFactors.Remove(ctx, c.Who, p.ID)
			}, changes),
		define("user passkey remove", "remove a person's passkey, and end the browser sessions that began with it",
			passkeyRemove, changes),
	}
}

// PasskeyRemove are the arguments of user passkey remove.
type PasskeyRemove struct {
	Name string `json:"name" arg:"required" help:"name, address or id of the person"`
	ID   string `json:"id" arg:"required" help:"id of the passkey (user show), or all"`
}

func passkeyRemove(ctx context.Context, c *Call, a *PasskeyRemove) (Done, error) {
	p, err := c.Directory.Names.PersonOf(ctx, a.Name)
	if err != nil {
		return Done{}, err
	}
	n := 0
	for _, k := range p.Passkeys {
		if k.ID != a.ID && a.ID != "all" {
			continue
		}
		if err := c.Directory.Passkeys.Remove(ctx, c.Who, p.ID, k.ID); err != nil {
			return Done{}, err
		}
		n++
	}
	if n == 0 {
		return Done{}, fmt.Errorf("passkey %q of %s: %w", a.ID, p.Name(), directory.ErrNotFound)
	}
	return Done{fmt.Sprintf("%d passkeys of %s are removed", n, p.Name())}, nil
}

// passkeyUses sets the last uses of a person's passkeys.
func passkeyUses(ctx context.Context, c *Call, person note.UNID, list []Passkey) error {
	for i := range list {
		use, err := c.Sessions.PasskeyUse(ctx, person, list[i].ID)
		if err != nil {
			return err
		}
		list[i].Used = use.At
	}
	return nil
}

func sessionList(ctx context.Context, c *Call, a *SessionList) ([]Session, error) {
	var person note.UNID
	if a.Person != "" {
		p, err := c.Directory.Names.PersonOf(ctx, a.Person)
		if err != nil {
			return nil, err
		}
		person = p.ID
	}
	names := map[note.UNID]string{}
	return rows(func(s session.Session) Session {
		name, known := names[s.Person]
		if !known {
			name = s.Person.String()
			if p, err := c.Directory.Names.Person(ctx, s.Person); err == nil {
				name = p.Name()
			}
			names[s.Person] = name
		}
		return Session{ID: s.ID.String(), Person: name, Created: s.Created, Used: s.Used, Ends: s.Ends,
			Second: s.Second, Address: s.Address, Agent: s.Agent}
	})(c.Sessions.List(ctx, person, atMost(a.Limit, 1000)))
}

// Dropped are the arguments of drop.
type Dropped struct {
	Person string `json:"person" arg:"required" help:"name, address or id of a person, or all"`
}

// drop ends sessions. People may sign in again at once.
func drop(ctx context.Context, c *ServerCall, a *Dropped) (Done, error) {
	var person note.UNID
	if !strings.EqualFold(a.Person, "all") {
		p, err := c.Directory.Names.PersonOf(ctx, a.Person)
		if err != nil {
			return Done{}, err
		}
		person = p.ID
	}
	browsers, err := c.Sessions.EndAll(ctx, person, note.UNID{})
	n := c.Server.Drop(person)
	return Done{fmt.Sprintf("%d connections and %d sessions of browsers are ended", n, browsers)}, err
}

func sessionEnd(ctx context.Context, c *Call, a *SessionEnd) (Done, error) {
	switch {
	case a.ID != "" && a.Person == "" && !a.All:
		id, err := note.ParseUNID(a.ID)
		if err == nil {
			err = c.Sessions.End(ctx, note.UNID{}, id)
		} else {
			err = session.ErrNone
		}
		if errors.Is(err, session.ErrNone) {
			err = fmt.Errorf("session %q: %w", a.ID, directory.ErrNotFound)
		}
		return Done{"the session is ended"}, err
	case a.ID == "" && (a.Person != "") != a.All:
		var person note.UNID
		if a.Person != "" {
			p, err := c.Directory.Names.PersonOf(ctx, a.Person)
			if err != nil {
				return Done{}, err
			}
			person = p.ID
		}
		n, err := c.Sessions.EndAll(ctx, person, note.UNID{})
		return Done{fmt.Sprintf("%d sessions are ended", n)}, err
	}
	return Done{}, fmt.Errorf("%w: name a session by its id, a person with --person, or --all", ErrUsage)
}
