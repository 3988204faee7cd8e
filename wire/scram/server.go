package scram

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Server is the server side of one exchange. It needs two calls of Next: with the client's first and final message.
type Server struct {
	lookup  func(user string) ([]Credentials, error)
	nonce   string
	channel Channel
	bound   []byte // data of the binding that the client chose
	step    int
	user    string
	authzid string
	gs2     string // gs2-header, which the client must repeat
	auth    string // AuthMessage up to the client's final message
	creds   []Credentials
	matched int
	done    bool
}

// Channel describes the channel that carries the exchange, as the server sees it.
type Channel struct {
	// Plus is set if the mechanism is SCRAM-SHA-256-PLUS: the client must bind.
	Plus bool
	// Offered is set if the server offered SCRAM-SHA-256-PLUS. If a client that supports binding claims that it was not
	// offered, an attacker changed the offer (RFC 5802 section 6).
	Offered bool
	// Bindings holds the bindings of the channel.
	Bindings []Binding
}

// NewServer starts an exchange. nonce must be random: at least 18 bytes in base64 or another printable form without
// commas. lookup is called once, with the prepared user name. It returns the credentials of all the user's passwords,
// which must have the same salt and iterations, because the client gets only one of each. For an unknown user it must
// return Fake, in the same time. An error means that the lookup itself failed; it ends the exchange and is returned.
func NewServer(lookup func(user string) ([]Credentials, error), nonce string, c Channel) *Server {
	return &Server{lookup: lookup, nonce: nonce, channel: c}
}

// Matched returns the index of the credentials that the client proved, after success.
func (s *Server) Matched() int { return s.matched }

// Username returns the authenticated user; "" before success.
func (s *Server) Username() string {
	if !s.done {
		return ""
	}
	return s.user
}

// Authzid returns the identity that the user asks to act as, "" for their own. The caller must check the permission.
func (s *Server) Authzid() string {
	if !s.done {
		return ""
	}
	return s.authzid
}

// Next processes the client's message and returns the answer. done reports that the client is authenticated; out is
// then the server's signature, to send with the success. After an error the exchange is over. ErrProof is the same for
// a wrong password and an unknown user.
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

// authorize stores the identity to act as, if the client names one.
func (s *Server) authorize(authz string) error {
	if authz == "" {
		return nil
	}
	name, _, err := attribute(authz, 'a')
	if err != nil {
		return err
	}
	id, err := unescapeName(name)
	s.authzid = Prepare(id)
	return err
}

// clientFirst parses client-first-message-bare.
func clientFirst(bare string) (user, nonce string, err error) {
	if strings.HasPrefix(bare, "m=") {
		return "", "", ErrExtension
	}
	name, rest, err := attribute(bare, 'n')
	if err != nil {
		return "", "", err
	}
	nonce, rest, err = attribute(rest, 'r')
	if err != nil {
		return "", "", err
	}
	if err := extensions(rest); err != nil {
		return "", "", err
	}
	user, err = unescapeName(name)
	return user, nonce, err
}

// first processes gs2-header client-first-message-bare.
func (s *Server) first(in string) ([]byte, error) {
	flag, rest, ok := strings.Cut(in, ",")
	authz, bare, ok2 := strings.Cut(rest, ",")
	if !ok || !ok2 {
		return nil, fmt.Errorf("%w: no header", ErrSyntax)
	}
	if err := s.bind(flag); err != nil {
		return nil, err
	}
	if err := s.authorize(authz); err != nil {
		return nil, err
	}
	s.gs2 = in[:len(in)-len(bare)]
	user, clientNonce, err := clientFirst(bare)
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
	if len(s.creds) == 0 {
		return nil, ErrProof
	}
	s.nonce = full
	out := "r=" + full + ",s=" + encode(s.creds[0].Salt) + ",i=" + strconv.Itoa(s.creds[0].Iterations)
	s.auth = bare + "," + out
	return []byte(out), nil
}

// bind processes the flag of the header, which selects channel binding.
//
// Implements: RFC 5802 §6 Channel binding
func (s *Server) bind(flag string) error {
	name, wants := strings.CutPrefix(flag, "p=")
	switch {
	case wants && (name == "" || len(name) > maxName):
		return fmt.Errorf("%w: bad channel binding", ErrSyntax)
	case wants != s.channel.Plus:
		return fmt.Errorf("%w: the header is of the other mechanism", ErrSyntax)
	case flag == "y" && s.channel.Offered:
		return ErrChannelBinding
	case wants:
		for _, b := range s.channel.Bindings {
			if b.Name == name {
				s.bound = b.Data
				return nil
			}
		}
		return ErrChannelBinding
	case flag != "n" && flag != "y":
		return fmt.Errorf("%w: bad channel binding flag", ErrSyntax)
	}
	return nil
}

// final processes channel-binding "," nonce ["," extensions] "," proof.
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
	switch {
	case err != nil || len(header) < len(s.gs2) || string(header[:len(s.gs2)]) != s.gs2:
		return nil, fmt.Errorf("%w: channel binding does not repeat the header", ErrSyntax)
	case subtle.ConstantTimeCompare(header[len(s.gs2):], s.bound) != 1:
		return nil, ErrChannelBinding
	}
	if subtle.ConstantTimeCompare([]byte(nonce), []byte(s.nonce)) != 1 {
		return nil, fmt.Errorf("%w: other nonce", ErrSyntax)
	}
	auth := s.auth + "," + in[:i]
	key, ok := s.match(proof, auth)
	if !ok {
		return nil, ErrProof
	}
	sig := mac(key[:], auth)
	return []byte("v=" + encode(sig[:])), nil
}

// leastTries is the minimum number of credentials that match tries. It hides the number of a user's passwords, which is
// rarely larger, and the existence of the user.
const leastTries = 8

// match finds the credentials for a proof, and returns their server key. It always tries all, so the time does not
// depend on the match.
func (s *Server) match(proof [32]byte, auth string) (key [32]byte, ok bool) {
	found := 0
	for i := range max(len(s.creds), leastTries) {
		c := &s.creds[min(i, len(s.creds)-1)]
		client := xor(proof, mac(c.StoredKey[:], auth))
		stored := sha256.Sum256(client[:])
		fits := subtle.ConstantTimeCompare(stored[:], c.StoredKey[:])
		subtle.ConstantTimeCopy(fits, key[:], c.ServerKey[:])
		s.matched = subtle.ConstantTimeSelect(fits, min(i, len(s.creds)-1), s.matched)
		found |= fits
	}
	return key, found == 1
}
