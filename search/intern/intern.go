// Package intern numbers byte strings: equal ones get the same number.
package intern

import (
	"bytes"
	"hash/maphash"
)

// Limits of the memory that a Table keeps when it is reset, in slots.
const (
	least = 1 << 10
	most  = 1 << 16
)

// Table numbers byte strings from 0 in the order in which they first came. The zero Table is empty. It is used by one
// goroutine.
type Table struct {
	slots []int32 // number + 1, by hash
	list  []entry
}

type entry struct {
	hash uint64
	text []byte
}

var seed = maphash.MakeSeed()

// Number returns the number of a string. If isNew is set, the table aliases text from now on: the caller does not
// change it, or replaces it with Keep.
func (t *Table) Number(text []byte) (n int, isNew bool) {
	if 2*len(t.list) >= len(t.slots) {
		t.grow()
	}
	h := maphash.Bytes(seed, text)
	mask := uint64(len(t.slots) - 1)
	for slot := h & mask; ; slot = (slot + 1) & mask {
		n := int(t.slots[slot]) - 1
		if n < 0 {
			t.list = append(t.list, entry{h, text})
			t.slots[slot] = int32(len(t.list))
			return len(t.list) - 1, true
		}
		if e := &t.list[n]; e.hash == h && bytes.Equal(e.text, text) {
			return n, false
		}
	}
}

func (t *Table) grow() {
	t.slots = make([]int32, max(least, 2*len(t.slots)))
	mask := uint64(len(t.slots) - 1)
	for i := range t.list {
		slot := t.list[i].hash & mask
		for t.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.slots[slot] = int32(i + 1)
	}
}

// Keep replaces the bytes of a string by equal ones.
func (t *Table) Keep(n int, text []byte) { t.list[n].text = text }

// Text returns the string of a number.
func (t *Table) Text(n int) []byte { return t.list[n].text }

// Len returns the number of strings.
func (t *Table) Len() int { return len(t.list) }

// Reset makes the table empty. It keeps a bounded part of its memory.
func (t *Table) Reset() {
	if len(t.slots) > most {
		*t = Table{}
		return
	}
	clear(t.slots)
	clear(t.list)
	t.list = t.list[:0]
}
