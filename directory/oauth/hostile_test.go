package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
	"doublet/test/issuer"
)

// forger makes tokens with arbitrary headers and signatures.
type forger struct {
	issuer string
	now    time.Time
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (f *forger) token(head string, change claims, sign func(text string) []byte) string {
	c := claims{"iss": f.issuer, "aud": "doublet", "sub": "1", "exp": f.now.Add(time.Hour).Unix(), "iat": f.now.Unix(),
		"email": "boss@example.com"}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	body, _ := json.Marshal(c)
	text := b64([]byte(head)) + "." + b64(body)
	return text + "." + b64(sign(text))
}

func rs256(k *rsa.PrivateKey) func(string) []byte {
	return func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		sig, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return sig
	}
}

func hs256(secret []byte) func(string) []byte {
	return func(text string) []byte {
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
}

// TestForged checks that a token is rejected unless its signature is by a key that the issuer publishes, in an
// algorithm that the issuer uses. The verifier asks no host that a token names.
func TestForged(t *testing.T) {
	t.Parallel()
	fix := env.TestRealTime(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public := func(k *rsa.PrivateKey) string {
		return fmt.Sprintf(`{"kty":"RSA","alg":"RS256","use":"sig","kid":"mine","n":%q,"e":%q}`, b64(k.N.Bytes()),
			b64(big.NewInt(int64(k.E)).Bytes()))
	}
	var asked atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, `{"keys":[%s]}`, public(own))
	}))
	t.Cleanup(evil.Close)
	var i *httptest.Server
	i = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w,
				`{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256","ES256","HS256","none"]}`,
				i.URL, i.URL+"/keys")
		case "/keys":
			x, y := make([]byte, 32), make([]byte, 32)
			fmt.Fprintf(w,
				`{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"r","n":%q,"e":%q},{"kty":"EC",`+
					`"crv":"P-256","alg":"ES256","use":"sig","kid":"e","x":%q,"y":%q}]}`,
				b64(issuer.Key().N.Bytes()), b64(big.NewInt(int64(issuer.Key().E)).Bytes()), b64(curve.X.FillBytes(x)),
				b64(curve.Y.FillBytes(y)))
		}
	}))
	t.Cleanup(i.Close)
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: "doublet", Stats: stat.New(fix.Clock)})
	if err != nil {
		t.Fatal(err)
	}
	now := fix.Clock.Now()
	f := &forger{i.URL, now}
	es256 := func(change func(r, s *big.Int) []byte) func(string) []byte {
		return func(text string) []byte {
			sum := sha256.Sum256([]byte(text))
			r, s, err := ecdsa.Sign(rand.Reader, curve, sum[:])
			if err != nil {
				panic(err)
			}
			return change(r, s)
		}
	}
	fixed := func(r, s *big.Int) []byte {
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	const rsaHead, ecHead = `{"alg":"RS256","kid":"r"}`, `{"alg":"ES256","kid":"e"}`
	for name, token := range map[string]string{
		"RS256": f.token(rsaHead, nil, rs256(issuer.Key())), "ES256": f.token(ecHead, nil, es256(fixed)),
		"audiences": f.token(rsaHead, claims{"aud": []string{"webshop", "doublet"}}, rs256(issuer.Key())),
	} {
		if who, _, err := v.Verify(bg, token); err != nil || who != "boss@example.com" {
			t.Errorf("%s: %q %v", name, who, err)
		}
	}
	der, _ := x509.MarshalPKIXPublicKey(&issuer.Key().PublicKey)
	pkcs1 := x509.MarshalPKCS1PublicKey(&issuer.Key().PublicKey)
	nothing := func(string) []byte { return nil }
	order := curve.Params().N
	tokens := map[string]string{
		"other key": f.token(rsaHead, nil, rs256(own)), "other key, no kid": f.token(`{"alg":"RS256"}`, nil,
			rs256(own)), "kid of the curve": f.token(`{"alg":"RS256","kid":"e"}`, nil, rs256(own)),
		"embedded key":           f.token(`{"alg":"RS256","kid":"mine","jwk":`+public(own)+`}`, nil, rs256(own)),
		"key elsewhere":          f.token(`{"alg":"RS256","kid":"mine","jku":"`+evil.URL+`/keys"}`, nil, rs256(own)),
		"certificate url":        f.token(`{"alg":"RS256","kid":"mine","x5u":"`+evil.URL+`/c"}`, nil, rs256(own)),
		"kid is a path":          f.token(`{"alg":"RS256","kid":"../../../../dev/null"}`, nil, rs256(own)),
		"kid is an url":          f.token(`{"alg":"RS256","kid":"`+evil.URL+`/k"}`, nil, rs256(own)),
		"unknown critical field": f.token(`{"alg":"RS256","kid":"r","crit":["exp"],"exp":1}`, nil, rs256(issuer.Key())),
		"another hash":           f.token(`{"alg":"RS512","kid":"r"}`, nil, rs256(issuer.Key())),
		"PSS by name":            f.token(`{"alg":"PS256","kid":"r"}`, nil, rs256(issuer.Key())),
		"no algorithm":           f.token(`{"kid":"r"}`, nil, rs256(issuer.Key())),
		"empty algorithm":        f.token(`{"alg":"","kid":"r"}`, nil, nothing),
		"curve: nothing":         f.token(ecHead, nil, func(string) []byte { return make([]byte, 64) }),
		"curve: the order":       f.token(ecHead, nil, func(string) []byte { return fixed(order, order) }),
		"curve: DER": f.token(ecHead, nil, func(text string) []byte {
			sum := sha256.Sum256([]byte(text))
			b, _ := ecdsa.SignASN1(rand.Reader, curve, sum[:])
			return b
		}),
		"curve: short": f.token(ecHead, nil, es256(func(r, s *big.Int) []byte { return fixed(r, s)[:63] })),
		"curve: r of others": f.token(ecHead, nil,
			es256(func(r, s *big.Int) []byte { return fixed(new(big.Int).Add(r, big.NewInt(1)), s) })),
		"not yet":              f.token(rsaHead, claims{"nbf": now.Add(time.Hour).Unix()}, rs256(issuer.Key())),
		"over":                 f.token(rsaHead, claims{"exp": now.Add(-time.Second).Unix()}, rs256(issuer.Key())),
		"no end":               f.token(rsaHead, claims{"exp": nil}, rs256(issuer.Key())),
		"end is text":          f.token(rsaHead, claims{"exp": "tomorrow"}, rs256(issuer.Key())),
		"no audience":          f.token(rsaHead, claims{"aud": nil}, rs256(issuer.Key())),
		"empty audience":       f.token(rsaHead, claims{"aud": ""}, rs256(issuer.Key())),
		"part of the audience": f.token(rsaHead, claims{"aud": "doublet2"}, rs256(issuer.Key())),
		"audience is an object": f.token(rsaHead, claims{"aud": map[string]string{"doublet": "doublet"}},
			rs256(issuer.Key())),
		"no issuer":           f.token(rsaHead, claims{"iss": nil}, rs256(issuer.Key())),
		"issuer with a slash": f.token(rsaHead, claims{"iss": i.URL + "/"}, rs256(issuer.Key())),
		"issuer elsewhere":    f.token(rsaHead, claims{"iss": evil.URL}, rs256(own)),
		"many parts":          f.token(rsaHead, nil, rs256(issuer.Key())) + ".x", "encrypted": "e30.e30.e30.e30.e30",
		"JSON serialisation": `{"payload":"e30","signatures":[]}`,
		"huge header": b64([]byte(`{"alg":"RS256","kid":"r","x":"`+strings.Repeat("x", maxToken)+`"}`)) +
			".e30.e30",
		"empty parts": "..", "deep": b64([]byte(strings.Repeat("[", 8000))) + ".e30.e30",
	}
	for _, alg := range []string{"none", "None", "NONE", "nOnE"} {
		tokens["unsigned "+alg] = f.token(`{"alg":"`+alg+`","kid":"r"}`, nil, nothing)
	}
	for name, secret := range map[string][]byte{
		"PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "DER": der,
		"PKCS1 PEM": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}), "n": issuer.Key().N.Bytes(),
		"nothing": nil,
	} {
		for _, kid := range []string{"r", "e", ""} {
			tokens["public key as secret "+name+kid] = f.token(`{"alg":"HS256","kid":"`+kid+`"}`, nil, hs256(secret))
		}
	}
	for name, token := range tokens {
		if who, _, err := v.Verify(bg, token); who != "" || !errors.Is(err, ErrToken) {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a server that tokens name was asked %d times", n)
	}
}

// TestRotation checks that a new key of the issuer is accepted after a while, and a withdrawn key is rejected.
func TestRotation(t *testing.T) {
	t.Parallel()
	fix, i := env.Test(t), issuer.New(t)
	fix.Env.Dial = env.Real(nil).Dial
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: "doublet", Stats: stat.New(fix.Clock)})
	if err != nil {
		t.Fatal(err)
	}
	old := i.Token(fix.Clock.Now(), claims{"exp": fix.Clock.Now().Add(24 * time.Hour).Unix()})
	if _, _, err := v.Verify(bg, old); err != nil {
		t.Fatal(err)
	}
	i.Rotate("two")
	fix.Time.Advance(again)
	if _, _, err := v.Verify(bg, i.Token(fix.Clock.Now(), nil)); err != nil {
		t.Error("the new key:", err)
	}
	if _, _, err := v.Verify(bg, old); !errors.Is(err, ErrToken) {
		t.Error("the withdrawn key:", err)
	}
	// No token with the new key may have arrived yet.
	old = i.Token(fix.Clock.Now(), claims{"exp": fix.Clock.Now().Add(24 * time.Hour).Unix()})
	if _, _, err := v.Verify(bg, old); err != nil {
		t.Fatal(err)
	}
	i.Rotate("three")
	fix.Time.Advance(renewed)
	if _, _, err := v.Verify(bg, old); !errors.Is(err, ErrToken) {
		t.Error("a key withdrawn in silence:", err)
	}
	// If the issuer does not answer, its last known keys stay valid.
	last := i.Token(fix.Clock.Now(), claims{"exp": fix.Clock.Now().Add(24 * time.Hour).Unix()})
	if _, _, err := v.Verify(bg, last); err != nil {
		t.Fatal(err)
	}
	i.Down.Store(true)
	fix.Time.Advance(renewed)
	if _, _, err := v.Verify(bg, last); err != nil {
		t.Error("while the issuer is away:", err)
	}
}
