// Package webd is the HTTP door: a plain page that says what runs, the statistics for Prometheus, and
// a word on the server's health for whatever watches over it. It asks for no sign-in and sets no
// cookie, so it tells nothing about people.
package webd

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"doublet/admin"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// The page brings its own style and nothing else.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// probeTime is how long the store may take to show something durable before it counts as stuck.
const probeTime = 5 * time.Second

// Server is the door's handler.
type Server struct {
	system   *admin.System
	env      *env.Env
	mux      *http.ServeMux
	stopping atomic.Bool
	probing  atomic.Bool
	failed   atomic.Bool // what the last probe found
}

// New makes the handler over a running system.
func New(s *admin.System, e *env.Env) *Server {
	w := &Server{system: s, env: e, mux: http.NewServeMux()}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Stats.Collector())
	w.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	w.mux.HandleFunc("GET /healthz", w.health)
	w.mux.HandleFunc("GET /{$}", w.home)
	return w
}

// Stopping makes /healthz say 503 from now on.
func (w *Server) Stopping() { w.stopping.Store(true) }

// ServeHTTP implements http.Handler.
func (w *Server) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	h := out.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.mux.ServeHTTP(out, r)
}

// health says 200 while the store shows what is durable, 503 otherwise.
func (w *Server) health(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out.Header().Set("Cache-Control", "no-store")
	if err := w.alive(r.Context()); err != nil {
		out.WriteHeader(http.StatusServiceUnavailable)
		_, _ = out.Write([]byte(err.Error() + "\n"))
		return
	}
	_, _ = out.Write([]byte("ok\n"))
}

var (
	errStopping = errors.New("stopping")
	errStuck    = errors.New("the store does not answer: its horizon stands still")
	errStore    = errors.New("the store cannot be read")
)

// alive reads the directory, which waits until the horizon has passed whatever was written there.
// While one probe hangs no other is begun.
func (w *Server) alive(ctx context.Context) error {
	if w.stopping.Load() {
		return errStopping
	}
	if !w.probing.CompareAndSwap(false, true) {
		return w.other(ctx)
	}
	done := make(chan error, 1)
	w.env.Go("health probe", func() {
		err := w.system.Store.Read(context.WithoutCancel(ctx), note.System, directory.ID, func(*store.Reader) error { return nil })
		w.failed.Store(err != nil)
		w.probing.Store(false)
		done <- err
	})
	select {
	case err := <-done:
		if err != nil {
			w.env.Log.Error("health probe failed", "error", err)
			return errStore
		}
		return nil
	case <-w.env.Clock.After(probeTime):
		return errStuck
	case <-ctx.Done():
		return ctx.Err()
	}
}

// other waits for the probe that somebody else began.
func (w *Server) other(ctx context.Context) error {
	for range 50 {
		if !w.probing.Load() {
			if w.failed.Load() {
				return errStore
			}
			return nil
		}
		select {
		case <-w.env.Clock.After(probeTime / 50):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errStuck
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
	data := pageData{Server: server, Healthy: w.alive(r.Context()) == nil}
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
