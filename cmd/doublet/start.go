package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"doublet/admin"
	"doublet/bus"
	"doublet/bus/pki"
	"doublet/client/dns"
	"doublet/client/reach"
	"doublet/cluster"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/keep"
	"doublet/mailbox"
	"doublet/serve/certs"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/webd"
	"doublet/stat"
	"doublet/store/backup"
	"doublet/transfer"
	"doublet/wire/mime"
)

// house holds the parts of a server. They are opened from the store upwards and closed in reverse.
type house struct {
	env    *env.Env
	cfg    config.Config
	system *admin.System
	doors  doorList
	// memory holds small state that persists across restarts outside the databases.
	memory *keep.Memory
	// reports counts, reads and keeps reports about mail.
	reports reporting
	certs   *certs.Provider
	web     *webd.Server
	open    chan struct{} // closed when the doors are open
	// bus is this server's end of the bus, node its part in its cluster; both are nil outside a cluster.
	bus  atomic.Pointer[bus.Bus]
	node atomic.Pointer[cluster.Node]
	// own is the key that identifies this server to other servers, nil outside clusters and domains.
	own atomic.Pointer[pki.Own]
	// admits is closed when the directory is open, which is after the bus; until then no server can join here.
	admits chan struct{}
	// router is the mail service once it is open, for the cluster.
	router atomic.Pointer[mail.Service]
	// settings are those that can change while the server runs; nil before it serves.
	settings *settings
	// busy measures the load of the server, as observed by the doors.
	busy *cluster.Load
	// forward hands sessions over to the homes of mail files; a home is the server that leads a database.
	forward *forward.Service
	// conns are the connections at all doors, nil before the doors are open.
	conns atomic.Pointer[listen.Server]

	closing sync.Mutex // guards undo
	undo    []closing
}

// closing closes one part of the server. ctx ends when the time for it is over.
type closing struct {
	room string
	fn   func(ctx context.Context) error
}

// open opens the parts that verbs act on, which is all of a stopped server. join, which may be nil, is called before
// the directory is opened.
func open(e *env.Env, cfg config.Config, join func(*house) error) (h *house, err error) {
	h = &house{env: e, cfg: cfg, open: make(chan struct{}), admits: make(chan struct{}), busy: cluster.NewLoad(e.Clock, 0)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	s := &admin.System{Env: e, Name: cfg.Server.Name, Data: cfg.Data.Dir, Version: version(), Started: e.Clock.Now(), SCRAM: cfg.Directory.SCRAM}
	s.Backup = admin.BackupSettings{
		Dir: cfg.Data.BackupDir, Rate: admin.Size(cfg.Data.BackupRate), Check: backup.Level(cfg.Data.BackupCheck),
		Extra: []string{filepath.Join(cfg.Data.Dir, config.FileName)},
	}
	h.system, s.Stats = s, stat.New(e.Clock)
	s.Cluster = h.membership()
	if err := h.openSelf(); err != nil {
		return h, err
	}
	s.Publish = publish(&cfg)
	s.DNS = dns.New(e, dnsOptions(&cfg, s.Stats))
	allowed, err := config.Networks(cfg.Web.AdminReach)
	if err != nil {
		return h, err
	}
	s.Reach = reach.New(e, s.DNS, allowed)
	if s.Store, err = openStore(e, &cfg, s.Stats, h.clusterOptions); err != nil {
		return h, err
	}
	h.closes("store", func(context.Context) error { return s.Store.Close() })
	s.Mailbox = mailbox.New(s.Store, e, mailbox.Options{
		MessageSize: int(cfg.Limits.MessageSize), Limits: mime.Limits{Depth: cfg.Limits.MIMEDepth, HeaderBytes: int(cfg.Limits.HeaderBytes)},
	})
	h.openReplica()
	if h.memory, err = keep.Open(s.Store, e, s.Stats); err != nil {
		return h, err
	}
	h.closes("memory", h.memory.Close)
	s.Backup.Keep = h.memory.Table("backup")
	h.forward = forward.New(e, s.Stats)
	if join != nil {
		if err := join(h); err != nil {
			return h, err
		}
	}
	if s.Directory, err = directory.Open(s.Store, e, passwords(e, &cfg), directoryOptions(&cfg, s.Stats)); err != nil {
		return h, fmt.Errorf("open directory: %w", err)
	}
	s.Transfer = transfer.New(e, s.Store, s.Directory, s.Mailbox)
	h.closes("directory", func(context.Context) error { s.Directory.Close(); return nil })
	if own := h.own.Load(); own != nil {
		s.Directory.Servers.UseServer(own.ID)
	}
	close(h.admits)
	if s.Sessions, err = session.Open(s.Store, e, s.Directory.Secret.Key("sessions"), sessionOptions(&cfg, s.Stats)); err != nil {
		return h, fmt.Errorf("open sessions: %w", err)
	}
	h.closes("sessions", func(context.Context) error { s.Sessions.Close(); return nil })
	h.forward.Sessions().Answer(s.Sessions)
	s.Directory.UseMailFiles(admin.MailFiles{Store: s.Store, Directory: s.Directory, Mates: h.forward.Deliveries()})
	if err := h.openReports(); err != nil {
		return h, err
	}
	router, err := routerOptions(h)
	if err != nil {
		return h, fmt.Errorf("settings of router: %w", err)
	}
	if s.Mail, err = mail.Open(s.Store, e, s.Directory, s.Mailbox, router); err != nil {
		return h, fmt.Errorf("open mail: %w", err)
	}
	if n := h.node.Load(); n != nil {
		if err := s.Mail.Join(n.Self(), n.Name(), n.Opens.Known); err != nil {
			return h, err
		}
	}
	h.router.Store(s.Mail)
	h.forward.Deliveries().Take(s.Mail)
	return h, nil
}

// serve turns an open house into a running server: admin, doors, tasks. The verb stop calls stop; ctx ends when the
// server has to stop.
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
	if h.node.Load() != nil {
		if err := h.system.Announce(ctx); err != nil {
			return err
		}
	}
	h.system.Cluster.Start = h.startNode
	in, err := h.openSignIn()
	if err != nil {
		return err
	}
	if err := h.openSocket(); err != nil { // verbs run from here on: what they read is set above
		return err
	}
	if err := h.openDoors(in); err != nil {
		return err
	}
	return h.system.AnnounceDoors(ctx)
}

// grace is the time that commands may take to finish when the server stops.
const grace = 30 * time.Second

// close closes the open parts in reverse order: doors stop accepting and running commands finish, the router stops, the
// store closes.
func (h *house) close() error {
	var errs []error
	for {
		last, any := h.lastOpened()
		if !any {
			return errors.Join(errs...)
		}
		// Each part has a timeout of its own, so that a client that stalls at a door does not use up the store's time.
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		err := last.fn(ctx)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", last.room, err))
		}
	}
}

// lastOpened removes and returns the part to close next.
func (h *house) lastOpened() (last closing, any bool) {
	h.closing.Lock()
	defer h.closing.Unlock()
	if len(h.undo) == 0 {
		return last, false
	}
	last, h.undo = h.undo[len(h.undo)-1], h.undo[:len(h.undo)-1]
	return last, true
}

func (h *house) closes(room string, fn func(ctx context.Context) error) {
	h.closing.Lock()
	defer h.closing.Unlock()
	h.undo = append(h.undo, closing{room, fn})
}
