package junk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"doublet/mail/bayes"
	"doublet/note"
	"doublet/store"
)

// entry holds the memory of one mail file.
type entry struct {
	once sync.Once // loads memory
	err  error     // of the load

	// saving is held while the memory is written. It is locked before mu.
	saving sync.Mutex
	mu     sync.RWMutex
	memory *bayes.Memory // nil if nothing was learned
	dirty  bool

	// The others are guarded by Filter.mu. held is the number of those who change the entry: it stays in memory.
	used uint64
	size int64
	held int
}

// emptyBytes is the size of an entry without a memory.
const emptyBytes = 256

// entry returns the entry of a mail file, and reads it if it is not in memory.
func (f *Filter) entry(ctx context.Context, db note.DatabaseID) (*entry, error) {
	e, release, err := f.hold(ctx, db)
	release()
	return e, err
}

// hold is entry for those who change the entry, until they call release.
func (f *Filter) hold(ctx context.Context, db note.DatabaseID) (e *entry, release func(), err error) {
	f.mu.Lock()
	e = f.entries[db]
	if e == nil {
		e = &entry{}
		f.entries[db] = e
	}
	f.clock++
	e.used = f.clock
	e.held++
	f.mu.Unlock()
	e.once.Do(func() {
		m, err := f.read(context.WithoutCancel(ctx), db)
		e.mu.Lock()
		e.memory, e.err = m, err
		e.mu.Unlock()
		f.sized(db, e)
	})
	if e.err != nil {
		f.mu.Lock()
		if f.entries[db] == e {
			delete(f.entries, db) // read again next time
			f.size -= e.size
		}
		f.mu.Unlock()
	}
	return e, func() {
		f.mu.Lock()
		e.held--
		f.mu.Unlock()
	}, e.err
}

// sized counts the size of an entry, and drops those that were not used for the longest time if there is too much.
func (f *Filter) sized(db note.DatabaseID, e *entry) {
	size := int64(emptyBytes)
	e.mu.RLock()
	if e.memory != nil {
		size += int64(e.memory.Bytes())
	}
	e.mu.RUnlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[db] != e {
		return
	}
	f.size += size - e.size
	e.size = size
	if f.size <= f.opt.Memory {
		return
	}
	var list []note.DatabaseID
	for id := range f.entries {
		if id != db && id != server {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, func(a, b note.DatabaseID) int {
		return int(int64(f.entries[a].used) - int64(f.entries[b].used)) //nolint:gosec // a counter
	})
	for _, id := range list {
		if f.size <= f.opt.Memory/8*7 {
			return
		}
		f.drop(id)
	}
}

// over reports whether more is in memory than Options.Memory: what has changed stays there until it is written.
func (f *Filter) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size > f.opt.Memory
}

// drop removes an entry from memory unless it has changed. The caller holds f.mu.
func (f *Filter) drop(id note.DatabaseID) {
	x := f.entries[id]
	if x.held > 0 || !x.mu.TryRLock() {
		return
	}
	if !x.dirty {
		f.size -= x.size
		delete(f.entries, id)
	}
	x.mu.RUnlock()
}

const (
	form       = "JunkMemory"
	itemMemory = "Memory"
)

func unid(db note.DatabaseID) note.UNID { return note.DeriveUNID([]byte("junk"), []byte(db.String())) }

// read reads the memory of a mail file, nil if there is none or it is not valid.
func (f *Filter) read(ctx context.Context, db note.DatabaseID) (m *bayes.Memory, err error) {
	err = f.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
		id, err := r.Find(unid(db))
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := r.Content(id)
		if err != nil {
			return err
		}
		if m, err = bayes.ReadMemory(c.Content.Items.Get(itemMemory).AsBinary()); err != nil {
			f.env.Log.Warn("junk: what was learned is learned anew", "database", db.String(), "err", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("junk: read: %w", err)
	}
	return m, nil
}

// write writes memories in one update.
func (f *Filter) write(ctx context.Context, memories map[note.DatabaseID][]byte) error {
	err := f.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		for db, b := range memories {
			items := note.MakeItems(note.Item{Name: "Form", Value: note.Text(form)},
				note.Item{Name: "Database", Value: note.Text(db.String())},
				note.Item{Name: itemMemory, Value: note.Binary(b)})
			if err := w.Put(unid(db), note.Profile, note.Content{Items: items}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("junk: write: %w", err)
	}
	return nil
}

// saveAtOnce is the number of memories in one update.
const saveAtOnce = 16

// save writes what has changed.
func (f *Filter) save(ctx context.Context) error {
	f.mu.Lock()
	list := make(map[note.DatabaseID]*entry)
	for db, e := range f.entries {
		e.mu.RLock()
		if e.dirty {
			list[db] = e
		}
		e.mu.RUnlock()
	}
	f.mu.Unlock()
	some := map[note.DatabaseID]*entry{}
	for db, e := range list {
		if some[db] = e; len(some) == saveAtOnce {
			if err := f.saveSome(ctx, some); err != nil {
				return err
			}
			clear(some)
		}
	}
	return f.saveSome(ctx, some)
}

func (f *Filter) saveSome(ctx context.Context, some map[note.DatabaseID]*entry) error {
	if len(some) == 0 {
		return nil
	}
	out := map[note.DatabaseID][]byte{}
	for db, e := range some {
		e.saving.Lock()
		defer e.saving.Unlock()
		e.mu.Lock()
		if e.dirty {
			out[db], e.dirty = e.memory.Append(nil), false
		}
		e.mu.Unlock()
	}
	err := f.write(ctx, out)
	if err == nil {
		return nil
	}
	for db := range out {
		e := some[db]
		e.mu.Lock()
		e.dirty = true
		e.mu.Unlock()
	}
	return err
}
