package cluster

import (
	"context"
	"errors"
	"fmt"

	"doublet/bus"
	"doublet/note"
)

// ErrNotMoved means that a move changed the order of a database's replicas, but not its primary.
var ErrNotMoved = errors.New("cluster: the primary of the database did not move")

// Move makes a server the primary of a database and puts it first in order, wherever the primary is now. Sessions that
// use the database move with it. The server changes the order in its own replica of the Cluster Database Directory
// before it becomes the primary. Otherwise the new primary would still see another server first in order, and would
// move the database there at the next open. After ErrNotMoved the primary moves at an open that finds the database
// unused.
func (p *Placement) Move(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	if e := p.catalogue.get(db); e != nil {
		if err := p.mayLead(e, to); err != nil {
			return err
		}
	}
	leads, err := p.order(ctx, db, to)
	if err != nil || leads {
		return err
	}
	if err := p.hand(ctx, db, to); err != nil {
		return fmt.Errorf("%w: %w; it moves to %s at an open that finds it unused", ErrNotMoved, err, p.name(to))
	}
	return nil
}

// mayLead returns an error for a server that cannot be the first in the order of a database.
func (p *Placement) mayLead(e *Entry, to note.UNID) error {
	if _, on := e.On(to); !on {
		return noReplica(p.name(to), e.ID)
	}
	if e.Queue && !e.Owner.IsZero() && e.Owner != to {
		return fmt.Errorf("database %s is the queue of %s and cannot move", e.ID, p.name(e.Owner))
	}
	return nil
}

// order makes a server put itself first in the order of a database. leads is true if the server already leads the
// database.
func (p *Placement) order(ctx context.Context, db note.DatabaseID, to note.UNID) (leads bool, err error) {
	if to != p.self {
		leads, err = p.askMove(ctx, to, db, to)
		if bus.Code(err) != bus.CodeNoVerb {
			return leads, err
		} // else it runs the previous version: change the order here
	}
	return to == p.self && p.leadsNow(db), p.orderHere(ctx, db, to)
}

// orderHere puts a server first in the order of a database, in the Cluster Database Directory of this server.
func (p *Placement) orderHere(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	return p.catalogue.edit(ctx, db, func(e *Entry) error {
		if err := p.mayLead(e, to); err != nil {
			return err
		}
		if e.Replicas[0].Server != to {
			e.first(to)
		}
		return nil
	})
}

// hand moves the primary of a database to a server that does not lead it: from here, or from the mate that leads it.
func (p *Placement) hand(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	if p.leadsNow(db) {
		return p.handOvers.HandOver(ctx, db, to)
	}
	p.places.forget(db) // it may be older than the last move
	home, err := p.opens.Where(ctx, db)
	if err == nil && (home.Self || home.Server == to) { // the server led the database already
		err = noHome(db)
	}
	if err == nil {
		_, err = p.askMove(ctx, home.Server, db, to)
	}
	if err != nil {
		p.doubt(db)
	}
	return err
}

// askMove asks a mate for its part of a move, and reports whether the mate leads the database afterwards. See
// answerMove.
func (p *Placement) askMove(
	ctx context.Context, mate note.UNID, db note.DatabaseID, to note.UNID,
) (leads bool, err error) {
	// The mate may wait for work in progress in the database.
	answer, err := p.askWithin(
		ctx, p.opt.Timeout+vacateWithin, mate, verbMove, appendPlaces([]place{{db: db, server: to}}))
	if err != nil {
		return false, err
	}
	list, err := readPlaces(answer)
	if err != nil || len(list) != 1 {
		return false, errFormat
	}
	return list[0].leads, nil
}

// answerMove does this server's part of a move that a mate makes. If this server is to become the primary, it puts
// itself first in order; otherwise it hands over the primary.
func (p *Placement) answerMove(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	list, err := readPlaces(body)
	if err != nil || len(list) != 1 {
		return nil, errFormat
	}
	if _, member := p.members.view().members[from]; !member {
		return nil, bus.Refuse(codeDenied, ErrNotMember.Error())
	}
	db, to := list[0].db, list[0].server
	if to == p.self {
		err = p.orderHere(ctx, db, to)
	} else {
		err = p.giveTo(ctx, db, to)
	}
	return appendPlaces([]place{{db: db, server: p.self, leads: p.leadsNow(db)}}), err
}

// giveTo hands over the primary of a database for a mate's move.
func (p *Placement) giveTo(ctx context.Context, db note.DatabaseID, to note.UNID) error {
	e := p.catalogue.get(db)
	if e == nil || !p.leadsNow(db) {
		return bus.Refuse(codeNotHome, noHome(db).Error())
	}
	if err := p.mayLead(e, to); err != nil {
		return err
	}
	err := p.handOvers.HandOver(ctx, db, to)
	if errors.Is(err, ErrBusy) {
		return bus.Refuse(codeBusy, err.Error())
	}
	return err
}
