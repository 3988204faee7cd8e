package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"doublet/cluster/balance"
	"doublet/note"
	"doublet/store"
)

// Balance is what would make the cluster even, or has been begun so that it becomes so.
type Balance struct {
	Applied bool          `json:"applied"`
	Servers []BalanceLoad `json:"servers"`
	Moves   []BalanceMove `json:"moves"`
	// Silent are members that did not tell how much their databases are used: they count as they stand.
	Silent []string `json:"silent,omitempty"`
}

// BalanceLoad is what a member has and would have: databases with a replica, of those homes, the activity of these
// (operations a day), bytes.
type BalanceLoad struct {
	Server        string `json:"server"`
	Site          string `json:"site,omitempty"`
	Capacity      int    `json:"capacity"`
	Closed        bool   `json:"closed,omitempty"`
	Databases     int    `json:"databases"`
	DatabasesThen int    `json:"databases_then"`
	Homes         int    `json:"homes"`
	HomesThen     int    `json:"homes_then"`
	Activity      uint64 `json:"activity"`
	ActivityThen  uint64 `json:"activity_then"`
	Bytes         uint64 `json:"bytes"`
	BytesThen     uint64 `json:"bytes_then"`
}

// BalanceMove is one move.
type BalanceMove struct {
	Database string `json:"database"`
	Title    string `json:"title"`
	// What is home or replica.
	What     balance.Kind `json:"what"`
	From     string       `json:"from"`
	To       string       `json:"to"`
	Activity uint64       `json:"activity"`
	Bytes    uint64       `json:"bytes"`
}

// The most moves of one balance, and of one step of filling a server that is empty.
const (
	balanceMost = 1000
	fillMost    = 32
	// fillEvery is how often it is looked for one.
	fillEvery = 5 * time.Second
)

// Balance says which databases should move so that activity and replicas are even, and, where apply is set, has them
// moved: a home at its next open, a replica when the new one is whole.
func (n *Node) Balance(ctx context.Context, apply bool) (Balance, error) {
	known, silent := n.activities(ctx)
	n.mu.Lock()
	servers, dbs := n.figures(known)
	n.mu.Unlock()
	moves, before, after := balance.Plan(servers, dbs, balance.Options{Most: balanceMost})
	n.mu.Lock()
	out := Balance{Applied: apply, Servers: []BalanceLoad{}, Moves: []BalanceMove{}}
	for i, l := range before {
		m, then := n.members[l.Server], after[i]
		out.Servers = append(out.Servers, BalanceLoad{
			Server: m.Name, Site: m.Site, Capacity: m.capacity(), Closed: n.closed(&m),
			Databases: l.Databases, DatabasesThen: then.Databases, Homes: l.Home, HomesThen: then.Home,
			Activity: uint64(l.Activity), ActivityThen: uint64(then.Activity), Bytes: l.Size, BytesThen: then.Size,
		})
	}
	for _, m := range moves {
		e := n.catalog.entries[m.Database]
		out.Moves = append(out.Moves, BalanceMove{
			Database: m.Database.String(), Title: e.Title, What: m.Kind, From: n.members[m.From].Name, To: n.members[m.To].Name,
			Activity: uint64(known[m.Database].rate), Bytes: known[m.Database].size,
		})
	}
	for _, id := range silent {
		out.Silent = append(out.Silent, n.members[id].Name)
	}
	n.mu.Unlock()
	if !apply {
		return out, nil
	}
	return out, n.begin(ctx, moves)
}

// figures are what a plan is made of. Under mu.
func (n *Node) figures(known map[note.DatabaseID]usage) (servers []balance.Server, dbs []balance.Database) {
	for _, m := range n.members {
		if !m.Gateway {
			servers = append(servers, balance.Server{ID: m.ID, Capacity: float64(m.capacity()), Site: m.Site, Closed: n.closed(&m)})
		}
	}
	for _, db := range n.catalog.ids() {
		e := n.catalog.entries[db]
		if e.Deleted || n.everywhere(db) || len(e.Replicas) == 0 {
			continue
		}
		d := balance.Database{ID: db, Activity: known[db].rate, Size: known[db].size, Fixed: !n.settled(e)}
		for _, r := range e.Replicas {
			if r.State != Deleting { // it goes
				d.Replicas = append(d.Replicas, r.Server)
			}
		}
		switch _, has := e.On(e.Toward); {
		case e.Toward.IsZero() || has:
		case e.TowardFirst:
			d.Replicas = slices.Insert(d.Replicas, 0, e.Toward)
		default:
			d.Replicas = append(d.Replicas, e.Toward)
		}
		if len(d.Replicas) > 0 {
			dbs = append(dbs, d)
		}
	}
	return servers, dbs
}

// settled says that nothing is being done about the replicas of a database. Under mu.
func (n *Node) settled(e *Entry) bool {
	for _, r := range e.Replicas {
		if r.State != Serving || r.Life == 0 {
			return false
		}
	}
	return !e.Queue && e.Toward.IsZero() && len(e.Replicas) >= n.wanted(e)
}

// closed says that a member gets nothing. Under mu.
func (n *Node) closed(m *Member) bool {
	p := n.peers[m.ID]
	return m.State != Active || m.Gateway || m.Restricted || m.ID != n.self && (p == nil || !p.alive)
}

// begin has moves made: it writes them into the Cluster Database Directory. What has changed since they were planned
// stays as it is.
func (n *Node) begin(ctx context.Context, moves []balance.Move) error {
	by := map[note.DatabaseID][]balance.Move{}
	var ids []note.DatabaseID
	for _, m := range moves {
		if by[m.Database] == nil {
			ids = append(ids, m.Database)
		}
		by[m.Database] = append(by[m.Database], m)
	}
	for list := range slices.Chunk(ids, enterAtOnce) {
		err := n.editAll(ctx, list, func(e *Entry) error {
			for _, m := range by[e.ID] {
				e.move(m)
			}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	if len(ids) > 0 {
		n.log(slog.LevelInfo, "databases move so that servers are used evenly", "databases", len(ids))
		n.wake.fire()
	}
	return nil
}

// move writes a move into an entry.
func (e *Entry) move(m balance.Move) {
	from, has := e.On(m.From)
	_, there := e.On(m.To)
	switch {
	case m.Kind == balance.Replica && has && from.State == Serving && !there && e.Toward.IsZero():
		e.Toward, e.TowardFirst = m.To, false
		e.set(m.From, func(r *Replica) { r.State = Deleting })
	case m.Kind == balance.Home && e.Toward == m.To:
		e.TowardFirst = true
	case m.Kind == balance.Home && there:
		first := e.Replicas[0].Order
		e.set(m.To, func(r *Replica) { r.Order = first - 1 })
	}
}

// fill gives a server that has little its share of replicas, some at a time. The home of the Cluster Database Directory
// alone does it, so that one server decides.
func (n *Node) fill(ctx context.Context) error {
	n.mu.Lock()
	h := n.held[ID]
	if h == nil || !h.leads || n.now().Sub(n.filled) < fillEvery {
		n.mu.Unlock()
		return nil
	}
	n.filled = n.now()
	for _, p := range n.peers {
		if !p.alive || !p.caught {
			n.mu.Unlock()
			return nil // first everybody has what he should have
		}
	}
	servers, dbs := n.fillable()
	lacking := n.lacking(dbs)
	n.mu.Unlock()
	if !lacking || moving(dbs) >= fillMost {
		return nil
	}
	moves, _, _ := balance.Plan(servers, dbs, balance.Options{Fill: true, Most: fillMost})
	return n.begin(ctx, moves)
}

// fillable is figures without the queues: those come with their servers, and none moves, so that how the others are shared does
// not depend on them. Under mu.
func (n *Node) fillable() (servers []balance.Server, dbs []balance.Database) {
	servers, dbs = n.figures(nil)
	return servers, slices.DeleteFunc(dbs, func(d balance.Database) bool { return n.catalog.entries[d.ID].Queue })
}

// moving counts the databases of which replicas come or go.
func moving(dbs []balance.Database) (count int) {
	for i := range dbs {
		if dbs[i].Fixed {
			count++
		}
	}
	return count
}

// lacking says whether an open member has less than half of its share of replicas. Under mu.
func (n *Node) lacking(dbs []balance.Database) bool {
	load := map[note.UNID]int{}
	for i := range dbs {
		for _, r := range dbs[i].Replicas {
			load[r]++
		}
	}
	sum, capacity := 0.0, 0.0
	for _, m := range n.members {
		if !n.closed(&m) {
			sum, capacity = sum+float64(load[m.ID]), capacity+float64(m.capacity())
		}
	}
	for _, m := range n.members {
		if !n.closed(&m) && float64(load[m.ID]) < sum*float64(m.capacity())/capacity/2 {
			return true
		}
	}
	return false
}

// SetReplicas says how many replicas a database is to have; 0: as many as databases have by default.
func (n *Node) SetReplicas(ctx context.Context, db note.DatabaseID, number int) error {
	if number < 0 || number > note.Slots || n.everywhere(db) {
		return fmt.Errorf("a database has 1 to %d replicas, and the directories are everywhere", note.Slots)
	}
	return n.edit(ctx, db, func(e *Entry) error {
		if e.Queue && !e.Owner.IsZero() {
			return fmt.Errorf("database %s is the queue of %s: it has as many replicas as is usual in the cluster", db, n.name(e.Owner))
		}
		e.Wanted = number
		return nil
	})
}
