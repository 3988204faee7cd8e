package store

import (
	"cmp"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// maxRecent bounds the changes that a state carries. They are the ones that a session reads next after it made a change
// or was woken by one.
const maxRecent = 8

// recent holds the latest changes of a database in memory, so that a session that made a change, or was told of one,
// finds it without asking the engine. It is part of the state, and immutable like it.
//
// Invariant: changes holds, in order, exactly the rows of the index by MODSEQ above floor. The row of a live note is
// the one that the engine holds.
type recent struct {
	floor   note.ModSeq
	changes []recentChange
}

type recentChange struct {
	mod note.ModSeq
	layout.Change
	row *layout.Note // of a live note; nil for an expunge
}

// row returns a note's row if its latest change is recent.
func (c *recent) row(id note.ID) *layout.Note {
	for i := range c.changes {
		if x := &c.changes[i]; x.row != nil && x.Note == id {
			return x.row
		}
	}
	return nil
}

// since returns the changes after a MODSEQ. ok is false if changes older than the kept ones are among them.
func (c *recent) since(mod note.ModSeq) (list []recentChange, ok bool) {
	if mod < c.floor {
		return nil, false
	}
	i, found := slices.BinarySearchFunc(c.changes, mod, func(x recentChange,
		m note.ModSeq) int {
		return cmp.Compare(x.mod, m)
	})
	if found {
		i++
	}
	return c.changes[i:], true
}

// noRecent is a floor above every MODSEQ. It is used while rows above the last MODSEQ may exist: on a replica that has
// received only a part of a run of its home's pages.
const noRecent = note.ModSeq(1) << 62

// forgotten returns the recent changes of a state that was not made by assigning numbers here: none.
func forgotten(l *note.Ledger) recent {
	if l.Partial {
		return recent{floor: noRecent}
	}
	return recent{floor: l.Last}
}

// remember sets the recent changes of the state that the update publishes.
func (se *settlement) remember() {
	if !se.numbers {
		se.st.recent = forgotten(&se.st.counters.Ledger)
		return
	}
	old := se.st.recent
	if se.renewed {
		old = recent{} // no row of the old numbers is left, and this update wrote all of the new ones
	}
	all := make([]recentChange, 0, len(old.changes)+min(len(se.order), maxRecent)+len(se.gone))
	for _, x := range old.changes {
		if x.row == nil && !slices.Contains(se.trimmed, x.mod) || x.row != nil && !slices.Contains(se.order, x.Note) {
			all = append(all, x)
		}
	}
	floor := old.floor
	for _, id := range se.order {
		if t := se.dirty[id]; t.row != nil && t.row.Listed() {
			all = append(all, recentChange{t.row.Mod, layout.Change{Note: id}, t.row})
		}
	}
	for i := range se.gone {
		all = append(all, recentChange{se.goneMods[i], se.gone[i], nil})
	}
	slices.SortFunc(all, func(a, b recentChange) int { return cmp.Compare(a.mod, b.mod) })
	if drop := len(all) - maxRecent; drop > 0 {
		floor = all[drop-1].mod
		all = slices.Clone(all[drop:])
	}
	se.st.recent = recent{floor, all}
}
