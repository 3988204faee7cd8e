package stat

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// The windows of Active, in minutes.
var activeWindows = [...]int{1, 3, 5, 15, 30}

const (
	activeShards = 16
	// shardLimit bounds the memory: 16 shards of 8,192 ids take about 6 MB when all are in use.
	shardLimit = 8192
	activeKept = 30 * 60 // seconds
)

// Active counts the distinct ids that were active within the last 1, 3, 5, 15 and 30 minutes, as Domino's
// Server.Users.Active15Min. It is exact up to about 130,000 ids in half an hour. Above that, a shard keeps a sample
// (the ids whose hash ends in a number of zero bits) and multiplies. So the memory is bounded, and the count is off by
// about 1 %.
type Active struct {
	tree   *Tree
	shards [activeShards]activeShard
}

type activeShard struct {
	mu   sync.Mutex
	seen map[[16]byte]int64 // second of the last activity
	// level is the number of zero bits in which a hash must end to be kept. It returns to 0 only when the shard is
	// empty, because ids that were left out earlier cannot be recovered.
	level int
}

// Active returns the statistic with that name. It appears in the tree as <name>.Active1Min, Active3Min, Active5Min,
// Active15Min and Active30Min.
func (t *Tree) Active(name, help string) *Active {
	a := register(t, name+".Active", help+" active within the last minute", func() *Active { return newActive(t) })
	for _, m := range activeWindows {
		t.GaugeFunc(fmt.Sprintf("%s.Active%dMin", name, m), fmt.Sprintf("%s active within the last %d min", help, m),
			func() float64 { return float64(a.Within(time.Duration(m) * time.Minute)) })
	}
	return a
}

func newActive(t *Tree) *Active {
	a := &Active{tree: t}
	for i := range a.shards {
		a.shards[i].seen = map[[16]byte]int64{}
	}
	return a
}

// mixID mixes the bits of an id, which may be a counter or a random number.
func mixID(id [16]byte) uint64 {
	h := binary.LittleEndian.Uint64(id[:8]) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(id[8:])*0x9e3779b97f4a7c15,
		31)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Touch records that id is active now.
func (a *Active) Touch(id [16]byte) {
	h := mixID(id)
	s := &a.shards[h>>60]
	now := a.tree.now().Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	if bits.TrailingZeros64(h) < s.level {
		return
	}
	if _, have := s.seen[id]; !have && len(s.seen) >= shardLimit {
		s.shrink(now)
		if bits.TrailingZeros64(h) < s.level {
			return
		}
	}
	s.seen[id] = now
}

// expire removes the ids that no window covers any more.
func (s *activeShard) expire(now int64) {
	for id, at := range s.seen {
		if now-at >= activeKept {
			delete(s.seen, id)
		}
	}
	if len(s.seen) == 0 {
		s.level = 0
	}
}

// shrink makes room. It removes expired ids, and then halves the sample while the shard is more than three quarters
// full, so that the next shrink is not needed soon.
func (s *activeShard) shrink(now int64) {
	s.expire(now)
	for len(s.seen) > shardLimit*3/4 && s.level < 60 {
		s.level++
		for id := range s.seen {
			if bits.TrailingZeros64(mixID(id)) < s.level {
				delete(s.seen, id)
			}
		}
	}
}

// Within returns the number of distinct ids active within the last d, at most 30 minutes.
func (a *Active) Within(d time.Duration) uint64 {
	now := a.tree.now().Unix()
	window := int64(d / time.Second)
	var n uint64
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		s.expire(now)
		var c uint64
		for _, at := range s.seen {
			if now-at < window {
				c++
			}
		}
		n += c << s.level
		s.mu.Unlock()
	}
	return n
}

func (a *Active) kind() Kind { return KindGauge }

func (a *Active) entries(name, help string, to []Entry) []Entry {
	return append(to, Entry{Name: name, Help: help, Kind: KindGauge, Value: float64(a.Within(time.Minute))})
}
