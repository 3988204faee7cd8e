// Package milter asks filters about messages: a session with a filter goes along with an SMTP
// session, hears what its client says, and tells what the filter wants done.
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

// Options are one filter's; zero values take the defaults.
type Options struct {
	// Network is "tcp" or "unix", Address where the filter listens.
	Network, Address string
	// Connect is how long connecting may take (10 s), Command how long an answer (30 s), Message how
	// long the answer to a whole message (5 min).
	Connect, Command, Message time.Duration
	// MaxBody is the largest body that a filter may put in the place of a message's (50 MB),
	// MaxChanges how many changes it may make to one (1,000). A filter that says that it is still at
	// work gets as much time again, but no more than twice the time in all.
	MaxBody, MaxChanges int
}

// ParseAddress reads "host:port", "inet:port@host", "unix:/path" or "/path".
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

// Filter is a filter that sessions can be opened with.
type Filter struct {
	env *env.Env
	opt Options
}

// New makes a Filter.
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

// Name is the filter's address, for logs.
func (f *Filter) Name() string { return f.opt.Address }

// ErrFilter wraps all trouble with a filter: it cannot be reached, is slow, or says nonsense. The
// session is of no use any more then.
var ErrFilter = errors.New("milter")

// Decision is what a filter wants done with what it was shown.
type Decision uint8

// The decisions.
const (
	Continue Decision = iota
	// Accept asks no more: about the message, or at Connect and Helo about the session.
	Accept
	// Discard takes the message and throws it away.
	Discard
	// Refuse answers with Verdict.Reply.
	Refuse
)

// Verdict is a decision. Reply is set with Refuse.
type Verdict struct {
	Decision Decision
	Reply    *smtp.Reply
}

var (
	errReject   = smtp.NewReply(550, 5, 7, 1, "Refused by a filter")
	errTempFail = smtp.NewReply(451, 4, 7, 1, "A filter asks to try again later")
)

// Session is a conversation with a filter about the messages of one SMTP session.
type Session struct {
	f     *Filter
	nc    net.Conn
	steps wire.Steps
	may   wire.Actions
	out   []byte
	in    []byte // read and not yet parsed: in[at:]
	at    int
	stop  func() bool
}

// offered is all that this client lets a filter do, and the steps that it can leave out.
const (
	offeredActions = wire.MayAddHeaders | wire.MayChangeBody | wire.MayAddRcpt | wire.MayDeleteRcpt | wire.MayChangeHeaders |
		wire.MayQuarantine | wire.MayChangeFrom | wire.MayAddRcptArgs
	offeredSteps = wire.LeadingSpace<<1 - 1
)

// Open connects to the filter and negotiates.
func (f *Filter) Open(ctx context.Context) (*Session, error) {
	nc, err := f.env.Dial(f.opt.Network, f.opt.Address, f.opt.Connect)
	if err != nil {
		return nil, fmt.Errorf("%w: connect: %w", ErrFilter, err)
	}
	s := &Session{f: f, nc: nc}
	// A shutdown that has lost patience ends the session.
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
	_, _ = s.nc.Write(wire.Append(nil, wire.Quit)) // a filter that is gone needs no farewell
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

// ask sends what was added, and reads a packet.
func (s *Session) ask(timeout time.Duration) (wire.Code, []byte, error) {
	if err := s.flush(timeout); err != nil {
		return 0, nil, err
	}
	return s.read()
}

// read reads one packet; its data are good until the next.
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

// wants says that the filter wants to see a step.
func (s *Session) wants(no wire.Steps) bool { return s.steps&no == 0 }

// step asks the command that was added last, unless the filter does not answer it.
func (s *Session) step(silent wire.Steps) (Verdict, error) {
	if s.steps&silent != 0 {
		if len(s.out) > wire.MaxChunk {
			return Verdict{}, s.flush(s.f.opt.Command)
		}
		return Verdict{}, nil // it goes out with what comes next
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

// more gives a filter that is still at work more time, until last.
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
	return Verdict{}, fmt.Errorf("%w: %q where it does not belong", ErrFilter, byte(a.Code))
}

// replyOf reads "550 5.7.1 text"; what is none refuses all the same.
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

// Client is what a filter is told of an SMTP client.
type Client struct {
	// Host is its name, empty where it is not known; IP where it comes from.
	Host string
	IP   netip.Addr
	Port uint16
	// Macros are for Connect, names and values in turn.
	Macros []string
}

// Connect tells who has connected.
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

// Helo tells what the client calls itself.
func (s *Session) Helo(name string, macros ...string) (Verdict, error) {
	if !s.wants(wire.NoHelo) {
		return Verdict{}, nil
	}
	s.macros(wire.Helo, macros)
	s.out = wire.AppendStrings(s.out, wire.Helo, name)
	return s.step(wire.NoReplyHelo)
}

// Mail begins a message.
func (s *Session) Mail(from smtp.Path, params []string, macros ...string) (Verdict, error) {
	if s.at < len(s.in) {
		// What it said behind its decision would be taken for one about this message.
		return Verdict{}, fmt.Errorf("%w: it speaks without being asked", ErrFilter)
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

// Rcpt names a recipient; a refusal is for this one.
func (s *Session) Rcpt(to smtp.Path, params []string, macros ...string) (Verdict, error) {
	if !s.wants(wire.NoRcpt) {
		return Verdict{}, nil
	}
	s.macros(wire.Rcpt, macros)
	s.out = wire.AppendStrings(s.out, wire.Rcpt, append([]string{"<" + to.String() + ">"}, params...)...)
	return s.step(wire.NoReplyRcpt)
}

// Abort ends a message before its end.
func (s *Session) Abort() error {
	s.out = wire.Append(s.out, wire.Abort)
	return s.flush(s.f.opt.Command)
}
