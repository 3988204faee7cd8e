package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bus"
	"doublet/env"
)

var bg = context.Background()

// shifted is a clock that is wrong by by.
type shifted struct {
	env.Clock
	by time.Duration
}

func (s shifted) Now() time.Time { return s.Clock.Now().Add(s.by) }

// at returns an environment whose clock is wrong by d.
func at(e *env.Env, d time.Duration) *env.Env {
	other := *e
	other.Clock = shifted{e.Clock, d}
	return &other
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func found(t *testing.T, e *env.Env, dir string) *Folder {
	t.Helper()
	return must[*Folder](t)(Create(e, dir, "Acme", "one", Options{}))
}

func TestFolder(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	if _, err := Open(e.Env, "cluster", Options{}); !errors.Is(err, ErrNone) {
		t.Errorf("open nothing: %v", err)
	}
	f := found(t, e.Env, "cluster")
	if _, err := Create(e.Env, "cluster", "Other", "one", Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("found a second one: %v", err)
	}
	again := must[*Folder](t)(Open(e.Crash(0, 1).Env, "cluster", Options{}))
	if again.Identity() != f.Identity() || again.Cluster() != "Acme" || again.Fingerprint() != f.Fingerprint() ||
		!again.MayAdmit() || again.Identity().Name != "one" {
		t.Errorf("after a power cut: %+v of %q, was %+v", again.Identity(), again.Cluster(), f.Identity())
	}
	if me := f.Identity(); me.ID.IsZero() || me.Until.Sub(e.Clock.Now()) != DefaultLife {
		t.Errorf("identity: %+v", me)
	}
	members := []bus.Member{{ID: f.Identity().ID, Name: "one", Key: f.Identity().Key, Route: "a:1", Direct: "a:2"}}
	if err := f.SaveMembers(members); err != nil {
		t.Fatal(err)
	}
	if got, err := again.Members(); err != nil || len(got) != 0 {
		t.Errorf("members of another folder: %v, %v", got, err)
	}
	if got, err := f.Members(); err != nil || !slices.Equal(got, members) {
		t.Errorf("members: %v, %v", got, err)
	}
	for _, name := range []string{"", strings.Repeat("x", 65), "a\nb"} {
		if _, err := Create(e.Env, "other", name, "one", Options{}); err == nil {
			t.Errorf("a cluster %q was founded", name)
		}
		if _, err := Create(e.Env, "other", "Acme", name, Options{}); err == nil {
			t.Errorf("a server %q was made", name)
		}
	}
}

// TestDamaged checks that the error names each file that is missing, truncated or from another cluster.
func TestDamaged(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	found(t, e.Env, "other")
	for _, name := range []string{authorityFile, authorityKeyFile, serverFile, serverKeyFile} {
		for _, harm := range []string{"missing", "cut", "other"} {
			dir := name + "-" + harm
			f := found(t, e.Env, dir)
			raw := must[[]byte](t)(f.read(name))
			switch harm {
			case "missing":
				if err := e.FS.Remove(f.path(name)); err != nil {
					t.Fatal(err)
				}
			case "cut":
				raw = raw[:len(raw)/2]
			case "other":
				raw = must[[]byte](t)((&Folder{env: e.Env, dir: "other"}).read(name))
			}
			if harm != "missing" {
				if err := f.write(name, raw); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(e.Env, dir, Options{})
			switch {
			case name == authorityFile && harm == "missing":
				if !errors.Is(err, ErrNone) {
					t.Errorf("%s: %v", dir, err)
				}
			case name == authorityKeyFile && harm == "missing":
				if err != nil {
					t.Errorf("%s: %v", dir, err)
				}
			case err == nil:
				t.Errorf("%s was opened", dir)
			case !strings.Contains(err.Error(), ".pem") && !strings.Contains(err.Error(), ".key"):
				t.Errorf("%s: the file is not named: %v", dir, err)
			}
		}
	}
}

// gate is a server that accepts joining servers.
type gate struct {
	*Folder
	address string
	mu      sync.Mutex
	came    []bus.Member
	refuse  error
}

func open(t *testing.T, f *Folder) *gate {
	t.Helper()
	l := must[net.Listener](t)(f.env.Listen("tcp", "127.0.0.1:0"))
	g := &gate{Folder: f, address: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = f.ServeJoin(bg, tls.Server(conn, f.JoinServer()),
					func(_ context.Context, m bus.Member, _ Applicant) (Admission, error) {
						g.mu.Lock()
						defer g.mu.Unlock()
						if g.refuse == nil {
							g.came = append(g.came, m)
						}
						return Admission{Members: []bus.Member{m}, Domain: "example.com"}, g.refuse
					})
			}()
		}
	}()
	return g
}

func (g *gate) token(t *testing.T, life time.Duration, authority bool) string {
	t.Helper()
	token, _, err := g.NewToken(g.address, life, authority)
	if err != nil {
		t.Fatal(err)
	}
	return token.String()
}

var applicant = Applicant{Name: "two", Host: "two.example.com", Route: "two:7222", Direct: "two:7223"}

func TestJoin(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	f, a, err := Join(bg, e.Env, "two", g.token(t, 0, true), applicant, Options{})
	if err != nil {
		t.Fatal(err)
	}
	me := f.Identity()
	want := bus.Member{ID: me.ID, Name: "two", Key: me.Key, Route: "two:7222", Direct: "two:7223"}
	if a.Domain != "example.com" || !slices.Equal(a.Members, []bus.Member{want}) ||
		!slices.Equal(g.came, []bus.Member{want}) {
		t.Errorf("admitted %+v, told %+v", g.came, a)
	}
	if f.Cluster() != "Acme" || f.Fingerprint() != g.Fingerprint() || !f.MayAdmit() || me.ID == g.Identity().ID {
		t.Errorf("joined %q as %+v", f.Cluster(), me)
	}
	again := must[*Folder](t)(Open(e.Crash(0, 1).Env, "two", Options{}))
	if got, err := again.Members(); again.Identity() != me || err != nil || !slices.Equal(got, a.Members) {
		t.Errorf("after a power cut: %+v, %+v, %v", again.Identity(), got, err)
	}
	// A server admits others only if it holds the authority's key.
	second := open(t, f)
	third, _, err := Join(bg, e.Env, "three", second.token(t, 0, false),
		Applicant{Name: "three", Direct: "three:7223"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if third.MayAdmit() {
		t.Error("the authority's key went with a token that is not for it")
	}
	if _, _, err := third.NewToken("three:7223", 0, false); !errors.Is(err, ErrNoKey) {
		t.Errorf("a token of a server without the key: %v", err)
	}
	if err := handshake(f, third); err != nil {
		t.Errorf("two that joined: %v", err)
	}
	if _, _, err := Join(bg, e.Env, "two", g.token(t, 0, false), applicant, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("a member joins: %v", err)
	}
}

func TestJoinRefused(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	other := open(t, must[*Folder](t)(Create(e.Env, "other", "Other", "x", Options{})))
	n := 0
	join := func(word string, w *env.Env) (string, error) {
		n++
		dir := fmt.Sprintf("two-%d", n)
		_, _, err := Join(bg, w, dir, word, applicant, Options{})
		return dir, err
	}
	wants := func(what string, err, want error, text string) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%s: %v", what, err)
		}
	}

	used := g.token(t, 0, false)
	if _, err := join(used, e.Env); err != nil {
		t.Fatal(err)
	}
	_, err := join(used, e.Env)
	wants("a token twice", err, ErrTokenUsed, "doublet cluster token")

	_, err = join(g.token(t, time.Nanosecond, false), e.Env)
	wants("an old token", err, ErrTokenExpired, "doublet cluster token")

	// A server of another cluster answers at the address.
	token, _, err := g.NewToken(other.address, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = join(token.String(), e.Env)
	wants("the address of another cluster", err, ErrOtherCluster, other.address)
	// The cluster is right, but the token was not issued.
	made := Token{Address: g.address, Fingerprint: g.Fingerprint(), Secret: [16]byte{1}}
	_, err = join(made.String(), e.Env)
	wants("a token that was made up", err, ErrTokenUnknown, "")

	fresh := g.token(t, 0, false)
	for _, d := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		_, err = join(fresh, at(e.Env, d))
		wants("a clock that is off by "+d.String(), err, ErrClock, "2h0m0s")
	}

	closed := must[net.Listener](t)(e.Listen("tcp", "127.0.0.1:0"))
	closed.Close()
	_, err = join(Token{Address: closed.Addr().String(), Fingerprint: g.Fingerprint()}.String(), e.Env)
	wants("nobody there", err, ErrUnreachable, closed.Addr().String())
	web := must[net.Listener](t)(e.Listen("tcp", "127.0.0.1:0"))
	defer web.Close()
	go func() {
		for conn, err := web.Accept(); err == nil; conn, err = web.Accept() {
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	_, err = join(Token{Address: web.Addr().String(), Fingerprint: g.Fingerprint()}.String(), e.Env)
	wants("something else there", err, ErrUnreachable, "not as a server of a cluster")

	// A rejected server reserves the token for its own key only, and has no membership.
	g.mu.Lock()
	g.refuse = errors.New("that name is taken")
	g.mu.Unlock()
	dir, err := join(fresh, e.Env)
	wants("not admitted", err, ErrNotAdmitted, "that name is taken")
	if _, err := Open(e.Env, dir, Options{}); !errors.Is(err, ErrNone) {
		t.Errorf("it has a membership all the same: %v", err)
	}
	g.mu.Lock()
	g.refuse = nil
	g.mu.Unlock()
	if _, err = join(fresh, e.Env); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("another server with that token: %v", err)
	}
	if _, _, err := Join(bg, e.Env, dir, fresh, applicant, Options{}); err != nil {
		t.Errorf("the same server again: %v", err)
	}
}

// TestJoinAgain checks that a server whose answer was lost can join again with the same identity.
func TestJoinAgain(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	word := g.token(t, 0, false)
	// The last file is not written: there is no membership, but the token is used.
	e.Faults.FailFiles(env.OpRename,
		func(name string) bool { return strings.Contains(name, "two") && strings.Contains(name, authorityFile) }, nil)
	if _, _, err := Join(bg, e.Env, "two", word, applicant, Options{}); err == nil {
		t.Fatal("it joined")
	}
	e.Faults.Heal()
	f, _, err := Join(bg, e.Env, "two", word, applicant, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.came) != 2 || g.came[0] != g.came[1] || g.came[0].ID != f.Identity().ID {
		t.Errorf("admitted: %+v", g.came)
	}
}

// TestTokenOnce checks that one of several concurrent users of a token is admitted, and that a power cut does not make
// the token valid again.
func TestTokenOnce(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	word := g.token(t, 0, false)
	errs := make([]error, 6)
	var done sync.WaitGroup
	for i := range errs {
		done.Go(func() {
			_, _, errs[i] = Join(bg, e.Env, fmt.Sprintf("many-%d", i), word, applicant, Options{})
		})
	}
	done.Wait()
	in := 0
	for _, err := range errs {
		if err == nil {
			in++
		} else if !errors.Is(err, ErrTokenUsed) {
			t.Error(err)
		}
	}
	if in != 1 || len(g.came) != 1 {
		t.Errorf("%d got in, %d were admitted", in, len(g.came))
	}
	after := open(t, must[*Folder](t)(Open(e.Crash(0, 1).Env, "one", Options{})))
	token := must[Token](t)(ParseToken(word))
	token.Address = after.address
	if _, _, err := Join(bg, e.Env, "late", token.String(), applicant, Options{}); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("after a power cut: %v", err)
	}
}

// TestTokenNotKept checks that nobody is admitted if the use of the token cannot be saved.
func TestTokenNotKept(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	word := g.token(t, 0, false)
	e.Faults.FailFiles(env.OpSync, func(name string) bool { return strings.Contains(name, tokensFile) }, nil)
	if _, _, err := Join(bg, e.Env, "two", word, applicant, Options{}); !errors.Is(err, ErrNotAdmitted) ||
		len(g.came) != 0 {
		t.Errorf("%v, admitted %v", err, g.came)
	}
}

// TestImpostor checks that the token's secret is not sent to a server that shows the authority's certificate, which is
// public, with a certificate that the authority has not signed.
func TestImpostor(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	f := found(t, e.Env, "one")
	other := must[*Folder](t)(Create(e.Env, "other", "Acme", "one", Options{}))
	l := must[net.Listener](t)(e.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	asked := make(chan bool, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		c := other.JoinServer()
		c.GetCertificate = nil
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{other.current.Load().Certificate[0],
			f.authority.cert.Raw}, PrivateKey: other.key}}
		var q question
		asked <- readJSON(tls.Server(conn, c), &q) == nil
	}()
	token := Token{Address: l.Addr().String(), Fingerprint: f.Fingerprint()}
	if _, _, err := Join(bg, e.Env, "two", token.String(), applicant, Options{}); !errors.Is(err, ErrOtherCluster) ||
		<-asked {
		t.Errorf("an impostor: %v", err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	f := found(t, e.Env, "one")
	for range maxTokens {
		if _, _, err := f.NewToken("one:7223", time.Hour, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := f.NewToken("one:7223", time.Hour, false); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	e.Time.Advance(2 * time.Hour)
	token, until, err := f.NewToken("one:7223", 0, false)
	if err != nil || !until.Equal(e.Clock.Now().Add(DefaultTokenLife)) {
		t.Errorf("until %s, %v", until, err)
	}
	if list := must[[]issued](t)(f.tokens.load()); len(list) != maxTokens+1 {
		t.Errorf("%d are remembered", len(list))
	}
	e.Time.Advance(keepTokens + 2*time.Hour)
	if list := must[[]issued](t)(f.tokens.load()); len(list) != 0 {
		t.Errorf("%d are remembered still", len(list))
	}
	raw := must[[]byte](t)(f.read(tokensFile))
	if strings.Contains(string(raw), token.String()) || strings.Contains(string(raw), fmt.Sprintf("%x", token.Secret)) {
		t.Error("a secret stands in tokens.json")
	}
	for _, address := range []string{"", "one", ":7223", "one:", "one :7223", strings.Repeat("x", 300) + ":1"} {
		if _, _, err := f.NewToken(address, 0, false); err == nil {
			t.Errorf("a token for %q", address)
		}
	}
}

func TestTokenText(t *testing.T) {
	t.Parallel()
	token := Token{Address: "one.example.com:7223", Fingerprint: [32]byte{1, 2}, Secret: [16]byte{3, 4}}
	word := token.String()
	if got, err := ParseToken(" " + word + "\n"); err != nil || got != token {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range word {
		other := []byte(word)
		other[i] ^= 1
		if got, err := ParseToken(string(other)); err == nil {
			t.Fatalf("with another letter at %d it is %+v", i, got)
		}
		if _, err := ParseToken(word[:i]); err == nil {
			t.Fatalf("cut at %d it is one", i)
		}
	}
}

// handshake connects a to b.
func handshake(a, b *Folder) error {
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	client, server := tls.Client(x, a.Client("t")), tls.Server(y, b.Server("t"))
	served := make(chan error, 1)
	go func() {
		err := server.Handshake()
		if err == nil {
			_, err = b.Peer(server.ConnectionState())
		}
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		y.Close()
		served <- err
	}()
	err := client.Handshake()
	if err == nil {
		_, err = a.Peer(client.ConnectionState())
	}
	if err == nil {
		_, err = client.Read(make([]byte, 1))
	}
	x.Close()
	if there := <-served; err == nil {
		err = there
	}
	return Explain(err)
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	f, _, err := Join(bg, e.Env, "two", g.token(t, 0, false), applicant, Options{})
	if err != nil {
		t.Fatal(err)
	}
	other := must[*Folder](t)(Create(e.Env, "other", "Acme", "one", Options{})) // with the same names
	for i, pair := range [][2]*Folder{{f, g.Folder}, {g.Folder, f}} {
		if err := handshake(pair[0], pair[1]); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	for i, pair := range [][2]*Folder{{f, other}, {other, f}} {
		if err := handshake(pair[0], pair[1]); !errors.Is(err, ErrOtherCluster) {
			t.Errorf("another cluster, %d: %v", i, err)
		}
	}
	for _, d := range []time.Duration{DefaultLife + time.Minute, -backdate - time.Minute} {
		then := must[*Folder](t)(Open(at(e.Env, d), "two", Options{}))
		if err := handshake(then, then); !errors.Is(err, ErrExpired) {
			t.Errorf("%s from now: %v", d, err)
		}
	}
	for _, d := range []time.Duration{time.Hour, -time.Hour} { // an hour's difference between clocks is tolerated
		if err := handshake(f, must[*Folder](t)(Open(at(e.Env, d), "one", Options{}))); err != nil {
			t.Errorf("%s off: %v", d, err)
		}
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t)
	g := open(t, found(t, e.Env, "one"))
	if _, _, err := Join(bg, e.Env, "two", g.token(t, 0, false), applicant, Options{}); err != nil {
		t.Fatal(err)
	}
	later := at(e.Env, 61*24*time.Hour)
	for _, dir := range []string{"one", "two"} {
		now := must[*Folder](t)(Open(e.Env, dir, Options{}))
		if !now.RenewAt().After(e.Clock.Now().Add(59 * 24 * time.Hour)) {
			t.Errorf("%s: renewed at %s", dir, now.RenewAt())
		}
		f := must[*Folder](t)(Open(later, dir, Options{}))
		if f.RenewAt().After(later.Clock.Now()) {
			t.Errorf("%s: renewed at %s only", dir, f.RenewAt())
		}
		me := f.Identity()
		err := f.Renew(bg, func(_ context.Context, request []byte) ([]byte, error) {
			return must[*Folder](t)(Open(later, "one", Options{})).Resign(me, request)
		})
		if err != nil {
			t.Fatal(err)
		}
		again := must[*Folder](t)(Open(later, dir, Options{})).Identity()
		if again != f.Identity() || again.ID != me.ID || again.Key != me.Key || again.Name != me.Name ||
			again.Until.Sub(me.Until) < 60*24*time.Hour {
			t.Errorf("%s: was %+v, is %+v", dir, me, again)
		}
	}
	f := must[*Folder](t)(Open(later, "two", Options{}))
	me := f.Identity()
	much := at(e.Env, 80*24*time.Hour)
	authority := must[*Folder](t)(Open(much, "one", Options{}))
	// Certificates for others are rejected.
	for name, ask := range map[string]func(context.Context, []byte) ([]byte, error){
		"an error":    func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no") },
		"rubbish":     func(context.Context, []byte) ([]byte, error) { return []byte("rubbish"), nil },
		"the old one": func(context.Context, []byte) ([]byte, error) { return f.current.Load().Certificate[0], nil },
		"another's":   func(context.Context, []byte) ([]byte, error) { return g.current.Load().Certificate[0], nil },
		"another id": func(_ context.Context, r []byte) ([]byte, error) {
			return resignAs(authority, bus.ServerID{9}, me.Key, r)
		},
		"other cluster": func(_ context.Context, r []byte) ([]byte, error) {
			return resignAs(found(t, e.Env, "x"), me.ID, me.Key, r)
		},
	} {
		if err := f.Renew(bg, ask); err == nil {
			t.Errorf("%s was taken", name)
		}
		if f.Identity() != me {
			t.Errorf("after %s: %+v", name, f.Identity())
		}
	}
	request := must[[]byte](t)(f.request())
	if _, err := g.Resign(Identity{ID: me.ID, Name: "two", Key: bus.Key{1}}, request); err == nil {
		t.Error("a request about another key than the member's was signed")
	}
}

func resignAs(f *Folder, id bus.ServerID, key bus.Key, request []byte) ([]byte, error) {
	return f.Resign(Identity{ID: id, Name: "two", Key: key}, request)
}

// TestForged checks that a holder of the authority's key cannot pass for a member, because members are also identified
// by their keys.
func TestForged(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	f := found(t, e.Env, "one")
	me := f.Identity()
	thief := must[*Folder](t)(Open(e.Env, "one", Options{}))
	thief.key = must2(newKey(e.Env))
	cert := must[[]byte](t)(f.authority.issue(e.Env, &thief.key.PublicKey, me.ID, me.Name, DefaultLife))
	if err := thief.adopt(cert); err != nil {
		t.Fatal(err)
	}
	if got := thief.Identity(); got.ID != me.ID || got.Key == me.Key {
		t.Errorf("%+v", got)
	}
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func FuzzParseToken(f *testing.F) {
	f.Add(Token{Address: "a:1"}.String())
	f.Add(tokenPrefix)
	f.Add("doublet-join-AQ")
	f.Fuzz(func(t *testing.T, word string) {
		token, err := ParseToken(word)
		if err != nil {
			return
		}
		if again, err := ParseToken(token.String()); err != nil || again != token {
			t.Errorf("%+v is written so that it reads %+v, %v", token, again, err)
		}
	})
}

// FuzzJoin checks that no input is admitted without a token.
func FuzzJoin(f *testing.F) {
	e := env.TestRealTime(f)
	folder, err := Create(e.Env, "one", "Acme", "one", Options{})
	if err != nil {
		f.Fatal(err)
	}
	request := must2(folder.request())
	var b strings.Builder
	if err := writeJSON(&b, question{Applicant: applicant, Secret: make([]byte, 16), Request: request,
		Time: time.Now()}); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(b.String()))
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q question
		if err := readJSON(strings.NewReader(string(raw)), &q); err != nil {
			return
		}
		q.Time = time.Now()
		if _, err := folder.admit(bg, &q, func(context.Context, bus.Member, Applicant) (Admission, error) {
			t.Error("admitted")
			return Admission{}, nil
		}); err == nil {
			t.Error("got in")
		}
	})
}

func TestPathsAreOurs(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	f := found(t, e.Env, "a/b/cluster")
	if _, err := f.read("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDomainTokens checks that a domain token can be used once, by one key, until it expires or is removed. It is not
// valid as a cluster token, nor a cluster token as a domain token.
func TestDomainTokens(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	f := found(t, e.Env, "one")
	list := DomainTokens(e.Env, "one", Options{})
	key := bus.Key{1}
	give := func() Token {
		t.Helper()
		token, _, err := list.NewDomainToken("one:443", key, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseToken(token.String())
		if err != nil || back != token {
			t.Fatalf("%+v, %v", back, err)
		}
		return token
	}
	wants := func(what string, token Token, of bus.Key, want error) {
		t.Helper()
		if _, err := list.Redeem(token.Secret[:], of); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	token := give()
	if _, err := f.tokens.Redeem(token.Secret[:], key); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("it opens the cluster: %v", err)
	}
	if _, _, err := Join(bg, e.Env, "two", token.String(), applicant, Options{}); !errors.Is(err, ErrBadToken) ||
		!strings.Contains(err.Error(), "doublet domain join") {
		t.Errorf("a server joins a cluster with it: %v", err)
	}
	ofCluster, _, err := f.NewToken("one:7223", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	wants("a token of the cluster", ofCluster, key, ErrTokenUnknown)
	wants("the first use", token, bus.Key{2}, nil)
	wants("the same server again", token, bus.Key{2}, nil)
	wants("another server", token, bus.Key{3}, ErrTokenUsed)
	old := give()
	e.Time.Advance(time.Hour)
	wants("an old one", old, bus.Key{2}, ErrTokenExpired)
	wants("a used one that is old", token, bus.Key{2}, ErrTokenExpired)
	removed := give()
	all := must[[]Issued](t)(list.List())
	if len(all) != 3 || all[0].UsedBy != (bus.Key{2}) || all[2].UsedBy != (bus.Key{}) {
		t.Fatalf("%+v", all)
	}
	if err := list.Remove(all[2].ID); err != nil {
		t.Error(err)
	}
	if err := list.Remove(all[2].ID); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	wants("one that was removed", removed, bus.Key{2}, ErrTokenUnknown)
	for n := range 40 {
		if _, err := list.Redeem(make([]byte, n), key); !errors.Is(err, ErrTokenUnknown) {
			t.Errorf("a secret of %d bytes: %v", n, err)
		}
	}
}
