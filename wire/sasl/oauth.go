package sasl

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Mechanisms that carry an OAuth 2.0 token.
const (
	OAuthBearer = "OAUTHBEARER"
	XOAuth2     = "XOAUTH2"
)

const separator = "\x01"

// ParseOAuthBearer parses a client's response: a GS2 header with the user, and key/value pairs, of which auth holds the
// bearer token. The user may be empty; the token then identifies the user.
//
// Implements: RFC 7628 §3.1 OAUTHBEARER
func ParseOAuthBearer(b []byte) (user, token string, err error) {
	header, pairs, ok := strings.Cut(string(b), separator)
	if !ok || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return "", "", ErrMalformed
	}
	// "n," or "y,", an authzid, ",": channel binding is not supported.
	flag, authz, _ := strings.Cut(header, ",")
	authz, ok = strings.CutSuffix(authz, ",")
	if !ok || flag != "n" && flag != "y" {
		return "", "", ErrMalformed
	}
	if authz != "" {
		if user, ok = strings.CutPrefix(authz, "a="); !ok || user == "" || strings.ContainsAny(user, ",") {
			return "", "", ErrMalformed
		}
		user = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(user)
	}
	token, err = bearer(pairs)
	return user, token, err
}

// ParseXOAuth2 parses a client's response of XOAUTH2, the predecessor of OAUTHBEARER that most clients still use:
// user=name, auth=Bearer token.
func ParseXOAuth2(b []byte) (user, token string, err error) {
	first, pairs, ok := strings.Cut(string(b), separator)
	if !ok || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return "", "", ErrMalformed
	}
	if user, ok = strings.CutPrefix(first, "user="); !ok || user == "" {
		return "", "", ErrMalformed
	}
	token, err = bearer(pairs)
	return user, token, err
}

// bearer finds the token among key/value pairs. Each pair ends with a separator, and another one ends the list.
func bearer(pairs string) (token string, err error) {
	list, ok := strings.CutSuffix(pairs, separator+separator)
	if !ok {
		return "", ErrMalformed
	}
	for pair := range strings.SplitSeq(list, separator) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return "", ErrMalformed
		}
		if !strings.EqualFold(key, "auth") {
			continue
		}
		scheme, t, _ := strings.Cut(value, " ")
		if token != "" || !strings.EqualFold(scheme, "Bearer") || !validToken(strings.TrimSpace(t)) {
			return "", ErrMalformed
		}
		token = strings.TrimSpace(t)
	}
	if token == "" {
		return "", ErrMalformed
	}
	return token, nil
}

// validToken reports whether s is a b64token of RFC 6750 section 2.1.
func validToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~+/=", c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}

type tokenServer struct {
	parse   func([]byte) (user, token string, err error)
	verify  func(user, token string) error
	refused string
	step    int
	err     error
}

// NewTokenServer returns the server side of OAUTHBEARER or XOAUTH2, depending on parse. verify returns an error unless
// the token is valid for the user. refused is the JSON that a rejected client gets; the exchange fails after the client
// has confirmed it.
//
// Implements: RFC 7628 §3.2.3 Completing an error message sequence
func NewTokenServer(parse func([]byte) (user, token string, err error), verify func(user, token string) error,
	refused string) Server {
	return &tokenServer{parse: parse, verify: verify, refused: refused}
}

func (s *tokenServer) Next(response []byte) ([]byte, bool, error) {
	switch s.step {
	case 0:
		if response == nil {
			s.step = 1
			return []byte{}, false, nil
		}
		fallthrough
	case 1:
		s.step = 3
		user, token, err := s.parse(response)
		if err != nil {
			return nil, false, err
		}
		if s.err = s.verify(user, token); s.err == nil {
			return nil, true, nil
		}
		s.step = 2
		return []byte(s.refused), false, nil
	case 2: // the content doesn't matter: a separator or nothing
		s.step = 3
		return nil, false, s.err
	}
	return nil, false, ErrUnexpected
}

type tokenClient struct{ mechanism, initial string }

// NewOAuthBearerClient returns the client side of OAUTHBEARER. user may be empty.
func NewOAuthBearerClient(user, token string) Client {
	header := "n,,"
	if user != "" {
		header = "n,a=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(user) + ","
	}
	return &tokenClient{OAuthBearer, header + separator + "auth=Bearer " + token + separator + separator}
}

// NewXOAuth2Client returns the client side of XOAUTH2.
func NewXOAuth2Client(user, token string) Client {
	return &tokenClient{XOAuth2, "user=" + user + separator + "auth=Bearer " + token + separator + separator}
}

func (c *tokenClient) Mechanism() string        { return c.mechanism }
func (c *tokenClient) Initial() ([]byte, error) { return []byte(c.initial), nil }

// Next confirms the server's error message.
func (c *tokenClient) Next([]byte) ([]byte, error) {
	if c.mechanism == OAuthBearer {
		return []byte(separator), nil
	}
	return []byte{}, nil
}
