package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"doublet/admin"
	"doublet/bus/pki"
	"doublet/cmd/doublet/config"
	"doublet/note"
	"doublet/serve/imapd"
	"doublet/serve/listen"
	"doublet/serve/pop3d"
	"doublet/serve/signin"
	"doublet/serve/smtpd"
)

// openDoors opens every configured door. Clients sign in at all of them with in.
func (h *house) openDoors(in *signin.Service) error {
	s, cfg, cert := h.system, &h.cfg, h.certs.Config()
	count := newInc(s.Stats)
	limits, err := listenOptions(cfg)
	if err != nil {
		return err
	}
	limits.Observe = h.busy.Observe
	srv := listen.New(h.env, limits, count)
	h.closes("doors", srv.Shutdown)
	h.conns.Store(srv)
	h.settings.take(func(next *config.Config) (func(), error) {
		o, err := listenOptions(next)
		return func() { srv.Limit(o) }, err
	}, "limits.connections", "limits.connections_per_address", "limits.compressed_connections", "limits.sessions_per_person", "limits.users",
		"limits.handshake_timeout")

	backend := smtpd.NewBackend(in, s.Directory, s.Mail, h.env)
	memory := messageMemory(cfg)
	h.load(srv, memory)
	open := func(cfg *config.Config) (*smtpDoors, error) { return h.openSMTP(cfg, backend, memory, count) }
	first, err := open(cfg)
	if err != nil {
		return err
	}
	var smtp atomic.Pointer[smtpDoors] // a session keeps the settings with which it began
	smtp.Store(first)
	h.settings.take(func(next *config.Config) (func(), error) {
		doors, err := open(next)
		return func() { smtp.Store(doors) }, err
	}, "verify.*", "filter.*", "limits.recipients")
	imap := imapd.New(h.env, imapd.Config{
		Hostname: cfg.Server.Name, Memory: memory, NotifyMailboxes: cfg.Limits.NotifyMailboxes,
		LoginTimeout: cfg.Limits.LoginTimeout.Duration, IdleTimeout: cfg.Limits.IdleTimeout.Duration, DataTimeout: cfg.Limits.DataTimeout.Duration,
		Forward: h.forward,
	}, imapd.NewBackend(in, s.Directory, s.Mailbox), s.Stats)
	pop := pop3d.New(h.env, pop3d.Config{Hostname: cfg.Server.Name, LoginTimeout: cfg.Limits.LoginTimeout.Duration, LoginDelay: cfg.Limits.POP3LoginDelay.Duration, Forward: h.forward}, in, s.Mailbox, s.Stats)

	people := in.Web(signin.PeopleOf(s.Directory), s.Sessions)
	h.forward.Serve(srv, func(ctx context.Context, person note.UNID) (signin.Account, error) {
		a, _, err := people.Known(ctx, person)
		return a, err
	})
	h.forward.Door("imap", imap.Serve)
	h.forward.Door("pop3", pop.Serve)

	mates := pki.Server(cert, h.own.Load)
	mx := func(c *listen.Conn) { smtp.Load().mx.Serve(c) }
	submission := func(c *listen.Conn) { smtp.Load().submission.Serve(c) }
	lmtp := func(c *listen.Conn) { smtp.Load().lmtp.Serve(c) }
	for _, d := range []struct {
		door    listen.Door
		address string
	}{
		{listen.Door{Name: "smtp", TLS: mates, Busy: first.mx.Busy(), Serve: mx}, cfg.Doors.SMTP},
		{listen.Door{Name: "submission", TLS: cert, Busy: first.submission.Busy(), Serve: submission}, cfg.Doors.Submission},
		{listen.Door{Name: "submissions", TLS: cert, Implicit: true, Serve: submission}, cfg.Doors.Submissions},
		{listen.Door{Name: "lmtp", TLS: cert, Busy: first.lmtp.Busy(), Serve: lmtp}, cfg.Doors.LMTP},
		{listen.Door{Name: "imap", TLS: cert, Busy: imap.Busy(), Serve: imap.Serve}, cfg.Doors.IMAP},
		{listen.Door{Name: "imaps", TLS: cert, Implicit: true, Serve: imap.Serve}, cfg.Doors.IMAPS},
		{listen.Door{Name: "pop3", TLS: cert, Busy: pop.Busy(), Serve: pop.Serve}, cfg.Doors.POP3},
		{listen.Door{Name: "pop3s", TLS: cert, Implicit: true, Serve: pop.Serve}, cfg.Doors.POP3S},
	} {
		if d.address == config.Off {
			continue
		}
		d.door.Network, d.door.Address = "tcp", d.address
		l, err := srv.Open(d.door)
		if err != nil {
			return doorError(d.door.Name, d.address, err)
		}
		h.opened(d.door.Name, l.Addr(), d.door.TLS != nil, d.door.Implicit)
	}
	if err := h.openWeb(srv, in, memory); err != nil {
		return err
	}
	close(h.open)
	return nil
}

// smtpDoors are the SMTP servers, one for each kind of door.
type smtpDoors struct{ mx, submission, lmtp *smtpd.Server }

// openSMTP creates the SMTP servers with the checks for incoming mail.
func (h *house) openSMTP(cfg *config.Config, backend smtpd.Backend, memory *listen.Budget, count smtpd.Stats) (*smtpDoors, error) {
	filters, err := h.openFilters(cfg)
	if err != nil {
		return nil, err
	}
	kind := func(kind smtpd.Kind) *smtpd.Server {
		return smtpd.New(h.env, smtpd.Config{
			Kind: kind, Hostname: cfg.Server.Name, MaxMessage: int64(cfg.Limits.MessageSize),
			MaxRecipients: cfg.Limits.Recipients, Memory: memory,
			CommandTimeout: cfg.Limits.CommandTimeout.Duration, DataTimeout: cfg.Limits.DataTimeout.Duration,
			Mate: h.mate, Inbound: filters, GreetingDelay: cfg.Filter.GreetingDelay.Duration, Quiet: !cfg.Log.Messages,
		}, backend, count)
	}
	return &smtpDoors{kind(smtpd.SMTP), kind(smtpd.Submission), kind(smtpd.LMTP)}, nil
}

func (h *house) opened(name string, at net.Addr, startTLS, implicit bool) {
	d := admin.Door{Name: name, Address: at.String()}
	switch {
	case implicit:
		d.TLS = "TLS"
	case startTLS:
		d.TLS = "STARTTLS"
	}
	h.doors.add(d)
}

// openSocket opens the admin socket: a Unix socket in the data folder that only the server's own account can open.
func (h *house) openSocket() error {
	path := h.socket()
	if err := h.env.FS.Remove(path); err != nil && !notExist(err) { // of a dead server: we hold the store's lock
		return fmt.Errorf("remove stale %s: %w", path, err)
	}
	l, err := listenPrivate(h.env, path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	h.system.Doors, h.system.Health = h.doors.all, h.health
	h.serveHTTP("admin", l, admin.Handler(h.system), nil)
	return h.writePID()
}

// errOpening is the state of a server whose doors are not open yet.
var errOpening = errors.New("starting")

// health returns the reason for which the server cannot take clients, or nil.
func (h *house) health(ctx context.Context) error {
	select {
	case <-h.open:
		return h.web.Ready(ctx)
	default:
		return errOpening
	}
}

func (h *house) socket() string { return h.env.FS.PathJoin(h.cfg.Data.Dir, admin.SocketName) }

// doorError returns an error that explains the usual mistakes and their remedies.
func doorError(name, address string, err error) error {
	_, port, _ := strings.Cut(address[strings.LastIndexByte(address, ':'):], ":")
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &exitError{exitPort, fmt.Errorf("door %s: %s is in use: stop that program (ss -ltnp 'sport = :%s'), or set --%s HOST:PORT or off",
			name, address, port, name)}
	case errors.Is(err, syscall.EACCES):
		return &exitError{exitPermission, fmt.Errorf("door %s: no permission for %s: grant CAP_NET_BIND_SERVICE, run as root, or set --%s HOST:PORT",
			name, address, name)}
	}
	return &exitError{exitFailed, fmt.Errorf("door %s at %s: %w", name, address, err)}
}
