package listen

import "time"

// MinRate is the minimum average rate, in bytes per second, at which a client must send a command, a message or a
// request body. The average allows a pause of one timeout.
const MinRate = 100

// pace measures how fast a client sends its input. The time that the server works does not count.
type pace struct {
	waited time.Duration
	got    int64
}

// left returns the timeout for the next read: timeout, or less for a client that has been slow.
func (p *pace) left(timeout time.Duration) time.Duration {
	return min(timeout, timeout+time.Duration(p.got)*time.Second/MinRate-p.waited)
}

// came records that n bytes arrived after a wait.
func (p *pace) came(n int, waited time.Duration) {
	p.waited += waited
	p.got += int64(n)
}
