package day

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"doublet/env"
)

// The addresses of the world. Strangers connect from 127.77.x.y and appear as 198.18.x.y, which the server does not
// trust. The servers that it sends to have names and addresses in the zone, and a port on loopback that connections are
// redirected to.

// strangerAt returns the address at which the server sees a connection from 127.77.x.y.
func strangerAt(a net.Addr) net.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return a
	}
	if ip := tcp.IP.To4(); ip != nil && ip[0] == 127 && ip[1] == 77 {
		return &net.TCPAddr{IP: net.IPv4(198, 18, ip[2], ip[3]), Port: tcp.Port}
	}
	return a
}

// timedConn is a connection whose deadlines are times of the simulated clock.
type timedConn struct {
	net.Conn
	clock env.Clock

	mu    sync.Mutex
	read  deadline
	write deadline
}

// deadline is a pending deadline. serial distinguishes a replaced timer from the current one.
type deadline struct {
	stop   func() bool
	serial int
}

var past = time.Unix(1, 0)

func (c *timedConn) set(d *deadline, t time.Time, arm func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
	d.serial++
	if t.IsZero() {
		return arm(t)
	}
	left := t.Sub(c.clock.Now())
	if left <= 0 {
		return arm(past)
	}
	serial := d.serial
	d.stop = c.clock.AfterFunc(left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if d.serial == serial {
			_ = arm(past)
		}
	})
	return arm(time.Time{})
}

func (c *timedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *timedConn) SetReadDeadline(t time.Time) error {
	return c.set(&c.read, t, c.Conn.SetReadDeadline)
}
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	return c.set(&c.write, t, c.Conn.SetWriteDeadline)
}

func (c *timedConn) Close() error {
	c.mu.Lock()
	for _, d := range []*deadline{&c.read, &c.write} {
		d.serial++
		if d.stop != nil {
			d.stop()
			d.stop = nil
		}
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// wire holds all connections of one life of the server. After cut no data that it writes reaches a peer.
type wire struct {
	clock env.Clock

	gate  sync.RWMutex // held for reading during a write
	dead  bool
	mu    sync.Mutex
	conns map[net.Conn]bool
}

var errCut = errors.New("the power is off")

type wiredConn struct {
	timedConn
	w      *wire
	remote net.Addr
}

func (w *wire) take(c net.Conn) net.Conn {
	x := &wiredConn{timedConn: timedConn{Conn: c, clock: w.clock}, w: w, remote: strangerAt(c.RemoteAddr())}
	w.mu.Lock()
	if w.conns == nil {
		w.conns = map[net.Conn]bool{}
	}
	w.conns[c] = true
	w.mu.Unlock()
	return x
}

func (c *wiredConn) RemoteAddr() net.Addr { return c.remote }

func (c *wiredConn) Write(p []byte) (int, error) {
	c.w.gate.RLock()
	defer c.w.gate.RUnlock()
	if c.w.dead {
		return 0, errCut
	}
	return c.timedConn.Conn.Write(p)
}

func (c *wiredConn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c.timedConn.Conn)
	c.w.mu.Unlock()
	return c.timedConn.Close()
}

// cut ends all connections at once and runs at in the same moment.
func (w *wire) cut(at func()) {
	w.gate.Lock()
	w.dead = true
	at()
	w.gate.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

type wiredListener struct {
	net.Listener
	w *wire
}

func (l wiredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.w.take(c), nil
}

// place is the server at an address of the zone.
type place struct {
	port int
	// reach returns the current outcome of a connection attempt.
	reach func() reach
}

// reach is the outcome of a connection attempt.
type reach uint8

const (
	reached reach = iota
	refused
	silent // no answer until the caller's timeout
)

// network makes the server's connections: to places of the zone, to its name server, and from its clients.
type network struct {
	clock  env.Clock
	places map[netip.AddrPort]place
}

func (n *network) join(e *env.Env, w *wire) *env.Env {
	out := *e
	out.Listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		return wiredListener{l, w}, nil
	}
	out.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		if p, ok := n.places[at]; ok {
			switch p.reach() {
			case refused:
				return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connect: connection refused")}
			case silent:
				n.clock.Sleep(timeout)
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
			}
			at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(p.port))
		} else if !at.Addr().IsLoopback() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connect: no route to host")}
		}
		c, err := net.Dial(network, at.String())
		if err != nil {
			return nil, err
		}
		if network == "udp" {
			return c, nil
		}
		return w.take(c), nil
	}
	return &out
}

// from dials as a stranger at 198.18.0.host.
func (n *network) from(host byte, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 77, 0, host)}}
	if host == 0 {
		d.LocalAddr = nil
	}
	c, err := d.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &timedConn{Conn: c, clock: n.clock}, nil
}
