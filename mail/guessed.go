package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/smtp"
)

// Guesses describes wrong second-factor codes that were given together with the right password.
type Guesses struct {
	// From is the client address of the last one, "" if unknown.
	From string
	// Locked is set if further codes are rejected for a while.
	Locked bool
}

// TellOfGuesses warns a person by mail that someone knows their password and is trying second-factor codes. A person
// gets at most one such message per day (UTC), even from several members of a cluster. A person without a local address
// sees the warning only at the next sign-in.
func TellOfGuesses(ctx context.Context, s *Depositor, p *directory.Person, g Guesses) error {
	address := p.InternetAddress
	to, err := smtp.ParsePath(address)
	if err != nil {
		return nil
	}
	target, err := s.dir.Names.Resolve(ctx, address)
	switch {
	case errors.Is(err, directory.ErrNotLocal), errors.Is(err, directory.ErrNoSuchRecipient):
		return nil
	case err != nil:
		return fmt.Errorf("mail: notice of wrong codes: %w", err)
	}
	now := s.env.Clock.Now().UTC()
	id := note.DeriveUNID([]byte("wrong codes"), p.ID[:], []byte(now.Format(time.DateOnly)))
	n := notice{
		from: "postmaster@" + domainOf(address), fromName: "Mail server", to: address, auto: "auto-generated", id: id,
		subject: "Wrong codes were given with your password",
	}
	n.text = fmt.Sprintf("Somebody gave your password on %s and then wrong codes of your second factor.\n"+
		"The last one came on %s UTC", s.opt.Hostname, now.Format("2006-01-02 at 15:04"))
	if g.From != "" {
		n.text += " from the address " + g.From
	}
	n.text += ".\n"
	if g.Locked {
		n.text += "Further codes are refused for a while, except in browsers in which you have signed in before.\n"
	}
	n.text += "\nIf this was not you, somebody else knows your password: change it now. Nobody has signed in with " +
		"these codes.\n" +
		"Your account page shows how many wrong codes came, and from where. At most one such message is sent a day.\n"
	sub := Submission{
		ID: id, Message: s.follow.compose(&n)[len(nullReturnPath):],
		Recipients: []Recipient{{To: to, Target: target, Params: smtp.RcptParams{Notify: smtp.NotifyNever}}},
	}
	if _, err := s.Deposit(ctx, &sub, nil); err != nil {
		return fmt.Errorf("mail: notice of wrong codes: %w", err)
	}
	return nil
}
