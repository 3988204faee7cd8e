package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// TakeOver begins a new term of the ledger without a hand-over: no number that another home may have shown is assigned
// again. When no terms are left, the whole numbering starts again. A shared database is taken over by Lead.
func (num *numbering) TakeOver() error {
	if !num.who.System {
		return ErrDenied
	}
	if err := num.Home(); err != nil {
		return err
	}
	return num.takeOver()
}

func (num *numbering) takeOver() error {
	if l := &num.mutable().counters.Ledger; l.Shared && !num.numbers {
		// After a restore the other replicas may know more. This replica follows until Lead is called, and then leads
		// in a new term.
		l.Away, l.Restored = true, true
		return nil
	}
	err := num.mutable().counters.Ledger.TakeOver()
	if errors.Is(err, note.ErrExhausted) {
		return num.renew()
	}
	return err
}

// renew restarts the MODSEQs and UIDs of the database, with a new UIDVALIDITY for every folder, so clients discard what
// they have cached. Every note gets a new number, and the recorded expunges are removed. This happens once in 65,536
// takeovers, and is one update over the whole database.
func (num *numbering) renew() error {
	c := &num.mutable().counters
	old := c.Ledger
	c.Ledger = note.Ledger{Slot: old.Slot, Shared: old.Shared, Last: note.FirstMod(old.Slot), Epoch: old.Epoch}
	c.Floor, c.Expunged = 0, 0
	num.renewed = true
	var ids []note.ID
	err := scan(num.eng, layout.Prefix(num.db.num, layout.KindNote), func(k, v []byte) error {
		n, err := layout.ReadNote(v)
		if err != nil {
			return fmt.Errorf("%w: note %d of database %s", ErrDamaged, layout.Tail64(k), num.db.id)
		}
		if !n.Stub {
			ids = append(ids, note.ID(layout.Tail64(k)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		t, err := num.change(id)
		if errors.Is(err, ErrNotFound) {
			continue // destroyed by this update
		}
		if err != nil {
			return err
		}
		t.renewed = true
	}
	for _, f := range slices.Clone(num.st.folders) {
		h, err := num.head(f.Note)
		if err != nil {
			return err
		}
		h.Mod = c.Ledger.Last
	}
	return num.renumber()
}

// takeOverAll begins a new term in every database, whatever its state. It skips databases that cannot be opened: their
// repair assigns new numbers.
func (s *Store) takeOverAll() error {
	infos, err := s.Databases()
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.Number == 0 {
			continue
		}
		tx := &Tx{s: s, who: &note.System, anyState: true}
		err := s.update(context.Background(), tx, []note.DatabaseID{info.ID}, func(tx *Tx) error {
			w, err := tx.Database(info.ID)
			if err != nil {
				return err
			}
			return w.takeOver()
		})
		if err != nil {
			return fmt.Errorf("store: take over database %s: %w", info.ID, err)
		}
	}
	return nil
}

// clearMods removes all MODSEQ rows before those of a new numbering are written, because old and new numbers may be
// equal.
func (se *settlement) clearMods(b *pebble.Batch) {
	prefix := layout.Prefix(se.db.num, layout.KindModSeq)
	_ = b.DeleteRange(prefix, layout.After(prefix), nil)
}
