package signin

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/stat"
)

// guard delays repeated guesses, and bans the addresses from which they are made. It counts addresses as package listen
// does: single IPv4 addresses and IPv6 /64 networks. Accounts are delayed but never locked, because otherwise anybody
// could lock another person's account.
type guard struct {
	env         *env.Env
	limit       int // number of failures that cause a ban
	window, ban time.Duration
	loopback    bool
	seed        maphash.Seed
	keep        *keep.Table // stores bans

	mu        sync.Mutex
	addresses tallies[netip.Addr]
	accounts  tallies[uint64]
	bans      tallies[netip.Addr]
	waiting   int

	failures, banned, refused, delayed *stat.Counter
}

const (
	// maxTallies is the maximum number of stored addresses, accounts and bans, each. A new one replaces the one that
	// failed longest ago. A tally takes about 200 bytes.
	maxTallies = 65536
	// maxAccount is the maximum length in bytes of a stored account name.
	maxAccount = 100
	// maxWaiting is the maximum number of delayed sign-ins. Further ones get ErrBusy.
	maxWaiting = 4096
	// patience is the number of failures without a delay. maxDelay is the longest delay.
	patience = 3
	maxDelay = 8 * time.Second
)

func (g *guard) init(e *env.Env, o *Options) {
	g.env, g.limit, g.window, g.ban, g.loopback = e, o.Failures, o.Window, o.Ban, o.Loopback
	if g.limit == 0 {
		g.limit = 10
	}
	if g.window <= 0 {
		g.window = 10 * time.Minute
	}
	if g.ban <= 0 {
		g.ban = time.Hour
	}
	g.seed = maphash.MakeSeed()
	g.keep = o.Keep
	g.recall()
	t := o.Stats
	g.failures = t.Counter("SignIn.Failures", "sign-ins with a wrong name or password")
	g.banned = t.Counter("SignIn.Bans", "addresses banned for failed sign-ins")
	g.refused = t.Counter("SignIn.Refused", "sign-ins rejected without a check, because their address is banned")
	g.delayed = t.Counter("SignIn.Delayed", "sign-ins that were delayed after failures")
	t.GaugeFunc("SignIn.Bans.Current", "addresses banned now", func() float64 { return float64(len(g.list())) })
	t.GaugeFunc("SignIn.Waiting", "sign-ins that wait after failures", func() float64 {
		g.mu.Lock()
		defer g.mu.Unlock()
		return float64(g.waiting)
	})
}

// tally counts the failures of an address or an account.
type tally struct {
	n     int
	since time.Time // start of the window
	until time.Time // end of a ban
	door  string
	// name is the account's name, empty for an address.
	name string
	// tried holds keyed hashes of the last wrong pairs of user and password. A program that repeats the same wrong
	// password is not guessing, and must not get its office's address banned.
	tried [4]uint64
}

// tallies is a table of tallies, the most recently used first.
type tallies[K comparable] struct {
	table map[K]*list.Element
	lru   list.List
}

type row[K comparable] struct {
	key K
	tally
}

func (t *tallies[K]) get(k K) *tally {
	if e := t.table[k]; e != nil {
		return &e.Value.(*row[K]).tally
	}
	return nil
}

// add returns the tally of a key, creates it if necessary, and moves it to the front.
func (t *tallies[K]) add(k K) *tally {
	if e := t.table[k]; e != nil {
		t.lru.MoveToFront(e)
		return &e.Value.(*row[K]).tally
	}
	if t.table == nil {
		t.table = make(map[K]*list.Element)
	}
	if len(t.table) >= maxTallies {
		t.drop(t.lru.Back().Value.(*row[K]).key)
	}
	r := &row[K]{key: k}
	t.table[k] = t.lru.PushFront(r)
	return &r.tally
}

func (t *tallies[K]) drop(k K) bool {
	e := t.table[k]
	if e != nil {
		t.lru.Remove(e)
		delete(t.table, k)
	}
	return e != nil
}

// within starts a new window if the old one is over.
func (g *guard) within(t *tally, now time.Time) {
	if now.Sub(t.since) > g.window {
		*t = tally{since: now}
	}
}

// key returns the address under which failures are counted, or false for an address that is not counted.
func (g *guard) key(a netip.Addr) (netip.Addr, bool) {
	if g.limit < 0 || !a.IsValid() || a.IsLoopback() && !g.loopback {
		return a, false
	}
	return masked(a), true
}

func masked(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// delay returns the delay after a number of failures. It grows from half a second to maxDelay.
func delay(failures int) time.Duration {
	if failures < patience {
		return 0
	}
	return min(maxDelay, 500*time.Millisecond<<min(failures-patience, 10))
}

// enter admits a sign-in: at once, after the delay of its address, or not at all (ErrBanned, ErrBusy).
func (g *guard) enter(ctx context.Context, a *Attempt) error {
	k, ok := g.key(a.Remote)
	if !ok {
		return nil
	}
	now := g.env.Clock.Now()
	g.mu.Lock()
	if b := g.bans.get(k); b != nil {
		if now.Before(b.until) {
			g.mu.Unlock()
			g.refused.Inc()
			return ErrBanned
		}
		g.unban(k)
	}
	var wait time.Duration
	if t := g.addresses.get(k); t != nil {
		g.within(t, now)
		wait = delay(t.n)
	}
	g.mu.Unlock()
	if err := g.wait(ctx, wait); err != nil || wait == 0 {
		return err
	}
	// Other sign-ins from the address may have failed during the delay.
	g.mu.Lock()
	b := g.bans.get(k)
	banned := b != nil && g.env.Clock.Now().Before(b.until)
	g.mu.Unlock()
	if banned {
		g.refused.Inc()
		return ErrBanned
	}
	return nil
}

// failed counts a failed sign-in, then waits for the account's delay. account must be the same for the usual spellings
// of a name. The delay of the address was already applied in enter. Only failed sign-ins get the account's delay, so
// guesses by others do not slow down a person who knows the password.
func (g *guard) failed(ctx context.Context, a *Attempt, account, secret string) {
	g.failures.Inc()
	k, ok := g.key(a.Remote)
	if !ok {
		return
	}
	now := g.env.Clock.Now()
	g.mu.Lock()
	t := g.addresses.add(k)
	g.within(t, now)
	if g.fresh(t, account, secret) {
		t.n++
	}
	t.door = a.Door
	if t.n >= g.limit {
		if len(g.bans.table) >= maxTallies && g.bans.get(k) == nil {
			g.unban(g.bans.lru.Back().Value.(*row[netip.Addr]).key)
		}
		b := g.bans.add(k)
		*b = tally{n: t.n, since: now, until: now.Add(g.ban), door: a.Door}
		g.keep.Put(k.String(), fmt.Sprintf("%d %d %d %s", b.since.Unix(), b.until.Unix(), b.n, b.door))
		g.addresses.drop(k)
		g.banned.Inc()
		g.env.Log.Warn("address banned for failed sign-ins", "address", k.String(), "door", a.Door, "failures", b.n,
			"until", b.until.UTC().Format(time.RFC3339))
	}
	u := g.accounts.add(maphash.String(g.seed, account))
	g.within(u, now)
	u.n++
	u.name = account[:min(len(account), maxAccount)]
	wait := delay(u.n)
	g.mu.Unlock()
	_ = g.wait(ctx, wait)
}

// fresh reports whether a wrong password differs from the last ones that were tried, and stores it.
func (g *guard) fresh(t *tally, account, secret string) bool {
	if secret == "" {
		return true
	}
	h := maphash.String(g.seed, account+"\x00"+secret)
	if slices.Contains(t.tried[:], h) {
		return false
	}
	copy(t.tried[1:], t.tried[:])
	t.tried[0] = h
	return true
}

func (g *guard) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	g.mu.Lock()
	if g.waiting >= maxWaiting {
		g.mu.Unlock()
		return ErrBusy
	}
	g.waiting++
	g.mu.Unlock()
	g.delayed.Inc()
	defer func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}()
	select {
	case <-g.env.Clock.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ban is an address or a /64 from which sign-ins are rejected for a while.
type Ban struct {
	Address  netip.Prefix
	Since    time.Time
	Until    time.Time
	Failures int
	Door     string
}

// Bans lists the current bans, the next to end first.
func (s *Service) Bans() []Ban { return s.guard.list() }

func (g *guard) list() []Ban {
	now := g.env.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Ban
	for k, e := range g.bans.table {
		t := &e.Value.(*row[netip.Addr]).tally
		if now.Before(t.until) {
			bits := 32
			if k.Is6() {
				bits = 64
			}
			out = append(out, Ban{Address: netip.PrefixFrom(k, bits), Since: t.since, Until: t.until, Failures: t.n,
				Door: t.door})
		}
	}
	slices.SortFunc(out, func(a, b Ban) int { return a.Until.Compare(b.Until) })
	return out
}

// RemoveBan ends the ban of an address, and resets its failure count. It reports whether there was a ban.
func (s *Service) RemoveBan(a netip.Addr) bool {
	g := &s.guard
	k := masked(a)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addresses.drop(k)
	return g.unban(k)
}

// unban removes a ban. The caller holds mu.
func (g *guard) unban(k netip.Addr) bool {
	g.keep.Drop(k.String())
	return g.bans.drop(k)
}

// recall loads the bans from before the restart that have not ended.
func (g *guard) recall() {
	now := g.env.Clock.Now()
	err := g.keep.Each(context.Background(), func(key, value string) {
		var since, until int64
		var b tally
		k, err := netip.ParseAddr(key)
		_, bad := fmt.Sscanf(value, "%d %d %d %s", &since, &until, &b.n, &b.door)
		b.since, b.until = time.Unix(since, 0), time.Unix(until, 0)
		if err != nil || bad != nil || !now.Before(b.until) || len(g.bans.table) >= maxTallies {
			g.keep.Drop(key)
			return
		}
		*g.bans.add(k) = b
	})
	if err != nil {
		g.env.Log.Error("cannot read the bans from before the restart", "err", err)
	}
}
