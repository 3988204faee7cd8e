// Package bus carries messages between the servers of a cluster: requests with answers, broadcasts, probes, and streams
// for large or long-lived transfers. A server's certificate is its identity. Messages from servers that are not
// members, or are no longer members, are rejected.
//
// Implementations: bus/embedded runs a NATS server in this process, with routes to the other members (mates).
// bus/external uses an existing NATS cluster. bus/memory connects servers of one process, for tests and the simulation.
// bus/bustest tests all three for conformance. bus/pki holds the cluster's authority, the certificates, and the tokens
// with which servers join.
package bus

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"doublet/note"
)

// ServerID identifies a server. It is the UNID of the server's document, which its certificate contains.
type ServerID = note.UNID

// Limits on messages, in bytes.
const (
	// MaxBody is the maximum size of the body of a request, an answer or a broadcast.
	MaxBody = 256 << 10
	// MaxHeader is the maximum size of a stream's header.
	MaxHeader = 32 << 10
	// MaxVerb is the maximum length of a verb.
	MaxVerb = 64
	// maxText is the maximum length of the text of a refusal.
	maxText = 2 << 10
)

// Handler answers a request or processes a broadcast, for which the returned body is discarded. The bus may call it
// from any number of goroutines at once. The handler owns body. ctx ends when the asker's time is over, the asker is
// gone, or this bus closes. An error made by Refuse reaches the asker with its code; any other error reaches it with
// CodeFailed.
type Handler func(ctx context.Context, from ServerID, body []byte) ([]byte, error)

// StreamHandler serves a stream. If it returns nil, the other side can read everything that was written, then io.EOF.
// If it returns an error, the other side's Read returns a *RemoteError.
type StreamHandler func(ctx context.Context, from ServerID, header []byte, s Stream) error

// Stream is a bidirectional stream of bytes between two servers. One goroutine may read while another writes.
type Stream interface {
	// Read returns io.EOF only after the other side has ended its direction. If the connection was lost, or the other
	// side closed early, the error matches ErrNoAnswer. If the other side's handler failed, it is a *RemoteError.
	io.Reader
	io.Writer
	// CloseWrite ends this side's direction: the other side reads io.EOF after the data.
	CloseWrite() error
	// Close discards data that is not read or written yet, and interrupts a Read or Write of another goroutine. If both
	// sides have ended their directions, the other side loses nothing.
	io.Closer
	// The deadlines work as in net.Conn. bus/memory has none.
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Bus is one server's end of the bus.
type Bus interface {
	// Self returns the ID of this server.
	Self() ServerID
	// SetMembers sets the members of the cluster; the list may contain this server. Servers that are no longer in it
	// are disconnected at once, and their messages are rejected.
	SetMembers(members []Member)
	// Peers returns the state of every other member, sorted by ID.
	Peers() []PeerState
	// Handle and HandleStream register the handler of a verb, which has lower-case letters, digits, dots and hyphens.
	// A verb without a handler is refused with CodeNoVerb. They panic if the verb is invalid or already registered.
	Handle(verb string, fn Handler)
	HandleStream(verb string, fn StreamHandler)
	// Request sends a request and waits for the answer. It first waits for a credit, so that a slow mate never gets
	// more than it can take. An error matches one of ErrNoServer, ErrNoAnswer, ErrRefused (a *RemoteError), ErrTooBig
	// and ErrClosed. The request may have had an effect only after ErrNoAnswer, or if the handler itself refused. If
	// ctx ended, its error is in the chain.
	Request(ctx context.Context, to ServerID, verb string, body []byte) ([]byte, error)
	// Broadcast sends to every connected member and does not wait. Messages may be lost or arrive in any order.
	Broadcast(verb string, body []byte) error
	// Probe asks a server for a sign of life, ahead of all other traffic, and returns the round-trip time.
	Probe(ctx context.Context, to ServerID) (time.Duration, error)
	// Stream opens a stream. ctx covers only the opening. The errors are those of Request.
	Stream(ctx context.Context, to ServerID, verb string, header []byte) (Stream, error)
	// Close closes the bus and waits for handlers to return.
	Close() error
}

// Key is the SHA-256 of the public key (SubjectPublicKeyInfo) in a server's certificate.
type Key [32]byte

// String returns 64 hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey parses the format of String.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != hex.EncodedLen(len(k)) {
		return k, fmt.Errorf("key %q is not 64 hex digits", s)
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return Key{}, fmt.Errorf("key %q is not 64 hex digits", s)
	}
	return k, nil
}

// Member describes a server of the cluster to the others.
type Member struct {
	ID   ServerID
	Name string
	// Key is the key that the server's certificate must have. So a former member that holds the authority's key cannot
	// pass for another server.
	Key Key
	// Route is the address at which the server's NATS server accepts routes, as host:port. It is empty if the cluster
	// uses an external NATS. Direct is the address for links, streams and joining servers, as host:port.
	Route, Direct string
}

type memberText struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Key    string `json:"key"`
	Route  string `json:"route,omitempty"`
	Direct string `json:"direct,omitempty"`
}

// MarshalJSON writes ID and Key in hex.
func (m Member) MarshalJSON() ([]byte, error) {
	return json.Marshal(memberText{m.ID.String(), m.Name, m.Key.String(), m.Route, m.Direct})
}

// UnmarshalJSON reads the format of MarshalJSON.
func (m *Member) UnmarshalJSON(raw []byte) error {
	var t memberText
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	id, err := note.ParseUNID(t.ID)
	if err != nil {
		return err
	}
	key, err := ParseKey(t.Key)
	if err != nil {
		return err
	}
	*m = Member{ID: id, Name: t.Name, Key: key, Route: t.Route, Direct: t.Direct}
	return nil
}

// PeerState holds the state of another member, as this server knows it.
type PeerState struct {
	Member
	// Connected reports whether messages can be sent to it. Since is the time of the last change of Connected.
	Connected bool
	Since     time.Time
	// Heard is the time of the last sign of life. RTT is the round-trip time of the last probe.
	Heard time.Time
	RTT   time.Duration
	// Instance differs each time the server's process starts. Twin is set if two running processes show its
	// certificate, because somebody copied a data folder. It holds their addresses.
	Instance uint64
	Twin     string
	// InFlight counts requests without an answer, Waiting those without a credit.
	InFlight, Waiting int
	// Error is the reason why the server is not connected.
	Error string
}

// Errors. Except after ErrNoAnswer, the caller knows if the request was handled.
var (
	// ErrNoServer means that the server is not a member or cannot be reached. The request was not sent.
	ErrNoServer = errors.New("no such server on the bus")
	// ErrNoAnswer means that no answer came in time, or the connection was lost first. The request may have been
	// handled, or may be handled later.
	ErrNoAnswer = errors.New("no answer")
	// ErrRefused means that the other server rejected the request. A *RemoteError holds the reason.
	ErrRefused = errors.New("refused")
	// ErrTooBig means that a body is larger than MaxBody, or a header larger than MaxHeader.
	ErrTooBig = errors.New("too big for the bus")
	// ErrClosed means that this bus is closed.
	ErrClosed = errors.New("bus is closed")
)

// Codes of refusals by the bus itself. Handlers define their own.
const (
	CodeNoVerb   = "no verb"  // no handler for the verb
	CodeStranger = "stranger" // this server is not a member for the other
	CodeBusy     = "busy"     // more requests in flight than granted
	CodeTooBig   = "too big"  // the answer is larger than MaxBody
	CodeFailed   = "failed"   // the handler failed
)

// RemoteError holds a refusal by another server.
type RemoteError struct {
	Server ServerID
	Verb   string
	Code   string
	Text   string
}

func (e *RemoteError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("server %s, %s: %s", e.Server, e.Verb, e.Code)
	}
	return fmt.Sprintf("server %s, %s: %s", e.Server, e.Verb, e.Text)
}

// Is matches ErrRefused, and also ErrTooBig if the code is CodeTooBig.
func (e *RemoteError) Is(target error) bool {
	return target == ErrRefused || target == ErrTooBig && e.Code == CodeTooBig
}

// Code returns the code of the RemoteError in err, or "".
func Code(err error) string {
	var remote *RemoteError
	if errors.As(err, &remote) {
		return remote.Code
	}
	return ""
}

// refusal is a handler's error with a code.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return r.text }

// Refuse makes an error for a handler to return. Programs read the code, people read the text.
func Refuse(code, text string) error { return &refusal{code, text} }

// Refusal returns code and text of a handler's error for transmission, cut to MaxVerb and maxText bytes.
func Refusal(err error) (code, text string) {
	code = CodeFailed
	var r *refusal
	var remote *RemoteError
	switch {
	case errors.As(err, &r):
		code = r.code
	case errors.As(err, &remote):
		code = remote.Code // forwarded from a third server
	}
	return code[:min(len(code), MaxVerb)], err.Error()[:min(len(err.Error()), maxText)]
}

// CheckVerb returns an error if verb is not valid.
func CheckVerb(verb string) error {
	bad := verb == "" || len(verb) > MaxVerb
	for i := range len(verb) {
		c := verb[i]
		bad = bad || !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-')
	}
	if bad {
		return fmt.Errorf("bus: %q is no verb", verb)
	}
	return nil
}

// CheckBody returns an error that matches ErrTooBig if body is larger than MaxBody.
func CheckBody(verb string, body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("%s: %d bytes, at most %d: %w", verb, len(body), MaxBody, ErrTooBig)
	}
	return nil
}
