package cluster

import (
	"context"
	"log/slog"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// positions exchanges the positions of replicas with mates.
type positions struct{ *core }

// freshFor is the time for which a report on a database without a primary is valid.
const freshFor = 2 * time.Second

// checkEvery is the time after which a report that a mate leads must be renewed, even if nothing contradicts it.
const checkEvery = time.Minute

// maxReportBytes is the approximate maximum size of the reports in one request.
const maxReportBytes = 128 << 10

// exchangeAll exchanges the positions of some databases with every live mate.
func (p *positions) exchangeAll(ctx context.Context, dbs []note.DatabaseID) {
	v := p.members.view()
	for _, mate := range v.mates {
		var list []note.DatabaseID
		for _, db := range dbs {
			if _, on := p.catalogue.get(db).on(mate); on && v.alive(mate) {
				list = append(list, db)
			}
		}
		if err := p.exchange(ctx, mate, list); err != nil {
			p.log(slog.LevelDebug, "exchange positions", "mate", v.name(mate), "err", err)
		}
	}
}

// exchange sends our positions of some databases to a mate and stores the positions in its answer.
func (p *positions) exchange(ctx context.Context, mate note.UNID, dbs []note.DatabaseID) error {
	for len(dbs) > 0 {
		list, size := []report{}, 0
		for _, db := range dbs {
			r := p.report(ctx, db)
			size += 30 + 10*len(r.pos.Ended)
			list = append(list, r)
			if len(list) >= maxPositions || size >= maxReportBytes {
				break
			}
		}
		dbs = dbs[len(list):]
		answer, err := p.ask(ctx, mate, verbPositions, appendReports(list))
		if err != nil {
			return err
		}
		theirs, err := readReports(answer)
		if err != nil {
			return err
		}
		p.take(mate, theirs)
	}
	return nil
}

// answer handles an exchange.
func (p *positions) answer(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	theirs, err := readReports(body)
	if err != nil {
		return nil, err
	}
	out := make([]report, 0, len(theirs))
	for i := range theirs {
		if db := theirs[i].db; p.mayReplicate(from, db) != nil {
			out = append(out, report{db: db, missing: true})
		} else {
			out = append(out, p.report(ctx, db))
		}
	}
	p.take(from, theirs)
	return appendReports(out), nil
}

// report returns the local position of a database.
func (p *positions) report(ctx context.Context, db note.DatabaseID) report {
	h := p.holdings.get(db)
	if h != nil && h.leads && h.shared && !h.busy {
		if _, err := p.holdings.refresh(ctx, db); err != nil { // every change moves the position
			return report{db: db, out: true}
		}
		h = p.holdings.get(db)
	}
	if h == nil {
		return report{db: db, missing: true}
	}
	return report{db: db, out: h.out, suspect: h.suspect, leads: h.leads, slot: h.pos.Slot, pos: h.pos}
}

// take stores the reports of a mate and acts on them.
func (p *positions) take(mate note.UNID, list []report) {
	if p.members.view().peers[mate] == nil {
		return
	}
	for i := range list {
		r := &list[i]
		var had reported
		p.holdings.update(r.db, func(h *held) {
			had = h.reports[mate]
			next := reported{report: *r, at: p.now(), good: had.good}
			if !r.missing && !r.suspect {
				next.good = r.pos
			}
			h.heard(mate, next)
			mine, theirs := &h.pos.Ledger, &r.pos.Ledger
			if !r.missing && !h.leads && theirs.Last.Home() == h.pos.Slot &&
				theirs.Last.Term() == mine.Last.Term() && behind(mine, theirs) {
				h.lostNumbers = true
			}
		})
		if h := p.holdings.get(r.db); h != nil {
			p.follow(mate, h, r, &had)
		}
	}
}

// follow acts on a report: a replica that is behind is sent the rest, and a change of the primary triggers a Decide.
func (p *positions) follow(mate note.UNID, h *held, r *report, had *reported) {
	mine, theirs := &h.pos.Ledger, &r.pos.Ledger
	switch {
	case r.missing:
	case h.leads && (mine.Beats(theirs) || behind(theirs, mine)):
		p.touch(mate, h)
	case h.leads && theirs.Beats(mine):
		p.wake.fire()
	case !h.leads && h.route.IsZero() && behind(theirs, mine):
		p.touch(mate, h) // there is no primary: the replica that has more sends it
	}
	if r.leads != had.leads || lineOf(theirs) != lineOf(&had.pos.Ledger) {
		p.places.forget(r.db)
		p.wake.fire()
	}
}

// dictated updates the local position after a ledger page arrived from a mate.
func (p *positions) dictated(from note.UNID, db note.DatabaseID, page *replica.LedgerPage, pos store.Position) {
	r, on := p.catalogue.get(db).on(from)
	of := &page.Of
	// A mate that sends its own numbers is primary.
	leads := on && of.Last.Home() == r.Slot && of.Slot == r.Slot && !of.Away
	news := false
	p.holdings.update(db, func(h *held) {
		if !h.leads && !h.busy {
			h.pos = pos
		}
		if !leads {
			return
		}
		had := h.reports[from]
		news = !had.leads || lineOf(&had.pos.Ledger).before(lineOf(&of.Ledger))
		h.heard(from, reported{report: report{db: db, leads: true, slot: r.Slot, pos: *of}, at: p.now(), good: *of})
	})
	if news {
		p.wake.fire()
	}
}

// reached records that a following mate has everything up to a position.
func (p *positions) reached(mate note.UNID, db note.DatabaseID, pos *store.Position) {
	p.holdings.update(db, func(h *held) {
		r, ok := h.reports[mate]
		if ok && !r.missing && !r.leads && behind(&r.pos.Ledger, &pos.Ledger) {
			slot := r.pos.Slot
			r.pos, r.good = *pos, *pos
			r.pos.Slot, r.good.Slot = slot, slot
			h.heard(mate, r)
		}
	})
}
