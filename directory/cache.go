package directory

import (
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/stat"
)

// cacheKey identifies a lookup.
type cacheKey struct {
	// By text: 'a' address, 'n' name, 'k' hash of an app password, 'm' records of an index key. By id: 'p' person,
	// 't' target, 'w' who, 'g' all groups, 'r' record.
	kind byte
	text string
	id   note.UNID
}

// answer is the result of a lookup. It is shared and must not be changed.
type answer struct {
	target Target
	person *Person
	who    *note.Who
	groups []note.UNID
	// records holds at least one record.
	records []Record
}

// nameCache caches the most recently used answers. An answer is valid for the version of the directory at which it was
// found. The cache does not hold failures, so that guessed addresses do not displace useful entries.
type nameCache struct {
	mu      sync.Mutex
	max     int // maximum number of entries
	weight  int // of all entries, bytes
	entries map[cacheKey]*cached
	// root anchors the circular list: root.next is the most recently used entry.
	root cached

	hits, lookups atomic.Uint64
}

// entryWeight is the average weight that an entry may have, in bytes. It bounds the cache's memory: a few very large
// answers displace others.
const entryWeight = 1024

// size estimates the memory of an answer, in bytes.
func (a *answer) size() int {
	n := 400 + len(a.target.Name) + len(a.target.Detail) + 16*len(a.groups)
	if a.person != nil {
		n += a.person.size()
	}
	for i := range a.records {
		n += a.records[i].size()
	}
	if a.who != nil {
		n += 16 * len(a.who.Groups)
	}
	return n
}

func (p *Person) size() int {
	n := len(p.ShortName) + len(p.InternetAddress) + len(p.password) + 256*len(p.AppPasswords)
	n += len(p.Vacation.Subject) + len(p.Vacation.Text)
	for i := range p.Passkeys {
		k := &p.Passkeys[i]
		n += 200 + len(k.Name) + len(k.Credential.ID) + len(k.Key)
	}
	return n + sizeOf(p.FullName, p.MailAddress, p.Roles, p.Forward, p.SendAs, p.OnBehalf)
}

func (r *Record) size() int {
	switch {
	case r.Person != nil:
		return 400 + r.Person.size()
	case r.Group != nil:
		g := r.Group
		return 800 + len(g.Name) + len(g.Description) + sizeOf(g.Members, g.SendAs, g.OnBehalf)
	}
	return 400
}

func sizeOf(lists ...[]string) (n int) {
	for _, list := range lists {
		for _, s := range list {
			n += 16 + len(s)
		}
	}
	return n
}

type cached struct {
	key        cacheKey
	weight     int
	version    uint64
	answer     answer
	next, prev *cached
}

func newNameCache(limit int, t *stat.Tree) *nameCache {
	c := &nameCache{max: limit, entries: make(map[cacheKey]*cached)}
	c.root.next, c.root.prev = &c.root, &c.root
	t.GaugeFunc("Directory.NameCache.CurrentEntries", "answers kept", func() float64 { return float64(c.len()) })
	t.GaugeFunc("Directory.NameCache.MaxEntries", "answers kept at most", func() float64 { return float64(c.max) })
	t.CounterFunc("Directory.NameCache.Hits", "look-ups answered from the cache",
		func() float64 { return float64(c.hits.Load()) })
	t.CounterFunc("Directory.NameCache.Lookups", "look-ups", func() float64 { return float64(c.lookups.Load()) })
	return c
}

func (c *nameCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

func (c *nameCache) get(k cacheKey, version uint64) (answer, bool) {
	c.lookups.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return answer{}, false
	}
	if e.version != version {
		c.drop(e)
		return answer{}, false
	}
	c.unlink(e)
	c.push(e)
	c.hits.Add(1)
	return e.answer, true
}

// put caches an answer found in a snapshot that was taken after version was read.
func (c *nameCache) put(k cacheKey, version uint64, a answer) {
	if c.max <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil {
		c.drop(e)
	}
	e := &cached{key: k, version: version, answer: a, weight: len(k.text) + a.size()}
	c.entries[k] = e
	c.weight += e.weight
	c.push(e)
	for len(c.entries) > c.max || c.weight > c.max*entryWeight && len(c.entries) > 1 {
		c.drop(c.root.prev)
	}
}

func (c *nameCache) push(e *cached) {
	e.next, e.prev = c.root.next, &c.root
	e.next.prev, c.root.next = e, e
}

func (c *nameCache) unlink(e *cached) { e.prev.next, e.next.prev = e.next, e.prev }

func (c *nameCache) drop(e *cached) {
	c.unlink(e)
	c.weight -= e.weight
	delete(c.entries, e.key)
}
