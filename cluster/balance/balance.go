// Package balance decides which databases should move so that servers are used evenly: homes by activity, replicas by
// size, each by what the servers can take. Plan is a pure function: the same figures give the same moves, and the
// figures as they are after the moves give none.
package balance

import (
	"cmp"
	"slices"

	"doublet/note"
)

// Server is a member of the cluster.
type Server struct {
	ID note.UNID
	// Capacity is what it can take compared with the others; what is not positive counts as 1.
	Capacity float64
	// Site is where it stands; replicas of a database go to different sites where there are some. "" is a site like
	// any other.
	Site string
	// Closed: it gets nothing: it leaves, is silent, restricted, or a gateway.
	Closed bool
}

// Database is one database of the cluster.
type Database struct {
	ID note.DatabaseID
	// Activity is how much it is used: operations a day.
	Activity float64
	// Size is its bytes.
	Size uint64
	// Replicas are the servers that have one, in order of preference: the first is its home.
	Replicas []note.UNID
	// Fixed: it counts and is not moved.
	Fixed bool
}

// Kind is what moves.
type Kind string

// The kinds of moves.
const (
	// Home: To becomes first in the order of preference, in the place of From. Both have a replica, or To gets one by
	// another move of the same plan.
	Home Kind = "home"
	// Replica: To gets one, and when that is whole From's goes.
	Replica Kind = "replica"
)

// Move is one step.
type Move struct {
	Database note.DatabaseID
	Kind     Kind
	From, To note.UNID
}

// Load is what a server has.
type Load struct {
	Server          note.UNID
	Databases, Home int
	// Activity is that of the databases whose home it is, Size that of its replicas.
	Activity float64
	Size     uint64
}

// The bounds of evenness, as shares of what would be even.
const (
	// begin is how far a server must be off before anything moves, settle how near all are brought once it does. Between
	// the two nothing moves to and fro.
	begin  = 0.25
	settle = 0.05
	// gain is the least by which a move must make things more even.
	gain = 1e-9
	// overhead is what a database counts for beside its bytes.
	overhead = 64 << 10
	// LeastActivity is how many operations a day all databases together must have before homes move: less is chance.
	LeastActivity = 50
)

// Options bound a plan.
type Options struct {
	// Most is how many moves there are at most; 0: any number.
	Most int
	// Fill fills servers that have less than half of what would be even, and does nothing else. It goes by the number of
	// databases.
	Fill bool
}

// board is the state while moves are tried.
type board struct {
	servers []Server
	open    []int // indexes of servers that take something, by id
	at      map[note.UNID]int
	sites   int
	dbs     []state
	moves   []Move
	most    int
}

type state struct {
	Database
	moved bool // its replicas are other than they were
}

// Plan decides. What moves together: a database whose replica moves to a server may get its home there in the same plan.
func Plan(servers []Server, dbs []Database, o Options) (moves []Move, before, after []Load) {
	b := newBoard(servers, dbs, o)
	before = b.loads()
	if len(b.open) > 1 {
		if !o.Fill {
			b.spread()
			b.homes()
		}
		b.replicas(o.Fill)
		if !o.Fill {
			b.homes()
		}
	}
	return b.result(dbs), before, b.loads()
}

func newBoard(servers []Server, dbs []Database, o Options) *board {
	b := &board{servers: slices.Clone(servers), at: map[note.UNID]int{}, most: o.Most}
	slices.SortFunc(b.servers, func(a, c Server) int { return a.ID.Compare(c.ID) })
	sites := map[string]bool{}
	for i := range b.servers {
		s := &b.servers[i]
		if s.Capacity <= 0 {
			s.Capacity = 1
		}
		b.at[s.ID] = i
		if !s.Closed {
			b.open = append(b.open, i)
			sites[s.Site] = true
		}
	}
	b.sites = len(sites)
	for _, d := range dbs {
		d.Replicas = slices.Clone(d.Replicas)
		for _, r := range d.Replicas {
			if _, known := b.at[r]; !known {
				d.Fixed = true // somebody who is no member is to be seen to first
			}
		}
		b.dbs = append(b.dbs, state{Database: d})
	}
	slices.SortFunc(b.dbs, func(a, c state) int { return cmp.Compare(a.ID, c.ID) })
	return b
}

// loads is what every server has, in order of their ids.
func (b *board) loads() []Load {
	out := make([]Load, len(b.servers))
	for i := range out {
		out[i].Server = b.servers[i].ID
	}
	for i := range b.dbs {
		d := &b.dbs[i]
		for k, r := range d.Replicas {
			at, known := b.at[r]
			if !known {
				continue
			}
			l := &out[at]
			l.Databases++
			l.Size += d.Size
			if k == 0 {
				l.Home++
				l.Activity += d.Activity
			}
		}
	}
	return out
}

// spreadOf is at how many sites servers are.
func (b *board) spreadOf(list []note.UNID) int {
	var seen []string
	for _, id := range list {
		if s := b.servers[b.at[id]].Site; !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
	}
	return len(seen)
}

// with is the replicas of a database after a move.
func with(list []note.UNID, from, to note.UNID) []note.UNID {
	out := slices.Clone(list)
	out[slices.Index(out, from)] = to
	return out
}

// full says that the plan is as long as it may be.
func (b *board) full() bool { return b.most > 0 && len(b.moves) >= b.most }

// moveReplica does one in the figures.
func (b *board) moveReplica(d *state, from, to int) {
	d.Replicas = with(d.Replicas, b.servers[from].ID, b.servers[to].ID)
	d.moved = true
	b.moves = append(b.moves, Move{d.ID, Replica, b.servers[from].ID, b.servers[to].ID})
}

// moveHome puts a server first in the order of a database.
func (b *board) moveHome(d *state, to int) {
	from, id := d.Replicas[0], b.servers[to].ID
	k := slices.Index(d.Replicas, id)
	d.Replicas = slices.Insert(slices.Delete(d.Replicas, k, k+1), 0, id)
	b.moves = append(b.moves, Move{d.ID, Home, from, id})
}

// spread moves replicas that stand at one site though there are others.
func (b *board) spread() {
	if b.sites < 2 {
		return
	}
	sizes := b.weights(bySize)
	for i := range b.dbs {
		d := &b.dbs[i]
		for !d.Fixed && !b.full() && b.spreadOf(d.Replicas) < min(len(d.Replicas), b.sites) {
			from, to := b.apart(d, sizes)
			if to < 0 {
				break
			}
			w := bySize(d)
			sizes[from], sizes[to] = sizes[from]-w, sizes[to]+w
			b.moveReplica(d, from, to)
		}
	}
}

// apart finds the replica to move, the last that shares its site with another, and where to: the emptiest server of a
// site that has none; -1: none.
func (b *board) apart(d *state, sizes []float64) (from, to int) {
	to = -1
	for k := len(d.Replicas) - 1; k >= 0 && to < 0; k-- {
		rest := slices.Delete(slices.Clone(d.Replicas), k, k+1)
		if b.spreadOf(rest) < b.spreadOf(d.Replicas) {
			continue
		}
		from = b.at[d.Replicas[k]]
		for _, s := range b.open {
			more := b.spreadOf(append(slices.Clone(rest), b.servers[s].ID)) > b.spreadOf(d.Replicas)
			if more && (to < 0 || sizes[s]/b.servers[s].Capacity < sizes[to]/b.servers[to].Capacity) {
				to = s
			}
		}
	}
	return from, to
}

func bySize(d *state) float64   { return float64(d.Size) + overhead }
func byNumber(*state) float64   { return 1 }
func activity(d *state) float64 { return d.Activity }

// weights sums what the replicas of every server weigh.
func (b *board) weights(weigh func(*state) float64) []float64 {
	out := make([]float64, len(b.servers))
	for i := range b.dbs {
		for _, r := range b.dbs[i].Replicas {
			if at, known := b.at[r]; known {
				out[at] += weigh(&b.dbs[i])
			}
		}
	}
	return out
}

// homes evens out activity.
func (b *board) homes() {
	load := make([]float64, len(b.servers))
	total := 0.0
	for i := range b.dbs {
		if d := &b.dbs[i]; len(d.Replicas) > 0 {
			if at, known := b.at[d.Replicas[0]]; known {
				load[at] += d.Activity
				total += d.Activity
			}
		}
	}
	if total < LeastActivity {
		return
	}
	b.even(load, activity, begin, func(d *state, from int) []int {
		if b.at[d.Replicas[0]] != from {
			return nil
		}
		var to []int
		for _, r := range d.Replicas[1:] {
			to = append(to, b.at[r])
		}
		return to
	}, func(d *state, _, to int) { b.moveHome(d, to) })
}

// replicas evens out what the servers hold. The home of a database keeps its replica, unless it is the only one.
func (b *board) replicas(fill bool) {
	weigh, off := bySize, begin
	if fill {
		weigh, off = byNumber, 0.5
	}
	load := b.weights(weigh)
	least := b.least(load)
	b.even(load, weigh, off, func(d *state, from int) []int {
		k := slices.Index(d.Replicas, b.servers[from].ID)
		if k < 0 || d.moved || k == 0 && len(d.Replicas) > 1 {
			return nil
		}
		var to []int
		for _, s := range b.open {
			id := b.servers[s].ID
			if slices.Contains(d.Replicas, id) || fill && s != least || b.spreadOf(with(d.Replicas, d.Replicas[k], id)) < b.spreadOf(d.Replicas) {
				continue
			}
			to = append(to, s)
		}
		return to
	}, b.moveReplica)
}

// least is the open server that has least for what it can take.
func (b *board) least(load []float64) int {
	out := b.open[0]
	for _, s := range b.open {
		if load[s]/b.servers[s].Capacity < load[out]/b.servers[out].Capacity {
			out = s
		}
	}
	return out
}

// even moves weights between the open servers until each has its share, or nothing makes it more even. where says to
// which servers a database may move from one; move does it.
func (b *board) even(load []float64, weigh func(*state) float64, off float64, where func(d *state, from int) []int, move func(d *state, from, to int)) {
	capacity, sum := 0.0, 0.0
	for _, s := range b.open {
		capacity += b.servers[s].Capacity
		sum += load[s]
	}
	if sum <= 0 {
		return
	}
	// ratio is 1 where a server has what would be even.
	ratio := func(s int) float64 { return load[s] / b.servers[s].Capacity * capacity / sum }
	uneven := func(by float64, both bool) bool {
		return slices.ContainsFunc(b.open, func(s int) bool { return both && ratio(s) > 1+by || ratio(s) < 1-by })
	}
	if !uneven(off, off == begin) {
		return
	}
	for uneven(settle, true) && !b.full() {
		d, from, to := b.best(ratio, capacity/sum, weigh, where)
		if d == nil {
			return
		}
		w := weigh(d)
		load[from], load[to] = load[from]-w, load[to]+w
		move(d, from, to)
	}
}

// best finds the move that makes it most even, from the fullest server that has one; nil: none.
func (b *board) best(ratio func(int) float64, unit float64, weigh func(*state) float64, where func(d *state, from int) []int) (d *state, from, to int) {
	order := slices.Clone(b.open)
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(ratio(y), ratio(x)) })
	for _, from = range order {
		top := gain
		for i := range b.dbs {
			x := &b.dbs[i]
			if x.Fixed || len(x.Replicas) == 0 {
				continue
			}
			w := weigh(x) * unit
			for _, t := range where(x, from) {
				if b.servers[t].Closed {
					continue
				}
				// The sum of the squares of the ratios, by capacity, falls by so much.
				cf, ct := b.servers[from].Capacity, b.servers[t].Capacity
				if g := 2*w*(ratio(from)-ratio(t)) - w*w*(1/cf+1/ct); g > top {
					d, to, top = x, t, g
				}
			}
		}
		if d != nil {
			return d, from, to
		}
	}
	return nil, 0, 0
}

// result is what is to be done to come from what was to what is now: a database that moved twice moves once.
func (b *board) result(was []Database) []Move {
	old := make(map[note.DatabaseID][]note.UNID, len(was))
	for _, d := range was {
		old[d.ID] = d.Replicas
	}
	touched := map[note.DatabaseID]bool{}
	for _, m := range b.moves {
		touched[m.Database] = true
	}
	var out []Move
	for i := range b.dbs {
		d := &b.dbs[i]
		if !touched[d.ID] {
			continue
		}
		had := old[d.ID]
		gone := slices.DeleteFunc(slices.Clone(had), func(id note.UNID) bool { return slices.Contains(d.Replicas, id) })
		come := slices.DeleteFunc(slices.Clone(d.Replicas), func(id note.UNID) bool { return slices.Contains(had, id) })
		for k := range min(len(gone), len(come)) {
			out = append(out, Move{d.ID, Replica, gone[k], come[k]})
		}
		if had[0] != d.Replicas[0] {
			out = append(out, Move{d.ID, Home, had[0], d.Replicas[0]})
		}
	}
	return out
}
