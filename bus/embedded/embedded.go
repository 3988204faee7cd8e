// Package embedded implements the bus over a NATS server in this process. Routes with mutual TLS connect the members'
// NATS servers. No other port is open and nothing is persisted: no JetStream, no accounts.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/bus"
	"doublet/bus/natsbus"
	"doublet/bus/pki"
	"doublet/env"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options sets the addresses of the routes, and the options of natsbus.
type Options struct {
	natsbus.Options
	// Routes is the address to accept routes on, as host:port. Advertise is the address for mates, if it differs.
	Routes, Advertise string
}

const (
	// maxPending is the maximum number of bytes that wait for one mate's socket; above it, NATS closes the route.
	// Credits keep the number far below, whatever a mate does.
	maxPending = 32 << 20
	// maxPayload is larger than the bus's largest message.
	maxPayload = 512 << 10
	// NATS closes a route whose other end doesn't answer two pings, and reconnects.
	pingEvery = 2 * time.Second
	pings     = 2
	// handshakeTime is the timeout of a route's handshake. lookAgain is longer, so that handshakes in progress have
	// ended.
	handshakeTime = 5 * time.Second
	lookAgain     = handshakeTime + time.Second
)

// Bus is a server's bus with its NATS server.
type Bus struct {
	*natsbus.Bus
	nats *routes
}

// Routes returns the address that accepts routes.
func (b *Bus) Routes() string { return b.nats.server.ClusterAddr().String() }

// Open starts the NATS server and opens the bus over it.
func Open(e *env.Env, o Options) (*Bus, error) {
	r := &routes{env: e, identity: o.Identity, log: &logger{log: e.Log, quiet: bus.NewQuiet(e.Clock)}}
	host, port, err := splitAddress(o.Routes)
	if err != nil {
		return nil, fmt.Errorf("cluster address: %w", err)
	}
	if r.options, err = r.natsOptions(host, port, o.Advertise); err != nil {
		return nil, err
	}
	if r.server, err = server.NewServer(r.options.Clone()); err != nil {
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	r.server.SetLoggerV2(r.log, false, false, false)
	r.server.Start()
	r.startRouting()
	if r.server.ClusterAddr() == nil {
		r.close()
		return nil, fmt.Errorf("start the NATS server: %w", r.log.lastFatal())
	}
	r.options.Cluster.Port = r.server.ClusterAddr().Port // the actual port, if it was 0
	conn, err := nats.Connect("", nats.InProcessServer(r.server), nats.Name("doublet"), nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			e.Log.Warn("embedded NATS", "error", err)
		}))
	if err != nil {
		r.close()
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	b, err := natsbus.New(e, o.Options, natsbus.Transport{Conn: conn, Members: r.setMembers, Close: func() {
		conn.Close()
		r.close()
	}})
	if err != nil {
		return nil, err
	}
	return &Bus{Bus: b, nats: r}, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, word, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(word); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q is no port", word)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// routes holds the NATS server and its routes to the mates.
type routes struct {
	env      *env.Env
	identity *pki.Folder
	server   *server.Server
	log      *logger

	mu      sync.Mutex
	options *server.Options // as last passed to the server
	closed  bool
}

func (r *routes) natsOptions(host string, port int, advertise string) (*server.Options, error) {
	me := r.identity.Identity()
	// One configuration serves both ends. A certificate of the cluster is not enough: its key must be pinned, and only
	// the members' keys are.
	config := r.identity.Server()
	client := r.identity.Client()
	config.RootCAs, config.ServerName, config.GetClientCertificate = client.RootCAs, client.ServerName,
		client.GetClientCertificate
	fingerprint := r.identity.Fingerprint()
	return &server.Options{
		ServerName: me.ID.String(), DontListen: true, NoSigs: true, NoSystemAccount: true, DisableJetStreamBanner: true,
		Host: "127.0.0.1", Port: server.RANDOM_PORT, // appears only in INFO: nothing listens there
		MaxPayload: maxPayload, MaxPending: maxPending, MaxClosedClients: 16, MaxConn: 16, MaxSubs: 1024,
		// While a mate is down, NATS tries to connect every second. Log one line a minute.
		ConnectErrorReports: 60, ReconnectErrorReports: 60,
		Cluster: server.ClusterOpts{
			Name: fmt.Sprintf("doublet-%x", fingerprint[:8]), Host: host, Port: port, Advertise: advertise,
			NoAdvertise: true,
			TLSConfig:   config, TLSTimeout: handshakeTime.Seconds(), PoolSize: -1, PingInterval: pingEvery,
			MaxPingsOut:    pings,
			Compression:    server.CompressionOpts{Mode: server.CompressionOff}, // encrypted data does not compress
			TLSPinnedCerts: server.PinnedCertSet{me.Key.String(): {}},
		},
	}, nil
}

// startRouting opens the routes. In NATS 2.15, a server without a client listener (DontListen) doesn't do this by
// itself: the goroutine that Start makes for it waits for that listener for ever. This call does its work and also
// stands for it in the wait of Shutdown.
func (r *routes) startRouting() {
	ready := make(chan struct{})
	close(ready)
	r.server.StartRouting(ready)
}

// setMembers routes to the members and closes the routes of others.
func (r *routes) setMembers(others []bus.Member) {
	// NATS keeps a route while its key is pinned. It needs at least one pin, so our own key is always one.
	pins := server.PinnedCertSet{r.identity.Identity().Key.String(): {}}
	var urls []*url.URL
	for _, m := range others {
		pins[m.Key.String()] = struct{}{}
		if m.Route != "" {
			urls = append(urls, &url.URL{Scheme: "nats-route", Host: m.Route})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := false
	for pin := range r.options.Cluster.TLSPinnedCerts {
		if _, still := pins[pin]; !still && pin != secondLook {
			gone = true
		}
	}
	r.reload(urls, pins)
	if gone {
		// A route in its handshake during the change was checked against the old list.
		r.env.Clock.AfterFunc(lookAgain, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			again := maps.Clone(r.options.Cluster.TLSPinnedCerts)
			if _, looked := again[secondLook]; looked {
				delete(again, secondLook)
			} else {
				again[secondLook] = struct{}{}
			}
			r.reload(r.options.Routes, again)
		})
	}
}

// secondLook is a pin that matches no key. Toggling it makes NATS check its routes again, because it does so only when
// the pins change.
var secondLook = strings.Repeat("0", 64)

// reload sets the routes and pins of the NATS server. The caller holds mu.
func (r *routes) reload(urls []*url.URL, pins server.PinnedCertSet) {
	if r.closed {
		return
	}
	next := r.options.Clone()
	next.Routes, next.Cluster.TLSPinnedCerts, next.Cluster.TLSConfig = urls, pins, r.options.Cluster.TLSConfig
	if err := r.server.ReloadOptions(next.Clone()); err != nil {
		r.env.Log.Error("cannot change the routes to mates", "error", err)
		return
	}
	r.options = next
}

func (r *routes) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.server.Shutdown()
	r.server.WaitForShutdown()
}

// logger passes NATS's log lines to our log. NATS's notices become debug lines.
type logger struct {
	log   *slog.Logger
	quiet *bus.Quiet
	mu    sync.Mutex
	fatal string
}

func (l *logger) write(level slog.Level, format string, args []any) string {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	l.log.Log(context.Background(), l.quiet.Level(level), "NATS: "+text)
	return text
}

func (l *logger) Noticef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }
func (l *logger) Warnf(format string, args ...any)   { l.write(slog.LevelWarn, format, args) }
func (l *logger) Errorf(format string, args ...any)  { l.write(slog.LevelWarn, format, args) }
func (l *logger) Debugf(string, ...any)              {}
func (l *logger) Tracef(string, ...any)              {}

// Fatalf records the reason why the NATS server cannot start. It must not end the process.
func (l *logger) Fatalf(format string, args ...any) {
	text := l.write(slog.LevelError, format, args)
	l.mu.Lock()
	l.fatal = text
	l.mu.Unlock()
}

func (l *logger) lastFatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == "" {
		return errors.New("it did not become ready")
	}
	return errors.New(l.fatal)
}
