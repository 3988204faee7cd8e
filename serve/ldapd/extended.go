package ldapd

import (
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/wire/ldap"
)

// extended answers an extended request.
//
// Implements: RFC 4511 §4.12 Extended operation
func (s *session) extended(m *ldap.Message) {
	req, err := ldap.ParseExtended(m.Body)
	switch {
	case err != nil:
		s.refused(m, err)
	case critical(m):
		s.reply(m, ldap.Result{Code: ldap.UnavailableCriticalExtension, Text: "this operation has no controls here"})
	case req.OID == ldap.OIDStartTLS:
		s.startTLS(m, &req)
	case req.OID == ldap.OIDWhoAmI:
		s.whoAmI(m)
	case req.OID == ldap.OIDPasswordModify:
		s.modifyPassword(m, &req)
	case req.OID == ldap.OIDCancel:
		s.cancel(m, &req)
	default:
		s.reply(m, ldap.Result{Code: ldap.ProtocolError, Text: "unknown extended operation"})
	}
}

// startTLS starts TLS. It drops requests that the client sent in plaintext after it. An exchange that has begun ends.
//
// Implements: RFC 4511 §4.14 StartTLS operation
func (s *session) startTLS(m *ldap.Message, req *ldap.Extended) {
	switch {
	case req.Value != nil:
		s.reply(m, ldap.Result{Code: ldap.ProtocolError, Text: "StartTLS has no value"})
		return
	case s.c.Secure():
		s.reply(m, ldap.Result{Code: ldap.OperationsError, Text: "TLS is on already"})
		return
	case !s.c.CanStartTLS():
		s.reply(m, ldap.Result{Code: ldap.Unavailable, Text: "TLS is not offered here"})
		return
	}
	s.reply(m, ldap.Result{OID: ldap.OIDStartTLS})
	if s.flush() != nil {
		return
	}
	s.exchange = nil
	s.out.Release()
	if err := s.c.StartTLS(); err != nil {
		s.failed = err
	}
}

// whoAmI returns the authorization identity.
//
// Implements: RFC 4532 §2 Who am I? operation
func (s *session) whoAmI(m *ldap.Message) {
	id, err := s.authzID(s.c.Context())
	if err != nil {
		s.trouble(m, err)
		return
	}
	s.reply(m, ldap.Result{Value: []byte(id)})
}

// cancel answers that there is nothing to cancel: the session executes one operation after another, so the operation
// has ended before the request is read.
//
// Implements: RFC 3909 §2.2 Cancel response
func (s *session) cancel(m *ldap.Message, req *ldap.Extended) {
	if _, err := ldap.ParseCancel(req.Value); err != nil {
		s.refused(m, err)
		return
	}
	s.reply(m, ldap.Result{Code: ldap.NoSuchOperation, Text: "the operation has ended"})
}

// modifyPassword sets a password: one's own, or as administrator that of others.
//
// Implements: RFC 3062 §2 Password modify operation
func (s *session) modifyPassword(m *ldap.Message, req *ldap.Extended) {
	q, err := ldap.ParsePasswordModify(req.Value)
	if err != nil {
		s.refused(m, err)
		return
	}
	r, err := s.changePassword(&q)
	if err != nil {
		s.trouble(m, err)
		return
	}
	s.reply(m, r)
}

func (s *session) changePassword(q *ldap.PasswordModify) (ldap.Result, error) {
	ctx := s.c.Context()
	switch {
	case !s.protected():
		return ldap.Result{Code: ldap.ConfidentialityRequired, Text: "passwords need TLS: use StartTLS or ldaps"}, nil
	case !s.signedIn():
		return ldap.Result{Code: ldap.StrongerAuthRequired, Text: "sign in first"}, nil
	}
	id, r, err := s.passwordOf(q.User)
	if err != nil || r.Code != ldap.Success {
		return r, err
	}
	if r, err := s.mayChange(id, q); err != nil || r.Code != ldap.Success {
		return r, err
	}
	generated := q.New == ""
	if generated {
		q.New = s.newPassword()
	} else if text := s.srv.cfg.unfit(q); text != "" {
		return ldap.Result{Code: ldap.ConstraintViolation, Text: text}, nil
	}
	p, err := s.srv.dir.Names.Person(ctx, id)
	if err == nil {
		err = s.srv.dir.Passwords.Set(ctx, s.account.Who, id, q.New, p.HasScram || s.srv.cfg.SCRAM)
	}
	switch {
	case errors.Is(err, directory.ErrDenied):
		return notOthers, nil
	case err != nil:
		return ldap.Result{}, err
	}
	s.srv.stats.passwords.Inc()
	s.srv.env.Log.Info("ldapd: password changed", "person", p.Name(), "by", s.account.Name,
		"remote", s.c.RemoteIP().String())
	if id == s.account.Who.Person { // the session goes on with the new password
		account, err := s.srv.accounts.Password(ctx, s.attempt(), p.Name(), q.New)
		if err != nil {
			return ldap.Result{}, fmt.Errorf("sign in with the new password: %w", err)
		}
		s.account = account
	}
	if generated {
		return ldap.Result{Value: ldap.AppendGeneratedPassword(nil, q.New)}, nil
	}
	return ldap.Result{}, nil
}

// notOthers is the result for a client that may not set another person's password.
var notOthers = ldap.Result{Code: ldap.InsufficientAccessRights, Text: "only administrators set passwords of others"}

// passwordOf returns the person whose password is to be changed: the client, or the one that user names.
func (s *session) passwordOf(user string) (id note.UNID, r ldap.Result, err error) {
	if user == "" {
		return s.account.Who.Person, r, nil
	}
	name, err := s.userOf(strings.TrimPrefix(strings.TrimPrefix(user, "dn:"), "u:"))
	var p directory.Person
	if err == nil {
		p, err = s.srv.dir.Names.PersonNamed(s.c.Context(), name)
	}
	switch {
	case err == nil && p.ID == s.account.Who.Person, err == nil && directory.RequireAdmin(s.account.Who) == nil:
		return p.ID, r, nil
	case directory.RequireAdmin(s.account.Who) != nil: // do not reveal who exists
		r = notOthers
	case errors.Is(err, directory.ErrNotFound), errors.Is(err, directory.ErrInvalid),
		errors.Is(err, signin.ErrCredentials):
		r = ldap.Result{Code: ldap.NoSuchObject, Text: "no person has this name"}
	default:
		return id, r, err
	}
	return id, r, nil
}

// mayChange checks that the client has proved the password of an account: with the request, or when it signed in. An
// app password or a token alone is not sufficient to change passwords, because programs store it. A person with a
// second factor changes the password in the browser, which asks for it.
func (s *session) mayChange(id note.UNID, q *ldap.PasswordModify) (ldap.Result, error) {
	ctx := s.c.Context()
	self, err := s.srv.dir.Names.Person(ctx, s.account.Who.Person)
	if err != nil {
		return ldap.Result{}, err
	}
	if self.HasTOTP() {
		return ldap.Result{Code: ldap.UnwillingToPerform,
			Text: "accounts with a second factor change passwords in the browser"}, nil
	}
	proved := s.account
	if q.Old != "" && id == self.ID {
		proved, err = s.srv.accounts.Password(ctx, s.attempt(), self.Name(), q.Old)
		switch {
		case errors.Is(err, signin.ErrCredentials), errors.Is(err, signin.ErrBanned):
			return ldap.Result{Code: ldap.InvalidCredentials, Text: "wrong old password"}, nil
		case err != nil:
			return ldap.Result{}, err
		}
	}
	if !proved.ByPassword() {
		return ldap.Result{Code: ldap.UnwillingToPerform,
			Text: "the password of the account is needed, not an app password or token"}, nil
	}
	return ldap.Result{}, nil
}

// unfit returns the reason why a new password is not accepted, "" if it is.
func (c *Config) unfit(q *ldap.PasswordModify) string {
	switch {
	case !utf8.ValidString(q.New) || utf8.RuneCountInString(q.New) < c.LeastPassword:
		return fmt.Sprintf("new password needs at least %d characters of UTF-8", c.LeastPassword)
	case len(q.New) > password.MaxLength:
		return fmt.Sprintf("new password is longer than %d bytes", password.MaxLength)
	case q.New == q.Old:
		return "new password is the old one"
	case password.IsToken(q.New):
		return "new password looks like an app password"
	}
	return ""
}

// newPassword generates a password.
func (s *session) newPassword() string {
	var b [15]byte
	s.srv.env.Fill(b[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
