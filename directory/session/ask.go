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

// Mates asks the other members of a cluster, the mates, about sessions.
type Mates interface {
	// Ask asks all live members for a session at once, with a short timeout. It returns the first answer from a member
	// that knows the session or knows that it ended. The zero Told means that no member knows the session.
	Ask(ctx context.Context, id note.UNID) Told
	// UseCode asks the home of the sessions database, which is its primary replica, to use a time step of a person's
	// second factor. asked is false if this server is the home, or if the home does not answer.
	UseCode(ctx context.Context, person note.UNID, step int64) (fresh, asked bool)
	// Guess asks the home to count a guess. asked is as in UseCode.
	Guess(ctx context.Context, g CountedGuess) (out Guessing, asked bool)
}

// Told is one member's knowledge of a session. It is sent as JSON.
type Told struct {
	// Session is zero if the session is unknown or Ended.
	Session Session
	// Hash is the hash of the session's token.
	Hash  []byte
	Ended bool
}

// Limits on questions to mates. A token that no member knows is not asked for again within missedFor. Requests from one
// address cause at most askedPer questions per askedWithin. At most asking questions are pending at a time.
const (
	missedFor   = 2 * time.Second
	askedWithin = time.Minute
	askedPer    = 60
	asking      = 64
	maxAsked    = 10_000
)

// asked counts the questions to mates, by session and by address.
type asked struct {
	mu     sync.Mutex
	now    int
	missed map[note.UNID]time.Time
	from   map[string]int
	since  time.Time // of the counts in from
}

// enter reports whether mates may be asked for a session. If so, the caller must call leave afterwards.
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

// ask asks the mates for a session that is not stored here, as it may be new. It returns the zero value if there is
// none or it ended.
func (x *Service) ask(ctx context.Context, id note.UNID, from string) (kept, error) {
	m := x.opt.Mates
	if m == nil || !x.asked.enter(id, from, x.env.Clock.Now()) {
		return kept{}, nil
	}
	t := m.Ask(ctx, id)
	x.asked.leave(id, from, t.Session.ID == id, x.env.Clock.Now())
	if t.Ended || t.Session.ID != id || len(t.Hash) != len(kept{}.hash) {
		return kept{}, nil
	}
	k := kept{Session: t.Session, hash: [32]byte(t.Hash), lent: true}
	// If all sessions were ended here, that also applies to a session from another member.
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

// Tell answers a mate's Ask, from this server's replica alone.
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

// ErrNotHome reports that this server is not the home of the sessions database, so it must not decide.
var ErrNotHome = errors.New("session: not the home of the sessions")

// Known reports whether the beginning or the end of a session has been replicated to this server.
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
