package replica

import (
	"sync"

	"doublet/note"
	"doublet/store"
)

// came records which notes other replicas sent recently, and which replica sent each. A follower that sent a note
// itself later receives only its numbers, without the content; any other replica is asked first. The record is a
// bounded hint. If an entry is lost, content is transferred once without need. If content is wrongly omitted, the
// target requests it.
type came struct {
	mu       sync.Mutex
	now, old map[cameKey]origin
}

type cameKey struct {
	db   note.DatabaseID
	unid note.UNID
}

// origin is the replica that last sent a note, and the revision it sent; rev is zero if the note had several leaves.
type origin struct {
	from note.ReplicaID
	rev  note.Revision
}

// maxCame is the minimum number of notes remembered. Two generations of this size are kept.
const maxCame = 20_000

func (c *came) add(db note.DatabaseID, n *store.Remote, from note.ReplicaID) {
	rev, _ := onlyLeaf(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || len(c.now) >= maxCame {
		c.now, c.old = make(map[cameKey]origin), c.now
	}
	c.now[cameKey{db, n.UNID}] = origin{from, rev}
}

func (c *came) of(db note.DatabaseID, u note.UNID) (origin, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := cameKey{db, u}
	o, ok := c.now[k]
	if !ok {
		o, ok = c.old[k]
	}
	return o, ok
}

// onlyLeaf returns the only leaf revision of a note. ok is false if the note has conflicts.
func onlyLeaf(n *store.Remote) (note.Revision, bool) {
	leaves := n.Tree.Leaves()
	if len(leaves) != 1 {
		return note.Revision{}, false
	}
	return leaves[0].Rev, true
}

// Came looks up a note in the record. lately is true if any replica sent it recently; itself is true if the replica
// named from sent exactly the current revision.
func (s *Service) Came(db note.DatabaseID, n *store.Remote, from note.ReplicaID) (lately, itself bool) {
	o, lately := s.came.of(db, n.UNID)
	rev, single := onlyLeaf(n)
	return lately, lately && single && o.from == from && from != 0 && o.rev == rev
}
