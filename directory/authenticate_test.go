package directory

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"doublet/directory/password"
	"doublet/note"
	"doublet/wire/scram"

	"golang.org/x/crypto/argon2"
)

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice Smith", "alice", func(s *PersonSpec) { s.Password = "wonder"; s.Roles = []string{"Admin"} })
	g := w.group("Team", "", "alice")
	w.add("Bob", "bob") // has no password
	for _, user := range []string{"alice", "Alice Smith", "ALICE@example.com"} {
		who, p, err := w.SignIns.Authenticate(bg, user, "wonder", "imap")
		if err != nil || who.Person != alice.ID || p.ID != alice.ID || len(who.Groups) != 1 || who.Groups[0] != g.ID ||
			RequireAdmin(who) != nil {
			t.Errorf("%s: %+v %v", user, who, err)
		}
	}
	for user, pw := range map[string]string{"alice": "Wonder", "bob": "", "nobody": "wonder", "": "", "team": "x",
		"alice+x@example.com": "wonder"} {
		who, _, err := w.SignIns.Authenticate(bg, user, pw, "imap")
		if !errors.Is(err, ErrAuthentication) || !who.Person.IsZero() {
			t.Errorf("%q: %v %v", user, who, err)
		}
	}
	if n := w.Directory.SignIns.stat.failed.Value(); n != 6 {
		t.Errorf("%d failures counted", n)
	}
	_, err := w.People.Set(bg, note.System, alice.ID, func(f *PersonFields) error { f.Disabled = true; return nil })
	w.ok(err)
	_, _, err = w.SignIns.Authenticate(bg, "alice", "wonder", "imap")
	w.want(err, ErrDisabled)
	_, _, err = w.SignIns.Authenticate(bg, "alice", "wrong", "imap")
	w.want(err, ErrAuthentication)
	w.resolves("alice@example.com", alice.ID) // the address still resolves
}

func TestSetPassword(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password = "one" })
	bob := w.add("Bob", "bob")
	self := note.Who{Person: alice.ID}
	w.want(w.Passwords.Set(bg, note.Who{Person: bob.ID}, alice.ID, "evil", false), ErrDenied)
	w.want(w.Passwords.Set(bg, note.Who{}, note.UNID{}, "evil", false), ErrDenied)
	w.ok(w.Passwords.Set(bg, self, alice.ID, "two", false))
	_, _, err := w.SignIns.Authenticate(bg, "alice", "one", "t")
	w.want(err, ErrAuthentication)
	_, _, err = w.SignIns.Authenticate(bg, "alice", "two", "t")
	w.ok(err)
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "", false))
	_, _, err = w.SignIns.Authenticate(bg, "alice", "", "t")
	w.want(err, ErrAuthentication)
	if err := w.Passwords.Set(bg, self, alice.ID, strings.Repeat("x", 5000), false); err == nil {
		t.Error("a password of 5,000 bytes was taken")
	}
	w.want(w.Passwords.Set(bg, note.System, note.UNID{1}, "", false), ErrNotFound)
}

func TestAppPasswords(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password = "wonder" })
	bob := w.add("Bob", "bob")
	self := note.Who{Person: alice.ID}
	a, secret, err := w.Passwords.AddApp(bg, self, alice.ID, "phone")
	w.ok(err)
	_, second, err := w.Passwords.AddApp(bg, note.System, alice.ID, "tablet")
	w.ok(err)
	_, _, err = w.Passwords.AddApp(bg, note.Who{Person: bob.ID}, alice.ID, "evil")
	w.want(err, ErrDenied)
	_, _, err = w.Passwords.AddApp(bg, self, alice.ID, "\x00")
	w.want(err, ErrInvalid)
	for _, pw := range []string{secret, strings.ToUpper(secret), strings.ReplaceAll(secret, "-", ""), second,
		"wonder"} {
		_, _, err := w.SignIns.Authenticate(bg, "alice", pw, "imap")
		w.ok(err)
	}
	if app, plain := w.Directory.SignIns.stat.app.Value(), w.Directory.SignIns.stat.ok.Value(); app != 4 || plain != 1 {
		t.Errorf("counted %d app passwords and %d others", app, plain)
	}
	_, _, err = w.SignIns.Authenticate(bg, "bob", secret, "imap")
	w.want(err, ErrAuthentication)
	p, err := w.Names.Person(bg, alice.ID)
	if err != nil || len(p.AppPasswords) != 2 {
		t.Fatal(p, err)
	}
	for _, x := range p.AppPasswords {
		if x.ID == a.ID && (x.Label != "phone" || x.Last4 != secret[len(secret)-4:] ||
			!x.Created.Equal(w.fix.Clock.Now())) {
			t.Errorf("%+v", x)
		}
	}
	// They stay valid after a restart, and when other fields change.
	w.end()
	w.start()
	_, err = w.People.Set(bg, note.System, alice.ID, func(f *PersonFields) error { f.Quota = 1; return nil })
	w.ok(err)
	_, _, err = w.SignIns.Authenticate(bg, "alice", secret, "imap")
	w.ok(err)
	w.want(w.Passwords.RemoveApp(bg, note.Who{Person: bob.ID}, alice.ID, a.ID), ErrDenied)
	w.want(w.Passwords.RemoveApp(bg, self, alice.ID, "nope"), ErrNotFound)
	w.ok(w.Passwords.RemoveApp(bg, self, alice.ID, a.ID))
	_, _, err = w.SignIns.Authenticate(bg, "alice", secret, "imap")
	w.want(err, ErrAuthentication)
	_, _, err = w.SignIns.Authenticate(bg, "alice", second, "imap")
	w.ok(err)
	for range maxTokens - 1 {
		_, _, err = w.Passwords.AddApp(bg, self, alice.ID, "more")
		w.ok(err)
	}
	_, _, err = w.Passwords.AddApp(bg, self, alice.ID, "too many")
	w.want(err, ErrInvalid)
}

// scramSignIn runs both sides of a SCRAM exchange.
func (w *world) scramSignIn(user, pw string) error {
	c := scram.NewClient(user, pw, "client-nonce-0123456789")
	s := scram.NewServer(func(user string) ([]scram.Credentials, error) { return w.SignIns.ScramCredentials(bg, user) },
		"server-nonce-0123456789", scram.Channel{})
	in, _, err := c.Next(nil)
	for err == nil {
		var done bool
		if in, done, err = s.Next(in); err != nil || done {
			return err
		}
		in, _, err = c.Next(in)
	}
	return err
}

func TestScram(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password, s.Scram = "wonder", true })
	w.add("Bob", "bob", func(s *PersonSpec) { s.Password = "builder" })
	w.ok(w.scramSignIn("alice", "wonder"))
	w.ok(w.scramSignIn("alice@example.com", "wonder"))
	w.want(w.scramSignIn("alice", "Wonder"), scram.ErrProof)
	w.want(w.scramSignIn("bob", "builder"), scram.ErrProof) // has no SCRAM credentials
	w.want(w.scramSignIn("nobody", "x"), scram.ErrProof)
	if who, p, err := w.SignIns.SignedIn(bg, "alice"); err != nil || who.Person != alice.ID || p.ID != alice.ID {
		t.Error(who, err)
	}
	// An unknown user gets the same credentials every time, also after a restart and in every spelling.
	one, err := w.SignIns.ScramCredentials(bg, "nobody")
	w.ok(err)
	w.end()
	w.start()
	two, err := w.SignIns.ScramCredentials(bg, "Nobody")
	w.ok(err)
	// As for an existing user, the short name and its address are one user.
	address, err := w.SignIns.ScramCredentials(bg, "nobody@Example.com")
	w.ok(err)
	if string(address[0].Salt) != string(one[0].Salt) {
		t.Error("another spelling has another salt: who is not there is told from who is")
	}
	three, err := w.SignIns.ScramCredentials(bg, "somebody")
	w.ok(err)
	if string(one[0].Salt) != string(two[0].Salt) || one[0].StoredKey != two[0].StoredKey ||
		string(one[0].Salt) == string(three[0].Salt) {
		t.Error("made-up credentials tell who is not there")
	}
	real, err := w.SignIns.ScramCredentials(bg, "alice")
	w.ok(err)
	if real[0].Iterations != one[0].Iterations || len(real[0].Salt) != len(one[0].Salt) {
		t.Errorf("%d rounds and %d bytes against %d and %d", real[0].Iterations, len(real[0].Salt), one[0].Iterations,
			len(one[0].Salt))
	}
	w.ok(w.scramSignIn("alice", "wonder"))
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "wonder", false))
	w.want(w.scramSignIn("alice", "wonder"), scram.ErrProof)
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "wonder", true))
	w.ok(w.scramSignIn("alice", "wonder"))
	_, err = w.People.Set(bg, note.System, alice.ID, func(f *PersonFields) error { f.Disabled = true; return nil })
	w.ok(err)
	w.want(w.scramSignIn("alice", "wonder"), scram.ErrProof)
}

// TestScramAppPasswords checks that app passwords can always use SCRAM, with or without the account's password, in any
// order of creation.
func TestScramAppPasswords(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password = "wonder" })
	app := func() (string, string) {
		a, secret, err := w.Passwords.AddApp(bg, note.System, alice.ID, "phone")
		w.ok(err)
		return a.ID, secret
	}
	id, phone := app()
	w.ok(w.scramSignIn("alice", phone))
	w.want(w.scramSignIn("alice", "wonder"), scram.ErrProof)
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "wonder", true))
	_, tablet := app()
	for range 2 {
		for _, pw := range []string{phone, tablet, "wonder"} {
			w.ok(w.scramSignIn("alice", pw))
		}
		w.end()
		w.start()
	}
	w.ok(w.Passwords.RemoveApp(bg, note.System, alice.ID, id))
	w.want(w.scramSignIn("alice", phone), scram.ErrProof)
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "other", false))
	w.ok(w.scramSignIn("alice", tablet))
	w.want(w.scramSignIn("alice", "wonder"), scram.ErrProof)
	w.want(w.scramSignIn("alice", "other"), scram.ErrProof)
}

// TestScramOldSalt checks that a person with credentials from a release that used a separate salt for each password
// keeps that salt, so that app passwords share it.
func TestScramOldSalt(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password = "wonder" })
	old := scram.Derive("wonder", []byte("a salt of long ago"), 5000)
	w.ok(w.update(bg, note.System, func(e *edit) error {
		return e.change(alice.ID, formPerson, func(items note.Items) (note.Items, error) {
			return items.With(itemScram, note.Binary(appendScram(&old))), nil
		})
	}))
	_, phone, err := w.Passwords.AddApp(bg, note.System, alice.ID, "phone")
	w.ok(err)
	w.ok(w.scramSignIn("alice", "wonder"))
	w.ok(w.scramSignIn("alice", phone))
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "next", false))
	w.ok(w.scramSignIn("alice", phone))
	w.ok(w.Passwords.Set(bg, note.System, alice.ID, "next", true))
	w.ok(w.scramSignIn("alice", phone))
	w.ok(w.scramSignIn("alice", "next"))
}

// TestRenew checks that a hash with weak parameters is replaced once, at a sign-in.
func TestRenew(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password, s.Scram = "wonder", true })
	// "wonder" under a salt of eight bytes, 8 KiB, one pass.
	weak := "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$" + weakKey("wonder")
	w.ok(w.update(bg, note.System, func(e *edit) error {
		return e.change(alice.ID, formPerson, func(items note.Items) (note.Items, error) {
			return items.With(itemPassword, note.Text(weak)), nil
		})
	}))
	_, _, err := w.SignIns.Authenticate(bg, "alice", "wrong", "t")
	w.want(err, ErrAuthentication)
	for range 2 {
		_, _, err := w.SignIns.Authenticate(bg, "alice", "wonder", "t")
		w.ok(err)
		p, err := w.Names.Person(bg, alice.ID)
		w.ok(err)
		if p.password == weak || password.Outdated(p.password) || !p.HasScram {
			t.Errorf("%s, SCRAM %v", p.password, p.HasScram)
		}
	}
	if n := w.Directory.SignIns.stat.renewed.Value(); n != 1 {
		t.Errorf("%d hashes renewed", n)
	}
	w.ok(w.scramSignIn("alice", "wonder"))
}

func weakKey(pw string) string {
	return base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte(pw), []byte("somesalt"), 1, 8, 1, 32))
}
