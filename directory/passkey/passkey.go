// Package passkey creates and verifies the messages of WebAuthn (Web Authentication Level 3), with which browsers
// register passkeys and sign in with them. It stores nothing.
package passkey

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// ErrWrong reports a response that does not prove what it has to: it is malformed, of another origin, relying party,
// challenge or person, without user verification, or its signature is wrong. The error's text has the reason.
var ErrWrong = errors.New("passkey: wrong response")

// ErrCloned reports a signature counter that did not increase: there may be a copy of the passkey's private key
// (WebAuthn section 6.1.1).
var ErrCloned = errors.New("passkey: the signature counter did not increase")

// ErrOrigin reports an address at which browsers do not allow passkeys.
var ErrOrigin = errors.New("passkey: browsers allow passkeys at https:// with a host name, and at localhost")

// Credential is a passkey as the server stores it.
type Credential struct {
	// ID is the credential ID, of 1 to 1,023 bytes, chosen by the authenticator.
	ID []byte
	// Key is the public key (COSE_Key, RFC 9052 section 7).
	Key []byte
	// Counter is the last signature counter. It stays 0 for passkeys that are synchronized between devices.
	Counter uint32
	// BackupEligible reports a passkey that may be copied to other devices. It never changes.
	BackupEligible bool
}

// Holder is the person who registers a passkey. ID is the user handle, of at most 64 bytes; it must not change, and
// must not reveal the person to others (WebAuthn section 14.6.1).
type Holder struct {
	ID            []byte
	Name, Display string
	Have          []Credential
}

// WebAuthnID implements webauthn.User.
func (h *Holder) WebAuthnID() []byte { return h.ID }

// WebAuthnName implements webauthn.User.
func (h *Holder) WebAuthnName() string { return h.Name }

// WebAuthnDisplayName implements webauthn.User.
func (h *Holder) WebAuthnDisplayName() string { return h.Display }

// WebAuthnCredentials implements webauthn.User.
func (h *Holder) WebAuthnCredentials() []webauthn.Credential {
	list := make([]webauthn.Credential, 0, len(h.Have))
	for _, c := range h.Have {
		list = append(list, webauthn.Credential{ID: c.ID, PublicKey: c.Key,
			Flags:         webauthn.CredentialFlags{BackupEligible: c.BackupEligible},
			Authenticator: webauthn.Authenticator{SignCount: c.Counter}})
	}
	return list
}

// Party is the relying party: this server under one web address. Its methods are safe for concurrent use.
type Party struct {
	id, origin string
	auth       *webauthn.WebAuthn
}

// New returns the relying party of an origin such as "https://mail.example.com", a URL without a path. Its id is the
// host of the origin. name is displayed by browsers. Errors: ErrOrigin.
func New(origin, name string) (*Party, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrOrigin, origin, err)
	}
	host := strings.ToLower(u.Hostname())
	_, ip := netip.ParseAddr(host)
	if host == "" || ip == nil || u.Scheme != "https" && (u.Scheme != "http" || host != "localhost") {
		return nil, fmt.Errorf("%w, not at %q", ErrOrigin, origin)
	}
	origin = u.Scheme + "://" + strings.ToLower(u.Host)
	auth, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: name, RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
		// Password managers send results of extensions that nobody requested.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrOrigin, origin, err)
	}
	return &Party{host, origin, auth}, nil
}

// ID returns the relying party id: a host name.
func (p *Party) ID() string { return p.id }

// Creation returns the options for navigator.credentials.create, for JSON. They request a discoverable credential with
// user verification, and exclude authenticators that hold a passkey of the person.
func (p *Party) Creation(h *Holder, challenge []byte) (any, error) {
	var have []protocol.CredentialDescriptor
	for _, c := range h.WebAuthnCredentials() {
		have = append(have, c.Descriptor())
	}
	options, _, err := p.auth.BeginRegistration(h, webauthn.WithExclusions(have), challenged(challenge))
	if err != nil {
		return nil, fmt.Errorf("passkey: %w", err)
	}
	return options, nil
}

// challenged sets the challenge of a registration.
func challenged(challenge []byte) webauthn.RegistrationOption {
	return func(o *protocol.PublicKeyCredentialCreationOptions) error {
		o.Challenge = challenge
		return nil
	}
}

// Created is the parsed response to Creation.
type Created struct {
	data *protocol.ParsedCredentialCreationData
}

// ParseCreated parses the JSON of a response to Creation. Errors: ErrWrong.
func ParseCreated(response []byte) (*Created, error) {
	data, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return nil, wrong(err)
	}
	return &Created{data}, nil
}

// Challenge returns the challenge that the response answers, nil if it is malformed. It is not verified.
func (c *Created) Challenge() []byte { return decoded(c.data.Response.CollectedClientData.Challenge) }

// Register verifies a response to Creation with a challenge that the caller has checked, and returns the new passkey.
// Errors: ErrWrong. See WebAuthn section 7.1.
func (p *Party) Register(h *Holder, c *Created) (Credential, error) {
	made, err := p.auth.CreateCredential(h, webauthn.SessionData{
		Challenge: c.data.Response.CollectedClientData.Challenge, RelyingPartyID: p.id, UserID: h.ID,
		UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersDefault(),
	}, c.data)
	if err != nil {
		return Credential{}, wrong(err)
	}
	return Credential{ID: made.ID, Key: made.PublicKey, Counter: made.Authenticator.SignCount,
		BackupEligible: made.Flags.BackupEligible}, nil
}

// Request holds the options for navigator.credentials.get. Origin is the only origin whose pages may use them.
type Request struct {
	*protocol.CredentialAssertion
	Origin string `json:"origin"`
}

// Request returns options that request any passkey of this relying party, with user verification.
func (p *Party) Request(challenge []byte) (Request, error) {
	options, _, err := p.auth.BeginDiscoverableLogin(webauthn.WithChallenge(challenge))
	if err != nil {
		return Request{}, fmt.Errorf("passkey: %w", err)
	}
	return Request{options, p.origin}, nil
}

// Assertion is the parsed response to Request. Nothing in it is verified.
type Assertion struct {
	data *protocol.ParsedCredentialAssertionData
}

// ParseAssertion parses the JSON of a response to Request. Errors: ErrWrong.
func ParseAssertion(response []byte) (*Assertion, error) {
	data, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		return nil, wrong(err)
	}
	return &Assertion{data}, nil
}

// Challenge returns the challenge that the response answers, nil if it is malformed.
func (a *Assertion) Challenge() []byte { return decoded(a.data.Response.CollectedClientData.Challenge) }

// Holder returns the user handle: the Holder.ID of the registration.
func (a *Assertion) Holder() []byte { return a.data.Response.UserHandle }

// Credential returns the credential ID.
func (a *Assertion) Credential() []byte { return a.data.RawID }

// Counter returns the signature counter.
func (a *Assertion) Counter() uint32 { return a.data.Response.AuthenticatorData.Counter }

// Verify verifies a response to Request with a challenge that the caller has checked, against the passkeys of its
// holder. Errors: ErrWrong, ErrCloned. See WebAuthn section 7.2.
func (p *Party) Verify(h *Holder, a *Assertion) error {
	_, used, err := p.auth.ValidatePasskeyLogin(
		func(_, _ []byte) (webauthn.User, error) { return h, nil },
		webauthn.SessionData{
			Challenge: a.data.Response.CollectedClientData.Challenge, RelyingPartyID: p.id,
			UserVerification: protocol.VerificationRequired,
		}, a.data)
	if err != nil {
		return wrong(err)
	}
	if used.Authenticator.CloneWarning {
		return ErrCloned
	}
	return nil
}

// wrong returns ErrWrong with the library's reason, which its Error method leaves out.
func wrong(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%w: %s %s", ErrWrong, e.Details, e.DevInfo)
	}
	return fmt.Errorf("%w: %w", ErrWrong, err)
}

func decoded(challenge string) []byte {
	b, err := base64.RawURLEncoding.Strict().DecodeString(challenge)
	if err != nil {
		return nil
	}
	return b
}
