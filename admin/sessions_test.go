package admin

import (
	"context"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/directory/passkey"
	"doublet/directory/session"
	"doublet/directory/totp"
	"doublet/note"
)

// TestSessions checks that sessions of browsers are listed and ended; a second factor is removed.
func TestSessions(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	p, err := s.Directory.People.Add(ctx, note.System,
		directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{"Ada"}, ShortName: "ada"},
			Password: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	begin := func() session.Session {
		t.Helper()
		_, made, err := s.Sessions.Begin(ctx, session.Session{Person: p.ID, Address: "192.0.2.1", Agent: "Browser 1.0"})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	one := begin()
	begin()
	begin()
	list, err := Do[[]Session](ctx, Direct{s}, "session list", SessionList{Person: "ada"})
	if err != nil || len(list) != 3 || list[0].Person != "Ada" || list[0].Address != "192.0.2.1" ||
		list[0].Agent != "Browser 1.0" {
		t.Fatal(list, err)
	}
	if _, err := Do[Done](ctx, Direct{s}, "session end", SessionEnd{ID: one.ID.String()}); err != nil {
		t.Error(err)
	}
	if _, err := s.Sessions.Get(ctx, one.ID); err == nil {
		t.Error("it is still there")
	}
	if got, err := Do[Done](ctx, Direct{s}, "session end", SessionEnd{Person: "ada"}); err != nil ||
		got.Done != "2 sessions are ended" {
		t.Error(got, err)
	}
	begin()
	if got, err := Do[Done](ctx, Direct{s}, "session end", SessionEnd{All: true}); err != nil ||
		got.Done != "1 sessions are ended" {
		t.Error(got, err)
	}
	codes, err := s.Directory.SecondFactors.Set(ctx, note.System, p.ID, totp.NewSecret(s.Env))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := Do[User](ctx, Direct{s}, "user show", Named{Name: "ada"}); err != nil || u.SecondFactor.IsZero() ||
		u.Recovery != len(codes) {
		t.Error(u, err)
	}
	// The dump contains no secrets.
	var out strings.Builder
	if _, err := s.Run(ctx, note.System, "dump database", []byte(`{"database":"Directory"}`),
		func(p Progress) { out.WriteString(p.Output) }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "TOTPSecret") || !strings.Contains(out.String(), "RecoveryCode.0") ||
		strings.Count(out.String(), `"(secret, `) < 12 {
		t.Errorf("%s", out.String())
	}
	if _, err := Do[Done](ctx, Direct{s}, "user totp off", Named{Name: "ada"}); err != nil {
		t.Error(err)
	}
	if now, err := s.Directory.Names.Person(ctx, p.ID); err != nil || now.HasTOTP() || now.RecoveryCodes() != 0 {
		t.Error(now, err)
	}
}

// TestPasskeys checks that an administrator sees the passkeys of a person and removes them, one or all.
func TestPasskeys(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	p, err := s.Directory.People.Add(ctx, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: []string{"Ada"}, ShortName: "ada"}, Password: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string) directory.Passkey {
		t.Helper()
		k, err := s.Directory.Passkeys.Add(ctx, note.Who{Person: p.ID}, p.ID, name,
			passkey.Credential{ID: []byte(name), Key: []byte("public key")})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	one, two := add("Phone"), add("Laptop")
	add("Key ring")
	if ok, err := s.Sessions.UsePasskey(ctx, p.ID, two.ID, 1); err != nil || !ok {
		t.Fatal(ok, err)
	}
	u, err := Do[User](ctx, Direct{s}, "user show", Named{Name: "ada"})
	if err != nil || len(u.Passkeys) != 3 {
		t.Fatal(u, err)
	}
	for _, k := range u.Passkeys {
		if k.Created.IsZero() || k.Used.IsZero() != (k.ID != two.ID) {
			t.Errorf("%+v", k)
		}
	}
	left := func(a PasskeyRemove, want int) {
		t.Helper()
		if _, err := Do[Done](ctx, Direct{s}, "user passkey remove", a); err != nil {
			t.Error(err)
		}
		if now, err := s.Directory.Names.Person(ctx, p.ID); err != nil || len(now.Passkeys) != want ||
			now.HasPasskey(one.ID) {
			t.Error(now, err)
		}
	}
	left(PasskeyRemove{Name: "ada", ID: one.ID}, 2)
	if _, err := Do[Done](ctx, Direct{s}, "user passkey remove", PasskeyRemove{Name: "ada", ID: one.ID}); err == nil {
		t.Error("a passkey was removed twice")
	}
	left(PasskeyRemove{Name: "ada", ID: "all"}, 0)
}
