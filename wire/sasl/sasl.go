// Package sasl holds the step machines of the simple SASL mechanisms (RFC 4422), for servers and
// clients, and the base64 lines in which SMTP, IMAP and POP3 carry them. It checks no password:
// the server side is handed a function that does. SCRAM has a room of its own with the same
// shape.
package sasl

import (
	"bytes"
	"encoding/base64"
	"errors"
	"unicode/utf8"
)

// MaxResponse is the longest response in bytes, decoded, that DecodeLine takes.
const MaxResponse = 9216

// What a step can fail with. An error of the function that checks the password is passed on as it
// is.
var (
	// ErrMalformed: the response does not follow the mechanism's grammar.
	ErrMalformed = errors.New("sasl: malformed response")
	// ErrCancelled: the client gave up with a line "*" (RFC 4954 §4, RFC 9051 §6.2.2).
	ErrCancelled = errors.New("sasl: cancelled by the client")
	// ErrUnexpected: a step after the last.
	ErrUnexpected = errors.New("sasl: unexpected step")
)

// Server is the server's side of one exchange. Next takes the client's response (nil at first
// when there is no initial response; an empty one is []byte{}) and gives the next challenge, or
// done. A challenge given together with done is the mechanism's additional data with success.
type Server interface {
	Next(response []byte) (challenge []byte, done bool, err error)
}

// Client is the client's side. Initial is the initial response, nil if the mechanism has none;
// Next answers a challenge.
type Client interface {
	Mechanism() string
	Initial() ([]byte, error)
	Next(challenge []byte) (response []byte, err error)
}

// DecodeLine decodes a response line: base64, "=" for an empty response, "*" for ErrCancelled.
// The result is never nil without an error.
func DecodeLine(line []byte) ([]byte, error) {
	switch {
	case len(line) == 1 && line[0] == '*':
		return nil, ErrCancelled
	case len(line) == 1 && line[0] == '=', len(line) == 0:
		return []byte{}, nil
	case base64.StdEncoding.DecodedLen(len(line)) > MaxResponse+2:
		return nil, ErrMalformed
	case bytes.ContainsAny(line, "\r\n"):
		return nil, ErrMalformed // the decoder would skip them
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(line)))
	n, err := base64.StdEncoding.Strict().Decode(out, line)
	if err != nil {
		return nil, ErrMalformed
	}
	return out[:n], nil
}

// AppendLine adds b in base64 to dst, without line end. initial writes an empty b as "=", which
// is how an initial response on the command line is told from none.
func AppendLine(dst, b []byte, initial bool) []byte {
	if initial && len(b) == 0 {
		return append(dst, '=')
	}
	return base64.StdEncoding.AppendEncode(dst, b)
}

// ParsePlain takes a PLAIN message apart: authzid NUL authcid NUL passwd, in UTF-8.
//
// Implements: RFC 4616 §2 PLAIN
func ParsePlain(b []byte) (authzid, authcid, password string, err error) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return "", "", "", ErrMalformed
	}
	j := bytes.IndexByte(b[i+1:], 0)
	if j < 0 {
		return "", "", "", ErrMalformed
	}
	zid, cid, pw := b[:i], b[i+1:i+1+j], b[i+j+2:]
	if len(cid) == 0 || len(pw) == 0 || bytes.IndexByte(pw, 0) >= 0 || !utf8.Valid(b) {
		return "", "", "", ErrMalformed
	}
	return string(zid), string(cid), string(pw), nil
}

type plainServer struct {
	verify func(authzid, authcid, password string) error
	asked  bool
	done   bool
}

// NewPlainServer is the server's PLAIN; verify says whether the password is right and authcid may
// act as authzid (empty: as itself).
func NewPlainServer(verify func(authzid, authcid, password string) error) Server {
	return &plainServer{verify: verify}
}

func (s *plainServer) Next(response []byte) ([]byte, bool, error) {
	if s.done {
		return nil, false, ErrUnexpected
	}
	if response == nil && !s.asked {
		s.asked = true
		return []byte{}, false, nil
	}
	s.done = true
	zid, cid, pw, err := ParsePlain(response)
	if err != nil {
		return nil, false, err
	}
	return nil, true, s.verify(zid, cid, pw)
}

type loginServer struct {
	verify func(user, password string) error
	step   int
	user   string
}

// NewLoginServer is the server's LOGIN, the undocumented old one that clients still use. A user
// name as initial response is taken.
//
// Implements: draft-murchison-sasl-login LOGIN
func NewLoginServer(verify func(user, password string) error) Server {
	return &loginServer{verify: verify}
}

func (s *loginServer) Next(response []byte) ([]byte, bool, error) {
	switch s.step {
	case 0:
		s.step = 1
		if response == nil {
			return []byte("Username:"), false, nil
		}
		fallthrough
	case 1:
		s.step = 2
		if !loginWord(response) {
			s.step = 3
			return nil, false, ErrMalformed
		}
		s.user = string(response)
		return []byte("Password:"), false, nil
	case 2:
		s.step = 3
		if !loginWord(response) {
			return nil, false, ErrMalformed
		}
		return nil, true, s.verify(s.user, string(response))
	}
	return nil, false, ErrUnexpected
}

func loginWord(b []byte) bool {
	return len(b) > 0 && bytes.IndexByte(b, 0) < 0 && utf8.Valid(b)
}

type plainClient struct{ authzid, user, password string }

// NewPlainClient is the client's PLAIN; authzid may be empty.
func NewPlainClient(authzid, user, password string) Client {
	return &plainClient{authzid, user, password}
}

func (c *plainClient) Mechanism() string { return "PLAIN" }

func (c *plainClient) Initial() ([]byte, error) {
	return []byte(c.authzid + "\x00" + c.user + "\x00" + c.password), nil
}

func (c *plainClient) Next([]byte) ([]byte, error) { return nil, ErrUnexpected }

type loginClient struct {
	words []string
}

// NewLoginClient is the client's LOGIN.
func NewLoginClient(user, password string) Client {
	return &loginClient{[]string{user, password}}
}

func (c *loginClient) Mechanism() string { return "LOGIN" }

func (c *loginClient) Initial() ([]byte, error) { return nil, nil }

// Next gives the user name, then the password, whatever the prompts say: servers differ in them.
func (c *loginClient) Next([]byte) ([]byte, error) {
	if len(c.words) == 0 {
		return nil, ErrUnexpected
	}
	w := c.words[0]
	c.words = c.words[1:]
	return []byte(w), nil
}
