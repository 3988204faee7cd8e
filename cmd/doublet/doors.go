package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/serve/imapd"
	"doublet/serve/listen"
	"doublet/serve/smtpd"
	"doublet/serve/webd"
)

// openDoors opens every door that the configuration does not close.
func (h *house) openDoors() error {
	cert, err := h.tlsConfig()
	if err != nil {
		return err
	}
	s, cfg := h.system, &h.cfg
	count := newInc(s.Stats)
	srv := listen.New(h.env, listen.Options{MaxConns: cfg.Limits.Connections, MaxPerAddress: cfg.Limits.ConnectionsPerAddress}, count)
	h.closes("doors", srv.Shutdown)

	backend := touching{smtpd.NewBackend(s.Directory, s.Mail, h.env), s.Directory, s.Stats.Active("Server.Users", "users")}
	memory := listen.NewBudget(256 << 20)
	submitWith, readWith := mechanisms(cfg)
	smtp := func(kind smtpd.Kind) *smtpd.Server {
		return smtpd.New(h.env, smtpd.Config{
			Kind: kind, Hostname: cfg.Server.Name, MaxMessage: int64(cfg.Limits.MessageSize), MaxRecipients: cfg.Limits.Recipients, Memory: memory,
			Mechanisms: submitWith,
		}, backend, count)
	}
	imap := imapd.New(h.env, imapd.Config{Hostname: cfg.Server.Name, Mechanisms: readWith, Memory: memory}, imapBackend(s), s.Stats)
	web := webd.New(s, h.env)

	mx, submission, lmtp := smtp(smtpd.SMTP), smtp(smtpd.Submission), smtp(smtpd.LMTP)
	for _, d := range []struct {
		door    listen.Door
		address string
	}{
		{listen.Door{Name: "smtp", TLS: cert, Busy: mx.Busy(), Serve: mx.Serve}, cfg.Doors.SMTP},
		{listen.Door{Name: "submission", TLS: cert, Busy: submission.Busy(), Serve: submission.Serve}, cfg.Doors.Submission},
		{listen.Door{Name: "submissions", TLS: cert, Implicit: true, Serve: submission.Serve}, cfg.Doors.Submissions},
		{listen.Door{Name: "lmtp", TLS: cert, Busy: lmtp.Busy(), Serve: lmtp.Serve}, cfg.Doors.LMTP},
		{listen.Door{Name: "imap", TLS: cert, Busy: imap.Busy(), Serve: imap.Serve}, cfg.Doors.IMAP},
		{listen.Door{Name: "imaps", TLS: cert, Implicit: true, Serve: imap.Serve}, cfg.Doors.IMAPS},
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
	if cfg.Doors.HTTP == config.Off {
		return nil
	}
	l, err := h.env.Listen("tcp", cfg.Doors.HTTP)
	if err != nil {
		return doorError("http", cfg.Doors.HTTP, err)
	}
	h.opened("http", l.Addr(), false, false)
	h.serveHTTP("http", l, web)
	// Whoever balances load over servers is told before the first door closes.
	h.closes("health", func(context.Context) error { web.Stopping(); return nil })
	return nil
}

// mechanisms are the ways to sign in that SMTP and IMAP offer: nil for all that they know. A program
// that is offered SCRAM takes it and nothing else, so it is offered where people have credentials.
func mechanisms(cfg *config.Config) (smtp, imap []string) {
	if cfg.Directory.SCRAM {
		return nil, nil
	}
	return []string{"PLAIN", "LOGIN"}, []string{"PLAIN"}
}

func (h *house) opened(name string, at net.Addr, startTLS, implicit bool) {
	d := admin.Door{Name: name, Address: at.String()}
	switch {
	case implicit:
		d.TLS = "TLS"
	case startTLS:
		d.TLS = "STARTTLS"
	}
	h.doors = append(h.doors, d)
}

// door is the address of an open door, "" where it is closed.
func (h *house) door(name string) string {
	for _, d := range h.doors {
		if d.Name == name {
			return d.Address
		}
	}
	return ""
}

// serveHTTP serves a listener until the house closes.
func (h *house) serveHTTP(name string, l net.Listener, handler http.Handler) {
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	h.env.Go("door "+name, func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.env.Log.Error("door closed by itself", "door", name, "error", err)
		}
	})
	h.closes(name, func(ctx context.Context) error {
		if err := srv.Shutdown(ctx); err != nil {
			return errors.Join(err, srv.Close())
		}
		return nil
	})
}

// openSocket opens the door for verbs: a socket in the data folder that only the server's own
// account may open.
func (h *house) openSocket() error {
	path := h.socket()
	if err := h.env.FS.Remove(path); err != nil && !notExist(err) { // a dead server's: the store's lock is ours
		return fmt.Errorf("remove stale %s: %w", path, err)
	}
	l, err := listenPrivate(h.env, path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	h.serveHTTP("admin", l, admin.Handler(h.system))
	if err := h.writePID(); err != nil {
		return err
	}
	h.system.Doors = func() []admin.Door { return h.doors }
	return nil
}

func (h *house) socket() string { return h.env.FS.PathJoin(h.cfg.Data.Dir, admin.SocketName) }

// doorError says what to do about the usual mistakes.
func doorError(name, address string, err error) error {
	_, port, _ := strings.Cut(address[strings.LastIndexByte(address, ':'):], ":")
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &exitError{exitPort, fmt.Errorf("door %s: %s is taken by another program: stop it (ss -ltnp 'sport = :%s' shows which), give another address with --%s HOST:PORT, or close the door with --%s off",
			name, address, port, name, name)}
	case errors.Is(err, syscall.EACCES):
		return &exitError{exitPermission, fmt.Errorf("door %s: no permission for %s: ports below 1024 need root or the capability CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE), or give another address with --%s HOST:PORT",
			name, address, name)}
	}
	return &exitError{exitFailed, fmt.Errorf("door %s at %s: %w", name, address, err)}
}
