package signin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/directory/passkey"
	"doublet/note"
)

var (
	// ErrPasskey reports that the response of a browser does not prove that somebody has a passkey of a person here.
	ErrPasskey = errors.New("signin: the passkey is not valid here")
	// ErrLate reports that the response of a browser came more than passkey.Life after the request.
	ErrLate = errors.New("signin: the challenge of the passkey has expired")
)

// Passkeys signs people in at web doors with passkeys, and registers them. A passkey counts as both factors, because
// the device verifies the person. Failures count at all doors. Its methods are safe for concurrent use.
type Passkeys struct {
	web        *Web
	stored     *directory.Passkeys
	party      *passkey.Party
	challenges *passkey.Challenges
}

// Passkeys returns the Passkeys of a relying party. key is secret, and the same at all servers of the domain.
func (w *Web) Passkeys(d *directory.Passkeys, party *passkey.Party, key []byte) *Passkeys {
	return &Passkeys{web: w, stored: d, party: party, challenges: passkey.NewChallenges(w.env, key)}
}

// PasskeyUse is a passkey with the time of its last use, zero if it was not used.
type PasskeyUse struct {
	directory.Passkey
	Used time.Time
}

// purposeSignIn is the purpose of challenges for signing in.
const purposeSignIn = "sign in"

// Request returns the options with which a browser shows a passkey.
func (k *Passkeys) Request() (passkey.Request, error) {
	return k.party.Request(k.challenges.Issue(purposeSignIn))
}

// SignIn signs in the person who holds the passkey in a browser's response to Request. Errors: ErrPasskey, ErrLate,
// ErrDisabled, ErrBanned, ErrBusy.
func (k *Passkeys) SignIn(ctx context.Context, a Attempt, response []byte) (Proved, error) {
	w := k.web
	if err := w.guard.enter(ctx, &a); err != nil {
		return Proved{}, err
	}
	shown, err := passkey.ParseAssertion(response)
	if err == nil {
		err = k.challenges.Check(purposeSignIn, shown.Challenge())
	}
	if errors.Is(err, passkey.ErrExpired) {
		return Proved{}, ErrLate
	}
	var p directory.Person
	var held directory.Passkey
	if err == nil {
		p, held, err = k.verify(ctx, shown)
	}
	if err != nil {
		return Proved{}, k.refused(ctx, &a, shown, response, err)
	}
	account, p, err := w.Known(ctx, p.ID)
	if err != nil {
		return Proved{}, err
	}
	if err := k.use(ctx, &p, &held, shown); err != nil {
		return Proved{}, k.refused(ctx, &a, shown, response, err)
	}
	return Proved{Account: account, PasswordID: p.PasswordID, Passkey: held.ID, Second: true}, nil
}

// verify returns the person and the passkey that a response proves. Errors: passkey.ErrWrong, passkey.ErrCloned.
func (k *Passkeys) verify(ctx context.Context, a *passkey.Assertion) (p directory.Person, held directory.Passkey,
	err error) {
	var id note.UNID
	if len(a.Holder()) != len(id) {
		return p, held, fmt.Errorf("%w: a user handle of %d bytes", passkey.ErrWrong, len(a.Holder()))
	}
	copy(id[:], a.Holder())
	p, err = k.web.dir.Person(ctx, id)
	if err != nil && !errors.Is(err, directory.ErrNotFound) {
		return p, held, err
	}
	held, ok := p.PasskeyOf(a.Credential())
	if err != nil || !ok || !p.Removed.IsZero() {
		return p, held, fmt.Errorf("%w: no person has the passkey", passkey.ErrWrong)
	}
	return p, held, k.party.Verify(&passkey.Holder{ID: p.ID[:], Have: []passkey.Credential{held.Credential}}, a)
}

// use uses up the challenge of a verified response, and stores the use of the passkey.
func (k *Passkeys) use(ctx context.Context, p *directory.Person, held *directory.Passkey, a *passkey.Assertion) error {
	fresh, err := k.web.codes.UseCode(ctx, p.ID, challengeStep(a.Challenge()))
	if err != nil {
		return err
	}
	if !fresh {
		return fmt.Errorf("%w: the challenge was used before", passkey.ErrWrong)
	}
	ok, err := k.web.codes.UsePasskey(ctx, p.ID, held.ID, a.Counter())
	if err == nil && !ok {
		err = passkey.ErrCloned
	}
	return err
}

// challengeStep returns a number that represents a challenge as a time step, as recoveryStep does for a recovery code.
func challengeStep(challenge []byte) int64 {
	sum := sha256.Sum256(challenge)
	return -1 - int64(binary.BigEndian.Uint64(sum[:])>>1)
}

// refused counts a response that is wrong, and returns ErrPasskey. shown is nil if it cannot be parsed.
func (k *Passkeys) refused(ctx context.Context, a *Attempt, shown *passkey.Assertion, response []byte,
	err error) error {
	cloned := errors.Is(err, passkey.ErrCloned)
	if !cloned && !errors.Is(err, passkey.ErrWrong) {
		return err
	}
	var holder []byte
	if shown != nil {
		holder = shown.Holder()
	}
	if cloned {
		k.web.env.Log.Warn("passkey refused: its signature counter went back, somebody may have a copy of it",
			"person", fmt.Sprintf("%x", holder), "place", a.place())
	} else {
		k.web.env.Log.Debug("passkey refused", "place", a.place(), "error", err)
	}
	_ = k.web.failed(ctx, a, fmt.Sprintf("passkey %x", holder), string(response))
	return ErrPasskey
}

// purposeOf returns the purpose of challenges for registering in a session.
func purposeOf(person, session note.UNID) string {
	return "register " + person.String() + " " + session.String()
}

func holderOf(p *directory.Person) *passkey.Holder {
	name := p.InternetAddress
	if name == "" {
		name = p.Name()
	}
	h := &passkey.Holder{ID: p.ID[:], Name: name, Display: p.Name()}
	for _, x := range p.Passkeys {
		h.Have = append(h.Have, x.Credential)
	}
	return h
}

// Creation returns the options with which a browser creates a passkey for a person who has proved their password in a
// session, for JSON.
func (k *Passkeys) Creation(p *directory.Person, session note.UNID) (any, error) {
	return k.party.Creation(holderOf(p), k.challenges.Issue(purposeOf(p.ID, session)))
}

// Add adds the passkey in a browser's response to Creation in the same session. Errors: ErrPasskey, ErrLate,
// directory.ErrInvalid.
func (k *Passkeys) Add(ctx context.Context, who note.Who, p *directory.Person, session note.UNID, name string,
	response []byte) (directory.Passkey, error) {
	made, err := passkey.ParseCreated(response)
	if err == nil {
		err = k.challenges.Check(purposeOf(p.ID, session), made.Challenge())
	}
	if errors.Is(err, passkey.ErrExpired) {
		return directory.Passkey{}, ErrLate
	}
	var c passkey.Credential
	if err == nil {
		c, err = k.party.Register(holderOf(p), made)
	}
	if err != nil {
		return directory.Passkey{}, fmt.Errorf("%w: %w", ErrPasskey, err)
	}
	fresh, err := k.web.codes.UseCode(ctx, p.ID, challengeStep(made.Challenge()))
	if err == nil && !fresh {
		err = fmt.Errorf("%w: the challenge was used before", ErrPasskey)
	}
	if err != nil {
		return directory.Passkey{}, err
	}
	return k.stored.Add(ctx, who, p.ID, name, c)
}

// Remove removes a passkey. Sessions that began with it end. Errors: directory.ErrNotFound.
func (k *Passkeys) Remove(ctx context.Context, who note.Who, person note.UNID, id string) error {
	return k.stored.Remove(ctx, who, person, id)
}

// List returns the passkeys of a person with their last uses.
func (k *Passkeys) List(ctx context.Context, p *directory.Person) ([]PasskeyUse, error) {
	list := make([]PasskeyUse, 0, len(p.Passkeys))
	for _, x := range p.Passkeys {
		use, err := k.web.codes.PasskeyUse(ctx, p.ID, x.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, PasskeyUse{x, use.At})
	}
	return list, nil
}
