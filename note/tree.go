package note

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Revision names one version of a note's content: a generation, and a hash over parent, class, deletion, items and
// attachments. The same change gives the same revision on every replica.
type Revision struct {
	Generation uint64
	Hash       [16]byte
}

// IsZero reports whether r names no revision.
func (r Revision) IsZero() bool { return r == Revision{} }

// String returns generation-hash, as CouchDB does.
func (r Revision) String() string {
	return strconv.FormatUint(r.Generation, 10) + "-" + hex.EncodeToString(r.Hash[:])
}

// ParseRevision parses the output of String.
func ParseRevision(s string) (Revision, error) {
	g, h, ok := strings.Cut(s, "-")
	var r Revision
	gen, err := strconv.ParseUint(g, 10, 64)
	if !ok || err != nil || gen == 0 || len(h) != 32 {
		return r, fmt.Errorf("revision %q is not generation-hash", s)
	}
	if _, err := hex.Decode(r.Hash[:], []byte(h)); err != nil {
		return r, fmt.Errorf("revision %q is not generation-hash", s)
	}
	r.Generation = gen
	return r, nil
}

// Compare orders revisions by generation, then by hash.
func (r Revision) Compare(s Revision) int {
	if r.Generation != s.Generation {
		if r.Generation < s.Generation {
			return -1
		}
		return 1
	}
	return compareBytes(r.Hash[:], s.Hash[:])
}

// NextRevision returns the revision of content c as a child of parent. parent is zero for a first revision.
func NextRevision(parent Revision, class Class, deleted bool, c *Content) Revision {
	h := sha256.New()
	b := make([]byte, 0, 256)
	b = binary.BigEndian.AppendUint64(b, parent.Generation)
	b = append(b, parent.Hash[:]...)
	b = append(b, byte(class))
	if deleted {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = AppendContent(b, c)
	h.Write(b)
	r := Revision{Generation: parent.Generation + 1}
	copy(r.Hash[:], h.Sum(nil))
	return r
}

// Node is one revision in a tree.
type Node struct {
	Rev Revision
	// Parent is kept even if the parent's own node was pruned.
	Parent  Revision
	Deleted bool
	// Changed names the items that this revision changed or removed relative to its parent. With it, two leaves can be
	// merged without the content of their ancestor.
	Changed []string
}

// Tree is a note's history, sorted by revision. Replicas merge their trees by union.
type Tree []Node

func (t Tree) find(r Revision) (int, bool) {
	return slices.BinarySearchFunc(t, r, func(n Node, r Revision) int { return n.Rev.Compare(r) })
}

// Node returns the node of a revision.
func (t Tree) Node(r Revision) (Node, bool) {
	i, ok := t.find(r)
	if !ok {
		return Node{}, false
	}
	return t[i], true
}

// Add returns the tree with a node added. Adding a node that is there changes nothing.
func (t Tree) Add(n Node) Tree {
	i, ok := t.find(n.Rev)
	if ok {
		return t
	}
	return slices.Insert(slices.Clone(t), i, n)
}

// Union merges two trees. It is commutative, associative and idempotent.
func Union(a, b Tree) Tree {
	out := make(Tree, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].Rev.Compare(b[0].Rev); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Leaves returns the revisions that have no child, the winner first, then in descending order.
func (t Tree) Leaves() []Node {
	var out []Node
	parents := make(map[Revision]bool, len(t))
	for _, n := range t {
		parents[n.Parent] = true
	}
	for _, n := range t {
		if !parents[n.Rev] {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Node) int {
		switch {
		case wins(a, b):
			return -1
		case wins(b, a):
			return 1
		}
		return 0
	})
	return out
}

// wins reports whether a wins a conflict with b. A live leaf wins over a deleted one, then the higher generation wins,
// then the greater hash.
func wins(a, b Node) bool {
	if a.Deleted != b.Deleted {
		return b.Deleted
	}
	return a.Rev.Compare(b.Rev) > 0
}

// Winner returns the leaf that every replica shows.
func (t Tree) Winner() (Node, bool) {
	if len(t) == 1 {
		return t[0], true
	}
	l := t.Leaves()
	if len(l) == 0 {
		return Node{}, false
	}
	return l[0], true
}

// Conflicts returns the live leaves other than the winner.
func (t Tree) Conflicts() []Node {
	if len(t) <= 1 {
		return nil
	}
	l := t.Leaves()
	if len(l) == 0 || l[0].Deleted {
		return nil
	}
	return slices.DeleteFunc(l[1:], func(n Node) bool { return n.Deleted })
}

// path returns the known revisions from r back to the root, r first.
func (t Tree) path(r Revision) []Node {
	var out []Node
	for {
		n, ok := t.Node(r)
		if !ok {
			return out
		}
		out = append(out, n)
		r = n.Parent
	}
}

// ChangedSince returns the items that two leaves changed since their nearest common ancestor. ok is false if no common
// ancestor is known.
func (t Tree) ChangedSince(a, b Revision) (byA, byB []string, ok bool) {
	pa, pb := t.path(a), t.path(b)
	for i, n := range pa {
		j := slices.IndexFunc(pb, func(m Node) bool { return m.Rev == n.Rev })
		if j < 0 {
			continue
		}
		return changed(pa[:i]), changed(pb[:j]), true
	}
	return nil, nil, false
}

func changed(path []Node) []string {
	var out []string
	for _, n := range path {
		out = append(out, n.Changed...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Prune keeps only the last keep revisions of every branch. Call it only when every known replica holds the leaves: a
// replica that has a dropped ancestor as its leaf would show it as a conflict.
func (t Tree) Prune(keep int) Tree {
	keep = max(keep, 1)
	held := make(map[Revision]bool, len(t))
	for _, l := range t.Leaves() {
		p := t.path(l.Rev)
		for _, n := range p[:min(keep, len(p))] {
			held[n.Rev] = true
		}
	}
	if len(held) == len(t) {
		return t
	}
	out := make(Tree, 0, len(held))
	for _, n := range t {
		if held[n.Rev] {
			out = append(out, n)
		}
	}
	return out
}

// AppendTree appends the encoding of t.
func AppendTree(dst []byte, t Tree) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(t)))
	for _, n := range t {
		dst = appendRevision(dst, n.Rev)
		dst = appendRevision(dst, n.Parent)
		var del byte
		if n.Deleted {
			del = 1
		}
		dst = append(dst, del)
		dst = binary.AppendUvarint(dst, uint64(len(n.Changed)))
		for _, c := range n.Changed {
			dst = appendString(dst, c)
		}
	}
	return dst
}

// ReadTree decodes the output of AppendTree and returns the rest of b.
func ReadTree(b []byte) (Tree, []byte, error) {
	n, b, err := readCount(b, 20)
	if err != nil {
		return nil, nil, err
	}
	t := make(Tree, n)
	for i := range t {
		if t[i].Rev, b, err = readRevision(b); err != nil {
			return nil, nil, err
		}
		if t[i].Parent, b, err = readRevision(b); err != nil {
			return nil, nil, err
		}
		if len(b) == 0 {
			return nil, nil, ErrCorrupt
		}
		t[i].Deleted, b = b[0] == 1, b[1:]
		var k int
		if k, b, err = readCount(b, 1); err != nil {
			return nil, nil, err
		}
		for range k {
			var c string
			if c, b, err = readString(b); err != nil {
				return nil, nil, err
			}
			t[i].Changed = append(t[i].Changed, c)
		}
		// Searches rely on this order, and walks to the root rely on generations that decrease.
		if t[i].Parent.Generation >= t[i].Rev.Generation || i > 0 && t[i-1].Rev.Compare(t[i].Rev) >= 0 {
			return nil, nil, ErrCorrupt
		}
	}
	return t, b, nil
}

func appendRevision(dst []byte, r Revision) []byte {
	dst = binary.AppendUvarint(dst, r.Generation)
	if r.Generation > 0 {
		dst = append(dst, r.Hash[:]...)
	}
	return dst
}

func readRevision(b []byte) (Revision, []byte, error) {
	var r Revision
	var err error
	if r.Generation, b, err = readUvarint(b); err != nil || r.Generation == 0 {
		return r, b, err
	}
	if len(b) < 16 {
		return r, nil, ErrCorrupt
	}
	copy(r.Hash[:], b)
	return r, b[16:], nil
}
