// Package ldap reads entries from a directory server, and checks passwords there. It is a small layer over go-ldap: it
// dials through env, limits the time and the bytes of an answer, and reads the results of a search page by page, so
// that their number does not matter.
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
	// User is the DN as which Search binds, "" for an anonymous bind.
	User, Password string
	// Timeout is the timeout of one request (default 1 min).
	Timeout time.Duration
	// Answer is the limit of one answer, in bytes; 0 is none.
	Answer int64
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
	c, err := Dial(ctx, e, u, o)
	if err != nil {
		return err
	}
	defer c.Close()
	if o.User != "" {
		if err := c.Bind(ctx, o.User, o.Password); err != nil {
			return err
		}
	}
	paging := ldap.NewControlPaging(pages[0])
	for smaller := pages[1:]; ; {
		req := ldap.NewSearchRequest(u.Base, u.Scope, ldap.NeverDerefAliases, 0, 0, false, u.Filter, attributes,
			[]ldap.Control{paging})
		var res *ldap.SearchResult
		err := c.do(ctx, "search", func() (err error) {
			res, err = c.conn.Search(req)
			return err
		})
		if ldap.IsErrorWithCode(err, ldap.LDAPResultAdminLimitExceeded) && len(paging.Cookie) == 0 && len(smaller) > 0 {
			paging, smaller = ldap.NewControlPaging(smaller[0]), smaller[1:]
			continue
		}
		if err != nil {
			return err
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
