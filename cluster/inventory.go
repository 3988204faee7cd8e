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

// inventory keeps three lists consistent: the documents of the catalogue, the databases in the local store, and the
// holdings. It creates missing replicas, and documents for databases that have none.
type inventory struct {
	*core
	repairs *Repairs
}

// Found creates the Cluster Database Directory in the store of the first server of a cluster.
func Found(s *store.Store) error {
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Cluster Database Directory", Kind: Kind})
	if errors.Is(err, store.ErrExists) {
		err = nil
	}
	return err
}

// join requests the documents of the two directories from the members while this server lacks them. Everything else is
// replicated with those databases.
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
			continue // ask the next mate, or retry later
		}
		list, err := readEntries(answer)
		if err != nil {
			return err
		}
		for _, e := range list {
			if isDirectory(e.ID) {
				i.catalogue.receive(e)
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

// founder reports whether the local Cluster Database Directory is the first one, and not a replica to be filled.
func (i *inventory) founder(ctx context.Context) bool {
	pos, err := i.holdings.position(ctx, ID)
	return err == nil && !pos.Shared
}

// answerJoin returns the documents of those directories of which the member has a replica.
func (i *inventory) answerJoin(_ context.Context, from bus.ServerID, _ []byte) ([]byte, error) {
	var list []*Entry
	for e := range i.catalogue.all() {
		if _, on := e.On(from); on && isDirectory(e.ID) {
			list = append(list, e)
		}
	}
	return appendEntries(list), nil
}

// recountDue updates the holdings if the catalogue or the store has changed.
func (i *inventory) recountDue(ctx context.Context) error {
	if !i.recount.Swap(false) {
		return nil
	}
	err := i.count(ctx)
	if err != nil {
		i.recount.Store(true) // retry with the next Decide
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
	var unmarked []note.DatabaseID // databases without a recorded incarnation
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

// enter creates documents for local databases that have none yet.
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
		// A database with a slot has a document, which has not arrived here yet.
		if pos, err := i.holdings.position(ctx, info.ID); err == nil && !pos.Shared {
			fresh = append(fresh, entryOf(info, i.self, i.store.Incarnation()))
		}
	}
	return i.catalogue.enter(ctx, fresh)
}

// makeMissing creates local replicas that exist only in their documents, and returns the documents of those created. If
// a replica was here before, its primary first begins a new term.
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

// infoOf requests the description of a database from a mate.
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

// answerInfo returns the description of a local database.
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
	return layout.AppendInfo(nil, info.Sent()), nil
}

// makeEverywhere creates the databases of Options.Everywhere that do not exist. Only the primary of the Cluster
// Database Directory does so, and only while all other replicas of the directory exist and follow it. So no two servers
// create the same database.
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
		// The next Decide creates its document.
		if _, err := i.store.CreateDatabase(note.System, c); err != nil && !errors.Is(err, store.ErrExists) {
			errs = append(errs, fmt.Errorf("create %s: %w", c.Title, err))
		}
	}
	return errors.Join(errs...)
}
