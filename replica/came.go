package replica

import (
	"sync"

	"doublet/note"
)

// came remembers which notes have come from other replicas lately: a mate that is to get one of them, with its
// numbers, may have sent it itself, and is asked first. It is a hint and bounded: of what is forgotten, content
// travels once for nothing.
type came struct {
	mu       sync.Mutex
	now, old map[cameKey]struct{}
}

type cameKey struct {
	db   note.DatabaseID
	unid note.UNID
}

// maxCame is how many are remembered at least.
const maxCame = 20_000

func (c *came) add(db note.DatabaseID, u note.UNID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || len(c.now) >= maxCame {
		c.now, c.old = make(map[cameKey]struct{}), c.now
	}
	c.now[cameKey{db, u}] = struct{}{}
}

func (c *came) has(db note.DatabaseID, u note.UNID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := cameKey{db, u}
	if _, ok := c.now[k]; ok {
		return true
	}
	_, ok := c.old[k]
	return ok
}

// Came says whether a note has come from another replica lately.
func (s *Service) Came(db note.DatabaseID, u note.UNID) bool { return s.came.has(db, u) }
