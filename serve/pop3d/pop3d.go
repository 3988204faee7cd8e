// Package pop3d serves INBOX over POP3. It implements the protocol, the order of its commands and its limits. Package
// mailbox implements mail files, and package signin implements accounts.
//
// The maildrop of a session is INBOX at the time of sign-in; messages that arrive later belong to the next session. A
// second POP3 session for the same mail file is rejected with IN-USE. Other protocols may change INBOX meanwhile: a
// command for a message that one of them has removed is rejected. Unique IDs are EMAILIDs, which belong to the message
// and not to its place in a folder. So they survive a new UIDVALIDITY, a restore, and a move out of INBOX and back, and
// are the same on every replica. UIDs of a folder survive none of these.
//
// A session is one goroutine. Between two commands it waits in listen.Conn.Await and holds no buffer.
package pop3d

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/pop3"
)

// Config holds the settings of a POP3 listener; zero fields take the defaults.
type Config struct {
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// LoginTimeout limits the time from connecting to signing in (default 3 min).
	LoginTimeout time.Duration
	// IdleTimeout limits the time between two commands of an authenticated client (default 10 min, the minimum of RFC
	// 1939 section 3).
	IdleTimeout time.Duration
	// LoginDelay is the minimum time between two sign-ins to the same mail file (default 0).
	LoginDelay time.Duration
	// MaxBad is the number of bad commands in a row that ends a session (default 10).
	MaxBad int
	// MaxAuthFailures is the number of failed sign-ins that ends a session (default 5).
	MaxAuthFailures int
	// Memory limits the memory for the message lists of sessions (default: a budget of 64 MB for this listener).
	Memory *listen.Budget
	// Forward finds the server of a person's mail file; nil means this server.
	Forward *forward.Service
}

// Accounts authenticates people; a signin.Service implements it. Many sessions call its methods concurrently. ctx ends
// when a shutdown stops waiting for sessions.
type Accounts interface {
	Mechanisms(a signin.Attempt) []string
	Password(ctx context.Context, a signin.Attempt, user, password string) (signin.Account, error)
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
	verbs    map[string]boundVerb
	stats    statistics
	drops    drops
}

type boundVerb struct {
	verb
	count *stat.Counter
}

type statistics struct {
	sessions, bad, authFailures, timeouts, inUse *stat.Counter
	retrieved, removed                           *stat.Counter
	current                                      *stat.Gauge
	trans                                        *stat.Rate
	users                                        *stat.Active
}

// New returns a Server; stats may be nil.
func New(e *env.Env, cfg Config, accounts Accounts, mail *mailbox.Service, stats *stat.Tree) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	cfg.LoginTimeout = cmp.Or(cfg.LoginTimeout, 3*time.Minute)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 10*time.Minute)
	cfg.MaxBad = cmp.Or(cfg.MaxBad, 10)
	cfg.MaxAuthFailures = cmp.Or(cfg.MaxAuthFailures, 5)
	if cfg.Memory == nil {
		cfg.Memory = listen.NewBudget(64 << 20)
	}
	s := &Server{env: e, cfg: cfg, accounts: accounts, mail: mail, verbs: make(map[string]boundVerb, len(verbs))}
	s.drops.init(cfg.LoginDelay)
	for name, v := range verbs {
		s.verbs[name] = boundVerb{v, stats.Counter("POP3.Commands."+name, "POP3 commands "+name)}
	}
	s.stats = statistics{
		sessions:     stats.Counter("POP3.Sessions.Inbound", "POP3 sessions begun"),
		current:      stats.Gauge("POP3.Sessions.Current", "POP3 sessions open"),
		bad:          stats.Counter("POP3.Errors.Bad", "POP3 commands that could not be understood"),
		authFailures: stats.Counter("POP3.AuthFailures", "POP3 sign-ins refused"),
		timeouts:     stats.Counter("POP3.Timeouts", "POP3 sessions ended for silence"),
		inUse:        stats.Counter("POP3.InUse", "POP3 sign-ins refused because the maildrop was in use"),
		retrieved:    stats.Counter("POP3.Retrieved", "messages fetched by POP3"),
		removed:      stats.Counter("POP3.Removed", "messages removed by POP3"),
		trans:        stats.Rate("Server.Trans", "transactions"),
		users:        stats.Active("Server.Users", "users"),
	}
	return s
}

// Busy returns the greeting when the connection limit is reached, for listen.Door.
func (srv *Server) Busy() string {
	return string(pop3.AppendErr(nil, pop3.CodeSysTemp, srv.cfg.Hostname+" has too many connections, try again later"))
}

// Serve runs one session.
func (srv *Server) Serve(c *listen.Conn) {
	s := &session{srv: srv, c: c, started: c.Now()}
	srv.stats.sessions.Inc()
	srv.stats.current.Add(1)
	defer s.end()
	s.run()
}

// drops holds the maildrops in use, and the last sign-ins to the others.
type drops struct {
	delay time.Duration

	mu   sync.Mutex
	open map[note.DatabaseID]struct{}
	last map[note.DatabaseID]time.Time // with LoginDelay only
}

// maxLast limits the number of remembered sign-ins: above it, expired ones are dropped.
const maxLast = 100_000

func (d *drops) init(delay time.Duration) {
	d.delay, d.open, d.last = delay, map[note.DatabaseID]struct{}{}, map[note.DatabaseID]time.Time{}
}

var (
	errInUse   = errors.New("pop3d: maildrop in use")
	errTooSoon = errors.New("pop3d: signed in too recently")
)

// take locks a maildrop, unless it is in use or the delay between sign-ins has not passed.
//
// Implements: RFC 1939 §4 Exclusive access to the maildrop
// Implements: RFC 2449 §6.5 LOGIN-DELAY
func (d *drops) take(id note.DatabaseID, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, used := d.open[id]; used {
		return errInUse
	}
	if d.delay > 0 {
		if at, ok := d.last[id]; ok && now.Sub(at) < d.delay {
			return errTooSoon
		}
		if len(d.last) >= maxLast {
			for id, at := range d.last {
				if now.Sub(at) >= d.delay {
					delete(d.last, id)
				}
			}
		}
		if len(d.last) < maxLast {
			d.last[id] = now
		}
	}
	d.open[id] = struct{}{}
	return nil
}

// resume locks a maildrop for a session from another member, without the delay between sign-ins.
func (d *drops) resume(id note.DatabaseID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, used := d.open[id]; used {
		return errInUse
	}
	d.open[id] = struct{}{}
	return nil
}

func (d *drops) give(id note.DatabaseID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
}

func offers(list []string, mechanism string) bool {
	for _, m := range list {
		if strings.EqualFold(m, mechanism) {
			return true
		}
	}
	return false
}
