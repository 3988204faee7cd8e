package bus

import (
	"log/slog"
	"sync"
	"time"

	"doublet/env"
)

// Quiet limits the log lines that a remote side can cause. For example, a removed server reconnects every second for as
// long as it runs.
type Quiet struct {
	clock env.Clock
	mu    sync.Mutex
	since time.Time
	lines int
}

const (
	quietTime  = time.Minute
	quietLines = 20 // per quietTime
)

// NewQuiet makes a Quiet.
func NewQuiet(c env.Clock) *Quiet { return &Quiet{clock: c} }

// Level returns the level at which to log a line of level l: l for the first quietLines lines of a minute, then
// slog.LevelDebug.
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
