package imap

import (
	"errors"
	"fmt"
	"time"

	wire "doublet/wire/imap"
)

type idleState uint8

const (
	idleNone    idleState = iota
	idleAsked             // IDLE was sent, "+" has not arrived
	idleActive            // the server waits for DONE
	idleStopped           // DONE was sent, or will be sent after "+"
)

// Idle runs IDLE (RFC 2177). It calls on with each response until StopIdle is called or on returns false.
func (c *Client) Idle(on func(*wire.Response) bool) error {
	cmd := &wire.Command{Tag: c.nextTag(), Name: "IDLE"}
	c.setIdle(idleAsked)
	defer c.setIdle(idleNone)
	if err := c.send(cmd); err != nil {
		return fmt.Errorf("imap: IDLE: %w", err)
	}
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("imap: IDLE: %w", err)
	}
	for {
		r, err := c.readWaiting()
		var bad *wire.ResponseError
		switch {
		case errors.As(err, &bad):
			continue
		case err != nil:
			return fmt.Errorf("imap: IDLE: %w", err)
		case r.Kind == wire.Tagged && r.Tag == cmd.Tag:
			return c.status(cmd, r)
		case r.Kind == wire.Continuation:
			err = c.idleBegins()
		case on != nil && !on(r):
			err = c.StopIdle()
		}
		if err != nil {
			return fmt.Errorf("imap: IDLE: %w", err)
		}
	}
}

func (c *Client) setIdle(s idleState) {
	c.mu.Lock()
	c.idle = s
	c.mu.Unlock()
}

func (c *Client) idleBegins() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == idleStopped {
		return c.write(done)
	}
	c.idle = idleActive
	return nil
}

var done = []byte("DONE\r\n")

// StopIdle ends a running Idle, which then returns. It is safe for concurrent use. Without a running Idle it does
// nothing.
func (c *Client) StopIdle() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.idle {
	case idleAsked:
		c.idle = idleStopped
	case idleActive:
		c.idle = idleStopped
		return c.write(done)
	}
	return nil
}
