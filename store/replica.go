package store

import (
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// Remote is a note as sent by another replica. It holds everything that converges, and nothing local.
type Remote struct {
	UNID  note.UNID
	Class note.Class
	Tree  note.Tree
	// Contents holds the content of every live leaf. It is nil if the target must have the content (Bare).
	Contents map[note.Revision]*note.Content
	// Message is the recipe of the stored message, as Receive takes it, and Size the message's size in bytes. Message
	// is nil for a note without a message, and if Contents is nil.
	Message []byte
	Size    uint64
	// Void means that the sender's numbers of the note are void. The home numbers it again even if the note is
	// unchanged there.
	Void     bool
	Summary  []byte
	State    note.State
	Date     int64
	Thread   note.UNID
	Author   note.UNID
	Foldered bool
}

// Bare reports whether the content was left out, for a target that must have it.
func (in *Remote) Bare() bool {
	win, ok := in.Tree.Winner()
	return ok && !win.Deleted && in.Contents == nil
}

// Remote returns a note or deletion stub, with its content, for another replica.
func (r *Reader) Remote(id note.ID) (*Remote, error) {
	if !r.who.System {
		return nil, ErrDenied
	}
	n, err := r.note(id)
	if err != nil {
		return nil, err
	}
	return r.remote(id, n, false)
}

// remote returns a note for another replica. With bare, it leaves out the content of a note that was never revised,
// except for folders, whose heads are built from the content.
func (r *rows) remote(id note.ID, n *layout.Note, bare bool) (*Remote, error) {
	c, err := r.content(id)
	if err != nil {
		return nil, err
	}
	out := &Remote{
		UNID: n.UNID, Class: n.Class, Tree: c.Tree, State: n.State, Date: n.Date, Thread: n.Thread, Author: n.Author,
		Foldered: n.Foldered, Size: n.Size, Void: n.Unnumbered && n.Mod == 0 && n.Created != 0,
	}
	if bare && len(c.Tree) == 1 && n.Class != note.Folder && !n.Stub {
		return out, nil
	}
	out.Contents, out.Summary = map[note.Revision]*note.Content{}, c.Summary
	win, ok := c.Tree.Winner()
	if !ok || win.Deleted {
		return out, nil
	}
	out.Contents[win.Rev] = &c.Content
	for _, l := range c.Tree.Conflicts() {
		if out.Contents[l.Rev], err = r.Leaf(id, l.Rev); err != nil {
			return nil, err
		}
	}
	if out.Message, err = r.recipeRow(n); err != nil {
		return nil, err
	}
	return out, nil
}

// recipeRow returns the recipe of the note's message, or nil if it has none.
func (r *rows) recipeRow(n *layout.Note) ([]byte, error) {
	if row, _ := r.messageUnderWay(n); row != nil || n.Recipe == 0 {
		return row, nil
	}
	row, _, err := r.s.storedRecipe(r.eng, n.Recipe)
	return row, err
}

// Apply merges a note from another replica with the local one: the union of the histories, and the greater stamp of
// each state item. It is idempotent and commutative. The home, and a database that is not shared, then number the note;
// other replicas leave that to the home. m is the note's message as Receive returned it, or nil for a note without one
// and for a bare note.
//
// plausible reports whether every stamp was plausible. A stamp more than 60 s ahead is kept but does not advance the
// local clock. ErrGrave means that a grave refuses the note or, at the home of a shared database, that the note stays
// deleted. The sender must then call Bury for it. A bare note that does not exist here causes ErrIncomplete.
func (w *Writer) Apply(in *Remote, m *Message) (plausible bool, err error) {
	if !w.who.System {
		return false, ErrDenied
	}
	ar := &arrival{w, in, m}
	plausible = ar.seeStamps()
	id, err := w.findOwn(in.UNID)
	switch {
	case err == nil:
		var t *txNote
		if t, err = w.change(id); err == nil {
			err = ar.apply(t)
		}
	case errors.Is(err, ErrNotFound):
		_, err = ar.receive()
	}
	return plausible, err
}

// apply merges the note with the local one and numbers the result.
func (ar *arrival) apply(t *txNote) error {
	w, in := ar.w, ar.in
	changed, err := ar.merge(t)
	if err != nil {
		return err
	}
	leads := w.numbers && w.st.counters.Ledger.Shared
	if leads && t.row.Stub && !changed && !in.Void {
		return fmt.Errorf("%w: note %s", ErrGrave, in.UNID) // no page will mention it any more
	}
	if w.numbers || changed {
		t.row.Unnumbered = true // numbering finds out whether anything needs a number
	}
	t.again = t.again || w.numbers && in.Void
	if leads && changed && !t.row.Stub {
		_, err = w.mergeConflicts(t)
	}
	return err
}

// Bury ends a note's wait for its home, after the home has answered that the note was deleted for good. Bury deletes
// the note here only if it has no membership, and for a folder no head: their end comes with a page.
func (w *Writer) Bury(u note.UNID) error {
	if !w.who.System {
		return ErrDenied
	}
	if w.numbers {
		return fmt.Errorf("%w: it is the home", ErrDenied)
	}
	id, err := w.findOwn(u)
	if err != nil {
		return err
	}
	n, err := w.note(id)
	if err != nil || !n.Unnumbered || len(n.Members) > 0 || w.st.folder(id) != nil {
		return err
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	if !t.row.Stub {
		// It becomes a deletion stub, because another follower may send it once more, and a queue keeps no graves.
		if err := w.bury(id, t); err != nil {
			return err
		}
	}
	t.given, t.row.Unnumbered, t.row.Mod, t.row.Created = true, false, 0, 0
	return nil
}

// arrival is a note from another replica that is merged with the local one.
type arrival struct {
	w  *Writer
	in *Remote
	// m is the note's message as Receive returned it, or nil for a note without one and for a bare note.
	m *Message
}

// seeStamps moves the clock past the stamps of the note, and reports whether all were plausible.
func (ar *arrival) seeStamps() bool {
	plausible := true
	for _, it := range ar.in.State {
		plausible = ar.w.s.seeStamp(it.Stamp) && plausible
	}
	return plausible
}

// merge merges the note with the local one, and reports whether the local one changed.
func (ar *arrival) merge(t *txNote) (changed bool, err error) {
	in := ar.in
	cur, err := ar.w.load(t.id, t)
	if err != nil {
		return false, err
	}
	state := note.MergeState(t.row.State, in.State)
	changed = !slices.Equal(state, t.row.State) || in.Foldered && !t.row.Foldered
	t.row.State, t.row.Foldered = state, t.row.Foldered || in.Foldered
	if add := ar.added(cur.Tree); len(add) > 0 {
		changed = true
		if err := lacking(cur.Tree, in); err != nil {
			return false, err
		}
		ar.w.graft(t, cur, add)
	}
	was := t.row.Stub
	if err := ar.raise(t, cur); err != nil {
		return false, err
	}
	if ar.saves(t, was) {
		// A replica that assigns no numbers puts the note into a folder now. Otherwise the next home would take it for
		// one that was removed from all folders.
		if t.saved = true; !ar.w.numbers && t.row.Foldered {
			err = ar.w.rescue(t)
		}
	}
	return changed, err
}

// added returns the revisions that the local tree does not have.
func (ar *arrival) added(local note.Tree) (add []grown) {
	for _, n := range ar.in.Tree {
		if _, have := local.Node(n.Rev); !have {
			add = append(add, grown{node: n, content: ar.in.Contents[n.Rev], summary: ar.in.Summary})
		}
	}
	return add
}

// saves reports whether an edit has won over a deletion, on either side. wasStub is the local state before the merge.
func (ar *arrival) saves(t *txNote, wasStub bool) bool {
	win, ok := ar.in.Tree.Winner()
	return ok && !t.row.Stub && (wasStub || win.Deleted) && t.content != nil && edited(t.content.Tree)
}

// edited reports whether the winner is somebody's revision, and not one that only kept the content above a deletion.
func edited(t note.Tree) bool {
	win, _ := t.Winner()
	parent, ok := t.Node(win.Parent)
	return !ok || !parent.Deleted
}

// lacking returns an IncompleteError if a note brings a new live leaf without its content.
func lacking(have note.Tree, in *Remote) error {
	for _, l := range note.Union(have, in.Tree).Leaves() {
		if _, old := have.Node(l.Rev); !old && !l.Deleted && in.Contents[l.Rev] == nil {
			return &IncompleteError{[]note.UNID{in.UNID}}
		}
	}
	return nil
}

// receive creates the note, which does not exist here.
func (ar *arrival) receive() (*txNote, error) {
	in := ar.in
	win, ok := in.Tree.Winner()
	if !ok {
		return nil, note.ErrCorrupt
	}
	if err := lacking(nil, in); err != nil {
		return nil, err
	}
	if !win.Deleted {
		if err := ar.w.s.space.admit(); err != nil {
			return nil, err
		}
	}
	st := ar.w.mutable()
	id := st.counters.NextNote
	st.counters.NextNote++
	t := &txNote{id: id, row: &layout.Note{
		UNID: in.UNID, Class: in.Class, State: in.State, Date: in.Date, Thread: in.Thread, Author: in.Author,
		Foldered: in.Foldered, Stub: win.Deleted, Unnumbered: true,
	}}
	t.content = &layout.Content{Tree: in.Tree, Summary: in.Summary}
	if c := in.Contents[win.Rev]; c != nil && !win.Deleted {
		t.content.Content = *c
	}
	t.leaves = make(map[note.Revision]*note.Content)
	for _, l := range in.Tree.Conflicts() {
		t.leaves[l.Rev] = in.Contents[l.Rev]
	}
	ar.w.add(id, t)
	return t, ar.raise(t, nil)
}

// raise decides whether a note whose history changed is alive. A deletion stub names the memberships that it saw by
// their stamps. A note with a live membership that the stub did not name stays alive, with a revision above the stub
// that is the same on every replica. was is the content before the change.
func (ar *arrival) raise(t *txNote, was *layout.Content) error {
	c := t.content
	if c == nil {
		return nil
	}
	win, _ := c.Tree.Winner()
	if t.row.Stub = win.Deleted; !win.Deleted {
		return ar.revive(t, was)
	}
	// A replica that no longer has the content cannot restore the note. A replica that has it does.
	had := false
	if was != nil {
		before, ok := was.Tree.Winner()
		had = ok && !before.Deleted
	}
	alive := t.row.Foldered && slices.ContainsFunc(t.row.State, func(it note.StateItem) bool {
		return it.Kind == note.Member && it.Value != note.Off
	})
	if !alive || !had {
		t.content.Content, t.content.Summary = note.Content{}, nil
		if ar.w.numbers || len(t.row.Members) == 0 {
			t.row.Members = nil
			t.dropMessage()
		}
		// A replica that assigns no numbers keeps the memberships until the home has ended them. The next home tells
		// clients of them.
		return nil
	}
	kept := was.Content
	node := note.Node{Rev: note.NextRevision(win.Rev, t.row.Class, false, &kept), Parent: win.Rev,
		Changed: note.Changes(&note.Content{}, &kept)}
	ar.w.graft(t, c, []grown{{node: node, content: &kept, summary: was.Summary}})
	t.row.Stub = false
	return nil
}

// revive ensures that a live note has the message of its winner.
func (ar *arrival) revive(t *txNote, was *layout.Content) error {
	m := ar.m
	d := t.content.Content.Message
	have, err := ar.messageOf(t, was)
	if err != nil || have == d {
		return err
	}
	if d.IsZero() {
		t.dropMessage()
		return nil
	}
	if m == nil || m.Digest != d {
		return &IncompleteError{[]note.UNID{t.row.UNID}}
	}
	if m, err = ar.w.formOf(m); err == nil {
		t.message, t.row.Recipe, t.row.Size = m, m.recipe, m.Size
	}
	return err
}

// messageOf returns the digest of a note's message, or zero if it has none. was is its content.
func (ar *arrival) messageOf(t *txNote, was *layout.Content) (note.Digest, error) {
	if t.message != nil || t.row.Recipe == 0 {
		if t.message == nil {
			return note.Digest{}, nil
		}
		return t.message.Digest, nil
	}
	if was != nil && !was.Content.Message.IsZero() {
		return was.Content.Message, nil
	}
	// A deleted note keeps its message as long as it has memberships.
	v, _, err := ar.w.s.storedRecipe(ar.w.eng, t.row.Recipe)
	if err != nil || len(v) < len(note.Digest{}) {
		return note.Digest{}, fmt.Errorf("%w: recipe %d: %w", ErrDamaged, t.row.Recipe, err)
	}
	return note.Digest(v[:32]), nil
}

// MergeConflicts writes the result of note.MergeLeaves for a note with conflicts, and reports whether anything was
// merged. Only the database's home calls it.
func (w *Writer) MergeConflicts(id note.ID) (bool, error) {
	if !w.who.System {
		return false, ErrDenied
	}
	if err := w.Home(); err != nil {
		return false, err
	}
	t, err := w.change(id)
	if err != nil {
		return false, err
	}
	return w.mergeConflicts(t)
}

func (w *Writer) mergeConflicts(t *txNote) (bool, error) {
	cur, err := w.load(t.id, t)
	if err != nil || len(cur.Tree.Conflicts()) == 0 {
		return false, err
	}
	r, err := w.remote(t.id, t.row, false)
	if err != nil {
		return false, err
	}
	merged := note.MergeLeaves(t.row.Class, cur.Tree, r.Contents)
	if len(merged) == 0 {
		return false, nil
	}
	var add []grown
	for i := range merged {
		g := grown{node: merged[i].Node}
		if !g.node.Deleted {
			g.content = &merged[i].Content
		}
		add = append(add, g)
	}
	w.graft(t, cur, add)
	return true, nil
}

// Prune shortens a note's history to the last keep revisions of every branch. It does nothing while a known replica has
// not passed the note's latest change.
func (w *Writer) Prune(id note.ID, keep int) error {
	if !w.who.System {
		return ErrDenied
	}
	n, err := w.note(id)
	if err != nil {
		return err
	}
	for _, p := range w.st.peers {
		if p.Passed < n.Seq {
			return nil
		}
	}
	if n.Unnumbered || len(w.st.peers) == 0 && w.st.counters.Ledger.Shared {
		return nil // another replica has yet to receive it
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	cur, err := w.load(id, t)
	if err != nil {
		return err
	}
	next := *cur
	next.Tree = cur.Tree.Prune(keep)
	if len(next.Tree) != len(cur.Tree) {
		t.content = &next
	}
	return nil
}
