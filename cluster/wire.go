package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/note/pack"
	"doublet/store"
)

// A message between members is one version byte and fields in a fixed order. Later versions only append fields: an
// older reader ignores them, and a newer reader takes missing fields as zero. So servers one version apart can talk to
// each other.

// Version is the version that this program sends, Oldest the first that it reads.
const (
	Version = 2
	Oldest  = 1
)

// Verbs.
const (
	verbHello     = "cluster.hello"
	verbPositions = "cluster.positions"
	verbYield     = "cluster.yield"
	verbLead      = "cluster.lead"
	verbWhere     = "cluster.where"
	verbOpen      = "cluster.open"
	verbJoin      = "cluster.join"
	verbInfo      = "cluster.info"
	verbFresh     = "cluster.fresh"
	verbObject    = "cluster.object"
	verbActivity  = "cluster.activity"
	verbMove      = "cluster.move"
	// verbReplica is for requests of replication. The streams below are for large ones.
	verbReplica = "replica"
	verbCall    = "replica.call"
	verbGet     = "replica.get"
	verbPut     = "replica.put"
)

// Limits of lists in messages.
const (
	maxServers   = 10_000
	maxPositions = 512
	maxWord      = 1000
)

// errFormat means that a message from a member is malformed.
var errFormat = errors.New("cluster: malformed message")

// hello is the state of a server that it sends with every probe.
type hello struct {
	version uint8
	// boot differs each time the process starts. incarnation is that of its store.
	boot, incarnation uint64
	// serving means that the server has caught up since it started and accepts users.
	serving bool
	// restricted means that an administrator has disabled opens. full means that it has the maximum number of users.
	restricted, full bool
	// index is the availability index. Below threshold the server counts as busy.
	index, threshold uint8
	users            uint32
	// databases is the number of its replicas, leads the number of those that are primary.
	databases, leads uint32
	// caught means that the receiver has received everything that was waiting when it came back.
	caught bool
	// hears lists the servers that answered its probes, each with the time since the last answer.
	hears []heard
	// Since version 2: clock is its time in Unix milliseconds (0: unknown), flush the median time of its last flushes.
	// noRoom means that its disk is full. common means that it accepts replicas of Options.Everywhere and of queues
	// that have an owner.
	clock  int64
	flush  time.Duration
	noRoom bool
	common bool
}

type heard struct {
	server note.UNID
	age    time.Duration
}

func (h *hello) busy() bool { return h.index < h.threshold }

// takesUsers reports whether the server accepts opens.
func (h *hello) takesUsers() bool {
	return h.serving && !h.restricted && !h.full && !h.noRoom && !h.busy()
}

func appendHello(h *hello) []byte {
	b := []byte{Version}
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, h.boot), h.incarnation)
	b = append(b, bits(h.serving, h.restricted, h.full, h.caught), h.index, h.threshold)
	for _, v := range []uint32{h.users, h.databases, h.leads} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	b = binary.AppendUvarint(b, uint64(len(h.hears)))
	for _, s := range h.hears {
		b = binary.AppendUvarint(append(b, s.server[:]...), uint64(s.age/time.Millisecond))
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(max(0, h.clock))), uint64(h.flush/time.Microsecond))
	return append(b, bits(h.noRoom, h.common))
}

func bits(list ...bool) (b byte) {
	for i, on := range list {
		if on {
			b |= 1 << i
		}
	}
	return b
}

func readHello(b []byte) (hello, error) {
	r, err := begin(b)
	if err != nil {
		return hello{}, err
	}
	h := hello{version: r.v, boot: r.Uint64(), incarnation: r.Uint64()}
	f := r.Byte()
	h.serving, h.restricted, h.full, h.caught = f&1 != 0, f&2 != 0, f&4 != 0, f&8 != 0
	h.index, h.threshold = min(r.Byte(), 100), min(r.Byte(), 100)
	h.users, h.databases, h.leads = r.Uvarint32(), r.Uvarint32(), r.Uvarint32()
	for range r.AtMost(maxServers, 17) {
		h.hears = append(h.hears, heard{r.UNID(), time.Duration(min(r.Uvarint(), 1<<40)) * time.Millisecond})
	}
	if h.version >= 2 {
		h.clock = int64(min(r.Uvarint(), 1<<48))
		h.flush = time.Duration(min(r.Uvarint(), 1<<40)) * time.Microsecond
		more := r.Byte()
		h.noRoom, h.common = more&1 != 0, more&2 != 0
	}
	return h, r.end()
}

// report is the position of one replica of a database, as its server reports it.
type report struct {
	db note.DatabaseID
	// missing means that there is no replica. out means that it must not lead (damaged, out of service). suspect: see
	// held.
	missing, out, leads, suspect bool
	// slot is the slot of the replica.
	slot uint8
	pos  store.Position
}

func appendReports(list []report) []byte {
	b := binary.AppendUvarint([]byte{Version}, uint64(len(list)))
	for i := range list {
		t := &list[i]
		b = binary.BigEndian.AppendUint64(b, uint64(t.db))
		b = append(b, bits(t.missing, t.out, t.leads, t.suspect), t.slot)
		b = appendPosition(b, &t.pos)
	}
	return b
}

func readReports(b []byte) ([]report, error) {
	r, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := make([]report, r.AtMost(maxPositions, 10))
	for i := range list {
		t := &list[i]
		t.db = note.DatabaseID(r.Uint64())
		f := r.Byte()
		t.missing, t.out, t.leads, t.suspect = f&1 != 0, f&2 != 0, f&4 != 0, f&8 != 0
		t.slot = r.Byte() & (note.Slots - 1)
		t.pos = r.position()
	}
	return list, r.end()
}

func appendPosition(b []byte, p *store.Position) []byte {
	return binary.AppendUvarint(note.AppendLedger(b, &p.Ledger), uint64(p.LastUIDValidity))
}

// readPosition decodes an answer that is one position.
func readPosition(b []byte) (store.Position, error) {
	r, err := begin(b)
	if err != nil {
		return store.Position{}, err
	}
	p := r.position()
	return p, r.end()
}

func (r *reader) position() (p store.Position) {
	if r.Bad {
		return p
	}
	var err error
	if p.Ledger, r.B, err = note.ReadLedger(r.B); err != nil {
		r.Spoil()
		return p
	}
	p.LastUIDValidity = r.Uvarint32()
	return p
}

// request is the body of yield and lead: one database and the position of the sender.
type request struct {
	db  note.DatabaseID
	pos store.Position
	// boot is the sender's boot. A request from before the sender's restart is invalid.
	boot uint64
}

func appendRequest(q *request) []byte {
	b := binary.BigEndian.AppendUint64([]byte{Version}, uint64(q.db))
	return appendPosition(binary.BigEndian.AppendUint64(b, q.boot), &q.pos)
}

func readRequest(b []byte) (request, error) {
	r, err := begin(b)
	if err != nil {
		return request{}, err
	}
	q := request{db: note.DatabaseID(r.Uint64()), boot: r.Uint64()}
	q.pos = r.position()
	return q, r.end()
}

// place is the current server of a database.
type place struct {
	db     note.DatabaseID
	server note.UNID // zero: none
	leads  bool
}

func appendDatabases(list []note.DatabaseID) []byte {
	b := binary.AppendUvarint([]byte{Version}, uint64(len(list)))
	for _, db := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(db))
	}
	return b
}

func readDatabases(b []byte) ([]note.DatabaseID, error) {
	r, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := make([]note.DatabaseID, r.AtMost(maxPositions, 8))
	for i := range list {
		list[i] = note.DatabaseID(r.Uint64())
	}
	return list, r.end()
}

func appendPlaces(list []place) []byte {
	b := binary.AppendUvarint([]byte{Version}, uint64(len(list)))
	for i := range list {
		p := &list[i]
		b = append(binary.BigEndian.AppendUint64(b, uint64(p.db)), p.server[:]...)
		b = append(b, bits(p.leads))
	}
	return b
}

func readPlaces(b []byte) ([]place, error) {
	r, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := make([]place, r.AtMost(maxPositions, 25))
	for i := range list {
		list[i] = place{note.DatabaseID(r.Uint64()), r.UNID(), r.Byte()&1 != 0}
	}
	return list, r.end()
}

// reader decodes a message. It records whether the message was too short.
type reader struct {
	pack.Reader
	v uint8
}

func begin(b []byte) (*reader, error) {
	if len(b) == 0 || b[0] < Oldest {
		return nil, fmt.Errorf("%w: empty, or its version is below %d", errFormat, Oldest)
	}
	return &reader{pack.Reader{B: b[1:]}, b[0]}, nil
}

// end returns an error if the message was malformed. A newer version may have appended fields.
func (r *reader) end() error {
	if r.Bad || r.v <= Version && len(r.B) != 0 {
		return errFormat
	}
	return nil
}
