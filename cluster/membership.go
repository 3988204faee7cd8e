package cluster

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// peer is the state of a mate as this server sees it. It is immutable: membership replaces it by a changed copy.
type peer struct {
	id note.UNID
	// heard is the time of the last answer to a probe; zero: none since this server started. since is the time at which
	// the mate last came alive or fell silent.
	heard, since time.Time
	alive        bool
	rtt          time.Duration
	// hello is its last hello, received at helloAt; zero: none.
	hello   hello
	helloAt time.Time
}

// returned reports whether the mate came back between two states: it answers again, or its process or its store has
// changed.
func (p *peer) returned(before *peer) bool {
	return p.hello.boot != before.hello.boot || p.hello.incarnation != before.hello.incarnation ||
		p.alive && !before.alive && p.hello.boot != 0
}

// snapshot is the membership at one moment. It is immutable.
type snapshot struct {
	members map[note.UNID]Member
	// peers are all members except this server. mates lists them in ascending order of id.
	peers map[note.UNID]*peer
	mates []note.UNID
}

// memberHooks are callbacks of membership to other parts: they are informed of changes and add their data to a hello.
// membership holds no lock while it calls them.
type memberHooks interface {
	// membersChange is called before a list of members takes effect.
	membersChange(list []Member)
	// mateReturned is called when a mate has come back, before the new state is visible: cached state of the mate may
	// be out of date.
	mateReturned(mate note.UNID)
	// describe adds the data of the other parts to a hello for a mate. The zero UNID means no mate.
	describe(h *hello, to note.UNID)
}

// membership holds the members, which of them are alive, and the last hello of each. Readers take a view, which needs
// no lock.
type membership struct {
	*base
	hooks memberHooks
	// heard fires when a mate has answered a probe.
	heard signal
	// serving means that this server has caught up since it started and accepts users.
	serving atomic.Bool
	current atomic.Pointer[snapshot]

	// seq is the sequence number of the directory at which the members were read; 0: never.
	seq atomic.Uint64

	mu sync.Mutex // serializes changes of current
}

func newMembership(b *base, hooks memberHooks) *membership {
	m := &membership{base: b, hooks: hooks}
	m.current.Store(&snapshot{})
	return m
}

// view returns the current membership.
func (m *membership) view() view {
	return view{snapshot: m.current.Load(), self: m.self, opt: &m.opt, start: m.start, now: m.now()}
}

// set replaces the list of members. The state of mates that are not in it is dropped.
func (m *membership) set(list []Member) {
	m.hooks.membersChange(list)
	onBus := make([]bus.Member, 0, len(list))
	next := &snapshot{members: make(map[note.UNID]Member, len(list)), peers: make(map[note.UNID]*peer, len(list))}
	m.mu.Lock()
	have := m.current.Load().peers
	for _, x := range list {
		onBus = append(onBus, x.Member)
		next.members[x.ID] = x
		if x.ID == m.self {
			continue
		}
		if next.peers[x.ID] = have[x.ID]; have[x.ID] == nil {
			next.peers[x.ID] = &peer{id: x.ID, since: m.now()}
		}
	}
	next.mates = slices.SortedFunc(maps.Keys(next.peers), note.UNID.Compare)
	m.current.Store(next)
	m.mu.Unlock()
	m.bus.SetMembers(onBus)
}

// listed reports whether the members have been read from the directory.
func (m *membership) listed() bool { return m.seq.Load() != 0 }

// refresh reads the members again if the directory has changed. The seeds apply until the local replica of the
// directory was complete once: an incomplete one could lack the mate that it is being copied from.
func (m *membership) refresh(ctx context.Context, dir *held) error {
	if dir == nil || dir.begun() {
		return nil
	}
	var list []Member
	seen := m.seq.Load()
	seq := seen
	err := m.store.Read(ctx, note.System, directory.ID, func(r *store.Reader) (err error) {
		if seq = r.Counters().Seq; seq != seen {
			list, err = membersIn(r, m.opt.Cluster)
		}
		return err
	})
	if err != nil || seq == seen {
		return err
	}
	// After a restore the directory may lack this server. Then the members do not change.
	if slices.ContainsFunc(list, func(x Member) bool { return x.ID == m.self }) {
		m.set(list)
	}
	m.seq.Store(seq)
	return nil
}

// update applies fn to the state of a mate.
func (m *membership) update(id note.UNID, fn func(*peer)) {
	change := func() (before, after *peer) {
		before = m.current.Load().peers[id]
		if before == nil {
			return nil, nil
		}
		next := *before
		fn(&next)
		return before, &next
	}
	before, after := change()
	if before == nil {
		return
	}
	returned := after.returned(before)
	if returned {
		m.hooks.mateReturned(id)
	}
	m.mu.Lock()
	if before, after = change(); before != nil {
		next := *m.current.Load()
		next.peers = maps.Clone(next.peers)
		next.peers[id] = after
		m.current.Store(&next)
	}
	m.mu.Unlock()
	if before != nil {
		m.tellOf(before, after, returned)
	}
}

// tellOf logs and counts that a mate came alive or fell silent.
func (m *membership) tellOf(before, after *peer, returned bool) {
	switch {
	case after.alive && !before.alive:
		m.log(slog.LevelInfo, "mate answers", "mate", after.id.String())
	case before.alive && !after.alive:
		m.stat.lost.Inc()
		m.log(slog.LevelWarn, "mate does not answer", "mate", after.id.String())
	case !returned:
		return
	}
	m.wake.fire()
}

// judge finds mates that have fallen silent.
func (m *membership) judge() {
	v := m.view()
	for _, id := range v.mates {
		if p := v.peers[id]; p.alive && v.now.Sub(p.heard) > m.opt.DeadAfter {
			m.update(id, m.judgePeer)
		}
	}
}

// judgePeer updates the liveness of a mate.
func (m *membership) judgePeer(p *peer) {
	now := m.now()
	if alive := !p.heard.IsZero() && now.Sub(p.heard) <= m.opt.DeadAfter; alive != p.alive {
		p.alive, p.since = alive, now
	}
}

// probe sends a probe to a mate and exchanges hellos with it.
func (m *membership) probe(ctx context.Context, id note.UNID) {
	limit, cancel := context.WithTimeout(ctx, m.opt.DeadAfter)
	defer cancel()
	rtt, err := m.bus.Probe(limit, id)
	if m.view().peers[id] == nil {
		return
	}
	m.stat.probes.Inc()
	if err != nil {
		m.stat.probeErrors.Inc()
		m.update(id, m.judgePeer)
		return
	}
	m.update(id, func(p *peer) {
		p.heard, p.rtt = m.now(), rtt
		m.judgePeer(p)
	})
	m.heard.fire()
	mine := m.hello(id)
	answer, err := m.bus.Request(limit, id, verbHello, appendHello(&mine))
	if err != nil {
		return // the probe shows that it is alive; the next hello may succeed
	}
	said, err := readHello(answer)
	if err != nil {
		m.log(slog.LevelWarn, "cannot parse hello of mate", "mate", m.view().name(id), "err", err)
		return
	}
	m.met(id, &said)
}

// hello returns the hello of this server for a mate.
func (m *membership) hello(to note.UNID) hello {
	v := m.view()
	me, users := v.members[m.self], m.opt.Users()
	h := hello{
		version: Version, boot: m.boot, incarnation: m.store.Incarnation(), serving: m.serving.Load(),
		restricted: me.Restricted, full: me.MaxUsers > 0 && users >= me.MaxUsers, index: uint8(m.opt.Load.Index()),
		threshold: uint8(me.Threshold), users: uint32(max(0, users)), clock: v.now.UnixMilli(), common: !m.opt.Older,
	}
	m.hooks.describe(&h, to)
	for _, id := range v.mates {
		if p := v.peers[id]; !p.heard.IsZero() {
			h.hears = append(h.hears, heard{id, v.now.Sub(p.heard)})
		}
	}
	return h
}

// met stores the hello of a mate.
func (m *membership) met(id note.UNID, h *hello) {
	m.update(id, func(p *peer) { p.hello, p.helloAt = *h, m.now() })
}

// answerHello stores the hello of a mate and answers with ours.
func (m *membership) answerHello(_ context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	said, err := readHello(body)
	if err != nil {
		return nil, err
	}
	if m.view().peers[from] == nil {
		return nil, bus.Refuse(codeDenied, ErrNotMember.Error())
	}
	m.met(from, &said)
	mine := m.hello(from)
	return appendHello(&mine), nil
}
