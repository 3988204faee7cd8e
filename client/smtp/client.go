// Package smtp is a client for SMTP, message submission and LMTP. The router, tests and the benchmark use it. A Client
// belongs to one goroutine.
package smtp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"doublet/env"
	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

// Options are the settings of a client. Zero fields mean the defaults.
type Options struct {
	// LMTP selects LMTP: LHLO, and one reply per recipient.
	LMTP bool
	// Timeout limits the wait for one reply, and the sending of one piece of data (default 5 min).
	Timeout time.Duration
	// TLS enables implicit TLS, from the first byte.
	TLS *tls.Config
}

// ErrExtension means that the server does not offer a required extension.
var ErrExtension = errors.New("smtp: extension not offered by the server")

// Client is a connection to a server.
type Client struct {
	conn    net.Conn
	clock   env.Clock
	opts    Options
	r       *bufio.Reader
	out     []byte
	ext     map[string]string
	by      time.Time
	pending int // recipients accepted in the current transaction
	hello   string

	// Greeting is the server's first reply.
	Greeting smtp.Reply
}

// Dial connects to a server and reads the greeting.
func Dial(e *env.Env, network, address string, o Options) (*Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	conn, err := e.Dial(network, address, min(o.Timeout, time.Minute))
	if err != nil {
		return nil, fmt.Errorf("smtp: dial %s: %w", address, err)
	}
	return New(e, conn, o)
}

// New uses conn as a connection to a server, and reads the greeting. A greeting that is not 2xx is returned as
// *smtp.Reply. If New returns an error, it has closed conn.
func New(e *env.Env, conn net.Conn, o Options) (*Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.TLS != nil {
		conn = tls.Client(conn, o.TLS)
	}
	c := &Client{conn: conn, clock: e.Clock, opts: o, r: bufio.NewReaderSize(conn, smtp.MaxReplyLine)}
	r, err := c.reply()
	if err == nil && !r.Positive() {
		err = r
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("smtp: greeting: %w", err)
	}
	c.Greeting = *r
	return c, nil
}

// arm extends the deadline. It sets it 25 % later than required, so that most calls need no system call.
func (c *Client) arm() error {
	now := c.clock.Now()
	if c.by.Sub(now) >= c.opts.Timeout {
		return nil
	}
	c.by = now.Add(c.opts.Timeout + c.opts.Timeout/4)
	return c.conn.SetDeadline(c.by)
}

// flush sends the bytes in out.
func (c *Client) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.arm(); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	if cap(c.out) > 64<<10 {
		c.out = nil
	}
	return err
}

// reply flushes out and reads one reply, with any code.
func (c *Client) reply() (*smtp.Reply, error) {
	if err := c.flush(); err != nil {
		return nil, err
	}
	if err := c.arm(); err != nil {
		return nil, err
	}
	r := &smtp.Reply{}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		last, err := r.AddLine(line)
		if err != nil {
			return nil, err
		}
		if last {
			return r, nil
		}
	}
}

// expect reads a reply. A reply that is not positive is returned as the error.
func (c *Client) expect(op string) (*smtp.Reply, error) {
	r, err := c.reply()
	if err == nil && !r.Positive() {
		err = r
	}
	if err != nil {
		return r, fmt.Errorf("smtp: %s: %w", op, err)
	}
	return r, nil
}

// command sends a line and expects a positive reply.
func (c *Client) command(op string, words ...string) (*smtp.Reply, error) {
	c.out = append(c.out, op...)
	for _, w := range words {
		if strings.ContainsAny(w, "\r\n") {
			c.out = c.out[:0]
			return nil, fmt.Errorf("smtp: %s: line end in an argument", op)
		}
		c.out = append(append(c.out, ' '), w...)
	}
	c.out = append(c.out, '\r', '\n')
	return c.expect(op)
}

// Hello sends EHLO (in LMTP LHLO) and stores the extensions. If the server rejects EHLO permanently, Hello sends HELO.
//
// Implements: RFC 5321 §4.1.1.1 EHLO by the client
func (c *Client) Hello(name string) error {
	c.ext = map[string]string{}
	verb := "EHLO"
	if c.opts.LMTP {
		verb = "LHLO"
	}
	r, err := c.command(verb, name)
	if err != nil {
		var refusal *smtp.Reply
		if c.opts.LMTP || !errors.As(err, &refusal) || refusal.Temporary() {
			return err
		}
		if r, err = c.command("HELO", name); err == nil {
			c.hello = r.Lines[0]
		}
		return err
	}
	c.hello = r.Lines[0]
	for _, l := range r.Lines[1:] {
		word, param, _ := strings.Cut(l, " ")
		c.ext[strings.ToUpper(word)] = param
	}
	return nil
}

// HelloName returns the first line of the server's reply to Hello. Its first word is the server's name.
func (c *Client) HelloName() string { return c.hello }

// Ext returns the parameters of an extension, and whether the server offers it.
func (c *Client) Ext(name string) (params string, ok bool) {
	params, ok = c.ext[name]
	return params, ok
}

// StartTLS starts TLS on the connection. The caller has to call Hello again afterwards.
//
// Implements: RFC 3207 STARTTLS by the client
func (c *Client) StartTLS(cfg *tls.Config) error {
	if _, err := c.command("STARTTLS"); err != nil {
		return err
	}
	if c.r.Buffered() > 0 {
		return errors.New("smtp: STARTTLS: the server sent more than its reply")
	}
	t := tls.Client(c.conn, cfg)
	if err := t.Handshake(); err != nil {
		return fmt.Errorf("smtp: TLS handshake: %w", err)
	}
	c.conn, c.ext = t, nil
	c.r.Reset(t)
	return nil
}

// TLS returns the state of the TLS connection. ok is false without TLS.
func (c *Client) TLS() (state tls.ConnectionState, ok bool) {
	t, ok := c.conn.(*tls.Conn)
	if ok {
		state = t.ConnectionState()
	}
	return state, ok
}

// Auth authenticates with the SASL mechanism m.
//
// Implements: RFC 4954 §4 AUTH by the client
func (c *Client) Auth(m sasl.Client) error {
	initial, err := m.Initial()
	if err != nil {
		return err
	}
	c.out = append(append(c.out, "AUTH "...), m.Mechanism()...)
	if initial != nil {
		c.out = sasl.AppendLine(append(c.out, ' '), initial, true)
	}
	c.out = append(c.out, '\r', '\n')
	for {
		r, err := c.expect("AUTH")
		if err != nil || r.Code != 334 {
			return err
		}
		challenge, err := sasl.DecodeLine([]byte(r.Lines[0]))
		var response []byte
		if err == nil {
			response, err = m.Next(challenge)
		}
		if err != nil {
			c.out = append(c.out, "*\r\n"...)
			_, cancelled := c.reply()
			return errors.Join(err, cancelled)
		}
		c.out = append(sasl.AppendLine(c.out, response, false), '\r', '\n')
	}
}

// Raw sends a line, to which it adds CRLF, and reads one reply, with any code.
func (c *Client) Raw(line string) (*smtp.Reply, error) {
	c.out = append(append(c.out, line...), '\r', '\n')
	return c.reply()
}

// Send sends bytes unchanged and reads nothing.
func (c *Client) Send(b []byte) error {
	c.out = append(c.out, b...)
	return c.flush()
}

// Reply reads one reply, with any code.
func (c *Client) Reply() (*smtp.Reply, error) { return c.reply() }

// Reset ends the transaction with RSET.
func (c *Client) Reset() error { _, err := c.command("RSET"); c.pending = 0; return err }

// Noop sends NOOP.
func (c *Client) Noop() error { _, err := c.command("NOOP"); return err }

// Verify sends VRFY and returns the reply.
func (c *Client) Verify(address string) (*smtp.Reply, error) { return c.command("VRFY", address) }

// Quit sends QUIT, reads the reply and closes the connection.
func (c *Client) Quit() error {
	_, err := c.command("QUIT")
	return errors.Join(err, c.conn.Close())
}

// Goodbye sends QUIT without waiting for the reply. The caller then closes the connection.
func (c *Client) Goodbye() error {
	c.out = append(c.out[:0], "QUIT\r\n"...)
	return c.flush()
}

// Close closes the connection without QUIT.
func (c *Client) Close() error { return c.conn.Close() }

// Conn returns the connection.
func (c *Client) Conn() net.Conn { return c.conn }

// MaxSize returns the server's message size limit in bytes, or 0 if it announces none.
func (c *Client) MaxSize() int64 {
	n, err := strconv.ParseInt(c.ext["SIZE"], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
