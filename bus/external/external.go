// Package external implements the bus over an existing NATS cluster. Messages are encrypted between the servers: the
// operator and other users of that NATS can block messages, but not read or forge them.
package external

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"doublet/bus/natsbus"
	"doublet/env"

	"github.com/nats-io/nats.go"
)

// Options describes the connection to NATS, and the options of natsbus.
type Options struct {
	natsbus.Options
	// URLs lists its servers, separated by commas: nats://host:port or tls://host:port, with user:password@ or token@
	// if required.
	URLs string
	// Credentials is a file with JWT and seed (nsc), NKey a file with a seed; empty: none.
	Credentials, NKey string
	// CA is a file of root certificates (PEM) for its certificate; empty: the system's roots.
	CA string
	// Connect is the timeout of the first connection (default 10 s).
	Connect time.Duration
}

const reconnectWait = 500 * time.Millisecond

// Open connects to NATS and opens the bus over it.
func Open(e *env.Env, o Options) (*natsbus.Bus, error) {
	if o.Connect <= 0 {
		o.Connect = 10 * time.Second
	}
	options := []nats.Option{
		nats.Name("doublet " + o.Identity.Identity().Name), nats.Timeout(o.Connect), nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		// A message that cannot be sent now fails now: the asker decides about a retry.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			e.Log.Warn("NATS: connection lost, reconnecting", "error", err)
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { e.Log.Info("NATS: reconnected", "to", c.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { e.Log.Warn("NATS", "error", err) }),
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA), nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("NATS: %w", err)
		}
		options = append(options, key)
	}
	conn, err := nats.Connect(o.URLs, options...)
	var network net.Error
	if errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &network) {
		// A server without its cluster is better than no server.
		e.Log.Warn("NATS: unreachable, retrying", "error", err)
		conn, err = nats.Connect(o.URLs, append(options, nats.RetryOnFailedConnect(true))...)
	}
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("NATS does not let this server in: %w", err)
	case err != nil:
		return nil, fmt.Errorf("NATS: %w", err)
	}
	return natsbus.New(e, o.Options, natsbus.Transport{Conn: conn, Close: conn.Close})
}
