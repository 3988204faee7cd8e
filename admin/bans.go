package admin

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"doublet/store"
)

// Ban is an address that is banned from signing in for a while.
type Ban struct {
	Address  string    `json:"address"`
	Failures int       `json:"failures"`
	Door     string    `json:"door"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
}

// BanAddress are the arguments of ban remove.
type BanAddress struct {
	Address string `json:"address" help:"address, or an address within the network that show bans names"`
}

func bans() []*Verb {
	return []*Verb{
		onServer("show bans",
			"addresses from which nobody signs in for a while, since too many sign-ins from there failed",
			func(_ context.Context, c *ServerCall, _ *struct{}) ([]Ban, error) {
				return c.Server.Bans.List(), nil
			}),
		onServer("ban remove", "let an address sign in again at once",
			func(_ context.Context, c *ServerCall, a *BanAddress) (Done, error) {
				address, err := banned(a.Address)
				if err != nil {
					return Done{}, fmt.Errorf("%w: address %q: %w", ErrUsage, a.Address, err)
				}
				if !c.Server.Bans.Remove(address) {
					return Done{}, fmt.Errorf("ban of %s: %w", address, store.ErrNotFound)
				}
				return Done{"the ban of " + address.String() + " is removed"}, nil
			}, changes),
	}
}

// banned parses an address, or a network as show bans prints it.
func banned(s string) (netip.Addr, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Addr(), nil
	}
	return netip.ParseAddr(s)
}
