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

// Act is something for the audit: what a server did with the rights of one, or what was refused.
type Act struct {
	// Verb names the act: replica list, replica open, domain join.
	Verb string
	// By is the name of the person or server, or the key of one that nobody knows; Person is the person, zero for a server.
	By     string
	Person note.UNID
	// From is the address that it came from, On the database.
	From, On string
	Err      error
	// More counts the refused acts of the address before this one that were not told of.
	More int
}

// How often the same is told: a connection that runs all the time is told once an hour, and what is refused once a minute.
const (
	doneEvery    = time.Hour
	refusedEvery = time.Minute
	maxTold      = 10_000
	// refusedLines is how many refused acts of one address are told of in refusedEvery, by whatever names and keys. The others
	// are counted.
	refusedLines = 10
)

// refusals counts the refused acts of an address.
type refusals struct {
	since       time.Time
	lines, more int
}

// audit tells of acts, each once in a while: who replicates asks many times.
type audit struct {
	env  *env.Env
	tell func(Act)

	mu      sync.Mutex
	told    map[Act]time.Time // the Err of each is nil
	refused map[string]*refusals
}

// say tells of an act, unless the same was told lately.
func (a *audit) say(x Act, every time.Duration) {
	if a.tell == nil {
		return
	}
	if a.fresh(&x, every) {
		a.tell(x)
	}
}

// fresh reports that an act is told of, and gives it the count of those that were not.
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

// counts counts a refused act, and reports that it is told of.
func (a *audit) counts(x *Act, now time.Time) bool {
	r := a.refused[x.From]
	if r == nil || now.Sub(r.since) >= refusedEvery {
		if a.refused == nil || len(a.refused) >= maxTold {
			a.refused = map[string]*refusals{}
		}
		if r == nil {
			r = &refusals{}
		}
		r.since, r.lines = now, 0
		a.refused[x.From] = r
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

// did audits the use that a server makes of its rights.
func (a *audit) did(c *call, verb, on string) { a.say(c.act(verb, on), doneEvery) }

// failed audits a request of somebody who may not make it.
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

// stranger tells of who is not let in.
func (a *audit) stranger(r *http.Request, err error) {
	user, _, _ := r.BasicAuth() // whatever the client has written
	a.say(Act{Verb: "replica sign-in", By: user[:min(len(user), 100)], From: from(r), Err: err}, refusedEvery)
}

// joined tells of a server that joined, or wanted to. What came in is always told.
func (a *audit) joined(r *http.Request, by string, err error) {
	x := Act{Verb: "domain join", By: by, From: from(r), Err: err}
	if err != nil {
		a.say(x, refusedEvery)
	} else if a.tell != nil {
		a.tell(x)
	}
}
