package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"doublet/admin"
	"doublet/cluster"
	"doublet/cmd/doublet/config"
	"doublet/directory/oauth"
	"doublet/note"
	"doublet/serve/certs"
	"doublet/serve/forward"
	"doublet/serve/jmapd/push"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/serve/slow"
	"doublet/serve/webd"
)

// server is a running server: a house with tasks and doors.
type server struct {
	*house
	// ctx ends when the server stops.
	ctx      context.Context
	running  *admin.Running
	settings *settings
	certs    *certs.Provider
	signIn   *signin.Service
	issuer   *oauth.Verifier // nil without an issuer in the settings
	// conns are the connections at all doors, busy measures what they do.
	conns *listen.Server
	busy  *cluster.Load
	slow  *slow.Recorder // nil if slow operations are not recorded
	web   *webd.Server
	// push pushes changes to JMAP clients. It may be read when open is closed.
	push  *push.Service
	doors doorList
	open  chan struct{} // closed when the doors are open
}

// start opens a server: first the rooms that verbs act on, then the tasks and doors. It joins its cluster before the
// directory opens, because a new member has to fetch the directory from a mate. ctx ends when the server has to stop;
// stop ends it.
func start(ctx context.Context, l life, stop func()) (*server, error) {
	h, err := newHouse(l.env, boundMemory(l.cfg))
	if err != nil {
		return nil, err
	}
	s := &server{
		house: h, ctx: ctx, open: make(chan struct{}),
		busy:     cluster.NewLoad(l.env.Clock, 0),
		settings: newSettings(l),
	}
	s.running = &admin.Running{
		System: s.system, Stop: stop, Stopping: ctx, Doors: s.doors.all, Reached: s.reached, Health: s.health,
		Settings: s.settings, Enter: s.enter, KeepStatistics: s.settings.keepStatistics,
		Drop: s.drop,
	}
	fill := func() error { return l.fillHouse(ctx, s.house) }
	return s, s.openAll(
		s.openMember,
		s.openNetwork, s.openStore, s.openFiles,
		s.joinCluster,
		s.openDirectory, s.openSessions, s.openReports, s.openMail,
		s.openConnections, s.serveMembers,
		fill, s.openCertificates, s.openSignIn, s.openTasks, s.announce,
		s.openSocket, s.openDoors, s.announceDoors,
	)
}

// joinCluster joins the cluster of this server, if it is in one.
func (s *server) joinCluster() error {
	s.closes("cluster", s.member.Close)
	return s.member.Join(s.ctx, s.ground())
}

// openConnections creates the server of connections, which counts and limits them for all doors.
func (s *server) openConnections() error {
	limits, err := listenOptions(&s.cfg)
	if err != nil {
		return err
	}
	if err := s.openSlow(); err != nil {
		return err
	}
	limits.Observe = s.observe
	s.conns = listen.New(s.env, limits, newInc(s.system.Stats))
	s.settings.take(func(next *config.Config) (func(), error) {
		o, err := listenOptions(next)
		return func() { s.conns.Limit(o) }, err
	}, "limits.connections", "limits.connections_per_address", "limits.compressed_connections",
		"limits.sessions_per_person", "limits.users", "limits.handshake_timeout")
	return nil
}

// openSlow starts the recorder of slow operations, if the settings want one.
func (s *server) openSlow() (err error) {
	if s.cfg.Log.Slow.Duration == 0 {
		return nil
	}
	dir := filepath.Join(s.cfg.Data.Dir, "traces")
	s.slow, err = slow.New(s.env, slow.Options{Dir: dir, Over: s.cfg.Log.Slow.Duration})
	s.closes("slow operations", func(context.Context) error { return s.slow.Close() })
	return err
}

// drop closes the connections of a person, or those of everybody if it is the zero UNID: those that signed in at a
// door, and those of JMAP clients that wait for pushes. It returns their number.
func (s *server) drop(person note.UNID) int {
	n := s.conns.Drop(person)
	select {
	case <-s.open:
		n += s.push.Drop(person)
	default: // nobody waits for pushes yet
	}
	return n
}

// observe records the duration of an operation at a door.
func (s *server) observe(op string, took time.Duration) {
	s.busy.Observe(op, took)
	s.slow.Observe(op, took)
}

// serveMembers answers the other members of the cluster from now on.
func (s *server) serveMembers() error {
	forward.ServeMail(s.member, s.system.Mail)
	forward.ServeSessions(s.member, s.system.Sessions)
	s.desk.Serve(s.member)
	return s.member.Serve(s.ctx, s.services())
}

// errOpening is the state of a server whose doors are not open yet.
var errOpening = errors.New("starting")

// health returns the reason for which the server cannot take clients, or nil.
func (s *server) health(ctx context.Context) error {
	select {
	case <-s.open:
		return s.web.Ready(ctx)
	default:
		return errOpening
	}
}

// enter makes the server join the cluster that it has just founded.
func (s *server) enter(ctx context.Context) (bool, error) { return s.member.Enter(ctx) }

// announce updates the addresses of this server for the other members of its cluster.
func (s *server) announce() error {
	if s.member.Node() == nil {
		return nil
	}
	return s.system.Announce(s.ctx)
}

// announceDoors updates the addresses of the doors for the other servers of the domain.
func (s *server) announceDoors() error { return s.system.Domain.Announce(s.ctx, s.reached()) }
