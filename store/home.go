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

// leaders are the shared databases that this store numbers now. It is not durable: after a start every
// one follows until it is told to lead.
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

// leads lets the replica number, or not, from when the update is applied.
func (w *Writer) leads(on bool) {
	w.mutable()
	w.numbers, w.leading = on, &on
}

// Leads says whether this replica numbers now: a shared one after Lead; one that is not shared always.
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

// Replicate is Update of one database for what came from another replica, or concerns replicas: nobody waits
// for a mate's confirmation of it.
func (s *Store) Replicate(ctx context.Context, id note.DatabaseID, fn func(*Writer) error) error {
	tx := &Tx{s: s, who: &note.System, unconfirmed: true}
	return s.update(ctx, tx, []note.DatabaseID{id}, func(tx *Tx) error { return fn(tx.writers[0]) })
}

// Share makes a database one that has replicas, with this slot. The replica that was alone is its home
// and leads. Sharing again with the same slot changes nothing.
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
		w.st.info, w.infoChanged = &info, true
		return nil
	})
}

// highestValidity is the highest UIDVALIDITY that any folder has shown.
func (r *Reader) highestValidity() (high uint32, err error) {
	err = scan(r.eng, layout.Prefix(r.db.num, layout.KindName), func(_, v []byte) error {
		if len(v) == 4 {
			high = max(high, layout.Tail32(v))
		}
		return nil
	})
	return high, err
}

// CreateReplica makes an empty replica of a database that another store has, with a slot that its home
// has given: of is what the database is there. It follows; pages of the ledger fill it.
func (cat *catalog) CreateReplica(who note.Who, of layout.Info, slot uint8) error {
	switch {
	case !who.System:
		return ErrDenied
	case slot >= note.Slots:
		return fmt.Errorf("store: no slot %d: a database has at most %d replicas with one", slot, note.Slots)
	case of.ID == 0 || of.Mod == 0:
		return fmt.Errorf("%w: %s", ErrNotShared, of.Title)
	}
	info := of
	info.State, info.Reason = layout.InService, ""
	// Away: whoever had the slot before has numbered under it.
	return cat.create(creation{info: &info, ledger: note.Ledger{Shared: true, Slot: slot, Away: true}})
}

// ApplyInfo takes what the database is from another replica, if that was written later than ours.
func (w *Writer) ApplyInfo(in *layout.Info) error {
	if !w.who.System {
		return ErrDenied
	}
	plausible := w.s.seeStamp(in.Stamp)
	have := w.st.info
	info := *have
	switch later := have.Stamp.Less(in.Stamp); {
	case w.numbers && have.Stamp == in.Stamp && in.Mod == 0:
		info.Mod = w.mutable().counters.Ledger.NextMod() // whoever asks does not know that it is numbered
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
		w.s.log.Warn("what a database is was written by a clock that runs ahead", "database", w.db.id.String())
	}
	w.mutable().info, w.infoChanged = &info, true
	return nil
}

// Lead makes this replica the home: it goes on in its own term if nobody else can have numbered since,
// else it begins a new one. Then it numbers what nobody has numbered, and returns when that is done.
// Without HandOver nobody else may have all that the last home has shown; with it, the old home has
// ended with Follow, and ErrBehind is a replica that has not all of its ledger.
func (s *Store) Lead(ctx context.Context, id note.DatabaseID, o LeadOptions) error {
	if err := s.Replicate(ctx, id, func(w *Writer) error { return w.lead(&o) }); err != nil {
		return err
	}
	// Folders before the notes that are in them.
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

func (w *Writer) lead(o *LeadOptions) error {
	l := &w.mutable().counters.Ledger
	if !l.Shared {
		return fmt.Errorf("%w: %s", ErrNotShared, w.st.info.Title)
	}
	if w.numbers {
		return nil
	}
	var err error
	switch h := o.HandOver; {
	case h != nil:
		if !h.Away || h.Partial || l.Partial || l.Last != h.Last || !l.Prefix(&h.Ledger) {
			return fmt.Errorf("%w: %s stands at %x, the old home ended at %x", ErrBehind, w.st.info.Title, uint64(l.Last), uint64(h.Last))
		}
		w.st.counters.LastUIDValidity = max(w.st.counters.LastUIDValidity, h.LastUIDValidity)
		err = l.HandOver(&h.Ledger)
	case l.Last.Home() != l.Slot || l.Away || l.Partial || l.Restored:
		err = l.TakeOver()
	}
	w.leads(true)
	if errors.Is(err, note.ErrExhausted) {
		err = w.renew()
	}
	if err != nil {
		return err
	}
	w.st.recent = recent{floor: l.Last}
	if i := *w.st.info; i.Mod == 0 {
		i.Mod = l.NextMod()
		w.st.info, w.infoChanged = &i, true
	}
	return nil
}

// numberSome numbers some of the notes that are not numbered, those that changed behind a sequence:
// folders that live, or everything.
func (w *Writer) numberSome(after uint64, folders bool) (last uint64, more bool, err error) {
	if err := w.Home(); err != nil {
		return 0, false, err
	}
	ids, last, err := w.unnumbered(after, numberStep)
	for _, id := range ids {
		n, nerr := w.note(id)
		if nerr == nil && (!folders || n.Class == note.Folder && !n.Stub) {
			_, nerr = w.change(id)
		}
		if nerr != nil {
			return 0, false, nerr
		}
	}
	return last, len(ids) == numberStep, err
}

// Follow ends the numbering. When it returns everything that was numbered is durable, and so is that this
// replica does not go on in its term: its Position can be handed to another's Lead.
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

// StepDown gives up what this replica has numbered, or was told by a home that did not survive, behind
// the point where its line and the winner's part. Those notes are unnumbered then, and go to the
// winner like any other change; the winner's pages dictate from that point on. A replica that only is
// behind the winner stops numbering and keeps all.
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
	if err := w.metBefore(common, uid); err != nil {
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
		h, err := w.head(f.Note)
		if err != nil {
			return false, err
		}
		t, err := w.change(f.Note)
		if err != nil {
			return false, err
		}
		// What it said of itself was ours: the winner tells of it again.
		h.Mod, h.Told = min(h.Mod, common), min(h.Told, uid+1)
		t.given, t.row.Unnumbered, t.row.Mod = true, true, 0
	}
	if i := *w.st.info; i.Mod > common {
		i.Mod = 0
		w.st.info, w.infoChanged = &i, true
	}
	return false, nil
}

// void takes away the numbers that were given behind a MODSEQ and a UID, some of them; more says that there are
// more. A note then has the places that it had on the common line, those too that it has lost since: whoever
// becomes home tells clients of their end.
func (w *Writer) void(behind note.ModSeq, uid uint32) (more bool, err error) {
	n := 0
	counters := &w.mutable().counters
	lo := layout.IDKey(w.db.num, layout.KindModSeq, uint64(behind)+1)
	type one struct {
		mod note.ModSeq
		c   layout.Change
	}
	var list []one
	err = scanRange(w.eng, lo, layout.After(layout.Prefix(w.db.num, layout.KindModSeq)), func(k, v []byte) error {
		c, err := layout.ReadChange(v)
		if err != nil {
			return fmt.Errorf("%w: change in database %s", ErrDamaged, w.db.id)
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
			w.trimmed = append(w.trimmed, x.mod)
			counters.Expunged--
		}
		t, err := w.change(x.c.Note)
		if errors.Is(err, ErrNotFound) {
			continue // nothing is left of it, not even a stub
		}
		if err != nil {
			return false, err
		}
		t.given, t.row.Unnumbered, t.row.Mod = true, true, 0
		if t.row.Created > behind {
			t.row.Created = 0
		}
		t.row.Members = slices.DeleteFunc(slices.Clone(t.row.Members), func(m layout.Membership) bool { return m.UID > uid })
		if x.c.UID != 0 && x.c.UID <= uid && w.st.folder(x.c.Folder) != nil {
			t.row.Members = append(t.row.Members, layout.Membership{Folder: x.c.Folder, UID: x.c.UID, Saved: x.c.Time})
		}
	}
	return more, nil
}

// Heal is the survivor's part, when another replica's line has not survived, before or after it steps down:
// places that were given here since the lines parted, under UIDs that are not above all that the loser may
// have shown, get new ones, so that no client passes them over that was there. loser is its position after
// Follow, before StepDown. Doing it again changes nothing.
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

// healing is a Heal under way: behind which MODSEQ and UID places are put right, and up to which UID.
type healing struct {
	loser        *Position
	begun, done  bool
	known, shown uint32
	behind       note.ModSeq
	after        note.ModSeq
}

// some looks through some of the notes that changed since the lines parted.
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
		l.NextMod() // followers hear of it also where no place was put right
		l.Heal(h.behind, h.known, h.shown)
		return false, nil
	}
	more, err = h.replace(w)
	h.done = !more
	return true, err
}

// raiseNext lets no folder show a UIDNEXT below what a lost home may have shown.
func (w *Writer) raiseNext(next uint32) error {
	for _, f := range slices.Clone(w.st.folders) {
		if f.UIDNext >= next {
			continue
		}
		h, err := w.head(f.Note)
		if err != nil {
			return err
		}
		t, err := w.change(f.Note)
		if err != nil {
			return err
		}
		h.UIDNext, t.again = next, true // the others learn of it with the folder
	}
	return nil
}

// replace gives new UIDs to places whose UID lies behind known and not behind shown, of some of the notes that
// changed behind after.
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
