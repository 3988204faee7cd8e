package index

import (
	"fmt"
	"testing"

	"doublet/note"
)

// TestDocsCacheOrder checks that a full cache drops the documents that were not used for the longest time, that it
// never holds more than max bytes, and that it refuses documents of more than half of max.
func TestDocsCacheOrder(t *testing.T) {
	t.Parallel()
	docs := func(n int) *Docs { return &Docs{Notes: make([]note.ID, n)} }
	one := docs(10)
	c := docsCache{max: 3 * one.size()}
	key := func(seg uint32) docsKey { return docsKey{1, seg} }
	held := func() (out string) {
		used := int64(0)
		for e := c.lru.Front(); e != nil; e = e.Next() {
			x := e.Value.(docsEntry)
			out += fmt.Sprint(x.key.seg)
			used += x.docs.size()
			if c.table[x.key] != e {
				t.Errorf("the table does not hold segment %d", x.key.seg)
			}
		}
		if used != c.used || used > c.max || len(c.table) != c.lru.Len() {
			t.Errorf("%d bytes in %d entries, counted %d, at most %d", used, c.lru.Len(), c.used, c.max)
		}
		return out
	}
	for seg := range uint32(3) {
		c.put(key(seg), docs(10))
	}
	if c.get(key(0)) == nil || held() != "021" {
		t.Errorf("after a use of 0: %s", held())
	}
	c.put(key(3), docs(10))
	if held() != "302" || c.get(key(1)) != nil {
		t.Errorf("after 3: %s; 1 was not used for the longest time", held())
	}
	c.put(key(2), docs(10)) // another reader has put it meanwhile
	if held() != "302" {
		t.Errorf("after 2 again: %s", held())
	}
	c.put(key(4), docs(12)) // takes the place of two
	if held() != "43" {
		t.Errorf("after a larger one: %s", held())
	}
	c.put(key(5), docs(1000))
	if held() != "43" || c.get(key(5)) != nil {
		t.Errorf("after one that is too large: %s", held())
	}
}
