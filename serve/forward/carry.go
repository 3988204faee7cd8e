package forward

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"doublet/env"
	"doublet/serve/listen"
)

// Carry copies bytes between the client and the home until one of them closes, or this server stops. ahead holds input
// that was read already and is sent first. bye is sent to the client if the home is lost. If the mail file moves, the
// home returns the session; Carry then returns it, and the connection stays open.
func (x *Session) Carry(c *listen.Conn, ahead []byte, bye string) (*Moved, error) {
	defer x.End()
	x.s.now.Add(1)
	defer x.s.now.Add(-1)
	socket, more, err := c.Lend()
	if err != nil {
		return nil, err
	}
	k := &carrier{x: x, socket: socket, bye: bye, out: lineEnd{w: socket, at: true}, gone: make(chan struct{})}
	if _, err := x.stream.Write(append(ahead[:len(ahead):len(ahead)], more...)); err != nil {
		return nil, k.lost(err)
	}
	// The home enforces the client's idle timeout.
	_ = k.socket.SetDeadline(env.Deadline(365 * 24 * time.Hour))
	x.s.env.Go("forward", k.fromClient)
	ended := make(chan struct{})
	x.s.env.Go("forward", func() {
		select {
		case <-c.Closing():
			_ = x.stream.Close()
		case <-ended:
		}
	})
	moved, err := k.toClient()
	close(ended)
	if moved != nil && err == nil {
		return moved, c.Regain()
	}
	if err != nil {
		err = k.lost(err)
	}
	_ = k.socket.Close()
	<-k.gone
	return nil, err
}

// carrier copies the bytes of one session.
type carrier struct {
	x      *Session
	socket net.Conn
	bye    string
	out    lineEnd
	// gone is closed when fromClient has ended. err is its error, or nil after the client's EOF.
	gone chan struct{}
	err  error
}

// fromClient copies the client's input to the home.
func (k *carrier) fromClient() {
	defer close(k.gone)
	_, k.err = io.Copy(k.x.stream, onlyReader{k.socket})
	_ = k.x.stream.CloseWrite()
	if k.err != nil && !isTimeout(k.err) {
		_ = k.x.stream.Close()
	}
}

// toClient copies the home's output to the client until the home closes the stream or returns the session.
func (k *carrier) toClient() (*Moved, error) {
	if !k.x.movable {
		_, err := io.Copy(&k.out, onlyReader{k.x.stream})
		return nil, err
	}
	r := bufio.NewReaderSize(k.x.stream, frameHead+maxFrame)
	for {
		kind, n, err := readFrameHead(r)
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return nil, err
		}
		switch kind {
		case frameData:
			_, err = io.CopyN(&k.out, r, int64(n))
		case frameMoving:
			err = k.hold()
		case frameState:
			return readMoved(r, n)
		default:
			err = fmt.Errorf("forward: unknown frame %q", kind)
		}
		if err != nil {
			return nil, err
		}
	}
}

// hold stops fromClient without losing input.
func (k *carrier) hold() error {
	if err := k.socket.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	<-k.gone
	if k.err != nil && !isTimeout(k.err) {
		return k.err
	}
	if err := k.socket.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return k.x.stream.SetReadDeadline(env.Deadline(moveWithin))
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// lost sends bye to the client, unless that would be in the middle of a line.
func (k *carrier) lost(err error) error {
	if k.out.at && k.bye != "" {
		_ = k.socket.SetWriteDeadline(env.Deadline(farewell))
		_, _ = io.WriteString(k.socket, k.bye)
	}
	return err
}

// onlyReader hides the methods that io.Copy would use instead of Read.
type onlyReader struct{ io.Reader }

// lineEnd records whether the last byte written ended a line.
type lineEnd struct {
	w  io.Writer
	at bool
}

func (l *lineEnd) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.at = p[len(p)-1] == '\n'
	}
	return l.w.Write(p)
}
