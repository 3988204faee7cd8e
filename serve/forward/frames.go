package forward

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
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
	// frameDeflate asks the other member to compress the client's connection. It holds a deflating in JSON. It is sent
	// only if the hello announced it. The other member answers with one byte, isDeflated or notDeflated, before the
	// client's further input: a client sends none before it has the answer to its command.
	frameDeflate = 'C'
	// frameState ends the stream, after frameMoving. It holds the length of the door's state (4 bytes), the state, and
	// the client's unprocessed input.
	frameState = 'S'
)

// The answers to frameDeflate: the client's connection is compressed now, or it is not.
const (
	isDeflated  = '+'
	notDeflated = '-'
)

const (
	frameHead = 5
	// maxFrame is the maximum size of one frame's data. maxState is the maximum size of a state with its input.
	maxFrame = 32 << 10
	maxState = 28 << 20
	// maxAhead is the maximum size of the client's unread input when a session moves: more than the buffers of the
	// socket between the members hold (on Linux up to 10 MB), since the client may be within a large message.
	maxAhead = 16 << 20
	// moveWithin is the timeout to return a session, or to send its state.
	moveWithin = 30 * time.Second
)

var frames = sync.Pool{New: func() any {
	b := make([]byte, 0, frameHead+maxFrame)
	return &b
}}

// writeFrames writes p as frames of a kind.
func writeFrames(w io.Writer, kind byte, p []byte) (int, error) {
	buf := frames.Get().(*[]byte)
	defer frames.Put(buf)
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, maxFrame)
		b := append(appendFrameHead((*buf)[:0], kind, n), p[sent:sent+n]...)
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
