// Package imap is an IMAP client for tests, the benchmark and migrations. It runs one command at a time, uses little
// memory, and shows every response of the server. It uses the grammar of doublet/wire/imap.
package imap

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/env"
	wire "doublet/wire/imap"
)

// Security is the protection of a connection.
type Security uint8

// The kinds of Security.
const (
	Plain    Security = iota
	TLS               // from the first byte (port 993)
	StartTLS          // with the STARTTLS command
)

// Options configures a client. The zero value is a plain connection without timeouts.
type Options struct {
	Security Security
	TLS      *tls.Config // for TLS and StartTLS; needs ServerName
	// Timeout is the timeout of each read or write; it requires Clock. IDLE waits without it.
	Timeout time.Duration
	Clock   env.Clock
	// Limits are the limits of responses; zero means the default.
	Limits wire.ResponseLimits
	// DiscardBodies drops the literals of body sections unread; only SectionData.Size reports them.
	DiscardBodies bool
	// SyncLiterals disables non-synchronising literals, even if the server accepts them.
	SyncLiterals bool
}

// Client is a connection. Only StopIdle is safe for concurrent use.
type Client struct {
	// Untagged, if set, is called with every untagged response, in addition to the command's own function.
	Untagged func(*wire.Response)

	conn     net.Conn
	in       *wire.ResponseReader
	options  Options
	out      []byte
	tag      uint64
	caps     []string
	utf8     bool
	preauth  bool
	greeting *wire.Response
	rawTag   string // tag of the command that Raw is sending

	mu   sync.Mutex // guards idle, and writes during IDLE
	idle idleState
}

// StatusError holds a NO, BAD or BYE response of the server.
type StatusError struct {
	Command, Status string
	Code            *wire.Code
	Text            string
}

func (e *StatusError) Error() string {
	code := ""
	if e.Code != nil {
		code = " [" + e.Code.Name + "]"
	}
	return "imap: " + e.Command + ": " + e.Status + code + " " + e.Text
}

// ErrNotSupported means that the server lacks a capability that a command needs.
var ErrNotSupported = errors.New("imap: not supported by the server")

// Dial connects to address and reads the greeting.
func Dial(dial func(network, address string, timeout time.Duration) (net.Conn, error), address string,
	o Options) (*Client, error) {
	conn, err := dial("tcp", address, o.Timeout)
	if err != nil {
		return nil, fmt.Errorf("imap: dial %s: %w", address, err)
	}
	return New(conn, o)
}

// New uses an existing connection and reads the greeting. It closes the connection on error.
func New(conn net.Conn, o Options) (*Client, error) {
	if o.Limits == (wire.ResponseLimits{}) {
		o.Limits = wire.DefaultResponseLimits()
	}
	c := &Client{conn: conn, options: o}
	if o.Security == TLS {
		c.conn = tls.Client(conn, o.TLS)
	}
	c.in = wire.NewResponseReader(c.conn, o.Limits)
	if o.DiscardBodies {
		c.in.Sink = discard
	}
	err := c.greet()
	if err == nil && o.Security == StartTLS {
		err = c.startTLS()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func discard([]byte, int64) io.Writer { return io.Discard }

func (c *Client) greet() error {
	r, err := c.read()
	if err != nil {
		return fmt.Errorf("imap: greeting: %w", err)
	}
	c.greeting = r
	c.preauth = r.Name == wire.PREAUTH
	if r.Kind != wire.Untagged || r.Name != wire.OK && !c.preauth {
		return &StatusError{Command: "greeting", Status: r.Name, Code: r.Code, Text: r.Text}
	}
	return nil
}

func (c *Client) startTLS() error {
	if c.preauth {
		return fmt.Errorf("imap: STARTTLS: %w (PREAUTH)", ErrNotSupported)
	}
	if _, err := c.Do(&wire.Command{Name: "STARTTLS"}, nil); err != nil {
		return err
	}
	c.conn = tls.Client(c.conn, c.options.TLS)
	c.in.Reset(c.conn)
	c.caps = nil // capabilities received in plaintext are not trusted
	return nil
}

// Greeting returns the first response of the server.
func (c *Client) Greeting() *wire.Response { return c.greeting }

// Conn returns the connection.
func (c *Client) Conn() net.Conn { return c.conn }

// Close closes the connection without LOGOUT.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) deadline(set func(time.Time) error) error {
	if c.options.Timeout <= 0 || c.options.Clock == nil {
		return nil
	}
	return set(c.options.Clock.Now().Add(c.options.Timeout))
}

// read reads one response and updates the client's state.
func (c *Client) read() (*wire.Response, error) {
	if err := c.deadline(c.conn.SetReadDeadline); err != nil {
		return nil, err
	}
	return c.readWaiting()
}

func (c *Client) readWaiting() (*wire.Response, error) {
	r, err := c.in.Read()
	if err != nil {
		return r, err
	}
	if r.Code != nil && r.Code.Name == "CAPABILITY" {
		c.caps = r.Code.Words
	}
	if r.Kind == wire.Untagged {
		switch r.Name {
		case "CAPABILITY":
			c.caps, _ = r.Data.([]string)
		case "ENABLED":
			for _, name := range r.Data.([]string) {
				if name == "IMAP4REV2" || name == "UTF8=ACCEPT" {
					c.utf8, c.in.UTF8 = true, true
				}
			}
		}
		if c.Untagged != nil {
			c.Untagged(r)
		}
	}
	return r, nil
}

func (c *Client) write(b []byte) error {
	if err := c.deadline(c.conn.SetWriteDeadline); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// Has reports whether the server has a capability (in upper case). It requests the capabilities if they are not known
// yet.
func (c *Client) Has(capability string) bool {
	if c.caps == nil {
		if _, err := c.Do(&wire.Command{Name: "CAPABILITY"}, nil); err != nil {
			return false
		}
	}
	for _, k := range c.caps {
		if k == capability {
			return true
		}
	}
	return false
}

// nonSync reports whether a literal of n bytes may be sent without waiting, according to the capabilities known so far.
func (c *Client) nonSync(n int64) bool {
	if c.options.SyncLiterals {
		return false
	}
	for _, k := range c.caps {
		if k == "LITERAL+" || n <= 4096 && (k == "LITERAL-" || k == "IMAP4REV2") {
			return true
		}
	}
	return false
}

func (c *Client) nextTag() string {
	c.tag++
	return "A" + strconv.FormatUint(c.tag, 10)
}

// Do sends a command (and sets its Tag), then reads up to the tagged response. If on is set, it is called with the
// untagged responses. Its first error is returned when the command has ended, so that the connection stays
// synchronised. NO and BAD are returned as *StatusError, with the response.
func (c *Client) Do(cmd *wire.Command, on func(*wire.Response) error) (*wire.Response, error) {
	if err := c.send(cmd); err != nil {
		if r, ok := err.(*refused); ok {
			return r.response, c.status(cmd, r.response)
		}
		return nil, fmt.Errorf("imap: %s: %w", cmd.Name, err)
	}
	return c.await(cmd, on)
}

// await reads up to the tagged response of cmd.
func (c *Client) await(cmd *wire.Command, on func(*wire.Response) error) (*wire.Response, error) {
	var failed error
	var bye *wire.Response
	for {
		r, err := c.read()
		if err != nil {
			var bad *wire.ResponseError
			if errors.As(err, &bad) {
				if failed == nil {
					failed = err
				}
				if r == nil || r.Kind != wire.Tagged {
					continue
				}
				return r, failed
			}
			if bye != nil {
				return bye, &StatusError{Command: cmd.Name, Status: wire.BYE, Code: bye.Code, Text: bye.Text}
			}
			return nil, fmt.Errorf("imap: %s: %w", cmd.Name, err)
		}
		switch {
		case r.Kind == wire.Tagged && r.Tag == cmd.Tag:
			if err := c.status(cmd, r); err != nil {
				return r, err
			}
			return r, failed
		case r.Kind != wire.Untagged:
			return nil, fmt.Errorf("imap: %s: unexpected %.60q", cmd.Name, r.Raw)
		case r.Name == wire.BYE:
			bye = r
		}
		if on != nil && failed == nil {
			failed = on(r)
		}
	}
}

func (c *Client) status(cmd *wire.Command, r *wire.Response) error {
	if r.Name == wire.OK {
		return nil
	}
	return &StatusError{Command: cmd.Name, Status: r.Name, Code: r.Code, Text: r.Text}
}

// refused means that the server responded before the whole command was sent.
type refused struct{ response *wire.Response }

func (r *refused) Error() string { return "refused: " + r.response.Raw }

// send writes a command. It sends literals without waiting if the server accepts that.
func (c *Client) send(cmd *wire.Command) error {
	if cmd.Tag == "" {
		cmd.Tag = c.nextTag()
	}
	c.out = wire.AppendCommand(c.out[:0], cmd, c.utf8)
	text := c.out
	if cap(c.out) > 4096 {
		c.out = nil // free the buffer of a large command
	}
	for {
		head, size, rest, ok := wire.NextLiteral(text)
		if !ok {
			return c.write(text)
		}
		if !c.nonSync(int64(size)) {
			if err := c.write(head); err != nil {
				return err
			}
			if err := c.invited(cmd.Tag); err != nil {
				return err
			}
		} else if err := c.write(append(head[:len(head)-3:len(head)-3], "+}\r\n"...)); err != nil {
			return err
		}
		if err := c.write(rest[:size]); err != nil {
			return err
		}
		text = rest[size:]
	}
}

// invited waits for "+".
func (c *Client) invited(tag string) error {
	for {
		r, err := c.read()
		var bad *wire.ResponseError
		switch {
		case errors.As(err, &bad):
			continue
		case err != nil:
			return err
		case r.Kind == wire.Continuation:
			return nil
		case r.Kind == wire.Tagged && r.Tag == tag:
			return &refused{r}
		}
	}
}

// Raw sends a line unchanged, including the tag. It returns the responses up to the tagged response or a continuation;
// after a continuation, the next line belongs to the same command. A line may contain literals. Responses that cannot
// be parsed have only Raw set. If the connection ends, Raw returns the responses so far and the error.
func (c *Client) Raw(text string) ([]wire.Response, error) {
	if c.rawTag == "" {
		c.rawTag, _, _ = strings.Cut(text, " ")
	}
	if err := c.write([]byte(text + "\r\n")); err != nil {
		return nil, fmt.Errorf("imap: raw: %w", err)
	}
	var all []wire.Response
	for {
		r, err := c.ReadRaw()
		if err != nil {
			return all, err
		}
		all = append(all, *r)
		switch {
		case r.Kind == wire.Continuation:
			return all, nil
		case r.Kind == wire.Tagged, strings.HasPrefix(r.Raw, "* BAD"):
			c.rawTag = ""
			return all, nil
		}
	}
}

// ReadRaw reads one response, even if it cannot be parsed.
func (c *Client) ReadRaw() (*wire.Response, error) {
	r, err := c.read()
	var bad *wire.ResponseError
	if errors.As(err, &bad) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("imap: raw: %w", err)
	}
	return r, nil
}
