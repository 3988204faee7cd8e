package push

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/jmap"
	"doublet/wire/websocket"
)

var bg = context.Background()

// source is a Source with accounts whose states are numbers.
type source struct {
	mu       sync.Mutex
	accounts map[note.UNID][]Account
	states   map[note.DatabaseID]map[string]int
	watchers map[note.DatabaseID]map[int]func()
	next     int
	broken   error  // error of States
	pad      string // suffix of each state
	looks    atomic.Int64
	call     func(ctx context.Context, c *Caller, request []byte) ([]byte, *jmap.Problem)
}

func newSource() *source {
	return &source{accounts: map[note.UNID][]Account{}, states: map[note.DatabaseID]map[string]int{},
		watchers: map[note.DatabaseID]map[int]func(){}}
}

func account(db note.DatabaseID) Account { return Account{ID: fmt.Sprintf("a%d", db), Database: db} }

// give gives a person access to these accounts only.
func (s *source) give(person note.UNID, dbs ...note.DatabaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[person] = nil
	for _, db := range dbs {
		s.accounts[person] = append(s.accounts[person], account(db))
		if s.states[db] == nil {
			s.states[db] = map[string]int{"Email": 1, "Mailbox": 1, "Thread": 1}
		}
	}
}

// change changes the state of a type, and calls the watchers as the store does.
func (s *source) change(db note.DatabaseID, types ...string) {
	s.mu.Lock()
	for _, t := range types {
		s.states[db][t]++
	}
	var list []func()
	for _, fn := range s.watchers[db] {
		list = append(list, fn)
	}
	s.mu.Unlock()
	for _, fn := range list {
		fn()
	}
}

func (s *source) state(db note.DatabaseID, kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.states[db][kind])
}

func (s *source) watching() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		n += len(w)
	}
	return n
}

func (s *source) Accounts(_ context.Context, c *Caller) ([]Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.accounts[c.Who.Person]), nil
}

func (s *source) Watch(a Account, fn func()) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	n := s.next
	if s.watchers[a.Database] == nil {
		s.watchers[a.Database] = map[int]func(){}
	}
	s.watchers[a.Database][n] = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[a.Database], n)
	}, nil
}

func (s *source) States(_ context.Context, c *Caller, a Account) (map[string]string, error) {
	s.looks.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	if !slices.Contains(s.accounts[c.Who.Person], a) {
		return nil, nil
	}
	out := map[string]string{}
	for k, v := range s.states[a.Database] {
		out[k] = strconv.Itoa(v) + s.pad
	}
	return out, nil
}

func (s *source) Call(ctx context.Context, c *Caller, request []byte) (Answer, *jmap.Problem) {
	out, problem := s.call(ctx, c, request)
	return Answer{JSON: out, Release: func() {}}, problem
}

func (s *source) Refresh(context.Context, *Caller) error { return nil }

// world is a Service behind an HTTP server.
type world struct {
	*Service
	*source
	t     testing.TB
	fix   *env.Fixture
	http  *httptest.Server
	stats *stat.Tree
	// gone holds the credentials that are no longer valid.
	mu   sync.Mutex
	gone map[string]bool
}

var alice, bob = note.UNID{1}, note.UNID{2}

func open(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{source: newSource(), t: t, fix: env.TestRealTime(t), gone: map[string]bool{}}
	w.stats = stat.New(w.fix.Clock)
	o := Options{Stats: w.stats, Good: w.good}
	for _, fn := range change {
		fn(&o)
	}
	w.Service = New(w.fix.Env, w.source, o)
	w.give(alice, 1)
	mux := http.NewServeMux()
	who := func(r *http.Request) Caller {
		c := Caller{Credential: r.Header.Get("Credential")}
		c.Who.Person = alice
		if r.Header.Get("Person") == "bob" {
			c.Who.Person = bob
		}
		return c
	}
	mux.HandleFunc("/events", func(out http.ResponseWriter, r *http.Request) { w.Events(out, r, who(r)) })
	mux.HandleFunc("/ws", func(out http.ResponseWriter, r *http.Request) { w.WebSocket(out, r, who(r)) })
	w.http = httptest.NewUnstartedServer(mux)
	w.http.Config.ReadTimeout = time.Second // a stream must outlive the timeout of requests
	w.http.Start()
	t.Cleanup(func() {
		w.stop()
		w.http.CloseClientConnections()
		w.http.Close()
	})
	return w
}

func (w *world) stop() {
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	w.ok(w.Service.Close(ctx))
	if n := w.watching(); n != 0 {
		w.t.Errorf("%d watchers are left", n)
	}
}

func (w *world) good(_ context.Context, _ note.UNID, credential string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone[credential] {
		return ErrGone
	}
	return nil
}

func (w *world) revoke(credential string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[credential] = true
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// events is an event stream as its client reads it.
type eventStream struct {
	w    *world
	body io.ReadCloser
	in   *bufio.Reader
}

type event struct{ name, id, data string }

func (w *world) stream(client *http.Client, base, query string, header ...string) *eventStream {
	w.t.Helper()
	r, err := http.NewRequest("GET", base+"/events?"+query, nil)
	w.ok(err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out, err := client.Do(r)
	w.ok(err)
	if out.StatusCode != 200 || out.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(out.Body)
		w.t.Fatalf("%d %v %s", out.StatusCode, out.Header, b)
	}
	w.t.Cleanup(func() { _ = out.Body.Close() })
	return &eventStream{w, out.Body, bufio.NewReader(out.Body)}
}

func (w *world) events(query string, header ...string) *eventStream {
	w.t.Helper()
	return w.stream(w.http.Client(), w.http.URL, query, header...)
}

// next reads one event. It returns an error at the end.
func (s *eventStream) next() (e event, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "":
			return e, nil
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		}
	}
}

// need reads one event, which must come.
func (s *eventStream) need(name string) event {
	s.w.t.Helper()
	e, err := s.next()
	if err != nil || e.name != name {
		s.w.t.Fatalf("%+v, %v", e, err)
	}
	return e
}

// changed returns the states in an event.
func changed(t testing.TB, data string) map[string]map[string]string {
	t.Helper()
	var c struct {
		Type    string                       `json:"@type"`
		Changed map[string]map[string]string `json:"changed"`
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil || c.Type != "StateChange" {
		t.Fatalf("%s: %v", data, err)
	}
	return c.Changed
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.events("types=*&closeafter=no&ping=0")
	w.change(1, "Email")
	e := s.need("state")
	if got := changed(t, e.data); !maps.Equal(got["a1"], map[string]string{"Email": "2"}) || len(got) != 1 ||
		e.id == "" {
		t.Errorf("%+v", e)
	}
	w.change(1, "Email", "Mailbox")
	second := s.need("state")
	if got := changed(t, second.data); !maps.Equal(got["a1"], map[string]string{"Email": "3", "Mailbox": "2"}) ||
		second.id == e.id {
		t.Errorf("%+v", second)
	}
	// Only the requested types are sent, and nothing if none of them has changed.
	some := w.events("types=Mailbox,Thread")
	w.change(1, "Email")
	w.change(1, "Thread")
	if got := changed(t, some.need("state").data); !maps.Equal(got["a1"], map[string]string{"Thread": "2"}) {
		t.Errorf("%v", got)
	}
	// A client that returns with the last id gets the states only if something has changed.
	last := s.need("state")
	for last.id == second.id || changed(t, last.data)["a1"]["Thread"] == "" {
		last = s.need("state")
	}
	back := w.events("types=*&closeafter=state", "Last-Event-ID", last.id)
	w.change(1, "Email")
	back.need("state")
	if _, err := back.next(); err != io.EOF {
		t.Error("closeafter=state:", err)
	}
	late := w.events("types=Email&closeafter=state", "Last-Event-ID", second.id)
	if got := changed(t, late.need("state").data); !maps.Equal(got["a1"], map[string]string{"Email": "5"}) {
		t.Errorf("%v", got)
	}
	for _, q := range []string{"types=a+b", "types=,", "closeafter=x", "ping=-1", "ping=x",
		"types=" + strings.Repeat("x", 101), "types=" + strings.Repeat("x,", 101) + "x"} {
		out, err := w.http.Client().Get(w.http.URL + "/events?" + q)
		w.ok(err)
		_ = out.Body.Close()
		if out.StatusCode != 400 || out.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d", q, out.StatusCode)
		}
	}
	// After the clients have gone, there are no watchers left.
	_ = s.body.Close()
	_ = some.body.Close()
	w.eventually("watchers are left", func() bool { return w.watching() == 0 })
}

func (w *world) eventually(what string, fn func() bool) {
	w.t.Helper()
	for range 500 {
		if fn() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatal(what)
}

// TestPing checks that the interval is the requested one within bounds, and that pings contain it and have no id.
func TestPing(t *testing.T) {
	t.Parallel()
	for asked, got := range map[string]int{"0": 0, "1": minPing, "30": 30, "300": 300, "9999": maxPing, "": 0} {
		e, problem := parseEvents(httptest.NewRequest("GET", "/events?ping="+asked, nil))
		if problem != nil || e.ping != got {
			t.Errorf("%s: %d, %v", asked, e.ping, problem)
		}
	}
	now := time.Now()
	p := pacer{ping: time.Minute, last: now}
	if p.due(now.Add(59*time.Second)) || !p.due(now.Add(time.Minute)) || !p.until(false).Equal(now.Add(time.Minute)) {
		t.Error("the ping")
	}
	p.told(now)
	if !p.until(true).Equal(now.Add(gap)) || (&pacer{}).until(false) != (time.Time{}) ||
		(&pacer{}).until(true).IsZero() {
		t.Error("the pace")
	}
	if got := string(appendPing(nil, 30)); got != "event: ping\ndata: {\"interval\":30}\n\n" {
		t.Error(got)
	}
}

// TestHTTP2 checks many streams on one connection, which outlive the timeout of requests.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	w := open(t)
	two := httptest.NewUnstartedServer(w.http.Config.Handler)
	two.EnableHTTP2 = true
	two.Config.ReadTimeout = 300 * time.Millisecond
	two.StartTLS()
	defer two.Close()
	defer two.CloseClientConnections()
	var list []*eventStream
	for range 5 {
		list = append(list, w.stream(two.Client(), two.URL, "types=*"))
	}
	time.Sleep(500 * time.Millisecond)
	w.change(1, "Email")
	for _, s := range list {
		if got := changed(t, s.need("state").data); got["a1"]["Email"] != "2" {
			t.Errorf("%v", got)
		}
		_ = s.body.Close()
	}
	w.eventually("watchers are left", func() bool { return w.watching() == 0 })
}

// TestSlowReader checks that a client that does not read delays nobody, and gets the latest state when it reads again.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	w := open(t)
	slow, quick := w.events("types=*"), w.events("types=*")
	began := time.Now()
	n := 0
	for time.Since(began) < 2*time.Second {
		w.change(1, "Email")
		n++
	}
	took := time.Since(began)
	want := w.state(1, "Email")
	read := func(s *eventStream) (events int) {
		for {
			events++
			if changed(t, s.need("state").data)["a1"]["Email"] == want {
				return events
			}
		}
	}
	fast := read(quick)
	if fast > int(took/gap)+10 {
		t.Errorf("%d events for %d changes", fast, n)
	}
	if got := read(slow); got > int(took/gap)+10 {
		t.Errorf("%d events for %d changes", got, n)
	}
	// Changes are as fast as without the slow client.
	if n < 1000 {
		t.Errorf("only %d changes in %v", n, took)
	}
	w.change(1, "Mailbox")
	if got := changed(t, slow.need("state").data); !maps.Equal(got["a1"], map[string]string{"Mailbox": "2"}) {
		t.Errorf("%v", got)
	}
}

// TestStandingReader checks that the connection of a client that does not read blocks in one write. The client later
// reads the events in the kernel's buffers and then the latest state.
func TestStandingReader(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.pad = strings.Repeat("x", 40_000)
	s := w.events("types=Email")
	looks := w.looks.Load()
	for range 40 {
		w.change(1, "Email")
		time.Sleep(gap)
	}
	if n := w.looks.Load() - looks; n > 25 {
		t.Errorf("%d looks for one who does not read", n)
	}
	want := w.state(1, "Email")
	n := 1
	for ; changed(t, s.need("state").data)["a1"]["Email"] != want+w.pad; n++ {
	}
	t.Logf("%d events for 40 changes", n)
	if n > 30 {
		t.Errorf("%d events", n)
	}
}

// TestLatency checks that a change is pushed within 100 ms among many connections.
func TestLatency(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *Options) { o.PerPerson = 1000 })
	var list []*eventStream
	for range 200 {
		list = append(list, w.events("types=*"))
	}
	var worst time.Duration
	for range 5 {
		time.Sleep(2 * gap)
		began := time.Now()
		w.change(1, "Email")
		for _, s := range list {
			s.need("state")
		}
		worst = max(worst, time.Since(began))
	}
	t.Logf("200 clients told in %v at most", worst)
	if worst > 2*time.Second { // 100 ms on an idle machine
		t.Errorf("%v", worst)
	}
}

// TestAccounts checks that pushes follow access: a client gets them for an account that it gains and not for one that
// it loses. After its user was disabled it gets none.
func TestAccounts(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.give(bob, 2)
	s := w.events("types=*", "Person", "bob", "Credential", "x")
	other := w.events("types=*", "Person", "bob", "Credential", "y")
	w.give(bob, 2, 1)
	w.Recheck()
	if got := changed(t, s.need("state").data); got["a1"]["Email"] != "1" || got["a2"] != nil {
		t.Errorf("%v", got)
	}
	w.change(1, "Email")
	if got := changed(t, s.need("state").data); got["a1"]["Email"] != "2" {
		t.Errorf("%v", got)
	}
	// Even before the next recheck, an account without access has no states.
	w.give(bob, 2)
	w.change(1, "Email")
	w.change(2, "Email")
	if got := changed(t, s.need("state").data); got["a1"] != nil || got["a2"]["Email"] != "2" {
		t.Errorf("%v", got)
	}
	w.revoke("x")
	w.End("x")
	if e, err := s.next(); err == nil {
		t.Errorf("told %+v after the end", e)
	}
	w.change(2, "Mailbox")
	for changed(t, other.need("state").data)["a2"]["Mailbox"] == "" {
	}
	w.revoke("y")
	w.Service.again.Store(false)
	w.Service.rechecking.Store(false) // as if the last recheck were long ago
	w.Recheck()
	if _, err := other.next(); err == nil {
		t.Error("told after a look at the credentials")
	}
	// A client without access from the beginning.
	r, err := http.NewRequest("GET", w.http.URL+"/events", nil)
	w.ok(err)
	r.Header.Set("Credential", "x")
	out, err := w.http.Client().Do(r)
	w.ok(err)
	_ = out.Body.Close()
	if out.StatusCode != 403 {
		t.Error(out.StatusCode)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.events("types=*")
	w.source.mu.Lock()
	w.broken = errors.New("the disk is away")
	w.source.mu.Unlock()
	w.change(1, "Email")
	time.Sleep(200 * time.Millisecond)
	looks := w.looks.Load()
	w.source.mu.Lock()
	w.broken = nil
	w.source.mu.Unlock()
	// It is retried automatically, but not continuously.
	if got := changed(t, s.need("state").data); got["a1"]["Email"] != "2" {
		t.Errorf("%v", got)
	}
	if n := w.looks.Load() - looks; n > 3 {
		t.Errorf("%d looks", n)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *Options) { o.PerPerson = 2 })
	one := w.events("types=*")
	w.events("types=*")
	get := func(person string) int {
		r, err := http.NewRequest("GET", w.http.URL+"/events?closeafter=state", nil)
		w.ok(err)
		r.Header.Set("Person", person)
		out, err := w.http.Client().Do(r)
		w.ok(err)
		_ = out.Body.Close()
		return out.StatusCode
	}
	if a, b := get("alice"), get("bob"); a != 429 || b != 200 {
		t.Error(a, b)
	}
	_ = one.body.Close()
	w.eventually("the place is not free", func() bool { return get("alice") == 200 })
}

func TestClose(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.events("types=*")
	w.stop()
	if _, err := s.next(); err != io.EOF {
		t.Error(err)
	}
	out, err := w.http.Client().Get(w.http.URL + "/events")
	w.ok(err)
	_ = out.Body.Close()
	if out.StatusCode != 503 {
		t.Error(out.StatusCode)
	}
}

// TestNothingIsMissed makes random changes while clients come and go. Each client must have the last states in the end,
// and must never get a state older than one that it knows.
func TestNothingIsMissed(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.give(alice, 1, 2, 3)
	types := []string{"Email", "Mailbox", "Thread"}
	dbs := []note.DatabaseID{1, 2, 3}
	var clients, writers sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				w.change(dbs[(n+i)%3], types[n%3])
				time.Sleep(time.Duration(n%7) * time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	for range 6 {
		s := w.events("types=*")
		clients.Go(func() {
			known := map[string]int{}
			for {
				e, err := s.next()
				if err != nil {
					t.Error(err)
					return
				}
				finished := false
				for a, m := range changed(t, e.data) {
					for k, v := range m {
						n, _ := strconv.Atoi(v)
						if n <= known[a+k] {
							t.Errorf("%s %s is %d after %d", a, k, n, known[a+k])
						}
						known[a+k] = n
					}
				}
				select {
				case <-done:
					finished = true
				default:
				}
				if finished {
					same := true
					for _, db := range dbs {
						for _, k := range types {
							want, _ := strconv.Atoi(w.state(db, k))
							same = same && known[account(db).ID+k] == want
						}
					}
					if same {
						return
					}
				}
			}
		})
	}
	time.Sleep(time.Second)
	close(stop)
	writers.Wait()
	close(done)
	for _, db := range dbs { // a last change of everything
		w.change(db, types...)
	}
	clients.Wait()
}

// accountOf returns an account of a person without a sign-in.
func accountOf(_ context.Context, person note.UNID) (signin.Account, error) {
	a := signin.Account{Name: "somebody"}
	a.Who.Person = person
	return a, nil
}

// TestDrop checks that the connections of one person, or of everybody, are closed and counted, also while their callers
// are read again, and that the person may connect again at once.
func TestDrop(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.give(alice, 1)
	w.give(bob, 2)
	s, c := w.events("types=*", "Person", "alice"), w.socket("Person", "alice")
	other := w.events("types=*", "Person", "bob")
	w.Recheck()
	if n := w.Drop(alice); n != 2 {
		t.Errorf("%d connections are closed", n)
	}
	if e, err := s.next(); err == nil {
		t.Errorf("told %+v after the end", e)
	}
	if code := c.ends(); code != websocket.GoingAway {
		t.Errorf("the WebSocket ends with %d", code)
	}
	w.change(2, "Email")
	if got := changed(t, other.need("state").data); got["a2"]["Email"] != "2" {
		t.Errorf("somebody else is told %v", got)
	}
	s = w.events("types=*", "Person", "alice")
	if n := w.Drop(note.UNID{}); n != 2 {
		t.Errorf("%d connections are closed", n)
	}
	for _, s := range []*eventStream{s, other} {
		if e, err := s.next(); err == nil {
			t.Errorf("told %+v after the end", e)
		}
	}
	if n := w.Drop(note.UNID{}); n != 0 {
		t.Errorf("%d connections are closed twice", n)
	}
}
