package layout

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
)

// DatabaseState says whether a database is served.
type DatabaseState uint8

// The states of a database.
const (
	InService DatabaseState = iota
	OutOfService
	PendingDelete
)

func (s DatabaseState) String() string {
	switch s {
	case InService:
		return "in service"
	case OutOfService:
		return "out of service"
	case PendingDelete:
		return "pending delete"
	}
	return "state ?"
}

// Ack says when a change of a database is acknowledged.
type Ack uint8

// The modes of acknowledgement.
const (
	// AckLocal: when it is durable here.
	AckLocal Ack = iota
	// AckCluster: when it is durable on a mate too; visibly as AckLocal while no mate answers.
	AckCluster
	// AckStrict: when it is durable on a mate too; refused while no mate answers.
	AckStrict
)

func (a Ack) String() string {
	switch a {
	case AckLocal:
		return "local"
	case AckCluster:
		return "cluster"
	case AckStrict:
		return "cluster-strict"
	}
	return "acknowledgement ?"
}

// Info says what a database is. It changes rarely.
type Info struct {
	ID      note.DatabaseID
	Number  uint32
	Replica note.ReplicaID
	// Title is for people; Kind is what the rooms above made it for ("mail", "directory", "queue").
	Title, Kind string
	Owner       note.UNID
	Created     int64
	State       DatabaseState
	// Reason says why it is out of service.
	Reason string
	// Quota is the most bytes that it may hold; 0 is no limit. Warning likewise, for a word to its owner.
	Quota, Warning uint64
	ACL            note.ACL
	// Queue marks a database that keeps no graves.
	Queue bool
	// Ack is when changes are acknowledged.
	Ack Ack
	// Stamp is when and where that which replicas share (Shared) was written last, in a database that is
	// shared, and Mod the MODSEQ that its home gave that; 0 where no home knows it yet.
	Stamp note.Stamp
	Mod   note.ModSeq
}

// SameShared says whether two replicas agree on what they share of what the database is.
func (i *Info) SameShared(o *Info) bool {
	return i.Title == o.Title && i.Owner == o.Owner && i.Quota == o.Quota && i.Warning == o.Warning && i.Ack == o.Ack &&
		string(note.AppendACL(nil, &i.ACL)) == string(note.AppendACL(nil, &o.ACL))
}

// TakeShared takes from another replica what replicas share.
func (i *Info) TakeShared(o *Info) {
	i.Title, i.Owner, i.Quota, i.Warning, i.Ack, i.ACL, i.Stamp = o.Title, o.Owner, o.Quota, o.Warning, o.Ack, o.ACL, o.Stamp
}

// The flags of an info row.
const (
	infoQueue = 1 << iota
	infoShared
)

// AppendInfo appends the row's stored form.
func AppendInfo(dst []byte, i *Info) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.ID))
	dst = binary.BigEndian.AppendUint32(dst, i.Number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.Replica))
	dst = appendString(appendString(dst, i.Title), i.Kind)
	dst = append(dst, i.Owner[:]...)
	dst = binary.AppendVarint(dst, i.Created)
	var f byte
	if i.Queue {
		f |= infoQueue
	}
	more := i.Ack != AckLocal || i.Stamp != (note.Stamp{}) || i.Mod != 0
	if more {
		f |= infoShared
	}
	dst = append(dst, byte(i.State), f)
	dst = appendString(dst, i.Reason)
	dst = binary.AppendUvarint(dst, i.Quota)
	dst = binary.AppendUvarint(dst, i.Warning)
	dst = note.AppendACL(dst, &i.ACL)
	if !more {
		return dst
	}
	return binary.AppendUvarint(note.AppendStamp(append(dst, byte(i.Ack)), i.Stamp), uint64(i.Mod))
}

// ReadInfo reads the row.
func ReadInfo(b []byte) (*Info, error) {
	r := reader{pack.Reader{B: b}}
	i := &Info{ID: note.DatabaseID(r.Uint64()), Number: r.Uint32(), Replica: note.ReplicaID(r.Uint64())}
	i.Title, i.Kind = r.String(), r.String()
	r.Fixed(i.Owner[:])
	i.Created = r.Varint()
	i.State = DatabaseState(r.Byte())
	f := r.Byte()
	i.Queue = f&infoQueue != 0
	i.Reason = r.String()
	i.Quota, i.Warning = r.Uvarint(), r.Uvarint()
	if r.Bad {
		return nil, note.ErrCorrupt
	}
	var err error
	i.ACL, r.B, err = note.ReadACL(r.B)
	if err != nil {
		return nil, err
	}
	if f&infoShared != 0 {
		i.Ack = Ack(r.Byte())
		if i.Stamp, r.B, err = note.ReadStamp(r.B); err != nil {
			return nil, err
		}
		i.Mod = note.ModSeq(r.Uvarint())
	}
	return i, r.end()
}

// FeedItem is one changed note of a commit.
type FeedItem struct {
	Database uint32
	Note     note.ID
	Seq      uint64
}

// AppendFeed appends a feed entry: the notes that one commit changed, in order. The key holds the
// sequence of the first.
func AppendFeed(dst []byte, items []FeedItem) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(items)))
	for _, it := range items {
		dst = binary.AppendUvarint(dst, uint64(it.Database))
		dst = binary.AppendUvarint(dst, uint64(it.Note))
	}
	return dst
}

// ReadFeed reads a feed entry whose key holds first.
func ReadFeed(first uint64, b []byte) ([]FeedItem, error) {
	r := reader{pack.Reader{B: b}}
	items := make([]FeedItem, r.Count(2))
	for i := range items {
		items[i] = FeedItem{uint32(r.Uvarint()), note.ID(r.Uvarint()), first + uint64(i)}
	}
	return items, r.end()
}

// UNIDRow is what a UNID leads to: a note, or a grave, which refuses it for ever.
func UNIDRow(id note.ID) []byte { return binary.AppendUvarint(nil, uint64(id)) }

// Grave is the value of a UNID row of a note that was deleted for good.
var Grave = []byte{0}

// ReadUNIDRow reads the row; id 0 is a grave.
func ReadUNIDRow(b []byte) (note.ID, error) {
	r := reader{pack.Reader{B: b}}
	id := note.ID(r.Uvarint())
	return id, r.end()
}

// Peer is what a known replica of a database has passed.
type Peer struct {
	Passed uint64
	Heard  int64
	// Met is where it was in step last, for one that has a slot; its zero value where that is not known.
	Met Met
}

// Met is where another replica was in step, as far as is known for certain: it had all of this replica's ledger up
// to Last, and no UID above UID had been given by then.
type Met struct {
	Slot  uint8
	Epoch uint32
	Last  note.ModSeq
	UID   uint32
}

// AppendPeer appends the row's stored form.
func AppendPeer(dst []byte, p *Peer) []byte {
	dst = binary.AppendVarint(binary.AppendUvarint(dst, p.Passed), p.Heard)
	if p.Met == (Met{}) {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, p.Met.Slot), uint64(p.Met.Epoch))
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.Met.Last)), uint64(p.Met.UID))
}

// ReadPeer reads the row.
func ReadPeer(b []byte) (Peer, error) {
	r := reader{pack.Reader{B: b}}
	p := Peer{Passed: r.Uvarint(), Heard: r.Varint()}
	if len(r.B) > 0 { // a row of before there was this has none
		p.Met = Met{Slot: r.Byte(), Epoch: r.Uvarint32(), Last: note.ModSeq(r.Uvarint()), UID: r.Uvarint32()}
		if p.Met.Slot >= note.Slots || p.Met == (Met{}) {
			r.Spoil()
		}
	}
	return p, r.end()
}

// reader takes a row apart and remembers whether it ever ran short, so that rows read in one go.
type reader struct{ pack.Reader }

func (r *reader) seen() []SeenCount {
	n := r.Count(17)
	if n == 0 {
		return nil
	}
	list := make([]SeenCount, n)
	for i := range list {
		r.Fixed(list[i].Person[:])
		list[i].Count = uint32(r.Uvarint())
	}
	return list
}

func (r *reader) end() error {
	if !r.Done() {
		return note.ErrCorrupt
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
