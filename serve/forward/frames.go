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

// The home of a session sends its output to the client's member in frames, so that it can return the session. A frame
// is a kind, a length of 4 bytes, and as many bytes of content. The client's input in the other direction is not
// framed.
const (
	// frameData holds bytes for the client.
	frameData = 'D'
	// frameMoving asks the other member to stop sending the client's input, and to close its side of the stream for
	// writing.
	frameMoving = 'M'
	// frameState ends the stream. It holds the length of the door's state (4 bytes), the state, and the client's
	// unprocessed input.
	frameState = 'S'
)

const (
	frameHead = 5
	// maxFrame is the maximum size of one frame's data. maxState is the maximum size of a state with its input.
	maxFrame = 32 << 10
	maxState = 16 << 20
	// maxAhead is the maximum size of the client's unread input when a session moves.
	maxAhead = 4 << 20
	// moveWithin is the timeout to return a session, or to send its state.
	moveWithin = 30 * time.Second
)

// Moved is a session that moves to another member.
type Moved struct {
	// State is the state from which the door continues the session.
	State []byte
	// Input is the input from the client that no command has consumed.
	Input []byte
}

var frames = sync.Pool{New: func() any {
	b := make([]byte, 0, frameHead+maxFrame)
	return &b
}}

// writeFrames writes p as data frames.
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

// appendMoved appends a moving session, in the format of frameState.
func appendMoved(b []byte, m *Moved) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.State)))
	return append(append(b, m.State...), m.Input...)
}

// readFrameHead reads the kind and length of a frame. io.EOF means the end of the stream.
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

// handBack returns the session to the member that the client is connected to.
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

// sendState sends the new home the state from which a session continues.
func sendState(stream bus.Stream, state []byte) error {
	if err := stream.SetDeadline(env.Deadline(moveWithin)); err != nil {
		return err
	}
	_, err := stream.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(state))), state...))
	return err
}

// receiveState reads the state that sendState sent.
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
