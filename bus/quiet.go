package bus

import (
	"log/slog"
	"sync"
	"time"

	"doublet/env"
)

// Quiet keeps a log readable that somebody else fills: a server that was removed knocks every second, for
// as long as it runs.
type Quiet struct {
	clock env.Clock
	mu    sync.Mutex
	since time.Time
	lines int
}

const (
	quietTime  = time.Minute
	quietLines = 20 // in that time
)

// NewQuiet makes a Quiet.
func NewQuiet(c env.Clock) *Quiet { return &Quiet{clock: c} }

// Level is the level for a line of that level: the same for so many in a minute, then that of those who look for
// a fault.
func (q *Quiet) Level(l slog.Level) slog.Level {
	if l <= slog.LevelDebug {
		return l
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.clock.Now(); now.Sub(q.since) >= quietTime {
		q.since, q.lines = now, 0
	}
	if q.lines++; q.lines > quietLines {
		return slog.LevelDebug
	}
	return l
}
