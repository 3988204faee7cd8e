// Package webd is the HTTP door: a plain page that says what runs and the statistics for Prometheus, for
// those who watch over the server; a word on its health; and for everybody what mail programs and other
// servers ask for (autoconfig, autodiscover, mobileconfig, MTA-STS, ACME). It asks for no sign-in and
// sets no cookie, so it tells nothing about people.
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

// Options are the door's; the zero value is one without https, on which everybody sees everything.
type Options struct {
	// Challenge answers an ACME authority, and says whether the request was for that. It may be nil.
	Challenge func(w http.ResponseWriter, r *http.Request) bool
	// Valid says what is wrong with the server's certificate; it may be nil.
	Valid func() error
	// HSTS is how long browsers shall use https only; 0: they are told nothing.
	HSTS time.Duration
	// Redirect is the port of https to which what is for people is sent, "" for nowhere.
	Redirect string
	// Monitors are the networks that see the page and /metrics; nil: all.
	Monitors []netip.Prefix
	// MTASTS is the mode of the policy for the local domains: enforce, testing, none, or off for no policy.
	// MTASTSAge is how long senders keep it, MX the hosts that it names.
	MTASTS    string
	MTASTSAge time.Duration
	MX        []string
	// Client is the browser client; nil: there is none, and the page that says what runs is at the root.
	Client fs.FS
}

// Server is the door's handler.
type Server struct {
	system   *admin.System
	env      *env.Env
	opts     Options
	mux      *http.ServeMux
	hsts     string
	stopping atomic.Bool
	probing  atomic.Bool
	failed   atomic.Bool // what the last probe found
	answered *stat.Counter
}

// New makes the handler over a running system.
func New(s *admin.System, e *env.Env, o Options) *Server {
	w := &Server{system: s, env: e, opts: o, mux: http.NewServeMux(), answered: s.Stats.Counter("HTTP.Requests", "requests at the doors http and https")}
	if o.HSTS > 0 {
		w.hsts = "max-age=" + strconv.FormatInt(int64(o.HSTS/time.Second), 10)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Stats.Collector())
	w.mux.Handle("GET /metrics", w.monitors(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})))
	w.mux.HandleFunc("GET /healthz", w.health)
	w.mux.HandleFunc("GET /readyz", w.ready)
	status := "GET /{$}"
	if o.Client != nil {
		status = "GET /status"
		if err := w.client(o.Client); err != nil {
			e.Log.Error("the browser client cannot be read", "error", err)
		}
	}
	w.mux.Handle(status, w.monitors(w.people(w.home)))
	w.clients()
	w.lists()
	return w
}

// monitors keeps what is for those who watch over the server from others. They are told that there is
// nothing.
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

// people sends what people look at or send passwords to from http to https.
func (w *Server) people(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.TLS != nil || w.opts.Redirect == "" || r.Context().Value(stay{}) != nil {
			next(out, r)
			return
		}
		// The host is the client's own word: what it names must be ours.
		host, _ := w.host(r)
		if w.opts.Redirect != "443" && !proxied.Through(r) { // a proxy has a port of its own, the usual one
			host = net.JoinHostPort(host, w.opts.Redirect)
		}
		http.Redirect(out, r, "https://"+host+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
}

// stay marks a request of Local.
type stay struct{}

// Local is the handler for a door on loopback whose visitors are not sent to https.
func (w *Server) Local() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), stay{}, true)))
	})
}

// Handle opens the paths of another door under this one.
func (w *Server) Handle(pattern string, h http.Handler) { w.mux.Handle(pattern, h) }

// HandlePeople is Handle for what people look at: where there is https, it is there alone.
func (w *Server) HandlePeople(pattern string, h http.Handler) {
	w.mux.Handle(pattern, w.people(h.ServeHTTP))
}

// Stopping makes /readyz say 503 from now on.
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
	w.mux.ServeHTTP(out, r)
}

// figure is a number on the page.
type figure struct{ Name, Value string }

type pageData struct {
	admin.Server
	Healthy bool
	Figures []figure
	Tasks   []admin.Task
}

// figures are the statistics that the page shows, with their names for people.
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
	server, err := admin.Do[admin.Server](r.Context(), admin.Direct{System: w.system}, "show server", nil)
	if err != nil {
		w.env.Log.Error("page failed", "error", err)
		http.Error(out, "the page cannot be made now", http.StatusInternalServerError)
		return
	}
	data := pageData{Server: server, Healthy: w.Alive(r.Context()) == nil}
	if w.system.Tasks != nil {
		data.Tasks = w.system.Tasks()
	}
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
