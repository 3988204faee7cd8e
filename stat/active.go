package stat

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// The windows, in minutes, in which Active counts.
var activeWindows = [...]int{1, 3, 5, 15, 30}

const (
	activeShards = 16
	// shardLimit bounds the memory: 16 × 8,192 ids, about 6 MB, when all are in use.
	shardLimit = 8192
	activeKept = 30 * 60 // seconds
)

// Active counts the distinct ids that did something within the last 1, 3, 5, 15 and 30 minutes:
// Domino's Server.Users.Active15Min. It is exact up to about 130,000 ids in half an hour. Above
// that a shard keeps a sample (every id whose hash ends in so many zeros) and multiplies, so the
// memory stays bounded and the count is off by about 1 %.
type Active struct {
	tree   *Tree
	shards [activeShards]activeShard
}

type activeShard struct {
	mu   sync.Mutex
	seen map[[16]byte]int64 // second of the last activity
	// level is the number of zero bits that a hash must end in to be kept. It falls back to 0
	// only when the shard is empty: ids left out earlier could not be brought back.
	level int
}

// Active returns the statistic of that name; it stands in the tree as <name>.Active1Min,
// Active3Min, Active5Min, Active15Min and Active30Min.
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

// mixID spreads the bits of an id, which may be a counter as well as a random number.
func mixID(id [16]byte) uint64 {
	h := binary.LittleEndian.Uint64(id[:8]) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(id[8:])*0x9e3779b97f4a7c15, 31)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Touch says that id did something now.
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

// expire drops the ids that no window covers any more.
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

// shrink makes room: it drops what has expired, and halves the sample while that leaves the
// shard more than three quarters full, so that the next shrink is far away.
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

// Within counts the distinct ids active within the last d, at most 30 minutes.
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
