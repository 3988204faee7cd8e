package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// opened is a folder of a mail file that a person has opened. Its methods change single messages; they check the rights
// and know nothing of a session.
type opened struct {
	f      *File
	folder note.ID
	unid   note.UNID
}

// knowledge is the set of messages that a session knows. It holds a MODSEQ, a message count and the expunges that may
// not be announced yet. It holds no array of UIDs: the store has one for all sessions, from which it computes sequence
// numbers.
//
// Invariant: the session knows the live members below uidNext, and the hidden ones. Its sequence numbers count both, in
// order of UID.
type knowledge struct {
	opened
	validity uint32 // UIDVALIDITY that the session knows
	name     string
	mod      note.ModSeq // changes up to here were announced, or are in hidden
	exists   uint32
	uidNext  uint32
	hidden   []uint32    // UIDs expunged but not announced, ascending
	pending  note.ModSeq // lowest MODSEQ of the expunges in hidden
	synced   note.ModSeq // expunges up to here are in hidden or were announced
}

// View is one session's view of one folder: its knowledge, and the commands of a client on it. It is not safe for
// concurrent use.
type View struct {
	knowledge
	readOnly bool
	// told holds the MODSEQs of this session's own changes, by UID. They were already reported.
	told map[uint32]note.ModSeq
	// recent holds the messages that are recent in this session.
	recent Recents
	// scratch holds the summary of the current message. After Fetch it is nil.
	scratch *[]byte
}

// Open opens a folder for a session. No message in it is \Recent for the session, and the session claims none.
func (f *File) Open(ctx context.Context, name string, readOnly bool) (*View, Folder, error) {
	return f.open(ctx, name, readOnly, Recents{})
}

func (f *File) open(ctx context.Context, name string, readOnly bool, recent Recents) (*View, Folder, error) {
	var v *View
	var out Folder
	err := f.read(ctx, func(r *store.Reader) error {
		h, err := f.named(r, name)
		if err != nil {
			return err
		}
		rights := r.FolderRights(h)
		if rights&note.Read == 0 {
			return store.ErrDenied
		}
		if f.bin {
			recent = Recents{} // read-only, so the session would never claim them
		}
		if f.bin || !mayChange(rights) {
			readOnly = true
		}
		out = f.folder(r, h)
		last := r.Counters().Ledger.Last
		v = &View{readOnly: readOnly, recent: recent}
		v.knowledge = knowledge{
			opened: opened{f: f, folder: h.Note, unid: h.UNID}, validity: h.UIDValidity, name: name,
			mod: last, synced: last, exists: h.Total, uidNext: h.UIDNext,
		}
		return v.meet(r, h, 1)
	})
	return v, out, err
}

// File returns the mail file of the folder.
func (o *opened) File() *File { return o.f }

// Recent returns the messages that are \Recent in the session.
func (v *View) Recent() *Recents { return &v.recent }

// Exists returns the number of messages that the session knows.
func (k *knowledge) Exists() uint32 { return k.exists }

// UIDNext returns the UIDNEXT that the session knows: it knows the messages below it.
func (k *knowledge) UIDNext() uint32 { return k.uidNext }

// MayChange returns ErrReadOnly if the folder was opened read-only, or the person may only read it, and ErrRecoverOnly
// for a folder of File.Bin.
func (v *View) MayChange() error {
	switch {
	case v.f.bin:
		return ErrRecoverOnly
	case v.readOnly:
		return ErrReadOnly
	}
	return nil
}

// FolderID returns the note id of the folder.
func (o *opened) FolderID() note.ID { return o.folder }

// UNID returns the UNID of the folder.
func (o *opened) UNID() note.UNID { return o.unid }

// Is reports whether f is the folder of the view. It compares UNIDs only, so f may be from any mail file.
func (o *opened) Is(f *Folder) bool { return o.unid == f.UNID }

// Name returns the name under which the folder was opened.
func (k *knowledge) Name() string { return k.name }

// ModSeq returns the MODSEQ up to which changes were announced to the session.
func (k *knowledge) ModSeq() uint64 { return uint64(k.mod) }

// Pending returns the number of expunges not announced yet, and the MODSEQ that the client may keep as HIGHESTMODSEQ
// until then. upTo is below the first of those expunges, so that a client that reconnects learns of them (RFC 7162
// section 3.2.5).
func (k *knowledge) Pending() (count int, upTo uint64) {
	if len(k.hidden) == 0 {
		return 0, uint64(k.mod)
	}
	return len(k.hidden), uint64(min(k.mod, max(k.pending, 2)-1))
}

// unseenWithin is the number of messages that FirstUnseen reads at most.
const unseenWithin = 64

// FirstUnseen returns the sequence number of the first message that the person has not seen, or 0 if there is none. It
// reads only the last unseenWithin messages, and returns 0 if unseen messages may lie before them. A server may leave
// this number out (RFC 3501 section 6.3.1).
func (v *View) FirstUnseen(ctx context.Context) (seq uint32, err error) {
	err = v.f.read(ctx, func(r *store.Reader) error {
		h, err := r.Folder(v.folder)
		if err != nil {
			return err
		}
		unseen := h.Total - min(h.Total, layout.SeenBy(h.Seen, v.f.who.Person))
		if unseen == 0 || h.Total != v.exists || len(v.hidden) > 0 {
			return nil
		}
		if unseen == h.Total {
			seq = 1
			return nil
		}
		before := h.Total - min(h.Total, unseenWithin)
		from, err := r.At(v.folder, before)
		if err != nil || unseen > unseenWithin {
			return err
		}
		first := uint32(0)
		err = v.each(r, []Range{{from, v.uidNext - 1}}, func(n, _ uint32, id note.ID) (bool, error) {
			row, err := r.Note(id)
			if err == nil && !row.SeenBy(v.f.who.Person) {
				if unseen--; first == 0 {
					first = n
				}
			}
			return unseen > 0, ignoreGone(err)
		})
		if unseen == 0 {
			seq = first
		}
		return err
	})
	return seq, err
}

// Events receives the changes that Poll reports.
type Events interface {
	Expunge(seq, uid uint32)
	Exists(n uint32)
	// Changed reports new flags, in order of their MODSEQs. m is valid only during the call.
	Changed(m *Message)
}

// head returns the folder. It returns ErrFolderGone if the folder's UIDVALIDITY is not the one that the session knows:
// the folder was renumbered, or got the name of another folder. The UIDs that the session knows are then invalid.
func (k *knowledge) head(r *store.Reader) (*layout.Folder, error) {
	h, err := r.Folder(k.folder)
	if err != nil || h.UIDValidity != k.validity {
		return nil, fmt.Errorf("%w: %s", ErrFolderGone, k.name)
	}
	return h, nil
}

// Poll brings the session up to date. It reports expunges if allowExpunge is set, the highest sequence number first;
// then the number of messages; then changed flags in order of their MODSEQs. So a client that disconnects in between
// knows everything up to the last MODSEQ that it saw.
func (v *View) Poll(ctx context.Context, allowExpunge bool, e Events) error {
	return v.poll(ctx, allowExpunge, false, e)
}

// PollInOrder is like Poll without expunges, but reports nothing while an expunge is pending. So it never reports a
// MODSEQ above that of a pending expunge.
func (v *View) PollInOrder(ctx context.Context, e Events) error { return v.poll(ctx, false, true, e) }

// announceNew reports the messages that came after the last report.
func (v *View) announceNew(r *store.Reader, h *layout.Folder, e Events) error {
	n := h.Total + uint32(len(v.hidden))
	if n == v.exists && h.UIDNext == v.uidNext {
		return nil
	}
	if err := v.meet(r, h, v.uidNext); err != nil {
		return err
	}
	v.exists, v.uidNext = n, h.UIDNext
	e.Exists(n)
	return nil
}

func (v *View) poll(ctx context.Context, allowExpunge, inOrder bool, e Events) error {
	return v.f.read(ctx, func(r *store.Reader) error {
		h, err := v.head(r)
		if err != nil {
			return err
		}
		if r.FolderRights(h)&note.Read == 0 {
			return fmt.Errorf("%w: %s", ErrFolderGone, v.name)
		}
		last := r.Counters().Ledger.Last
		if h.Mod <= v.mod && (!allowExpunge || len(v.hidden) == 0) {
			v.mod = max(v.mod, last)
			return nil
		}
		if inOrder {
			if err := v.sync(r); err != nil || len(v.hidden) > 0 {
				return err
			}
		}
		changed, err := v.collect(r)
		if err != nil {
			return err
		}
		if allowExpunge {
			if err := v.announce(r, e); err != nil {
				return err
			}
		}
		if err := v.announceNew(r, h, e); err != nil {
			return err
		}
		v.synced = last
		if err := v.tell(r, changed, e); err != nil {
			return err // the next Poll reports them again
		}
		v.mod, v.told = last, nil
		return nil
	})
}

type flagChange struct {
	uid uint32
	id  note.ID
	row *layout.Note
}

// collect returns the flag changes since v.mod, in order of MODSEQ, and hides the messages expunged since.
func (v *View) collect(r *store.Reader) ([]flagChange, error) {
	var changed []flagChange
	var inner error
	err := r.Changes(v.mod, func(mod note.ModSeq, c layout.Change) bool {
		if c.Expunged {
			if c.Folder == v.folder && c.UID < v.uidNext && mod > v.synced {
				v.hide(c.UID, mod)
			}
			return true
		}
		n, err := r.Note(c.Note)
		if errors.Is(err, store.ErrNotFound) {
			return true
		}
		if err != nil {
			inner = err
			return false
		}
		m, ok := n.Member(v.folder)
		if ok && m.UID < v.uidNext && v.told[m.UID] != mod {
			changed = append(changed, flagChange{m.UID, c.Note, n})
		}
		return true
	})
	return changed, errors.Join(err, inner)
}

// sync hides the messages expunged since the last sync, so that sequence numbers keep their meaning for the session.
// Every function that uses sequence numbers calls it first, within the same read.
func (k *knowledge) sync(r *store.Reader) error {
	h, err := k.head(r)
	if err != nil {
		return err
	}
	if h.Mod <= k.synced {
		return nil
	}
	err = r.Changes(k.synced, func(mod note.ModSeq, c layout.Change) bool {
		if c.Expunged && c.Folder == k.folder && c.UID < k.uidNext {
			k.hide(c.UID, mod)
		}
		return true
	})
	if err == nil {
		k.synced = r.Counters().Ledger.Last
	}
	return err
}

func (k *knowledge) hide(uid uint32, mod note.ModSeq) {
	if i, ok := slices.BinarySearch(k.hidden, uid); !ok {
		if len(k.hidden) == 0 || mod < k.pending {
			k.pending = mod
		}
		k.hidden = slices.Insert(k.hidden, i, uid)
	}
}

// announce reports the expunges in descending order, so that an expunge does not shift the numbers of those that
// follow.
func (v *View) announce(r *store.Reader, e Events) error {
	if len(v.hidden) == 0 {
		return nil
	}
	pos, err := v.positions(r)
	if err != nil {
		return err
	}
	for i := len(v.hidden) - 1; i >= 0; i-- {
		e.Expunge(pos[i]+1, v.hidden[i])
		v.recent.expunged(v.hidden[i])
	}
	v.exists -= uint32(len(v.hidden))
	v.hidden = nil
	return nil
}

// positions returns, for each hidden UID, the number of messages before it as the session counts them. From the ninth
// hidden UID on, one pass counts the live members.
func (k *knowledge) positions(r *store.Reader) ([]uint32, error) {
	pos := make([]uint32, len(k.hidden))
	if len(pos) == 0 {
		return pos, nil
	}
	live, err := r.Rank(k.folder, k.hidden[0])
	if err != nil {
		return nil, err
	}
	pos[0] = live
	for i := 1; i < len(pos); i++ {
		if i == 8 { // many: one pass instead of a look-up for each
			return pos, k.sweepPositions(r, pos)
		}
		if live, err = r.Rank(k.folder, k.hidden[i]); err != nil {
			return nil, err
		}
		pos[i] = live + uint32(i)
	}
	return pos, nil
}

func (k *knowledge) sweepPositions(r *store.Reader, pos []uint32) error {
	i, live := 1, pos[0]
	err := r.Members(k.folder, k.hidden[0], k.hidden[len(k.hidden)-1], func(uid uint32, _ note.ID) bool {
		for ; i < len(pos) && k.hidden[i] < uid; i++ {
			pos[i] = live + uint32(i)
		}
		live++
		return true
	})
	for ; i < len(pos); i++ {
		pos[i] = live + uint32(i)
	}
	return err
}

func (v *View) tell(r *store.Reader, changed []flagChange, e Events) error {
	for _, c := range changed {
		live, err := r.Rank(v.folder, c.uid)
		if err != nil {
			return err
		}
		below, _ := slices.BinarySearch(v.hidden, c.uid)
		m := Message{Seq: live + uint32(below) + 1, UID: c.uid, ID: c.id, v: v, r: r, row: c.row}
		e.Changed(&m)
	}
	return nil
}

// Range is a range of numbers, in either order. 0 stands for the highest number in use.
type Range struct{ Start, Stop uint32 }

// until returns the range in ascending order with last in place of *.
func (g Range) until(last uint32) Range {
	start, stop := cmp.Or(g.Start, last), cmp.Or(g.Stop, last)
	return Range{min(start, stop), max(start, stop)}
}

// Set is a set of sequence numbers or UIDs.
type Set []Range

// uids converts a set into ranges of UIDs that the session knows, ascending and merged. It ignores sequence numbers
// above Exists.
func (k *knowledge) uids(r *store.Reader, set Set, byUID bool) ([]Range, error) {
	if err := k.sync(r); err != nil {
		return nil, err
	}
	out := make([]Range, 0, len(set))
	var pos []uint32
	if !byUID && len(k.hidden) > 0 {
		var err error
		if pos, err = k.positions(r); err != nil {
			return nil, err
		}
	}
	for _, g := range set {
		u, ok, err := k.uidRange(r, g, byUID, pos)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b Range) int { return int(int64(a.Start) - int64(b.Start)) })
	return merge(out[:0], out), nil
}

// merge appends ascending ranges to ascending ranges, and joins those that overlap.
func merge(out, more []Range) []Range {
	for _, g := range more {
		if n := len(out); n > 0 && g.Start <= out[n-1].Stop {
			out[n-1].Stop = max(out[n-1].Stop, g.Stop)
			continue
		}
		out = append(out, g)
	}
	return out
}

// knownUIDs returns the part of a range of UIDs up to the last UID that the session knows. It returns false if that is
// empty.
func (k *knowledge) knownUIDs(r *store.Reader, g Range) (Range, bool, error) {
	var last uint32
	if g.Start == 0 || g.Stop == 0 {
		if k.exists == 0 {
			return g, false, nil
		}
		// A range with * holds at least the last message (RFC 9051 section 9, seq-range).
		var err error
		if last, err = k.uidAt(r, k.exists-1, nil); err != nil {
			return g, false, err
		}
	}
	g = g.until(last)
	g.Stop = min(g.Stop, k.uidNext-1)
	return g, g.Start <= g.Stop, nil
}

func (k *knowledge) uidRange(r *store.Reader, g Range, byUID bool, pos []uint32) (Range, bool, error) {
	if byUID {
		return k.knownUIDs(r, g)
	}
	if g = g.until(k.exists); k.exists == 0 || g.Start > k.exists {
		return g, false, nil
	}
	lo, err := k.uidAt(r, g.Start-1, pos)
	if err != nil {
		return g, false, err
	}
	hi := lo
	switch stop := min(g.Stop, k.exists); {
	case stop == k.exists:
		hi = k.uidNext - 1 // to the last message that the session knows, without a look-up
	case stop != g.Start:
		if hi, err = k.uidAt(r, stop-1, pos); err != nil {
			return g, false, err
		}
	}
	return Range{lo, hi}, true, nil
}

// uidAt returns the UID of the message that has rank messages before it, live or hidden. pos holds the result of
// positions, or nil. ErrParted means that messages disappeared without an expunge: the ledger was rewritten during the
// session.
func (k *knowledge) uidAt(r *store.Reader, rank uint32, pos []uint32) (uint32, error) {
	if len(k.hidden) == 0 {
		return k.liveAt(r, rank)
	}
	if pos == nil {
		var err error
		if pos, err = k.positions(r); err != nil {
			return 0, err
		}
	}
	i, ok := slices.BinarySearch(pos, rank)
	if ok {
		return k.hidden[i], nil
	}
	return k.liveAt(r, rank-uint32(i))
}

func (k *knowledge) liveAt(r *store.Reader, rank uint32) (uint32, error) {
	uid, err := r.At(k.folder, rank)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %s has no message %d", ErrParted, k.name, rank+1)
	}
	return uid, err
}

// Translate converts a set of sequence numbers or UIDs into ranges of UIDs.
func (v *View) Translate(ctx context.Context, set Set, byUID bool) (Set, error) {
	var out Set
	err := v.f.read(ctx, func(r *store.Reader) error {
		ranges, err := v.uids(r, set, byUID)
		out = ranges
		return err
	})
	return out, err
}

// members calls fn for the live messages in the ranges, in ascending order, until fn returns false.
func (k *knowledge) members(r *store.Reader, ranges []Range, fn func(uid uint32, id note.ID) (bool, error)) error {
	if err := k.sync(r); err != nil {
		return err
	}
	more := true
	for _, g := range ranges {
		var inner error
		if g.Start == g.Stop {
			id, err := r.Member(k.folder, g.Start)
			if errors.Is(err, store.ErrNotFound) || g.Start >= k.uidNext {
				continue
			}
			if err == nil {
				more, err = fn(g.Start, id)
			}
			if err != nil || !more {
				return err
			}
			continue
		}
		err := r.Members(k.folder, g.Start, min(g.Stop, k.uidNext-1), func(uid uint32, id note.ID) bool {
			more, inner = fn(uid, id)
			return more && inner == nil
		})
		if err := errors.Join(err, inner); err != nil || !more {
			return err
		}
	}
	return nil
}

// each is like members, but also passes the sequence number.
func (k *knowledge) each(r *store.Reader, ranges []Range, fn func(seq, uid uint32, id note.ID) (bool, error)) error {
	var live, last uint32
	next := 0 // index of the range after the current one; within a range, sequence numbers are consecutive
	return k.members(r, ranges, func(uid uint32, id note.ID) (bool, error) {
		if last == 0 || next < len(ranges) && uid >= ranges[next].Start {
			for next < len(ranges) && uid >= ranges[next].Start {
				next++
			}
			var err error
			if live, err = r.Rank(k.folder, uid); err != nil {
				return false, err
			}
		}
		below, _ := slices.BinarySearch(k.hidden, uid)
		seq := live + uint32(below) + 1
		live++
		last = uid
		return fn(seq, uid, id)
	})
}

// appendUID adds a UID above all others to a set.
func appendUID(s Set, uid uint32) Set {
	if n := len(s); n > 0 && s[n-1].Stop+1 == uid {
		s[n-1].Stop = uid
		return s
	}
	return append(s, Range{uid, uid})
}
