package oauth

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
)

var bg = context.Background()

var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// issuer is an OpenID Connect issuer on loopback.
type issuer struct {
	*httptest.Server
	asked atomic.Int64
	down  atomic.Bool
	kid   atomic.Pointer[string]
}

func newIssuer(t testing.TB) *issuer {
	i := &issuer{}
	i.rotate("one")
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		if i.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, i.URL,
				i.URL+"/keys")
		case "/keys":
			n := base64.RawURLEncoding.EncodeToString(key().N.Bytes())
			e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key().E)).Bytes())
			fmt.Fprintf(w, `{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":%q,"n":%q,"e":%q}]}`,
				*i.kid.Load(), n, e)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) rotate(kid string) { i.kid.Store(&kid) }

type claims map[string]any

func (i *issuer) token(now time.Time, change claims) string {
	c := claims{"iss": i.URL, "aud": "doublet", "sub": "1", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"email": "alice@example.com", "email_verified": true}
	for k, v := range change {
		c[k] = v
	}
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": *i.kid.Load()})
	body, _ := json.Marshal(c)
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key(), crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	fix, i := env.TestRealTime(t), newIssuer(t)
	stats := stat.New(fix.Clock)
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: "doublet", Stats: stats})
	if err != nil {
		t.Fatal(err)
	}
	now := fix.Clock.Now()
	good := i.token(now, nil)
	for range 3 {
		if name, ends, err := v.Verify(bg, good); name != "alice@example.com" || err != nil ||
			ends.Unix() != now.Add(time.Hour).Unix() {
			t.Fatal(name, ends, err)
		}
	}
	if n := i.asked.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times for two documents", n)
	}
	head, rest, _ := strings.Cut(good, ".")
	body, sig, _ := strings.Cut(rest, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for name, token := range map[string]string{
		"another audience":   i.token(now, claims{"aud": "webshop"}),
		"another issuer":     i.token(now, claims{"iss": "https://elsewhere.example"}),
		"expired":            i.token(now.Add(-2*time.Hour), nil),
		"no claim":           i.token(now, claims{"email": ""}),
		"claim is no text":   i.token(now, claims{"email": 5}),
		"long claim":         i.token(now, claims{"email": strings.Repeat("x", 600)}),
		"unverified address": i.token(now, claims{"email_verified": false}),
		"other body": head + "." + strings.TrimSuffix(i.token(now,
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
	i.rotate("two")
	before := i.asked.Load()
	for range 5 {
		if _, _, err := v.Verify(bg, i.token(now, nil)); err == nil {
			t.Error("a token with an unknown key was taken")
		}
	}
	if n := i.asked.Load() - before; n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// TestIssuerDown checks that an issuer that does not answer causes an error other than ErrToken, and is not asked at
// every attempt.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	fix, i := env.TestRealTime(t), newIssuer(t)
	i.down.Store(true)
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: "doublet", Claim: "sub"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := v.Verify(bg, i.token(fix.Clock.Now(), nil)); err == nil || errors.Is(err, ErrToken) {
			t.Errorf("%v", err)
		}
	}
	if n := i.asked.Load(); n != 1 {
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
