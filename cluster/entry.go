package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"doublet/cluster/balance"
	"doublet/note"
	"doublet/store/layout"
)

// ID is the id of the Cluster Database Directory: a replicated database with a document for each database of
// the cluster. Every member has a replica.
const ID note.DatabaseID = 0x0000000000C1DB12

// Kind is the kind of the Cluster Database Directory.
const Kind = "cldbdir"

// ReplicaState is the state of a replica.
type ReplicaState string

// States of a replica.
const (
	// Serving replicas are open to users.
	Serving ReplicaState = "in service"
	// Out replicas are out of service: new opens use other replicas, and replication continues.
	Out ReplicaState = "out of service"
	// Deleting replicas are pending delete: they send what they have to others, and are removed when nobody has them
	// open.
	Deleting ReplicaState = "pending delete"
	// gone replicas stay in the document so that their slots are not reused.
	gone ReplicaState = "gone"
)

// Replica is one replica of a database.
type Replica struct {
	Server note.UNID
	Slot   uint8
	State  ReplicaState
	// Order is its position in the order of preference.
	Order int
	// Incarnation is the incarnation of the server's store at the time when the replica was complete; 0: it has not
	// been created yet. If the store has another incarnation now, the replica may have lost numbers that it assigned.
	Incarnation uint64
}

// Entry is the document of a database. It is immutable once it is in the catalogue.
type Entry struct {
	ID          note.DatabaseID
	Kind, Title string
	Owner       note.UNID
	Queue       bool
	// Replicas are in order of preference.
	Replicas []Replica
	// Deleted means that the database is removed everywhere. That cannot be undone.
	Deleted bool
	// Wanted is the number of replicas that it should have; 0: the number in the settings.
	Wanted int
	// Toward is the server that gets the next replica. TowardFirst puts that replica first in the order of preference.
	Toward      note.UNID
	TowardFirst bool
	// used has a bit for each slot that a replica ever had.
	used uint16
}

// Items of an entry.
const (
	itemForm     = "Form"
	formDatabase = "Database"
	itemID       = "DatabaseID"
	itemKind     = "Kind"
	itemTitle    = "Title"
	itemOwner    = "Owner"
	itemQueue    = "Queue"
	itemDeleted  = "Deleted"
	itemWanted   = "Replicas"
	itemToward   = "Toward"
	// itemReplica is the prefix of the items of replicas. It is followed by the server's id in hex, a dot and the slot.
	// Each replica has its own item, so that replicas added on both sides of a split can be merged.
	itemReplica = "Replica."
)

// towardFirst is the suffix of item Toward if TowardFirst is set.
const towardFirst = " first"

// entryUNID returns the UNID of the document of a database.
func entryUNID(db note.DatabaseID) note.UNID {
	return note.DeriveUNID([]byte(Kind), binary.BigEndian.AppendUint64(nil, uint64(db)))
}

// On returns the replica on a server.
func (e *Entry) On(server note.UNID) (Replica, bool) {
	for _, r := range e.Replicas {
		if r.Server == server {
			return r, true
		}
	}
	return Replica{}, false
}

// Slot returns the replica with the given slot.
func (e *Entry) Slot(slot uint8) (Replica, bool) {
	for _, r := range e.Replicas {
		if r.Slot == slot {
			return r, true
		}
	}
	return Replica{}, false
}

// on is like On, but e may be nil.
func (e *Entry) on(server note.UNID) (Replica, bool) {
	if e == nil {
		return Replica{}, false
	}
	return e.On(server)
}

// free returns a slot that no replica ever had or, if all were used, one that no replica has now. ok is false if there
// are 16 replicas.
func (e *Entry) free() (slot uint8, ok bool) {
	for s := range uint8(note.Slots) {
		if e.used&(1<<s) == 0 {
			return s, true
		}
	}
	for s := range uint8(note.Slots) {
		if _, taken := e.Slot(s); !taken {
			return s, true
		}
	}
	return 0, false
}

// add appends a replica with a free slot.
func (e *Entry) add(server note.UNID) (Replica, error) {
	slot, ok := e.free()
	if !ok {
		return Replica{}, fmt.Errorf("cluster: cannot add a replica: database %s has the maximum of %d", e.ID,
			note.Slots)
	}
	r := Replica{Server: server, Slot: slot, State: Serving}
	for _, o := range e.Replicas {
		r.Order = max(r.Order, o.Order+1)
	}
	if e.TowardFirst && e.Toward == server && len(e.Replicas) > 0 {
		r.Order = e.Replicas[0].Order - 1
	}
	e.Toward, e.TowardFirst = note.UNID{}, false
	e.Replicas = append(e.Replicas, r)
	e.used |= 1 << slot
	e.sort()
	return r, nil
}

// drop removes the replica of a server.
func (e *Entry) drop(server note.UNID) {
	e.Replicas = slices.DeleteFunc(e.Replicas, func(r Replica) bool { return r.Server == server })
}

// set changes the replica of a server, if it has one.
func (e *Entry) set(server note.UNID, fn func(*Replica)) {
	for i := range e.Replicas {
		if e.Replicas[i].Server == server {
			fn(&e.Replicas[i])
		}
	}
	e.sort()
}

func (e *Entry) sort() {
	slices.SortFunc(e.Replicas, func(a, b Replica) int {
		if a.Order != b.Order {
			return a.Order - b.Order
		}
		return int(a.Slot) - int(b.Slot)
	})
}

func replicaItem(r *Replica) string {
	return itemReplica + r.Server.String() + "." + strconv.Itoa(int(r.Slot))
}

// write sets the entry's items in items and leaves all others as they are.
func (e *Entry) write(items note.Items) note.Items {
	text := func(name, s string) {
		var v note.Value
		if s != "" {
			v = note.Text(s)
		}
		items = items.With(name, v)
	}
	text(itemForm, formDatabase)
	text(itemID, e.ID.String())
	text(itemKind, e.Kind)
	text(itemTitle, e.Title)
	if owner := ""; e.Owner.IsZero() {
		text(itemOwner, owner)
	} else {
		text(itemOwner, e.Owner.String())
	}
	flag := func(name string, on bool) {
		var v note.Value
		if on {
			v = note.Bool(true)
		}
		items = items.With(name, v)
	}
	flag(itemQueue, e.Queue)
	flag(itemDeleted, e.Deleted)
	items = items.With(itemWanted, nil)
	if e.Wanted > 0 {
		items = items.With(itemWanted, note.Int(int64(e.Wanted)))
	}
	switch {
	case e.Toward.IsZero():
		text(itemToward, "")
	case e.TowardFirst:
		text(itemToward, e.Toward.String()+towardFirst)
	default:
		text(itemToward, e.Toward.String())
	}
	present := map[string]bool{}
	for i := range e.Replicas {
		r := &e.Replicas[i]
		present[replicaItem(r)] = true
		items = items.With(replicaItem(r),
			note.TextList(string(r.State), strconv.Itoa(r.Order), strconv.FormatUint(r.Incarnation, 16)))
	}
	for _, it := range slices.Clone(items) {
		if strings.HasPrefix(it.Name, itemReplica) && !present[it.Name] {
			items = items.With(it.Name, note.TextList(string(gone), "0"))
		}
	}
	return items
}

// readEntry reads a document; ok is false for a note that is not the document of a database.
func readEntry(items note.Items) (*Entry, bool) {
	id, err := note.ParseDatabaseID(items.Get(itemID).AsText())
	if err != nil || items.Get(itemForm).AsText() != formDatabase {
		return nil, false
	}
	e := &Entry{
		ID: id, Kind: items.Get(itemKind).AsText(), Title: items.Get(itemTitle).AsText(),
		Queue: items.Get(itemQueue).AsBool(), Deleted: items.Get(itemDeleted).AsBool(),
	}
	e.Owner, _ = note.ParseUNID(items.Get(itemOwner).AsText())
	e.Wanted = int(min(note.Slots, max(0, items.Get(itemWanted).AsInt())))
	toward, first := strings.CutSuffix(items.Get(itemToward).AsText(), towardFirst)
	if e.Toward, err = note.ParseUNID(toward); err == nil {
		e.TowardFirst = first
	}
	for key, v := range items.Entries(itemReplica) {
		server, number, _ := strings.Cut(key, ".")
		u, err := note.ParseUNID(server)
		slot, err2 := strconv.ParseUint(number, 10, 8)
		list := v.AsTextList()
		if err != nil || err2 != nil || slot >= note.Slots || len(list) < 2 {
			continue
		}
		e.used |= 1 << slot
		order, _ := strconv.Atoi(list[1])
		var incarnation uint64
		if len(list) > 2 {
			incarnation, _ = strconv.ParseUint(list[2], 16, 64)
		}
		if state := ReplicaState(list[0]); state != gone {
			e.Replicas = append(e.Replicas, Replica{u, uint8(slot), state, order, incarnation})
		}
	}
	e.sort()
	return e, true
}

// entryOf returns the document for a database that exists only on one server, in slot 0.
func entryOf(i *layout.Info, server note.UNID, incarnation uint64) *Entry {
	return &Entry{
		ID: i.ID, Kind: i.Kind, Title: i.Title, Owner: i.Owner, Queue: i.Queue, used: 1,
		Replicas: []Replica{{Server: server, State: Serving, Incarnation: incarnation}},
	}
}

// move records a planned move. It does nothing if the replicas have changed since the plan.
func (e *Entry) move(m balance.Move) {
	from, has := e.On(m.From)
	_, there := e.On(m.To)
	switch {
	case m.Kind == balance.Replica && has && from.State == Serving && !there && e.Toward.IsZero():
		e.Toward, e.TowardFirst = m.To, false
		e.set(m.From, func(r *Replica) { r.State = Deleting })
	case m.Kind == balance.Home && e.Toward == m.To:
		e.TowardFirst = true
	case m.Kind == balance.Home && there:
		e.first(m.To)
	}
}

// first moves the replica of a server to the front of the order of preference.
func (e *Entry) first(server note.UNID) {
	first := e.Replicas[0].Order
	e.set(server, func(r *Replica) { r.Order = first - 1 })
}

// sole reports whether the only replica of the database is on server.
func (e *Entry) sole(server note.UNID) bool {
	return len(e.Replicas) == 1 && e.Replicas[0].Server == server
}
