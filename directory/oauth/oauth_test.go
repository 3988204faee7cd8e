package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
	"doublet/test/issuer"
)

var bg = context.Background()

type claims = issuer.Claims

func TestVerify(t *testing.T) {
	t.Parallel()
	fix, i := env.TestRealTime(t), issuer.New(t)
	stats := stat.New(fix.Clock)
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: "doublet", Stats: stats})
	if err != nil {
		t.Fatal(err)
	}
	now := fix.Clock.Now()
	good := i.Token(now, nil)
	for range 3 {
		if name, ends, err := v.Verify(bg, good); name != "alice@example.com" || err != nil ||
			ends.Unix() != now.Add(time.Hour).Unix() {
			t.Fatal(name, ends, err)
		}
	}
	if n := i.Asked.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times for two documents", n)
	}
	head, rest, _ := strings.Cut(good, ".")
	body, sig, _ := strings.Cut(rest, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for name, token := range map[string]string{
		"another audience":   i.Token(now, claims{"aud": "webshop"}),
		"another issuer":     i.Token(now, claims{"iss": "https://elsewhere.example"}),
		"expired":            i.Token(now.Add(-2*time.Hour), nil),
		"no claim":           i.Token(now, claims{"email": ""}),
		"claim is no text":   i.Token(now, claims{"email": 5}),
		"long claim":         i.Token(now, claims{"email": strings.Repeat("x", 600)}),
		"unverified address": i.Token(now, claims{"email_verified": false}),
		"other body": head + "." + strings.TrimSuffix(i.Token(now,
			claims{"email": "boss@example.com"})[len(head)+1:], "x")[:len(body)] + "." + sig,
		"unsigned": none + "." + body + ".",
		"opaque":   "2YotnFZFEjr1zCsicMWpAA",
		"empty":    "",
		"long":     strings.Repeat("x.", 2) + strings.Repeat("x", maxToken),
	} {
		if who, _, err := v.Verify(bg, token); who != "" || !errors.Is(err, ErrToken) {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	// Unknown keys cause a request once in a while, not at every attempt.
	i.Rotate("two")
	before := i.Asked.Load()
	for range 5 {
		if _, _, err := v.Verify(bg, i.Token(now, nil)); err == nil {
			t.Error("a token with an unknown key was taken")
		}
	}
	if n := i.Asked.Load() - before; n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// TestIssuerDown checks that an issuer that does not answer causes an error other than ErrToken, and is not asked at
// every attempt.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	fix, i := env.TestRealTime(t), issuer.New(t)
	i.Down.Store(true)
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: "doublet", Claim: "sub"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := v.Verify(bg, i.Token(fix.Clock.Now(), nil)); err == nil || errors.Is(err, ErrToken) {
			t.Errorf("%v", err)
		}
	}
	if n := i.Asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	for _, o := range []Options{
		{Issuer: "", Audience: "x"}, {Issuer: "http://idp.example.com", Audience: "x"},
		{Issuer: "https://idp.example.com"},
		{Issuer: "ftp://idp.example.com", Audience: "x"}, {Issuer: "https://idp.example.com/?a=b", Audience: "x"},
		{Issuer: "::", Audience: "x"},
	} {
		if _, err := New(fix.Env, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
