package listen

import "sync/atomic"

// Budget bounds the bytes of messages in flight over all sessions that share it, whatever their door.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// Max is the number of bytes that there are.
func (b *Budget) Max() int64 { return b.max }

// Used is the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Has says whether n bytes would be given now.
func (b *Budget) Has(n int64) bool { return b.used.Load()+n <= b.max }

// Take takes n bytes; false, and nothing taken, if there are not as many.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) { b.used.Add(-n) }
