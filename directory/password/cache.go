package password

import (
	"container/list"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// cache remembers verified passwords under a keyed digest. A reader of the process's memory cannot test guesses against
// it without also finding the key. An entry expires ttl after its verification, however often it is used. When the
// cache is full, the least recently used entry is dropped. A changed password has another hash, and so another digest.
type cache struct {
	key [32]byte

	mu    sync.Mutex
	size  int
	ttl   time.Duration
	table map[[32]byte]*list.Element
	lru   list.List // of entry, the most recently used first
}

type entry struct {
	digest [32]byte
	until  time.Time
}

func (c *cache) reset(size int, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.ttl = size, ttl
	c.table = map[[32]byte]*list.Element{}
	c.lru.Init()
}

func (c *cache) digest(phc, password string) (out [32]byte) {
	m := hmac.New(sha256.New, c.key[:])
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(phc)))
	m.Write(n[:])
	m.Write([]byte(phc))
	m.Write([]byte(password))
	m.Sum(out[:0])
	return out
}

func (c *cache) has(digest [32]byte, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.table[digest]
	if e == nil {
		return false
	}
	if !now.Before(e.Value.(entry).until) {
		c.remove(e)
		return false
	}
	c.lru.MoveToFront(e)
	return true
}

func (c *cache) add(digest [32]byte, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.table[digest]; e != nil {
		c.remove(e)
	}
	for len(c.table) > 0 && len(c.table) >= c.size {
		c.remove(c.lru.Back())
	}
	if c.size > 0 {
		c.table[digest] = c.lru.PushFront(entry{digest, now.Add(c.ttl)})
	}
}

func (c *cache) remove(e *list.Element) {
	delete(c.table, e.Value.(entry).digest)
	c.lru.Remove(e)
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.table)
}
