package direct

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"doublet/bus"
)

// A connection carries frames: one byte that says what it is, three bytes of length, big-endian, and
// that many bytes. The first frame says what the connection is for.
const (
	frameLink    = 'L' // dialler: a link is to stand; greeting
	frameOpen    = 'S' // dialler: a stream is to be opened; verb and header
	frameWelcome = 'W' // acceptor: so be it; greeting for a link, empty for a stream
	frameRefuse  = 'R' // acceptor: no; in a stream, from either side: failed. Code and text
	framePing    = 'P' // on a link, dialler: eight bytes
	framePong    = 'p' // on a link, acceptor: the same bytes
	frameData    = 'D' // in a stream
	frameEnd     = 'E' // in a stream: no more comes from this side
)

const (
	frameHead = 4
	// maxFrame bounds the body of any frame, maxData what one frame of a stream carries.
	maxFrame = 64 << 10
	maxData  = 32 << 10
)

var errFrame = errors.New("bus: a frame that is none")

// head reads the head of the next frame. An error in its middle takes nothing: after a deadline another
// attempt goes on.
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

// frame reads the next frame whole.
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

// appendHead appends the head of a frame of n bytes.
func appendHead(to []byte, kind byte, n int) []byte {
	return append(to, kind, byte(n>>16), byte(n>>8), byte(n))
}

func appendFrame(to []byte, kind byte, body []byte) []byte {
	return append(appendHead(to, kind, len(body)), body...)
}

// greeting is what each side of a link says of itself. A later version may append to it.
type greeting struct {
	version  uint8
	instance uint64
	grant    bus.Grant // what it takes from the other side at one time
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

// words are two byte strings of which the first is short: verb and header, code and text.
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
