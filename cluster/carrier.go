package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
)

// remote returns the Side of the replicas on a mate.
func (c *core) remote(mate note.UNID) *replica.Remote { return replica.NewRemote(&carrier{c, mate}) }

// carrier transports replication requests over the bus, or over a stream of the bus if they are too large for a
// request.
type carrier struct {
	*core
	mate note.UNID
}

// busRoom is the maximum size of a replication request on the bus, with its verb.
const busRoom = bus.MaxBody - 1024

func wrapVerb(verb string, body []byte) []byte {
	out := make([]byte, 0, 1+len(verb)+len(body))
	return append(append(append(out, byte(len(verb))), verb...), body...)
}

func unwrapVerb(b []byte) (verb string, body []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, errFormat
	}
	k := 1 + int(b[0])
	return string(b[1:k]), b[k:], nil
}

// Call implements replica.Carrier.
func (c *carrier) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	if len(body) > busRoom {
		return c.stream(ctx, verb, body)
	}
	answer, err := c.bus.Request(ctx, c.mate, verbReplica, wrapVerb(verb, body))
	if errors.Is(err, bus.ErrTooBig) {
		return c.stream(ctx, verb, body)
	}
	return answer, remoteError(err)
}

// remoteError converts an error answer into the replication error that it contains.
func remoteError(err error) error {
	var r *bus.RemoteError
	if !errors.As(err, &r) {
		return err
	}
	switch r.Code {
	case bus.CodeNoVerb, bus.CodeStranger, bus.CodeBusy: // an error of the bus itself
		return err
	}
	return &replica.RemoteError{Kind: r.Code, Text: r.Text}
}

// stream sends a request over a stream.
func (c *carrier) stream(ctx context.Context, verb string, body []byte) ([]byte, error) {
	s, err := c.bus.Stream(ctx, c.mate, verbCall, wrapVerb(verb, nil))
	if err != nil {
		return nil, remoteError(err)
	}
	defer s.Close()
	defer deadline(ctx, s)()
	if _, err := s.Write(body); err != nil {
		return nil, remoteError(err)
	}
	if err := s.CloseWrite(); err != nil {
		return nil, remoteError(err)
	}
	answer, err := readAll(s)
	return answer, remoteError(err)
}

// maxCall is the maximum size of a replication request: a note of the maximum size, and some overhead.
const maxCall = replica.MaxNote + 1<<20

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxCall+1))
	if err == nil && len(b) > maxCall {
		err = fmt.Errorf("%w: over %d bytes", replica.ErrTooLarge, maxCall)
	}
	return b, err
}

// deadline closes a stream if ctx ends before stop is called.
func deadline(ctx context.Context, s io.Closer) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.Close() })
}

// Get implements replica.Carrier.
func (c *carrier) Get(ctx context.Context, verb string, head []byte) (io.ReadCloser, error) {
	s, err := c.bus.Stream(ctx, c.mate, verbGet, wrapVerb(verb, head))
	if err != nil {
		return nil, remoteError(err)
	}
	if err := s.CloseWrite(); err != nil {
		return nil, errors.Join(remoteError(err), s.Close())
	}
	return &incoming{s, deadline(ctx, s)}, nil
}

// incoming is a stream from a mate. Its stop ends the watch on ctx.
type incoming struct {
	bus.Stream
	stop func() bool
}

func (i *incoming) Read(p []byte) (int, error) {
	k, err := i.Stream.Read(p)
	if err != nil && err != io.EOF {
		err = remoteError(err)
	}
	return k, err
}

func (i *incoming) Close() error {
	i.stop()
	return i.Stream.Close()
}

// Put implements replica.Carrier.
func (c *carrier) Put(ctx context.Context, verb string, head []byte, body io.Reader) error {
	s, err := c.bus.Stream(ctx, c.mate, verbPut, wrapVerb(verb, head))
	if err != nil {
		return remoteError(err)
	}
	defer s.Close()
	defer deadline(ctx, s)()
	if _, err := io.Copy(s, body); err != nil {
		return remoteError(err)
	}
	if err := s.CloseWrite(); err != nil {
		return remoteError(err)
	}
	_, err = readAll(s) // the other side sends no data and closes when it has received everything
	return remoteError(err)
}
