package store

import "doublet/note"

// Resolve deletes the leaves of a note that lost a conflict, after the caller has written above the winner what it
// keeps of them. Only the server itself may call it. Every replica deletes the same revisions.
func (w *Writer) Resolve(id note.ID) error {
	if !w.who.System {
		return ErrDenied
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	cur, err := w.load(id, t)
	if err != nil {
		return err
	}
	var add []grown
	empty := note.Content{}
	for _, leaf := range cur.Tree.Conflicts() {
		rev := note.NextRevision(leaf.Rev, t.row.Class, true, &empty)
		add = append(add, grown{node: note.Node{Rev: rev, Parent: leaf.Rev, Deleted: true}})
	}
	if len(add) > 0 {
		w.graft(t, cur, add)
	}
	return nil
}
