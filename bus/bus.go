// Package bus carries messages between the servers of a cluster: requests with an answer, word to
// everybody, probes, and streams for what is large or lasts. A server is who its certificate says;
// what comes from anybody else, or from one who is a member no more, is refused.
//
// The wings: bus/embedded runs a NATS server in this process whose routes lead to the mates,
// bus/external uses a NATS cluster that stands elsewhere, bus/memory joins servers of one process
// for tests and the simulation; bus/bustest holds all three to the same conduct. bus/pki keeps the
// cluster's authority, the certificates and the tokens by which servers join.
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

// ServerID names a server: the UNID of its server document, which stands in its certificate.
type ServerID = note.UNID

// Limits of what is sent, in bytes.
const (
	// MaxBody bounds the body of a request, of its answer and of a broadcast.
	MaxBody = 256 << 10
	// MaxHeader bounds the header of a stream.
	MaxHeader = 32 << 10
	// MaxVerb bounds a verb.
	MaxVerb = 64
	// maxText bounds the text of a refusal.
	maxText = 2 << 10
)

// Handler answers a request, or hears a broadcast (nobody gets its answer then). It may be called
// any number of times at once. body belongs to it. ctx ends when whoever asks has no more time, is gone, or
// this bus closes. An error of Refuse reaches the asker with its code, any other with CodeFailed.
type Handler func(ctx context.Context, from ServerID, body []byte) ([]byte, error)

// StreamHandler serves a stream. When it returns nil the other side reads to the end of what was
// written; an error reaches the other side's Read as a *RemoteError.
type StreamHandler func(ctx context.Context, from ServerID, header []byte, s Stream) error

// Stream is a two-way stream of bytes between two servers. One goroutine may read while another writes.
type Stream interface {
	// Read gives io.EOF only where the other side has said that no more comes; where the connection
	// was lost or the other side gave up, it is an error that is ErrNoAnswer, and where its handler failed,
	// a *RemoteError.
	io.Reader
	io.Writer
	// CloseWrite says that no more comes from this side.
	CloseWrite() error
	// Close gives up what has not been read and written. Where both sides have ended it takes nothing
	// away from the other.
	io.Closer
	// The deadlines are those of net.Conn. The bus in memory has none.
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Bus is one server's end of the bus.
type Bus interface {
	// Self is this server.
	Self() ServerID
	// SetMembers says who the members are. This server itself may be among them. Whoever is not any more is
	// cut off at once, and what comes from him is refused.
	SetMembers(members []Member)
	// Peers tells about every other member, in order of id.
	Peers() []PeerState
	// Handle and HandleStream say who answers a verb: lower-case letters, digits, dots and hyphens. They are
	// called before SetMembers; the same verb twice is a mistake in the program and panics.
	Handle(verb string, fn Handler)
	HandleStream(verb string, fn StreamHandler)
	// Request asks a server. It waits for a credit first: a mate that is slow gets no more than it can
	// take. An error is one of ErrNoServer, ErrNoAnswer, ErrRefused (a *RemoteError), ErrTooBig, ErrClosed;
	// only after ErrNoAnswer, and where the handler itself refused, may something have been done. A ctx that
	// ended is in the error's chain.
	Request(ctx context.Context, to ServerID, verb string, body []byte) ([]byte, error)
	// Broadcast sends to every member that is connected. It does not wait, and nothing tells whether and
	// in what order it arrives.
	Broadcast(verb string, body []byte) error
	// Probe asks a server for a sign of life, past all other traffic, and says how long that took.
	Probe(ctx context.Context, to ServerID) (time.Duration, error)
	// Stream opens a stream; ctx is about the opening only. The errors are those of Request.
	Stream(ctx context.Context, to ServerID, verb string, header []byte) (Stream, error)
	// Close ends everything and waits for handlers to return.
	Close() error
}

// Key is the SHA-256 of the public key (SubjectPublicKeyInfo) in a server's certificate.
type Key [32]byte

// String prints 64 hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey reads what String prints.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != hex.EncodedLen(len(k)) {
		return k, fmt.Errorf("a key is 64 hex digits, not %q", s)
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return Key{}, fmt.Errorf("a key is 64 hex digits, not %q", s)
	}
	return k, nil
}

// Member is a server of the cluster as the others know it.
type Member struct {
	ID   ServerID
	Name string
	// Key is the key that its certificate must have: who holds the authority's key, and is a member no
	// more, cannot pass for another.
	Key Key
	// Route is where its NATS server takes routes, Direct where it takes links, streams and those who
	// join: host:port each. Route is empty where the cluster uses an external NATS.
	Route, Direct string
}

type memberText struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Key    string `json:"key"`
	Route  string `json:"route,omitempty"`
	Direct string `json:"direct,omitempty"`
}

// MarshalJSON writes id and key in hex.
func (m Member) MarshalJSON() ([]byte, error) {
	return json.Marshal(memberText{m.ID.String(), m.Name, m.Key.String(), m.Route, m.Direct})
}

// UnmarshalJSON reads what MarshalJSON wrote.
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

// PeerState is what this server knows of another.
type PeerState struct {
	Member
	// Connected says that messages can be sent to it, Since from when on (or when that ended).
	Connected bool
	Since     time.Time
	// Heard is the last sign of life, RTT what the last probe took.
	Heard time.Time
	RTT   time.Duration
	// Instance is another number each time its process starts. Twin is set where two processes at one time
	// show its certificate: a data folder was copied. It says where they are.
	Instance uint64
	Twin     string
	// InFlight requests have no answer yet, Waiting ones no credit.
	InFlight, Waiting int
	// Error says why it is not connected.
	Error string
}

// The errors. What came of the request is certain but for ErrNoAnswer.
var (
	// ErrNoServer says that the server is no member, or cannot be reached: nothing was asked.
	ErrNoServer = errors.New("no such server on the bus")
	// ErrNoAnswer says that the server was asked and no answer came in time, or the connection was lost
	// before it came: it may have been handled, or may be yet.
	ErrNoAnswer = errors.New("no answer")
	// ErrRefused says that the other server refused; a *RemoteError says why.
	ErrRefused = errors.New("refused")
	// ErrTooBig says that a body is over MaxBody, or a header over MaxHeader.
	ErrTooBig = errors.New("too big for the bus")
	// ErrClosed says that this bus is closed.
	ErrClosed = errors.New("the bus is closed")
)

// The codes of refusals that the bus itself gives; handlers have their own.
const (
	CodeNoVerb   = "no verb"  // nobody handles that verb there
	CodeStranger = "stranger" // this server is no member to the other
	CodeBusy     = "busy"     // more in flight than the other granted
	CodeTooBig   = "too big"  // the answer is over MaxBody
	CodeFailed   = "failed"   // the handler failed
)

// RemoteError is the other server's refusal.
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

// Is makes it an ErrRefused, and an ErrTooBig where that is why.
func (e *RemoteError) Is(target error) bool {
	return target == ErrRefused || target == ErrTooBig && e.Code == CodeTooBig
}

// Code is the code of another server's refusal in err, or empty.
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

// Refuse makes the error by which a handler tells the asker code, which programs read, and text,
// which people do.
func Refuse(code, text string) error { return &refusal{code, text} }

// Refusal is code and text of a handler's error, as they travel.
func Refusal(err error) (code, text string) {
	code = CodeFailed
	var r *refusal
	var remote *RemoteError
	switch {
	case errors.As(err, &r):
		code = r.code
	case errors.As(err, &remote):
		code = remote.Code // handed on from a third server
	}
	return code[:min(len(code), MaxVerb)], err.Error()[:min(len(err.Error()), maxText)]
}

// CheckVerb refuses what is no verb.
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

// CheckBody refuses a body that is too big to be sent to a server.
func CheckBody(verb string, body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("%s: %d bytes, at most %d: %w", verb, len(body), MaxBody, ErrTooBig)
	}
	return nil
}
