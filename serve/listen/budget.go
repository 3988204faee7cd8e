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

	share   int64 // of one client; 0: no bound
	greedy  atomic.Uint64
	mu      sync.Mutex
	clients map[netip.Addr]int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// NewSharedBudget makes one of which one client (see Options.MaxPerAddress) gets at most share bytes, so
// that the rest is there for others.
func NewSharedBudget(max, share int64) *Budget {
	return &Budget{max: max, share: share, clients: map[netip.Addr]int64{}}
}

// Max is the number of bytes that there are.
func (b *Budget) Max() int64 { return b.max }

// Used is the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Refused counts how often there were not as many bytes as were asked for: of the whole, and of one
// client's share.
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

// Share is a Budget as one client sees it.
type Share struct {
	*Budget
	client netip.Addr // zero: not counted
}

// Share is the part of a budget that the client of this connection may have. Clients on this machine may
// have all of it.
func (c *Conn) Share(b *Budget) Share {
	if key, counted := c.clientKey(); counted && b.share > 0 {
		return Share{b, key}
	}
	return Share{Budget: b}
}

// Max is the number of bytes that the client may have.
func (s Share) Max() int64 {
	if s.client.IsValid() {
		return min(s.max, s.share)
	}
	return s.max
}

// Has says whether n bytes would be given now.
func (s Share) Has(n int64) bool {
	if s.client.IsValid() {
		s.mu.Lock()
		held := s.clients[s.client]
		s.mu.Unlock()
		if held+n > s.share {
			return false
		}
	}
	return s.Budget.Has(n)
}

// Take takes n bytes; false, and nothing taken, if there are not as many.
func (s Share) Take(n int64) bool {
	if !s.client.IsValid() {
		return s.Budget.Take(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.clients[s.client]
	if held+n > s.share {
		s.greedy.Add(1)
		return false
	}
	if !s.Budget.Take(n) {
		return false
	}
	s.clients[s.client] = held + n
	return true
}

// Give gives n bytes back.
func (s Share) Give(n int64) {
	s.Budget.Give(n)
	if !s.client.IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[s.client] -= n; s.clients[s.client] <= 0 {
		delete(s.clients, s.client)
	}
}
