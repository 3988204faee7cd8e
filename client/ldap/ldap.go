// Package ldap reads entries from a directory server. It is a small layer over go-ldap: it dials through env, and reads
// the results of a search page by page, so that their number does not matter.
package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"doublet/env"

	"github.com/go-ldap/ldap/v3"
)

// ErrURL means that an address is not a valid LDAP URL.
var ErrURL = errors.New("ldap: bad URL")

// URL holds the server, base and filter of a search.
//
// Implements: RFC 4516 LDAP URLs
type URL struct {
	// Address is Host with the port.
	Address, Host string
	TLS           bool // ldaps
	Base          string
	Scope         int // scope in go-ldap: base 0, one 1, sub 2 (the default)
	Filter        string
}

// ParseURL parses ldap://host:port/base?attributes?scope?filter. It ignores the attributes.
func ParseURL(s string) (URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "ldap" && u.Scheme != "ldaps" {
		return URL{}, fmt.Errorf("%w: %q is not ldap://host/base or ldaps://host/base", ErrURL, s)
	}
	out := URL{Host: u.Hostname(), TLS: u.Scheme == "ldaps", Base: strings.TrimPrefix(u.Path, "/"),
		Scope: ldap.ScopeWholeSubtree, Filter: "(objectClass=*)"}
	port := u.Port()
	if port == "" {
		if port = "389"; out.TLS {
			port = "636"
		}
	}
	out.Address = net.JoinHostPort(out.Host, port)
	parts := strings.Split(u.RawQuery, "?")
	if len(parts) > 1 {
		switch parts[1] {
		case "", "sub":
		case "one":
			out.Scope = ldap.ScopeSingleLevel
		case "base":
			out.Scope = ldap.ScopeBaseObject
		default:
			return URL{}, fmt.Errorf("%w: scope %q is not base, one or sub", ErrURL, parts[1])
		}
	}
	if len(parts) > 2 && parts[2] != "" {
		if out.Filter, err = url.PathUnescape(parts[2]); err != nil {
			return URL{}, fmt.Errorf("%w: filter: %w", ErrURL, err)
		}
	}
	if _, err := ldap.CompileFilter(out.Filter); err != nil {
		return URL{}, fmt.Errorf("%w: filter %q: %w", ErrURL, out.Filter, err)
	}
	return out, nil
}

// Options configures a connection.
type Options struct {
	// StartTLS starts TLS on a connection to ldap://.
	StartTLS bool
	TLS      *tls.Config // without ServerName, the host of the URL is used
	// User is the DN to bind as, "" for an anonymous bind.
	User, Password string
	// Timeout is the timeout of one response (default 1 min).
	Timeout time.Duration
}

// Entry is one entry. Attribute names are in lower case, without options.
type Entry struct {
	DN         string
	Attributes map[string][]string
}

// MakeEntry converts an entry of go-ldap or of LDIF.
func MakeEntry(e *ldap.Entry) Entry {
	out := Entry{DN: e.DN, Attributes: make(map[string][]string, len(e.Attributes))}
	for _, a := range e.Attributes {
		name, _, _ := strings.Cut(strings.ToLower(a.Name), ";")
		out.Attributes[name] = append(out.Attributes[name], a.Values...)
	}
	return out
}

// pages holds the page sizes of a search, tried in order: some servers reject the first as too large.
var pages = []uint32{500, 100, 10}

// Search calls fn for each entry that a URL selects, until fn returns an error.
func Search(ctx context.Context, e *env.Env, u URL, o Options, attributes []string, fn func(Entry) error) error {
	conn, err := open(e, u, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	paging := ldap.NewControlPaging(pages[0])
	for smaller := pages[1:]; ; {
		req := ldap.NewSearchRequest(u.Base, u.Scope, ldap.NeverDerefAliases, 0, 0, false, u.Filter, attributes,
			[]ldap.Control{paging})
		res, err := conn.Search(req)
		if ldap.IsErrorWithCode(err, ldap.LDAPResultAdminLimitExceeded) && len(paging.Cookie) == 0 && len(smaller) > 0 {
			paging, smaller = ldap.NewControlPaging(smaller[0]), smaller[1:]
			continue
		}
		if err != nil {
			return errors.Join(fmt.Errorf("ldap: search %s: %w", u.Address, err), ctx.Err())
		}
		for _, entry := range res.Entries {
			if err := fn(MakeEntry(entry)); err != nil {
				return err
			}
		}
		next, ok := ldap.FindControl(res.Controls, ldap.ControlTypePaging).(*ldap.ControlPaging)
		if !ok || len(next.Cookie) == 0 {
			return ctx.Err()
		}
		paging.SetCookie(next.Cookie)
	}
}

func open(e *env.Env, u URL, o Options) (*ldap.Conn, error) {
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		c = o.TLS.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = u.Host
	}
	nc, err := e.Dial("tcp", u.Address, min(o.Timeout, time.Minute))
	if err != nil {
		return nil, fmt.Errorf("ldap: dial %s: %w", u.Address, err)
	}
	if u.TLS {
		nc = tls.Client(nc, c)
	}
	conn := ldap.NewConn(nc, u.TLS)
	conn.Start()
	conn.SetTimeout(o.Timeout)
	if o.StartTLS && !u.TLS {
		if err := conn.StartTLS(c); err != nil {
			return nil, errors.Join(fmt.Errorf("ldap: StartTLS at %s: %w", u.Address, err), conn.Close())
		}
	}
	if o.User != "" {
		if err := conn.Bind(o.User, o.Password); err != nil {
			return nil, errors.Join(fmt.Errorf("ldap: bind as %s at %s: %w", o.User, u.Address, err), conn.Close())
		}
	}
	return conn, nil
}
