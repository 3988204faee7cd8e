// Package imapd is the door through which mail programs read and keep mail: IMAP4rev2 and IMAP4rev1
// with the extensions that capability.go lists. It keeps the protocol, its order and its limits; what
// a mail file is, mailbox knows; who somebody is, signin.
//
// A session is one goroutine. Between two commands it waits in listen.Conn.Await and holds no
// buffer. It speaks only while a command is running, IDLE included: that is when it may tell what
// other sessions did. A client that asked for it by NOTIFY is told between commands too.
//
// Implements: RFC 9051 Internet Message Access Protocol, version 4rev2
// Implements: RFC 3501 Internet Message Access Protocol, version 4rev1
package imapd

import (
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

// Config is a door's settings; zero fields take the defaults.
type Config struct {
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// LoginTimeout is how long a client may stay without signing in (default 3 min).
	LoginTimeout time.Duration
	// IdleTimeout is how long a client that has signed in may be silent, in IDLE too (default
	// 30 min, the least that RFC 9051 section 5.4 allows).
	IdleTimeout time.Duration
	// DataTimeout is how long a client may take between two pieces of a message (default 3 min).
	DataTimeout time.Duration
	// MaxBad is how many bad commands in a row end a session (default 10).
	MaxBad int
	// MaxAuthFailures ends a session (default 5).
	MaxAuthFailures int
	// Memory bounds the messages in flight over all sessions (default: one of 256 MB for this
	// door).
	Memory *listen.Budget
	// NotifyMailboxes bounds the mailboxes that sessions remember for NOTIFY, over all sessions (default 200,000;
	// about 150 bytes each).
	NotifyMailboxes int
	// Forward finds the server of a person's mail file; nil: it is this one.
	Forward *forward.Service
}

// Backend is what imapd needs of the server.
type Backend interface {
	// SignIn is how people sign in, and how a session that lasts for days is told who they are today.
	SignIn() *signin.Service
	Mail() *mailbox.Service
	// Identifier is the name by which a person or group stands in access lists and among mailboxes,
	// Identify finds who has one; ErrIdentifier: nobody.
	Identifier(ctx context.Context, id note.UNID) (string, error)
	Identify(ctx context.Context, name string) (note.UNID, error)
	// SetQuota sets how much a mail file may hold, in bytes; 0 is no limit. store.ErrDenied: the person
	// is no administrator.
	SetQuota(ctx context.Context, who note.Who, db note.DatabaseID, limit uint64) error
	// URLSecret is the secret under which URLs are proved, the same at every server of the domain.
	URLSecret() []byte
}

// Server is one door. Its Serve goes into a listen.Door.
type Server struct {
	env     *env.Env
	cfg     Config
	backend Backend
	verbs   map[string]boundVerb
	stats   statistics
	// watched is how many mailboxes sessions remember for NOTIFY.
	watched atomic.Int64
	// progress is how often a client is told that a long command is at work.
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

// New makes a Server; stats may be nil.
func New(e *env.Env, cfg Config, b Backend, stats *stat.Tree) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	cfg.LoginTimeout = positive(cfg.LoginTimeout, 3*time.Minute)
	cfg.IdleTimeout = positive(cfg.IdleTimeout, 30*time.Minute)
	cfg.DataTimeout = positive(cfg.DataTimeout, 3*time.Minute)
	cfg.MaxBad = positive(cfg.MaxBad, 10)
	cfg.MaxAuthFailures = positive(cfg.MaxAuthFailures, 5)
	cfg.NotifyMailboxes = positive(cfg.NotifyMailboxes, 200_000)
	if cfg.Memory == nil {
		cfg.Memory = listen.NewBudget(256 << 20)
	}
	s := &Server{env: e, cfg: cfg, backend: b, verbs: make(map[string]boundVerb, len(verbs)), progress: progressEvery, maxSaved: maxSaved}
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

func positive[N int | time.Duration](n, def N) N {
	if n <= 0 {
		return def
	}
	return n
}

// Busy is what a full server says at this door, for listen.Door.
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
