package signin

import (
	"errors"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"doublet/directory/oauth"
	"doublet/env"
	"doublet/note"
	"doublet/test/issuer"
)

// openID returns the sign-in with an issuer, which signs in Alice.
func (w *world) openID() (*OpenID, *issuer.Issuer) {
	w.t.Helper()
	i := issuer.New(w.t)
	v, err := oauth.New(w.fix.Env, oauth.Options{Issuer: i.URL, Audience: issuer.Audience, Stats: w.stats})
	w.ok(err)
	client := v.Client(issuer.Secret, "https://mail.example.com/back")
	return w.Web(PeopleOf(w.dir), nil).OpenID(client, []byte("key")), i
}

// TestAuthTime checks how fresh a sign-in with an issuer is. A person who signs in again must have been authenticated
// after the request, within the error of the clocks. A refusal bans nobody, because nothing was guessed.
func TestAuthTime(t *testing.T) {
	t.Parallel()
	w := open(t, env.Test(t), Options{Failures: 1})
	o, i := w.openID()
	far := Attempt{Door: "HTTP", Remote: netip.MustParseAddr("192.0.2.1")}
	alice, bob := &Again{w.alice.ID, note.UNID{1}}, &Again{w.bob.ID, note.UNID{2}}
	const at = 3 * time.Minute // from the request to the response
	type claim func(asked time.Time) any
	after := func(d time.Duration) claim { return func(asked time.Time) any { return asked.Add(d).Unix() } }
	is := func(v any) claim { return func(time.Time) any { return v } }
	half := func(asked time.Time) any { return float64(asked.Unix()) + 0.5 }
	for what, c := range map[string]struct {
		again  *Again
		claim  claim
		err    error
		proved time.Duration // after the request
	}{
		"again":                       {alice, after(2 * time.Minute), nil, 2 * time.Minute},
		"again, the issuer is behind": {alice, after(-clockError), nil, -clockError},
		"again, the issuer is ahead":  {alice, after(at + clockError), nil, at},
		"again, a fraction":           {alice, half, nil, 0},
		"again, too old":              {alice, after(-clockError - time.Second), ErrNotAgain, 0},
		"again, in the future":        {alice, after(at + clockError + time.Second), ErrNotAgain, 0},
		"again, without a time":       {alice, is(nil), ErrNotAgain, 0},
		"again, a text":               {alice, func(asked time.Time) any { return asked.String() }, ErrNotAgain, 0},
		"again, negative":             {alice, is(-1), ErrNotAgain, 0},
		"again, huge":                 {alice, is(1e300), ErrNotAgain, 0},
		"again, another person":       {bob, after(2 * time.Minute), ErrOther, 0},
		"once":                        {nil, after(2 * time.Minute), nil, 2 * time.Minute},
		"once, long ago":              {nil, after(-20 * time.Hour), nil, -20 * time.Hour},
	} {
		asked := w.fix.Clock.Now()
		address, ticket, err := o.Begin(bg, Wish{To: "/admin/", Again: c.again})
		w.ok(err)
		u, err := url.Parse(address)
		w.ok(err)
		q := u.Query()
		if (q.Get("prompt") == "login") != (c.again != nil) || (q.Get("max_age") == "0") != (c.again != nil) {
			t.Errorf("%s: %s", what, address)
		}
		w.fix.Time.Advance(at)
		q = i.Code(t, w.fix.Clock.Now(), address, issuer.Claims{"auth_time": c.claim(asked)}).Query()
		got, wish, err := o.Finish(bg, far, ticket, q.Get("state"), q.Get("code"))
		if !errors.Is(err, c.err) || wish.To != "/admin/" || (wish.Again != nil) != (c.again != nil) {
			t.Errorf("%s: %v, %+v", what, err, wish)
		}
		if err == nil && !got.AuthTime.Equal(asked.Add(c.proved)) {
			t.Errorf("%s: proved at %s, asked at %s", what, got.AuthTime, asked)
		}
	}
	future := w.fix.Clock.Now().Add(clockError + time.Second)
	for what, change := range map[string]issuer.Claims{"no time": nil, "a future time": {"auth_time": future.Unix()}} {
		address, ticket, err := o.Begin(bg, Wish{})
		w.ok(err)
		q := i.Code(t, w.fix.Clock.Now(), address, change).Query()
		got, _, err := o.Finish(bg, far, ticket, q.Get("state"), q.Get("code"))
		if w.ok(err); !got.AuthTime.IsZero() {
			t.Errorf("a sign-in with %s is as fresh as %s", what, got.AuthTime)
		}
	}
	if bans := w.Bans(); len(bans) > 0 {
		t.Errorf("bans: %+v", bans)
	}

	address, ticket, err := o.Begin(bg, Wish{Again: alice})
	w.ok(err)
	q := i.Code(t, w.fix.Clock.Now(), address, nil).Query()
	for n, want := range []error{nil, ErrIssuer} {
		if _, _, err := o.Finish(bg, far, ticket, q.Get("state"), q.Get("code")); !errors.Is(err, want) {
			t.Errorf("response %d: %v", n, err)
		}
	}
}
