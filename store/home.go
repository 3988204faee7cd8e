package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"doublet/note"
	"doublet/store/layout"
)

// leaders holds the shared databases that this store leads: it assigns their numbers. It is not durable. After a start
// all shared databases follow until Lead is called.
type leaders struct {
	mu sync.RWMutex
	by map[note.DatabaseID]bool
}

func (l *leaders) has(id note.DatabaseID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.by[id]
}

func (l *leaders) set(id note.DatabaseID, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = make(map[note.DatabaseID]bool)
	}
	if on {
		l.by[id] = true
	} else {
		delete(l.by, id)
	}
}

// leads sets whether the replica assigns numbers, from the moment the update is applied.
func (num *numbering) leads(on bool) {
	num.mutable()
	num.numbers, num.leading = on, &on
}

// Leads reports whether this replica assigns numbers. A shared one does so after Lead, one that is not shared always.
func (s *Store) Leads(id note.DatabaseID) bool {
	if s.leaders.has(id) {
		return true
	}
	db, err := s.dbs.acquire(id)
	if err != nil {
		return false
	}
	defer s.dbs.release(db)
	return !db.cur.Load().counters.Ledger.Shared
}

// Replicate is Update of one database, for changes that came from another replica or that concern replicas. It does not
// wait for a mate's confirmation.
func (s *Store) Replicate(ctx context.Context, id note.DatabaseID, fn func(*Writer) error) error {
	tx := &Tx{s: s, who: &note.System, unconfirmed: true}
	return s.update(ctx, tx, []note.DatabaseID{id}, func(tx *Tx) error { return fn(tx.writers[0]) })
}

// Share makes a database shared, and gives this replica a slot. The replica that was alone becomes the home and leads.
// Sharing again with the same slot changes nothing.
func (s *Store) Share(ctx context.Context, id note.DatabaseID, slot uint8) error {
	if slot >= note.Slots {
		return fmt.Errorf("store: no slot %d: a database has at most %d replicas with one", slot, note.Slots)
	}
	return s.Replicate(ctx, id, func(w *Writer) error {
		l := &w.mutable().counters.Ledger
		if l.Shared {
			if l.Slot != slot {
				return fmt.Errorf("%w: the replica has slot %d", ErrExists, l.Slot)
			}
			return nil
		}
		high, err := w.highestValidity()
		if err != nil {
			return err
		}
		w.st.counters.LastUIDValidity = high
		of := *l
		l.Shared, l.Slot = true, slot
		if l.Last.Home() != slot {
			if err := l.HandOver(&of); err != nil {
				return err
			}
		}
		w.leads(true)
		info := *w.st.info
		info.Stamp, info.Mod = w.stamp(info.Stamp), l.NextMod()
		w.describe(&info)
		return nil
	})
}

// highestValidity returns the highest UIDVALIDITY that any folder has shown.
func (sn *snapshot) highestValidity() (high uint32, err error) {
	err = scan(sn.eng, layout.Prefix(sn.db.num, layout.KindName), func(_, v []byte) error {
		if len(v) == 4 {
			high = max(high, layout.Tail32(v))
		}
		return nil
	})
	return high, err
}

// CreateReplica creates an empty replica of a database that another store has, with a slot that the home assigned. of
// is the database's description there. The replica follows, and pages of the ledger fill it.
func (cat *catalog) CreateReplica(who note.Who, of layout.Info, slot uint8) error {
	switch {
	case !who.System:
		return ErrDenied
	case slot >= note.Slots:
		return fmt.Errorf("store: no slot %d: a database has at most %d replicas with one", slot, note.Slots)
	case of.ID == 0 || of.Mod == 0:
		return fmt.Errorf("%w: %s", ErrNotShared, of.Title)
	}
	info := *of.Sent()
	info.State, info.Reason = layout.InService, ""
	// Away is set because an earlier owner of the slot may have assigned numbers under it.
	return cat.create(creation{info: &info, ledger: note.Ledger{Shared: true, Slot: slot, Away: true}})
}

// ApplyInfo applies the database's description of another replica, if it was written later than ours.
func (w *Writer) ApplyInfo(in *layout.Info) error {
	if !w.who.System {
		return ErrDenied
	}
	plausible := w.s.seeStamp(in.Stamp)
	have := w.st.info
	info := *have
	switch later := have.Stamp.Less(in.Stamp); {
	case w.numbers && have.Stamp == in.Stamp && in.Mod == 0:
		info.Mod = w.mutable().counters.Ledger.NextMod() // the replica that asks does not know that it is numbered
	case w.numbers && later:
		info.TakeShared(in)
		info.Mod = w.mutable().counters.Ledger.NextMod()
	case !w.numbers && (later || have.Stamp == in.Stamp):
		info.TakeShared(in)
		info.Mod = in.Mod
	default:
		return nil
	}
	if info.Mod == have.Mod && info.Stamp == have.Stamp {
		return nil
	}
	if !plausible {
		w.s.log.Warn("database properties have a timestamp in the future", "database", w.db.id.String())
	}
	w.describe(&info)
	return nil
}

// Lead makes this replica the home. It continues its own term if no other replica can have assigned numbers since;
// otherwise it begins a new term. It then numbers all unnumbered notes, and returns when that is done. Without
// HandOver, no other replica may have everything that the last home has shown. With HandOver, the old home has ended
// with Follow; if this replica lacks a part of its ledger, Lead returns ErrBehind.
func (s *Store) Lead(ctx context.Context, id note.DatabaseID, o LeadOptions) error {
	if err := s.Replicate(ctx, id, func(w *Writer) error { return w.lead(&o) }); err != nil {
		return err
	}
	// Folders come before the notes that are in them.
	for _, folders := range []bool{true, false} {
		for after, more := uint64(0), true; more; {
			err := s.Replicate(ctx, id, func(w *Writer) (err error) {
				after, more, err = w.numberSome(after, folders)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// caughtUp reports whether a ledger has everything that an old home had when it ended its term.
func caughtUp(l *note.Ledger, old *Position) bool {
	return old.Away && !old.Partial && !l.Partial && l.Last == old.Last && l.Prefix(&old.Ledger)
}

func (num *numbering) lead(o *LeadOptions) error {
	l := &num.mutable().counters.Ledger
	if !l.Shared {
		return fmt.Errorf("%w: %s", ErrNotShared, num.st.info.Title)
	}
	if num.numbers {
		return nil
	}
	var err error
	switch h := o.HandOver; {
	case h != nil:
		if !caughtUp(l, h) {
			return fmt.Errorf("%w: %s is at %x, old home ended at %x", ErrBehind, num.st.info.Title, uint64(l.Last),
				uint64(h.Last))
		}
		num.st.counters.LastUIDValidity = max(num.st.counters.LastUIDValidity, h.LastUIDValidity)
		err = l.HandOver(&h.Ledger)
	case l.Last.Home() != l.Slot || l.Away || l.Partial || l.Restored:
		err = l.TakeOver()
	}
	num.leads(true)
	if errors.Is(err, note.ErrExhausted) {
		err = num.renew()
	}
	if err != nil {
		return err
	}
	num.st.recent = recent{floor: l.Last}
	if i := *num.st.info; i.Mod == 0 {
		i.Mod = l.NextMod()
		num.describe(&i)
	}
	return nil
}

// numberSome numbers some of the unnumbered notes that changed after a sequence: only live folders, or everything.
func (num *numbering) numberSome(after uint64, folders bool) (last uint64, more bool, err error) {
	if err := num.Home(); err != nil {
		return 0, false, err
	}
	ids, last, err := num.unnumbered(after, numberStep)
	for _, id := range ids {
		n, nerr := num.note(id)
		if nerr == nil && (!folders || n.Class == note.Folder && !n.Stub) {
			_, nerr = num.change(id)
		}
		if nerr != nil {
			return 0, false, nerr
		}
	}
	return last, len(ids) == numberStep, err
}

// Follow stops assigning numbers. When it returns, everything that was numbered is durable, and so is the decision not
// to continue the term. The replica's Position can then be handed over to another replica's Lead.
func (s *Store) Follow(ctx context.Context, id note.DatabaseID) error {
	return s.Replicate(ctx, id, func(w *Writer) error {
		if l := &w.st.counters.Ledger; !l.Shared {
			return fmt.Errorf("%w: %s", ErrNotShared, w.st.info.Title)
		} else if w.numbers || l.Last.Home() == l.Slot && !l.Away {
			w.mutable().counters.Ledger.Away = true
			w.leads(false)
		}
		return nil
	})
}

// StepDown voids the numbers that this replica assigned, or received from a home that did not survive, after the point
// where its history and the winner's diverge. The notes concerned become unnumbered and go to the winner like any other
// change. From that point on the winner's pages dictate. A replica that is only behind the winner stops assigning
// numbers and keeps everything.
func (s *Store) StepDown(ctx context.Context, id note.DatabaseID, winner Position) error {
	for more := true; more; {
		err := s.Replicate(ctx, id, func(w *Writer) (err error) {
			more, err = w.stepDown(&winner)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// voidFolder resets a folder's head to the end of the common history.
func (w *Writer) voidFolder(f *layout.Folder, common note.ModSeq, uid uint32) error {
	h, err := w.head(f.Note)
	if err != nil {
		return err
	}
	t, err := w.change(f.Note)
	if err != nil {
		return err
	}
	// What the loser changed on the folder itself is void too: the winner sends it again.
	h.Mod, h.Told = min(h.Mod, common), min(h.Told, uid+1)
	t.given, t.row.Unnumbered, t.row.Mod = true, true, 0
	return nil
}

func (w *Writer) stepDown(winner *Position) (more bool, err error) {
	l := &w.mutable().counters.Ledger
	if !l.Shared {
		return false, fmt.Errorf("%w: %s", ErrNotShared, w.st.info.Title)
	}
	w.leads(false)
	if how, _ := winner.Resume(l); how != note.Parted {
		if how == note.IsAhead {
			return false, fmt.Errorf("%w: the other replica knows less", ErrBehind)
		}
		l.Away = l.Away || l.Last.Home() == l.Slot
		return false, nil
	}
	if !winner.Beats(l) {
		return false, fmt.Errorf("%w: and the other line does not survive", ErrParted)
	}
	common, uid := l.Parted(&winner.Ledger)
	if winner.Epoch != l.Epoch {
		uid = 0
	}
	if more, err = w.void(common, uid); err != nil || more {
		return more, err
	}
	if err := w.Peers.metBefore(common, uid); err != nil {
		return false, err
	}
	l.StepDown(&winner.Ledger)
	c := &w.st.counters
	c.LastUIDValidity = max(c.LastUIDValidity, winner.LastUIDValidity)
	c.Floor = min(c.Floor, common)
	for _, f := range slices.Clone(w.st.folders) {
		if f.Mod <= common && f.UIDNext <= uid+1 {
			continue
		}
		if err := w.voidFolder(f, common, uid); err != nil {
			return false, err
		}
	}
	if i := *w.st.info; i.Mod > common {
		i.Mod = 0
		w.describe(&i)
	}
	return false, nil
}

// void removes some of the numbers that were assigned after a MODSEQ and a UID. more means that there are more. Each
// note gets back the memberships that it had on the common history, also those that it has lost since: the next home
// tells clients that they ended.
func (num *numbering) void(behind note.ModSeq, uid uint32) (more bool, err error) {
	n := 0
	counters := &num.mutable().counters
	lo := layout.IDKey(num.db.num, layout.KindModSeq, uint64(behind)+1)
	type one struct {
		mod note.ModSeq
		c   layout.Change
	}
	var list []one
	err = scanRange(num.eng, lo, layout.After(layout.Prefix(num.db.num, layout.KindModSeq)), func(k, v []byte) error {
		c, err := layout.ReadChange(v)
		if err != nil {
			return fmt.Errorf("%w: change in database %s", ErrDamaged, num.db.id)
		}
		list = append(list, one{note.ModSeq(layout.Tail64(k)), c})
		if n++; n >= numberStep {
			more = true
			return errStop
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, x := range list {
		if x.c.Expunged {
			num.trimmed = append(num.trimmed, x.mod)
			counters.Expunged--
		}
		t, err := num.change(x.c.Note)
		if errors.Is(err, ErrNotFound) {
			continue // nothing is left of it, not even a deletion stub
		}
		if err != nil {
			return false, err
		}
		t.given, t.row.Unnumbered, t.row.Mod = true, true, 0
		if t.row.Created > behind {
			t.row.Created = 0
		}
		t.row.Members = slices.DeleteFunc(slices.Clone(t.row.Members),
			func(m layout.Membership) bool { return m.UID > uid })
		if x.c.UID != 0 && x.c.UID <= uid && num.st.folder(x.c.Folder) != nil {
			// The row of an expunge does not hold the membership's save date. The time of the expunge is not before it,
			// so nothing is old too early. If the membership goes on, the winner's page brings the date.
			t.row.Members = append(t.row.Members, layout.Membership{Folder: x.c.Folder, UID: x.c.UID, Saved: x.c.Time})
		}
	}
	return more, nil
}

// Heal is called on the surviving replica when another replica's history has not survived, before or after that replica
// steps down. Memberships that were numbered here since the histories diverged get new UIDs, unless their UIDs are
// above all that the loser may have shown. Otherwise clients of the loser would skip them. loser is the loser's
// position after Follow, before StepDown. A repeated call changes nothing, unless the loser was a home beside this one:
// then what was numbered since the first call gets new UIDs, too.
func (s *Store) Heal(ctx context.Context, id note.DatabaseID, loser Position) error {
	h := healing{loser: &loser}
	for more := true; more; {
		err := s.Replicate(ctx, id, func(w *Writer) (err error) {
			more, err = h.some(w)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// healing is the state of a Heal: memberships numbered after MODSEQ behind, with UIDs above known and up to shown, get
// new UIDs.
type healing struct {
	loser        *Position
	begun, done  bool
	known, shown uint32
	behind       note.ModSeq
	after        note.ModSeq
}

// some handles some of the notes that changed since the histories diverged.
func (h *healing) some(w *Writer) (more bool, err error) {
	if err := w.Home(); err != nil {
		return false, err
	}
	c := &w.mutable().counters
	l := &c.Ledger
	if !h.begun {
		c.LastUIDValidity = max(c.LastUIDValidity, h.loser.LastUIDValidity)
		var ok bool
		if h.behind, h.known, h.shown, ok = l.ToHeal(&h.loser.Ledger); !ok || !l.Shared {
			return false, nil
		}
		if l.UID < h.shown {
			l.UID, l.Skip = h.shown, true
		}
		if err := w.raiseNext(h.shown + 1); err != nil {
			return false, err
		}
		h.begun, h.after = true, h.behind
	}
	if h.done {
		l.NextMod() // so that followers hear of the repair even if no membership changed
		l.Heal(h.behind, h.known, h.shown)
		return false, nil
	}
	more, err = h.replace(w)
	h.done = !more
	return true, err
}

// raiseNext raises the UIDNEXT of every folder to at least next, the highest UIDNEXT that a lost home may have shown.
func (fh *folderHeads) raiseNext(next uint32) error {
	for _, f := range slices.Clone(fh.st.folders) {
		if f.UIDNext >= next {
			continue
		}
		h, err := fh.head(f.Note)
		if err != nil {
			return err
		}
		t, err := fh.change(f.Note)
		if err != nil {
			return err
		}
		h.UIDNext, t.again = next, true // the others learn of it with the folder
	}
	return nil
}

// replace assigns new UIDs to memberships whose UID is above known and at most shown, for some of the notes that
// changed after h.after.
func (h *healing) replace(w *Writer) (more bool, err error) {
	var ids []note.ID
	n := 0
	old := func(m layout.Membership) bool { return m.UID > h.known && m.UID <= h.shown }
	lo := layout.IDKey(w.db.num, layout.KindModSeq, uint64(h.after)+1)
	hi := layout.IDKey(w.db.num, layout.KindModSeq, uint64(w.db.cur.Load().counters.Ledger.Last)+1)
	err = scanRange(w.eng, lo, hi, func(k, v []byte) error {
		c, err := layout.ReadChange(v)
		if err != nil {
			return fmt.Errorf("%w: change in database %s", ErrDamaged, w.db.id)
		}
		if h.after = note.ModSeq(layout.Tail64(k)); !c.Expunged {
			ids = append(ids, c.Note)
		}
		if n++; n >= numberStep {
			more = true
			return errStop
		}
		return nil
	})
	for _, id := range ids {
		row, nerr := w.note(id)
		if nerr != nil {
			return false, nerr
		}
		if !slices.ContainsFunc(row.Members, old) {
			continue
		}
		t, cerr := w.change(id)
		if cerr != nil {
			return false, cerr
		}
		for i := range t.row.Members {
			if m := &t.row.Members[i]; old(*m) {
				if m.UID, cerr = w.uid(); cerr != nil {
					return false, cerr
				}
			}
		}
	}
	return more, err
}
