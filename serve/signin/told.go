package signin

import (
	"context"
	"sync"
	"time"

	"doublet/directory"
	"doublet/note"
)

// Limits of notices. A person is notified at most once a day. A single mistyped code causes no notice: there must be
// toldFrom wrong codes in the last 30 days.
const (
	toldFrom    = 3
	maxNotices  = 10_000
	noticeTime  = 10 * time.Second
	noticeEvery = 24 * time.Hour
)

// notices records the people who were notified recently that someone guesses their second factor.
type notices struct {
	mu   sync.Mutex
	told map[note.UNID]time.Time
}

// due reports whether a person should be notified, and records the notice.
func (n *notices) due(person note.UNID, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.told[person]; ok && now.Sub(at) < noticeEvery {
		return false
	}
	if n.told == nil || len(n.told) >= maxNotices {
		n.told = map[note.UNID]time.Time{}
	}
	n.told[person] = now
	return true
}

// failed removes the record of a notice that could not be sent.
func (n *notices) failed(person note.UNID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.told, person)
}

// tell notifies a person of wrong codes. It completes before the guess is answered, and does not depend on the
// guesser's connection: a guesser cannot prevent the notice by disconnecting.
func (w *Web) tell(ctx context.Context, p *directory.Person, from string, locked bool) {
	if w.opt.Guessed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeTime)
	defer cancel()
	if !locked {
		if wrong, err := w.codes.WrongCodes(ctx, p.ID); err != nil || wrong.Count < toldFrom {
			return
		}
	}
	if !w.notices.due(p.ID, w.env.Clock.Now()) {
		return
	}
	if err := w.opt.Guessed(ctx, p, from, locked); err != nil {
		w.notices.failed(p.ID)
		w.env.Log.Warn("sign-in: cannot notify a person of wrong codes", "person", p.Name(), "error", err)
	}
}
