// Package imapd serves mail over IMAP4rev2 and IMAP4rev1, with the extensions that capability.go lists. It implements
// the protocol, the order of its commands and its limits; package mailbox implements mail files, and package signin
// accounts.
//
// A session is one goroutine. Between two commands it waits in listen.Conn.Await and holds no buffer. It sends
// changes of other sessions only while a command runs, IDLE included, or between commands to a client that asked for
// it by NOTIFY.
//
// Implements: RFC 9051 Internet Message Access Protocol, version 4rev2
// Implements: RFC 3501 Internet Message Access Protocol, version 4rev1
package imapd

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
)

// Config holds the settings of an IMAP listener; zero fields take the defaults.
type Config struct {
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// LoginTimeout limits the time from connecting to signing in (default 3 min).
	LoginTimeout time.Duration
	// IdleTimeout limits the time for which an authenticated client may be silent, in IDLE too (default 30 min, the
	// minimum of RFC 9051 section 5.4).
	IdleTimeout time.Duration
	// DataTimeout limits the time between two pieces of a message (default 3 min).
	DataTimeout time.Duration
	// MaxBad is the number of bad commands in a row that ends a session (default 10).
	MaxBad int
	// MaxAuthFailures is the number of failed sign-ins that ends a session (default 5).
	MaxAuthFailures int
	// Memory limits the memory for messages in flight of all sessions (default: a budget of 256 MB for this listener).
	Memory *listen.Budget
	// NotifyMailboxes is the maximum number of mailboxes that all sessions together remember for NOTIFY (default
	// 200,000; about 150 bytes each).
	NotifyMailboxes int
	// Forward finds the server of a person's mail file; nil means this server.
	Forward *forward.Service
}

// Backend provides accounts, mail files and names to imapd.
type Backend interface {
	// SignIn returns the service that authenticates people and refreshes the account of a long session.
	SignIn() *signin.Service
	Mail() *mailbox.Service
	// Identifier returns the name of a person or group for access lists and mailbox names. Identify returns the ID for
	// a name, or ErrIdentifier.
	Identifier(ctx context.Context, id note.UNID) (string, error)
	Identify(ctx context.Context, name string) (note.UNID, error)
	// SetQuota sets the quota of a mail file in bytes; 0 means no limit. It returns store.ErrDenied to people who are
	// not administrators.
	SetQuota(ctx context.Context, who note.Who, db note.DatabaseID, limit uint64) error
	// URLSecret returns the key of URL tokens, which is the same on every server of the domain.
	URLSecret() []byte
}

// Server serves one listener: its Serve is used in a listen.Door.
type Server struct {
	env     *env.Env
	cfg     Config
	backend Backend
	verbs   map[string]boundVerb
	stats   statistics
	// watched counts the mailboxes that sessions remember for NOTIFY.
	watched atomic.Int64
	// progress is the time between two progress responses of a long command.
	progress time.Duration
	maxSaved int // ranges of a saved search result
}

type boundVerb struct {
	verb
	count *stat.Counter
}

type statistics struct {
	sessions, bad, authFailures, timeouts *stat.Counter
	current, watched                      *stat.Gauge
	trans                                 *stat.Rate
	users                                 *stat.Active
}

// New returns a Server; stats may be nil.
func New(e *env.Env, cfg Config, b Backend, stats *stat.Tree) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	cfg.LoginTimeout = cmp.Or(cfg.LoginTimeout, 3*time.Minute)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 30*time.Minute)
	cfg.DataTimeout = cmp.Or(cfg.DataTimeout, 3*time.Minute)
	cfg.MaxBad = cmp.Or(cfg.MaxBad, 10)
	cfg.MaxAuthFailures = cmp.Or(cfg.MaxAuthFailures, 5)
	cfg.NotifyMailboxes = cmp.Or(cfg.NotifyMailboxes, 200_000)
	if cfg.Memory == nil {
		cfg.Memory = listen.NewBudget(256 << 20)
	}
	s := &Server{
		env: e, cfg: cfg, backend: b, verbs: make(map[string]boundVerb, len(verbs)), progress: progressEvery,
		maxSaved: maxSaved,
	}
	for name, v := range verbs {
		s.verbs[name] = boundVerb{v, stats.Counter("IMAP.Commands."+name, "IMAP commands "+name)}
	}
	s.stats = statistics{
		sessions:     stats.Counter("IMAP.Sessions.Inbound", "IMAP sessions begun"),
		current:      stats.Gauge("IMAP.Sessions.Current", "IMAP sessions open"),
		watched:      stats.Gauge("IMAP.Notify.Mailboxes", "mailboxes watched by IMAP sessions with NOTIFY"),
		bad:          stats.Counter("IMAP.Errors.Bad", "IMAP commands answered BAD"),
		authFailures: stats.Counter("IMAP.AuthFailures", "IMAP sign-ins refused"),
		timeouts:     stats.Counter("IMAP.Timeouts", "IMAP sessions ended for silence"),
		trans:        stats.Rate("Server.Trans", "transactions"),
		users:        stats.Active("Server.Users", "users"),
	}
	return s
}

// Busy returns the greeting when the connection limit is reached, for listen.Door.
func (srv *Server) Busy() string {
	return "* BYE [UNAVAILABLE] " + srv.cfg.Hostname + " Too many connections, try again later\r\n"
}

// Serve runs one session.
func (srv *Server) Serve(c *listen.Conn) {
	s := newSession(srv, c)
	srv.stats.sessions.Inc()
	srv.stats.current.Add(1)
	defer s.end()
	s.run()
}
