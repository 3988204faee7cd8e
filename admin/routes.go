package admin

import (
	"context"

	"doublet/directory"
)

// Route is the next host for mail to other domains. It never contains the password.
type Route struct {
	Pattern  string `json:"pattern"`
	Host     string `json:"host,omitempty"`
	Port     int    `json:"port,omitempty"`
	TLS      string `json:"tls,omitempty"`
	User     string `json:"user,omitempty"`
	Password bool   `json:"password,omitempty"`
	Hold     bool   `json:"hold,omitempty"`
}

// RouteAdd are the arguments of route add.
type RouteAdd struct {
	Pattern  string `json:"pattern" arg:"required" help:"a domain, *.DOMAIN for all below it, or * for all others"`
	Host     string `json:"host" help:"host or host:port that takes the mail; without one: the servers that DNS names"`
	TLS      string `json:"tls" help:"may, encrypt, verify, implicit or none (default: may, and published policies)"`
	User     string `json:"user" help:"who signs in there"`
	Password string `json:"password" help:"the password for it" secret:"unasked"`
	Hold     bool   `json:"hold" help:"keep the mail here"`
}

// RouteSet are the arguments of route set. A nil field leaves the value unchanged.
type RouteSet struct {
	Pattern  string  `json:"pattern" arg:"required" help:"the route's pattern"`
	Host     *string `json:"host" help:"host or host:port that takes the mail, empty: the servers that DNS names"`
	TLS      *string `json:"tls" help:"may, encrypt, verify, implicit, none, or empty"`
	User     *string `json:"user" help:"who signs in there, empty: nobody"`
	Password *string `json:"password" help:"the password for it" secret:"unasked"`
	Hold     *bool   `json:"hold" help:"keep the mail here"`
}

// RouteNamed are the arguments of verbs on one route.
type RouteNamed struct {
	Pattern string `json:"pattern" arg:"required" help:"the route's pattern"`
}

func routes() []*Verb {
	return []*Verb{
		define("route add", "say where the mail of a domain goes",
			func(ctx context.Context, c *Call, a *RouteAdd) (Route, error) {
				r, err := c.Directory.Routes.Add(ctx, c.Who, directory.RouteFields{
					Pattern: a.Pattern, Host: a.Host, TLS: a.TLS, User: a.User, Password: a.Password, Hold: a.Hold,
				})
				return routeOf(r), err
			}, changes,
			long("The nearest pattern counts: the domain itself, then *.DOMAIN, then *. Without a route, mail goes "+
				"to router.smarthost, or to the servers that DNS names.")),
		define("route list", "list the routes", func(ctx context.Context, c *Call, _ *struct{}) ([]Route, error) {
			return rows(routeOf)(c.Directory.Routes.List(ctx))
		}),
		define("route show", "show a route", func(ctx context.Context, c *Call, a *RouteNamed) (Route, error) {
			r, err := c.Directory.Routes.Named(ctx, a.Pattern)
			return routeOf(r), err
		}),
		define("route set", "change a route", routeSet, changes),
		define("route remove", "remove a route", func(ctx context.Context, c *Call, a *RouteNamed) (Done, error) {
			r, err := c.Directory.Routes.Named(ctx, a.Pattern)
			if err != nil {
				return Done{}, err
			}
			return Done{"removed the route for " + r.Pattern}, c.Directory.Routes.Remove(ctx, c.Who, r.ID)
		}, changes),
	}
}

func routeOf(r directory.Route) Route {
	return Route{Pattern: r.Pattern, Host: r.Host, Port: r.Port, TLS: r.TLS, User: r.User, Password: r.Password != "",
		Hold: r.Hold}
}

func routeSet(ctx context.Context, c *Call, a *RouteSet) (Route, error) {
	r, err := c.Directory.Routes.Named(ctx, a.Pattern)
	if err != nil {
		return Route{}, err
	}
	r, err = c.Directory.Routes.Set(ctx, c.Who, r.ID, func(f *directory.RouteFields) error {
		if a.Host != nil {
			f.Port = 0
		}
		assign(&f.Host, a.Host)
		assign(&f.TLS, a.TLS)
		assign(&f.User, a.User)
		if a.User != nil && *a.User == "" {
			f.Password = ""
		}
		assign(&f.Password, a.Password)
		assign(&f.Hold, a.Hold)
		return nil
	})
	return routeOf(r), err
}
