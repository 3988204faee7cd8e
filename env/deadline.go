package env

import (
	"context"
	"time"
)

// TimeLeft returns the time until the deadline of a context, at least a millisecond, or 0 if it has none. Deadlines of
// contexts use the system's time; the clock of an environment may show another time.
func TimeLeft(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Until(end), time.Millisecond)
	}
	return 0
}

// Deadline returns the deadline of a socket that lies d from now. Sockets use the system's time; the clock of an
// environment may show another time.
func Deadline(d time.Duration) time.Time { return time.Now().Add(d) }
