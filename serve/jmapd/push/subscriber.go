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

	"doublet/serve/signin"
	"doublet/wire/jmap"
)

// subscriber is a client that is told of changes: a connection, or a device behind a push service. One goroutine
// at a time looks and tells; any other may wake it.
type subscriber struct {
	p      *Service
	caller Caller
	// accounts are those that it is told of; listed says that they were asked for.
	accounts []*watched
	listed   bool

	// wake has whoever serves the subscriber look; nil until somebody does. It does not block.
	wake atomic.Pointer[func()]
	// stale says that caller and accounts are to be looked at again, over that nothing more is to be told.
	stale, over atomic.Bool

	// stop ends the wait for the end of the credential; nil where that has none.
	stop func() bool

	mu    sync.Mutex // guards filter
	types filter
}

// filter says which types a client wants to hear of.
type filter struct {
	all   bool
	names []string
}

func (f filter) has(name string) bool { return f.all || slices.Contains(f.names, name) }

// none is that of a client that wants to hear of nothing yet.
func (f filter) none() bool { return !f.all && len(f.names) == 0 }

// watched is an account that somebody is told of.
type watched struct {
	Account
	moved  atomic.Bool // it has changed since states was read
	stop   func()
	states []state // as the client has been told, sorted
}

// state is that of one type.
type state struct{ name, value string }

func (s *subscriber) wakeUp() {
	if fn := s.wake.Load(); fn != nil {
		(*fn)()
	}
}

// wakeWith says how the subscriber is woken from now on. What came before is seen by moved.
func (s *subscriber) wakeWith(fn func()) { s.wake.Store(&fn) }

// end ends the subscription.
func (s *subscriber) end() {
	s.over.Store(true)
	s.wakeUp()
}

// endWith has the subscription end with what its caller signed in with.
func (s *subscriber) endWith(credential string) {
	if ends := signin.Ends(credential); !ends.IsZero() {
		s.stop = s.p.env.Clock.AfterFunc(ends.Sub(s.p.env.Clock.Now()), s.end)
	}
}

// close stops watching.
func (s *subscriber) close() {
	if s.stop != nil {
		s.stop()
	}
	for _, a := range s.accounts {
		a.stop()
	}
	s.accounts = nil
}

// moved says whether there may be something to tell.
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

// refused says whether an error means that somebody is not to be told any more. Trouble of the server's own does
// not: they are told when it is over.
func refused(err error) bool {
	return errors.Is(err, signin.ErrDisabled) || errors.Is(err, signin.ErrCredentials) || errors.Is(err, ErrGone)
}

// ErrGone is what Options.Good says of a credential that is over.
var ErrGone = errors.New("push: the credential is over")

// good checks the credential.
func (s *subscriber) good(ctx context.Context) error {
	return s.p.opt.Good(ctx, s.caller.Who.Person, s.caller.Credential)
}

// list brings the caller up to date, and finds the accounts that they are told of. Those that are new are
// watched first and looked at then, so that no change falls between.
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
			continue // it was removed just now
		}
		a.moved.Store(true)
		keep = append(keep, a)
	}
	s.accounts, s.listed = keep, true
	return nil
}

// change is told of a change. It is called while others wait: one that was told already has nothing to do.
func (s *subscriber) change(a *watched) {
	if !a.moved.Swap(true) {
		s.wakeUp()
	}
}

// look reads the states of what has changed, and says what is new to the client: nil for nothing. What it has
// returned the client knows from then on.
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
			a.moved.Store(true) // looked at again with the next change
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

// begin has the client know the states of now without telling them, unless it shows a token of other ones:
// then it is told all.
func (s *subscriber) begin(ctx context.Context, token string) ([]change, error) {
	if _, err := s.look(ctx); err != nil {
		return nil, err
	}
	if token == "" || token == s.token() {
		return nil, nil
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

// change is what a client is told of an account.
type change struct {
	account string
	states  []state
}

// compare gives the states of types that a client wants to hear of and that differ.
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

// token encodes the whole state that a client has been told: another one for another state.
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

// appendChange prints a StateChange object, without its closing brace.
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
