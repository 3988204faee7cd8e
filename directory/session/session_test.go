package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/dump"
)

var bg = context.Background()

type world struct {
	*Service
	t     testing.TB
	fix   *env.Fixture
	store *store.Store
	opt   Options
}

func open(t testing.TB, o Options) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), opt: o}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.store, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: Indexes()})
	w.ok(err)
	w.Service, err = Open(w.store, w.fix.Env, []byte("the key of the domain"), w.opt)
	w.ok(err)
}

func (w *world) stop() {
	w.Close()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
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

func (w *world) begin(person note.UNID) (string, Session) {
	w.t.Helper()
	token, s, err := w.Begin(bg, Session{Person: person, PasswordID: "p", Second: true, Keep: true,
		Address: "192.0.2.1", Agent: "browser"})
	w.ok(err)
	return token, s
}

var alice, bob = note.UNID{1}, note.UNID{2}

func TestSession(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	_, err := w.Find(bg, "nothing", "")
	w.want(err, ErrNone)
	token, s := w.begin(alice)
	got, err := w.Find(bg, token, "")
	w.ok(err)
	if got != s || got.Person != alice || got.PasswordID != "p" || !got.Second || !got.Keep ||
		got.Address != "192.0.2.1" || got.Agent != "browser" || got.Ends.Sub(got.Created) != 14*24*time.Hour {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", token[1:], token + "x", strings.ToUpper(token), strings.Repeat("x", 1000),
		s.ID.String()} {
		if _, err := w.Find(bg, bad, ""); !errors.Is(err, ErrNone) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	// The stored data must not contain a token.
	var out strings.Builder
	w.ok(dump.Database(&out, w.store, ID, dump.Options{Rows: true}))
	if strings.Contains(out.String(), token) || !strings.Contains(out.String(), "TokenHash") {
		t.Error("the dump holds the token, or no hash")
	}
	out.Reset()
	w.ok(dump.Database(&out, w.store, ID, dump.Options{Secret: SecretItem}))
	if strings.Contains(out.String(), fmt.Sprintf("%x", w.mac("hash", token))) {
		t.Error("the dump shows the hash")
	}
	// The person proved themselves at the beginning, or when the issuer says.
	at := w.fix.Clock.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	for want, begins := range map[time.Time]Session{
		s.Created: {Person: bob}, at: {Person: bob, Issuer: "https://issuer", AuthTime: at},
		{}: {Person: bob, Issuer: "https://issuer"},
	} {
		_, begun, err := w.Begin(bg, begins)
		w.ok(err)
		if got, err := w.Get(bg, begun.ID); err != nil || got != begun || got.Proved() != want {
			t.Errorf("%+v, began with %+v: %v", got, begins, err)
		}
	}
	// The CSRF secret belongs to one session.
	other, _ := w.begin(bob)
	if !w.CheckCSRF(token, w.CSRF(token)) || w.CheckCSRF(token, w.CSRF(other)) || w.CheckCSRF(token, "") {
		t.Error("the token for pages")
	}
	w.want(w.End(bg, bob, s.ID), ErrNone) // not his
	w.ok(w.End(bg, alice, s.ID))
	_, err = w.Find(bg, token, "")
	w.want(err, ErrNone)
	_, err = w.Get(bg, s.ID)
	w.want(err, ErrNone)
	w.want(w.End(bg, alice, s.ID), ErrNone)
	_, err = w.Find(bg, other, "")
	w.ok(err)
}

// TestRestart checks that sessions survive a restart and a power cut. A session that was ended stays ended.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	token, s := w.begin(alice)
	gone, ended := w.begin(alice)
	w.ok(w.End(bg, alice, ended.ID))
	sub, err := w.Subscribe(bg, Subscription{Person: alice, Credential: "session:x", URL: "https://push.example/1",
		Ends: w.fix.Clock.Now().Add(time.Hour), AllTypes: true})
	w.ok(err)
	after := w.fix.Crash(0, 7)
	w.stop()
	w.fix = after
	w.start()
	got, err := w.Find(bg, token, "")
	w.ok(err)
	if got != s {
		t.Errorf("%+v, was %+v", got, s)
	}
	_, err = w.Find(bg, gone, "")
	w.want(err, ErrNone)
	list, err := w.Subscriptions(bg, alice)
	w.ok(err)
	if len(list) != 1 || list[0].ID != sub.ID || !list[0].AllTypes || list[0].URL != sub.URL {
		t.Errorf("%+v", list)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	w := open(t, Options{Idle: 16 * time.Hour, Life: 48 * time.Hour})
	token, s := w.begin(alice)
	idle, _ := w.begin(alice)
	for range 5 { // 0, 10, … 40 hours
		got, err := w.Find(bg, token, "")
		w.ok(err)
		if got.Ends.After(s.Created.Add(48 * time.Hour)) {
			t.Fatal("longer than its life:", got.Ends)
		}
		w.fix.Time.Advance(10 * time.Hour)
	}
	_, err := w.Find(bg, token, "") // 50 hours
	w.want(err, ErrNone)
	_, err = w.Find(bg, idle, "")
	w.want(err, ErrNone)
	n, err := w.Sweep(bg)
	w.ok(err)
	if n != 2 {
		t.Errorf("%d swept", n)
	}
	// A session that is idle for less than Idle minus a sixteenth does not expire.
	token, _ = w.begin(alice)
	w.fix.Time.Advance(15*time.Hour - time.Second)
	_, err = w.Find(bg, token, "")
	w.ok(err)
	w.fix.Time.Advance(16 * time.Hour)
	_, err = w.Find(bg, token, "")
	w.want(err, ErrNone)
	// A stricter setting also applies to existing sessions.
	token, _ = w.begin(alice)
	w.fix.Time.Advance(2 * time.Hour)
	w.Service.opt.Idle = time.Hour
	_, err = w.Find(bg, token, "")
	w.want(err, ErrNone)
}

// TestLife checks that a session expires after its maximum life, even if it was just used.
func TestLife(t *testing.T) {
	t.Parallel()
	w := open(t, Options{Idle: 16 * time.Hour, Life: 90 * time.Minute})
	token, s := w.begin(alice)
	w.fix.Time.Advance(time.Hour)
	_, err := w.Find(bg, token, "")
	w.ok(err)
	w.fix.Time.Advance(30*time.Minute - time.Second)
	_, err = w.Find(bg, token, "")
	w.ok(err)
	w.fix.Time.Advance(time.Second)
	_, err = w.Find(bg, token, "")
	w.want(err, ErrNone)
	_, err = w.Get(bg, s.ID)
	w.want(err, ErrNone)
}

// TestUseIsWrittenRarely checks that a session in use does not write at every request.
func TestUseIsWrittenRarely(t *testing.T) {
	t.Parallel()
	w := open(t, Options{Idle: 16 * time.Hour})
	hour := w.fix.Clock.Now().Truncate(time.Hour).Add(time.Hour)
	w.fix.Time.Advance(hour.Sub(w.fix.Clock.Now()))
	token, _ := w.begin(alice)
	before := w.Version()
	for range 59 {
		w.fix.Time.Advance(time.Minute)
		_, err := w.Find(bg, token, "")
		w.ok(err)
	}
	if w.Version() != before {
		t.Error("written within the hour")
	}
	w.fix.Time.Advance(time.Minute)
	got, err := w.Find(bg, token, "")
	w.ok(err)
	if w.Version() == before || !got.Used.Equal(w.fix.Clock.Now()) {
		t.Error("not written after it")
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	w := open(t, Options{PerPerson: 3, Subscriptions: 2})
	var tokens []string
	for range 5 {
		token, _ := w.begin(alice)
		tokens = append(tokens, token)
		w.fix.Time.Advance(time.Minute)
	}
	for i, token := range tokens {
		if _, err := w.Find(bg, token, ""); (err == nil) != (i >= 2) {
			t.Errorf("%d: %v", i, err)
		}
	}
	list, err := w.List(bg, alice, 100)
	w.ok(err)
	if len(list) != 3 || list[0].Used.Before(list[2].Used) {
		t.Errorf("%+v", list)
	}
	_, _ = w.begin(bob)
	if all, err := w.List(bg, note.UNID{}, 100); err != nil || len(all) != 4 {
		t.Error(len(all), err)
	}
	if few, err := w.List(bg, note.UNID{}, 2); err != nil || len(few) != 2 {
		t.Error(len(few), err)
	}
	n, err := w.EndAll(bg, alice, list[1].ID)
	w.ok(err)
	if left, err := w.List(bg, alice, 100); n != 2 || err != nil || len(left) != 1 || left[0].ID != list[1].ID {
		t.Error(n, left, err)
	}
	for i := range 3 {
		_, err := w.Subscribe(bg, Subscription{Person: alice, URL: "https://x.example/",
			Ends: w.fix.Clock.Now().Add(time.Hour)})
		if (err == nil) != (i < 2) || i == 2 && !errors.Is(err, ErrTooMany) {
			t.Error(i, err)
		}
	}
	// The cache has a limit too.
	for i := range maxKept + 10 {
		w.keep(note.UNID{byte(i), byte(i >> 8), byte(i >> 16), 1}, kept{Session: Session{Person: alice}})
	}
	if len(w.kept) != maxKept {
		t.Errorf("%d kept", len(w.kept))
	}
	before := len(w.kept)
	_, _ = w.Find(bg, "no such token", "")
	if len(w.kept) != before {
		t.Error("a token that is none drives out others")
	}
}

// TestCodes checks that of many concurrent uses of one step, only one is fresh. After a restart none is.
func TestCodes(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	step := w.fix.Clock.Now().Unix() / 30
	var mu sync.Mutex
	var wg sync.WaitGroup
	fresh := 0
	for range 8 {
		wg.Go(func() {
			ok, err := w.UseCode(bg, alice, step)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if ok {
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 1 {
		t.Errorf("fresh %d times", fresh)
	}
	w.stop()
	w.start()
	again := func(want bool, person note.UNID, step int64) {
		t.Helper()
		if ok, err := w.UseCode(bg, person, step); err != nil || ok != want {
			t.Error(ok, err)
		}
	}
	again(false, alice, step)
	again(true, alice, step-1)
	again(true, bob, step)
	// A step is stored for longer than its code is accepted, but not forever. After it was deleted, it is still not
	// fresh.
	w.fix.Time.Advance(5 * time.Minute)
	if n, err := w.Sweep(bg); n != 0 || err != nil {
		t.Error(n, err)
	}
	w.fix.Time.Advance(time.Hour)
	if n, err := w.Sweep(bg); n != 3 || err != nil {
		t.Error(n, err)
	}
	again(false, alice, step)
}

func TestSubscription(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.want(w.Unsubscribe(bg, note.UNID{9}), ErrNone)
	s, err := w.Subscribe(bg, Subscription{
		Person: alice, Credential: "app:1", Device: "d", URL: "https://push.example/1", P256dh: "p", Auth: "a",
		Code: "c", Types: []string{"Email"}, Ends: w.fix.Clock.Now().Add(time.Hour).UTC(),
	})
	w.ok(err)
	fired := 0
	w.OnChange(func() { fired++ })
	w.ok(w.Resubscribe(bg, s.ID, func(s *Subscription) error { s.Verified, s.Types = true, nil; return nil }))
	list, err := w.Subscriptions(bg, note.UNID{})
	w.ok(err)
	if len(list) != 1 || !list[0].Verified || list[0].AllTypes || len(list[0].Types) != 0 ||
		list[0].Credential != "app:1" || list[0].P256dh != "p" || list[0].Auth != "a" || list[0].Code != "c" ||
		list[0].Device != "d" {
		t.Errorf("%+v", list)
	}
	stop := errors.New("stop")
	w.want(w.Resubscribe(bg, s.ID, func(*Subscription) error { return stop }), stop)
	if fired == 0 {
		t.Error("nobody was told")
	}
	w.fix.Time.Advance(2 * time.Hour)
	if list, err = w.Subscriptions(bg, alice); len(list) != 0 || err != nil {
		t.Error(list, err)
	}
	if n, err := w.Sweep(bg); n != 1 || err != nil {
		t.Error(n, err)
	}
	w.want(w.Resubscribe(bg, s.ID, func(*Subscription) error { return nil }), ErrNone)
	_, session := w.begin(alice)
	w.want(w.Unsubscribe(bg, session.ID), ErrNone) // no subscription
}

// TestModel compares random operations with a map.
func TestModel(t *testing.T) {
	t.Parallel()
	const idle, life = 16 * time.Hour, 100 * time.Hour
	w := open(t, Options{Idle: idle, Life: life, PerPerson: 1000})
	type entry struct {
		person        note.UNID
		id            note.UNID
		created, used time.Time
		ended         bool
	}
	model := map[string]*entry{}
	var tokens []string
	r := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		now := w.fix.Clock.Now()
		alive := func(e *entry) bool {
			return !e.ended && now.Before(e.used.Add(idle)) && now.Before(e.created.Add(life))
		}
		switch op := r.IntN(20); {
		case op < 5 || len(tokens) == 0:
			p := note.UNID{byte(1 + r.IntN(3))}
			token, s := w.begin(p)
			model[token] = &entry{person: p, id: s.ID, created: now, used: now}
			tokens = append(tokens, token)
		case op < 14:
			token := tokens[r.IntN(len(tokens))]
			e := model[token]
			got, err := w.Find(bg, token, "")
			if (err == nil) != alive(e) {
				t.Fatalf("found: %v, alive: %v", err, alive(e))
			}
			if err == nil {
				if step := now.Truncate(idle / touches); step.After(e.used) {
					e.used = step
				}
				if got.Person != e.person || !got.Used.Equal(e.used) {
					t.Fatalf("%+v, model %+v", got, e)
				}
			}
		case op < 16:
			e := model[tokens[r.IntN(len(tokens))]]
			err := w.End(bg, e.person, e.id)
			if e.ended != errors.Is(err, ErrNone) && alive(e) {
				t.Fatal(err, e.ended)
			}
			e.ended = true
		case op < 17:
			p := note.UNID{byte(1 + r.IntN(3))}
			keep := model[tokens[r.IntN(len(tokens))]].id
			_, err := w.EndAll(bg, p, keep)
			w.ok(err)
			for _, e := range model {
				e.ended = e.ended || e.person == p && e.id != keep
			}
		case op < 18:
			_, err := w.Sweep(bg)
			w.ok(err)
		case op < 19 && r.IntN(4) == 0:
			w.stop()
			w.start()
		default:
			w.fix.Time.Advance(time.Duration(r.IntN(int(4 * time.Hour))).Truncate(time.Second))
		}
		now = w.fix.Clock.Now()
		want := 0
		for _, e := range model {
			if alive(e) {
				want++
			}
		}
		if list, err := w.List(bg, note.UNID{}, 10_000); err != nil || len(list) != want {
			t.Fatalf("%d listed, %d in the model, %v", len(list), want, err)
		}
	}
}
