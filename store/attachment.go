package store

import (
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// settleKey finds the key of the database, and brings the attachments that the update adds into its form.
func (se *settlement) settleKey() (err error) {
	if se.key, err = se.s.writeKey(se.st.info); err != nil && len(se.order) > 0 {
		return err
	}
	for _, o := range se.objects {
		m, err := o.form(se.key)
		if err != nil {
			return err
		}
		se.kept = append(se.kept, m)
	}
	return nil
}

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
	t.named = se.key.naming(t.named, &t.content.Content)
	conflicts := t.content.Tree.Conflicts()
	for _, n := range conflicts {
		// Leaves that the update did not change are stored. A damaged one keeps its references.
		if c, err := se.Leaf(t.id, n.Rev); err == nil {
			t.named = se.key.naming(t.named, c)
			se.rewriteLeaf(t, n.Rev, c)
		}
	}
	t.row.Attached = len(t.named) > 0 || len(conflicts) > 0
	return se.present(t)
}

// rewriteLeaf makes the update write the row of a leaf that it did not change, in a database that has a key of its own,
// because the row may name objects as they were stored before.
func (se *settlement) rewriteLeaf(t *txNote, rev note.Revision, c *note.Content) {
	if _, ok := t.leaves[rev]; ok || se.s.keys.of(se.db.id) == nil {
		return
	}
	if t.leaves == nil {
		t.leaves = make(map[note.Revision]*note.Content)
	}
	t.leaves[rev] = c
}

// namedBefore finds the objects that the note's revisions referenced before the update.
func (se *settlement) namedBefore(t *txNote) error {
	if err := se.loadBefore(t); err != nil {
		return err
	}
	names, err := se.namesIn(layout.NoteKey(se.db.num, layout.KindContent, t.id), &t.before.Content)
	if err != nil {
		return err
	}
	for _, n := range t.before.Tree.Conflicts() {
		t.hadLeaves = true
		c, err := se.storedLeaf(t.id, n.Rev)
		if err != nil {
			return err
		}
		more, err := se.namesIn(layout.LeafKey(se.db.num, t.id, n.Rev), c)
		if err != nil {
			return err
		}
		names = append(names, more...)
	}
	for _, d := range names {
		if t.wasNamed == nil {
			t.wasNamed = make(map[note.Digest]bool)
		}
		t.wasNamed[d] = true
	}
	return nil
}

// namesIn returns the names of the objects that a stored content references, as its row has them.
func (sn *snapshot) namesIn(key []byte, c *note.Content) ([]note.Digest, error) {
	k := sn.s.keys.of(sn.db.id)
	if k != nil && len(c.Attachments) > 0 {
		v, err := getValue(sn.eng, key)
		if err != nil {
			return nil, err
		}
		if !layout.IsSealed(v) {
			k = nil
		}
	}
	return k.namesIn(c), nil
}

// present returns an error if a note newly references an object that is neither stored nor added by the update: a
// reference must always lead to an object. Objects that are stored already are pinned by the caller (Attach, Keep), or
// by the note in this update's databases that they are copied from.
func (se *settlement) present(t *txNote) error {
	for name, d := range t.named {
		if t.wasNamed[name] || slices.ContainsFunc(se.objects, func(o *Object) bool { return o.Digest == d }) {
			continue
		}
		_, err := se.s.locate(se.eng, name)
		if errors.Is(err, ErrNotFound) {
			err = se.bring(d)
		}
		if err != nil {
			return fmt.Errorf("attachment %s: %w", d, err)
		}
	}
	return nil
}

// bring adds an object that is stored for a database with another key. The update then has it, so that it is pinned
// until the update ends.
func (se *settlement) bring(d note.Digest) error {
	loc, k, err := se.s.anyForm(d)
	if err != nil {
		return err
	}
	m := &Message{s: se.s.objects, key: k, objects: []pinned{{name: k.name(d), loc: loc}}}
	o := &Object{Digest: d, Size: uint64(loc.Size), m: m}
	f, err := o.form(se.key)
	if err == nil {
		se.kept, se.brought = append(se.kept, f), append(se.brought, f)
	}
	return err
}

// release unpins what the update brought.
func (se *settlement) release() {
	for _, f := range se.brought {
		f.Release()
	}
	se.brought = nil
}

// naming adds the objects that a content references to m, by their names.
func (k *sealKey) naming(m map[note.Digest]note.Digest, c *note.Content) map[note.Digest]note.Digest {
	for _, a := range c.Attachments {
		if m == nil {
			m = make(map[note.Digest]note.Digest)
		}
		m[k.name(a.Digest)] = a.Digest
	}
	return m
}

// dropReferences removes every reference that a note holds, when its whole database is removed.
func dropReferences(r pebble.Reader, b *pebble.Batch, db uint32, id note.ID, n *layout.Note) error {
	if n.Recipe != 0 {
		del(b, layout.RecipeRefKey(n.Recipe, db, id))
		set(b, layout.SweepRecipe(n.Recipe), nil)
	}
	drop := func(v []byte, read func([]byte) (*note.Content, error)) {
		names := []note.Digest(nil)
		if s, err := layout.ReadSealed(v); err == nil {
			names = s.Names
		} else if c, err := read(v); err == nil {
			names = (*sealKey)(nil).namesIn(c)
		}
		for _, d := range names {
			del(b, layout.ObjectByNote(d, db, id))
			set(b, layout.SweepObject(d), nil)
		}
	}
	v, err := getValue(r, layout.NoteKey(db, layout.KindContent, id))
	if err != nil {
		return nil
	}
	drop(v, func(v []byte) (*note.Content, error) {
		c, err := layout.ReadContentRow(v)
		if err != nil {
			return nil, err
		}
		return &c.Content, nil
	})
	return scan(r, layout.NoteKey(db, layout.KindLeaf, id), func(_, v []byte) error {
		drop(v, func(v []byte) (*note.Content, error) {
			c, _, err := note.ReadContent(v)
			return &c, err
		})
		return nil
	})
}
