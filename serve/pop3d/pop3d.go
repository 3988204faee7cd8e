// Package pop3d is the door through which programs fetch INBOX by POP3. It keeps the protocol, its order
// and its limits; what a mail file is, mailbox knows; who somebody is, signin.
//
// The maildrop of a session is INBOX as it was at sign-in: what arrives later the next session sees.
// A second POP3 session of the same mail file is refused with IN-USE; other doors go on, and what one
// of them has removed meanwhile is answered as gone. Unique ids are EMAILIDs: they belong to the
// message and not to its place, so they outlive a new UIDVALIDITY, a restore, a move out of INBOX and
// back, and are the same on every replica; the UIDs of a folder survive none of these.
//
// A session is one goroutine. Between two commands it waits in listen.Conn.Await and holds no buffer.
package pop3d

import (
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

// Config is a door's settings; zero fields take the defaults.
type Config struct {
	// Hostname is the server's name in the greeting (default "localhost").
	Hostname string
	// LoginTimeout is how long a client may stay without signing in (default 3 min).
	LoginTimeout time.Duration
	// IdleTimeout is how long a client that has signed in may be silent (default 10 min, the least
	// that RFC 1939 section 3 allows).
	IdleTimeout time.Duration
	// LoginDelay is the least time between two sign-ins to the same mail file (default none).
	LoginDelay time.Duration
	// MaxBad is how many bad commands in a row end a session (default 10).
	MaxBad int
	// MaxAuthFailures ends a session (default 5).
	MaxAuthFailures int
	// Memory bounds the lists of messages that sessions hold (default: a budget of 64 MB for this
	// door).
	Memory *listen.Budget
	// Forward finds the server of a person's mail file; nil: it is this one.
	Forward *forward.Service
}

// Accounts is what pop3d needs to know of people: a signin.Service. Methods are called from many sessions
// at once; ctx ends when a shutdown has lost patience.
type Accounts interface {
	Mechanisms(a signin.Attempt) []string
	Password(ctx context.Context, a signin.Attempt, user, password string) (signin.Account, error)
	Begin(ctx context.Context, a signin.Attempt, mechanism string) (signin.Exchange, error)
	// Refresh is asked before each command.
	Refresh(ctx context.Context, a *signin.Account) (changed bool, err error)
}

// Server is one door. Its Serve goes into a listen.Door.
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

// New makes a Server; stats may be nil.
func New(e *env.Env, cfg Config, accounts Accounts, mail *mailbox.Service, stats *stat.Tree) *Server {
	if cfg.Hostname == "" {
		cfg.Hostname = "localhost"
	}
	cfg.LoginTimeout = positive(cfg.LoginTimeout, 3*time.Minute)
	cfg.IdleTimeout = positive(cfg.IdleTimeout, 10*time.Minute)
	cfg.MaxBad = positive(cfg.MaxBad, 10)
	cfg.MaxAuthFailures = positive(cfg.MaxAuthFailures, 5)
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

func positive[N int | time.Duration](n, def N) N {
	if n <= 0 {
		return def
	}
	return n
}

// Busy is what a full server says at this door, for listen.Door.
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

// drops are the maildrops that are in use, and when the others were.
type drops struct {
	delay time.Duration

	mu   sync.Mutex
	open map[note.DatabaseID]struct{}
	last map[note.DatabaseID]time.Time // where there is a delay
}

// maxLast bounds the memory of the delay between sign-ins: above it the old ones are forgotten.
const maxLast = 100_000

func (d *drops) init(delay time.Duration) {
	d.delay, d.open, d.last = delay, map[note.DatabaseID]struct{}{}, map[note.DatabaseID]time.Time{}
}

var (
	errInUse   = errors.New("pop3d: maildrop in use")
	errTooSoon = errors.New("pop3d: signed in too recently")
)

// take locks a maildrop.
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
