package layout

import (
	"encoding/binary"

	"doublet/note"
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
	r := reader{b: b}
	i := &Info{ID: note.DatabaseID(r.uint64()), Number: r.uint32(), Replica: note.ReplicaID(r.uint64())}
	i.Title, i.Kind = r.string(), r.string()
	r.fixed(i.Owner[:])
	i.Created = r.varint()
	i.State = DatabaseState(r.byte())
	f := r.byte()
	i.Queue = f&infoQueue != 0
	i.Reason = r.string()
	i.Quota, i.Warning = r.uvarint(), r.uvarint()
	if r.bad {
		return nil, note.ErrCorrupt
	}
	var err error
	i.ACL, r.b, err = note.ReadACL(r.b)
	if err != nil {
		return nil, err
	}
	if f&infoShared != 0 {
		i.Ack = Ack(r.byte())
		if i.Stamp, r.b, err = note.ReadStamp(r.b); err != nil {
			return nil, err
		}
		i.Mod = note.ModSeq(r.uvarint())
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
	r := reader{b: b}
	items := make([]FeedItem, r.count(2))
	for i := range items {
		items[i] = FeedItem{uint32(r.uvarint()), note.ID(r.uvarint()), first + uint64(i)}
	}
	return items, r.end()
}

// UNIDRow is what a UNID leads to: a note, or a grave, which refuses it for ever.
func UNIDRow(id note.ID) []byte { return binary.AppendUvarint(nil, uint64(id)) }

// Grave is the value of a UNID row of a note that was deleted for good.
var Grave = []byte{0}

// ReadUNIDRow reads the row; id 0 is a grave.
func ReadUNIDRow(b []byte) (note.ID, error) {
	r := reader{b: b}
	id := note.ID(r.uvarint())
	return id, r.end()
}

// Peer is what a known replica of a database has passed.
type Peer struct {
	Passed uint64
	Heard  int64
}

// AppendPeer appends the row's stored form.
func AppendPeer(dst []byte, p *Peer) []byte {
	return binary.AppendVarint(binary.AppendUvarint(dst, p.Passed), p.Heard)
}

// ReadPeer reads the row.
func ReadPeer(b []byte) (Peer, error) {
	r := reader{b: b}
	p := Peer{Passed: r.uvarint(), Heard: r.varint()}
	return p, r.end()
}

// reader takes a row apart and remembers whether it ever ran short, so that rows read in one go.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, k := binary.Uvarint(r.b)
	if k <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[k:]
	return v
}

func (r *reader) varint() int64 {
	v, k := binary.Varint(r.b)
	if k <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[k:]
	return v
}

func (r *reader) fixed(dst []byte) {
	if len(r.b) < len(dst) {
		r.bad, r.b = true, nil
		return
	}
	copy(dst, r.b)
	r.b = r.b[len(dst):]
}

func (r *reader) byte() byte {
	var b [1]byte
	r.fixed(b[:])
	return b[0]
}

func (r *reader) uint32() uint32 {
	var b [4]byte
	r.fixed(b[:])
	return binary.BigEndian.Uint32(b[:])
}

func (r *reader) uint64() uint64 {
	var b [8]byte
	r.fixed(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// count reads a count of entries of at least size bytes each; more than the rest can hold is damage.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) string() string {
	n := r.count(1)
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) seen() []SeenCount {
	n := r.count(17)
	if n == 0 {
		return nil
	}
	list := make([]SeenCount, n)
	for i := range list {
		r.fixed(list[i].Person[:])
		list[i].Count = uint32(r.uvarint())
	}
	return list
}

func (r *reader) end() error {
	if r.bad || len(r.b) != 0 {
		return note.ErrCorrupt
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
