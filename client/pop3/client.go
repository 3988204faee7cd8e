// Package pop3 is a POP3 client for tests, the benchmark and migrations. A Client is not safe for concurrent use. It
// uses the grammar of doublet/wire/pop3.
package pop3

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"doublet/env"
	"doublet/wire/pop3"
	"doublet/wire/sasl"
)

// Security is the protection of a connection.
type Security uint8

// The kinds of Security.
const (
	Plain    Security = iota
	TLS               // from the first byte (port 995)
	StartTLS          // with the STLS command
)

// Options configures a client; zero fields take the defaults.
type Options struct {
	Security Security
	TLS      *tls.Config // for TLS and StartTLS; needs ServerName
	// Timeout is the timeout of each read or write (default 5 min).
	Timeout time.Duration
	// MaxMessage is the maximum size of a message in bytes (default 1 GB).
	MaxMessage int64
}

// Limits of responses other than messages.
const (
	maxLine    = 16 << 10
	maxListing = 256 << 20
)

// Error holds a -ERR response of the server.
type Error struct {
	Command string
	pop3.Reply
}

func (e *Error) Error() string {
	code := ""
	if e.Code != "" {
		code = " [" + e.Code + "]"
	}
	return "pop3: " + e.Command + ":" + code + " " + e.Text
}

// Client is a connection.
type Client struct {
	// Greeting is the first response of the server.
	Greeting pop3.Reply

	env  *env.Env
	conn net.Conn
	in   *bufio.Reader
	opts Options
	out  []byte
}

// Dial connects to address and reads the greeting.
func Dial(e *env.Env, address string, o Options) (*Client, error) {
	conn, err := e.Dial("tcp", address, min(positive(o.Timeout), time.Minute))
	if err != nil {
		return nil, fmt.Errorf("pop3: dial %s: %w", address, err)
	}
	return New(e, conn, o)
}

func positive(d time.Duration) time.Duration {
	if d <= 0 {
		return 5 * time.Minute
	}
	return d
}

// New uses an existing connection and closes it on error. It reads the greeting and, depending on Options, starts TLS.
func New(e *env.Env, conn net.Conn, o Options) (*Client, error) {
	o.Timeout = positive(o.Timeout)
	if o.MaxMessage <= 0 {
		o.MaxMessage = 1 << 30
	}
	c := &Client{env: e, conn: conn, opts: o}
	if o.Security == TLS {
		c.conn = tls.Client(conn, o.TLS)
	}
	c.in = bufio.NewReaderSize(c.conn, maxLine)
	var err error
	if c.Greeting, err = c.reply("greeting"); err == nil && o.Security == StartTLS {
		err = c.startTLS()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *Client) startTLS() error {
	if _, err := c.do(pop3.Command{Name: "STLS"}); err != nil {
		return err
	}
	if c.in.Buffered() > 0 {
		return errors.New("pop3: STLS: the server spoke before the handshake")
	}
	c.conn = tls.Client(c.conn, c.opts.TLS)
	c.in.Reset(c.conn)
	return nil
}

// Close closes the connection without QUIT: marked messages stay.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) deadline() error {
	return c.conn.SetDeadline(c.env.Clock.Now().Add(c.opts.Timeout))
}

func (c *Client) line() ([]byte, error) {
	if err := c.deadline(); err != nil {
		return nil, err
	}
	b, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return b[:len(b)-1-boolInt(len(b) > 1 && b[len(b)-2] == '\r')], nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reply reads the first line of a response. -ERR is returned as *Error.
func (c *Client) reply(command string) (pop3.Reply, error) {
	b, err := c.line()
	if err != nil {
		return pop3.Reply{}, fmt.Errorf("pop3: %s: %w", command, err)
	}
	r, err := pop3.ParseReply(b)
	if err == nil && !r.OK && !r.Challenge {
		err = &Error{command, r}
	}
	return r, err
}

func (c *Client) write(b []byte) error {
	if err := c.deadline(); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

func (c *Client) do(cmd pop3.Command) (pop3.Reply, error) {
	if strings.ContainsAny(cmd.Text, "\r\n") {
		return pop3.Reply{}, fmt.Errorf("pop3: %s: the argument holds a line end", cmd.Name)
	}
	c.out = cmd.Append(c.out[:0])
	if err := c.write(c.out); err != nil {
		return pop3.Reply{}, fmt.Errorf("pop3: %s: %w", cmd.Name, err)
	}
	return c.reply(cmd.Name)
}

// listing calls fn with the lines of a multi-line response.
func (c *Client) listing(cmd pop3.Command, fn func(line string) error) error {
	if _, err := c.do(cmd); err != nil {
		return err
	}
	s := bufio.NewScanner(pop3.NewDataReader(c.in, maxListing))
	var failed error
	for s.Scan() {
		if failed == nil { // read the response to its end even after an error
			failed = fn(s.Text())
		}
	}
	return errors.Join(failed, s.Err())
}

// Capabilities returns the lines of CAPA.
func (c *Client) Capabilities() (list []string, err error) {
	err = c.listing(pop3.Command{Name: "CAPA"}, func(line string) error {
		list = append(list, line)
		return nil
	})
	return list, err
}

// Login sends USER and PASS.
func (c *Client) Login(user, password string) error {
	if _, err := c.do(pop3.Command{Name: "USER", Text: user}); err != nil {
		return err
	}
	_, err := c.do(pop3.Command{Name: "PASS", Text: password})
	return err
}

// Authenticate sends AUTH.
func (c *Client) Authenticate(s sasl.Client) error {
	initial, err := s.Initial()
	if err != nil {
		return fmt.Errorf("pop3: AUTH: %w", err)
	}
	cmd := pop3.Command{Name: "AUTH", Text: s.Mechanism(), Initial: initial}
	if len(cmd.Append(nil)) > 255 { // RFC 5034 section 4: a long response must wait for the server
		cmd.Initial = nil
	} else {
		initial = nil
	}
	r, err := c.do(cmd)
	for ; err == nil && r.Challenge; r, err = c.reply("AUTH") {
		answer := initial
		if initial = nil; answer == nil {
			challenge, bad := sasl.DecodeLine([]byte(r.Text))
			if bad == nil {
				answer, bad = s.Next(challenge)
			}
			if bad != nil {
				_ = c.write([]byte("*\r\n"))
				_, _ = c.reply("AUTH")
				return fmt.Errorf("pop3: AUTH: %w", bad)
			}
		}
		if err := c.write(append(sasl.AppendLine(nil, answer, false), "\r\n"...)); err != nil {
			return fmt.Errorf("pop3: AUTH: %w", err)
		}
	}
	return err
}

// Stat sends STAT and returns the number of messages and their total size in bytes.
func (c *Client) Stat() (count int, octets int64, err error) {
	r, err := c.do(pop3.Command{Name: "STAT"})
	if err == nil {
		_, err = fmt.Sscan(r.Text, &count, &octets)
	}
	return count, octets, err
}

// List calls fn with the number and size of each message.
func (c *Client) List(fn func(number uint32, octets int64)) error {
	return c.listing(pop3.Command{Name: "LIST"}, func(line string) error {
		number, rest, err := numbered(line)
		if err != nil {
			return err
		}
		octets, err := strconv.ParseInt(rest, 10, 64)
		if err == nil {
			fn(number, octets)
		}
		return err
	})
}

// Unique calls fn with the number and unique ID (UIDL) of each message.
func (c *Client) Unique(fn func(number uint32, id string)) error {
	return c.listing(pop3.Command{Name: "UIDL"}, func(line string) error {
		number, id, err := numbered(line)
		if err == nil {
			fn(number, id)
		}
		return err
	})
}

func numbered(line string) (uint32, string, error) {
	first, rest, ok := strings.Cut(line, " ")
	n, err := strconv.ParseUint(first, 10, 32)
	rest, _, _ = strings.Cut(rest, " ")
	if !ok || err != nil || rest == "" {
		return 0, "", fmt.Errorf("pop3: not a line of a listing: %.60q", line)
	}
	return uint32(n), rest, nil
}

// Retrieve writes a message to w.
func (c *Client) Retrieve(number uint32, w io.Writer) error {
	return c.message(pop3.Command{Name: "RETR", Number: number}, w)
}

// Top writes the header of a message and the first lines of its body to w.
func (c *Client) Top(number, lines uint32, w io.Writer) error {
	return c.message(pop3.Command{Name: "TOP", Number: number, Lines: lines}, w)
}

func (c *Client) message(cmd pop3.Command, w io.Writer) error {
	if _, err := c.do(cmd); err != nil {
		return err
	}
	r := pop3.NewDataReader(c.in, c.opts.MaxMessage)
	_, err := io.Copy(w, r)
	if err != nil {
		_, _ = io.Copy(io.Discard, r) // skip the rest, which must not be taken for a reply
	}
	return err
}

// Delete marks a message, which Quit then removes.
func (c *Client) Delete(number uint32) error {
	_, err := c.do(pop3.Command{Name: "DELE", Number: number})
	return err
}

// Simple sends a command without arguments: NOOP, RSET, UTF8.
func (c *Client) Simple(name string) error {
	_, err := c.do(pop3.Command{Name: name})
	return err
}

// Quit removes the marked messages and closes the connection.
func (c *Client) Quit() error {
	_, err := c.do(pop3.Command{Name: "QUIT"})
	return errors.Join(err, c.conn.Close())
}
