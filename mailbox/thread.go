package mailbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"doublet/wire/imap"
	"doublet/wire/mime"
)

// Algorithm is a threading algorithm.
type Algorithm uint8

// The algorithms: ORDEREDSUBJECT and REFERENCES (RFC 5256), and REFS, which uses references only and sorts threads by
// their latest message.
const (
	OrderedSubject Algorithm = iota
	References
	Refs
)

// threadable is a message as input for threading.
type threadable struct {
	number  uint32 // sequence number or UID, as the caller wants it
	order   uint32 // the UID: breaks ties between equal dates
	date    int64  // date sent, in Unix seconds
	subject uint64 // hash of the base subject, 0 if it is empty
	reply   bool   // the subject is that of a reply or a forward
	own     uint64
	refs    []uint64
}

const threadableSize = 160 // bytes, with its node and table entries, without refs

// Thread groups the messages that match into threads. It reads only rows and stored summaries.
//
// Implements: RFC 5256 §3 THREAD
func (v *View) Thread(ctx context.Context, c *Criteria, a Algorithm, byUID bool,
	o SearchOptions) ([]imap.ThreadNode, error) {
	var all []threadable
	mem, seed := room{ask: o.Room}, maphash.MakeSeed()
	err := v.scan(ctx, c, o, func(s *search) error {
		t := threadable{number: s.m.Seq, order: s.m.UID}
		if byUID {
			t.number = s.m.UID
		}
		if err := s.fillThreadable(&t, seed, a); err != nil {
			return err
		}
		all = append(all, t)
		return mem.take(threadableSize + 48*len(t.refs))
	})
	if err != nil {
		return nil, err
	}
	if a == OrderedSubject {
		return orderedSubject(all), nil
	}
	g := graph{all: all, byID: make(map[uint64]int32, 2*len(all))}
	if a == Refs {
		return g.refs(), nil
	}
	return g.threads(), nil
}

func (s *search) fillThreadable(t *threadable, seed maphash.Seed, a Algorithm) error {
	e, err := s.env()
	if err != nil {
		return err
	}
	t.date = s.sent(e)
	if a == Refs {
		return s.fillReferences(t)
	}
	subject := mime.DecodeWords(e.Subject)
	if base := mime.Casemap(mime.BaseSubject(subject)); base != "" {
		t.subject = max(maphash.String(seed, base), 1)
	}
	if a == OrderedSubject {
		return nil
	}
	t.reply = mime.IsReply(subject)
	return s.fillReferences(t)
}

func (s *search) fillReferences(t *threadable) error {
	b, err := s.threading()
	if err != nil {
		return err
	}
	for i := 0; i+8 <= len(b); i += 8 {
		id := binary.BigEndian.Uint64(b[i:])
		if i == 0 {
			t.own = id
			continue
		}
		t.refs = append(t.refs, id)
	}
	return nil
}

func (t *threadable) compare(o *threadable) int {
	return cmp.Or(cmp.Compare(t.date, o.date), cmp.Compare(t.order, o.order))
}

// orderedSubject groups the messages that have the same base subject: the first message is the root, the others are its
// children. Messages without a subject form one group, too.
//
// Implements: RFC 5256 §3 THREAD=ORDEREDSUBJECT
func orderedSubject(all []threadable) []imap.ThreadNode {
	slices.SortFunc(all, func(a, b threadable) int { return a.compare(&b) })
	out := []imap.ThreadNode{}
	at := make(map[uint64]int)
	for i := range all {
		n := imap.ThreadNode{Number: all[i].number}
		if k, ok := at[all[i].subject]; ok {
			out[k].Children = append(out[k].Children, n)
			continue
		}
		at[all[i].subject] = len(out)
		out = append(out, n)
	}
	return out
}

// none stands for no node or no message.
const none = int32(-1)

// node is a container of the algorithm: a message, or, if message is none, an id that is only referenced.
type node struct {
	message, parent int32
	children        []int32
}

// graph computes threads from references.
//
// Implements: RFC 5256 §3 THREAD=REFERENCES
type graph struct {
	all   []threadable
	nodes []node
	byID  map[uint64]int32
}

func (g *graph) add(message int32) int32 {
	g.nodes = append(g.nodes, node{message: message, parent: none})
	return int32(len(g.nodes) - 1)
}

// named returns the node of an id, and creates it if necessary.
func (g *graph) named(id uint64) int32 {
	n, ok := g.byID[id]
	if !ok {
		n = g.add(none)
		g.byID[id] = n
	}
	return n
}

// threads runs the six steps of the REFERENCES algorithm.
func (g *graph) threads() []imap.ThreadNode {
	for i := range g.all {
		g.link(int32(i))
	}
	roots := g.gather()
	g.sort(roots)
	roots = g.mergeSubjects(roots)
	for i := range g.nodes {
		g.sort(g.nodes[i].children)
	}
	g.sort(roots)
	return g.tree(roots)
}

// refs runs THREAD=REFS (draft-ietf-morg-inthread): it ignores subjects and sorts threads by the date of their latest
// message.
//
// Implements: draft-ietf-morg-inthread §4 THREAD=REFS
func (g *graph) refs() []imap.ThreadNode {
	for i := range g.all {
		g.link(int32(i))
	}
	roots := g.gather()
	order := g.preorder(roots)
	latest := make([]*threadable, len(g.nodes))
	for i := len(order) - 1; i >= 0; i-- {
		n := &g.nodes[order[i]]
		if n.message != none {
			latest[order[i]] = &g.all[n.message]
		}
		for _, c := range n.children {
			if l := latest[order[i]]; l == nil || l.compare(latest[c]) < 0 {
				latest[order[i]] = latest[c]
			}
		}
		g.sort(n.children)
	}
	slices.SortFunc(roots, func(a, b int32) int { return latest[a].compare(latest[b]) })
	return g.tree(roots)
}

// link is step 1: it links the references to each other, then the message to the last reference.
func (g *graph) link(i int32) {
	t := &g.all[i]
	last := none
	for _, id := range t.refs {
		n := g.named(id)
		if last != none && g.nodes[n].parent == none && !g.above(n, last) {
			g.nodes[n].parent = last
		}
		last = n
	}
	var n int32
	if have, ok := g.byID[t.own]; t.own == 0 || ok && g.nodes[have].message != none {
		n = g.add(i) // no id, or another message has it
	} else {
		n = g.named(t.own)
		g.nodes[n].message = i
	}
	// Step 1.C: drop a parent that came from another message's references before setting the message's own. Do this
	// even if its own would make a loop.
	g.nodes[n].parent = none
	if last != none && !g.above(n, last) {
		g.nodes[n].parent = last
	}
}

// above reports whether a is b or an ancestor of b. A chain of parents can grow without limit over many messages, so
// above follows it for at most maxChain nodes; a longer chain counts as a loop.
func (g *graph) above(a, b int32) bool {
	for range maxChain {
		if a == b {
			return true
		}
		if b = g.nodes[b].parent; b == none {
			return false
		}
	}
	return true
}

// maxChain bounds the depth of a thread: a deeper reply starts a new thread.
const maxChain = 1000

// gather is steps 2 and 3. It returns the root nodes and replaces nodes that have no message by their children. A root
// without a message stays if it has two or more children.
func (g *graph) gather() []int32 {
	var roots []int32
	for i := range g.nodes {
		if p := g.nodes[i].parent; p != none {
			g.nodes[p].children = append(g.nodes[p].children, int32(i))
		} else {
			roots = append(roots, int32(i))
		}
	}
	order := g.preorder(roots)
	for i := len(order) - 1; i >= 0; i-- { // children before their parents
		n := &g.nodes[order[i]]
		n.children = g.prune(n.children, false)
	}
	return g.prune(roots, true)
}

// preorder returns roots and all nodes below them, parents before children.
func (g *graph) preorder(roots []int32) []int32 {
	out := make([]int32, 0, len(g.nodes))
	out = append(out, roots...)
	for i := 0; i < len(out); i++ {
		out = append(out, g.nodes[out[i]].children...)
	}
	return out
}

func (g *graph) prune(list []int32, top bool) []int32 {
	keep := true
	for _, c := range list {
		keep = keep && g.nodes[c].message != none
	}
	if keep {
		return list
	}
	out := make([]int32, 0, len(list))
	for _, c := range list {
		n := &g.nodes[c]
		if n.message != none || top && len(n.children) > 1 {
			out = append(out, c)
			continue
		}
		out = append(out, n.children...)
	}
	return out
}

// first returns the message of a node, or that of its first child if the node has no message.
func (g *graph) first(n int32) *threadable {
	if m := g.nodes[n].message; m != none {
		return &g.all[m]
	}
	return g.first(g.nodes[n].children[0])
}

// sort sorts siblings by date sent (steps 4 and 6).
func (g *graph) sort(list []int32) {
	for _, n := range list {
		if g.nodes[n].message == none {
			g.sort(g.nodes[n].children)
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return g.first(a).compare(g.first(b)) })
}

// subjects returns the thread with which threads of each base subject are merged: one without a message at its root if
// possible, else one whose first message is no reply.
func (g *graph) subjects(roots []int32) map[uint64]int32 {
	table := make(map[uint64]int32, len(roots))
	for _, n := range roots {
		t := g.first(n)
		if t.subject == 0 {
			continue
		}
		have, ok := table[t.subject]
		if !ok || g.nodes[have].message != none && (g.nodes[n].message == none || g.first(have).reply && !t.reply) {
			table[t.subject] = n
		}
	}
	return table
}

// mergeSubjects is step 5: it merges threads whose first messages have the same base subject.
func (g *graph) mergeSubjects(roots []int32) []int32 {
	table := g.subjects(roots)
	gone := make(map[int32]bool)
	place := make(map[int32]int32) // node that replaces a root
	for _, n := range roots {
		t := g.first(n)
		have, ok := table[t.subject]
		if t.subject == 0 || !ok || have == n {
			continue
		}
		gone[n] = true
		to, from := &g.nodes[have], &g.nodes[n]
		switch {
		case to.message == none && from.message == none:
			to.children = append(to.children, from.children...)
		case to.message == none, t.reply && !g.first(have).reply:
			to.children = append(to.children, n)
		default:
			both := g.add(none)
			g.nodes[both].children = []int32{have, n}
			place[have], table[t.subject] = both, both
		}
	}
	out := roots[:0]
	for _, n := range roots {
		if gone[n] {
			continue
		}
		if both, ok := place[n]; ok {
			n = both
		}
		out = append(out, n)
	}
	return out
}

// tree builds the result, children before their parents.
func (g *graph) tree(roots []int32) []imap.ThreadNode {
	order := g.preorder(roots)
	made := make([][]imap.ThreadNode, len(g.nodes))
	list := func(of []int32) []imap.ThreadNode {
		if len(of) == 0 {
			return nil
		}
		out := make([]imap.ThreadNode, len(of))
		for i, n := range of {
			out[i].Children = made[n]
			if m := g.nodes[n].message; m != none {
				out[i].Number = g.all[m].number
			}
		}
		return out
	}
	for i := len(order) - 1; i >= 0; i-- {
		made[order[i]] = list(g.nodes[order[i]].children)
	}
	return list(roots)
}
