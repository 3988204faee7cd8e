// Package assist looks people and groups up in other LDAP directories, and checks passwords that are kept there:
// Domino's directory assistance.
package assist

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"doublet/client/ldap"
	"doublet/directory/password"
	"doublet/env"
	"doublet/stat"
)

var (
	// ErrAway reports that the directory cannot be reached or does not serve the request: it says nothing about a
	// password. The caller should retry later.
	ErrAway = errors.New("assist: the directory cannot be reached")
	// ErrRefused reports that the directory does not accept the password.
	ErrRefused = errors.New("assist: wrong password")
	// ErrNobody reports that no entry matches.
	ErrNobody = errors.New("assist: no such entry")
	// ErrAmbiguous reports that several entries match where one is needed.
	ErrAmbiguous = errors.New("assist: several entries match")
)

// Bounds of a Client.
const (
	maxAtOnce  = 16 // requests
	maxWaiting = 64 // callers that wait for one of these
	maxIdle    = 4  // connections that are kept
	maxAnswer  = 1 << 20
	maxProofs  = 10_000
	maxAnswers = 2000
	maxName    = 256
	// maxFound is the number of people whom a look-up returns, lookTime the time for it: somebody waits for names that
	// complete what they type.
	maxFound = 20
	lookTime = 3 * time.Second
)

// Stats counts the requests to all directories.
type Stats struct {
	OK, Refused, Away, Cached, Enrolled, Searches *stat.Counter
}

// NewStats returns counters in t.
func NewStats(t *stat.Tree) *Stats {
	return &Stats{
		OK:      t.Counter("Directory.Assistance.Succeeded", "passwords that another directory accepted"),
		Refused: t.Counter("Directory.Assistance.Refused", "passwords that another directory did not accept"),
		Away:    t.Counter("Directory.Assistance.Away", "requests that another directory did not answer"),
		Cached: t.Counter("Directory.Assistance.Cached",
			"passwords that another directory accepted shortly before"),
		Enrolled: t.Counter("Directory.Assistance.Enrolled",
			"people whom their first sign-in added from another directory"),
		Searches: t.Counter("Directory.Assistance.Searches", "look-ups of names and groups in other directories"),
	}
}

// Client sends requests to another directory. Its methods are safe for concurrent use.
type Client struct {
	env     *env.Env
	set     Settings
	urls    []ldap.URL
	stat    *Stats
	gate    chan struct{}
	waiting atomic.Int64
	breaker breaker
	secret  [32]byte
	proofs  memo[struct{}]
	lists   memo[[]Person]
	groups  memo[[]string]

	mu     sync.Mutex // guards idle and closed
	idle   []*conn
	closed bool
}

// conn is a connection, and whether it is bound for searches.
type conn struct {
	*ldap.Conn
	searches bool
}

// New returns a client. The settings must have passed Check.
func New(e *env.Env, s Settings, st *Stats) (*Client, error) {
	c := &Client{env: e, set: s.filled(), stat: st, gate: make(chan struct{}, maxAtOnce)}
	e.Fill(c.secret[:])
	c.proofs.size, c.lists.size, c.groups.size = maxProofs, maxAnswers, maxAnswers
	for _, text := range s.URLs {
		u, err := parseURL(text)
		if err != nil {
			return nil, err
		}
		c.urls = append(c.urls, u)
	}
	return c, nil
}

// Settings returns the settings, with those of the kind in place of empty ones.
func (c *Client) Settings() *Settings { return &c.set }

// Close closes the idle connections. Requests under way finish.
func (c *Client) Close() {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	c.mu.Unlock()
	for _, k := range idle {
		_ = k.Close()
	}
}

// Person is a person of another directory.
type Person struct {
	DN, Short, Name, Mail string
}

// Verify checks the password of a person. It accepts a password again for a while after the directory has accepted it.
// Errors: ErrRefused, also for an empty password; ErrNobody, ErrAmbiguous, ErrAway, password.ErrBusy.
func (c *Client) Verify(ctx context.Context, name, secret string) error {
	digest := c.digest(name, secret)
	if _, ok := c.proofs.get(digest, c.env.Clock.Now()); ok && secret != "" {
		c.stat.Cached.Inc()
		return nil
	}
	_, err := c.Authenticate(ctx, name, secret)
	if now := c.env.Clock.Now(); err == nil {
		c.proofs.put(digest, struct{}{}, now, now.Add(c.set.Cache))
	}
	return err
}

// digest returns a key from which nobody who reads the memory can guess the password without reading the secret too.
func (c *Client) digest(name, secret string) string {
	m := hmac.New(sha256.New, c.secret[:])
	fmt.Fprintf(m, "%d %s%s", len(name), name, secret)
	return string(m.Sum(nil))
}

// Authenticate is Verify without a memory, and returns the person. It finds the person's entry, and binds as it.
func (c *Client) Authenticate(ctx context.Context, name, secret string) (p Person, err error) {
	if name == "" || secret == "" || len(secret) > password.MaxLength {
		return p, ErrRefused // servers answer an empty password with success (RFC 4513 section 5.1.2)
	}
	err = c.with(ctx, 2*c.set.Timeout, func(ctx context.Context, k *conn) error {
		p, err = c.person(ctx, k, name)
		if err != nil {
			return err
		}
		k.searches = false
		err := k.Bind(ctx, p.DN, secret)
		if errors.Is(err, ldap.ErrCredentials) {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	})
	switch {
	case err == nil:
		c.stat.OK.Inc()
	case errors.Is(err, ErrRefused), errors.Is(err, ErrNobody), errors.Is(err, ErrAmbiguous):
		c.stat.Refused.Inc()
	}
	return p, err
}

// person finds the one person with a name.
func (c *Client) person(ctx context.Context, k *conn, name string) (Person, error) {
	if len(name) > maxName {
		return Person{}, ErrNobody
	}
	list, more, err := c.find(ctx, k, fill(c.set.People, name), 2)
	switch {
	case err != nil:
		return Person{}, err
	case len(list) == 0 && !more:
		return Person{}, ErrNobody
	case len(list) != 1 || more:
		return Person{}, ErrAmbiguous
	case list[0].DN == "":
		return Person{}, ErrNobody // the root of the server is no person, and a bind without a name proves nothing
	}
	return c.personOf(&list[0]), nil
}

func (c *Client) personOf(e *ldap.Entry) Person {
	return Person{DN: e.DN, Short: one(e, c.set.Short), Name: one(e, c.set.Name), Mail: one(e, c.set.Mail)}
}

// one returns the first value of an attribute.
func one(e *ldap.Entry, name string) string {
	if list := e.Attributes[strings.ToLower(name)]; len(list) > 0 {
		return strings.TrimSpace(list[0])
	}
	return ""
}

// find searches people below the base.
func (c *Client) find(ctx context.Context, k *conn, filter string, limit int) ([]ldap.Entry, bool, error) {
	return c.query(ctx, k, ldap.Query{Base: c.set.Base, Scope: ldap.ScopeSubtree, Filter: filter, Limit: limit,
		Attributes: []string{c.set.Short, c.set.Name, c.set.Mail}})
}

// query searches with the rights of the bind DN.
func (c *Client) query(ctx context.Context, k *conn, q ldap.Query) ([]ldap.Entry, bool, error) {
	if err := c.authorize(ctx, k); err != nil {
		return nil, false, err
	}
	return k.Find(ctx, q)
}

// authorize binds a connection for searches.
func (c *Client) authorize(ctx context.Context, k *conn) error {
	if k.searches || c.set.BindDN == "" {
		return nil
	}
	if err := k.Bind(ctx, c.set.BindDN, c.set.Password); err != nil {
		// Not ErrCredentials: the password of the person is not the wrong one.
		return fmt.Errorf("assist: cannot search: %s", err.Error()) //nolint:errorlint // see above
	}
	k.searches = true
	return nil
}
