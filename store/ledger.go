package store

import (
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// Position returns this replica's position in the ledger.
func (sn *snapshot) Position() Position {
	waits, known := sn.pending()
	if !known && sn.st.counters.Ledger.Shared {
		ids, _, err := sn.unnumbered(0, 1)
		waits = err != nil || len(ids) > 0
	}
	return sn.position(waits)
}

// position returns the position. waits means that a note waits to be numbered.
func (sn *snapshot) position(waits bool) Position {
	c := &sn.st.counters
	p := Position{Ledger: c.Ledger, LastUIDValidity: c.LastUIDValidity}
	p.Ended = slices.Clone(p.Ended)
	p.Pending = c.Ledger.Shared && (waits || sn.st.info.Mod == 0)
	return p
}

// Met returns the latest position of this ledger at which the replica with another slot is known to have had all of it.
// It is known because that replica assigned numbers then, or because it confirmed them (Peers.Meet). It is also
// known after a restart. If nothing is known, Met returns the zero position of this numbering.
func (sn *snapshot) Met(slot uint8) Position {
	l := &sn.st.counters.Ledger
	met := layout.Met{Epoch: l.Epoch}
	later := func(last note.ModSeq, uid uint32) {
		if last > met.Last {
			met.Last, met.UID = last, uid
		}
	}
	for _, e := range l.Ended {
		if e.Last.Home() == slot {
			later(e.Last, e.UID)
		}
	}
	if !l.Partial && l.Last.Home() == slot {
		later(l.Last, l.UID)
	}
	for _, p := range sn.st.peers {
		if p.Met.Slot == slot && p.Met.Epoch == l.Epoch && l.Knows(p.Met.Last) {
			later(p.Met.Last, p.Met.UID)
		}
	}
	return Position{Ledger: l.Back(met.Last, met.UID), LastUIDValidity: sn.st.counters.LastUIDValidity}
}

// Ledger returns the page that follows a replica's position: about most bytes and at most limit notes and expunges, and
// at least one if there is one. Notes named in again are sent whole, even if they did not change. A position that is
// not on this ledger's history causes ErrParted. ErrBehind means that this replica is itself catching up, or knows less
// than the requester. Every replica can serve the pages that it knows, not only the home.
func (r *Reader) Ledger(at *Position, limit int, most int64, again ...note.UNID) (*LedgerPage, error) {
	c := &r.st.counters
	how, from, err := r.resume(at)
	if err != nil {
		return nil, err
	}
	p := &LedgerPage{From: from, To: c.Ledger.Last, Whole: how == note.CopyOn, Floor: c.Floor, Of: r.Position(),
		Seq: c.Seq}
	b := &pageBuilder{r: r, p: p, in: make(map[note.ID]bool), has: from}
	switch {
	case p.Whole:
		b.has = 0 // the target of a copy can rely only on what the copy brings
	case at.Partial:
		b.has = at.Complete // above Complete it has what the last pages brought, except what had moved on by then
	}
	if err := b.fill(limit, most); err != nil {
		return nil, err
	}
	if err := b.folders(); err != nil {
		return nil, err
	}
	for _, u := range again {
		if err := b.again(u); err != nil {
			return nil, err
		}
	}
	if r.st.info.Mod > from || p.Whole && from == 0 {
		info := *r.st.info
		p.Info = &info
	}
	return p, nil
}

// resume returns how the ledger here continues at a position, and from which MODSEQ.
func (r *Reader) resume(at *Position) (how note.Resumption, from note.ModSeq, err error) {
	c := &r.st.counters
	switch {
	case !r.who.System:
		return 0, 0, ErrDenied
	case !c.Ledger.Shared:
		return 0, 0, fmt.Errorf("%w: %s", ErrNotShared, r.st.info.Title)
	case c.Ledger.Partial:
		return 0, 0, ErrBehind
	}
	how, from = c.Ledger.Resume(&at.Ledger)
	switch {
	case how == note.Parted:
		return 0, 0, ErrParted
	case how == note.IsAhead:
		return 0, 0, ErrBehind
	case how == note.GoOn && from < c.Floor, how == note.CopyOn && at.Began < c.Floor:
		return note.CopyOn, 0, nil // expunges that it has not received are forgotten here
	}
	return how, from, nil
}

// pageBuilder fills a page.
type pageBuilder struct {
	r  *Reader
	p  *LedgerPage
	in map[note.ID]bool
	// has is the MODSEQ up to which the target has everything. needs holds the folders that notes of the page are in.
	has   note.ModSeq
	needs []note.ID
	// bytes is the approximate size of the page.
	bytes int64
}

// fill adds rows after From, in order of MODSEQ.
func (b *pageBuilder) fill(limit int, most int64) error {
	rows, last := 0, b.p.From
	var failed error
	err := b.r.Changes(b.p.From, func(mod note.ModSeq, c layout.Change) bool {
		if rows > 0 && (rows >= limit || b.bytes >= most) {
			b.p.More, b.p.To = true, last
			return false
		}
		rows, last = rows+1, mod
		if c.Expunged {
			failed = b.expunge(mod, &c)
		} else {
			failed = b.unlessDamaged(c.Note, b.note(c.Note, true))
		}
		return failed == nil
	})
	return errorOr(failed, err)
}

// unlessDamaged records a note that cannot be read and returns nil, so that the page continues without it. Other errors
// are returned.
func (b *pageBuilder) unlessDamaged(id note.ID, err error) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound) {
		b.p.Damaged = append(b.p.Damaged, id)
		b.r.s.log.Error("store: cannot replicate a note", "database", b.r.db.id.String(), "note", uint64(id),
			"err", err)
		return nil
	}
	return err
}

// note adds a note with its numbers.
func (b *pageBuilder) note(id note.ID, bare bool) error {
	n, err := b.numbered(id, bare)
	if err == nil {
		b.p.Notes, b.in[id] = append(b.p.Notes, *n), true
	}
	return err
}

func (b *pageBuilder) numbered(id note.ID, bare bool) (*Numbered, error) {
	row, err := b.r.note(id)
	if err != nil {
		return nil, err
	}
	in, err := b.r.remote(id, row, bare && row.Created <= b.has)
	if err != nil {
		return nil, err
	}
	n := &Numbered{Remote: *in, Mod: row.Mod, Created: row.Created, Ahead: row.Unnumbered}
	for _, m := range row.Members {
		f := b.r.st.folder(m.Folder)
		if f == nil {
			return nil, fmt.Errorf("%w: note %d of database %s is in folder %d, which has no head", ErrDamaged, id,
				b.r.db.id, m.Folder)
		}
		b.needs = append(b.needs, m.Folder)
		n.Members = append(n.Members, NumberedMember{Folder: f.UNID, UID: m.UID, Saved: m.Saved, Deleted: m.Deleted})
	}
	if f := b.r.st.folder(id); f != nil {
		n.Folder = &NumberedFolder{UIDValidity: f.UIDValidity, UIDNext: f.UIDNext, Mod: f.Mod}
	}
	b.bytes += 128 + int64(32*len(n.Members)) + remoteSize(in)
	return n, nil
}

// remoteSize returns the approximate size in bytes of a note when it is sent.
func remoteSize(in *Remote) int64 {
	n := int64(96 + len(in.Summary) + len(in.Message) + 64*len(in.State) + 48*len(in.Tree))
	for _, c := range in.Contents {
		for _, it := range c.Items {
			n += int64(len(it.Name) + len(it.Value) + 4)
		}
		n += int64(96 * len(c.Attachments))
	}
	return n
}

func (b *pageBuilder) expunge(mod note.ModSeq, c *layout.Change) error {
	e := Expunge{Mod: mod, Note: c.UNID, UID: c.UID, Gone: c.Gone, Time: c.Time, Class: c.Class, Thread: c.Thread,
		Created: c.Created}
	if f := b.r.st.folder(c.Folder); f != nil {
		e.Folder = f.UNID
		b.needs = append(b.needs, f.Note)
	}
	b.bytes += 96
	if c.Gone {
		switch row, err := b.r.note(c.Note); {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return b.unlessDamaged(c.Note, err)
		default:
			if e.Stub, err = b.r.remote(c.Note, row, false); err != nil {
				return b.unlessDamaged(c.Note, err)
			}
			if !row.Stub {
				e.Stub.Contents, e.Stub.Message, e.Stub.Summary = nil, nil, nil
			}
			b.bytes += remoteSize(e.Stub)
		}
	}
	b.p.Expunged = append(b.p.Expunged, e)
	return nil
}

// folders adds the folders that notes of the page are in but that follow only later by their MODSEQ. It then puts all
// folders first, because a membership needs its folder.
func (b *pageBuilder) folders() error {
	for _, id := range b.needs {
		if b.in[id] {
			continue
		}
		b.in[id] = true
		row, err := b.r.note(id)
		if err == nil && row.Mod > b.p.To {
			err = b.note(id, false)
		}
		if err := b.unlessDamaged(id, err); err != nil {
			return err
		}
	}
	b.told()
	slices.SortStableFunc(b.p.Notes, func(x, y Numbered) int {
		return b2i(y.Folder != nil) - b2i(x.Folder != nil)
	})
	return nil
}

// told adds the Told of the folders that the page concerns.
func (b *pageBuilder) told() {
	slices.Sort(b.needs)
	for _, id := range slices.Compact(b.needs) {
		if f := b.r.st.folder(id); f != nil {
			b.p.Told = append(b.p.Told, ToldFolder{f.UNID, f.Told})
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// again adds a note that was requested by name.
func (b *pageBuilder) again(u note.UNID) error {
	id, err := b.r.Find(u)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrGrave) {
		return nil // this page, or an earlier one, reports that it is gone
	}
	if err != nil {
		return err
	}
	row, err := b.r.note(id)
	if err != nil || !row.Listed() {
		return b.unlessDamaged(id, err)
	}
	n, err := b.numbered(id, false)
	if err != nil {
		return b.unlessDamaged(id, err)
	}
	b.p.Again = append(b.p.Again, *n)
	return nil
}

// Replicable returns notes by their latest change: see ChangeQuery. Notes that cannot be read are left out; check
// reports them.
func (r *Reader) Replicable(q ChangeQuery) (*Changes, error) {
	if !r.who.System {
		return nil, ErrDenied
	}
	out := &Changes{From: q.After, To: max(q.After, r.st.counters.Seq)}
	if i := r.st.info; q.All || i.Mod == 0 && i.Stamp != (note.Stamp{}) {
		info := *i
		out.Info = &info
	}
	var size int64
	last := q.After
	take := func(seq uint64, v []byte) error {
		if len(out.Notes) > 0 && (len(out.Notes) >= q.Limit || size >= q.Max) {
			out.More, out.To = true, last
			return errStop
		}
		last = seq
		id, err := layout.ReadUNIDRow(v)
		if err != nil {
			return fmt.Errorf("%w: row by sequence in database %s", ErrDamaged, r.db.id)
		}
		in, err := r.replicable(id, &q)
		if in != nil {
			out.Notes, size = append(out.Notes, in), size+remoteSize(in)
		}
		return err
	}
	if !q.All {
		return out, r.scanUnnumbered(q.After, take)
	}
	lo := layout.IDKey(r.db.num, layout.KindSequence, q.After+1)
	return out, scanRange(r.eng, lo, layout.After(layout.Prefix(r.db.num, layout.KindSequence)),
		func(k, v []byte) error {
			return take(layout.Tail64(k), v)
		})
}

// replicable reads a note for another replica. For a note that cannot be read it logs the reason and returns nil.
func (r *Reader) replicable(id note.ID, q *ChangeQuery) (*Remote, error) {
	row, err := r.note(id)
	if err == nil {
		var in *Remote
		if in, err = r.remote(id, row, q.Bare && (q.All || row.Created != 0)); err == nil {
			return in, nil
		}
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound) {
		r.s.log.Error("store: cannot replicate a note", "database", r.db.id.String(), "note", uint64(id), "err", err)
		return nil, nil
	}
	return nil, err
}
