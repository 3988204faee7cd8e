package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// peer is a mate as this server sees it. Guarded by Node.mu.
type peer struct {
	id note.UNID
	// heard is when it answered a probe last, since when it lives or is dead.
	heard, since time.Time
	alive        bool
	rtt          time.Duration
	probes, lost uint64
	// hello is what it said of itself last, at helloAt.
	hello   hello
	helloAt time.Time
	reps    []*replicator
	queue   *queueStats
	// known is what is remembered of its replicas, objects how much of large parts it is sent at a time.
	known   knowledge
	objects *bus.Credits
	// goal is the sequence that it must have reached to have caught up since it came back; 0: not known yet.
	goal   uint64
	caught bool
}

// setMembers takes up a list of members. Mates that are none any more are forgotten.
func (n *Node) setMembers(list []Member) {
	n.mu.Lock()
	members := make(map[note.UNID]Member, len(list))
	var onBus []bus.Member
	for _, m := range list {
		members[m.ID] = m
		onBus = append(onBus, m.Member)
	}
	var dropped []*replicator
	for id, p := range n.peers {
		if _, ok := members[id]; !ok {
			dropped = append(dropped, p.reps...)
			delete(n.peers, id)
		}
	}
	for id, m := range members {
		if id == n.self || n.peers[id] != nil {
			continue
		}
		p := &peer{
			id: id, since: n.now(), queue: n.stat.mate(&m), objects: bus.NewCredits(bus.Grant{Requests: n.opt.Requests, Bytes: objectsAtOnce}),
		}
		for w := range n.opt.Workers {
			p.reps = append(p.reps, newReplicator(id, w, n.opt.Workers, lanes(n.opt.Workers, n.opt.Requests), n.store, n.env.Clock, n, p.queue))
		}
		n.peers[id] = p
	}
	n.members = members
	n.mu.Unlock()
	for _, r := range dropped {
		r.drop()
	}
	n.bus.SetMembers(onBus)
}

// refreshMembers reads the members again when the directory has changed. The seeds hold until the replica of the directory was
// filled once: a part of it could lack the mate that it comes from.
func (n *Node) refreshMembers(ctx context.Context) error {
	n.mu.Lock()
	seen, h := n.membersSeq, n.held[directory.ID]
	ready := h != nil && !h.begun()
	n.mu.Unlock()
	if !ready {
		return nil
	}
	var list []Member
	seq := seen
	err := n.store.Read(ctx, note.System, directory.ID, func(r *store.Reader) (err error) {
		if seq = r.Counters().Seq; seq != seen {
			list, err = membersIn(r, n.opt.Cluster)
		}
		return err
	})
	if err != nil || seq == seen {
		return err
	}
	// After a restore the directory may not name this server yet: then the members stay as they are.
	if slices.ContainsFunc(list, func(m Member) bool { return m.ID == n.self }) {
		n.setMembers(list)
	}
	n.mu.Lock()
	n.membersSeq = seq
	n.mu.Unlock()
	return nil
}

// Mates lists the other members, in order of id.
func (n *Node) Mates() []note.UNID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mates()
}

// mates is Mates under mu.
func (n *Node) mates() []note.UNID {
	out := make([]note.UNID, 0, len(n.peers))
	for id := range n.peers {
		out = append(out, id)
	}
	slices.SortFunc(out, note.UNID.Compare)
	return out
}

// Probe asks every mate for a sign of life and what it has to say of itself.
func (n *Node) Probe(ctx context.Context) {
	for _, id := range n.Mates() {
		n.ProbeMate(ctx, id)
	}
	n.stat.sample()
}

// ProbeMate probes one mate.
func (n *Node) ProbeMate(ctx context.Context, id note.UNID) {
	limit, cancel := context.WithTimeout(ctx, n.opt.DeadAfter)
	defer cancel()
	rtt, err := n.bus.Probe(limit, id)
	n.mu.Lock()
	p := n.peers[id]
	if p == nil {
		n.mu.Unlock()
		return
	}
	p.probes++
	n.stat.probes.Inc()
	if err != nil {
		p.lost++
		n.stat.probeErrors.Inc()
	} else {
		p.heard, p.rtt = n.now(), rtt
		n.heard.fire()
	}
	n.judgePeer(p)
	mine := n.hello(p)
	n.mu.Unlock()
	if err != nil {
		return
	}
	answer, err := n.bus.Request(limit, id, verbHello, appendHello(&mine))
	if err != nil {
		return // the probe says that it lives; what it is up to, it says next time
	}
	said, err := readHello(answer)
	if err != nil {
		n.log(slog.LevelWarn, "a mate is not understood", "mate", n.name(id), "err", err)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[id]; p != nil {
		n.met(p, &said)
	}
}

// hello is what this server says of itself to a mate. Under mu.
func (n *Node) hello(to *peer) hello {
	me := n.members[n.self]
	users := n.opt.Users()
	h := hello{
		version: Version, boot: n.boot, incarnation: n.store.Incarnation(), serving: n.serving, restricted: me.Restricted,
		full: me.MaxUsers > 0 && users >= me.MaxUsers, index: uint8(n.opt.Load.Index()), threshold: uint8(me.Threshold),
		users: uint32(max(0, users)), databases: uint32(len(n.held)), caught: to != nil && to.caught,
		clock: n.now().UnixMilli(), flush: n.events.flush, noRoom: n.events.noRoom, common: !n.opt.Older,
	}
	for _, x := range n.held {
		if x.leads {
			h.leads++
		}
	}
	now := n.now()
	for _, id := range n.mates() {
		if p := n.peers[id]; !p.heard.IsZero() {
			h.hears = append(h.hears, heard{id, now.Sub(p.heard)})
		}
	}
	return h
}

// met takes up what a mate says of itself. One whose process started anew, or whose store has another
// life, is compared with from the beginning. Under mu.
func (n *Node) met(p *peer, h *hello) {
	anew := p.hello.boot != h.boot || p.hello.incarnation != h.incarnation
	p.hello, p.helloAt = *h, n.now()
	if anew {
		n.returned(p)
	}
}

// returned begins to compare everything with a mate that came back. Under mu.
func (n *Node) returned(p *peer) {
	p.known.forget()
	p.goal, p.caught = 0, false
	for _, h := range n.held {
		if t, ok := h.told[p.id]; ok {
			h.told[p.id] = toldAt{good: t.good} // what it is now it has to tell
		}
	}
	for _, r := range p.reps {
		r.sweep()
	}
	n.wake.fire()
}

// judgePeer decides whether a mate lives. Under mu.
func (n *Node) judgePeer(p *peer) {
	now := n.now()
	alive := !p.heard.IsZero() && now.Sub(p.heard) <= n.opt.DeadAfter
	if alive == p.alive {
		return
	}
	p.alive, p.since = alive, now
	if alive {
		n.log(slog.LevelInfo, "mate answers", "mate", p.id.String())
		if p.hello.boot != 0 {
			n.returned(p)
		}
	} else {
		n.stat.lost.Inc()
		n.log(slog.LevelWarn, "mate does not answer", "mate", p.id.String())
	}
	n.wake.fire()
}

// judgePeers looks whether somebody has fallen silent.
func (n *Node) judgePeers() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range n.mates() {
		n.judgePeer(n.peers[id])
	}
}

// gone says whether nobody hears a server: neither we nor anybody whom we hear. Under mu.
func (n *Node) gone(id note.UNID) bool {
	now := n.now()
	p := n.peers[id]
	if p == nil {
		return true // no member
	}
	if p.alive || p.heard.IsZero() && now.Sub(n.start) <= n.opt.DeadAfter {
		return false
	}
	for _, o := range n.peers {
		if o == p || !o.alive || o.helloAt.IsZero() {
			continue
		}
		for _, h := range o.hello.hears {
			if h.server == id && h.age+now.Sub(o.helloAt) <= n.opt.DeadAfter {
				return false
			}
		}
	}
	return true
}

// starting says that there are mates which were not heard of since this server started, and may only be late: they may hear
// others that we do not. Under mu.
func (n *Node) starting() bool {
	if n.now().Sub(n.start) > n.opt.StartWait {
		return false
	}
	for _, p := range n.peers {
		if p.heard.IsZero() {
			return true
		}
	}
	return len(n.peers) == 0 // we have not read who the mates are
}

// catchUp looks whether mates that came back have caught up with us, and whether we have with them.
func (n *Node) catchUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	alive, all := 0, true
	for _, id := range n.mates() {
		p := n.peers[id]
		if !p.alive {
			all = false
			continue
		}
		alive++
		n.follow(p)
	}
	if n.serving {
		return
	}
	if (!all || alive == 0 && len(n.peers) > 0) && n.starting() {
		return
	}
	for _, p := range n.peers {
		if p.alive && !(p.caught && p.hello.caught && p.hello.boot != 0) {
			return
		}
	}
	n.serving = true
	n.log(slog.LevelInfo, "has caught up and takes users")
}

// follow sees whether a mate has what waited for it when it came back. Under mu.
func (n *Node) follow(p *peer) {
	if p.caught || p.hello.boot == 0 {
		return
	}
	for _, r := range p.reps {
		if !r.swept() {
			return
		}
	}
	if p.goal == 0 {
		p.goal = n.store.Now().Seq
	}
	for _, r := range p.reps {
		if !r.reached(p.goal) {
			return
		}
	}
	p.caught = true
}

// errRefused gives a refusal of another server the error that it stands for here.
func errRefused(err error) error {
	switch bus.Code(err) {
	case codeNotHome:
		return errors.Join(ErrNoHome, err)
	case codeBusy, codeLater:
		return errors.Join(errLater, err)
	}
	return err
}
