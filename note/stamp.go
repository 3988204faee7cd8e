package note

import "encoding/binary"

// Stamp is the time and replica at which a state item was written. Stamps are ordered, and no two writes have the same
// one.
type Stamp struct {
	// Time is hybrid-logical: milliseconds since 1970 shifted left by 16, plus a counter.
	Time uint64
	// Replica is the replica that wrote the item.
	Replica ReplicaID
}

// MaxAhead is the most by which a stamp may be ahead of the local clock and still advance the clock: 60 s.
const MaxAhead = uint64(60_000) << 16

// Less orders stamps.
func (s Stamp) Less(t Stamp) bool {
	if s.Time != t.Time {
		return s.Time < t.Time
	}
	return s.Replica < t.Replica
}

// Ahead reports whether s is more than 60 s ahead of nowMillis, the clock in milliseconds since 1970.
func (s Stamp) Ahead(nowMillis int64) bool {
	return s.Time > uint64(nowMillis)<<16+MaxAhead
}

// Clock is a hybrid logical clock. It never goes back. It stays above every stamp that it has seen, unless that stamp
// is implausibly far ahead.
type Clock struct{ last uint64 }

// Next returns the time for a write that replaces an item with the stamp above. It is at least nowMillis, and later
// than every time returned before and than above, even if above is far ahead.
func (c *Clock) Next(nowMillis int64, above Stamp) uint64 {
	t := max(uint64(nowMillis)<<16, c.last+1)
	c.last = t
	return max(t, above.Time+1)
}

// See moves the clock past a received stamp. If the stamp is more than 60 s ahead, See ignores it and returns false:
// one replica with a wrong clock must not move the clocks of others.
func (c *Clock) See(nowMillis int64, s Stamp) bool {
	if s.Ahead(nowMillis) {
		return false
	}
	c.last = max(c.last, s.Time)
	return true
}

// AppendStamp appends the 16-byte form of s.
func AppendStamp(dst []byte, s Stamp) []byte {
	dst = binary.BigEndian.AppendUint64(dst, s.Time)
	return binary.BigEndian.AppendUint64(dst, uint64(s.Replica))
}

// ReadStamp decodes the output of AppendStamp and returns the rest of b.
func ReadStamp(b []byte) (Stamp, []byte, error) {
	if len(b) < 16 {
		return Stamp{}, nil, ErrCorrupt
	}
	return Stamp{binary.BigEndian.Uint64(b), ReplicaID(binary.BigEndian.Uint64(b[8:]))}, b[16:], nil
}
