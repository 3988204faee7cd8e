package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// replication implements job for all Cluster Replicators and coordinates them.
type replication struct {
	*core
	positions     *positions
	confirmations *confirmations
	aside         *asides
}

// step runs one step of one Cluster Replicator: it sends the databases that wait for a mate, one after the other, and
// reports whether there was anything to do. It sends nothing to a dead mate.
func (r *replication) step(ctx context.Context, mate note.UNID, worker int) (progress bool, err error) {
	x, alive := r.replicator(mate, worker)
	if !alive {
		return false, nil
	}
	return x.step(ctx, inline)
}

// replicator returns a Cluster Replicator, nil if there is none, and whether its mate is alive.
func (r *replication) replicator(mate note.UNID, worker int) (x *replicator, alive bool) {
	v, l := r.members.view(), r.links.get(mate)
	if l == nil || worker >= len(l.reps) {
		return nil, false
	}
	return l.reps[worker], v.alive(mate)
}

// idle reports whether nothing waits to be sent to a live mate.
func (r *replication) idle() bool {
	live, _ := r.split()
	return !slices.ContainsFunc(live, func(x *replicator) bool { return !x.idle() })
}

// split returns the replicators of live mates, and those of mates that died within deadFor.
func (r *replication) split() (live, dead []*replicator) {
	v := r.members.view()
	for _, id := range v.mates {
		l := r.links.get(id)
		switch p := v.peers[id]; {
		case l == nil:
		case p.alive:
			live = append(live, l.reps...)
		case v.now.Sub(p.since) < deadFor:
			dead = append(dead, l.reps...)
		}
	}
	return live, dead
}

// deadFor is the time for which removals from a queue wait for a dead mate.
const deadFor = 24 * time.Hour

// catchUp records which mates have caught up with this server since they came back. When this server and every live
// mate have caught up with each other, it accepts users.
func (r *replication) catchUp() {
	v := r.members.view()
	alive := 0
	for _, id := range v.mates {
		p, l := v.peers[id], r.links.get(id)
		if !p.alive || l == nil {
			continue
		}
		alive++
		if p.hello.boot != 0 {
			l.follow(func() uint64 { return r.store.Now().Seq })
		}
	}
	waits := alive < len(v.mates) && v.starting()
	if r.members.serving.Load() || waits {
		return
	}
	for _, p := range v.peers {
		if p.alive && !(r.links.caught(p.id) && p.hello.caught && p.hello.boot != 0) {
			return
		}
	}
	r.members.serving.Store(true)
	r.log(slog.LevelInfo, "has caught up and takes users")
}

// reached implements job.
func (r *replication) reached(_ note.UNID, db note.DatabaseID) { r.confirmations.fire(db) }

// awaited implements job.
func (r *replication) awaited() bool { return r.confirmations.awaited() }

// wants implements job. A primary sends to every replica. A follower sends to the primary or, while none is alive, to
// all.
func (r *replication) wants(mate note.UNID, db note.DatabaseID) (yes, queue bool) {
	h, e := r.holdings.get(db), r.catalogue.get(db)
	if h == nil || e == nil {
		return false, false
	}
	v := r.members.view()
	if _, on := e.On(mate); !on || !v.takes(mate, e) {
		return false, false
	}
	return h.leads || h.route.IsZero() || h.route == mate, h.queue
}

// stands implements job.
func (r *replication) stands(db note.DatabaseID) note.ModSeq {
	pos, err := r.holdings.refresh(context.Background(), db)
	if err != nil {
		return 0
	}
	return pos.Last
}

// cleared implements job. A delivery removes an entry from a queue and writes the message elsewhere in the same commit.
// The removal may be sent to a mate once every live mate has all commits up to the removal. If a dead mate lacks
// changes of a database, one live mate must have all changes of that database up to the removal.
func (r *replication) cleared(seq uint64) bool {
	live, dead := r.split()
	if slices.ContainsFunc(live, func(x *replicator) bool { return !x.cleared(seq, nil) }) {
		return false
	}
	safe := func(db note.DatabaseID) bool {
		return slices.ContainsFunc(live, func(x *replicator) bool {
			yes, _ := r.wants(x.mate, db)
			return yes && x.mine(db) && x.passed(db, seq)
		})
	}
	for _, x := range dead {
		// The backlog of a dead mate is complete only up to the position at which its replicator stopped reading the
		// feed.
		if (!x.known() || !x.cleared(seq, safe)) && !r.allSafe(x, safe) {
			return false
		}
	}
	return true
}

// allSafe checks all databases of a dead mate whose replicator has not read that far.
func (r *replication) allSafe(x *replicator, safe func(note.DatabaseID) bool) bool {
	for h := range r.holdings.all() {
		if h.queue || !x.mine(h.db) {
			continue
		}
		if _, on := r.catalogue.get(h.db).on(x.mate); on && !safe(h.db) {
			return false
		}
	}
	return true
}

// clearWithin is the time for which a hand-over of a queue waits for cleared. clearPoll is the interval of the checks.
const (
	clearWithin = 5 * time.Second
	clearPoll   = 20 * time.Millisecond
)

// queueCleared waits until the removals from a queue may be sent to the mate that takes it over, as for other pages of
// a queue (see cleared). It returns true at once for other databases.
func (r *replication) queueCleared(ctx context.Context, db note.DatabaseID) bool {
	if h := r.holdings.get(db); h == nil || !h.queue {
		return true
	}
	seq := r.store.Now().Seq
	poll := func() <-chan struct{} {
		c := make(chan struct{})
		r.env.Clock.AfterFunc(clearPoll, func() { close(c) })
		return c
	}
	return r.opt.Await(ctx, clearWithin, poll, func() bool { return r.cleared(seq) })
}

// compareAtOnce is the number of databases that one step of a sweep compares.
const compareAtOnce = 256

// compare implements job.
func (r *replication) compare(ctx context.Context, x *replicator, from note.DatabaseID) (note.DatabaseID, error) {
	var list []note.DatabaseID
	next := note.DatabaseID(0)
	all := r.holdings.ids()
	i, _ := slices.BinarySearch(all, from)
	for _, db := range all[i:] {
		if _, on := r.catalogue.get(db).on(x.mate); !on || !x.mine(db) {
			continue
		}
		if len(list) == compareAtOnce {
			next = db
			break
		}
		list = append(list, db)
	}
	if err := r.positions.exchange(ctx, x.mate, list); err != nil {
		return from, err
	}
	for _, db := range list {
		h := r.holdings.get(db)
		if h == nil || h.leads {
			continue
		}
		if waits, err := r.unnumbered(ctx, db); err != nil || waits {
			x.touch(db, h.queue)
		}
	}
	return next, nil
}

// unnumbered reports whether a replica has changes that its primary has not confirmed.
func (r *replication) unnumbered(ctx context.Context, db note.DatabaseID) (bool, error) {
	c, err := r.store.Current(ctx, db)
	return c.Position.Pending, err
}

// due implements job.
func (r *replication) due(ctx context.Context, mate note.UNID, db note.DatabaseID) (bool, error) {
	if yes, _ := r.wants(mate, db); !yes {
		return false, nil
	}
	h := r.holdings.get(db)
	if h == nil || h.out || !h.shared {
		return false, nil // a damaged database cannot be read; it is queued again when it is repaired
	}
	if h.leads {
		return true, nil
	}
	// Most changes at a follower came from its primary, so there is usually nothing to send.
	waits, err := r.unnumbered(ctx, db)
	return err == nil && (waits || r.relays(db, mate)), err
}

// send implements job.
func (r *replication) send(
	ctx context.Context, mate note.UNID, db note.DatabaseID, until note.ModSeq, afresh bool,
) error {
	l := r.links.get(mate)
	if l == nil {
		return nil
	}
	if due, err := r.due(ctx, mate, db); err != nil || !due {
		return err
	}
	h := r.holdings.get(db)
	if h == nil {
		return nil // it was removed meanwhile
	}
	local := replica.Side(r.reps.As(note.System))
	var bounded upTo
	if until != 0 && h.leads {
		bounded = upTo{Side: local, until: until}
		local = &bounded
	}
	var before store.Position
	if h.leads {
		var err error
		if before, err = r.holdings.refresh(ctx, db); err != nil {
			return err
		}
	}
	known := l.known.of(db)
	if afresh {
		known.Forget()
	}
	res, err := replica.Send(ctx, local, r.remote(mate), db, replica.SendOptions{
		From: r.name(r.self), To: r.name(mate), Known: known, Objects: objectsAtOnce / maxLanes, Room: l.room,
		Transfers: &l.transfers,
	})
	r.reps.Done(err)
	r.noteAside(mate, db, res.Refused, err)
	if err != nil {
		return r.failed(ctx, mate, db, err)
	}
	if h.leads && (until == 0 || before.Last <= until && !bounded.beyond) {
		r.positions.reached(mate, db, &before)
	}
	return nil
}

// noteAside records and logs the notes of a database that a mate rejected.
func (r *replication) noteAside(mate note.UNID, db note.DatabaseID, refused []replica.Refused, err error) {
	r.aside.note(mate, db, refused, err)
	if len(refused) > 0 {
		r.log(slog.LevelWarn, "notes are set aside", "database", db.String(), "mate", r.name(mate),
			"notes", len(refused), "first", refused[0].UNID.String(), "why", refused[0].Text)
	}
}

// failed returns the error of a send. If the error shows that the known primary is out of date, failed exchanges
// positions.
func (r *replication) failed(ctx context.Context, mate note.UNID, db note.DatabaseID, err error) error {
	switch {
	case errors.Is(err, bus.ErrNoServer), errors.Is(err, bus.ErrNoAnswer), errors.Is(err, bus.ErrClosed):
		return fmt.Errorf("%w: %s: %w", errMate, r.name(mate), err)
	case errors.Is(err, replica.ErrSplit), errors.Is(err, store.ErrParted), errors.Is(err, store.ErrNotHome):
		if err := r.positions.exchange(ctx, mate, []note.DatabaseID{db}); err != nil {
			return err
		}
		r.wake.fire()
	}
	return err
}

// relays reports whether a follower should send the ledger to a mate: there is no primary, and the mate is behind.
func (r *replication) relays(db note.DatabaseID, mate note.UNID) bool {
	h := r.holdings.get(db)
	if h == nil || !h.route.IsZero() {
		return false
	}
	x, ok := h.reports[mate]
	return ok && behind(&x.pos.Ledger, &h.pos.Ledger)
}

// push sends a mate what it lacks of a database, without cached state of the mate. If until is not 0, it sends only the
// changes of this primary up to that number.
func (r *replication) push(
	ctx context.Context, to note.UNID, db note.DatabaseID, until note.ModSeq,
) (replica.Result, error) {
	local := replica.Side(r.reps.As(note.System))
	if until != 0 {
		local = &upTo{Side: local, until: until}
	}
	o := replica.SendOptions{From: r.name(r.self), To: r.name(to)}
	return replica.Send(ctx, local, r.remote(to), db, o)
}

// run runs one Cluster Replicator until ctx ends or the mate is no longer a member. If the mate was dropped and added
// again, it runs the new replicator.
func (r *replication) run(ctx context.Context, mate note.UNID, worker int) {
	for ctx.Err() == nil {
		x, _ := r.replicator(mate, worker)
		if x == nil {
			return
		}
		x.run(ctx, &running{
			spawn: func(f func()) { r.env.Go("cluster send", f) },
			every: r.opt.ProbeEvery,
			mate: func() (still, alive bool) {
				now, alive := r.replicator(mate, worker)
				return now == x, alive
			},
			failed: func(err error) {
				if !errors.Is(err, errMate) && ctx.Err() == nil {
					r.log(slog.LevelWarn, "replicate", "mate", r.name(mate), "err", err)
				}
			},
		})
	}
}

// upTo is a Side whose ledger ends at a MODSEQ.
type upTo struct {
	replica.Side
	until note.ModSeq
	// beyond means that the mate already had later numbers. They may be numbers of another primary: this is not
	// checked.
	beyond bool
}

// Ledger implements replica.Side.
func (u *upTo) Ledger(
	ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID, most int64,
) (*replica.LedgerPage, error) {
	if since.Last >= u.until && len(again) == 0 {
		u.beyond = u.beyond || since.Last > u.until
		return &replica.LedgerPage{LedgerPage: store.LedgerPage{From: since.Last, To: since.Last}}, nil
	}
	p, err := u.Side.Ledger(ctx, db, since, again, most)
	if err != nil || p.To <= u.until {
		return p, err
	}
	p.Notes = slices.DeleteFunc(p.Notes, func(x store.Numbered) bool { return x.Mod > u.until })
	p.Expunged = slices.DeleteFunc(p.Expunged, func(x store.Expunge) bool { return x.Mod > u.until })
	p.To, p.More, p.Seq = u.until, true, 0
	return p, nil
}
