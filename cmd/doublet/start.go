package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"doublet/admin"
	"doublet/client/dns"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/serve/certs"
	"doublet/serve/webd"
	"doublet/stat"
	"doublet/wire/mime"
)

// house is a server's rooms, opened from the store up and closed in reverse.
type house struct {
	env    *env.Env
	cfg    config.Config
	system *admin.System
	doors  []admin.Door
	// verifier looks into mail from strangers.
	verifier *verify.Verifier
	certs    *certs.Provider
	web      *webd.Server
	open     chan struct{} // closed when the doors are open
	undo     []closing
}

// closing is what closes a room; ctx ends when it has had time enough.
type closing struct {
	room string
	fn   func(ctx context.Context) error
}

// open opens the rooms that verbs act on: all there is of a stopped server.
func open(e *env.Env, cfg config.Config) (h *house, err error) {
	h = &house{env: e, cfg: cfg, open: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	s := &admin.System{Env: e, Name: cfg.Server.Name, Data: cfg.Data.Dir, Version: version(), Started: e.Clock.Now(), SCRAM: cfg.Directory.SCRAM}
	s.Backup = admin.BackupSettings{Dir: cfg.Data.BackupDir, Rate: admin.Size(cfg.Data.BackupRate), Extra: []string{filepath.Join(cfg.Data.Dir, config.FileName)}}
	h.system, s.Stats = s, stat.New(e.Clock)
	s.Publish = publish(&cfg)
	s.DNS = dns.New(e, dnsOptions(&cfg, s.Stats))
	checks, err := verifyOptions(&cfg, s.Stats)
	if err != nil {
		return h, fmt.Errorf("settings of verify: %w", err)
	}
	h.verifier = verify.New(e, s.DNS, checks)
	if s.Store, err = openStore(e, &cfg, s.Stats); err != nil {
		return h, err
	}
	h.closes("store", func(context.Context) error { return s.Store.Close() })
	if s.Directory, err = directory.Open(s.Store, e, passwords(e, &cfg), directoryOptions(&cfg, s.Stats)); err != nil {
		return h, fmt.Errorf("open directory: %w", err)
	}
	h.closes("directory", func(context.Context) error { s.Directory.Close(); return nil })
	s.Mailbox = mailbox.New(s.Store, e, mailbox.Options{
		MessageSize: int(cfg.Limits.MessageSize), Limits: mime.Limits{Depth: cfg.Limits.MIMEDepth, HeaderBytes: int(cfg.Limits.HeaderBytes)},
	})
	s.Directory.UseMailFiles(admin.MailFiles{Store: s.Store, Directory: s.Directory})
	router, err := routerOptions(h)
	if err != nil {
		return h, fmt.Errorf("settings of router: %w", err)
	}
	if s.Mail, err = mail.Open(s.Store, e, s.Directory, s.Mailbox, router); err != nil {
		return h, fmt.Errorf("open mail: %w", err)
	}
	return h, nil
}

// serve makes a running server of an open house: admin, doors, tasks. stop is what the verb stop
// calls; ctx ends when the server is to stop.
func (h *house) serve(ctx context.Context, stop func()) error {
	h.system.Stop, h.system.Stopping = stop, ctx
	h.statistics()
	h.system.FindBackup()
	if err := h.openCertificates(); err != nil {
		return err
	}
	if err := h.openTasks(); err != nil {
		return err
	}
	if err := h.openSocket(); err != nil {
		return err
	}
	return h.openDoors()
}

// grace is how long commands may take to finish when the server stops.
const grace = 30 * time.Second

// close closes what is open, in reverse: doors stop accepting and running commands finish, the
// router stops, the store closes.
func (h *house) close() error {
	var errs []error
	for len(h.undo) > 0 {
		last := h.undo[len(h.undo)-1]
		h.undo = h.undo[:len(h.undo)-1]
		// Each has its own time: a client that stalls at a door must not take the store's.
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		err := last.fn(ctx)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", last.room, err))
		}
	}
	return errors.Join(errs...)
}

func (h *house) closes(room string, fn func(ctx context.Context) error) {
	h.undo = append(h.undo, closing{room, fn})
}
