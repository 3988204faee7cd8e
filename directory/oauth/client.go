package oauth

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Client signs people in at web pages by the issuer's authorization code flow with PKCE (OpenID Connect Core 1.0
// section 3.1).
//
// Implements: RFC 6749 §4.1 Authorization Code Grant
// Implements: RFC 7636 §4 Proof Key for Code Exchange
type Client struct {
	verifier *Verifier
	config   oauth2.Config
}

// Flow is a sign-in in progress. Its values are random secrets that only the browser of the sign-in holds.
type Flow struct {
	State string `json:"state"`
	Nonce string `json:"nonce"`
	// Proof is the code verifier of PKCE (RFC 7636 section 4.1): 43 to 128 letters and digits.
	Proof string `json:"proof"`
}

// Client returns a Client. The audience of the Verifier is its ID at the issuer. secret is "" for a public client.
// callback is the address of this server to which the issuer sends browsers back.
func (v *Verifier) Client(secret, callback string) *Client {
	return &Client{verifier: v, config: oauth2.Config{
		ClientID: v.opt.Audience, ClientSecret: secret, RedirectURL: callback,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}}
}

// Issuer returns the URL of the issuer.
func (c *Client) Issuer() string { return c.verifier.opt.Issuer }

// endpointOf returns the endpoints in an issuer's configuration, with the method by which a client shows its secret.
func endpointOf(p *oidc.Provider) oauth2.Endpoint {
	e := p.Endpoint()
	var said struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	e.AuthStyle = oauth2.AuthStyleInHeader // the default of OpenID Connect Discovery 1.0 section 3
	if err := p.Claims(&said); err == nil && len(said.Methods) > 0 &&
		!slices.Contains(said.Methods, "client_secret_basic") {
		e.AuthStyle = oauth2.AuthStyleInParams
	}
	return e
}

// readsClaims reports whether an issuer's configuration says that it knows the parameter claims, by which a client asks
// for claims of the ID token (OpenID Connect Core 1.0 section 5.5).
func readsClaims(p *oidc.Provider) bool {
	var said struct {
		Supported bool `json:"claims_parameter_supported"`
	}
	return p.Claims(&said) == nil && said.Supported
}

// at returns the settings of the flow with the issuer's endpoints, and the issuer's configuration.
func (c *Client) at(ctx context.Context) (*oauth2.Config, *configuration, error) {
	known, err := c.verifier.issuer(ctx)
	if err != nil {
		return nil, nil, err
	}
	config := c.config
	config.Endpoint = known.endpoint
	if config.ClientSecret == "" {
		config.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client sends only its ID
	}
	u, err := url.Parse(config.Endpoint.AuthURL)
	if err != nil || u.Host == "" || !protected(u) {
		return nil, nil, fmt.Errorf("oauth: issuer %s: the authorization endpoint %q is not at https", c.Issuer(),
			config.Endpoint.AuthURL)
	}
	return &config, known, nil
}

// Begin returns the address of the issuer at which a person signs in. With again, the issuer must authenticate the
// person even if they are signed in there, and must say when it did: prompt=login and max_age=0 (OpenID Connect Core
// 1.0 section 3.1.2.1). The parameters pass through the browser, so Finish returns the time for the caller to check.
//
// Some issuers say the time only if the parameter claims asks for it, even with max_age. It is sent only to issuers
// that say that they know it, because others may refuse the request.
func (c *Client) Begin(ctx context.Context, f Flow, again bool) (string, error) {
	config, known, err := c.at(ctx)
	if err != nil {
		c.verifier.trouble.Inc()
		return "", err
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Proof)}
	if again {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	if known.readsClaims {
		options = append(options, oauth2.SetAuthURLParam("claims", claimsOf(again)))
	}
	return config.AuthCodeURL(f.State, options...), nil
}

// claimsOf returns the parameter claims that asks for the time of the authentication: as essential with again.
func claimsOf(again bool) string {
	if again {
		return `{"id_token":{"auth_time":{"essential":true}}}`
	}
	return `{"id_token":{"auth_time":null}}`
}

// Finish exchanges the code with which the issuer sent a browser back. It returns the name of the person who signed in
// there, and the time when the issuer authenticated them, zero if the issuer does not say. ErrToken means that the code
// or the token for it is invalid. Any other error means that the issuer could not be asked.
func (c *Client) Finish(ctx context.Context, f Flow, code string) (name string, at time.Time, err error) {
	name, at, err = c.finish(ctx, f, code)
	c.verifier.count(err)
	return name, at, err
}

func (c *Client) finish(ctx context.Context, f Flow, code string) (name string, at time.Time, err error) {
	config, _, err := c.at(ctx)
	if err != nil {
		return "", at, err
	}
	token, err := config.Exchange(oidc.ClientContext(ctx, c.verifier.client), code, oauth2.VerifierOption(f.Proof))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response.StatusCode < 500 && refused.ErrorCode != "invalid_client" {
		return "", at, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if err != nil {
		return "", at, fmt.Errorf("oauth: token endpoint of %s: %w", c.Issuer(), err)
	}
	raw, _ := token.Extra("id_token").(string)
	t, name, err := c.verifier.verify(ctx, raw)
	if err != nil {
		return "", at, err
	}
	if subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(f.Nonce)) != 1 {
		return "", at, fmt.Errorf("%w: it is of another sign-in", ErrToken)
	}
	return name, authTime(t), nil
}

// authTime returns the claim auth_time of a verified token (OpenID Connect Core 1.0 section 2), zero if the token has
// none that is a number of seconds since 1970.
func authTime(t *oidc.IDToken) time.Time {
	var claims struct {
		AuthTime json.RawMessage `json:"auth_time"`
	}
	var seconds float64
	if t.Claims(&claims) != nil || json.Unmarshal(claims.AuthTime, &seconds) != nil || seconds <= 0 ||
		seconds > maxSeconds {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// maxSeconds is the largest accepted time in seconds since 1970, in the year 9999.
const maxSeconds = 253402300799
