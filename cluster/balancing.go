package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"doublet/cluster/balance"
	"doublet/note"
	"doublet/store"
)

// Balance is a plan that distributes the load evenly over the members. Applied means that its moves were started.
type Balance struct {
	Applied bool          `json:"applied"`
	Servers []BalanceLoad `json:"servers"`
	Moves   []BalanceMove `json:"moves"`
	// Silent lists the members that did not report the use of their databases; their share counts as zero.
	Silent []string `json:"silent,omitempty"`
}

// BalanceLoad is the load of a member now and after the moves. It counts the databases with a replica there, those that
// have their primary there (homes), the activity of the latter in operations a day, and bytes.
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
	// What is the kind of move: home (the primary) or replica.
	What     balance.Kind `json:"what"`
	From     string       `json:"from"`
	To       string       `json:"to"`
	Activity uint64       `json:"activity"`
	Bytes    uint64       `json:"bytes"`
}

// Maximum number of moves of one balance, and of moves in progress for filling a member that has few replicas.
const (
	balanceMost = 1000
	fillMost    = 32
	// fillEvery is the time between two checks for such members.
	fillEvery = 5 * time.Second
)

// Balance plans the moves that distribute activity and replicas evenly. If apply is true, it starts them: the primary
// of a database moves at the next open, a replica when the new one is complete.
func (p *Placement) Balance(ctx context.Context, apply bool) (Balance, error) {
	known, silent := p.activity.everywhere(ctx)
	v := p.members.view()
	servers, dbs := p.figures(v, known)
	moves, before, after := balance.Plan(servers, dbs, balance.Options{Most: balanceMost})
	out := Balance{Applied: apply, Servers: []BalanceLoad{}, Moves: []BalanceMove{}}
	for i, l := range before {
		m, then := v.members[l.Server], after[i]
		out.Servers = append(out.Servers, BalanceLoad{
			Server: m.Name, Site: m.Site, Capacity: m.capacity(), Closed: v.closed(&m),
			Databases: l.Databases, DatabasesThen: then.Databases, Homes: l.Home, HomesThen: then.Home,
			Activity: uint64(l.Activity), ActivityThen: uint64(then.Activity), Bytes: l.Size, BytesThen: then.Size,
		})
	}
	for _, m := range moves {
		e, u := p.catalogue.get(m.Database), known[m.Database]
		out.Moves = append(out.Moves, BalanceMove{
			Database: m.Database.String(), Title: e.Title, What: m.Kind,
			From: v.members[m.From].Name, To: v.members[m.To].Name, Activity: uint64(u.rate), Bytes: u.size,
		})
	}
	for _, id := range silent {
		out.Silent = append(out.Silent, v.members[id].Name)
	}
	if !apply {
		return out, nil
	}
	return out, p.begin(ctx, moves)
}

// figures returns the input for a plan.
func (p *Placement) figures(
	v view, known map[note.DatabaseID]usage,
) (servers []balance.Server, dbs []balance.Database) {
	for _, m := range v.members {
		if !m.Gateway {
			servers = append(servers, balance.Server{
				ID: m.ID, Capacity: float64(m.capacity()), Site: m.Site, Closed: v.closed(&m),
			})
		}
	}
	for e := range p.catalogue.all() {
		if e.Deleted || p.opt.everywhere(e.ID) || len(e.Replicas) == 0 {
			continue
		}
		u := known[e.ID]
		d := balance.Database{ID: e.ID, Activity: u.rate, Size: u.size, Fixed: !v.settled(e)}
		for _, r := range e.Replicas {
			if r.State != Deleting {
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

// settled reports whether the replicas of a database are complete and none is being added or removed. It is false for a
// queue, which must not move.
func (v view) settled(e *Entry) bool {
	for _, r := range e.Replicas {
		if r.State != Serving || r.Incarnation == 0 {
			return false
		}
	}
	return !e.Queue && e.Toward.IsZero() && len(e.Replicas) >= v.wanted(e)
}

// begin writes moves to the Cluster Database Directory. It skips a database whose replicas have changed since the plan.
func (p *Placement) begin(ctx context.Context, moves []balance.Move) error {
	by := map[note.DatabaseID][]balance.Move{}
	var ids []note.DatabaseID
	for _, m := range moves {
		if by[m.Database] == nil {
			ids = append(ids, m.Database)
		}
		by[m.Database] = append(by[m.Database], m)
	}
	for list := range slices.Chunk(ids, editAtOnce) {
		err := p.catalogue.editAll(ctx, list, func(e *Entry) error {
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
		p.log(slog.LevelInfo, "moving databases to balance the servers", "databases", len(ids))
		p.wake.fire()
	}
	return nil
}

// fill moves replicas to members that have few, a limited number at a time. Only the primary of the Cluster Database
// Directory does so, so that one server decides.
func (p *Placement) fill(ctx context.Context) error {
	v := p.members.view()
	if h := p.holdings.get(ID); h == nil || !h.leads || v.now.UnixNano()-p.filled.Load() < int64(fillEvery) {
		return nil
	}
	p.filled.Store(v.now.UnixNano())
	for id := range v.peers {
		if !v.alive(id) || !p.links.caught(id) {
			return nil // let the replication in progress finish first
		}
	}
	servers, dbs := p.fillable(v)
	if !v.lacking(dbs) || moving(dbs) >= fillMost {
		return nil
	}
	moves, _, _ := balance.Plan(servers, dbs, balance.Options{Fill: true, Most: fillMost})
	return p.begin(ctx, moves)
}

// fillable is figures without the queues. A queue belongs to its server and never moves, so it does not count toward
// the share of a member.
func (p *Placement) fillable(v view) (servers []balance.Server, dbs []balance.Database) {
	servers, dbs = p.figures(v, nil)
	return servers, slices.DeleteFunc(dbs, func(d balance.Database) bool { return p.catalogue.get(d.ID).Queue })
}

// moving counts the databases that are fixed, because replicas of them are being added or removed.
func moving(dbs []balance.Database) (count int) {
	for i := range dbs {
		if dbs[i].Fixed {
			count++
		}
	}
	return count
}

// lacking reports whether an open member has less than half of its share of replicas.
func (v view) lacking(dbs []balance.Database) bool {
	load := map[note.UNID]int{}
	for i := range dbs {
		for _, r := range dbs[i].Replicas {
			load[r]++
		}
	}
	sum, capacity := 0.0, 0.0
	for _, m := range v.members {
		if !v.closed(&m) {
			sum, capacity = sum+float64(load[m.ID]), capacity+float64(m.capacity())
		}
	}
	for _, m := range v.members {
		if !v.closed(&m) && float64(load[m.ID]) < sum*float64(m.capacity())/capacity/2 {
			return true
		}
	}
	return false
}
