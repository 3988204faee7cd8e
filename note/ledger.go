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

// maxEnded bounds how many ended terms a ledger remembers: it is written with every change.
const maxEnded = 64

// Term is the part of m that says which home gave it: a higher one is a later home.
func (m ModSeq) Term() uint32 { return uint32(m >> counterBits) }

// Home is the slot of the home that gave m.
func (m ModSeq) Home() uint8 { return uint8(m.Term() % Slots) }

// End is how far a term is known that has ended: its last MODSEQ, and the last UID given by then.
type End struct {
	Last ModSeq
	UID  uint32
}

// Healed says what the home has put right after lines had parted: by MODSEQ At no place given behind Behind has
// a UID above Known up to Shown.
type Healed struct {
	At, Behind   ModSeq
	Known, Shown uint32
}

// maxHealed bounds what is remembered of that.
const maxHealed = 4

// Ledger is where a database stands in giving numbers: one sequence of UIDs and one of MODSEQs,
// written only by its home. The zero Ledger is that of a new database on a server alone.
//
// Ended and Last are a line: each term up to where its home is known to have gone, then the present
// one. Two replicas whose homes did not know of each other have lines that part (Common).
type Ledger struct {
	// Slot is this replica's, 0–15; block b of 65,536 UIDs belongs to slot b mod 16.
	Slot uint8
	// Shared is set as soon as another replica has a slot: until then blocks are taken in a row.
	Shared bool
	// Last is the last MODSEQ given, at a replica that follows the last one known; UID the last UID.
	Last ModSeq
	UID  uint32
	// Skip asks that the next UID opens the first own block above the known blocks + 16: a
	// takeover without hand-over cannot know how far the old home went.
	Skip bool
	// Ended holds, for each term that has ended, the last MODSEQ of it that this ledger knows. Without
	// a hand-over, what its home gave above that clients may have seen, and we have not. Of more than
	// 64 terms the latest are kept.
	Ended []End
	// Epoch counts how often the numbering began again, every folder under a new UIDVALIDITY.
	Epoch uint32
	// Away says that another may go on from here, after a hand-over or a restore: the present term is not
	// continued even though its slot is this replica's.
	Away bool
	// Restored says that the replica was put back to an older state and has not led since: when it does, it stays
	// away from the terms and blocks that it may have opened itself since that state.
	Restored bool
	// Partial says that a page was applied of which the rest has not come: up to Complete all is known,
	// up to Last something; High is how far it goes where it came from. CompleteUID is the last UID given by
	// Complete: a home that takes over from there has not shown what lies above. It is the replica's own, and does
	// not travel.
	Partial        bool
	Complete, High ModSeq
	CompleteUID    uint32
	// Copy is not 0 while a complete copy comes: the replica's own sequence at which that began, and Began the
	// last MODSEQ then where it comes from.
	Copy  uint64
	Began ModSeq
	// Healed is the latest that was put right on this line: where it parts again before that, it is to be
	// done again.
	Healed []Healed
	// Pending, in what a replica tells of itself, says that it has changes that no home has numbered. It is not
	// kept.
	Pending bool
}

// Knows says whether a MODSEQ that a client remembers lies on this ledger's own history. One that
// does not is answered as if the client remembered nothing: told more than changed, never less.
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

// line lists the ends of all terms, the present one's too, ascending.
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

// Common is the highest MODSEQ up to which two lines are one; 0 where none is known.
func (l *Ledger) Common(o *Ledger) ModSeq {
	if l.Epoch != o.Epoch {
		return 0
	}
	a, b := l.line(), o.line()
	// A long line has forgotten its beginning.
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

// Parted is where two lines parted: the last MODSEQ that is on both, and the last UID that was known there.
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

// ToHeal says which places of this line are to be numbered again since other did not survive: those given
// behind a MODSEQ with a UID above known up to shown. ok is false where there are none: other is only behind,
// or has shown nothing above what both knew, or it was done. Where other was a home until now (Led), these are all
// that this line has given since: clients that went over to it did not find them there.
func (l *Ledger) ToHeal(other *Ledger) (behind ModSeq, known, shown uint32, ok bool) {
	if l.Epoch != other.Epoch {
		return 0, 0, 0, false // every folder has another UIDVALIDITY
	}
	behind, known = l.Parted(other)
	if behind == other.Last && !other.Led() {
		return 0, 0, 0, false
	}
	if shown = other.UID; other.Led() {
		shown = max(shown, l.UID)
	}
	for _, h := range other.Healed {
		if h.At > behind { // what it had put right is undone with it
			behind, known, shown = min(behind, h.Behind), min(known, h.Known), max(shown, h.Shown)
		}
	}
	done := slices.ContainsFunc(l.Healed, func(h Healed) bool { return h.Behind <= behind && h.Known <= known && h.Shown >= shown })
	return behind, known, shown, !done && shown > known
}

// Led says that this is the ledger of a home that has ended its numbering, and has not taken up another's since.
func (l *Ledger) Led() bool {
	return l.Away && !l.Restored && l.Last != 0 && l.Last.Home() == l.Slot
}

// Heal remembers that it was done.
func (l *Ledger) Heal(behind ModSeq, known, shown uint32) {
	l.Healed = append(slices.Clone(l.Healed), Healed{l.Last, behind, known, shown})
	l.Healed = l.Healed[max(0, len(l.Healed)-maxHealed):]
}

// Prefix says that l is behind o on the same line, or stands where o does.
func (l *Ledger) Prefix(o *Ledger) bool {
	return l.Epoch == o.Epoch && (l.Last == 0 || l.Common(o) == l.Last)
}

// Resumption is how a replica goes on with pages of another's ledger.
type Resumption uint8

// The ways to go on.
const (
	// GoOn from where the replica stands, or, after some pages of a run whose rest nobody has, from
	// before them.
	GoOn Resumption = iota
	// CopyOn goes on with a complete copy; from 0 it begins anew.
	CopyOn
	// Parted: the replica steps down first.
	Parted
	// IsAhead: the replica knows all of this ledger, and more.
	IsAhead
)

// Resume says how a replica that stands at at goes on with pages of l, and from which MODSEQ.
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
		return Parted, 0 // where its copy came from is gone, and what it holds may be of another line
	case at.Epoch != l.Epoch || at.Last != 0 && !l.Knows(at.Last):
		if at.Epoch == l.Epoch && l.Prefix(at) {
			return IsAhead, l.Last
		}
		return Parted, 0
	case at.Partial:
		return GoOn, at.Complete
	}
	return GoOn, at.Last
}

// Beats says which of two lines survives where they parted: that of the later home.
func (l *Ledger) Beats(o *Ledger) bool {
	if l.Epoch != o.Epoch {
		return l.Epoch > o.Epoch
	}
	return l.Last.Term() > o.Last.Term()
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
	if err := l.begin(); err != nil {
		return err
	}
	l.Skip = true
	return nil
}

// HandOver begins a new term where the old home has stopped: of is its ledger, and this one has all of
// it. The open block of UIDs goes on.
func (l *Ledger) HandOver(of *Ledger) error {
	if err := l.begin(); err != nil {
		return err
	}
	if l.UID > of.UID {
		l.Skip = true // the blocks up to there may be ones that this replica opened itself
	} else {
		l.UID, l.Skip = of.UID, of.Skip
	}
	return nil
}

// How far a restored replica stays away from what it may have opened: sixteen terms, two blocks of every slot for each.
const (
	restoredTerms  = 16
	restoredBlocks = restoredTerms * 2 * Slots
)

// begin begins a term above every one that is known.
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
		l.Ended = nil // a copy that is not complete knows nothing of what clients have seen
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

// StepDown goes back to the point where this line and the winner's parted, and takes the winner's from
// there on. It returns that point: what was numbered here behind it counts no more.
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

// Back is this ledger as it was at an earlier point of its line.
func (l *Ledger) Back(last ModSeq, uid uint32) Ledger {
	return Ledger{
		Slot: l.Slot, Shared: l.Shared, Epoch: l.Epoch, Last: last, UID: uid,
		Ended:  slices.DeleteFunc(slices.Clone(l.Ended), func(e End) bool { return e.Last.Term() >= last.Term() }),
		Healed: slices.DeleteFunc(slices.Clone(l.Healed), func(h Healed) bool { return h.At > last }),
	}
}

// Ghost is how far a home may have gone of which no more is known than that it was at l: in the term that was open
// then, or, where it has led on its own since, in one of the next terms, from as far as top.
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

// Whole says that all is known up to Last.
func (l *Ledger) Whole() {
	l.Partial, l.Complete, l.CompleteUID, l.High, l.Copy, l.Began = false, 0, 0, 0, 0, 0
}

// Part says that from here on pages come of which the rest may not: what is known now is all known.
func (l *Ledger) Part() {
	if !l.Partial {
		l.Complete, l.CompleteUID = l.Last, l.UID
	}
	l.Partial = true
}

// Adopt goes on to a MODSEQ on another ledger's line, which this one is a beginning of.
func (l *Ledger) Adopt(of *Ledger, to ModSeq) {
	if l.Epoch != of.Epoch {
		l.UID = 0 // the numbering has begun again
	}
	l.UID = max(l.UID, of.UID)
	l.Last, l.Epoch = to, of.Epoch
	l.Ended = slices.DeleteFunc(slices.Clone(of.Ended), func(e End) bool { return e.Last.Term() >= to.Term() })
	l.Healed = slices.DeleteFunc(slices.Clone(of.Healed), func(h Healed) bool { return h.At > to })
	if to.Home() != l.Slot {
		l.Away = false
	}
}

// FirstMod is where the MODSEQs of a new numbering begin, for the home with that slot.
func FirstMod(slot uint8) ModSeq { return ModSeq(slot) << counterBits }

// Restart lets UIDs begin again, for folders that all have a new UIDVALIDITY.
func (l *Ledger) Restart() {
	l.Epoch++
	l.UID, l.Skip, l.Healed = 0, false, nil // what was put right before was under other numbers
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

// slotRestored is a flag beside the slot.
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

// ReadLedger reads what AppendLedger wrote and returns the rest.
func ReadLedger(b []byte) (Ledger, []byte, error) {
	var l Ledger
	if len(b) < 2 || b[0]&^slotRestored >= Slots {
		return l, nil, ErrCorrupt
	}
	f := b[1]
	l.Restored = b[0]&slotRestored != 0
	l.Slot, l.Shared, l.Skip, l.Away, l.Partial = b[0]&^slotRestored, f&ledgerShared != 0, f&ledgerSkip != 0, f&ledgerAway != 0, f&ledgerPartial != 0
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
