package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"doublet/cluster"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/mail"
	"doublet/mail/keep"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ownKinds reports whether a database belongs to one member of a cluster alone. These are the waiting mail and the
// browser sessions from before it joined, its persistent counters, and its trace of messages.
func ownKinds(i *layout.Info) bool {
	return i.Kind == queue.Kind && queue.Sole(i.ID) || i.Kind == trace.TraceKind || i.ID == mail.OutboxID || i.Kind == keep.Kind || i.ID == session.ID
}

// startNode starts this server's part in its cluster, if it is in one. It runs at start, before the directory is
// opened, because a new member has to fetch the directory from a mate (another member); and when a cluster is founded.
func (h *house) startNode(ctx context.Context) error {
	b, err := h.openBus()
	if err != nil || b == nil {
		return err
	}
	f, err := h.system.Cluster.Folder(h.system)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	members, err := f.Members()
	if err != nil {
		return errors.Join(err, b.Close())
	}
	seeds := make([]cluster.Member, len(members))
	for i, m := range members {
		seeds[i] = cluster.Member{Member: m, Cluster: f.Cluster(), State: cluster.Active}
	}
	c := &h.cfg.Cluster
	replicas := c.Replicas
	if replicas == 0 {
		replicas = note.Slots // the maximum
	}
	activity, err := cluster.ReadActivity(ctx, h.memory.Table(cluster.ActivityTable), h.env.Clock.Now())
	if err != nil {
		return errors.Join(err, b.Close())
	}
	node := cluster.New(h.env, h.system.Store, b, h.system.Replica, cluster.Options{
		Cluster: f.Cluster(), Seeds: seeds, Activity: activity, Workers: c.Replicators, Requests: c.Requests, Replicas: replicas, Local: ownKinds,
		Everywhere: []store.Create{session.Shared()},
		Users:      h.users, Stats: h.system.Stats, Load: h.busy, Vacate: h.vacate,
	})
	h.forward.Join(node.Opens, b)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	h.closes("cluster", func(context.Context) error {
		stop()
		err := b.Close()
		done.Wait()
		return err
	})
	h.bus.Store(&b)
	h.node.Store(node)
	h.system.Node = node
	b.SetMembers(members)
	done.Add(1)
	h.env.Go("cluster", func() {
		defer done.Done()
		node.Run(running)
	})
	h.env.Log.Info("in a cluster", "cluster", f.Cluster(), "server", f.Identity().Name, "id", b.Self().String(), "members", len(members))
	if h.system.Directory == nil {
		return h.awaitDirectory(ctx, node)
	}
	if err := h.system.Mail.Join(node.Self(), node.Name(), node.Opens.Known); err != nil {
		return err
	}
	return h.system.Announce(ctx)
}

// vacate ends the work on a database before it moves: the router's work on a mail.box, and the commands of sessions.
func (h *house) vacate(ctx context.Context, db note.DatabaseID) (func(), error) {
	m := h.router.Load()
	if m == nil {
		return h.forward.Vacate(ctx, db)
	}
	routed, err := m.Vacate(ctx, db)
	if err != nil {
		return nil, err
	}
	resume, err := h.forward.Vacate(ctx, db)
	if err != nil {
		routed()
		return nil, err
	}
	return func() {
		resume()
		routed()
	}, nil
}

// awaitDirectory waits until a server that joins has both directories, without which it can sign in no one.
func (h *house) awaitDirectory(ctx context.Context, node *cluster.Node) error {
	const every = 200 * time.Millisecond
	for i := 0; ; i++ {
		if node.Filled(cluster.ID) && node.Filled(directory.ID) {
			return nil
		}
		if i%25 == 10 {
			h.env.Log.Info("waiting for the directory from the other members of the cluster")
		}
		select {
		case <-h.env.Clock.After(every):
		case <-ctx.Done():
			return fmt.Errorf("stopped while waiting for the directory: %w", ctx.Err())
		}
	}
}

// users returns the number of people who are signed in.
func (h *house) users() int {
	if srv := h.conns.Load(); srv != nil {
		return srv.Load().Users
	}
	return 0
}

// clusterOptions connects the store to the cluster.
func (h *house) clusterOptions(o *store.Options) {
	o.Confirm, o.Admit, o.Mend = h.confirm, h.admitChange, h.mend
}

// errAlone means that there is no mate.
var errAlone = errors.New("server is in no cluster")

// mend fetches an object that the store cannot read from a mate.
func (h *house) mend(d note.Digest) error {
	if n := h.node.Load(); n != nil {
		return n.Mending.Mend(context.Background(), d)
	}
	return errAlone
}

// repair runs the task Repair, which fetches unreadable parts of the store from a mate.
func (h *house) repair(ctx context.Context) error {
	n := h.node.Load()
	if n == nil {
		return nil
	}
	_, err := n.Repairs.Repair(ctx)
	return err
}

// confirm waits until a mate has a change, for databases that require it. admitChange asks before such a change.
func (h *house) confirm(ctx context.Context, ids []note.DatabaseID, seq uint64) error {
	if n := h.node.Load(); n != nil {
		return n.Acks.Confirm(ctx, ids, seq)
	}
	return nil
}

func (h *house) admitChange(ctx context.Context, ids []note.DatabaseID) error {
	if n := h.node.Load(); n != nil {
		return n.Acks.Admit(ctx, ids)
	}
	return nil
}
