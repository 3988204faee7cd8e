// Package outbound speaks to other mail servers for the router: it finds the hosts that take a
// domain's mail, connects to one of them as safely as its owner asks for (DANE, MTA-STS, STARTTLS),
// and sends messages. It knows nothing of mail.box: what to send next, when to try again and whom to
// tell is the router's.
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

// Security is how a connection to a server is protected.
type Security string

// The ways, from least to most. What a domain publishes by DANE or MTA-STS goes over Opportunistic.
const (
	// Plain uses no TLS.
	Plain Security = "none"
	// Opportunistic uses TLS where the server offers it, whoever the server is (RFC 7435).
	Opportunistic Security = "may"
	// Encrypted demands TLS, whoever the server is.
	Encrypted Security = "encrypt"
	// Verified demands TLS and a certificate of the server's name.
	Verified Security = "verify"
	// Implicit is Verified with TLS from the first byte (RFC 8314).
	Implicit Security = "implicit"
)

// Target is where mail goes.
type Target struct {
	// Domain is the recipients', as A-labels; its MX records say where to. It is empty where Host
	// takes the mail of several domains.
	Domain string
	// Host takes the mail instead: a name or an address, which is not looked up as a domain. Port is
	// 25 where it is 0.
	Host     string
	Port     int
	Security Security
	// TLS is what the sender demands beside Security.
	TLS Demand
	// User and Password sign in there, if User is not empty.
	User, Password string
	// Place is a place of the domain, in place of all others above: Peers are its servers, any of which takes its mail.
	Place string
	Peers []Peer
}

// Peer is a server of the domain: who has another key is not spoken to.
type Peer struct {
	Name    string
	Address string // host:port
	Key     bus.Key
}

// Resolver is what a Mailer asks of the DNS: client/dns has it.
type Resolver interface {
	MX(ctx context.Context, domain string) ([]dns.MX, bool, error)
	Addresses(ctx context.Context, host string) ([]netip.Addr, bool, error)
	TLSA(ctx context.Context, name string) ([]dns.TLSA, bool, error)
}

// Policies tells what a domain demands by MTA-STS: client/mtasts has it.
type Policies interface {
	Policy(ctx context.Context, domain string) mtasts.Answer
}

// Options are the settings of a Mailer. Zero values take the defaults.
type Options struct {
	// Hostname is the server's own name.
	Hostname string
	Resolver Resolver
	// Policies may be nil: MTA-STS is not asked then.
	Policies Policies
	// Observer may be nil.
	Observer Observer
	// Roots are the certificate authorities that are trusted; nil: those of the system.
	Roots *x509.CertPool
	// Port is where servers that MX records name are spoken to (25).
	Port int
	// ConnectTimeout is how long connecting to one address may take (30 s), Timeout one reply (5 min).
	ConnectTimeout, Timeout time.Duration
	// Grace is how long a message that is being sent may still take when the server stops (10 s).
	Grace time.Duration
	// Own is this server's key, by which the other servers of the domain know it; nil, or giving nil: none.
	Own   func() *pki.Own
	Stats *stat.Tree
}

// Mailer makes sessions. Its methods may be called from any goroutine.
type Mailer struct {
	env  *env.Env
	opt  Options
	stat struct{ connections, failed, tls, dane, sts *stat.Counter }
}

// New makes a Mailer.
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
	m.stat.failed = o.Stats.Counter("Mail.Transfer.ConnectionsFailed", "connections to other mail servers that came to nothing")
	m.stat.tls = o.Stats.Counter("Mail.Transfer.TLS", "connections to other mail servers with TLS")
	m.stat.dane = o.Stats.Counter("Mail.Transfer.DANE", "connections to other mail servers verified by DANE")
	m.stat.sts = o.Stats.Counter("Mail.Transfer.MTASTS", "connections to other mail servers verified by MTA-STS")
	return m
}

// Failure is why there is no session with anybody at a target.
type Failure struct {
	Reply *smtp.Reply
	// Permanent failures are of every message for the target: it takes none.
	Permanent bool
	// Host is who said it, empty where it is our own finding.
	Host string
	// unmet is the detail of the enhanced code for a server that does not meet what a sender demands, text its words.
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
