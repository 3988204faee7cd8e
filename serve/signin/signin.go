// Package signin is how people sign in at any door: passwords, SCRAM, tokens of OAuth, and what
// happens to those who guess. The doors carry its messages in their own words; who somebody is,
// the directory says.
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

// Why somebody is not signed in. What is none of these, nor of package sasl, is the server's own
// trouble.
var (
	// ErrCredentials: the name or the password is wrong.
	ErrCredentials = errors.New("signin: wrong name or password")
	// ErrDisabled: the account may not be used; told only to who has the password.
	ErrDisabled = errors.New("signin: the account is disabled")
	// ErrBusy: too many sign in at once; try again.
	ErrBusy = errors.New("signin: too many sign-ins at once")
	// ErrBanned: too many failed from this address; the password was not looked at.
	ErrBanned = errors.New("signin: too many failed sign-ins from this address")
	// ErrMechanism: there is no such mechanism here.
	ErrMechanism = errors.New("signin: mechanism is not offered")
)

// People is what a Service needs of the directory.
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

// Options are the settings of a Service. Zero values take the defaults.
type Options struct {
	// SCRAM offers SCRAM-SHA-256. Without it, a client that asks for it all the same is served.
	SCRAM bool
	// OAuth verifies tokens; nil offers none.
	OAuth *oauth.Verifier
	// Failures from one address within Window make a ban for Ban (10, 10 min, 1 h). Failures below 0
	// count nothing.
	Failures    int
	Window, Ban time.Duration
	// Loopback counts failures from this machine too.
	Loopback bool
	// Guessed tells a person that wrong codes of their second factor came with their password, the last one from an address;
	// locked: further ones are refused for a while. nil: they are told at sign-in alone.
	Guessed func(ctx context.Context, p *directory.Person, from string, locked bool) error
	// Keep is where bans outlive a restart; nil: nowhere.
	Keep  *keep.Table
	Stats *stat.Tree
}

// Service signs people in. Its methods may be called from any goroutine.
type Service struct {
	dir   People
	env   *env.Env
	opt   Options
	guard guard
	users *stat.Active
	// notices are those of Guessed.
	notices notices
}

// New makes a Service.
func New(d People, e *env.Env, o Options) *Service {
	s := &Service{dir: d, env: e, opt: o, users: o.Stats.Active("Server.Users", "users")}
	s.guard.init(e, &o)
	return s
}

// Attempt is where a sign-in comes from.
type Attempt struct {
	Door   string     // for the log: "IMAP"
	Remote netip.Addr // the zero Addr on a Unix socket
	TLS    *tls.ConnectionState
	// Browser is the token by which a browser is known in which a second factor was shown before; "": none.
	Browser string
	// Certificate is the channel binding of the certificate that the server showed, where it is known.
	Certificate []byte
}

// AttemptOf is a sign-in through a connection.
func AttemptOf(c *listen.Conn, door string) Attempt {
	a := Attempt{Door: door, Remote: c.RemoteIP()}
	if state, ok := c.TLSState(); ok {
		a.TLS, a.Certificate = &state, c.EndPoint()
	}
	return a
}

// place names an attempt in the log.
func (a *Attempt) place() string {
	if !a.Remote.IsValid() {
		return a.Door
	}
	return a.Door + " " + a.Remote.String()
}

// bindings are the channel bindings of the connection.
func (a *Attempt) bindings() (list []scram.Binding) {
	if b, ok := scram.Exporter(a.TLS); ok {
		list = append(list, b)
	}
	if a.TLS != nil && len(a.Certificate) > 0 {
		list = append(list, scram.Binding{Name: scram.TLSServerEndPoint, Data: a.Certificate})
	}
	return list
}

// Account is who signed in.
type Account struct {
	Who      note.Who
	Name     string // canonical full name
	Address  string // internet address, or the first alias
	Database note.DatabaseID
	// Directory is the version of the directory that this is of.
	Directory uint64
	// Credential names the credential of its sign-in, which ends it; "" where somebody else looks after that.
	Credential string
}

// Mechanisms are those of SASL to offer, the best first. A program that is offered SCRAM takes it and
// nothing else, so it is offered where the accounts' passwords have credentials for it, by setting:
// whose name will come is not known yet.
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
	if a.Door == "SMTP" || a.Door == "Submission" { // where old programs know nothing else
		list = append(list, "LOGIN")
	}
	return list
}

// plus says whether SCRAM-SHA-256-PLUS is offered.
func (s *Service) plus(a *Attempt) bool {
	return s.opt.SCRAM && a.TLS != nil && (a.TLS.Version >= tls.VersionTLS13 || len(a.Certificate) > 0)
}

// Password signs in with a password, that of the account or an app password.
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

// Account is that of a user in whose name something is read that the user has opened to others, as by a URL that is
// proved. It is no sign-in. ErrDisabled: the account may do nothing any more.
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

// failed counts a wrong name or password, and answers after the time that it costs by now. secret
// may be unknown, "".
func (s *Service) failed(ctx context.Context, a *Attempt, user, secret string) error {
	s.guard.failed(ctx, a, spelled(user), secret)
	return ErrCredentials
}

// spelled is one for the usual spellings of a name, with a domain or without. Who is behind it is not asked:
// what differs between those who exist and those who do not tells who does.
func spelled(user string) string {
	if i := strings.LastIndexByte(user, '@'); i > 0 {
		user = user[:i]
	}
	return strings.ToLower(norm.NFKC.String(user))
}

// account makes an Account of what the directory said. A *directory.ElsewhereError is told to who has the password.
func (s *Service) account(ctx context.Context, who note.Who, p directory.Person, err error) (Account, error) {
	return s.accountAt(ctx, who, p, err, false)
}

// accountAt is account at a web door, or another one.
func (s *Service) accountAt(ctx context.Context, who note.Who, p directory.Person, err error, web bool) (Account, error) {
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
		err = nil // who administers the domain does so at any place, without mail
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

// Refresh brings an account up to date, and says whether there was anything to do: groups and roles
// are those of today. It is quick where the directory has not changed. ErrDisabled: the account was
// disabled or removed meanwhile, or what it was signed in with has ended or was revoked, and it may do nothing more.
func (s *Service) Refresh(ctx context.Context, a *Account) (changed bool, err error) {
	if s.ended(a.Credential) {
		return false, fmt.Errorf("%w: the token has ended", ErrDisabled)
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
		return false, fmt.Errorf("%w: %w", ErrDisabled, err) // here, from now on
	}
	a.Who, a.Directory = who, who.Directory
	return true, nil
}
