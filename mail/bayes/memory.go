package bayes

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Limits of a memory.
const (
	// MaxLearned is the number of messages of which the class is remembered: the ones learned last.
	MaxLearned = 8192
	// MaxKnown is the number of known addresses: the ones noted last.
	MaxKnown = 4096
)

// Memory holds the model of one mail file, the class in which each message was learned, and the addresses to which the
// owner wrote. It holds hashes only. Its size is bounded. It has one user at a time; methods that change
// nothing may be called by several.
type Memory struct {
	Model   *Model
	learned ring // hash of a message, its class in the lowest two bits
	known   ring // hash of an address
}

// ring holds the newest different entries. next is the place of the next one if the ring is full.
type ring struct {
	list []uint64
	next int
}

// find returns the place of the entry with this value above the bits of mask.
func (r *ring) find(v, mask uint64) int {
	return slices.IndexFunc(r.list, func(e uint64) bool { return e&^mask == v&^mask })
}

func (r *ring) add(v uint64, most int) {
	if len(r.list) < most {
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % most
}

// NewMemory returns an empty memory whose model has 2^bits pairs of counters.
func NewMemory(bits int) *Memory { return &Memory{Model: NewModel(bits)} }

const classMask = 3

// ClassOf returns the class in which a message was learned. id identifies the message in its mail file.
func (m *Memory) ClassOf(id []byte) Class {
	h := hash(0, id)
	if i := m.learned.find(h, classMask); i >= 0 {
		return Class(m.learned.list[i] & classMask)
	}
	return Unknown
}

// Learn learns a message in a class, after it took back what it learned of the message before. Unknown takes back only.
// It reports whether it changed anything.
func (m *Memory) Learn(id []byte, t Tokens, c Class) bool {
	h := hash(0, id) &^ classMask
	i := m.learned.find(h, classMask)
	was := Unknown
	if i >= 0 {
		was = Class(m.learned.list[i] & classMask)
	}
	if c == was {
		return false
	}
	m.Model.Unlearn(t, was)
	m.Model.Learn(t, c)
	if i >= 0 {
		m.learned.list[i] = h | uint64(c)
	} else {
		m.learned.add(h|uint64(c), MaxLearned)
	}
	return true
}

// Know notes an address to which the owner wrote, as AddressOf returns it. It reports whether the address is new.
func (m *Memory) Know(address string) bool {
	h := hash(seedFrom, address)
	if m.known.find(h, 0) >= 0 {
		return false
	}
	m.known.add(h, MaxKnown)
	return true
}

// Knows reports whether the owner wrote to an address.
func (m *Memory) Knows(address string) bool { return m.known.find(hash(seedFrom, address), 0) >= 0 }

// Known returns the number of known addresses.
func (m *Memory) Known() int { return len(m.known.list) }

// Bytes returns the approximate size in memory.
func (m *Memory) Bytes() int {
	return 4*len(m.Model.counts) + 8*(cap(m.learned.list)+cap(m.known.list)) + 128
}

// version is the first byte of a stored memory. It changes when tokens change: then everything is learned anew.
const version = 1

// ErrDamaged means that a stored memory is not valid, or is of another version.
var ErrDamaged = errors.New("bayes: the stored memory is not valid")

// Append appends the stored form: counters that are not zero by the distance to the one before, and both rings.
func (m *Memory) Append(dst []byte) []byte {
	dst = append(dst, version, byte(m.Model.bits))
	dst = binary.AppendUvarint(dst, uint64(m.Model.junk))
	dst = binary.AppendUvarint(dst, uint64(m.Model.good))
	last := -1
	for i, c := range m.Model.counts {
		if c != (count{}) {
			dst = binary.AppendUvarint(dst, uint64(i-last))
			dst = binary.AppendUvarint(dst, uint64(c.junk))
			dst = binary.AppendUvarint(dst, uint64(c.good))
			last = i
		}
	}
	dst = append(dst, 0)
	return m.known.append(m.learned.append(dst))
}

func (r *ring) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.list)))
	for i := range r.list { // the oldest first
		dst = binary.BigEndian.AppendUint64(dst, r.list[(r.next+i)%len(r.list)])
	}
	return dst
}

// ReadMemory reads the stored form.
func ReadMemory(b []byte) (*Memory, error) {
	if len(b) < 2 || b[0] != version || b[1] < MinBits || b[1] > MaxBits {
		return nil, ErrDamaged
	}
	m := NewMemory(int(b[1]))
	d := decoder{rest: b[2:]}
	m.Model.junk, m.Model.good = d.number(MaxMessages), d.number(MaxMessages)
	for at := -1; d.err == nil; {
		gap := d.number(1 << MaxBits)
		if gap == 0 {
			break
		}
		at += gap
		m.Model.make()
		c := count{uint16(d.number(1<<16 - 1)), uint16(d.number(1<<16 - 1))} //nolint:gosec // limited
		if at >= len(m.Model.counts) {
			return nil, ErrDamaged
		}
		m.Model.counts[at] = c
	}
	m.learned.list, m.known.list = d.list(MaxLearned), d.list(MaxKnown)
	if d.err != nil || len(d.rest) > 0 {
		return nil, ErrDamaged
	}
	return m, nil
}

// decoder reads numbers. After an error all of them are 0.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) number(most uint64) int {
	v, n := binary.Uvarint(d.rest)
	if d.err != nil || n <= 0 || v > most {
		d.err = ErrDamaged
		return 0
	}
	d.rest = d.rest[n:]
	return int(v) //nolint:gosec // limited
}

func (d *decoder) list(most uint64) []uint64 {
	n := d.number(most)
	if d.err != nil || len(d.rest) < 8*n {
		d.err = ErrDamaged
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.BigEndian.Uint64(d.rest[8*i:])
	}
	d.rest = d.rest[8*n:]
	return out
}
