package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"doublet/note"
	"doublet/store/layout"
)

// ID is the Cluster Database Directory: a replicated database with a document for every database of the
// cluster. Every member has a replica.
const ID note.DatabaseID = 0x0000000000C1DB12

// Kind is the kind of the Cluster Database Directory.
const Kind = "cldbdir"

// ReplicaState is what a replica is good for.
type ReplicaState string

// The states of a replica.
const (
	// Serving replicas are open to users.
	Serving ReplicaState = "in service"
	// Out of service: new opens go elsewhere, replication goes on.
	Out ReplicaState = "out of service"
	// Deleting: pending delete. It gives what it has to the others and goes when nobody has it open.
	Deleting ReplicaState = "pending delete"
	// gone replicas are kept for their slots, which are not given again.
	gone ReplicaState = "gone"
)

// Replica is one replica of a database.
type Replica struct {
	Server note.UNID
	Slot   uint8
	State  ReplicaState
	// Order is its place in the order of preference.
	Order int
	// Life is the incarnation of the server's store when the replica was there and nothing of it was lost; 0:
	// it has not been made yet. In another life numbers that it gave may be known elsewhere and not here.
	Life uint64
}

// Entry is the document of a database. It is not changed once it is in the catalog.
type Entry struct {
	ID          note.DatabaseID
	Kind, Title string
	Owner       note.UNID
	Queue       bool
	// Replicas are those that there are, in order of preference.
	Replicas []Replica
	// Deleted: the database is removed everywhere, for ever.
	Deleted bool
	// Wanted is how many replicas it is to have; 0: as many as the settings say.
	Wanted int
	// Toward is the server that the next replica goes to; it becomes first in the order where TowardFirst is set.
	Toward      note.UNID
	TowardFirst bool
	// used are the slots that any replica ever had.
	used uint16
}

// The items of an entry.
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
	// itemReplica begins the names of the items of replicas, one for each that there ever was, so that two
	// that are added on two sides merge: server in hex, dot, slot.
	itemReplica = "Replica."
)

// towardFirst ends the item Toward where the server is to be first.
const towardFirst = " first"

// entryUNID is the document of a database.
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

// Slot returns the replica with a slot.
func (e *Entry) Slot(slot uint8) (Replica, bool) {
	for _, r := range e.Replicas {
		if r.Slot == slot {
			return r, true
		}
	}
	return Replica{}, false
}

// free gives a slot that no replica ever had; once all were used, one that none has now. ok is false
// where sixteen replicas have theirs.
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

// add appends a replica with a fresh slot.
func (e *Entry) add(server note.UNID) (Replica, error) {
	slot, ok := e.free()
	if !ok {
		return Replica{}, fmt.Errorf("cluster: database %s has %d replicas, no more can be", e.ID, note.Slots)
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

// drop takes the replica of a server out.
func (e *Entry) drop(server note.UNID) {
	e.Replicas = slices.DeleteFunc(e.Replicas, func(r Replica) bool { return r.Server == server })
}

// set changes a replica that is there.
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
		items = items.With(replicaItem(r), note.TextList(string(r.State), strconv.Itoa(r.Order), strconv.FormatUint(r.Life, 16)))
	}
	for _, it := range slices.Clone(items) {
		if strings.HasPrefix(it.Name, itemReplica) && !present[it.Name] {
			items = items.With(it.Name, note.TextList(string(gone), "0"))
		}
	}
	return items
}

// readEntry reads a document; ok is false for what is none.
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
	for _, it := range items {
		rest, ok := strings.CutPrefix(it.Name, itemReplica)
		if !ok {
			continue
		}
		server, number, _ := strings.Cut(rest, ".")
		u, err := note.ParseUNID(server)
		slot, err2 := strconv.ParseUint(number, 10, 8)
		list := it.Value.AsTextList()
		if err != nil || err2 != nil || slot >= note.Slots || len(list) < 2 {
			continue
		}
		e.used |= 1 << slot
		order, _ := strconv.Atoi(list[1])
		var life uint64
		if len(list) > 2 {
			life, _ = strconv.ParseUint(list[2], 16, 64)
		}
		if state := ReplicaState(list[0]); state != gone {
			e.Replicas = append(e.Replicas, Replica{Server: u, Slot: uint8(slot), State: state, Order: order, Life: life})
		}
	}
	e.sort()
	return e, true
}

// entryOf is the entry of a database that is on one server only, whose store is in that life.
func entryOf(i *layout.Info, server note.UNID, slot uint8, life uint64) *Entry {
	return &Entry{
		ID: i.ID, Kind: i.Kind, Title: i.Title, Owner: i.Owner, Queue: i.Queue, used: 1 << slot,
		Replicas: []Replica{{Server: server, Slot: slot, State: Serving, Life: life}},
	}
}
