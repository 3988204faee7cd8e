package scram

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Server is the server's side of one exchange: two calls of Next, with the client's first and
// final message.
type Server struct {
	lookup  func(user string) (Credentials, error)
	nonce   string
	step    int
	user    string
	authzid string
	gs2     string // header, as the client must repeat it
	auth    string // AuthMessage up to the client's final message
	creds   Credentials
	done    bool
}

// NewServer begins an exchange. nonce is fresh randomness, at least 18 bytes in base64 or another
// printable form without comma. lookup is called once, with the prepared user name. It must answer
// for users who do not exist with Fake, in the same time: an error is for failures of the look-up
// itself, and ends the exchange with that error.
func NewServer(lookup func(user string) (Credentials, error), nonce string) *Server {
	return &Server{lookup: lookup, nonce: nonce}
}

// Username is the user who proved to have the password; empty before.
func (s *Server) Username() string {
	if !s.done {
		return ""
	}
	return s.user
}

// Authzid is the identity that the user asks to act as, empty for their own. The caller decides
// whether they may.
func (s *Server) Authzid() string {
	if !s.done {
		return ""
	}
	return s.authzid
}

// Next takes the client's message and returns what to answer. done says that the client is who it
// says; out is then the server's signature, which goes out with the success. After an error the
// exchange is over; ErrProof looks the same for a wrong password and an unknown user.
func (s *Server) Next(in []byte) (out []byte, done bool, err error) {
	step := s.step
	s.step = 2 // an error is final
	if len(in) > maxMessage {
		return nil, false, fmt.Errorf("%w: too long", ErrSyntax)
	}
	switch step {
	case 0:
		if out, err = s.first(string(in)); err == nil {
			s.step = 1
		}
		return out, false, err
	case 1:
		out, err = s.final(string(in))
		s.done = err == nil
		return out, s.done, err
	}
	return nil, false, fmt.Errorf("%w: exchange is over", ErrSyntax)
}

// first: gs2-header client-first-message-bare.
func (s *Server) first(in string) ([]byte, error) {
	flag, rest, ok := strings.Cut(in, ",")
	authz, bare, ok2 := strings.Cut(rest, ",")
	switch {
	case !ok || !ok2:
		return nil, fmt.Errorf("%w: no header", ErrSyntax)
	case strings.HasPrefix(flag, "p="):
		return nil, ErrChannelBinding
	case flag != "n" && flag != "y":
		// "y": the client could bind to the channel and saw that it is not offered here, which is so.
		return nil, fmt.Errorf("%w: bad channel binding flag", ErrSyntax)
	}
	if authz != "" {
		name, _, err := attribute(authz, 'a')
		if err == nil {
			s.authzid, err = unescapeName(name)
		}
		if err != nil {
			return nil, err
		}
		s.authzid = Prepare(s.authzid)
	}
	s.gs2 = in[:len(in)-len(bare)]
	if strings.HasPrefix(bare, "m=") {
		return nil, ErrExtension
	}
	name, rest, err := attribute(bare, 'n')
	if err != nil {
		return nil, err
	}
	clientNonce, rest, err := attribute(rest, 'r')
	if err != nil {
		return nil, err
	}
	if err := extensions(rest); err != nil {
		return nil, err
	}
	user, err := unescapeName(name)
	if err != nil {
		return nil, err
	}
	full := clientNonce + s.nonce
	if clientNonce == "" || s.nonce == "" || !validNonce(full) {
		return nil, fmt.Errorf("%w: bad nonce", ErrSyntax)
	}
	s.user = Prepare(user)
	if s.creds, err = s.lookup(s.user); err != nil {
		return nil, fmt.Errorf("scram: look up user: %w", err)
	}
	s.nonce = full
	out := "r=" + full + ",s=" + encode(s.creds.Salt) + ",i=" + strconv.Itoa(s.creds.Iterations)
	s.auth = bare + "," + out
	return []byte(out), nil
}

// final: channel-binding "," nonce ["," extensions] "," proof.
func (s *Server) final(in string) ([]byte, error) {
	i := strings.LastIndex(in, ",p=")
	if i < 0 {
		return nil, fmt.Errorf("%w: no proof", ErrSyntax)
	}
	proof, err := key32(in[i+3:])
	if err != nil {
		return nil, err
	}
	binding, rest, err := attribute(in[:i], 'c')
	if err != nil {
		return nil, err
	}
	nonce, rest, err := attribute(rest, 'r')
	if err != nil {
		return nil, err
	}
	if err := extensions(rest); err != nil {
		return nil, err
	}
	header, err := base64.StdEncoding.Strict().DecodeString(binding)
	if err != nil || string(header) != s.gs2 {
		return nil, fmt.Errorf("%w: channel binding does not repeat the header", ErrSyntax)
	}
	if subtle.ConstantTimeCompare([]byte(nonce), []byte(s.nonce)) != 1 {
		return nil, fmt.Errorf("%w: other nonce", ErrSyntax)
	}
	auth := s.auth + "," + in[:i]
	client := xor(proof, mac(s.creds.StoredKey[:], auth))
	stored := sha256.Sum256(client[:])
	if subtle.ConstantTimeCompare(stored[:], s.creds.StoredKey[:]) != 1 {
		return nil, ErrProof
	}
	sig := mac(s.creds.ServerKey[:], auth)
	return []byte("v=" + encode(sig[:])), nil
}
