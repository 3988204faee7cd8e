// Package smtpd implements the server side of SMTP: SMTP from other servers, message submission by authenticated users,
// and LMTP. It implements the protocol and its limits, and delegates all decisions to a Backend.
//
// Implements: RFC 5321 Simple Mail Transfer Protocol
// Implements: RFC 6409 Message submission
// Implements: RFC 2033 LMTP
// Implements: RFC 2920 PIPELINING
// Implements: RFC 9422 LIMITS
package smtpd

import (
	"cmp"
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

// Kind is the protocol of a listener (a door).
type Kind uint8

// The kinds.
const (
	SMTP       Kind = iota // mail from anyone to local recipients; authenticated users may relay
	Submission             // authentication required
	LMTP                   // one reply per recipient after the data
)

func (k Kind) String() string { return [...]string{"SMTP", "Submission", "LMTP"}[k] }

// BareLF is the handling of bare CRs and LFs in mail data.
type BareLF uint8

// The choices.
const (
	BareReject    BareLF = iota // replies 554 after reading the data to its end
	BareNormalize               // converts each to CRLF; only CRLF.CRLF ends the data
)

// Config holds the settings of a listener. Zero fields mean the defaults.
type Config struct {
	Kind Kind
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// MaxMessage is the largest message in bytes (default 50 MB).
	MaxMessage int64
	// MaxRecipients is the maximum number of recipients per message (default 1,000).
	MaxRecipients int
	// MaxErrors is the number of permanent errors after which the session ends (default 20).
	MaxErrors int
	// MaxAuthFailures is the number of failed authentications after which the session ends (default 3).
	MaxAuthFailures int
	// MaxReceived is the maximum number of Received fields in an incoming message (default 100).
	MaxReceived int
	// CommandTimeout limits the wait for a command (default 5 min), and DataTimeout the wait for the next piece of a
	// message (default 3 min).
	CommandTimeout, DataTimeout time.Duration
	BareLF                      BareLF
	// Inbound checks incoming mail; nil means no checks.
	Inbound *inbound.Service
	// GreetingDelay is the delay of the greeting of an SMTP listener for unknown clients (default none). Clients that
	// send something before the greeting are rejected.
	GreetingDelay time.Duration
	// Quiet disables log lines about rejected recipients.
	Quiet bool
	// Mate returns the name of the server of this domain with the key in s. It returns "" for other clients. A nil Mate
	// means that there are no such servers.
	Mate func(ctx context.Context, s *tls.ConnectionState) (name string, err error)
	// Memory limits the memory of messages in transfer. All listeners should share one budget (default: 256 MB for this
	// listener alone).
	Memory *listen.Budget
}

// Stats counts events by name.
type Stats interface {
	Inc(name string, n int64)
}

// Session describes a client. A backend may use it only during the call that it is passed to.
type Session struct {
	Kind      Kind
	Helo      string
	Extended  bool // EHLO or LHLO, not HELO
	RemoteIP  netip.Addr
	Local     bool // the client is on this machine
	TLS       bool
	TLSName   string // TLS version and cipher suite, as "TLSv1.3 with cipher TLS_AES_128_GCM_SHA256"
	Signed    bool   // Account is valid
	Account   signin.Account
	Mate      string // the client's name if it is a server of this domain, else ""
	StartedAt time.Time
}

// Recipient is an accepted recipient. Data belongs to the backend: its Recipient method can store results there for
// Deliver.
type Recipient struct {
	To     smtp.Path
	Params smtp.RcptParams
	Data   any
}

// Envelope is a mail transaction.
type Envelope struct {
	*Session
	From       smtp.Path
	Params     smtp.MailParams
	Recipients []Recipient
	// Head, in Deliver, is the Headroom bytes of memory directly before the message. Its capacity extends to the end of
	// the message. Bytes written at the end of Head directly precede the message.
	Head []byte
	// Inbound, in Deliver, is the result of the inbound checks.
	Inbound inbound.Outcome
}

// Protocol returns the protocol name for the "with" clause of a Received field.
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

// Backend makes the decisions for smtpd. To reject, a method returns a *smtp.Reply, wrapped or not, as its error. Any
// other error results in 451 4.3.0 and is logged. ctx ends when a shutdown stops waiting for sessions. Many sessions
// call the methods concurrently.
type Backend interface {
	// SignIn returns the authentication service; LMTP needs none.
	SignIn() *signin.Service
	// MaySendAs checks the sender at MAIL, if the client has authenticated; from may be null.
	MaySendAs(ctx context.Context, s *Session, from smtp.Path) error
	// Recipient accepts or rejects r (550 5.1.1, 550 5.7.1, 452 4.2.2 …). It may set r.Data.
	Recipient(ctx context.Context, e *Envelope, r *Recipient) error
	// Deliver accepts the message, and returns when it is durable. The message is decoded, has CRLF lines, and is valid
	// until Deliver returns. It has no Return-Path and Received fields of this hop yet. id identifies the message in
	// the reply.
	//
	// An err applies to all recipients. results has one element for each of e.Recipients, initially nil. With LMTP each
	// element is the result for that recipient. Otherwise the message is accepted if one element is nil, and Deliver
	// must report the other failures to the sender.
	Deliver(ctx context.Context, e *Envelope, message []byte, results []error) (id string, err error)
}

// Server serves one kind of listener.
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

// New returns a Server; stats may be nil. The caller passes its Serve method to a listen.Door.
func New(e *env.Env, cfg Config, b Backend, stats Stats) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	if cfg.MaxMessage <= 0 {
		cfg.MaxMessage = 50 << 20
	}
	cfg.MaxRecipients = cmp.Or(cfg.MaxRecipients, 1000)
	cfg.MaxErrors = cmp.Or(cfg.MaxErrors, 20)
	cfg.MaxAuthFailures = cmp.Or(cfg.MaxAuthFailures, 3)
	cfg.MaxReceived = cmp.Or(cfg.MaxReceived, 100)
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

// Busy returns the reply to a client when the server has too many connections, for listen.Door.
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
