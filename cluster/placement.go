package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
)

// Placement decides which servers have replicas of a database: it adds, moves and removes them. The rules are pure
// functions of the view, the records and the documents. plans returns their results.
type Placement struct {
	*core
	positions *positions
	handOvers *HandOvers
	opens     *Opens
	activity  *activity
	// filled is the time of the last check for members with few replicas, in Unix nanoseconds.
	filled atomic.Int64
}

// arrangeAtOnce is the maximum number of steps of one Decide.
const arrangeAtOnce = 64

// arrange adds replicas to the databases led here that have too few, drops those on servers that leave, and removes
// local replicas that are no longer needed.
func (p *Placement) arrange(ctx context.Context) error {
	p.positions.exchangeAll(ctx, p.unheard())
	var errs []error
	for i, x := range p.plans() {
		if i == arrangeAtOnce {
			p.wake.fire()
			break
		}
		err := p.do(ctx, &x)
		if err != nil && !errors.Is(err, errLater) && !errors.Is(err, ErrBusy) {
			errs = append(errs, fmt.Errorf("database %s: %w", x.db, err))
		}
	}
	return errors.Join(errs...)
}

// plan is one step for the replicas of a database. Exactly one of the fields besides db is set.
type plan struct {
	db note.DatabaseID
	// add is the server that gets a replica, drop the one whose replica is removed from the document, move the next
	// primary, and retire the server whose replica becomes pending delete.
	add, drop, move, retire note.UNID
	// remove means to remove the local replica.
	remove bool
}

func (p *Placement) do(ctx context.Context, x *plan) error {
	switch {
	case x.remove:
		return p.removeHere(ctx, x.db)
	case !x.add.IsZero():
		return p.addReplica(ctx, x.db, x.add)
	case !x.drop.IsZero():
		return p.dropReplica(ctx, x.db, x.drop)
	case !x.retire.IsZero():
		return p.SetReplica(ctx, x.db, x.retire, Deleting)
	}
	return p.handOvers.HandOver(ctx, x.db, x.move)
}

// plans returns the steps that are due.
func (p *Placement) plans() (out []plan) {
	r := p.rules()
	for h := range p.holdings.all() {
		e := p.catalogue.get(h.db)
		if e == nil || h.busy {
			continue
		}
		if x, ok := r.plan(h, e); ok {
			x.db = h.db
			out = append(out, x)
		}
	}
	return out
}

// unheard lists databases whose replicas must be rearranged, and for which the last report of a live mate is old and
// shows a replica that is behind. The mate may have received more since then, so positions must be exchanged again. The
// list is limited to one request.
func (p *Placement) unheard() (list []note.DatabaseID) {
	v := p.members.view()
	for h := range p.holdings.all() {
		e := p.catalogue.get(h.db)
		if e == nil || h.busy {
			continue
		}
		if mine, _ := e.On(p.self); mine.State != Deleting && !(h.leads && v.unarranged(e)) {
			continue
		}
		if slices.ContainsFunc(e.Replicas, func(r Replica) bool {
			return v.alive(r.Server) && !h.upToDate(r.Server) && v.now.Sub(h.reports[r.Server].at) > freshFor
		}) {
			list = append(list, h.db)
		}
		if len(list) == maxPositions {
			break
		}
	}
	return list
}

// unarranged reports whether the replicas of a database that is led here need changes: there are too few or too many,
// one must be removed, or the primary is not the first in order.
func (v view) unarranged(e *Entry) bool {
	return len(e.Replicas) == 0 || len(e.Replicas) != v.wanted(e) || e.Replicas[0].Server != v.self ||
		slices.ContainsFunc(e.Replicas, func(r Replica) bool {
			return r.State != Serving || v.members[r.Server].State != Active
		})
}

// rules is the input for plans at one moment.
type rules struct {
	view
	// load is the number of replicas on each server. plan adds the replicas that it assigns.
	load map[note.UNID]int
	// received reports whether a mate has all local changes of the databases that its replicator for db is responsible
	// for.
	received func(mate note.UNID, db note.DatabaseID) bool
}

func (p *Placement) rules() *rules {
	r := &rules{view: p.members.view(), load: map[note.UNID]int{}, received: p.received}
	for e := range p.catalogue.all() {
		for _, x := range e.Replicas {
			r.load[x.Server]++
		}
	}
	return r
}

// received implements rules.received.
func (p *Placement) received(mate note.UNID, db note.DatabaseID) bool {
	l := p.links.get(mate)
	return l != nil && l.replicator(db).reached(p.store.Now().Seq)
}

// stays reports whether a replica is to be kept.
func (r *rules) stays(e *Entry, x *Replica) bool {
	m, member := r.members[x.Server]
	// The directories stay on a leaving server until it is no longer a member: it needs them to know the members.
	return member && (m.State == Active || r.opt.everywhere(e.ID)) && x.State != Deleting
}

// plan decides for one database. ok is false if there is nothing to do.
func (r *rules) plan(h *held, e *Entry) (p plan, ok bool) {
	mine, _ := e.On(r.self)
	if e.Deleted || mine.State == Deleting && r.handedOn(h, e) {
		p.remove = !h.inUse()
		return p, p.remove
	}
	if !h.leads || !r.allFollow(h, e) {
		return p, false
	}
	good := 0
	for i := range e.Replicas {
		if r.stays(e, &e.Replicas[i]) {
			good++
		}
	}
	wanted := r.wanted(e)
	if good < wanted {
		if p.add = r.candidate(e, r.load); !p.add.IsZero() {
			r.load[p.add]++
			return p, true
		}
	}
	switch {
	case good == 0:
		return p, false
	case e.Wanted > 0 && good > wanted:
		p.retire = r.surplus(e)
		return p, !p.retire.IsZero()
	}
	return r.planLeaving(h, e)
}

// surplus returns the last replica in order that can be removed.
func (r *rules) surplus(e *Entry) note.UNID {
	for i := len(e.Replicas) - 1; i >= 0; i-- {
		if x := &e.Replicas[i]; x.Server != r.self && r.stays(e, x) {
			return x.Server
		}
	}
	return note.UNID{}
}

// planLeaving decides for the first replica that should be removed and is no longer needed.
func (r *rules) planLeaving(h *held, e *Entry) (p plan, ok bool) {
	for i := range e.Replicas {
		x := &e.Replicas[i]
		leaves := x.Server == r.self && r.members[r.self].State != Active
		if r.stays(e, x) && !leaves || !r.dispensable(h, e, x.Server) {
			continue
		}
		if x.Server == r.self {
			if h.queue {
				return p, false // Homeward moves it
			}
			if p.move = r.successor(h, e); !p.move.IsZero() {
				return p, true
			}
			continue
		}
		if _, member := r.members[x.Server]; !member {
			p.drop = x.Server
			return p, true
		}
		// The member removes its replica when the others have all its data. If the replica were dropped from the
		// document now, it would stay there, accept deliveries, and send them to nobody.
		if x.State != Deleting {
			p.retire = x.Server
			return p, true
		}
	}
	return p, false
}

// successor returns the mate that should lead a database instead of this leaving server. It is zero while sessions use
// the database here, or if no mate has everything.
func (r *rules) successor(h *held, e *Entry) note.UNID {
	for i := range e.Replicas {
		x := &e.Replicas[i]
		if !h.inUse() && x.Server != r.self && r.stays(e, x) && x.State == Serving && h.upToDate(x.Server) {
			return x.Server
		}
	}
	return note.UNID{}
}

// handedOn reports whether a replica that is pending delete may be removed: another server leads and has everything,
// and enough other replicas are complete: as many as the database should have, or as the other members can hold.
func (r *rules) handedOn(h *held, e *Entry) bool {
	if h.leads || !r.spared(h, e) {
		return false
	}
	primary := r.primary(h)
	return !primary.IsZero() && r.received(primary, h.db)
}

// spared reports whether enough other replicas that stay have the whole ledger of ours.
func (v view) spared(h *held, e *Entry) bool {
	whole, others := 0, 0
	for id, m := range v.members {
		if id == v.self || m.State != Active || v.refuses(id, e) {
			continue
		}
		r, on := e.On(id)
		if !m.Gateway || on {
			others++
		}
		if on && r.State == Serving && h.upToDate(id) {
			whole++
		}
	}
	return whole >= min(v.wanted(e), others)
}

// dispensable reports whether the replica of a server is no longer needed. Enough of the replicas that stay must have
// everything, and the server must have nothing left to send.
func (r *rules) dispensable(h *held, e *Entry, server note.UNID) bool {
	if p := r.peers[server]; p != nil && !p.hello.caught {
		return false // it may have changes for us
	}
	whole := 0
	for i := range e.Replicas {
		if x := &e.Replicas[i]; r.stays(e, x) && (x.Server == r.self || h.upToDate(x.Server)) {
			whole++
		}
	}
	return whole > 0 && whole >= r.wanted(e)
}

// candidate returns the member that gets the next replica. That is the member named in the document, if any. Otherwise
// members at sites without a replica come first, and then those with the fewest replicas relative to their capacity. A
// hash breaks ties, so that databases are distributed evenly.
func (v view) candidate(e *Entry, load map[note.UNID]int) note.UNID {
	sites := map[string]bool{}
	for _, r := range e.Replicas {
		if r.State != Deleting {
			sites[v.members[r.Server].Site] = true
		}
	}
	var best note.UNID
	var bestHash uint64
	var bestLoad float64
	var bestNear bool
	for _, id := range v.mates {
		if !v.mayHold(id, e) {
			continue
		}
		if id == e.Toward {
			return id
		}
		m := v.members[id]
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

// mayHold reports whether a mate can get a replica of a database.
func (v view) mayHold(id note.UNID, e *Entry) bool {
	m := v.members[id]
	if _, has := e.On(id); has || m.State != Active || !v.alive(id) || m.Gateway && !v.opt.everywhere(e.ID) {
		return false
	}
	return v.takes(id, e)
}

// addReplica adds a replica on a server. The slot is durable in the Cluster Database Directory before the server
// creates the replica.
func (p *Placement) addReplica(ctx context.Context, db note.DatabaseID, server note.UNID) error {
	h := p.holdings.get(db)
	mine, on := p.catalogue.get(db).on(p.self)
	if h == nil || !on {
		return errLater
	}
	if !h.shared {
		if err := p.store.Share(ctx, db, mine.Slot); err != nil {
			return err
		}
		if _, err := p.holdings.refresh(ctx, db); err != nil {
			return err
		}
	}
	err := p.catalogue.edit(ctx, db, func(e *Entry) error {
		if _, has := e.On(server); has || !e.sole(p.self) && !p.leadsNow(db) {
			return errLater
		}
		_, err := e.add(server)
		return err
	})
	if err == nil {
		p.log(slog.LevelInfo, "replica added", "database", db.String(), "to", p.name(server))
		p.touchAll(db)
	}
	return err
}

// dropReplica removes the replica of a server from the document.
func (p *Placement) dropReplica(ctx context.Context, db note.DatabaseID, server note.UNID) error {
	err := p.catalogue.edit(ctx, db, func(e *Entry) error {
		if !p.leadsNow(db) {
			return errLater
		}
		e.drop(server)
		return nil
	})
	if err == nil {
		p.log(slog.LevelInfo, "replica dropped", "database", db.String(), "of", p.name(server))
	}
	return err
}

// removeHere removes the local replica: either the database is deleted, or the replica was pending delete and others
// have everything.
func (p *Placement) removeHere(ctx context.Context, db note.DatabaseID) error {
	e := p.catalogue.get(db)
	if e == nil {
		return errLater
	}
	err := error(nil)
	if e.Deleted {
		err = p.store.RemoveDatabase(note.System, db)
	} else {
		err = p.removeHandedOn(ctx, db, e)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	p.holdings.drop(db)
	p.log(slog.LevelInfo, "database removed", "database", db.String())
	if e.Deleted {
		return nil
	}
	return p.catalogue.edit(ctx, db, func(e *Entry) error {
		e.drop(p.self)
		return nil
	})
}

// removeHandedOn removes a replica whose primary has everything. It reads the sequence number before it checks the
// primary's position, and requires the same number at the removal. So the replica stays if a delivery arrives in
// between.
func (p *Placement) removeHandedOn(ctx context.Context, db note.DatabaseID, e *Entry) error {
	var seq uint64
	err := p.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		seq = r.Counters().Seq
		return nil
	})
	if err != nil {
		return err
	}
	r := rules{view: p.members.view(), received: p.received}
	if h := p.holdings.get(db); h == nil || h.inUse() || !r.handedOn(h, e) {
		return errLater
	}
	err = p.store.RemoveUnchanged(note.System, db, seq)
	if errors.Is(err, store.ErrChanged) {
		return errLater
	}
	return err
}

// SetReplica changes the state of a server's replica of a database.
func (p *Placement) SetReplica(ctx context.Context, db note.DatabaseID, server note.UNID, state ReplicaState) error {
	return p.catalogue.setState(ctx, db, server, p.name(server), state)
}

// SetReplicas sets the number of replicas that a database should have; 0: the number in the settings.
func (p *Placement) SetReplicas(ctx context.Context, db note.DatabaseID, number int) error {
	if number < 0 || number > note.Slots || p.opt.everywhere(db) {
		return fmt.Errorf("replicas must be 1 to %d, and directories are on every member", note.Slots)
	}
	return p.catalogue.edit(ctx, db, func(e *Entry) error {
		if e.Queue && !e.Owner.IsZero() {
			return fmt.Errorf("database %s is the queue of %s: the settings give the number of its replicas",
				db, p.name(e.Owner))
		}
		e.Wanted = number
		return nil
	})
}

// Remove removes a database everywhere. That cannot be undone.
func (p *Placement) Remove(ctx context.Context, db note.DatabaseID) error {
	return p.catalogue.remove(ctx, db)
}

// Left reports whether a leaving server has given away everything.
func (p *Placement) Left(server note.UNID) bool { return p.Holds(server) == 0 }

// Holds counts the databases with a replica on a server, except those that every member has.
func (p *Placement) Holds(server note.UNID) (count int) {
	_, count = p.catalogue.count(func(e *Entry) bool {
		_, on := e.On(server)
		return on && !e.Deleted && !p.opt.everywhere(e.ID)
	})
	return count
}
