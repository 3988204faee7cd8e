package signin

import (
	"context"
	"sync"
	"time"

	"doublet/directory"
	"doublet/note"
)

// Bounds of notices: a person is told once a day, from so many wrong codes of the last 30 days on, since anybody mistypes one.
const (
	toldFrom    = 3
	maxNotices  = 10_000
	noticeTime  = 10 * time.Second
	noticeEvery = 24 * time.Hour
)

// notices remembers the people who were told lately that their second factor is guessed at.
type notices struct {
	mu   sync.Mutex
	told map[note.UNID]time.Time
}

// due reports that a person is to be told, and counts it as done.
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

// failed forgets that a person was told.
func (n *notices) failed(person note.UNID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.told, person)
}

// tell has a person told of wrong codes. It ends before the answer to the guess, and not with the guesser's connection: whoever
// hangs up early is told of too.
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
		w.env.Log.Warn("sign-in: the person is not told of wrong codes", "person", p.Name(), "error", err)
	}
}
