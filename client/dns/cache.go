package dns

import (
	"container/list"
	"sync"
	"time"
)

// entryBytes is the memory limit per cache entry on average. Remote senders choose the names that are looked up, and
// can publish answers of 64 KB. Without the limit, many such answers would fill the memory.
const entryBytes = 1 << 10

// cache keeps answers, with a limit on their number and on their total size in bytes. It evicts the least recently used
// answers first.
type cache struct {
	mu    sync.Mutex
	most  int
	bytes int
	byKey map[question]*list.Element
	order list.List // of *kept, the most recently used first
}

type kept struct {
	q question
	a answer
}

func newCache(most int) *cache {
	return &cache{most: most, byKey: map[question]*list.Element{}}
}

func (c *cache) get(q question, now time.Time) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[q]
	if e == nil {
		return answer{}, false
	}
	k := e.Value.(*kept)
	if !now.Before(k.a.expires) {
		c.drop(e)
		return answer{}, false
	}
	c.order.MoveToFront(e)
	return k.a, true
}

func (c *cache) put(q question, a answer, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[q]; e != nil {
		c.drop(e)
	}
	if !now.Before(a.expires) {
		return
	}
	c.byKey[q] = c.order.PushFront(&kept{q, a})
	c.bytes += a.size
	for len(c.byKey) > c.most || c.bytes > c.most*entryBytes {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	k := e.Value.(*kept)
	c.bytes -= k.a.size
	delete(c.byKey, k.q)
	c.order.Remove(e)
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}
