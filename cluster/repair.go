package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"doublet/bus"
	"doublet/note"
	"doublet/store/layout"
)

// Repairs restores replicas that were lost, set back or damaged, with the help of their primaries.
type Repairs struct {
	*core
	replication *replication
}

// damaged is the prefix of the reason with which the store takes an unreadable database out of service.
const damaged = "damaged"

// requestTerm asks the primary of databases, all with the same replicas, to begin new terms. Numbers assigned by the
// local replica may have been lost or set back with a disk; they must not be assigned again.
func (r *Repairs) requestTerm(ctx context.Context, e *Entry, dbs []note.DatabaseID) error {
	err := fmt.Errorf("%w: no live member has it", ErrNoHome)
	v := r.members.view()
	for _, server := range v.holders(e) {
		if _, err = r.ask(ctx, server, verbFresh, appendDatabases(dbs)); err == nil {
			return nil
		}
	}
	return err
}

// answerFresh handles requestTerm at the primary.
func (r *Repairs) answerFresh(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil {
		return nil, err
	}
	p := r.members.view().peers[from]
	if p == nil || p.hello.incarnation == 0 {
		return nil, bus.Refuse(codeLater, "no hello from this server yet")
	}
	for _, db := range dbs {
		if err := r.mayReplicate(from, db); err != nil {
			return nil, err
		}
		if !r.leadsNow(db) {
			return nil, bus.Refuse(codeNotHome, ErrNoHome.Error())
		}
		if err := r.outlive(ctx, db, from, p.hello.incarnation); err != nil {
			return nil, err
		}
	}
	if err := r.catalogue.noteIncarnation(ctx, from, p.hello.incarnation, dbs); err != nil {
		return nil, err
	}
	return []byte{Version}, nil
}

// outlive advances our counters past anything that the lost replica of a mate may have assigned as primary after its
// last known position. Changes numbered here since then are numbered again if they are below that. It runs only once
// per incarnation of the mate, because each run costs two terms and millions of UIDs.
func (r *Repairs) outlive(ctx context.Context, db note.DatabaseID, mate note.UNID, incarnation uint64) error {
	before, err := r.holdings.refresh(ctx, db)
	if err != nil {
		return err
	}
	h := r.holdings.get(db)
	x, on := r.catalogue.get(db).on(mate)
	if h == nil || !on {
		return errLater
	}
	if h.outlived[mate] == incarnation {
		return nil
	}
	from, err := r.lastKnown(ctx, h, x)
	if err != nil {
		return err
	}
	if err := r.newTerms(ctx, db, termsBetween); err != nil {
		return err
	}
	if err := r.store.Heal(ctx, db, ghost(&from, &before, x.Slot, true)); err != nil {
		return err
	}
	r.holdings.update(db, func(h *held) { h.outlived = with(h.outlived, mate, incarnation) })
	r.touchAll(db)
	_, err = r.holdings.refresh(ctx, db)
	return err
}

// clear ends the suspicion of suspect replicas: their primaries begin new terms.
func (r *Repairs) clear(ctx context.Context) error {
	v := r.members.view()
	var led []note.DatabaseID
	by := map[note.UNID][]note.DatabaseID{}
	for h := range r.holdings.all() {
		switch {
		case !h.suspect || h.busy:
		case h.leads:
			led = append(led, h.db)
		default:
			if p := v.primary(h); !p.IsZero() && len(by[p]) < maxPositions {
				by[p] = append(by[p], h.db)
			}
		}
	}
	var errs []error
	if len(led) > 0 { // a replica that leads here has begun its own term since
		errs = append(errs, r.catalogue.noteIncarnation(ctx, r.self, r.store.Incarnation(), led))
	}
	for _, p := range v.mates {
		if len(by[p]) == 0 {
			continue
		}
		_, err := r.ask(ctx, p, verbFresh, appendDatabases(by[p]))
		if err != nil && !errors.Is(err, errMate) && !errors.Is(err, bus.ErrRefused) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Repair finds databases that the store cannot read and replaces each by a copy from a mate. The readable parts are
// sent to the mate first. It returns the number of databases whose repair it started.
func (r *Repairs) Repair(ctx context.Context) (int, error) {
	var list []layout.Info
	err := r.store.Infos(func(i *layout.Info) {
		if i.State == layout.OutOfService && strings.HasPrefix(i.Reason, damaged) && r.clustered(i) {
			list = append(list, *i)
		}
	})
	done := 0
	errs := []error{err}
	for i := range list {
		ok, err := r.repairOne(ctx, list[i].ID)
		if err != nil {
			errs = append(errs, fmt.Errorf("repair database %s: %w", list[i].ID, err))
		}
		if ok {
			done++
		}
	}
	return done, errors.Join(errs...)
}

// repairOne replaces a damaged replica. Another server must be primary, so that only unnumbered changes have to be
// saved.
func (r *Repairs) repairOne(ctx context.Context, db note.DatabaseID) (bool, error) {
	h, e, v := r.holdings.get(db), r.catalogue.get(db), r.members.view()
	if h == nil || e == nil || h.leads {
		return false, nil
	}
	primary := v.primary(h)
	if primary.IsZero() || !r.holdings.take(db) {
		return false, nil
	}
	defer r.holdings.release(db)
	if err := r.salvage(ctx, db, primary); err != nil {
		return false, err
	}
	if err := r.requestTerm(ctx, e, []note.DatabaseID{db}); err != nil {
		return false, err
	}
	if err := r.store.RemoveDatabase(note.System, db); err != nil {
		return false, err
	}
	r.holdings.drop(db)
	r.recount.Store(true)
	r.log(slog.LevelWarn, "replacing a damaged database from a mate",
		"database", db.String(), "from", v.name(primary))
	r.wake.fire()
	return true, nil
}

// salvage sends the readable unnumbered changes to the primary. Damaged parts are lost; that is logged and does not
// stop the rest.
func (r *Repairs) salvage(ctx context.Context, db note.DatabaseID, primary note.UNID) error {
	state := func(s layout.DatabaseState) error {
		return r.store.SetInfo(note.System, db, func(i *layout.Info) { i.State = s })
	}
	if err := state(layout.PendingDelete); err != nil { // in this state the server itself may read it
		return err
	}
	res, err := r.replication.push(ctx, primary, db, 0)
	if back := state(layout.OutOfService); back != nil {
		return back
	}
	if errors.Is(err, bus.ErrNoServer) || errors.Is(err, bus.ErrNoAnswer) {
		return err
	}
	if err != nil || len(res.Refused) > 0 {
		r.log(slog.LevelError, "cannot read parts of a damaged database",
			"database", db.String(), "notes", len(res.Refused), "err", err)
	}
	return nil
}
