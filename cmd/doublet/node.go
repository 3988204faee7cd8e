package main

import (
	"context"
	"errors"
	"path/filepath"

	"doublet/bus"
	"doublet/bus/embedded"
	"doublet/bus/external"
	"doublet/bus/natsbus"
	"doublet/bus/pki"
	"doublet/catalog"
	"doublet/cluster"
	"doublet/cluster/member"
	"doublet/cmd/doublet/config"
	"doublet/collect"
	"doublet/directory/session"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/keep"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/note"
	"doublet/probe"
	"doublet/serve/calconn"
	"doublet/serve/forward"
	"doublet/store"
	"doublet/store/layout"
)

// openMember opens the membership, which reads the identity of this server in its cluster and its domain.
func (h *house) openMember() (err error) {
	h.member, err = member.New(h.env, member.Options{
		Dir: filepath.Join(h.cfg.Data.Dir, clusterDir), Files: pki.Options{WritePrivate: writePrivate},
		OpenBus: h.openBus,
		Addresses: func() (routes, direct string, err error) {
			a, err := clusterAddresses(&h.cfg)
			return a.routes.advertise, a.direct.advertise, err
		},
	})
	if err != nil {
		return err
	}
	h.system.Member = h.member
	return nil
}

// joined returns the node and the bus, nil in no cluster.
func (h *house) joined() (forward.Node, bus.Bus) {
	if n, b := h.member.Joined(); n != nil {
		return n.Opens, b
	}
	return nil, nil
}

// replicas is joined for a room that only asks where databases are.
func (h *house) replicas() (calconn.Node, bus.Bus) {
	if n, b := h.member.Joined(); n != nil {
		return n.Opens, b
	}
	return nil, nil
}

// openBus opens this server's end of the bus, nil where the settings turn it off.
func (h *house) openBus(f *pki.Folder, admit member.Admit) (bus.Bus, error) {
	a, err := clusterAddresses(&h.cfg)
	if err != nil {
		return nil, err
	}
	if a.direct.listen == "" {
		h.env.Log.Warn("cluster.direct is off: this server does not take part in its cluster", "cluster", f.Cluster())
		return nil, nil
	}
	c := &h.cfg.Cluster
	o := natsbus.Options{
		Identity: f, Listen: a.direct.listen, Grant: bus.Grant{Requests: c.Requests, Bytes: int64(c.RequestMemory)},
		Streams: c.Streams,
		Admit:   admit, Stats: h.system.Stats,
	}
	if c.NATS != "" {
		return external.Open(h.env, external.Options{Options: o, URLs: c.NATS, Credentials: c.NATSCreds,
			NKey: c.NATSKey, CA: c.NATSCA})
	}
	if a.routes.listen == "" {
		return nil, &config.Error{Where: "configuration", Key: "cluster.routes",
			Err: errors.New("off, and cluster.nats is not set: nothing carries messages between the members")}
	}
	return embedded.Open(h.env, embedded.Options{Options: o, Routes: a.routes.listen, Advertise: a.routes.advertise})
}

// ownKinds reports whether a database belongs to one member of a cluster alone. These are the waiting mail and the
// browser sessions from before it joined, its persistent counters, its trace of messages, its statistics, its catalog,
// its events, its mail journal and what its junk filter learned.
func ownKinds(i *layout.Info) bool {
	return i.Kind == queue.Kind && queue.Sole(i.ID) || i.Kind == trace.TraceKind || i.ID == queue.OutboxID ||
		i.Kind == keep.Kind || i.Kind == collect.Kind || i.Kind == catalog.Kind || i.Kind == probe.DatabaseKind ||
		i.Kind == journal.Kind || i.Kind == junk.Kind || i.ID == session.ID
}

// ground returns the rooms and the settings of this server's node.
func (s *server) ground() member.Ground {
	c := &s.cfg.Cluster
	replicas := c.Replicas
	if replicas == 0 {
		replicas = note.Slots // the maximum
	}
	return member.Ground{
		Store: s.system.Store, Replica: s.system.Replica, Activity: s.memory.Table(cluster.ActivityTable),
		Node: cluster.Options{
			Workers: c.Replicators, Requests: c.Requests, Replicas: replicas, Local: ownKinds,
			Everywhere: []store.Create{session.Shared()},
			Stats:      s.system.Stats, Load: s.busy,
		},
	}
}

// services returns the functions of the rooms above the cluster that the cluster calls.
func (s *server) services() member.Services {
	m := s.system.Mail
	return member.Services{
		Joined: func(_ context.Context, n *cluster.Node) error { return m.Join(n.Self(), n.Name(), n.Opens.Known) },
		Admit:  s.system.Admit, Vacate: s.vacate, Users: func() int { return s.conns.Load().Users },
	}
}

// vacate ends the work on a database before it moves: the router's work on a mail.box, and the commands of sessions.
func (s *server) vacate(ctx context.Context, db note.DatabaseID) (func(), error) {
	routed, err := s.system.Mail.Vacate(ctx, db)
	if err != nil {
		return nil, err
	}
	resume, err := s.forward.Vacate(ctx, db)
	if err != nil {
		routed()
		return nil, err
	}
	return func() {
		resume()
		routed()
	}, nil
}
