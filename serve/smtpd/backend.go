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

// NewBackend returns the Backend of a server. It uses the directory for authentication and addresses, and the mail
// service for deliveries.
func NewBackend(in *signin.Service, d *directory.Directory, m *mail.Service, e *env.Env) Backend {
	return &backend{in: in, dir: d, mail: m, env: e}
}

type backend struct {
	in   *signin.Service
	dir  *directory.Directory
	mail *mail.Service
	env  *env.Env
}

// Replies with which the backend rejects.
var (
	errRelay    = smtp.NewReply(550, 5, 7, 1, "Relaying denied")
	errNotYours = smtp.NewReply(550, 5, 7, 1, "The sender address is not one of yours")
	errAccount  = smtp.NewReply(550, 5, 7, 1, "The account you signed in with is disabled")
	errTransit  = smtp.NewReply(501, 5, 5, 4, "Bad parameter")
)

// SignIn implements Backend.
func (b *backend) SignIn() *signin.Service { return b.in }

// MaySendAs implements Backend. Everyone may use the null sender, because mail programs send reports with it.
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

// refresh updates the account if the directory has changed, so that a person who has been disabled or removed can send
// nothing more.
func (b *backend) refresh(ctx context.Context, s *Session) error {
	_, err := b.in.Refresh(ctx, &s.Account)
	if errors.Is(err, signin.ErrDisabled) {
		return errAccount
	}
	return err
}

// Recipient implements Backend. LMTP and clients that have not authenticated may only name local recipients.
//
// Implements: RFC 5321 §4.5.1 Postmaster
func (b *backend) Recipient(ctx context.Context, e *Envelope, r *Recipient) error {
	if r.Params.Transit != "" {
		return b.incoming(ctx, e, r)
	}
	to, err := b.mail.Deposits.Accept(ctx, r.To, r.Params, uint64(max(0, e.Params.Size)))
	var refused *smtp.Reply
	if errors.As(err, &refused) && e.From.IsNull() {
		// An SRS address: a bounce of a forwarded message goes to the original sender.
		if from, ok := b.mail.SRS.ReverseSRS(r.To.String()); ok {
			r.Data = &mail.Recipient{To: from, Params: r.Params, Outside: true}
			return nil
		}
	}
	if condition.DirectoryAway.Is(err) {
		return condition.DirectoryAway.SMTP // it may be a group of another directory
	}
	if err != nil {
		return err
	}
	if to.Outside && (e.Kind == LMTP || !e.Signed) {
		return errRelay
	}
	r.Data = &to
	return nil
}

// incoming accepts a recipient that another server of the domain names.
func (b *backend) incoming(ctx context.Context, e *Envelope, r *Recipient) error {
	to, err := b.mail.Deposits.Incoming(ctx, r.To, r.Params, uint64(max(0, e.Params.Size)))
	if err != nil {
		return err
	}
	r.Data = &to
	return nil
}

// Deliver implements Backend.
func (b *backend) Deliver(ctx context.Context, e *Envelope, message []byte, results []error) (string, error) {
	in := &e.Inbound
	sub := mail.Submission{
		From: e.From, Params: e.Params, Message: message, Head: e.Head,
		Received: &mail.Received{Helo: e.Helo, IP: e.RemoteIP, TLS: e.TLSName, Protocol: e.Protocol()},
		Fields:   in.Fields, Junk: in.Junk, Hold: in.Hold, AuthorPolicy: in.AuthorPolicy, Unproven: in.Unproven,
		// mail by LMTP of this machine may come from anyone, by way of another server
		Checked: in.Checked, Proven: in.Proven, Checker: in.Checker, Results: in.Results,
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
		b.env.Log.Info("mail: discarded by a filter", "id", sub.ID.String(), "from", e.From.String(), "recipients",
			len(e.Recipients))
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
	// From here on the mail service reports the recipients that failed.
	clear(results)
	return id.String(), nil
}

// recipients returns the accepted recipients with the filters' changes. With LMTP, filters cannot change recipients,
// because each recipient has its own reply.
func (b *backend) recipients(ctx context.Context, e *Envelope) ([]mail.Recipient, error) {
	out := make([]mail.Recipient, 0, len(e.Recipients)+len(e.Inbound.Add))
	for i := range e.Recipients {
		to, ok := e.Recipients[i].Data.(*mail.Recipient)
		if !ok {
			return nil, errors.New("smtpd: recipient was not resolved")
		}
		if e.Kind == LMTP || !slices.ContainsFunc(e.Inbound.Del,
			func(p smtp.Path) bool { return strings.EqualFold(p.String(), to.To.String()) }) {
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
			b.env.Log.Warn("smtpd: filter added an unknown recipient", "address", p.String())
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
