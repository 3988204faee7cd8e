package signin

import (
	"context"
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

// Why somebody is not signed in at a web door, beside what keeps them out of the others.
var (
	// ErrCode: the password is right, and a code of the second factor is needed.
	ErrCode = errors.New("signin: a code of the second factor is needed")
	// ErrWrongCode: the password is right, and the code is not, or was used before.
	ErrWrongCode = errors.New("signin: the code of the second factor is wrong")
	// ErrApp: an app password, where people sign in and not programs.
	ErrApp = errors.New("signin: an app password is for programs only")
)

// CodesError says that too many wrong codes were given with a person's password: from a browser that is not known, the next
// one may be tried only later. It is an ErrBusy.
type CodesError struct{ After time.Time }

func (e *CodesError) Error() string {
	return "signin: too many wrong codes, try again after " + e.After.UTC().Format(time.RFC3339)
}

// Is makes it an ErrBusy.
func (e *CodesError) Is(target error) bool { return target == ErrBusy }

// WebPeople is what a Web needs of the directory, beside what its Service does.
type WebPeople interface {
	SignIn(ctx context.Context, user, secret, door string) (directory.Proof, error)
	SignInToken(ctx context.Context, token, door string) (directory.Proof, error)
	Person(ctx context.Context, id note.UNID) (directory.Person, error)
	UseRecoveryCode(ctx context.Context, person note.UNID, text string) (bool, error)
}

// Codes keeps account of the codes that were used.
type Codes interface {
	UseCode(ctx context.Context, person note.UNID, step int64) (fresh bool, err error)
	Guess(ctx context.Context, g session.Guess) (session.Guessing, error)
	Right(ctx context.Context, guess note.UNID) error
	WrongCodes(ctx context.Context, person note.UNID) (session.Wrong, error)
}

// Web signs in at web doors: people with a second factor where they have one, programs with what they show in
// each request. What failed there counts at all doors, and the other way round. Its methods may be called from
// any goroutine.
type Web struct {
	*Service
	dir   WebPeople
	codes Codes
}

// Web makes one.
func (s *Service) Web(d WebPeople, c Codes) *Web { return &Web{Service: s, dir: d, codes: c} }

// Proved is who signed in at a web door, and with what.
type Proved struct {
	Account
	// Credential names what it was done with, for as long as that is good (see Good).
	Credential string
	// PasswordID is that of the account's password, Second says that there was a second factor; both are only
	// of Person.
	PasswordID string
	Second     bool
}

// Person signs a person in with the password of the account and, where they have a second factor, a code of
// it or a recovery code. Errors: those of Password, ErrCode, ErrWrongCode, ErrApp.
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

// Program signs a program in with a name and an app password, or the password of an account without a second
// factor. A success costs little when it comes again: the directory remembers it for a while. Errors: those
// of Password.
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

// refused turns what the directory says into what this room does, and counts it.
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

// Bearer signs a program in with a token alone: an app password, or one of the issuer of OAuth.
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

// nobody is what a token without a name is counted by: guesses do not slow down each other's accounts, only
// their address.
func nobody(token string) string { return token[:min(len(token), 64)] }

// code checks a code of a person who has given the right password, and uses it up.
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
		ok, err = w.codes.UseCode(ctx, p.ID, recoveryStep(code)) // another server of a cluster may have taken it just now
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

// recoveryStep stands for a recovery code among the time steps, which are never below 0.
func recoveryStep(code string) int64 {
	sum, _ := totp.RecoveryHash(nil, code)
	return -1 - int64(binary.BigEndian.Uint64(sum[:])>>1)
}

// ConfirmCode is code for who is signed in already and sets up a second factor: step is that of a code which
// was good for the new secret.
func (w *Web) ConfirmCode(ctx context.Context, person note.UNID, step int64) (bool, error) {
	return w.codes.UseCode(ctx, person, step)
}

// Known makes the Account of a person who signed in before. ErrDisabled: they may do nothing more.
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

// Good says whether a credential of a program, as Proved has it, still signs its person in. Errors:
// ErrDisabled, ErrCredentials.
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
