package note

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ModSeq is a modification sequence (MODSEQ) as clients see it: a term of 20 bits above a counter of 33 bits. The low 4
// bits of the term are the slot of the home, the primary replica of the database. A later home has a higher term.
type ModSeq uint64

// The parts of a ModSeq and of a UID.
const (
	counterBits = 33
	blockBits   = 16
	// Slots is the number of replicas of a database that can become its home.
	Slots   = 16
	maxTerm = 1<<20 - 1
	// MaxUID leaves the last block unused, so that block arithmetic never wraps.
	MaxUID = 1<<32 - 1<<blockBits - 1
)

// ErrExhausted means that no UIDs or terms are left. Every folder must get a new UIDVALIDITY.
var ErrExhausted = errors.New("note: UIDs or terms have run out")

// maxEnded bounds the number of ended terms that a ledger remembers, because the ledger is written with every change.
const maxEnded = 64

// Term returns the term of m. A later home has a higher term.
func (m ModSeq) Term() uint32 { return uint32(m >> counterBits) }

// Home returns the slot of the home that assigned m.
func (m ModSeq) Home() uint8 { return uint8(m.Term() % Slots) }

// End is the known end of an ended term: the last MODSEQ of the term, and the last UID assigned by then.
type End struct {
	Last ModSeq
	UID  uint32
}

// Healed records a repair that the home made after histories diverged. As of MODSEQ At, no membership that was numbered
// after MODSEQ Behind has a UID above Known and at most Shown.
type Healed struct {
	At, Behind   ModSeq
	Known, Shown uint32
}

// maxHealed bounds the number of repairs that a ledger remembers.
const maxHealed = 4

// Ledger is the state of a database's numbering: one sequence of UIDs and one of MODSEQs. Only the home of the database
// assigns numbers. The zero Ledger is that of a new database that has no other replica.
//
// Ended and Last form a history: the last MODSEQ known of each term, the present term last. Two replicas whose homes
// did not know of each other have histories that diverge (Common).
type Ledger struct {
	// Slot is the slot of this replica, 0–15. Block b of 65,536 UIDs belongs to slot b mod 16.
	Slot uint8
	// Shared is set as soon as another replica has a slot. Until then the replica takes all blocks in order.
	Shared bool
	// Last is the last MODSEQ assigned, or on a follower the last one known. UID is the last UID.
	Last ModSeq
	UID  uint32
	// Skip makes the next UID open the first block of this slot that lies more than 16 blocks above the known ones. A
	// takeover without a hand-over needs this, because the new home cannot know how far the old one went.
	Skip bool
	// Ended holds, for each ended term, the last MODSEQ that this ledger knows. Without a hand-over, clients may have
	// seen higher ones that this replica never received. At most the latest 64 terms are kept.
	Ended []End
	// Epoch counts how often the numbering started again, with a new UIDVALIDITY for every folder.
	Epoch uint32
	// Away means that another replica may continue from here, after a hand-over or a restore. This replica then begins
	// a new term, even if the present term has its slot.
	Away bool
	// Restored means that the replica was restored to an older state and has not led since. When it leads again, it
	// avoids the terms and blocks that it may have opened itself after that state.
	Restored bool
	// Partial means that only a part of a run of pages was applied. Everything up to Complete is known, and a part of
	// what lies between Complete and Last. High is the end of the sender's ledger. CompleteUID is the last UID assigned
	// by Complete: a home that takes over from there has not shown higher ones. CompleteUID is local and is not sent.
	Partial        bool
	Complete, High ModSeq
	CompleteUID    uint32
	// Copy is not 0 while a complete copy is received: it is the local sequence at which the copy began. Began is the
	// last MODSEQ of the sender at that time.
	Copy  uint64
	Began ModSeq
	// Healed holds the latest repairs on this history. If histories diverge before a repair, the repair must be
	// repeated.
	Healed []Healed
	// Pending is set only in the position that a replica sends. It means that the replica has changes that no home has
	// numbered. It is not stored.
	Pending bool
}

// Knows reports whether a MODSEQ that a client remembers lies on this ledger's own history. For one that does not, the
// server answers as if the client remembered nothing: it reports more than has changed, never less.
func (l *Ledger) Knows(m ModSeq) bool {
	top := l.Last
	if l.Partial {
		top = l.Complete
	}
	if m.Term() == top.Term() {
		return m <= top
	}
	for _, e := range l.Ended {
		if m.Term() == e.Last.Term() {
			return m <= min(e.Last, top)
		}
	}
	return false
}

// line returns the ends of all terms in ascending order, including the present one.
func (l *Ledger) line() []ModSeq {
	out := make([]ModSeq, 0, len(l.Ended)+1)
	for _, e := range l.Ended {
		out = append(out, e.Last)
	}
	if l.Copy != 0 {
		return append(out, l.Complete) // a copy goes through old numbers again
	}
	return append(out, l.Last)
}

// Common returns the highest MODSEQ up to which two histories agree, or 0 if none is known.
func (l *Ledger) Common(o *Ledger) ModSeq {
	if l.Epoch != o.Epoch {
		return 0
	}
	a, b := l.line(), o.line()
	// A history that has reached maxEnded no longer has its first terms.
	for len(a) > 0 && len(b) > 0 && a[0].Term() != b[0].Term() {
		if a[0].Term() < b[0].Term() {
			if len(o.Ended) < maxEnded {
				break
			}
			a = a[1:]
		} else {
			if len(l.Ended) < maxEnded {
				break
			}
			b = b[1:]
		}
	}
	var common ModSeq
	for i := 0; i < len(a) && i < len(b) && a[i].Term() == b[i].Term(); i++ {
		common = min(a[i], b[i])
		if a[i] != b[i] {
			break
		}
	}
	return common
}

// Parted returns the point at which two histories diverge: the last MODSEQ on both, and the last UID known there.
func (l *Ledger) Parted(o *Ledger) (common ModSeq, uid uint32) {
	if common = l.Common(o); common == 0 {
		return 0, 0
	}
	uid = min(l.UID, o.UID)
	for _, e := range slices.Concat(l.Ended, o.Ended) {
		if e.Last == common {
			uid = min(uid, e.UID)
		}
	}
	return common, uid
}

// ToHeal returns which memberships of this history must get new UIDs because other did not survive: those numbered
// after MODSEQ behind with a UID above known and at most shown. ok is false if there are none: other is only behind, or
// has shown nothing above what both knew, or the repair was made already. If other was a home beside this history, it
// returns everything that this history has numbered since: clients that used other did not find those messages there.
func (l *Ledger) ToHeal(other *Ledger) (behind ModSeq, known, shown uint32, ok bool) {
	if l.Epoch != other.Epoch {
		return 0, 0, 0, false // every folder has another UIDVALIDITY
	}
	behind, known = l.Parted(other)
	beside, late := l.beside(other)
	if late || behind == other.Last && !beside {
		return 0, 0, 0, false
	}
	if shown = other.UID; beside {
		shown = max(shown, l.UID)
	}
	for _, h := range other.Healed {
		if h.At > behind { // its own repairs above the common point are lost with it
			behind, known, shown = min(behind, h.Behind), min(known, h.Known), max(shown, h.Shown)
		}
	}
	done := slices.ContainsFunc(l.Healed,
		func(h Healed) bool { return h.Behind <= behind && h.Known <= known && h.Shown >= shown })
	return behind, known, shown, !done && shown > known
}

// beside reports whether other was a home beside this history: until now (Led), or in a term of its own that is not on
// this history, until it died. late means that it has led again on this history since: the message that brought other
// was delayed, and the repair was made when that home stepped down.
func (l *Ledger) beside(other *Ledger) (beside, late bool) {
	if other.Restored || other.Last == 0 || other.Last.Home() != other.Slot {
		return false, false
	}
	beside = true
	for _, m := range l.line() {
		late = late || other.Led() && m.Home() == other.Slot && m.Term() > other.Last.Term()
		beside = beside && m.Term() != other.Last.Term()
	}
	beside = beside || other.Led()
	return beside && !late, beside && late
}

// Led reports whether this is the ledger of a home that stopped numbering and has not adopted another history since.
func (l *Ledger) Led() bool {
	return l.Away && !l.Restored && l.Last != 0 && l.Last.Home() == l.Slot
}

// Heal records a repair: see Healed.
func (l *Ledger) Heal(behind ModSeq, known, shown uint32) {
	l.Healed = append(slices.Clone(l.Healed), Healed{l.Last, behind, known, shown})
	l.Healed = l.Healed[max(0, len(l.Healed)-maxHealed):]
}

// Prefix reports whether l is behind o on the same history, or at the same point.
func (l *Ledger) Prefix(o *Ledger) bool {
	return l.Epoch == o.Epoch && (l.Last == 0 || l.Common(o) == l.Last)
}

// Resumption is the way in which a replica continues with pages of another replica's ledger.
type Resumption uint8

// The ways to continue.
const (
	// GoOn continues from the replica's position. If it holds a part of a run whose rest nobody has, it continues from
	// the start of that run.
	GoOn Resumption = iota
	// CopyOn continues a complete copy. From 0, a new copy begins.
	CopyOn
	// Parted means that the histories have diverged: the replica must step down first.
	Parted
	// IsAhead means that the replica knows all of this ledger, and more.
	IsAhead
)

// Resume returns how a replica at position at continues with pages of l, and from which MODSEQ.
func (l *Ledger) Resume(at *Ledger) (Resumption, ModSeq) {
	switch {
	case at.Last == 0 && !at.Partial:
		return GoOn, 0
	case at.Epoch == l.Epoch && at.Partial && at.Last <= at.High && l.Knows(at.High):
		if at.Copy != 0 {
			return CopyOn, at.Last
		}
		return GoOn, at.Last
	case at.Copy != 0:
		return Parted, 0 // the source of its copy is gone, and what it holds may be of another history
	case at.Epoch != l.Epoch:
		return Parted, 0
	case at.Last != 0 && !l.Knows(at.Last):
		if l.Prefix(at) {
			return IsAhead, l.Last
		}
		return Parted, 0
	case at.Partial:
		return GoOn, at.Complete
	}
	return GoOn, at.Last
}

// Beats reports whether l survives where the two histories diverge. The history of the later home does.
func (l *Ledger) Beats(o *Ledger) bool {
	if l.Epoch != o.Epoch {
		return l.Epoch > o.Epoch
	}
	return l.Last.Term() > o.Last.Term()
}

// NextMod assigns the next MODSEQ.
func (l *Ledger) NextMod() ModSeq {
	l.Last++
	return l.Last
}

// NextUID assigns a UID that no home has ever assigned.
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

// ownBlock returns the first block at or above b that belongs to slot.
func ownBlock(b uint64, slot uint8) uint64 {
	return b + (uint64(slot)+Slots-b%Slots)%Slots
}

// TakeOver begins a new term without a hand-over: after a restore, a clone, or the loss of the home. No number that the
// old home may have shown is ever assigned again.
func (l *Ledger) TakeOver() error {
	if err := l.begin(); err != nil {
		return err
	}
	l.Skip = true
	return nil
}

// HandOver begins a new term where the old home stopped. of is the old home's ledger, and this replica must have all of
// it. The open block of UIDs continues.
func (l *Ledger) HandOver(of *Ledger) error {
	if err := l.begin(); err != nil {
		return err
	}
	if l.UID > of.UID {
		l.Skip = true // this replica may have opened the blocks up to there itself
	} else {
		l.UID, l.Skip = of.UID, of.Skip
	}
	return nil
}

// A restored replica may have opened terms and blocks that it no longer knows of. It skips sixteen terms, and two
// blocks of every slot for each of them.
const (
	restoredTerms  = 16
	restoredBlocks = restoredTerms * 2 * Slots
)

// begin begins a term above every known one.
func (l *Ledger) begin() error {
	known, top := End{l.Last, l.UID}, l.Last
	if l.Partial {
		known, top = End{l.Complete, l.CompleteUID}, max(l.Last, l.Complete, l.High)
	}
	high := top.Term()/Slots + 1
	if l.Restored {
		high += restoredTerms
	}
	term := high*Slots | uint32(l.Slot)
	if term > maxTerm {
		return ErrExhausted
	}
	i := slices.IndexFunc(l.Ended, func(e End) bool { return e.Last.Term() >= known.Last.Term() })
	if i < 0 {
		i = len(l.Ended)
	}
	l.Ended = append(l.Ended[:i:i], known)
	if l.Partial && known.Last == 0 {
		l.Ended = nil // an incomplete copy knows nothing of what clients have seen
	}
	l.Ended = l.Ended[max(0, len(l.Ended)-maxEnded):]
	l.Last = ModSeq(term) << counterBits
	if l.Restored {
		l.UID = uint32(min(uint64(l.UID)+restoredBlocks<<blockBits, MaxUID))
	}
	l.Away, l.Restored = false, false
	l.Whole()
	return nil
}

// StepDown goes back to the point where this history and the winner's diverged, and adopts the winner's from there on.
// It returns that point. Numbers that were assigned here after it are void.
func (l *Ledger) StepDown(winner *Ledger) ModSeq {
	common, uid := l.Parted(winner)
	complete := End{common, uid}
	if l.Partial && l.Complete < common {
		complete = End{l.Complete, l.CompleteUID}
	}
	if winner.Epoch != l.Epoch {
		complete = End{}
	}
	l.Adopt(winner, common)
	l.Skip = false
	l.Whole()
	l.Partial, l.Complete, l.CompleteUID, l.High = true, complete.Last, complete.UID, max(winner.Last, winner.High)
	return common
}

// Back returns this ledger as it was at an earlier point of its history.
func (l *Ledger) Back(last ModSeq, uid uint32) Ledger {
	return Ledger{
		Slot: l.Slot, Shared: l.Shared, Epoch: l.Epoch, Last: last, UID: uid,
		Ended:  slices.DeleteFunc(slices.Clone(l.Ended), func(e End) bool { return e.Last.Term() >= last.Term() }),
		Healed: slices.DeleteFunc(slices.Clone(l.Healed), func(h Healed) bool { return h.At > last }),
	}
}

// Ghost returns a ledger that bounds how far a lost home may have gone. Of that home only its position l is known. It
// may have gone on in the term that was open then. If own is set, it may instead have led from slot since, in one of
// the next terms, from as far as top.
func (l *Ledger) Ghost(top *Ledger, slot uint8, own bool) Ledger {
	g := l.Back(l.Last, l.UID)
	if own {
		g.Slot = slot
		if g.begin() != nil {
			return *l // terms have run out: the numbering begins again anyway
		}
		g.UID = uint32(min(uint64(max(l.UID, top.UID))+restoredBlocks<<blockBits, MaxUID))
	}
	g.Last++
	g.UID |= 1<<blockBits - 1
	return g
}

// Whole marks everything up to Last as known.
func (l *Ledger) Whole() {
	l.Partial, l.Complete, l.CompleteUID, l.High, l.Copy, l.Began = false, 0, 0, 0, 0, 0
}

// Part marks the start of a run of pages that may stay incomplete. What is known now is complete.
func (l *Ledger) Part() {
	if !l.Partial {
		l.Complete, l.CompleteUID = l.Last, l.UID
	}
	l.Partial = true
}

// Adopt moves this ledger to MODSEQ to on the history of another ledger. This ledger's history must be a prefix of it.
func (l *Ledger) Adopt(of *Ledger, to ModSeq) {
	if l.Epoch != of.Epoch {
		l.UID = 0 // the numbering has started again
	}
	l.UID = max(l.UID, of.UID)
	l.Last, l.Epoch = to, of.Epoch
	l.Ended = slices.DeleteFunc(slices.Clone(of.Ended), func(e End) bool { return e.Last.Term() >= to.Term() })
	l.Healed = slices.DeleteFunc(slices.Clone(of.Healed), func(h Healed) bool { return h.At > to })
	if to.Home() != l.Slot {
		l.Away = false
	}
}

// FirstMod returns the MODSEQ at which a new numbering begins for a home with that slot.
func FirstMod(slot uint8) ModSeq { return ModSeq(slot) << counterBits }

// Restart starts the UIDs again. Every folder must get a new UIDVALIDITY.
func (l *Ledger) Restart() {
	l.Epoch++
	l.UID, l.Skip, l.Healed = 0, false, nil // earlier repairs concern the old numbers
	if l.Shared {
		l.UID = uint32(l.Slot) << blockBits
	}
}

// The flags of a stored ledger.
const (
	ledgerShared = 1 << iota
	ledgerSkip
	ledgerUIDs // the ended terms have UIDs
	ledgerAway
	ledgerPartial
	ledgerEpoch
	ledgerPending
	ledgerHealed
)

// slotRestored is a flag in the byte of the slot.
const slotRestored = 0x80

// AppendLedger appends the stored form of l.
func AppendLedger(dst []byte, l *Ledger) []byte {
	var f byte
	set := func(on bool, flag byte) {
		if on {
			f |= flag
		}
	}
	set(l.Shared, ledgerShared)
	set(l.Skip, ledgerSkip)
	set(len(l.Ended) > 0, ledgerUIDs)
	set(l.Away, ledgerAway)
	set(l.Partial, ledgerPartial)
	set(l.Epoch != 0, ledgerEpoch)
	set(l.Pending, ledgerPending)
	set(len(l.Healed) > 0, ledgerHealed)
	slot := l.Slot
	if l.Restored {
		slot |= slotRestored
	}
	dst = append(dst, slot, f)
	dst = binary.AppendUvarint(dst, uint64(l.Last))
	dst = binary.AppendUvarint(dst, uint64(l.UID))
	if l.Epoch != 0 {
		dst = binary.AppendUvarint(dst, uint64(l.Epoch))
	}
	if l.Partial {
		dst = binary.AppendUvarint(dst, uint64(l.Complete))
		dst = binary.AppendUvarint(dst, uint64(l.High))
		dst = binary.AppendUvarint(dst, l.Copy)
		dst = binary.AppendUvarint(dst, uint64(l.Began))
	}
	dst = binary.AppendUvarint(dst, uint64(len(l.Ended)))
	for _, e := range l.Ended {
		dst = binary.AppendUvarint(dst, uint64(e.Last))
		dst = binary.AppendUvarint(dst, uint64(e.UID))
	}
	if len(l.Healed) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(l.Healed)))
	for _, h := range l.Healed {
		for _, v := range []uint64{uint64(h.At), uint64(h.Behind), uint64(h.Known), uint64(h.Shown)} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

// ReadLedger reads a ledger that AppendLedger wrote, and returns the rest of b.
func ReadLedger(b []byte) (Ledger, []byte, error) {
	var l Ledger
	if len(b) < 2 || b[0]&^slotRestored >= Slots {
		return l, nil, ErrCorrupt
	}
	f := b[1]
	l.Restored = b[0]&slotRestored != 0
	l.Slot, l.Shared, l.Skip, l.Away, l.Partial = b[0]&^slotRestored, f&ledgerShared != 0, f&ledgerSkip != 0,
		f&ledgerAway != 0, f&ledgerPartial != 0
	l.Pending = f&ledgerPending != 0
	b = b[2:]
	var err error
	number := func() (v uint64) {
		if err == nil {
			v, b, err = readUvarint(b)
		}
		return v
	}
	l.Last, l.UID = ModSeq(number()), uint32(number())
	if f&ledgerEpoch != 0 {
		l.Epoch = uint32(number())
	}
	if l.Partial {
		l.Complete, l.High, l.Copy, l.Began = ModSeq(number()), ModSeq(number()), number(), ModSeq(number())
	}
	if err != nil {
		return l, nil, err
	}
	n, b, err := readCount(b, 1)
	for ; n > 0 && err == nil; n-- {
		e := End{Last: ModSeq(number())}
		if f&ledgerUIDs != 0 {
			e.UID = uint32(number())
		}
		l.Ended = append(l.Ended, e)
	}
	if f&ledgerHealed != 0 && err == nil {
		n, b, err = readCount(b, 4)
		for ; n > 0 && err == nil; n-- {
			l.Healed = append(l.Healed, Healed{ModSeq(number()), ModSeq(number()), uint32(number()), uint32(number())})
		}
	}
	return l, b, err
}
