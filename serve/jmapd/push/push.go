// Package push tells JMAP clients that something changed: over EventSource (RFC 8620 section 7.3), over a
// WebSocket that carries requests too (RFC 8887), and through push services for devices that are not connected
// (RFC 8620 section 7.2, RFC 8030). What is told are states, never contents: a client that hears of a new state
// asks for what changed.
//
// Nothing is queued for a client. Each connection has one goroutine that sleeps in a read; a change wakes it, it
// looks what the states are now and writes those that differ from what it wrote before. So one that reads slowly
// gets the latest states when it reads again, holds up nobody, and costs no more memory than one that is quick.
package push

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/wire/jmap"
)

// Caller is who is told.
type Caller struct {
	signin.Account
	// Credential names what they signed in with; what was begun with it ends with it.
	Credential string
}

// Account is a mail file of which a caller is told.
type Account struct {
	ID       string
	Database note.DatabaseID
}

// Source is where states come from and requests go to: the door that this belongs to.
type Source interface {
	// Accounts are those that the caller finds in the session object.
	Accounts(ctx context.Context, c *Caller) ([]Account, error)
	// Watch calls fn after each durable change of an account, until stop is called. fn does not block.
	Watch(a Account, fn func()) (stop func(), err error)
	// States are the states of an account's types, by name of the type; of none, where the caller may see none.
	States(ctx context.Context, c *Caller, a Account) (map[string]string, error)
	// Call carries out a request of a WebSocket. It may change the caller.
	Call(ctx context.Context, c *Caller, request []byte) (Answer, *jmap.Problem)
	// Refresh brings a caller up to date with the directory. signin.ErrDisabled: they may do nothing more.
	Refresh(ctx context.Context, c *Caller) error
}

// Answer is the response to a request. Release gives back what it holds of the memory, once it is sent.
type Answer struct {
	JSON    []byte
	Release func()
}

// Options are the settings. Zero values take the defaults.
type Options struct {
	// Good says whether a credential still signs its person in; an error of package signin, or another kind of
	// refusal, says that it does not. nil: it always does.
	Good func(ctx context.Context, person note.UNID, credential string) error
	// Request bounds a request of a WebSocket, in octets (10 MB); Requests how many of one are worked on at a
	// time (8). Take takes memory for those of a person and Give gives it back; nil: there is no bound but these.
	Request  int64
	Requests int
	Take     func(person note.UNID, n int64) bool
	Give     func(person note.UNID, n int64)
	// PerPerson is how many connections one person has at most (100).
	PerPerson int
	Web       WebOptions
	Stats     *stat.Tree
}

const (
	// gap is the least time between two pushes of one connection: a burst of changes is told once or twice.
	gap = 50 * time.Millisecond
	// recheckGap is the least time between two looks at who may still be told, over everybody.
	recheckGap = 10 * time.Second
	// writeTime is how long a client may take for one push.
	writeTime = 30 * time.Second
)

// Service pushes. Its methods may be called from any goroutine.
type Service struct {
	env *env.Env
	src Source
	opt Options
	web *web

	ctx    context.Context // of the connections: it ends when the server begins to stop
	cancel context.CancelFunc
	work   context.Context // of what was asked for: it ends when the time for that is over
	cut    context.CancelFunc
	open   sync.WaitGroup

	mu        sync.Mutex
	closing   bool
	streams   map[*subscriber]struct{}
	perPerson map[note.UNID]int

	// rechecking says that a look at everybody is under way or set; again that another is to follow.
	rechecking, again atomic.Bool

	stats statistics
}

type statistics struct {
	sent, refused, slow *stat.Counter
}

// New makes a Service.
func New(e *env.Env, src Source, o Options) *Service {
	if o.Request <= 0 {
		o.Request = 10 << 20
	}
	if o.Requests <= 0 {
		o.Requests = 8
	}
	if o.PerPerson <= 0 {
		o.PerPerson = 100
	}
	if o.Take == nil {
		o.Take, o.Give = func(note.UNID, int64) bool { return true }, func(note.UNID, int64) {}
	}
	if o.Good == nil {
		o.Good = func(context.Context, note.UNID, string) error { return nil }
	}
	p := &Service{env: e, src: src, opt: o, streams: make(map[*subscriber]struct{}), perPerson: make(map[note.UNID]int)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.work, p.cut = context.WithCancel(context.Background())
	p.stats = statistics{
		sent:    o.Stats.Counter("JMAP.Push.Sent", "changes pushed to connected clients"),
		refused: o.Stats.Counter("JMAP.Push.Refused", "connections for pushes refused: their person had as many as one may have"),
		slow:    o.Stats.Counter("JMAP.Push.Slow", "connections for pushes closed since their client took nothing"),
	}
	o.Stats.GaugeFunc("JMAP.Push.Connections", "connections for pushes", func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return float64(len(p.streams))
	})
	p.web = newWeb(p, o.Web)
	return p
}

// errClosing says that the server stops.
var errClosing = errors.New("push: the server stops")

// enter counts a connection; leave ends it.
func (p *Service) enter(s *subscriber) *jmap.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := p.perPerson[s.caller.Who.Person]; {
	case p.closing:
		return &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Detail: "The server stops."}
	case n >= p.opt.PerPerson:
		p.stats.refused.Inc()
		return &jmap.Problem{Type: jmap.ProblemLimit, Status: http.StatusTooManyRequests, Limit: "maxConcurrentRequests", Detail: "There are too many connections for pushes already."}
	}
	s.endWith(s.caller.Credential)
	p.perPerson[s.caller.Who.Person]++
	p.streams[s] = struct{}{}
	p.open.Add(1)
	return nil
}

func (p *Service) leave(s *subscriber) {
	s.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, s)
	if p.perPerson[s.caller.Who.Person]--; p.perPerson[s.caller.Who.Person] <= 0 {
		delete(p.perPerson, s.caller.Who.Person)
	}
	p.open.Done()
}

// connected are those who are told by a connection.
func (p *Service) connected() []*subscriber {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*subscriber, 0, len(p.streams))
	for s := range p.streams {
		list = append(list, s)
	}
	return list
}

// End ends what was begun with certain credentials, at once.
func (p *Service) End(credentials ...string) {
	for _, s := range p.connected() {
		if slices.Contains(credentials, s.caller.Credential) {
			s.end()
		}
	}
	for _, s := range p.web.subscribers() {
		if slices.Contains(credentials, s.caller.Credential) {
			s.stale.Store(true) // who looks finds that the credential is over, and ends the subscription
			s.wakeUp()
		}
	}
}

// rechecked is how many are woken before the others get a moment.
const rechecked = 256

// Recheck looks again at who may still be told and of what: the directory, a session or an access list has
// changed. It returns at once; the look follows soon, and another one not before recheckGap.
func (p *Service) Recheck() {
	p.again.Store(true)
	if !p.rechecking.CompareAndSwap(false, true) {
		return
	}
	p.env.Go("push recheck", func() {
		for p.again.Swap(false) {
			for i, s := range append(p.connected(), p.web.subscribers()...) {
				s.stale.Store(true)
				s.wakeUp()
				if i%rechecked == rechecked-1 {
					p.pause(gap)
				}
			}
			p.pause(recheckGap)
		}
		p.rechecking.Store(false)
		if p.again.Load() && p.ctx.Err() == nil {
			p.Recheck() // it came just now
		}
	})
}

func (p *Service) pause(d time.Duration) {
	select {
	case <-p.env.Clock.After(d):
	case <-p.ctx.Done():
	}
}

// Close ends all connections, and what is on its way to push services, within the time of ctx.
func (p *Service) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.cancel()
	defer p.cut()
	for _, s := range p.connected() {
		s.end()
	}
	done := make(chan struct{})
	p.env.Go("push close", func() { p.open.Wait(); close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
