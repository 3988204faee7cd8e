// Package signin authenticates people at all doors (protocol listeners): with passwords, SCRAM and OAuth tokens. It
// delays and bans clients that guess. The doors translate its errors to their protocols. Package directory stores the
// people.
package signin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/keep"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

// Reasons for a failed sign-in. Any other error, unless it is from package sasl, is an internal error of the server.
var (
	// ErrCredentials reports that the name or the password is wrong.
	ErrCredentials = errors.New("signin: wrong name or password")
	// ErrDisabled reports that the account is disabled. Only a client with the correct password gets this error.
	ErrDisabled = errors.New("signin: the account is disabled")
	// ErrBusy reports too many concurrent sign-ins. The client should retry later.
	ErrBusy = errors.New("signin: too many sign-ins at once")
	// ErrBanned reports that too many sign-ins from this address failed. The password was not checked.
	ErrBanned = errors.New("signin: too many failed sign-ins from this address")
	// ErrMechanism reports that the mechanism is not available.
	ErrMechanism = errors.New("signin: mechanism is not offered")
)

// People is the part of the directory that a Service needs.
type People interface {
	AuthenticateProof(ctx context.Context, user, secret, door string) (directory.Proof, error)
	Person(ctx context.Context, id note.UNID) (directory.Person, error)
	ScramCredentials(ctx context.Context, user string) ([]scram.Credentials, error)
	SignedIn(ctx context.Context, user string) (note.Who, directory.Person, error)
	Failed(ctx context.Context, user, door string)
	PersonNamed(ctx context.Context, user string) (directory.Person, error)
	MailFileOf(ctx context.Context, p *directory.Person) (note.DatabaseID, error)
	WhoOf(ctx context.Context, id note.UNID) (note.Who, error)
	Moved(ctx context.Context, person note.UNID) error
	Version() uint64
}

// Options are the settings of a Service. A zero value selects the default, in parentheses.
type Options struct {
	// SCRAM lists SCRAM-SHA-256 among the mechanisms. If it is false, a client can still use the mechanism unlisted.
	SCRAM bool
	// OAuth verifies tokens. If nil, tokens are not accepted.
	OAuth *oauth.Verifier
	// Failures (10) from one address within Window (10 min) cause a ban for Ban (1 h). Negative Failures turn counting
	// off.
	Failures    int
	Window, Ban time.Duration
	// Loopback also counts failures from this machine.
	Loopback bool
	// Guessed notifies a person that someone with the person's password entered wrong codes of the second factor. from
	// is the last address; locked reports that further codes are rejected for a while. If nil, people see it only at
	// their next sign-in.
	Guessed func(ctx context.Context, p *directory.Person, from string, locked bool) error
	// Keep stores bans across restarts. It may be nil.
	Keep  *keep.Table
	Stats *stat.Tree
}

// Service signs people in. Its methods are safe for concurrent use.
type Service struct {
	dir   People
	env   *env.Env
	opt   Options
	guard guard
	users *stat.Active
	// notices records the calls of Guessed.
	notices notices
}

// New returns a Service.
func New(d People, e *env.Env, o Options) *Service {
	s := &Service{dir: d, env: e, opt: o, users: o.Stats.Active("Server.Users", "users")}
	s.guard.init(e, &o)
	return s
}

// Attempt describes the origin of a sign-in.
type Attempt struct {
	Door   string     // for the log: "IMAP"
	Remote netip.Addr // the zero Addr on a Unix socket
	TLS    *tls.ConnectionState
	// Browser is the token of a browser in which a second factor was shown before, "" without one.
	Browser string
	// Certificate is the tls-server-end-point channel binding of the server's certificate, if known.
	Certificate []byte
}

// AttemptOf returns the Attempt of a connection.
func AttemptOf(c *listen.Conn, door string) Attempt {
	a := Attempt{Door: door, Remote: c.RemoteIP()}
	if state, ok := c.TLSState(); ok {
		a.TLS, a.Certificate = &state, c.EndPoint()
	}
	return a
}

// place returns a description of the attempt for the log.
func (a *Attempt) place() string {
	if !a.Remote.IsValid() {
		return a.Door
	}
	return a.Door + " " + a.Remote.String()
}

// bindings returns the channel bindings of the connection.
func (a *Attempt) bindings() (list []scram.Binding) {
	if b, ok := scram.Exporter(a.TLS); ok {
		list = append(list, b)
	}
	if a.TLS != nil && len(a.Certificate) > 0 {
		list = append(list, scram.Binding{Name: scram.TLSServerEndPoint, Data: a.Certificate})
	}
	return list
}

// Account describes a person who signed in.
type Account struct {
	Who      note.Who
	Name     string // canonical full name
	Address  string // internet address, or the first alias
	Database note.DatabaseID
	// Directory is the version of the directory against which the account was last checked, or 0 if the next Refresh
	// must check it.
	Directory uint64
	// Credential identifies the credential of the sign-in: the account's connection is closed when it ends. It is "" if
	// another component checks that.
	Credential string
}

// Mechanisms returns the SASL mechanisms to offer, the best first. A program that is offered SCRAM uses nothing else.
// The user is not known yet, so SCRAM is offered only if the setting says that the accounts have SCRAM credentials.
func (s *Service) Mechanisms(a Attempt) []string {
	list := make([]string, 0, 6)
	if s.plus(&a) {
		list = append(list, scram.MechanismPlus)
	}
	if s.opt.SCRAM {
		list = append(list, scram.Mechanism)
	}
	if s.opt.OAuth != nil {
		list = append(list, sasl.OAuthBearer, sasl.XOAuth2)
	}
	list = append(list, "PLAIN")
	if a.Door == "SMTP" || a.Door == "Submission" { // old SMTP programs support only LOGIN
		list = append(list, "LOGIN")
	}
	return list
}

// plus reports whether SCRAM-SHA-256-PLUS is offered.
func (s *Service) plus(a *Attempt) bool {
	return s.opt.SCRAM && a.TLS != nil && (a.TLS.Version >= tls.VersionTLS13 || len(a.Certificate) > 0)
}

// Password signs in with the account's password or an app password.
func (s *Service) Password(ctx context.Context, a Attempt, user, secret string) (Account, error) {
	if err := s.guard.enter(ctx, &a); err != nil {
		return Account{}, err
	}
	proof, err := s.dir.AuthenticateProof(ctx, user, secret, a.place())
	if errors.Is(err, directory.ErrAuthentication) || errors.Is(err, directory.ErrNotFound) {
		return Account{}, s.failed(ctx, &a, user, secret)
	}
	account, err := s.account(ctx, proof.Who, proof.Person, err)
	account.Credential = proofCredential(&proof)
	return account, err
}

// Account returns the account of a user for reading something that the user has made public, for example with a signed
// URL. It is not a sign-in. ErrDisabled: the account is disabled.
func (s *Service) Account(ctx context.Context, user string) (Account, error) {
	p, err := s.dir.PersonNamed(ctx, user)
	if err != nil {
		return Account{}, fmt.Errorf("signin: account of %q: %w", user, err)
	}
	who, err := s.dir.WhoOf(ctx, p.ID)
	if errors.Is(err, directory.ErrDisabled) {
		err = fmt.Errorf("%w: %w", ErrDisabled, err)
	}
	if err != nil {
		return Account{}, err
	}
	db, err := s.dir.MailFileOf(ctx, &p)
	if err != nil {
		return Account{}, fmt.Errorf("signin: mail file of %q: %w", p.Name(), err)
	}
	return Account{Who: who, Name: p.Name(), Address: p.InternetAddress, Database: db, Directory: who.Directory}, nil
}

// failed counts a wrong name or password, waits for the account's delay, and returns ErrCredentials. secret is "" if
// unknown.
func (s *Service) failed(ctx context.Context, a *Attempt, user, secret string) error {
	s.guard.failed(ctx, a, spelled(user), secret)
	return ErrCredentials
}

// spelled returns the same text for the usual spellings of a name, with or without a domain. It does not look the name
// up: a difference between existing and unknown users would reveal who exists.
func spelled(user string) string {
	if i := strings.LastIndexByte(user, '@'); i > 0 {
		user = user[:i]
	}
	return strings.ToLower(norm.NFKC.String(user))
}

// account converts the directory's answer to an Account. Only a client with the correct password gets a
// *directory.ElsewhereError.
func (s *Service) account(ctx context.Context, who note.Who, p directory.Person, err error) (Account, error) {
	return s.accountAt(ctx, who, p, err, false)
}

// accountAt works like account. web means that the door is a web door.
func (s *Service) accountAt(ctx context.Context, who note.Who, p directory.Person, err error,
	web bool) (Account, error) {
	switch {
	case errors.Is(err, directory.ErrNotFound):
		return Account{}, ErrCredentials
	case errors.Is(err, directory.ErrDisabled):
		return Account{}, fmt.Errorf("%w: %w", ErrDisabled, err)
	case errors.Is(err, password.ErrBusy):
		return Account{}, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return Account{}, err
	}
	db, err := s.dir.MailFileOf(ctx, &p)
	var elsewhere *directory.ElsewhereError
	if errors.As(err, &elsewhere) && web && directory.RequireAdmin(who) == nil {
		err = nil // administrators of the domain may sign in at every place, without mail
	}
	if err != nil {
		return Account{}, fmt.Errorf("signin: mail file of %q: %w", p.Name(), err)
	}
	s.users.Touch(p.ID)
	out := Account{Who: who, Name: p.Name(), Address: p.InternetAddress, Database: db, Directory: who.Directory}
	if all := p.Addresses(); out.Address == "" && len(all) > 0 {
		out.Address = all[0]
	}
	return out, nil
}

// Refresh updates an account's groups and roles, and reports whether the directory has changed. It is fast if the
// directory has not changed. It returns ErrDisabled if the account was disabled or removed, its credential has expired
// or was revoked, or its mail file has moved. The caller must then end the session.
func (s *Service) Refresh(ctx context.Context, a *Account) (changed bool, err error) {
	if s.ended(a.Credential) {
		return false, fmt.Errorf("%w: the token has expired", ErrDisabled)
	}
	if a.Directory == s.dir.Version() {
		return false, nil
	}
	who, err := s.dir.WhoOf(ctx, a.Who.Person)
	switch {
	case errors.Is(err, directory.ErrDisabled), errors.Is(err, directory.ErrNotFound):
		return false, fmt.Errorf("%w: %w", ErrDisabled, err)
	case err != nil:
		return false, fmt.Errorf("signin: %w", err)
	}
	if a.Credential != "" {
		p, err := s.dir.Person(ctx, a.Who.Person)
		if err != nil {
			return false, fmt.Errorf("signin: %w", err)
		}
		if !s.holds(&p, a.Credential) {
			return false, fmt.Errorf("%w: the password or token was revoked", ErrDisabled)
		}
	}
	var elsewhere *directory.ElsewhereError
	if err := s.dir.Moved(ctx, a.Who.Person); a.Database != 0 && errors.As(err, &elsewhere) {
		return false, fmt.Errorf("%w: %w", ErrDisabled, err) // disabled on this server only
	}
	a.Who, a.Directory = who, who.Directory
	return true, nil
}
