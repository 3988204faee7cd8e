// Package websocket implements the grammar of WebSocket (RFC 6455): the fields of the opening handshake, frames, and
// messages joined from frames. It manages no connections: the caller reads from one with a Reader and writes the
// results of Append. It supports no extensions.
//
// Implements: RFC 6455 §5 Data framing
package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Opcode is the type of a frame (RFC 6455 section 5.2).
type Opcode byte

// The opcodes.
const (
	Continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

func (o Opcode) control() bool { return o >= Close }

// Close codes (RFC 6455 section 7.4.1).
const (
	Normal      = 1000
	GoingAway   = 1001
	Protocol    = 1002
	Unsupported = 1003
	NoStatus    = 1005 // stands for a Close frame without a code; it is never sent
	Malformed   = 1007
	Policy      = 1008
	TooBig      = 1009
	Internal    = 1011
	TryAgain    = 1013
)

// Error is the reason to close a connection, with the code to send to the peer.
type Error struct {
	Code   int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("websocket: %s (%d)", e.Reason, e.Code) }

// maxControl is the maximum payload of a control frame, maxHeader the maximum length of a frame's header.
const (
	maxControl = 125
	maxHeader  = 14
)

// Append appends a complete message or a control frame, as a server sends it.
func Append(dst []byte, op Opcode, payload []byte) []byte {
	return append(header(dst, op, len(payload), 0), payload...)
}

// AppendMasked is Append for a client. mask must be new and unpredictable (section 5.3).
func AppendMasked(dst []byte, op Opcode, payload []byte, mask [4]byte) []byte {
	dst = append(header(dst, op, len(payload), 0x80), mask[:]...)
	at := len(dst)
	dst = append(dst, payload...)
	cipher(dst[at:], mask, 0)
	return dst
}

// AppendHeader appends the header of a server's frame with n bytes of payload.
func AppendHeader(dst []byte, op Opcode, n int) []byte { return header(dst, op, n, 0) }

func header(dst []byte, op Opcode, n int, masked byte) []byte {
	dst = append(dst, 0x80|byte(op))
	switch {
	case n <= maxControl:
		return append(dst, masked|byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, masked|126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, masked|127), uint64(n))
}

// AppendClose appends a Close frame, as a server sends it. A reason that is too long is truncated.
func AppendClose(dst []byte, code int, reason string) []byte {
	reason = reason[:min(len(reason), maxControl-2)]
	for !utf8.ValidString(reason) {
		reason = reason[:len(reason)-1]
	}
	return Append(dst, Close, append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...))
}

// ParseClose parses the payload of a Close frame. Without a code, code is NoStatus.
func ParseClose(payload []byte) (code int, reason string, err error) {
	if len(payload) == 0 {
		return NoStatus, "", nil
	}
	if len(payload) == 1 {
		return 0, "", &Error{Protocol, "half a close code"}
	}
	code = int(binary.BigEndian.Uint16(payload))
	switch {
	case code < 1000, code >= 5000, code >= 1004 && code <= 1006, code >= 1015 && code < 3000:
		return 0, "", &Error{Protocol, "a close code that must not be sent"}
	case !utf8.Valid(payload[2:]):
		return 0, "", &Error{Malformed, "a close reason that is not UTF-8"}
	}
	return code, string(payload[2:]), nil
}

// cipher masks or unmasks b, which starts at offset in the payload.
func cipher(b []byte, mask [4]byte, offset int) {
	for i := range b {
		b[i] ^= mask[(offset+i)&3]
	}
}

// key is the constant for computing the server's answer (section 1.3).
const key = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// Accept returns the Sec-WebSocket-Accept for a client's Sec-WebSocket-Key.
//
// Implements: RFC 6455 §4.2.2 Server's opening handshake
func Accept(clientKey string) string {
	sum := sha1.Sum([]byte(clientKey + key))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Errors of an opening handshake.
var (
	ErrNoUpgrade = errors.New("websocket: the request does not ask for the protocol")
	ErrVersion   = errors.New("websocket: only version 13 is spoken")
	ErrKey       = errors.New("websocket: Sec-WebSocket-Key is not 16 octets in base64")
	ErrProtocol  = errors.New("websocket: the subprotocol is not offered")
)

// CheckUpgrade checks a client's opening handshake, and that the client offers the subprotocol.
//
// Implements: RFC 6455 §4.2.1 Reading the client's opening handshake
func CheckUpgrade(r *http.Request, protocol string) error {
	h := r.Header
	switch {
	case r.Method != http.MethodGet, !r.ProtoAtLeast(1, 1), r.ProtoMajor != 1, !listed(h, "Connection", "upgrade"),
		!listed(h, "Upgrade", "websocket"):
		return ErrNoUpgrade
	case len(h.Values("Sec-Websocket-Version")) != 1 || h.Get("Sec-Websocket-Version") != "13":
		return ErrVersion
	}
	k := h.Values("Sec-Websocket-Key")
	if len(k) != 1 {
		return ErrKey
	}
	if raw, err := base64.StdEncoding.DecodeString(k[0]); err != nil || len(raw) != 16 {
		return ErrKey
	}
	for _, line := range h.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(p) == protocol {
				return nil
			}
		}
	}
	return ErrProtocol
}

// listed reports whether a comma-separated field contains a token, ignoring case.
func listed(h http.Header, field, token string) bool {
	for _, line := range h.Values(field) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}
