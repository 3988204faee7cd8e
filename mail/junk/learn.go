package junk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"doublet/directory"
	"doublet/mail/bayes"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

const (
	// Consumer is the name of the filter's cursor in the feed.
	Consumer = "Junk"
	// gather is the time to wait after a change, so that a message that is moved on at once is learned once.
	gather = time.Second
	// saveEvery is the interval between writes, unless memory is short before. After a crash, the changes of this
	// interval are learned again.
	saveEvery = 5 * time.Minute
	// batch is the number of changes of one step.
	batch = 1024
	// share is the percentage of the time that learning takes while there is much to learn.
	share = 25
	// weakGood is the number of good messages up to which a message counts that was only read.
	weakGood = 200
	// sharersFor is the time for which the members of the group Options.Sharers are remembered.
	sharersFor = 10 * time.Minute
)

// learner reads the feed. It is used by one goroutine.
type learner struct {
	f     *Filter
	begun bool
	cur   store.Cursor
	saved struct {
		cur store.Cursor
		at  time.Time
	}
	sharers struct {
		files map[note.DatabaseID]bool
		at    time.Time
	}
}

// Run learns until ctx ends, and writes what it learned.
func (f *Filter) Run(ctx context.Context) error {
	l := &f.learner
	err := l.begin()
	for err == nil && ctx.Err() == nil {
		err = l.round(ctx)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, l.save(context.WithoutCancel(ctx), true))
}

// Catch learns what has changed until now, and writes it.
func (f *Filter) Catch(ctx context.Context) error {
	l := &f.learner
	if err := l.begin(); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = l.step(ctx); err != nil {
			return err
		}
	}
	return l.save(ctx, true)
}

// round runs one step, and waits if there is nothing to do.
func (l *learner) round(ctx context.Context) error {
	clock := l.f.env.Clock
	moved := l.f.store.FeedMoved(l.cur)
	begun := clock.Now()
	more, err := l.step(ctx)
	if err != nil {
		return err
	}
	if err := l.save(ctx, false); err != nil {
		return err
	}
	if more {
		took := clock.Now().Sub(begun)
		return l.pause(ctx, min(took*(100-share)/share, time.Second))
	}
	var timer <-chan time.Time
	if l.cur != l.saved.cur {
		timer = clock.After(max(l.saved.at.Add(saveEvery).Sub(clock.Now()), 0))
	}
	select {
	case <-moved:
		return l.pause(ctx, gather)
	case <-timer:
	case <-ctx.Done():
	}
	return nil
}

func (l *learner) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-l.f.env.Clock.After(d):
	case <-ctx.Done():
	}
	return nil
}

// begin sets the cursor. Without one the filter is new: each mail file is read when it changes.
func (l *learner) begin() error {
	if l.begun {
		return nil
	}
	c, err := l.f.store.LoadCursor(Consumer)
	if err != nil {
		return fmt.Errorf("junk: %w", err)
	}
	if l.cur = c; c.Seq == 0 {
		l.cur = l.f.store.Now()
		if err := l.f.store.SaveCursor(Consumer, l.cur); err != nil {
			return fmt.Errorf("junk: %w", err)
		}
	}
	l.saved.cur, l.saved.at, l.begun = l.cur, l.f.env.Clock.Now(), true
	return nil
}

// save writes what has changed, and then the cursor: after a crash between both, changes are read again, which changes
// nothing.
func (l *learner) save(ctx context.Context, now bool) error {
	clock := l.f.env.Clock
	now = now || l.f.over() || clock.Now().Sub(l.saved.at) >= saveEvery
	if !l.begun || l.cur == l.saved.cur || !now {
		return nil
	}
	if err := l.f.save(ctx); err != nil {
		return err
	}
	if err := l.f.store.SaveCursor(Consumer, l.cur); err != nil {
		return fmt.Errorf("junk: %w", err)
	}
	l.saved.cur, l.saved.at = l.cur, clock.Now()
	return nil
}

// step learns from the next changes in the feed.
func (l *learner) step(ctx context.Context) (more bool, err error) {
	changed, n := map[note.DatabaseID]map[note.ID]bool{}, 0
	next, err := l.f.store.Feed(l.cur, func(c store.Change) bool {
		if n++; n > batch {
			more = true
			return false
		}
		if changed[c.Database] == nil {
			changed[c.Database] = map[note.ID]bool{}
		}
		changed[c.Database][c.Note] = true
		return true
	})
	if errors.Is(err, store.ErrFeedCut) {
		return false, l.cut(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("junk: %w", err)
	}
	for _, db := range slices.Sorted(maps.Keys(changed)) {
		if err := l.learnFrom(ctx, db, slices.Sorted(maps.Keys(changed[db]))); err != nil {
			return false, err
		}
	}
	l.cur = next
	return more, nil
}

// cut continues after a gap in the feed: the rows of each mail file show which messages have changed since.
func (l *learner) cut(ctx context.Context) error {
	now, since := l.f.store.Now(), uint64(0)
	if now.Incarnation == l.cur.Incarnation {
		since = l.cur.Seq
	}
	var files []note.DatabaseID
	if err := l.f.store.Infos(func(i *layout.Info) {
		if i.Kind == mailbox.Kind {
			files = append(files, i.ID)
		}
	}); err != nil {
		return fmt.Errorf("junk: %w", err)
	}
	for _, db := range files {
		for from := since; ; {
			var ids []note.ID
			err := l.f.store.Read(ctx, note.System, db, func(r *store.Reader) error {
				return r.Since(from, func(seq uint64, id note.ID) bool {
					from, ids = seq, append(ids, id)
					return len(ids) < batch
				})
			})
			if err != nil && !unreadable(err) {
				return fmt.Errorf("junk: %w", err)
			}
			if err := l.learnFrom(ctx, db, ids); err != nil {
				return err
			}
			if len(ids) < batch {
				break
			}
		}
	}
	l.cur = now
	return nil
}

// unreadable reports whether an error concerns one database or note.
func unreadable(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) ||
		errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrIncomplete)
}

// learnFrom learns from messages of a database that have changed. What cannot be read is left out.
func (l *learner) learnFrom(ctx context.Context, db note.DatabaseID, ids []note.ID) error {
	if err := ctx.Err(); err != nil || len(ids) == 0 {
		return err
	}
	info, err := l.f.store.Info(db)
	if err != nil || info.Kind != mailbox.Kind {
		return nil //nolint:nilerr // the database is gone
	}
	b := &lesson{l: l, f: l.f, db: db}
	err = l.f.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		if b.places, err = placesOf(r); err != nil {
			return err
		}
		return b.run(ctx, r, ids)
	})
	if b.release != nil {
		b.release()
	}
	if err != nil && unreadable(err) {
		l.f.stat.failed.Inc()
		l.f.env.Log.Warn("junk: cannot read a mail file", "database", db.String(), "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("junk: %w", err)
	}
	return nil
}

// sharing reports whether the owner of a mail file is a member of the group Options.Sharers.
func (l *learner) sharing(ctx context.Context, db note.DatabaseID) bool {
	group := l.f.opt.Sharers
	if group == "" || group == "*" {
		return group == "*"
	}
	s, now := &l.sharers, l.f.env.Clock.Now()
	if s.files == nil || now.Sub(s.at) >= sharersFor {
		s.files, s.at = map[note.DatabaseID]bool{}, now
		t, err := l.f.dir.Names.Lookup(ctx, group)
		var x directory.Expansion
		if err == nil {
			x, err = l.f.dir.Names.Expand(ctx, []directory.Target{t})
		}
		if err != nil {
			l.f.env.Log.Warn("junk: nobody's filing is shared: the group cannot be read", "group", group, "err", err)
		}
		for i := range x.Recipients {
			s.files[x.Recipients[i].Database] = true
		}
	}
	return s.files[db]
}

// maxSent is the number of recipients of one message that become known addresses.
const maxSent = 100

// know notes the recipients of a message that the owner wrote.
func (e *entry) know(t *read) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed, left := false, maxSent
	h := t.root.Envelope
	for _, list := range [][]address{h.To, h.Cc, h.Bcc} {
		for i := range list {
			if a := &list[i]; !a.Group && a.Host != "" && left > 0 {
				left--
				changed = e.memory.Know(bayes.AddressOf(a)) || changed
			}
		}
	}
	e.dirty = e.dirty || changed
	return changed
}
