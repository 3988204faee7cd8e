// Package smtpd is the door through which mail comes in: SMTP from other servers, submission from
// people who sign in, LMTP with a reply for each recipient. It keeps the protocol and its limits
// and asks a Backend everything else.
//
// Implements: RFC 5321 Simple Mail Transfer Protocol
// Implements: RFC 6409 Message submission
// Implements: RFC 2033 LMTP
// Implements: RFC 2920 PIPELINING
// Implements: RFC 9422 LIMITS
package smtpd

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"

	"doublet/env"
	"doublet/mail/inbound"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/smtp"
)

// Kind is what a door speaks.
type Kind uint8

// The kinds.
const (
	SMTP       Kind = iota // mail from anywhere; who signs in may send on
	Submission             // nothing without signing in
	LMTP                   // a reply per recipient after the data
)

func (k Kind) String() string { return [...]string{"SMTP", "Submission", "LMTP"}[k] }

// BareLF says what is done about bare CRs and LFs in mail data.
type BareLF uint8

// The choices.
const (
	BareReject    BareLF = iota // 554 after the data was read to its end
	BareNormalize               // each becomes a CRLF; the end of data is still only CRLF.CRLF
)

// Config is a door's settings; zero fields take the defaults.
type Config struct {
	Kind Kind
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// MaxMessage is the largest message in bytes (default 50 MB).
	MaxMessage int64
	// MaxRecipients is per message (default 1,000).
	MaxRecipients int
	// MaxErrors ends a session (default 20).
	MaxErrors int
	// MaxAuthFailures ends a session (default 3).
	MaxAuthFailures int
	// MaxReceived is how many Received fields a message may bring (default 100).
	MaxReceived int
	// CommandTimeout is how long a client may think (default 5 min), DataTimeout how long between
	// two pieces of a message (default 3 min).
	CommandTimeout, DataTimeout time.Duration
	BareLF                      BareLF
	// Inbound is asked about mail on its way in; nil asks nobody.
	Inbound *inbound.Service
	// GreetingDelay is how long a stranger waits for the greeting of an SMTP door (default none). Who
	// speaks before it is refused.
	GreetingDelay time.Duration
	// Quiet leaves the lines about refused recipients out of the log.
	Quiet bool
	// Mate says which server of the domain is at the other end; "" and nil: none.
	Mate func(ctx context.Context, s *tls.ConnectionState) (name string, err error)
	// Memory bounds the messages in flight; share one among all doors (default: one of 256 MB for
	// this door).
	Memory *listen.Budget
}

// Stats receives counters by name.
type Stats interface {
	Inc(name string, n int64)
}

// Session is what is known about a client. It is valid during the call that gets it.
type Session struct {
	Kind      Kind
	Helo      string
	Extended  bool // EHLO or LHLO, not HELO
	RemoteIP  netip.Addr
	Local     bool // the client is on this machine
	TLS       bool
	TLSName   string // version and cipher suite, "TLSv1.3 with cipher TLS_AES_128_GCM_SHA256"
	Signed    bool   // Account is valid
	Account   signin.Account
	Mate      string // the server of the domain that the client is, "" for others
	StartedAt time.Time
}

// Recipient is one accepted recipient. Data is for the backend: what Recipient found out,
// Deliver need not look up again.
type Recipient struct {
	To     smtp.Path
	Params smtp.RcptParams
	Data   any
}

// Envelope is one mail transaction.
type Envelope struct {
	*Session
	From       smtp.Path
	Params     smtp.MailParams
	Recipients []Recipient
	// Head, in Deliver, is Headroom bytes of memory directly before the message, with a capacity
	// that reaches to the message's end: what is written to its end stands before the message.
	Head []byte
	// Inbound, in Deliver, is what is to be done with the message.
	Inbound inbound.Outcome
}

// Protocol is the word for the "with" clause of a Received field.
//
// Implements: RFC 3848 Transmission types
// Implements: RFC 6531 §3.7.3 UTF8SMTP transmission types
func (e *Envelope) Protocol() string {
	w := "SMTP"
	if e.Kind == LMTP {
		w = "LMTP"
	} else if e.Extended && !e.Params.UTF8 {
		w = "ESMTP"
	}
	if e.Params.UTF8 {
		w = "UTF8" + w
	}
	if e.TLS {
		w += "S"
	}
	if e.Signed {
		w += "A"
	}
	return w
}

// Backend is what smtpd needs of the server. A method refuses by returning a *smtp.Reply
// (wrapped or not) as error; any other error becomes 451 4.3.0, and is logged. ctx ends when a
// shutdown has lost patience. Methods are called from many sessions at once.
type Backend interface {
	// SignIn is how people sign in; LMTP needs none.
	SignIn() *signin.Service
	// MaySendAs is asked at MAIL when the client has signed in; from may be null.
	MaySendAs(ctx context.Context, s *Session, from smtp.Path) error
	// Recipient accepts or refuses r (550 5.1.1, 550 5.7.1, 452 4.2.2 …); it may set r.Data.
	Recipient(ctx context.Context, e *Envelope, r *Recipient) error
	// Deliver takes charge of the message: its decoded bytes with CRLF lines, in one piece, valid
	// until Deliver returns, without Return-Path and Received of this hop. It returns when the
	// message is durable. id names it in the reply. An err is for all recipients. results has an
	// element for each of e.Recipients, nil at first: at an LMTP door each is that recipient's
	// answer; at the others the message is accepted when one of them is nil, and reports for the
	// rest are Deliver's to make.
	Deliver(ctx context.Context, e *Envelope, message []byte, results []error) (id string, err error)
}

// Server is one kind of door.
type Server struct {
	env      *env.Env
	cfg      Config
	backend  Backend
	stats    Stats
	names    statNames
	greeting string
}

type statNames struct {
	sessions, active, commands, messages, bytes, recipients, refusedRecipients, refusedMessages,
	authFailures, errors, timeouts, early string
}

// New makes a Server; stats may be nil. Its Serve goes into a listen.Door.
func New(e *env.Env, cfg Config, b Backend, stats Stats) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	if cfg.MaxMessage <= 0 {
		cfg.MaxMessage = 50 << 20
	}
	cfg.MaxRecipients = positive(cfg.MaxRecipients, 1000)
	cfg.MaxErrors = positive(cfg.MaxErrors, 20)
	cfg.MaxAuthFailures = positive(cfg.MaxAuthFailures, 3)
	cfg.MaxReceived = positive(cfg.MaxReceived, 100)
	if cfg.CommandTimeout <= 0 {
		cfg.CommandTimeout = 5 * time.Minute
	}
	if cfg.DataTimeout <= 0 {
		cfg.DataTimeout = 3 * time.Minute
	}
	if cfg.Memory == nil {
		cfg.Memory = listen.NewBudget(256 << 20)
	}
	word := "ESMTP"
	if cfg.Kind == LMTP {
		word = "LMTP"
	}
	p := cfg.Kind.String() + "."
	return &Server{
		env: e, cfg: cfg, backend: b, stats: stats,
		greeting: "220 " + cfg.Hostname + " " + word + " Doublet\r\n",
		names: statNames{
			sessions: p + "Sessions.Inbound", active: p + "Sessions.Inbound.Active",
			commands: p + "Commands", messages: p + "MessagesProcessed", bytes: p + "BytesReceived",
			recipients: p + "RecipientsProcessed", refusedRecipients: p + "RecipientsRefused",
			refusedMessages: p + "MessagesRefused", authFailures: p + "AuthFailures",
			errors: p + "Errors", timeouts: p + "Timeouts", early: p + "EarlyTalkers",
		},
	}
}

func positive(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

// Busy is what a full server says at this door, for listen.Door.
func (srv *Server) Busy() string {
	return "421 4.3.2 " + srv.cfg.Hostname + " Too many connections, try again later\r\n"
}

// Serve runs one session.
func (srv *Server) Serve(c *listen.Conn) {
	s := &session{srv: srv, c: c, memory: c.Share(srv.cfg.Memory)}
	s.info = Session{
		Kind: srv.cfg.Kind, RemoteIP: c.RemoteIP(), Local: c.Local(), StartedAt: c.Now(),
	}
	s.tlsState()
	s.env.Session = &s.info
	srv.inc(srv.names.sessions, 1)
	srv.inc(srv.names.active, 1)
	defer s.end()
	s.run()
}

func (srv *Server) inc(name string, n int64) {
	if srv.stats != nil && n != 0 {
		srv.stats.Inc(name, n)
	}
}
