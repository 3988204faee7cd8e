package imap

import (
	"encoding/base64"
	"errors"
	"fmt"

	wire "doublet/wire/imap"
)

// SASL is the client side of an authentication mechanism.
type SASL interface {
	// Mechanism returns the name, such as "PLAIN".
	Mechanism() string
	// Next answers a challenge. The first challenge is nil and requests the initial response, which is nil if the
	// mechanism waits for the server.
	Next(challenge []byte) ([]byte, error)
}

// PlainAuth implements PLAIN (RFC 4616).
type PlainAuth struct{ Authzid, User, Password string }

// Mechanism returns "PLAIN".
func (PlainAuth) Mechanism() string { return "PLAIN" }

// Next returns the only message of PLAIN.
func (p PlainAuth) Next([]byte) ([]byte, error) {
	return []byte(p.Authzid + "\x00" + p.User + "\x00" + p.Password), nil
}

// Login sends LOGIN. The known capabilities stay, unless the response lists others: see Capability.
func (c *Client) Login(user, password string) error {
	_, err := c.Do(&wire.Command{Name: "LOGIN", Args: &wire.Login{User: user, Password: password}}, nil)
	return err
}

// Capability requests and returns the capabilities.
func (c *Client) Capability() ([]string, error) {
	_, err := c.Do(&wire.Command{Name: "CAPABILITY"}, nil)
	return c.caps, err
}

// Authenticate sends AUTHENTICATE with a mechanism. If the server supports SASL-IR, the command includes the initial
// response.
func (c *Client) Authenticate(s SASL) error {
	initial, err := s.Next(nil)
	if err != nil {
		return fmt.Errorf("imap: %s: %w", s.Mechanism(), err)
	}
	cmd := &wire.Command{Tag: c.nextTag(), Name: "AUTHENTICATE", Args: &wire.Authenticate{Mechanism: s.Mechanism()}}
	withInitial := initial != nil && c.Has("SASL-IR")
	if withInitial {
		cmd.Args = &wire.Authenticate{Mechanism: s.Mechanism(), Initial: initial, HasInitial: true}
		initial = nil
	}
	if err := c.send(cmd); err != nil {
		return fmt.Errorf("imap: AUTHENTICATE: %w", err)
	}
	var failed error
	for {
		r, err := c.read()
		if err != nil {
			return fmt.Errorf("imap: AUTHENTICATE: %w", err)
		}
		switch {
		case r.Kind == wire.Tagged && r.Tag == cmd.Tag:
			return errors.Join(failed, c.status(cmd, r))
		case r.Kind != wire.Continuation:
			continue
		}
		answer := initial
		initial = nil
		if answer == nil {
			answer, failed = c.answer(s, r.Text)
		}
		line := "*" // cancels the exchange
		if failed == nil {
			line = base64.StdEncoding.EncodeToString(answer)
		}
		if err := c.write([]byte(line + "\r\n")); err != nil {
			return fmt.Errorf("imap: AUTHENTICATE: %w", err)
		}
	}
}

func (c *Client) answer(s SASL, text string) ([]byte, error) {
	challenge, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("imap: challenge: %w", err)
	}
	if challenge == nil {
		challenge = []byte{}
	}
	return s.Next(challenge)
}
