package imapd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "doublet/client/imap"
	"doublet/directory"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
	"doublet/test/scenario"
	wire "doublet/wire/imap"
	"doublet/wire/scram"
)

// people is a directory with alice, bob and carol, password "demo". carol's mail file has a quota of 2,000 bytes. It
// also implements Backend.
type people struct {
	mail     *mailbox.Service
	in       *signin.Service
	accounts map[string]directory.Person
	version  atomic.Uint64
	// today, if set, replaces the result of WhoOf.
	today atomic.Pointer[func() (note.Who, error)]
}

func (p *people) SignIn() *signin.Service { return p.in }
func (p *people) Mail() *mailbox.Service  { return p.mail }

func (p *people) AuthenticateProof(ctx context.Context, user, secret, _ string) (directory.Proof, error) {
	if user == "broken" {
		return directory.Proof{}, errors.New("directory is on fire")
	}
	if secret != "demo" {
		return directory.Proof{}, directory.ErrAuthentication
	}
	who, one, err := p.SignedIn(ctx, user)
	return directory.Proof{Who: who, Person: one}, err
}

func (p *people) Person(_ context.Context, id note.UNID) (directory.Person, error) {
	for _, one := range p.accounts {
		if one.ID == id {
			one.HasPassword = true
			return one, nil
		}
	}
	return directory.Person{}, directory.ErrNotFound
}

func (p *people) SignedIn(ctx context.Context, user string) (note.Who, directory.Person, error) {
	one, err := p.PersonNamed(ctx, user)
	return note.Who{Person: one.ID, Directory: p.version.Load()}, one, err
}

func (p *people) PersonNamed(_ context.Context, user string) (directory.Person, error) {
	one, ok := p.accounts[user]
	if !ok {
		return one, directory.ErrNotFound
	}
	return one, nil
}

func (p *people) ScramCredentials(context.Context, string) ([]scram.Credentials, error) {
	return []scram.Credentials{scram.Derive("demo", []byte("salt of the test"), 4096)}, nil
}

func (p *people) WhoOf(_ context.Context, id note.UNID) (note.Who, error) {
	if f := p.today.Load(); f != nil {
		return (*f)()
	}
	return note.Who{Person: id, Directory: p.version.Load()}, nil
}

func (p *people) Identifier(_ context.Context, id note.UNID) (string, error) {
	for name, one := range p.accounts {
		if one.ID == id {
			return name, nil
		}
	}
	return "", directory.ErrNotFound
}

func (p *people) Identify(ctx context.Context, name string) (note.UNID, error) {
	one, err := p.PersonNamed(ctx, name)
	if err != nil {
		return one.ID, ErrIdentifier
	}
	return one.ID, nil
}

// SetQuota treats carol as an administrator.
func (p *people) SetQuota(_ context.Context, who note.Who, db note.DatabaseID, limit uint64) error {
	if who.Person != p.accounts["carol"].ID {
		return store.ErrDenied
	}
	return p.mail.SetQuota(db, limit)
}

func (p *people) URLSecret() []byte { return []byte("secret of the test") }

func (p *people) Failed(context.Context, string, string) {}
func (p *people) Version() uint64                        { return p.version.Load() }

func (p *people) Moved(context.Context, note.UNID) error { return nil }

func (p *people) MailFileOf(_ context.Context, one *directory.Person) (note.DatabaseID, error) {
	return one.MailDatabase, nil
}

// house is a server under test.
type house struct {
	env    *env.Fixture
	store  *store.Store
	people *people
	stats  *stat.Tree
	server *Server
	*door.Open
}

type settings struct {
	Config
	tls     bool
	far     bool // clients seem to connect from another machine
	message int  // maximum message size
	quota   uint64
	keep    time.Duration // for which deleted messages can be recovered
}

func open(t testing.TB, o settings) *house {
	t.Helper()
	h := &house{env: env.TestRealTime(t)}
	var err error
	h.store, err = store.Open(h.env.Env, "store", store.Options{CacheSize: 4 << 20, MemTableSize: 1 << 20,
		FloorBytes: -1, Ballast: -1})
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
	h.people = &people{mail: mailbox.New(h.store, h.env.Env, mailbox.Options{MessageSize: o.message,
		KeepDeleted: o.keep}),
		accounts: map[string]directory.Person{}}
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
		h.people.accounts[name] = directory.Person{ID: who.Person,
			PersonFields: directory.PersonFields{FullName: []string{name}, MailDatabase: db}}
	}
	h.people.in = signin.New(h.people, h.env.Env, signin.Options{SCRAM: true, Failures: -1})
	h.stats = stat.New(h.env.Clock)
	h.server = New(h.env.Env, o.Config, h.people, h.stats)
	h.listen(t, o)
	return h
}

func (h *house) listen(t testing.TB, o settings) {
	t.Helper()
	d := listen.Door{Name: "IMAP", Serve: h.server.Serve, Busy: h.server.Busy()}
	h.Open = door.At(t, h.env.Env, d, door.Options{TLS: o.tls, Far: o.far, Left: func() {
		if n := h.server.cfg.Memory.Used(); n != 0 {
			t.Errorf("%d bytes of message memory leaked", n)
		}
		if n := h.server.stats.current.Value(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if n := h.server.stats.watched.Value(); n != 0 || h.server.watched.Load() != 0 {
			t.Errorf("%d mailboxes are still watched", n)
		}
	}})
}

func (h *house) connect(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// login returns an authenticated client.
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
	f := h.people.mail.File(note.Who{Person: a.ID}, a.MailDatabase)
	for range n {
		if _, _, err := f.Append(context.Background(), "INBOX", []byte(text), mailbox.Flags{},
			time.Unix(1_700_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScenarios plays the dialogues of testdata: one file per verb, with a fresh server for each dialogue. The first
// word of a file's name (tls-, far-, small-) selects other settings of the server.
func TestScenarios(t *testing.T) {
	t.Parallel()
	kinds := map[string]settings{
		"imap":    {Config: Config{MaxBad: 100}},
		"tls":     {tls: true},
		"far":     {far: true},
		"farttls": {far: true, tls: true},
		"kept":    {keep: time.Hour},
		"small":   {message: 1000, Config: Config{Memory: listen.NewBudget(900)}},
	}
	for kind, o := range kinds {
		t.Run(kind, func(t *testing.T) {
			scenario.Run(t, "testdata/"+kind+"-*.txt", scenario.Options{
				Literals: true,
				TLS:      func(c net.Conn) (net.Conn, error) { return tls.Client(c, door.ClientTLS), nil },
			}, func(t *testing.T) scenario.Dial {
				t.Parallel()
				o := o
				if o.Memory != nil {
					o.Memory = listen.NewBudget(o.Memory.Max())
				}
				h := open(t, o)
				return func(string) (net.Conn, error) { return net.Dial("tcp", h.Addr.String()) }
			})
		})
	}
}

// TestClient checks a complete session with package client/imap.
func TestClient(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.login(t, "alice")
	msg := "Subject: x\r\nFrom: a@b.example\r\n\r\nbody\r\n"
	got, err := c.Append("INBOX", []wire.Flag{wire.Seen}, time.Unix(1_700_000_000, 0), strings.NewReader(msg),
		int64(len(msg)))
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
	one := func(s string) client.Message { return client.Message{Text: strings.NewReader(s), Size: int64(len(s))} }
	got, err = c.AppendAll("INBOX", []client.Message{one(msg), one(msg + strings.Repeat("x", 100_000)), one(msg)})
	if err != nil || len(got.Target) != 1 || got.Target[0].Stop-got.Target[0].Start != 2 {
		t.Fatal(got, err)
	}
	if _, err = c.AppendAll("INBOX", []client.Message{one(msg), one("")}); err == nil {
		t.Error("an empty message was taken")
	}
	m := one(msg)
	if got, err = c.Replace(got.Target[0].Start, true, "INBOX", &m); err != nil || len(got.Target) != 1 {
		t.Fatal(got, err)
	}
	if st, err := c.Status("INBOX", wire.StatusMessages); err != nil || st.Messages != 4 {
		t.Error(st, err)
	}
	if err := c.Logout(); err != nil {
		t.Error(err)
	}
}
