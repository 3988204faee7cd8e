package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"

	"doublet/note"
	"doublet/store"
)

// arrangeAtOnce bounds how many documents one Decide changes.
const arrangeAtOnce = 64

// arrange gives the databases that are led here the replicas that they should have, lets go of those on
// servers that leave, and removes what is to be removed.
func (n *Node) arrange(ctx context.Context) error {
	n.tell(ctx, n.unheard())
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
		case !p.retire.IsZero():
			err = n.SetReplica(ctx, p.db, p.retire, Deleting)
		case !p.move.IsZero():
			err = n.HandOver(ctx, p.db, p.move)
		}
		if err != nil && !errors.Is(err, errLater) && !errors.Is(err, ErrBusy) {
			errs = append(errs, fmt.Errorf("database %s: %w", p.db, err))
		}
	}
	return errors.Join(errs...)
}

// plan is one thing to be done about the replicas of a database: one is given to a server, one is dropped, its home moves,
// one is more than it should have, or this one goes.
type plan struct {
	db                      note.DatabaseID
	add, drop, move, retire note.UNID
	remove                  bool
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

// unheard lists databases led here about whose replicas something is to be done, or that are pending delete here, and a mate
// whose replica was behind when we last heard of it: what it has got since, it says only when it is asked. At most one list of
// positions at a time.
func (n *Node) unheard() (list []note.DatabaseID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, db := range n.heldIDs() {
		h, e := n.held[db], n.catalog.entries[db]
		if e == nil || h.busy {
			continue
		}
		if mine, _ := e.On(n.self); mine.State != Deleting && !(h.leads && n.unarranged(e)) {
			continue
		}
		if slices.ContainsFunc(e.Replicas, func(r Replica) bool {
			p := n.peers[r.Server]
			return r.Server != n.self && p != nil && p.alive && !n.standsWith(h, r.Server) && n.now().Sub(h.told[r.Server].at) > freshFor
		}) {
			list = append(list, db)
		}
		if len(list) == maxPositions {
			break
		}
	}
	return list
}

// unarranged says whether a database is not where it should be: too few or too many replicas, one that is to go, or a home that
// is not the first of its order. Under mu.
func (n *Node) unarranged(e *Entry) bool {
	return len(e.Replicas) == 0 || len(e.Replicas) != n.wanted(e) || e.Replicas[0].Server != n.self || slices.ContainsFunc(e.Replicas, func(r Replica) bool {
		return r.State != Serving || n.members[r.Server].State != Active
	})
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
		// The directories stay on a server that leaves until it is no member any more: without them it knows nobody.
		return member && (m.State == Active || n.everywhere(e.ID)) && r.State != Deleting
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
	if e.Wanted > 0 && good > n.wanted(e) {
		for i := len(e.Replicas) - 1; i >= 0 && p.retire.IsZero(); i-- {
			if r := e.Replicas[i]; r.Server != n.self && stays(r) {
				p.retire = r.Server
			}
		}
		return p, !p.retire.IsZero()
	}
	for _, r := range e.Replicas {
		leaves := r.Server == n.self && n.members[n.self].State != Active
		if stays(r) && !leaves || !n.complete(h, e, r.Server, stays) {
			continue
		}
		if _, member := n.members[r.Server]; r.Server != n.self && member {
			// It goes by itself when we have all that it was given: what is only struck off the list would stay there, take
			// deliveries, and give them to nobody.
			if r.State != Deleting {
				p.retire = r.Server
				return p, true
			}
			continue
		}
		if r.Server != n.self {
			p.drop = r.Server
			return p, true
		}
		if h.queue {
			return p, false // Homeward moves it
		}
		if h.uses > 0 {
			continue // running sessions stay
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

// handedOn says whether a replica that is pending delete may go: another leads and has all, and without it the database is in as
// many places as it should be, or the other members can offer. Under mu.
func (n *Node) handedOn(h *held, e *Entry) bool {
	if h.leads || !n.spared(h, e) {
		return false
	}
	home := n.homeOf(h)
	if home.IsZero() {
		return false
	}
	p := n.peers[home]
	return p.reps[share(h.db, len(p.reps))].reached(n.store.Now().Seq)
}

// spared says whether enough other replicas that stay know all that ours does. Under mu.
func (n *Node) spared(h *held, e *Entry) bool {
	whole, others := 0, 0
	for id, m := range n.members {
		if id == n.self || m.State != Active || n.refuses(n.peers[id], e) {
			continue
		}
		r, on := e.On(id)
		if !m.Gateway || on {
			others++
		}
		if on && r.State == Serving && n.standsWith(h, id) {
			whole++
		}
	}
	return whole >= min(n.wanted(e), others)
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
		if m.State == Active && !n.refuses(n.peers[m.ID], e) {
			all++
			// A gateway has no replicas but of its own queue.
			if !m.Gateway || e.Queue && m.ID == e.Owner {
				servers++
			}
		}
	}
	if n.everywhere(e.ID) {
		return min(all, note.Slots)
	}
	if e.Wanted > 0 {
		return min(servers, e.Wanted, note.Slots)
	}
	return min(servers, n.opt.Replicas)
}

// candidate is the member that gets the next replica: the one that it is to go to; else one of a site where no replica is
// that stays, the one that has fewest for what it can take, of several alike one that differs from database to database.
// Under mu.
func (n *Node) candidate(e *Entry, load map[note.UNID]int) note.UNID {
	sites := map[string]bool{}
	for _, r := range e.Replicas {
		if r.State != Deleting {
			sites[n.members[r.Server].Site] = true
		}
	}
	var best note.UNID
	var bestHash uint64
	var bestLoad float64
	var bestNear bool
	for _, id := range n.mates() {
		m, p := n.members[id], n.peers[id]
		if _, has := e.On(id); has || m.State != Active || !p.alive || m.Gateway && !n.everywhere(e.ID) {
			continue
		}
		if !n.takes(p, e) {
			continue
		}
		if id == e.Toward {
			return id
		}
		f := fnv.New64a()
		_, _ = f.Write(id[:])
		_, _ = f.Write(binary.BigEndian.AppendUint64(nil, uint64(e.ID)))
		hash, near, load := f.Sum64(), sites[m.Site], float64(load[id])/float64(m.capacity())
		better := best.IsZero() || !near && bestNear
		if near == bestNear {
			better = better || load < bestLoad || load == bestLoad && hash < bestHash
		}
		if better {
			best, bestHash, bestLoad, bestNear = id, hash, load, near
		}
	}
	return best
}

// standsWith says whether a replica knows all that we do of the ledger. Under mu.
func (n *Node) standsWith(h *held, server note.UNID) bool {
	t, ok := h.told[server]
	return ok && !t.missing && !t.out && !behind(&t.pos.Ledger, &h.pos.Ledger)
}

// complete says whether a replica is no longer needed: as many others that stay have all as the database should have, and
// it waits to give nothing. Under mu.
func (n *Node) complete(h *held, e *Entry, server note.UNID, stays func(Replica) bool) bool {
	if server != n.self {
		if p := n.peers[server]; p != nil && !p.hello.caught {
			return false // it may have something for us
		}
	}
	whole := 0
	for _, r := range e.Replicas {
		if stays(r) && (r.Server == n.self || n.standsWith(h, r.Server)) {
			whole++
		}
	}
	return whole > 0 && whole >= n.wanted(e)
}

// makeEverywhere makes the databases that every member has a replica of, where the cluster has none: at the home of the Cluster
// Database Directory, and only while every other replica of that lives, follows and is there, so that no two make one.
func (n *Node) makeEverywhere() error {
	var missing []store.Create
	n.mu.Lock()
	h, e := n.held[ID], n.catalog.entries[ID]
	if h != nil && e != nil && h.leads && !h.busy && n.unanimous(h, e) && !slices.ContainsFunc(e.Replicas, func(r Replica) bool { return h.told[r.Server].missing }) {
		for _, c := range n.opt.Everywhere {
			if n.catalog.entries[c.ID] == nil {
				missing = append(missing, c)
			}
		}
	}
	n.mu.Unlock()
	var errs []error
	for _, c := range missing { // entered with the next Decide
		if _, err := n.store.CreateDatabase(note.System, c); err != nil && !errors.Is(err, store.ErrExists) {
			errs = append(errs, fmt.Errorf("make %s: %w", c.Title, err))
		}
	}
	return errors.Join(errs...)
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
	h, e := n.held[db], n.catalog.entries[db]
	n.mu.Unlock()
	if e == nil {
		return errLater
	}
	err := error(nil)
	if e.Deleted {
		err = n.store.RemoveDatabase(note.System, db)
	} else {
		err = n.removeHandedOn(ctx, db, h, e)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	n.mu.Lock()
	n.unhold(db)
	n.mu.Unlock()
	n.log(slog.LevelInfo, "database removed", "database", db.String())
	if e.Deleted {
		return nil
	}
	return n.edit(ctx, db, func(e *Entry) error {
		e.drop(n.self)
		return nil
	})
}

// removeHandedOn removes a replica whose home has all that is in it. What is delivered here meanwhile keeps it: its
// changes are looked at before it is asked whether the home has them, and nothing may have come since.
func (n *Node) removeHandedOn(ctx context.Context, db note.DatabaseID, h *held, e *Entry) error {
	var seq uint64
	err := n.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		seq = r.Counters().Seq
		return nil
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	handed := h != nil && h.uses == 0 && n.handedOn(h, e)
	n.mu.Unlock()
	if !handed {
		return errLater
	}
	err = n.store.RemoveUnchanged(note.System, db, seq)
	if errors.Is(err, store.ErrChanged) {
		return errLater
	}
	return err
}

// Left says whether a server that leaves has given away all that it held.
func (n *Node) Left(server note.UNID) bool { return n.Holds(server) == 0 }

// Holds counts the databases of which a server has a replica, the directories left out.
func (n *Node) Holds(server note.UNID) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.catalog.entries {
		if _, on := e.On(server); on && !e.Deleted && !n.everywhere(e.ID) {
			count++
		}
	}
	return count
}
