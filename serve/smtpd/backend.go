package smtpd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/env"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/condition"
	"doublet/serve/signin"
	"doublet/wire/smtp"
)

// NewBackend is the Backend of a server: sign-in and addresses by its directory, mail by its mail
// room.
func NewBackend(in *signin.Service, d *directory.Directory, m *mail.Service, e *env.Env) Backend {
	return &backend{in: in, dir: d, mail: m, env: e}
}

type backend struct {
	in   *signin.Service
	dir  *directory.Directory
	mail *mail.Service
	env  *env.Env
}

// What the backend refuses with.
var (
	errNoUser   = smtp.NewReply(550, 5, 1, 1, "No such user here")
	errRelay    = smtp.NewReply(550, 5, 7, 1, "Relaying denied")
	errDisabled = smtp.NewReply(550, 5, 2, 1, "Mailbox disabled, not accepting messages")
	errNoFile   = smtp.NewReply(550, 5, 2, 1, "The recipient has no mail file")
	errRcptSize = smtp.NewReply(552, 5, 2, 3, "Message is larger than this recipient takes")
	errAddress  = smtp.NewReply(553, 5, 1, 3, "Bad address")
	errNotYours = smtp.NewReply(550, 5, 7, 1, "The sender address is not one of yours")
	errAccount  = smtp.NewReply(550, 5, 7, 1, "The account you signed in with is disabled")
	errTransit  = smtp.NewReply(501, 5, 5, 4, "Bad parameter")
)

// SignIn implements Backend.
func (b *backend) SignIn() *signin.Service { return b.in }

// MaySendAs implements Backend. The null sender is for reports that mail programs make.
func (b *backend) MaySendAs(ctx context.Context, s *Session, from smtp.Path) error {
	if !s.Signed || from.IsNull() {
		return nil
	}
	if err := b.refresh(ctx, s); err != nil {
		return err
	}
	ok, err := b.dir.Names.MaySendAs(ctx, s.Account.Who, from.String())
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if !ok {
		return errNotYours
	}
	return nil
}

// refresh takes the person anew when the directory has changed: one who was disabled or removed
// meanwhile sends nothing more.
func (b *backend) refresh(ctx context.Context, s *Session) error {
	_, err := b.in.Refresh(ctx, &s.Account)
	if errors.Is(err, signin.ErrDisabled) {
		return errAccount
	}
	return err
}

// Recipient implements Backend. At an LMTP door, and from who has not signed in, only local
// recipients are taken.
//
// Implements: RFC 5321 §4.5.1 Postmaster
func (b *backend) Recipient(ctx context.Context, e *Envelope, r *Recipient) error {
	if r.Params.Transit != "" {
		return b.incoming(ctx, e, r)
	}
	to := mail.Recipient{To: r.To, Params: r.Params}
	t, err := b.dir.Names.Resolve(ctx, r.To.String())
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		if e.Kind == LMTP || !e.Signed {
			return errRelay
		}
		to.Outside = true
		r.Data = &to
		return nil
	case errors.Is(err, directory.ErrNoSuchRecipient), errors.Is(err, directory.ErrInvalid):
		// A report for a message that was forwarded goes to its sender.
		if from, ok := b.mail.SRS.ReverseSRS(r.To.String()); ok && e.From.IsNull() {
			to.To, to.Outside = from, true
			r.Data = &to
			return nil
		}
		if errors.Is(err, directory.ErrInvalid) {
			return errAddress
		}
		return errNoUser
	case err != nil:
		return fmt.Errorf("directory: %w", err)
	}
	to.Target = t
	if err := b.takes(ctx, e, &t, mail.AlwaysArrives(r.To)); err != nil {
		return err
	}
	r.Data = &to
	return nil
}

// incoming takes a recipient whom a server of the domain names.
func (b *backend) incoming(ctx context.Context, e *Envelope, r *Recipient) error {
	to, err := b.mail.Deposits.Incoming(ctx, r.To, r.Params)
	if err != nil {
		return err
	}
	if err := b.takes(ctx, e, &to.Target, mail.AlwaysArrives(r.To)); err != nil {
		return err
	}
	r.Data = &to
	return nil
}

// takes asks what is known of a local recipient before there is a message. always is for addresses
// at which mail arrives whatever speaks against it.
func (b *backend) takes(ctx context.Context, e *Envelope, t *directory.Target, always bool) error {
	if t.Kind == directory.TargetGroup {
		return nil
	}
	if t.Kind == directory.TargetPerson {
		p, err := b.dir.Names.Person(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("directory: %w", err)
		}
		if p.Disabled && !always {
			return errDisabled
		}
	}
	size := uint64(max(0, e.Params.Size))
	switch {
	case t.Database == 0:
		return errNoFile
	case always:
		return nil
	case t.SizeLimit > 0 && size > t.SizeLimit:
		return errRcptSize
	}
	if err := b.mail.Files.Room(ctx, t, size); errors.Is(err, mailbox.ErrOverQuota) {
		return condition.OverQuota.SMTP
	}
	return nil // what else is wrong with the mail file is mail's to deal with
}

// Deliver implements Backend.
func (b *backend) Deliver(ctx context.Context, e *Envelope, message []byte, results []error) (string, error) {
	in := &e.Inbound
	sub := mail.Submission{
		From: e.From, Params: e.Params, Message: message, Head: e.Head,
		Received: &mail.Received{Helo: e.Helo, IP: e.RemoteIP, TLS: e.TLSName, Protocol: e.Protocol()},
		Fields:   in.Fields, Junk: in.Junk, Hold: in.Hold, AuthorPolicy: in.AuthorPolicy, Unproven: in.Unproven,
		Checked: in.Checked, Proven: in.Proven, Checker: in.Checker, Results: in.Results, // by LMTP of this machine comes what another server took from anybody
	}
	if e.Kind == LMTP {
		sub.Answer = mail.AnswerEach
	}
	if in.From != nil {
		sub.From = *in.From
	}
	var err error
	if sub.Recipients, err = b.recipients(ctx, e); err != nil {
		return "", err
	}
	if e.Params.Transit != "" {
		t, ok := mail.ParseTransit(e.Params.Transit)
		if !ok {
			return "", errTransit
		}
		sub.ID, sub.Junk, sub.Checker = t.Submission(sub.Recipients), t.Junk, t.Checker(message)
		sub.Checked, sub.Proven, sub.Unproven = t.Unsigned, !t.Unsigned, t.Unproven
	}
	if in.Discard || len(sub.Recipients) == 0 {
		b.env.Fill(sub.ID[:])
		b.env.Log.Info("mail: thrown away by a filter", "id", sub.ID.String(), "from", e.From.String(), "recipients", len(e.Recipients))
		return sub.ID.String(), nil
	}
	if e.Signed {
		if err := b.refresh(ctx, e.Session); err != nil {
			return "", err
		}
		sub.Submitter = &mail.Submitter{Who: e.Account.Who, Address: e.Account.Address}
	}
	id, err := b.mail.Deposits.Deposit(ctx, &sub, results)
	if err != nil {
		return "", b.answer(id, err)
	}
	if e.Kind == LMTP {
		return id.String(), nil
	}
	// Who could not have it now is mail's business from here on.
	clear(results)
	return id.String(), nil
}

// recipients are those that the door accepted, as the filters have changed them. At an LMTP door,
// where each has an answer of its own, filters change nobody.
func (b *backend) recipients(ctx context.Context, e *Envelope) ([]mail.Recipient, error) {
	out := make([]mail.Recipient, 0, len(e.Recipients)+len(e.Inbound.Add))
	for i := range e.Recipients {
		to, ok := e.Recipients[i].Data.(*mail.Recipient)
		if !ok {
			return nil, errors.New("smtpd: recipient was not resolved")
		}
		if e.Kind == LMTP || !slices.ContainsFunc(e.Inbound.Del, func(p smtp.Path) bool { return strings.EqualFold(p.String(), to.To.String()) }) {
			out = append(out, *to)
		}
	}
	if e.Kind == LMTP {
		return out, nil
	}
	for _, p := range e.Inbound.Add {
		to := mail.Recipient{To: p}
		t, err := b.dir.Names.Resolve(ctx, p.String())
		switch {
		case err == nil:
			to.Target = t
		case errors.Is(err, directory.ErrNotLocal):
			to.Outside = true
		case errors.Is(err, directory.ErrNoSuchRecipient), errors.Is(err, directory.ErrInvalid):
			b.env.Log.Warn("smtpd: a filter adds a recipient who is nobody", "address", p.String())
			continue
		default:
			return nil, fmt.Errorf("directory: %w", err)
		}
		out = append(out, to)
	}
	return out, nil
}

func (b *backend) answer(id note.UNID, err error) error {
	var r *smtp.Reply
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, mailbox.ErrTooBig):
		return errTooBig
	case errors.Is(err, mailbox.ErrBadMessage):
		return errNUL
	}
	c, known := condition.Of(err)
	if !known || c == condition.Damaged {
		b.env.Log.Error("smtpd: delivery failed", "id", id.String(), "err", err)
	}
	return c.SMTP
}
