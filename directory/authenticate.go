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
	s.renewed = t.Counter("Directory.Authentication.HashesRenewed", "stored passwords hashed anew with today's parameters")
}

// Proof is who signed in, and with what.
type Proof struct {
	Who    note.Who
	Person Person
	// App is the id of the app password; "" is the password of the account.
	App string
}

// SignIns verifies credentials, and counts and logs refused sign-ins.
type SignIns struct {
	*base
	names     *Names
	domains   *Domains
	passwords *Passwords
	secret    *Secret
	stat      authStats
}

// Authenticate signs a person in by full name, short name or address, with the password of the
// account or an app password. door names where, for the log. Errors: ErrAuthentication, which is
// the same, after the same time, for a wrong user and a wrong password; ErrDisabled, only to who
// knows the password; password.ErrBusy. Where the person has a second factor, the password of the
// account alone is ErrAuthentication too: this is for programs that cannot ask for a code.
func (in *SignIns) Authenticate(ctx context.Context, user, secret, door string) (note.Who, Person, error) {
	got, err := in.AuthenticateProof(ctx, user, secret, door)
	return got.Who, got.Person, err
}

// AuthenticateProof is Authenticate that tells which password it was.
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

// SignIn is Authenticate for who asks for the second factor itself: whether the person has one, the
// Proof tells.
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
	if !found || !ok {
		return Proof{}, in.refuse(ctx, user, door)
	}
	proof, err := in.admit(ctx, Proof{Person: p, App: app}, user, door)
	if err == nil && app == "" && password.Outdated(p.password) {
		in.renew(ctx, &p, secret)
	}
	return proof, err
}

// SignInToken signs in who shows an app password and no name, as a bearer token. Errors as Authenticate.
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

// tokenOwner finds whose app password has a hash.
func (in *SignIns) tokenOwner(ctx context.Context, hash string) (Person, error) {
	version := in.version.Load()
	key := cacheKey{kind: 't', text: hash}
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

// refuse counts a sign-in with a wrong user or password.
func (in *SignIns) refuse(ctx context.Context, user, door string) error {
	in.Failed(ctx, user, door)
	return ErrAuthentication
}

// admit counts a sign-in that proved who it is, and makes what the store checks.
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

// renew puts a hash of today in the place of one that was made with weaker parameters, or by
// another program. Now is the only time at which the password is known. Who signs in does so whether
// this works or not.
func (in *SignIns) renew(ctx context.Context, p *Person, secret string) {
	err := in.passwords.set(ctx, note.System, p.ID, secret, func(now *Person) (bool, error) {
		if now.password != p.password {
			return false, errMoved // it was changed meanwhile, and by whom is none of our business
		}
		return now.HasScram || in.opt.Scram && password.Foreign(now.password), nil
	}, true)
	switch {
	case err == nil:
		in.stat.renewed.Inc()
	case !errors.Is(err, errMoved) && in.env.Log != nil:
		in.env.Log.WarnContext(ctx, "directory: the hash of a password could not be renewed", "person", p.Name(), "err", err)
	}
}

// SignedIn makes a session of a person who proved themselves otherwise, as in SCRAM.
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

// verify checks a password against a person; one who does not exist costs the same. app is the id of
// the app password that it is.
func (in *SignIns) verify(ctx context.Context, p *Person, secret string) (ok bool, app string, err error) {
	if app, ok := in.appPassword(p, secret); ok {
		return true, app, nil
	}
	if p.password == "" {
		return false, "", in.passwords.pool.VerifyNobody(ctx, secret)
	}
	ok, err = in.passwords.pool.Verify(ctx, p.password, secret)
	return ok, "", err
}

// appPassword finds which of a person's app passwords a secret is.
func (in *SignIns) appPassword(p *Person, secret string) (id string, ok bool) {
	sum, ok := password.TokenHash(in.secret.raw, secret)
	if !ok {
		return "", false
	}
	// What is stored is hex, so that it can stand in a list of texts.
	hash := hex.AppendEncode(nil, sum[:])
	for i, t := range p.tokens {
		if hmac.Equal(hash, t) {
			return p.AppPasswords[i].ID, true
		}
	}
	return "", false
}

// Failed counts a sign-in that failed at a door by other means than Authenticate, as in SCRAM.
func (in *SignIns) Failed(ctx context.Context, user, door string) {
	in.stat.failed.Inc()
	in.log(ctx, "sign-in refused", user, door)
}

// ScramCredentials returns the SCRAM-SHA-256 credentials of all the passwords that a user has some
// for: the account's, where they opted in and have no second factor, and the app passwords. For who has
// none, and for users who do not exist, it makes some up that no password matches: always the same for one
// name. Errors are failures of the look-up itself.
func (in *SignIns) ScramCredentials(ctx context.Context, user string) ([]scram.Credentials, error) {
	p, err := in.names.PersonNamed(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("directory: SCRAM: %w", err)
	}
	// The fake is made in any case, so that the time tells nothing.
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

// normalUser is one for all spellings of a user: that a short name and the address made of it give the
// same credentials must not tell who exists.
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
