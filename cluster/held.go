package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// held is a database of which this server has a replica. Guarded by Node.mu.
type held struct {
	db    note.DatabaseID
	queue bool
	// shared: it has, or had, another replica with a slot.
	shared bool
	leads  bool
	// out: it is here and cannot be led: damaged, or taken out of service.
	out bool
	// pos is where it stood when it was looked at last: at a follower that is where it stands.
	pos store.Position
	// told is where mates say that theirs stand.
	told map[note.UNID]toldAt
	// stained: the store is in another life than when the replica was whole. What it numbered may be known
	// elsewhere and not here; its home puts a term between before it is as good as any.
	stained bool
	// unsure: a mate knows numbers of our own term that are lost here.
	unsure bool
	// lost is since when it has no home that lives; zero where it has one.
	lost time.Time
	// busy: its home is being moved.
	busy bool
	// beside: it led here while another home did that survives, and has not stepped down before that one yet.
	beside bool
	// While it leads here: yielded is up to where homes beside ours numbered that have stepped down before it, outlived the life of
	// mates whose replicas, that are lost, what is numbered here lies above.
	yielded  map[note.UNID]note.ModSeq
	outlived map[note.UNID]uint64
	// route is whom changes that nobody has numbered go to: the home, or, where it is zero, everybody.
	route note.UNID
	// uses counts who has it open here.
	uses int
	// stays is until when it is not tried again to move it where it belongs.
	stays time.Time
}

// lead notes whether it leads here. What was done for mates as their home holds for the line that was led then: whoever leads again
// may have taken up another.
func (h *held) lead(yes bool) {
	if h.leads = yes; yes {
		h.beside = false
	} else {
		h.yielded, h.outlived = nil, nil
	}
}

// heldIDs lists what is held, ascending. Under mu. The list must not be changed.
func (n *Node) heldIDs() []note.DatabaseID {
	if len(n.heldOrder) != len(n.held) {
		n.heldOrder = n.heldOrder[:0:0]
		for db := range n.held {
			n.heldOrder = append(n.heldOrder, db)
		}
		slices.Sort(n.heldOrder)
	}
	return n.heldOrder
}

// unhold forgets a database. Under mu.
func (n *Node) unhold(db note.DatabaseID) {
	delete(n.held, db)
	n.heldOrder = nil
}

type toldAt struct {
	told
	at time.Time
	// good is where it stood when it had lost nothing.
	good store.Position
}

// refreshCatalog reads what changed in the Cluster Database Directory.
func (n *Node) refreshCatalog(ctx context.Context) error {
	n.mu.Lock()
	since := n.catalog.seq
	n.mu.Unlock()
	type seen struct {
		id    note.ID
		entry *Entry
		split bool
	}
	var list []seen
	err := n.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
		var ids []note.ID
		err := r.Since(since, func(seq uint64, id note.ID) bool {
			since = seq
			ids = append(ids, id)
			return true
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			c, err := r.Content(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			// An older program has entered what is each server's own.
			if e, ok := readEntry(c.Content.Items); ok && n.clustered(&layout.Info{ID: e.ID, Kind: e.Kind, Queue: e.Queue}) {
				list = append(list, seen{id, e, len(c.Tree.Conflicts()) > 0})
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // not here yet
	}
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.catalog.seq = since
	for _, s := range list {
		n.catalog.put(s.entry)
		delete(n.catalog.split, s.id)
		if s.split {
			n.catalog.split[s.id] = true
		}
		n.stale = true
	}
	return nil
}

// unite merges versions of a document that two sides wrote; the home alone does it.
func (n *Node) unite(ctx context.Context) error {
	n.mu.Lock()
	h := n.held[ID]
	if h == nil || !h.leads || len(n.catalog.split) == 0 {
		n.mu.Unlock()
		return nil
	}
	ids := make([]note.ID, 0, len(n.catalog.split))
	for id := range n.catalog.split {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	clear(n.catalog.split)
	n.mu.Unlock()
	return n.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := w.MergeConflicts(id); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

// edit changes the document of a database; fn gets a copy of what it says now. It must be quick.
func (n *Node) edit(ctx context.Context, db note.DatabaseID, fn func(*Entry) error) error {
	return n.editAll(ctx, []note.DatabaseID{db}, fn)
}

// editAll changes the documents of databases in one commit.
func (n *Node) editAll(ctx context.Context, dbs []note.DatabaseID, fn func(*Entry) error) error {
	var out []*Entry
	err := n.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		out = out[:0]
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		for _, db := range dbs {
			e, err := editOne(w, db, fn)
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range out {
		n.catalog.put(e)
	}
	n.stale = true
	return nil
}

func editOne(w *store.Writer, db note.DatabaseID, fn func(*Entry) error) (*Entry, error) {
	id, err := w.Find(entryUNID(db))
	if err != nil {
		return nil, err
	}
	c, err := w.Content(id)
	if err != nil {
		return nil, err
	}
	e, ok := readEntry(c.Content.Items)
	if !ok {
		return nil, store.ErrDamaged
	}
	if err := fn(e); err != nil {
		return nil, err
	}
	next := c.Content
	next.Items = e.write(c.Content.Items)
	return e, w.Rewrite(id, next)
}

// enterAtOnce bounds how many databases one commit enters.
const enterAtOnce = 200

// enter enters databases of this server that have no document yet.
func (n *Node) enter(ctx context.Context, infos []layout.Info) error {
	n.mu.Lock()
	_, here := n.held[ID]
	var fresh []*Entry
	for i := range infos {
		if info := &infos[i]; n.catalog.entries[info.ID] == nil && info.State == layout.InService {
			fresh = append(fresh, entryOf(info, n.self, 0, n.store.Incarnation()))
		}
	}
	n.mu.Unlock()
	if !here && !slices.ContainsFunc(infos, func(i layout.Info) bool { return i.ID == ID }) {
		return nil
	}
	// One that has a slot has a document, which has not come here yet.
	fresh = slices.DeleteFunc(fresh, func(e *Entry) bool {
		slot := false
		err := n.store.Read(ctx, note.System, e.ID, func(r *store.Reader) error {
			slot = r.Position().Shared
			return nil
		})
		return err != nil || slot
	})
	for len(fresh) > 0 {
		k := min(len(fresh), enterAtOnce)
		if err := n.enterSome(ctx, fresh[:k]); err != nil {
			return err
		}
		fresh = fresh[k:]
	}
	return nil
}

func (n *Node) enterSome(ctx context.Context, list []*Entry) error {
	made := make([]*Entry, 0, len(list))
	err := n.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		made = made[:0]
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		for _, e := range list {
			_, err := w.Create(store.New{UNID: entryUNID(e.ID), Content: note.Content{Items: e.write(nil)}})
			if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
				continue
			}
			if err != nil {
				return err
			}
			made = append(made, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range made {
		n.catalog.put(e)
	}
	return nil
}

// holdAll brings the table of what is held here in line with the Cluster Database Directory and the store:
// what is missing is made, what is here and not entered is entered.
func (n *Node) holdAll(ctx context.Context) error {
	n.mu.Lock()
	stale := n.stale
	n.stale = false
	n.mu.Unlock()
	if !stale {
		return nil
	}
	here := map[note.DatabaseID]layout.Info{}
	var infos []layout.Info
	err := n.store.Infos(func(i *layout.Info) {
		if n.clustered(i) {
			here[i.ID] = *i
			infos = append(infos, *i)
		}
	})
	if err == nil {
		err = n.enter(ctx, infos)
	}
	n.mu.Lock()
	var look, missing []*Entry
	var newborn []note.DatabaseID
	for _, db := range n.catalog.ids() {
		e := n.catalog.entries[db]
		_, mine := e.On(n.self)
		info, have := here[db]
		switch {
		case mine && !have && !e.Deleted:
			missing = append(missing, e)
		case mine && have && !e.Deleted:
			h := n.held[db]
			if r, _ := e.On(n.self); h == nil || h.out != (info.State == layout.OutOfService) || h.stained != (r.Life != 0 && r.Life != n.store.Incarnation()) {
				look = append(look, e)
			}
			if r, _ := e.On(n.self); r.Life == 0 {
				newborn = append(newborn, db)
			}
		default:
			n.unhold(db)
		}
	}
	for db := range n.held {
		if _, have := here[db]; !have {
			n.unhold(db)
		}
	}
	n.mu.Unlock()
	made, err2 := n.makeMissing(ctx, missing)
	errs := []error{err, err2, n.noteLife(ctx, n.self, n.store.Incarnation(), newborn)}
	for _, e := range append(look, made...) {
		errs = append(errs, n.hold(ctx, e))
	}
	if err := errors.Join(errs...); err != nil {
		n.mu.Lock()
		n.stale = true // next time again
		n.mu.Unlock()
		return err
	}
	return nil
}

// makeMissing makes the replicas that documents say are here, and returns the documents of those that are
// there now. Where one was there before, its home puts a term between first.
func (n *Node) makeMissing(ctx context.Context, missing []*Entry) (made []*Entry, err error) {
	var errs []error
	var ids []note.DatabaseID
	for _, e := range missing {
		r, _ := e.On(n.self)
		if r.Life != 0 {
			if err := n.fresh(ctx, e, []note.DatabaseID{e.ID}); err != nil {
				errs = append(errs, fmt.Errorf("database %s is missing: %w", e.ID, err))
				continue
			}
			n.stat.repaired.Inc()
			n.log(slog.LevelWarn, "a database is missing and comes from a mate", "database", e.ID.String())
		}
		of, err := n.infoOf(ctx, e)
		if err == nil {
			err = n.store.CreateReplica(note.System, of, r.Slot)
		}
		if err != nil && !errors.Is(err, store.ErrExists) {
			errs = append(errs, err)
			continue
		}
		n.stat.made.Inc()
		n.log(slog.LevelInfo, "replica made", "database", e.ID.String(), "title", e.Title, "slot", r.Slot)
		made = append(made, e)
		ids = append(ids, e.ID)
	}
	return made, errors.Join(append(errs, n.noteLife(ctx, n.self, n.store.Incarnation(), ids))...)
}

// infoOf asks a mate that has a database what it is.
func (n *Node) infoOf(ctx context.Context, e *Entry) (layout.Info, error) {
	err := fmt.Errorf("%w: nobody who lives has database %s", errLater, e.ID)
	for _, server := range n.alive(e) {
		var answer []byte
		if answer, err = n.ask(ctx, server, verbInfo, appendDatabases([]note.DatabaseID{e.ID})); err != nil {
			continue
		}
		var of *layout.Info
		if of, err = layout.ReadInfo(answer); err == nil && of.ID == e.ID {
			return *of, nil
		}
	}
	return layout.Info{}, err
}

// alive lists the mates that live and have a replica of a database, in order of preference.
func (n *Node) alive(e *Entry) []note.UNID {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []note.UNID
	for _, r := range e.Replicas {
		if p := n.peers[r.Server]; p != nil && p.alive {
			out = append(out, r.Server)
		}
	}
	return out
}

// answerInfo says what a database here is.
func (n *Node) answerInfo(_ context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil || len(dbs) != 1 {
		return nil, errFormat
	}
	if err := n.mayReplicate(from, dbs[0]); err != nil {
		return nil, err
	}
	i, err := n.store.Info(dbs[0])
	if err != nil {
		return nil, refusal(err)
	}
	return layout.AppendInfo(nil, &i), nil
}

// noteLife notes in the documents of databases in which life of its store a server has its replicas.
func (n *Node) noteLife(ctx context.Context, server note.UNID, life uint64, dbs []note.DatabaseID) error {
	for len(dbs) > 0 {
		k := min(len(dbs), enterAtOnce)
		err := n.editAll(ctx, dbs[:k], func(e *Entry) error {
			e.set(server, func(r *Replica) { r.Life = life })
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		dbs = dbs[k:]
	}
	return nil
}

// hold begins to look after a database that is here.
func (n *Node) hold(ctx context.Context, e *Entry) error {
	h := &held{db: e.ID, queue: e.Queue, told: map[note.UNID]toldAt{}}
	err := n.store.Read(ctx, note.System, e.ID, func(r *store.Reader) error {
		h.pos = r.Position()
		return nil
	})
	switch {
	case errors.Is(err, store.ErrOutOfService), errors.Is(err, store.ErrDamaged):
		h.out = true
	case err != nil:
		return err
	}
	h.shared = h.pos.Shared
	mine, _ := e.On(n.self)
	h.stained = mine.Life != 0 && mine.Life != n.store.Incarnation()
	h.leads = n.store.Leads(e.ID)
	n.mu.Lock()
	defer n.mu.Unlock()
	if have := n.held[e.ID]; have != nil {
		have.out, have.pos, have.shared, have.stained = h.out, h.pos, h.shared, h.stained
		have.lead(h.leads)
		return nil
	}
	n.held[e.ID] = h
	return nil
}

// stood takes up where a database stands after something was done with it here.
func (n *Node) stood(ctx context.Context, db note.DatabaseID) (store.Position, error) {
	var pos store.Position
	err := n.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		pos = r.Position()
		return nil
	})
	if err != nil {
		return pos, err
	}
	leads := n.store.Leads(db)
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.held[db]; h != nil {
		h.pos, h.shared = pos, pos.Shared
		h.lead(leads)
	}
	return pos, nil
}
