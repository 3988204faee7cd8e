// Package balance plans moves of databases that distribute the load evenly over the servers of a cluster. It
// distributes homes (primary replicas) by activity and replicas by size, each in proportion to the capacity of the
// servers. Plan is a pure function: equal input gives equal moves, and the state after all moves gives none.
package balance

import (
	"cmp"
	"slices"

	"doublet/note"
)

// Server is a member of the cluster.
type Server struct {
	ID note.UNID
	// Capacity is relative to the other servers; 0 and less count as 1.
	Capacity float64
	// Site is the location of the server. The replicas of a database are placed at different sites if possible. "" is
	// an ordinary site.
	Site string
	// Closed servers receive nothing: they are leaving, silent, restricted, or gateways.
	Closed bool
}

// Database is one database of the cluster.
type Database struct {
	ID note.DatabaseID
	// Activity is the number of operations a day.
	Activity float64
	// Size is the size of one replica in bytes.
	Size uint64
	// Replicas are the servers with a replica in order of preference. The first one is the home.
	Replicas []note.UNID
	// Fixed databases count as load but are not moved.
	Fixed bool
}

// Kind is the kind of a move.
type Kind string

// Kinds of moves.
const (
	// Home makes To the first in the order of preference, where From was. Both have a replica, or To gets one by
	// another move of the same plan.
	Home Kind = "home"
	// Replica adds a replica at To and, when it is complete, removes the one at From.
	Replica Kind = "replica"
)

// Move is one move of a plan.
type Move struct {
	Database note.DatabaseID
	Kind     Kind
	From, To note.UNID
}

// Load is the load of a server.
type Load struct {
	Server          note.UNID
	Databases, Home int
	// Activity is the activity of the databases that have their home on the server. Size is the size of its replicas in
	// bytes.
	Activity float64
	Size     uint64
}

// Thresholds, relative to an even share.
const (
	// begin is the deviation at which moves start, and settle the deviation at which they stop. The gap between the two
	// prevents databases from moving back and forth.
	begin  = 0.25
	settle = 0.05
	// gain is the minimum improvement of a move.
	gain = 1e-9
	// overhead is added to the size of each database, in bytes.
	overhead = 64 << 10
	// LeastActivity is the total of operations a day below which homes do not move, because the figures are then
	// random.
	LeastActivity = 50
)

// Options limit a plan.
type Options struct {
	// Most is the maximum number of moves; 0: unlimited.
	Most int
	// Fill only fills servers that have less than half of an even share of replicas, counted by number of databases.
	Fill bool
}

// board is the state during planning.
type board struct {
	servers []Server
	open    []int // indexes of servers that are not closed, by id
	at      map[note.UNID]int
	sites   int
	dbs     []state
	moves   []Move
	most    int
}

type state struct {
	Database
	moved bool // its set of replicas has changed
}

// Plan returns the moves, and the loads before and after them. One plan may move both the replica and the home of a
// database to the same server.
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
				d.Fixed = true // a replica on a server that is not a member has to be replaced first
			}
		}
		b.dbs = append(b.dbs, state{Database: d})
	}
	slices.SortFunc(b.dbs, func(a, c state) int { return cmp.Compare(a.ID, c.ID) })
	return b
}

// loads returns the load of every server, ordered by id.
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

// spreadOf returns the number of different sites in a list of servers.
func (b *board) spreadOf(list []note.UNID) int {
	var seen []string
	for _, id := range list {
		if s := b.servers[b.at[id]].Site; !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
	}
	return len(seen)
}

// with returns a list of replicas with from replaced by to.
func with(list []note.UNID, from, to note.UNID) []note.UNID {
	out := slices.Clone(list)
	out[slices.Index(out, from)] = to
	return out
}

// full reports whether the plan has reached the maximum number of moves.
func (b *board) full() bool { return b.most > 0 && len(b.moves) >= b.most }

// moveReplica adds the move of a replica to the plan.
func (b *board) moveReplica(d *state, from, to int) {
	d.Replicas = with(d.Replicas, b.servers[from].ID, b.servers[to].ID)
	d.moved = true
	b.moves = append(b.moves, Move{d.ID, Replica, b.servers[from].ID, b.servers[to].ID})
}

// moveHome adds the move of a home to the plan.
func (b *board) moveHome(d *state, to int) {
	from, id := d.Replicas[0], b.servers[to].ID
	k := slices.Index(d.Replicas, id)
	d.Replicas = slices.Insert(slices.Delete(d.Replicas, k, k+1), 0, id)
	b.moves = append(b.moves, Move{d.ID, Home, from, id})
}

// spread moves replicas that share a site while another site has none.
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

// apart returns the replica to move and the destination. The replica is the last one that shares its site with another.
// The destination is the least loaded server at a site without a replica; -1: there is none.
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

// weights returns the total weight of the replicas of each server.
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

// homes distributes the activity evenly.
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

// replicas distributes the replicas evenly. It does not move the replica at the home unless it is the only one.
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
			if slices.Contains(d.Replicas, id) || fill && s != least ||
				b.spreadOf(with(d.Replicas, d.Replicas[k], id)) < b.spreadOf(d.Replicas) {
				continue
			}
			to = append(to, s)
		}
		return to
	}, b.moveReplica)
}

// least returns the open server with the least load relative to its capacity.
func (b *board) least(load []float64) int {
	out := b.open[0]
	for _, s := range b.open {
		if load[s]/b.servers[s].Capacity < load[out]/b.servers[out].Capacity {
			out = s
		}
	}
	return out
}

// even moves databases between the open servers until each has its share or no move is an improvement. It does nothing
// if no server deviates by more than off. where returns the servers to which a database may move from one; move
// performs a move.
func (b *board) even(load []float64, weigh func(*state) float64, off float64, where func(d *state, from int) []int,
	move func(d *state, from, to int)) {
	capacity, sum := 0.0, 0.0
	for _, s := range b.open {
		capacity += b.servers[s].Capacity
		sum += load[s]
	}
	if sum <= 0 {
		return
	}
	// ratio is 1 for a server with exactly its share.
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

// best returns the move with the largest improvement from the most loaded server that has any; nil: there is none.
func (b *board) best(ratio func(int) float64, unit float64, weigh func(*state) float64,
	where func(d *state, from int) []int) (d *state, from, to int) {
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
				// g is the decrease of the sum of squared ratios, weighted by capacity.
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

// result returns the moves from the original state to the current one. A database that moved twice gets one move.
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
