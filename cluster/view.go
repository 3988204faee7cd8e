package cluster

import (
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
)

// view is the membership at one moment, with the time and the settings. Its methods are pure. They are the rules on
// members, liveness and replicas that several parts use.
type view struct {
	*snapshot
	self  note.UNID
	opt   *Options
	start time.Time // the start time of this process
	now   time.Time
}

// everywhere reports whether every member has a replica of a database.
func (o *Options) everywhere(db note.DatabaseID) bool {
	return isDirectory(db) || slices.ContainsFunc(o.Everywhere, func(c store.Create) bool { return c.ID == db })
}

// name returns the name of a server, or its id if it is not a member.
func (v view) name(id note.UNID) string {
	if m := v.members[id]; m.Name != "" {
		return m.Name
	}
	return id.String()
}

// alive reports whether a mate answers probes.
func (v view) alive(id note.UNID) bool {
	p := v.peers[id]
	return p != nil && p.alive
}

// gone reports whether a server is certainly dead for this part of the cluster: neither this server nor any mate that
// answers this server has heard from it for DeadAfter.
func (v view) gone(id note.UNID) bool {
	p := v.peers[id]
	if p == nil {
		return true // not a member
	}
	if p.alive || p.heard.IsZero() && v.now.Sub(v.start) <= v.opt.DeadAfter {
		return false
	}
	for _, o := range v.peers {
		if o == p || !o.alive || o.helloAt.IsZero() {
			continue
		}
		for _, h := range o.hello.hears {
			if h.server == id && h.age+v.now.Sub(o.helloAt) <= v.opt.DeadAfter {
				return false
			}
		}
	}
	return true
}

// starting reports whether this server started recently and some mates have not answered it yet. Those may be alive and
// hear mates that this server does not.
func (v view) starting() bool {
	if v.now.Sub(v.start) > v.opt.StartWait {
		return false
	}
	for _, p := range v.peers {
		if p.heard.IsZero() {
			return true
		}
	}
	return len(v.peers) == 0 // the members have not been read yet
}

// holders lists the live mates that have a replica of a database, in order of preference.
func (v view) holders(e *Entry) (out []note.UNID) {
	for _, r := range e.Replicas {
		if v.alive(r.Server) {
			out = append(out, r.Server)
		}
	}
	return out
}

// newer reports whether the previous version of the program keeps a database local to each server. That version has no
// replicas of Options.Everywhere, nor of queues that have an owner.
func (v view) newer(e *Entry) bool {
	return !isDirectory(e.ID) && v.opt.everywhere(e.ID) || e.Queue && !e.Owner.IsZero()
}

// takes reports whether a mate's version of the program is known to accept replicas of a database.
func (v view) takes(id note.UNID, e *Entry) bool {
	if !v.newer(e) {
		return true
	}
	p := v.peers[id]
	return p != nil && p.hello.common
}

// refuses reports whether a mate's version of the program is known not to accept replicas of a database.
func (v view) refuses(id note.UNID, e *Entry) bool {
	p := v.peers[id]
	return p != nil && !p.helloAt.IsZero() && !v.takes(id, e)
}

// closed reports whether a member gets no new databases and users.
func (v view) closed(m *Member) bool {
	return m.State != Active || m.Gateway || m.Restricted || m.ID != v.self && !v.alive(m.ID)
}

// wanted returns the number of replicas that a database should have.
func (v view) wanted(e *Entry) int {
	all, servers := 0, 0
	for _, m := range v.members {
		if m.State == Active && !v.refuses(m.ID, e) {
			all++
			// A gateway has no replicas except those of its own queue.
			if !m.Gateway || e.Queue && m.ID == e.Owner {
				servers++
			}
		}
	}
	if v.opt.everywhere(e.ID) {
		return min(all, note.Slots)
	}
	if e.Wanted > 0 {
		return min(servers, e.Wanted, note.Slots)
	}
	return min(servers, v.opt.Replicas)
}

// primary returns the live server that leads a database, as far as known here; zero if none does.
func (v view) primary(h *held) note.UNID {
	if h.leads {
		return v.self
	}
	top, primary := lineOf(&h.pos.Ledger), note.UNID{}
	for id, r := range h.reports {
		if l := lineOf(&r.pos.Ledger); !l.before(top) && r.leads && v.alive(id) {
			top, primary = l, id
		}
	}
	return primary
}

// primaryLives reports whether a live mate recently reported that it leads a database on the latest known line, and the
// local replica has nothing that this line lacks.
func (v view) primaryLives(h *held) bool {
	top := lineOf(&h.pos.Ledger)
	for _, r := range h.reports {
		if l := lineOf(&r.pos.Ledger); top.before(l) {
			top = l
		}
	}
	for id, r := range h.reports {
		if v.alive(id) && r.leads && lineOf(&r.pos.Ledger) == top && v.now.Sub(r.at) <= checkEvery {
			return !parted(&h.pos.Ledger, &r.pos.Ledger)
		}
	}
	return false
}

// allFollow reports whether every other replica is alive and follows this server. Slots are assigned only then, so that
// no slot is assigned twice.
func (v view) allFollow(h *held, e *Entry) bool {
	for _, r := range e.Replicas {
		p := v.peers[r.Server]
		if p == nil {
			continue // this server, or one that is no longer a member
		}
		if x, ok := h.reports[r.Server]; !p.alive || !ok || x.at.IsZero() || x.leads {
			return false
		}
	}
	return true
}

// isElsewhere reports whether a database that cannot be used here has replicas on other servers, or will get them (see
// Opens.Elsewhere). e is its document, nil if it has none. d is the local replica of the directory, nil if there is
// none.
func (v view) isElsewhere(e *Entry, d *held) bool {
	if e != nil {
		return !e.Deleted && slices.ContainsFunc(e.Replicas, func(r Replica) bool { return r.Server != v.self })
	}
	return d == nil || d.shared && !d.leads
}
