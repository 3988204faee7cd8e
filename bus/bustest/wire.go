package bustest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Wire is a proxy between servers that a test can interrupt. Its address stands for the target's.
type Wire struct {
	Address string
	target  string
	l       net.Listener

	mu    sync.Mutex
	held  [2]bool // there and back: no data passes, and no connection is closed
	wake  *sync.Cond
	conns []net.Conn
}

// NewWire makes a wire to the address target.
func NewWire(t *testing.T, target string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: l.Addr().String(), target: target, l: l}
	w.wake = sync.NewCond(&w.mu)
	t.Cleanup(func() {
		l.Close()
		w.Break()
		w.Hold(false, false)
	})
	go w.accept()
	return w
}

func (w *Wire) accept() {
	for {
		a, err := w.l.Accept()
		if err != nil {
			return
		}
		b, err := net.DialTimeout("tcp", w.target, time.Second)
		if err != nil {
			a.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, a, b)
		w.mu.Unlock()
		go w.carry(a, b, 0)
		go w.carry(b, a, 1)
	}
}

func (w *Wire) carry(from, to net.Conn, direction int) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.held[direction] {
			w.wake.Wait()
		}
		w.mu.Unlock()
		if _, bad := to.Write(buf[:n]); bad != nil || err != nil {
			return
		}
	}
}

// Hold stops the data in either direction. The data passes when the hold ends.
func (w *Wire) Hold(there, back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = [2]bool{there, back}
	w.wake.Broadcast()
}

// Break closes the open connections.
func (w *Wire) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// Remove closes all connections and accepts no new ones.
func (w *Wire) Remove() {
	w.l.Close()
	w.Break()
}
