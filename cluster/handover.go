package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// HandOvers moves the primary of a database from this server to a mate.
type HandOvers struct {
	*core
	replication *replication
}

// Timeouts of a hand-over, during which sessions wait. vacateWithin limits the wait for work in progress in the
// database. shutWithin limits the transfer of the changes that were made after the first transfer.
const (
	vacateWithin = 30 * time.Second
	shutWithin   = 5 * time.Second
)

// bringRounds is the maximum number of transfers while this server still serves the database. Each transfers the
// changes that were made during the previous one.
const bringRounds = 4

// errSlow is the cause of the cancellation after shutWithin.
var errSlow = fmt.Errorf("%w: the last changes were not transferred within %v", ErrBusy, shutWithin)

// HandOver makes another server the primary of a database that this server leads. The other server first receives
// everything that was numbered here, and then assigns numbers from there on. If the hand-over fails, this server
// remains primary. If the result is unknown, the database has no primary until the next Decide determines one.
//
// The mate receives the bulk of its missing data while this server still serves the database. Sessions wait only for
// the rest, and no longer than vacateWithin and shutWithin.
func (o *HandOvers) HandOver(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	if !o.holdings.take(db) {
		return ErrBusy
	}
	err := o.prepare(ctx, db, to)
	if err == nil {
		err = o.vacateAndMove(ctx, db, to)
	}
	_, err2 := o.holdings.refresh(context.WithoutCancel(ctx), db)
	o.holdings.release(db)
	o.wake.fire()
	return errors.Join(err, err2)
}

// prepare transfers the mate's missing data while this server still serves the database.
func (o *HandOvers) prepare(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	for range bringRounds {
		if !o.leadsNow(db) {
			return store.ErrNotHome
		}
		res, err := o.bring(ctx, db, to)
		if err != nil || res.Looked == 0 {
			return err
		}
	}
	return nil
}

// vacateAndMove ends the work in the database here, and moves the primary.
func (o *HandOvers) vacateAndMove(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	within, cancel := context.WithTimeout(ctx, vacateWithin)
	resume, err := o.opt.Vacate(within, db)
	cancel()
	if err != nil {
		return err
	}
	defer resume()
	if !o.leadsNow(db) {
		return store.ErrNotHome
	}
	return o.move(ctx, db, to)
}

// move makes the mate the primary. No work in the database is in progress here.
func (o *HandOvers) move(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	pos, err := o.settle(ctx, db, to)
	var answer []byte
	if err == nil {
		// Its own timeout alone limits this request: without an answer nobody leads for a while.
		answer, err = o.ask(context.WithoutCancel(ctx), to, verbLead,
			appendRequest(&request{db: db, pos: pos, boot: o.boot}))
		if errors.Is(err, errMate) || bus.Code(err) == bus.CodeFailed {
			o.doubt(db)
			return err // the mate may have begun a term: Decide determines the primary
		}
	}
	if err != nil {
		return errors.Join(err, o.store.Lead(context.WithoutCancel(ctx), db, store.LeadOptions{}))
	}
	theirs, err := readPosition(answer)
	if err != nil {
		return err
	}
	o.stat.handOvers.Inc()
	o.holdings.update(db, func(h *held) {
		leads := report{db: db, leads: true, slot: theirs.Slot, pos: theirs}
		h.heard(to, reported{report: leads, at: o.now(), good: theirs})
		h.settled()
	})
	o.log(slog.LevelInfo, "primary handed over", "database", db.String(), "to", o.name(to))
	return nil
}

// settle ends this server's term and transfers its last changes within shutWithin.
func (o *HandOvers) settle(ctx context.Context, db note.DatabaseID, to note.UNID) (pos store.Position, err error) {
	ctx, cancel := o.within(ctx, shutWithin, errSlow)
	defer cancel()
	if err := o.store.Follow(ctx, db); err != nil {
		return pos, err
	}
	if pos, err = o.holdings.refresh(ctx, db); err == nil {
		_, err = o.bring(ctx, db, to)
	}
	if errors.Is(context.Cause(ctx), errSlow) {
		err = errSlow
	}
	return pos, err
}

// bring sends a mate what it lacks of a database. Of a queue that this server still leads, it sends the changes up to
// now, because later removals have not reached every mate.
func (o *HandOvers) bring(ctx context.Context, db note.DatabaseID, to note.UNID) (res replica.Result, err error) {
	var until note.ModSeq
	if h := o.holdings.get(db); h != nil && h.queue && h.leads {
		pos, err := o.holdings.refresh(ctx, db)
		if err != nil {
			return res, err
		}
		until = pos.Last
	}
	if !o.replication.queueCleared(ctx, db) {
		return res, fmt.Errorf("%w: removals from the queue have not reached every mate", ErrBusy)
	}
	res, err = o.replication.push(ctx, to, db, until)
	o.reps.Done(err)
	return res, err
}

// answerLead handles a hand-over: this server becomes primary of the database.
func (o *HandOvers) answerLead(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	q, err := readRequest(body)
	if err != nil {
		return nil, err
	}
	if err := o.mayReplicate(from, q.db); err != nil {
		return nil, err
	}
	if refused := o.whyNot(from, &q); refused != "" {
		return nil, bus.Refuse(codeLater, refused)
	}
	if !o.holdings.take(q.db) {
		return nil, bus.Refuse(codeBusy, ErrBusy.Error())
	}
	if refused := o.whyNot(from, &q); refused != "" { // Decide may have acted meanwhile
		o.holdings.release(q.db)
		return nil, bus.Refuse(codeLater, refused)
	}
	pos, err := o.lead(ctx, &q)
	o.holdings.release(q.db)
	if err != nil {
		o.wake.fire()
		return nil, err
	}
	o.holdings.update(q.db, func(h *held) { // the sender is no longer primary
		follows := report{db: q.db, slot: q.pos.Slot, pos: q.pos}
		h.heard(from, reported{report: follows, at: o.now(), good: q.pos})
	})
	o.moved(q.db, resume, pos)
	o.wake.fire()
	return appendPosition([]byte{Version}, &pos), nil
}

// lead makes this server primary of a database, after the sender has ended its own term with Follow. A refusal means
// that this server has not begun a term, so the sender can continue. After any other error this server has begun a
// term, so the sender must not lead. This server then follows until Decide resumes the term.
func (o *HandOvers) lead(ctx context.Context, q *request) (store.Position, error) {
	err := o.store.Lead(ctx, q.db, store.LeadOptions{HandOver: &q.pos})
	began := o.store.Leads(q.db) && !errors.Is(err, store.ErrNotShared) // an unshared database always leads
	if err == nil {
		var pos store.Position
		if pos, err = o.holdings.refresh(ctx, q.db); err == nil {
			return pos, nil
		}
	}
	ctx = context.WithoutCancel(ctx) // the first attempt may have failed because ctx ended
	if began {
		err = errors.Join(err, o.store.Follow(ctx, q.db))
	} else {
		err = bus.Refuse(codeLater, err.Error())
	}
	if _, err2 := o.holdings.refresh(ctx, q.db); err2 != nil {
		o.log(slog.LevelWarn, "cannot read the position after a hand-over that failed",
			"database", q.db.String(), "err", err2)
	}
	return store.Position{}, err
}

// whyNot returns the reason to reject a hand-over, empty if there is none.
func (o *HandOvers) whyNot(from note.UNID, q *request) string {
	h, e, p := o.holdings.get(q.db), o.catalogue.get(q.db), o.members.view().peers[from]
	switch {
	case h == nil || e == nil || p == nil:
		return "the replica is not here"
	case h.leads:
		return "this server is the primary already"
	case h.out:
		return "the replica is out of service"
	case p.hello.boot != 0 && p.hello.boot != q.boot:
		return "asked before the server restarted"
	}
	if r, on := e.on(from); !on || r.Slot != q.pos.Slot || q.pos.Last.Home() != q.pos.Slot {
		return "the server was not its primary"
	}
	return ""
}

// homewardEvery is the time between two checks for queues that belong elsewhere. homewardPause is the delay after a
// failed attempt to move one.
const (
	homewardEvery = time.Second
	homewardPause = 10 * time.Second
)

// Homeward moves queues that this server leads to the servers where they belong. It is necessary because no open moves
// a queue: users do not open queues. A queue belongs to the first server of its order that has caught up or, if this
// server is leaving, to one that stays. An empty queue is removed if its server is no longer a member.
func (o *HandOvers) Homeward(ctx context.Context) error {
	var errs []error
	for _, p := range o.misplaced() {
		if p.remove {
			errs = append(errs, o.removeQueue(ctx, p.db))
			continue
		}
		err := o.HandOver(ctx, p.db, p.move)
		if err != nil {
			o.holdings.update(p.db, func(h *held) { h.stays = o.now().Add(homewardPause) })
		}
		if !errors.Is(err, ErrBusy) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeQueue removes the queue of a former member if it is empty.
func (o *HandOvers) removeQueue(ctx context.Context, db note.DatabaseID) error {
	empty := false
	err := o.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		empty = r.Counters().Notes == 0
		return nil
	})
	if err != nil || !empty {
		return err
	}
	o.log(slog.LevelInfo, "removing the queue of a server that is gone", "database", db.String())
	return o.catalogue.remove(ctx, db)
}

// misplaced lists the queues that this server leads and that belong elsewhere.
func (o *HandOvers) misplaced() (out []plan) {
	v, listed := o.members.view(), o.members.listed()
	for h := range o.holdings.all() {
		e := o.catalogue.get(h.db)
		if !h.queue || !h.leads || h.busy || e == nil || e.Deleted || h.stays.After(v.now) {
			continue
		}
		if _, member := v.members[e.Owner]; !member && !e.Owner.IsZero() && listed && v.allFollow(h, e) {
			out = append(out, plan{db: h.db, remove: true})
			continue
		}
		if to := o.belongs(v, h, e); to != o.self {
			out = append(out, plan{db: h.db, move: to})
		}
	}
	return out
}

// belongs returns the server that should lead a queue: the first of its order that can, or this server.
func (o *HandOvers) belongs(v view, h *held, e *Entry) note.UNID {
	for _, r := range e.Replicas {
		m, member := v.members[r.Server]
		if r.State != Serving || !member || m.State != Active {
			continue
		}
		if r.Server == o.self {
			return o.self
		}
		if p := v.peers[r.Server]; h.follows(r.Server) && v.alive(r.Server) && o.links.caught(p.id) && p.hello.caught &&
			p.hello.serving {
			return r.Server
		}
	}
	return o.self
}

// follows reports whether a mate's replica is complete and does not lead.
func (h *held) follows(mate note.UNID) bool {
	x := h.reports[mate]
	return !x.at.IsZero() && !x.missing && !x.suspect && !x.out && !x.leads
}

// runHomeward runs Homeward until ctx ends.
func (o *HandOvers) runHomeward(ctx context.Context) {
	for ctx.Err() == nil {
		if err := o.Homeward(ctx); err != nil && ctx.Err() == nil {
			o.log(slog.LevelWarn, "move queues where they belong", "err", err)
		}
		select {
		case <-o.env.Clock.After(homewardEvery):
		case <-ctx.Done():
		}
	}
}
