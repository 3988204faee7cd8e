// Package password hashes and verifies passwords with argon2id, in bounded memory, and makes and
// verifies app passwords. Nothing here logs or keeps a password.
package password

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"doublet/env"
)

var (
	// ErrBusy says that as many callers wait as may: try again later.
	ErrBusy = errors.New("password: too many sign-ins at once")
	// ErrFormat says that a stored hash cannot be read or has parameters out of bounds.
	ErrFormat = errors.New("password: bad hash")
	// ErrTooLong says that a new password is over MaxLength.
	ErrTooLong = errors.New("password: too long")
)

// MaxLength bounds a password, in bytes. A longer one never verifies.
const MaxLength = 1024

// Pool bounds how many hashes are computed at once, each taking 19 MiB for some 30 ms, and how many
// callers wait for their turn, in the order in which they came. The caller's own goroutine does
// the work.
type Pool struct {
	env     *env.Env
	slots   chan struct{}
	queue   int64
	waiting atomic.Int64
	cache   cache
	// compute runs one hash; tests put themselves in its place.
	compute func(f func())

	hashes, hits, busy atomic.Uint64
}

// Defaults of the verification cache.
const (
	DefaultCacheSize = 20_000
	DefaultCacheTTL  = 10 * time.Minute
)

// New returns a pool in which at most workers hashes are computed at once (memory: 19 MiB each)
// while at most queue callers wait.
func New(e *env.Env, workers, queue int) *Pool {
	p := &Pool{env: e, slots: make(chan struct{}, max(workers, 1)), queue: int64(max(queue, 0)), compute: func(f func()) { f() }}
	e.Fill(p.cache.key[:])
	p.cache.reset(DefaultCacheSize, DefaultCacheTTL)
	return p
}

// SetCache bounds the verification cache by entries and by the time after which a password is
// hashed again; size 0 turns it off. What was in it is forgotten.
func (p *Pool) SetCache(size int, ttl time.Duration) { p.cache.reset(size, ttl) }

// Hash returns the hash of a new password as a PHC string ($argon2id$…), with a fresh salt.
func (p *Pool) Hash(ctx context.Context, password string) (string, error) {
	if len(password) > MaxLength {
		return "", ErrTooLong
	}
	if err := p.enter(ctx); err != nil {
		return "", err
	}
	defer p.leave()
	h := hash{params: current, salt: make([]byte, saltLen)}
	p.env.Fill(h.salt)
	p.run(func() { h.key = h.params.key(password, h.salt, keyLen) })
	return h.String(), nil
}

// Verify says whether the password is the one of the hash phc, ours or another program's (see Check). A success is remembered for a while
// under a keyed digest of both, so that a client that signs in again and again costs nothing; a
// failure never is. Errors: ErrBusy, ErrFormat, the context's.
func (p *Pool) Verify(ctx context.Context, phc, password string) (bool, error) {
	h, err := read(phc)
	if err != nil {
		return false, err
	}
	tooLong := len(password) > MaxLength
	if tooLong {
		password = password[:MaxLength] // costs the same, and matches nothing
	}
	key := p.cache.digest(phc, password)
	if !tooLong && p.cached(key) {
		return true, nil
	}
	if err := p.enter(ctx); err != nil {
		return false, err
	}
	defer p.leave()
	// A client that opened several connections at once waited for its own first one.
	if !tooLong && p.cached(key) {
		return true, nil
	}
	ok := false
	p.run(func() { ok = h.matches(password) && !tooLong })
	if ok {
		p.cache.add(key, p.env.Clock.Now())
	}
	return ok, nil
}

// VerifyNobody costs what Verify of a wrong password costs: for users who do not exist.
func (p *Pool) VerifyNobody(ctx context.Context, password string) error {
	_, err := p.Hash(ctx, password[:min(len(password), MaxLength)])
	return err
}

func (p *Pool) cached(key [32]byte) bool {
	if !p.cache.has(key, p.env.Clock.Now()) {
		return false
	}
	p.hits.Add(1)
	return true
}

func (p *Pool) run(f func()) {
	p.hashes.Add(1)
	p.compute(f)
}

// enter waits for a slot. Slots are handed on in the order of the channel's queue.
func (p *Pool) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("password: %w", err)
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	if p.waiting.Add(1) > p.queue {
		p.waiting.Add(-1)
		p.busy.Add(1)
		return ErrBusy
	}
	defer p.waiting.Add(-1)
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("password: %w", ctx.Err())
	}
}

func (p *Pool) leave() { <-p.slots }

// Stats is a snapshot of a pool.
type Stats struct {
	Hashes    uint64 // computed
	CacheHits uint64 // verifications that cost nothing
	Refused   uint64 // with ErrBusy
	Running   int
	Waiting   int
	Cached    int
}

// Stats returns the counters since the pool was made, and what goes on now.
func (p *Pool) Stats() Stats {
	return Stats{Hashes: p.hashes.Load(), CacheHits: p.hits.Load(), Refused: p.busy.Load(),
		Running: len(p.slots), Waiting: int(p.waiting.Load()), Cached: p.cache.len()}
}
