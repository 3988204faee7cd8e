package check

import (
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// readNotes walks note rows, content rows and leaf rows side by side. All three are sorted by note id.
func (d *database) readNotes() error {
	notes, err := d.walk(d.prefix(layout.KindNote))
	if err != nil {
		return err
	}
	defer notes.close()
	contents, err := d.walk(d.prefix(layout.KindContent))
	if err != nil {
		return err
	}
	defer contents.close()
	leaves, err := d.walk(d.prefix(layout.KindLeaf))
	if err != nil {
		return err
	}
	defer leaves.close()
	err = notes.while(always, func(key []byte) error {
		if len(key) != 14 {
			d.report(NoteRow, key, []change{drop(key)}, "a key of %d bytes", len(key))
			return nil
		}
		id := note.ID(layout.Tail64(key))
		d.highNote = max(d.highNote, id)
		if err := d.orphans(contents, leaves, id); err != nil {
			return err
		}
		return d.oneNote(id, notes, contents, leaves)
	})
	if err != nil {
		return err
	}
	return d.orphans(contents, leaves, ^note.ID(0))
}

// orphans reports content and leaves of notes below id that do not exist.
func (d *database) orphans(contents, leaves *walker, id note.ID) error {
	below := func(key []byte) bool { return noteOf(key) < id }
	err := contents.while(below, func(key []byte) error {
		d.report(ContentRow, key, []change{drop(key)}, "content without a note")
		if d.mend != nil {
			d.rep.Lost = append(d.rep.Lost, Lost{d.entry.id, noteOf(key), note.UNID{}, "note row lost"})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return leaves.while(below, func(key []byte) error {
		d.report(LeafRow, key, []change{drop(key)}, "conflict without a note")
		return nil
	})
}

// noteOf returns the note id after the prefix of a row's key.
func noteOf(key []byte) note.ID {
	_, _, rest, ok := layout.Split(key)
	if !ok || len(rest) < 8 {
		return 0
	}
	return note.ID(layout.Tail64(rest[:8]))
}

func (d *database) oneNote(id note.ID, notes, contents, leaves *walker) error {
	n, err := layout.ReadNote(notes.value)
	var row *layout.Content
	var names []note.Digest
	var rowErr error
	have := contents.ok && noteOf(contents.key) == id && len(contents.key) == 14
	if have {
		var v []byte
		if v, rowErr = d.s.Unseal(contents.key, contents.value); rowErr == nil {
			row, rowErr = layout.ReadContentRow(v)
		}
		if errors.Is(rowErr, store.ErrLocked) {
			return rowErr
		}
		if rowErr == nil {
			names = rowNames(contents.value, &row.Content)
		}
	}
	kept := map[note.Revision]*leaf{}
	if err := leaves.while(func(key []byte) bool { return noteOf(key) == id }, func(key []byte) error {
		return d.leafRow(kept, key, leaves.value)
	}); err != nil {
		return err
	}
	switch {
	case err != nil:
		d.lose(d.entry, id, note.UNID{}, NoteRow, "note row cannot be read")
	case !have:
		d.lostContent(id, n, "content row missing")
	case rowErr != nil:
		d.lostContent(id, n, "content row cannot be read")
	default:
		err = d.whole(id, n, row, names, kept)
	}
	if have && (err == nil || !errors.As(err, new(errDamage))) {
		return errors.Join(ignoreParse(err), contents.next())
	}
	return ignoreParse(err)
}

func ignoreParse(err error) error {
	if errors.Is(err, note.ErrCorrupt) {
		return nil
	}
	return err
}

// leaf is the content of a leaf. names are those of its objects, as its row has them.
type leaf struct {
	note.Content
	names []note.Digest
}

// readLeaf decodes the row of a leaf.
func readLeaf(c *checker, key, value []byte) (*leaf, error) {
	plain, err := c.s.Unseal(key, append([]byte(nil), value...))
	if err != nil {
		return nil, err
	}
	content, rest, err := note.ReadContent(plain)
	if err == nil && len(rest) != 0 {
		err = note.ErrCorrupt
	}
	return &leaf{content, rowNames(value, &content)}, err
}

// rowNames returns the names of the objects in a row with content, as the row has them.
func rowNames(v []byte, c *note.Content) (names []note.Digest) {
	if s, err := layout.ReadSealed(v); err == nil {
		return s.Names
	}
	for _, a := range c.Attachments {
		names = append(names, a.Digest)
	}
	return names
}

func (d *database) leafRow(kept map[note.Revision]*leaf, key, value []byte) error {
	c, err := readLeaf(d.checker, key, value)
	if errors.Is(err, store.ErrLocked) {
		return err
	}
	_, _, tail, _ := layout.Split(key)
	if err != nil || len(tail) != 32 {
		d.report(LeafRow, key, []change{drop(key)}, "cannot be read")
		return nil
	}
	var r note.Revision
	r.Generation = layout.Tail64(tail[8:16])
	copy(r.Hash[:], tail[16:])
	kept[r] = c
	return nil
}

// lostContent handles a note without content. For a folder the content is rebuilt from the head, which has the name
// too.
func (d *database) lostContent(id note.ID, n *layout.Note, reason string) {
	f := d.folders.heads[id]
	if n.Class != note.Folder || f == nil {
		d.lose(d.entry, id, n.UNID, ContentRow, reason)
		return
	}
	c := note.Content{Items: folderItems(f)}
	row := layout.Content{Tree: note.Tree{{Rev: note.NextRevision(note.Revision{}, note.Folder, false, &c)}},
		Content: c}
	key := layout.NoteKey(d.num, layout.KindContent, id)
	d.report(ContentRow, key, []change{put(key, d.seal.Content(key, &row))}, "folder %d: %s", id, reason)
	d.keep(id, n)
	d.folders.folderNote(id, n, &row)
}

// whole checks a note whose rows can be read.
func (d *database) whole(id note.ID, n *layout.Note, row *layout.Content, names []note.Digest,
	leaves map[note.Revision]*leaf) error {
	win, ok := row.Tree.Winner()
	if !ok {
		d.lose(d.entry, id, n.UNID, ContentRow, "no revision")
		return nil
	}
	named := named(row, names, leaves)
	attached := len(named) > 0 || len(row.Tree.Conflicts()) > 0
	fixed, wrong, err := d.mended(n, row, win.Deleted, attached)
	if err != nil {
		return err
	}
	if wrong != nil {
		key := layout.NoteKey(d.num, layout.KindNote, id)
		d.report(NoteRow, key, []change{put(key, layout.AppendNote(nil, &fixed))}, "note %d (%s): %q", id,
			n.UNID, wrong)
	}
	d.keep(id, &fixed)
	if err := d.revisions(id, n, row, leaves); err != nil {
		return err
	}
	if err := d.references(id, &fixed, named); err != nil {
		return err
	}
	if err := d.indexes.indexed(id, &fixed, &row.Content); err != nil {
		return err
	}
	if n.Class == note.Folder && (!fixed.Stub || n.Unnumbered && d.folders.heads[id] != nil) {
		d.folders.folderNote(id, n, row)
	}
	return nil
}

// mended compares a note with its content and with the folders. It returns the note as it should be, and the
// differences. deleted is set if the winning revision is a deletion, and attached if the content names objects or has
// conflicts.
func (d *database) mended(n *layout.Note, row *layout.Content, deleted, attached bool) (fixed layout.Note,
	wrong []string, err error) {
	fixed = *n
	if n.Stub != deleted {
		wrong, fixed.Stub = append(wrong, fmt.Sprintf("stub is %v, the winner's deletion %v", n.Stub, deleted)), deleted
	}
	// A stub that no home has seen keeps its memberships until the home has ended them.
	if fixed.Stub && !n.Unnumbered && (len(n.Members) > 0 || n.Recipe != 0) {
		wrong, fixed.Members, fixed.Recipe = append(wrong, "a stub with memberships or a message"), nil, 0
	}
	if n.Mod < n.Created && n.Listed() {
		wrong, fixed.Mod = append(wrong, "changed before it was made"), n.Created
	}
	if !fixed.Stub {
		w, err := d.mendRecipe(&fixed, row.Content.Message)
		if err != nil {
			return fixed, wrong, err
		}
		wrong = append(wrong, w...)
	}
	if attached && !n.Attached {
		wrong, fixed.Attached = append(wrong, "names objects or has conflicts, but is not marked so"), true
	}
	if w := d.folders.memberships(n, &fixed); w != "" {
		wrong = append(wrong, w)
	}
	return fixed, wrong, nil
}

// mendRecipe compares the recipe of a live note with the message in its content, sets the recipe as it should be, and
// returns the difference.
func (d *database) mendRecipe(n *layout.Note, message note.Digest) (wrong []string, err error) {
	switch {
	case message.IsZero() && n.Recipe == 0, !message.IsZero() && n.Recipe != 0:
		return nil, nil
	case message.IsZero():
		n.Recipe = 0
		return []string{"a recipe, but no message in its content"}, nil
	}
	name := d.seal.Name(message)
	v, ok, err := d.get(layout.Key(layout.SpaceRecipeHash, name[:]))
	if err != nil || !ok || len(v) != 8 {
		return nil, err
	}
	n.Recipe = note.RecipeID(layout.Tail64(v))
	return []string{"its message has no recipe"}, nil
}

// keep records a note for the checks of derived rows.
func (d *database) keep(id note.ID, n *layout.Note) {
	r := rec{id: id, unid: n.UNID, seq: n.Seq, mod: n.Mod, members: n.Members, stub: n.Stub, listed: n.Listed(),
		unnumbered: n.Unnumbered}
	d.highSeq = max(d.highSeq, n.Seq)
	if n.Stub {
		d.rep.Stubs++
		if len(n.Members) > 0 {
			d.folders.add(n)
		}
	} else {
		r.thread = n.Thread
		d.rep.Notes++
		d.live++
		d.size += n.Size
		d.highMod = max(d.highMod, n.Mod)
		d.folders.add(n)
	}
	d.list = append(d.list, r)
}

// revisions recomputes the hashes of the winner and of every conflict.
func (d *database) revisions(id note.ID, n *layout.Note, row *layout.Content,
	leaves map[note.Revision]*leaf) error {
	key := layout.NoteKey(d.num, layout.KindContent, id)
	win, _ := row.Tree.Winner()
	next := *row
	var wrong []string
	if !recomputes(win, n.Class, &row.Content) {
		// The content becomes a revision of its own, a child of the revision whose content it is not.
		wrong = append(wrong, fmt.Sprintf("content is not that of revision %s", win.Rev))
		next.Tree = next.Tree.Add(note.Node{
			Rev: note.NextRevision(win.Rev, n.Class, win.Deleted, &row.Content), Parent: win.Rev, Deleted: win.Deleted,
		})
	}
	var changes []change
	conflicts := row.Tree.Conflicts()
	for _, l := range conflicts {
		c := leaves[l.Rev]
		lk := layout.LeafKey(d.num, id, l.Rev)
		delete(leaves, l.Rev)
		if c != nil && recomputes(l, n.Class, &c.Content) {
			continue
		}
		reason := "content is missing"
		if c != nil {
			reason = "content is not that of its revision"
		}
		empty := note.Content{}
		next.Tree = next.Tree.Add(note.Node{Rev: note.NextRevision(l.Rev, n.Class, true, &empty), Parent: l.Rev,
			Deleted: true})
		d.report(LeafRow, lk, []change{put(key, d.seal.Content(key, &next)), drop(lk)}, "conflict %s: %s",
			l.Rev, reason)
		changes = append(changes, drop(lk))
		if d.mend != nil {
			d.rep.Lost = append(d.rep.Lost, Lost{d.entry.id, id, n.UNID, "conflict " + l.Rev.String() + ": " + reason})
		}
	}
	for r := range leaves {
		lk := layout.LeafKey(d.num, id, r)
		d.report(LeafRow, lk, []change{drop(lk)}, "note %d has no conflict %s", id, r)
	}
	if wrong != nil {
		d.report(ContentRow, key, append(changes, put(key, d.seal.Content(key, &next))),
			"note %d: %q", id, wrong)
	}
	return nil
}

// recomputes reports whether a revision's hash matches its content. Revisions that came from other replicas, with an
// unknown parent, are not checked.
func recomputes(n note.Node, class note.Class, c *note.Content) bool {
	if n.Parent.IsZero() && n.Rev.Generation > 1 {
		return true
	}
	return note.NextRevision(n.Parent, class, n.Deleted, c) == n.Rev
}

// named returns the objects that a note's stored revisions reference, by their names. names are those of its content.
func named(row *layout.Content, names []note.Digest, leaves map[note.Revision]*leaf) map[note.Digest]bool {
	var m map[note.Digest]bool
	add := func(names []note.Digest) {
		for _, d := range names {
			if m == nil {
				m = map[note.Digest]bool{}
			}
			m[d] = true
		}
	}
	add(names)
	for _, l := range row.Tree.Conflicts() {
		if c := leaves[l.Rev]; c != nil {
			add(c.names)
		}
	}
	return m
}

// references checks the rows that protect the recipe and objects of the note from the sweeper.
func (d *database) references(id note.ID, n *layout.Note, named map[note.Digest]bool) error {
	if n.Stub {
		return nil
	}
	if n.Recipe != 0 {
		if err := d.require(d.entry.id, RecipeReference, layout.RecipeRefKey(n.Recipe, d.num, id),
			"missing: note %d names recipe %d", id, n.Recipe); err != nil {
			return err
		}
	}
	for o := range named {
		if err := d.require(d.entry.id, ObjectReference, layout.ObjectByNote(o, d.num, id),
			"missing: note %d names object %s", id, o); err != nil {
			return err
		}
	}
	return nil
}
