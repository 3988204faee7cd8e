package stat

import (
	"sync"
	"sync/atomic"
	"time"
)

// Rate counts events in total and per minute, as Domino's Server.Trans. It appears in the tree as four statistics:
// <name>.Total, <name>.PerMinute (the last full minute), <name>.PerMinute.Peak and <name>.PerMinute.Peak.Time.
type Rate struct {
	tree   *Tree
	total  atomic.Uint64
	minute atomic.Int64 // minutes since 1970 of the open window

	mu       sync.Mutex
	start    uint64 // total when the open window opened
	last     uint64 // count of the last full minute
	peak     uint64
	peakTime int64 // minute of the peak
}

// Rate returns the rate with that name.
func (t *Tree) Rate(name, help string) *Rate {
	r := register(t, name+".PerMinute", help+" in the last full minute", func() *Rate {
		r := &Rate{tree: t}
		r.minute.Store(r.now())
		return r
	})
	t.CounterFunc(name+".Total", help+" since the server started", func() float64 { return float64(r.Total()) })
	t.GaugeFunc(name+".PerMinute.Peak", help+" in the busiest minute", func() float64 {
		_, peak, _ := r.PerMinute()
		return float64(peak)
	})
	t.Text(name+".PerMinute.Peak.Time", "when the busiest minute began", func() string {
		_, peak, at := r.PerMinute()
		if peak == 0 {
			return ""
		}
		return at.UTC().Format(time.RFC3339)
	})
	return r
}

func (r *Rate) now() int64 { return r.tree.now().Unix() / 60 }

// Inc counts one event.
func (r *Rate) Inc() { r.Add(1) }

// Add counts n events. Only the first call in a minute takes a lock.
func (r *Rate) Add(n uint64) {
	if now := r.now(); now != r.minute.Load() {
		r.roll(now)
	}
	r.total.Add(n)
}

// roll closes the window if its minute is over. Events that are counted at the same time may fall on either side, but
// no event is lost or counted twice.
func (r *Rate) roll(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.minute.Load()
	if now == open {
		return
	}
	total := r.total.Load()
	count := total - r.start
	if count > r.peak {
		r.peak, r.peakTime = count, open
	}
	r.last = 0
	if now == open+1 {
		r.last = count
	}
	r.start = total
	r.minute.Store(now)
}

// Total returns the number of events since the server started.
func (r *Rate) Total() uint64 { return r.total.Load() }

// PerMinute returns the number of events of the last full minute, and of the busiest minute with the time at which that
// began.
func (r *Rate) PerMinute() (last, peak uint64, at time.Time) {
	r.roll(r.now())
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.peak, time.Unix(r.peakTime*60, 0)
}

func (r *Rate) kind() Kind { return KindGauge }

func (r *Rate) entries(name, help string, to []Entry) []Entry {
	last, _, _ := r.PerMinute()
	return append(to, Entry{Name: name, Help: help, Kind: KindGauge, Value: float64(last)})
}
