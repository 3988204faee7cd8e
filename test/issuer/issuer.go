// Package issuer is an OpenID Connect issuer on loopback for tests.
package issuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Audience is the ID of its only client, and Secret the client's secret.
const (
	Audience = "doublet"
	Secret   = "s3cret/&"
)

// Key returns the key with which all issuers of a test sign.
var Key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// Claims are claims of a token.
type Claims map[string]any

// Issuer is an issuer. Asked counts its requests, and Down makes them fail.
type Issuer struct {
	*httptest.Server
	Asked atomic.Int64
	Down  atomic.Bool
	// Methods are the methods by which clients show their secret, as in its configuration; nil: it names none.
	Methods []string
	// ReadsClaims reports, as in its configuration, that it knows the parameter claims. Its tokens then have the time
	// of the authentication only if that asks for it.
	ReadsClaims bool

	kid   atomic.Pointer[string]
	mu    sync.Mutex
	codes map[string]grant
}

// grant is the content of a code.
type grant struct {
	query url.Values // of the request
	token string
}

// New returns an issuer that ends with the test.
func New(t testing.TB) *Issuer {
	i := &Issuer{codes: map[string]grant{}}
	i.Rotate("one")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys",
			"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"RS256"},
			"token_endpoint_auth_methods_supported": i.Methods, "claims_parameter_supported": i.ReadsClaims})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		n := base64.RawURLEncoding.EncodeToString(Key().N.Bytes())
		e := base64.RawURLEncoding.EncodeToString(big.NewInt(int64(Key().E)).Bytes())
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":%q,"n":%q,"e":%q}]}`, *i.kid.Load(), n, e)
	})
	mux.HandleFunc("POST /token", i.exchange)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.Asked.Add(1)
		if i.Down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// Rotate changes the ID of the key.
func (i *Issuer) Rotate(kid string) { i.kid.Store(&kid) }

// Token returns a token of Alice with some claims changed.
func (i *Issuer) Token(now time.Time, change Claims) string {
	c := Claims{"iss": i.URL, "aud": Audience, "sub": "1", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"email": "alice@example.com", "email_verified": true}
	maps.Copy(c, change)
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": *i.kid.Load()})
	body, _ := json.Marshal(c)
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, Key(), crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// Code signs Alice in for an authorization request, with some claims of the token changed. The token has the time of
// that, now, if the request asks for it. Code returns the address to which the issuer sends the browser back.
func (i *Issuer) Code(t testing.TB, now time.Time, address string, change Claims) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if u.Path != "/authorize" || q.Get("response_type") != "code" || q.Get("client_id") != Audience ||
		q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" {
		t.Fatalf("the authorization request is %s", address)
	}
	claims := Claims{"nonce": q.Get("nonce")}
	if i.asksTime(t, q) {
		claims["auth_time"] = now.Unix()
	}
	maps.Copy(claims, change)
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = grant{q, i.Token(now, claims)}
	i.mu.Unlock()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		t.Fatal(err)
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	return back
}

// asksTime reports whether an authorization request asks for the time of the authentication: by the parameter claims if
// the issuer knows that, by max_age if not.
func (i *Issuer) asksTime(t testing.TB, q url.Values) bool {
	t.Helper()
	if !i.ReadsClaims {
		if q.Has("claims") {
			t.Fatal("the request has the parameter claims, which this issuer does not know")
		}
		return q.Has("max_age")
	}
	var asked struct {
		IDToken map[string]*struct{ Essential bool } `json:"id_token"`
	}
	if err := json.Unmarshal([]byte(q.Get("claims")), &asked); err != nil {
		t.Fatalf("claims %q: %v", q.Get("claims"), err)
	}
	claim, ok := asked.IDToken["auth_time"]
	if essential := claim != nil && claim.Essential; essential != q.Has("max_age") {
		t.Fatalf("claims %q with max_age %q", q.Get("claims"), q.Get("max_age"))
	}
	return ok
}

// exchange answers a request of the client for the token of a code, which it gives once.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, word string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q}`, word)
	}
	id, secret, header := r.BasicAuth()
	if header {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if id != Audience || secret != Secret || header == (len(i.Methods) > 0) {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	i.mu.Lock()
	g, ok := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	i.mu.Unlock()
	proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || g.query.Get("redirect_uri") != r.FormValue("redirect_uri") ||
		g.query.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(proof[:]) {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","expires_in":3600,"id_token":%q}`, g.token)
}
