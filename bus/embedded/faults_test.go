package embedded

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/bus/natsbus"
	"doublet/bus/pki"
	"doublet/env"
	"doublet/stat"
)

var bg = context.Background()

func short(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(bg, d)
	t.Cleanup(cancel)
	return ctx
}

// pair is two servers that connect to each other through wires.
type pair struct {
	hosts  [2]*host
	buses  [2]bus.Bus
	direct [2]*bustest.Wire // index i: to the direct address of server i
	route  [2]*bustest.Wire
	stats  [2]*stat.Tree
	asked  [2]atomic.Int64
	// silence is the time without a sign of life after which a server takes the other for dead.
	silence time.Duration
}

// quick is short, so that a test sees failures soon that a server sees after seconds.
const quick = 300 * time.Millisecond

func newPair(t *testing.T) *pair {
	t.Helper()
	w := world{bustest.Found(t)}
	p := &pair{silence: quick}
	for i := range p.hosts {
		p.hosts[i] = w.server(fmt.Sprintf("server-%d", i))
		p.start(t, i)
	}
	p.meet(t)
	return p
}

func (p *pair) start(t *testing.T, i int) {
	t.Helper()
	h := p.hosts[i]
	p.stats[i] = stat.New(h.f.Env.Clock)
	h.opts.Heartbeat, h.opts.Silence, h.opts.Stats = quick/3, p.silence, p.stats[i]
	p.buses[i] = h.Start(bus.Grant{}, func(b bus.Bus) {
		b.Handle("test.echo", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
			p.asked[i].Add(1)
			return body, nil
		})
		b.HandleStream("test.echo", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			_, err := io.Copy(s, s)
			return err
		})
	})
	t.Cleanup(func() { _ = p.buses[i].Close() })
	p.direct[i], p.route[i] = bustest.NewWire(t, h.member.Direct), bustest.NewWire(t, h.member.Route)
}

// members returns the members with the addresses of the wires.
func (p *pair) members() []bus.Member {
	var all []bus.Member
	for i, h := range p.hosts {
		m := h.member
		m.Direct, m.Route = p.direct[i].Address, p.route[i].Address
		all = append(all, m)
	}
	return all
}

func (p *pair) meet(t *testing.T) {
	t.Helper()
	for _, b := range p.buses {
		b.SetMembers(p.members())
	}
	p.talk(t)
}

// talk waits until both get answers from each other.
func (p *pair) talk(t *testing.T) {
	t.Helper()
	for i := range p.buses {
		bustest.Eventually(t, fmt.Sprintf("%d asks", i), func() error { return p.ask(t, i, time.Second) })
	}
}

func (p *pair) ask(t *testing.T, from int, d time.Duration) error {
	_, err := p.buses[from].Request(short(t, d), p.buses[1-from].Self(), "test.echo", []byte("x"))
	return err
}

func counter(s *stat.Tree, name string) uint64 { return s.Counter(name, "").Value() }

// TestCutCable checks that data held on the wire, in one direction or both, looks like a dead mate within Silence:
// requests in progress end and probes fail. When the hold ends, everything works again.
func TestCutCable(t *testing.T) {
	t.Parallel()
	for _, cut := range []struct{ there, back bool }{{true, true}, {true, false}, {false, true}} {
		t.Run(fmt.Sprintf("%v-%v", cut.there, cut.back), func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			s, err := p.buses[0].Stream(bg, p.buses[1].Self(), "test.echo", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			// A hold for one direction of a cable affects the wires to both servers, in opposite directions.
			p.direct[1].Hold(cut.there, cut.back)
			p.route[1].Hold(cut.there, cut.back)
			p.direct[0].Hold(cut.back, cut.there)
			p.route[0].Hold(cut.back, cut.there)
			before := time.Now()
			for i := range p.buses {
				if err := p.ask(t, i, 20*time.Second); !errors.Is(err, bus.ErrNoAnswer) &&
					!errors.Is(err, bus.ErrNoServer) {
					t.Errorf("%d asks through the cut: %v", i, err)
				}
				if _, err := p.buses[i].Probe(short(t, quick), p.buses[1-i].Self()); err == nil {
					t.Errorf("%d: a probe through the cut is answered", i)
				}
			}
			if took := time.Since(before); took > 10*time.Second {
				t.Errorf("that was seen after %s", took)
			}
			if _, err := io.ReadAll(s); !errors.Is(err, bus.ErrNoAnswer) {
				t.Errorf("a stream through the cut: %v", err)
			}
			for i, b := range p.buses {
				bustest.Eventually(t, "it shows", func() error {
					if state := b.Peers()[0]; state.Connected || state.InFlight != 0 {
						return fmt.Errorf("%d: %+v", i, state)
					}
					return nil
				})
			}
			for i := range p.buses {
				p.direct[i].Hold(false, false)
				p.route[i].Hold(false, false)
			}
			before = time.Now()
			p.talk(t)
			t.Logf("healed after %s", time.Since(before))
		})
	}
}

// TestBroken checks that connections that were reset are opened again. A request in progress must return ErrNoAnswer.
func TestBroken(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for range 5 {
		for i := range p.direct {
			p.direct[i].Break()
			p.route[i].Break()
		}
		p.talk(t)
	}
}

// TestRouteDown checks that requests fail soon, and without an answer, if the link is open but NATS has no route.
func TestRouteDown(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	asked := p.asked[1].Load()
	for i := range p.route {
		p.route[i].Remove()
	}
	bustest.Eventually(t, "it is told", func() error { // one in progress may be lost
		if err := p.ask(t, 0, 5*time.Second); !errors.Is(err, bus.ErrNoAnswer) ||
			!strings.Contains(err.Error(), "NATS has no route") {
			return fmt.Errorf("asked: %w", err)
		}
		return nil
	})
	if n := p.asked[1].Load() - asked; n != 0 {
		t.Errorf("it was asked %d times", n)
	}
	if _, err := p.buses[0].Probe(short(t, time.Second), p.buses[1].Self()); err != nil {
		t.Errorf("probes go directly: %v", err)
	}
}

// TestHangs checks that a mate whose process is stopped is disconnected, and requests to it end.
func TestHangs(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.direct[1].Hold(true, true)
	p.direct[0].Hold(true, true)
	err := p.ask(t, 0, 20*time.Second) // the route still works
	if err != nil && !errors.Is(err, bus.ErrNoAnswer) && !errors.Is(err, bus.ErrNoServer) {
		t.Error(err)
	}
	bustest.Eventually(t, "it is given up", func() error {
		if p.buses[0].Peers()[0].Connected {
			return errors.New("connected")
		}
		return nil
	})
	p.direct[1].Hold(false, false)
	p.direct[0].Hold(false, false)
	p.talk(t)
}

// TestLateCredit checks that abandoned requests keep their credits while the mate may be working on them, and return
// them with the late answer.
func TestLateCredit(t *testing.T) {
	t.Parallel()
	w := world{bustest.Found(t)}
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	a, b := w.server("a"), w.server("b")
	grant := bus.Grant{Requests: 2, Bytes: 1 << 20}
	nothing := func(bus.Bus) {}
	x := a.Start(grant, nothing)
	defer x.Close()
	y := b.Start(grant, func(b bus.Bus) {
		b.Handle("test.stubborn", func(context.Context, bus.ServerID,
			[]byte) ([]byte, error) {
			<-open
			return nil, nil
		})
	})
	defer y.Close()
	defer release() // Close waits for the handlers
	for _, n := range []bus.Bus{x, y} {
		n.SetMembers([]bus.Member{a.member, b.member})
	}
	bustest.Eventually(t, "connected", func() error {
		// A member that does not know us yet rejects the request too, with another code.
		_, err := x.Request(short(t, time.Second), y.Self(), "test.none", nil)
		if rejected, ok := errors.AsType[*bus.RemoteError](err); ok && rejected.Code == bus.CodeNoVerb {
			return nil
		}
		return err
	})
	// A request that was lost before the members were connected keeps its credit until no answer can come any more, for
	// 30 s.
	for end := time.Now().Add(40 * time.Second); x.Peers()[0].InFlight > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 {
		if _, err := x.Request(short(t, 50*time.Millisecond), y.Self(), "test.stubborn", nil); !errors.Is(err,
			bus.ErrNoAnswer) {
			t.Fatal(err)
		}
	}
	if p := x.Peers()[0]; p.InFlight != 2 {
		t.Errorf("%d in flight", p.InFlight)
	}
	if _, err := x.Request(short(t, 50*time.Millisecond), y.Self(), "test.stubborn", nil); !errors.Is(err,
		bus.ErrNoServer) {
		t.Errorf("without a credit: %v", err)
	}
	release()
	bustest.Eventually(t, "the credits come back", func() error {
		if p := x.Peers()[0]; p.InFlight != 0 {
			return fmt.Errorf("%d in flight", p.InFlight)
		}
		return nil
	})
}

// TestStrangers checks that neither port accepts a non-member.
func TestStrangers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	direct, route := p.hosts[0].member.Direct, p.hosts[0].member.Route
	f := p.hosts[0].f
	other, err := pki.Create(f.Env.Env, "other", "Test", "server-1", pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stranger := f.Folder("stranger") // a certificate of this cluster's authority, but in no member list
	old := *f.Env.Env
	old.Clock = ahead{f.Env.Clock, pki.DefaultLife + time.Hour}
	knock := func(name, address string, c *tls.Config) {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		s := tls.Client(conn, c)
		// A first message of either protocol. A non-member gets at most a refusal.
		_, _ = s.Write([]byte("L\x00\x00\x11\x01aaaaaaaa\x00\x00\x00\x01\x00\x00\x00\x01"))
		if address == route {
			_, _ = s.Write([]byte("CONNECT {}\r\nPING\r\n"))
		}
		got, _ := io.ReadAll(s)
		if bytes.ContainsAny(got, "W") || bytes.Contains(got, []byte("PONG")) {
			t.Errorf("%s was let in at %s: %q", name, address, got)
		}
	}
	for _, address := range []string{direct, route} {
		free := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"doublet-bus/1"}}
		knock("nobody", address, free)
		foreign := other.Client("doublet-bus/1")
		foreign.InsecureSkipVerify = true
		knock("another cluster's server", address, foreign)
		knock("a server that is no member", address, stranger.Client("doublet-bus/1"))
	}
	// A stranger sees the end of its connection before the server counts it.
	bustest.Eventually(t, "three are counted as refused", func() error {
		if n := counter(p.stats[0], "Bus.Refused"); n < 3 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	p.talk(t) // the members are not disturbed
}

type ahead struct {
	env.Clock
	by time.Duration
}

func (a ahead) Now() time.Time { return a.Clock.Now().Add(a.by) }

// TestPorts checks that the process listens on its two addresses only.
func TestPorts(t *testing.T) {
	w := world{bustest.Found(t)}
	before := listening(t)
	h := w.server("a")
	b := h.Start(bus.Grant{}, func(bus.Bus) {})
	defer b.Close()
	var fresh []string
	for port := range listening(t) {
		if !before[port] {
			fresh = append(fresh, port)
		}
	}
	if len(fresh) != 2 {
		t.Errorf("listens at ports %v, want those of %s and %s", fresh, h.member.Direct, h.member.Route)
	}
}

// listening returns the TCP ports on which this process listens (Linux).
func listening(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		t.Skip("no /proc")
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to[7:], "[]")] = true
		}
	}
	ports := map[string]bool{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(raw), "\n") {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && own[f[9]] {
				_, hex, _ := strings.Cut(f[1], ":")
				port, _ := strconv.ParseUint(hex, 16, 16)
				ports[strconv.FormatUint(port, 10)] = true
			}
		}
	}
	return ports
}

// TestTaken checks that an address in use is reported.
func TestTaken(t *testing.T) {
	t.Parallel()
	w := world{bustest.Found(t)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for i, o := range []Options{{Routes: taken, Options: natsbus.Options{Listen: "127.0.0.1:0"}},
		{Routes: "127.0.0.1:0", Options: natsbus.Options{Listen: taken}}} {
		o.Identity = w.server("a").folder
		b, err := Open(w.f.Env.Env, o)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestTwin checks that a copied data folder that runs beside the original is detected.
func TestTwin(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	twin := &host{f: p.hosts[1].f, folder: p.hosts[1].folder, member: p.hosts[1].member}
	twin.opts.Heartbeat, twin.opts.Silence = quick/3, quick
	b := twin.Start(bus.Grant{}, func(bus.Bus) {})
	b.SetMembers(p.members())
	bustest.Eventually(t, "the twin is seen", func() error {
		if state := p.buses[0].Peers()[0]; state.Twin == "" {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the twin is gone", func() error {
		if state := p.buses[0].Peers()[0]; state.Twin != "" {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
	p.talk(t)
}

// TestRenewal checks that a certificate is renewed when due, by a mate if this server doesn't hold the authority's key,
// and that messages continue to flow.
func TestRenewal(t *testing.T) {
	t.Parallel()
	f := bustest.Found(t)
	w := world{f}
	a, b := w.server("a"), w.server("b") // a holds the authority's key
	clock := &atomic.Int64{}
	e := *f.Env.Env
	e.Clock = moving{f.Env.Clock, clock}
	var buses []*Bus
	for i, h := range []*host{a, b} {
		dir := fmt.Sprintf("data-%d/cluster", i+1)
		folder, err := pki.Open(&e, dir, pki.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if (i == 0) != folder.MayAdmit() {
			t.Fatalf("%s: holds the key: %v", dir, folder.MayAdmit())
		}
		h.folder = folder
		x, err := Open(&e, Options{Options: natsbus.Options{Identity: folder, Listen: "127.0.0.1:0"},
			Routes: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		x.Handle("test.echo", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) { return body, nil })
		h.member.Direct, h.member.Route = x.Direct(), x.Routes()
		buses = append(buses, x)
	}
	for _, x := range buses {
		x.SetMembers([]bus.Member{a.member, b.member})
	}
	talk := func() {
		t.Helper()
		for i := range buses {
			bustest.Eventually(t, "talk", func() error {
				_, err := buses[i].Request(short(t, time.Second), buses[1-i].Self(), "test.echo", nil)
				return err
			})
		}
	}
	talk()
	until := []time.Time{a.folder.Identity().Until, b.folder.Identity().Until}
	clock.Store(int64(70 * 24 * time.Hour))
	for i, h := range []*host{a, b} {
		bustest.Eventually(t, h.member.Name+" is renewed", func() error {
			if now := h.folder.Identity().Until; !now.After(until[i]) {
				return fmt.Errorf("until %s", now)
			}
			return nil
		})
	}
	talk()
	clock.Store(int64(100 * 24 * time.Hour)) // the old ones have expired
	talk()
	// Nobody renews the certificate of a server that is down: it expires, and its messages are rejected.
	clock.Store(int64(300 * 24 * time.Hour))
	bustest.Eventually(t, "what has expired is refused", func() error {
		_, err := buses[1].Request(short(t, time.Second), buses[0].Self(), "test.echo", nil)
		if err == nil {
			return errors.New("it is answered")
		}
		return nil
	})
}

type moving struct {
	env.Clock
	by *atomic.Int64
}

func (m moving) Now() time.Time { return m.Clock.Now().Add(time.Duration(m.by.Load())) }

// TestRouteOfRemoved checks that NATS closes the route of a removed server, whichever side opened it, and keeps nothing
// that the server could use.
func TestRouteOfRemoved(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	nats := p.buses[0].(*Bus).nats.server
	bustest.Eventually(t, "there is a route", func() error {
		if nats.NumRoutes() != 1 {
			return fmt.Errorf("%d routes", nats.NumRoutes())
		}
		return nil
	})
	if saved, err := p.hosts[0].folder.Members(); err != nil || len(saved) != 2 {
		t.Errorf("for the next start: %+v, %v", saved, err)
	}
	p.buses[0].SetMembers(nil)
	if saved, err := p.hosts[0].folder.Members(); err != nil || len(saved) != 2 {
		t.Errorf("for the next start: %+v, %v", saved, err)
	}
	bustest.Eventually(t, "there is none", func() error {
		if nats.NumRoutes() != 0 {
			return fmt.Errorf("%d routes", nats.NumRoutes())
		}
		return nil
	})
	time.Sleep(1500 * time.Millisecond) // The other retries; a route in its handshake is closed by the second check.
	bustest.Eventually(t, "there is none for good", func() error {
		if n := nats.NumRoutes(); n != 0 {
			return fmt.Errorf("%d routes again", n)
		}
		return nil
	})
	p.meet(t)
}

// TestThief checks that a certificate with a member's ID but another key, signed by the authority, is rejected.
func TestThief(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	who := p.hosts[1].folder.Identity()
	who.Key = sha256.Sum256(spki)
	cert, err := p.hosts[0].folder.Resign(who, request)
	if err != nil {
		t.Fatal(err)
	}
	config := p.hosts[1].folder.Client("doublet-bus/1")
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}, nil
	}
	conn, err := tls.Dial("tcp", p.hosts[0].member.Direct, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("L\x00\x00\x11\x01aaaaaaaa\x00\x00\x00\x01\x00\x00\x00\x01")); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(conn); len(got) == 0 || got[0] != 'R' ||
		!bytes.Contains(got, []byte("differs from its server document")) {
		t.Errorf("the thief hears %q", got)
	}
	p.talk(t)
}

// TestSettles checks that a request waits for the route if the link is open before it.
func TestSettles(t *testing.T) {
	t.Parallel()
	w := world{bustest.Found(t)}
	p := &pair{silence: time.Minute} // the request must not fail with a link that a busy machine ends
	for i := range p.hosts {
		p.hosts[i] = w.server(fmt.Sprintf("server-%d", i))
		p.start(t, i)
		p.route[i].Hold(true, true)
	}
	for _, b := range p.buses {
		b.SetMembers(p.members())
	}
	bustest.Eventually(t, "there is a link", func() error {
		_, err := p.buses[0].Probe(short(t, time.Second), p.buses[1].Self())
		return err
	})
	time.AfterFunc(quick, func() {
		for i := range p.route {
			p.route[i].Hold(false, false)
		}
	})
	if err := p.ask(t, 0, 10*time.Second); err != nil {
		t.Error(err)
	}
}
