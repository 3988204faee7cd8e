package push

import (
	"context"
	"crypto/ecdh"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/client/reach"
	"doublet/directory/session"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/jmap"
	"doublet/wire/webpush"
)

// names is a resolver with settable addresses.
type names struct {
	mu sync.Mutex
	m  map[string][]string
}

func (n *names) set(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.m[name] = addresses
}

func (n *names) Addresses(_ context.Context, name string) (list []netip.Addr, _ bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.m[name] {
		list = append(list, netip.MustParseAddr(a))
	}
	if list == nil {
		err = errors.New("no such name")
	}
	return list, false, err
}

// got is a push as the push service receives it.
type got struct {
	path   string
	header http.Header
	body   []byte
}

// webWorld is a server that sends pushes to a push service on this machine, with a simulated clock.
type webWorld struct {
	*Service
	*source
	t     testing.TB
	fix   *env.Fixture
	store *store.Store
	keep  *session.Service
	dns   *names
	opt   Options
	there *httptest.Server
	base  string // of the push service
	pushs chan got
	// answer returns the response of the push service.
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request)
	gone   map[string]bool
	stats  *stat.Tree
}

func openWeb(t testing.TB, change ...func(*Options)) *webWorld {
	t.Helper()
	w := &webWorld{source: newSource(), t: t, fix: env.Test(t), dns: &names{m: map[string][]string{}},
		pushs: make(chan got, 1000), gone: map[string]bool{}}
	w.there = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		answer := w.answer
		w.mu.Unlock()
		w.pushs <- got{r.URL.Path, r.Header.Clone(), body}
		if answer == nil {
			out.WriteHeader(http.StatusCreated)
			return
		}
		answer(out, r)
	}))
	_, port, err := net.SplitHostPort(w.there.Listener.Addr().String())
	w.ok(err)
	w.dns.set("example.com", "127.0.0.1")
	w.base = "https://example.com:" + port
	key, _ := webpush.KeyFrom([]byte("the secret of thirty-two octets!"))
	roots := x509.NewCertPool()
	roots.AddCert(w.there.Certificate())
	w.opt = Options{Good: w.good, Web: WebOptions{
		Account: accountOf, Key: key, Contact: "mailto:postmaster@example.org", DNS: w.dns,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots,
	}}
	for _, fn := range change {
		fn(&w.opt)
	}
	w.give(alice, 1)
	w.give(bob, 2)
	w.start()
	t.Cleanup(func() {
		w.stop()
		w.there.Close()
	})
	return w
}

func (w *webWorld) start() {
	w.t.Helper()
	var err error
	w.store, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: session.Indexes()})
	w.ok(err)
	w.keep, err = session.Open(w.store, w.fix.Env, []byte("key"), session.Options{})
	w.ok(err)
	w.stats = stat.New(w.fix.Clock)
	o := w.opt
	o.Stats, o.Web.Subscriptions = w.stats, w.keep
	w.Service = New(w.fix.Env, w.source, o)
	w.ok(w.Service.Start(bg))
}

func (w *webWorld) stop() {
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	if err := w.Service.Close(ctx); err != nil {
		w.t.Error(err)
	}
	w.keep.Close()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *webWorld) good(_ context.Context, _ note.UNID, credential string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone[credential] {
		return ErrGone
	}
	return nil
}

func (w *webWorld) answers(fn func(http.ResponseWriter, *http.Request)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = fn
}

func (w *webWorld) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// push waits for the next push.
func (w *webWorld) push() got {
	w.t.Helper()
	select {
	case g := <-w.pushs:
		return g
	case <-time.After(20 * time.Second):
		w.t.Fatal("nothing is pushed")
	}
	return got{}
}

// silent checks that nothing is pushed while the clock advances by d.
func (w *webWorld) silent(what string, d time.Duration) {
	w.t.Helper()
	w.settle()
	w.fix.Time.Advance(d)
	w.settle()
	select {
	case g := <-w.pushs:
		w.t.Errorf("%s: %s is pushed", what, g.body)
	default:
	}
}

// settle waits until all devices are idle.
func (w *webWorld) settle() {
	w.t.Helper()
	w.eventually("somebody is busy for ever", func() bool {
		for _, d := range w.web.list() {
			d.mu.Lock()
			busy := d.busy
			d.mu.Unlock()
			if busy {
				return false
			}
		}
		return true
	})
}

func (w *webWorld) eventually(what string, fn func() bool) {
	w.t.Helper()
	for range 1000 {
		if fn() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal(what)
}

func callerOf(person note.UNID, credential string) *Caller {
	c := &Caller{Credential: credential}
	c.Who.Person = person
	return c
}

// subscribed returns a verified subscription.
func (w *webWorld) subscribed(c *Caller, path string, change ...func(*NewSubscription)) session.Subscription {
	w.t.Helper()
	n := NewSubscription{Device: "device", URL: w.base + path, AllTypes: true}
	for _, fn := range change {
		fn(&n)
	}
	s, err := w.Subscribe(bg, c, n)
	w.ok(err)
	var v struct {
		Type string `json:"@type"`
		ID   string `json:"pushSubscriptionId"`
		Code string `json:"verificationCode"`
	}
	g := w.push()
	if json.Unmarshal(g.body, &v) != nil || v.Type != "PushVerification" || v.ID != SubscriptionID(&s) ||
		g.path != path {
		w.t.Fatalf("%s %s", g.path, g.body)
	}
	w.settle()
	w.fix.Time.Advance(2 * time.Second) // Every, after a push
	w.settle()
	s, err = w.Resubscribe(bg, c, v.ID, SubscriptionChange{Code: &v.Code})
	w.ok(err)
	if !s.Verified {
		w.t.Error("not verified")
	}
	return s
}

func (w *webWorld) count() int { return len(w.web.list()) }

func TestWebPush(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	c := callerOf(alice, "session:1")
	s, err := w.Subscribe(bg, c, NewSubscription{Device: "d", URL: w.base + "/one", Types: []string{"Email"}})
	w.ok(err)
	g := w.push()
	if g.header.Get("Content-Type") != "application/json" || g.header.Get("Ttl") == "" ||
		g.header.Get("Content-Encoding") != "" {
		t.Errorf("%v", g.header)
	}
	subject, key, err := webpush.CheckAuthorization(g.header.Get("Authorization"), w.base, w.fix.Clock.Now())
	if err != nil || subject != "mailto:postmaster@example.org" || key != w.ApplicationServerKey() {
		t.Error(subject, key, err)
	}
	// Before the verification nothing else is sent, and a wrong code is rejected.
	w.change(1, "Email")
	w.silent("unverified", time.Minute)
	wrong := "0123"
	var e *jmap.Error
	if _, err := w.Resubscribe(bg, c, SubscriptionID(&s), SubscriptionChange{Code: &wrong}); !errors.As(err, &e) ||
		e.Type != "invalidProperties" || e.Properties[0] != "verificationCode" {
		t.Error(err)
	}
	w.change(1, "Email")
	w.silent("with a wrong code", time.Minute)
	if _, err := w.Resubscribe(bg, c, SubscriptionID(&s), SubscriptionChange{Code: &s.Code}); err != nil {
		t.Error(err)
	}
	w.silent("what was before the code", time.Minute)
	w.change(1, "Mailbox") // not requested
	w.silent("another type", time.Minute)
	w.change(1, "Email")
	if got := changed(t, string(w.push().body)); !maps.Equal(got["a1"], map[string]string{"Email": "4"}) {
		t.Errorf("%v", got)
	}
	// A burst of changes causes one push, with the states after it.
	for range 50 {
		w.change(1, "Email")
	}
	w.silent("within the pause", 900*time.Millisecond)
	w.fix.Time.Advance(200 * time.Millisecond)
	if got := changed(t, string(w.push().body)); got["a1"]["Email"] != "54" {
		t.Errorf("%v", got)
	}
	w.silent("more than one", time.Minute)
	// Change the types.
	if _, err := w.Resubscribe(bg, c, SubscriptionID(&s), SubscriptionChange{SetTypes: true,
		Types: []string{"Thread"}}); err != nil {
		t.Error(err)
	}
	w.change(1, "Email")
	w.silent("a type that was taken out", time.Minute)
	w.change(1, "Thread")
	if got := changed(t, string(w.push().body)); got["a1"]["Thread"] != "2" {
		t.Errorf("%v", got)
	}
	w.settle()
	w.fix.Time.Advance(time.Minute)
	w.ok(w.Unsubscribe(bg, c, SubscriptionID(&s)))
	w.change(1, "Thread")
	w.silent("after the end", time.Minute)
	w.eventually("somebody watches", func() bool { return w.watching() == 0 })
}

// TestEncryption checks that with keys, only the owner of the private key can read a push.
func TestEncryption(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	private, err := ecdh.P256().NewPrivateKey([]byte("another secret of 32 octets, oh!"))
	w.ok(err)
	auth := []byte("sixteen octets!!")
	s, err := w.Subscribe(bg, callerOf(alice, "app:1"), NewSubscription{
		Device: "d", URL: w.base + "/two", AllTypes: true,
		P256dh: base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		Auth:   base64.URLEncoding.EncodeToString(auth),
	})
	w.ok(err)
	read := func() string {
		t.Helper()
		g := w.push()
		plain, err := webpush.Decrypt(private, auth, g.body)
		if err != nil || g.header.Get("Content-Encoding") != "aes128gcm" || strings.Contains(string(g.body), "@type") {
			t.Fatal(err, g.header)
		}
		return string(plain)
	}
	if text := read(); !strings.Contains(text, s.Code) {
		t.Error(text)
	}
	w.settle()
	w.fix.Time.Advance(2 * time.Second)
	w.settle()
	_, err = w.Resubscribe(bg, callerOf(alice, "app:1"), SubscriptionID(&s), SubscriptionChange{Code: &s.Code})
	w.ok(err)
	w.change(1, "Email")
	if got := changed(t, read()); got["a1"]["Email"] != "2" {
		t.Errorf("%v", got)
	}
}

// TestOwn checks that a subscription can only be read and changed with the credential that made it.
func TestOwn(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	mine := callerOf(alice, "session:1")
	s := w.subscribed(mine, "/x")
	for _, c := range []*Caller{callerOf(alice, "session:2"), callerOf(alice, ""), callerOf(bob, "session:1")} {
		if list, err := w.Subscriptions(bg, c); err != nil || len(list) != 0 {
			t.Error(list, err)
		}
		if _, err := w.Resubscribe(bg, c, SubscriptionID(&s), SubscriptionChange{Code: &s.Code}); !errors.Is(err,
			errNotYours) {
			t.Error(err)
		}
		if err := w.Unsubscribe(bg, c, SubscriptionID(&s)); !errors.Is(err, errNotYours) {
			t.Error(err)
		}
	}
	if list, err := w.Subscriptions(bg, mine); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
	for _, id := range []string{"", "p", "x" + s.ID.String(), strings.ToUpper(SubscriptionID(&s)),
		SubscriptionID(&s) + "0"} {
		if _, err := w.Resubscribe(bg, mine, id, SubscriptionChange{}); !errors.Is(err, errNotYours) {
			t.Error(id, err)
		}
	}
	// When the credential ends, the subscription ends too.
	w.mu.Lock()
	w.gone["session:1"] = true
	w.mu.Unlock()
	w.End("session:1")
	w.eventually("it is still there", func() bool { return w.count() == 0 })
	if list, err := w.keep.Subscriptions(bg, alice); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	w.change(1, "Email")
	w.silent("after the end", time.Hour)
	// So does a subscription that was never verified.
	if _, err := w.Subscribe(bg, callerOf(alice, "session:3"),
		NewSubscription{Device: "d", URL: w.base + "/y", AllTypes: true}); err != nil {
		t.Fatal(err)
	}
	w.push()
	w.settle()
	w.fix.Time.Advance(time.Minute)
	w.settle()
	w.mu.Lock()
	w.gone["session:3"] = true
	w.mu.Unlock()
	w.End("session:3")
	w.eventually("it is still there", func() bool { return w.count() == 0 })
}

// TestFailures checks how the server handles the error responses of push services.
func TestFailures(t *testing.T) {
	t.Parallel()
	say := func(code int, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		waits  []time.Duration // before each retry
	}{
		"trouble":         {say(503), []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}},
		"too many":        {say(429, "Retry-After", "60"), []time.Duration{time.Minute, time.Minute}},
		"come again then": {say(503, "Retry-After", env.TestStart.Add(10*time.Minute).Format(http.TimeFormat)), nil},
		"gone":            {say(410), nil}, "not found": {say(404), nil},
		"sent on":  {say(307, "Location", "https://example.com/elsewhere"), []time.Duration{5 * time.Second}},
		"no":       {say(400), []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}},
		"too long": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWeb(t)
			w.subscribed(callerOf(alice, "x"), "/x")
			w.answers(c.answer)
			w.change(1, "Email")
			w.push()
			for _, d := range c.waits {
				w.silent("too early", d-time.Millisecond)
				w.change(1, "Mailbox") // changes meanwhile are included in the retry
				w.fix.Time.Advance(time.Millisecond)
				if got := changed(t, string(w.push().body)); got["a1"]["Email"] != "2" || got["a1"]["Mailbox"] == "" {
					t.Errorf("%v", got)
				}
			}
			switch name {
			case "gone", "not found", "no":
				w.eventually("it is still there", func() bool { return w.count() == 0 })
				if list, err := w.keep.Subscriptions(bg, alice); err != nil || len(list) != 0 {
					t.Error(list, err)
				}
			case "trouble", "too many":
				w.answers(nil)
				w.settle()
				w.fix.Time.Advance(time.Hour)
				if got := changed(t, string(w.push().body)); got["a1"]["Email"] != "2" {
					t.Errorf("%v", got)
				}
				w.silent("twice", 10*time.Minute)
			case "come again then":
				w.silent("too early", 9*time.Minute)
				w.fix.Time.Advance(time.Minute)
				w.push()
			case "too long":
				w.silent("it was taken", time.Hour)
			}
		})
	}
}

// TestAddresses checks that nothing is sent to addresses in private networks, whatever the URL or DNS says.
func TestAddresses(t *testing.T) {
	t.Parallel()
	w := openWeb(t, func(o *Options) { o.Web.Private = nil })
	c := callerOf(alice, "x")
	for _, u := range []string{
		"http://push.example/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/x",
		"https://169.254.169.254/latest", "https://user:pw@push.example/", "https://push.example:25/",
		"https://push.example:0/", "https:push.example", "//push.example/", "", "https://", "https:///x",
		"ftp://push.example", "https://push.example/#x", "https://push.example/a b", "https://push.example/\r\nX: y",
		"https://push.example/" + strings.Repeat("x", 2000), "https://[fe80::1%25eth0]/",
	} {
		var e *jmap.Error
		if _, err := w.Subscribe(bg, c, NewSubscription{Device: "d", URL: u, AllTypes: true}); !errors.As(err, &e) ||
			e.Type != "invalidProperties" || e.Properties[0] != "url" {
			t.Errorf("%q: %v", u, err)
		}
	}
	// A name with a private address is detected when the push is sent, which ends the subscription.
	_, port, err := net.SplitHostPort(w.there.Listener.Addr().String())
	w.ok(err)
	for _, name := range []string{"inside.example", "localhost"} {
		w.dns.set(name, "127.0.0.1", "10.0.0.1", "::1")
		if _, err := w.Subscribe(bg, c, NewSubscription{Device: "d", URL: "https://" + name + ":" + port + "/",
			AllTypes: true}); err != nil {
			t.Fatal(err)
		}
		w.eventually("it is still there", func() bool { return w.count() == 0 })
	}
	w.silent("to this machine", time.Hour)
	// Only an address that was checked is dialed: if there are several, an allowed one.
	g := reach.New(w.fix.Env, w.dns, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})
	var dialled []string
	real := w.fix.Env.Dial
	w.fix.Env.Dial = func(network, address string, d time.Duration) (net.Conn, error) {
		dialled = append(dialled, address)
		return real(network, address, d)
	}
	conn, err := g.Dial(bg, "tcp", net.JoinHostPort("inside.example", port))
	w.ok(err)
	_ = conn.Close()
	if len(dialled) != 1 || dialled[0] != "127.0.0.1:"+port {
		t.Error(dialled)
	}
}

func TestSubscribeBounds(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	c := callerOf(alice, "x")
	now := w.fix.Clock.Now()
	bad := func(property string, fn func(*NewSubscription)) {
		t.Helper()
		n := NewSubscription{Device: "d", URL: w.base + "/x", AllTypes: true}
		fn(&n)
		var e *jmap.Error
		if _, err := w.Subscribe(bg, c, n); !errors.As(err, &e) || e.Type != "invalidProperties" ||
			e.Properties[0] != property {
			t.Errorf("%s: %v", property, err)
		}
	}
	bad("deviceClientId", func(n *NewSubscription) { n.Device = "" })
	bad("deviceClientId", func(n *NewSubscription) { n.Device = strings.Repeat("x", 300) })
	bad("keys", func(n *NewSubscription) { n.P256dh, n.Auth = "x", "y" })
	bad("keys", func(n *NewSubscription) { n.Auth = "AAAAAAAAAAAAAAAAAAAAAA" })
	bad("expires", func(n *NewSubscription) { n.Expires = now })
	bad("types", func(n *NewSubscription) { n.Types = []string{"E mail"} })
	bad("types", func(n *NewSubscription) { n.Types = make([]string, 200) })
	for given, want := range map[time.Duration]time.Duration{0: 30 * 24 * time.Hour, time.Hour: time.Hour,
		1000 * time.Hour: 30 * 24 * time.Hour} {
		at := time.Time{}
		if given != 0 {
			at = now.Add(given)
		}
		if got := w.web.until(at).Sub(now); got != want {
			t.Errorf("%v: %v", given, got)
		}
	}
	// The number of new subscriptions is limited, because each sends a push to an address that the client chooses.
	n := 0
	for i := range 30 {
		s, err := w.Subscribe(bg, c, NewSubscription{Device: "d", URL: fmt.Sprint(w.base, "/", i), AllTypes: true})
		var e *jmap.Error
		if err == nil {
			n++
			w.ok(w.Unsubscribe(bg, c, SubscriptionID(&s)))
		} else if !errors.As(err, &e) || e.Type != "rateLimit" {
			t.Error(err)
		}
	}
	if n != maxMade {
		t.Errorf("%d were made", n)
	}
	w.fix.Time.Advance(madeWithin)
	if _, err := w.Subscribe(bg, c, NewSubscription{Device: "d", URL: w.base + "/later", AllTypes: true}); err != nil {
		t.Error(err)
	}
	if _, err := w.Subscribe(bg, callerOf(bob, "x"), NewSubscription{Device: "d", URL: w.base + "/bob",
		AllTypes: true}); err != nil {
		t.Error(err)
	}
	for i := range 2 * maxTallies {
		w.web.mayMake(note.UNID{byte(i), byte(i >> 8), byte(i >> 16), 9})
	}
	if len(w.web.made) > maxTallies {
		t.Errorf("%d tallies", len(w.web.made))
	}
}

// TestEnds checks that an expired subscription gets nothing and is removed.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	s := w.subscribed(callerOf(alice, "x"), "/x",
		func(n *NewSubscription) { n.Expires = w.fix.Clock.Now().Add(time.Hour) })
	later := w.fix.Clock.Now().Add(2 * time.Hour)
	if _, err := w.Resubscribe(bg, callerOf(alice, "x"), SubscriptionID(&s),
		SubscriptionChange{Expires: &later}); err != nil {
		t.Fatal(err)
	}
	w.fix.Time.Advance(90 * time.Minute)
	w.change(1, "Email")
	w.push()
	w.settle()
	w.fix.Time.Advance(time.Hour)
	w.settle()
	w.fix.Time.Advance(tick)
	w.eventually("it is still there", func() bool { return w.count() == 0 })
	w.change(1, "Email")
	w.silent("after the end", time.Minute)
}

// TestMissed checks that changes while the server was down, or not pushed before it went down, are pushed afterwards.
func TestMissed(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	db, err := w.store.CreateDatabase(note.System, store.Create{ID: 1, Title: "mail", Kind: "mail"})
	w.ok(err)
	other, err := w.store.CreateDatabase(note.System, store.Create{ID: 2, Title: "mail", Kind: "mail"})
	w.ok(err)
	commit := func(db note.DatabaseID) {
		t.Helper()
		w.ok(w.store.Update(bg, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			d, err := tx.Database(db)
			if err == nil {
				_, err = d.Create(store.New{})
			}
			return err
		}))
	}
	w.subscribed(callerOf(alice, "x"), "/alice")
	w.subscribed(callerOf(bob, "y"), "/bob")
	commit(db)
	commit(other)
	restart := func(meanwhile func()) {
		t.Helper()
		w.settle()
		w.fix.Time.Advance(tick)
		w.settle()
		w.stop()
		meanwhile()
		w.start()
	}
	restart(func() {})
	w.silent("after a restart in which nothing happened", time.Minute)
	// The push service is down while the mail changes, and still when the server goes down.
	w.answers(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(503) })
	commit(db)
	w.change(1, "Email")
	w.push()
	w.settle()
	w.stop()
	w.answers(nil)
	w.start()
	g := w.push()
	if got := changed(t, string(g.body)); g.path != "/alice" || got["a1"]["Email"] != "2" {
		t.Errorf("%s %v", g.path, got)
	}
	w.silent("more than what was missed", time.Minute)
}

// TestLeftToAnother checks that of the servers that know a subscription, the primary of the mail file pushes. A new
// primary pushes the current states. A subscription whose credential ends is removed by any server.
func TestLeftToAnother(t *testing.T) {
	t.Parallel()
	var leads atomic.Bool
	leads.Store(true)
	w := openWeb(t, func(o *Options) { o.Web.Leads = func(note.DatabaseID) bool { return leads.Load() } })
	w.subscribed(callerOf(alice, "session:1"), "/one")
	w.settle()
	w.change(1, "Email")
	w.push()
	leads.Store(false)
	w.settle()
	w.fix.Time.Advance(time.Minute)
	w.settle()
	for range 3 {
		w.change(1, "Email")
		w.silent("by who does not lead", time.Minute)
	}
	leads.Store(true)
	w.fix.Time.Advance(tick) // nothing changes
	if got := changed(t, string(w.push().body)); got["a1"]["Email"] != "5" {
		t.Errorf("%v", got)
	}
	w.settle()
	w.fix.Time.Advance(time.Minute)
	w.change(1, "Email")
	if got := changed(t, string(w.push().body)); got["a1"]["Email"] != "6" {
		t.Errorf("%v", got)
	}
	leads.Store(false)
	w.settle()
	w.fix.Time.Advance(time.Minute)
	w.change(1, "Email")
	w.silent("left again", time.Minute)
	w.mu.Lock()
	w.gone["session:1"] = true
	w.mu.Unlock()
	w.Recheck()
	w.eventually("a subscription outlives its session", func() bool { return w.count() == 0 })
}
