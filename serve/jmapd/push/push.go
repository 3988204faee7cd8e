// Package push notifies JMAP clients of changes: over EventSource (RFC 8620 section 7.3), over a WebSocket that also
// carries requests (RFC 8887), and through push services for devices that are not connected (RFC 8620 section 7.2, RFC
// 8030). A push contains only states, never content. A client that receives a new state requests the changes.
//
// The server queues nothing for a client. Each connection has one goroutine that blocks in a read. A change wakes it;
// it reads the current states and writes those that differ from the ones it wrote before. So a slow client gets the
// latest states when it reads again, delays nobody, and costs no more memory than a fast one.
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

// Caller identifies the user whom a connection notifies.
type Caller struct {
	signin.Account
	// Credential identifies the credential that the user signed in with. Connections and subscriptions made with it end
	// with it.
	Credential string
}

// Account is a mail file whose changes are pushed to a caller.
type Account struct {
	ID       string
	Database note.DatabaseID
}

// Source provides states and executes requests. Package jmapd implements it.
type Source interface {
	// Accounts returns the caller's accounts, as in the session object.
	Accounts(ctx context.Context, c *Caller) ([]Account, error)
	// Watch calls fn after each durable change of an account until stop is called. fn does not block.
	Watch(a Account, fn func()) (stop func(), err error)
	// States returns the states of an account's types, by type name. It returns none if the caller may not see the
	// account.
	States(ctx context.Context, c *Caller, a Account) (map[string]string, error)
	// Call executes a request of a WebSocket. It may change the caller.
	Call(ctx context.Context, c *Caller, request []byte) (Answer, *jmap.Problem)
	// Refresh updates a caller from the directory. It returns signin.ErrDisabled if the account was disabled.
	Refresh(ctx context.Context, c *Caller) error
}

// Answer is the response to a request. Release frees its memory and must be called after it was sent.
type Answer struct {
	JSON    []byte
	Release func()
}

// Options holds the settings. Zero values take the defaults, which are in parentheses.
type Options struct {
	// Good checks a credential of a person. It returns signin.ErrDisabled, signin.ErrCredentials or ErrGone if the
	// credential is no longer valid, and any other error if it cannot be checked now. If nil, all credentials are
	// valid.
	Good func(ctx context.Context, person note.UNID, credential string) error
	// Request bounds a request on a WebSocket in octets (10 MB). Requests is the number of requests processed at once
	// on one WebSocket (8). Take reserves memory from a person's share, and Give releases it. If nil, there are no
	// other bounds.
	Request  int64
	Requests int
	Take     func(person note.UNID, n int64) bool
	Give     func(person note.UNID, n int64)
	// PerPerson is the most connections that one person may have (100).
	PerPerson int
	Web       WebOptions
	Stats     *stat.Tree
}

const (
	// gap is the least time between two pushes on one connection, so that a burst of changes causes one or two pushes.
	gap = 50 * time.Millisecond
	// recheckGap is the least time between two rechecks of all subscribers.
	recheckGap = 10 * time.Second
	// writeTime is the timeout for writing one push.
	writeTime = 30 * time.Second
)

// Service sends pushes. Its methods are safe for concurrent use.
type Service struct {
	env *env.Env
	src Source
	opt Options
	web *web

	ctx    context.Context // of the connections; canceled when the server begins to stop
	cancel context.CancelFunc
	work   context.Context // of requests in progress; canceled when the time to stop is over
	cut    context.CancelFunc
	open   sync.WaitGroup

	mu        sync.Mutex
	closing   bool
	streams   map[*subscriber]struct{}
	perPerson map[note.UNID]int

	// rechecking reports that a recheck is running or scheduled, and again that another one must follow.
	rechecking, again atomic.Bool

	stats statistics
}

type statistics struct {
	sent, refused, slow *stat.Counter
}

// New returns a Service.
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
		sent: o.Stats.Counter("JMAP.Push.Sent", "changes pushed to connected clients"),
		refused: o.Stats.Counter("JMAP.Push.Refused",
			"connections for pushes refused: their person had as many as one may have"),
		slow: o.Stats.Counter("JMAP.Push.Slow", "connections for pushes closed since their client took nothing"),
	}
	o.Stats.GaugeFunc("JMAP.Push.Connections", "connections for pushes", func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return float64(len(p.streams))
	})
	p.web = newWeb(p, o.Web)
	return p
}

// errClosing is returned when the server stops.
var errClosing = errors.New("push: server is stopping")

// enter registers a connection, and leave removes it. enter fails if the person has too many connections.
func (p *Service) enter(s *subscriber) *jmap.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.person = s.caller.Who.Person
	switch n := p.perPerson[s.person]; {
	case p.closing:
		return &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusServiceUnavailable,
			Title: "Service Unavailable", Detail: "The server stops."}
	case n >= p.opt.PerPerson:
		p.stats.refused.Inc()
		return &jmap.Problem{Type: jmap.ProblemLimit, Status: http.StatusTooManyRequests,
			Limit: "maxConcurrentRequests", Detail: "There are too many connections for pushes already."}
	}
	s.endWith(s.caller.Credential)
	p.perPerson[s.person]++
	p.streams[s] = struct{}{}
	p.open.Add(1)
	return nil
}

func (p *Service) leave(s *subscriber) {
	s.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, s)
	if p.perPerson[s.person]--; p.perPerson[s.person] <= 0 {
		delete(p.perPerson, s.person)
	}
	p.open.Done()
}

// connected returns the subscribers that have a connection.
func (p *Service) connected() []*subscriber {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*subscriber, 0, len(p.streams))
	for s := range p.streams {
		list = append(list, s)
	}
	return list
}

// End closes connections and ends subscriptions that were made with these credentials, at once.
func (p *Service) End(credentials ...string) {
	for _, s := range p.connected() {
		if slices.Contains(credentials, s.caller.Credential) {
			s.end()
		}
	}
	for _, s := range p.web.subscribers() {
		if slices.Contains(credentials, s.caller.Credential) {
			s.stale.Store(true) // run then finds the credential invalid and ends the subscription
			s.wakeUp()
		}
	}
}

// Drop closes the connections of a person, or those of everybody if it is the zero UNID, and returns their number
// without those that End has closed. Credentials and the subscriptions of push services stay valid.
func (p *Service) Drop(person note.UNID) (n int) {
	for _, s := range p.connected() {
		if (person.IsZero() || s.person == person) && !s.over.Load() {
			s.end()
			n++
		}
	}
	return n
}

// rechecked is the number of subscribers that Recheck wakes before it pauses for gap.
const rechecked = 256

// Recheck makes all subscribers check again their credential and accounts. Call it after a change of the directory, a
// session or an access list. It returns at once. The check follows soon, but not within recheckGap of the one before.
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
			p.Recheck() // again was set after the loop ended
		}
	})
}

func (p *Service) pause(d time.Duration) {
	select {
	case <-p.env.Clock.After(d):
	case <-p.ctx.Done():
	}
}

// Close closes all connections and waits for pushes in progress until ctx ends.
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
