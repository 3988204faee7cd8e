package password

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
)

// fakeClock is a clock that advances only when a test tells it to.
type fakeClock struct {
	env.Clock
	now atomic.Int64
}

func (c *fakeClock) Now() time.Time          { return time.Unix(0, c.now.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.now.Add(int64(d)) }

func pool(workers, queue int) (*Pool, *fakeClock) {
	e := env.Real(slog.New(slog.DiscardHandler))
	c := &fakeClock{Clock: e.Clock}
	e.Clock = c
	return New(e, workers, queue), c
}

// cheap returns a hash with small parameters.
func cheap(password string) string {
	h := hash{params: params{memory: 64, time: 1, threads: 1}, salt: []byte("0123456789abcdef")}
	h.key = h.params.key(password, h.salt, keyLen)
	return h.String()
}

var ctx = context.Background()

func TestHashAndVerify(t *testing.T) {
	t.Parallel()
	p, _ := pool(1, 1)
	phc, err := p.Hash(ctx, "geheim")
	if err != nil || !strings.HasPrefix(phc, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("%q, %v", phc, err)
	}
	if again, _ := p.Hash(ctx, "geheim"); again == phc {
		t.Error("two hashes have one salt")
	}
	for pw, want := range map[string]bool{"geheim": true, "Geheim": false, "": false,
		strings.Repeat("x", MaxLength+1): false} {
		if ok, err := p.Verify(ctx, phc, pw); ok != want || err != nil {
			t.Errorf("%.10q: %v, %v", pw, ok, err)
		}
	}
	if Outdated(phc) || !Outdated(cheap("x")) || !Outdated("junk") {
		t.Error("which hashes are outdated")
	}
	if _, err := p.Hash(ctx, strings.Repeat("x", MaxLength+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("hash of a huge password: %v", err)
	}
	before := p.Stats().Hashes
	if err := p.VerifyNobody(ctx, "x"); err != nil || p.Stats().Hashes != before+1 {
		t.Errorf("nobody: %v", err)
	}
}

// TestKnownHash verifies a hash from the tests of the reference implementation: 256 KiB, two passes.
func TestKnownHash(t *testing.T) {
	t.Parallel()
	const phc = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	p, _ := pool(1, 1)
	if ok, err := p.Verify(ctx, phc, "password"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestBadHashes(t *testing.T) {
	t.Parallel()
	p, _ := pool(1, 1)
	good := cheap("x")
	for _, phc := range []string{
		"", "x", "$", "$$$$$", good + "$", good[1:], strings.Repeat("$", 10000),
		strings.Replace(good, "argon2id", "argon2d", 1),
		strings.Replace(good, "v=19", "v=16", 1),
		strings.Replace(good, "m=64", "m=99999999", 1),
		strings.Replace(good, "m=64", "m=0", 1),
		strings.Replace(good, "m=64", "m=4", 1),
		strings.Replace(good, "m=64", "m=-1", 1),
		strings.Replace(good, "t=1", "t=1000", 1),
		strings.Replace(good, "p=1", "p=200", 1),
		strings.Replace(good, "t=1", "p=1", 1),
		good[:len(good)-40],
		good + "=",
	} {
		if ok, err := p.Verify(ctx, phc, "x"); ok || !errors.Is(err, ErrFormat) {
			t.Errorf("%.60q: %v, %v", phc, ok, err)
		}
	}
}

func TestPoolBounds(t *testing.T) {
	t.Parallel()
	const workers, queue = 3, 5
	p, _ := pool(workers, queue)
	var running, most atomic.Int64
	gate := make(chan struct{})
	p.compute = func(f func()) {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-gate
		f()
		running.Add(-1)
	}
	var wg sync.WaitGroup
	verify := func() {
		defer wg.Done()
		if ok, err := p.Verify(ctx, cheap("x"), "wrong"); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
	wg.Add(workers + queue)
	for range workers + queue {
		go verify()
	}
	for s := p.Stats(); s.Running < workers || s.Waiting < queue; s = p.Stats() {
		runtime.Gosched()
	}
	if _, err := p.Hash(ctx, "one more"); !errors.Is(err, ErrBusy) {
		t.Errorf("over the bound: %v", err)
	}
	close(gate)
	wg.Wait()
	if s := p.Stats(); most.Load() != workers || s.Refused != 1 || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("at most %d ran, stats %+v", most.Load(), s)
	}
}

func TestCancelWhileQueued(t *testing.T) {
	t.Parallel()
	p, _ := pool(1, 1)
	gate, entered := make(chan struct{}), make(chan struct{})
	p.compute = func(f func()) { close(entered); <-gate; f() }
	done := make(chan error)
	go func() { _, err := p.Verify(ctx, cheap("x"), "x"); done <- err }()
	<-entered
	cctx, cancel := context.WithCancel(ctx)
	go func() { _, err := p.Verify(cctx, cheap("y"), "y"); done <- err }()
	for p.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if p.Stats().Waiting != 0 {
		t.Error("the cancelled one still waits")
	}
	close(gate)
	if err := <-done; err != nil {
		t.Errorf("the other: %v", err)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	p, clock := pool(1, 1)
	p.SetCache(2, time.Minute)
	a, b, c := cheap("a"), cheap("b"), cheap("c")
	verify := func(phc, pw string, want bool, cost uint64) {
		t.Helper()
		before := p.Stats().Hashes
		ok, err := p.Verify(ctx, phc, pw)
		if ok != want || err != nil || p.Stats().Hashes-before != cost {
			t.Errorf("%q: %v, %v, %d hashes", pw, ok, err, p.Stats().Hashes-before)
		}
	}
	verify(a, "a", true, 1)
	verify(a, "a", true, 0)
	verify(a, "x", false, 1)
	verify(a, "x", false, 1) // failures are not cached
	clock.advance(59 * time.Second)
	verify(a, "a", true, 0)
	clock.advance(time.Second) // use does not extend the lifetime
	verify(a, "a", true, 1)
	verify(b, "b", true, 1)
	verify(a, "a", true, 0)
	verify(c, "c", true, 1) // drops b
	verify(a, "a", true, 0)
	verify(b, "b", true, 1)
	if n := p.Stats().Cached; n != 2 {
		t.Errorf("%d entries", n)
	}
	p.SetCache(0, time.Minute)
	verify(a, "a", true, 1)
	verify(a, "a", true, 1)
}

// TestSameClientAtOnce checks that several concurrent sign-ins of one client compute one hash.
func TestSameClientAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := pool(1, 10)
	gate := make(chan struct{})
	p.compute = func(f func()) { <-gate; f() }
	var wg sync.WaitGroup
	wg.Add(5)
	for range 5 {
		go func() {
			defer wg.Done()
			if ok, err := p.Verify(ctx, cheap("a"), "a"); !ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
		}()
	}
	for p.Stats().Waiting < 4 {
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	if n := p.Stats().Hashes; n != 1 {
		t.Errorf("%d hashes", n)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	e := env.Real(slog.New(slog.DiscardHandler))
	key := []byte("server key")
	tok := NewToken(e)
	if len(tok) != 39 || !IsToken(tok) || tok == NewToken(e) {
		t.Fatalf("token %q", tok)
	}
	sum, ok := TokenHash(key, tok)
	if !ok {
		t.Fatal("not a token")
	}
	for _, typed := range []string{tok, strings.ToUpper(tok), strings.ReplaceAll(tok, "-", ""),
		strings.ReplaceAll(tok, "-", " ")} {
		if !VerifyToken(key, sum[:], typed) {
			t.Errorf("%q is refused", typed)
		}
	}
	flipped := []byte(tok)
	flipped[0] = 'a' + (flipped[0]-'a'+1)%16
	for _, other := range []string{NewToken(e), string(flipped), tok + "a", tok[1:], "", "1" + tok[1:],
		strings.Repeat("-", 1000)} {
		if VerifyToken(key, sum[:], other) {
			t.Errorf("%q is accepted", other)
		}
	}
	if VerifyToken([]byte("other key"), sum[:], tok) || VerifyToken(key, sum[:16], tok) || VerifyToken(key, nil, tok) {
		t.Error("accepted under another key or a cut hash")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(cheap("x"))
	f.Add("$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parse(s)
		if err != nil {
			return
		}
		again, err := parse(h.String())
		if err != nil || again.String() != h.String() {
			t.Fatalf("%q becomes %q", s, h)
		}
	})
}

func FuzzToken(f *testing.F) {
	f.Add("abcd-efgh-ijkl-mnop-qrst-uvwx-yz23-4567")
	f.Fuzz(func(t *testing.T, s string) {
		sum, ok := TokenHash([]byte("k"), s)
		if ok != IsToken(s) || (ok && !VerifyToken([]byte("k"), sum[:], s)) {
			t.Fatalf("%q", s)
		}
	})
}
