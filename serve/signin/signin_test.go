package signin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

var bg = context.Background()

// world is a directory with alice, who has SCRAM credentials, and bob, who does not.
type world struct {
	*Service
	t     testing.TB
	fix   *env.Fixture
	dir   *directory.Directory
	stats *stat.Tree
	alice directory.Person
	bob   directory.Person
}

func open(t testing.TB, fix *env.Fixture, o Options) *world {
	t.Helper()
	w := &world{t: t, fix: fix, stats: stat.New(fix.Clock)}
	s, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: directory.Indexes()})
	w.ok(err)
	w.dir, err = directory.Open(s, fix.Env, password.New(fix.Env, 2, 100), directory.Options{Domain: "example.com"})
	w.ok(err)
	add := func(name string, withScram bool) directory.Person {
		p, err := w.dir.People.Add(bg, note.System, directory.PersonSpec{
			PersonFields: directory.PersonFields{FullName: []string{name}, ShortName: name}, Password: "secret-" + name,
			Scram: withScram,
		})
		w.ok(err)
		return p
	}
	w.alice, w.bob = add("alice", true), add("bob", false)
	o.Stats = w.stats
	w.Service = New(PeopleOf(w.dir), fix.Env, o)
	t.Cleanup(func() {
		w.dir.Close()
		w.ok(s.Close())
	})
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) want(err, kind error) {
	w.t.Helper()
	if !errors.Is(err, kind) {
		w.t.Fatalf("error is %v, not %v", err, kind)
	}
}

// scramClient adapts a SCRAM client to sasl.Client.
type scramClient struct {
	name string
	c    *scram.Client
}

func (x scramClient) Mechanism() string        { return x.name }
func (x scramClient) Initial() ([]byte, error) { out, _, err := x.c.Next(nil); return out, err }
func (x scramClient) Next(in []byte) ([]byte, error) {
	out, _, err := x.c.Next(in)
	return out, err
}

func scramOf(user, pw string) sasl.Client {
	return scramClient{scram.Mechanism, scram.NewClient(user, pw, "client-nonce")}
}

// play runs a sign-in of a client.
func (w *world) play(a Attempt, c sasl.Client) (Account, error) {
	w.t.Helper()
	x, err := w.Begin(bg, a, c.Mechanism())
	if err != nil {
		return Account{}, err
	}
	response, err := c.Initial()
	w.ok(err)
	for range 4 {
		challenge, done, err := x.Next(response)
		if err != nil {
			if _, bad := x.Account(); bad == nil {
				w.t.Errorf("%s failed and has an account", c.Mechanism())
			}
			return Account{}, err
		}
		if done {
			if len(challenge) > 0 {
				if _, err := c.Next(challenge); err != nil {
					return Account{}, err
				}
			}
			return x.Account()
		}
		if response, err = c.Next(challenge); err != nil {
			return Account{}, err
		}
	}
	w.t.Fatal("no end")
	return Account{}, nil
}

func TestMechanisms(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	with, without := New(nil, fix.Env, Options{SCRAM: true}), New(nil, fix.Env, Options{})
	modern, old := &tls.ConnectionState{Version: tls.VersionTLS13}, &tls.ConnectionState{Version: tls.VersionTLS12}
	for _, c := range []struct {
		s    *Service
		a    Attempt
		want []string
	}{
		{with, Attempt{Door: "IMAP"}, []string{"SCRAM-SHA-256", "PLAIN"}},
		{with, Attempt{Door: "IMAP", TLS: modern}, []string{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN"}},
		{with, Attempt{Door: "IMAP", TLS: old}, []string{"SCRAM-SHA-256", "PLAIN"}},
		{with, Attempt{Door: "IMAP", TLS: old, Certificate: []byte("x")},
			[]string{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN"}},
		{with, Attempt{Door: "Submission"}, []string{"SCRAM-SHA-256", "PLAIN", "LOGIN"}},
		{without, Attempt{Door: "POP3", TLS: modern}, []string{"PLAIN"}},
	} {
		if got := c.s.Mechanisms(c.a); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.a, got, c.want)
		}
	}
	for _, m := range []string{"LOGIN", "CRAM-MD5", "OAUTHBEARER", "XOAUTH2", "SCRAM-SHA-256-PLUS", ""} {
		if _, err := with.Begin(bg, Attempt{Door: "IMAP"}, m); !errors.Is(err, ErrMechanism) {
			t.Errorf("%q: %v", m, err)
		}
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := open(t, env.TestRealTime(t), Options{SCRAM: true, Failures: -1})
	_, app, err := w.dir.Passwords.AddApp(bg, note.System, w.bob.ID, "phone")
	w.ok(err)
	here := Attempt{Door: "Submission"}
	for _, c := range []sasl.Client{
		scramOf("alice", "secret-alice"), scramOf("alice@example.com", "secret-alice"),
		sasl.NewPlainClient("", "alice", "secret-alice"), sasl.NewLoginClient("Alice", "secret-alice"),
	} {
		a, err := w.play(here, c)
		if err != nil || a.Who.Person != w.alice.ID || a.Name != "alice" || a.Address != "alice@example.com" ||
			a.Database != w.alice.MailDatabase || a.Directory != w.dir.Version() {
			t.Errorf("%s: %+v, %v", c.Mechanism(), a, err)
		}
	}
	for _, c := range []sasl.Client{scramOf("bob", app), sasl.NewPlainClient("bob", "bob", app)} {
		if a, err := w.play(here, c); err != nil || a.Who.Person != w.bob.ID {
			t.Errorf("%s: %+v, %v", c.Mechanism(), a, err)
		}
	}
	for _, c := range []sasl.Client{
		scramOf("bob", "secret-bob"), // has no SCRAM credentials
		scramOf("alice", "wrong"), scramOf("nobody", "x"),
		sasl.NewPlainClient("", "alice", "wrong"), sasl.NewLoginClient("nobody", "x"),
		sasl.NewPlainClient("bob", "alice", "secret-alice"),
	} {
		if _, err := w.play(here, c); !errors.Is(err, ErrCredentials) {
			t.Errorf("%s: %v", c.Mechanism(), err)
		}
	}
	x, err := w.Begin(bg, here, "scram-sha-256")
	w.ok(err)
	if _, _, err := x.Next([]byte("garbage")); !errors.Is(err, sasl.ErrMalformed) {
		t.Error(err)
	}
	// A disabled person gets ErrDisabled only with the correct password.
	a, err := w.Password(bg, here, "bob", "secret-bob")
	w.ok(err)
	if changed, err := w.Refresh(bg, &a); changed || err != nil {
		t.Error(changed, err)
	}
	g, err := w.dir.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team", Members: []string{"bob"}})
	w.ok(err)
	if changed, err := w.Refresh(bg, &a); !changed || err != nil || len(a.Who.Groups) != 1 || a.Who.Groups[0] != g.ID {
		t.Error(changed, err, a.Who.Groups)
	}
	_, err = w.dir.People.Set(bg, note.System, w.bob.ID,
		func(f *directory.PersonFields) error { f.Disabled = true; return nil })
	w.ok(err)
	_, err = w.Refresh(bg, &a)
	w.want(err, ErrDisabled)
	_, err = w.Password(bg, here, "bob", "secret-bob")
	w.want(err, ErrDisabled)
	_, err = w.Password(bg, here, "bob", "wrong")
	w.want(err, ErrCredentials)
}

// TestChannelBinding runs SCRAM-SHA-256-PLUS over a real connection, with the bindings that each side computes. A
// client that was tricked into believing that the mechanism is not offered detects it.
func TestChannelBinding(t *testing.T) {
	t.Parallel()
	w := open(t, env.TestRealTime(t), Options{SCRAM: true, Failures: -1})
	front := listen.New(w.fix.Env, listen.Options{}, nil)
	t.Cleanup(func() { w.ok(front.Shutdown(bg)) })
	attempts := make(chan Attempt, 1)
	l, err := front.Open(listen.Door{
		Name: "imaps", Network: "tcp", Address: "127.0.0.1:0", Implicit: true,
		TLS: &tls.Config{GetCertificate: func() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert := door.Certificate()
			return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
		}()},
		Serve: func(c *listen.Conn) { attempts <- AttemptOf(c, "IMAP") },
	})
	w.ok(err)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		nc, err := net.Dial("tcp", l.Addr().String())
		w.ok(err)
		c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
		w.ok(c.Handshake())
		state := c.ConnectionState()
		a := <-attempts
		w.ok(c.Close())
		exporter, modern := scram.Exporter(&state)
		if modern != (version == tls.VersionTLS13) || !slices.Contains(w.Mechanisms(a), scram.MechanismPlus) {
			t.Errorf("%x: %v, %v", version, modern, w.Mechanisms(a))
		}
		bound := func(b scram.Binding) sasl.Client {
			c := scram.NewClient("alice", "secret-alice", "nonce")
			c.Bind(b)
			return scramClient{scram.MechanismPlus, c}
		}
		if modern {
			_, err := w.play(a, bound(exporter))
			w.ok(err)
			other := scram.Binding{Name: scram.TLSExporter, Data: make([]byte, 32)}
			_, err = w.play(a, bound(other))
			w.want(err, ErrCredentials)
		}
		_, err = w.play(a, bound(scram.EndPoint(state.PeerCertificates[0])))
		w.ok(err)
		fooled := scram.NewClient("alice", "secret-alice", "nonce")
		fooled.NotOffered()
		_, err = w.play(a, scramClient{scram.Mechanism, fooled})
		w.want(err, ErrCredentials)
		_, err = w.play(a, scramOf("alice", "secret-alice"))
		w.ok(err)
	}
}

// TestBan checks that a guesser waits longer and longer, then is banned until the ban ends or is removed. Others can
// sign in as usual.
func TestBan(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	w := open(t, fix, Options{Failures: 5, Window: time.Minute, Ban: time.Hour})
	w.guard.env = skipping(fix)
	guess := func(from, user, pw string) (time.Duration, error) {
		t.Helper()
		began := fix.Clock.Now()
		_, err := w.Password(bg, Attempt{Door: "IMAP", Remote: netip.MustParseAddr(from)}, user, pw)
		return fix.Clock.Now().Sub(began), err
	}
	var waits []time.Duration
	for i := range 5 {
		d, err := guess("2001:db8::1", "alice", string(rune('a'+i)))
		w.want(err, ErrCredentials)
		waits = append(waits, d)
	}
	// The account's third failure causes half a second. From the fourth on, the address is delayed too.
	for i, want := range []time.Duration{0, 0, 500, 1500, 3000} {
		if waits[i] != want*time.Millisecond {
			t.Errorf("waited %v", waits)
		}
	}
	_, err := guess("2001:db8::ffff", "alice", "secret-alice") // the same /64
	w.want(err, ErrBanned)
	_, err = guess("2001:db8:0:1::1", "alice", "secret-alice")
	w.ok(err)
	_, err = guess("192.0.2.1", "bob", "secret-bob")
	w.ok(err)
	list := w.Bans()
	if len(list) != 1 || list[0].Address.String() != "2001:db8::/64" || list[0].Failures != 5 ||
		list[0].Door != "IMAP" {
		t.Errorf("%+v", list)
	}
	x, err := w.Begin(bg, Attempt{Door: "IMAP", Remote: netip.MustParseAddr("2001:db8::1")}, "PLAIN")
	w.ok(err)
	_, _, err = x.Next([]byte("\x00alice\x00secret-alice"))
	w.want(err, ErrBanned)
	_, err = w.Begin(bg, Attempt{Door: "IMAP", Remote: netip.MustParseAddr("2001:db8::1")}, scram.Mechanism)
	w.want(err, ErrBanned)
	if !w.RemoveBan(netip.MustParseAddr("2001:db8::77")) || w.RemoveBan(netip.MustParseAddr("2001:db8::77")) ||
		len(w.Bans()) != 0 {
		t.Error("the ban could not be removed, or twice")
	}
	_, err = guess("2001:db8::1", "alice", "secret-alice")
	w.ok(err)
	// A ban ends after its time.
	for i := range 5 {
		_, err = guess("192.0.2.1", "nobody", string(rune('a'+i)))
		w.want(err, ErrCredentials)
	}
	_, err = guess("192.0.2.1", "bob", "secret-bob")
	w.want(err, ErrBanned)
	fix.Time.Advance(time.Hour)
	_, err = guess("192.0.2.1", "bob", "secret-bob")
	w.ok(err)
	// A program that repeats one old password does not get its office's address banned.
	for range 8 {
		_, err = guess("192.0.2.9", "bob", "of last year")
		w.want(err, ErrCredentials)
	}
	_, err = guess("192.0.2.9", "alice", "secret-alice")
	w.ok(err)
	// Failures from this machine do not count.
	for i := range 8 {
		d, err := guess("127.0.0.1", "bob", string(rune('a'+i)))
		w.want(err, ErrCredentials)
		if d != 0 {
			t.Fatalf("loopback waited %v", d)
		}
	}
	if n := w.guard.banned.Value(); n != 2 {
		t.Errorf("%d bans counted", n)
	}
}

// TestGuardIsBounded checks that an attacker with many addresses cannot exhaust the memory.
func TestGuardIsBounded(t *testing.T) {
	t.Parallel()
	var x tallies[int]
	for i := range 2 * maxTallies {
		x.add(i).n = i
	}
	if len(x.table) != maxTallies || x.lru.Len() != maxTallies || x.get(0) != nil ||
		x.get(2*maxTallies-1).n != 2*maxTallies-1 {
		t.Errorf("%d and %d kept", len(x.table), x.lru.Len())
	}
	if delay(patience-1) != 0 || delay(1<<40) != maxDelay {
		t.Error(delay(patience-1), delay(1<<40))
	}
}
