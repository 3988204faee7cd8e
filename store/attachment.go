package store

import (
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// settleNamed finds the objects that a note's stored revisions reference before and after the update: the attachments
// of the winner and of every conflict.
func (se *settlement) settleNamed(t *txNote) error {
	if t.content == nil && t.row != nil {
		return nil
	}
	if t.orig != nil && t.orig.Attached {
		if err := se.namedBefore(t); err != nil {
			return err
		}
	}
	if t.row == nil || t.row.Stub {
		return nil
	}
	t.named = naming(t.named, &t.content.Content)
	conflicts := t.content.Tree.Conflicts()
	for _, n := range conflicts {
		// Leaves that the update did not change are stored. A damaged one keeps its references.
		if c, err := se.Leaf(t.id, n.Rev); err == nil {
			t.named = naming(t.named, c)
		}
	}
	t.row.Attached = len(t.named) > 0 || len(conflicts) > 0
	return se.present(t)
}

// namedBefore finds the objects that the note's revisions referenced before the update.
func (se *settlement) namedBefore(t *txNote) error {
	if err := se.loadBefore(t); err != nil {
		return err
	}
	t.wasNamed = naming(t.wasNamed, &t.before.Content)
	for _, n := range t.before.Tree.Conflicts() {
		t.hadLeaves = true
		v, err := getValue(se.eng, layout.LeafKey(se.db.num, t.id, n.Rev))
		if err != nil {
			return err
		}
		c, _, err := note.ReadContent(v)
		if err != nil {
			return err
		}
		t.wasNamed = naming(t.wasNamed, &c)
	}
	return nil
}

// present returns an error if a note newly references an object that is neither stored nor added by the update: a
// reference must always lead to an object. Objects that are stored already are pinned by the caller (Attach, Keep), or
// by the note in this update's databases that they are copied from.
func (se *settlement) present(t *txNote) error {
	for d := range t.named {
		if t.wasNamed[d] || slices.ContainsFunc(se.objects, func(o *Object) bool { return o.Digest == d }) {
			continue
		}
		if _, err := se.s.locate(se.eng, d); err != nil {
			return fmt.Errorf("attachment %s: %w", d, err)
		}
	}
	return nil
}

func naming(m map[note.Digest]bool, c *note.Content) map[note.Digest]bool {
	for _, a := range c.Attachments {
		if m == nil {
			m = make(map[note.Digest]bool)
		}
		m[a.Digest] = true
	}
	return m
}

// dropReferences removes every reference that a note holds, when its whole database is removed.
func dropReferences(r pebble.Reader, b *pebble.Batch, db uint32, id note.ID, n *layout.Note) error {
	if n.Recipe != 0 {
		del(b, layout.RecipeRefKey(n.Recipe, db, id))
		set(b, layout.SweepRecipe(n.Recipe), nil)
	}
	drop := func(c *note.Content) {
		for _, a := range c.Attachments {
			del(b, layout.ObjectByNote(a.Digest, db, id))
			set(b, layout.SweepObject(a.Digest), nil)
		}
	}
	v, err := getValue(r, layout.NoteKey(db, layout.KindContent, id))
	if err != nil {
		return nil
	}
	if c, err := layout.ReadContentRow(v); err == nil {
		drop(&c.Content)
	}
	return scan(r, layout.NoteKey(db, layout.KindLeaf, id), func(_, v []byte) error {
		if c, _, err := note.ReadContent(v); err == nil {
			drop(&c)
		}
		return nil
	})
}
