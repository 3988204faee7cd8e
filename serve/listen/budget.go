package listen

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
)

// ErrMemory reports that a Budget has no room for a message. The sender may retry later.
var ErrMemory = errors.New("listen: the memory for messages is in use")

// Budget limits the memory, in bytes, of messages being received or sent in all sessions that share it, at all doors.
type Budget struct {
	max     int64
	used    atomic.Int64
	refused atomic.Uint64

	shares  Shares
	greedy  atomic.Uint64
	mu      sync.Mutex
	holders map[holder]int64
}

// Shares are the maximum bytes of a budget that one client and one person may hold; 0 is no limit but the budget's.
type Shares struct {
	// Client is the share of one address (see Options.MaxPerAddress), over all its connections.
	Client int64
	// Person is the share of one person at the doors of the web, over all requests.
	Person int64
}

// holder identifies a client or a person. The zero value identifies neither.
type holder struct {
	client netip.Addr
	person [16]byte
}

// NewBudget returns a budget of max bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// NewSharedBudget returns a budget of max bytes of which one client or person gets only a share, so that the rest is
// left for others.
func NewSharedBudget(max int64, shares Shares) *Budget {
	return &Budget{max: max, shares: shares, holders: map[holder]int64{}}
}

// Max returns the size of the budget in bytes.
func (b *Budget) Max() int64 { return b.max }

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Refused returns the number of rejected requests for bytes: because the budget was used up, and because a client's or
// person's share was.
func (b *Budget) Refused() (whole, share uint64) { return b.refused.Load(), b.greedy.Load() }

// Has reports whether n bytes are available now.
func (b *Budget) Has(n int64) bool { return b.used.Load()+n <= b.max }

// Take reserves n bytes. If they are not available, it reserves nothing and returns false.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

// Give releases n bytes.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Share is one client's or person's part of a Budget.
type Share struct {
	*Budget
	of   holder
	most int64 // 0: no limit but the budget's
}

// Share returns the share of the connection's client. Clients on this machine may have the whole budget.
func (c *Conn) Share(b *Budget) Share {
	if key, counted := c.clientKey(); counted {
		return Share{b, holder{client: key}, b.shares.Client}
	}
	return Share{Budget: b}
}

// Of returns the share of a person for all of their requests. The zero person has no share of their own: only the
// budget limits it.
func (b *Budget) Of(person [16]byte) Share {
	if person == [16]byte{} {
		return Share{Budget: b}
	}
	return Share{b, holder{person: person}, b.shares.Person}
}

// Max returns the maximum number of bytes that the holder may have.
func (s Share) Max() int64 {
	if s.most > 0 {
		return min(s.max, s.most)
	}
	return s.max
}

// Has reports whether n bytes are available to the holder now.
func (s Share) Has(n int64) bool {
	if s.most > 0 {
		s.mu.Lock()
		held := s.holders[s.of]
		s.mu.Unlock()
		if held+n > s.most {
			return false
		}
	}
	return s.Budget.Has(n)
}

// Take reserves n bytes. If they are not available, it reserves nothing and returns false.
func (s Share) Take(n int64) bool {
	if s.most == 0 {
		return s.Budget.Take(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.holders[s.of]
	if held+n > s.most {
		s.greedy.Add(1)
		return false
	}
	if !s.Budget.Take(n) {
		return false
	}
	s.holders[s.of] = held + n
	return true
}

// Give releases n bytes.
func (s Share) Give(n int64) {
	s.Budget.Give(n)
	if s.most == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[s.of] -= n; s.holders[s.of] <= 0 {
		delete(s.holders, s.of)
	}
}
