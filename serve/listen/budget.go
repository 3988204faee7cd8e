package listen

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
)

// ErrMemory reports that a message found no room in a Budget: its sender may try again later.
var ErrMemory = errors.New("listen: the memory for messages is in use")

// Budget bounds the bytes of messages in flight over all sessions that share it, whatever their door.
type Budget struct {
	max     int64
	used    atomic.Int64
	refused atomic.Uint64

	shares  Shares
	greedy  atomic.Uint64
	mu      sync.Mutex
	holders map[holder]int64
}

// Shares are the bytes of a budget that one client and one person may hold at most; 0: all of them.
type Shares struct {
	// Client is the share of one address (see Options.MaxPerAddress), over all its connections.
	Client int64
	// Person is the share of one person at the doors of the web, over all requests.
	Person int64
}

// holder names a client or a person; the zero value is neither.
type holder struct {
	client netip.Addr
	person [16]byte
}

// NewBudget makes a budget of so many bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// NewSharedBudget makes a budget of which one client or person gets a share, so that the rest is there for others.
func NewSharedBudget(max int64, shares Shares) *Budget {
	return &Budget{max: max, shares: shares, holders: map[holder]int64{}}
}

// Max is the number of bytes that there are.
func (b *Budget) Max() int64 { return b.max }

// Used is the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Refused counts how often there were not as many bytes as were asked for: of the whole, and of the share of one client or
// person.
func (b *Budget) Refused() (whole, share uint64) { return b.refused.Load(), b.greedy.Load() }

// Has says whether n bytes would be given now.
func (b *Budget) Has(n int64) bool { return b.used.Load()+n <= b.max }

// Take takes n bytes; false, and nothing taken, if there are not as many.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Share is a Budget as one client or person sees it.
type Share struct {
	*Budget
	of   holder
	most int64 // 0: there is no bound but the budget's
}

// Share is the part of a budget that the client of this connection may have. Clients on this machine may
// have all of it.
func (c *Conn) Share(b *Budget) Share {
	if key, counted := c.clientKey(); counted {
		return Share{b, holder{client: key}, b.shares.Client}
	}
	return Share{Budget: b}
}

// Of is the part of the budget that a person may have, wherever their requests come from. The zero person is nobody, whose
// bytes are not counted together.
func (b *Budget) Of(person [16]byte) Share {
	if person == [16]byte{} {
		return Share{Budget: b}
	}
	return Share{b, holder{person: person}, b.shares.Person}
}

// Max is the number of bytes that the holder may have.
func (s Share) Max() int64 {
	if s.most > 0 {
		return min(s.max, s.most)
	}
	return s.max
}

// Has says whether n bytes would be given now.
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

// Take takes n bytes; false, and nothing taken, if there are not as many.
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

// Give gives n bytes back.
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
