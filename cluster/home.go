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

// Decide does what is due: it takes up who the members are and who of them lives, what the Cluster
// Database Directory says, and makes sure that every database has a home and its replicas. It returns
// what went wrong; what could be done is done.
func (n *Node) Decide(ctx context.Context) error {
	if !n.deciding.TryLock() {
		return nil
	}
	defer n.deciding.Unlock()
	n.judgePeers()
	errs := []error{
		n.refreshMembers(ctx), n.join(ctx), n.refreshCatalog(ctx), n.unite(ctx), n.holdAll(ctx), n.settle(ctx),
	}
	n.reroute()
	errs = append(errs, n.cleanse(ctx), n.makeEverywhere(), n.arrange(ctx), n.fill(ctx))
	n.catchUp()
	n.sampleDue()
	n.watch()
	return errors.Join(errs...)
}

// settle finds a home for every database here that has none that lives.
func (n *Node) settle(ctx context.Context) error {
	open := n.unsettled()
	if len(open) == 0 {
		return nil
	}
	n.tell(ctx, open)
	var mu sync.Mutex
	var errs []error
	var announce []note.DatabaseID
	n.each(open, func(db note.DatabaseID) {
		q, ok := n.question(db)
		if !ok {
			return
		}
		what, with := decide(&q)
		moved, err := n.act(ctx, db, what, with)
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
		n.tell(ctx, announce)
	}
	return errors.Join(errs...)
}

// freshFor is how long what a mate told of a database without a home is believed.
const freshFor = 2 * time.Second

// checkEvery is how often it is asked anew who leads a database, though nothing speaks against what is known.
const checkEvery = time.Minute

// unsettled lists the databases for which something is to be decided. It notes since when they are.
func (n *Node) unsettled() []note.DatabaseID {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []note.DatabaseID
	for _, db := range n.heldIDs() {
		switch h := n.held[db]; {
		case h.busy:
		case h.leads:
			if n.challenged(h) {
				out = append(out, db)
			}
		case n.homeLives(h) && !h.beside:
			h.lost = time.Time{}
		default:
			if h.lost.IsZero() {
				h.lost = n.now()
			}
			out = append(out, db)
		}
	}
	return out
}

// challenged says whether a mate told of a later home than us. Under mu.
func (n *Node) challenged(h *held) bool {
	own := lineOf(&h.pos.Ledger)
	for _, t := range h.told {
		if own.before(lineOf(&t.pos.Ledger)) {
			return true
		}
	}
	return false
}

// homeLives says whether a mate that lives told that it leads, on the latest line that is known, which
// goes on from ours. Under mu.
func (n *Node) homeLives(h *held) bool {
	top := lineOf(&h.pos.Ledger)
	for _, t := range h.told {
		if l := lineOf(&t.pos.Ledger); top.before(l) {
			top = l
		}
	}
	for id, t := range h.told {
		p := n.peers[id]
		if p != nil && p.alive && t.leads && lineOf(&t.pos.Ledger) == top && n.now().Sub(t.at) <= checkEvery {
			return !parted(&h.pos.Ledger, &t.pos.Ledger)
		}
	}
	return false
}

// question gathers what is known of a database. ok is false where nothing is to be decided.
func (n *Node) question(db note.DatabaseID) (q question, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, e := n.held[db], n.catalog.entries[db]
	if h == nil || e == nil || h.busy {
		return q, false
	}
	q.starting, q.unsure, q.stained = n.starting(), h.unsure, (h.stained || h.begun()) && len(e.Replicas) > 1
	if !h.lost.IsZero() {
		q.waited = n.now().Sub(h.lost)
	}
	for _, r := range e.Replicas {
		s := standing{server: r.Server, slot: r.Slot, self: r.Server == n.self}
		m, member := n.members[r.Server]
		s.out = r.State != Serving || !member || m.State != Active
		if s.self {
			s.live, s.known, s.leads, s.beside, s.at = true, true, h.leads, h.beside, h.pos.Ledger
			s.out = s.out || h.out
			s.goes = r.State == Deleting && !h.out
			if last := len(e.Replicas) == 1; last && !h.out {
				s.out = false // nobody else can be
			}
		} else {
			s.gone = n.gone(r.Server)
			if p := n.peers[r.Server]; p != nil && p.alive {
				s.live = true
				t, told := h.told[r.Server]
				s.known = told && !t.at.IsZero() && (h.lost.IsZero() || n.now().Sub(t.at) <= freshFor)
				s.leads, s.at = t.leads, t.pos.Ledger
				s.bereft = t.missing || t.stained
				s.out = s.out || t.out || s.bereft
			}
		}
		q.replicas = append(q.replicas, s)
	}
	return q, true
}

// act does what was decided. moved says that mates should hear of it.
func (n *Node) act(ctx context.Context, db note.DatabaseID, what verdict, with note.UNID) (moved bool, err error) {
	switch what {
	case rest, wait, ask:
		return false, nil
	}
	if !n.take(db) {
		return false, nil
	}
	defer n.release(db)
	switch what {
	case resume:
		err = n.store.Lead(ctx, db, store.LeadOptions{})
	case takeOver:
		err = n.takeOver(ctx, db)
	case stop:
		err = n.stop(ctx, db)
	case stepDown:
		err = n.stepDown(ctx, db, with)
	}
	pos, err2 := n.stood(ctx, db)
	if err == nil && err2 == nil {
		n.changedHome(db, what, pos)
	}
	return err == nil, errors.Join(err, err2)
}

// takeOver becomes home in a new term, above everything that homes may have given which nobody knows of here.
func (n *Node) takeOver(ctx context.Context, db note.DatabaseID) error {
	before, err := n.stood(ctx, db)
	if err != nil {
		return err
	}
	n.mu.Lock()
	h, e := n.held[db], n.catalog.entries[db]
	if h == nil || e == nil {
		n.mu.Unlock()
		return errLater
	}
	stained := h.stained || h.begun()
	var lost []store.Position // where homes that are lost may have gone
	var bereft []Replica
	for _, r := range e.Replicas {
		t := h.told[r.Server]
		switch p := n.peers[r.Server]; {
		case r.Server == n.self && stained:
			lost = append(lost, ghost(&before, &before, r.Slot, true))
		case r.Server == n.self:
		case p != nil && p.alive && (t.missing || t.stained):
			bereft = append(bereft, r)
		case before.Last.Home() == r.Slot:
			lost = append(lost, ghost(&before, &before, r.Slot, false))
		}
	}
	n.mu.Unlock()
	for _, r := range bereft {
		from, err := n.synced(ctx, db, r)
		if err != nil {
			return err
		}
		lost = append(lost, ghost(&from, &before, r.Slot, true))
	}
	if err := n.store.Follow(ctx, db); err != nil { // our own term does not go on
		return err
	}
	if err := n.store.Lead(ctx, db, store.LeadOptions{}); err != nil {
		return err
	}
	if stained {
		if err := n.newTerms(ctx, db, termsAlone); err != nil {
			return err
		}
	}
	for i := range lost {
		if err := n.store.Heal(ctx, db, lost[i]); err != nil {
			return err
		}
	}
	return nil
}

// ghost is where a home with a slot may stand of which no more is known than that it was at from (note.Ledger.Ghost).
func ghost(from, top *store.Position, slot uint8, own bool) store.Position {
	return store.Position{Ledger: from.Ghost(&top.Ledger, slot, own), LastUIDValidity: from.LastUIDValidity}
}

// synced is the latest position that is known of a mate which is lost: what it told last, or, where it has told nothing
// since this server started, where it was in step at the latest for certain.
func (n *Node) synced(ctx context.Context, db note.DatabaseID, of Replica) (pos store.Position, err error) {
	n.mu.Lock()
	if h := n.held[db]; h != nil {
		pos = h.told[of.Server].good
	}
	n.mu.Unlock()
	if pos.Last != 0 {
		return pos, nil
	}
	err = n.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		pos = r.Met(of.Slot)
		return nil
	})
	return pos, err
}

// changedHome counts and tells what came of a decision.
func (n *Node) changedHome(db note.DatabaseID, what verdict, pos store.Position) {
	n.mu.Lock()
	if h := n.held[db]; h != nil && h.leads {
		h.lost, h.unsure = time.Time{}, false
	}
	delete(n.places, db)
	n.mu.Unlock()
	switch what {
	case takeOver:
		n.stat.takeOvers.Inc()
	case stepDown:
		n.stat.stepDowns.Inc()
	}
	n.log(slog.LevelInfo, "home: "+what.String(), "database", db.String(), "term", pos.Last.Term())
	n.touchAll(db)
}

// stepDown hands our numbers to the home that survived: it first makes sure that what it numbered itself is
// above all that we may have shown, then we take its line and what we numbered waits to be numbered there.
func (n *Node) stepDown(ctx context.Context, db note.DatabaseID, winner note.UNID) error {
	if err := n.stop(ctx, db); err != nil {
		return err
	}
	mine, err := n.stood(ctx, db)
	if err != nil {
		return err
	}
	answer, err := n.ask(ctx, winner, verbYield, appendRequest(&request{db: db, pos: mine, boot: n.boot}))
	if err != nil {
		return errRefused(err)
	}
	r, err := begin(answer)
	if err != nil {
		return err
	}
	theirs := r.position()
	if err := r.end(); err != nil {
		return err
	}
	if err := n.store.StepDown(ctx, db, theirs); err != nil {
		return err
	}
	n.setBeside(db, false)
	return nil
}

// stop ends the numbering of a home beside which another survives. That one is to hear of it also where nothing was numbered
// here: clients may have been here, and missed what it had numbered.
func (n *Node) stop(ctx context.Context, db note.DatabaseID) error {
	if !n.store.Leads(db) {
		return nil
	}
	err := n.store.Follow(ctx, db)
	if err == nil {
		n.setBeside(db, true)
	}
	return err
}

func (n *Node) setBeside(db note.DatabaseID, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.held[db]; h != nil {
		h.beside = yes
	}
}

// yield answers a home that steps down before us.
func (n *Node) yield(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	q, err := readRequest(body)
	if err != nil {
		return nil, err
	}
	if err := n.mayReplicate(from, q.db); err != nil {
		return nil, err
	}
	if !n.take(q.db) {
		return nil, bus.Refuse(codeBusy, ErrBusy.Error())
	}
	defer n.release(q.db)
	mine, err := n.stood(ctx, q.db)
	if err != nil {
		return nil, err
	}
	if !n.store.Leads(q.db) || lineOf(&mine.Ledger).before(lineOf(&q.pos.Ledger)) {
		return nil, bus.Refuse(codeNotHome, "another home has survived")
	}
	if !n.hasYielded(q.db, from, q.pos.Last) {
		if err := n.store.Heal(ctx, q.db, q.pos); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	if h := n.held[q.db]; h != nil {
		if h.yielded == nil {
			h.yielded = map[note.UNID]note.ModSeq{}
		}
		h.yielded[from] = q.pos.Last
	}
	n.mu.Unlock()
	if mine, err = n.stood(ctx, q.db); err != nil {
		return nil, err
	}
	return appendPosition([]byte{Version}, &mine), nil
}

// hasYielded says that a home has stepped down before us already, and not had our answer: what was numbered here since no client
// has missed.
func (n *Node) hasYielded(db note.DatabaseID, from note.UNID, last note.ModSeq) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	return h != nil && last != 0 && h.yielded[from] == last
}

// take marks a database as one whose home is being moved; false: it is already.
func (n *Node) take(db note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	if h == nil || h.busy {
		return false
	}
	h.busy = true
	return true
}

func (n *Node) release(db note.DatabaseID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.held[db]; h != nil {
		h.busy = false
	}
}

// tell exchanges with every mate that lives where their replicas and ours of some databases stand.
func (n *Node) tell(ctx context.Context, dbs []note.DatabaseID) {
	for _, mate := range n.Mates() {
		var list []note.DatabaseID
		n.mu.Lock()
		p := n.peers[mate]
		if p != nil && p.alive {
			for _, db := range dbs {
				if e := n.catalog.entries[db]; e != nil {
					if _, on := e.On(mate); on {
						list = append(list, db)
					}
				}
			}
		}
		n.mu.Unlock()
		if err := n.exchange(ctx, mate, list); err != nil {
			n.log(slog.LevelDebug, "positions", "mate", n.name(mate), "err", err)
		}
	}
}

// toldBytes bounds a list of positions on its way.
const toldBytes = 128 << 10

// exchange tells a mate where databases stand here, and hears where they stand there.
func (n *Node) exchange(ctx context.Context, mate note.UNID, dbs []note.DatabaseID) error {
	for len(dbs) > 0 {
		list, size := []told{}, 0
		for _, db := range dbs {
			t := n.told(ctx, db)
			size += 30 + 10*len(t.pos.Ended)
			list = append(list, t)
			if len(list) >= maxPositions || size >= toldBytes {
				break
			}
		}
		dbs = dbs[len(list):]
		answer, err := n.ask(ctx, mate, verbPositions, appendTold(list))
		if err != nil {
			return err
		}
		theirs, err := readTold(answer)
		if err != nil {
			return err
		}
		n.learn(mate, theirs)
	}
	return nil
}

// told is where a database stands here.
func (n *Node) told(ctx context.Context, db note.DatabaseID) told {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.held[db]; h != nil && h.leads && h.shared && !h.busy {
		n.mu.Unlock()
		_, err := n.stood(ctx, db) // it goes on with every change
		if n.mu.Lock(); err != nil {
			return told{db: db, out: true}
		}
	}
	h := n.held[db]
	if h == nil {
		return told{db: db, missing: true}
	}
	return told{db: db, out: h.out, stained: h.stained, leads: h.leads, slot: h.pos.Slot, pos: h.pos}
}

// positions answers an exchange.
func (n *Node) positions(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	theirs, err := readTold(body)
	if err != nil {
		return nil, err
	}
	out := make([]told, 0, len(theirs))
	for i := range theirs {
		if n.mayReplicate(from, theirs[i].db) != nil {
			out = append(out, told{db: theirs[i].db, missing: true})
			continue
		}
		out = append(out, n.told(ctx, theirs[i].db))
	}
	n.learn(from, theirs)
	return appendTold(out), nil
}

// learn takes up where a mate's replicas stand.
func (n *Node) learn(mate note.UNID, list []told) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[mate]
	if p == nil {
		return
	}
	for _, t := range list {
		h := n.held[t.db]
		if h == nil {
			continue
		}
		had := h.told[mate]
		now := toldAt{told: t, at: n.now(), good: had.good}
		if !t.missing && !t.stained {
			now.good = t.pos
		}
		h.told[mate] = now
		mine, theirs := &h.pos.Ledger, &t.pos.Ledger
		switch {
		case t.missing:
		case h.leads && mine.Beats(theirs) || h.leads && behind(theirs, mine):
			n.touch(p, h)
		case h.leads && theirs.Beats(mine):
			n.wake.fire()
		case !h.leads && h.route.IsZero() && behind(theirs, mine):
			n.touch(p, h) // nobody leads: who knows more passes it on
		case !h.leads && theirs.Last.Home() == h.pos.Slot && theirs.Last.Term() == mine.Last.Term() && behind(mine, theirs):
			h.unsure = true
		}
		if t.leads != had.leads || lineOf(theirs) != lineOf(&had.pos.Ledger) {
			delete(n.places, t.db)
			n.wake.fire()
		}
	}
}

// touch puts a database in line for a mate. Under mu.
func (n *Node) touch(p *peer, h *held) {
	p.reps[share(h.db, len(p.reps))].touch(h.db, h.queue)
}

// touchAll puts a database in line for every mate that has a replica.
func (n *Node) touchAll(db note.DatabaseID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, e := n.held[db], n.catalog.entries[db]
	if h == nil || e == nil {
		return
	}
	for _, r := range e.Replicas {
		if p := n.peers[r.Server]; p != nil {
			n.touch(p, h)
		}
	}
}

// reroute finds out where changes that nobody has numbered are to go: to the home, or, while none lives, to
// everybody. Where that has changed, what waits to be numbered goes there anew.
func (n *Node) reroute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, db := range n.heldIDs() {
		h := n.held[db]
		if h.leads {
			h.route = n.self
			continue
		}
		route := note.UNID{}
		if h.lost.IsZero() {
			route = n.homeOf(h)
		}
		if route == h.route {
			continue
		}
		h.route = route
		if e := n.catalog.entries[h.db]; e != nil {
			for _, r := range e.Replicas {
				if p := n.peers[r.Server]; p != nil && (route.IsZero() || route == r.Server) {
					n.touch(p, h)
				}
			}
		}
	}
}

// homeOf is the server that leads a database, as far as is known; zero where none does. Under mu.
func (n *Node) homeOf(h *held) note.UNID {
	if h.leads {
		return n.self
	}
	top, home := lineOf(&h.pos.Ledger), note.UNID{}
	for id, t := range h.told {
		if l := lineOf(&t.pos.Ledger); !l.before(top) && t.leads {
			if p := n.peers[id]; p != nil && p.alive {
				top, home = l, id
			}
		}
	}
	return home
}
