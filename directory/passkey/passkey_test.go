package passkey

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"doublet/env"

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
	if err := c.Check("a", one); err != nil {
		t.Error(err)
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

// FuzzResponses parses and verifies responses of browsers. A changed one must not be accepted with another meaning.
func FuzzResponses(f *testing.F) {
	party, err := New("https://mail.example.com", "Mail")
	if err != nil {
		f.Fatal(err)
	}
	rp := virtualwebauthn.RelyingParty{Name: "Mail", ID: "mail.example.com", Origin: "https://mail.example.com"}
	device := virtualwebauthn.NewAuthenticator()
	device.Options.UserHandle = []byte("alice")
	challenge := make([]byte, challengeLen)
	holder := func() *Holder { return &Holder{ID: []byte("alice"), Name: "alice", Display: "Alice"} }
	var held Credential
	for _, kind := range []virtualwebauthn.KeyType{virtualwebauthn.KeyTypeEC2, virtualwebauthn.KeyTypeRSA} {
		key := virtualwebauthn.NewCredential(kind)
		created := virtualwebauthn.CreateAttestationResponse(rp, device, key,
			virtualwebauthn.AttestationOptions{Challenge: challenge, RelyingPartyID: rp.ID})
		f.Add([]byte(created))
		made, err := ParseCreated([]byte(created))
		if err != nil {
			f.Fatal(err)
		}
		if held, err = party.Register(holder(), made); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(virtualwebauthn.CreateAssertionResponse(rp, device, key,
			virtualwebauthn.AssertionOptions{Challenge: challenge, RelyingPartyID: rp.ID})))
	}
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if made, err := ParseCreated(b); err == nil {
			_ = made.Challenge()
			if c, err := party.Register(holder(), made); err == nil && (len(c.ID) == 0 || len(c.Key) == 0) {
				t.Fatalf("%+v", c)
			}
		}
		shown, err := ParseAssertion(b)
		if err != nil {
			return
		}
		h := holder()
		h.Have = []Credential{held}
		err = party.Verify(h, shown)
		if err == nil && (string(shown.Holder()) != "alice" || string(shown.Challenge()) != string(challenge) ||
			string(shown.Credential()) != string(held.ID) || !json.Valid(b)) {
			t.Fatalf("accepted: %s", b)
		}
	})
}
