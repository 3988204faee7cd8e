package note

import "encoding/binary"

// Stamp says when and where a state item was written. Stamps are ordered; no two writes share one.
type Stamp struct {
	// Time is hybrid-logical: milliseconds since 1970 shifted left by 16, plus a counter.
	Time uint64
	// Replica is the replica that wrote.
	Replica ReplicaID
}

// MaxAhead is how far a stamp may run before the local clock and still advance it: 60 s.
const MaxAhead = uint64(60_000) << 16

// Less orders stamps.
func (s Stamp) Less(t Stamp) bool {
	if s.Time != t.Time {
		return s.Time < t.Time
	}
	return s.Replica < t.Replica
}

// Ahead says whether s lies more than 60 s before the clock reading nowMillis.
func (s Stamp) Ahead(nowMillis int64) bool {
	return s.Time > uint64(nowMillis)<<16+MaxAhead
}

// Clock is a hybrid-logical clock: it never goes back, and it runs above every stamp that it has
// seen, unless that stamp is implausibly far ahead.
type Clock struct{ last uint64 }

// Next gives the time for a write that replaces an item stamped above: later than every stamp
// given before, later than above whatever above is, at least nowMillis.
func (c *Clock) Next(nowMillis int64, above Stamp) uint64 {
	t := max(uint64(nowMillis)<<16, c.last+1)
	c.last = t
	return max(t, above.Time+1)
}

// See lets the clock run above a received stamp. It returns false, and ignores the stamp, if that
// lies more than 60 s ahead: one replica with a wrong clock must not drag the others along.
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

// ReadStamp reads what AppendStamp wrote and returns the rest.
func ReadStamp(b []byte) (Stamp, []byte, error) {
	if len(b) < 16 {
		return Stamp{}, nil, ErrCorrupt
	}
	return Stamp{binary.BigEndian.Uint64(b), ReplicaID(binary.BigEndian.Uint64(b[8:]))}, b[16:], nil
}
