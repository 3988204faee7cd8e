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

// peer is a mate as this server sees it. It is immutable: membership puts a changed copy in its place.
type peer struct {
	id note.UNID
	// heard is when the mate last answered a probe; zero: not since this server started. since is when it
	// last came alive or fell silent.
	heard, since time.Time
	alive        bool
	rtt          time.Duration
	// hello is what it last said of itself, at helloAt; zero: it has said nothing.
	hello   hello
	helloAt time.Time
}

// returned reports whether the mate came back between two looks: it answers again, or its process or its
// store is another one.
func (p *peer) returned(before *peer) bool {
	return p.hello.boot != before.hello.boot || p.hello.incarnation != before.hello.incarnation ||
		p.alive && !before.alive && p.hello.boot != 0
}

// snapshot is the membership at one moment. It is immutable.
type snapshot struct {
	members map[note.UNID]Member
	// peers are the members but this server; mates lists them in ascending order of id.
	peers map[note.UNID]*peer
	mates []note.UNID
}

// memberHooks are the parts that membership tells of changes, and asks for what it says in a hello. It
// holds no lock while it calls them.
type memberHooks interface {
	// membersChange is called before a list of members takes effect.
	membersChange(list []Member)
	// mateReturned is called when a mate has come back, before anybody sees that it did: what is remembered
	// of it may be out of date.
	mateReturned(mate note.UNID)
	// describe fills in what the other parts say in a hello to a mate. The zero UNID stands for no mate.
	describe(h *hello, to note.UNID)
}

// membership is who the members are, which of them are alive, and what each said of itself last. Readers
// take a view, which costs no lock.
type membership struct {
	*base
	hooks memberHooks
	// heard fires when a mate has answered a probe.
	heard signal
	// serving says that this server has caught up since it started, and takes users.
	serving atomic.Bool
	current atomic.Pointer[snapshot]

	// seq is the sequence of the directory at which the members were read; 0: never.
	seq atomic.Uint64

	mu sync.Mutex // serializes changes of current
}

func newMembership(b *base, hooks memberHooks) *membership {
	m := &membership{base: b, hooks: hooks}
	m.current.Store(&snapshot{})
	return m
}

// view returns the membership as it is now.
func (m *membership) view() view {
	return view{snapshot: m.current.Load(), self: m.self, opt: &m.opt, start: m.start, now: m.now()}
}

// set takes a new list of members. Mates that are not in it are forgotten.
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

// listed reports whether the members were read from the directory.
func (m *membership) listed() bool { return m.seq.Load() != 0 }

// refresh reads the members again if the directory has changed. The seeds hold until the replica of the
// directory was filled once: a part of it could lack the mate that it comes from.
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
	// After a restore the directory may not name this server yet: then the members stay as they are.
	if slices.ContainsFunc(list, func(x Member) bool { return x.ID == m.self }) {
		m.set(list)
	}
	m.seq.Store(seq)
	return nil
}

// update applies fn to what is known of a mate.
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

// judge looks for mates that have fallen silent.
func (m *membership) judge() {
	v := m.view()
	for _, id := range v.mates {
		if p := v.peers[id]; p.alive && v.now.Sub(p.heard) > m.opt.DeadAfter {
			m.update(id, m.judgePeer)
		}
	}
}

// judgePeer decides whether a mate is alive.
func (m *membership) judgePeer(p *peer) {
	now := m.now()
	if alive := !p.heard.IsZero() && now.Sub(p.heard) <= m.opt.DeadAfter; alive != p.alive {
		p.alive, p.since = alive, now
	}
}

// probe asks a mate for a sign of life, and exchanges hellos with it.
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
		return // the probe shows that it is alive; it says hello next time
	}
	said, err := readHello(answer)
	if err != nil {
		m.log(slog.LevelWarn, "cannot parse hello of mate", "mate", m.view().name(id), "err", err)
		return
	}
	m.met(id, &said)
}

// hello returns what this server says of itself to a mate.
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

// met takes what a mate says of itself.
func (m *membership) met(id note.UNID, h *hello) {
	m.update(id, func(p *peer) { p.hello, p.helloAt = *h, m.now() })
}

// answerHello takes the hello of a mate and answers with ours.
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
