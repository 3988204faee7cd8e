package direct

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"doublet/bus"
)

// A connection carries frames: one byte of type, three bytes of length (big-endian), and the body. The type of the
// first frame says if the connection is a link or carries streams.
const (
	frameLink    = 'L' // dialler: open a link; greeting
	frameOpen    = 'S' // dialler: open a stream; verb and header
	frameWelcome = 'W' // acceptor: accepted; greeting for a link, empty for a stream
	frameRefuse  = 'R' // acceptor: rejected; in a stream, from either side: failed. Code and text
	framePing    = 'P' // in a link, dialler: eight bytes
	framePong    = 'p' // in a link, acceptor: the same bytes
	frameData    = 'D' // in a stream
	frameEnd     = 'E' // in a stream: this side has ended
)

const (
	frameHead = 4
	// maxFrame is the maximum size of a frame's body, maxData that of the data in one frame of a stream.
	maxFrame = 64 << 10
	maxData  = 32 << 10
)

var errFrame = errors.New("bus: malformed frame")

// head reads the head of the next frame. If an error interrupts it, nothing is consumed, so the caller may retry after
// a deadline.
func head(r *bufio.Reader) (kind byte, n int, err error) {
	h, err := r.Peek(frameHead)
	if err != nil {
		return 0, 0, err
	}
	kind = h[0]
	n = int(h[1])<<16 | int(h[2])<<8 | int(h[3])
	if n > maxFrame {
		return 0, 0, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	_, err = r.Discard(frameHead)
	return kind, n, err
}

// frame reads the next frame with its body.
func frame(r *bufio.Reader) (kind byte, body []byte, err error) {
	kind, n, err := head(r)
	if err != nil || n == 0 {
		return kind, nil, err
	}
	body = make([]byte, n)
	if _, err = io.ReadFull(r, body); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return kind, body, err
}

// appendHead appends the head of a frame with n bytes of body.
func appendHead(to []byte, kind byte, n int) []byte {
	return append(to, kind, byte(n>>16), byte(n>>8), byte(n))
}

func appendFrame(to []byte, kind byte, body []byte) []byte {
	return append(appendHead(to, kind, len(body)), body...)
}

// greeting is the first message of each side of a link. Later versions may append fields.
type greeting struct {
	version  uint8
	instance uint64
	grant    bus.Grant // the maximum that it accepts from the other side at one time
}

const (
	version     = 1
	maxRequests = 1 << 16
	maxGrant    = 1 << 30
)

func (g greeting) append(to []byte) []byte {
	to = append(to, g.version)
	to = binary.BigEndian.AppendUint64(to, g.instance)
	to = binary.BigEndian.AppendUint32(to, uint32(g.grant.Requests))
	return binary.BigEndian.AppendUint32(to, uint32(g.grant.Bytes))
}

func parseGreeting(body []byte) (greeting, error) {
	if len(body) < 17 || body[0] == 0 {
		return greeting{}, fmt.Errorf("%w: a greeting of %d bytes", errFrame, len(body))
	}
	g := greeting{version: body[0], instance: binary.BigEndian.Uint64(body[1:])}
	requests, bytes := binary.BigEndian.Uint32(body[9:]), binary.BigEndian.Uint32(body[13:])
	if requests == 0 || requests > maxRequests || bytes > maxGrant {
		return greeting{}, fmt.Errorf("%w: a greeting that grants %d requests of %d bytes", errFrame, requests, bytes)
	}
	g.grant = bus.Grant{Requests: int(requests), Bytes: int64(bytes)}
	return g, nil
}

// appendWords appends two byte strings, of which the first is at most 255 bytes long: verb and header, or code and
// text.
func appendWords(to []byte, short string, long []byte) []byte {
	to = append(to, byte(len(short)))
	return append(append(to, short...), long...)
}

func parseWords(body []byte) (short string, long []byte, err error) {
	if len(body) == 0 || len(body) < 1+int(body[0]) || body[0] > bus.MaxVerb {
		return "", nil, fmt.Errorf("%w: words that are cut", errFrame)
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}
