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

// StoreMode is the way in which STORE applies the given flags.
type StoreMode uint8

// The modes.
const (
	Add StoreMode = iota + 1
	Remove
	Replace
)

// StoreOp is one STORE operation.
type StoreOp struct {
	Mode  StoreMode
	Flags Flags
	// UnchangedSince, if HasUnchangedSince is set, skips messages that changed after this MODSEQ (RFC 7162 section
	// 3.1.3).
	UnchangedSince    uint64
	HasUnchangedSince bool
}

// batch is the number of messages that one update changes, so that it holds its locks only briefly. A STORE is
// therefore atomic per message, not as a whole.
const batch = 1000

// changed is a message that an update has changed. Its row shows the new MODSEQ after the commit.
type changed struct {
	seq, uid uint32
	id       note.ID
	row      *layout.Note
	// elsewhere is set if others changed the message since the session's last Poll.
	elsewhere bool
}

// Store changes flags durably. It calls fn for each message of the set that still exists, with its new flags and
// MODSEQ; nothing else of that message can be read. The session's next Poll does not report these changes again.
// FlagsChanged is set on messages that others have changed meanwhile. Store returns the messages that failed
// UnchangedSince, as UIDs or sequence numbers according to byUID.
func (v *View) Store(ctx context.Context, set Set, byUID bool, op StoreOp,
	fn func(*Message)) (modified Set, err error) {
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
	stored := false
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
					stored = true
					v.tellOwn(c.uid, c.row.Mod)
					fn(&Message{Seq: c.seq, UID: c.uid, ID: c.id, FlagsChanged: c.elsewhere, v: v, row: c.row})
				}
			}
		}
	}
	// A repeated STORE changes nothing more, but UNCHANGEDSINCE would fail for the messages that are stored already.
	return modified, partly(err, stored && op.HasUnchangedSince)
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

// storeOne writes only the differences: setting flags that are already set does not change the MODSEQ. Flags that the
// person may not set stay unchanged. It returns store.ErrDenied only if the person may set none of the flags named.
//
// Implements: RFC 4314 §4 STORE does not fail for the flags that may not be set
func (o *opened) storeOne(w *store.Writer, id note.ID, have Flags, op *StoreOp) error {
	want := op.apply(have)
	if len(want.Keywords) > maxKeywords {
		return fmt.Errorf("%w: more than %d on one message", ErrBadFlag, maxKeywords)
	}
	var tried attempts
	if want.Seen != have.Seen {
		tried.add(w.SetSeen(id, o.f.who.Person, want.Seen))
	}
	if want.Deleted != have.Deleted {
		tried.add(w.MarkDeleted(id, o.folder, want.Deleted))
	}
	for _, k := range have.Keywords {
		if !slices.Contains(want.Keywords, k) && !tried.add(w.SetKeyword(id, k, false)) {
			break
		}
	}
	for _, k := range want.Keywords {
		if !slices.Contains(have.Keywords, k) && !tried.add(setKeyword(w, id, k)) {
			break
		}
	}
	if tried.failed == nil && tried.denied && !o.maySetAny(w, id, op) {
		return store.ErrDenied
	}
	return tried.failed
}

// attempts collects the results of setting flags one by one.
type attempts struct {
	denied bool
	failed error // the last error other than store.ErrDenied
}

// add adds a result, and reports whether it is a success.
func (a *attempts) add(err error) bool {
	if errors.Is(err, store.ErrDenied) {
		a.denied = true
	} else if err != nil {
		a.failed = err
	}
	return err == nil
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

// maySetAny reports whether the person may set any of the flags in op. Replace names all flags.
func (o *opened) maySetAny(w *store.Writer, id note.ID, op *StoreOp) bool {
	h, err := w.Folder(o.folder)
	if err != nil {
		return false
	}
	g := w.FolderRights(h)
	if n, err := w.Note(id); err != nil || n.Author.IsZero() || n.Author != o.f.who.Person {
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
		k := slices.DeleteFunc(slices.Clone(have.Keywords),
			func(s string) bool { return slices.Contains(op.Flags.Keywords, s) })
		return Flags{Seen: have.Seen && !op.Flags.Seen, Deleted: have.Deleted && !op.Flags.Deleted, Keywords: k}
	}
	return op.Flags
}

// Expunge removes the messages marked \Deleted from the folder: those in uids, or all if uids is nil. The next Poll
// with allowExpunge reports them to the session.
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
			// Everything that the session knows. Messages that arrived since stay, even if they are marked.
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

func (o *opened) expungeSome(w *store.Writer, ranges []Range) (more bool, err error) {
	var gone []uint32
	for _, g := range ranges {
		err := w.MarkedDeleted(o.folder, g.Start, g.Stop, func(uid uint32) bool {
			gone = append(gone, uid)
			return len(gone) < batch
		})
		if err != nil {
			return false, err
		}
	}
	for _, uid := range gone {
		id, err := w.Member(o.folder, uid)
		if err == nil {
			err = o.f.expunge(w, id, o.folder)
		}
		if err != nil {
			return false, err
		}
	}
	return len(gone) >= batch, nil
}

// CopyResult holds the UIDs of a copy (RFC 4315 COPYUID). Source and Dest correspond in order.
type CopyResult struct {
	UIDValidity  uint32
	Source, Dest Set
}

// Copy copies messages into another folder of the mail file, all or none. Others may see a very large copy arrive in
// parts. It copies nothing and returns ErrExpunged if a sequence number stands for an expunged message.
func (v *View) Copy(ctx context.Context, set Set, byUID bool, dest string) (CopyResult, error) {
	return v.transfer(ctx, set, byUID, target{file: v.f, name: dest}, false, nil)
}

// Move moves messages into another folder of the mail file, each one atomically. If it fails, the result lists the
// messages already moved. The session's next Poll with allowExpunge reports the messages that left.
func (v *View) Move(ctx context.Context, set Set, byUID bool, dest string) (CopyResult, error) {
	if v.readOnly {
		return CopyResult{}, ErrReadOnly
	}
	return v.transfer(ctx, set, byUID, target{file: v.f, name: dest}, true, nil)
}

// named returns the UIDs of the messages in a set. The sequence number of an expunged message is ErrExpunged; its UID
// is ignored (RFC 9051 section 6.4.9).
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

// target is the destination folder of a transfer. The first part finds it by name; later parts use its id, even if
// others rename it meanwhile.
type target struct {
	file     *File
	name     string
	id       note.ID // 0 until it is found
	validity uint32
	// whole makes a message that no longer exists an error, ErrExpunged.
	whole bool
}

// find returns the folder. It returns store.ErrConflict if the folder was renumbered: the UIDs of the parts could not
// be combined into one result.
func (t *target) find(r *store.Reader) (*layout.Folder, error) {
	if t.id == 0 {
		return t.file.named(r, t.name)
	}
	h, err := r.Folder(t.id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = fmt.Errorf("%w: %s", ErrNoFolder, t.name)
	case err == nil && h.UIDValidity != t.validity:
		err = fmt.Errorf("%s was renumbered: %w", t.name, store.ErrConflict)
	}
	return h, err
}

// transfer copies or moves messages in parts of at most batch messages. Each part is atomic, so a moved message is
// always in one of the two folders. If a copy fails, transfer removes what the earlier parts copied (RFC 9051 section
// 6.4.7). If a move fails, the moved messages stay in the destination and the result lists them (RFC 6851 section 3.3).
func (v *View) transfer(ctx context.Context, set Set, byUID bool, to target, move bool,
	tell func(done, all uint64)) (CopyResult, error) {
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
			back := errors.Join(to.takeBack(ctx, piece.Dest), to.takeBack(ctx, out.Dest))
			return CopyResult{}, partly(errors.Join(err, back), back != nil)
		}
		if err != nil {
			return out, partly(err, len(out.Dest) > 0)
		}
		out.UIDValidity = piece.UIDValidity
		out.Source, out.Dest = appendSet(out.Source, piece.Source), appendSet(out.Dest, piece.Dest)
	}
	return out, nil
}

func (v *View) transferSome(tx *store.Tx, uids []uint32, dest *target,
	move bool) (out CopyResult, folder note.ID, err error) {
	from, err := tx.Home(v.f.db)
	if err != nil {
		return out, 0, err
	}
	w, err := tx.Home(dest.file.db)
	if err != nil {
		return out, 0, err
	}
	h, err := dest.find(&w.Reader)
	if err != nil {
		return out, 0, err
	}
	out.UIDValidity = h.UIDValidity
	var added uint64
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
		to, err := v.transferEither(from, w, id, h, move, &added)
		if err != nil {
			return out, 0, err
		}
		out.Source, out.Dest = appendUID(out.Source, uid), appendUID(out.Dest, to)
	}
	return out, h.Note, nil
}

// transferEither copies or moves a message within the mail file, or into another one. added counts the bytes that this
// adds to the mail file of the destination, and that its size does not include yet.
func (o *opened) transferEither(from, to *store.Writer, id note.ID, h *layout.Folder, move bool,
	added *uint64) (uint32, error) {
	if o.f.bin {
		return o.f.takeOut(to, id, o.folder, h, added)
	}
	if move {
		if err := o.mayTake(from, id); err != nil {
			return 0, err
		}
	}
	if to == from {
		return o.transferOne(to, id, h, move, added)
	}
	return o.transferAcross(from, to, id, h, move, added)
}

// takeBack removes the messages that earlier parts of a copy added. It acts as the server and checks no rights of the
// person, because the messages should never have existed.
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
					return nil // folder deleted, or renumbered: a new set of UIDs that we do not know
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

func (o *opened) transferOne(w *store.Writer, id note.ID, h *layout.Folder, move bool, added *uint64) (uint32, error) {
	dest := h.Note
	n, err := w.Note(id)
	if err != nil {
		return 0, err
	}
	// If the destination already holds the message, File.addTo creates a second note. It counts against the quota,
	// unless this move removes the first note.
	if _, there := n.Member(dest); there && (!move || len(n.Members) > 1) {
		*added += n.Size
		if err := roomIn(&w.Reader, &o.f.who, h, *added); err != nil {
			return 0, err
		}
	}
	uid, err := o.f.addTo(w, id, dest)
	if err != nil || !move {
		return uid, err
	}
	return uid, w.RemoveFrom(id, o.folder)
}

// CopyTo copies messages into a folder of another mail file, like Copy. If move is set, it removes them here. A copy
// keeps its UNID if that is not in use there. Between two parts it calls tell, if not nil, with the number of messages
// done and the total. From a folder of File.Bin it recovers messages, into the same mail file only, and always moves
// them: what is in the bin and in another folder at once could be purged, and then be taken back as a copy.
func (v *View) CopyTo(ctx context.Context, set Set, byUID bool, to *File, dest string, move bool,
	tell func(done, all uint64)) (CopyResult, error) {
	if v.f.bin && to.db != v.f.db {
		return CopyResult{}, ErrRecoverOnly
	}
	if move && v.readOnly && !v.f.bin {
		return CopyResult{}, ErrReadOnly
	}
	return v.transfer(ctx, set, byUID, target{file: to, name: dest}, move || v.f.bin, tell)
}

// transferAcross copies a message into a folder of another mail file, or moves it there.
func (o *opened) transferAcross(from, to *store.Writer, id note.ID, h *layout.Folder, move bool,
	added *uint64) (uint32, error) {
	if err := roomIn(&to.Reader, &o.f.who, h, 0); errors.Is(err, store.ErrDenied) {
		return 0, err
	}
	dest := h.Note
	copied, err := copyNote(from, to, id, dest, added)
	if err == nil && move {
		err = o.f.leave(from, id, o.folder)
	}
	return to.UID(copied, dest), err
}

// copyNote copies a note into a folder of another mail file. added counts the bytes that the current update has added
// there.
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
