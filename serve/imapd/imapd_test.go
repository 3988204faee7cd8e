package imapd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "doublet/client/imap"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/store"
	"doublet/test/scenario"
	wire "doublet/wire/imap"
	"doublet/wire/scram"
)

// people is a Backend: alice, bob and carol, password "demo". carol's mail file takes 2,000 bytes.
type people struct {
	mail     *mailbox.Service
	accounts map[string]Account
	// today, where it is set, answers Refresh.
	today atomic.Pointer[func(*Account) (bool, error)]
}

func (p *people) Refresh(_ context.Context, a *Account) (bool, error) {
	if f := p.today.Load(); f != nil {
		return (*f)(a)
	}
	return false, nil
}

func (p *people) Login(_ context.Context, user, password, _ string) (Account, error) {
	if user == "broken" {
		return Account{}, errors.New("directory is on fire")
	}
	a, ok := p.accounts[user]
	if !ok || password != "demo" {
		return Account{}, ErrCredentials
	}
	return a, nil
}

func (p *people) Scram(context.Context) (ScramServer, error) {
	creds := scram.Derive("demo", []byte("salt of the test"), 4096)
	return &exchange{scram.NewServer(func(string) (scram.Credentials, error) { return creds, nil }, "server-nonce-of-the-test"), p}, nil
}

func (p *people) Mail() *mailbox.Service { return p.mail }

type exchange struct {
	*scram.Server
	p *people
}

func (x *exchange) Next(in []byte) ([]byte, bool, error) {
	out, done, err := x.Server.Next(in)
	if errors.Is(err, scram.ErrProof) {
		err = ErrCredentials
	}
	return out, done, err
}

func (x *exchange) Account() (Account, error) {
	a, ok := x.p.accounts[x.Username()]
	if !ok {
		return a, ErrCredentials
	}
	return a, nil
}

// house is a server under test.
type house struct {
	env    *env.Fixture
	store  *store.Store
	people *people
	stats  *stat.Tree
	server *Server
	front  *listen.Server
	door   listen.Door
	addr   net.Addr
}

type settings struct {
	Config
	tls     bool
	far     bool // clients seem to come from another machine
	message int  // largest message
	quota   uint64
}

func open(t testing.TB, o settings) *house {
	t.Helper()
	h := &house{env: env.TestRealTime(t)}
	var err error
	h.store, err = store.Open(h.env.Env, "store", store.Options{CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1, Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.message == 0 {
		o.message = 1 << 20
	}
	h.people = &people{mail: mailbox.New(h.store, h.env.Env, mailbox.Options{MessageSize: o.message}), accounts: map[string]Account{}}
	for i, name := range []string{"alice", "bob", "carol"} {
		who := note.Who{Person: note.UNID{15: byte(i + 1)}}
		quota := o.quota
		if name == "carol" {
			quota = 2000
		}
		db, err := h.people.mail.Make(context.Background(), who.Person, name, quota, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.people.accounts[name] = Account{Who: who, Database: db, Name: name}
	}
	h.stats = stat.New(h.env.Clock)
	h.server = New(h.env.Env, o.Config, h.people, h.stats)
	h.listen(t, o)
	return h
}

func (h *house) listen(t testing.TB, o settings) {
	t.Helper()
	if o.far {
		h.env.Listen = func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return farListener{l}, err
		}
	}
	h.front = listen.New(h.env.Env, listen.Options{}, nil)
	h.door = listen.Door{Name: "IMAP", Network: "tcp", Address: "127.0.0.1:0", Serve: h.server.Serve, Busy: h.server.Busy()}
	if o.tls {
		h.door.TLS = &tls.Config{Certificates: []tls.Certificate{certificate()}}
	}
	l, err := h.front.Open(h.door)
	if err != nil {
		t.Fatal(err)
	}
	h.addr = l.Addr()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.front.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if n := h.server.cfg.Memory.Used(); n != 0 {
			t.Errorf("%d bytes of message memory leaked", n)
		}
		if n := h.server.stats.current.Value(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

type farListener struct{ net.Listener }

func (l farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return farConn{c}, err
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711} }

var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

var clientTLS = &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}

func (h *house) connect(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// login gives a client that has signed in.
func (h *house) login(t testing.TB, user string) *client.Client {
	t.Helper()
	c, err := client.New(h.connect(t), client.Options{})
	if err == nil {
		err = c.Login(user, "demo")
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fill puts messages into alice's INBOX without the protocol.
func (h *house) fill(t testing.TB, n int, text string) {
	t.Helper()
	a := h.people.accounts["alice"]
	f := h.people.mail.File(a.Who, a.Database)
	for range n {
		if _, _, err := f.Append(context.Background(), "INBOX", []byte(text), mailbox.Flags{}, time.Unix(1_700_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScenarios plays the conversations of testdata: one file per verb, a fresh server for each
// conversation. Files that need another server name it in their first word: tls-, far-, small-.
func TestScenarios(t *testing.T) {
	t.Parallel()
	kinds := map[string]settings{
		"imap":    {Config: Config{MaxBad: 100}},
		"tls":     {tls: true},
		"far":     {far: true},
		"farttls": {far: true, tls: true},
		"small":   {message: 1000, Config: Config{Memory: listen.NewBudget(900)}},
	}
	for kind, o := range kinds {
		t.Run(kind, func(t *testing.T) {
			scenario.Run(t, "testdata/"+kind+"-*.txt", scenario.Options{
				Literals: true,
				TLS:      func(c net.Conn) (net.Conn, error) { return tls.Client(c, clientTLS), nil },
			}, func(t *testing.T) scenario.Dial {
				t.Parallel()
				o := o
				if o.Memory != nil {
					o.Memory = listen.NewBudget(o.Memory.Max())
				}
				h := open(t, o)
				return func(string) (net.Conn, error) { return net.Dial("tcp", h.addr.String()) }
			})
		})
	}
}

// The whole way through the client that everybody here uses.
func TestClient(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.login(t, "alice")
	msg := "Subject: x\r\nFrom: a@b.example\r\n\r\nbody\r\n"
	got, err := c.Append("INBOX", []wire.Flag{wire.Seen}, time.Unix(1_700_000_000, 0), strings.NewReader(msg), int64(len(msg)))
	if err != nil || len(got.Target) != 1 {
		t.Fatal(got, err)
	}
	sel, err := c.Select(&wire.Select{Mailbox: "INBOX"}, false)
	if err != nil || sel.Exists != 1 || sel.UIDValidity == 0 || sel.HighestModSeq == 0 || sel.MailboxID == "" {
		t.Fatal(sel, err)
	}
	items := []wire.FetchItem{{Kind: wire.ItemEnvelope, Peek: true}, {Kind: wire.ItemBodySection, Peek: true}}
	err = c.Fetch(&wire.Fetch{Target: wire.Target{Set: got.Target}, Items: items}, true, func(d *wire.FetchData) error {
		e, err := d.Envelope()
		if err != nil || e.Subject != "x" || len(d.Sections) != 1 || string(d.Sections[0].Data) != msg {
			t.Errorf("%+v", d)
		}
		return nil
	}, nil)
	if err != nil {
		t.Error(err)
	}
	if err := c.Logout(); err != nil {
		t.Error(err)
	}
}
