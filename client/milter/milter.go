// Package milter is a client for milters (mail filters). A Session runs alongside an SMTP session: it forwards the SMTP
// client's commands to the filter, and returns the filter's verdicts.
package milter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"doublet/env"
	wire "doublet/wire/milter"
	"doublet/wire/smtp"
)

// Options are the settings of one filter. Zero values mean the defaults.
type Options struct {
	// Network is "tcp" or "unix". Address is the address on which the filter listens.
	Network, Address string
	// Connect limits connecting (10 s), and Command the wait for a reply to a command (30 s). Message limits the wait
	// for the verdict on a whole message (5 min). A filter that reports progress gets as much time again, but at most
	// twice the time in all.
	Connect, Command, Message time.Duration
	// MaxBody is the largest replacement body in bytes that a filter may send (50 MB). MaxChanges is the maximum number
	// of changes to one message (1,000).
	MaxBody, MaxChanges int
}

// ParseAddress parses "host:port", "inet:port@host", "unix:/path" or "/path".
func ParseAddress(s string) (network, address string, err error) {
	switch {
	case strings.HasPrefix(s, "/"):
		return "unix", s, nil
	case strings.HasPrefix(s, "unix:"), strings.HasPrefix(s, "local:"):
		_, path, _ := strings.Cut(s, ":")
		if path == "" {
			return "", "", fmt.Errorf("milter %q: no path", s)
		}
		return "unix", path, nil
	case strings.HasPrefix(s, "inet:"), strings.HasPrefix(s, "inet6:"):
		_, rest, _ := strings.Cut(s, ":")
		if port, host, ok := strings.Cut(rest, "@"); ok {
			return "tcp", net.JoinHostPort(strings.Trim(host, "[]"), port), nil
		}
		s = rest
	}
	if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
		return "", "", fmt.Errorf("milter %q: it is host:port or unix:/path", s)
	}
	return "tcp", s, nil
}

// Filter opens sessions with one filter.
type Filter struct {
	env *env.Env
	opt Options
}

// New returns a Filter.
func New(e *env.Env, o Options) *Filter {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.Connect, 10 * time.Second}, {&o.Command, 30 * time.Second}, {&o.Message, 5 * time.Minute}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 50 << 20
	}
	if o.MaxChanges <= 0 {
		o.MaxChanges = 1000
	}
	return &Filter{env: e, opt: o}
}

// Name returns the filter's address, for logs.
func (f *Filter) Name() string { return f.opt.Address }

// ErrFilter wraps all errors of a filter: it is unreachable or slow, or violates the protocol. The session is unusable
// afterwards.
var ErrFilter = errors.New("milter")

// Decision is the decision of a filter.
type Decision uint8

// The decisions.
const (
	Continue Decision = iota
	// Accept skips all further checks: of this message, or after Connect and Helo of the whole session.
	Accept
	// Discard accepts the message and drops it.
	Discard
	// Refuse rejects with Verdict.Reply.
	Refuse
)

// Verdict is a decision with its reply. Reply is set only for Refuse.
type Verdict struct {
	Decision Decision
	Reply    *smtp.Reply
}

var (
	errReject   = smtp.NewReply(550, 5, 7, 1, "Refused by a filter")
	errTempFail = smtp.NewReply(451, 4, 7, 1, "A filter asks to try again later")
)

// Session is a connection to a filter for the messages of one SMTP session.
type Session struct {
	f     *Filter
	nc    net.Conn
	steps wire.Steps
	may   wire.Actions
	out   []byte
	in    []byte // bytes that were read; in[at:] is not yet parsed
	at    int
	stop  func() bool
}

// The actions that this client allows a filter, and the protocol steps that a filter may skip.
const (
	offeredActions = wire.MayAddHeaders | wire.MayChangeBody | wire.MayAddRcpt | wire.MayDeleteRcpt |
		wire.MayChangeHeaders |
		wire.MayQuarantine | wire.MayChangeFrom | wire.MayAddRcptArgs
	offeredSteps = wire.LeadingSpace<<1 - 1
)

// Open connects to the filter and negotiates the options.
func (f *Filter) Open(ctx context.Context) (*Session, error) {
	nc, err := f.env.Dial(f.opt.Network, f.opt.Address, f.opt.Connect)
	if err != nil {
		return nil, fmt.Errorf("%w: connect: %w", ErrFilter, err)
	}
	s := &Session{f: f, nc: nc}
	// The end of ctx (a shutdown that waits no longer) closes the connection.
	s.stop = context.AfterFunc(ctx, func() { _ = nc.Close() })
	s.out = wire.AppendOptions(nil, wire.Options{Version: wire.Version, Actions: offeredActions, Steps: offeredSteps})
	c, data, err := s.ask(f.opt.Command)
	if err == nil && c != wire.Negotiate {
		err = fmt.Errorf("%w: %q in place of a negotiation", ErrFilter, byte(c))
	}
	var o wire.Options
	if err == nil {
		if o, err = wire.ParseOptions(data); err != nil {
			err = fmt.Errorf("%w: %w", ErrFilter, err)
		}
	}
	if err == nil && (o.Version < 2 || o.Version > wire.Version || o.Actions&^offeredActions&^wire.MaySetMacros != 0) {
		err = fmt.Errorf("%w: it wants version %d and actions %#x", ErrFilter, o.Version, o.Actions)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.steps, s.may = o.Steps&offeredSteps, o.Actions
	return s, nil
}

// Close ends the session.
func (s *Session) Close() {
	if s.nc == nil {
		return
	}
	s.stop()
	_ = s.nc.SetWriteDeadline(s.f.env.Clock.Now().Add(time.Second))
	_, _ = s.nc.Write(wire.Append(nil, wire.Quit)) // an error does not matter: the connection closes anyway
	_ = s.nc.Close()
	s.nc = nil
}

func (s *Session) flush(timeout time.Duration) error {
	if s.nc == nil {
		return fmt.Errorf("%w: the session is over", ErrFilter)
	}
	out := s.out
	s.out = s.out[:0]
	if err := s.nc.SetDeadline(s.f.env.Clock.Now().Add(timeout)); err != nil {
		return fmt.Errorf("%w: %w", ErrFilter, err)
	}
	if _, err := s.nc.Write(out); err != nil {
		return fmt.Errorf("%w: write: %w", ErrFilter, err)
	}
	return nil
}

// ask sends the buffered packets, and reads one packet.
func (s *Session) ask(timeout time.Duration) (wire.Code, []byte, error) {
	if err := s.flush(timeout); err != nil {
		return 0, nil, err
	}
	return s.read()
}

// read reads one packet. Its data is valid until the next call.
func (s *Session) read() (wire.Code, []byte, error) {
	for {
		c, data, n, err := wire.Next(s.in[s.at:])
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrFilter, err)
		}
		if n > 0 {
			s.at += n
			return c, data, nil
		}
		if s.at > 0 {
			s.in = append(s.in[:0], s.in[s.at:]...)
			s.at = 0
		}
		want := 4096
		if len(s.in) >= 4 {
			want = max(want, int(binary.BigEndian.Uint32(s.in))+4-len(s.in))
		}
		have := len(s.in)
		if cap(s.in)-have < want {
			s.in = append(make([]byte, 0, have+want), s.in...)
		}
		k, err := s.nc.Read(s.in[have:cap(s.in)])
		s.in = s.in[:have+k]
		if k == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it closed the connection")
			}
			return 0, nil, fmt.Errorf("%w: read: %w", ErrFilter, err)
		}
	}
}

// wants reports whether the filter wants to see a step.
func (s *Session) wants(no wire.Steps) bool { return s.steps&no == 0 }

// step sends the buffered commands and reads the verdict on the last one. If the filter does not reply to this step,
// step only buffers it.
func (s *Session) step(silent wire.Steps) (Verdict, error) {
	if s.steps&silent != 0 {
		if len(s.out) > wire.MaxChunk {
			return Verdict{}, s.flush(s.f.opt.Command)
		}
		return Verdict{}, nil // sent together with the next step
	}
	if err := s.flush(s.f.opt.Command); err != nil {
		return Verdict{}, err
	}
	last := s.f.env.Clock.Now().Add(2 * s.f.opt.Command)
	for {
		c, data, err := s.read()
		if err != nil {
			return Verdict{}, err
		}
		a, err := wire.ParseAnswer(c, data)
		if err != nil {
			return Verdict{}, fmt.Errorf("%w: %w", ErrFilter, err)
		}
		if a.Code == wire.Progress {
			if err := s.more(s.f.opt.Command, last); err != nil {
				return Verdict{}, err
			}
			continue
		}
		return verdict(&a)
	}
}

// more extends the deadline for a filter that reports progress, at most until last.
func (s *Session) more(d time.Duration, last time.Time) error {
	until := s.f.env.Clock.Now().Add(d)
	if until.After(last) {
		until = last
	}
	if err := s.nc.SetDeadline(until); err != nil {
		return fmt.Errorf("%w: %w", ErrFilter, err)
	}
	return nil
}

func verdict(a *wire.Answer) (Verdict, error) {
	switch a.Code {
	case wire.Continue, wire.Skip:
		return Verdict{}, nil
	case wire.Accept:
		return Verdict{Decision: Accept}, nil
	case wire.Discard:
		return Verdict{Decision: Discard}, nil
	case wire.Reject:
		return Verdict{Refuse, errReject}, nil
	case wire.TempFail, wire.ConnFail, wire.Shutdown:
		return Verdict{Refuse, errTempFail}, nil
	case wire.ReplyCode:
		return Verdict{Refuse, replyOf(a.Value)}, nil
	}
	return Verdict{}, fmt.Errorf("%w: unexpected %q", ErrFilter, byte(a.Code))
}

// replyOf parses "550 5.7.1 text". A text that is not a 4xx or 5xx reply results in errReject.
func replyOf(text string) *smtp.Reply {
	var r smtp.Reply
	lines := strings.Split(strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\r\n", "\n"), "\n")
	for _, l := range lines {
		if done, err := r.AddLine([]byte(l)); err != nil || done {
			break
		}
	}
	if r.Code < 400 || r.Code > 599 {
		return errReject
	}
	return &r
}

// Client describes an SMTP client to a filter.
type Client struct {
	// Host is the client's host name, empty if it is unknown. IP is its address.
	Host string
	IP   netip.Addr
	Port uint16
	// Macros are the macros for Connect, as alternating names and values.
	Macros []string
}

// Connect reports the client's connection to the filter.
func (s *Session) Connect(c *Client) (Verdict, error) {
	if !s.wants(wire.NoConnect) {
		return Verdict{}, nil
	}
	s.macros(wire.Connect, c.Macros)
	host, family, ip := c.Host, wire.FamilyUnknown, c.IP.Unmap().WithZone("")
	switch {
	case ip.Is4():
		family = wire.FamilyIPv4
	case ip.Is6():
		family = wire.FamilyIPv6
	}
	if host == "" && ip.IsValid() {
		host = "[" + ip.String() + "]"
	}
	s.out = wire.AppendConnect(s.out, host, family, c.Port, ip.String())
	return s.step(wire.NoReplyConnect)
}

func (s *Session) macros(c wire.Code, pairs []string) {
	if len(pairs) > 0 {
		s.out = wire.AppendMacros(s.out, c, pairs...)
	}
}

// Helo reports the client's HELO name to the filter.
func (s *Session) Helo(name string, macros ...string) (Verdict, error) {
	if !s.wants(wire.NoHelo) {
		return Verdict{}, nil
	}
	s.macros(wire.Helo, macros)
	s.out = wire.AppendStrings(s.out, wire.Helo, name)
	return s.step(wire.NoReplyHelo)
}

// Mail starts a message.
func (s *Session) Mail(from smtp.Path, params []string, macros ...string) (Verdict, error) {
	if s.at < len(s.in) {
		// Unread data after the last verdict would be taken for the verdict on this message.
		return Verdict{}, fmt.Errorf("%w: unsolicited answer", ErrFilter)
	}
	if s.at, s.in = 0, s.in[:0]; cap(s.in)+cap(s.out) > 4*wire.MaxChunk {
		s.in, s.out = nil, slices.Clone(s.out)
	}
	if !s.wants(wire.NoMail) {
		return Verdict{}, nil
	}
	s.macros(wire.Mail, macros)
	s.out = wire.AppendStrings(s.out, wire.Mail, append([]string{"<" + from.String() + ">"}, params...)...)
	return s.step(wire.NoReplyMail)
}

// Rcpt adds a recipient. A rejection applies to this recipient only.
func (s *Session) Rcpt(to smtp.Path, params []string, macros ...string) (Verdict, error) {
	if !s.wants(wire.NoRcpt) {
		return Verdict{}, nil
	}
	s.macros(wire.Rcpt, macros)
	s.out = wire.AppendStrings(s.out, wire.Rcpt, append([]string{"<" + to.String() + ">"}, params...)...)
	return s.step(wire.NoReplyRcpt)
}

// Abort cancels the current message.
func (s *Session) Abort() error {
	s.out = wire.Append(s.out, wire.Abort)
	return s.flush(s.f.opt.Command)
}
