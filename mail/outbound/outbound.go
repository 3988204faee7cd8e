// Package outbound is the router's client for other mail servers. It finds the hosts that accept a domain's mail,
// connects to one of them with the protection that the domain demands (DANE, MTA-STS, STARTTLS), and sends messages. It
// does not know mail.box: the router decides which message to send, when to retry, and which failures to report.
package outbound

import (
	"context"
	"crypto/x509"
	"net/netip"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/client/dns"
	"doublet/client/mtasts"
	"doublet/env"
	"doublet/stat"
	"doublet/wire/smtp"
)

// Security is the required protection of a connection to a server.
type Security string

// The levels, from weakest to strongest. Under Opportunistic, a policy that the domain publishes by DANE or MTA-STS has
// precedence.
const (
	// Plain uses no TLS.
	Plain Security = "none"
	// Opportunistic uses TLS if the server offers it, without verification (RFC 7435).
	Opportunistic Security = "may"
	// Encrypted requires TLS, without verification.
	Encrypted Security = "encrypt"
	// Verified requires TLS and a certificate for the server's name.
	Verified Security = "verify"
	// Implicit is Verified with TLS from the first byte (RFC 8314).
	Implicit Security = "implicit"
)

// Target is a destination of mail.
type Target struct {
	// Domain is the recipients' domain as A-labels; its MX records name the servers. It is empty if Host accepts the
	// mail of several domains.
	Domain string
	// Host is a name or an address of a server that accepts the mail instead; its MX records are not used. Port 0 means
	// the port of the Mailer's options.
	Host     string
	Port     int
	Security Security
	// TLS is the sender's demand in addition to Security.
	TLS Demand
	// User and Password are the credentials for authentication. An empty User means no authentication.
	User, Password string
	// Place is a place (a site) of this domain. If it is set, only Peers and TLS apply: Peers are the servers of the
	// place, and each of them accepts its mail.
	Place string
	Peers []Peer
}

// Peer is a server of this domain. The TLS handshake fails if the server has another key.
type Peer struct {
	Name    string
	Address string // host:port
	Key     bus.Key
}

// Resolver is the DNS interface of a Mailer. client/dns implements it.
type Resolver interface {
	MX(ctx context.Context, domain string) ([]dns.MX, bool, error)
	Addresses(ctx context.Context, host string) ([]netip.Addr, bool, error)
	TLSA(ctx context.Context, name string) ([]dns.TLSA, bool, error)
}

// Policies looks up MTA-STS policies. client/mtasts implements it.
type Policies interface {
	Policy(ctx context.Context, domain string) mtasts.Answer
}

// Options are the settings of a Mailer. Zero values mean the defaults.
type Options struct {
	// Hostname is the server's own name.
	Hostname string
	Resolver Resolver
	// Policies may be nil; then MTA-STS is not used.
	Policies Policies
	// Observer may be nil.
	Observer Observer
	// Roots are the trusted certificate authorities; nil means those of the system.
	Roots *x509.CertPool
	// Port is the port of servers that MX records name (25).
	Port int
	// ConnectTimeout limits connecting to one address (30 s), Timeout one reply (5 min).
	ConnectTimeout, Timeout time.Duration
	// Grace is the time that a message in transfer still has when the server stops (10 s).
	Grace time.Duration
	// Own returns this server's key, by which the other servers of the domain recognize it. If Own or its result is
	// nil, there is no key.
	Own   func() *pki.Own
	Stats *stat.Tree
}

// Mailer opens sessions. Its methods may be called from any goroutine.
type Mailer struct {
	env  *env.Env
	opt  Options
	stat struct{ connections, failed, tls, dane, sts *stat.Counter }
}

// New returns a Mailer.
func New(e *env.Env, o Options) *Mailer {
	if o.Port == 0 {
		o.Port = 25
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	m := &Mailer{env: e, opt: o}
	m.stat.connections = o.Stats.Counter("Mail.Transfer.Connections", "connections made to other mail servers")
	m.stat.failed = o.Stats.Counter("Mail.Transfer.ConnectionsFailed",
		"connections to other mail servers that came to nothing")
	m.stat.tls = o.Stats.Counter("Mail.Transfer.TLS", "connections to other mail servers with TLS")
	m.stat.dane = o.Stats.Counter("Mail.Transfer.DANE", "connections to other mail servers verified by DANE")
	m.stat.sts = o.Stats.Counter("Mail.Transfer.MTASTS", "connections to other mail servers verified by MTA-STS")
	return m
}

// Failure is the reason why no session with a target could be opened.
type Failure struct {
	Reply *smtp.Reply
	// Permanent means that the failure applies to every message for the target.
	Permanent bool
	// Host is the server that sent Reply, empty if this server generated it.
	Host string
	// unmet is the detail of the enhanced status code if the server does not meet the sender's demand, and text is its
	// description.
	unmet uint16
	text  string
}

func (f *Failure) Error() string { return f.Reply.Error() }

func temporary(subject, detail uint16, text string) *Failure {
	return &Failure{Reply: smtp.NewReply(451, 4, subject, detail, text)}
}

func permanent(code int, subject, detail uint16, text string) *Failure {
	return &Failure{Reply: smtp.NewReply(code, 5, subject, detail, text), Permanent: true}
}
