package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
)

// Status is the cluster as this server sees it: what show cluster prints.
type Status struct {
	Cluster string       `json:"cluster"`
	Server  string       `json:"server"`
	Serving bool         `json:"serving"`
	Members []MemberView `json:"members"`
	// Databases are those with a replica here; Led of them have their home here, Homeless have none.
	Databases int `json:"databases"`
	Led       int `json:"led"`
	Homeless  int `json:"homeless"`
	// Waiting is how many databases wait for replication to mates.
	Waiting int `json:"waiting"`
	// Degraded commits were acknowledged though no mate had confirmed them.
	Degraded uint64 `json:"degraded"`
	// Events are those that are not over.
	Events []Event `json:"events,omitempty"`
}

// MemberView is one member as this server sees it.
type MemberView struct {
	ID    note.UNID   `json:"-"`
	Name  string      `json:"name"`
	Self  bool        `json:"self,omitempty"`
	State MemberState `json:"state"`
	Alive bool        `json:"alive"`
	// Serving: it has caught up since it started.
	Serving    bool          `json:"serving"`
	Restricted bool          `json:"restricted,omitempty"`
	Gateway    bool          `json:"gateway,omitempty"`
	Site       string        `json:"site,omitempty"`
	Capacity   int           `json:"capacity,omitempty"`
	Full       bool          `json:"full,omitempty"`
	Busy       bool          `json:"busy,omitempty"`
	Index      int           `json:"availability_index"`
	Threshold  int           `json:"threshold,omitempty"`
	Users      int           `json:"users"`
	Databases  int           `json:"databases"`
	Led        int           `json:"led"`
	RTT        time.Duration `json:"probe_time"`
	// Waiting databases are to be sent to it; Lag is how long the oldest of them has waited.
	Waiting int           `json:"waiting"`
	Lag     time.Duration `json:"lag"`
	// Twin says that two processes show its certificate.
	Twin string `json:"twin,omitempty"`
	// Error is why databases wait, where sending failed.
	Error string `json:"error,omitempty"`
	// Version is what it speaks.
	Version int `json:"version,omitempty"`
}

// DatabaseView is one database with its replicas.
type DatabaseView struct {
	ID       string        `json:"id"`
	Title    string        `json:"title"`
	Kind     string        `json:"kind"`
	Home     string        `json:"home,omitempty"`
	Deleted  bool          `json:"deleted,omitempty"`
	Replicas []ReplicaView `json:"replicas"`
}

// ReplicaView is one replica of a database.
type ReplicaView struct {
	Server string       `json:"server"`
	Slot   int          `json:"slot"`
	State  ReplicaState `json:"state"`
}

// Status tells how the cluster stands.
func (n *Node) Status() Status {
	twins := map[note.UNID]string{}
	for _, p := range n.bus.Peers() {
		twins[p.ID] = p.Twin
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	me := n.members[n.self]
	mine := n.hello(nil)
	s := Status{Cluster: n.opt.Cluster, Server: me.Name, Serving: n.serving, Databases: len(n.held), Degraded: n.stat.ackDegraded.Value()}
	for _, h := range n.held {
		switch {
		case h.leads:
			s.Led++
		case !h.lost.IsZero():
			s.Homeless++
		}
	}
	self := viewOf(&me, &mine)
	self.Self, self.Alive = true, true
	s.Members = append(s.Members, self)
	now := n.now()
	for _, id := range n.mates() {
		m, p := n.members[id], n.peers[id]
		v := viewOf(&m, &p.hello)
		v.Alive, v.RTT, v.Twin = p.alive, p.rtt, twins[id]
		for _, r := range p.reps {
			waiting, oldest, err := r.state()
			v.Waiting += waiting
			if waiting > 0 {
				v.Lag = max(v.Lag, now.Sub(oldest))
			}
			if err != "" {
				v.Error = err
			}
		}
		s.Waiting += v.Waiting
		s.Members = append(s.Members, v)
	}
	s.Events = slices.DeleteFunc(n.events.list(), func(e Event) bool { return !e.Until.IsZero() })
	slices.SortFunc(s.Members, func(a, b MemberView) int { return a.ID.Compare(b.ID) })
	return s
}

func viewOf(m *Member, h *hello) MemberView {
	return MemberView{
		ID: m.ID, Name: m.Name, State: m.State, Serving: h.serving, Restricted: h.restricted, Full: h.full, Busy: h.busy(),
		Index: int(h.index), Threshold: int(h.threshold), Users: int(h.users), Databases: int(h.databases), Led: int(h.leads),
		Version: int(h.version), Gateway: m.Gateway, Site: m.Site, Capacity: m.Capacity,
	}
}

// Databases lists databases of the cluster by id, from behind one on, at most limit, and says where to go on; 0: at
// the end. The homes of those that are not here it asks of mates that have them.
func (n *Node) Databases(ctx context.Context, after note.DatabaseID, limit int) (list []DatabaseView, next note.DatabaseID) {
	asks := map[note.UNID][]note.DatabaseID{}
	at := map[note.DatabaseID]int{}
	n.mu.Lock()
	ids := n.catalog.ids()
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	for ; i < len(ids); i++ {
		if len(list) == limit {
			next = ids[i-1]
			break
		}
		e := n.catalog.entries[ids[i]]
		v := DatabaseView{ID: e.ID.String(), Title: e.Title, Kind: e.Kind, Deleted: e.Deleted}
		h := n.held[e.ID]
		if h != nil {
			if home := n.homeOf(h); !home.IsZero() {
				v.Home = n.members[home].Name
			}
		}
		for _, r := range e.Replicas {
			v.Replicas = append(v.Replicas, ReplicaView{Server: n.members[r.Server].Name, Slot: int(r.Slot), State: r.State})
			if p := n.peers[r.Server]; h == nil && p != nil && p.alive && at[e.ID] == 0 {
				asks[r.Server] = append(asks[r.Server], e.ID)
				at[e.ID] = len(list) + 1
			}
		}
		list = append(list, v)
	}
	n.mu.Unlock()
	for server, dbs := range asks {
		for some := range slices.Chunk(dbs, maxPositions) {
			answer, err := n.ask(ctx, server, verbWhere, appendDatabases(some))
			if err != nil {
				continue // its home is not known now
			}
			places, err := readPlaces(answer)
			if err != nil {
				continue
			}
			for _, p := range places {
				if k := at[p.db]; k > 0 && !p.server.IsZero() {
					list[k-1].Home = n.place(p.server).Name
				}
			}
		}
	}
	return list, next
}

// Explain says of every database here where it stands, for people who look for a mistake.
func (n *Node) Explain() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, db := range n.heldIDs() {
		h := n.held[db]
		line := fmt.Sprintf("%s leads=%v out=%v lost=%v unsure=%v %s", db, h.leads, h.out, !h.lost.IsZero(), h.unsure, standText(&h.pos))
		if e := n.catalog.entries[db]; e != nil {
			for _, r := range e.Replicas {
				line += fmt.Sprintf(" [%s slot %d %s", n.members[r.Server].Name, r.Slot, r.State)
				if t, ok := h.told[r.Server]; ok {
					line += fmt.Sprintf(" leads=%v missing=%v %s", t.leads, t.missing, standText(&t.pos))
				}
				line += "]"
			}
		}
		out = append(out, line)
	}
	return out
}

func standText(p *store.Position) string {
	text := fmt.Sprintf("%d.%d/%d uid %d", p.Last.Term()/note.Slots, p.Last.Home(), uint64(p.Last)&(1<<33-1), p.UID)
	if p.Partial {
		text += fmt.Sprintf(" partial up to %d of %d", p.Complete, p.High)
	}
	if p.Away {
		text += " away"
	}
	for _, e := range p.Ended {
		text += fmt.Sprintf(" <%d.%d/%d uid %d>", e.Last.Term()/note.Slots, e.Last.Home(), uint64(e.Last)&(1<<33-1), e.UID)
	}
	return text
}
