package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Place is where a database is served: by this server, or by one to which the session is forwarded.
type Place struct {
	Server note.UNID
	Self   bool
	Name   string
	// Direct is where the server takes streams of its mates.
	Direct string
}

// cachedPlace is what a mate said of a database that is not here.
type cachedPlace struct {
	server note.UNID
	until  time.Time
}

// placeFor is how long an answer about a database elsewhere is believed, maxPlaces how many are kept.
const (
	placeFor  = 5 * time.Second
	maxPlaces = 100_000
)

// place makes a Place of a server.
func (n *Node) place(server note.UNID) Place {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.members[server]
	return Place{Server: server, Self: server == n.self, Name: m.Name, Direct: m.Direct}
}

// Where says which server leads a database now. ErrNoHome: none, for the moment.
func (n *Node) Where(ctx context.Context, db note.DatabaseID) (Place, error) {
	n.mu.Lock()
	h, e := n.held[db], n.catalog.entries[db]
	if h != nil {
		home := n.homeOf(h)
		n.mu.Unlock()
		if home.IsZero() {
			return Place{}, fmt.Errorf("%w: %s", ErrNoHome, db)
		}
		return n.place(home), nil
	}
	if c, ok := n.places[db]; ok && n.now().Before(c.until) {
		n.mu.Unlock()
		return n.place(c.server), nil
	}
	n.mu.Unlock()
	if e == nil {
		if _, err := n.store.Info(db); err == nil {
			return n.place(n.self), nil // this server's alone
		}
		return Place{}, fmt.Errorf("%w: database %s", store.ErrNotFound, db)
	}
	for _, server := range n.alive(e) {
		answer, err := n.ask(ctx, server, verbWhere, appendDatabases([]note.DatabaseID{db}))
		if err != nil {
			continue
		}
		list, err := readPlaces(answer)
		if err != nil || len(list) != 1 || list[0].server.IsZero() {
			continue
		}
		n.mu.Lock()
		if len(n.places) >= maxPlaces {
			clear(n.places)
		}
		n.places[db] = cachedPlace{list[0].server, n.now().Add(placeFor)}
		n.mu.Unlock()
		return n.place(list[0].server), nil
	}
	return Place{}, fmt.Errorf("%w: %s", ErrNoHome, db)
}

// Elsewhere says of a database that cannot be used here that it is, or will be made, at others: they have replicas, or
// nobody has one yet and another server leads the directory.
func (n *Node) Elsewhere(db note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.catalog.entries[db]; e != nil {
		return !e.Deleted && slices.ContainsFunc(e.Replicas, func(r Replica) bool { return r.Server != n.self })
	}
	d := n.held[directory.ID]
	return d == nil || d.shared && !d.leads
}

// Known says that the cluster has a database, here or elsewhere.
func (n *Node) Known(db note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.catalog.entries[db]
	return e != nil && !e.Deleted
}

// Holders lists the mates that live and have a replica of a database, in order of preference. Where nobody has one
// yet it is the server that leads the directory.
func (n *Node) Holders(db note.DatabaseID) []note.UNID {
	n.mu.Lock()
	e, d := n.catalog.entries[db], n.held[directory.ID]
	home := note.UNID{}
	if d != nil {
		home = n.homeOf(d)
	}
	n.mu.Unlock()
	if e != nil {
		return n.alive(e)
	}
	if home.IsZero() || home == n.self {
		return nil
	}
	return []note.UNID{home}
}

// Suspect forgets where a database was said to be: who was asked there says that it is not home.
func (n *Node) Suspect(db note.DatabaseID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.places, db)
	if h := n.held[db]; h != nil {
		for id, t := range h.told {
			t.at = time.Time{}
			h.told[id] = t
		}
	}
	n.wake.fire()
}

// answerWhere says of databases that are here who leads them.
func (n *Node) answerWhere(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]place, len(dbs))
	for i, db := range dbs {
		out[i].db = db
		if h := n.held[db]; h != nil {
			out[i].server, out[i].leads = n.homeOf(h), h.leads
		}
	}
	return appendPlaces(out), nil
}

// Open is asked by a door before it opens a database for a user. It says where the user is served: by the
// home, unless that is busy, full, without room, restricted, or not where the database belongs, nobody has the database
// open, and another replica can take it; then the database moves first.
func (n *Node) Open(ctx context.Context, db note.DatabaseID) (Place, error) {
	n.stat.opens.Inc()
	p, err := n.Where(ctx, db)
	if err == nil && !p.Self {
		p, err = n.openThere(ctx, db, p)
	} else if err == nil {
		p, err = n.openHere(ctx, db)
	}
	n.countOpen(db, p, err)
	return p, err
}

// openThere asks the home, which may have reason to move the database.
func (n *Node) openThere(ctx context.Context, db note.DatabaseID, p Place) (Place, error) {
	answer, err := n.ask(ctx, p.Server, verbOpen, appendDatabases([]note.DatabaseID{db}))
	if err != nil {
		n.Suspect(db)
		return Place{}, errors.Join(ErrNoHome, err)
	}
	list, err := readPlaces(answer)
	if err != nil || len(list) != 1 {
		return Place{}, errFormat
	}
	if list[0].server.IsZero() {
		n.Suspect(db)
		return Place{}, fmt.Errorf("%w: %s", ErrNoHome, db)
	}
	return n.place(list[0].server), nil
}

// answerOpen answers a door of another server.
func (n *Node) answerOpen(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil || len(dbs) != 1 {
		return nil, errFormat
	}
	out := place{db: dbs[0]}
	p, err := n.Where(ctx, dbs[0])
	if err == nil && p.Self {
		p, err = n.openHere(ctx, dbs[0])
	}
	if err == nil {
		out.server, out.leads = p.Server, true
	} else if !errors.Is(err, ErrNoHome) {
		return nil, err
	}
	return appendPlaces([]place{out}), nil
}

// why a database is moved at an open.
type why uint8

const (
	notMoved why = iota
	balanced     // the server is busy
	closed       // the server takes no users or has no room, or the replica is out of service
	returned     // its own server is back
)

// openHere decides at the home.
func (n *Node) openHere(ctx context.Context, db note.DatabaseID) (Place, error) {
	self := n.place(n.self)
	to, reason, must := n.better(db)
	if reason == notMoved {
		return self, nil
	}
	if !to.IsZero() {
		err := n.HandOver(ctx, db, to)
		if err == nil {
			n.stat.redirected(reason)
			return n.place(to), nil
		}
		n.log(slog.LevelWarn, "a database could not be moved at an open", "database", db.String(), "to", n.name(to), "err", err)
	}
	if reason == balanced {
		n.stat.unbalanced.Inc()
	}
	if p, err := n.Where(ctx, db); err == nil && !p.Self {
		return p, nil
	}
	if must {
		return Place{}, fmt.Errorf("%w: %s takes no users, and no other server can", ErrNoHome, self.Name)
	}
	if !n.leadsNow(db) {
		return Place{}, fmt.Errorf("%w: %s", ErrNoHome, db)
	}
	return self, nil
}

func (n *Node) leadsNow(db note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	return h != nil && h.leads
}

// better finds the server that should take a database that is led here and that nobody has open, and why.
// must: it may not be opened here.
func (n *Node) better(db note.DatabaseID) (to note.UNID, reason why, must bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, e, me := n.held[db], n.catalog.entries[db], n.members[n.self]
	if h == nil || e == nil || !h.leads {
		return to, notMoved, false
	}
	mine, _ := e.On(n.self)
	mate := n.hello(nil)
	switch {
	case mine.State == Deleting: // it leads only while no other has all that it has: until then it serves
		reason = closed
	case mine.State != Serving:
		reason, must = closed, true
	case me.Restricted || mate.full:
		reason, must = closed, true
	case me.State == Leaving, mate.noRoom: // with a full disk it could be read here, and not more
		reason = closed
	case mate.busy():
		reason = balanced
	case !n.opt.LeaveHome && len(e.Replicas) > 1 && e.Replicas[0].Server != n.self:
		reason = returned
	}
	if reason == notMoved {
		return to, notMoved, false
	}
	best := -1
	for i, r := range e.Replicas {
		p := n.peers[r.Server]
		t := h.told[r.Server]
		if p == nil || !p.alive || r.State != Serving || n.members[r.Server].State != Active || !p.hello.takesUsers() || t.out || t.filling() {
			continue
		}
		if reason == returned {
			if i == 0 && !t.at.IsZero() {
				to = r.Server
			}
			break
		}
		if int(p.hello.index) > best {
			best, to = int(p.hello.index), r.Server
		}
	}
	if h.uses > 0 { // running sessions stay
		return note.UNID{}, notMoved, must
	}
	if to.IsZero() && reason == returned {
		return to, notMoved, false
	}
	return to, reason, must
}

// filling says of a replica that it has not been whole yet: who opens the database would wait for all of it.
func (t *toldAt) filling() bool {
	return t.missing || !t.at.IsZero() && (t.pos.Last == 0 || t.pos.Partial)
}

// countOpen counts opens that did not come to the server where the database belongs.
func (n *Node) countOpen(db note.DatabaseID, p Place, err error) {
	n.mu.Lock()
	e := n.catalog.entries[db]
	var first note.UNID
	if e != nil && len(e.Replicas) > 0 {
		first = e.Replicas[0].Server
	}
	n.mu.Unlock()
	switch {
	case errors.Is(err, ErrNoHome):
		n.stat.failoverBad.Inc()
	case err == nil && !first.IsZero() && first != p.Server:
		n.stat.failover.Inc()
	}
}

// Use says that somebody has a database open here, until release is called: it is not moved meanwhile.
func (n *Node) Use(db note.DatabaseID) (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	if h == nil {
		return func() {}
	}
	h.uses++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		h.uses--
	}
}

// HandOver makes another server the home of a database that is led here: what was numbered here is there
// first, and it goes on where we stop. Where that fails we lead on, or, if it is not known whether the
// other leads, nobody does until that is.
func (n *Node) HandOver(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	within, cancel := context.WithTimeout(ctx, vacateWithin)
	resume, err := n.opt.Vacate(within, db)
	cancel()
	if err != nil {
		return err
	}
	defer resume()
	if !n.take(db) {
		return ErrBusy
	}
	err = n.handOver(ctx, db, to)
	_, err2 := n.stood(ctx, db)
	n.release(db)
	n.wake.fire()
	return errors.Join(err, err2)
}

func (n *Node) handOver(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	if !n.leadsNow(db) {
		return store.ErrNotHome
	}
	bring := func() error {
		if !n.mayFollow(ctx, db) {
			return fmt.Errorf("%w: what left the queue has not reached every mate", ErrBusy)
		}
		_, err := replica.Send(ctx, n.reps.As(note.System), n.remote(to), db, replica.SendOptions{From: n.name(n.self), To: n.name(to)})
		n.reps.Done(err)
		return err
	}
	if err := bring(); err != nil { // while we still lead, so that the pause is short
		return err
	}
	if err := n.store.Follow(ctx, db); err != nil {
		return err
	}
	pos, err := n.stood(ctx, db)
	if err == nil {
		err = bring()
	}
	var answer []byte
	if err == nil {
		answer, err = n.ask(ctx, to, verbLead, appendRequest(&request{db: db, pos: pos, boot: n.boot}))
		if errors.Is(err, errMate) {
			n.Suspect(db)
			return err // it may lead, or not: Decide finds out
		}
	}
	if err != nil {
		return errors.Join(err, n.store.Lead(ctx, db, store.LeadOptions{}))
	}
	r, err := begin(answer)
	if err != nil {
		return err
	}
	theirs := r.position()
	if err := r.end(); err != nil {
		return err
	}
	n.stat.handOvers.Inc()
	n.mu.Lock()
	if h := n.held[db]; h != nil {
		h.told[to] = toldAt{told: told{db: db, leads: true, slot: theirs.Slot, pos: theirs}, at: n.now(), good: theirs}
		h.lost = time.Time{}
	}
	n.mu.Unlock()
	n.log(slog.LevelInfo, "home handed over", "database", db.String(), "to", n.name(to))
	return nil
}

// Move makes a server the home of a database and puts it first in its order, wherever it is led now.
func (n *Node) Move(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	err := n.edit(ctx, db, func(e *Entry) error {
		if _, on := e.On(to); !on {
			return fmt.Errorf("%w: %s has no replica of database %s", store.ErrNotFound, n.name(to), db)
		}
		if e.Queue && !e.Owner.IsZero() && e.Owner != to {
			return fmt.Errorf("database %s is the queue of %s: its home stays there", db, n.name(e.Owner))
		}
		first := e.Replicas[0].Order
		e.set(to, func(r *Replica) { r.Order = first - 1 })
		return nil
	})
	if err != nil {
		return err
	}
	if to == n.self || !n.leadsNow(db) {
		return nil // its home moves it at the next open
	}
	return n.HandOver(ctx, db, to)
}

// SetReplica changes the state of a server's replica of a database.
func (n *Node) SetReplica(ctx context.Context, db note.DatabaseID, server note.UNID, state ReplicaState) error {
	return n.edit(ctx, db, func(e *Entry) error {
		r, on := e.On(server)
		switch {
		case !on:
			return fmt.Errorf("%w: %s has no replica of database %s", store.ErrNotFound, n.name(server), db)
		case r.State == Deleting && state != Deleting:
			return fmt.Errorf("database %s: what is pending delete is not brought back", db)
		case state != Serving && state != Out && state != Deleting:
			return fmt.Errorf("no state %q", state)
		}
		e.set(server, func(r *Replica) { r.State = state })
		return nil
	})
}

// Remove removes a database everywhere, for ever.
func (n *Node) Remove(ctx context.Context, db note.DatabaseID) error {
	return n.edit(ctx, db, func(e *Entry) error {
		e.Deleted = true
		return nil
	})
}
