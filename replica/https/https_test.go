package https

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
	"doublet/store/check"
)

// server is a server with a web listener, or a laptop without one.
type server struct {
	t    *testing.T
	f    *env.Fixture
	s    *store.Store
	mail *mailbox.Service
	svc  *replica.Service
	h    *Handler
	web  *httptest.Server
	// people maps the sign-in names to passwords.
	people map[string]Identity
}

func newServer(t *testing.T, seed uint64, o Options) *server {
	t.Helper()
	x := &server{t: t, f: env.TestRealTime(t), people: map[string]Identity{}}
	x.f.Env.Rand = env.Seeded(seed)
	var err error
	x.s, err = store.Open(x.f.Env, "data", store.Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond,
		OnFatal: func(err error) { t.Error(err) },
	})
	x.must(err)
	t.Cleanup(func() { _ = x.s.Close() })
	x.mail = mailbox.New(x.s, x.f.Env, mailbox.Options{})
	x.svc = replica.New(x.s, x.mail, x.f.Env, replica.Options{})
	o.Server, o.Version = "mail.example.com", "test"
	o.Identify = func(r *http.Request) (Identity, error) {
		user, secret, _ := r.BasicAuth()
		if id, ok := x.people[user+":"+secret]; ok {
			return id, nil
		}
		return Identity{}, directory.ErrAuthentication
	}
	o.Refuse = func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	}
	x.h = New(x.svc, x.s, x.f.Env, o)
	x.web = httptest.NewUnstartedServer(x.h)
	x.web.EnableHTTP2 = true
	x.web.StartTLS()
	t.Cleanup(x.web.Close)
	return x
}

func (x *server) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// ada is a person; her mail file is created by server.ada.
var ada = Identity{Who: note.Who{Person: note.UNID{1}}, Name: "Ada Lovelace", Address: "ada@example.com"}

func (x *server) ada() note.DatabaseID {
	x.t.Helper()
	id, err := x.mail.Make(context.Background(), ada.Who.Person, "Mail of Ada", 0, 0)
	x.must(err)
	me := ada
	me.Mail = id
	x.people["ada:secret"] = me
	return id
}

func (x *server) client(user, secret string) *Client {
	x.t.Helper()
	sum := sha256.Sum256(x.web.Certificate().Raw)
	c, err := NewClient(x.f.Env, ClientOptions{URL: x.web.URL, User: user, Secret: secret,
		Fingerprint: hex.EncodeToString(sum[:])})
	x.must(err)
	x.t.Cleanup(c.Close)
	return c
}

func letter(rng *rand.Rand, n int) []byte {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "From: a@example.com\r\nSubject: %x\r\nMIME-Version: 1.0\r\n"+
		"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n", rng.Uint64())
	for text := base64.StdEncoding.EncodeToString(raw); len(text) > 0; {
		k := min(76, len(text))
		b.WriteString(text[:k] + "\r\n")
		text = text[k:]
	}
	return []byte(b.String())
}

func (x *server) deliver(db note.DatabaseID, raw []byte) {
	x.t.Helper()
	c, err := x.mail.Compose(context.Background(), raw)
	x.must(err)
	defer c.Release()
	x.must(x.s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Database(db)
		if err != nil {
			return err
		}
		f, err := w.FolderNamed("INBOX")
		if err != nil {
			return err
		}
		n := c.New(time.Unix(1_700_000_000, 0))
		n.Folders = []note.ID{f.Note}
		_, err = w.Create(n)
		return err
	}))
}

// messages returns the messages of the INBOX as bytes.
func (x *server) messages(db note.DatabaseID) (out []string) {
	x.t.Helper()
	x.must(x.s.Read(context.Background(), note.System, db, func(r *store.Reader) error {
		f, err := r.FolderNamed("INBOX")
		if err != nil {
			return err
		}
		return r.Members(f.Note, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
			n, err := r.Note(id)
			x.must(err)
			m, err := r.Message(n)
			x.must(err)
			var b bytes.Buffer
			_, err = m.WriteTo(&b)
			x.must(err)
			out = append(out, b.String())
			return true
		})
	}))
	slices.Sort(out)
	return out
}

// TestCopy checks that a mail file is copied to a laptop over HTTPS, that changes made offline go both ways, and that
// large parts are sent once.
func TestCopy(t *testing.T) {
	t.Parallel()
	hub, laptop := newServer(t, 1, Options{}), newServer(t, 2, Options{})
	db := hub.ada()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{10, 50_000, 3_000_000} {
		hub.deliver(db, letter(rng, n))
	}
	j := &Job{Client: hub.client("ada", "secret"), Service: laptop.svc, Store: laptop.s}
	account, out, err := j.Run(context.Background())
	laptop.must(err)
	if account.Name != "Ada Lovelace" || len(out) != 1 || out[0].Err != nil || !out[0].Made || out[0].In.Added != 9 ||
		out[0].In.Objects != 2 {
		t.Fatalf("%+v %+v", account, out)
	}
	if !slices.Equal(hub.messages(db), laptop.messages(db)) {
		t.Fatal("the copy is another")
	}
	info, err := laptop.s.Info(db)
	laptop.must(err)
	if info.Owner != ada.Who.Person || info.ACL.Rights(&ada.Who)&note.Administer == 0 ||
		info.ACL.Rights(&note.Who{Person: note.UNID{9}}) != 0 {
		t.Errorf("the copy belongs to: %+v", info)
	}
	// Both sides change offline.
	laptop.deliver(db, letter(rng, 70_000))
	hub.deliver(db, letter(rng, 70_000))
	_, out, err = j.Run(context.Background())
	laptop.must(err)
	if out[0].Err != nil || out[0].Made || out[0].In.Added != 1 || out[0].Out.Added != 1 {
		t.Fatalf("%+v", out)
	}
	if !slices.Equal(hub.messages(db), laptop.messages(db)) || len(hub.messages(db)) != 5 {
		t.Fatal("they differ")
	}
	_, _, err = j.Run(context.Background()) // its own changes come back once, by name
	laptop.must(err)
	_, out, err = j.Run(context.Background())
	laptop.must(err)
	if out[0].In.Looked+out[0].Out.Looked != 0 {
		t.Errorf("at rest: %+v", out)
	}
	for _, x := range []*server{hub, laptop} {
		rep, err := check.Run(context.Background(), x.s, check.Options{Deep: true})
		x.must(err)
		for _, f := range rep.Findings {
			t.Error(f)
		}
	}
}

// TestRefused checks that requests without sign-in, without TLS, or for databases that are not replicated are rejected.
func TestRefused(t *testing.T) {
	t.Parallel()
	hub := newServer(t, 1, Options{})
	db := hub.ada()
	ctx := context.Background()
	_, err := hub.client("ada", "wrong").Account(ctx)
	if !errors.Is(err, ErrSignIn) {
		t.Errorf("a wrong password: %v", err)
	}
	bob := Identity{Who: note.Who{Person: note.UNID{2}}, Name: "Bob"}
	hub.people["bob:secret"] = bob
	c := hub.client("bob", "secret")
	a, err := c.Account(ctx)
	if err != nil || len(a.Databases) != 0 {
		t.Errorf("bob sees %+v %v", a, err)
	}
	if _, err := c.Side().Hello(ctx, db, replica.Peer{}); !errors.Is(err, store.ErrDenied) {
		t.Errorf("bob asks for ada's mail: %v", err)
	}
	hub.people["root:secret"] = Identity{Who: note.Who{Person: note.UNID{3}, Roles: []string{"Admin"}}, Name: "Root"}
	root := hub.client("root", "secret")
	if a, err = root.Account(ctx); err != nil || a.Admin || len(a.Databases) != 0 {
		t.Errorf("an administrator sees %+v %v", a, err)
	}
	if _, err := root.Side().Hello(ctx, db, replica.Peer{}); !errors.Is(err, store.ErrDenied) {
		t.Errorf("an administrator asks for ada's mail: %v", err)
	}
	if _, err := root.Admit(ctx, []byte(`{}`)); !errors.Is(err, store.ErrDenied) ||
		!strings.Contains(err.Error(), "doublet domain token") {
		t.Errorf("an administrator lets a server in without a token: %v", err)
	}
	hub.must(func() error {
		_, err := hub.s.CreateDatabase(note.System, store.Create{ID: directory.ID, Title: "Directory",
			Kind: directory.Kind})
		return err
	}())
	for _, id := range []note.DatabaseID{directory.ID, replica.ID} {
		if _, err := root.Side().Hello(ctx, id, replica.Peer{}); !errors.Is(err, replica.ErrLocalOnly) &&
			!errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	r := httptest.NewRequest("GET", Path, nil)
	r.RemoteAddr = "192.0.2.1:1000"
	r.SetBasicAuth("ada", "secret")
	w := httptest.NewRecorder()
	hub.h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "https") {
		t.Errorf("in the clear: %d %s", w.Code, w.Body)
	}
	other, err := NewClient(hub.f.Env, ClientOptions{URL: hub.web.URL, User: "ada", Secret: "secret",
		Fingerprint: strings.Repeat("ab", 32)})
	hub.must(err)
	if _, err := other.Account(ctx); err == nil || !strings.Contains(err.Error(), "presents certificate") {
		t.Errorf("another certificate: %v", err)
	}
	for _, url := range []string{"http://mail.example.com", "https://", "https://a:b@mail.example.com", "ftp://x",
		"https://x/?y"} {
		if _, err := NewClient(hub.f.Env, ClientOptions{URL: url}); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
}

// TestBadRequests checks that a malformed request gets an answer and changes nothing.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	hub := newServer(t, 1, Options{})
	hub.ada()
	send := func(method, path string, body []byte) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1000"
		r.SetBasicAuth("ada", "secret")
		w := httptest.NewRecorder()
		hub.h.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		method, path string
		body         []byte
		want         int
		kind         string
	}{
		{"POST", Path + "call/hello", nil, 400, "format"},
		{"POST", Path + "call/hello", []byte{9, 1}, 400, "version"},
		{"POST", Path + "call/hello", append([]byte{1}, make([]byte, 8)...), 404, "not found"},
		{"POST", Path + "call/hello", make([]byte, maxBody+1), 413, "too large"},
		{"POST", Path + "put/put-object?head=%20", nil, 400, "format"},
		{"POST", Path + "put/put-object?head=" + strings.Repeat("a", 9000), nil, 413, "too large"},
		{"POST", Path + "get/object", []byte("x"), 400, "version"},
		{"POST", Path + "wait", []byte("[]"), 400, "format"},
		{"POST", Path + "wait", []byte(`[{"id":"x"}]`), 400, "format"},
		{"GET", Path + "call/hello", nil, 405, ""},
		{"GET", Path + "other", nil, 404, ""},
	} {
		w := send(c.method, c.path, c.body)
		if w.Code != c.want || w.Header().Get(headerKind) != c.kind {
			t.Errorf("%s %s %.20q: %d %q %.200s", c.method, c.path, c.body, w.Code, w.Header().Get(headerKind), w.Body)
		}
	}
}

// TestBusy checks that requests above the limits are told to retry, and that requests that wait for changes do not
// block replication.
func TestBusy(t *testing.T) {
	t.Parallel()
	hub := newServer(t, 1, Options{PerPerson: 2})
	db := hub.ada()
	ctx, cancel := context.WithCancel(context.Background())
	c := hub.client("ada", "secret")
	g, err := c.Side().Hello(ctx, db, replica.Peer{})
	hub.must(err)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.Wait(ctx, map[note.DatabaseID]uint64{db: g.Seq})
			done <- err
		}()
	}
	for hub.h.waiting.count() < 2 {
		time.Sleep(time.Millisecond)
	}
	wait := func(ctx context.Context) error {
		_, err := c.Wait(ctx, map[note.DatabaseID]uint64{db: 0})
		return err
	}
	if err := wait(ctx); !errors.Is(err, replica.ErrBusy) {
		t.Errorf("a third that waits: %v", err)
	}
	if _, err := c.Account(ctx); err != nil {
		t.Errorf("while two wait: %v", err)
	}
	for range 2 { // two requests that are being answered
		if !hub.h.running.enter(ada.Who.Person) {
			t.Fatal("those that wait take the places of others")
		}
	}
	if _, err := c.Account(ctx); !errors.Is(err, replica.ErrBusy) {
		t.Errorf("a third: %v", err)
	}
	cancel()
	<-done
	<-done
	for hub.h.waiting.count() > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := wait(context.Background()); err != nil {
		t.Errorf("one that waits, while two are answered: %v", err)
	}
	hub.h.running.leave(ada.Who.Person)
	if _, err := c.Account(context.Background()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestSlots checks the limits of slots: in all, and of one person.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := slots{max: 3, each: 2}
	a, b := note.UNID{1}, note.UNID{2}
	for n, want := range []bool{true, true, false} {
		if s.enter(a) != want {
			t.Errorf("request %d of one person, who may have 2: %v", n+1, !want)
		}
	}
	if !s.enter(b) || s.enter(b) || s.count() != 3 {
		t.Error("the limit of all is not 3")
	}
	s.leave(a)
	if !s.enter(b) || s.enter(a) {
		t.Error("a slot that was returned")
	}
	s.leave(a)
	s.leave(b)
	s.leave(b)
	if s.count() != 0 || len(s.by) != 0 {
		t.Errorf("%d slots taken, %d persons left", s.count(), len(s.by))
	}
}

// proxy forwards connections and cuts them now and then, until it is off.
type proxy struct {
	net.Listener
	to   string
	rng  *rand.Rand
	cuts atomic.Int64
	off  atomic.Bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, rng: rand.New(rand.NewPCG(1, 2))}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(in, 100_000+p.rng.Int64N(900_000))
		}
	}()
	return p
}

func (p *proxy) carry(in net.Conn, limit int64) {
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = in.Close()
		return
	}
	copyTo := func(to, from net.Conn) {
		// A connection that is there when the proxy is turned off is not cut any more: it may be used again.
		if n, err := io.CopyN(to, from, limit); n == limit && err == nil {
			if !p.off.Load() {
				p.cuts.Add(1)
			} else {
				_, _ = io.Copy(to, from)
			}
		}
		_, _ = in.Close(), out.Close()
	}
	go copyTo(out, in)
	copyTo(in, out)
}

// TestCutLine checks that large objects arrive in both directions over a line that is cut again and again, because a
// transfer resumes at the bytes received.
func TestCutLine(t *testing.T) {
	t.Parallel()
	hub, laptop := newServer(t, 1, Options{}), newServer(t, 2, Options{})
	db := hub.ada()
	rng := rand.New(rand.NewPCG(1, 1))
	hub.deliver(db, letter(rng, 4_000_000))
	p := newProxy(t, hub.web.Listener.Addr().String())
	sum := sha256.Sum256(hub.web.Certificate().Raw)
	c, err := NewClient(laptop.f.Env, ClientOptions{URL: "https://" + p.Addr().String(), User: "ada", Secret: "secret",
		Fingerprint: hex.EncodeToString(sum[:])})
	laptop.must(err)
	j := &Job{Client: c, Service: laptop.svc, Store: laptop.s}
	var failed error // of the last run
	until := func(done func() bool) {
		t.Helper()
		for range 60 {
			_, out, err := j.Run(context.Background())
			failed = err
			for _, o := range out {
				failed = errors.Join(failed, o.Err)
			}
			if done() {
				return
			}
		}
		t.Fatalf("it never came, %d cuts: %v", p.cuts.Load(), failed)
	}
	has := func() bool { _, err := laptop.s.Info(db); return err == nil }
	until(func() bool { return has() && len(laptop.messages(db)) == 1 })
	laptop.deliver(db, letter(rng, 4_000_000))
	until(func() bool { return len(hub.messages(db)) == 2 })
	if p.cuts.Load() < 4 {
		t.Errorf("only %d cuts", p.cuts.Load())
	}
	p.off.Store(true)
	// The first run may use a connection that was cut last.
	until(func() bool { return failed == nil && slices.Equal(hub.messages(db), laptop.messages(db)) })
	t.Logf("%d cuts", p.cuts.Load())
}

// TestWatch checks that a continuous job replicates changes on either side at once, rests in between, and ends when
// told to.
func TestWatch(t *testing.T) {
	t.Parallel()
	hub, laptop := newServer(t, 1, Options{}), newServer(t, 2, Options{})
	db := hub.ada()
	rng := rand.New(rand.NewPCG(1, 1))
	ctx, cancel := context.WithCancel(context.Background())
	var runs atomic.Int64
	done := make(chan error)
	j := &Job{Client: hub.client("ada", "secret"), Service: laptop.svc, Store: laptop.s}
	go func() {
		done <- j.Watch(ctx, func(out []Outcome, err error) {
			if err == nil && out[0].Err != nil {
				err = out[0].Err
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			runs.Add(1)
		})
	}()
	until := func(x *server, n int) {
		t.Helper()
		for range 2000 {
			if _, err := x.s.Info(db); err == nil && runs.Load() > 0 && len(x.messages(db)) == n {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("it never came: %d runs", runs.Load())
	}
	until(laptop, 0)
	hub.deliver(db, letter(rng, 100))
	until(laptop, 1)
	laptop.deliver(db, letter(rng, 100))
	until(hub, 2)
	// More runs may follow for the writes of the runs themselves, but they end.
	quiet := false
	for range 20 {
		before := runs.Load()
		time.Sleep(1500 * time.Millisecond)
		if quiet = runs.Load() == before; quiet {
			break
		}
	}
	if !quiet {
		t.Errorf("it runs on without any change: %d runs", runs.Load())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
