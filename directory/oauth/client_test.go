package oauth

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"doublet/env"
	"doublet/stat"
	"doublet/test/issuer"
)

const back = "https://mail.example.com/back"

// TestCode signs a person in by the code flow, with both ways to show the client's secret. It checks that codes and
// tokens of other flows are refused.
func TestCode(t *testing.T) {
	t.Parallel()
	for _, methods := range [][]string{nil, {"client_secret_post"}} {
		fix, i := env.TestRealTime(t), issuer.New(t)
		i.Methods = methods
		v, err := New(fix.Env, Options{Issuer: i.URL, Audience: issuer.Audience, Stats: stat.New(fix.Clock)})
		if err != nil {
			t.Fatal(err)
		}
		now := fix.Clock.Now()
		c := v.Client(issuer.Secret, back)
		flow := Flow{State: "state", Nonce: "nonce", Proof: strings.Repeat("p", 43)}
		code := func(change claims) string {
			t.Helper()
			address, err := c.Begin(bg, flow, false)
			if err != nil {
				t.Fatal(err)
			}
			u := i.Code(t, now, address, change)
			if got := u.Query().Get("state"); got != "state" || !strings.HasPrefix(u.String(), back+"?") {
				t.Fatal(u)
			}
			return u.Query().Get("code")
		}
		good := code(nil)
		if name, at, err := c.Finish(bg, flow, good); name != "alice@example.com" || !at.IsZero() || err != nil {
			t.Fatal(name, at, err)
		}
		_, at, err := c.Finish(bg, flow, code(claims{"auth_time": now.Unix() - 7}))
		if err != nil || at.Unix() != now.Unix()-7 {
			t.Error(at, err)
		}
		other, stolen := flow, flow
		other.Nonce, stolen.Proof = "other", strings.Repeat("q", 43)
		for what, refused := range map[string]struct {
			flow Flow
			code string
		}{
			"a code again": {flow, good}, "no code": {flow, ""}, "the nonce of another": {other, code(nil)},
			"the proof of another": {stolen, code(nil)}, "no nonce": {flow, code(claims{"nonce": nil})},
			"a token for another": {flow, code(claims{"aud": "webshop"})},
			"an old token":        {flow, code(claims{"exp": now.Unix() - 1})},
			"not verified":        {flow, code(claims{"email_verified": false})},
		} {
			if name, _, err := c.Finish(bg, refused.flow, refused.code); !errors.Is(err, ErrToken) {
				t.Errorf("%s signs in %s: %v", what, name, err)
			}
		}
		if _, _, err := v.Client("wrong", back).Finish(bg, flow, code(nil)); err == nil || errors.Is(err, ErrToken) {
			t.Error("a wrong secret is the person's fault:", err)
		}
		i.Down.Store(true)
		if _, _, err := c.Finish(bg, flow, good); err == nil || errors.Is(err, ErrToken) {
			t.Error("an issuer that is down:", err)
		}
	}
}

// TestAsksForTime signs a person in, once and again, at an issuer whose tokens have the time only if the parameter
// claims asks for it, and at one that does not know the parameter.
func TestAsksForTime(t *testing.T) {
	t.Parallel()
	for _, reads := range []bool{true, false} {
		fix, i := env.TestRealTime(t), issuer.New(t)
		i.ReadsClaims = reads
		v, err := New(fix.Env, Options{Issuer: i.URL, Audience: issuer.Audience, Stats: stat.New(fix.Clock)})
		if err != nil {
			t.Fatal(err)
		}
		c := v.Client(issuer.Secret, back)
		flow := Flow{State: "state", Nonce: "nonce", Proof: strings.Repeat("p", 43)}
		for _, again := range []bool{false, true} {
			address, err := c.Begin(bg, flow, again)
			if err != nil {
				t.Fatal(err)
			}
			now := fix.Clock.Now()
			_, at, err := c.Finish(bg, flow, i.Code(t, now, address, nil).Query().Get("code"))
			if said := !at.IsZero(); err != nil || said != (reads || again) || said && at.Unix() != now.Unix() {
				t.Errorf("knows claims: %t, again: %t: authenticated at %s: %v", reads, again, at, err)
			}
		}
	}
}

// TestAuthorizationEndpoint sends nobody to an address without TLS.
func TestAuthorizationEndpoint(t *testing.T) {
	t.Parallel()
	fix, i := env.TestRealTime(t), issuer.New(t)
	v, err := New(fix.Env, Options{Issuer: i.URL, Audience: issuer.Audience, Stats: stat.New(fix.Clock)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.issuer(bg); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"http://issuer.example/authorize", "javascript:alert(1)", "", "/authorize", ":"} {
		v.known.endpoint.AuthURL = at
		if got, err := v.Client("", back).Begin(bg, Flow{}, false); err == nil {
			t.Errorf("%q: %s", at, got)
		}
	}
	v.known.endpoint.AuthURL = "https://issuer.example/authorize?tenant=1"
	got, err := v.Client("", back).Begin(bg, Flow{State: "s"}, false)
	u, _ := url.Parse(got)
	if err != nil || u.Query().Get("tenant") != "1" || u.Query().Get("client_id") != issuer.Audience {
		t.Error(got, err)
	}
}
