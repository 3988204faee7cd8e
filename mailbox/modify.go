package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// StoreMode is the operation of STORE on the given flags.
type StoreMode uint8

// The modes.
const (
	Add StoreMode = iota + 1
	Remove
	Replace
)

// StoreOp is one change of flags.
type StoreOp struct {
	Mode  StoreMode
	Flags Flags
	// UnchangedSince, where HasUnchangedSince is set, leaves out messages that changed since then
	// (RFC 7162 section 3.1.3).
	UnchangedSince    uint64
	HasUnchangedSince bool
}

// batch is how many messages one update changes: its locks are held briefly, and a change of flags
// is atomic per message.
const batch = 1000

// changed is a message that an update has changed; its row shows the MODSEQ once that is committed.
type changed struct {
	seq, uid uint32
	id       note.ID
	row      *layout.Note
	// elsewhere: others changed the message since the session was told last.
	elsewhere bool
}

// Store changes flags, durably, and calls fn for every message of the set that was there, with its
// new flags, MODSEQ and nothing that would have to be read; the session is not told of them again. Of those
// that somebody else changed meanwhile FlagsChanged is set. Messages that failed UnchangedSince are returned,
// as numbers of the kind asked for.
func (v *View) Store(ctx context.Context, set Set, byUID bool, op StoreOp, fn func(*Message)) (modified Set, err error) {
	if v.readOnly {
		return nil, ErrReadOnly
	}
	var todo []changed
	err = v.f.read(ctx, func(r *store.Reader) error {
		ranges, err := v.uids(r, set, byUID)
		if err != nil {
			return err
		}
		return v.each(r, ranges, func(seq, uid uint32, id note.ID) (bool, error) {
			todo = append(todo, changed{seq: seq, uid: uid, id: id})
			return true, nil
		})
	})
	for len(todo) > 0 && err == nil {
		part := todo[:min(batch, len(todo))]
		todo = todo[len(part):]
		var failed []changed
		err = v.f.update(ctx, func(w *store.Writer) error {
			failed = failed[:0]
			return v.storeSome(w, part, &op, &failed)
		})
		for _, c := range failed {
			n := c.seq
			if byUID {
				n = c.uid
			}
			modified = append(modified, Range{n, n})
		}
		if err == nil {
			for i := range part {
				if c := &part[i]; c.row != nil {
					v.tellOwn(c.uid, c.row.Mod)
					fn(&Message{Seq: c.seq, UID: c.uid, ID: c.id, FlagsChanged: c.elsewhere, v: v, row: c.row})
				}
			}
		}
	}
	return modified, err
}

func (v *View) storeSome(w *store.Writer, part []changed, op *StoreOp, failed *[]changed) error {
	for i := range part {
		c := &part[i]
		c.row = nil
		id, err := w.Member(v.folder, c.uid)
		if err == nil {
			c.id = id
			c.row, err = w.Note(id)
		}
		if errors.Is(err, store.ErrNotFound) {
			continue // expunged meanwhile; the session learns of it by Poll
		}
		if err != nil {
			return err
		}
		if op.HasUnchangedSince && uint64(c.row.Mod) > op.UnchangedSince {
			*failed = append(*failed, *c)
			c.row = nil
			continue
		}
		c.elsewhere = c.row.Mod > v.mod && c.row.Mod != v.told[c.uid]
		if err := v.storeOne(w, id, flagsOf(c.row, v.folder, v.f.who.Person), op); err != nil {
			return err
		}
		if c.row, err = w.Note(id); err != nil {
			return err
		}
	}
	return nil
}

// storeOne writes what differs and nothing else: storing flags that are there changes no MODSEQ.
// Flags that the person may not set stay as they are; only who may set none of those named is refused.
//
// Implements: RFC 4314 §4 STORE does not fail for the flags that may not be set
func (v *View) storeOne(w *store.Writer, id note.ID, have Flags, op *StoreOp) error {
	want := op.apply(have)
	if len(want.Keywords) > maxKeywords {
		return fmt.Errorf("%w: more than %d on one message", ErrBadFlag, maxKeywords)
	}
	denied, failed := false, error(nil)
	try := func(err error) bool {
		if errors.Is(err, store.ErrDenied) {
			denied = true
		} else if err != nil {
			failed = err
		}
		return err == nil
	}
	if want.Seen != have.Seen {
		try(w.SetSeen(id, v.f.who.Person, want.Seen))
	}
	if want.Deleted != have.Deleted {
		try(w.MarkDeleted(id, v.folder, want.Deleted))
	}
	for _, k := range have.Keywords {
		if !slices.Contains(want.Keywords, k) && !try(w.SetKeyword(id, k, false)) {
			break
		}
	}
	for _, k := range want.Keywords {
		if !slices.Contains(have.Keywords, k) && !try(setKeyword(w, id, k)) {
			break
		}
	}
	if failed == nil && denied && !v.maySetAny(w, id, op) {
		return store.ErrDenied
	}
	return failed
}

func setKeyword(w *store.Writer, id note.ID, keyword string) error {
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if !mayRemember(n, keyword) {
		return fmt.Errorf("%w: a message remembers at most %d", ErrBadFlag, maxRemembered)
	}
	return w.SetKeyword(id, keyword, true)
}

// maySetAny says whether the person may set any of the flags that a change names; one that replaces
// them names them all.
func (v *View) maySetAny(w *store.Writer, id note.ID, op *StoreOp) bool {
	h, err := w.Folder(v.folder)
	if err != nil {
		return false
	}
	g := w.FolderRights(h)
	if n, err := w.Note(id); err != nil || n.Author.IsZero() || n.Author != v.f.who.Person {
		g &^= note.WriteOwn | note.ExpungeOwn
	}
	if op.Mode == Replace {
		return g&(note.KeepSeen|note.DeleteMark|note.ExpungeOwn|note.Write|note.WriteOwn) != 0
	}
	may := op.Flags.permitted(g)
	return may.Seen || may.Deleted || len(may.Keywords) > 0
}

func (op *StoreOp) apply(have Flags) Flags {
	switch op.Mode {
	case Add:
		k := append(slices.Clone(have.Keywords), op.Flags.Keywords...)
		slices.Sort(k)
		return Flags{
			Seen: have.Seen || op.Flags.Seen, Deleted: have.Deleted || op.Flags.Deleted, Keywords: slices.Compact(k),
		}
	case Remove:
		k := slices.DeleteFunc(slices.Clone(have.Keywords), func(s string) bool { return slices.Contains(op.Flags.Keywords, s) })
		return Flags{Seen: have.Seen && !op.Flags.Seen, Deleted: have.Deleted && !op.Flags.Deleted, Keywords: k}
	}
	return op.Flags
}

// Expunge removes the messages marked \Deleted, of a set of UIDs or all with nil. The session is
// told by the next Poll that may announce expunges.
func (v *View) Expunge(ctx context.Context, uids Set) error {
	if v.readOnly {
		return ErrReadOnly
	}
	var ranges []Range
	err := v.f.read(ctx, func(r *store.Reader) error {
		h, err := r.Folder(v.folder)
		if err != nil || h.Deleted == 0 {
			return err
		}
		if uids == nil {
			// Everything known to the session; what came since and was marked stays for the next time.
			uids = Set{{1, v.uidNext - 1}}
		}
		ranges, err = v.uids(r, uids, true)
		return err
	})
	for more := len(ranges) > 0; more && err == nil; {
		err = v.f.update(ctx, func(w *store.Writer) error {
			var err error
			more, err = v.expungeSome(w, ranges)
			return err
		})
	}
	return err
}

func (v *View) expungeSome(w *store.Writer, ranges []Range) (more bool, err error) {
	var gone []uint32
	for _, g := range ranges {
		err := w.MarkedDeleted(v.folder, g.Start, g.Stop, func(uid uint32) bool {
			gone = append(gone, uid)
			return len(gone) < batch
		})
		if err != nil {
			return false, err
		}
	}
	for _, uid := range gone {
		id, err := w.Member(v.folder, uid)
		if err == nil {
			err = w.RemoveFrom(id, v.folder)
		}
		if err != nil {
			return false, err
		}
	}
	return len(gone) >= batch, nil
}

// CopyResult holds the UIDs of a copy (RFC 4315 COPYUID): they correspond in order.
type CopyResult struct {
	UIDValidity  uint32
	Source, Dest Set
}

// Copy copies messages into another folder of the mail file, all or none; of very many, others see them
// arrive in pieces. Where one that is named by its number was expunged, that is none: ErrExpunged.
func (v *View) Copy(ctx context.Context, set Set, byUID bool, dest string) (CopyResult, error) {
	return v.transfer(ctx, set, byUID, target{file: v.f, name: dest}, false, nil)
}

// Move moves messages into another folder of the mail file, each one whole; where it fails, the result
// says which were moved. The session is told of those that left by the next Poll.
func (v *View) Move(ctx context.Context, set Set, byUID bool, dest string) (CopyResult, error) {
	if v.readOnly {
		return CopyResult{}, ErrReadOnly
	}
	return v.transfer(ctx, set, byUID, target{file: v.f, name: dest}, true, nil)
}

// named lists the UIDs of the messages of a set. A number of a message that was expunged is ErrExpunged; a UID of one
// names none (RFC 9051 section 6.4.9).
func (v *View) named(ctx context.Context, set Set, byUID bool) (uids []uint32, err error) {
	err = v.f.read(ctx, func(r *store.Reader) error {
		ranges, err := v.uids(r, set, byUID)
		if err != nil {
			return err
		}
		if !byUID && slices.ContainsFunc(v.hidden, func(uid uint32) bool { return inRanges(ranges, uid) }) {
			return ErrExpunged
		}
		return v.each(r, ranges, func(_, uid uint32, _ note.ID) (bool, error) {
			uids = append(uids, uid)
			return true, nil
		})
	})
	return uids, err
}

// target is where a transfer goes: a folder that is found by its name once, and then is the same one,
// whatever name others give it meanwhile.
type target struct {
	file     *File
	name     string
	id       note.ID // 0 before it is found
	validity uint32
	// whole: a message that is not there any more is ErrExpunged.
	whole bool
}

// find gives the folder. One that was numbered anew is ErrConflict: the pieces would have no common answer.
func (t *target) find(r *store.Reader) (*layout.Folder, error) {
	if t.id == 0 {
		return t.file.named(r, t.name)
	}
	h, err := r.Folder(t.id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = fmt.Errorf("%w: %s", ErrNoFolder, t.name)
	case err == nil && h.UIDValidity != t.validity:
		err = fmt.Errorf("%s was numbered anew: %w", t.name, store.ErrConflict)
	}
	return h, err
}

// transfer copies or moves in pieces of a bounded size, each of them atomic: a message is never in
// neither place. A copy that fails takes back what its earlier pieces did (RFC 9051 section 6.4.7); a move
// that fails leaves what was moved where it is, and says what that was (RFC 6851 section 3.3).
func (v *View) transfer(ctx context.Context, set Set, byUID bool, to target, move bool, tell func(done, all uint64)) (CopyResult, error) {
	uids, err := v.named(ctx, set, byUID)
	if err != nil {
		return CopyResult{}, err
	}
	to.whole = !byUID
	ids := []note.DatabaseID{v.f.db}
	if to.file.db != v.f.db {
		ids = append(ids, to.file.db)
	}
	var out CopyResult
	all := len(uids)
	for done := false; !done; {
		if left := len(uids); left < all && tell != nil {
			tell(uint64(all-left), uint64(all))
		}
		part := uids[:min(batch, len(uids))]
		uids = uids[len(part):]
		done = len(uids) == 0
		var piece CopyResult
		var found note.ID
		err := v.f.svc.store.Update(ctx, v.f.who, ids, func(tx *store.Tx) (err error) {
			if piece, found, err = v.transferSome(tx, part, &to, move); err != nil {
				piece = CopyResult{}
			}
			return err
		})
		if len(piece.Dest) > 0 {
			to.id, to.validity = found, piece.UIDValidity
		}
		if err != nil && !move && to.id != 0 {
			ctx := context.WithoutCancel(ctx)
			return CopyResult{}, errors.Join(err, to.takeBack(ctx, piece.Dest), to.takeBack(ctx, out.Dest))
		}
		if err != nil {
			return out, err
		}
		out.UIDValidity = piece.UIDValidity
		out.Source, out.Dest = appendSet(out.Source, piece.Source), appendSet(out.Dest, piece.Dest)
	}
	return out, nil
}

func (v *View) transferSome(tx *store.Tx, uids []uint32, dest *target, move bool) (out CopyResult, folder note.ID, err error) {
	from, err := tx.Home(v.f.db)
	if err != nil {
		return out, 0, err
	}
	w := from
	if dest.file.db != v.f.db {
		if w, err = tx.Home(dest.file.db); err != nil {
			return out, 0, err
		}
	}
	h, err := dest.find(&w.Reader)
	if err != nil {
		return out, 0, err
	}
	out.UIDValidity = h.UIDValidity
	var added uint64 // by this piece: the file's size says nothing of it yet
	for _, uid := range uids {
		id, err := from.Member(v.folder, uid)
		if errors.Is(err, store.ErrNotFound) {
			if dest.whole {
				return out, 0, ErrExpunged
			}
			continue
		}
		if err != nil {
			return out, 0, err
		}
		if move {
			if err := v.mayTake(from, id); err != nil {
				return out, 0, err
			}
		}
		var to uint32
		if w == from {
			to, err = v.transferOne(w, id, h, move, &added)
		} else {
			to, err = v.transferAcross(from, w, id, h, move, &added)
		}
		if err != nil {
			return out, 0, err
		}
		out.Source, out.Dest = appendUID(out.Source, uid), appendUID(out.Dest, to)
	}
	return out, h.Note, nil
}

// takeBack removes what earlier pieces of a copy put there. It needs no right of the person: they are as
// if they had never been there.
func (t *target) takeBack(ctx context.Context, uids Set) error {
	for _, g := range uids {
		for from, more := g.Start, true; more; {
			last := g.Stop
			if more = g.Stop-from >= batch; more {
				last = from + batch - 1
			}
			err := t.file.svc.asSystem(ctx, t.file.db, func(w *store.Writer) error {
				h, err := w.Folder(t.id)
				if errors.Is(err, store.ErrNotFound) || err == nil && h.UIDValidity != t.validity {
					return nil // gone, and they with it; or under other numbers, for somebody who looks
				}
				for uid := from; uid <= last && err == nil; uid++ {
					var id note.ID
					if id, err = w.Member(t.id, uid); err == nil {
						err = w.RemoveFrom(id, t.id)
					}
					if errors.Is(err, store.ErrNotFound) {
						err = nil
					}
				}
				return err
			})
			if err != nil {
				return err
			}
			from = last + 1
		}
	}
	return nil
}

func appendSet(to, more Set) Set {
	for _, g := range more {
		if n := len(to); n > 0 && to[n-1].Stop+1 == g.Start {
			to[n-1].Stop = g.Stop
		} else {
			to = append(to, g)
		}
	}
	return to
}

func (v *View) transferOne(w *store.Writer, id note.ID, h *layout.Folder, move bool, added *uint64) (uint32, error) {
	dest := h.Note
	n, err := w.Note(id)
	if err != nil {
		return 0, err
	}
	// Into a folder that holds it already goes a second note of the message, which quota counts unless
	// the first one ends with this move.
	if _, there := n.Member(dest); there && (!move || len(n.Members) > 1) {
		*added += n.Size
		if err := roomIn(&w.Reader, &v.f.who, h, *added); err != nil {
			return 0, err
		}
	}
	uid, err := v.f.addTo(w, id, dest)
	if err != nil || !move {
		return uid, err
	}
	return uid, w.RemoveFrom(id, v.folder)
}

// CopyTo copies messages into a folder of another mail file, as Copy does; move removes them here.
// Copies keep their UNID where that is free. Between two pieces tell, where it is not nil, is told how many of all are done.
func (v *View) CopyTo(ctx context.Context, set Set, byUID bool, to *File, dest string, move bool, tell func(done, all uint64)) (CopyResult, error) {
	if move && v.readOnly {
		return CopyResult{}, ErrReadOnly
	}
	return v.transfer(ctx, set, byUID, target{file: to, name: dest}, move, tell)
}

// transferAcross copies a message into a folder of another mail file, or moves it there.
func (v *View) transferAcross(from, to *store.Writer, id note.ID, h *layout.Folder, move bool, added *uint64) (uint32, error) {
	if err := roomIn(&to.Reader, &v.f.who, h, 0); errors.Is(err, store.ErrDenied) {
		return 0, err
	}
	dest := h.Note
	copied, err := copyNote(from, to, id, dest, added)
	if err == nil && move {
		err = from.RemoveFrom(id, v.folder)
	}
	return to.UID(copied, dest), err
}

// copyNote copies a note into a folder of another mail file, to which the update at hand has added so
// many bytes.
func copyNote(from, to *store.Writer, id, folder note.ID, added *uint64) (note.ID, error) {
	n, err := from.Note(id)
	if err != nil {
		return 0, err
	}
	*added += n.Size
	if err := CheckQuota(&to.Reader, *added); err != nil {
		return 0, err
	}
	unid := n.UNID
	switch _, err := to.Find(unid); {
	case err == nil, errors.Is(err, store.ErrGrave):
		unid = note.UNID{}
	case !errors.Is(err, store.ErrNotFound):
		return 0, err
	}
	return to.CopyNote(from, id, folder, unid)
}
