// Package memory implements a bus for servers of one process, for tests and the simulation. It starts no goroutine and
// waits for nothing: a request runs the other server's handler on the caller's stack before it returns. A Policy
// decides the fate of every message, so runs with the same seed are identical.
package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/env"
)

// Kind is the type of a message.
type Kind uint8

// Message kinds. An answer travels from the server that was asked to the asker.
const (
	Request Kind = iota + 1
	Answer
	Broadcast
	Probe
	ProbeAnswer
	StreamOpen
	StreamData // each write by either side
)

// Message describes a message in transit.
type Message struct {
	Kind     Kind
	From, To bus.ServerID
	Verb     string
	Bytes    int
	// Serial numbers the messages of a network.
	Serial uint64
}

// Fate is a policy's decision about a message.
type Fate uint8

// The fates. Twice and Delay apply to requests and broadcasts; for other kinds they mean Deliver.
const (
	Deliver Fate = iota
	// Lose: the message never arrives. An asker gets no answer.
	Lose
	// Twice: the message arrives twice in a row. The first answer counts.
	Twice
	// Delay: the message arrives when Network.Release is called, perhaps after later messages. Its asker gets no
	// answer.
	Delay
)

// Policy decides the fate of a message. It must not use the network.
type Policy func(Message) Fate

// Network connects the buses of servers.
type Network struct {
	env *env.Env

	mu      sync.Mutex
	policy  Policy
	buses   map[bus.ServerID]*Bus
	cut     map[[2]bus.ServerID]bool
	delayed []delayed
	serial  uint64
	boots   uint64
}

// delayed is a message that waits for Release.
type delayed struct {
	m    Message
	body []byte
}

// maxDelayed is the maximum number of waiting messages. Beyond it, the oldest are lost.
const maxDelayed = 10_000

// rtt is the reported round-trip time of a probe.
const rtt = time.Millisecond

// New makes a network. A nil policy delivers everything.
func New(e *env.Env, p Policy) *Network {
	return &Network{env: e, policy: p, buses: map[bus.ServerID]*Bus{}, cut: map[[2]bus.ServerID]bool{}}
}

// SetPolicy changes the policy.
func (n *Network) SetPolicy(p Policy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.policy = p
}

// Cut drops all messages from one server to another, answers included, until Heal. The other direction is not affected.
func (n *Network) Cut(from, to bus.ServerID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]bus.ServerID{from, to}] = true
}

// Heal ends a Cut.
func (n *Network) Heal(from, to bus.ServerID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, [2]bus.ServerID{from, to})
}

// Open starts the bus of a server. An open bus with the same ID is closed.
func (n *Network) Open(id bus.ServerID, grant bus.Grant) *Bus {
	if grant.Requests <= 0 {
		grant = bus.DefaultGrant
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.buses[id]; old != nil {
		old.closed = true
		old.cancel()
	}
	n.boots++
	b := &Bus{
		n: n, self: id, grant: grant, instance: n.boots, handlers: map[string]bus.Handler{},
		streams: map[string]bus.StreamHandler{},
		mates:   map[bus.ServerID]*mate{},
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	n.buses[id] = b
	return b
}

// Delayed returns the number of messages that wait for Release.
func (n *Network) Delayed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.delayed)
}

// Release delivers the i-th waiting message. Its answer is discarded.
func (n *Network) Release(i int) {
	n.mu.Lock()
	d := n.delayed[i]
	n.delayed = slices.Delete(n.delayed, i, i+1)
	n.mu.Unlock()
	to, _ := n.target(d.m)
	if to != nil {
		_, _ = to.handle(context.Background(), d.m, d.body)
	}
}

// fate numbers a message and returns the policy's decision.
func (n *Network) fate(m *Message) Fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serial++
	m.Serial = n.serial
	if n.cut[[2]bus.ServerID{m.From, m.To}] {
		return Lose
	}
	if n.policy == nil {
		return Deliver
	}
	return n.policy(*m)
}

func (n *Network) hold(m Message, body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.delayed) >= maxDelayed {
		n.delayed = n.delayed[1:]
	}
	n.delayed = append(n.delayed, delayed{m, bytes.Clone(body)})
}

// target returns the bus that a message goes to. It fails if that bus is down or does not know the sender.
func (n *Network) target(m Message) (*Bus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.buses[m.To]
	if to == nil || to.closed {
		return nil, fmt.Errorf("%s: %w: %s is down", m.Verb, bus.ErrNoServer, m.To)
	}
	if to.mates[m.From] == nil {
		return nil, fmt.Errorf("%s: %w: %w", m.Verb, bus.ErrNoServer, &bus.RemoteError{Server: m.To, Verb: m.Verb,
			Code: bus.CodeStranger, Text: m.From.String() + " is no member here"})
	}
	return to, nil
}

// Bus implements bus.Bus.
type Bus struct {
	n        *Network
	self     bus.ServerID
	grant    bus.Grant
	instance uint64
	ctx      context.Context
	cancel   context.CancelFunc

	// Network.mu protects the following fields.
	handlers map[string]bus.Handler
	streams  map[string]bus.StreamHandler
	mates    map[bus.ServerID]*mate
	closed   bool
}

type mate struct {
	bus.Member
	credits *bus.Credits
	since   time.Time
	heard   time.Time
	asked   int // its requests in progress here
}

// Self implements bus.Bus.
func (b *Bus) Self() bus.ServerID { return b.self }

// SetMembers implements bus.Bus.
func (b *Bus) SetMembers(members []bus.Member) {
	b.n.mu.Lock()
	defer b.n.mu.Unlock()
	gone := b.mates
	b.mates = map[bus.ServerID]*mate{}
	for _, m := range members {
		if m.ID == b.self {
			continue
		}
		have := gone[m.ID]
		if have == nil {
			have = &mate{credits: bus.NewCredits(b.grant), since: b.n.env.Clock.Now()}
		}
		delete(gone, m.ID)
		have.Member = m
		b.mates[m.ID] = have
	}
	for id, m := range gone {
		m.credits.Close(fmt.Errorf("%w: %s is no member any more", bus.ErrNoServer, id))
	}
}

// Peers implements bus.Bus.
func (b *Bus) Peers() []bus.PeerState {
	b.n.mu.Lock()
	defer b.n.mu.Unlock()
	all := make([]bus.PeerState, 0, len(b.mates))
	for id, m := range b.mates {
		p := bus.PeerState{Member: m.Member, Since: m.since, Heard: m.heard}
		p.InFlight, p.Waiting = m.credits.InFlight()
		if other := b.n.buses[id]; other != nil && !other.closed && other.mates[b.self] != nil {
			p.Connected, p.Instance, p.RTT = true, other.instance, rtt
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(x, y bus.PeerState) int { return x.ID.Compare(y.ID) })
	return all
}

// Handle implements bus.Bus.
func (b *Bus) Handle(verb string, fn bus.Handler) { register(b, b.handlers, verb, fn) }

// HandleStream implements bus.Bus.
func (b *Bus) HandleStream(verb string, fn bus.StreamHandler) { register(b, b.streams, verb, fn) }

func register[F any](b *Bus, to map[string]F, verb string, fn F) {
	if err := bus.CheckVerb(verb); err != nil {
		panic(err)
	}
	b.n.mu.Lock()
	defer b.n.mu.Unlock()
	if _, twice := to[verb]; twice {
		panic("bus: " + verb + " is handled already")
	}
	to[verb] = fn
}

// mate returns a member that can be reached now.
func (b *Bus) mate(id bus.ServerID, verb string) (*mate, error) {
	b.n.mu.Lock()
	defer b.n.mu.Unlock()
	if b.closed {
		return nil, bus.ErrClosed
	}
	m := b.mates[id]
	if m == nil {
		return nil, fmt.Errorf("%s: %w: %s is no member", verb, bus.ErrNoServer, id)
	}
	return m, nil
}

// Request implements bus.Bus.
func (b *Bus) Request(ctx context.Context, id bus.ServerID, verb string, body []byte) ([]byte, error) {
	if err := errors.Join(bus.CheckVerb(verb), bus.CheckBody(verb, body)); err != nil {
		return nil, err
	}
	mate, err := b.mate(id, verb)
	if err != nil {
		return nil, err
	}
	if err := mate.credits.Take(ctx, int64(len(body))); err != nil {
		if errors.Is(err, bus.ErrNoServer) || errors.Is(err, bus.ErrClosed) {
			return nil, fmt.Errorf("%s: %w", verb, err)
		}
		return nil, fmt.Errorf("%s: %w: no credit for server %s: %w", verb, bus.ErrNoServer, id, err)
	}
	defer mate.credits.Give(int64(len(body)))
	q := Message{Kind: Request, From: b.self, To: id, Verb: verb, Bytes: len(body)}
	to, err := b.n.target(q)
	if err != nil {
		return nil, err
	}
	lost := fmt.Errorf("%s: %w of server %s: %w", verb, bus.ErrNoAnswer, id, context.DeadlineExceeded)
	again := 1
	switch b.n.fate(&q) {
	case Lose:
		return nil, lost
	case Delay:
		b.n.hold(q, body)
		return nil, lost
	case Twice:
		again = 2
	}
	out, err := to.handle(ctx, q, bytes.Clone(body))
	for range again - 1 {
		_, _ = to.handle(ctx, q, bytes.Clone(body))
	}
	a := Message{Kind: Answer, From: id, To: b.self, Verb: verb, Bytes: len(out)}
	if b.n.fate(&a) == Lose {
		return nil, lost
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w of server %s: %w", verb, bus.ErrNoAnswer, id, ctx.Err())
	}
	b.hear(id)
	return bytes.Clone(out), err
}

// hear records a sign of life.
func (b *Bus) hear(id bus.ServerID) {
	b.n.mu.Lock()
	defer b.n.mu.Unlock()
	if m := b.mates[id]; m != nil {
		m.heard = b.n.env.Clock.Now()
	}
}

// handle runs the local handler of a message. It returns the error for the asker.
func (b *Bus) handle(ctx context.Context, m Message, body []byte) ([]byte, error) {
	b.n.mu.Lock()
	fn := b.handlers[m.Verb]
	from := b.mates[m.From]
	if b.closed || from == nil {
		b.n.mu.Unlock()
		return nil, fmt.Errorf("%s: %w of server %s: it closed", m.Verb, bus.ErrNoAnswer, b.self)
	}
	from.heard = b.n.env.Clock.Now()
	busy := from.asked >= 2*b.grant.Requests
	from.asked++
	b.n.mu.Unlock()
	defer func() {
		b.n.mu.Lock()
		from.asked--
		b.n.mu.Unlock()
	}()
	// The handler's context ends with the asker's or when this bus closes.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	var out []byte
	var err error
	switch {
	case busy:
		err = bus.Refuse(bus.CodeBusy, "too many requests at one time")
	case fn == nil:
		err = bus.Refuse(bus.CodeNoVerb, "nobody handles "+m.Verb+" here")
	default:
		if out, err = fn(ctx, m.From, body); err == nil && len(out) > bus.MaxBody {
			err = bus.Refuse(bus.CodeTooBig, fmt.Sprintf("the answer has %d bytes, at most %d", len(out), bus.MaxBody))
		}
	}
	b.n.mu.Lock()
	closed := b.closed
	b.n.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%s: %w of server %s: it closed", m.Verb, bus.ErrNoAnswer, b.self)
	}
	if err != nil {
		code, text := bus.Refusal(err)
		return nil, &bus.RemoteError{Server: b.self, Verb: m.Verb, Code: code, Text: text}
	}
	return out, nil
}

// Broadcast implements bus.Bus. It sends to the members in order of their IDs.
func (b *Bus) Broadcast(verb string, body []byte) error {
	if err := errors.Join(bus.CheckVerb(verb), bus.CheckBody(verb, body)); err != nil {
		return err
	}
	b.n.mu.Lock()
	closed := b.closed
	b.n.mu.Unlock()
	if closed {
		return bus.ErrClosed
	}
	for _, p := range b.Peers() {
		m := Message{Kind: Broadcast, From: b.self, To: p.ID, Verb: verb, Bytes: len(body)}
		to, err := b.n.target(m)
		if err != nil {
			continue
		}
		again := 1
		switch b.n.fate(&m) {
		case Lose:
			again = 0
		case Delay:
			b.n.hold(m, body)
			again = 0
		case Twice:
			again = 2
		}
		for range again {
			_, _ = to.handle(context.Background(), m, bytes.Clone(body))
		}
	}
	return nil
}

// Probe implements bus.Bus.
func (b *Bus) Probe(ctx context.Context, id bus.ServerID) (time.Duration, error) {
	if _, err := b.mate(id, "probe"); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("probe: %w: %w", bus.ErrNoAnswer, ctx.Err())
	}
	q := Message{Kind: Probe, From: b.self, To: id, Verb: "probe"}
	if _, err := b.n.target(q); err != nil {
		return 0, err
	}
	a := Message{Kind: ProbeAnswer, From: id, To: b.self, Verb: "probe"}
	if b.n.fate(&q) == Lose || b.n.fate(&a) == Lose {
		return 0, fmt.Errorf("probe: %w of server %s: %w", bus.ErrNoAnswer, id, context.DeadlineExceeded)
	}
	b.hear(id)
	return rtt, nil
}

// Close implements bus.Bus. Unlike other implementations it does not wait for handlers, because one may be on the same
// stack.
func (b *Bus) Close() error {
	b.n.mu.Lock()
	if b.closed {
		b.n.mu.Unlock()
		return nil
	}
	b.closed = true
	if b.n.buses[b.self] == b {
		delete(b.n.buses, b.self)
	}
	for _, m := range b.mates {
		m.credits.Close(bus.ErrClosed)
	}
	b.n.mu.Unlock()
	b.cancel()
	return nil
}
