package queue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// MaxBoxes is the largest number of mail.box databases that a server spreads new messages over.
const MaxBoxes = 8

// soleID returns the ID of the i-th mail.box of a server that is alone. It is the same on every server, so that the
// database cannot have replicas.
func soleID(i int) note.DatabaseID { return BoxID + note.DatabaseID(i)<<16 }

// Sole reports that a mail.box is one of those that a server has while it is alone.
func Sole(id note.DatabaseID) bool {
	for i := range MaxBoxes {
		if soleID(i) == id {
			return true
		}
	}
	return false
}

// OwnedID returns the ID of the i-th mail.box of a member of a cluster. It is derived from the server's ID, so that a
// server that has lost its disk recognizes the replicas of its own that its mates have.
func OwnedID(server note.UNID, i int) note.DatabaseID {
	u := note.DeriveUNID([]byte("mail.box"), server[:], []byte{byte(i)})
	return note.DatabaseID(binary.BigEndian.Uint64(u[:8]))
}

// Box is a mail.box database of which there is a replica here.
type Box struct {
	ID note.DatabaseID
	// Index is the database's number in the keys of its entries.
	Index int
	// Owner is the server that the mail.box belongs to; zero for those of a server that is alone.
	Owner note.UNID

	lead   lead
	census census
	stop   func() // ends the watch
}

// Replicated reports that mates may have the database too, and that entries come from them.
func (b *Box) Replicated() bool { return !b.Owner.IsZero() }

// openBoxes creates the missing databases and takes up the existing ones. Databases beyond the configured number, and
// those of the time before the server joined a cluster, stay until they are empty: no new message is entered in them.
func (q *Queue) openBoxes() error {
	for i := range MaxBoxes {
		id := soleID(i)
		_, err := q.store.Info(id)
		if errors.Is(err, store.ErrNotFound) {
			if i >= q.spread {
				continue
			}
			err = q.makeBox(id, i, note.UNID{}, "")
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
		if err := q.addBox(id, note.UNID{}); err != nil {
			return err
		}
	}
	q.store.WatchInfos(func(id note.DatabaseID) {
		q.mu.Lock()
		member := !q.server.IsZero()
		if member {
			q.arrived = append(q.arrived, id)
		}
		q.mu.Unlock()
		if member {
			q.changed()
		}
	})
	return nil
}

// makeBox creates the i-th mail.box of the member of a cluster with this name, or of a server that is alone.
func (q *Queue) makeBox(id note.DatabaseID, i int, owner note.UNID, name string) error {
	title := "mail.box"
	if i > 0 {
		title = fmt.Sprintf("mail%d.box", i+1)
	}
	c := store.Create{ID: id, Title: title, Kind: Kind, Queue: true, Owner: owner}
	if !owner.IsZero() {
		c.Title, c.Ack = title+" of "+name, layout.AckCluster
	}
	_, err := q.store.CreateDatabase(note.System, c)
	if errors.Is(err, store.ErrExists) {
		err = nil
	}
	return err
}

// Join makes the server, as the member of a cluster with this name, enter new messages in mail.box databases of its
// own, whose replicas mates have. known reports that the cluster has a database: one that is missing here is then
// replicated from a mate instead of created.
func (q *Queue) Join(server note.UNID, name string, known func(note.DatabaseID) bool) error {
	var all, own []note.DatabaseID
	for i := range q.spread {
		id := OwnedID(server, i)
		own = append(own, id)
		_, err := q.store.Info(id)
		if errors.Is(err, store.ErrNotFound) {
			if err = nil; !known(id) {
				err = q.makeBox(id, i, server, name)
			}
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
	}
	err := q.store.Infos(func(i *layout.Info) {
		if i.Kind == Kind {
			all = append(all, i.ID)
		}
	})
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	q.mu.Lock()
	q.server = server
	q.arrived = append(q.arrived, all...)
	q.mu.Unlock()
	if err := q.takeArrived(); err != nil {
		return err
	}
	q.own.Store(&own)
	q.changed()
	return nil
}

// takeArrived takes up the mail.box databases among those that have arrived.
func (q *Queue) takeArrived() error {
	q.mu.Lock()
	list := q.arrived
	q.arrived = nil
	q.mu.Unlock()
	var errs []error
	for _, id := range list { // one that fails keeps none of the others away
		info, err := q.store.Info(id)
		if err == nil && info.Kind == Kind && info.Queue && !Sole(id) {
			errs = append(errs, q.addBox(id, info.Owner))
		}
	}
	return errors.Join(errs...)
}

// addBox takes up a database, or renews the watch of one that was created again.
func (q *Queue) addBox(id note.DatabaseID, owner note.UNID) error {
	stop, err := q.store.Watch(id, q.changed)
	if errors.Is(err, store.ErrNotFound) {
		return nil // removed again
	}
	if err != nil {
		return fmt.Errorf("mail: watch mail.box: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.boxes()
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
	q.table.Store(&grown)
	return nil
}

// boxes returns the databases by index. The caller must not change the list.
func (q *Queue) boxes() []*Box {
	if list := q.table.Load(); list != nil {
		return *list
	}
	return nil
}

func (q *Queue) box(id note.DatabaseID) *Box {
	for _, b := range q.boxes() {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// Of returns the mail.box that holds an entry, by its key.
func (q *Queue) Of(k Key) *Box { return q.boxes()[k.Box()] }

// Leads reports that this server works on the entries of a mail.box.
func (q *Queue) Leads(b *Box) bool { return b.lead.now() }

// Led lists the mail.box databases whose entries this server works on, ordered by ID.
func (q *Queue) Led() []*Box {
	var out []*Box
	for _, b := range q.boxes() {
		if b.lead.now() {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *Box) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Place returns the mail.box for a new message with this queue ID. Messages are spread, so that many writers do not
// wait for each other. In a cluster it is one of the server's own, unless that is out of service.
func (q *Queue) Place(id note.UNID) note.DatabaseID {
	i := int(id[len(id)-1]) % q.spread
	if own := q.own.Load(); own != nil {
		if info, err := q.store.Info((*own)[i]); err == nil && info.State == layout.InService {
			return (*own)[i]
		}
	}
	return soleID(i)
}

// Key names an entry: the note's ID, with the index of its mail.box above it. The bits from KeyBits on are 0.
type Key uint64

const (
	boxShift = 48
	// KeyBits is the number of bits that a Key uses at most.
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
func (q *Queue) KeyOf(e *Entry) Key {
	if b := q.box(e.box); b != nil {
		return b.Key(e.note)
	}
	return Key(e.note)
}

// OwnerOf returns the member of a cluster in whose mail.box a message waits; zero for a server that is, or was, alone.
func (q *Queue) OwnerOf(e *Entry) note.UNID {
	if b := q.box(e.box); b != nil {
		return b.Owner
	}
	return note.UNID{}
}
