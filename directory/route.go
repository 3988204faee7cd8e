package directory

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"doublet/note"

	"golang.org/x/net/idna"
)

// formRoute is the form of route documents, which select the next host for mail to other domains.
const formRoute = "Route"

// The names of a route's items.
const (
	itemRoutePattern  = "DestinationDomain"
	itemRoutePort     = "Port"
	itemRouteTLS      = "TransportSecurity"
	itemRouteUser     = "UserName"
	itemRoutePassword = "UserPassword"
	itemRouteHold     = "Hold"
)

// RouteFields are the parts of a route that an administrator sets.
type RouteFields struct {
	// Pattern is a domain, "*." and a domain for all its subdomains, or "*" for all domains without another route.
	Pattern string
	// Host is the name or address of the host that accepts the mail. If empty, DNS selects the servers. Port 0 means
	// 25.
	Host string
	Port int
	// TLS is none, may, encrypt, verify or implicit. Empty means may, or stricter if the domain publishes a policy.
	TLS string
	// User and Password authenticate at Host.
	User, Password string
	// Hold keeps the mail in the queue.
	Hold bool
}

// Route is a route document.
type Route struct {
	ID note.UNID
	RouteFields
}

// routeTLS lists the values of RouteFields.TLS.
var routeTLS = []string{"", "none", "may", "encrypt", "verify", "implicit"}

// maxRoutes limits the number of routes, which are all kept in memory.
const maxRoutes = 10_000

func (f *RouteFields) write(items note.Items) note.Items {
	x := fields{items}
	x.text(itemForm, formRoute)
	x.text(itemRoutePattern, f.Pattern)
	x.text(itemHost, f.Host)
	x.int(itemRoutePort, int64(f.Port))
	x.text(itemRouteTLS, f.TLS)
	x.text(itemRouteUser, f.User)
	x.text(itemRoutePassword, f.Password)
	x.bool(itemRouteHold, f.Hold)
	return x.items
}

func readRoute(id note.UNID, items note.Items) Route {
	text := func(name string) string { return items.Get(name).AsText() }
	return Route{ID: id, RouteFields: RouteFields{
		Pattern: text(itemRoutePattern), Host: text(itemHost), Port: int(items.Get(itemRoutePort).AsInt()),
		TLS:  text(itemRouteTLS),
		User: text(itemRouteUser), Password: text(itemRoutePassword), Hold: items.Get(itemRouteHold).AsBool(),
	}}
}

// CheckRoute normalizes a route, or returns an error if it is invalid.
func CheckRoute(f *RouteFields) error {
	pattern := strings.TrimSpace(f.Pattern)
	base, below := strings.CutPrefix(pattern, "*.")
	switch {
	case pattern == "*":
		f.Pattern = pattern
	default:
		d, err := aLabels(base)
		if err != nil {
			return fmt.Errorf("route: %w", err)
		}
		if f.Pattern = d; below {
			f.Pattern = "*." + d
		}
	}
	return checkRouteHost(f)
}

// aLabels returns a domain as the DNS encodes it.
func aLabels(domain string) (string, error) {
	d, err := NormalDomain(domain)
	if err != nil {
		return "", err
	}
	a, err := idna.Lookup.ToASCII(d)
	if err != nil {
		return "", fmt.Errorf("%w domain %.80q: %w", ErrInvalid, domain, err)
	}
	return a, nil
}

func checkRouteHost(f *RouteFields) error {
	if err := f.normalizeHost(); err != nil {
		return err
	}
	switch {
	case f.Port < 0 || f.Port > 65535:
		return fmt.Errorf("%w route %s: port %d", ErrInvalid, f.Pattern, f.Port)
	case !slices.Contains(routeTLS, f.TLS):
		return fmt.Errorf("%w route %s: TLS must be none, may, encrypt, verify or implicit", ErrInvalid, f.Pattern)
	case f.User != "" && f.Host == "":
		return fmt.Errorf("%w route %s: a user signs in at a host: name it", ErrInvalid, f.Pattern)
	case f.Password != "" && f.User == "":
		return fmt.Errorf("%w route %s: a password needs a user", ErrInvalid, f.Pattern)
	case f.Port != 0 && f.Host == "":
		return fmt.Errorf("%w route %s: a port needs a host", ErrInvalid, f.Pattern)
	}
	for _, s := range []string{f.User, f.Password} {
		if len(s) > 1000 || strings.ContainsAny(s, "\x00\r\n") {
			return fmt.Errorf("%w route %s: user and password are short texts of one line", ErrInvalid, f.Pattern)
		}
	}
	return nil
}

// normalizeHost splits a port off the host, and converts the host to A-labels.
func (f *RouteFields) normalizeHost() error {
	if host, port, err := net.SplitHostPort(f.Host); err == nil {
		n := 0
		if _, err := fmt.Sscanf(port, "%d", &n); err != nil {
			return fmt.Errorf("%w route %s: port %.20q", ErrInvalid, f.Pattern, port)
		}
		f.Host, f.Port = host, n
	}
	f.Host = strings.Trim(f.Host, "[]")
	if a, err := netip.ParseAddr(f.Host); err == nil {
		f.Host = a.String()
	} else if f.Host != "" && f.Host != "localhost" {
		if f.Host, err = aLabels(f.Host); err != nil {
			return fmt.Errorf("route %s: host: %w", f.Pattern, err)
		}
	}
	return nil
}

// routeRecord only sets: Routes.Add checks a new route, and a table lists them.
var routeRecord = record[Route, RouteFields]{formRoute, 0, readRoute,
	func(r *Route) *RouteFields { return &r.RouteFields }, (*RouteFields).write,
	func(_ *edit, f, was *RouteFields) error {
		f.Pattern = was.Pattern
		return checkRouteHost(f)
	}}

// Routes adds, changes, lists and removes routes to other domains, and finds the route of a domain.
type Routes struct {
	*base
	table atomic.Pointer[routeTable]
}

// Add adds a route.
func (rs *Routes) Add(ctx context.Context, who note.Who, f RouteFields) (Route, error) {
	if err := RequireAdmin(who); err != nil {
		return Route{}, err
	}
	if err := CheckRoute(&f); err != nil {
		return Route{}, err
	}
	r := Route{ID: rs.s.UNID(), RouteFields: f}
	return r, rs.update(ctx, who, func(e *edit) error {
		ids, err := e.w.Lookup(indexRoutes, []byte{'r'})
		if err != nil {
			return err
		}
		if len(ids) >= maxRoutes {
			return fmt.Errorf("%w: at most %d routes", ErrTooMany, maxRoutes)
		}
		for _, id := range ids {
			c, err := e.w.Content(id)
			if err != nil {
				return err
			}
			if c.Content.Items.Get(itemRoutePattern).AsText() == f.Pattern {
				return fmt.Errorf("%w: a route for %s exists: change it", ErrNameTaken, f.Pattern)
			}
		}
		return e.create(r.ID, f.write(nil))
	})
}

// Set changes a route, except its pattern. It calls fn under the directory's lock, so fn must be quick.
// fn gets the fields with a hidden password, and must set it again if it changes the host, the port, TLS or the user.
func (rs *Routes) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*RouteFields) error) (Route, error) {
	return routeRecord.set(ctx, rs.base, who, id, func(f *RouteFields) error {
		was := *f
		return setHidden(&f.Password, func() error { return fn(f) }, func() bool {
			return f.Host == was.Host && f.Port == was.Port && f.TLS == was.TLS && f.User == was.User
		})
	})
}

// Remove deletes a route for good.
func (rs *Routes) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return rs.destroy(ctx, who, id, formRoute)
}
