package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"doublet/note"
	"doublet/store"
)

// Mates are the other members of a cluster, as far as sessions go.
type Mates interface {
	// Ask asks those that live for a session, all at once and not for long; the first that knows it, or that it is ended, is
	// believed. The zero Told: nobody knows it.
	Ask(ctx context.Context, id note.UNID) Told
	// UseCode has the home of the database use a step of a person's second factor; asked is false where this server is that
	// itself, or none answers.
	UseCode(ctx context.Context, person note.UNID, step int64) (fresh, asked bool)
	// Guess has the home count a guess, as UseCode.
	Guess(ctx context.Context, g CountedGuess) (out Guessing, asked bool)
}

// Told is what one member knows of a session. It travels as JSON.
type Told struct {
	// Session is the zero one where it is not known, or Ended.
	Session Session
	// Hash is that of its token.
	Hash  []byte
	Ended bool
}

// UseMates has the service ask the members of a cluster for what has not come here yet.
func (b *base) UseMates(m Mates) { b.mates.Store(&m) }

// Bounds on what mates are asked. A token that nobody knows is not asked for again within missedFor; an address that shows
// such has mates asked askedPer times in askedWithin, and no more than asking are on their way at a time.
const (
	missedFor   = 2 * time.Second
	askedWithin = time.Minute
	askedPer    = 60
	asking      = 64
	maxAsked    = 10_000
)

// asked remembers who has had mates asked for what.
type asked struct {
	mu     sync.Mutex
	now    int
	missed map[note.UNID]time.Time
	from   map[string]int
	since  time.Time // of the counts in from
}

// enter says whether mates may be asked for a session; leave must follow.
func (a *asked) enter(id note.UNID, from string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) >= askedWithin || a.from == nil || len(a.from) >= maxAsked {
		a.from, a.since = map[string]int{}, now
	}
	if until, ok := a.missed[id]; a.now >= asking || ok && now.Before(until) || from != "" && a.from[from] >= askedPer {
		return false
	}
	if from != "" {
		a.from[from]++
	}
	a.now++
	return true
}

func (a *asked) leave(id note.UNID, from string, found bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now--
	if found {
		if from != "" {
			a.from[from]--
		}
		return
	}
	if a.missed == nil || len(a.missed) >= maxAsked {
		a.missed = map[note.UNID]time.Time{}
	}
	a.missed[id] = now.Add(missedFor)
}

// ask asks the mates for a session that is not here: it may have begun a moment ago. The zero one is none, or is ended.
func (x *Service) ask(ctx context.Context, id note.UNID, from string) (kept, error) {
	m := x.mates.Load()
	if m == nil || !x.asked.enter(id, from, x.env.Clock.Now()) {
		return kept{}, nil
	}
	t := (*m).Ask(ctx, id)
	x.asked.leave(id, from, t.Session.ID == id, x.env.Clock.Now())
	if t.Ended || t.Session.ID != id || len(t.Hash) != len(kept{}.hash) {
		return kept{}, nil
	}
	k := kept{Session: t.Session, hash: [32]byte(t.Hash), lent: true}
	// What was ended here for all holds for what comes from elsewhere.
	err := x.read(ctx, func(r *store.Reader) error {
		ended, err := over(r, &k.Session)
		if ended {
			k = kept{}
		}
		return err
	})
	if err != nil {
		return kept{}, fmt.Errorf("session: %w", err)
	}
	return k, nil
}

// Tell answers a mate's Ask, by what stands here alone.
func (x *Service) Tell(ctx context.Context, id note.UNID) (Told, error) {
	x.adopt(ctx)
	var t Told
	err := x.read(ctx, func(r *store.Reader) error {
		k, ended, err := x.stored(r, id)
		t = Told{Session: k.Session, Ended: ended}
		if !k.Person.IsZero() {
			t.Hash = k.hash[:]
		}
		return err
	})
	if err != nil {
		return Told{}, fmt.Errorf("session: %w", err)
	}
	return t, nil
}

// ErrNotHome says that another member decides, or none does now.
var ErrNotHome = errors.New("session: not the home of the sessions")

// Known says whether word of a session has come here: that it was begun, or that it was ended.
func (x *Service) Known(ctx context.Context, id note.UNID) (yes bool, err error) {
	err = x.read(ctx, func(r *store.Reader) error {
		k, ended, err := x.stored(r, id)
		yes = ended || !k.Person.IsZero()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("session: %w", err)
	}
	return yes, nil
}
