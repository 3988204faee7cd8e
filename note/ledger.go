package note

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ModSeq is a modification sequence as clients see it: term (20 bits, the low 4 the home's slot)
// over counter (33 bits). A higher term is a later home.
type ModSeq uint64

// The parts of a ModSeq and of a UID.
const (
	counterBits = 33
	blockBits   = 16
	// Slots is how many replicas of a database can ever be its home.
	Slots   = 16
	maxTerm = 1<<20 - 1
	// MaxUID leaves the last block unused, so that block arithmetic never wraps.
	MaxUID = 1<<32 - 1<<blockBits - 1
)

// ErrExhausted says that UIDs or terms have run out: every folder must get a new UIDVALIDITY.
var ErrExhausted = errors.New("note: UIDs or terms have run out")

// Ledger is where a database stands in giving numbers: one sequence of UIDs and one of MODSEQs,
// written only by its home. The zero Ledger is that of a new database on a server alone.
type Ledger struct {
	// Slot is this replica's, 0–15; block b of 65,536 UIDs belongs to slot b mod 16.
	Slot uint8
	// Shared is set as soon as another replica has a slot: until then blocks are taken in a row.
	Shared bool
	// Last is the last MODSEQ given; UID the last UID given.
	Last ModSeq
	UID  uint32
	// Skip asks that the next UID opens the first own block above the known blocks + 16: a
	// takeover without hand-over cannot know how far the old home went.
	Skip bool
	// Ended holds, for each term that ended without a hand-over, the last MODSEQ of it that this
	// ledger knows: what its home gave above that, clients may have seen, and we have not.
	Ended []ModSeq
}

// Knows says whether a MODSEQ that a client remembers lies on this ledger's own history. One that
// does not is answered as if the client remembered nothing: told more than changed, never less.
func (l *Ledger) Knows(m ModSeq) bool {
	if m>>counterBits == l.Last>>counterBits {
		return m <= l.Last
	}
	for _, e := range l.Ended {
		if m>>counterBits == e>>counterBits {
			return m <= e
		}
	}
	return false
}

// NextMod gives a MODSEQ.
func (l *Ledger) NextMod() ModSeq {
	l.Last++
	return l.Last
}

// NextUID gives a UID that was never given before, by any home.
func (l *Ledger) NextUID() (uint32, error) {
	next := uint64(l.UID) + 1
	block := next >> blockBits
	switch {
	case l.Skip:
		next = ownBlock(uint64(l.UID)>>blockBits+Slots+1, l.Slot) << blockBits
	case l.Shared && next&(1<<blockBits-1) == 0:
		next = ownBlock(block, l.Slot) << blockBits
	}
	if next > MaxUID {
		return 0, ErrExhausted
	}
	l.Skip = false
	l.UID = uint32(next)
	return l.UID, nil
}

// ownBlock is the first block at or above b that belongs to slot.
func ownBlock(b uint64, slot uint8) uint64 {
	return b + (uint64(slot)+Slots-b%Slots)%Slots
}

// TakeOver begins a new term without a hand-over: after a restore, a clone, or the loss of the
// home. Nothing that the old home may have shown is ever given again.
func (l *Ledger) TakeOver() error {
	high := uint64(l.Last) >> (counterBits + 4)
	term := (high+1)<<4 | uint64(l.Slot)
	if term > maxTerm {
		return ErrExhausted
	}
	l.Ended = append(slices.Clip(l.Ended), l.Last)
	l.Last = ModSeq(term << counterBits)
	l.Skip = true
	return nil
}

// FirstMod is where the MODSEQs of a new numbering begin, for the home with that slot.
func FirstMod(slot uint8) ModSeq { return ModSeq(slot) << counterBits }

// AppendLedger appends the stored form of l.
func AppendLedger(dst []byte, l *Ledger) []byte {
	var f byte
	if l.Shared {
		f |= 1
	}
	if l.Skip {
		f |= 2
	}
	dst = append(dst, l.Slot, f)
	dst = binary.AppendUvarint(dst, uint64(l.Last))
	dst = binary.AppendUvarint(dst, uint64(l.UID))
	dst = binary.AppendUvarint(dst, uint64(len(l.Ended)))
	for _, e := range l.Ended {
		dst = binary.AppendUvarint(dst, uint64(e))
	}
	return dst
}

// ReadLedger reads what AppendLedger wrote and returns the rest.
func ReadLedger(b []byte) (Ledger, []byte, error) {
	var l Ledger
	if len(b) < 2 {
		return l, nil, ErrCorrupt
	}
	l.Slot, l.Shared, l.Skip = b[0], b[1]&1 != 0, b[1]&2 != 0
	last, b, err := readUvarint(b[2:])
	if err != nil {
		return l, nil, err
	}
	uid, b, err := readUvarint(b)
	if err != nil {
		return l, nil, err
	}
	l.Last, l.UID = ModSeq(last), uint32(uid)
	n, b, err := readCount(b, 1)
	for range n {
		var e uint64
		if e, b, err = readUvarint(b); err != nil {
			return l, nil, err
		}
		l.Ended = append(l.Ended, ModSeq(e))
	}
	return l, b, err
}
