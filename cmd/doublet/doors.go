package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"

	"doublet/admin"
	"doublet/bus/pki"
	"doublet/client/bimi"
	"doublet/client/oneclick"
	"doublet/client/reach"
	"doublet/cmd/doublet/config"
	"doublet/note"
	"doublet/serve/forward"
	"doublet/serve/imapd"
	"doublet/serve/ldapd"
	"doublet/serve/listen"
	"doublet/serve/pop3d"
	"doublet/serve/sieved"
	"doublet/serve/signin"
	"doublet/serve/smtpd"
	"doublet/serve/webd"
	"doublet/serve/websession"
)

// front opens the doors of a server. It holds the services that doors share.
type front struct {
	*server
	// people signs in at the web doors, sessions are those of browsers there.
	people   *signin.Web
	sessions *websession.Service
	// forwarded serves the sessions and requests that mates forward to the doors.
	forwarded *forward.Doors
	// lists leaves mailing lists for people.
	lists *oneclick.Client
	// logos looks up the logos of senders; nil if the settings do not allow that.
	logos *bimi.Cache
}

// openDoors opens every configured door.
func (h *server) openDoors() error {
	h.closes("doors", h.conns.Shutdown)
	f, err := h.newFront()
	if err != nil {
		return err
	}
	f.load()
	if err := errors.Join(f.openMail(), f.openWeb()); err != nil {
		return err
	}
	f.forwarded.Serve(h.member)
	close(h.open)
	return nil
}

func (h *server) newFront() (*front, error) {
	s := h.system
	people := h.signIn.Web(signin.PeopleOf(s.Directory), s.Sessions)
	openID, err := newOpenID(h, people)
	if err != nil {
		return nil, err
	}
	f := &front{
		server: h, people: people, lists: oneclick.New(reach.New(h.env, s.DNS, nil), nil),
		sessions: websession.New(h.env, people, s.Directory.SecondFactors, s.Sessions, websession.Options{
			Server: s.Name, Cluster: h.mates, Key: s.Directory.Secret.Key("web sessions"), Stats: s.Stats,
			Passkeys: newPasskeys(h, people), OpenID: openID,
		}),
		forwarded: h.forward.Doors(h.conns, func(ctx context.Context, person note.UNID) (signin.Account, error) {
			a, _, err := people.Known(ctx, person)
			return a, err
		}),
	}
	if h.cfg.Web.Logos {
		f.logos = bimi.New(h.env, s.DNS, reach.New(h.env, s.DNS, nil), nil, s.Stats)
	}
	return f, nil
}

// openMail opens the doors for mail programs and other mail servers.
func (h *front) openMail() error {
	s, cfg, cert := h.system, &h.cfg, h.certs.Config()
	smtp, err := h.openSMTP()
	if err != nil {
		return err
	}
	imap := imapd.New(h.env, imapd.Config{
		Hostname: cfg.Server.Name, Memory: h.messages, NotifyMailboxes: cfg.Limits.NotifyMailboxes,
		LoginTimeout: cfg.Limits.LoginTimeout.Duration, IdleTimeout: cfg.Limits.IdleTimeout.Duration,
		DataTimeout: cfg.Limits.DataTimeout.Duration,
		Forward:     h.forward,
	}, imapd.NewBackend(h.signIn, s.Directory, s.Mailbox), s.Stats)
	pop := pop3d.New(h.env, pop3d.Config{
		Hostname: cfg.Server.Name, LoginTimeout: cfg.Limits.LoginTimeout.Duration,
		LoginDelay: cfg.Limits.POP3LoginDelay.Duration, Forward: h.forward,
	}, h.signIn, s.Mailbox, s.Stats)
	book, err := ldapd.New(h.env, ldapConfig(cfg, s), h.signIn, s.Directory, s.Stats)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("settings of [ldap]: %w", err)}
	}
	h.forwarded.Add("imap", imap.Serve)
	h.forwarded.Add("pop3", pop.Serve)
	sieve := sieved.New(h.env, sieved.Config{
		Hostname: cfg.Server.Name, LoginTimeout: cfg.Limits.LoginTimeout.Duration,
		IdleTimeout: cfg.Limits.IdleTimeout.Duration, Forward: h.forward,
	}, h.signIn, s.Mailbox, s.Stats)
	h.forwarded.Add("sieve", sieve.Serve)
	first := smtp.Load()
	mx := func(c *listen.Conn) { smtp.Load().mx.Serve(c) }
	submission := func(c *listen.Conn) { smtp.Load().submission.Serve(c) }
	lmtp := func(c *listen.Conn) { smtp.Load().lmtp.Serve(c) }
	for _, d := range []struct {
		door    listen.Door
		address string
	}{
		{listen.Door{Name: "smtp", TLS: pki.Server(cert, h.member.Own), Busy: first.mx.Busy(), Serve: mx},
			cfg.Doors.SMTP},
		{listen.Door{Name: "submission", TLS: cert, Busy: first.submission.Busy(), Serve: submission},
			cfg.Doors.Submission},
		{listen.Door{Name: "submissions", TLS: cert, Implicit: true, Serve: submission}, cfg.Doors.Submissions},
		{listen.Door{Name: "lmtp", TLS: cert, Busy: first.lmtp.Busy(), Serve: lmtp}, cfg.Doors.LMTP},
		{listen.Door{Name: "imap", TLS: cert, Busy: imap.Busy(), Serve: imap.Serve}, cfg.Doors.IMAP},
		{listen.Door{Name: "imaps", TLS: cert, Implicit: true, Serve: imap.Serve}, cfg.Doors.IMAPS},
		{listen.Door{Name: "pop3", TLS: cert, Busy: pop.Busy(), Serve: pop.Serve}, cfg.Doors.POP3},
		{listen.Door{Name: "pop3s", TLS: cert, Implicit: true, Serve: pop.Serve}, cfg.Doors.POP3S},
		{listen.Door{Name: "sieve", TLS: cert, Busy: sieve.Busy(), Serve: sieve.Serve}, cfg.Doors.Sieve},
		{listen.Door{Name: "ldap", TLS: cert, Busy: book.Busy(), Serve: book.Serve}, cfg.Doors.LDAP},
		{listen.Door{Name: "ldaps", TLS: cert, Implicit: true, Serve: book.Serve}, cfg.Doors.LDAPS},
	} {
		if d.address == config.Off {
			continue
		}
		d.door.Network, d.door.Address = "tcp", d.address
		l, err := h.conns.Open(d.door)
		if err != nil {
			return doorError(d.door.Name, d.address, err)
		}
		h.doors.opened(d.door.Name, l.Addr(), d.door.TLS != nil, d.door.Implicit)
	}
	return nil
}

// ldapConfig returns the settings of the LDAP doors.
func ldapConfig(cfg *config.Config, s *admin.System) ldapd.Config {
	l := &cfg.LDAP
	return ldapd.Config{
		Hostname: cfg.Server.Name, Version: s.Version, Base: l.Base, People: l.People, Groups: l.Groups,
		Anonymous: l.Anonymous == "loopback", Readers: l.Readers, Entries: l.Entries,
		ReaderEntries: l.ReaderEntries, SearchTime: l.SearchTime.Duration,
		LeastPassword: webd.LeastPassword, SCRAM: cfg.Directory.SCRAM,
		LoginTimeout: cfg.Limits.LoginTimeout.Duration, IdleTimeout: cfg.Limits.IdleTimeout.Duration,
		DataTimeout: cfg.Limits.DataTimeout.Duration,
	}
}

// smtpDoors are the SMTP servers, one for each kind of door.
type smtpDoors struct{ mx, submission, lmtp *smtpd.Server }

// openSMTP creates the SMTP servers with the checks for incoming mail. A change of settings replaces them: a session
// keeps the settings with which it began.
func (h *front) openSMTP() (*atomic.Pointer[smtpDoors], error) {
	backend, count := smtpd.NewBackend(h.signIn, h.system.Directory, h.system.Mail, h.env), newInc(h.system.Stats)
	var current atomic.Pointer[smtpDoors]
	prepare := func(cfg *config.Config) (func(), error) {
		filters, err := h.openFilters(cfg)
		if err != nil {
			return nil, err
		}
		kind := func(kind smtpd.Kind) *smtpd.Server {
			return smtpd.New(h.env, smtpd.Config{
				Kind: kind, Hostname: cfg.Server.Name, MaxMessage: int64(cfg.Limits.MessageSize),
				MaxRecipients: cfg.Limits.Recipients, Memory: h.messages,
				CommandTimeout: cfg.Limits.CommandTimeout.Duration, DataTimeout: cfg.Limits.DataTimeout.Duration,
				Mate: h.mate, Inbound: filters, GreetingDelay: cfg.Filter.GreetingDelay.Duration,
				Quiet: !cfg.Log.Messages,
			}, backend, count)
		}
		next := &smtpDoors{kind(smtpd.SMTP), kind(smtpd.Submission), kind(smtpd.LMTP)}
		return func() { current.Store(next) }, nil
	}
	commit, err := prepare(&h.cfg)
	if err != nil {
		return nil, err
	}
	commit()
	h.settings.take(prepare, "verify.*", "filter.*", "limits.recipients")
	return &current, nil
}

// openSocket opens the admin socket: a Unix socket in the data folder that only the server's own account can open.
func (h *server) openSocket() error {
	path := h.socket()
	if err := h.env.FS.Remove(path); err != nil && !notExist(err) { // of a dead server: we hold the store's lock
		return fmt.Errorf("remove stale %s: %w", path, err)
	}
	l, err := listenPrivate(h.env, path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	h.serveHTTP("admin", l, admin.Handler(h.running), nil)
	return h.writePID()
}

func (h *server) socket() string { return h.env.FS.PathJoin(h.cfg.Data.Dir, admin.SocketName) }

// doorError returns an error that explains the usual mistakes and their remedies.
func doorError(name, address string, err error) error {
	_, port, _ := strings.Cut(address[strings.LastIndexByte(address, ':'):], ":")
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &exitError{exitPort,
			fmt.Errorf("door %s: %s is in use: stop that program (ss -ltnp 'sport = :%s'), or set --%s HOST:PORT or "+
				"off",
				name, address, port, name)}
	case errors.Is(err, syscall.EACCES):
		return &exitError{exitPermission,
			fmt.Errorf("door %s: no permission for %s: grant CAP_NET_BIND_SERVICE, run as root, or set --%s HOST:PORT",
				name, address, name)}
	}
	return &exitError{exitFailed, fmt.Errorf("door %s at %s: %w", name, address, err)}
}
