// Package keep implements small persistent tables, for example of banned addresses, the number of messages that a
// person has sent today, and MTA-STS policies. Each table maps keys to short texts; all tables are in one database of
// the server. Writes are delayed: a value is durable a second later, or when the server stops. A power failure may lose
// the last second. The user of a table must limit its size.
package keep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// ID is the ID of the database, Kind its kind.
const (
	ID   note.DatabaseID = 0x00000000000EEB00
	Kind                 = "memory"
)

// The items of a note.
const (
	itemForm  = "Form"
	itemTable = "Table"
	itemKey   = "Key"
	itemValue = "Value"
	form      = "Memory"
)

const (
	// behind is the delay before values are written, again the delay of a retry after an error.
	behind = time.Second
	again  = time.Minute
	// piece is the number of rows per update, and of notes per read.
	piece = 500
	// maxValue is the maximum size of a key and its value together, in bytes.
	maxValue = 64 << 10
)

// Memory holds all tables. Its methods may be called from any goroutine.
type Memory struct {
	store *store.Store
	env   *env.Env
	lost  *stat.Counter

	mu      sync.Mutex
	changed map[place]*string // values to write; nil means delete
	timed   bool
	closed  bool
	writing sync.Mutex
}

type place struct{ table, key string }

func (p place) unid() note.UNID {
	return note.DeriveUNID([]byte("keep"), []byte(p.table+"\x00"+p.key))
}

// Open opens the tables, and creates their database in a new store. stats may be nil.
func Open(s *store.Store, e *env.Env, stats *stat.Tree) (*Memory, error) {
	m := &Memory{store: s, env: e, changed: map[place]*string{}}
	m.lost = stats.Counter("Server.Memory.Failed",
		"times that what is to be remembered over a restart could not be written, and waited")
	if _, err := s.Info(ID); err == nil {
		return m, nil
	}
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "memory of the server", Kind: Kind,
		Queue: true})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("keep: create database: %w", err)
	}
	return m, nil
}

// Table is one table. A nil Table is empty and stores nothing.
type Table struct {
	m    *Memory
	name string
}

// Table returns the table with a name.
func (m *Memory) Table(name string) *Table { return &Table{m, name} }

// Put stores a value. It ignores values that are too large.
func (t *Table) Put(key, value string) { t.change(key, &value) }

// Drop deletes a key.
func (t *Table) Drop(key string) { t.change(key, nil) }

func (t *Table) change(key string, value *string) {
	if t == nil || value != nil && len(*value)+len(key) > maxValue {
		return
	}
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.changed[place{t.name, key}] = value
		m.soon(behind)
	}
}

// soon schedules a flush after d. The caller holds m.mu.
func (m *Memory) soon(d time.Duration) {
	if m.timed {
		return
	}
	m.timed = true
	m.env.Clock.AfterFunc(d, func() {
		m.mu.Lock()
		m.timed = false
		m.mu.Unlock()
		if err := m.Flush(context.Background()); err != nil && !errors.Is(err, store.ErrClosed) {
			m.lost.Inc()
			m.env.Log.Warn("cannot write counters, retrying", "err", err)
			m.mu.Lock()
			m.soon(again)
			m.mu.Unlock()
		}
	})
}

// Each calls fn for every row of a table, in no particular order. It flushes first, so that fn sees the latest values.
func (t *Table) Each(ctx context.Context, fn func(key, value string)) error {
	if t == nil {
		return nil
	}
	if err := t.m.Flush(ctx); err != nil {
		return err
	}
	err := t.m.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
		var ids []note.ID
		for from := note.ID(0); ; {
			ids = ids[:0]
			err := store.ReadableNotes(r, from, t.m.damaged, func(id note.ID, _ *layout.Note) bool {
				ids = append(ids, id)
				return len(ids) < piece
			})
			if err != nil || len(ids) == 0 {
				return err
			}
			for _, id := range ids {
				c, err := r.Content(id)
				if err != nil {
					t.m.damaged(id, err)
					continue
				}
				if it := c.Content.Items; it.Get(itemTable).AsText() == t.name {
					fn(it.Get(itemKey).AsText(), it.Get(itemValue).AsText())
				}
			}
			from = ids[len(ids)-1] + 1
		}
	})
	if err != nil {
		return fmt.Errorf("keep: read %s: %w", t.name, err)
	}
	return nil
}

// damaged logs a row that cannot be read. The others are worth more than none: without them nothing would start.
func (m *Memory) damaged(id note.ID, err error) {
	m.env.Log.Error("keep: cannot read a row", "note", uint64(id), "err", err)
}

// Flush writes the changed values.
func (m *Memory) Flush(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	todo := m.changed
	m.changed = map[place]*string{}
	m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(todo), func(a, b place) int {
		if a.table != b.table {
			return strings.Compare(a.table, b.table)
		}
		return strings.Compare(a.key, b.key)
	})
	for len(keys) > 0 {
		some := keys[:min(piece, len(keys))]
		err := m.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
			w, err := tx.Database(ID)
			for i := 0; err == nil && i < len(some); i++ {
				err = write(w, some[i], todo[some[i]])
			}
			return err
		})
		if err != nil {
			m.mu.Lock()
			for _, p := range keys { // except keys that were changed in the meantime
				if _, newer := m.changed[p]; !newer {
					m.changed[p] = todo[p]
				}
			}
			m.mu.Unlock()
			return fmt.Errorf("keep: write: %w", err)
		}
		keys = keys[len(some):]
	}
	return nil
}

// write writes or deletes one row.
func write(w *store.Writer, p place, value *string) error {
	id, err := w.Find(p.unid())
	found := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrGrave) {
		return err
	}
	if value == nil {
		if found {
			return w.Destroy(id)
		}
		return nil
	}
	items := note.MakeItems(
		note.Item{Name: itemForm, Value: note.Text(form)}, note.Item{Name: itemTable, Value: note.Text(p.table)},
		note.Item{Name: itemKey, Value: note.Text(p.key)}, note.Item{Name: itemValue, Value: note.Text(*value)},
	)
	if !found {
		_, err = w.Create(store.New{UNID: p.unid(), Content: note.Content{Items: items}})
		return err
	}
	c, err := w.Content(id)
	if err != nil {
		return err
	}
	if c.Content.Items.Get(itemValue).AsText() == *value {
		return nil
	}
	return w.Rewrite(id, note.Content{Items: items})
}

// Close writes the remaining values. Later values are ignored.
func (m *Memory) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.Flush(ctx)
}
