package replica

import (
	"bytes"
	"fmt"

	"doublet/note"
	"doublet/store"
)

// grant is what somebody may see and change in a database, folder by folder. The store lets only the
// server itself replicate; what the server does for a person goes through here.
type grant struct {
	who  *note.Who
	base note.Rights
	// folders are the rights in each folder, some those in any.
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

// whole says that nothing is kept from them.
func (g *grant) whole() bool { return g.who.System }

// may is what a Greeting says.
func (g *grant) may() (m May) {
	if g.some&note.Read != 0 {
		m |= MayPull
	}
	if g.some&^(note.Lookup|note.Read) != 0 {
		m |= MayPush
	}
	return m
}

// folderOf is the folder of a membership's state.
func folderOf(it *note.StateItem) (u note.UNID, ok bool) {
	if it.Kind != note.Member || len(it.Key) != len(u) {
		return u, false
	}
	return note.UNID([]byte(it.Key)), true
}

// within is what is granted on a note: in any of its folders, where it is in none by the database's list.
// A deletion is where the note was.
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

// everywhere is what is granted in every folder of a note.
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

// reads says whether a note is told of.
func (g *grant) reads(n *store.Remote) bool {
	switch {
	case g.whole():
		return true
	case n.Class == note.Folder && !stub(n):
		return g.folders[n.UNID]&note.Lookup != 0
	}
	return g.within(n)&note.Read != 0
}

// shown is the state of a note as they may see it: what other people have seen and subscribed to is
// their own business, but for who manages the database; so are folders that may not be looked up.
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

// show makes of a note what they may see of it.
func (g *grant) show(n *store.Remote) { n.State = g.shown(n.State) }

// aclItem is the item of a folder's note that holds an access list of its own.
const aclItem = "$ACL"

// admit says whether they may bring a note, and takes from its state what is not theirs to say. have is
// the note as it is here, nil for a new one.
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
		n.Author = g.who.Person // the server's own notes, mail that it has delivered, have no author
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
		// A folder that is not here is one that they make: its note is judged as such.
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

// admitRevisions judges what n adds to the history.
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

// sameACL says whether a revision of a folder's note leaves its access list as everybody sees it here.
func sameACL(c *note.Content, have *store.Remote) bool {
	win, ok := have.Tree.Winner()
	if !ok || c == nil || have.Contents[win.Rev] == nil {
		return true
	}
	return bytes.Equal(c.Items.Get(aclItem), have.Contents[win.Rev].Items.Get(aclItem))
}

// admitState judges what n says anew of flags and folders.
func (g *grant) admitState(n, have *store.Remote) error {
	own := !have.Author.IsZero() && have.Author == g.who.Person
	rights := g.within(have)
	allows := func(granted, right, ifOwn note.Rights) bool { return granted&right != 0 || own && granted&ifOwn != 0 }
	for i := range n.State {
		it := &n.State[i]
		value, at := have.State.Get(it.Kind, it.Key)
		if !at.Less(it.Stamp) || value == it.Value {
			continue // it says nothing new
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

// verify compares the revisions that a person brings with the content that they are hashes of: a revision is the same
// everywhere, and nobody may bring another content under its name.
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

// need refuses who has none of a right of replication.
func (g *grant) need(m May) error {
	if g.may()&m == 0 {
		return store.ErrDenied
	}
	return nil
}
