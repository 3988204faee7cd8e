package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"doublet/client/dns"
	"doublet/client/mtasts"
	client "doublet/client/smtp"
	"doublet/wire/sasl"
	"doublet/wire/scram"
	"doublet/wire/smtp"
	"doublet/wire/tlsreport"
)

// guard is the protection that a host must meet, from the target's settings and from the policies that the domain
// publishes.
type guard struct {
	tls, verify, implicit, off bool
	// tlsa holds the usable DANE associations. If there are associations but none is usable, tlsa is empty: TLS is then
	// required, but DANE verifies nothing.
	tlsa []dns.TLSA
	dane bool
	sts  bool
	// strict requires that the server offers REQUIRETLS.
	strict bool
	// peer is the server of this domain that the host must be; nil for other hosts.
	peer *Peer
	// names are the acceptable certificate names: one of them must match.
	names []string
	// watch reports the outcome of TLS; nil if there is no observer.
	watch *watch
}

// Connect opens a session with the first server of a target that accepts one.
func (m *Mailer) Connect(ctx context.Context, t *Target) (*Session, *Failure) {
	if t.Place != "" {
		return m.connectPlace(ctx, t)
	}
	hosts, fail := m.hosts(ctx, t)
	if fail != nil {
		return nil, fail
	}
	c := connecting{m: m, t: t, sts: m.policy(ctx, t)}
	for i := range hosts {
		if ctx.Err() != nil {
			return nil, temporary(4, 1, "The server is stopping")
		}
		if s, fail := c.host(ctx, &hosts[i]); s != nil || fail != nil {
			return s, fail
		}
	}
	switch {
	case c.fails.last != nil:
		return nil, c.fails.result(t.TLS)
	case c.gone > 0 && t.Host != "":
		return nil, temporary(4, 4, "Server "+t.Host+" has no address")
	case c.gone > 0:
		return nil, permanent(550, 1, 2, "Domain "+t.Domain+" has no mail server: "+hosts[0].name+" has no address")
	}
	return nil, temporary(4, 1, "No server of "+t.Domain+" could be reached")
}

// connecting is a walk over the servers of a target.
type connecting struct {
	m     *Mailer
	t     *Target
	sts   mtasts.Answer
	fails failures
	tried int // addresses
	gone  int // hosts without an address
}

// host tries the addresses of a host. It returns nil and nil if the next host is to be tried.
func (c *connecting) host(ctx context.Context, h *host) (*Session, *Failure) {
	w := c.m.watch(c.t, h, &c.sts)
	if c.sts.Enforced() && !c.sts.Fits(h.name) {
		w.unfit()
		c.fails.add(unmet(unmetTLS, "Policy of "+c.t.Domain+" (MTA-STS) does not name "+h.name))
		return nil, nil
	}
	list, secure, err := c.m.addresses(ctx, h)
	if errors.Is(err, dns.ErrNotFound) {
		c.gone++
		return nil, nil
	}
	if err != nil {
		c.fails.add(temporary(4, 3, "Name servers do not tell the address of "+h.name))
		return nil, nil
	}
	g, fail := c.guard(ctx, h, secure, w)
	if fail != nil {
		c.fails.add(fail)
		return nil, nil
	}
	for _, a := range list {
		if c.tried++; c.tried > maxAddresses {
			break
		}
		s, fail := c.m.try(ctx, c.t, h, a, g)
		if fail == nil {
			return s, nil
		}
		c.m.stat.failed.Inc()
		if c.fails.add(fail); fail.Permanent {
			return nil, fail
		}
	}
	return nil, nil
}

// guard determines the protection that the host, the domain's policy and the message need.
func (c *connecting) guard(ctx context.Context, h *host, secure bool, w *watch) (guard, *Failure) {
	g, fail := c.m.guard(ctx, c.t, h, secure, w)
	if fail != nil {
		return g, fail
	}
	if c.sts.Enforced() && !g.dane {
		g.tls, g.verify, g.sts, g.names = true, true, true, []string{h.name}
	}
	if c.t.TLS == Required {
		fail = g.require(c.t, h, &c.sts)
	}
	return g, fail
}

// guard determines the protection that a host needs.
//
// Implements: RFC 8689 §4.2.2 TLS-Required: No sets aside what the recipient's domain publishes
// Implements: RFC 7672 §2.2 TLS discovery, §2.2.1 non-MX hosts
func (m *Mailer) guard(ctx context.Context, t *Target, h *host, secure bool, w *watch) (guard, *Failure) {
	g := guard{names: []string{h.name}, watch: w}
	g.set(t.Security)
	if g.off || !secure || !h.secure || h.address.IsValid() || g.implicit || t.TLS == Relaxed {
		return g, nil
	}
	list, signed, err := m.opt.Resolver.TLSA(ctx, "_"+strconv.Itoa(m.port(t))+"._tcp."+h.name)
	switch {
	case errors.Is(err, dns.ErrNotFound):
		return g, nil
	case err != nil:
		// A withheld answer must not weaken the connection: an attacker could block the lookup.
		w.dane(h, nil)
		w.tell(nil, tlsreport.DNSSECInvalid, "")
		return g, temporary(7, 5, "Name servers do not tell the certificate of "+h.name)
	case !signed:
		return g, nil
	}
	g.tls, g.tlsa = true, usable(list)
	w.dane(h, list)
	g.dane = len(g.tlsa) > 0
	if g.dane {
		g.verify = false
		if t.Domain != "" {
			g.names = append(g.names, t.Domain)
		}
	}
	return g, nil
}

func (m *Mailer) port(t *Target) int {
	if t.Port != 0 {
		return t.Port
	}
	return m.opt.Port
}

// try opens a session with one address. If TLS fails and is not required, it retries without TLS.
//
// Implements: RFC 7435 Opportunistic security
func (m *Mailer) try(ctx context.Context, t *Target, h *host, a netip.Addr, g guard) (*Session, *Failure) {
	s, fail, broke := m.session(ctx, t, h, a, g)
	if broke && !g.tls {
		g.off = true
		s, fail, _ = m.session(ctx, t, h, a, g)
	}
	return s, fail
}

func (m *Mailer) session(ctx context.Context, t *Target, h *host, a netip.Addr,
	g guard) (s *Session, fail *Failure, broke bool) {
	return m.open(ctx, t, g, h.name, a.String(), strconv.Itoa(m.port(t)))
}

func (m *Mailer) open(ctx context.Context, t *Target, g guard, name, host,
	port string) (s *Session, fail *Failure, broke bool) {
	m.stat.connections.Inc()
	where := name + "[" + host + "]"
	conn, err := m.env.Dial("tcp", net.JoinHostPort(host, port), m.opt.ConnectTimeout)
	if err != nil {
		return nil, &Failure{Reply: smtp.NewReply(451, 4, 4, 1, "Cannot connect to "+where+": "+reason(err)),
			Host: where}, false
	}
	s = &Session{Host: where, Name: name, m: m, conn: conn, target: t}
	stop := context.AfterFunc(ctx, s.interrupt)
	fail, broke = s.greet(t, g)
	if fail != nil {
		stop()
		s.Close()
		if fail.Host == "" {
			fail.Host = where
		}
		return nil, fail, broke
	}
	s.stop = stop
	return s, nil, false
}

// reason returns the last part of a network error's text, without the addresses.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		if op.Timeout() {
			return "no answer"
		}
		text := op.Err.Error()
		return text[strings.LastIndex(text, ": ")+1:]
	}
	return err.Error()
}

// said returns the failure for the server's own reply, or for a broken connection.
func (s *Session) said(err error, doing string) *Failure {
	var r *smtp.Reply
	if errors.As(err, &r) {
		// A reply before the first message is treated as temporary, whatever its code. Another server of the domain, or
		// the same one later, may accept the message (RFC 5321 section 4.2.1 leaves this to the client).
		reply := *r
		return &Failure{Reply: &reply, Host: s.Host}
	}
	return &Failure{Reply: smtp.NewReply(451, 4, 4, 2, "Connection to "+s.Host+" broke at "+doing+": "+reason(err)),
		Host: s.Host}
}

// set demands what the target is configured for.
func (g *guard) set(s Security) {
	switch s {
	case Plain:
		g.off = true
	case Encrypted:
		g.tls = true
	case Verified:
		g.tls, g.verify = true, true
	case Implicit:
		g.tls, g.verify, g.implicit = true, true, true
	}
}

// greet prepares a connection for sending messages: greeting, EHLO, TLS and authentication.
func (s *Session) greet(t *Target, g guard) (fail *Failure, broke bool) {
	o := client.Options{Timeout: s.m.opt.Timeout}
	if g.implicit {
		o.TLS = s.m.tlsConfig(&g)
	}
	var err error
	if s.c, err = client.New(s.m.env, s.conn, o); err != nil {
		return s.said(err, "the greeting"), false
	}
	if err := s.hello(); err != nil {
		return s.said(err, "EHLO"), false
	}
	if fail, broke := s.secure(&g); fail != nil {
		return fail, broke
	}
	if _, promised := s.c.Ext("REQUIRETLS"); g.strict && !promised {
		return unmet(unmetRequire, "The message demands REQUIRETLS, which "+s.Host+" does not offer"), false
	}
	if s.Secure != "" {
		s.m.stat.tls.Inc()
	}
	if name, _, _ := strings.Cut(s.c.HelloName(), " "); strings.EqualFold(name, s.m.opt.Hostname) &&
		name != "localhost" && t.User == "" {
		f := looped(t.Domain + t.Host)
		f.Host = s.Host
		return f, false
	}
	if _, known := s.c.Ext(smtp.ParamTransit); g.peer != nil && !known {
		return &Failure{Reply: smtp.NewReply(451, 4, 7, 0, "Server "+s.Host+
			" does not know this server as one of its domain yet"), Host: s.Host}, false
	}
	return s.authenticate(t), false
}

// authenticate signs in if the target has a user.
func (s *Session) authenticate(t *Target) *Failure {
	if t.User == "" {
		return nil
	}
	err := s.signIn(t)
	if err == nil {
		return nil
	}
	f := s.said(err, "AUTH")
	if errors.Is(err, errNoMechanism) {
		f.Reply = smtp.NewReply(451, 4, 7, 5, "Server "+s.Host+": "+err.Error())
	}
	return f
}

// secure starts TLS if the server offers it or the guard requires it.
func (s *Session) secure(g *guard) (fail *Failure, broke bool) {
	_, offered := s.c.Ext("STARTTLS")
	switch {
	case g.implicit:
		s.Secure = "TLS"
		return nil, false
	case !offered && !g.off:
		g.watch.tell(s, tlsreport.STARTTLSNotSupported, "")
	}
	switch {
	case offered && !g.off:
	case g.tls:
		return unmet(unmetTLS, "Server "+s.Host+" offers no TLS, which is required"), false
	default:
		return nil, false
	}
	if err := s.c.StartTLS(s.m.tlsConfig(g)); err != nil {
		g.watch.failed(s, err)
		var refused *smtp.Reply
		if errors.As(err, &refused) && !g.tls {
			return nil, false // the server offers STARTTLS but refuses it
		}
		f := s.said(err, "STARTTLS")
		text := "TLS with " + s.Host + " failed: " + tlsReason(err)
		if f.Reply = smtp.NewReply(451, 4, 7, 5, text); lastsTLS(err) {
			f.unmet, f.text = unmetTLS, text
		}
		return f, true
	}
	g.watch.passed(s)
	if err := s.hello(); err != nil {
		return s.said(err, "EHLO behind STARTTLS"), true
	}
	s.note(g)
	return nil, false
}

// hello sends EHLO. The client forgets the extensions that were offered before TLS.
func (s *Session) hello() error { return s.c.Hello(s.m.opt.Hostname) }

func (s *Session) note(g *guard) {
	s.Secure = "TLS"
	switch {
	case g.peer != nil:
		s.Secure = "TLS, key of the server document"
	case g.dane:
		s.Secure = "TLS, DANE"
		s.m.stat.dane.Inc()
	case g.sts:
		s.Secure = "TLS, MTA-STS"
		s.m.stat.sts.Inc()
	case g.verify:
		s.Secure = "TLS, verified"
	}
}

func tlsReason(err error) string {
	text := err.Error()
	return strings.TrimPrefix(text[:min(len(text), 300)], "smtp: TLS handshake: ")
}

// tlsConfig returns the TLS configuration for a host. It disables the library's own verification, because the checks
// depend on the guard; VerifyConnection makes them.
//
// Implements: RFC 8461 §4.1 MX certificate validation
func (m *Mailer) tlsConfig(g *guard) *tls.Config {
	if g.peer != nil {
		return m.opt.Own().Client(g.peer.Key, m.env.Clock.Now)
	}
	name := g.names[0]
	if _, err := netip.ParseAddr(name); err == nil {
		name = ""
	}
	// #nosec G402 -- see VerifyConnection
	cfg := &tls.Config{ServerName: name, Time: m.env.Clock.Now, MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	check := *g
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		switch {
		case check.dane:
			return verifyDANE(check.tlsa, cs.PeerCertificates, check.names, m.env.Clock.Now())
		case check.verify:
			return m.verifyName(&cs, check.names[0])
		case check.watch.testing():
			check.watch.soft = m.verifyName(&cs, check.names[0])
		}
		return nil
	}
	return cfg
}

// verifyName verifies a server's certificate for a host name.
func (m *Mailer) verifyName(cs *tls.ConnectionState, name string) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: m.opt.Roots, Intermediates: between, DNSName: name, CurrentTime: m.env.Clock.Now(),
	})
	return err
}

var errNoMechanism = errors.New("it offers no way to sign in that is safe here")

// signIn authenticates with the best mechanism that the server offers. It sends a password only over TLS or to this
// machine. SCRAM needs no such protection, because it does not reveal the password.
//
// Implements: RFC 4954 §4 AUTH to a smarthost
func (s *Session) signIn(t *Target) error {
	offered, _ := s.c.Ext("AUTH")
	list := strings.Fields(strings.ToUpper(offered))
	private := s.Secure != ""
	if a, ok := s.conn.RemoteAddr().(*net.TCPAddr); ok {
		private = private || a.IP.IsLoopback()
	}
	switch {
	case slices.Contains(list, "SCRAM-SHA-256"):
		var nonce [18]byte
		s.m.env.Fill(nonce[:])
		x := &scramClient{Client: scram.NewClient(t.User, t.Password, hex.EncodeToString(nonce[:]))}
		if err := s.c.Auth(x); err != nil {
			return err
		}
		if !x.done {
			return errors.New("smtp: AUTH: the server did not prove that it knows the password")
		}
		return nil
	case private && slices.Contains(list, "PLAIN"):
		return s.c.Auth(sasl.NewPlainClient("", t.User, t.Password))
	case private && slices.Contains(list, "LOGIN"):
		return s.c.Auth(sasl.NewLoginClient(t.User, t.Password))
	}
	return errNoMechanism
}

// scramClient adapts scram.Client to sasl.Client.
type scramClient struct {
	*scram.Client
	done bool
}

func (c *scramClient) Mechanism() string { return "SCRAM-SHA-256" }

func (c *scramClient) Initial() ([]byte, error) {
	out, _, err := c.Client.Next(nil)
	return out, err
}

func (c *scramClient) Next(challenge []byte) ([]byte, error) {
	if c.done {
		return nil, sasl.ErrUnexpected
	}
	out, done, err := c.Client.Next(challenge)
	c.done = done
	return out, err
}
