package replica

import (
	"bytes"
	"fmt"

	"doublet/note"
	"doublet/store"
)

// grant holds the rights of a caller in a database, per folder. The store lets only the server itself replicate;
// replication for a person is checked against a grant.
type grant struct {
	who  *note.Who
	base note.Rights
	// folders holds the rights in each folder; some is the union of base and all folders.
	folders map[note.UNID]note.Rights
	some    note.Rights
}

func grantOf(who *note.Who, r *store.Reader) *grant {
	info := r.Info()
	g := &grant{who: who, base: info.ACL.Rights(who)}
	if g.some = g.base; who.System {
		return g
	}
	heads := r.Folders()
	g.folders = make(map[note.UNID]note.Rights, len(heads))
	for _, f := range heads {
		rights := g.base
		if f.HasACL {
			rights = f.ACL.Rights(who)
		}
		g.folders[f.UNID] = rights
		g.some |= rights
	}
	return g
}

// whole reports whether the caller has unrestricted rights.
func (g *grant) whole() bool { return g.who.System }

// may returns the replication rights for a Greeting.
func (g *grant) may() (m May) {
	if g.some&note.Read != 0 {
		m |= MayPull
	}
	if g.some&^(note.Lookup|note.Read) != 0 {
		m |= MayPush
	}
	return m
}

// folderOf returns the folder of a membership item.
func folderOf(it *note.StateItem) (u note.UNID, ok bool) {
	if it.Kind != note.Member || len(it.Key) != len(u) {
		return u, false
	}
	return note.UNID([]byte(it.Key)), true
}

// within returns the union of the rights in the folders of a note. A note in no folder has the rights of the database's
// access list. A tombstone has the rights of the folders that the note was in.
func (g *grant) within(n *store.Remote) note.Rights {
	var live, ever note.Rights
	lives, was := false, false
	for i := range n.State {
		if f, ok := folderOf(&n.State[i]); ok {
			was = true
			ever |= g.folders[f]
			if n.State[i].Value != note.Off {
				lives = true
				live |= g.folders[f]
			}
		}
	}
	switch {
	case lives:
		return live
	case was:
		return ever
	}
	return g.base
}

// everywhere returns the rights that the caller has in all folders of a note.
func (g *grant) everywhere(n *store.Remote) note.Rights {
	rights, lives := note.Rights(note.All), false
	for i := range n.State {
		if f, ok := folderOf(&n.State[i]); ok && n.State[i].Value != note.Off {
			lives = true
			rights &= g.folders[f]
		}
	}
	if !lives {
		return g.within(n)
	}
	return rights
}

// reads reports whether the caller may see a note.
func (g *grant) reads(n *store.Remote) bool {
	switch {
	case g.whole():
		return true
	case n.Class == note.Folder && !stub(n):
		return g.folders[n.UNID]&note.Lookup != 0
	}
	return g.within(n)&note.Read != 0
}

// shown returns the part of a note's state that the caller may see. The seen flags and subscriptions of other people
// are private, except to those who administer the database. Folders without the Lookup right are omitted too.
func (g *grant) shown(s note.State) note.State {
	if g.whole() {
		return s
	}
	out := make(note.State, 0, len(s))
	for i := range s {
		it := &s[i]
		switch it.Kind {
		case note.Seen, note.Subscribed:
			if it.Key != string(g.who.Person[:]) && g.base&note.Administer == 0 {
				continue
			}
		case note.Member:
			if f, ok := folderOf(it); !ok || g.folders[f]&note.Lookup == 0 {
				continue
			}
		}
		out = append(out, *it)
	}
	return out
}

// show reduces a note's state to what the caller may see.
func (g *grant) show(n *store.Remote) { n.State = g.shown(n.State) }

// aclItem is the item of a folder's note that holds the folder's own access list.
const aclItem = "$ACL"

// admit returns an error unless the caller may send a note. It removes the items of the note's state that the caller
// may not set. have is the local version of the note, nil if it is new.
func (g *grant) admit(n, have *store.Remote) error {
	if g.whole() {
		return nil
	}
	n.State = g.shown(n.State)
	if have == nil {
		return g.admitNew(n)
	}
	if n.Class != have.Class {
		return denied(n, "it is of another class here")
	}
	if !g.reads(have) {
		return denied(n, "it may not be read")
	}
	if err := verify(n, have.Tree); err != nil {
		return err
	}
	if err := g.admitRevisions(n, have); err != nil {
		return err
	}
	return g.admitState(n, have)
}

func denied(n *store.Remote, why string) error {
	return fmt.Errorf("%w: note %s: %s", store.ErrDenied, n.UNID, why)
}

func (g *grant) admitNew(n *store.Remote) error {
	if g.base&note.Administer == 0 && !n.Author.IsZero() && n.Author != g.who.Person {
		return denied(n, "somebody else is its author")
	}
	if n.Author.IsZero() {
		n.Author = g.who.Person // notes of the server itself, such as delivered mail, have no author
	}
	if err := verify(n, nil); err != nil {
		return err
	}
	if n.Class != note.Document {
		if g.base&note.Create == 0 {
			return denied(n, "it may not be made")
		}
		for _, c := range n.Contents {
			if n.Class == note.Folder && c.Items.Get(aclItem) != nil && g.base&note.Administer == 0 {
				return denied(n, "its access list may not be set")
			}
		}
		return nil
	}
	placed := false
	for i := range n.State {
		f, ok := folderOf(&n.State[i])
		if !ok || n.State[i].Value == note.Off {
			continue
		}
		placed = true
		// An unknown folder is one that the person also creates; the note of that folder is checked separately.
		rights, known := g.folders[f]
		if known && rights&(note.Insert|note.Post) == 0 || !known && g.base&note.Create == 0 {
			return denied(n, "nothing may be put into its folder")
		}
	}
	if !placed && g.base&(note.Insert|note.Post) == 0 {
		return denied(n, "it may not be made")
	}
	return nil
}

// admitRevisions checks the revisions that n adds to the history.
func (g *grant) admitRevisions(n, have *store.Remote) error {
	own := !have.Author.IsZero() && have.Author == g.who.Person
	rights, all := g.within(have), g.everywhere(have)
	if have.Class == note.Folder {
		rights = g.folders[have.UNID]
	}
	for _, x := range n.Tree {
		if _, known := have.Tree.Node(x.Rev); known {
			continue
		}
		switch {
		case have.Class == note.Folder:
			if rights&note.Remove == 0 || rights&note.Administer == 0 && !sameACL(n.Contents[x.Rev], have) {
				return denied(n, "the folder may not be changed so")
			}
		case x.Deleted:
			const both = note.DeleteMark | note.Expunge
			if all&both != both && !(own && all&note.ExpungeOwn != 0) {
				return denied(n, "it may not be deleted")
			}
		case rights&note.Write == 0 && !(own && rights&note.WriteOwn != 0):
			return denied(n, "it may not be changed")
		}
	}
	return nil
}

// sameACL reports whether a revision of a folder's note leaves the access list unchanged. It returns true if either
// content is not available.
func sameACL(c *note.Content, have *store.Remote) bool {
	win, ok := have.Tree.Winner()
	if !ok || c == nil || have.Contents[win.Rev] == nil {
		return true
	}
	return bytes.Equal(c.Items.Get(aclItem), have.Contents[win.Rev].Items.Get(aclItem))
}

// admitState checks the changes of n to flags and folders.
func (g *grant) admitState(n, have *store.Remote) error {
	own := !have.Author.IsZero() && have.Author == g.who.Person
	rights := g.within(have)
	allows := func(granted, right, ifOwn note.Rights) bool { return granted&right != 0 || own && granted&ifOwn != 0 }
	for i := range n.State {
		it := &n.State[i]
		value, at := have.State.Get(it.Kind, it.Key)
		if !at.Less(it.Stamp) || value == it.Value {
			continue // no change
		}
		ok := true
		switch f, _ := folderOf(it); it.Kind {
		case note.Keyword:
			ok = allows(rights, note.Write, note.WriteOwn)
		case note.Seen:
			ok = rights&note.KeepSeen != 0
		case note.Member:
			switch {
			case it.Value == note.Off:
				ok = allows(g.folders[f], note.Expunge, note.ExpungeOwn)
			case value == note.Off:
				ok = g.folders[f]&(note.Insert|note.Post) != 0
			default:
				ok = allows(g.folders[f], note.DeleteMark, note.ExpungeOwn)
			}
		}
		if !ok {
			return denied(n, "its flags or folders may not be changed so")
		}
	}
	return nil
}

// verify checks that the revisions that a person sends are the hashes of their contents. A revision identifies the same
// content everywhere, so nobody may send other content under its name.
func verify(n *store.Remote, known note.Tree) error {
	for _, x := range n.Tree {
		if _, have := known.Node(x.Rev); have {
			continue
		}
		c := n.Contents[x.Rev]
		if x.Deleted {
			c = &note.Content{}
		}
		if c == nil {
			continue // older than the leaves
		}
		if note.NextRevision(x.Parent, n.Class, x.Deleted, c) != x.Rev {
			return formatError("note %s: revision %s is not of its content", n.UNID, x.Rev)
		}
		for _, it := range c.Items {
			if _, err := it.Value.MarshalJSON(); err != nil {
				return formatError("note %s: item %.100q", n.UNID, it.Name)
			}
		}
	}
	return nil
}
