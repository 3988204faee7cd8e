package directory

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"doublet/directory/password"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/scram"
)

// authStats counts sign-ins.
type authStats struct {
	ok, app, failed, disabled, renewed *stat.Counter
}

func (s *authStats) init(t *stat.Tree) {
	s.ok = t.Counter("Directory.Authentication.Succeeded", "sign-ins with a password")
	s.app = t.Counter("Directory.Authentication.AppPassword", "sign-ins with an app password")
	s.failed = t.Counter("Directory.Authentication.Failed", "sign-ins with a wrong user or password")
	s.disabled = t.Counter("Directory.Authentication.Disabled", "sign-ins of disabled people")
	s.renewed = t.Counter("Directory.Authentication.HashesRenewed",
		"stored passwords hashed anew with today's parameters")
}

// Proof holds the person who signed in, and the password that they used.
type Proof struct {
	Who    note.Who
	Person Person
	// App is the id of the app password; "" is the account's password.
	App string
}

// SignIns verifies credentials. It counts and logs rejected sign-ins.
type SignIns struct {
	*base
	names     *Names
	domains   *Domains
	passwords *Passwords
	secret    *Secret
	stat      authStats
	// assistance checks passwords that other directories keep; people adds those who sign in for the first time.
	assistance *Assistance
	people     *People
}

// Authenticate signs a person in by full name, short name or address, with the account's password or an app password.
// door is the name of the door, for the log. Errors: ErrAuthentication, which takes the same time for a wrong user and
// a wrong password; ErrDisabled, only if the password is correct; password.ErrBusy; assist.ErrAway
// if another directory keeps the password and cannot be reached. If the person has a second factor,
// the account's password alone is ErrAuthentication too, because callers of Authenticate cannot ask for a code.
func (in *SignIns) Authenticate(ctx context.Context, user, secret, door string) (note.Who, Person, error) {
	got, err := in.AuthenticateProof(ctx, user, secret, door)
	return got.Who, got.Person, err
}

// AuthenticateProof is Authenticate, but also returns which password was used.
func (in *SignIns) AuthenticateProof(ctx context.Context, user, secret, door string) (Proof, error) {
	got, err := in.SignIn(ctx, user, secret, door)
	if err == nil && got.App == "" && got.Person.HasTOTP() {
		in.log(ctx, "sign-in refused: an app password is needed where a second factor is on", user, door)
		err = fmt.Errorf("%w: an app password is needed", ErrAuthentication)
	}
	if err != nil {
		return Proof{}, err
	}
	return got, nil
}

// SignIn is Authenticate for callers that ask for the second factor themselves. They must check Proof.Person.HasTOTP.
func (in *SignIns) SignIn(ctx context.Context, user, secret, door string) (Proof, error) {
	p, err := in.names.PersonNamed(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	found := err == nil
	ok, app, err := in.verify(ctx, &p, secret)
	if err != nil {
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	if !found {
		if p, found, err = in.assistance.enroll(ctx, in.people, user, secret); err != nil {
			return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
		}
		ok = found
	}
	if !ok {
		return Proof{}, in.refuse(ctx, user, door)
	}
	proof, err := in.admit(ctx, Proof{Person: p, App: app}, user, door)
	if err == nil && p.password != "" && app == "" && password.Outdated(p.password) {
		in.renew(ctx, &p, secret)
	}
	return proof, err
}

// SignInToken signs in by an app password without a user name, as a bearer token. Errors are those of Authenticate.
func (in *SignIns) SignInToken(ctx context.Context, token, door string) (Proof, error) {
	sum, ok := password.TokenHash(in.secret.raw, token)
	if !ok {
		return Proof{}, in.refuse(ctx, "", door)
	}
	p, err := in.tokenOwner(ctx, hex.EncodeToString(sum[:]))
	switch {
	case errors.Is(err, ErrNotFound):
		return Proof{}, in.refuse(ctx, "", door)
	case err != nil:
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	app, ok := in.appPassword(&p, token)
	if !ok {
		return Proof{}, in.refuse(ctx, "", door)
	}
	return in.admit(ctx, Proof{Person: p, App: app}, p.Name(), door)
}

// tokenOwner finds the person with the app password that has the given hash, in hex.
func (in *SignIns) tokenOwner(ctx context.Context, hash string) (Person, error) {
	version := in.version.Load()
	key := cacheKey{kind: 'k', text: hash}
	if a, ok := in.names.cache.get(key, version); ok {
		return *a.person, nil
	}
	var p Person
	err := in.read(ctx, func(r *store.Reader) error {
		ids, err := r.Lookup(indexTokens, []byte(hash))
		if err == nil && len(ids) == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		row, err := r.Note(ids[0])
		if err != nil {
			return err
		}
		found, err := in.names.person(ctx, r, row.UNID)
		if err == nil {
			p = *found
		}
		return err
	})
	if err == nil {
		in.names.cache.put(key, version, answer{person: &p})
	}
	return p, err
}

// refuse counts and logs a sign-in with a wrong user or password.
func (in *SignIns) refuse(ctx context.Context, user, door string) error {
	in.Failed(ctx, user, door)
	return ErrAuthentication
}

// admit counts an authenticated sign-in and adds the identity with which the store checks access.
func (in *SignIns) admit(ctx context.Context, proof Proof, user, door string) (Proof, error) {
	who, err := in.names.WhoOf(ctx, proof.Person.ID)
	switch {
	case errors.Is(err, ErrDisabled):
		in.stat.disabled.Inc()
		in.log(ctx, "sign-in of a disabled account refused", user, door)
		return Proof{}, err
	case errors.Is(err, ErrNotFound):
		in.stat.failed.Inc()
		return Proof{}, ErrAuthentication
	case err != nil:
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	proof.Who = who
	if proof.App != "" {
		in.stat.app.Inc()
	} else {
		in.stat.ok.Inc()
	}
	return proof, nil
}

// renew replaces a password hash that was made with weaker parameters or by another program. It runs at sign-in,
// because the password is known only then. The sign-in succeeds even if renew fails.
func (in *SignIns) renew(ctx context.Context, p *Person, secret string) {
	err := in.passwords.set(ctx, note.System, p.ID, secret, func(now *Person) (bool, error) {
		if now.password != p.password {
			return false, errMoved // the password was changed meanwhile: keep the new one
		}
		return now.HasScram || in.opt.Scram && password.Foreign(now.password), nil
	}, true)
	switch {
	case err == nil:
		in.stat.renewed.Inc()
	case !errors.Is(err, errMoved) && in.env.Log != nil:
		in.env.Log.WarnContext(ctx, "directory: the hash of a password could not be renewed", "person", p.Name(),
			"err", err)
	}
}

// SignedIn returns the identity of a person who was authenticated by other means, such as SCRAM.
func (in *SignIns) SignedIn(ctx context.Context, user string) (note.Who, Person, error) {
	p, err := in.names.PersonNamed(ctx, user)
	if err != nil {
		return note.Who{}, Person{}, err
	}
	who, err := in.names.WhoOf(ctx, p.ID)
	if err != nil {
		return note.Who{}, Person{}, err
	}
	in.stat.ok.Inc()
	return who, p, nil
}

func (in *SignIns) log(ctx context.Context, what, user, door string) {
	if in.env.Log != nil {
		in.env.Log.InfoContext(ctx, what, "user", user[:min(len(user), maxName)], "door", door)
	}
}

// verify checks a password of a person. It takes the same time if the person does not exist. app is the id of the
// matching app password, "" for the account's password.
func (in *SignIns) verify(ctx context.Context, p *Person, secret string) (ok bool, app string, err error) {
	if app, ok := in.appPassword(p, secret); ok {
		return true, app, nil
	}
	if !p.Assistance.IsZero() {
		ok, err = in.assistance.verify(ctx, p, secret)
		return ok, "", err
	}
	if p.password == "" {
		return false, "", in.passwords.pool.VerifyNobody(ctx, secret)
	}
	ok, err = in.passwords.pool.Verify(ctx, p.password, secret)
	return ok, "", err
}

// appPassword returns the id of the person's app password that matches a secret.
func (in *SignIns) appPassword(p *Person, secret string) (id string, ok bool) {
	sum, ok := password.TokenHash(in.secret.raw, secret)
	if !ok {
		return "", false
	}
	// The stored hash is hex, so that it can be an element of a text list.
	hash := hex.AppendEncode(nil, sum[:])
	for i, t := range p.tokens {
		if hmac.Equal(hash, t) {
			return p.AppPasswords[i].ID, true
		}
	}
	return "", false
}

// Failed counts and logs a failed sign-in at a door that does not use Authenticate, such as SCRAM.
func (in *SignIns) Failed(ctx context.Context, user, door string) {
	in.stat.failed.Inc()
	in.log(ctx, "sign-in refused", user, door)
}

// ScramCredentials returns the SCRAM-SHA-256 credentials of all of a user's passwords that have some. These are the
// account's password, if it has credentials and the person has no second factor, and the app passwords. For a disabled,
// unknown or credential-less user it returns fake credentials that no password matches. They are always the same for
// one name. An error means that the lookup itself failed.
func (in *SignIns) ScramCredentials(ctx context.Context, user string) ([]scram.Credentials, error) {
	p, err := in.names.PersonNamed(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("directory: SCRAM: %w", err)
	}
	// Always compute the fake credentials, so that the time does not reveal anything.
	fake := scram.Fake(in.secret.key("scram"), in.normalUser(ctx, user), in.opt.ScramIterations)
	list := p.scram
	if p.HasScram && p.HasTOTP() {
		list = list[1:]
	}
	if err == nil && len(list) > 0 && !p.Disabled {
		return list, nil
	}
	return []scram.Credentials{fake}, nil
}

// normalUser returns the same text for all spellings of a user. An existing user has the same credentials under the
// short name and the address, so fake credentials must not differ between them: the difference would reveal that the
// user does not exist.
func (in *SignIns) normalUser(ctx context.Context, user string) string {
	if i := strings.LastIndexByte(user, '@'); i > 0 {
		if local, err := in.domains.IsLocal(ctx, user[i+1:]); err == nil && local {
			user = user[:i]
		}
	}
	if k := keyOf(user); k != nil {
		return string(k)
	}
	return user
}
