package replica

import (
	"sync"

	"doublet/note"
	"doublet/store"
)

// came remembers which notes have come from other replicas lately, and from which: a mate that sent one itself gets its
// numbers without its content, another one is asked first. It is a hint and bounded: of what is forgotten, content
// travels once for nothing, and what is lacking after all is asked for.
type came struct {
	mu       sync.Mutex
	now, old map[cameKey]origin
}

type cameKey struct {
	db   note.DatabaseID
	unid note.UNID
}

// origin is who brought a note last, and which revision; the zero revision where there were several leaves.
type origin struct {
	from note.ReplicaID
	rev  note.Revision
}

// maxCame is how many are remembered at least.
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

// onlyLeaf is the one revision that no other builds on, of a note without conflicts.
func onlyLeaf(n *store.Remote) (note.Revision, bool) {
	leaves := n.Tree.Leaves()
	if len(leaves) != 1 {
		return note.Revision{}, false
	}
	return leaves[0].Rev, true
}

// Came says whether a note has come from another replica lately, and whether it was this one that brought it as it is now.
func (s *Service) Came(db note.DatabaseID, n *store.Remote, from note.ReplicaID) (lately, itself bool) {
	o, lately := s.came.of(db, n.UNID)
	rev, single := onlyLeaf(n)
	return lately, lately && single && o.from == from && from != 0 && o.rev == rev
}
