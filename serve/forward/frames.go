package forward

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"doublet/bus"
	"doublet/env"
)

// What the home of a session writes to the member that the client is connected to is cut into frames, so that it can
// give the session back: a kind, a length of 4 bytes, and as many bytes. The other way goes as the client sends it.
const (
	// frameData brings bytes for the client.
	frameData = 'D'
	// frameMoving asks the other member to send no more of the client, and to end its side of the stream.
	frameMoving = 'M'
	// frameState ends the stream: a door's state, with its length of 4 bytes before it, then what the client had sent.
	frameState = 'S'
)

const (
	frameHead = 5
	// maxFrame bounds the data of one frame, maxState a state with the input behind it.
	maxFrame = 32 << 10
	maxState = 16 << 20
	// maxAhead bounds what a client sent that its session has not read when it moves.
	maxAhead = 4 << 20
	// moveWithin bounds the time in which a session is given back, or its state is sent.
	moveWithin = 30 * time.Second
)

// Moved is a session on its way to another member.
type Moved struct {
	// State is what the door needs to go on with the session.
	State []byte
	// Input is what the client has sent and no command has used.
	Input []byte
}

var frames = sync.Pool{New: func() any {
	b := make([]byte, 0, frameHead+maxFrame)
	return &b
}}

// writeFrames writes data as frames.
func writeFrames(w io.Writer, p []byte) (int, error) {
	buf := frames.Get().(*[]byte)
	defer frames.Put(buf)
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, maxFrame)
		b := append(appendFrameHead((*buf)[:0], frameData, n), p[sent:sent+n]...)
		if _, err := w.Write(b); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

func appendFrameHead(b []byte, kind byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), uint32(n))
}

// appendMoved appends a session that moves, in the form of a frameState's content.
func appendMoved(b []byte, m *Moved) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.State)))
	return append(append(b, m.State...), m.Input...)
}

// readFrameHead reads the begin of a frame. io.EOF means that no more comes.
func readFrameHead(r *bufio.Reader) (kind byte, n int, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	kind, size := head[0], binary.BigEndian.Uint32(head[1:])
	limit := uint32(maxFrame)
	if kind == frameState {
		limit = maxState
	}
	if size > limit {
		return 0, 0, fmt.Errorf("forward: a frame %q of %d bytes", kind, size)
	}
	return kind, int(size), nil
}

// readMoved reads the content of a frameState.
func readMoved(r io.Reader, n int) (*Moved, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	if n < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(n-4) {
		return nil, fmt.Errorf("forward: malformed state of a session, %d bytes", n)
	}
	state := 4 + int(binary.BigEndian.Uint32(b))
	return &Moved{State: b[4:state:state], Input: b[state:]}, nil
}

// handBack gives the session back to the member that the client is connected to.
func (x *carried) handBack(m *Moved) error {
	if len(m.State)+len(m.Input) > maxState-maxAhead {
		return fmt.Errorf("forward: the state of a session has %d bytes", len(m.State)+len(m.Input))
	}
	if err := x.SetDeadline(env.Deadline(moveWithin)); err != nil {
		return err
	}
	if _, err := x.Stream.Write(appendFrameHead(nil, frameMoving, 0)); err != nil {
		return err
	}
	ahead, err := io.ReadAll(io.LimitReader(x.Stream, maxAhead+1))
	if err != nil {
		return fmt.Errorf("forward: reading what the client sent ahead: %w", err)
	}
	if len(ahead) > maxAhead {
		return fmt.Errorf("forward: the client sent more than %d bytes ahead", maxAhead)
	}
	content := appendMoved(nil, &Moved{State: m.State, Input: append(m.Input[:len(m.Input):len(m.Input)], ahead...)})
	_, err = x.Stream.Write(append(appendFrameHead(nil, frameState, len(content)), content...))
	return err
}

// sendState brings a home the state that a session goes on from.
func sendState(stream bus.Stream, state []byte) error {
	if err := stream.SetDeadline(env.Deadline(moveWithin)); err != nil {
		return err
	}
	_, err := stream.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(state))), state...))
	return err
}

// receiveState reads what sendState sent.
func receiveState(stream bus.Stream) ([]byte, error) {
	if err := stream.SetReadDeadline(env.Deadline(moveWithin)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxState {
		return nil, fmt.Errorf("forward: the state of a session has %d bytes", n)
	}
	state := make([]byte, n)
	if _, err := io.ReadFull(stream, state); err != nil {
		return nil, err
	}
	return state, stream.SetReadDeadline(time.Time{})
}
