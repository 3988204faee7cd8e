package netns

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// chunk is the size of a read in bytes.
const (
	chunk = 32 << 10
	// inFlight is the number of chunks of one direction under way; then the sender waits.
	inFlight = 64
)

// Forward relays connections from a listening socket to the target of dial until the test ends. Each direction is
// delayed by the time that delay returns for it. If dial fails, the connection is closed.
func Forward(t testing.TB, listen string, dial func(from net.Addr) (net.Conn, error),
	delay func(from net.Addr) time.Duration) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	keep := func(c net.Conn, have bool) {
		mu.Lock()
		defer mu.Unlock()
		if have {
			open[c] = true
		} else {
			delete(open, c)
			_ = c.Close()
		}
	}
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for c := range open {
			_ = c.Close()
		}
	})
	go func() {
		for {
			near, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			keep(near, true)
			go func() {
				defer keep(near, false)
				far, err := dial(near.RemoteAddr())
				if err != nil {
					return
				}
				keep(far, true)
				defer keep(far, false)
				late := func() time.Duration { return delay(near.RemoteAddr()) }
				var both sync.WaitGroup
				both.Go(func() { carry(far, near, late) })
				both.Go(func() { carry(near, far, late) })
				both.Wait()
			}()
		}
	}()
}

// carry copies one direction, including its end.
func carry(to, from net.Conn, delay func() time.Duration) {
	type packet struct {
		data []byte
		due  time.Time
	}
	way := make(chan packet, inFlight)
	gone := make(chan struct{})
	go func() {
		defer close(way)
		for {
			buf := make([]byte, chunk)
			n, err := from.Read(buf)
			if n > 0 {
				select {
				case way <- packet{buf[:n], time.Now().Add(delay())}:
				case <-gone:
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					_ = to.Close() // broken, not ended
				}
				return
			}
		}
	}()
	defer close(gone)
	for p := range way {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close()
			return
		}
	}
	if c, ok := to.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
}
