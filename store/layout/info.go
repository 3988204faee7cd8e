package layout

import (
	"encoding/binary"
	"strings"
	"time"

	"doublet/note"
	"doublet/note/pack"
)

// DatabaseState is the state of service of a database.
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

// Ack defines when a change of a database is acknowledged.
type Ack uint8

// The modes of acknowledgement.
const (
	// AckLocal acknowledges a change when it is durable here.
	AckLocal Ack = iota
	// AckCluster acknowledges a change when it is also durable on a mate, another member of the cluster. If no mate
	// confirms it in time, the change is acknowledged all the same, and the server counts it as degraded.
	AckCluster
	// AckStrict acknowledges a change when it is also durable on a mate. While no mate answers, changes are refused.
	AckStrict
	// AckEarly acknowledges a change when it is in the buffer of the transaction log, in its order, before the log is
	// flushed. A crash may lose the changes that were acknowledged since the last flush. Readers, the feed and mates
	// see a change when it is durable, as in the other modes.
	AckEarly
)

// Acks lists the modes of acknowledgement.
var Acks = []Ack{AckLocal, AckCluster, AckStrict, AckEarly}

// Confirmed reports whether a change waits for a mate.
func (a Ack) Confirmed() bool { return a == AckCluster || a == AckStrict }

func (a Ack) String() string {
	switch a {
	case AckLocal:
		return "local"
	case AckCluster:
		return "cluster"
	case AckStrict:
		return "cluster-strict"
	case AckEarly:
		return "early"
	}
	return "acknowledgement ?"
}

// Info is the description of a database. It changes rarely.
type Info struct {
	ID      note.DatabaseID
	Number  uint32
	Replica note.ReplicaID
	// Title is for people. Kind is the purpose of the database ("mail", "directory", "queue"), set by its creator.
	Title, Kind string
	Owner       note.UNID
	Created     int64
	State       DatabaseState
	// Reason is the reason why the database is out of service.
	Reason string
	// Quota is the maximum number of bytes in the database; 0 means no limit. From Warning bytes on
	// the owner is warned; 0 means never.
	Quota, Warning uint64
	ACL            note.ACL
	// Queue marks a database that keeps no graves.
	Queue bool
	// Ack defines when changes are acknowledged.
	Ack Ack
	// NoFullText keeps the database out of the full-text index. Searches then read its texts.
	NoFullText bool
	// Key is the database's own key; nil if it has none. Each replica has its own.
	Key *DatabaseKey
	// Stamp is the time and replica of the last change of the shared part of Info (TakeShared), in a shared database.
	// Mod is the MODSEQ that the home assigned to that change; 0 if no home knows it yet.
	Stamp note.Stamp
	Mod   note.ModSeq
}

// DatabaseKey is the key of a database that has one of its own. It does not change; another one replaces it.
type DatabaseKey struct {
	// Wrapped is the key, encrypted with one of the key file File.
	Wrapped []byte
	File    string
	// Leaving means that the database is to have no key any more: what is written is not sealed.
	Leaving bool
	// Settled means that all is as it should be: sealed or, if Leaving, not.
	Settled bool
}

// lockedBy is the reason of a database whose key is not given.
const lockedBy = "locked: its key is needed (doublet db unlock)"

// MarkLocked sets a database out of service until its key is given. One that is out of service already stays so.
func (i *Info) MarkLocked() {
	if i.State == InService {
		i.State, i.Reason = OutOfService, lockedBy
	}
}

// MarkUnlocked puts a database back into service that MarkLocked has taken out.
func (i *Info) MarkUnlocked() {
	if i.State == OutOfService && i.Reason == lockedBy {
		i.State, i.Reason = InService, ""
	}
}

// Indexed reports whether the database is in the full-text index. One with a key of its own is not, because the index
// would hold its words.
func (i *Info) Indexed() bool { return !i.NoFullText && i.Key == nil }

// Sent returns the description as other servers get it: without the key.
func (i *Info) Sent() *Info {
	out := *i
	out.Key = nil
	return &out
}

// removedAt is the prefix of the reason of a removed database. The time follows.
const removedAt = "removed at "

// Remove marks a database as removed at a time. It is deleted later, and can be restored until then.
func (i *Info) Remove(now time.Time) {
	i.State, i.Reason = PendingDelete, removedAt+now.UTC().Format(time.RFC3339)
}

// Removed returns the time at which a database was removed, false if it was not.
func (i *Info) Removed() (time.Time, bool) {
	text, ok := strings.CutPrefix(i.Reason, removedAt)
	at, err := time.Parse(time.RFC3339, text)
	return at, ok && err == nil && i.State == PendingDelete
}

// SameShared reports whether two replicas have the same shared part of Info.
func (i *Info) SameShared(o *Info) bool {
	return i.Title == o.Title && i.Owner == o.Owner && i.Quota == o.Quota && i.Warning == o.Warning && i.Ack == o.Ack &&
		i.NoFullText == o.NoFullText &&
		string(note.AppendACL(nil, &i.ACL)) == string(note.AppendACL(nil, &o.ACL))
}

// TakeShared copies the part of Info that replicas share, and its Stamp.
func (i *Info) TakeShared(o *Info) {
	i.Title, i.Owner, i.Quota, i.Warning, i.Ack, i.ACL, i.Stamp = o.Title, o.Owner, o.Quota, o.Warning, o.Ack,
		o.ACL, o.Stamp
	i.NoFullText = o.NoFullText
}

// The flags of an info row.
const (
	infoQueue = 1 << iota
	infoShared
	infoNoFullText // an older program ignores it, and indexes the database
	infoKey
)

// AppendInfo appends the encoded row.
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
	if i.NoFullText {
		f |= infoNoFullText
	}
	if i.Key != nil {
		f |= infoKey
	}
	dst = append(dst, byte(i.State), f)
	dst = appendString(dst, i.Reason)
	dst = binary.AppendUvarint(dst, i.Quota)
	dst = binary.AppendUvarint(dst, i.Warning)
	dst = note.AppendACL(dst, &i.ACL)
	if more {
		dst = binary.AppendUvarint(note.AppendStamp(append(dst, byte(i.Ack)), i.Stamp), uint64(i.Mod))
	}
	if k := i.Key; k != nil {
		dst = append(appendString(appendString(dst, string(k.Wrapped)), k.File), flag(k.Leaving, 1)|flag(k.Settled, 2))
	}
	return dst
}

// ReadInfo decodes the row.
func ReadInfo(b []byte) (*Info, error) {
	r := reader{pack.Reader{B: b}}
	i := &Info{ID: note.DatabaseID(r.Uint64()), Number: r.Uint32(), Replica: note.ReplicaID(r.Uint64())}
	i.Title, i.Kind = r.String(), r.String()
	r.Fixed(i.Owner[:])
	i.Created = r.Varint()
	i.State = DatabaseState(r.Byte())
	f := r.Byte()
	i.Queue, i.NoFullText = f&infoQueue != 0, f&infoNoFullText != 0
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
	if f&infoKey != 0 {
		i.Key = &DatabaseKey{Wrapped: []byte(r.String()), File: r.String()}
		flags := r.Byte()
		i.Key.Leaving, i.Key.Settled = flags&1 != 0, flags&2 != 0
	}
	return i, r.end()
}

// FeedItem is one changed note of a commit.
type FeedItem struct {
	Database uint32
	Note     note.ID
	Seq      uint64
}

// AppendFeed appends a feed entry: the notes that one commit changed, in order. The entry's key holds the sequence of
// the first note.
func AppendFeed(dst []byte, items []FeedItem) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(items)))
	for _, it := range items {
		dst = binary.AppendUvarint(dst, uint64(it.Database))
		dst = binary.AppendUvarint(dst, uint64(it.Note))
	}
	return dst
}

// ReadFeed decodes a feed entry whose key holds first.
func ReadFeed(first uint64, b []byte) ([]FeedItem, error) {
	r := reader{pack.Reader{B: b}}
	items := make([]FeedItem, r.Count(2))
	for i := range items {
		items[i] = FeedItem{uint32(r.Uvarint()), note.ID(r.Uvarint()), first + uint64(i)}
	}
	return items, r.end()
}

// UNIDRow returns the value of a UNID row that leads to a note.
func UNIDRow(id note.ID) []byte { return binary.AppendUvarint(nil, uint64(id)) }

// Grave is the value of the UNID row of a note that was deleted for good. The UNID is refused forever.
var Grave = []byte{0}

// ReadUNIDRow decodes the row. Id 0 is a grave.
func ReadUNIDRow(b []byte) (note.ID, error) {
	r := reader{pack.Reader{B: b}}
	id := note.ID(r.Uvarint())
	return id, r.end()
}

// Peer records how far a known replica of a database has read: Passed is a sequence, Heard the time of the last contact
// in Unix seconds.
type Peer struct {
	Passed uint64
	Heard  int64
	// Met is the latest position at which the replica was in step, if it has a slot; zero if not known.
	Met Met
}

// Met is a position at which another replica is known to have been in step: it had all of this replica's ledger up to
// Last, and no UID above UID had been assigned by then.
type Met struct {
	Slot  uint8
	Epoch uint32
	Last  note.ModSeq
	UID   uint32
}

// AppendPeer appends the encoded row.
func AppendPeer(dst []byte, p *Peer) []byte {
	dst = binary.AppendVarint(binary.AppendUvarint(dst, p.Passed), p.Heard)
	if p.Met == (Met{}) {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, p.Met.Slot), uint64(p.Met.Epoch))
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.Met.Last)), uint64(p.Met.UID))
}

// ReadPeer decodes the row.
func ReadPeer(b []byte) (Peer, error) {
	r := reader{pack.Reader{B: b}}
	p := Peer{Passed: r.Uvarint(), Heard: r.Varint()}
	if len(r.B) > 0 { // rows of older versions have no Met
		p.Met = Met{Slot: r.Byte(), Epoch: r.Uvarint32(), Last: note.ModSeq(r.Uvarint()), UID: r.Uvarint32()}
		if p.Met.Slot >= note.Slots || p.Met == (Met{}) {
			r.Spoil()
		}
	}
	return p, r.end()
}

// reader decodes a row and remembers whether the row was too short, so that callers check only once.
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
