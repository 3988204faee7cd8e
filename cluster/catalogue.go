package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// catalogue caches the Cluster Database Directory: the documents of all databases in the local replica. Only refresh
// and receive change the cache, one call after the other, so no older version of a document replaces a later one.
type catalogue struct {
	*base
	records[Entry]
	unread unread
}

// unread tracks the documents of the Cluster Database Directory that have to be read or merged.
type unread struct {
	// turn is held while the catalogue is changed, from the read of the documents on.
	turn sync.Mutex

	mu sync.Mutex // guards the fields below
	// seq is the sequence number up to which the documents were read.
	seq uint64
	// split holds the documents with conflicting versions.
	split map[note.ID]bool
}

// refresh reads the documents that have changed.
func (c *catalogue) refresh(ctx context.Context) error {
	c.unread.turn.Lock()
	defer c.unread.turn.Unlock()
	c.unread.mu.Lock()
	since := c.unread.seq
	c.unread.mu.Unlock()
	var entries []*Entry
	split := map[note.ID]bool{}
	err := c.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
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
			if e, ok := readEntry(c.Content.Items); ok {
				entries = append(entries, e)
				split[id] = len(c.Tree.Conflicts()) > 0
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // there is no local replica yet
	}
	if err != nil {
		return err
	}
	// The previous version of the program entered databases that are local to each server. Ignore them.
	entries = slices.DeleteFunc(entries, func(e *Entry) bool {
		return !c.clustered(&layout.Info{ID: e.ID, Kind: e.Kind, Queue: e.Queue})
	})
	for _, e := range entries {
		c.put(e.ID, e)
	}
	if len(entries) > 0 {
		c.recount.Store(true)
	}
	c.unread.took(since, split)
	return nil
}

// receive enters a mate's version of a document, unless the version here lists a replica of this server.
func (c *catalogue) receive(e *Entry) {
	c.unread.turn.Lock()
	defer c.unread.turn.Unlock()
	if _, on := c.get(e.ID).on(c.self); !on {
		c.put(e.ID, e)
		c.recount.Store(true)
	}
}

func (u *unread) took(seq uint64, split map[note.ID]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seq = seq
	if u.split == nil {
		u.split = map[note.ID]bool{}
	}
	for id, is := range split {
		if delete(u.split, id); is {
			u.split[id] = true
		}
	}
}

// unite merges the versions of documents with conflicts. Only the primary of the Cluster Database Directory calls it.
func (c *catalogue) unite(ctx context.Context) error {
	c.unread.mu.Lock()
	ids := slices.Sorted(maps.Keys(c.unread.split))
	clear(c.unread.split)
	c.unread.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	return c.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
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

// editAtOnce is the maximum number of documents that one commit creates or changes.
const editAtOnce = 200

// edit changes the document of a database. fn receives a copy and must return quickly.
func (c *catalogue) edit(ctx context.Context, db note.DatabaseID, fn func(*Entry) error) error {
	return c.editAll(ctx, []note.DatabaseID{db}, fn)
}

// editAll changes the documents of databases in one commit.
func (c *catalogue) editAll(ctx context.Context, dbs []note.DatabaseID, fn func(*Entry) error) error {
	return c.change(ctx, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		for _, db := range dbs {
			if err := editOne(w, db, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

// change commits a change of documents, and refreshes the cache.
func (c *catalogue) change(ctx context.Context, fn func(tx *store.Tx) error) error {
	if err := c.store.Update(ctx, note.System, []note.DatabaseID{ID}, fn); err != nil {
		return err
	}
	return c.refresh(context.WithoutCancel(ctx))
}

func editOne(w *store.Writer, db note.DatabaseID, fn func(*Entry) error) error {
	id, err := w.Find(entryUNID(db))
	if err != nil {
		return err
	}
	c, err := w.Content(id)
	if err != nil {
		return err
	}
	e, ok := readEntry(c.Content.Items)
	if !ok {
		return store.ErrDamaged
	}
	if err := fn(e); err != nil {
		return err
	}
	next := c.Content
	next.Items = e.write(c.Content.Items)
	return w.Rewrite(id, next)
}

// noteIncarnation records, in the documents of databases, the incarnation of a server's store.
func (c *catalogue) noteIncarnation(
	ctx context.Context, server note.UNID, incarnation uint64, dbs []note.DatabaseID,
) error {
	for some := range slices.Chunk(dbs, editAtOnce) {
		err := c.editAll(ctx, some, func(e *Entry) error {
			e.set(server, func(r *Replica) { r.Incarnation = incarnation })
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// enter creates documents for databases that have none.
func (c *catalogue) enter(ctx context.Context, list []*Entry) error {
	for some := range slices.Chunk(list, editAtOnce) {
		err := c.change(ctx, func(tx *store.Tx) error {
			w, err := tx.Database(ID)
			if err != nil {
				return err
			}
			for _, e := range some {
				_, err := w.Create(store.New{UNID: entryUNID(e.ID), Content: note.Content{Items: e.write(nil)}})
				if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
					continue
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// remove marks a database as removed everywhere. That cannot be undone.
func (c *catalogue) remove(ctx context.Context, db note.DatabaseID) error {
	return c.edit(ctx, db, func(e *Entry) error {
		e.Deleted = true
		return nil
	})
}

// setState changes the state of a replica. name is the server's name for errors.
func (c *catalogue) setState(
	ctx context.Context, db note.DatabaseID, server note.UNID, name string, state ReplicaState,
) error {
	return c.edit(ctx, db, func(e *Entry) error {
		r, on := e.On(server)
		switch {
		case !on:
			return noReplica(name, db)
		case r.State == Deleting && state != Deleting:
			return fmt.Errorf("database %s: a replica that is pending delete cannot return to service", db)
		case state != Serving && state != Out && state != Deleting:
			return fmt.Errorf("unknown replica state %q", state)
		}
		e.set(server, func(r *Replica) { r.State = state })
		return nil
	})
}

func noReplica(server string, db note.DatabaseID) error {
	return fmt.Errorf("%w: %s has no replica of database %s", store.ErrNotFound, server, db)
}
