package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"doublet/admin"
	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/imapd"
	"doublet/serve/smtpd"
	"doublet/stat"
	"doublet/wire/scram"
)

// imapRooms answers what the IMAP door asks by the directory.
type imapRooms struct{ *admin.System }

func imapBackend(s *admin.System) imapd.Backend { return imapRooms{s} }

// Mail implements imapd.Backend.
func (b imapRooms) Mail() *mailbox.Service { return b.Mailbox }

// Login implements imapd.Backend.
func (b imapRooms) Login(ctx context.Context, user, password, _ string) (imapd.Account, error) {
	who, p, err := b.Directory.Authenticate(ctx, user, password, "IMAP")
	return b.account(ctx, who, p, err)
}

// account is the mail file of who signed in, which is made where a crash or a bulk import left it
// out.
func (b imapRooms) account(ctx context.Context, who note.Who, p directory.Person, err error) (imapd.Account, error) {
	switch {
	case errors.Is(err, directory.ErrAuthentication), errors.Is(err, directory.ErrDisabled), errors.Is(err, directory.ErrNotFound):
		return imapd.Account{}, fmt.Errorf("%w: %w", imapd.ErrCredentials, err)
	case err != nil:
		return imapd.Account{}, err
	}
	if _, err := b.Store.Info(p.MailDatabase); err != nil {
		if err := b.Directory.EnsureMailFile(ctx, p.ID); err != nil {
			return imapd.Account{}, err
		}
		if p, err = b.Directory.Person(ctx, p.ID); err != nil {
			return imapd.Account{}, err
		}
	}
	return imapd.Account{Who: who, Database: p.MailDatabase, Name: p.Name()}, nil
}

// Refresh implements imapd.Refresher: who was disabled or removed goes, and groups are those of today.
func (b imapRooms) Refresh(ctx context.Context, a *imapd.Account) (bool, error) {
	if a.Who.Directory == b.Directory.Version() {
		return false, nil
	}
	who, err := b.Directory.WhoOf(ctx, a.Who.Person)
	switch {
	case errors.Is(err, directory.ErrDisabled), errors.Is(err, directory.ErrNotFound):
		return false, fmt.Errorf("%w: %w", imapd.ErrCredentials, err)
	case err != nil:
		return false, err
	}
	a.Who = who
	return true, nil
}

// Scram implements imapd.Backend.
func (b imapRooms) Scram(ctx context.Context) (imapd.ScramServer, error) {
	var nonce [18]byte
	b.Env.Fill(nonce[:])
	x := &imapScram{b: b, ctx: ctx}
	x.server = scram.NewServer(func(user string) (scram.Credentials, error) {
		return b.Directory.ScramCredentials(ctx, user)
	}, base64.RawStdEncoding.EncodeToString(nonce[:]))
	return x, nil
}

type imapScram struct {
	b      imapRooms
	ctx    context.Context
	server *scram.Server
}

// Next implements imapd.ScramServer. Acting for somebody else is not done here.
func (x *imapScram) Next(in []byte) ([]byte, bool, error) {
	out, done, err := x.server.Next(in)
	user := x.server.Username()
	id := ""
	if err == nil {
		id = x.server.Authzid()
	}
	if errors.Is(err, scram.ErrProof) || id != "" && id != user {
		x.b.Directory.Failed(x.ctx, user, "IMAP")
		return nil, false, imapd.ErrCredentials
	}
	return out, done, err
}

// Account implements imapd.ScramServer.
func (x *imapScram) Account() (imapd.Account, error) {
	who, p, err := x.b.Directory.SignedIn(x.ctx, x.server.Username())
	return x.b.account(x.ctx, who, p, err)
}

// touching counts who signs in to send as an active user.
type touching struct {
	smtpd.Backend
	directory *directory.Directory
	users     *stat.Active
}

// VerifyPassword implements smtpd.Backend.
func (t touching) VerifyPassword(ctx context.Context, s *smtpd.Session, user, password string) (smtpd.Identity, error) {
	id, err := t.Backend.VerifyPassword(ctx, s, user, password)
	if err == nil {
		if p, err := t.directory.ByName(ctx, user); err == nil {
			t.users.Touch(p.ID)
		}
	}
	return id, err
}
