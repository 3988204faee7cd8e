package signin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/note"
)

var (
	// ErrIssuer reports that the response of the issuer does not sign anybody in.
	ErrIssuer = errors.New("signin: the response of the issuer is not valid here")
	// ErrStranger reports that the directory has no person with the name from the issuer.
	ErrStranger = errors.New("signin: the directory has no person with the name from the issuer")
	// ErrNotAgain reports that the issuer does not prove that it authenticated a person again.
	ErrNotAgain = errors.New("signin: the issuer did not authenticate the person again")
	// ErrOther reports that a person who should sign in again signed in as another one.
	ErrOther = errors.New("signin: another person signed in again")
)

// OpenID signs people in at web doors with an OpenID Connect issuer. The issuer proves both factors, because it decides
// how people sign in there. Its methods are safe for concurrent use.
//
// A sign-in in progress takes no memory here: its secrets are in a ticket, which the browser keeps and returns. A
// ticket carries its expiry and a MAC, so that each server of the domain knows the tickets of the others.
type OpenID struct {
	web    *Web
	client *oauth.Client
	key    []byte
}

// OpenID returns the sign-in with an issuer. key is secret, and the same at all servers of the domain.
func (w *Web) OpenID(client *oauth.Client, key []byte) *OpenID { return &OpenID{w, client, key} }

// Issuer returns the URL of the issuer.
func (o *OpenID) Issuer() string { return o.client.Issuer() }

// OpenIDLife is the time within which a person must sign in at the issuer.
const OpenIDLife = 10 * time.Minute

// clockError is the accepted difference between the clocks of this server and the issuer.
const clockError = time.Minute

// maxTicket bounds a ticket in bytes. Browsers keep cookies of up to 4,096.
const maxTicket = 4000

// Wish is the wish of a person for the session after a sign-in.
type Wish struct {
	// Keep makes the session persist when the browser is closed. To is the path to go to, "" for the default.
	Keep bool   `json:"keep,omitempty"`
	To   string `json:"to,omitempty"`
	// Again is set if the person of a session proves themselves again. The new session replaces that one.
	Again *Again `json:"again,omitempty"`
}

// Again identifies the session of a person who proves themselves again.
type Again struct {
	Person  note.UNID `json:"person"`
	Session note.UNID `json:"session"`
}

type ticket struct {
	oauth.Flow
	Wish
	Ends int64 `json:"ends"` // Unix seconds
}

// Begin returns the address of the issuer at which a person signs in, and the ticket for Finish.
func (o *OpenID) Begin(ctx context.Context, wish Wish) (address, sealed string, err error) {
	t := ticket{Wish: wish, Ends: o.web.env.Clock.Now().Add(OpenIDLife).Unix()}
	for _, p := range []*string{&t.State, &t.Nonce, &t.Proof} {
		var b [32]byte
		o.web.env.Fill(b[:])
		*p = base64.RawURLEncoding.EncodeToString(b[:])
	}
	if address, err = o.client.Begin(ctx, t.Flow, wish.Again != nil); err != nil {
		return "", "", err
	}
	body, err := json.Marshal(&t)
	if err != nil {
		return "", "", err
	}
	text := base64.RawURLEncoding.EncodeToString(body)
	return address, text + "." + o.mac(text), nil
}

func (o *OpenID) mac(text string) string {
	m := hmac.New(sha256.New, o.key)
	m.Write([]byte("openid ticket\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// open reads a ticket. Errors: ErrIssuer, ErrLate.
func (o *OpenID) open(sealed string) (t ticket, err error) {
	text, mac, _ := strings.Cut(sealed, ".")
	if len(sealed) > maxTicket || !hmac.Equal([]byte(mac), []byte(o.mac(text))) {
		return t, fmt.Errorf("%w: no ticket of this server", ErrIssuer)
	}
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	switch {
	case err != nil:
		return t, fmt.Errorf("%w: %w", ErrIssuer, err)
	case o.web.env.Clock.Now().Unix() >= t.Ends:
		return t, ErrLate
	}
	return t, nil
}

// Finish signs in the person for whom the issuer sent a browser back with a state and a code, both "" if the issuer
// refused. sealed is the ticket that the browser kept. The caller must check that the session of Wish.Again goes on.
// Errors: ErrIssuer, ErrStranger, ErrLate, ErrNotAgain, ErrOther, ErrDisabled, ErrBanned, ErrBusy. Any other error
// means that the issuer could not be asked.
func (o *OpenID) Finish(ctx context.Context, a Attempt, sealed, state, code string) (Proved, Wish, error) {
	if err := o.web.guard.enter(ctx, &a); err != nil {
		return Proved{}, Wish{}, err
	}
	t, err := o.open(sealed)
	if err == nil && !hmac.Equal([]byte(state), []byte(t.State)) {
		err = fmt.Errorf("%w: the state is of another sign-in", ErrIssuer)
	}
	if err == nil && code == "" {
		err = fmt.Errorf("%w: the issuer signed nobody in", ErrIssuer)
	}
	if err != nil {
		// No failure is counted: nothing can be guessed here, and any web page can cause such a request.
		o.web.env.Log.Debug("sign-in with the issuer refused", "place", a.place(), "error", err)
		return Proved{}, t.Wish, err
	}
	name, at, err := o.client.Finish(ctx, t.Flow, code)
	if errors.Is(err, oauth.ErrToken) {
		err = fmt.Errorf("%w: %w", ErrIssuer, err)
	}
	if err != nil {
		return Proved{}, t.Wish, o.refused(ctx, &a, code, err)
	}
	who, p, err := o.web.Service.dir.SignedIn(ctx, name)
	if errors.Is(err, directory.ErrNotFound) {
		o.web.env.Log.Info("sign-in with the issuer: the directory has no such person", "name", name)
		return Proved{}, t.Wish, o.refused(ctx, &a, code, ErrStranger)
	}
	account, err := o.web.accountAt(ctx, who, p, err, true)
	said := at
	at = o.authTime(said)
	if err == nil {
		if err = t.check(account.Who.Person, at); err != nil {
			o.web.env.Log.Info("sign-in again with the issuer refused", "person", account.Name, "place", a.place(),
				"auth_time", said, "error", err)
		}
	}
	return Proved{Account: account, PasswordID: p.PasswordID, Issuer: o.Issuer(), Second: true, AuthTime: at},
		t.Wish, err
}

// authTime returns the time of a person's proof on which a session may rely, given the time that the issuer said: never
// later than now. It is zero if the issuer said none, or one in the future: then the person may have proved themselves
// at any time before, because the issuer has sessions of its own.
func (o *OpenID) authTime(said time.Time) time.Time {
	now := o.web.env.Clock.Now()
	switch {
	case said.After(now.Add(clockError)):
		return time.Time{}
	case said.After(now):
		return now.UTC()
	}
	return said.UTC()
}

// check checks the proof of a person who should sign in again: the person of the session, authenticated after the
// request. Its errors do not count as failed sign-ins: the issuer has signed the person in, so nothing was guessed, and
// an issuer that never says the time must not get its people banned.
//
// The request asks the issuer for a new authentication, but passes through the browser, and some issuers ignore it.
// Only the time in the token proves it.
func (t *ticket) check(person note.UNID, at time.Time) error {
	asked := time.Unix(t.Ends, 0).Add(-OpenIDLife)
	switch {
	case t.Again == nil:
		return nil
	case t.Again.Person != person:
		return ErrOther
	case at.Before(asked.Add(-clockError)):
		return ErrNotAgain
	}
	return nil
}

// refused counts a response with a valid ticket that signs nobody in, and returns its error.
func (o *OpenID) refused(ctx context.Context, a *Attempt, code string, err error) error {
	if errors.Is(err, ErrIssuer) || errors.Is(err, ErrStranger) {
		o.web.env.Log.Debug("sign-in with the issuer refused", "place", a.place(), "error", err)
		_ = o.web.failed(ctx, a, nobody(code), code)
	}
	return err
}
