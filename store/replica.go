package store

import (
	"errors"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// Remote is a note as another replica has it: everything that converges, and nothing that is local.
type Remote struct {
	UNID  note.UNID
	Class note.Class
	Tree  note.Tree
	// Contents holds the content of every live leaf.
	Contents map[note.Revision]*note.Content
	Summary  []byte
	State    note.State
	Date     int64
	Thread   note.UNID
	Author   note.UNID
	Foldered bool
}

// Remote returns a note, stub or not, as another replica needs it.
func (r *Reader) Remote(id note.ID) (*Remote, error) {
	if !r.who.System {
		return nil, ErrDenied
	}
	n, err := r.note(id)
	if err != nil {
		return nil, err
	}
	c, err := r.content(id)
	if err != nil {
		return nil, err
	}
	out := &Remote{
		UNID: n.UNID, Class: n.Class, Tree: c.Tree, Contents: map[note.Revision]*note.Content{}, Summary: c.Summary,
		State: n.State, Date: n.Date, Thread: n.Thread, Author: n.Author, Foldered: n.Foldered,
	}
	if win, ok := c.Tree.Winner(); ok && !win.Deleted {
		out.Contents[win.Rev] = &c.Content
	}
	for _, l := range c.Tree.Conflicts() {
		if out.Contents[l.Rev], err = r.Leaf(id, l.Rev); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Apply joins a note from another replica with ours: the union of the histories, the greater stamp
// of each state item. It is idempotent and commutative. It says whether every stamp was plausible;
// one more than 60 s ahead is kept but does not advance our clock. A note that a grave refuses is
// ErrGrave.
//
// Notes with memberships of folders, and messages, need the ledger and the recipes of their home to
// come along; see doc/store.md.
func (w *Writer) Apply(in *Remote) (plausible bool, err error) {
	if !w.who.System {
		return false, ErrDenied
	}
	plausible = true
	for _, it := range in.State {
		plausible = w.s.seeStamp(it.Stamp) && plausible
	}
	id, err := w.findOwn(in.UNID)
	if errors.Is(err, ErrNotFound) {
		return plausible, w.receive(in)
	}
	if err != nil {
		return plausible, err
	}
	t, err := w.change(id)
	if err != nil {
		return plausible, err
	}
	cur, err := w.load(id, t)
	if err != nil {
		return plausible, err
	}
	t.row.State = note.MergeState(t.row.State, in.State)
	w.follow(t)
	var add []grown
	for _, n := range in.Tree {
		if _, have := cur.Tree.Node(n.Rev); !have {
			add = append(add, grown{node: n, content: in.Contents[n.Rev], summary: in.Summary})
		}
	}
	if len(add) > 0 {
		w.graft(t, cur, add)
	}
	w.raise(t)
	return plausible, nil
}

// receive makes a note that came from elsewhere.
func (w *Writer) receive(in *Remote) error {
	win, ok := in.Tree.Winner()
	if !ok {
		return note.ErrCorrupt
	}
	st := w.mutable()
	id := st.counters.NextNote
	st.counters.NextNote++
	t := &txNote{id: id, row: &layout.Note{
		UNID: in.UNID, Class: in.Class, State: in.State, Date: in.Date, Thread: in.Thread, Author: in.Author,
		Foldered: in.Foldered, Stub: win.Deleted,
	}}
	t.content = &layout.Content{Tree: in.Tree, Summary: in.Summary}
	if c := in.Contents[win.Rev]; c != nil && !win.Deleted {
		t.content.Content = *c
	}
	t.leaves = make(map[note.Revision]*note.Content)
	for _, l := range in.Tree.Conflicts() {
		t.leaves[l.Rev] = in.Contents[l.Rev]
	}
	w.add(id, t)
	w.raise(t)
	return nil
}

// raise decides whether a note whose history changed is alive. A stub names the memberships that it
// saw by their stamps; a note with a live membership that the stub did not name stays alive, under
// a revision above the stub that is the same anywhere.
func (w *Writer) raise(t *txNote) {
	c := t.content
	if c == nil {
		return
	}
	win, _ := c.Tree.Winner()
	t.row.Stub = win.Deleted
	if !win.Deleted {
		return
	}
	// One that had the content no more cannot bring it back: whoever has it does.
	had := false
	if t.before != nil {
		before, ok := t.before.Tree.Winner()
		had = ok && !before.Deleted
	}
	alive := t.row.Foldered && slices.ContainsFunc(t.row.State, func(it note.StateItem) bool {
		return it.Kind == note.Member && it.Value != note.Off
	})
	if !alive || !had {
		t.content.Content, t.content.Summary = note.Content{}, nil
		t.row.Members, t.row.Recipe, t.row.Size = nil, 0, 0
		return
	}
	kept := t.before.Content
	node := note.Node{Rev: note.NextRevision(win.Rev, t.row.Class, false, &kept), Parent: win.Rev, Changed: note.Changes(&note.Content{}, &kept)}
	w.graft(t, c, []grown{{node: node, content: &kept, summary: t.before.Summary}})
	t.row.Stub = false
}

// follow brings the memberships that have numbers in line with the state: those that ended
// elsewhere end here, and \Deleted is what the state says.
func (w *Writer) follow(t *txNote) {
	members := t.row.Members[:0:0]
	for _, m := range t.row.Members {
		if f := w.st.folder(m.Folder); f != nil {
			v, _ := t.row.State.Get(note.Member, string(f.UNID[:]))
			if v == note.Off {
				continue
			}
			m.Deleted = v == note.Deleted
		}
		members = append(members, m)
	}
	t.row.Members = members
}

// MergeConflicts writes what note.MergeLeaves decides for a note with conflicts. Only the database's
// home calls it. It says whether anything was merged.
func (w *Writer) MergeConflicts(id note.ID) (bool, error) {
	if !w.who.System {
		return false, ErrDenied
	}
	t, err := w.change(id)
	if err != nil {
		return false, err
	}
	cur, err := w.load(id, t)
	if err != nil {
		return false, err
	}
	r, err := w.Remote(id)
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

// Prune shortens a note's history to the last keep revisions of every branch. It refuses while a
// known replica has not passed the note's latest change.
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
