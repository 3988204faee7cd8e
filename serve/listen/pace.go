package listen

import "time"

// MinRate is the least rate, in bytes a second, at which a client sends what it has begun: a command, a message, the body of a
// request. It is an average: for a while of the length of a timeout there may be nothing.
const MinRate = 100

// pace measures how a client sends what it has begun. The time that the server works is not counted.
type pace struct {
	waited time.Duration
	got    int64
}

// left returns the time for the next piece: timeout, or less for a client that has been slow.
func (p *pace) left(timeout time.Duration) time.Duration {
	return min(timeout, timeout+time.Duration(p.got)*time.Second/MinRate-p.waited)
}

// came counts n bytes that were waited for.
func (p *pace) came(n int, waited time.Duration) {
	p.waited += waited
	p.got += int64(n)
}
