package cluster

import (
	"context"
	"sync"

	"doublet/note"
	"doublet/replica"
)

// knowledge is what a server remembers of a mate's replicas, so that a change needs one request to get there. It is bounded: of
// what is forgotten, the mate is asked once more.
type knowledge struct {
	mu       sync.Mutex
	now, old map[note.DatabaseID]*replica.Known
}

// maxKnown is of how many databases is remembered at least.
const maxKnown = 4096

// of is what is known of one replica; it learns.
func (k *knowledge) of(db note.DatabaseID) *replica.Known {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.now[db]; x != nil {
		return x
	}
	x := k.old[db]
	if x == nil {
		x = &replica.Known{}
	}
	if k.now == nil || len(k.now) >= maxKnown {
		k.now, k.old = make(map[note.DatabaseID]*replica.Known), k.now
	}
	k.now[db] = x
	return x
}

// forget is for a mate that started anew.
func (k *knowledge) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now, k.old = nil, nil
}

// objectsAtOnce is about how many bytes of large parts are on their way to a mate, which holds them until the notes that name
// them are there: a part of what it holds at most (replica.Options.Memory). What is larger goes alone.
const objectsAtOnce = 64 << 20

// room waits until so many bytes of large parts may go to the mate.
func (p *peer) room(ctx context.Context, bytes uint64) (give func(), err error) {
	n := int64(min(bytes, 1<<62))
	if err := p.objects.Take(ctx, n); err != nil {
		return nil, err
	}
	return func() { p.objects.Give(n) }, nil
}
