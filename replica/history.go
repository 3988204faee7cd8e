package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ID is the database in which a server records how far it has replicated with each other replica (Domino's replication
// history). It belongs to the server alone and is not replicated.
const ID note.DatabaseID = 0x00000000000D1570

// Kind is the kind of that database.
const Kind = "replication"

// Record is the stored progress with one other replica of a local database.
type Record struct {
	Database note.DatabaseID
	Peer
	// Received is the sequence number of the other replica up to which its changes are here. Given is our sequence
	// number up to which our changes are there.
	Received, Given uint64
	// Person is the person who registered the replica, zero for the server itself. Only that person and the server may
	// change the record.
	Person note.UNID
	// Keeps means that deletions here are kept until the other replica has them.
	Keeps bool
	// Select is the selection that applied.
	Select Selection
	// Name is the display name of the other replica. Time is when it last reported.
	Name string
	Time time.Time
	// Aside lists its notes that could not be applied, at most maxAside.
	Aside []Refused
}

// Limits of the history.
const (
	// maxPeers is the maximum number of records per database. Beyond it, the oldest record is replaced if it is older
	// than silent.
	maxPeers = 256
	silent   = 90 * 24 * time.Hour
	// maxCopies is the maximum number of records per database and person. Beyond it, the person's oldest record is
	// replaced.
	maxCopies = 8
	maxAside  = 100
)

// Items of a record's note.
const (
	itemForm     = "Form"
	formRecord   = "Replication"
	itemDatabase = "Database"
	itemReplica  = "Replica"
	itemStore    = "Store"
	itemReceived = "Received"
	itemGiven    = "Given"
	itemKeeps    = "KeepsDeletions"
	itemPerson   = "Person"
	itemSelect   = "Selection"
	itemName     = "Name"
	itemTime     = "Time"
	itemAside    = "Aside"
)

type recordKey struct {
	db      note.DatabaseID
	replica note.ReplicaID
}

func (k recordKey) unid() note.UNID {
	return note.DeriveUNID([]byte("replication"), appendUint64(nil, uint64(k.db)), appendUint64(nil, uint64(k.replica)))
}

// history caches all records of the database ID.
type history struct {
	s    *store.Store
	mu   sync.Mutex // also held while a record is written, so that records are written in order
	read bool
	all  map[recordKey]*Record
}

func hex64(v uint64) note.Value { return note.Text(fmt.Sprintf("%016X", v)) }

func parseHex64(v note.Value) uint64 {
	n, err := strconv.ParseUint(v.AsText(), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

func (x *Record) items() note.Items {
	list := []note.Item{
		{Name: itemForm, Value: note.Text(formRecord)}, {Name: itemDatabase, Value: note.Text(x.Database.String())},
		{Name: itemReplica, Value: hex64(uint64(x.Replica))}, {Name: itemStore, Value: hex64(x.Store)},
		{Name: itemReceived, Value: note.Int(int64(x.Received))}, {Name: itemGiven, Value: note.Int(int64(x.Given))},
		{Name: itemKeeps, Value: note.Bool(x.Keeps)}, {Name: itemName, Value: note.Text(x.Name)},
		{Name: itemTime, Value: note.Int(x.Time.Unix())},
	}
	if !x.Select.All() {
		list = append(list,
			note.Item{Name: itemSelect, Value: note.Binary(appendSelection([]byte{Version}, &x.Select))})
	}
	if !x.Person.IsZero() {
		list = append(list, note.Item{Name: itemPerson, Value: note.Text(x.Person.String())})
	}
	if len(x.Aside) > 0 {
		list = append(list, note.Item{Name: itemAside, Value: note.Binary(appendRefused([]byte{Version}, x.Aside))})
	}
	return note.MakeItems(list...)
}

func readRecord(items note.Items) (*Record, bool) {
	db, err := note.ParseDatabaseID(items.Get(itemDatabase).AsText())
	if err != nil || items.Get(itemForm).AsText() != formRecord {
		return nil, false
	}
	x := &Record{
		Database: db, Peer: Peer{Store: parseHex64(items.Get(itemStore)),
			Replica: note.ReplicaID(parseHex64(items.Get(itemReplica)))},
		Received: uint64(items.Get(itemReceived).AsInt()), Given: uint64(items.Get(itemGiven).AsInt()),
		Keeps: items.Get(itemKeeps).AsBool(), Name: items.Get(itemName).AsText(),
		Time: time.Unix(items.Get(itemTime).AsInt(), 0).UTC(),
	}
	if text := items.Get(itemPerson).AsText(); text != "" {
		if x.Person, err = note.ParseUNID(text); err != nil {
			return nil, false
		}
	}
	// A selection that cannot be read makes the whole record invalid: the replicas are then compared from the
	// beginning.
	if b := items.Get(itemSelect).AsBinary(); b != nil {
		r, err := read(b)
		if err != nil {
			return nil, false
		}
		if x.Select = r.selection(); r.end() != nil {
			return nil, false
		}
	}
	if r, err := read(items.Get(itemAside).AsBinary()); err == nil {
		x.Aside = r.refused()
	}
	return x, true
}

// open reads all records and creates the database if it does not exist. The lock is held.
func (h *history) open(ctx context.Context) error {
	if h.read {
		return nil
	}
	if _, err := h.s.Info(ID); errors.Is(err, store.ErrNotFound) {
		_, err = h.s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Replication", Kind: Kind, Queue: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("replica: make the history: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("replica: history: %w", err)
	}
	h.all = map[recordKey]*Record{}
	err := h.s.Read(ctx, note.System, ID, func(r *store.Reader) error {
		return r.Notes(1, func(id note.ID, _ *layout.Note) bool {
			c, err := r.Content(id)
			if err != nil {
				return true
			}
			if x, ok := readRecord(c.Content.Items); ok {
				h.all[recordKey{x.Database, x.Replica}] = x
			}
			return true
		})
	})
	if err != nil {
		return fmt.Errorf("replica: history: %w", err)
	}
	h.read = true
	return nil
}

// of returns the record of a peer, or a new record and false.
func (h *history) of(ctx context.Context, db note.DatabaseID, replica note.ReplicaID) (Record, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(ctx); err != nil {
		return Record{}, false, err
	}
	if x := h.all[recordKey{db, replica}]; x != nil {
		return *x, true, nil
	}
	return Record{Database: db, Peer: Peer{Replica: replica}}, false, nil
}

// set changes the record of a peer. If durable is false, it changes only memory; that is for records that merely save
// work.
func (h *history) set(ctx context.Context, db note.DatabaseID, replica note.ReplicaID, who *note.Who, now time.Time,
	durable bool, fn func(*Record)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(ctx); err != nil {
		return err
	}
	key := recordKey{db, replica}
	next := Record{Database: db, Peer: Peer{Replica: replica}, Person: who.Person}
	var dropped *Record
	switch have := h.all[key]; {
	case have == nil:
		var err error
		if dropped, err = h.room(db, who, now); err != nil {
			return err
		}
	case !who.System && have.Person != who.Person:
		return fmt.Errorf("%w: replica %016X belongs to another person", store.ErrDenied, uint64(replica))
	default:
		next = *have
	}
	fn(&next)
	next.Time = now.UTC().Truncate(time.Second)
	next.Aside = next.Aside[:min(len(next.Aside), maxAside)]
	if !durable {
		if dropped != nil {
			delete(h.all, recordKey{db, dropped.Replica})
		}
		h.all[key] = &next
		return nil
	}
	err := h.s.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		if dropped != nil {
			if err := remove(w, recordKey{db, dropped.Replica}.unid()); err != nil {
				return err
			}
		}
		return w.Put(key.unid(), note.Profile, note.Content{Items: next.items()})
	})
	if err != nil {
		return fmt.Errorf("replica: history: %w", err)
	}
	if dropped != nil {
		delete(h.all, recordKey{db, dropped.Replica})
	}
	h.all[key] = &next
	return nil
}

// room returns the record to replace when a database gets one more peer, or nil if there is room. It returns ErrBusy if
// there are maxPeers records and none is older than silent.
func (h *history) room(db note.DatabaseID, who *note.Who, now time.Time) (*Record, error) {
	list := h.peers(db)
	older := func(a, b *Record) int { return a.Time.Compare(b.Time) }
	if !who.System {
		own := slices.DeleteFunc(slices.Clone(list), func(x *Record) bool { return x.Person != who.Person })
		if len(own) >= maxCopies {
			return slices.MinFunc(own, older), nil
		}
	}
	if len(list) < maxPeers {
		return nil, nil
	}
	oldest := slices.MinFunc(list, older)
	if now.Sub(oldest.Time) < silent {
		return nil, fmt.Errorf("%w: database already has %d other replicas", ErrBusy, maxPeers)
	}
	return oldest, nil
}

func (h *history) peers(db note.DatabaseID) (list []*Record) {
	for k, x := range h.all {
		if k.db == db {
			list = append(list, x)
		}
	}
	return list
}

// drop deletes the record of a peer.
func (h *history) drop(ctx context.Context, db note.DatabaseID, replica note.ReplicaID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(ctx); err != nil {
		return err
	}
	key := recordKey{db, replica}
	if h.all[key] == nil {
		return fmt.Errorf("%w: no record of replica %016X", store.ErrNotFound, uint64(replica))
	}
	err := h.s.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		return remove(w, key.unid())
	})
	if err != nil {
		return fmt.Errorf("replica: history: %w", err)
	}
	delete(h.all, key)
	return nil
}

// list returns all records, by database and then by name.
func (h *history) list(ctx context.Context) ([]Record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(ctx); err != nil {
		return nil, err
	}
	out := make([]Record, 0, len(h.all))
	for _, x := range h.all {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Replica, b.Replica))
	})
	return out, nil
}

func remove(w *store.Writer, u note.UNID) error {
	id, err := w.Find(u)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.Destroy(id)
}
