package mail

import "time"

// backoff is how long after the attempt with this number (from 0) the next one comes.
func (o *Options) backoff(attempts int) time.Duration {
	d := o.RetryFirst
	for range min(attempts, 20) {
		if d *= 2; d >= o.RetryMax {
			return o.RetryMax
		}
	}
	return d
}

// pause is how long a failed attempt, the one with this number (from 0), is not repeated. Within the domain it begins with
// seconds: a server is restarted, a directory catches up.
func (o *Options) pause(attempts int, inside bool) time.Duration {
	pause := o.backoff(attempts)
	if inside {
		pause = min(pause, matesPause<<min(attempts, 16))
	}
	return pause
}
