// Package imapd is the door through which mail programs read and keep mail: IMAP4rev2 and IMAP4rev1
// with the extensions that capability.go lists. It keeps the protocol, its order and its limits; what
// a mail file is, mailbox knows; who somebody is, a Backend.
//
// A session is one goroutine. Between two commands it waits in listen.Conn.Await and holds no
// buffer. It speaks only while a command is running, IDLE included: that is when it may tell what
// other sessions did.
//
// Implements: RFC 9051 Internet Message Access Protocol, version 4rev2
// Implements: RFC 3501 Internet Message Access Protocol, version 4rev1
package imapd

import (
	"context"
	"errors"
	"strings"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
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
	// Mechanisms are offered for AUTHENTICATE where it is allowed (default PLAIN and
	// SCRAM-SHA-256).
	Mechanisms []string
	// Memory bounds the messages in flight over all sessions (default: one of 256 MB for this
	// door).
	Memory *listen.Budget
}

// Account is who signed in, and where their mail is.
type Account struct {
	Who      note.Who
	Database note.DatabaseID
	Name     string // for the log
}

// ErrCredentials is what Login and ScramServer.Next fail with when the name or the password is wrong.
var ErrCredentials = errors.New("imapd: wrong name or password")

// Backend is what imapd needs of the server. Methods are called from many sessions at once; ctx ends
// when a shutdown has lost patience. An error that is not ErrCredentials is the server's own trouble:
// the client is told to come again.
type Backend interface {
	// Login checks a password. remote is the client's address, "" on a Unix socket.
	Login(ctx context.Context, user, password, remote string) (Account, error)
	// Scram begins a SCRAM-SHA-256 exchange.
	Scram(ctx context.Context) (ScramServer, error)
	Mail() *mailbox.Service
}

// Refresher is what a Backend should be, too: sessions last for days, and people are disabled, removed
// and taken out of groups meanwhile.
type Refresher interface {
	// Refresh brings an account up to date, and says whether it has changed. It is asked before each
	// command and before changes are told in IDLE, so it must be quick where nothing has. It fails with
	// ErrCredentials when the account may not be used any more.
	Refresh(ctx context.Context, a *Account) (changed bool, err error)
}

// ScramServer is the server's side of one SCRAM exchange. Next gets the client's messages and gives
// the server's; the one given with done is server-final. Account is valid then.
type ScramServer interface {
	Next(in []byte) (out []byte, done bool, err error)
	Account() (Account, error)
}

// Server is one door. Its Serve goes into a listen.Door.
type Server struct {
	env     *env.Env
	cfg     Config
	backend Backend
	fresh   Refresher // nil where the backend is none
	verbs   map[string]boundVerb
	stats   statistics
}

type boundVerb struct {
	verb
	count *stat.Counter
}

type statistics struct {
	sessions, bad, authFailures, timeouts *stat.Counter
	current                               *stat.Gauge
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
	if cfg.Mechanisms == nil {
		cfg.Mechanisms = []string{"PLAIN", "SCRAM-SHA-256"}
	}
	if cfg.Memory == nil {
		cfg.Memory = listen.NewBudget(256 << 20)
	}
	s := &Server{env: e, cfg: cfg, backend: b, verbs: make(map[string]boundVerb, len(verbs))}
	s.fresh, _ = b.(Refresher)
	for name, v := range verbs {
		s.verbs[name] = boundVerb{v, stats.Counter("IMAP.Commands."+name, "IMAP commands "+name)}
	}
	s.stats = statistics{
		sessions:     stats.Counter("IMAP.Sessions.Inbound", "IMAP sessions begun"),
		current:      stats.Gauge("IMAP.Sessions.Current", "IMAP sessions open"),
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

func (srv *Server) offers(mechanism string) bool {
	for _, m := range srv.cfg.Mechanisms {
		if strings.EqualFold(m, mechanism) {
			return true
		}
	}
	return false
}
