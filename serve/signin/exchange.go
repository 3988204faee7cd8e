package signin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

// Exchange is the server side of one SASL exchange. Next gets the client's response, or nil at first if there is no
// initial response. Account is valid after Next has returned done. Errors: those of this package, and those of package
// sasl for syntax errors.
type Exchange interface {
	sasl.Server
	Account() (Account, error)
}

// errNotDone reports that the exchange is not complete.
var errNotDone = errors.New("signin: the exchange is not done")

// Begin begins an exchange with a mechanism. It returns ErrMechanism for a mechanism that is not available.
//
// Implements: RFC 4616 §2 PLAIN
// Implements: RFC 7677 §4 SCRAM-SHA-256 and SCRAM-SHA-256-PLUS
// Implements: RFC 7628 §3 OAUTHBEARER
func (s *Service) Begin(ctx context.Context, a Attempt, mechanism string) (Exchange, error) {
	mechanism = strings.ToUpper(mechanism)
	x := &exchange{s: s, ctx: ctx, a: a, err: errNotDone}
	switch mechanism {
	case "PLAIN":
		x.Server = sasl.NewPlainServer(func(authzid, user, secret string) error {
			if authzid != "" && authzid != user {
				return ErrCredentials // authorization as another user is not supported
			}
			return x.password(user, secret)
		})
	case "LOGIN":
		if a.Door != "SMTP" && a.Door != "Submission" {
			return nil, ErrMechanism
		}
		x.Server = sasl.NewLoginServer(x.password)
	case scram.Mechanism, scram.MechanismPlus:
		if mechanism == scram.MechanismPlus && a.TLS == nil {
			return nil, ErrMechanism
		}
		if err := s.guard.enter(ctx, &a); err != nil {
			return nil, err
		}
		x.Server = x.scram(mechanism == scram.MechanismPlus)
	case sasl.OAuthBearer, sasl.XOAuth2:
		if s.opt.OAuth == nil {
			return nil, ErrMechanism
		}
		if err := s.guard.enter(ctx, &a); err != nil {
			return nil, err
		}
		x.Server = x.token(mechanism)
	default:
		return nil, ErrMechanism
	}
	return x, nil
}

type exchange struct {
	sasl.Server
	s       *Service
	ctx     context.Context
	a       Attempt
	account Account
	err     error
}

// Account implements Exchange.
func (x *exchange) Account() (Account, error) { return x.account, x.err }

func (x *exchange) password(user, secret string) error {
	x.account, x.err = x.s.Password(x.ctx, x.a, user, secret)
	return x.err
}

// proved completes an exchange whose client has proved to be a user.
func (x *exchange) proved(user string) error {
	who, p, err := x.s.dir.SignedIn(x.ctx, user)
	x.account, x.err = x.s.account(x.ctx, who, p, err)
	return x.err
}

// scrammed completes an exchange whose client has proved to know one of a user's passwords. had holds the credentials
// at the beginning of the exchange. SCRAM does not reveal which password was used, so all of them must still exist.
func (x *exchange) scrammed(user string, had []scram.Credentials) error {
	who, p, err := x.s.dir.SignedIn(x.ctx, user)
	if err == nil {
		var have []scram.Credentials
		have, err = x.s.dir.ScramCredentials(x.ctx, user)
		for i := range had {
			if err == nil &&
				!slices.ContainsFunc(have, func(c scram.Credentials) bool { return c.StoredKey == had[i].StoredKey }) {
				x.err = x.s.failed(x.ctx, &x.a, user, "")
				return x.err
			}
		}
	}
	x.account, x.err = x.s.account(x.ctx, who, p, err)
	x.account.Credential = scramCredential(&p)
	return x.err
}

// scramServer adapts scram.Server to sasl.Server.
type scramServer struct {
	*scram.Server
	x    *exchange
	user string
	had  []scram.Credentials
}

func (x *exchange) scram(plus bool) sasl.Server {
	var nonce [18]byte
	x.s.env.Fill(nonce[:])
	m := &scramServer{x: x}
	m.Server = scram.NewServer(func(user string) ([]scram.Credentials, error) {
		m.user = user
		var err error
		m.had, err = x.s.dir.ScramCredentials(x.ctx, user)
		return m.had, err
	}, base64.RawStdEncoding.EncodeToString(nonce[:]), scram.Channel{Plus: plus, Offered: x.s.plus(&x.a),
		Bindings: x.a.bindings()})
	return m
}

func (m *scramServer) Next(response []byte) ([]byte, bool, error) {
	if response == nil {
		return []byte{}, false, nil
	}
	out, done, err := m.Server.Next(response)
	switch {
	case errors.Is(err, scram.ErrSyntax), errors.Is(err, scram.ErrExtension):
		return nil, false, fmt.Errorf("%w: %w", sasl.ErrMalformed, err)
	case errors.Is(err, scram.ErrProof), errors.Is(err, scram.ErrChannelBinding),
		// Authorization as another user is not supported.
		err == nil && done && m.Authzid() != "" && m.Authzid() != m.user:
		m.x.s.dir.Failed(m.x.ctx, m.user, m.x.a.place())
		return nil, false, m.x.s.failed(m.x.ctx, &m.x.a, m.user, "")
	case err != nil || !done:
		return out, false, err
	}
	return out, true, m.x.scrammed(m.user, m.had)
}

func (x *exchange) token(mechanism string) sasl.Server {
	parse, refused := sasl.ParseOAuthBearer, `{"status":"invalid_token"}`
	if issuer := x.s.opt.OAuth.Discovery(); issuer != "" {
		refused = `{"status":"invalid_token","openid-configuration":"` + issuer + `"}`
	}
	if mechanism == sasl.XOAuth2 {
		parse, refused = sasl.ParseXOAuth2, `{"status":"401","schemes":"bearer","scope":"openid email"}`
	}
	return sasl.NewTokenServer(parse, x.bearer, refused)
}

// bearer verifies a token, and that it belongs to the user named with it.
func (x *exchange) bearer(user, token string) error {
	name, ends, err := x.s.opt.OAuth.Verify(x.ctx, token)
	if err != nil && !errors.Is(err, oauth.ErrToken) {
		return err
	}
	var p directory.Person
	if err == nil {
		p, err = x.s.dir.PersonNamed(x.ctx, name)
	}
	if err == nil && user != "" {
		var named directory.Person
		if named, err = x.s.dir.PersonNamed(x.ctx, user); err == nil && named.ID != p.ID {
			err = directory.ErrNotFound
		}
	}
	switch {
	case err == nil:
		err = x.proved(name)
		x.account.Credential = credentialOf(ends)
		return err
	case errors.Is(err, oauth.ErrToken), errors.Is(err, directory.ErrNotFound):
		x.s.dir.Failed(x.ctx, user, x.a.place())
		return x.s.failed(x.ctx, &x.a, user, token)
	}
	return err
}
