// Package sasl implements the state machines of simple SASL mechanisms (RFC 4422) for servers and clients, and the
// base64 lines in which SMTP, IMAP and POP3 carry them. It checks no passwords: the caller passes a function that does.
// Package scram implements SCRAM in the same form.
package sasl

import (
	"bytes"
	"encoding/base64"
	"errors"
	"unicode/utf8"
)

// MaxResponse is the maximum length in bytes of a decoded response in DecodeLine.
const MaxResponse = 9216

// Errors of a step. An error of the function that checks the password is returned unchanged.
var (
	// ErrMalformed means that the response does not follow the mechanism's grammar.
	ErrMalformed = errors.New("sasl: malformed response")
	// ErrCancelled means that the client cancelled with a line "*" (RFC 4954 section 4, RFC 9051 section 6.2.2).
	ErrCancelled = errors.New("sasl: cancelled by the client")
	// ErrUnexpected means that Next was called after the last step.
	ErrUnexpected = errors.New("sasl: unexpected step")
)

// Server is the server side of one exchange. Next processes the client's response and returns the next challenge, or
// done. The first response is nil without an initial response, and []byte{} for an empty one. A challenge with done is
// the mechanism's additional data on success.
type Server interface {
	Next(response []byte) (challenge []byte, done bool, err error)
}

// Client is the client side of one exchange. Initial returns the initial response, nil if the mechanism has none. Next
// answers a challenge.
type Client interface {
	Mechanism() string
	Initial() ([]byte, error)
	Next(challenge []byte) (response []byte, err error)
}

// DecodeLine decodes a response line: base64, "=" for an empty response, "*" for ErrCancelled. Without an error, the
// result is never nil.
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

// AppendLine appends b in base64, without a line end. With initial set, an empty b becomes "=", which distinguishes an
// empty initial response from none.
func AppendLine(dst, b []byte, initial bool) []byte {
	if initial && len(b) == 0 {
		return append(dst, '=')
	}
	return base64.StdEncoding.AppendEncode(dst, b)
}

// ParsePlain parses a PLAIN message: authzid NUL authcid NUL passwd, in UTF-8.
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

// NewPlainServer returns the server side of PLAIN. verify returns an error unless the password is correct and authcid
// may act as authzid (empty: as itself).
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

// NewLoginServer returns the server side of LOGIN, an old mechanism that clients still use. It accepts a user name as
// initial response.
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

// NewPlainClient returns the client side of PLAIN. authzid may be empty.
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

// NewLoginClient returns the client side of LOGIN.
func NewLoginClient(user, password string) Client {
	return &loginClient{[]string{user, password}}
}

func (c *loginClient) Mechanism() string { return "LOGIN" }

func (c *loginClient) Initial() ([]byte, error) { return nil, nil }

// Next returns the user name, then the password. It ignores the prompts, because they differ between servers.
func (c *loginClient) Next([]byte) ([]byte, error) {
	if len(c.words) == 0 {
		return nil, ErrUnexpected
	}
	w := c.words[0]
	c.words = c.words[1:]
	return []byte(w), nil
}
