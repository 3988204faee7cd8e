package forward

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"doublet/env"
	"doublet/serve/listen"
)

// carry copies bytes between the client and the home until one of them closes, or this server stops. It sends m.Input
// first, and frees m. It sends and receives at the same time, because a home whose output nobody reads does not read
// its input. If the mail file moves, the home returns the session; carry then returns it, and the connection stays
// open.
func (f *Follower) carry(c *listen.Conn, x *Session, m *Moved) (*Moved, error) {
	defer m.free()
	defer x.End()
	x.s.now.Add(1)
	defer x.s.now.Add(-1)
	socket, more, err := c.Lend()
	if err != nil {
		return nil, err
	}
	k := &carrier{f: f, x: x, c: c, out: toClient{socket: socket, atEnd: true}}
	k.start(m, more)
	ended := make(chan struct{})
	x.s.env.Go("forward", func() {
		select {
		case <-c.Closing():
			_ = x.stream.Close()
		case <-ended:
		}
	})
	moved, err := k.copyOut()
	close(ended)
	if moved != nil && err == nil {
		return moved, c.Regain()
	}
	if err != nil {
		err = k.lost(err)
	}
	_ = k.out.socket.Close()
	_ = x.stream.Close() // the home may have stopped reading
	<-k.in.gone
	return nil, err
}

// carrier copies the bytes of one session.
type carrier struct {
	f   *Follower
	x   *Session
	c   *listen.Conn
	out toClient
	in  *fromClient
	// moving is set after frameMoving.
	moving bool
}

// start begins to copy the client's input: first m.Input, which it frees, and more, then the rest from the socket.
func (k *carrier) start(m *Moved, more []byte) {
	in := &fromClient{socket: k.out.socket, silence: silences * k.f.Silence, gone: make(chan struct{})}
	k.in = in
	k.x.s.env.Go("forward", func() {
		defer close(in.gone)
		in.err = k.copyIn(in, m, more)
		if in.err == nil && in.paused() {
			return
		}
		_ = k.x.stream.CloseWrite()
		if in.err != nil {
			_ = k.x.stream.Close()
		}
	})
}

// copyIn copies the client's input to the home until it ends, the client has been silent for too long, or stop pauses
// it. It returns nil then, and otherwise the error of the client or of the home.
func (k *carrier) copyIn(in *fromClient, m *Moved, more []byte) error {
	if len(m.Input) > 0 {
		if _, err := k.x.stream.Write(m.Input); err != nil {
			return err
		}
		m.Input = nil
		m.free()
	}
	if len(more) > 0 {
		if _, err := k.x.stream.Write(more); err != nil {
			return err
		}
	}
	_, err := io.Copy(k.x.stream, in)
	if in.over {
		return nil
	}
	return err
}

// stop ends the copying of the client's input without losing any. The home must read the stream meanwhile.
func (k *carrier) stop() error {
	if err := k.x.stream.SetDeadline(env.Deadline(moveWithin)); err != nil {
		return err
	}
	if err := k.in.pause(); err != nil {
		return err
	}
	<-k.in.gone
	if k.in.err != nil {
		return k.in.err
	}
	return k.out.socket.SetReadDeadline(time.Time{})
}

// copyOut copies the home's output to the client until the home closes the stream or returns the session.
func (k *carrier) copyOut() (*Moved, error) {
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
		switch {
		case kind == frameData:
			_, err = io.CopyN(&k.out, r, int64(n))
		case kind == frameState && k.moving:
			return readMoved(r, n, k.x.s.share(k.f.Account))
		case k.moving:
			err = fmt.Errorf("forward: frame %q of a session that moves", kind)
		case kind == frameMoving && n == 0:
			k.moving = true
			if err = k.stop(); err == nil {
				err = k.x.stream.CloseWrite()
			}
		case kind == frameDeflate:
			err = k.deflate(io.LimitReader(r, int64(n)))
		default:
			err = fmt.Errorf("forward: unexpected frame %q of %d bytes", kind, n)
		}
		if err != nil {
			return nil, err
		}
	}
}

// deflating is the content of a frameDeflate: the answers to the client, of which the client's member sends one.
type deflating struct {
	// On is sent before the compression begins, Full if too many connections are compressed, and Active if this one is.
	On, Full, Active []byte
}

// deflate compresses the client's connection from here on, in both directions, and reports the result to the home.
func (k *carrier) deflate(content io.Reader) error {
	b, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	var d deflating
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("forward: malformed frame %q: %w", frameDeflate, err)
	}
	if err := k.stop(); err != nil { // the client waits for the answer
		return err
	}
	if err := k.x.stream.SetDeadline(time.Time{}); err != nil {
		return err
	}
	result, err := k.compress(&d)
	if err == nil {
		_, err = k.x.stream.Write([]byte{result})
	}
	if err == nil {
		k.start(&Moved{}, nil)
	}
	return err
}

// compress sends the client the answer to its command, and compresses the connection if it can. result is the answer
// to frameDeflate.
func (k *carrier) compress(d *deflating) (result byte, err error) {
	switch {
	case k.c.Compressed():
		_, err = k.out.Write(d.Active)
		return isDeflated, err
	case k.c.CompressedFull():
		_, err = k.out.Write(d.Full)
		return notDeflated, err
	}
	if _, err := k.out.Write(d.On); err != nil {
		return 0, err
	}
	if err := k.c.Compress(); err != nil {
		return 0, err
	}
	k.out.socket = k.c.Conn
	return isDeflated, nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// lost sends Bye to the client, unless that would be in the middle of a line.
func (k *carrier) lost(err error) error {
	if k.out.atEnd && k.f.Bye != "" {
		_ = k.out.socket.SetWriteDeadline(env.Deadline(farewell))
		_, _ = io.WriteString(k.out.socket, k.f.Bye)
	}
	return err
}

// onlyReader hides the methods that io.Copy would use instead of Read.
type onlyReader struct{ io.Reader }

const (
	// silences is the number of Follower.Silence for which a client may be silent: the home ends the session earlier,
	// with an explanation.
	silences = 3
	// writeWithin is the time in which a client must read what is sent to it.
	writeWithin = 5 * time.Minute
)

// armed is a deadline that is set again only when a part of its time has passed.
type armed struct{ next time.Time }

func (a *armed) set(within time.Duration, set func(time.Time) error) error {
	now := env.Deadline(0)
	if now.Before(a.next) {
		return nil
	}
	a.next = now.Add(within / 8)
	return set(env.Deadline(within + within/8))
}

// fromClient reads the client's input.
type fromClient struct {
	socket  net.Conn
	silence time.Duration
	// over reports that Read failed with a timeout.
	over bool
	// gone is closed when copying has ended. err is its error, see copyIn.
	gone chan struct{}
	err  error

	mu       sync.Mutex // guards the fields below
	stopped  bool
	deadline armed
}

// Read implements io.Reader.
func (i *fromClient) Read(p []byte) (int, error) {
	if err := i.arm(); err != nil {
		return 0, err
	}
	n, err := i.socket.Read(p)
	i.over = isTimeout(err)
	return n, err
}

func (i *fromClient) arm() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil // the deadline has passed
	}
	return i.deadline.set(i.silence, i.socket.SetReadDeadline)
}

// pause makes Read fail with a timeout.
func (i *fromClient) pause() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	return i.socket.SetReadDeadline(time.Unix(1, 0))
}

func (i *fromClient) paused() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// toClient writes to the client. atEnd records whether the last byte written ended a line.
type toClient struct {
	socket   net.Conn
	deadline armed
	atEnd    bool
}

// Write implements io.Writer.
func (o *toClient) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	o.atEnd = p[len(p)-1] == '\n'
	if err := o.deadline.set(writeWithin, o.socket.SetWriteDeadline); err != nil {
		return 0, err
	}
	return o.socket.Write(p)
}
