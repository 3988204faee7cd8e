package websession

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/passkey"
	"doublet/directory/totp"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/test/device"

	"github.com/descope/virtualwebauthn"
)

// phone is an authenticator with one passkey, and the browser's view of the server.
type phone struct {
	w    *world
	rp   virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	key  virtualwebauthn.Credential
}

// phone returns a device with a passkey that no server knows. The device itself has no user handle until register.
func (w *world) phone() *phone {
	return &phone{w: w, rp: virtualwebauthn.RelyingParty{Name: "Mail", ID: "mail.example.com",
		Origin: "https://mail.example.com"}, auth: virtualwebauthn.NewAuthenticator(),
		key: device.Passkey()}
}

// creation returns options to create a passkey for the user of a browser.
func (w *world) creation(b *browser, name string) string {
	w.t.Helper()
	out := b.json(pathPasskeyBegin, m{"password": "secret-" + name})
	w.is("begin", out, 200, `"userVerification":"required"`)
	return out.Body.String()
}

// created returns the response of a device to creation options.
func (d *phone) created(options string) json.RawMessage {
	d.w.t.Helper()
	o, err := virtualwebauthn.ParseAttestationOptions(options)
	d.w.ok(err)
	d.auth.Options.UserHandle = []byte(o.UserID)
	return json.RawMessage(virtualwebauthn.CreateAttestationResponse(d.rp, d.auth, d.key, *o))
}

func (b *browser) add(name string, response json.RawMessage) *httptest.ResponseRecorder {
	b.w.t.Helper()
	return b.json(pathPasskeyAdd, m{"name": name, "credential": response})
}

// register creates a passkey for a signed-in person and returns its id.
func (d *phone) register(b *browser, name string) string {
	d.w.t.Helper()
	out := b.add("Key", d.created(d.w.creation(b, name)))
	var got passkeyInfo
	if out.Code != 200 || json.Unmarshal(out.Body.Bytes(), &got) != nil || got.ID == "" {
		d.w.t.Fatalf("add: %d %s", out.Code, out.Body)
	}
	return got.ID
}

// request returns options to sign in.
func (w *world) request() string {
	w.t.Helper()
	out := w.browser().send("GET", pathWays, "", "", "Sec-Fetch-Site", "same-origin")
	w.is("request", out, 200, `"rpId":"mail.example.com"`)
	w.is("request", out, 200, `"origin":"https://mail.example.com"`)
	var got struct{ Passkey json.RawMessage }
	w.ok(json.Unmarshal(out.Body.Bytes(), &got))
	return string(got.Passkey)
}

// shown returns the response of a device to sign-in options.
func (d *phone) shown(options string) json.RawMessage {
	d.w.t.Helper()
	o, err := virtualwebauthn.ParseAssertionOptions(options)
	d.w.ok(err)
	return json.RawMessage(virtualwebauthn.CreateAssertionResponse(d.rp, d.auth, d.key, *o))
}

// enter signs in with a response.
func (b *browser) enter(response json.RawMessage) *httptest.ResponseRecorder {
	b.w.t.Helper()
	out := b.json(pathPasskey, m{"credential": response})
	var got signedIn
	if out.Code == 200 && json.Unmarshal(out.Body.Bytes(), &got) == nil {
		b.csrf = got.CSRF
	}
	return out
}

func (b *browser) passkeys() (list []passkeyInfo) {
	b.w.t.Helper()
	out := b.send("GET", pathPasskeys, "", "")
	b.w.is("list", out, 200, "[")
	b.w.ok(json.Unmarshal(out.Body.Bytes(), &list))
	return list
}

// TestPasskey registers a passkey and signs in with it, without a name and with a second factor set.
func TestPasskey(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.signedIn("alice")
	w.is("without a password", b.json(pathPasskeyBegin, m{}), 400, "password")
	w.is("wrong password", b.json(pathPasskeyBegin, m{"password": "secret-bob"}), 401, "credentials")
	d := w.phone()
	w.is("no name", b.add("", d.created(w.creation(b, "alice"))), 400, "name")
	w.is("long name", b.add(strings.Repeat("x", 101), d.created(w.creation(b, "alice"))), 400, "name")
	id := d.register(b, "alice")
	if list := b.passkeys(); len(list) != 1 || list[0].ID != id || list[0].Name != "Key" || !list[0].Used.IsZero() {
		t.Fatalf("passkeys: %+v", list)
	}
	_, err := w.dir.SecondFactors.Set(bg, note.System, w.alice.ID, make([]byte, totp.SecretLen))
	w.ok(err)
	w.fix.Time.Advance(time.Hour)
	other := w.browser()
	w.is("sign in", other.enter(d.shown(w.request())), 200, `"second_factor":true`)
	w.is("its cookie", other.send("GET", "/api", "", ""), 200, "alice session:")
	if list := other.passkeys(); len(list) != 1 || list[0].Used.Sub(list[0].Created) != time.Hour {
		t.Errorf("passkeys: %+v", list)
	}
	// The session does not replace the password where it is asked for.
	w.is("second factor", other.json(pathTOTPOff, m{}), 400, "password")
	w.is("another passkey", other.json(pathPasskeyBegin, m{}), 400, "password")
	w.is("another passkey", other.json(pathPasskeyBegin, m{"password": "secret-alice"}), 401, "code")
	w.is("remove", other.json(pathPasskeyRemove, m{"id": id}), 400, "password")
	// A new password ends the session and not the passkey. A passkey works without a password, as app passwords do.
	for _, pw := range []string{"new", ""} {
		w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, pw, false))
		w.is("after a new password", other.send("GET", "/api", "", ""), 401, "nobody")
		w.is("sign in", other.enter(d.shown(w.request())), 200, `"name":"alice"`)
		w.is("its cookie", other.send("GET", "/api", "", ""), 200, "alice session:")
	}
}

// TestPasskeyForged checks that a response signs nobody in unless it proves a passkey of its person for this request.
func TestPasskeyForged(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: -1})
	alice, bob := w.signedIn("alice"), w.signedIn("bob")
	d, e := w.phone(), w.phone()
	d.register(alice, "alice")
	e.register(bob, "bob")
	refused := func(what string, response json.RawMessage, word string) {
		t.Helper()
		b := w.browser()
		w.is(what, b.enter(response), 401, `"error":"`+word+`"`)
		if len(b.cookies) > 0 {
			t.Errorf("%s: a cookie", what)
		}
	}
	with := func(change func(*phone)) json.RawMessage {
		t.Helper()
		x := *d
		change(&x)
		return x.shown(w.request())
	}
	good := d.shown(w.request())
	w.is("good", w.browser().enter(good), 200, `"name":"alice"`)
	refused("replayed", good, "passkey")
	refused("nothing", nil, "passkey")
	refused("malformed", json.RawMessage(`{"id":"AA","type":"public-key"}`), "passkey")
	refused("other origin", with(func(x *phone) { x.rp.Origin = "https://evil.example" }), "passkey")
	refused("clear origin", with(func(x *phone) { x.rp.Origin = "http://mail.example.com" }), "passkey")
	refused("sub-domain", with(func(x *phone) { x.rp.Origin = "https://x.mail.example.com" }), "passkey")
	refused("other relying party", with(func(x *phone) { x.rp.ID = "evil.example" }), "passkey")
	refused("user not verified", with(func(x *phone) { x.auth.Options.UserNotVerified = true }), "passkey")
	refused("user not present", with(func(x *phone) { x.auth.Options.UserNotPresent = true }), "passkey")
	refused("backup eligibility changed", with(func(x *phone) { x.auth.Options.BackupEligible = true }), "passkey")
	refused("no person", with(func(x *phone) { x.auth.Options.UserHandle = nil }), "passkey")
	refused("unknown person", with(func(x *phone) { x.auth.Options.UserHandle = make([]byte, 16) }), "passkey")
	refused("another person", with(func(x *phone) { x.auth.Options.UserHandle = w.bob.ID[:] }), "passkey")
	refused("another key", with(func(x *phone) { x.key.Key = e.key.Key }), "passkey")
	refused("unknown passkey", w.phone().as(d).shown(w.request()), "passkey")
	forge := func(challenge []byte) json.RawMessage {
		return json.RawMessage(virtualwebauthn.CreateAssertionResponse(d.rp, d.auth, d.key,
			virtualwebauthn.AssertionOptions{Challenge: challenge, RelyingPartyID: d.rp.ID}))
	}
	refused("own challenge", forge(make([]byte, 56)), "passkey")
	refused("short challenge", forge([]byte("0123456789abcdef")), "passkey")
	o, err := virtualwebauthn.ParseAttestationOptions(w.creation(alice, "alice"))
	w.ok(err)
	refused("challenge of a registration", forge(o.Challenge), "passkey")
	request, err := virtualwebauthn.ParseAssertionOptions(w.request())
	w.ok(err)
	request.Challenge[16+7]++ // a later end
	refused("prolonged challenge", forge(request.Challenge), "passkey")
	late := d.shown(w.request())
	w.fix.Time.Advance(passkey.Life)
	refused("late", late, "late")
	w.is("still good", w.browser().enter(d.shown(w.request())), 200, `"name":"alice"`)
}

// as gives a device the user handle of another one.
func (d *phone) as(other *phone) *phone {
	d.auth.Options.UserHandle = other.auth.Options.UserHandle
	return d
}

// TestPasskeyCounter checks that a copy of a passkey is noticed by its signature counter.
func TestPasskeyCounter(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: -1})
	d := w.phone()
	d.key.Counter = 5
	d.register(w.signedIn("alice"), "alice")
	for _, c := range []struct {
		counter uint32
		status  int
	}{{5, 401}, {4, 401}, {0, 401}, {6, 200}, {6, 401}, {5, 401}, {1000, 200}, {999, 401}, {1001, 200}} {
		d.key.Counter = c.counter
		if out := w.browser().enter(d.shown(w.request())); out.Code != c.status {
			t.Errorf("counter %d: %d %s", c.counter, out.Code, out.Body)
		}
	}
}

// TestPasskeyRemoved checks that a removed passkey signs nobody in, and that the sessions that began with it end.
func TestPasskeyRemoved(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: -1})
	b, bob := w.signedIn("alice"), w.signedIn("bob")
	d, e := w.phone(), w.phone()
	id := d.register(b, "alice")
	e.register(b, "alice")
	by, byOther := w.browser(), w.browser()
	w.is("sign in", by.enter(d.shown(w.request())), 200, "alice")
	w.is("sign in", byOther.enter(e.shown(w.request())), 200, "alice")
	w.stop() // the session is read again
	w.start()
	w.is("of another person", bob.json(pathPasskeyRemove, m{"id": id, "password": "secret-bob"}), 404, "not found")
	w.is("wrong password", b.json(pathPasskeyRemove, m{"id": id, "password": "secret-bob"}), 401, "credentials")
	w.is("remove", b.json(pathPasskeyRemove, m{"id": id, "password": "secret-alice"}), 200, "removed")
	w.is("again", b.json(pathPasskeyRemove, m{"id": id, "password": "secret-alice"}), 404, "not found")
	w.is("session of the passkey", by.send("GET", "/api", "", ""), 401, "nobody")
	w.is("session of the password", b.send("GET", "/api", "", ""), 200, "alice")
	w.is("session of the other passkey", byOther.send("GET", "/api", "", ""), 200, "alice")
	w.is("sign in", w.browser().enter(d.shown(w.request())), 401, "passkey")
	w.is("sign in", w.browser().enter(e.shown(w.request())), 200, "alice")
	// Only a proof of the passkey shows that the account is disabled.
	_, err := w.dir.People.Set(bg, note.System, w.alice.ID, func(f *directory.PersonFields) error {
		f.Disabled = true
		return nil
	})
	w.ok(err)
	w.is("disabled", w.browser().enter(e.shown(w.request())), 403, `"error":"disabled"`)
	w.is("disabled, no proof", w.browser().enter(w.phone().as(e).shown(w.request())), 401, `"error":"passkey"`)
	w.ok(w.dir.People.Remove(bg, note.System, w.alice.ID))
	w.is("person removed", w.browser().enter(e.shown(w.request())), 401, `"error":"passkey"`)
}

// TestPasskeyRegistered checks that only the session that has proved the password can add a passkey, once.
func TestPasskeyRegistered(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: -1})
	alice, again, bob := w.signedIn("alice"), w.signedIn("alice"), w.signedIn("bob")
	d := w.phone()
	options := w.creation(alice, "alice")
	response := d.created(options)
	w.is("another session", again.add("Key", response), 400, "not valid")
	w.is("another person", bob.add("Key", response), 400, "not valid")
	w.is("no token", alice.send("POST", pathPasskeyAdd, "application/json", `{"name":"x"}`), 403, "foreign")
	w.is("nothing", alice.add("Key", nil), 400, "not valid")
	evil := *d
	evil.rp.Origin = "https://evil.example"
	w.is("another origin", alice.add("Key", evil.created(options)), 400, "not valid")
	evil = *d
	evil.rp.ID = "evil.example"
	w.is("another relying party", alice.add("Key", evil.created(options)), 400, "not valid")
	evil = *d
	evil.auth.Options.UserNotVerified = true
	w.is("user not verified", alice.add("Key", evil.created(options)), 400, "not valid")
	late := w.phone().created(w.creation(alice, "alice"))
	w.is("good", alice.add("Key", response), 200, `"id"`)
	w.is("replayed", alice.add("Key", response), 400, "not valid")
	w.fix.Time.Advance(passkey.Life)
	w.is("late", alice.add("Key", late), 401, `"error":"late"`)
	// The browser is told to exclude devices that have a passkey already, and the server rejects the same one.
	options = w.creation(alice, "alice")
	if have := base64.RawURLEncoding.EncodeToString(d.key.ID); !strings.Contains(options, have) {
		t.Errorf("%s is not excluded in %s", have, options)
	}
	w.is("the same passkey", alice.add("Key", d.created(options)), 400, "bad request")
	for i := range directory.MaxPasskeys - 2 {
		_, err := w.dir.Passkeys.Add(bg, note.System, w.alice.ID, "Key", passkey.Credential{ID: []byte{byte(i)},
			Key: []byte("key")})
		w.ok(err)
	}
	last, over := w.creation(alice, "alice"), w.creation(alice, "alice")
	w.is("the last", alice.add("Key", w.phone().created(last)), 200, `"id"`)
	w.is("one more", alice.add("Key", w.phone().created(over)), 400, "bad request")
	w.is("one more", alice.json(pathPasskeyBegin, m{"password": "secret-alice"}), 400, "at most 20")
	if n := len(alice.passkeys()); n != directory.MaxPasskeys {
		t.Errorf("%d passkeys", n)
	}
}

// TestPasskeyLimits checks that wrong passkeys count as wrong passwords do, that requests of other sites and without
// TLS are rejected, and that the setting turns passkeys off.
func TestPasskeyLimits(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: 2})
	d := w.phone()
	d.register(w.signedIn("alice"), "alice")
	w.is("cross-site", w.browser().json(pathPasskey, m{"credential": d.shown(w.request())}, "Sec-Fetch-Site",
		"cross-site"), 403, "foreign")
	far := &browser{w: w, remote: elsewhere, clear: true}
	w.is("clear", far.json(pathPasskey, m{"credential": d.shown(w.request())}), 403, `"error":"clear"`)
	w.is("clear", far.send("GET", pathWays, "", ""), 403, `"error":"clear"`)
	far.clear = false
	for range 2 { // fewer than cause a delay
		w.is("unknown", far.enter(w.phone().as(d).shown(w.request())), 401, `"error":"passkey"`)
	}
	w.is("banned", far.enter(d.shown(w.request())), 429, `"error":"banned"`)
	w.is("banned for passwords too", far.json(PathSignIn, m{"user": "alice", "password": "secret-alice"}), 429,
		"banned")
	w.is("from elsewhere", w.browser().enter(d.shown(w.request())), 200, "alice")
	w.Service.opt.Passkeys = nil
	alice := w.signedIn("alice")
	for _, path := range []string{pathPasskeys} {
		w.is("off", alice.send("GET", path, "", ""), http.StatusNotFound, `"error":"off"`)
	}
	for _, path := range []string{pathPasskey, pathPasskeyBegin, pathPasskeyAdd, pathPasskeyRemove} {
		w.is("off", alice.json(path, m{"password": "secret-alice"}), http.StatusNotFound, `"error":"off"`)
	}
}
