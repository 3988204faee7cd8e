package passkey

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"doublet/env"
	"doublet/test/device"

	"github.com/descope/virtualwebauthn"
)

func TestOrigin(t *testing.T) {
	t.Parallel()
	for origin, id := range map[string]string{
		"https://mail.example.com": "mail.example.com", "https://Mail.Example.com:8443": "mail.example.com",
		"http://localhost:8080": "localhost", "https://localhost": "localhost",
		"http://mail.example.com": "", "https://192.0.2.1": "", "https://[::1]:443": "", "http://127.0.0.1": "", "": "",
		"mail.example.com": "", "https://": "", "ftp://mail.example.com": "", "https://%zz": "",
	} {
		p, err := New(origin, "Mail")
		switch {
		case id == "" && !errors.Is(err, ErrOrigin):
			t.Errorf("%q: %v", origin, err)
		case id != "" && (err != nil || p.ID() != id):
			t.Errorf("%q: %v", origin, err)
		}
	}
}

func TestChallenges(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	c := NewChallenges(fix.Env, []byte("key"))
	one, two := c.Issue("a"), c.Issue("a")
	if string(one) == string(two) {
		t.Fatal("two challenges are the same")
	}
	fix.Time.Advance(Life - time.Second)
	for _, at := range []*Challenges{c, NewChallenges(fix.Env, []byte("key"))} { // another server of the domain
		if err := at.Check("a", one); err != nil {
			t.Error(err)
		}
	}
	for i := range one {
		changed := append([]byte(nil), one...)
		changed[i] ^= 1
		if err := c.Check("a", changed); !errors.Is(err, ErrWrong) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for what, err := range map[string]error{
		"another purpose": c.Check("b", one), "short": c.Check("a", one[1:]), "none": c.Check("a", nil),
		"another key": NewChallenges(fix.Env, []byte("other")).Check("a", one),
	} {
		if !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fix.Time.Advance(time.Second)
	if err := c.Check("a", one); !errors.Is(err, ErrExpired) {
		t.Error(err)
	}
}

// phone is an authenticator with a passkey of alice.
type phone struct {
	rp     virtualwebauthn.RelyingParty
	device virtualwebauthn.Authenticator
	key    virtualwebauthn.Credential
}

var challenge = make([]byte, challengeLen)

func newPhone(key virtualwebauthn.Credential) *phone {
	p := &phone{virtualwebauthn.RelyingParty{Name: "Mail", ID: "mail.example.com", Origin: "https://mail.example.com"},
		virtualwebauthn.NewAuthenticator(), key}
	p.device.Options.UserHandle = []byte("alice")
	return p
}

func (p *phone) created() []byte {
	return []byte(virtualwebauthn.CreateAttestationResponse(p.rp, p.device, p.key,
		virtualwebauthn.AttestationOptions{Challenge: challenge, RelyingPartyID: p.rp.ID}))
}

func (p *phone) shown() []byte {
	return []byte(virtualwebauthn.CreateAssertionResponse(p.rp, p.device, p.key,
		virtualwebauthn.AssertionOptions{Challenge: challenge, RelyingPartyID: p.rp.ID}))
}

// server returns a relying party and its passkey of alice.
func (p *phone) server(t testing.TB) (*Party, *Holder) {
	t.Helper()
	party, err := New("https://mail.example.com", "Mail")
	if err != nil {
		t.Fatal(err)
	}
	h := &Holder{ID: []byte("alice"), Name: "alice", Display: "Alice"}
	made, err := ParseCreated(p.created())
	if err != nil {
		t.Fatal(err)
	}
	c, err := party.Register(h, made)
	if err != nil {
		t.Fatal(err)
	}
	h.Have = []Credential{c}
	return party, h
}

// TestVerify registers and verifies passkeys with both kinds of keys that most devices have.
func TestVerify(t *testing.T) {
	t.Parallel()
	for kind, key := range map[string]virtualwebauthn.Credential{"P-256": device.Passkey(),
		"RSA": virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeRSA)} {
		p := newPhone(key)
		party, h := p.server(t)
		a, err := ParseAssertion(p.shown())
		if err != nil {
			t.Fatal(err)
		}
		if err := party.Verify(h, a); err != nil || string(a.Holder()) != "alice" ||
			string(a.Credential()) != string(p.key.ID) || string(a.Challenge()) != string(challenge) {
			t.Errorf("%s: %v", kind, err)
		}
		h.Have[0].Counter = 9
		if err := party.Verify(h, a); !errors.Is(err, ErrCloned) {
			t.Errorf("%s: the counter went back: %v", kind, err)
		}
		h.Have = nil
		if err := party.Verify(h, a); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: no passkey: %v", kind, err)
		}
	}
}

// FuzzResponses parses and verifies responses of browsers. A changed one must not be accepted with another meaning.
func FuzzResponses(f *testing.F) {
	p := newPhone(device.Passkey())
	party, h := p.server(f)
	f.Add(p.created())
	f.Add(p.shown())
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if made, err := ParseCreated(b); err == nil {
			_ = made.Challenge()
			if c, err := party.Register(h, made); err == nil && (len(c.ID) == 0 || len(c.Key) == 0) {
				t.Fatalf("%+v", c)
			}
		}
		shown, err := ParseAssertion(b)
		if err != nil {
			return
		}
		err = party.Verify(h, shown)
		if err == nil && (string(shown.Holder()) != "alice" || string(shown.Challenge()) != string(challenge) ||
			string(shown.Credential()) != string(h.Have[0].ID) || !json.Valid(b)) {
			t.Fatalf("accepted: %s", b)
		}
	})
}
