package sieved

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
	"doublet/test/scenario"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

// people implements Accounts with alice and bob, password "demo".
type people struct {
	accounts map[string]signin.Account
	// gone makes Refresh fail.
	gone atomic.Bool
}

func (p *people) Mechanisms(signin.Attempt) []string {
	return []string{"PLAIN", "LOGIN", "SCRAM-SHA-256"}
}

func (p *people) Password(_ context.Context, _ signin.Attempt, user, password string) (signin.Account, error) {
	switch user {
	case "broken":
		return signin.Account{}, errors.New("directory is on fire")
	case "disabled":
		return signin.Account{}, signin.ErrDisabled
	case "banned":
		return signin.Account{}, signin.ErrBanned
	case "busy":
		return signin.Account{}, signin.ErrBusy
	}
	a, ok := p.accounts[user]
	if !ok || password != "demo" {
		return signin.Account{}, signin.ErrCredentials
	}
	return a, nil
}

func (p *people) Refresh(context.Context, *signin.Account) (bool, error) {
	if p.gone.Load() {
		return false, signin.ErrDisabled
	}
	return false, nil
}

type exchange struct {
	sasl.Server
	account func() (signin.Account, error)
}

func (x *exchange) Account() (signin.Account, error) { return x.account() }

func (p *people) Begin(ctx context.Context, c signin.Attempt, mechanism string) (signin.Exchange, error) {
	var a signin.Account
	verify := func(user, password string) (err error) {
		a, err = p.Password(ctx, c, user, password)
		return err
	}
	account := func() (signin.Account, error) { return a, nil }
	switch mechanism {
	case "PLAIN":
		return &exchange{sasl.NewPlainServer(func(_, user, password string) error { return verify(user, password) }),
			account}, nil
	case "LOGIN":
		return &exchange{sasl.NewLoginServer(verify), account}, nil
	}
	creds := scram.Derive("demo", []byte("salt of the test"), 4096)
	s := scram.NewServer(func(string) ([]scram.Credentials, error) { return []scram.Credentials{creds}, nil },
		"server-nonce-of-the-test", scram.Channel{})
	return &exchange{first{s}, func() (signin.Account, error) { return p.accounts[s.Username()], nil }}, nil
}

// first requests the client's first message if it was not in the command.
type first struct{ *scram.Server }

func (f first) Next(in []byte) ([]byte, bool, error) {
	if in == nil {
		return []byte{}, false, nil
	}
	out, done, err := f.Server.Next(in)
	if errors.Is(err, scram.ErrProof) {
		err = signin.ErrCredentials
	}
	return out, done, err
}

// house is a server under test.
type house struct {
	env    *env.Fixture
	mail   *mailbox.Service
	people *people
	server *Server
	*door.Open
}

func open(t testing.TB, cfg Config, o door.Options) *house {
	t.Helper()
	h := &house{env: env.TestRealTime(t)}
	st, err := store.Open(h.env.Env, "store", store.Options{CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1,
		Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	h.mail = mailbox.New(st, h.env.Env, mailbox.Options{})
	h.people = &people{accounts: map[string]signin.Account{}}
	for i, name := range []string{"alice", "bob"} {
		who := note.Who{Person: note.UNID{15: byte(i + 1)}}
		db, err := h.mail.Make(context.Background(), who.Person, name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.people.accounts[name] = signin.Account{Who: who, Database: db, Name: name}
	}
	h.server = New(h.env.Env, cfg, h.people, h.mail, stat.New(h.env.Clock))
	d := listen.Door{Name: "sieve", Serve: h.server.Serve, Busy: h.server.Busy()}
	o.Left = func() {
		if n := h.server.stats.current.Value(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	}
	h.Open = door.At(t, h.env.Env, d, o)
	return h
}

// TestScenarios plays the dialogues of testdata. The first word of a file's name selects other settings.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for kind, o := range map[string]door.Options{"sieve": {}, "tls": {TLS: true}, "far": {Far: true}} {
		t.Run(kind, func(t *testing.T) {
			scenario.Run(t, "testdata/"+kind+"-*.txt", scenario.Options{
				TLS: func(c net.Conn) (net.Conn, error) { return tls.Client(c, door.ClientTLS), nil },
			}, func(t *testing.T) scenario.Dial {
				t.Parallel()
				h := open(t, Config{}, o)
				return func(string) (net.Conn, error) { return net.Dial("tcp", h.Addr.String()) }
			})
		})
	}
}
