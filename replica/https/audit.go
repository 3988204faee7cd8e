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
}

// How often the same is told: a connection that runs all the time is told once an hour, and what is refused once a minute.
const (
	doneEvery    = time.Hour
	refusedEvery = time.Minute
	maxTold      = 10_000
)

// audit tells of acts, each once in a while: who replicates asks many times.
type audit struct {
	env  *env.Env
	tell func(Act)

	mu   sync.Mutex
	told map[Act]time.Time // the Err of each is nil
}

// say tells of an act, unless the same was told lately.
func (a *audit) say(x Act, every time.Duration) {
	if a.tell == nil {
		return
	}
	key, now := x, a.env.Clock.Now()
	if key.Err = nil; x.Err != nil {
		key.Verb += " refused"
	}
	a.mu.Lock()
	at, known := a.told[key]
	again := !known || now.Sub(at) >= every
	if again {
		if a.told == nil || len(a.told) >= maxTold {
			a.told = map[Act]time.Time{}
		}
		a.told[key] = now
	}
	a.mu.Unlock()
	if again {
		a.tell(x)
	}
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
	user, _, _ := r.BasicAuth()
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
