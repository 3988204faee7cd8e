package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"

	"doublet/note"
	"doublet/store"
)

// arrangeAtOnce bounds how many documents one Decide changes.
const arrangeAtOnce = 64

// arrange gives the databases that are led here the replicas that they should have, lets go of those on
// servers that leave, and removes what is to be removed.
func (n *Node) arrange(ctx context.Context) error {
	var errs []error
	done := 0
	for _, p := range n.plans() {
		if done++; done > arrangeAtOnce {
			n.wake.fire()
			break
		}
		var err error
		switch {
		case p.remove:
			err = n.removeHere(ctx, p.db)
		case !p.add.IsZero():
			err = n.addReplica(ctx, p.db, p.add)
		case !p.drop.IsZero():
			err = n.dropReplica(ctx, p.db, p.drop)
		case !p.move.IsZero():
			err = n.HandOver(ctx, p.db, p.move)
		}
		if err != nil && !errors.Is(err, errLater) && !errors.Is(err, ErrBusy) {
			errs = append(errs, fmt.Errorf("database %s: %w", p.db, err))
		}
	}
	return errors.Join(errs...)
}

// plan is one thing to be done about the replicas of a database.
type plan struct {
	db              note.DatabaseID
	add, drop, move note.UNID
	remove          bool
}

// plans lists what is to be done.
func (n *Node) plans() []plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []plan
	load := n.loads()
	for _, db := range n.heldIDs() {
		h, e := n.held[db], n.catalog.entries[db]
		if e == nil || h.busy {
			continue
		}
		if p, ok := n.planFor(h, e, load); ok {
			p.db = db
			out = append(out, p)
		}
	}
	return out
}

// loads counts the replicas of each server. Under mu.
func (n *Node) loads() map[note.UNID]int {
	load := map[note.UNID]int{}
	for _, db := range n.catalog.ids() {
		for _, r := range n.catalog.entries[db].Replicas {
			load[r.Server]++
		}
	}
	return load
}

// planFor decides about one database. Under mu.
func (n *Node) planFor(h *held, e *Entry, load map[note.UNID]int) (p plan, ok bool) {
	mine, _ := e.On(n.self)
	if e.Deleted || mine.State == Deleting && n.handedOn(h, e) {
		p.remove = h.uses == 0
		return p, p.remove
	}
	if !h.leads || !n.unanimous(h, e) {
		return p, false
	}
	stays := func(r Replica) bool {
		m, member := n.members[r.Server]
		return member && m.State == Active && r.State != Deleting
	}
	good := 0
	for _, r := range e.Replicas {
		if stays(r) {
			good++
		}
	}
	if wanted := n.wanted(e); good < wanted {
		if p.add = n.candidate(e, load); !p.add.IsZero() {
			load[p.add]++
			return p, true
		}
	}
	if good == 0 {
		return p, false
	}
	for _, r := range e.Replicas {
		if stays(r) || !n.complete(h, e, r.Server, stays) {
			continue
		}
		if r.Server != n.self {
			p.drop = r.Server
			return p, true
		}
		for _, o := range e.Replicas {
			if o.Server != n.self && stays(o) && o.State == Serving && n.standsWith(h, o.Server) {
				p.move = o.Server
				return p, true
			}
		}
	}
	return p, false
}

// handedOn says whether a replica that is pending delete may go: another leads and has all. Under mu.
func (n *Node) handedOn(h *held, e *Entry) bool {
	if h.leads {
		return false
	}
	home := n.homeOf(h)
	if home.IsZero() {
		return false
	}
	p := n.peers[home]
	return p.reps[share(h.db, len(p.reps))].reached(n.store.Now().Seq)
}

// unanimous says whether every other replica lives and follows us: only then does a replica get a slot, so that
// no slot is given twice. Under mu.
func (n *Node) unanimous(h *held, e *Entry) bool {
	for _, r := range e.Replicas {
		if r.Server == n.self {
			continue
		}
		p := n.peers[r.Server]
		if p == nil {
			continue // a member no more
		}
		t, told := h.told[r.Server]
		if !p.alive || !told || t.at.IsZero() || t.leads {
			return false
		}
	}
	return true
}

// wanted is how many replicas a database should have. Under mu.
func (n *Node) wanted(e *Entry) int {
	all, servers := 0, 0
	for _, m := range n.members {
		if m.State == Active {
			all++
			if !m.Gateway {
				servers++
			}
		}
	}
	if everywhere(e.ID) {
		return min(all, note.Slots)
	}
	return min(servers, n.opt.Replicas)
}

// candidate is the member that gets the next replica: the one that has fewest, of several alike one that
// differs from database to database. Under mu.
func (n *Node) candidate(e *Entry, load map[note.UNID]int) note.UNID {
	var best note.UNID
	var bestHash uint64
	for _, id := range n.mates() {
		m, p := n.members[id], n.peers[id]
		if _, has := e.On(id); has || m.State != Active || !p.alive || m.Gateway && !everywhere(e.ID) {
			continue
		}
		f := fnv.New64a()
		_, _ = f.Write(id[:])
		_, _ = f.Write(binary.BigEndian.AppendUint64(nil, uint64(e.ID)))
		hash := f.Sum64()
		if best.IsZero() || load[id] < load[best] || load[id] == load[best] && hash < bestHash {
			best, bestHash = id, hash
		}
	}
	return best
}

// standsWith says whether a replica knows all that we do of the ledger. Under mu.
func (n *Node) standsWith(h *held, server note.UNID) bool {
	t, ok := h.told[server]
	return ok && !t.missing && !t.out && !behind(&t.pos.Ledger, &h.pos.Ledger)
}

// complete says whether a replica is no longer needed: others that stay have all, and it waits to give nothing.
// Under mu.
func (n *Node) complete(h *held, e *Entry, server note.UNID, stays func(Replica) bool) bool {
	if server != n.self {
		if p := n.peers[server]; p != nil && !p.hello.caught {
			return false // it may have something for us
		}
	}
	for _, r := range e.Replicas {
		if stays(r) && (r.Server == n.self || n.standsWith(h, r.Server)) {
			return true
		}
	}
	return false
}

// addReplica gives a server a replica: the slot is durable in the Cluster Database Directory before the
// server makes it.
func (n *Node) addReplica(ctx context.Context, db note.DatabaseID, server note.UNID) error {
	n.mu.Lock()
	h, e := n.held[db], n.catalog.entries[db]
	shared := h != nil && h.shared
	n.mu.Unlock()
	if h == nil || e == nil {
		return errLater
	}
	mine, on := e.On(n.self)
	if !on {
		return errLater
	}
	if !shared {
		if err := n.store.Share(ctx, db, mine.Slot); err != nil {
			return err
		}
		if _, err := n.stood(ctx, db); err != nil {
			return err
		}
	}
	err := n.edit(ctx, db, func(e *Entry) error {
		if _, has := e.On(server); has || !sole(e, n.self) && !n.leadsNow(db) {
			return errLater
		}
		_, err := e.add(server)
		return err
	})
	if err == nil {
		n.log(slog.LevelInfo, "replica given", "database", db.String(), "to", n.name(server))
		n.touchAll(db)
	}
	return err
}

// sole says whether a database has one replica, on that server.
func sole(e *Entry, server note.UNID) bool {
	return len(e.Replicas) == 1 && e.Replicas[0].Server == server
}

func (n *Node) dropReplica(ctx context.Context, db note.DatabaseID, server note.UNID) error {
	err := n.edit(ctx, db, func(e *Entry) error {
		if !n.leadsNow(db) {
			return errLater
		}
		e.drop(server)
		return nil
	})
	if err == nil {
		n.log(slog.LevelInfo, "replica dropped", "database", db.String(), "of", n.name(server))
	}
	return err
}

// removeHere removes the replica here: the database is deleted, or this replica was pending delete and others
// have all.
func (n *Node) removeHere(ctx context.Context, db note.DatabaseID) error {
	n.mu.Lock()
	e := n.catalog.entries[db]
	deleted := e != nil && e.Deleted
	n.mu.Unlock()
	if e == nil {
		return errLater
	}
	if !deleted {
		err := n.edit(ctx, db, func(e *Entry) error {
			e.drop(n.self)
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := n.store.RemoveDatabase(note.System, db)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err == nil {
		n.mu.Lock()
		n.unhold(db)
		n.mu.Unlock()
		n.log(slog.LevelInfo, "database removed", "database", db.String())
	}
	return err
}

// Left says whether a server that leaves has given away all that it held.
func (n *Node) Left(server note.UNID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.catalog.entries {
		if _, on := e.On(server); on && !e.Deleted && !everywhere(e.ID) {
			return false
		}
	}
	return true
}
