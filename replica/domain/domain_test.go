package domain

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// newService returns the part of a server in a domain that it has not founded yet, and its directory.
func newService(t *testing.T) (*Service, *directory.Directory) {
	t.Helper()
	f := env.TestRealTime(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: directory.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := directory.Open(s, f.Env, password.New(f.Env, 2, 100), directory.Options{Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(f.Env, d, Options{Name: "mx.example.com", Host: "mx.example.com",
		Own:    func() *pki.Own { own, _ := pki.OpenOwn(f.Env, "key"); return own },
		Make:   func() (*pki.Own, error) { return pki.MakeOwn(f.Env, "key", pki.Options{}) },
		Tokens: pki.DomainTokens(f.Env, "key", pki.Options{}),
	}), d
}

// TestAdmit checks that a token admits one server, however often that server asks, with one connection to it. Nothing
// else admits a server.
func TestAdmit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, d := newService(t)
	admit := func(key byte, name string, secret []byte) (a Admission, err error) {
		t.Helper()
		question, err := json.Marshal(Applicant{Name: name, Host: name, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := s.Admit(ctx, bus.Key{key}, question)
		if err == nil {
			err = json.Unmarshal(raw, &a)
		}
		return a, err
	}
	if _, err := admit(1, "branch.example.com", make([]byte, 16)); !errors.Is(err, store.ErrDenied) {
		t.Errorf("without a domain: %v", err)
	}
	token, _, err := s.NewToken(ctx, note.System, "mx.example.com:443", []string{"web https://mx.example.com"},
		time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(1, "branch.example.com", make([]byte, 16)); !errors.Is(err, store.ErrDenied) {
		t.Errorf("another secret: %v", err)
	}
	if _, err := admit(1, "MX.example.com", token.Secret[:]); !errors.Is(err, store.ErrExists) {
		t.Errorf("this server's name: %v", err)
	}
	for range 2 { // the first answer may be lost
		a, err := admit(1, "branch.example.com", token.Secret[:])
		if err != nil || a != (Admission{Domain: "example.com", Server: "mx.example.com"}) {
			t.Fatalf("%+v: %v", a, err)
		}
	}
	if _, err := admit(2, "other.example.com", token.Secret[:]); !errors.Is(err, store.ErrDenied) {
		t.Errorf("the token of another server: %v", err)
	}
	list, err := d.Connections.List(ctx, note.System)
	if err != nil || len(list) != 1 || list[0].Name != "domain branch.example.com" {
		t.Errorf("%+v: %v", list, err)
	}
	if _, known, err := d.Servers.ByKey(ctx, bus.Key{2}); err != nil || known {
		t.Errorf("a server that was not admitted is known: %v", err)
	}
}

// TestAnnounce checks that the server document of this server gets the addresses of its doors, in a domain only.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, d := newService(t)
	doors := []string{"imap mx.example.com:143", "web https://mx.example.com"}
	if err := s.Announce(ctx, doors); err != nil || s.o.Own() != nil {
		t.Errorf("outside a domain: %v", err)
	}
	if _, _, err := s.NewToken(ctx, note.System, "mx.example.com:443", doors, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{doors, doors[1:]} {
		if err := s.Announce(ctx, want); err != nil {
			t.Fatal(err)
		}
		f, known, err := d.Servers.ByKey(ctx, s.o.Own().Key)
		if err != nil || !known || !slices.Equal(f.Doors, want) {
			t.Errorf("doors %q, not %q: %v", f.Doors, want, err)
		}
	}
}
