package pop3d

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	client "doublet/client/pop3"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
	"doublet/test/people"
	"doublet/test/scenario"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

// house is a server under test.
type house struct {
	env    *env.Fixture
	mail   *mailbox.Service
	people *people.Fake
	server *Server
	*door.Open
}

type settings struct {
	Config
	tls, far bool
}

func open(t testing.TB, o settings) *house {
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
	h.mail = mailbox.New(st, h.env.Env, mailbox.Options{MessageSize: 8 << 20})
	h.people = &people.Fake{Accounts: map[string]signin.Account{}}
	for i, name := range []string{"alice", "bob"} {
		who := note.Who{Person: note.UNID{15: byte(i + 1)}}
		db, err := h.mail.Make(context.Background(), who.Person, name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.people.Accounts[name] = signin.Account{Who: who, Database: db, Name: name}
	}
	h.server = New(h.env.Env, o.Config, h.people, h.mail, stat.New(h.env.Clock))
	h.listen(t, o)
	return h
}

func (h *house) listen(t testing.TB, o settings) {
	t.Helper()
	d := listen.Door{Name: "POP3", Serve: h.server.Serve, Busy: h.server.Busy()}
	h.Open = door.At(t, h.env.Env, d, door.Options{TLS: o.tls, Far: o.far, Left: func() {
		if n := h.server.cfg.Memory.Used(); n != 0 {
			t.Errorf("%d bytes of memory leaked", n)
		}
		if n := h.server.stats.current.Value(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if n := len(h.server.drops.open); n != 0 {
			t.Errorf("%d maildrops are locked", n)
		}
	}})
}

func (h *house) file(user string) *mailbox.File {
	a := h.people.Accounts[user]
	return h.mail.File(a.Who, a.Database)
}

// put stores a message in alice's INBOX without the protocol.
func (h *house) put(t testing.TB, text string) {
	t.Helper()
	if _, _, err := h.file("alice").Append(context.Background(), "INBOX", []byte(text), mailbox.Flags{},
		time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
}

// three holds the messages for scenarios.
var three = []string{
	"Subject: one\r\n\r\nfirst\r\n",
	"Subject: two\r\n\r\n.\r\n..dots\r\nand lines\r\n",
	"Subject: three\n\nbare ends",
}

func (h *house) client(t testing.TB, o client.Options) *client.Client {
	t.Helper()
	o.TLS = door.ClientTLS
	c, err := client.Dial(h.env.Env, h.Addr.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (h *house) login(t testing.TB, user string) *client.Client {
	t.Helper()
	c := h.client(t, client.Options{})
	if err := c.Login(user, "demo"); err != nil {
		t.Fatal(err)
	}
	return c
}

// flags returns the flags of each message in alice's INBOX, as another protocol sees them.
func (h *house) flags(t testing.TB) (out []string) {
	t.Helper()
	v, _, err := h.file("alice").Open(context.Background(), "INBOX", true)
	if err == nil {
		err = v.Fetch(context.Background(), mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
			func(m *mailbox.Message) (bool, error) {
				out = append(out, fmt.Sprintf("%d %s", m.UID, m.Flags().AppendIMAP(nil)))
				return false, nil
			}, func() error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScenarios plays the dialogues of testdata: one file per verb, with a fresh server and three messages for each
// dialogue. The first word of a file's name selects other settings of the server.
func TestScenarios(t *testing.T) {
	t.Parallel()
	kinds := map[string]settings{
		"pop":     {Config: Config{MaxBad: 100}},
		"tls":     {tls: true},
		"far":     {far: true},
		"farttls": {far: true, tls: true},
		"delay":   {Config: Config{LoginDelay: time.Hour}},
		"small":   {Config: Config{Memory: listen.NewBudget(10)}},
	}
	for kind, o := range kinds {
		t.Run(kind, func(t *testing.T) {
			scenario.Run(t, "testdata/"+kind+"-*.txt", scenario.Options{
				TLS: func(c net.Conn) (net.Conn, error) { return tls.Client(c, door.ClientTLS), nil },
			}, func(t *testing.T) scenario.Dial {
				t.Parallel()
				o := o
				if o.Memory != nil {
					o.Memory = listen.NewBudget(o.Memory.Max())
				}
				h := open(t, o)
				for _, m := range three {
					h.put(t, m)
				}
				return func(string) (net.Conn, error) { return net.Dial("tcp", h.Addr.String()) }
			})
		})
	}
}

// corpus returns messages that are difficult to transmit unchanged.
func corpus() []string {
	long := strings.Repeat("0123456789abcdef", 40_000)
	return []string{
		"", "x", ".", ".\r\n", "\r\n.\r\n", "a\nb\n.\nc", "a\r", "Subject: ä\r\n\r\n\xff\xfe\x80\r\n",
		"Subject: long\r\n\r\n" + long, "Subject: many\r\n\r\n" + strings.Repeat("...\r\n", 100_000),
		"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n" +
			"Content-Transfer-Encoding: base64\r\n\r\n" +
			strings.Repeat(strings.Repeat("QUJD", 19)+"\r\n", 3000) + "--b--\r\n",
	}
}

func lines(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return strings.TrimSuffix(s, "\r") + "\r\n"
}

// TestWholeMessages checks every byte, and the exact sizes.
func TestWholeMessages(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	all := corpus()
	for _, m := range all {
		h.put(t, m)
	}
	c := h.login(t, "alice")
	sizes := map[uint32]int64{}
	if err := c.List(func(n uint32, octets int64) { sizes[n] = octets }); err != nil {
		t.Fatal(err)
	}
	var total int64
	for i, m := range all {
		var b bytes.Buffer
		if err := c.Retrieve(uint32(i+1), &b); err != nil {
			t.Fatal(err)
		}
		if b.String() != lines(m) {
			t.Errorf("%.40q came as %.60q", m, b.String())
		}
		if sizes[uint32(i+1)] != int64(b.Len()) {
			t.Errorf("%.40q: LIST says %d octets, RETR sent %d", m, sizes[uint32(i+1)], b.Len())
		}
		total += int64(b.Len())
	}
	if n, octets, err := c.Stat(); n != len(all) || octets != total || err != nil {
		t.Errorf("STAT says %d %d, want %d %d (%v)", n, octets, len(all), total, err)
	}
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
}

// TestCountedSizes checks that computed sizes, for messages without a stored size, are the same.
func TestCountedSizes(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	for _, m := range corpus() {
		h.put(t, m)
	}
	a := h.people.Accounts["alice"]
	view, _, err := h.file("alice").Open(context.Background(), "INBOX", true)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{srv: h.server, account: a}
	defer s.scratch.Release()
	err = view.Fetch(context.Background(), mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			want, known, err := m.Travels()
			if err != nil || !known {
				t.Error(known, err)
			}
			body, err := m.Body()
			if err != nil {
				return false, err
			}
			if got, err := s.size(body); got != want || err != nil {
				t.Errorf("message %d: counted %d, noted %d, %v", m.UID, got, want, err)
			}
			return false, nil
		}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// TestUniqueIDs checks that unique IDs stay the same whatever happens to other messages, and are never reused.
func TestUniqueIDs(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	ids := func() (list []string) {
		c := h.login(t, "alice")
		if err := c.Unique(func(_ uint32, id string) { list = append(list, id) }); err != nil {
			t.Fatal(err)
		}
		if err := c.Quit(); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, m := range three {
		h.put(t, m)
	}
	before := ids()
	if len(before) != 3 || before[0] == before[1] {
		t.Fatal(before)
	}
	// A move to another folder and back gives new UIDs, a new order, and the same ids.
	ctx := context.Background()
	for _, way := range [][2]string{{"INBOX", "Archive"}, {"Archive", "INBOX"}} {
		v, _, err := h.file("alice").Open(ctx, way[0], false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Move(ctx, mailbox.Set{{Start: 1, Stop: 1}}, false, way[1]); err != nil {
			t.Fatal(err)
		}
	}
	if after := ids(); !slices.Equal(after, []string{before[1], before[2], before[0]}) {
		t.Errorf("%q, before %q", after, before)
	}
	h.put(t, three[0])
	if after := ids(); slices.Contains(before, after[3]) {
		t.Error("the same message again has the id of the first")
	}
}

// TestUpdate checks that DELE has no effect before QUIT, and that RETR sets \Seen, however the session ends.
func TestUpdate(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	for _, m := range three {
		h.put(t, m)
	}
	c := h.login(t, "alice")
	if err := errors.Join(c.Delete(2), c.Retrieve(3, io.Discard), c.Top(1, 100, io.Discard), c.Close()); err != nil {
		t.Fatal(err)
	}
	h.unlocked(t)
	if got := h.flags(t); !slices.Equal(got, []string{"1 ", "2 ", `3 \Seen`}) {
		t.Errorf("after a lost connection: %q", got)
	}
	c = h.login(t, "alice")
	if err := errors.Join(c.Delete(2), c.Delete(1), c.Simple("RSET"), c.Delete(2), c.Retrieve(1, io.Discard),
		c.Quit()); err != nil {
		t.Fatal(err)
	}
	h.unlocked(t)
	if got := h.flags(t); !slices.Equal(got, []string{`1 \Seen`, `3 \Seen`}) {
		t.Errorf("after QUIT: %q", got)
	}
}

// unlocked waits until alice's maildrop is free.
func (h *house) unlocked(t *testing.T) {
	t.Helper()
	for range 10_000 {
		h.server.drops.mu.Lock()
		n := len(h.server.drops.open)
		h.server.drops.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the maildrop stays locked")
}

// TestSnapshot checks changes by another protocol during a session: new mail waits for the next session, removed
// messages are gone.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	for _, m := range three {
		h.put(t, m)
	}
	c := h.login(t, "alice")
	h.put(t, "Subject: four\r\n\r\n")
	ctx := context.Background()
	v, _, err := h.file("alice").Open(ctx, "INBOX", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Move(ctx, mailbox.Set{{Start: 2, Stop: 2}}, false, "Trash"); err != nil {
		t.Fatal(err)
	}
	var refused *client.Error
	if err := c.Retrieve(2, io.Discard); !errors.As(err, &refused) ||
		!strings.Contains(refused.Text, "another session") {
		t.Error(err)
	}
	if err := c.Retrieve(4, io.Discard); !errors.As(err, &refused) || refused.Text != "No such message" {
		t.Error(err)
	}
	var b strings.Builder
	if err := c.Retrieve(3, &b); err != nil || b.String() != lines(three[2]) {
		t.Errorf("%q, %v", b.String(), err)
	}
	if err := errors.Join(c.Delete(2), c.Delete(3), c.Quit()); err != nil {
		t.Error(err)
	}
	h.unlocked(t)
	if got := h.flags(t); len(got) != 2 { // one and four
		t.Error(got)
	}
}

// TestDisabledMeanwhile checks that a disabled account's session ends at the next command.
func TestDisabledMeanwhile(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.login(t, "alice")
	h.people.Gone.Store(true)
	var refused *client.Error
	if err := c.Simple("NOOP"); !errors.As(err, &refused) || refused.Code != "AUTH" {
		t.Error(err)
	}
	if err := c.Simple("NOOP"); err == nil {
		t.Error("the session goes on")
	}
}

func TestMechanisms(t *testing.T) {
	t.Parallel()
	h := open(t, settings{tls: true})
	for _, m := range []sasl.Client{sasl.NewPlainClient("", "alice", "demo"), sasl.NewLoginClient("bob", "demo"),
		&scramClient{c: scram.NewClient("alice", "demo", "client-nonce")}} {
		c := h.client(t, client.Options{Security: client.StartTLS})
		if err := errors.Join(c.Authenticate(m), c.Simple("NOOP"), c.Quit()); err != nil {
			t.Error(m.Mechanism(), err)
		}
		h.unlocked(t)
	}
}

type scramClient struct{ c *scram.Client }

func (s *scramClient) Mechanism() string        { return "SCRAM-SHA-256" }
func (s *scramClient) Initial() ([]byte, error) { return s.Next(nil) }
func (s *scramClient) Next(in []byte) ([]byte, error) {
	out, _, err := s.c.Next(in)
	if out == nil {
		out = []byte{}
	}
	return out, err
}

// FuzzSession checks that the server answers any input according to the protocol or closes, and removes no message that
// was not marked.
func FuzzSession(f *testing.F) {
	f.Add([]byte("USER alice\r\nPASS demo\r\nLIST\r\nUIDL\r\nTOP 1 1\r\nRETR 3\r\nDELE 1\r\nRSET\r\nQUIT\r\n"))
	f.Add([]byte("AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00alice\x00demo")) +
		"\r\nSTAT\r\nQUIT\r\n"))
	f.Add([]byte("AUTH PLAIN\r\n*\r\nUTF8\r\nLANG *\r\n\r\n\x00\xff\r\n"))
	h := open(f, settings{})
	for _, m := range three {
		h.put(f, m)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(bytes.ToUpper(in), []byte("DELE")) && bytes.Contains(bytes.ToUpper(in), []byte("QUIT")) {
			in = bytes.ReplaceAll(bytes.ToUpper(in), []byte("QUIT"), []byte("NOOP"))
		}
		c, err := net.Dial("tcp", h.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write(append(bytes.Clone(in), "\r\nNOOP\r\n"...))
		_ = c.(*net.TCPConn).CloseWrite()
		out, err := io.ReadAll(c)
		_ = c.Close()
		if err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(out, []byte("+OK ")) {
			t.Errorf("%q", out)
		}
		if n := h.flags(t); len(n) != 3 {
			t.Errorf("%q removed a message", in)
		}
	})
}

// TestAgainAtOnce checks that after the response to QUIT the maildrop is free, and read messages are marked.
func TestAgainAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.put(t, three[0])
	h.put(t, three[1])
	for i := range 20 {
		c := h.login(t, "alice")
		if err := c.Retrieve(2, io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := c.Quit(); err != nil {
			t.Fatal(err)
		}
		h.server.drops.mu.Lock()
		n := len(h.server.drops.open)
		h.server.drops.mu.Unlock()
		if n != 0 {
			t.Fatalf("%d: the maildrop is locked after the answer", i)
		}
		if got := h.flags(t); len(got) != 2 || !strings.Contains(got[1], `\Seen`) {
			t.Fatalf("%d: %q", i, got)
		}
	}
}
