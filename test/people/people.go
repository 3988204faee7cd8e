// Package people holds the accounts that protocol servers meet in their tests.
package people

import (
	"context"
	"errors"
	"sync/atomic"

	"doublet/serve/signin"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

// Fake holds accounts in place of a signin.Service. All have the password "demo"; the names broken, disabled, banned
// and busy fail in their ways.
type Fake struct {
	Accounts map[string]signin.Account
	// Gone makes Refresh fail.
	Gone atomic.Bool
}

// Mechanisms returns the mechanisms of SASL that Begin knows.
func (p *Fake) Mechanisms(signin.Attempt) []string {
	return []string{"PLAIN", "LOGIN", "SCRAM-SHA-256"}
}

// Password checks a password.
func (p *Fake) Password(_ context.Context, _ signin.Attempt, user, password string) (signin.Account, error) {
	switch user {
	case "broken":
		return signin.Account{}, errors.New("directory is on fire")
	case "disabled":
		return signin.Account{}, signin.ErrDisabled
	case "banned":
		return signin.Account{}, signin.ErrBanned
	case "busy":
		return signin.Account{}, signin.ErrBusy
	}
	a, ok := p.Accounts[user]
	if !ok || password != "demo" {
		return signin.Account{}, signin.ErrCredentials
	}
	return a, nil
}

// Refresh reports that no account has changed, or fails.
func (p *Fake) Refresh(context.Context, *signin.Account) (bool, error) {
	if p.Gone.Load() {
		return false, signin.ErrDisabled
	}
	return false, nil
}

type exchange struct {
	sasl.Server
	account func() (signin.Account, error)
}

// Account returns the account that has signed in.
func (x *exchange) Account() (signin.Account, error) { return x.account() }

// Begin starts an exchange of SASL.
func (p *Fake) Begin(ctx context.Context, c signin.Attempt, mechanism string) (signin.Exchange, error) {
	var a signin.Account
	verify := func(user, password string) (err error) {
		a, err = p.Password(ctx, c, user, password)
		return err
	}
	account := func() (signin.Account, error) { return a, nil }
	switch mechanism {
	case "PLAIN":
		return &exchange{sasl.NewPlainServer(func(_, user, password string) error { return verify(user, password) }),
			account}, nil
	case "LOGIN":
		return &exchange{sasl.NewLoginServer(verify), account}, nil
	}
	creds := scram.Derive("demo", []byte("salt of the test"), 4096)
	s := scram.NewServer(func(string) ([]scram.Credentials, error) { return []scram.Credentials{creds}, nil },
		"server-nonce-of-the-test", scram.Channel{})
	return &exchange{first{s}, func() (signin.Account, error) { return p.Accounts[s.Username()], nil }}, nil
}

// first requests the client's first message if it was not in the command.
type first struct{ *scram.Server }

// Next implements sasl.Server.
func (f first) Next(in []byte) ([]byte, bool, error) {
	if in == nil {
		return []byte{}, false, nil
	}
	out, done, err := f.Server.Next(in)
	if errors.Is(err, scram.ErrProof) {
		err = signin.ErrCredentials
	}
	return out, done, err
}
