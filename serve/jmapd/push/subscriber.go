package push

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"doublet/note"
	"doublet/serve/signin"
	"doublet/wire/jmap"
)

// subscriber is a client that receives pushes: a connection, or a device behind a push service. Only one goroutine at a
// time reads its states and pushes them. Any goroutine may wake it.
type subscriber struct {
	p      *Service
	caller Caller
	// person is the caller's person. Unlike caller it does not change while the subscriber is connected.
	person note.UNID
	// accounts are the watched accounts. listed is set once they were read.
	accounts []*watched
	listed   bool

	// wake makes the goroutine that serves the subscriber check for changes. It is nil until there is one. It does not
	// block.
	wake atomic.Pointer[func()]
	// stale is set if caller and accounts must be read again, and over if nothing more may be pushed.
	stale, over atomic.Bool

	// stop cancels the timer for the end of the credential. It is nil if the credential does not expire.
	stop func() bool

	mu    sync.Mutex // guards types
	types filter
}

// filter is the set of types that a client wants pushes for.
type filter struct {
	all   bool
	names []string
}

func (f filter) has(name string) bool { return f.all || slices.Contains(f.names, name) }

// none reports whether the client wants no pushes yet.
func (f filter) none() bool { return !f.all && len(f.names) == 0 }

// watched is an account whose changes are pushed to a subscriber.
type watched struct {
	Account
	moved  atomic.Bool // changed since states was read
	stop   func()
	states []state // last pushed to the client, sorted by name
}

// state is the state of one type.
type state struct{ name, value string }

func (s *subscriber) wakeUp() {
	if fn := s.wake.Load(); fn != nil {
		(*fn)()
	}
}

// wakeWith sets the function that wakes the subscriber. Earlier changes are visible in moved.
func (s *subscriber) wakeWith(fn func()) { s.wake.Store(&fn) }

// end ends the connection or subscription.
func (s *subscriber) end() {
	s.over.Store(true)
	s.wakeUp()
}

// endWith ends the subscriber when the caller's credential expires.
func (s *subscriber) endWith(credential string) {
	if ends := signin.Ends(credential); !ends.IsZero() {
		s.stop = s.p.env.Clock.AfterFunc(ends.Sub(s.p.env.Clock.Now()), s.end)
	}
}

// close stops watching the accounts.
func (s *subscriber) close() {
	if s.stop != nil {
		s.stop()
	}
	for _, a := range s.accounts {
		a.stop()
	}
	s.accounts = nil
}

// moved reports whether there may be something to push.
func (s *subscriber) moved() bool {
	if s.stale.Load() || s.over.Load() {
		return true
	}
	for _, a := range s.accounts {
		if a.moved.Load() {
			return true
		}
	}
	return false
}

func (s *subscriber) filter() filter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types
}

func (s *subscriber) setFilter(f filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = f
}

// refused reports whether an error means that the subscriber must get no more pushes. Internal errors do not: pushes
// resume after them.
func refused(err error) bool {
	return errors.Is(err, signin.ErrDisabled) || errors.Is(err, signin.ErrCredentials) || errors.Is(err, ErrGone)
}

// ErrGone is the error of Options.Good for a credential that is no longer valid.
var ErrGone = errors.New("push: the credential is over")

// good checks the credential.
func (s *subscriber) good(ctx context.Context) error {
	return s.p.opt.Good(ctx, s.caller.Who.Person, s.caller.Credential)
}

// list updates the caller, and the list of accounts to watch. It watches a new account before its states are read, so
// that no change is missed.
func (s *subscriber) list(ctx context.Context) error {
	s.stale.Store(false)
	err := s.good(ctx)
	if err == nil {
		err = s.p.src.Refresh(ctx, &s.caller)
	}
	if err != nil {
		s.stale.Store(!refused(err))
		return err
	}
	list, err := s.p.src.Accounts(ctx, &s.caller)
	if err != nil {
		s.stale.Store(true)
		return err
	}
	keep := s.accounts[:0:0]
	for _, a := range s.accounts {
		if slices.Contains(list, a.Account) {
			keep = append(keep, a)
		} else {
			a.stop()
		}
	}
	for _, x := range list {
		if slices.ContainsFunc(keep, func(a *watched) bool { return a.Account == x }) {
			continue
		}
		a := &watched{Account: x}
		a.stop, err = s.p.src.Watch(x, func() { s.change(a) })
		if err != nil {
			continue // removed meanwhile
		}
		a.moved.Store(true)
		keep = append(keep, a)
	}
	s.accounts, s.listed = keep, true
	return nil
}

// change records a change of an account. The writer waits for it, so it does nothing if the change is already recorded.
func (s *subscriber) change(a *watched) {
	if !a.moved.Swap(true) {
		s.wakeUp()
	}
}

// look reads the states of the accounts that have changed. It returns those that are new to the client, or nil, and
// assumes that the client gets them.
func (s *subscriber) look(ctx context.Context) ([]change, error) {
	if !s.listed || s.stale.Load() {
		if err := s.list(ctx); err != nil {
			return nil, err
		}
	}
	f := s.filter()
	var out []change
	for _, a := range s.accounts {
		if !a.moved.Swap(false) {
			continue
		}
		states, err := s.p.src.States(ctx, &s.caller, a.Account)
		if err != nil {
			a.moved.Store(true) // read again at the next wake-up
			return out, err
		}
		now := sorted(states)
		if c := compare(a.ID, a.states, now, f); c != nil {
			out = append(out, *c)
		}
		a.states = now
	}
	return out, nil
}

// begin reads the current states. Where they were read before, it returns those that have changed since: the client may
// have read what it shows in between, and begins again to hear of more types. If token belongs to other states, it
// returns all of them.
func (s *subscriber) begin(ctx context.Context, token string) ([]change, error) {
	known := s.listed
	list, err := s.look(ctx)
	if !known {
		list = nil
	}
	if err != nil || token == "" || token == s.token() {
		return list, err
	}
	f := s.filter()
	var out []change
	for _, a := range s.accounts {
		if c := compare(a.ID, nil, a.states, f); c != nil {
			out = append(out, *c)
		}
	}
	return out, nil
}

// change holds the new states of an account.
type change struct {
	account string
	states  []state
}

// compare returns the states that differ and that the filter selects, or nil.
func compare(account string, before, now []state, f filter) *change {
	var c *change
	for _, s := range now {
		if !f.has(s.name) || slices.Contains(before, s) {
			continue
		}
		if c == nil {
			c = &change{account: account}
		}
		c.states = append(c.states, s)
	}
	return c
}

func sorted(m map[string]string) []state {
	list := make([]state, 0, len(m))
	for n, v := range m {
		list = append(list, state{n, v})
	}
	slices.SortFunc(list, func(a, b state) int { return strings.Compare(a.name, b.name) })
	return list
}

// token returns a hash of all states that the client has been sent.
func (s *subscriber) token() string {
	h := fnv.New64a()
	for _, a := range s.accounts {
		_, _ = h.Write([]byte(a.ID))
		for _, x := range a.states {
			_, _ = h.Write([]byte("\x00" + x.name + "\x00" + x.value))
		}
		_, _ = h.Write([]byte{1})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// appendChange appends a StateChange object, without its closing brace.
//
// Implements: RFC 8620 §7.1 The StateChange object
func appendChange(dst []byte, list []change) []byte {
	dst = append(dst, `{"@type":"StateChange","changed":{`...)
	for i, c := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jmap.AppendString(dst, c.account), ':', '{')
		for j, s := range c.states {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(jmap.AppendString(dst, s.name), ':')
			dst = jmap.AppendString(dst, s.value)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// push sends the changed states, if any have changed and a push is due. It retries later if the states cannot be
// read.
func (s *subscriber) push(ctx context.Context, pace *pacer, now time.Time, tell func([]change) error) error {
	if !s.moved() || now.Before(pace.next) {
		return nil
	}
	list, err := s.look(ctx)
	if bad := tell(list); bad != nil {
		return bad
	}
	if err == nil || refused(err) {
		return err
	}
	s.p.trouble(s, err)
	pace.next = now.Add(retry)
	return nil
}
