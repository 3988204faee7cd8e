package forward

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
)

// The doors of forwarded requests: JMAP, the lite mode of the web pages, and CalDAV with CardDAV.
const (
	DoorWeb  = "web"
	DoorLite = "lite"
	DoorDAV  = "dav"
)

// Timeouts of forwarded requests. One that waits for pushes has a shorter timeout and is then repeated: only the server
// that accepted it knows whether its session still exists.
const (
	webLife  = time.Hour
	pushLife = 5 * time.Minute
)

// Caller is the sender of a request, as authenticated by the server that accepted it.
type Caller struct {
	Account signin.Account
	// Credential identifies the credential of the caller.
	Credential string
	// CSRF is the secret that forms of the browser's session must contain; empty for programs.
	CSRF string
}

type callerKey struct{}

// CallerOf returns the caller of a request that passed through Web, here or at a mate.
func CallerOf(r *http.Request) (Caller, bool) {
	c, ok := r.Context().Value(callerKey{}).(Caller)
	return c, ok
}

// Forwarded is the prefix of the credential of a request that a mate has forwarded.
const Forwarded = "mate:"

// Web returns a handler for a web door. It serves a request with next if the mail file is here, and otherwise forwards
// it to the same door of the home. who returns the caller of a request, or false if it has answered the request itself.
// A request of the zero Caller is served here. next gets the caller with CallerOf.
func (d *Doors) Web(door string, who func(http.ResponseWriter, *http.Request) (Caller, bool),
	next http.Handler) http.Handler {
	serve := func(w http.ResponseWriter, r *http.Request, c Caller) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}
	d.serveForwarded(door, serve)
	s := d.s
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := who(w, r); ok {
			s.route(w, r, door, &c, func(w http.ResponseWriter, r *http.Request) { serve(w, r, c) })
		}
	})
}

// route serves a request here if the mail file is here, and forwards it otherwise.
func (s *Service) route(w http.ResponseWriter, r *http.Request, door string, c *Caller, here http.HandlerFunc) {
	node, mates := s.cluster()
	if node == nil || c.Account.Database == 0 {
		here(w, r)
		return
	}
	for {
		var p cluster.Place
		err := s.patiently(r.Context(), func() (err error) {
			p, err = node.Open(r.Context(), c.Account.Database)
			return err
		})
		switch {
		case err != nil:
			s.unavailable(w, r, err)
		case !p.Self:
			s.handOn(w, r, mates, &p, c, door)
		case !s.serveHere(w, r, door, s.here(node, c.Account.Database), here):
			continue // the mail file has moved meanwhile
		}
		return
	}
}

// serveHere serves a request here. It returns false, without serving it, if the mail file is at another server by now.
func (s *Service) serveHere(w http.ResponseWriter, r *http.Request, door string, x *Session,
	here http.HandlerFunc) bool {
	defer x.End()
	if door == DoorWeb && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		here(w, r) // it changes nothing, or is long: a download, or a connection for pushes
		return true
	}
	if !x.Begin(r.Context()) {
		return false
	}
	defer x.Done()
	r.Body = &waitingBody{r.Body, x, r.Context()}
	here(&waitingWriter{w, x, r.Context()}, r)
	return true
}

// unavailable answers that no server currently serves the mail file.
func (s *Service) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	s.failed.Inc()
	s.env.Log.Warn("forward: no member answers a request", "path", r.URL.Path, "err", err)
	w.Header().Set("Retry-After", "2")
	http.Error(w, "No server has your mail file now. Try again in a moment.", http.StatusServiceUnavailable)
}

// handOn forwards a request to the home, and returns its response.
func (s *Service) handOn(w http.ResponseWriter, r *http.Request, mates bus.Bus, p *cluster.Place, c *Caller,
	door string) {
	h := hello{Door: door, Person: c.Account.Who.Person.String(), Credential: c.Credential, CSRF: c.CSRF,
		TLS: r.TLS != nil}
	if at, err := net.ResolveTCPAddr("tcp", r.RemoteAddr); err == nil {
		h.Client = at.AddrPort()
	}
	header, err := json.Marshal(h)
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	life := webLife
	if r.Header.Get("Upgrade") != "" || strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		life = pushLife
	}
	until := env.Deadline(life)
	control := http.NewResponseController(w)
	// By default, HTTP/1 closes the request's body when the response begins. The proxy may be about to read the end of
	// the body then, and an error there would cut the response off.
	_ = errors.Join(control.EnableFullDuplex(), control.SetReadDeadline(until), control.SetWriteDeadline(until))
	ctx, cancel := context.WithTimeout(r.Context(), life)
	defer cancel()
	proxy := httputil.ReverseProxy{
		Rewrite: func(x *httputil.ProxyRequest) {
			x.Out.URL.Scheme, x.Out.URL.Host, x.Out.Host = "http", "home", x.In.Host
			x.Out.Header.Del("Authorization") // the home trusts us, so do not send it secrets
			x.Out.Header.Del("Cookie")
		},
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return s.dial(ctx, mates, p.Server, header)
			}},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, r *http.Request, err error) { s.unavailable(w, r, err) },
		ErrorLog:      slog.NewLogLogger(s.env.Log.Handler(), slog.LevelDebug),
	}
	s.out.Inc()
	s.now.Add(1)
	defer s.now.Add(-1)
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// dial opens a stream to the home's web door.
func (s *Service) dial(ctx context.Context, mates bus.Bus, home note.UNID, header []byte) (net.Conn, error) {
	stream, err := mates.Stream(context.WithoutCancel(ctx), home, verb, header)
	if err != nil {
		return nil, err
	}
	var one [1]byte
	if _, err := io.ReadFull(stream, one[:]); err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return &requested{stream}, nil
}

// requested is the accepting server's end of a forwarded request.
type requested struct{ bus.Stream }

// LocalAddr implements net.Conn.
func (*requested) LocalAddr() net.Addr { return &net.UnixAddr{Net: "bus", Name: DoorWeb} }

// RemoteAddr implements net.Conn.
func (r *requested) RemoteAddr() net.Addr { return r.LocalAddr() }

// serveForwarded serves the requests that mates forward to a door.
func (d *Doors) serveForwarded(door string, serve func(http.ResponseWriter, *http.Request, Caller)) {
	s := d.s
	l := &oneByOne{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(s.env.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, l, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, ok := r.Context().Value(l).(*forwarded)
			if !ok {
				http.Error(w, "not forwarded", http.StatusForbidden)
				return
			}
			if c.carried.tls {
				r.TLS = &tls.ConnectionState{HandshakeComplete: true}
			}
			from := Caller{c.carried.account, c.carried.credential, c.carried.csrf}
			s.route(w, r, door, &from, func(w http.ResponseWriter, r *http.Request) {
				from.Credential = Forwarded + from.Credential
				serve(w, r, from)
			})
		}),
	}
	s.env.Go("forwarded requests", func() { _ = srv.Serve(l) })
	d.stops = append(d.stops, srv.Close)
	d.Add(door, func(c *listen.Conn) {
		x, ok := c.Conn.(*carried)
		if !ok {
			return
		}
		f := &forwarded{carried: x, done: make(chan struct{})}
		select {
		case l.conns <- f:
		case <-l.closed:
			return
		}
		select {
		case <-f.done:
		case <-c.Closing():
			_ = f.Close()
		}
	})
}

// Close ends the requests that other members have forwarded.
func (d *Doors) Close() error {
	var errs []error
	for _, stop := range d.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// forwarded is the home's end of a forwarded request.
type forwarded struct {
	*carried
	once sync.Once
	done chan struct{}
}

// Close implements net.Conn.
func (f *forwarded) Close() error {
	err := f.carried.Close()
	f.once.Do(func() { close(f.done) })
	return err
}

// oneByOne is a net.Listener of connections that are passed to it.
type oneByOne struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *oneByOne) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *oneByOne) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *oneByOne) Addr() net.Addr { return &net.UnixAddr{Net: "bus", Name: DoorWeb} }
