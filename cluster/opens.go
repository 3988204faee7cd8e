package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// Place is the server that serves a database: this one, or one to which the session is forwarded.
type Place struct {
	Server note.UNID
	Self   bool
	Name   string
	// Direct is the address at which the server accepts streams of its mates.
	Direct string
}

// Opens determines the server that serves a database, and moves databases when they are opened.
type Opens struct {
	*core
	handOvers *HandOvers
}

// place returns the Place of a server.
func (o *Opens) place(server note.UNID) Place {
	m := o.members.view().members[server]
	return Place{Server: server, Self: server == o.self, Name: m.Name, Direct: m.Direct}
}

// Where returns the server that currently leads a database, or ErrNoHome if there is none.
func (o *Opens) Where(ctx context.Context, db note.DatabaseID) (Place, error) {
	v := o.members.view()
	if h := o.holdings.get(db); h != nil {
		primary := v.primary(h)
		if primary.IsZero() {
			return Place{}, noHome(db)
		}
		return o.place(primary), nil
	}
	if server, ok := o.places.get(db, v.now); ok {
		return o.place(server), nil
	}
	e := o.catalogue.get(db)
	if e == nil {
		if _, err := o.store.Info(db); err == nil {
			return o.place(o.self), nil // it is local to this server
		}
		return Place{}, fmt.Errorf("%w: database %s", store.ErrNotFound, db)
	}
	for _, server := range v.holders(e) {
		list, err := o.askPlaces(ctx, server, verbWhere, db)
		if err != nil || len(list) != 1 || list[0].server.IsZero() {
			continue
		}
		o.places.put(db, list[0].server, o.now().Add(placeFor))
		return o.place(list[0].server), nil
	}
	return Place{}, noHome(db)
}

func noHome(db note.DatabaseID) error { return fmt.Errorf("%w: %s", ErrNoHome, db) }

// askPlaces asks a mate for the servers of databases.
func (c *core) askPlaces(ctx context.Context, mate note.UNID, verb string, dbs ...note.DatabaseID) ([]place, error) {
	answer, err := c.ask(ctx, mate, verb, appendDatabases(dbs))
	if err != nil {
		return nil, err
	}
	return readPlaces(answer)
}

// Elsewhere reports whether a database that cannot be used here has replicas on other servers, or will get them. It
// will get them if no server has a replica yet and another server leads the directory.
func (o *Opens) Elsewhere(db note.DatabaseID) bool {
	v := o.members.view()
	return v.isElsewhere(o.catalogue.get(db), o.holdings.get(directory.ID))
}

// Silent reports that the server which is first in the order of preference of a database does not answer, and since
// when: the time of its last answer, zero if there was none since this server started. Other replicas may lack what it
// has changed since.
func (o *Opens) Silent(db note.DatabaseID) (since time.Time, silent bool) {
	return o.members.view().silent(o.catalogue.get(db))
}

// silent is Silent for the entry of a database, nil for one that the cluster does not have.
func (v view) silent(e *Entry) (since time.Time, silent bool) {
	if e == nil {
		return since, false
	}
	for _, r := range e.Replicas {
		if r.Server == v.self || v.alive(r.Server) {
			return since, false
		}
		if p := v.peers[r.Server]; p != nil && r.State != gone && r.Incarnation != 0 {
			return p.heard, true
		}
	}
	return since, false
}

// Known reports whether the cluster has a database, here or elsewhere.
func (o *Opens) Known(db note.DatabaseID) bool {
	e := o.catalogue.get(db)
	return e != nil && !e.Deleted
}

// Holders lists the live mates that have a replica of a database, in order of preference. If no server has one yet, it
// returns the server that leads the directory.
func (o *Opens) Holders(db note.DatabaseID) []note.UNID {
	v := o.members.view()
	if e := o.catalogue.get(db); e != nil {
		return v.holders(e)
	}
	d := o.holdings.get(directory.ID)
	if d == nil {
		return nil
	}
	if primary := v.primary(d); !primary.IsZero() && primary != o.self {
		return []note.UNID{primary}
	}
	return nil
}

// doubt discards the cached primary of a database, because that server does not lead the database. All mates must
// report again.
func (c *core) doubt(db note.DatabaseID) {
	c.places.forget(db)
	c.holdings.update(db, func(h *held) {
		for mate, r := range h.reports {
			r.at = time.Time{}
			h.heard(mate, r)
		}
	})
	c.wake.fire()
}

// answerWhere returns the primaries of local databases to a mate.
func (o *Opens) answerWhere(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil {
		return nil, err
	}
	v := o.members.view()
	out := make([]place, len(dbs))
	for i, db := range dbs {
		out[i].db = db
		if h := o.holdings.get(db); h != nil {
			out[i].server, out[i].leads = v.primary(h), h.leads
		}
	}
	return appendPlaces(out), nil
}

// Open is called by a door before it opens a database for a user. It returns the server that serves the user. That is
// the primary, unless the primary should not serve (busy, full, no room, restricted, not the first in order) and no
// user has the database open. In that case the database first moves to a replica that can serve.
func (o *Opens) Open(ctx context.Context, db note.DatabaseID) (Place, error) {
	o.stat.opens.Inc()
	p, err := o.Where(ctx, db)
	if err == nil && !p.Self {
		p, err = o.openThere(ctx, db, p)
	} else if err == nil {
		p, err = o.openHere(ctx, db)
	}
	o.countOpen(db, p, err)
	return p, err
}

// openThere asks the primary, which may have a reason to move the database.
func (o *Opens) openThere(ctx context.Context, db note.DatabaseID, p Place) (Place, error) {
	answer, err := o.ask(ctx, p.Server, verbOpen, appendDatabases([]note.DatabaseID{db}))
	if err != nil {
		o.doubt(db)
		return Place{}, errors.Join(ErrNoHome, err)
	}
	list, err := readPlaces(answer)
	if err != nil || len(list) != 1 {
		return Place{}, errFormat
	}
	if list[0].server.IsZero() {
		o.doubt(db)
		return Place{}, noHome(db)
	}
	return o.place(list[0].server), nil
}

// answerOpen answers an Open at another server.
func (o *Opens) answerOpen(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil || len(dbs) != 1 {
		return nil, errFormat
	}
	out := place{db: dbs[0]}
	p, err := o.Where(ctx, dbs[0])
	if err == nil && p.Self {
		p, err = o.openHere(ctx, dbs[0])
	}
	if err == nil {
		out.server, out.leads = p.Server, true
	} else if !errors.Is(err, ErrNoHome) {
		return nil, err
	}
	return appendPlaces([]place{out}), nil
}

// why is the reason for moving a database at an open.
type why uint8

const (
	notMoved why = iota
	balanced     // the server is busy
	closed       // the server accepts no users or has no space, or the replica is out of service
	returned     // the first server of its order is back
)

// openWithin limits the hand-over of a database at an open, because the person who opens it waits.
const openWithin = 3 * time.Second

// closedPause is the time between two attempts to move a database that must not be opened here.
const closedPause = time.Second

var errLongOpen = fmt.Errorf("%w: the mate lacks more than can be transferred in %v", ErrBusy, openWithin)

// openHere handles an open at the primary.
func (o *Opens) openHere(ctx context.Context, db note.DatabaseID) (Place, error) {
	self := o.place(o.self)
	to, reason, must := o.better(ctx, db)
	if reason == notMoved {
		return self, nil
	}
	if !to.IsZero() {
		within, cancel := o.within(ctx, openWithin, errLongOpen)
		err := o.handOvers.HandOver(within, db, to)
		cancel()
		if err != nil && errors.Is(context.Cause(within), errLongOpen) {
			err = errLongOpen
		}
		if err == nil {
			o.stat.redirected(reason)
			return o.place(to), nil
		}
		if !errors.Is(err, ErrBusy) || errors.Is(err, errLongOpen) { // else another open may be moving it
			pause := homewardPause
			if must { // until then nobody can open it
				pause = closedPause
			}
			o.holdings.update(db, func(h *held) { h.stays = o.now().Add(pause) })
		}
		o.log(slog.LevelWarn, "cannot move database at an open",
			"database", db.String(), "to", o.name(to), "err", err)
	}
	if reason == balanced {
		o.stat.unbalanced.Inc()
	}
	if p, err := o.Where(ctx, db); err == nil && !p.Self {
		return p, nil
	}
	if must {
		return Place{}, fmt.Errorf("%w: %s accepts no users and no other server can", ErrNoHome, self.Name)
	}
	if !o.leadsNow(db) {
		return Place{}, noHome(db)
	}
	return self, nil
}

// better returns the server that should take over a database that is led here and that no user has open, and the
// reason. must means that the database must not be opened here.
func (o *Opens) better(ctx context.Context, db note.DatabaseID) (to note.UNID, reason why, must bool) {
	h, e, v := o.holdings.get(db), o.catalogue.get(db), o.members.view()
	if h == nil || e == nil || !h.leads {
		return to, notMoved, false
	}
	me := o.members.hello(note.UNID{})
	if reason, must = v.whyMove(e, &me); reason == notMoved {
		return to, notMoved, false
	}
	if !h.inUse() && !h.stays.After(v.now) {
		to = v.taker(o.fresh(ctx, h), e, reason, must)
	}
	if h.inUse() || to.IsZero() && reason == returned { // running sessions stay
		return note.UNID{}, notMoved, must
	}
	return to, reason, must
}

// fresh returns the record of a database with its current position, or h if that cannot be read.
func (o *Opens) fresh(ctx context.Context, h *held) *held {
	if _, err := o.holdings.refresh(ctx, h.db); err != nil {
		return h
	}
	if now := o.holdings.get(h.db); now != nil {
		return now
	}
	return h
}

// whyMove returns the reason for moving a database that this server leads. me is the hello of this server.
func (v view) whyMove(e *Entry, me *hello) (reason why, must bool) {
	mine, _ := e.On(v.self)
	switch {
	case mine.State == Deleting: // it leads and serves until another replica has all its data
		return closed, false
	case mine.State != Serving, me.restricted, me.full:
		return closed, true
	case v.members[v.self].State == Leaving, me.noRoom: // a full disk can be read, but not written
		return closed, false
	case me.busy():
		return balanced, false
	case !v.opt.LeaveHome && len(e.Replicas) > 1 && e.Replicas[0].Server != v.self:
		return returned, false
	}
	return notMoved, false
}

// canTake reports whether a mate can lead a replica and takes more users.
func (v view) canTake(h *held, r Replica, must bool) bool {
	p, x := v.peers[r.Server], h.reports[r.Server]
	return p != nil && p.alive && r.State == Serving && v.members[r.Server].State == Active && p.hello.takesUsers() &&
		!x.out && !x.filling() && (must || h.upToDate(r.Server))
}

// taker returns the mate that should take over a database, zero if none can. For the reason returned, taker considers
// only the first server in order; otherwise it chooses the mate with the best availability index. A mate that lacks
// changes is chosen only if must is set, because the person who opens the database would wait for the transfer.
func (v view) taker(h *held, e *Entry, reason why, must bool) (to note.UNID) {
	best := -1
	for i, r := range e.Replicas {
		if !v.canTake(h, r, must) {
			continue
		}
		if reason == returned {
			if i == 0 && !h.reports[r.Server].at.IsZero() {
				to = r.Server
			}
			return to
		}
		p := v.peers[r.Server]
		if int(p.hello.index) > best {
			best, to = int(p.hello.index), r.Server
		}
	}
	return to
}

// countOpen counts opens that the first server in the order of preference did not serve.
func (o *Opens) countOpen(db note.DatabaseID, p Place, err error) {
	var first note.UNID
	if e := o.catalogue.get(db); e != nil && len(e.Replicas) > 0 {
		first = e.Replicas[0].Server
	}
	switch {
	case errors.Is(err, ErrNoHome):
		o.stat.failoverBad.Inc()
	case err == nil && !first.IsZero() && first != p.Server:
		o.stat.failover.Inc()
	}
}

// Use registers a user of a database on this server. The database does not move until release is called.
func (o *Opens) Use(db note.DatabaseID) (release func()) {
	h := o.holdings.get(db)
	if h == nil {
		return func() {}
	}
	h.users.Add(1)
	return func() { h.users.Add(-1) }
}

// placeFor is the lifetime of an answer about a database elsewhere. maxPlaces is the maximum number of cached answers.
const (
	placeFor  = 5 * time.Second
	maxPlaces = 100_000
)

// placeCache caches the answers of mates about databases without a local replica.
type placeCache struct {
	mu sync.Mutex
	by map[note.DatabaseID]cachedPlace
}

type cachedPlace struct {
	server note.UNID
	until  time.Time
}

func (c *placeCache) get(db note.DatabaseID, now time.Time) (server note.UNID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.by[db]
	return p.server, ok && now.Before(p.until)
}

func (c *placeCache) put(db note.DatabaseID, server note.UNID, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxPlaces {
		c.by = map[note.DatabaseID]cachedPlace{}
	}
	c.by[db] = cachedPlace{server, until}
}

func (c *placeCache) forget(db note.DatabaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, db)
}
