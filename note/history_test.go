package note

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func randomState(rng *rand.Rand) State {
	var s State
	for range rng.IntN(8) {
		s = s.Set(StateKind(rng.IntN(3)+1), fmt.Sprint("k", rng.IntN(4)), uint8(rng.IntN(3)),
			Stamp{uint64(rng.IntN(5)), ReplicaID(rng.IntN(3))})
	}
	return s
}

func randomTree(rng *rand.Rand) Tree {
	var t Tree
	c := Content{Items: MakeItems(Item{"A", Int(int64(rng.IntN(2)))})}
	t = t.Add(Node{Rev: NextRevision(Revision{}, Document, false, &c)})
	for range rng.IntN(8) {
		p := t[rng.IntN(len(t))]
		c := Content{Items: MakeItems(Item{"A", Int(int64(rng.IntN(3)))})}
		del := rng.IntN(4) == 0
		t = t.Add(Node{Rev: NextRevision(p.Rev, Document, del, &c), Parent: p.Rev, Deleted: del})
	}
	return t
}

func TestJoins(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	laws := func(name string, same func(a, b any) bool, join func(a, b any) any, a, b, c any) {
		if !same(join(a, b), join(b, a)) {
			t.Fatalf("%s is not commutative: %v %v", name, a, b)
		}
		if !same(join(join(a, b), c), join(a, join(b, c))) {
			t.Fatalf("%s is not associative: %v %v %v", name, a, b, c)
		}
		if !same(join(a, a), a) || !same(join(join(a, b), b), join(a, b)) {
			t.Fatalf("%s is not idempotent: %v %v", name, a, b)
		}
	}
	for range 3000 {
		laws("MergeState", func(a, b any) bool { return slices.Equal(a.(State), b.(State)) },
			func(a, b any) any {
				return MergeState(a.(State), b.(State))
			}, randomState(rng), randomState(rng), randomState(rng))
		laws("Union", func(a, b any) bool {
			return slices.EqualFunc(a.(Tree), b.(Tree), func(x, y Node) bool { return reflect.DeepEqual(x, y) })
		}, func(a, b any) any { return Union(a.(Tree), b.(Tree)) }, randomTree(rng), randomTree(rng), randomTree(rng))
	}
}

// replica is one simulated replica of one note.
type replica struct {
	id       ReplicaID
	tree     Tree
	contents map[Revision]*Content
	state    State
	clock    Clock
	skew     int64
	// sent is the size of the history that each other replica is known to hold.
	holds map[ReplicaID]Tree
}

func (r *replica) write(parent Revision, deleted bool, c Content) {
	n := Node{Rev: NextRevision(parent, Document, deleted, &c), Parent: parent, Deleted: deleted}
	if base := r.contents[parent]; base != nil && !deleted {
		n.Changed = Changes(base, &c)
	}
	r.tree = r.tree.Add(n)
	r.contents[n.Rev] = &c
}

func (r *replica) edit(rng *rand.Rand, now int64) {
	leaves := r.tree.Leaves()
	leaf := leaves[rng.IntN(len(leaves))]
	switch k := rng.IntN(6); {
	case k < 3:
		c := *r.contents[leaf.Rev]
		c.Items = c.Items.With(fmt.Sprint("I", rng.IntN(5)), Int(rng.Int64N(100)))
		r.write(leaf.Rev, false, c)
	case k == 3 && !leaf.Deleted && rng.IntN(2) == 0:
		r.write(leaf.Rev, true, Content{})
	default:
		key := fmt.Sprint("k", rng.IntN(3))
		_, above := r.state.Get(Keyword, key)
		at := Stamp{r.clock.Next(now+r.skew, above), r.id}
		if at.Time <= above.Time {
			panic("a write is not above what it replaces")
		}
		r.state = r.state.Set(Keyword, key, uint8(rng.IntN(2)), at)
	}
}

func (r *replica) merge() {
	live := map[Revision]*Content{}
	for _, l := range r.tree.Leaves() {
		if !l.Deleted {
			live[l.Rev] = r.contents[l.Rev]
		}
	}
	for _, m := range MergeLeaves(Document, r.tree, live) {
		r.tree = r.tree.Add(m.Node)
		r.contents[m.Node.Rev] = &m.Content
	}
}

func (r *replica) receive(from *replica, now int64) {
	r.tree = Union(r.tree, from.tree)
	maps.Copy(r.contents, from.contents)
	for _, it := range from.state {
		r.clock.See(now+r.skew, it.Stamp)
	}
	r.state = MergeState(r.state, from.state)
	r.holds[from.id], from.holds[r.id] = from.tree, r.tree
}

// prune requires that every replica is known to hold the leaves, and nothing else as leaves.
func (r *replica) prune(all []*replica, keep int) {
	for _, o := range all {
		if o != r && !reflect.DeepEqual(o.tree.Leaves(), r.tree.Leaves()) {
			return
		}
	}
	r.tree = r.tree.Prune(keep)
}

func TestHistoriesConverge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := rng.IntN(4) + 2
		all := make([]*replica, n)
		first := Content{Items: MakeItems(Item{"I0", Int(0)})}
		for i := range all {
			all[i] = &replica{id: ReplicaID(i + 1), contents: map[Revision]*Content{}, holds: map[ReplicaID]Tree{},
				skew: rng.Int64N(2000)}
			all[i].write(Revision{}, false, first)
		}
		all[n-1].skew = 2 * 86_400_000 // two days ahead
		now := int64(1_700_000_000_000)
		for range 120 {
			now += rng.Int64N(500)
			r := all[rng.IntN(n)]
			switch rng.IntN(8) {
			case 0, 1:
				r.receive(all[rng.IntN(n)], now)
			case 2:
				all[0].merge() // only the home merges
			case 3:
				r.prune(all, rng.IntN(3))
			default:
				r.edit(rng, now)
			}
		}
		for range n {
			for _, a := range all {
				for _, b := range rng.Perm(n) {
					a.receive(all[b], now)
				}
			}
		}
		a := all[0]
		for _, b := range all[1:] {
			// Some replicas may have pruned ancestors that others have. All show the same.
			if !reflect.DeepEqual(a.tree.Leaves(), b.tree.Leaves()) ||
				!reflect.DeepEqual(a.tree.Conflicts(), b.tree.Conflicts()) {
				t.Fatalf("seed %d: leaves differ\n%v\n%v", seed, a.tree.Leaves(), b.tree.Leaves())
			}
			if !slices.Equal(a.state, b.state) {
				t.Fatalf("seed %d: states differ\n%v\n%v", seed, a.state, b.state)
			}
		}
		for _, r := range all[:n-1] {
			if r.clock.last > uint64(now+4000)<<16+MaxAhead {
				t.Fatalf("seed %d: the replica that is days ahead dragged another along", seed)
			}
		}
	}
}

func TestMergeLeaves(t *testing.T) {
	t.Parallel()
	base := Content{Items: MakeItems(Item{"A", Int(1)}, Item{"B", Int(1)}, Item{"C", Int(1)})}
	start := func() *replica {
		r := &replica{contents: map[Revision]*Content{}, holds: map[ReplicaID]Tree{}}
		r.write(Revision{}, false, base)
		return r
	}
	with := func(name string, v Value) Content { return Content{Items: base.Items.With(name, v)} }
	cases := []struct {
		name      string
		leaves    []Content
		conflicts int
		want      map[string]int64
	}{
		{"different items", []Content{with("A", Int(2)), with("B", Int(3))}, 0,
			map[string]int64{"A": 2, "B": 3, "C": 1}},
		{"a removed item", []Content{with("A", Int(2)), with("B", nil)}, 0, map[string]int64{"A": 2, "B": 0, "C": 1}},
		{"three ways", []Content{with("A", Int(2)), with("B", Int(3)), with("C", Int(4))}, 0,
			map[string]int64{"A": 2, "B": 3, "C": 4}},
		{"the same item", []Content{with("A", Int(2)), with("A", Int(3))}, 1, nil},
		{"the same value", []Content{{Items: base.Items.With("A", Int(2)).With("B", Int(3))},
			{Items: base.Items.With("A", Int(2)).With("C", Int(4))}}, 0, map[string]int64{"A": 2, "B": 3, "C": 4}},
		{"the same entry", []Content{{Items: base.Items.With("L.1", Int(2)).With("L.2", Int(3))},
			{Items: base.Items.With("L.1", Int(2)).With("L.3", Int(4))},
			{Items: base.Items.With("L.1", Int(2)).With("L.2", Int(3)).With("L.3", Int(4)).With("A", Int(5))}}, 0,
			map[string]int64{"L.1": 2, "L.2": 3, "L.3": 4, "A": 5}},
		{"attachments and items", []Content{with("A", Int(2)),
			{Items: base.Items, Attachments: []Attachment{{Name: "x"}}}}, 0, map[string]int64{"A": 2}},
	}
	for _, c := range cases {
		r := start()
		root := r.tree[0].Rev
		for _, l := range c.leaves {
			r.write(root, false, l)
		}
		if got := len(r.tree.Conflicts()); got != len(c.leaves)-1 {
			t.Fatalf("%s: %d conflicts before", c.name, got)
		}
		r.merge()
		if got := len(r.tree.Conflicts()); got != c.conflicts {
			t.Errorf("%s: %d conflicts after", c.name, got)
		}
		win, _ := r.tree.Winner()
		for name, v := range c.want {
			if got := r.contents[win.Rev].Items.Get(name).AsInt(); got != v {
				t.Errorf("%s: %s is %d, want %d", c.name, name, got, v)
			}
		}
		size := len(r.tree)
		if r.merge(); c.conflicts == 0 && len(r.tree) != size {
			t.Errorf("%s: merged again", c.name)
		}
	}
}

// TestMergeRoots merges notes that two servers created under the same UNID.
func TestMergeRoots(t *testing.T) {
	t.Parallel()
	form := Item{"Form", Text("List")}
	r := &replica{contents: map[Revision]*Content{}}
	r.write(Revision{}, false, Content{Items: MakeItems(form, Item{"L.1", Int(1)})})
	r.write(r.tree[0].Rev, false, Content{Items: MakeItems(form, Item{"L.1", Int(2)}, Item{"L.2", Int(2)})})
	r.write(Revision{}, false, Content{Items: MakeItems(form, Item{"L.1", Int(3)}, Item{"L.3", Int(3)})})
	r.merge()
	win, _ := r.tree.Winner()
	want := MakeItems(form, Item{"L.1", Int(2)}, Item{"L.2", Int(2)}, Item{"L.3", Int(3)})
	if got := r.contents[win.Rev].Items; len(r.tree.Conflicts()) != 0 || len(got.Diff(want)) != 0 {
		t.Errorf("%d conflicts, %v, want %v", len(r.tree.Conflicts()), got, want)
	}
	pruned := Tree{{Rev: Revision{Generation: 3, Hash: [16]byte{1}}}, {Rev: Revision{Generation: 3, Hash: [16]byte{2}}}}
	contents := map[Revision]*Content{pruned[0].Rev: {}, pruned[1].Rev: {Items: want}}
	if got := MergeLeaves(Document, pruned, contents); got != nil {
		t.Errorf("merged without a common ancestor: %v", got)
	}
}

// TestEntries reads and changes lists in items.
func TestEntries(t *testing.T) {
	t.Parallel()
	items := MakeItems(Item{"L", TextList("b x y", "c")}, Item{"L.a", Text("1")}, Item{"M.z", Text("2")})
	list := func(s Items) string {
		out := ""
		for key, v := range s.Entries("L.") {
			out += key + "=" + v.AsText() + ";"
		}
		return out
	}
	if got := list(items); got != "a=1;" {
		t.Error(got)
	}
	items = items.Split("L", "L.")
	if got := list(items); got != "a=1;b=x y;c=;" || items.Get("L") != nil {
		t.Error(got, items)
	}
	items = items.WithEntries("L.", map[string]Value{"a": Text("1"), "d": Text("4")})
	if got := list(items); got != "a=1;d=4;" || items.Get("M.z").AsText() != "2" {
		t.Error(got, items)
	}
}

func TestWinner(t *testing.T) {
	t.Parallel()
	r := &replica{contents: map[Revision]*Content{}}
	r.write(Revision{}, false, Content{})
	root := r.tree[0].Rev
	r.write(root, true, Content{})
	if w, _ := r.tree.Winner(); !w.Deleted {
		t.Error("deleted alone")
	}
	r.write(root, false, Content{Items: MakeItems(Item{"A", Int(1)})})
	if w, _ := r.tree.Winner(); w.Deleted {
		t.Error("a live leaf goes before a deleted one")
	}
	if got := r.tree.Prune(0); len(got) != 2 {
		t.Errorf("pruned to %d nodes: a leaf must stay", len(got))
	}
	if _, ok := (Tree{}).Winner(); ok {
		t.Error("a winner of nothing")
	}
}
