package queue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// MaxBoxes is the maximum number of mail.box databases over which a server spreads new messages.
const MaxBoxes = 8

// soleID returns the ID of the i-th mail.box of a standalone server. The ID is the same on every server, because these
// databases have no replicas.
func soleID(i int) note.DatabaseID { return BoxID + note.DatabaseID(i)<<16 }

// Sole reports whether id is one of the mail.box databases of a standalone server.
func Sole(id note.DatabaseID) bool {
	for i := range MaxBoxes {
		if soleID(i) == id {
			return true
		}
	}
	return false
}

// OwnedID returns the ID of the i-th mail.box of a cluster member. The ID is derived from the server's ID, so that a
// server that has lost its disk recognizes the replicas of its own databases on its mates.
func OwnedID(server note.UNID, i int) note.DatabaseID {
	u := note.DeriveUNID([]byte("mail.box"), server[:], []byte{byte(i)})
	return note.DatabaseID(binary.BigEndian.Uint64(u[:8]))
}

// Box is a mail.box database with a replica on this server.
type Box struct {
	ID note.DatabaseID
	// Index is the database's number in the keys of its entries.
	Index int
	// Owner is the server that owns the mail.box. It is zero for a database of a standalone server.
	Owner note.UNID

	lead   lead
	census census
	stop   func() // stops the watch
}

// Replicated reports whether mates may have replicas of the database and may add entries to it.
func (b *Box) Replicated() bool { return !b.Owner.IsZero() }

// Led reports whether this server processes the entries of the database.
func (b *Box) Led() bool { return b.lead.now() }

// Boxes holds the mail.box databases that have replicas here. A database keeps its index, which is part of the keys of
// its entries, until the server stops. Its methods may be called from any goroutine.
type Boxes struct {
	store   *store.Store
	spread  int // number of databases over which new messages are spread
	changed func()

	table atomic.Pointer[[]*Box]
	// own lists the mail.box databases of this server in its cluster; nil on a standalone server.
	own atomic.Pointer[[]note.DatabaseID]

	mu sync.Mutex // guards the fields below and the replacement of table
	// server is the ID of this server in its cluster, zero on a standalone server. arrived lists new databases that may
	// be mail.box databases.
	server  note.UNID
	arrived []note.DatabaseID
}

// Member reports whether the server is a member of a cluster.
func (bs *Boxes) Member() bool { return bs.own.Load() != nil }

// memberID returns the ID of this server in its cluster, zero on a standalone server.
func (bs *Boxes) memberID() note.UNID {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.server
}

// open creates the missing databases and opens the existing ones. Databases beyond the configured number, and
// those from before the server joined a cluster, stay until they are empty. They get no new messages.
func (bs *Boxes) open() error {
	for i := range MaxBoxes {
		id := soleID(i)
		_, err := bs.store.Info(id)
		if errors.Is(err, store.ErrNotFound) {
			if i >= bs.spread {
				continue
			}
			err = bs.make(id, i, note.UNID{}, "")
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
		if err := bs.add(id, note.UNID{}); err != nil {
			return err
		}
	}
	bs.store.WatchInfos(func(id note.DatabaseID) {
		bs.mu.Lock()
		member := !bs.server.IsZero()
		if member {
			bs.arrived = append(bs.arrived, id)
		}
		bs.mu.Unlock()
		if member {
			bs.changed()
		}
	})
	return nil
}

// make creates the i-th mail.box. The name is that of the cluster member that owns it; owner is zero on a standalone
// server.
func (bs *Boxes) make(id note.DatabaseID, i int, owner note.UNID, name string) error {
	title := "mail.box"
	if i > 0 {
		title = fmt.Sprintf("mail%d.box", i+1)
	}
	c := store.Create{ID: id, Title: title, Kind: Kind, Queue: true, Owner: owner}
	if !owner.IsZero() {
		c.Title, c.Ack = title+" of "+name, layout.AckCluster
	}
	_, err := bs.store.CreateDatabase(note.System, c)
	if errors.Is(err, store.ErrExists) {
		err = nil
	}
	return err
}

// Join makes this server a cluster member with the given name. New messages then go to mail.box databases that the
// server owns and that mates replicate. The function known reports whether the cluster has a database: if it is missing
// here, it is replicated from a mate instead of created.
func (bs *Boxes) Join(server note.UNID, name string, known func(note.DatabaseID) bool) error {
	var all, own []note.DatabaseID
	for i := range bs.spread {
		id := OwnedID(server, i)
		own = append(own, id)
		_, err := bs.store.Info(id)
		if errors.Is(err, store.ErrNotFound) {
			if err = nil; !known(id) {
				err = bs.make(id, i, server, name)
			}
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
	}
	err := bs.store.Infos(func(i *layout.Info) {
		if i.Kind == Kind {
			all = append(all, i.ID)
		}
	})
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	bs.mu.Lock()
	bs.server = server
	bs.arrived = append(bs.arrived, all...)
	bs.mu.Unlock()
	if err := bs.takeArrived(); err != nil {
		return err
	}
	bs.own.Store(&own)
	bs.changed()
	return nil
}

// takeArrived opens the mail.box databases among those that have arrived.
func (bs *Boxes) takeArrived() error {
	bs.mu.Lock()
	list := bs.arrived
	bs.arrived = nil
	bs.mu.Unlock()
	var errs []error
	for _, id := range list { // an error for one must not stop the others
		info, err := bs.store.Info(id)
		if err == nil && info.Kind == Kind && info.Queue && !Sole(id) {
			errs = append(errs, bs.add(id, info.Owner))
		}
	}
	return errors.Join(errs...)
}

// add opens a database. For a database that was deleted and created again, it renews the watch.
func (bs *Boxes) add(id note.DatabaseID, owner note.UNID) error {
	stop, err := bs.store.Watch(id, bs.changed)
	if errors.Is(err, store.ErrNotFound) {
		return nil // removed in the meantime
	}
	if err != nil {
		return fmt.Errorf("mail: watch mail.box: %w", err)
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	list := bs.all()
	if i := slices.IndexFunc(list, func(b *Box) bool { return b.ID == id }); i >= 0 {
		list[i].stop()
		list[i].stop = stop
		return nil
	}
	if len(list) >= maxBoxes {
		stop()
		return fmt.Errorf("mail: more than %d mail.box databases", maxBoxes)
	}
	b := &Box{ID: id, Index: len(list), Owner: owner, stop: stop, lead: lead{leads: owner.IsZero()}}
	grown := append(slices.Clone(list), b)
	bs.table.Store(&grown)
	return nil
}

// all returns the databases by index. The caller must not change the slice.
func (bs *Boxes) all() []*Box {
	if list := bs.table.Load(); list != nil {
		return *list
	}
	return nil
}

func (bs *Boxes) find(id note.DatabaseID) *Box {
	for _, b := range bs.all() {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// Of returns the mail.box that holds the entry with the key k.
func (bs *Boxes) Of(k Key) *Box { return bs.all()[k.Box()] }

// Led returns the mail.box databases whose entries this server processes, ordered by ID.
func (bs *Boxes) Led() []*Box {
	var out []*Box
	for _, b := range bs.all() {
		if b.Led() {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *Box) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Place returns the mail.box for a new message with this queue ID. Messages are spread over several databases, so that
// writers do not block each other. In a cluster it returns a database of this server, unless that database is out of
// service.
func (bs *Boxes) Place(id note.UNID) note.DatabaseID {
	i := int(id[len(id)-1]) % bs.spread
	if own := bs.own.Load(); own != nil {
		if info, err := bs.store.Info((*own)[i]); err == nil && info.State == layout.InService {
			return (*own)[i]
		}
	}
	return soleID(i)
}

// Key identifies an entry: the note ID in the low 48 bits and the index of the mail.box above it. Bits from KeyBits up
// are 0.
type Key uint64

const (
	boxShift = 48
	// KeyBits is the maximum number of bits in a Key.
	KeyBits  = 62
	maxBoxes = 1 << (KeyBits - boxShift)
)

// MakeKey returns the key of a note in the mail.box with this index.
func MakeKey(box int, id note.ID) Key { return Key(box)<<boxShift | Key(id) }

// Box returns the index of the mail.box.
func (k Key) Box() int { return int(k >> boxShift) }

// Note returns the ID of the note in its mail.box.
func (k Key) Note() note.ID { return note.ID(k & (1<<boxShift - 1)) }

// Key returns the key of a note in the mail.box.
func (b *Box) Key(id note.ID) Key { return MakeKey(b.Index, id) }

// KeyOf returns the key of an entry.
func (bs *Boxes) KeyOf(e *Entry) Key {
	if b := bs.find(e.box); b != nil {
		return b.Key(e.note)
	}
	return Key(e.note)
}

// OwnerOf returns the cluster member that owns the mail.box of an entry. It returns zero for a mail.box of a standalone
// server.
func (bs *Boxes) OwnerOf(e *Entry) note.UNID {
	if b := bs.find(e.box); b != nil {
		return b.Owner
	}
	return note.UNID{}
}
