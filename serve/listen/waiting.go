package listen

import (
	"net"
	"sync"
	"time"
)

// waiting is the wait of a session for its client, which other goroutines interrupt.
type waiting struct {
	server      *Server
	socket      net.Conn  // never changes
	readBy      time.Time // the armed read deadline
	readTimeout time.Duration

	mu          sync.Mutex // guards the fields below
	idle        bool       // in Await
	woken       bool       // Wake was called and not yet answered
	answered    bool       // Await has returned ErrWoken since it last read
	interrupted bool       // the read deadline was moved into the past, or is that of a look
	handshaking bool
}

// lookTime bounds the look for input of a session that was woken again.
const lookTime = time.Millisecond

// Wake makes the session's current or next Await return ErrWoken, unless there is input. Any goroutine may call it, to
// notify a session that waits for its client.
func (w *waiting) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	w.interrupt()
}

// interrupt ends a waiting Await. It does not interrupt a read inside a command. mu must be held.
func (w *waiting) interrupt() {
	if w.idle && !w.interrupted {
		w.interrupted = true
		_ = w.socket.SetReadDeadline(time.Unix(1, 0))
	}
}

func (w *waiting) interruptForClose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handshaking {
		_ = w.socket.Close()
		return
	}
	w.interrupt()
}

// Aborter is a connection whose Close lets written data arrive. Abort closes it at once, and interrupts a Write.
type Aborter interface{ Abort() error }

// abort closes the socket at once. Any goroutine may call it.
func (w *waiting) abort() error {
	if a, ok := w.socket.(Aborter); ok {
		return a.Abort()
	}
	return w.socket.Close()
}

// begin begins a wait of at least timeout, unless there is a reason not to wait.
func (w *waiting) begin(now time.Time, timeout time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Look for input before the next ErrWoken. A session that is woken each time before it waits would never read
	// otherwise. On a busy machine the time may pass before the look; a later one comes.
	if w.woken && w.answered && !w.server.isClosing() {
		w.idle, w.interrupted, w.readTimeout = true, true, timeout
		return w.socket.SetReadDeadline(now.Add(lookTime))
	}
	// Check under the lock: a later Wake or shutdown sees idle set.
	err := w.reason()
	if err == nil {
		err = w.setDeadline(now, timeout)
	}
	w.idle = err == nil
	return err
}

// end ends the wait. err is the result of the read. If it is a timeout, end returns the reason for it.
func (w *waiting) end(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = false
	if err == nil || !isTimeout(err) {
		w.answered = false
		return err
	}
	if err := w.reason(); err != nil {
		return err
	}
	return ErrTimeout
}

// reason returns the reason for which the session should not wait, and clears it if it is a call of Wake. mu must be
// held.
func (w *waiting) reason() error {
	switch {
	case w.server.isClosing():
		return ErrClosing
	case w.woken:
		w.woken, w.answered = false, true
		return ErrWoken
	}
	return nil
}

// arm is setDeadline for a read inside a command.
func (w *waiting) arm(now time.Time, timeout time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setDeadline(now, timeout)
}

// setDeadline sets the read deadline, unless the current one already allows the timeout and not much more: setting a
// deadline costs more than the rest of a short command. mu must be held.
func (w *waiting) setDeadline(now time.Time, timeout time.Duration) error {
	w.readTimeout = timeout
	if left := w.readBy.Sub(now); !w.interrupted && left >= timeout && left/9 <= timeout/4 {
		return nil
	}
	w.interrupted = false
	w.readBy = now.Add(timeout + timeout/4)
	return w.socket.SetReadDeadline(w.readBy)
}

// handshake calls fn, which must end by a time. A shutdown closes the socket meanwhile.
func (w *waiting) handshake(by time.Time, fn func() error) error {
	w.mu.Lock()
	if w.server.isClosing() {
		w.mu.Unlock()
		return ErrClosing
	}
	w.handshaking = true
	err := w.socket.SetDeadline(by)
	w.mu.Unlock()
	if err == nil {
		err = fn()
	}
	w.mu.Lock()
	w.handshaking = false
	w.mu.Unlock()
	return err
}

// reset clears the deadlines.
func (w *waiting) reset() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readBy, w.interrupted = time.Time{}, false
	return w.socket.SetDeadline(time.Time{})
}
