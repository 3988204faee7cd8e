package smtpd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/sasl"
	"doublet/wire/scram"
	"doublet/wire/smtp"
)

// NewBackend is the Backend of a server: sign-in and addresses by its directory, mail by its mail
// room.
func NewBackend(d *directory.Directory, m *mail.Service, e *env.Env) Backend {
	return &backend{dir: d, mail: m, env: e}
}

type backend struct {
	dir  *directory.Directory
	mail *mail.Service
	env  *env.Env
}

// What the backend refuses with.
var (
	errNoUser    = smtp.NewReply(550, 5, 1, 1, "No such user here")
	errRelay     = smtp.NewReply(550, 5, 7, 1, "Relaying denied")
	errDisabled  = smtp.NewReply(550, 5, 2, 1, "Mailbox disabled, not accepting messages")
	errNoFile    = smtp.NewReply(550, 5, 2, 1, "The recipient has no mail file")
	errFull      = smtp.NewReply(452, 4, 2, 2, "The mail file is full")
	errRcptSize  = smtp.NewReply(552, 5, 2, 3, "Message is larger than this recipient takes")
	errAddress   = smtp.NewReply(553, 5, 1, 3, "Bad address")
	errNotYours  = smtp.NewReply(550, 5, 7, 1, "The sender address is not one of yours")
	errAccount   = smtp.NewReply(535, 5, 7, 13, "The account is disabled")
	errBusy      = smtp.NewReply(454, 4, 7, 0, "Too many sign-ins at once, try again later")
	errNoSpace   = smtp.NewReply(452, 4, 3, 1, "The mail system is full, try again later")
	errTemporary = smtp.NewReply(451, 4, 3, 0, "Temporary trouble here, try again later")
)

// person is the backend's part of an Identity.
type person struct {
	who     note.Who
	address string
}

func identity(user string, who note.Who, p *directory.Person) Identity {
	address := p.InternetAddress
	if all := p.Addresses(); address == "" && len(all) > 0 {
		address = all[0]
	}
	return Identity{User: user, Value: &person{who: who, address: address}}
}

func signedIn(s *Session) *person {
	if !s.Signed {
		return nil
	}
	p, _ := s.Identity.Value.(*person)
	return p
}

// VerifyPassword implements Backend.
func (b *backend) VerifyPassword(ctx context.Context, s *Session, user, secret string) (Identity, error) {
	who, p, err := b.dir.Authenticate(ctx, user, secret, s.Kind.String())
	if err != nil {
		return Identity{}, signInError(err)
	}
	return identity(user, who, &p), nil
}

func signInError(err error) error {
	switch {
	case errors.Is(err, directory.ErrAuthentication), errors.Is(err, directory.ErrNotFound):
		return ErrCredentials
	case errors.Is(err, directory.ErrDisabled):
		return errAccount
	case errors.Is(err, password.ErrBusy):
		return errBusy
	}
	return err
}

// Scram implements Backend.
func (b *backend) Scram(ctx context.Context, s *Session) (ScramExchange, error) {
	var nonce [18]byte
	b.env.Fill(nonce[:])
	x := &scramExchange{b: b, ctx: ctx, door: s.Kind.String()}
	x.server = scram.NewServer(func(user string) (scram.Credentials, error) {
		x.user = user
		return b.dir.ScramCredentials(ctx, user)
	}, base64.RawStdEncoding.EncodeToString(nonce[:]))
	return x, nil
}

// scramExchange is one exchange against the directory's credentials.
type scramExchange struct {
	b      *backend
	ctx    context.Context
	door   string
	server *scram.Server
	user   string
}

// Next implements ScramExchange.
func (x *scramExchange) Next(response []byte) ([]byte, bool, error) {
	out, done, err := x.server.Next(response)
	switch {
	case errors.Is(err, scram.ErrProof):
		x.b.dir.Failed(x.ctx, x.user, x.door)
		return nil, false, ErrCredentials
	case errors.Is(err, scram.ErrSyntax), errors.Is(err, scram.ErrChannelBinding), errors.Is(err, scram.ErrExtension):
		return nil, false, fmt.Errorf("%w: %w", sasl.ErrMalformed, err)
	case err != nil:
		return nil, false, err
	}
	// Acting for somebody else is not done here.
	if id := x.server.Authzid(); id != "" && id != x.user {
		x.b.dir.Failed(x.ctx, x.user, x.door)
		return nil, false, ErrCredentials
	}
	return out, done, nil
}

// Identity implements ScramExchange.
func (x *scramExchange) Identity() (Identity, error) {
	who, p, err := x.b.dir.SignedIn(x.ctx, x.server.Username())
	if err != nil {
		return Identity{}, signInError(err)
	}
	return identity(x.user, who, &p), nil
}

// MaySendAs implements Backend. The null sender is for reports that mail programs make.
func (b *backend) MaySendAs(ctx context.Context, s *Session, from smtp.Path) error {
	p := signedIn(s)
	if p == nil || from.IsNull() {
		return nil
	}
	if err := b.refresh(ctx, p); err != nil {
		return err
	}
	ok, err := b.dir.MaySendAs(ctx, p.who, from.String())
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
func (b *backend) refresh(ctx context.Context, p *person) error {
	if p.who.Directory == b.dir.Version() {
		return nil
	}
	who, err := b.dir.WhoOf(ctx, p.who.Person)
	switch {
	case errors.Is(err, directory.ErrDisabled), errors.Is(err, directory.ErrNotFound):
		return errAccount
	case err != nil:
		return fmt.Errorf("directory: %w", err)
	}
	p.who = who
	return nil
}

// Recipient implements Backend. At an LMTP door, and from who has not signed in, only local
// recipients are taken.
//
// Implements: RFC 5321 §4.5.1 Postmaster
func (b *backend) Recipient(ctx context.Context, e *Envelope, r *Recipient) error {
	to := mail.Recipient{To: r.To, Params: r.Params}
	t, err := b.dir.Resolve(ctx, r.To.String())
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		if e.Kind == LMTP || !e.Signed {
			return errRelay
		}
		to.Outside = true
		r.Data = &to
		return nil
	case errors.Is(err, directory.ErrNoSuchRecipient):
		return errNoUser
	case errors.Is(err, directory.ErrInvalid):
		return errAddress
	case err != nil:
		return fmt.Errorf("directory: %w", err)
	}
	to.Target = t
	if err := b.takes(ctx, e, &t); err != nil {
		return err
	}
	r.Data = &to
	return nil
}

// takes asks what is known of a local recipient before there is a message.
func (b *backend) takes(ctx context.Context, e *Envelope, t *directory.Target) error {
	if t.Kind == directory.TargetGroup {
		return nil
	}
	if t.Kind == directory.TargetPerson {
		p, err := b.dir.Person(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("directory: %w", err)
		}
		if p.Disabled {
			return errDisabled
		}
	}
	size := uint64(max(0, e.Params.Size))
	switch {
	case t.Database == 0:
		return errNoFile
	case t.SizeLimit > 0 && size > t.SizeLimit:
		return errRcptSize
	}
	if err := b.mail.Room(ctx, t, size); errors.Is(err, mailbox.ErrOverQuota) {
		return errFull
	}
	return nil // what else is wrong with the mail file is mail's to deal with
}

// Deliver implements Backend.
func (b *backend) Deliver(ctx context.Context, e *Envelope, message []byte, results []error) (string, error) {
	sub := mail.Submission{
		From: e.From, Params: e.Params, Message: message, Head: e.Head,
		Received: &mail.Received{Helo: e.Helo, IP: e.RemoteIP, TLS: e.TLSName, Protocol: e.Protocol()},
	}
	if e.Kind == LMTP {
		sub.Answer = mail.AnswerEach
	}
	sub.Recipients = make([]mail.Recipient, len(e.Recipients))
	for i := range e.Recipients {
		to, ok := e.Recipients[i].Data.(*mail.Recipient)
		if !ok {
			return "", errors.New("smtpd: recipient was not resolved")
		}
		sub.Recipients[i] = *to
	}
	if p := signedIn(e.Session); p != nil {
		if err := b.refresh(ctx, p); err != nil {
			return "", err
		}
		sub.Submitter = &mail.Submitter{Who: p.who, Address: p.address}
	}
	id, err := b.mail.Deposit(ctx, &sub, results)
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

func (b *backend) answer(id note.UNID, err error) error {
	var r *smtp.Reply
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, store.ErrNoSpace):
		return errNoSpace
	case errors.Is(err, mailbox.ErrTooBig):
		return errTooBig
	case errors.Is(err, mailbox.ErrBadMessage):
		return errNUL
	}
	b.env.Log.Error("smtpd: delivery failed", "id", id.String(), "err", err)
	return errTemporary
}
