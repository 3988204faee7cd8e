package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/store"
)

// election maintains one primary for each database: it elects one if none is alive, and if two compete, the later term
// survives. The rules are in the pure function decide.
type election struct {
	*core
	positions *positions
	// each calls fn for the databases: concurrently in a server, one after the other in the simulation.
	each func(dbs []note.DatabaseID, fn func(note.DatabaseID))
}

// settle elects a primary for each database here that has no live one.
func (e *election) settle(ctx context.Context) error {
	open := e.unsettled()
	if len(open) == 0 {
		return nil
	}
	e.positions.exchangeAll(ctx, open)
	var mu sync.Mutex
	var errs []error
	var announce []note.DatabaseID
	e.each(open, func(db note.DatabaseID) {
		q, ok := e.question(db)
		if !ok {
			return
		}
		what, with := decide(&q)
		moved, err := e.act(ctx, db, what, with)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("database %s: %s: %w", db, what, err))
		}
		if moved {
			announce = append(announce, db)
		}
	})
	if len(announce) > 0 {
		e.positions.exchangeAll(ctx, announce)
	}
	return errors.Join(errs...)
}

// unsettled lists the databases that need a decision, and records since when they have had no primary.
func (e *election) unsettled() (out []note.DatabaseID) {
	v := e.members.view()
	for h := range e.holdings.all() {
		switch {
		case h.busy:
		case h.leads:
			if h.challenged() {
				out = append(out, h.db)
			}
		case v.primaryLives(h) && !h.competed:
			if !h.orphaned.IsZero() {
				e.holdings.update(h.db, (*held).settled)
			}
		default:
			if h.orphaned.IsZero() {
				e.holdings.update(h.db, func(h *held) {
					if !h.leads {
						h.orphaned = v.now
					}
				})
			}
			out = append(out, h.db)
		}
	}
	return out
}

// settled records that the database has a live primary.
func (h *held) settled() { h.orphaned = time.Time{} }

// question collects the input of decide. ok is false if there is nothing to decide.
func (e *election) question(db note.DatabaseID) (q question, ok bool) {
	h, entry, v := e.holdings.get(db), e.catalogue.get(db), e.members.view()
	if h == nil || entry == nil || h.busy {
		return q, false
	}
	q.starting, q.lostNumbers = v.starting(), h.lostNumbers
	q.suspect = (h.suspect || h.begun()) && len(entry.Replicas) > 1
	if !h.orphaned.IsZero() {
		q.waited = v.now.Sub(h.orphaned)
	}
	for _, r := range entry.Replicas {
		if r.Server == v.self {
			q.replicas = append(q.replicas, v.ours(h, entry, &r))
		} else {
			q.replicas = append(q.replicas, v.theirs(h, &r))
		}
	}
	return q, true
}

// ours returns the standing of the local replica.
func (v view) ours(h *held, e *Entry, r *Replica) standing {
	s := standing{
		server: r.Server, slot: r.Slot, self: true, live: true, known: true,
		leads: h.leads, competed: h.competed, at: h.pos.Ledger,
	}
	s.out = h.out || v.barred(r) && len(e.Replicas) > 1 // the only replica has to lead
	s.goes = r.State == Deleting && !h.out
	return s
}

// theirs returns the standing of a mate's replica.
func (v view) theirs(h *held, r *Replica) standing {
	s := standing{server: r.Server, slot: r.Slot, out: v.barred(r), gone: v.gone(r.Server)}
	if !v.alive(r.Server) {
		return s
	}
	x, told := h.reports[r.Server]
	s.live = true
	s.known = told && !x.at.IsZero() && (h.orphaned.IsZero() || v.now.Sub(x.at) <= freshFor)
	s.leads, s.at = x.leads, x.pos.Ledger
	s.lostData = x.missing || x.suspect
	s.out = s.out || x.out || s.lostData
	return s
}

// barred reports whether a replica must not lead as long as another one can.
func (v view) barred(r *Replica) bool {
	m, member := v.members[r.Server]
	return r.State != Serving || !member || m.State != Active
}

// act carries out a verdict. moved means that mates should be informed.
func (e *election) act(ctx context.Context, db note.DatabaseID, what verdict, with note.UNID) (moved bool, err error) {
	switch what {
	case rest, wait, ask:
		return false, nil
	}
	if !e.holdings.take(db) {
		return false, nil
	}
	defer e.holdings.release(db)
	switch what {
	case resume:
		err = e.store.Lead(ctx, db, store.LeadOptions{})
	case takeOver:
		err = e.takeOver(ctx, db)
	case stop:
		err = e.stop(ctx, db)
	case stepDown:
		err = e.stepDown(ctx, db, with)
	}
	pos, err2 := e.holdings.refresh(ctx, db)
	if err == nil && err2 == nil {
		e.moved(db, what, pos)
	}
	return err == nil, errors.Join(err, err2)
}

// takeOver makes this server primary in a new term. It first advances the counters past all numbers that other
// primaries may have assigned and that no live replica knows.
func (e *election) takeOver(ctx context.Context, db note.DatabaseID) error {
	before, err := e.holdings.refresh(ctx, db)
	if err != nil {
		return err
	}
	h, entry, v := e.holdings.get(db), e.catalogue.get(db), e.members.view()
	if h == nil || entry == nil {
		return errLater
	}
	suspect := h.suspect || h.begun()
	var lost []store.Position // upper bounds of the positions of lost primaries
	var emptied []Replica
	for _, r := range entry.Replicas {
		switch {
		case r.Server == e.self && suspect:
			lost = append(lost, ghost(&before, &before, r.Slot, true))
		case r.Server == e.self:
		case h.lostData(v, r.Server):
			emptied = append(emptied, r)
		case before.Last.Home() == r.Slot:
			lost = append(lost, ghost(&before, &before, r.Slot, false))
		}
	}
	for _, r := range emptied {
		from, err := e.lastKnown(ctx, h, r)
		if err != nil {
			return err
		}
		lost = append(lost, ghost(&from, &before, r.Slot, true))
	}
	return e.newTerm(ctx, db, suspect, lost)
}

// lostData reports whether a mate is alive but its replica is missing, or has lost numbers that it assigned.
func (h *held) lostData(v view, mate note.UNID) bool {
	x := h.reports[mate]
	return v.alive(mate) && (x.missing || x.suspect)
}

// newTerm begins a term of this server above the positions of lost primaries.
func (e *election) newTerm(ctx context.Context, db note.DatabaseID, suspect bool, lost []store.Position) error {
	if err := e.store.Follow(ctx, db); err != nil { // our own term must not continue
		return err
	}
	if err := e.store.Lead(ctx, db, store.LeadOptions{}); err != nil {
		return err
	}
	if suspect {
		if err := e.newTerms(ctx, db, termsAlone); err != nil {
			return err
		}
	}
	for i := range lost {
		if err := e.store.Heal(ctx, db, lost[i]); err != nil {
			return err
		}
	}
	return nil
}

// ghost returns an upper bound of the present position of the primary with the given slot. from is the last position
// known of it (see note.Ledger.Ghost).
func ghost(from, top *store.Position, slot uint8, own bool) store.Position {
	return store.Position{Ledger: from.Ghost(&top.Ledger, slot, own), LastUIDValidity: from.LastUIDValidity}
}

// lastKnown returns the last known position of a lost replica. That is its last report or, if it has not reported since
// this server started, the last position at which both replicas were certainly equal.
func (c *core) lastKnown(ctx context.Context, h *held, of Replica) (pos store.Position, err error) {
	if pos = h.reports[of.Server].good; pos.Last != 0 {
		return pos, nil
	}
	err = c.store.Read(ctx, note.System, h.db, func(r *store.Reader) error {
		pos = r.Met(of.Slot)
		return nil
	})
	return pos, err
}

// moved counts and logs a change of the primary of a database, and queues the database for all mates.
func (c *core) moved(db note.DatabaseID, what verdict, pos store.Position) {
	c.holdings.update(db, func(h *held) {
		if h.leads {
			h.lostNumbers = false
			h.settled()
		}
	})
	c.places.forget(db)
	switch what {
	case takeOver:
		c.stat.takeOvers.Inc()
	case stepDown:
		c.stat.stepDowns.Inc()
	}
	c.log(slog.LevelInfo, "primary: "+what.String(), "database", db.String(), "term", pos.Last.Term())
	c.touchAll(db)
}

// stepDown yields to the surviving primary. The survivor first advances its counters past all numbers assigned here.
// Then this replica takes over the survivor's line, and its own changes wait to be numbered by the survivor.
func (e *election) stepDown(ctx context.Context, db note.DatabaseID, winner note.UNID) error {
	if err := e.stop(ctx, db); err != nil {
		return err
	}
	mine, err := e.holdings.refresh(ctx, db)
	if err != nil {
		return err
	}
	answer, err := e.ask(ctx, winner, verbYield, appendRequest(&request{db: db, pos: mine, boot: e.boot}))
	if err != nil {
		return errRefused(err)
	}
	theirs, err := readPosition(answer)
	if err != nil {
		return err
	}
	if err := e.store.StepDown(ctx, db, theirs); err != nil {
		return err
	}
	e.holdings.update(db, func(h *held) { h.competed = false })
	return nil
}

// errRefused adds the corresponding local error to a mate's error answer.
func errRefused(err error) error {
	switch bus.Code(err) {
	case codeNotHome:
		return errors.Join(ErrNoHome, err)
	case codeBusy, codeLater:
		return errors.Join(errLater, err)
	}
	return err
}

// stop ends our term because another primary survives. It records that this server competed, even if this server
// numbered nothing. The survivor must learn of it, because clients of this server have missed the changes that the
// survivor numbered.
func (e *election) stop(ctx context.Context, db note.DatabaseID) error {
	if !e.store.Leads(db) {
		return nil
	}
	err := e.store.Follow(ctx, db)
	if err == nil {
		e.holdings.update(db, func(h *held) { h.competed = true })
	}
	return err
}

// answerYield handles the request of a primary that steps down in favor of this one.
func (e *election) answerYield(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	q, err := readRequest(body)
	if err != nil {
		return nil, err
	}
	if err := e.mayReplicate(from, q.db); err != nil {
		return nil, err
	}
	if !e.holdings.take(q.db) {
		return nil, bus.Refuse(codeBusy, ErrBusy.Error())
	}
	defer e.holdings.release(q.db)
	mine, err := e.holdings.refresh(ctx, q.db)
	if err != nil {
		return nil, err
	}
	if !e.store.Leads(q.db) || lineOf(&mine.Ledger).before(lineOf(&q.pos.Ledger)) {
		return nil, bus.Refuse(codeNotHome, "this server is not the surviving primary")
	}
	// If the mate has already stepped down and only our answer was lost, do not advance the counters again: no client
	// has missed any number.
	h := e.holdings.get(q.db)
	if h == nil || q.pos.Last == 0 || h.yielded[from] != q.pos.Last {
		if err := e.store.Heal(ctx, q.db, q.pos); err != nil {
			return nil, err
		}
	}
	e.holdings.update(q.db, func(h *held) { h.yielded = with(h.yielded, from, q.pos.Last) })
	if mine, err = e.holdings.refresh(ctx, q.db); err != nil {
		return nil, err
	}
	return appendPosition([]byte{Version}, &mine), nil
}

// reroute determines, for each database, the server that receives unnumbered changes: the primary or, while none is
// alive, all mates. If that changes, pending changes are sent there again.
func (e *election) reroute() {
	v := e.members.view()
	for h := range e.holdings.all() {
		route := v.route(h)
		if route == h.route {
			continue
		}
		e.holdings.update(h.db, func(h *held) { h.route = v.route(h) })
		entry := e.catalogue.get(h.db)
		if h.leads || entry == nil {
			continue
		}
		for _, r := range entry.Replicas {
			if route.IsZero() || route == r.Server {
				e.touch(r.Server, h)
			}
		}
	}
}

// route returns the server that receives unnumbered changes of a database; zero: all mates.
func (v view) route(h *held) note.UNID {
	if !h.leads && !h.orphaned.IsZero() {
		return note.UNID{}
	}
	return v.primary(h)
}

// Number of terms to skip, so that the new term is above every term that an earlier incarnation of a replica may have
// begun. termsBetween applies if a live primary knows all terms but the last, termsAlone if there is no live primary.
const (
	termsBetween = 2
	termsAlone   = 32
)

// newTerms skips count terms of a database that this server leads. It continues in a new block of UIDs.
func (c *core) newTerms(ctx context.Context, db note.DatabaseID, count int) error {
	err := c.store.Replicate(ctx, db, func(w *store.Writer) error {
		for range count {
			if err := w.TakeOver(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, err = c.holdings.refresh(ctx, db)
	}
	if err == nil {
		c.touchAll(db)
	}
	return err
}
