package mail

import "time"

// backoff returns the delay after the attempt with this number (from 0).
func (o *Options) backoff(attempts int) time.Duration {
	d := o.RetryFirst
	for range min(attempts, 20) {
		if d *= 2; d >= o.RetryMax {
			return o.RetryMax
		}
	}
	return d
}

// pause returns the delay after a failed attempt with this number (from 0). Within the domain the first delays are a
// few seconds, enough for a server to restart or a directory to replicate.
func (o *Options) pause(attempts int, inside bool) time.Duration {
	pause := o.backoff(attempts)
	if inside {
		pause = min(pause, matesPause<<min(attempts, 16))
	}
	return pause
}
