package note

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Attachment names stored bytes that belong to a note.
type Attachment struct {
	Name, Type string
	Digest     Digest
	Size       uint64
}

// Content is the content of a revision. For a mail message, Message is the digest of the message.
type Content struct {
	Items       Items
	Attachments []Attachment
	Message     Digest
}

// AppendContent appends the canonical encoding of c, over which revisions are hashed.
func AppendContent(dst []byte, c *Content) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Items)))
	for _, it := range c.Items {
		dst = appendString(dst, it.Name)
		dst = append(binary.AppendUvarint(dst, uint64(len(it.Value))), it.Value...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Attachments)))
	for _, a := range c.Attachments {
		dst = appendString(appendString(dst, a.Name), a.Type)
		dst = append(dst, a.Digest[:]...)
		dst = binary.AppendUvarint(dst, a.Size)
	}
	if c.Message.IsZero() {
		return append(dst, 0)
	}
	return append(append(dst, 1), c.Message[:]...)
}

// ReadContent decodes the output of AppendContent and returns the rest of b. Values alias b.
func ReadContent(b []byte) (Content, []byte, error) {
	var c Content
	n, b, err := readCount(b, 2)
	if err != nil {
		return c, nil, err
	}
	if n > 0 {
		c.Items = make(Items, n)
	}
	for i := range c.Items {
		if c.Items[i].Name, b, err = readString(b); err != nil {
			return c, nil, err
		}
		var v []byte
		if v, b, err = readBytes(b); err != nil {
			return c, nil, err
		}
		c.Items[i].Value = v
	}
	if n, b, err = readCount(b, 35); err != nil {
		return c, nil, err
	}
	for range n {
		var a Attachment
		if a, b, err = readAttachment(b); err != nil {
			return c, nil, err
		}
		c.Attachments = append(c.Attachments, a)
	}
	if len(b) == 0 {
		return c, nil, ErrCorrupt
	}
	flag, b := b[0], b[1:]
	if flag == 1 {
		if len(b) < 32 {
			return c, nil, ErrCorrupt
		}
		copy(c.Message[:], b)
		b = b[32:]
	}
	return c, b, nil
}

func readAttachment(b []byte) (a Attachment, rest []byte, err error) {
	if a.Name, b, err = readString(b); err != nil {
		return a, nil, err
	}
	if a.Type, b, err = readString(b); err != nil {
		return a, nil, err
	}
	if len(b) < 32 {
		return a, nil, ErrCorrupt
	}
	copy(a.Digest[:], b)
	a.Size, b, err = readUvarint(b[32:])
	return a, b, err
}

// attachmentsItem stands for the attachments and the message together when changes are compared.
const attachmentsItem = "$Attachments"

// Changes returns the names of the items in which b differs from a, and $Attachments if those differ.
func Changes(a, b *Content) []string {
	out := a.Items.Diff(b.Items)
	same := len(a.Attachments) == len(b.Attachments) && a.Message == b.Message
	for i := range a.Attachments {
		same = same && a.Attachments[i] == b.Attachments[i]
	}
	if !same {
		out = append([]string{attachmentsItem}, out...)
	}
	return out
}

// Merged is a revision that MergeLeaves wants to be written.
type Merged struct {
	Node    Node
	Content Content
}

// MergeLeaves merges conflicting leaves that changed different items since their common ancestor. It returns a child of
// the winner with the merged items, and a deletion child of each merged loser. Leaves that changed the same item to
// different values stay conflicts, unless it is an entry of a list: the winner's value stays. contents holds the
// content of every live leaf. Only the database's home may write the result, because several writers would keep merging
// each other's results.
func MergeLeaves(class Class, t Tree, contents map[Revision]*Content) []Merged {
	leaves := t.Leaves()
	if len(leaves) < 2 || leaves[0].Deleted {
		return nil
	}
	winner := leaves[0]
	cur := *contents[winner.Rev]
	var touched []string
	var out []Merged
	for _, l := range leaves[1:] {
		c := contents[l.Rev]
		if l.Deleted || c == nil {
			continue
		}
		byWinner, byLoser, ok := t.changedBy(winner.Rev, l.Rev, contents)
		if !ok {
			continue
		}
		add, ok := additions(&cur, c, append(byWinner, touched...), byLoser)
		if !ok {
			continue
		}
		for _, name := range add {
			if name == attachmentsItem {
				cur.Attachments, cur.Message = c.Attachments, c.Message
				continue
			}
			cur.Items = cur.Items.With(name, c.Items.Get(name))
		}
		touched = append(touched, add...)
		empty := Content{}
		out = append(out, Merged{Node: Node{
			Rev: NextRevision(l.Rev, class, true, &empty), Parent: l.Rev, Deleted: true,
		}})
	}
	if out == nil {
		return nil
	}
	merged := Merged{Content: cur, Node: Node{
		Rev: NextRevision(winner.Rev, class, false, &cur), Parent: winner.Rev,
		Changed: Changes(contents[winner.Rev], &cur),
	}}
	return append([]Merged{merged}, out...)
}

// changedBy returns the items that two leaves changed since their nearest common ancestor. Two servers may have created
// a note under the same UNID, each without the other: the common ancestor of those leaves is the empty note.
func (t Tree) changedBy(a, b Revision, contents map[Revision]*Content) (byA, byB []string, ok bool) {
	if byA, byB, ok = t.ChangedSince(a, b); ok {
		return byA, byB, true
	}
	pa, pb := t.path(a), t.path(b)
	if pa[len(pa)-1].Rev.Generation != 1 || pb[len(pb)-1].Rev.Generation != 1 {
		return nil, nil, false // the common ancestor was pruned
	}
	all := func(path []Node, c *Content) []string {
		names := append(changed(path), Changes(&Content{}, c)...)
		slices.Sort(names)
		return slices.Compact(names)
	}
	return all(pa, contents[a]), all(pb, contents[b]), true
}

// additions returns the items among byLoser that a merge copies from the content c of a losing leaf to cur, which has
// the changes to the items taken. ok is false if an item was changed on both sides, and they remain a conflict.
func additions(cur, c *Content, taken, byLoser []string) (add []string, ok bool) {
	differ := Changes(cur, c)
	for _, name := range byLoser {
		switch {
		case !slices.Contains(taken, name):
			add = append(add, name)
		case slices.Contains(differ, name) && !isEntry(name):
			return nil, false
		}
	}
	return add, true
}

// isEntry reports whether an item is an entry of a list. Lists that several servers may change at the same time have an
// item for each entry, named LIST.KEY, so that changes of different entries are merged.
func isEntry(name string) bool { return strings.Contains(name, ".") }
