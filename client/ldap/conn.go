package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"doublet/env"

	"github.com/go-ldap/ldap/v3"
)

var (
	// ErrCredentials reports that the server did not accept the name and the password of a bind. A server that is
	// busy, or wants TLS, returns another error.
	ErrCredentials = errors.New("ldap: wrong name or password")
	// ErrNoEntry reports that the base of a search is not there.
	ErrNoEntry = errors.New("ldap: no such entry")
	// ErrTooLarge reports an answer of more bytes than Options.Answer.
	ErrTooLarge = errors.New("ldap: answer too large")
	// ErrTimeout reports that the answer did not come in time. The connection is closed.
	ErrTimeout = errors.New("ldap: no answer in time")
	// ErrReferral reports that the server refers the request to other servers. Referrals are not followed: the
	// credentials are for the servers that the caller has named.
	ErrReferral = errors.New("ldap: refers to another server, and referrals are not followed")
)

// Conn is a connection to a directory server. One caller at a time uses it.
type Conn struct {
	at    URL
	env   *env.Env
	opt   Options
	nc    *limited
	conn  *ldap.Conn
	ended atomic.Bool // closed because a request took too long
	// references are those in the answer of the last search (RFC 4511 section 4.5.3).
	references []string
}

// limited is a connection from which a request may read a limited number of bytes. go-ldap makes a tree of each answer,
// of many times its size, and its own limits are those of the whole process.
type limited struct {
	net.Conn
	left atomic.Int64
	over atomic.Bool
}

func (l *limited) Read(p []byte) (int, error) {
	left := l.left.Load()
	if left <= 0 {
		l.over.Store(true)
		return 0, ErrTooLarge
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), left)])
	l.left.Add(-int64(n))
	return n, err
}

// Dial connects to a server, and starts TLS if u or o says so. It does not bind.
func Dial(ctx context.Context, e *env.Env, u URL, o Options) (*Conn, error) {
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Answer <= 0 {
		o.Answer = math.MaxInt64
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ldap: dial %s: %w", u.Address, err)
	}
	wait := min(o.Timeout, time.Minute)
	if left := env.TimeLeft(ctx); left > 0 {
		wait = min(wait, left)
	}
	nc, err := e.Dial("tcp", u.Address, wait)
	if err != nil {
		return nil, fmt.Errorf("ldap: dial %s: %w", u.Address, err)
	}
	c := &Conn{at: u, env: e, opt: o, nc: &limited{Conn: nc}}
	c.nc.left.Store(o.Answer) // go-ldap reads before the first request
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// start starts TLS and the goroutines of go-ldap. Those have no timeout for a handshake, do has one.
func (c *Conn) start(ctx context.Context) error {
	if !c.at.TLS {
		c.conn = ldap.NewConn(c.nc, false)
		c.conn.Start()
		if !c.opt.StartTLS {
			return nil
		}
		return c.do(ctx, "StartTLS", func() error { return c.conn.StartTLS(c.tls()) })
	}
	secure := tls.Client(c.nc, c.tls())
	if err := c.do(ctx, "TLS", secure.Handshake); err != nil {
		return err
	}
	c.conn = ldap.NewConn(secure, true)
	c.conn.Start()
	return nil
}

func (c *Conn) tls() *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.opt.TLS != nil {
		t = c.opt.TLS.Clone()
	}
	if t.ServerName == "" {
		t.ServerName = c.at.Host
	}
	return t
}

// do runs a request, and closes the connection if it takes too long or the context ends. Closing it below go-ldap ends
// every wait there.
func (c *Conn) do(ctx context.Context, what string, request func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ldap: %s at %s: %w", what, c.at.Address, err)
	}
	c.nc.left.Store(c.opt.Answer)
	stopTimer := c.env.Clock.AfterFunc(c.opt.Timeout, func() { c.ended.Store(true); _ = c.nc.Close() })
	stopContext := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	err := request()
	stopContext()
	stopTimer()
	switch {
	case err == nil:
		return nil
	case c.nc.over.Load():
		err = ErrTooLarge
	case c.ended.Load():
		err = ErrTimeout
	case ctx.Err() != nil:
		err = ctx.Err()
	case ldap.IsErrorWithCode(err, ldap.LDAPResultReferral):
		err = fmt.Errorf("%w: %s", ErrReferral, shown(referrals(err)))
	}
	return fmt.Errorf("ldap: %s at %s: %w", what, c.at.Address, err)
}

// referrals returns the URLs to which a result refers (RFC 4511 section 4.1.10).
func referrals(err error) (list []string) {
	var result *ldap.Error
	if !errors.As(err, &result) || result.Packet == nil || len(result.Packet.Children) < 2 {
		return nil
	}
	const referral, contextClass = 3, 0x80
	for _, part := range result.Packet.Children[1].Children {
		if part.Tag != referral || part.ClassType != contextClass {
			continue
		}
		for _, u := range part.Children {
			if u.Data != nil {
				list = append(list, u.Data.String())
			}
		}
	}
	return list
}

// shown returns the first of some URLs that a server sent, for a message.
func shown(list []string) string {
	if len(list) == 0 {
		return "it does not say which"
	}
	text := fmt.Sprintf("%.200q", list[0])
	if len(list) > 1 {
		text += fmt.Sprintf(" and %d more", len(list)-1)
	}
	return text
}

// refusals are the results of a bind that say that this name and password are not accepted. All other results, such as
// busy, unavailable or confidentialityRequired, leave open if the password is right.
var refusals = []uint16{ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication,
	ldap.LDAPResultConstraintViolation, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax,
	ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultUnwillingToPerform}

// Bind authenticates by a name and a password (RFC 4513 section 5.1.3). It refuses an empty name and an empty password,
// which servers answer with success without a check (sections 5.1.1 and 5.1.2). Errors: ErrCredentials, ErrTimeout, and
// those of the connection.
func (c *Conn) Bind(ctx context.Context, name, password string) error {
	if name == "" || password == "" {
		return fmt.Errorf("%w: the name or the password is empty", ErrCredentials)
	}
	err := c.do(ctx, "bind as "+name, func() error { return c.conn.Bind(name, password) })
	var result *ldap.Error
	if errors.As(err, &result) && slices.Contains(refusals, result.ResultCode) {
		return fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return err
}

// Scopes of a Query.
const (
	ScopeBase    = ldap.ScopeBaseObject
	ScopeSubtree = ldap.ScopeWholeSubtree
)

// Query describes a search of one answer.
type Query struct {
	Base       string
	Scope      int
	Filter     string
	Attributes []string
	// Limit is the number of entries.
	Limit int
}

// Find returns at most q.Limit entries, and reports if the server has more. It does not follow referrals: see
// ErrReferral and References.
func (c *Conn) Find(ctx context.Context, q Query) (list []Entry, more bool, err error) {
	req := ldap.NewSearchRequest(q.Base, q.Scope, ldap.NeverDerefAliases, q.Limit, int(c.opt.Timeout/time.Second),
		false, q.Filter, q.Attributes, nil)
	req.EnforceSizeLimit = true
	c.references = nil
	var res *ldap.SearchResult
	err = c.do(ctx, "search", func() (err error) {
		res, err = c.conn.Search(req)
		return err
	})
	switch {
	case errors.Is(err, ldap.ErrSizeLimitExceeded):
		// The server ignores the limit, and still sends.
		more, err = true, nil
		_ = c.nc.Close()
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded):
		more, err = true, nil
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
		return nil, false, fmt.Errorf("%w: %w", ErrNoEntry, err)
	case err != nil:
		return nil, false, err
	}
	for _, e := range res.Entries {
		list = append(list, MakeEntry(e))
	}
	c.references = res.Referrals
	return list, more, nil
}

// References returns the first of the other servers that have a part of what the last Find has searched, for a message;
// "" if there are none.
func (c *Conn) References() string {
	if len(c.references) == 0 {
		return ""
	}
	return shown(c.references)
}

// Closed reports that the connection cannot be used any more.
func (c *Conn) Closed() bool { return c.conn == nil || c.conn.IsClosing() }

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.nc.Close()
	if c.conn != nil {
		_ = c.conn.Close() // ends the goroutines
	}
	return err
}

// Escape returns a value as the filter of a search writes it (RFC 4515 section 3).
func Escape(value string) string { return ldap.EscapeFilter(value) }

// CheckFilter returns an error if the text of a filter is invalid (RFC 4515).
func CheckFilter(text string) error {
	if _, err := ldap.CompileFilter(text); err != nil {
		return fmt.Errorf("ldap: filter %.200q: %w", text, err)
	}
	return nil
}

// CheckDN returns an error if the text of a DN is invalid (RFC 4514).
func CheckDN(text string) error {
	if _, err := ldap.ParseDN(text); err != nil {
		return fmt.Errorf("ldap: DN %.200q: %w", text, err)
	}
	return nil
}
