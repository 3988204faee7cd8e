package websocket

import (
	"encoding/binary"
	"io"
	"unicode/utf8"
)

// Reader reads messages from one side of a connection. A protocol violation by the peer is returned as *Error; other
// errors come from the source. After an error the connection is unusable.
type Reader struct {
	// Masked is set if the peer is a client. Clients mask their frames, servers do not.
	Masked bool
	// Max is the maximum size of a message in bytes.
	Max int
	// Room is called before a message takes more than little bytes of memory. If it returns false, the message is
	// rejected with TryAgain. nil means no limit.
	Room func(n int) bool

	message Opcode // opcode of the incomplete message: Text or Binary; else 0
	partial []byte // its fragments so far
}

// Pending reports whether a message is incomplete.
func (r *Reader) Pending() bool { return r.message != 0 }

// Next reads one message, or one control frame that comes before it or between its fragments. The payload is appended
// to buf[:0], if that has room, and is valid until the next call. A text message is complete and valid UTF-8.
//
// Implements: RFC 6455 §5.4 Fragmentation
// Implements: RFC 6455 §5.5 Control frames
// Implements: RFC 6455 §8.1 Handling of errors in UTF-8-encoded data
func (r *Reader) Next(src io.Reader, buf []byte) (Opcode, []byte, error) {
	for {
		op, fin, payload, err := r.frame(src, buf[:0])
		switch {
		case err != nil:
			return 0, nil, err
		case op.control():
			return op, payload, nil
		case op != Continuation && fin:
			return r.whole(op, payload)
		case op != Continuation:
			r.message, r.partial = op, append([]byte(nil), payload...)
			continue
		}
		r.partial = append(r.partial, payload...)
		if fin {
			op, payload = r.message, r.partial
			r.message, r.partial = 0, nil
			return r.whole(op, payload)
		}
	}
}

func (r *Reader) whole(op Opcode, payload []byte) (Opcode, []byte, error) {
	if op == Text && !utf8.Valid(payload) {
		return 0, nil, &Error{Malformed, "a text that is not UTF-8"}
	}
	return op, payload, nil
}

// wrong returns what is wrong with a frame that begins with these bytes, or "".
func (r *Reader) wrong(first, second byte) string {
	op, fin := Opcode(first&0x0f), first&0x80 != 0
	switch {
	case first&0x70 != 0:
		return "a reserved bit is set"
	case op > Binary && op < Close || op > Pong:
		return "an unknown opcode"
	case op.control() && (!fin || second&0x7f > maxControl):
		return "a control frame in fragments or too long"
	case op == Continuation && r.message == 0:
		return "a fragment of no message"
	case op != Continuation && !op.control() && r.message != 0:
		return "a message within a message"
	case (second&0x80 != 0) != r.Masked:
		return "a frame masked where it must not be, or not where it must"
	}
	return ""
}

// frame reads one frame and checks that it is allowed here.
func (r *Reader) frame(src io.Reader, buf []byte) (op Opcode, fin bool, payload []byte, err error) {
	var h [maxHeader]byte
	if _, err := io.ReadFull(src, h[:2]); err != nil {
		return 0, false, nil, err
	}
	op, fin = Opcode(h[0]&0x0f), h[0]&0x80 != 0
	masked, n := h[1]&0x80 != 0, uint64(h[1]&0x7f)
	if wrong := r.wrong(h[0], h[1]); wrong != "" {
		return 0, false, nil, &Error{Protocol, wrong}
	}
	if n, err = length(src, &h, n); err != nil {
		return 0, false, nil, err
	}
	if !op.control() && n > uint64(max(0, r.Max-len(r.partial))) {
		return 0, false, nil, &Error{TooBig, "a message over the limit"}
	}
	var mask [4]byte
	if masked {
		if _, err := io.ReadFull(src, mask[:]); err != nil {
			return 0, false, nil, unexpected(err)
		}
	}
	if payload, err = r.grow(src, buf, int(n)); err != nil {
		return 0, false, nil, unexpected(err)
	}
	cipher(payload, mask, 0)
	return op, fin, payload, nil
}

// length reads the longer forms of a length. The peer must use the shortest form (section 5.2).
func length(src io.Reader, h *[maxHeader]byte, n uint64) (uint64, error) {
	size := 0
	switch n {
	case 126:
		size = 2
	case 127:
		size = 8
	default:
		return n, nil
	}
	if _, err := io.ReadFull(src, h[:size]); err != nil {
		return 0, unexpected(err)
	}
	if size == 2 {
		n = uint64(binary.BigEndian.Uint16(h[:]))
	} else {
		n = binary.BigEndian.Uint64(h[:])
	}
	if n <= maxControl || size == 8 && n <= 0xffff || n >= 1<<63 {
		return 0, &Error{Protocol, "a length that is not in its shortest form"}
	}
	return n, nil
}

const (
	// step is the maximum amount of memory to allocate ahead of the data.
	step = 64 << 10
	// little is the amount of memory for which Room is not called.
	little = 4 << 10
)

// grow reads n bytes and allocates memory as they arrive.
func (r *Reader) grow(src io.Reader, buf []byte, n int) ([]byte, error) {
	for len(buf) < n {
		at := len(buf)
		more := min(n-at, max(step, at))
		if at+more+len(r.partial) > little && r.Room != nil && !r.Room(more) {
			return nil, &Error{TryAgain, "no memory for the message now"}
		}
		if cap(buf)-at < more {
			buf = append(make([]byte, 0, at+more), buf...)
		}
		buf = buf[:at+more]
		if _, err := io.ReadFull(src, buf[at:]); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// unexpected converts the end of input inside a frame to io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
