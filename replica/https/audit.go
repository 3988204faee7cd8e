package https

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Act is an audit entry: a use of a server's rights, or a rejected request.
type Act struct {
	// Verb names the action: replica list, replica open, replica sign-in, domain join.
	Verb string
	// By is the name of the person or server, or the key of an unknown server. Person is zero for a server.
	By     string
	Person note.UNID
	// From is the address of the client. On is the title of the database, or its id if the request was rejected.
	From, On string
	Err      error
	// More is the number of rejected requests from the client's network that were not reported before this one.
	More int
}

// Equal acts are reported at most once in these intervals. A connection that runs all the time is thus reported once an
// hour.
const (
	doneEvery    = time.Hour
	refusedEvery = time.Minute
	maxTold      = 10_000
	// refusedLines is the maximum number of rejected requests reported for one network in refusedEvery, regardless of
	// names and keys. The others are only counted.
	refusedLines = 10
)

// refusals counts the rejected requests from a network.
type refusals struct {
	since       time.Time
	lines, more int
}

// audit reports acts and suppresses repeated ones, because a replicating client sends many requests.
type audit struct {
	env  *env.Env
	tell func(Act)

	mu      sync.Mutex
	told    map[Act]time.Time    // keys have no Err
	refused map[string]*refusals // by network, because one client has all addresses of an IPv6 /64
}

// say reports an act unless an equal act was reported lately.
func (a *audit) say(x Act, every time.Duration) {
	if a.tell == nil {
		return
	}
	if a.fresh(&x, every) {
		a.tell(x)
	}
}

// fresh reports whether an act must be reported, and sets its More.
func (a *audit) fresh(x *Act, every time.Duration) bool {
	key, now := *x, a.env.Clock.Now()
	if key.Err = nil; x.Err != nil {
		key.Verb += " refused"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, known := a.told[key]; known && now.Sub(at) < every {
		return false
	}
	if x.Err != nil && !a.counts(x, now) {
		return false
	}
	if a.told == nil || len(a.told) >= maxTold {
		a.told = map[Act]time.Time{}
	}
	a.told[key] = now
	return true
}

// counts counts a rejected request and reports whether it must be reported.
func (a *audit) counts(x *Act, now time.Time) bool {
	network := networkOf(x.From)
	r := a.refused[network]
	if r == nil || now.Sub(r.since) >= refusedEvery {
		if a.refused == nil || len(a.refused) >= maxTold {
			a.refused = map[string]*refusals{}
		}
		if r == nil {
			r = &refusals{}
		}
		r.since, r.lines = now, 0
		a.refused[network] = r
	}
	if r.lines++; r.lines > refusedLines {
		r.more++
		return false
	}
	x.More, r.more = r.more, 0
	return true
}

func (c *call) act(verb, on string) Act {
	return Act{Verb: verb, By: c.id.Name, Person: c.id.Who.Person, From: from(c.r), On: on}
}

// did audits a use of a server's rights.
func (a *audit) did(c *call, verb, on string) { a.say(c.act(verb, on), doneEvery) }

// failed audits a request that was rejected for lack of rights.
func (a *audit) failed(c *call, err error) {
	if !errors.Is(err, store.ErrDenied) && !errors.Is(err, replica.ErrLocalOnly) {
		return
	}
	x := c.act("replica open", "")
	if c.db != 0 {
		x.On = c.db.String()
	}
	x.Err = err
	a.say(x, refusedEvery)
}

// stranger audits a failed sign-in.
func (a *audit) stranger(r *http.Request, err error) {
	user, _, _ := r.BasicAuth() // as sent by the client, not verified
	a.say(Act{Verb: "replica sign-in", By: user[:min(len(user), 100)], From: from(r), Err: err}, refusedEvery)
}

// joined audits a server that joined or tried to. A successful join is always reported.
func (a *audit) joined(r *http.Request, by string, err error) {
	x := Act{Verb: "domain join", By: by, From: from(r), Err: err}
	if err != nil {
		a.say(x, refusedEvery)
	} else if a.tell != nil {
		a.tell(x)
	}
}
