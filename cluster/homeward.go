package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"doublet/note"
	"doublet/store"
)

// homewardEvery is how often it is looked whether a queue belongs elsewhere, homewardPause how long one is left that could not be
// moved.
const (
	homewardEvery = time.Second
	homewardPause = 10 * time.Second
)

// vacateWithin is how long a move waits for what is under way in the database.
const vacateWithin = 30 * time.Second

// Homeward hands queues that are led here to the servers where they belong: nobody opens a queue, so that no open would move
// it. That is the first of its order once that is back and has caught up; where this server leaves, one that stays. A queue whose
// server is a member no more, and that is empty, is removed. It returns what went wrong.
func (n *Node) Homeward(ctx context.Context) error {
	var errs []error
	for _, p := range n.strays() {
		if p.remove {
			if empty, err := n.empty(ctx, p.db); err != nil || !empty {
				errs = append(errs, err)
				continue
			}
			n.log(slog.LevelInfo, "the queue of a server that is gone is removed", "database", p.db.String())
			errs = append(errs, n.Remove(ctx, p.db))
			continue
		}
		err := n.HandOver(ctx, p.db, p.move)
		if err != nil {
			n.mu.Lock()
			if h := n.held[p.db]; h != nil {
				h.stays = n.now().Add(homewardPause)
			}
			n.mu.Unlock()
		}
		if !errors.Is(err, ErrBusy) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// strays lists the queues that are led here and belong elsewhere.
func (n *Node) strays() []plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []plan
	now := n.now()
	for _, db := range n.heldIDs() {
		h, e := n.held[db], n.catalog.entries[db]
		if !h.queue || !h.leads || h.busy || e == nil || e.Deleted || h.stays.After(now) {
			continue
		}
		if _, member := n.members[e.Owner]; !member && !e.Owner.IsZero() && n.membersSeq != 0 && n.unanimous(h, e) {
			out = append(out, plan{db: db, remove: true})
			continue
		}
		if to := n.belongs(h, e); !to.IsZero() && to != n.self {
			out = append(out, plan{db: db, move: to})
		}
	}
	return out
}

// belongs is the server that should lead a queue: the first of its order that can; this one where none is better. Under mu.
func (n *Node) belongs(h *held, e *Entry) note.UNID {
	for _, r := range e.Replicas {
		m, member := n.members[r.Server]
		if r.State != Serving || !member || m.State != Active {
			continue
		}
		if r.Server == n.self {
			return n.self
		}
		p, t := n.peers[r.Server], h.told[r.Server]
		if p != nil && p.alive && p.caught && p.hello.caught && p.hello.serving && !t.at.IsZero() && !t.missing && !t.stained && !t.out && !t.leads {
			return r.Server
		}
	}
	return n.self
}

// empty says whether a database holds no notes.
func (n *Node) empty(ctx context.Context, db note.DatabaseID) (yes bool, err error) {
	err = n.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		yes = r.Counters().Notes == 0
		return nil
	})
	return yes, err
}

// homewards runs Homeward until ctx ends.
func (n *Node) homewards(ctx context.Context) {
	for ctx.Err() == nil {
		if err := n.Homeward(ctx); err != nil && ctx.Err() == nil {
			n.log(slog.LevelWarn, "a queue is not where it belongs", "err", err)
		}
		select {
		case <-n.env.Clock.After(homewardEvery):
		case <-ctx.Done():
		}
	}
}
