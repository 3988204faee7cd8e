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

// Carry carries bytes between the client and the home until one of them ends, or this server stops. What the
// client has sent already goes first. bye is what the client is told where the home is lost. Where the home gives the
// session back, because the mail file has moved, Carry returns it, and the connection stays.
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
	// How long a client may be silent, the home knows.
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

// carrier carries the bytes of one session.
type carrier struct {
	x      *Session
	socket net.Conn
	bye    string
	out    lineEnd
	// gone is closed when no more of the client is carried; err is why, where that is not its own end.
	gone chan struct{}
	err  error
}

// fromClient carries what the client sends.
func (k *carrier) fromClient() {
	defer close(k.gone)
	_, k.err = io.Copy(k.x.stream, onlyReader{k.socket})
	_ = k.x.stream.CloseWrite()
	if k.err != nil && !isTimeout(k.err) {
		_ = k.x.stream.Close()
	}
}

// toClient carries what the home writes, up to its end, or to where it gives the session back.
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

// hold stops what fromClient does, and loses nothing of it.
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

// lost tells the client, if that would not fall into the middle of a line.
func (k *carrier) lost(err error) error {
	if k.out.at && k.bye != "" {
		_ = k.socket.SetWriteDeadline(env.Deadline(farewell))
		_, _ = io.WriteString(k.socket, k.bye)
	}
	return err
}

// onlyReader hides the methods that io.Copy would use instead of Read.
type onlyReader struct{ io.Reader }

// lineEnd remembers whether the last byte that was written ends a line.
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
