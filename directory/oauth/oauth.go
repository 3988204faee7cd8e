// Package oauth verifies tokens that an OpenID Connect issuer gave to a person's mail program: signed JWTs, for this
// server, not expired. It fetches the issuer's keys over HTTPS and caches them. It requests a document at most every 30
// seconds, whatever tokens arrive. At web pages the issuer signs people in itself (Client).
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/stat"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// ErrToken reports a token that is malformed, forged or expired, for another audience, or without a usable name.
var ErrToken = errors.New("oauth: token refused")

// Options are the settings of a Verifier.
type Options struct {
	// Issuer is the issuer's URL, exactly as in its tokens: https, or http on loopback.
	Issuer string
	// Audience is this server's name at the issuer. A token must include it in its audiences.
	Audience string
	// Claim is the claim with the person's name or address (default "email"). With the default, a token is rejected if
	// it has the claim email_verified and that is not true.
	Claim string
	Stats *stat.Tree
	// Transport is for tests with issuers that have their own certificates. Nil is a transport over env.Dial.
	Transport http.RoundTripper
}

const (
	// again is the time for which a response of the issuer, good or bad, is reused.
	again = 30 * time.Second
	// renewed is the time for which the issuer's configuration and keys are used. After it, a withdrawn key is
	// rejected.
	renewed   = time.Hour
	timeout   = 10 * time.Second
	maxAnswer = 1 << 20 // bytes of one of the issuer's documents
	maxToken  = 16 << 10
	maxName   = 512
)

// Verifier verifies the tokens of one issuer. Its methods are safe for concurrent use.
type Verifier struct {
	env    *env.Env
	opt    Options
	client *http.Client

	mu     sync.Mutex // held while the configuration is fetched
	known  *configuration
	failed error
	asked  time.Time

	good, refused, trouble *stat.Counter
}

// configuration is the configuration of the issuer.
type configuration struct {
	verifier *oidc.IDTokenVerifier
	endpoint oauth2.Endpoint
	// readsClaims reports that the issuer knows the parameter claims.
	readsClaims bool
}

// New returns a Verifier. It fetches the issuer's configuration only when the first token arrives.
func New(e *env.Env, o Options) (*Verifier, error) {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("oauth: issuer: %w", err)
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("oauth: issuer %q is not the URL of a server", o.Issuer)
	case !protected(u):
		return nil, fmt.Errorf("oauth: issuer %q: its keys must come over https", o.Issuer)
	case o.Audience == "":
		return nil,
			errors.New("oauth: an audience is needed: without one a token for any other service would sign in here")
	}
	if o.Claim == "" {
		o.Claim = "email"
	}
	v := &Verifier{env: e, opt: o}
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{
			DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
				return e.Dial(network, address, timeout)
			},
			TLSHandshakeTimeout: timeout, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	v.client = &http.Client{Timeout: timeout, Transport: &keeper{env: e, under: transport, kept: map[string]*answer{}}}
	t := o.Stats
	v.good = t.Counter("OAuth.Tokens.Accepted", "tokens that signed somebody in")
	v.refused = t.Counter("OAuth.Tokens.Refused", "tokens that were forged, expired or not for this server")
	v.trouble = t.Counter("OAuth.Issuer.Failures", "times that the issuer could not be asked")
	return v, nil
}

// protected reports whether a URL is safe from tampering: https, or http on loopback.
func protected(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// Discovery returns the URL of the issuer's configuration, for clients whose token was rejected.
func (v *Verifier) Discovery() string {
	return strings.TrimSuffix(v.opt.Issuer, "/") + "/.well-known/openid-configuration"
}

// Verify returns the name in a token and the time when the token expires. ErrToken means that the token is invalid. Any
// other error means that the issuer could not be asked.
func (v *Verifier) Verify(ctx context.Context, token string) (name string, ends time.Time, err error) {
	t, name, err := v.verify(ctx, token)
	if v.count(err); err != nil {
		return "", ends, err
	}
	return name, t.Expiry, nil
}

// count counts the result of a token.
func (v *Verifier) count(err error) {
	switch {
	case err == nil:
		v.good.Inc()
	case errors.Is(err, ErrToken):
		v.refused.Inc()
	default:
		v.trouble.Inc()
	}
}

func (v *Verifier) verify(ctx context.Context, token string) (t *oidc.IDToken, name string, err error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, "", fmt.Errorf("%w: not a signed token", ErrToken)
	}
	known, err := v.issuer(ctx)
	if err != nil {
		return nil, "", err
	}
	t, err = known.verifier.Verify(oidc.ClientContext(ctx, v.client), token)
	if err != nil {
		var net *url.Error
		if errors.As(err, &net) || strings.Contains(err.Error(), "fetching keys") {
			return nil, "", fmt.Errorf("oauth: keys of %s: %w", v.opt.Issuer, err)
		}
		return nil, "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	name, err = v.name(t)
	return t, name, err
}

// name returns the claim of a verified token.
func (v *Verifier) name(t *oidc.IDToken) (string, error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	var name string
	if err := json.Unmarshal(claims[v.opt.Claim], &name); err != nil || name == "" || len(name) > maxName {
		return "", fmt.Errorf("%w: no claim %s", ErrToken, v.opt.Claim)
	}
	if verified, said := claims["email_verified"]; said && v.opt.Claim == "email" && string(verified) != "true" &&
		string(verified) != `"true"` {
		return "", fmt.Errorf("%w: the issuer has not verified the address", ErrToken)
	}
	return name, nil
}

// issuer returns the issuer's configuration, and renews it hourly. If a renewal fails, it keeps the old one and retries
// after five minutes.
func (v *Verifier) issuer(ctx context.Context) (*configuration, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.env.Clock.Now()
	if v.known != nil && now.Sub(v.asked) < renewed || v.failed != nil && now.Sub(v.asked) < again {
		return v.known, v.failed
	}
	// A client that disconnects must not cancel the request for the others.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), v.client), v.opt.Issuer)
	if err != nil && v.known != nil {
		v.trouble.Inc()
		v.asked = now.Add(10*again - renewed)
		return v.known, nil
	}
	v.asked = now
	if v.failed = err; err != nil {
		v.failed = fmt.Errorf("oauth: issuer %s: %w", v.opt.Issuer, err)
		return nil, v.failed
	}
	v.known = &configuration{
		verifier:    provider.Verifier(&oidc.Config{ClientID: v.opt.Audience, Now: v.env.Clock.Now}),
		endpoint:    endpointOf(provider),
		readsClaims: readsClaims(provider),
	}
	return v.known, nil
}

// keeper is a transport that caches responses for a short time. Without it, tokens with unknown keys would make this
// server fetch the keys at every attempt. The size of responses is limited.
type keeper struct {
	env   *env.Env
	under http.RoundTripper

	mu   sync.Mutex
	kept map[string]*answer // by URL: usually two, the configuration and the keys
}

type answer struct {
	at     time.Time
	err    error
	status int
	where  string // target of a redirect
	body   string
}

// maxKept limits the number of cached documents.
const maxKept = 8

// RoundTrip implements http.RoundTripper.
func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.URL.String()
	if !protected(r.URL) {
		return nil, fmt.Errorf("oauth: %s: the issuer's documents must come over https", key)
	}
	var a *answer
	if r.Method == http.MethodGet {
		a = k.cached(key, r)
	} else {
		a = k.ask(r)
	}
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}, "Location": {a.where}},
		Body:          io.NopCloser(strings.NewReader(a.body)),
		ContentLength: int64(len(a.body)), Request: r,
	}, nil
}

func (k *keeper) cached(key string, r *http.Request) *answer {
	now := k.env.Clock.Now()
	k.mu.Lock()
	a := k.kept[key]
	k.mu.Unlock()
	if a != nil && now.Sub(a.at) < again {
		return a
	}
	a = k.ask(r)
	a.at = now
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) >= maxKept {
		clear(k.kept)
	}
	k.kept[key] = a
	return a
}

func (k *keeper) ask(r *http.Request) *answer {
	resp, err := k.under.RoundTrip(r)
	if err != nil {
		return &answer{err: err}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err = errors.Join(err, resp.Body.Close()); err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("oauth: %s answers with more than %d bytes", r.URL, maxAnswer)
	}
	return &answer{err: err, status: resp.StatusCode, where: resp.Header.Get("Location"), body: string(body)}
}
