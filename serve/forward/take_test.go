package forward

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
)

// TestTakenCredential checks that a session which a mate forwards ends at the first check if its credential was revoked
// after the sign-in, also on a server whose directory has not changed since its start.
func TestTakenCredential(t *testing.T) {
	t.Parallel()
	ctx, fix := context.Background(), env.Test(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: directory.Indexes()})
	must(err)
	defer func() { must(st.Close()) }()
	start := func() (*directory.Directory, *signin.Service) {
		d, err := directory.Open(st, fix.Env, password.New(fix.Env, 2, 100), directory.Options{Domain: "example.com"})
		must(err)
		return d, signin.New(signin.PeopleOf(d), fix.Env, signin.Options{Stats: stat.New(fix.Clock)})
	}
	d, in := start()
	p, err := d.People.Add(ctx, note.System, directory.PersonSpec{
		PersonFields: directory.PersonFields{FullName: []string{"Alice"}, ShortName: "alice"}, Password: "first",
	})
	must(err)
	_, secret, err := d.Passwords.AddApp(ctx, note.System, p.ID, "phone")
	must(err)
	byApp, err := in.Password(ctx, signin.Attempt{Door: "IMAP"}, "alice", secret)
	must(err)
	byPassword, err := in.Password(ctx, signin.Attempt{Door: "IMAP"}, "alice", "first")
	must(err)
	must(d.Passwords.Set(ctx, note.System, p.ID, "second", false))

	for _, restarted := range []bool{false, true} {
		if restarted {
			d.Close()
			d, in = start()
		}
		_, home := servers(t)
		home.Add("imap", func(*listen.Conn) {})
		home.known = func(ctx context.Context, _ note.UNID) (signin.Account, error) { return in.Account(ctx, "alice") }
		for _, c := range []struct {
			credential string
			valid      bool
		}{{byApp.Credential, true}, {byPassword.Credential, false}} {
			header, err := json.Marshal(hello{Door: "imap", Person: p.ID.String(), Credential: c.credential,
				Moved: true})
			must(err)
			_, _, a, err := home.who(ctx, header)
			must(err)
			_, err = in.Refresh(ctx, &a)
			if c.valid && err != nil || !c.valid && !errors.Is(err, signin.ErrDisabled) {
				t.Errorf("restarted %v, credential %q: %v", restarted, c.credential, err)
			}
			if changed, err := in.Refresh(ctx, &a); c.valid && (changed || err != nil) {
				t.Errorf("restarted %v: checked twice: %v, %v", restarted, changed, err)
			}
		}
	}
	d.Close()
}
