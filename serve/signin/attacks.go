package signin

import (
	"cmp"
	"container/list"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Attack is an account, or an address, with failed sign-ins within the window of Options.
type Attack struct {
	// Account is the name that was tried, or Address the address that tried; the other one is empty.
	Account, Address string
	Failures         int
}

// Attacks returns the accounts and addresses with at least so many failed sign-ins, those with most first. It looks at
// the most recently tried ones, up to limit of each.
func (s *Service) Attacks(least, limit int) []Attack {
	g := &s.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.env.Clock.Now()
	out := recent(&g.accounts.lru, limit, func(r *row[uint64]) Attack {
		return g.attack(&r.tally, now, r.name, "")
	}, least)
	out = append(out, recent(&g.addresses.lru, limit, func(r *row[netip.Addr]) Attack {
		return g.attack(&r.tally, now, "", r.key.String())
	}, least)...)
	slices.SortStableFunc(out, func(a, b Attack) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), strings.Compare(a.Account, b.Account),
			strings.Compare(a.Address, b.Address))
	})
	return out
}

func (g *guard) attack(t *tally, now time.Time, account, address string) Attack {
	n := t.n
	if now.Sub(t.since) >= g.window {
		n = 0
	}
	return Attack{account, address, n}
}

// recent returns the attacks of the first rows of a table that reach least.
func recent[K comparable](rows *list.List, limit int, of func(*row[K]) Attack, least int) (out []Attack) {
	for e := rows.Front(); e != nil && limit > 0; e, limit = e.Next(), limit-1 {
		if a := of(e.Value.(*row[K])); a.Failures >= least {
			out = append(out, a)
		}
	}
	return out
}
