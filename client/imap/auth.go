package imap

import (
	"encoding/base64"
	"errors"
	"fmt"

	wire "doublet/wire/imap"
)

// SASL is the client's side of an authentication mechanism.
type SASL interface {
	// Mechanism is its name, "PLAIN".
	Mechanism() string
	// Next answers a challenge; the first one is nil and asks for the initial response: nil where the
	// mechanism waits for the server.
	Next(challenge []byte) ([]byte, error)
}

// PlainAuth is PLAIN (RFC 4616).
type PlainAuth struct{ Authzid, User, Password string }

// Mechanism is "PLAIN".
func (PlainAuth) Mechanism() string { return "PLAIN" }

// Next gives the one message of PLAIN.
func (p PlainAuth) Next([]byte) ([]byte, error) {
	return []byte(p.Authzid + "\x00" + p.User + "\x00" + p.Password), nil
}

// Login is LOGIN. Capabilities stay those known, unless the answer names others: see Capability.
func (c *Client) Login(user, password string) error {
	_, err := c.Do(&wire.Command{Name: "LOGIN", Args: &wire.Login{User: user, Password: password}}, nil)
	return err
}

// Capability asks for the capabilities.
func (c *Client) Capability() ([]string, error) {
	_, err := c.Do(&wire.Command{Name: "CAPABILITY"}, nil)
	return c.caps, err
}

// Authenticate is AUTHENTICATE with a mechanism; the initial response goes along where the server
// takes that (SASL-IR).
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
