// Package catalog stores a document about each database of a server, in a database of its own: title, place, size,
// quota, owner and last use. It is Domino's catalog.nsf.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ID is the ID of the catalog, Kind its kind. In a cluster each server has its own.
const (
	ID   note.DatabaseID = 0x0000000000CA7A10
	Kind                 = "catalog"
)

// The items of a document.
const (
	itemForm     = "Form"
	itemDatabase = "Database"
	itemTitle    = "Title"
	itemKind     = "Kind"
	itemOwner    = "Owner"
	itemState    = "State"
	itemServers  = "Servers"
	itemNotes    = "Notes"
	itemSize     = "Size"
	itemRows     = "Rows"
	itemQuota    = "Quota"
	itemCreated  = "Created"
	itemUsed     = "LastUsed"
	itemSequence = "Sequence"
	form         = "Database"
)

// piece is the number of documents that one read or update holds.
const piece = 500

// Entry describes one database.
type Entry struct {
	ID          note.DatabaseID
	Title, Kind string
	// Owner is the owner's name. Servers are the servers with a replica.
	Owner   string
	State   string
	Servers []string
	// Notes is the number of notes, Size the bytes of their messages, which count for the quota. Rows estimates the
	// bytes of its rows on disk.
	Notes, Size, Rows uint64
	Quota             uint64 // 0 for none
	Created           time.Time
	// Used is the time of the first run that saw the latest change, zero if none was seen since the first run.
	Used time.Time
	// Sequence is the sequence of the latest change.
	Sequence uint64
	// Damaged marks a database that cannot be read. Update takes its State and Servers, and keeps the rest of its
	// earlier entry.
	Damaged bool
}

// Fits reports whether a text is part of the database's title, owner, kind, servers or ID, in any case.
func (e *Entry) Fits(text string) bool {
	text = strings.ToLower(text)
	for _, s := range append([]string{e.Title, e.Owner, e.Kind, e.ID.String()}, e.Servers...) {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

func (e *Entry) unid() note.UNID { return note.DeriveUNID([]byte("catalog"), []byte(e.ID.String())) }

func (e *Entry) items() note.Items {
	unix := func(t time.Time) note.Value {
		if t.IsZero() {
			return note.Int(0)
		}
		return note.Int(t.Unix())
	}
	count := func(n uint64) note.Value { return note.Int(int64(n)) }
	return note.MakeItems(
		note.Item{Name: itemForm, Value: note.Text(form)},
		note.Item{Name: itemDatabase, Value: note.Text(e.ID.String())},
		note.Item{Name: itemTitle, Value: note.Text(e.Title)}, note.Item{Name: itemKind, Value: note.Text(e.Kind)},
		note.Item{Name: itemOwner, Value: note.Text(e.Owner)}, note.Item{Name: itemState, Value: note.Text(e.State)},
		note.Item{Name: itemServers, Value: note.TextList(e.Servers...)},
		note.Item{Name: itemNotes, Value: count(e.Notes)}, note.Item{Name: itemSize, Value: count(e.Size)},
		note.Item{Name: itemRows, Value: count(e.Rows)}, note.Item{Name: itemQuota, Value: count(e.Quota)},
		note.Item{Name: itemCreated, Value: unix(e.Created)}, note.Item{Name: itemUsed, Value: unix(e.Used)},
		note.Item{Name: itemSequence, Value: count(e.Sequence)},
	)
}

func parse(it note.Items) (Entry, error) {
	id, err := note.ParseDatabaseID(it.Get(itemDatabase).AsText())
	if err != nil {
		return Entry{}, err
	}
	number := func(name string) uint64 { return uint64(it.Get(name).AsInt()) }
	at := func(name string) time.Time {
		if n := it.Get(name).AsInt(); n != 0 {
			return time.Unix(n, 0).UTC()
		}
		return time.Time{}
	}
	return Entry{
		ID: id, Title: it.Get(itemTitle).AsText(), Kind: it.Get(itemKind).AsText(), Owner: it.Get(itemOwner).AsText(),
		State: it.Get(itemState).AsText(), Servers: it.Get(itemServers).AsTextList(), Notes: number(itemNotes),
		Size: number(itemSize), Rows: number(itemRows), Quota: number(itemQuota), Created: at(itemCreated),
		Used: at(itemUsed), Sequence: number(itemSequence),
	}, nil
}

// Catalog is the catalog of a server. Its methods may be called from any goroutine.
type Catalog struct {
	store *store.Store
	env   *env.Env
}

// Open opens the catalog, and creates its database in a new store.
func Open(s *store.Store, e *env.Env) (*Catalog, error) {
	c := &Catalog{store: s, env: e}
	if _, err := s.Info(ID); err == nil {
		return c, nil
	}
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Catalog", Kind: Kind, Queue: true})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("catalog: create database: %w", err)
	}
	return c, nil
}

// document is an entry and its note.
type document struct {
	Entry
	id note.ID
}

// Each calls fn for every entry, in the order in which their databases were first seen, until fn returns false. An
// entry that cannot be read is logged and left out: the next Update writes it anew.
func (c *Catalog) Each(ctx context.Context, fn func(*Entry) bool) error {
	return c.each(ctx, func(d *document) bool { return fn(&d.Entry) })
}

func (c *Catalog) each(ctx context.Context, fn func(*document) bool) error {
	next, more := note.ID(0), true
	for more && ctx.Err() == nil {
		var list []document
		err := c.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
			n := 0
			defer func() { more = n == piece }()
			return store.ReadableNotes(r, next, c.damaged, func(id note.ID, _ *layout.Note) bool {
				next = id + 1
				n++
				content, err := r.Content(id)
				var e Entry
				if err == nil {
					e, err = parse(content.Content.Items)
				}
				if err != nil {
					c.damaged(id, err)
				} else {
					list = append(list, document{e, id})
				}
				return n < piece
			})
		})
		if err != nil {
			return fmt.Errorf("catalog: read: %w", err)
		}
		for i := range list {
			if !fn(&list[i]) {
				return nil
			}
		}
	}
	return ctx.Err()
}

func (c *Catalog) damaged(id note.ID, err error) {
	c.env.Log.Error("catalog: cannot read an entry", "note", uint64(id), "err", err)
}

// Update makes the catalog hold the entries of these databases and no others. It sets their Used. It writes only what
// has changed, and returns the numbers of entries that it wrote and removed.
func (c *Catalog) Update(ctx context.Context, entries []Entry) (written, removed int, err error) {
	now := c.env.Clock.Now().UTC().Truncate(time.Second)
	known := map[note.DatabaseID]document{}
	if err := c.each(ctx, func(d *document) bool {
		known[d.ID] = *d
		return true
	}); err != nil {
		return 0, 0, err
	}
	var changed []Entry
	for _, e := range entries {
		old, there := known[e.ID]
		delete(known, e.ID)
		if there && e.Damaged {
			state, servers := e.State, e.Servers
			e = old.Entry
			e.State, e.Servers = state, servers
		} else if there {
			e.Used = old.Used
			if e.Sequence != old.Sequence {
				e.Used = now
			}
		}
		if !there || len(e.items().Diff(old.items())) > 0 {
			changed = append(changed, e)
		}
	}
	var gone []note.ID
	for _, d := range known {
		gone = append(gone, d.id)
	}
	slices.Sort(gone)
	written, err = inPieces(changed, func(some []Entry) error {
		return c.write(ctx, func(w *store.Writer) (err error) {
			for i := 0; err == nil && i < len(some); i++ {
				err = w.Put(some[i].unid(), note.Document, note.Content{Items: some[i].items()})
			}
			return err
		})
	})
	if err == nil {
		removed, err = inPieces(gone, func(some []note.ID) error {
			return c.write(ctx, func(w *store.Writer) (err error) {
				for i := 0; err == nil && i < len(some); i++ {
					err = w.Destroy(some[i])
				}
				return err
			})
		})
	}
	return written, removed, err
}

// inPieces calls fn for pieces of a list, and returns the number of elements for which it succeeded.
func inPieces[T any](list []T, fn func([]T) error) (n int, err error) {
	for some := range slices.Chunk(list, piece) {
		if err := fn(some); err != nil {
			return n, err
		}
		n += len(some)
	}
	return n, nil
}

func (c *Catalog) write(ctx context.Context, fn func(*store.Writer) error) error {
	err := c.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		return fn(w)
	})
	if err != nil {
		return fmt.Errorf("catalog: write: %w", err)
	}
	return nil
}
