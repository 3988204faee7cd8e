package main

import (
	"context"
	"crypto/tls"
	"doublet/stat/cpu"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"doublet/bus/pki"
	"doublet/cmd/doublet/config"
	"doublet/serve/listen"
	"doublet/serve/proxied"
	"doublet/serve/webd"
	"doublet/serve/websession"
	"doublet/web"
)

// listenOptions returns the limits that all doors share.
func listenOptions(cfg *config.Config) (listen.Options, error) {
	proxies, err := config.Networks(cfg.Server.Proxies)
	l := &cfg.Limits
	return listen.Options{
		MaxConns: l.Connections, MaxPerAddress: l.ConnectionsPerAddress, MaxCompressed: l.CompressedConnections,
		MaxPerPerson: l.SessionsPerPerson, MaxUsers: l.Users, MaxRunning: l.Transactions,
		HandshakeTimeout: l.HandshakeTimeout.Duration, Proxies: proxies,
	}, err
}

// messageMemory returns the memory budget of messages in flight. A client's share has room for the largest message
// twice, because a buffer is copied as it grows. A person's share at the web doors has room for four, for one message
// and the forms derived from it, but at most three quarters of the budget. limits.message_memory_share can raise both
// shares.
func messageMemory(cfg *config.Config) *listen.Budget {
	whole := int64(cfg.Limits.MessageMemory)
	share := whole / 100 * int64(cfg.Limits.MessageMemoryShare)
	size := int64(cfg.Limits.MessageSize)
	return listen.NewSharedBudget(whole, listen.Shares{
		Client: min(whole, max(share, 2*size)), Person: max(share, min(whole/4*3, 4*size)),
	})
}

// load adds the load of the doors to the tree of statistics.
func (h *front) load() {
	srv := h.conns
	t := h.system.Stats
	for _, s := range []struct {
		name, help string
		value      func() float64
	}{
		{"Server.Listen.Connections", "connections open at all doors",
			func() float64 { return float64(srv.Load().Connections) }},
		{"Server.Listen.Connections.Limit", "the most of them (limits.connections)",
			func() float64 { return float64(srv.MaxConns()) }},
		{"Http.CurrentConnections", "connections open at the doors http and https",
			func() float64 { return float64(srv.Load().Passed) }},
		{"Http.PeakConnections", "the most of them at one time",
			func() float64 { return float64(srv.Load().PeakPassed) }},
		{"Server.Users", "people with an open session", func() float64 { return float64(srv.Load().Users) }},
		{"Server.Users.Peak", "the most of them at one time",
			func() float64 { return float64(srv.Load().PeakUsers) }},
		{"Server.Trans.Running", "commands that are worked on now",
			func() float64 { return float64(srv.Load().Running) }},
		{"Server.Trans.Running.Peak", "the most of them at one time",
			func() float64 { return float64(srv.Load().Peak) }},
		{"Server.Memory.Messages.Bytes", "bytes of memory that messages in flight hold",
			func() float64 { return float64(h.messages.Used()) }},
		{"Server.Memory.Messages.Limit.Bytes", "the most of them (limits.message_memory)",
			func() float64 { return float64(h.messages.Max()) }},
	} {
		t.GaugeFunc(s.name, s.help, s.value)
	}
	for _, s := range []struct {
		name, help string
		value      func() float64
	}{
		{"Server.Trans.Waited", "commands that had to wait for their turn (limits.transactions)",
			func() float64 { return float64(srv.Load().Waits) }},
		{"Server.Memory.Messages.Refused", "messages that had to come again: the memory was full",
			func() float64 { n, _ := h.messages.Refused(); return float64(n) }},
		{"Server.Memory.Messages.Refused.Share", "the same, of clients that had their share",
			func() float64 { _, n := h.messages.Refused(); return float64(n) }},
	} {
		t.CounterFunc(s.name, s.help, s.value)
	}
}

// openWeb opens the doors http and https.
func (h *front) openWeb() error {
	cfg := &h.cfg
	monitors, err := config.Networks(cfg.Web.Monitors)
	if err != nil {
		return err
	}
	o := webd.Options{
		// nil would mean everyone
		Challenge: h.certs.ServeChallenge, Valid: h.certs.Valid, HSTS: cfg.Web.HSTS.Duration,
		Monitors: append([]netip.Prefix{}, monitors...),
		Client:   web.Client(), MTASTS: cfg.Web.MTASTS, MTASTSAge: cfg.Web.MTASTSAge.Duration,
		MX: strings.Fields(cfg.Web.MTASTSMX),
	}
	if cfg.Web.Redirect && cfg.Doors.HTTPS != config.Off {
		_, o.Redirect, _ = net.SplitHostPort(cfg.Doors.HTTPS)
	}
	front, err := proxies(cfg)
	if err != nil {
		return err
	}
	h.web = webd.New(h.running, h.env, o)
	h.web.Account(h.people)
	h.web.Handle(websession.PathAccount, h.sessions.Handler())
	if err := h.openAdmin(); err != nil {
		return err
	}
	h.openLite()
	h.openDAV()
	closePush, err := h.openJMAP()
	if err != nil {
		return err
	}
	h.closes("push", closePush)
	h.openReplication()
	for _, d := range []struct {
		name, address string
		tls           *tls.Config
	}{{"http", cfg.Doors.HTTP, nil}, {"https", cfg.Doors.HTTPS, pki.Server(h.certs.Web(), h.member.Own)}} {
		if d.address == config.Off {
			continue
		}
		l, err := h.conns.Listen(listen.Door{Name: d.name, Network: "tcp", Address: d.address, Relays: front.Proxies})
		if err != nil {
			return doorError(d.name, d.address, err)
		}
		h.doors.opened(d.name, l.Addr(), false, d.tls != nil)
		h.serveHTTP(d.name, l, proxied.New(h.env, front, h.web), d.tls)
	}
	// Clients that wait for pushes are released first: a door waits for its requests to end, and theirs do not end.
	h.closes("push", closePush)
	// Load balancers see the health checks fail before the first door closes.
	h.closes("health", func(context.Context) error { h.web.Stopping(); return nil })
	return nil
}

// proxies returns the web proxies that are trusted at http and https.
func proxies(cfg *config.Config) (proxied.Options, error) {
	all, err := config.Networks(cfg.Server.Proxies + " " + cfg.Web.Proxies)
	return proxied.Options{Proxies: all, Field: cfg.Web.ProxyHeader}, err
}

// serveHTTP serves a listener until the house closes, under TLS if cfg is not nil.
func (h *server) serveHTTP(name string, l net.Listener, handler http.Handler, cfg *tls.Config) {
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		// a stranger's broken handshake needs no attention
		TLSConfig: cfg, ErrorLog: slog.NewLogLogger(h.env.Log.Handler(), slog.LevelDebug),
	}
	serve := srv.Serve
	if cfg != nil {
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	h.env.Go("door "+name, func() {
		cpu.Label(name) // requests inherit it
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.env.Log.Error("door closed unexpectedly", "door", name, "error", err)
		}
	})
	h.closes(name, func(ctx context.Context) error {
		if err := srv.Shutdown(ctx); err != nil {
			return errors.Join(err, srv.Close())
		}
		return nil
	})
}

// watchdog reports to systemd that the server is alive, three times per requested interval (sd_watchdog_enabled(3)).
func (h *server) watchdog(ctx context.Context) {
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 || os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	every := time.Duration(usec) * time.Microsecond / 3
	h.env.Go("watchdog", func() {
		for {
			if h.web.Alive(ctx) == nil {
				notify("WATCHDOG=1")
			}
			select {
			case <-h.env.Clock.After(every):
			case <-ctx.Done():
				return
			}
		}
	})
}
