package ldapd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/ldap"
	"doublet/wire/sasl"
)

// bind authenticates the client. A failed bind leaves it anonymous.
//
// Implements: RFC 4511 §4.2 Bind operation
// Implements: RFC 4513 §5.1 Simple authentication
func (s *session) bind(m *ldap.Message) {
	req, err := ldap.ParseBind(m.Body)
	exchange, mechanism := s.exchange, s.mechanism
	s.account, s.exchange = signin.Account{}, nil
	switch {
	case errors.Is(err, ldap.ErrMethod):
		s.reply(m, ldap.Result{Code: ldap.AuthMethodNotSupported, Text: "only simple and SASL authentication"})
	case err != nil:
		s.refused(m, err)
	case critical(m):
		s.reply(m, ldap.Result{Code: ldap.UnavailableCriticalExtension, Text: "bind has no controls here"})
	case req.Version != 3:
		s.reply(m, ldap.Result{Code: ldap.ProtocolError, Text: "only LDAP version 3 is spoken here"})
	case req.Mechanism != "":
		if !strings.EqualFold(req.Mechanism, mechanism) {
			exchange = nil
		}
		s.bindSASL(m, &req, exchange)
	case req.Name == "" && req.Password == "":
		s.reply(m, ldap.Result{}) // anonymous (RFC 4513 section 5.1.1)
	case req.Password == "":
		// Programs that do not check for an empty password would take success for a proof (RFC 4513 section 5.1.2).
		s.reply(m, ldap.Result{Code: ldap.UnwillingToPerform, Text: "a name without a password proves nothing"})
	case !s.protected():
		s.reply(m, ldap.Result{Code: ldap.ConfidentialityRequired, Text: "passwords need TLS: use StartTLS or ldaps"})
	default:
		user, err := s.userOf(req.Name)
		var account signin.Account
		if err == nil {
			account, err = s.srv.accounts.Password(s.c.Context(), s.attempt(), user, req.Password)
		}
		s.bound(m, account, nil, err)
	}
}

// userOf returns the user of a bind: the name in a distinguished name of a person, or a name or address alone, which
// many programs send.
func (s *session) userOf(name string) (string, error) {
	dn, err := ldap.ParseDN(name)
	if err != nil || len(dn) == 0 {
		return name, nil //nolint:nilerr // it is a name or an address
	}
	t, err := s.srv.tree(s.c.Context())
	if err != nil {
		return "", err
	}
	if !below(dn, t.normalPeople) {
		return "", signin.ErrCredentials
	}
	switch a := attributeNamed(dn[0].Type); {
	case a != nil && (a.name == "uid" || a.name == "cn" || a.name == "mail"):
		return dn[0].Value, nil
	}
	return "", signin.ErrCredentials
}

// bindSASL begins or continues a SASL exchange. Several binds make up one.
//
// Implements: RFC 4513 §5.2 SASL authentication
func (s *session) bindSASL(m *ldap.Message, req *ldap.Bind, x signin.Exchange) {
	at := s.attempt()
	offered := slices.ContainsFunc(s.srv.accounts.Mechanisms(at), func(o string) bool {
		return strings.EqualFold(o, req.Mechanism)
	})
	switch {
	case !offered:
		s.reply(m, ldap.Result{Code: ldap.AuthMethodNotSupported, Text: "the mechanism is not offered"})
		return
	case !s.protected():
		s.reply(m, ldap.Result{Code: ldap.ConfidentialityRequired, Text: "sign-in needs TLS: use StartTLS or ldaps"})
		return
	}
	var err error
	if x == nil {
		x, err = s.srv.accounts.Begin(s.c.Context(), at, req.Mechanism)
	}
	var challenge []byte
	done := false
	if err == nil {
		challenge, done, err = x.Next(req.Credentials)
	}
	if err == nil && !done {
		s.exchange, s.mechanism = x, req.Mechanism
		s.reply(m, ldap.Result{Code: ldap.SaslBindInProgress, Credentials: append([]byte{}, challenge...)})
		return
	}
	var account signin.Account
	if err == nil {
		account, err = x.Account()
	}
	s.bound(m, account, challenge, err)
}

// bound answers a bind that has succeeded or failed. The text does not reveal whether the name exists.
func (s *session) bound(m *ldap.Message, account signin.Account, data []byte, err error) {
	if err == nil {
		err = s.c.SignedIn(account.Who.Person)
	}
	var elsewhere *directory.ElsewhereError
	r := ldap.Result{Credentials: data}
	switch {
	case err == nil:
		s.account = account
		s.srv.stats.users.Touch(account.Who.Person)
	case errors.As(err, &elsewhere):
		r = ldap.Result{Code: ldap.UnwillingToPerform, Text: "sign in at " + elsewhere.Server()}
	case errors.Is(err, signin.ErrCredentials), errors.Is(err, signin.ErrDisabled):
		r = ldap.Result{Code: ldap.InvalidCredentials, Text: "wrong name or password"}
		if errors.Is(err, signin.ErrDisabled) {
			r.Text = "the account is disabled"
		}
		s.srv.stats.authFailures.Inc()
		s.srv.env.Log.Info("ldapd: sign-in refused", "remote", s.c.RemoteIP().String())
		if s.authFailures++; s.authFailures >= s.srv.cfg.MaxAuthFailures {
			s.over = true
		}
	case errors.Is(err, signin.ErrBanned):
		r = ldap.Result{Code: ldap.Busy, Text: "too many failed sign-ins, try again later"}
		s.over = true
	case errors.Is(err, listen.ErrSessions), errors.Is(err, listen.ErrUsers):
		r = ldap.Result{Code: ldap.Busy, Text: "too many sessions at once, try again later"}
	case errors.Is(err, sasl.ErrCancelled), errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		r = ldap.Result{Code: ldap.InvalidCredentials, Text: "malformed sign-in"}
	default:
		s.trouble(m, err)
		return
	}
	s.reply(m, r)
}

// authzID returns the authorization identity of the session, "" for an anonymous one.
func (s *session) authzID(ctx context.Context) (string, error) {
	if !s.signedIn() {
		return "", nil
	}
	t, err := s.srv.tree(ctx)
	if err != nil {
		return "", err
	}
	r, err := s.srv.dir.Names.RecordOf(ctx, s.account.Who.Person)
	if err != nil {
		return "", err
	}
	return "dn:" + t.dnOf(&r), nil
}
