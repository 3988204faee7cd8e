// Package intern numbers byte strings: equal ones get the same number.
package intern

import (
	"bytes"
	"hash/maphash"
)

// Limits of the memory that a Table keeps when it is reset: slots, and bytes of strings.
const (
	least     = 1 << 10
	most      = 1 << 16
	mostBytes = 1 << 20
)

// Table numbers byte strings from 0 in the order in which they first came. The zero Table is empty. It is used by one
// goroutine.
type Table struct {
	slots []int32 // number + 1, by hash
	list  []entry
	bytes []byte // the strings, one after another
}

// entry has no pointers, so that the garbage collector has nothing to do with the many of a list.
type entry struct {
	hash    uint64
	at, end uint32 // in bytes
}

var seed = maphash.MakeSeed()

// Number returns the number of a string. isNew is set if it came for the first time.
func (t *Table) Number(text []byte) (n int, isNew bool) {
	if 2*len(t.list) >= len(t.slots) {
		t.grow()
	}
	h := maphash.Bytes(seed, text)
	mask := uint64(len(t.slots) - 1)
	for slot := h & mask; ; slot = (slot + 1) & mask {
		n := int(t.slots[slot]) - 1
		if n < 0 {
			at := len(t.bytes)
			t.bytes = append(t.bytes, text...)
			t.list = append(t.list, entry{h, uint32(at), uint32(len(t.bytes))})
			t.slots[slot] = int32(len(t.list))
			return len(t.list) - 1, true
		}
		if e := &t.list[n]; e.hash == h && bytes.Equal(t.bytes[e.at:e.end], text) {
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

// Text returns the string of a number. It is valid until Reset.
func (t *Table) Text(n int) []byte {
	e := &t.list[n]
	return t.bytes[e.at:e.end:e.end]
}

// Len returns the number of strings.
func (t *Table) Len() int { return len(t.list) }

// Bytes returns the length of all strings together.
func (t *Table) Bytes() int { return len(t.bytes) }

// Reset makes the table empty. It keeps a bounded part of its memory.
func (t *Table) Reset() {
	if len(t.slots) > most || cap(t.bytes) > mostBytes {
		*t = Table{}
		return
	}
	clear(t.slots)
	t.list, t.bytes = t.list[:0], t.bytes[:0]
}
