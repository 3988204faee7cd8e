package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"doublet/admin"
	"doublet/catalog"
	"doublet/client/dns"
	"doublet/client/reach"
	"doublet/client/webcal"
	"doublet/cluster/member"
	"doublet/cmd/doublet/config"
	"doublet/collect"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/keep"
	"doublet/mailbox"
	"doublet/probe"
	"doublet/replica"
	"doublet/replica/domain"
	"doublet/replica/schedule"
	"doublet/scheduling"
	"doublet/serve/calconn"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/store"
	"doublet/store/backup"
	"doublet/transfer"
	"doublet/wire/mime"
)

// house holds the rooms that verbs act on, whether or not the server runs. They are opened from the store upwards and
// closed in reverse.
type house struct {
	env    *env.Env
	cfg    config.Config
	system *admin.System
	// member is the membership in a cluster, forward sends sessions and requests to its other members.
	member  *member.Member
	forward *forward.Service
	// desk answers other servers about free time.
	desk *calconn.Desk
	// reach checks the hosts that people enter in a browser.
	reach *reach.Guard
	// messages is the budget for messages in flight.
	messages *listen.Budget
	// memory holds small state that persists across restarts outside the databases.
	memory *keep.Memory
	// reports counts, reads and stores reports about mail.
	reports reporting
	closings
}

// open opens the house of a stopped server.
func open(e *env.Env, cfg config.Config) (*house, error) {
	h, err := newHouse(e, boundMemory(cfg))
	if err != nil {
		return nil, err
	}
	return h, h.openAll(
		h.openMember,
		h.openNetwork, h.openStore, h.openFiles,
		h.openDirectory, h.openSessions, h.openReports, h.openMail,
	)
}

// newHouse makes a house whose rooms are not open. All of them use an environment in which the files of the store are
// encrypted, if the settings want that.
func newHouse(e *env.Env, cfg config.Config) (*house, error) {
	stats := stat.New(e.Clock)
	e, files, err := encrypted(e, &cfg, stats)
	if err != nil {
		return nil, err
	}
	return &house{env: e, cfg: cfg, system: &admin.System{
		Env: e, Name: cfg.Server.Name, Data: cfg.Data.Dir, Version: version(), Started: e.Clock.Now(),
		SCRAM: cfg.Directory.SCRAM, Stats: stats, Encryption: files, Publish: publish(&cfg),
		Backup: admin.BackupSettings{
			Dir: cmp.Or(cfg.Data.BackupDir, cfg.Archive.Target), Rate: admin.Size(cfg.Data.BackupRate),
			Check:     backup.Level(cfg.Data.BackupCheck),
			Extra:     []string{filepath.Join(cfg.Data.Dir, config.FileName)},
			Recipient: cfg.Data.BackupRecipient, Thinned: []string{cfg.Data.BackupDir, cfg.Archive.Target},
			Policy: cfg.Data.BackupKeep,
		},
	}}, nil
}

// openAll opens rooms in order. If one does not open, those that did are closed.
func (h *house) openAll(rooms ...func() error) error {
	for _, open := range rooms {
		if err := open(); err != nil {
			return errors.Join(err, h.close())
		}
	}
	return nil
}

// openNetwork creates the DNS resolver, and the check of hosts that people enter in a browser.
func (h *house) openNetwork() error {
	s := h.system
	s.DNS = dns.New(h.env, dnsOptions(&h.cfg, s.Stats))
	allowed, err := config.Networks(h.cfg.Web.AdminReach)
	h.reach = reach.New(h.env, s.DNS, allowed)
	return err
}

// openStore opens the store. It calls the membership about databases that other members have too.
func (h *house) openStore() (err error) {
	h.system.Store, err = openStore(h.env, &h.cfg, h.system.Stats, func(o *store.Options) {
		o.Confirm, o.Admit, o.Mend = h.member.Confirm, h.member.Permit, h.member.Mend
	})
	if err != nil {
		return err
	}
	h.closes("store", func(context.Context) error { return h.system.Store.Close() })
	return nil
}

// openFiles opens the rooms that need only the store: mail files, replication, small state.
func (h *house) openFiles() (err error) {
	s, limits := h.system, &h.cfg.Limits
	s.Mailbox = mailbox.New(s.Store, h.env, mailbox.Options{
		MessageSize: int(limits.MessageSize), Limits: mime.Limits{Depth: limits.MIMEDepth,
			HeaderBytes: int(limits.HeaderBytes)},
		KeepDeleted: h.cfg.Mail.KeepDeleted.Duration,
	})
	s.Groupware = groupware.New(s.Store, h.env, groupware.Options{Origin: webOrigin(&h.cfg)})
	s.Replica = replica.New(s.Store, s.Mailbox, h.env, replica.Options{
		Memory: int64(h.cfg.Replica.ObjectMemory), MaxMessage: uint64(limits.MessageSize), Stats: s.Stats,
	})
	if h.memory, err = keep.Open(s.Store, h.env, s.Stats); err != nil {
		return err
	}
	h.closes("memory", h.memory.Close)
	if s.History, err = collect.Open(s.Store, h.env, s.Stats); err != nil {
		return err
	}
	s.Backup.Keep = h.memory.Table("backup")
	if s.Catalog, err = catalog.Open(s.Store, h.env); err != nil {
		return err
	}
	if s.Events, err = probe.Open(s.Store, h.env, s.Stats); err != nil {
		return err
	}
	h.messages = messageMemory(&h.cfg)
	h.forward = forward.New(h.env, h.joined, h.messages, s.Stats)
	return nil
}

// openDirectory opens the Domino Directory: people, groups, servers, domains.
func (h *house) openDirectory() (err error) {
	s, o := h.system, directoryOptions(&h.cfg, h.system.Stats)
	o.MailFiles = admin.MailFiles{Store: s.Store, Mates: h.forward.Deliveries()}
	if own := h.member.Own(); own != nil {
		o.Server = own.ID
	}
	if s.Directory, err = directory.Open(s.Store, h.env, passwords(h.env, &h.cfg), o); err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	s.Transfer = transfer.New(h.env, s.Store, s.Directory, s.Mailbox)
	s.Connections = schedule.New(h.env, s.Directory, s.Replica, s.Store, schedule.Options{
		Server: s.Name, Own: h.member.Own, Reach: h.reach, Primary: h.member.Primary,
	})
	s.Domain = domain.New(h.env, s.Directory, domain.Options{
		Name: s.Name, Host: s.Name, Own: h.member.Own, Make: h.member.MakeOwn, Tokens: h.member.DomainTokens(),
	})
	h.closes("directory", func(context.Context) error { s.Directory.Close(); return nil })
	return nil
}

// openSessions opens the sessions of browsers.
func (h *house) openSessions() (err error) {
	s, c := h.system, &h.cfg
	s.Sessions, err = session.Open(s.Store, h.env, s.Directory.Secret.Key("sessions"), session.Options{
		Idle: c.Web.SessionIdle.Duration, Life: c.Web.SessionLife.Duration, PerPerson: c.Web.Sessions,
		Subscriptions: c.Push.PerDevice,
		Mates:         h.forward.Sessions(), Stats: s.Stats,
	})
	if err != nil {
		return fmt.Errorf("open sessions: %w", err)
	}
	h.closes("sessions", func(context.Context) error { s.Sessions.Close(); return nil })
	return nil
}

// openMail opens mail.box and its router, which does not run yet, and scheduling.
func (h *house) openMail() error {
	o, err := routerOptions(h)
	if err != nil {
		return fmt.Errorf("settings of router: %w", err)
	}
	s := h.system
	o.Calendars = scheduling.NewInbox(s.Directory, s.Groupware, s.Stats)
	if s.Journal, err = journal.Open(s.Store, h.env, s.Directory, journalOptions(&h.cfg, s.Stats)); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	o.Journal = s.Journal
	if h.cfg.Junk.Enabled {
		if s.Junk, err = junk.Open(s.Store, h.env, s.Directory, junkOptions(&h.cfg, s.Stats)); err != nil {
			return fmt.Errorf("open junk filter: %w", err)
		}
		o.Junk = s.Junk
	} else if err = s.Store.DropCursor(junk.Consumer); err != nil {
		return fmt.Errorf("open mail: %w", err)
	}
	if s.Mail, err = mail.Open(s.Store, h.env, s.Directory, s.Mailbox, o); err != nil {
		return fmt.Errorf("open mail: %w", err)
	}
	s.Feeds = feed.NewPublisher(h.env, s.Groupware, s.Directory, h.cfg.Web.URL)
	s.Sources = feed.NewSubscriber(h.env, s.Store, s.Groupware, webcal.New(reach.New(h.env, s.DNS, nil), nil))
	s.Scheduling = scheduling.New(h.env, s.Directory, s.Groupware, s.Mail, scheduling.Options{
		Hostname: o.Hostname, Stats: s.Stats,
		Elsewhere: calconn.New(h.env, s.Directory, calconn.Options{
			Cluster: h.replicas, Own: h.member.Own, Stats: s.Stats,
		}),
	})
	h.desk = calconn.NewDesk(s.Directory, s.Scheduling, s.Stats)
	return nil
}

// grace is the time that commands may take to finish when the server stops.
const grace = 30 * time.Second

// closings holds a function for each open room that closes it. Its zero value is empty.
type closings struct {
	mu   sync.Mutex // guards undo
	undo []closing
}

// closing closes one room. ctx ends when the time for it is over.
type closing struct {
	room string
	fn   func(ctx context.Context) error
}

// close closes the open rooms in reverse order: doors stop accepting and running commands finish, the router stops, the
// store closes.
func (c *closings) close() error {
	var errs []error
	for {
		last, any := c.lastOpened()
		if !any {
			return errors.Join(errs...)
		}
		// Each room has a timeout of its own, so that a client that stalls at a door does not use up the store's time.
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		err := last.fn(ctx)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", last.room, err))
		}
	}
}

// lastOpened removes and returns the room to close next.
func (c *closings) lastOpened() (last closing, any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.undo) == 0 {
		return last, false
	}
	last, c.undo = c.undo[len(c.undo)-1], c.undo[:len(c.undo)-1]
	return last, true
}

// closes registers fn, which close calls for a room.
func (c *closings) closes(room string, fn func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, closing{room, fn})
}
