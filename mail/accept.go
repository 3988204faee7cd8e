package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/smtp"
)

// Accept resolves a recipient before the message arrives. If the recipient does not exist or accepts no
// mail, the error is a *smtp.Reply. Any other error is a server failure.
func (s *Depositor) Accept(ctx context.Context, to smtp.Path, p smtp.RcptParams, size uint64) (Recipient, error) {
	r := Recipient{To: to, Params: p}
	t, err := s.dir.Names.Recipient(ctx, to.String())
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		r.Outside = true
		return r, nil
	case errors.Is(err, directory.ErrNoSuchRecipient):
		return r, replyNoUser
	case errors.Is(err, directory.ErrInvalid):
		return r, replyAddress
	case errors.Is(err, directory.ErrTooMany):
		return r, replyGroup
	case err != nil:
		return r, fmt.Errorf("mail: resolve %.80q: %w", to.String(), err)
	}
	r.Target = t
	return r, s.admit(ctx, &r, size)
}

// admit checks whether a recipient takes a message of a size, as far as that is known before it arrives.
func (s *Depositor) admit(ctx context.Context, r *Recipient, size uint64) error {
	t, always := &r.Target, AlwaysArrives(r.To)
	if t.Kind == directory.TargetPerson && !always {
		p, err := s.dir.Names.Person(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("mail: %w", err)
		}
		if p.Disabled {
			return replyDisabled
		}
	}
	switch {
	case t.Kind == directory.TargetGroup:
		return nil
	case t.Database == 0:
		return replyNoFile
	case always:
		return nil
	case t.SizeLimit > 0 && size > t.SizeLimit:
		return replySize
	}
	if err := s.files.Room(ctx, t, size); errors.Is(err, mailbox.ErrOverQuota) {
		return replyQuota
	}
	return nil // delivery handles other errors of the mail file
}

// Incoming resolves a recipient that another server of the domain names. A rejection is a *smtp.Reply.
func (s *Depositor) Incoming(ctx context.Context, to smtp.Path, p smtp.RcptParams, size uint64) (Recipient, error) {
	r := Recipient{To: to, Params: p}
	kind := directory.TargetPerson
	text, ok := strings.CutPrefix(p.Transit, transitPerson)
	if !ok {
		kind = directory.TargetMailIn
		text, ok = strings.CutPrefix(p.Transit, transitMailIn)
	}
	id, err := note.ParseUNID(text)
	if !ok || err != nil {
		return r, replyTransit
	}
	r.Target, err = s.dir.Names.TargetOf(ctx, id)
	switch {
	case errors.Is(err, directory.ErrNotFound), err == nil && r.Target.Kind != kind:
		return r, replyUnknown // or was removed: the other server will have learned it before it retries
	case err != nil:
		return r, fmt.Errorf("directory: %w", err)
	}
	away, err := s.dir.Servers.Away(ctx, r.Target.MailServer)
	switch {
	case err != nil:
		return r, err
	case away:
		return r, replyElsewhere
	}
	return r, s.admit(ctx, &r, size)
}
