package signin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/directory/totp"
	"doublet/note"
)

// Additional reasons for a failed sign-in at a web door.
var (
	// ErrCode reports that the password is correct, but a code of the second factor is needed.
	ErrCode = errors.New("signin: a code of the second factor is needed")
	// ErrWrongCode reports that the password is correct, but the code is wrong or was used before.
	ErrWrongCode = errors.New("signin: the code of the second factor is wrong")
	// ErrApp reports that an app password was used at a sign-in for people.
	ErrApp = errors.New("signin: an app password is for programs only")
)

// CodesError reports too many wrong codes with a person's correct password. An unknown browser may try the next one
// only after After. It matches ErrBusy.
type CodesError struct{ After time.Time }

func (e *CodesError) Error() string {
	return "signin: too many wrong codes, try again after " + e.After.UTC().Format(time.RFC3339)
}

// Is reports whether target is ErrBusy.
func (e *CodesError) Is(target error) bool { return target == ErrBusy }

// WebPeople is the part of the directory that a Web needs, in addition to People.
type WebPeople interface {
	SignIn(ctx context.Context, user, secret, door string) (directory.Proof, error)
	SignInToken(ctx context.Context, token, door string) (directory.Proof, error)
	Person(ctx context.Context, id note.UNID) (directory.Person, error)
	UseRecoveryCode(ctx context.Context, person note.UNID, text string) (bool, error)
}

// Codes stores used codes and counts wrong ones. It also stores the last uses of passkeys.
type Codes interface {
	UseCode(ctx context.Context, person note.UNID, step int64) (fresh bool, err error)
	Guess(ctx context.Context, g session.Guess) (session.Guessing, error)
	Right(ctx context.Context, guess note.UNID) error
	WrongCodes(ctx context.Context, person note.UNID) (session.Wrong, error)
	UsePasskey(ctx context.Context, person note.UNID, passkey string, counter uint32) (bool, error)
	PasskeyUse(ctx context.Context, person note.UNID, passkey string) (session.PasskeyUse, error)
}

// Web signs in at web doors: people, with their second factor if they have one, and programs, with the credentials in
// each request. Failures at web doors count at all doors and vice versa. Its methods are safe for concurrent use.
type Web struct {
	*Service
	dir   WebPeople
	codes Codes
}

// Web returns a Web that uses the guard and settings of the Service.
func (s *Service) Web(d WebPeople, c Codes) *Web { return &Web{Service: s, dir: d, codes: c} }

// Proved describes a sign-in at a web door.
type Proved struct {
	Account
	// Credential identifies the credential of the sign-in (see Good).
	Credential string
	// PasswordID identifies the account's password. Passkey is the ID of the passkey that was used, "" without one.
	// Issuer is the URL of the issuer that signed the person in, "" without one. Second reports that a second factor
	// was used. AuthTime is the time when the issuer authenticated the person, zero if it does not say. Only Person,
	// Passkeys.SignIn and OpenID.Finish set them.
	PasswordID, Passkey, Issuer string
	Second                      bool
	AuthTime                    time.Time
}

// Person signs a person in with the account's password and, if they have a second factor, a code of it or a recovery
// code. Errors: those of Password, ErrCode, ErrWrongCode, ErrApp.
func (w *Web) Person(ctx context.Context, a Attempt, user, secret, code string) (Proved, error) {
	proof, err := w.prove(ctx, &a, user, secret)
	if err != nil {
		return Proved{}, err
	}
	p := &proof.Person
	switch {
	case proof.App != "":
		return Proved{}, ErrApp
	case p.HasTOTP() && strings.TrimSpace(code) == "":
		return Proved{}, ErrCode
	case p.HasTOTP():
		if err := w.code(ctx, &a, p, user, secret, code); err != nil {
			return Proved{}, err
		}
	}
	out, err := w.proved(ctx, &proof)
	out.PasswordID, out.Second = p.PasswordID, p.HasTOTP()
	return out, err
}

// Program signs a program in with a name and an app password, or with the password of an account without a second
// factor. Repeated sign-ins are fast, because the directory caches a success for a while. Errors: those of Password.
func (w *Web) Program(ctx context.Context, a Attempt, user, secret string) (Proved, error) {
	proof, err := w.prove(ctx, &a, user, secret)
	if err != nil {
		return Proved{}, err
	}
	if proof.App == "" && proof.Person.HasTOTP() {
		return Proved{}, w.failed(ctx, &a, user, secret)
	}
	return w.proved(ctx, &proof)
}

func (w *Web) prove(ctx context.Context, a *Attempt, user, secret string) (directory.Proof, error) {
	if err := w.guard.enter(ctx, a); err != nil {
		return directory.Proof{}, err
	}
	proof, err := w.dir.SignIn(ctx, user, secret, a.place())
	return proof, w.refused(ctx, a, user, secret, err)
}

// refused converts the directory's errors to those of this package, and counts failures.
func (w *Web) refused(ctx context.Context, a *Attempt, user, secret string, err error) error {
	switch {
	case errors.Is(err, directory.ErrAuthentication), errors.Is(err, directory.ErrNotFound):
		return w.failed(ctx, a, user, secret)
	case errors.Is(err, directory.ErrDisabled):
		return fmt.Errorf("%w: %w", ErrDisabled, err)
	case errors.Is(err, password.ErrBusy):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

func (w *Web) proved(ctx context.Context, proof *directory.Proof) (Proved, error) {
	account, err := w.accountAt(ctx, proof.Who, proof.Person, nil, true)
	account.Credential = proofCredential(proof)
	return Proved{Account: account, Credential: account.Credential}, err
}

// Bearer signs a program in with a token alone: an app password, or a token of the OAuth issuer.
func (w *Web) Bearer(ctx context.Context, a Attempt, token string) (Proved, error) {
	if err := w.guard.enter(ctx, &a); err != nil {
		return Proved{}, err
	}
	if w.opt.OAuth != nil && !password.IsToken(token) {
		return w.oauth(ctx, &a, token)
	}
	proof, err := w.dir.SignInToken(ctx, token, a.place())
	if err = w.refused(ctx, &a, nobody(token), token, err); err != nil {
		return Proved{}, err
	}
	return w.proved(ctx, &proof)
}

func (w *Web) oauth(ctx context.Context, a *Attempt, token string) (Proved, error) {
	name, ends, err := w.opt.OAuth.Verify(ctx, token)
	if errors.Is(err, oauth.ErrToken) {
		w.Service.dir.Failed(ctx, "", a.place())
		return Proved{}, w.failed(ctx, a, nobody(token), token)
	}
	if err != nil {
		return Proved{}, err
	}
	who, p, err := w.Service.dir.SignedIn(ctx, name)
	if errors.Is(err, directory.ErrNotFound) {
		return Proved{}, w.failed(ctx, a, nobody(token), token)
	}
	account, err := w.accountAt(ctx, who, p, err, true)
	account.Credential = credentialOf(ends)
	return Proved{Account: account, Credential: account.Credential}, err
}

// nobody returns the account name under which failures of a token without a name are counted. Such guesses delay only
// their address, no account. The name is listed, logged and mailed, and the token may be valid at another server, so
// the name contains only a hash of it.
func nobody(token string) string {
	sum := sha256.Sum256([]byte(token))
	return fmt.Sprintf("token %x", sum[:4])
}

// code checks and uses up a second-factor code of a person who gave the correct password.
func (w *Web) code(ctx context.Context, a *Attempt, p *directory.Person, user, secret, code string) error {
	g := session.Guess{Person: p.ID, PasswordID: p.PasswordID, Browser: a.Browser}
	if a.Remote.IsValid() {
		g.Address = a.Remote.String()
	}
	guessing, err := w.codes.Guess(ctx, g)
	if err != nil {
		return err
	}
	if guessing.ID.IsZero() {
		w.tell(ctx, p, g.Address, true)
		return &CodesError{guessing.After}
	}
	step, ok := p.CheckTOTP(code, w.env.Clock.Now())
	if ok {
		ok, err = w.codes.UseCode(ctx, p.ID, step)
	} else if ok, err = w.dir.UseRecoveryCode(ctx, p.ID, code); ok {
		ok, err = w.codes.UseCode(ctx, p.ID, recoveryStep(code)) // another server of the cluster may have just used it
	}
	switch {
	case err != nil:
		return err
	case ok:
		return w.codes.Right(ctx, guessing.ID)
	}
	w.tell(ctx, p, g.Address, false)
	_ = w.failed(ctx, a, user, secret+"\x00"+code)
	return ErrWrongCode
}

// recoveryStep returns a number that represents a recovery code as a time step. Real steps are never negative.
func recoveryStep(code string) int64 {
	sum, _ := totp.RecoveryHash(nil, code)
	return -1 - int64(binary.BigEndian.Uint64(sum[:])>>1)
}

// ConfirmCode uses up the step of a correct code for a new secret. A person who is already signed in calls it to set up
// a second factor.
func (w *Web) ConfirmCode(ctx context.Context, person note.UNID, step int64) (bool, error) {
	return w.codes.UseCode(ctx, person, step)
}

// Known returns the Account of a person who signed in earlier. ErrDisabled: the person was disabled or removed.
func (w *Web) Known(ctx context.Context, id note.UNID) (Account, directory.Person, error) {
	p, err := w.dir.Person(ctx, id)
	if err == nil && !p.Removed.IsZero() {
		err = directory.ErrNotFound
	}
	if errors.Is(err, directory.ErrNotFound) {
		return Account{}, p, fmt.Errorf("%w: %w", ErrDisabled, err)
	}
	if err != nil {
		return Account{}, p, err
	}
	who, err := w.Service.dir.WhoOf(ctx, id)
	if errors.Is(err, directory.ErrNotFound) {
		err = directory.ErrDisabled
	}
	account, err := w.accountAt(ctx, who, p, err, true)
	return account, p, err
}

// Good returns nil if a program's credential from Proved is still valid. Errors: ErrDisabled, ErrCredentials.
func (w *Web) Good(ctx context.Context, id note.UNID, credential string) error {
	_, p, err := w.Known(ctx, id)
	if err != nil {
		return err
	}
	if credential == "" || !w.holds(&p, credential) {
		return ErrCredentials
	}
	return nil
}
