package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
)

// Status is the state of the cluster as this server sees it. The command show cluster prints it.
type Status struct {
	Cluster string       `json:"cluster"`
	Server  string       `json:"server"`
	Serving bool         `json:"serving"`
	Members []MemberView `json:"members"`
	// Databases counts the local replicas. Led counts those that are primary (home) here, Homeless those without a
	// primary.
	Databases int `json:"databases"`
	Led       int `json:"led"`
	Homeless  int `json:"homeless"`
	// Waiting counts the databases to be sent to mates.
	Waiting int `json:"waiting"`
	// Degraded counts the commits that were acknowledged without a confirmation by a mate.
	Degraded uint64 `json:"degraded"`
	// Events are the open events.
	Events []Event `json:"events,omitempty"`
}

// MemberView is the state of one member as this server sees it.
type MemberView struct {
	ID    note.UNID   `json:"-"`
	Name  string      `json:"name"`
	Self  bool        `json:"self,omitempty"`
	State MemberState `json:"state"`
	Alive bool        `json:"alive"`
	// Serving means that it has caught up since it started.
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
	// Waiting counts the databases to be sent to it. Lag is the time for which the oldest has waited.
	Waiting int           `json:"waiting"`
	Lag     time.Duration `json:"lag"`
	// Twin is the address of a second process that uses its certificate.
	Twin string `json:"twin,omitempty"`
	// Error is the last error of sending to it.
	Error string `json:"error,omitempty"`
	// Version is the version of its messages.
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

// reporter collects the state of the parts for display.
type reporter struct {
	*core
	events *events
	opens  *Opens
}

// status returns the cluster as this server sees it.
func (r *reporter) status() Status {
	twins := map[note.UNID]string{}
	for _, p := range r.bus.Peers() {
		twins[p.ID] = p.Twin
	}
	v := r.members.view()
	me, mine := v.members[r.self], r.members.hello(note.UNID{})
	s := Status{
		Cluster: r.opt.Cluster, Server: me.Name, Serving: mine.serving, Databases: int(mine.databases),
		Led:      int(mine.leads),
		Degraded: r.stat.ackDegraded.Value(),
	}
	_, s.Homeless = r.holdings.count((*held).homeless)
	self := viewOf(&me, &mine)
	self.Self, self.Alive = true, true
	s.Members = append(s.Members, self)
	for _, id := range v.mates {
		m, p := v.members[id], v.peers[id]
		x := viewOf(&m, &p.hello)
		x.Alive, x.RTT, x.Twin = p.alive, p.rtt, twins[id]
		if l := r.links.get(id); l != nil {
			w := l.state(v.now)
			x.Waiting, x.Lag, x.Error = w.databases, w.lag, w.trouble
		}
		s.Waiting += x.Waiting
		s.Members = append(s.Members, x)
	}
	s.Events = r.events.list()
	slices.SortFunc(s.Members, func(a, b MemberView) int { return a.ID.Compare(b.ID) })
	return s
}

func viewOf(m *Member, h *hello) MemberView {
	return MemberView{
		ID: m.ID, Name: m.Name, State: m.State, Serving: h.serving, Restricted: h.restricted, Full: h.full,
		Busy:  h.busy(),
		Index: int(h.index), Threshold: int(h.threshold), Users: int(h.users), Databases: int(h.databases),
		Led:     int(h.leads),
		Version: int(h.version), Gateway: m.Gateway, Site: m.Site, Capacity: m.Capacity,
	}
}

// databases implements Node.Databases.
func (r *reporter) databases(
	ctx context.Context, after note.DatabaseID, limit int,
) (list []DatabaseView, next note.DatabaseID) {
	v := r.members.view()
	asks := map[note.UNID][]note.DatabaseID{}
	at := map[note.DatabaseID]int{}
	ids := r.catalogue.ids()
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	for ; i < len(ids); i++ {
		if len(list) == limit {
			next = ids[i-1]
			break
		}
		e, h := r.catalogue.get(ids[i]), r.holdings.get(ids[i])
		if h == nil {
			if from := v.holders(e); len(from) > 0 {
				asks[from[0]] = append(asks[from[0]], e.ID)
				at[e.ID] = len(list)
			}
		}
		list = append(list, v.show(e, h))
	}
	for server, dbs := range asks {
		for some := range slices.Chunk(dbs, maxPositions) {
			places, _ := r.askPlaces(ctx, server, verbWhere, some...) // without an answer the primary is not shown
			for _, p := range places {
				if k, ok := at[p.db]; ok && !p.server.IsZero() {
					list[k].Home = r.opens.place(p.server).Name
				}
			}
		}
	}
	return list, next
}

// show returns the view of a database. h is the local replica, nil if there is none.
func (v view) show(e *Entry, h *held) DatabaseView {
	out := DatabaseView{ID: e.ID.String(), Title: e.Title, Kind: e.Kind, Deleted: e.Deleted}
	if h != nil {
		out.Home = v.members[v.primary(h)].Name
	}
	for _, r := range e.Replicas {
		out.Replicas = append(out.Replicas, ReplicaView{Server: v.members[r.Server].Name, Slot: int(r.Slot),
			State: r.State})
	}
	return out
}

// explain returns a line about each local database, for debugging.
func (r *reporter) explain() (out []string) {
	v := r.members.view()
	for h := range r.holdings.all() {
		line := fmt.Sprintf("%s leads=%v out=%v lost=%v unsure=%v %s",
			h.db, h.leads, h.out, !h.orphaned.IsZero(), h.lostNumbers, positionText(&h.pos))
		if e := r.catalogue.get(h.db); e != nil {
			for _, x := range e.Replicas {
				line += fmt.Sprintf(" [%s slot %d %s", v.members[x.Server].Name, x.Slot, x.State)
				if t, ok := h.reports[x.Server]; ok {
					line += fmt.Sprintf(" leads=%v missing=%v %s", t.leads, t.missing, positionText(&t.pos))
				}
				line += "]"
			}
		}
		out = append(out, line)
	}
	return out
}

// positionText formats a position: term.slot/counter, UID, and then the ends of earlier terms.
func positionText(p *store.Position) string {
	text := fmt.Sprintf("%d.%d/%d uid %d", p.Last.Term()/note.Slots, p.Last.Home(), uint64(p.Last)&(1<<33-1), p.UID)
	if p.Partial {
		text += fmt.Sprintf(" partial up to %d of %d", p.Complete, p.High)
	}
	if p.Away {
		text += " away"
	}
	for _, e := range p.Ended {
		text += fmt.Sprintf(" <%d.%d/%d uid %d>", e.Last.Term()/note.Slots, e.Last.Home(),
			uint64(e.Last)&(1<<33-1), e.UID)
	}
	return text
}
