// Package natsbus implements the bus over a NATS connection, which bus/embedded or bus/external supplies. NATS carries
// requests, answers and broadcasts, encrypted between the two servers. Links and streams are direct connections
// (bus/direct).
package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/bus/direct"
	"doublet/bus/pki"
	"doublet/env"
	"doublet/stat"

	"github.com/nats-io/nats.go"
)

// Options are common to bus/embedded and bus/external; zero fields take the defaults.
type Options struct {
	Identity *pki.Folder
	// Listen is the direct address to listen on, as host:port.
	Listen string
	// Instance identifies this process, so that two processes with one certificate can be told apart; 0: a random
	// number.
	Instance uint64
	// Grant limits the requests in flight from one mate to this server. It also caps the requests from this server to
	// one mate.
	Grant bus.Grant
	// Heartbeat, Silence and Streams are the options of bus/direct.
	Heartbeat, Silence time.Duration
	Streams            int
	// Admit answers joining servers; nil if this server cannot admit any.
	Admit pki.Admit
	Stats *stat.Tree
}

// Transport is a NATS connection with the functions to manage it.
type Transport struct {
	Conn *nats.Conn
	// Members is called with each new member list; it may be nil.
	Members func([]bus.Member)
	// Close closes the transport after the last message.
	Close func()
}

const (
	verbRenew = "bus.renew"
	// housekeeping is the interval of Bus.housekeeping.
	housekeeping = time.Second
	// settle is the time for which a request is repeated while the link is open but NATS has no route: routes come up a
	// moment later than links. It is longer than NATS's pause before it reconnects (1 s plus up to 0.1 s). If both
	// servers connect at the same moment, each may close the route that the other keeps, as a duplicate.
	settle      = 2500 * time.Millisecond
	settlePause = 20 * time.Millisecond
	// lateAnswer is the time for which an abandoned request keeps its credit, because the mate may still be working on
	// it.
	lateAnswer = 30 * time.Second
)

// Bus implements bus.Bus.
type Bus struct {
	env       *env.Env
	o         Options
	self      bus.ServerID
	port      *direct.Port
	carrier   *carrier
	transport Transport
	ctx       context.Context
	stop      context.CancelFunc
	running   sync.WaitGroup
	stats     statistics
	quiet     *bus.Quiet
	renewal   renewal

	mu       sync.RWMutex
	handlers map[string]bus.Handler
	streams  map[string]bus.StreamHandler
	mates    map[bus.ServerID]*mate
	asking   map[linkID]*asking
	serving  map[linkID]*serving
	members  []bus.Member
	closed   bool
}

// mate is another member.
type mate struct {
	bus.Member
	credits *bus.Credits
	// since is the time of the last change of connected.
	connected bool
	since     time.Time
	twin      string
}

type statistics struct {
	asked, served, told, heard, noAnswer, waited, refused, sent, received, renewed, notRenewed *stat.Counter
	took                                                                                       *stat.Histogram
}

func (s *statistics) init(t *stat.Tree) {
	s.asked = t.Counter("Bus.Requests.Sent", "Requests to mates")
	s.served = t.Counter("Bus.Requests.Served", "Requests of mates that were answered")
	s.told = t.Counter("Bus.Broadcasts.Sent", "Broadcasts, once per mate")
	s.heard = t.Counter("Bus.Broadcasts.Heard", "Broadcasts of mates")
	s.noAnswer = t.Counter("Bus.Requests.NoAnswer", "Requests that got no answer in time")
	s.waited = t.Counter("Bus.Requests.Waited",
		"Requests that waited for a credit: the mate had as much as it takes at one time")
	s.refused = t.Counter("Bus.Refused",
		"Connections and messages refused: of no member, out of time, of another cluster")
	s.sent = t.Counter("Bus.BytesSent", "Bytes of messages to mates")
	s.received = t.Counter("Bus.BytesReceived", "Bytes of messages of mates")
	s.renewed = t.Counter("Bus.CertificatesRenewed", "Renewals of this server's cluster certificate")
	s.notRenewed = t.Counter("Bus.CertificatesNotRenewed",
		"Failed renewals of this server's cluster certificate, which are tried again")
	s.took = t.Histogram("Bus.RequestTime", "Time from a request to its answer", stat.Seconds)
}

// New makes a bus over a transport. The bus closes the transport when it closes; New closes it on error.
func New(e *env.Env, o Options, t Transport) (_ *Bus, err error) {
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if o.Grant.Requests <= 0 {
		o.Grant = bus.DefaultGrant
	}
	if o.Instance == 0 {
		o.Instance = e.Uint64()
	}
	if limit := t.Conn.MaxPayload(); t.Conn.IsConnected() && limit < maxMessage {
		return nil, fmt.Errorf("NATS server accepts messages of %d bytes, the bus needs %d: set its max_payload", limit,
			maxMessage)
	}
	b := &Bus{
		env: e, o: o, self: o.Identity.Identity().ID, transport: t, quiet: bus.NewQuiet(e.Clock),
		handlers: map[string]bus.Handler{}, streams: map[string]bus.StreamHandler{}, mates: map[bus.ServerID]*mate{},
		asking: map[linkID]*asking{}, serving: map[linkID]*serving{},
	}
	b.stats.init(o.Stats)
	b.ctx, b.stop = context.WithCancel(context.Background())
	fingerprint := o.Identity.Fingerprint()
	b.carrier = newCarrier(t.Conn, fmt.Sprintf("%x", fingerprint[:8]), b.self)
	b.port, err = direct.Open(e, direct.Options{
		Listen: o.Listen, Identity: o.Identity, Instance: o.Instance, Grant: o.Grant, Heartbeat: o.Heartbeat,
		Silence: o.Silence, Streams: o.Streams,
		Up: b.up, Down: b.down, Stream: b.streamHandler, Admit: o.Admit, Stats: o.Stats,
	})
	if err != nil {
		return nil, err
	}
	if err = b.carrier.listen(b.heard, b.unheard); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on NATS: %w", err), b.port.Close())
	}
	b.Handle(verbRenew, b.resign)
	o.Stats.GaugeFunc("Bus.Peers", "Other members of the cluster", func() float64 { return float64(len(b.Peers())) })
	o.Stats.GaugeFunc("Bus.PeersConnected", "Those of them to which messages can be sent", func() float64 {
		n := 0
		for _, p := range b.Peers() {
			if p.Connected {
				n++
			}
		}
		return float64(n)
	})
	b.spawn("bus housekeeping", b.housekeeping)
	return b, nil
}

func (b *Bus) spawn(name string, f func()) {
	b.running.Add(1)
	b.env.Go(name, func() {
		defer b.running.Done()
		f()
	})
}

// Self implements bus.Bus.
func (b *Bus) Self() bus.ServerID { return b.self }

// Direct returns the direct address.
func (b *Bus) Direct() string { return b.port.Addr().String() }

// Handle implements bus.Bus.
func (b *Bus) Handle(verb string, fn bus.Handler) { register(b, b.handlers, verb, fn) }

// HandleStream implements bus.Bus.
func (b *Bus) HandleStream(verb string, fn bus.StreamHandler) { register(b, b.streams, verb, fn) }

func register[F any](b *Bus, to map[string]F, verb string, fn F) {
	if err := bus.CheckVerb(verb); err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, twice := to[verb]; twice {
		panic("bus: " + verb + " is handled already")
	}
	to[verb] = fn
}

func (b *Bus) streamHandler(verb string) bus.StreamHandler {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.streams[verb]
}

// SetMembers implements bus.Bus.
func (b *Bus) SetMembers(members []bus.Member) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(x, y bus.Member) int { return x.ID.Compare(y.ID) })
	others := slices.DeleteFunc(slices.Clone(members), func(m bus.Member) bool { return m.ID == b.self })
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	same := slices.Equal(members, b.members)
	b.members = members
	gone := b.mates
	b.mates = make(map[bus.ServerID]*mate, len(others))
	for _, m := range others {
		have := gone[m.ID]
		if have == nil {
			have = &mate{credits: bus.NewCredits(b.o.Grant), since: b.env.Clock.Now()}
		}
		delete(gone, m.ID)
		have.Member = m
		b.mates[m.ID] = have
	}
	b.mu.Unlock()
	for _, m := range gone {
		m.credits.Close(fmt.Errorf("%w: %s is no member any more", bus.ErrNoServer, m.ID))
	}
	b.port.SetMembers(others)
	if b.transport.Members != nil {
		b.transport.Members(others)
	}
	for _, m := range others {
		b.port.Reach(m.ID)
	}
	if in := len(others) < len(members); in && !same { // a list without this server is useless for the next start
		if err := b.o.Identity.SaveMembers(members); err != nil {
			b.env.Log.Warn("cannot save the cluster members for the next start", "error", err)
		}
	}
}

// Peers implements bus.Bus.
func (b *Bus) Peers() []bus.PeerState {
	b.mu.RLock()
	all := make([]bus.PeerState, 0, len(b.mates))
	for _, m := range b.mates {
		p := bus.PeerState{Member: m.Member, Connected: m.connected, Since: m.since, Twin: m.twin}
		p.InFlight, p.Waiting = m.credits.InFlight()
		all = append(all, p)
	}
	b.mu.RUnlock()
	slices.SortFunc(all, func(x, y bus.PeerState) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	for i := range all {
		p := &all[i]
		links, failed := b.port.Links(p.ID)
		for _, l := range links {
			at, rtt := l.Heard()
			if at.After(p.Heard) {
				p.Heard, p.Instance = at, l.Instance
			}
			if l.Outgoing {
				p.RTT = rtt
			}
		}
		if failed != nil && !p.Connected {
			p.Error = failed.Error()
		}
	}
	return all
}

// Probe implements bus.Bus.
func (b *Bus) Probe(ctx context.Context, to bus.ServerID) (time.Duration, error) {
	l, err := b.port.Link(ctx, to)
	if err != nil {
		return 0, err
	}
	return l.Ping(ctx)
}

// Stream implements bus.Bus.
func (b *Bus) Stream(ctx context.Context, to bus.ServerID, verb string, header []byte) (bus.Stream, error) {
	if err := bus.CheckVerb(verb); err != nil {
		return nil, err
	}
	return b.port.Stream(ctx, to, verb, header)
}

// up records a link before it is used.
func (b *Bus) up(l *direct.Link) {
	s, err := sealsOf(l.Keys)
	if err != nil {
		l.Fail(err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		l.Fail(bus.ErrClosed)
		return
	}
	if !l.Outgoing {
		v := &serving{link: l, seals: s}
		v.ctx, v.cancel = context.WithCancel(b.ctx)
		b.serving[l.Keys.ID] = v
		return
	}
	b.asking[l.Keys.ID] = &asking{link: l, seals: s, waits: map[uint64]*wait{}}
	if m := b.mates[l.Peer.ID]; m != nil {
		g := bus.Grant{Requests: min(l.Grant.Requests, b.o.Grant.Requests), Bytes: min(l.Grant.Bytes, b.o.Grant.Bytes)}
		m.credits.SetGrant(g)
		m.connected, m.since = true, b.env.Clock.Now()
	}
}

// down forgets a link's keys, so messages sealed with them are rejected from now on.
func (b *Bus) down(l *direct.Link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !l.Outgoing {
		if v := b.serving[l.Keys.ID]; v != nil {
			v.cancel()
		}
		delete(b.serving, l.Keys.ID)
		return
	}
	a := b.asking[l.Keys.ID]
	delete(b.asking, l.Keys.ID)
	if a == nil {
		return
	}
	a.forgetLate()
	if m := b.mates[l.Peer.ID]; m != nil {
		m.connected, m.since = false, b.env.Clock.Now()
	}
}

// housekeeping opens missing links, looks for servers with the same certificate, and renews this server's certificate.
func (b *Bus) housekeeping() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.env.Clock.After(housekeeping):
		}
		b.mu.RLock()
		mates := make([]bus.ServerID, 0, len(b.mates))
		for id := range b.mates {
			mates = append(mates, id)
		}
		b.mu.RUnlock()
		for _, id := range mates {
			b.port.Reach(id)
			b.lookForTwins(id)
		}
		b.renew()
	}
}

// lookForTwins detects two processes that show the certificate of one server. It looks for links of two instances, of
// which the older was heard from after the younger opened.
func (b *Bus) lookForTwins(id bus.ServerID) {
	links, _ := b.port.Links(id)
	twin := ""
	for _, x := range links {
		for _, y := range links {
			heard, _ := x.Heard()
			if x.Instance != y.Instance && x.Since.Before(y.Since) && heard.Sub(y.Since) > housekeeping {
				twin = x.Address() + " and " + y.Address()
			}
		}
	}
	b.mu.Lock()
	m := b.mates[id]
	tell := m != nil && m.twin == "" && twin != ""
	if m != nil {
		m.twin = twin
	}
	b.mu.Unlock()
	if tell {
		b.env.Log.Error("two servers use the same certificate, because a data folder was copied: stop one of them",
			"id", id.String(), "at", twin)
	}
}

// Close implements bus.Bus.
func (b *Bus) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	for _, m := range b.mates {
		m.credits.Close(bus.ErrClosed)
	}
	b.mu.Unlock()
	b.stop()
	err := b.port.Close()
	b.running.Wait()
	b.transport.Close()
	return err
}
