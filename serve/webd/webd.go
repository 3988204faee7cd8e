// Package webd implements the HTTP server: the status page and the statistics for Prometheus, for operators; health
// checks; and the paths that mail clients and other servers request (autoconfig, autodiscover, mobileconfig, MTA-STS,
// ACME). Those paths need no sign-in and set no cookie, and disclose nothing about users.
package webd

import (
	"bytes"
	"context"
	_ "embed"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/serve/proxied"
	"doublet/stat"
	"doublet/web"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed page.html
var pageText string

var page, policy = web.Page(pageText, "'none'")

// Options holds the settings. With the zero value there is no https, and everybody sees all pages.
type Options struct {
	// Challenge, if set, answers ACME challenges. It reports whether the request was one.
	Challenge func(w http.ResponseWriter, r *http.Request) bool
	// Valid, if set, returns an error if the server's certificate is not valid.
	Valid func() error
	// HSTS is the max-age of Strict-Transport-Security. If 0, the header is not sent.
	HSTS time.Duration
	// Redirect is the port of https to which pages for users redirect, or "" for no redirect.
	Redirect string
	// Monitors are the networks that may read the status page and /metrics. If nil, all may.
	Monitors []netip.Prefix
	// MTASTS is the mode of the MTA-STS policy of the local domains: enforce, testing or none, or off for no policy.
	// MTASTSAge is its max_age, and MX the hosts that it names.
	MTASTS    string
	MTASTSAge time.Duration
	MX        []string
	// Client holds the files of the browser client. If nil, there is none, and the status page is at the root.
	Client fs.FS
}

// Server is the HTTP handler.
type Server struct {
	system   *admin.Running
	env      *env.Env
	opts     Options
	mux      *http.ServeMux
	hsts     string
	stopping atomic.Bool
	probing  atomic.Bool
	failed   atomic.Bool // result of the last probe
	answered *stat.Counter
	measures measures
}

// New returns a handler for a running system.
func New(s *admin.Running, e *env.Env, o Options) *Server {
	w := &Server{system: s, env: e, opts: o, mux: http.NewServeMux(),
		answered: s.Stats.Counter("HTTP.Requests", "requests at the doors http and https"),
		measures: newMeasures(s.Stats)}
	if o.HSTS > 0 {
		w.hsts = "max-age=" + strconv.FormatInt(int64(o.HSTS/time.Second), 10)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Stats.Collector())
	w.mux.Handle("GET /metrics",
		w.monitors(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})))
	w.mux.HandleFunc("GET /healthz", w.health)
	w.mux.HandleFunc("GET /readyz", w.ready)
	status := "GET /{$}"
	if o.Client != nil {
		status = "GET /status"
		if err := w.client(o.Client); err != nil {
			e.Log.Error("cannot read the web client", "error", err)
		}
	}
	w.mux.Handle(status, w.monitors(w.people(w.home)))
	w.clients()
	w.lists()
	return w
}

// monitors restricts a handler to the networks in Monitors. Others get 404.
func (w *Server) monitors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !w.mayWatch(r.RemoteAddr) {
			http.NotFound(out, r)
			return
		}
		next.ServeHTTP(out, r)
	})
}

func (w *Server) mayWatch(remote string) bool {
	if w.opts.Monitors == nil {
		return true
	}
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	from := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(w.opts.Monitors, func(p netip.Prefix) bool { return p.Contains(from) })
}

// people redirects from http to https. It wraps pages that people look at or send passwords to.
func (w *Server) people(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.TLS != nil || w.opts.Redirect == "" || r.Context().Value(stay{}) != nil {
			next(out, r)
			return
		}
		// The client chooses the Host field, so redirect only to a known host.
		host, _ := w.host(r)
		if w.opts.Redirect != "443" && !proxied.Through(r) { // a proxy uses the default port
			host = net.JoinHostPort(host, w.opts.Redirect)
		}
		http.Redirect(out, r, "https://"+host+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
}

// stay marks a request through Local in its context.
type stay struct{}

// Local returns the handler for a listener on loopback, which does not redirect to https.
func (w *Server) Local() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), stay{}, true)))
	})
}

// Handle registers a handler of another package.
func (w *Server) Handle(pattern string, h http.Handler) { w.mux.Handle(pattern, h) }

// HandlePeople is Handle for pages that people look at. If there is https, they are only available there.
func (w *Server) HandlePeople(pattern string, h http.Handler) {
	w.mux.Handle(pattern, w.people(h.ServeHTTP))
}

// Stopping makes /readyz return 503 from now on.
func (w *Server) Stopping() { w.stopping.Store(true) }

// ServeHTTP implements http.Handler.
func (w *Server) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.answered.Inc()
	if w.opts.Challenge != nil && w.opts.Challenge(out, r) {
		return
	}
	h := out.Header()
	if r.TLS != nil && w.hsts != "" {
		h.Set("Strict-Transport-Security", w.hsts)
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	w.mux.ServeHTTP(w.measured(out, r), r)
}

// figure is a number on the status page.
type figure struct{ Name, Value string }

type pageData struct {
	admin.Server
	Healthy bool
	Figures []figure
	Tasks   []admin.Task
}

// figures lists the statistics on the status page, with their labels.
var figures = []struct{ stat, name string }{
	{"Server.Users.Active15Min", "users active in 15 minutes"},
	{"Server.Trans.PerMinute", "transactions a minute"},
	{"IMAP.Sessions.Current", "IMAP sessions"},
	{"Mail.Delivered", "messages delivered"},
	{"Mail.TotalRouted", "messages routed"},
	{"Mail.Waiting", "waiting in mail.box"},
	{"Mail.Dead", "undeliverable"},
	{"Database.Count", "databases"},
}

func (w *Server) home(out http.ResponseWriter, r *http.Request) {
	server, err := admin.Do[admin.Server](r.Context(), admin.Direct{Runner: w.system}, "show server", nil)
	if err != nil {
		w.env.Log.Error("page failed", "error", err)
		http.Error(out, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	data := pageData{Server: server, Healthy: w.Alive(r.Context()) == nil}
	data.Tasks = w.system.Tasks.Status()
	for _, f := range figures {
		for _, e := range w.system.Stats.Snapshot(f.stat) {
			if strings.EqualFold(e.Name, f.stat) {
				data.Figures = append(data.Figures, figure{f.name, strconv.FormatFloat(e.Value, 'f', -1, 64)})
			}
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		w.env.Log.Error("page failed", "error", err)
		http.Error(out, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "text/html; charset=utf-8")
	out.Header().Set("Cache-Control", "no-store")
	_, _ = out.Write(b.Bytes())
}
