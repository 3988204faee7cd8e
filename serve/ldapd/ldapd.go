// Package ldapd serves the directory over LDAP version 3: people, groups and mail-in databases, for address books, mail
// servers and programs that check passwords. It is read-only but for passwords.
//
// A session is one goroutine that executes one operation after another. An operation sees the directory as its client
// may see it (view); every filter, attribute and name is evaluated on that, so that nothing else leaks. Look-ups of
// whole names and addresses use the directory's indexes; other searches read records piece by piece, within limits.
package ldapd

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/ldap"
)

// Config holds the settings of an LDAP listener; zero fields take the defaults.
type Config struct {
	// Hostname is the server's name, the mailHost of people whose server has no document (default "localhost").
	Hostname string
	// Version is the program's version, for the root DSE.
	Version string
	// Base is the suffix of the tree. If empty, it is made of the directory's first domain: dc=example,dc=org.
	Base string
	// People and Groups are the names of the two containers below it (defaults ou=people, ou=groups).
	People, Groups string
	// Anonymous allows clients on this machine to search without signing in.
	Anonymous bool
	// Readers is the name of a group whose members see everything, as administrators do.
	Readers string
	// Entries is the maximum number of entries in the response to a person (default 100), and ReaderEntries to a client
	// that sees everything (default 10,000).
	Entries, ReaderEntries int
	// SearchTime is the maximum time of a search (default 30 s).
	SearchTime time.Duration
	// LeastPassword is the minimum length of a new password in characters (default 8). SCRAM creates SCRAM credentials
	// with new passwords.
	LeastPassword int
	SCRAM         bool
	// LoginTimeout limits the silence of a client that is not signed in (default 3 min), IdleTimeout that of the others
	// (default 30 min), and DataTimeout the wait for the rest of a message (default 1 min).
	LoginTimeout, IdleTimeout, DataTimeout time.Duration
	// MaxAuthFailures is the number of failed binds that ends a session (default 5).
	MaxAuthFailures int
	// Memory limits the memory for large requests (default: a budget of 16 MB for this listener).
	Memory *listen.Budget
}

// Accounts authenticates people; a signin.Service implements it. Many sessions call its methods concurrently. ctx ends
// when a shutdown stops waiting for sessions.
type Accounts interface {
	Mechanisms(a signin.Attempt) []string
	Password(ctx context.Context, a signin.Attempt, user, password string) (signin.Account, error)
	Begin(ctx context.Context, a signin.Attempt, mechanism string) (signin.Exchange, error)
	// Refresh is called before each operation.
	Refresh(ctx context.Context, a *signin.Account) (changed bool, err error)
}

// Server serves one listener: its Serve is used in a listen.Door.
type Server struct {
	env       *env.Env
	cfg       Config
	accounts  Accounts
	dir       *directory.Directory
	trees     atomic.Pointer[tree]
	readers   atomic.Pointer[readers]
	subschema map[string][]string
	seal      [32]byte // key of the cookies of paged searches; others are not valid after a restart
	stats     statistics
}

type statistics struct {
	sessions, anonymous, bad, authFailures, timeouts *stat.Counter
	found, bounded, passwords                        *stat.Counter
	current                                          *stat.Gauge
	operations                                       map[ldap.Op]*stat.Counter
	trans                                            *stat.Rate
	users                                            *stat.Active
}

// New returns a Server; stats may be nil. It returns an error if the settings of the tree are no distinguished names.
func New(e *env.Env, cfg Config, accounts Accounts, dir *directory.Directory, stats *stat.Tree) (*Server, error) {
	cfg.fill()
	if _, err := newTree(cmp.Or(cfg.Base, noBase), cfg.People, cfg.Groups); err != nil {
		return nil, fmt.Errorf("ldapd: names of the tree: %w", err)
	}
	s := &Server{env: e, cfg: cfg, accounts: accounts, dir: dir, subschema: subschema()}
	e.Fill(s.seal[:])
	s.stats = statistics{
		sessions:     stats.Counter("LDAP.Sessions.Inbound", "LDAP sessions begun"),
		current:      stats.Gauge("LDAP.Sessions.Current", "LDAP sessions open"),
		anonymous:    stats.Counter("LDAP.Anonymous", "LDAP operations of clients that are not signed in"),
		bad:          stats.Counter("LDAP.Errors.Bad", "LDAP messages that could not be understood"),
		authFailures: stats.Counter("LDAP.AuthFailures", "LDAP sign-ins refused"),
		timeouts:     stats.Counter("LDAP.Timeouts", "LDAP sessions ended for silence"),
		found:        stats.Counter("LDAP.Entries", "entries found by LDAP searches"),
		bounded:      stats.Counter("LDAP.Searches.Failed", "LDAP searches refused or ended at a limit"),
		passwords:    stats.Counter("LDAP.Passwords", "passwords changed by LDAP"),
		trans:        stats.Rate("Server.Trans", "transactions"),
		users:        stats.Active("Server.Users", "users"),
		operations:   map[ldap.Op]*stat.Counter{},
	}
	for op, o := range operations {
		s.stats.operations[op] = stats.Counter("LDAP.Operations."+o.name, "LDAP operations "+o.name)
	}
	return s, nil
}

func (c *Config) fill() {
	text := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	text(&c.Hostname, "localhost")
	text(&c.People, "ou=people")
	text(&c.Groups, "ou=groups")
	c.Entries, c.ReaderEntries = cmp.Or(c.Entries, 100), cmp.Or(c.ReaderEntries, 10_000)
	c.SearchTime = cmp.Or(c.SearchTime, 30*time.Second)
	c.LeastPassword = cmp.Or(c.LeastPassword, 8)
	c.LoginTimeout = cmp.Or(c.LoginTimeout, 3*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Minute)
	c.DataTimeout = cmp.Or(c.DataTimeout, time.Minute)
	c.MaxAuthFailures = cmp.Or(c.MaxAuthFailures, 5)
	if c.Memory == nil {
		c.Memory = listen.NewBudget(16 << 20)
	}
}

// Busy returns the notice of disconnection when the connection limit is reached, for listen.Door.
func (srv *Server) Busy() string {
	return string(disconnection(ldap.Busy, "too many connections, try again later"))
}

// disconnection returns a notice of disconnection.
//
// Implements: RFC 4511 §4.4.1 Notice of Disconnection
func disconnection(code ldap.Code, text string) []byte {
	return ldap.AppendResult(nil, 0, &ldap.Result{Op: ldap.OpExtendedResponse, Code: code, Text: text,
		OID: ldap.OIDDisconnection})
}

// Serve runs one session.
func (srv *Server) Serve(c *listen.Conn) {
	s := &session{srv: srv, c: c}
	srv.stats.sessions.Inc()
	srv.stats.current.Add(1)
	defer s.end()
	s.run()
}
