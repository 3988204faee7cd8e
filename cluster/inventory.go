package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// inventory keeps three lists in line: the documents of the catalogue, the databases in the store here, and
// the holdings. It makes replicas that are missing, and documents for databases that have none.
type inventory struct {
	*core
	repairs *Repairs
}

// Found makes the Cluster Database Directory in the store of the first server of a cluster.
func Found(s *store.Store) error {
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Cluster Database Directory", Kind: Kind})
	if errors.Is(err, store.ErrExists) {
		err = nil
	}
	return err
}

// join asks the members for the documents of the two directories as long as this server lacks them. With those
// databases everything else arrives.
func (i *inventory) join(ctx context.Context) error {
	if !i.lacksDirectories() || i.founder(ctx) {
		return nil
	}
	v := i.members.view()
	for _, id := range v.mates {
		if !v.alive(id) {
			continue
		}
		answer, err := i.ask(ctx, id, verbJoin, []byte{Version})
		if err != nil {
			continue // the next mate, or the next time
		}
		list, err := readEntries(answer)
		if err != nil {
			return err
		}
		for _, e := range list {
			if _, on := i.catalogue.get(e.ID).on(i.self); isDirectory(e.ID) && !on {
				i.catalogue.learn(e)
			}
		}
		if !i.lacksDirectories() {
			break
		}
	}
	return nil
}

func (i *inventory) lacksDirectories() bool {
	for _, db := range []note.DatabaseID{ID, directory.ID} {
		if _, on := i.catalogue.get(db).on(i.self); !on {
			return true
		}
	}
	return i.holdings.get(ID) == nil
}

// founder reports whether the Cluster Database Directory here is the first one, and not one to be filled.
func (i *inventory) founder(ctx context.Context) bool {
	pos, err := i.holdings.position(ctx, ID)
	return err == nil && !pos.Shared
}

// answerJoin tells a member the documents of the two directories, once it has a replica of them.
func (i *inventory) answerJoin(_ context.Context, from bus.ServerID, _ []byte) ([]byte, error) {
	var list []*Entry
	for e := range i.catalogue.all() {
		if _, on := e.On(from); on && isDirectory(e.ID) {
			list = append(list, e)
		}
	}
	return appendEntries(list), nil
}

// recountDue brings the holdings in line with the catalogue and the store, if something has changed there.
func (i *inventory) recountDue(ctx context.Context) error {
	if !i.recount.Swap(false) {
		return nil
	}
	err := i.count(ctx)
	if err != nil {
		i.recount.Store(true) // try again with the next Decide
	}
	return err
}

func (i *inventory) count(ctx context.Context) error {
	here := map[note.DatabaseID]layout.Info{}
	var infos []layout.Info
	err := i.store.Infos(func(info *layout.Info) {
		if i.clustered(info) {
			here[info.ID] = *info
			infos = append(infos, *info)
		}
	})
	if err == nil {
		err = i.enter(ctx, infos)
	}
	var look, missing []*Entry
	var unmarked []note.DatabaseID // no incarnation is noted of them
	for e := range i.catalogue.all() {
		mine, on := e.On(i.self)
		info, have := here[e.ID]
		switch {
		case !on || e.Deleted:
			i.holdings.drop(e.ID)
		case !have:
			missing = append(missing, e)
		default:
			h := i.holdings.get(e.ID)
			if h == nil || h.out != (info.State == layout.OutOfService) || h.suspect != i.holdings.suspects(&mine) {
				look = append(look, e)
			}
			if mine.Incarnation == 0 {
				unmarked = append(unmarked, e.ID)
			}
		}
	}
	for h := range i.holdings.all() {
		if _, have := here[h.db]; !have {
			i.holdings.drop(h.db)
		}
	}
	made, err2 := i.makeMissing(ctx, missing)
	errs := []error{err, err2, i.catalogue.noteIncarnation(ctx, i.self, i.store.Incarnation(), unmarked)}
	for _, e := range append(look, made...) {
		errs = append(errs, i.holdings.hold(ctx, e))
	}
	return errors.Join(errs...)
}

// enter enters databases of this server that have no document yet.
func (i *inventory) enter(ctx context.Context, infos []layout.Info) error {
	isHere := i.holdings.get(ID) != nil || slices.ContainsFunc(infos, func(x layout.Info) bool { return x.ID == ID })
	if !isHere {
		return nil
	}
	var fresh []*Entry
	for k := range infos {
		info := &infos[k]
		if i.catalogue.get(info.ID) != nil || info.State != layout.InService {
			continue
		}
		// A database that has a slot has a document, which has not arrived here yet.
		if pos, err := i.holdings.position(ctx, info.ID); err == nil && !pos.Shared {
			fresh = append(fresh, entryOf(info, i.self, i.store.Incarnation()))
		}
	}
	return i.catalogue.enter(ctx, fresh)
}

// makeMissing makes the replicas that should be here by their documents, and returns the documents of those
// that are here now. If one was here before, its primary first begins a new term.
func (i *inventory) makeMissing(ctx context.Context, missing []*Entry) (made []*Entry, err error) {
	var errs []error
	var ids []note.DatabaseID
	for _, e := range missing {
		r, _ := e.On(i.self)
		if r.Incarnation != 0 {
			if err := i.repairs.requestTerm(ctx, e, []note.DatabaseID{e.ID}); err != nil {
				errs = append(errs, fmt.Errorf("database %s is missing: %w", e.ID, err))
				continue
			}
			i.stat.repaired.Inc()
			i.log(slog.LevelWarn, "database is missing, copying it from a mate", "database", e.ID.String())
		}
		of, err := i.infoOf(ctx, e)
		if err == nil {
			err = i.store.CreateReplica(note.System, of, r.Slot)
		}
		if err != nil && !errors.Is(err, store.ErrExists) {
			errs = append(errs, err)
			continue
		}
		i.stat.made.Inc()
		i.log(slog.LevelInfo, "replica made", "database", e.ID.String(), "title", e.Title, "slot", r.Slot)
		made = append(made, e)
		ids = append(ids, e.ID)
	}
	return made, errors.Join(append(errs, i.catalogue.noteIncarnation(ctx, i.self, i.store.Incarnation(), ids))...)
}

// infoOf asks a mate that has a database for its description.
func (i *inventory) infoOf(ctx context.Context, e *Entry) (layout.Info, error) {
	err := fmt.Errorf("%w: no live member has database %s", errLater, e.ID)
	v := i.members.view()
	for _, server := range v.holders(e) {
		var answer []byte
		if answer, err = i.ask(ctx, server, verbInfo, appendDatabases([]note.DatabaseID{e.ID})); err != nil {
			continue
		}
		var of *layout.Info
		if of, err = layout.ReadInfo(answer); err == nil && of.ID == e.ID {
			return *of, nil
		}
	}
	return layout.Info{}, err
}

// answerInfo returns the description of a database here.
func (i *inventory) answerInfo(_ context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil || len(dbs) != 1 {
		return nil, errFormat
	}
	if err := i.mayReplicate(from, dbs[0]); err != nil {
		return nil, err
	}
	info, err := i.store.Info(dbs[0])
	if err != nil {
		return nil, refusal(err)
	}
	return layout.AppendInfo(nil, &info), nil
}

// makeEverywhere makes the databases of Options.Everywhere that the cluster lacks. The primary of the Cluster
// Database Directory does it, and only while every other replica of that follows it and is there: so no two
// servers make one.
func (i *inventory) makeEverywhere() error {
	h, e, v := i.holdings.get(ID), i.catalogue.get(ID), i.members.view()
	if h == nil || e == nil || !h.leads || h.busy || !v.allFollow(h, e) ||
		slices.ContainsFunc(e.Replicas, func(r Replica) bool { return h.reports[r.Server].missing }) {
		return nil
	}
	var errs []error
	for _, c := range i.opt.Everywhere {
		if i.catalogue.get(c.ID) != nil {
			continue
		}
		// The next Decide enters it.
		if _, err := i.store.CreateDatabase(note.System, c); err != nil && !errors.Is(err, store.ErrExists) {
			errs = append(errs, fmt.Errorf("create %s: %w", c.Title, err))
		}
	}
	return errors.Join(errs...)
}
