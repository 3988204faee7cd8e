// Package password hashes and verifies passwords with argon2id, in bounded memory. It also creates and verifies app
// passwords. It neither logs nor stores passwords.
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
	// ErrBusy reports that the queue of waiting callers is full. The caller should retry later.
	ErrBusy = errors.New("password: too many sign-ins at once")
	// ErrFormat reports a stored hash that is malformed or has parameters out of bounds.
	ErrFormat = errors.New("password: bad hash")
	// ErrTooLong reports a new password longer than MaxLength.
	ErrTooLong = errors.New("password: too long")
)

// MaxLength is the maximum length of a password, in bytes. Verify rejects a longer password.
const MaxLength = 1024

// Pool limits the number of concurrent hash computations, and of callers that wait, in order of arrival. A computation
// takes 19 MiB and about 30 ms. It runs in the caller's own goroutine.
type Pool struct {
	env     *env.Env
	slots   chan struct{}
	queue   int64
	waiting atomic.Int64
	cache   cache
	// compute runs one hash computation. Tests replace it.
	compute func(f func())

	hashes, hits, busy atomic.Uint64
}

// Defaults of the verification cache.
const (
	DefaultCacheSize = 20_000
	DefaultCacheTTL  = 10 * time.Minute
)

// New returns a pool that computes at most workers hashes at once (19 MiB of memory each), while at most queue callers
// wait.
func New(e *env.Env, workers, queue int) *Pool {
	p := &Pool{env: e, slots: make(chan struct{}, max(workers, 1)), queue: int64(max(queue, 0)),
		compute: func(f func()) { f() }}
	e.Fill(p.cache.key[:])
	p.cache.reset(DefaultCacheSize, DefaultCacheTTL)
	return p
}

// SetCache sets the maximum number of entries of the verification cache, and the time after which a password is hashed
// again. Size 0 turns the cache off. SetCache empties the cache.
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

// Verify reports whether a password matches a hash, ours or another program's (see Check). It caches a success for a
// while under a keyed digest of both, so that repeated sign-ins of a client cost little. It never caches a failure.
// Errors: ErrBusy, ErrFormat, the context's.
func (p *Pool) Verify(ctx context.Context, phc, password string) (bool, error) {
	h, err := read(phc)
	if err != nil {
		return false, err
	}
	tooLong := len(password) > MaxLength
	if tooLong {
		password = password[:MaxLength] // takes as long as any other password, but does not match
	}
	key := p.cache.digest(phc, password)
	if !tooLong && p.cached(key) {
		return true, nil
	}
	if err := p.enter(ctx); err != nil {
		return false, err
	}
	defer p.leave()
	// The client may have opened several connections at once, and the first one has just verified the password.
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

// VerifyNobody computes one hash, as Verify with a wrong password does. Callers use it for users who do not exist.
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

// enter waits for a slot. The runtime serves waiting goroutines in order of arrival.
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

// Stats holds the counters of a pool.
type Stats struct {
	Hashes    uint64 // computed
	CacheHits uint64 // verifications answered from the cache
	Refused   uint64 // calls that returned ErrBusy
	Running   int
	Waiting   int
	Cached    int
}

// Stats returns the counters since the pool was made, and its current state.
func (p *Pool) Stats() Stats {
	return Stats{Hashes: p.hashes.Load(), CacheHits: p.hits.Load(), Refused: p.busy.Load(),
		Running: len(p.slots), Waiting: int(p.waiting.Load()), Cached: p.cache.len()}
}
