// Package sieved serves the Sieve scripts of people over ManageSieve (RFC 5804). It implements the protocol. Package
// scripts keeps the scripts, and package signin implements accounts.
package sieved

import (
	"cmp"
	"context"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/managesieve"
)

// Config holds the settings of a ManageSieve listener; zero fields take the defaults.
type Config struct {
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// LoginTimeout limits the time from connecting to signing in (default 3 min). IdleTimeout limits the time between
	// two commands after it (default 30 min, the minimum of RFC 5804 section 1.2).
	LoginTimeout, IdleTimeout time.Duration
	// MaxBad is the number of bad commands in a row, and MaxAuthFailures that of failed sign-ins, that ends a session
	// (defaults 10 and 5).
	MaxBad, MaxAuthFailures int
	// Forward finds the server of a person's mail file; nil means this server.
	Forward *forward.Service
}

// Accounts authenticates people; a signin.Service implements it. Many sessions call its methods concurrently.
type Accounts interface {
	Mechanisms(a signin.Attempt) []string
	Begin(ctx context.Context, a signin.Attempt, mechanism string) (signin.Exchange, error)
	// Refresh is called before each command.
	Refresh(ctx context.Context, a *signin.Account) (changed bool, err error)
}

// Server serves one listener: its Serve is used in a listen.Door.
type Server struct {
	env      *env.Env
	cfg      Config
	accounts Accounts
	mail     *mailbox.Service
	stats    statistics
}

type statistics struct {
	sessions, bad, authFailures, timeouts, commands *stat.Counter
	current                                         *stat.Gauge
	users                                           *stat.Active
}

// New returns a Server; stats may be nil.
func New(e *env.Env, cfg Config, accounts Accounts, mail *mailbox.Service, stats *stat.Tree) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	cfg.LoginTimeout = cmp.Or(cfg.LoginTimeout, 3*time.Minute)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 30*time.Minute)
	cfg.MaxBad = cmp.Or(cfg.MaxBad, 10)
	cfg.MaxAuthFailures = cmp.Or(cfg.MaxAuthFailures, 5)
	return &Server{env: e, cfg: cfg, accounts: accounts, mail: mail, stats: statistics{
		sessions:     stats.Counter("Sieve.Sessions.Inbound", "ManageSieve sessions begun"),
		current:      stats.Gauge("Sieve.Sessions.Current", "ManageSieve sessions open"),
		commands:     stats.Counter("Sieve.Commands", "ManageSieve commands"),
		bad:          stats.Counter("Sieve.Errors.Bad", "ManageSieve commands that could not be understood"),
		authFailures: stats.Counter("Sieve.AuthFailures", "ManageSieve sign-ins refused"),
		timeouts:     stats.Counter("Sieve.Timeouts", "ManageSieve sessions ended for silence"),
		users:        stats.Active("Server.Users", "users"),
	}}
}

// Busy returns the greeting when the connection limit is reached, for listen.Door.
func (srv *Server) Busy() string {
	return string(managesieve.AppendResponse(nil, "BYE", "TRYLATER", "Too many connections, try again later"))
}

// Serve runs one session.
func (srv *Server) Serve(c *listen.Conn) {
	s := &session{srv: srv, c: c, started: c.Now()}
	srv.stats.sessions.Inc()
	srv.stats.current.Add(1)
	defer s.end()
	s.run()
}
