package signin

import (
	"errors"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/wire/sasl"
)

// TestCredentialEnds checks that an account stays signed in until its credential is revoked or expires, and no longer.
// Changes of other credentials do not matter.
func TestCredentialEnds(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	w := open(t, fix, Options{SCRAM: true})
	app := func(name string) (id, secret string) {
		p, secret, err := w.dir.Passwords.AddApp(bg, note.System, w.alice.ID, name)
		w.ok(err)
		return p.ID, secret
	}
	phone, phoneSecret := app("phone")
	laptop, _ := app("laptop")
	sign := func(user, secret string) *Account {
		a, err := w.Password(bg, Attempt{Door: "IMAP"}, user, secret)
		w.ok(err)
		return &a
	}
	scrammed, err := w.play(Attempt{Door: "IMAP"}, scramOf("alice", "secret-alice"))
	w.ok(err)
	byApp, byPassword, bob := sign("alice", phoneSecret), sign("alice", "secret-alice"), sign("bob", "secret-bob")
	goes := func(what string, a *Account, want bool) {
		t.Helper()
		_, err := w.Refresh(bg, a)
		if want && err != nil || !want && !errors.Is(err, ErrDisabled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all := func(app, password, scram bool) {
		t.Helper()
		goes("with the app password", byApp, app)
		goes("with the password", byPassword, password)
		goes("with SCRAM", &scrammed, scram)
		goes("bob", bob, true)
	}
	all(true, true, true)
	app("tablet")
	all(true, true, true)
	w.ok(w.dir.Passwords.RemoveApp(bg, note.System, w.alice.ID, laptop))
	all(true, true, false)
	w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "another-secret", true))
	all(true, false, false)
	w.ok(w.dir.Passwords.RemoveApp(bg, note.System, w.alice.ID, phone))
	all(false, false, false)

	ends := fix.Clock.Now().Add(time.Hour)
	if got := Ends("mate:" + credentialOf(ends)); got.Unix() != ends.Unix() {
		t.Errorf("ends at %v", got)
	}
	for _, c := range []string{"", "app:1", "password:2 app:3", "session:4"} {
		if !Ends(c).IsZero() {
			t.Errorf("%q ends", c)
		}
	}
	token := *bob
	token.Credential = credentialOf(ends)
	if got := token.Silence(24*time.Hour, fix.Clock.Now()); got > time.Hour {
		t.Errorf("may be silent for %v", got)
	}
	w.opt.OAuth = nil
	goes("with a token", &token, true) // the directory is unchanged: only the expiry counts
	fix.Time.Advance(time.Hour)
	goes("with a token that has ended", &token, false)
	var p directory.Person
	if w.holds(&p, credentialOf(ends.Add(time.Hour))) {
		t.Error("a token is good where none are taken any more")
	}
}

// meanwhile is a client that runs do before it sends its proof.
type meanwhile struct {
	sasl.Client
	do func()
}

func (m meanwhile) Next(in []byte) ([]byte, error) {
	m.do()
	return m.Client.Next(in)
}

// TestScramRevoked checks that a password that changes during a SCRAM exchange does not sign in. A password that is
// added does not disturb it.
func TestScramRevoked(t *testing.T) {
	t.Parallel()
	w := open(t, env.Test(t), Options{SCRAM: true})
	_, err := w.play(Attempt{Door: "IMAP"}, meanwhile{scramOf("alice", "secret-alice"), func() {
		_, _, err := w.dir.Passwords.AddApp(bg, note.System, w.alice.ID, "phone")
		w.ok(err)
	}})
	w.ok(err)
	_, err = w.play(Attempt{Door: "IMAP"}, meanwhile{scramOf("alice", "secret-alice"), func() {
		w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "another-secret", true))
	}})
	if !errors.Is(err, ErrCredentials) {
		t.Errorf("with the old password: %v", err)
	}
}
