package search

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"doublet/note"
	"doublet/search/index"
	"doublet/store"
	"doublet/store/layout"
)

// Timing and batch sizes.
const (
	// gather is the time to wait after a change, so that several changes are written in one step, and messages that
	// are deleted at once are not read. Searches read the texts that the index lacks.
	gather = time.Second
	// batchChanges and batchBytes limit one step.
	batchChanges = 1024
	batchBytes   = 8 << 20
	// flushEvery is the interval between flushes. A crash loses at most the work of this interval.
	flushEvery = 30 * time.Second
	// retryEvery is the interval for retrying databases that could not be read, and for checking free space.
	retryEvery = 30 * time.Second
)

// worker reads the store's feed into one index. It alone decides which notes are indexed; the goroutines of attachments
// and merges work on what it has written. It is used by one goroutine.
type worker struct {
	s *Service
	x *index.Index

	attachments *attachments
	merges      *merges

	notes *noteReader
	cur   store.Cursor
	// room is the number of bytes of one step: batchBytes, less in tests.
	room int
	// kinds caches, by database, whether it is indexed. off holds those that are not because they are switched off.
	kinds, off map[note.DatabaseID]bool
	// pending lists databases with notes that their build lacks. blocked holds the time until which a database is not
	// read.
	pending []note.DatabaseID
	// tails holds those of them whose active build lacks notes that queries read until then.
	tails   map[note.DatabaseID]bool
	blocked map[note.DatabaseID]time.Time
	flushed time.Time
	dirty   bool
	paused  bool
}

func newWorker(s *Service, x *index.Index) *worker {
	return &worker{
		s: s, x: x,
		attachments: &attachments{s: s, x: x, wake: make(chan struct{}, 1)},
		merges:      &merges{s: s, x: x, more: make(chan struct{}, 1), mergeable: map[note.DatabaseID]bool{}},
		room:        batchBytes,
		notes:       &noteReader{s: s, words: newAnalyser()},
		kinds:       map[note.DatabaseID]bool{}, off: map[note.DatabaseID]bool{},
		blocked: map[note.DatabaseID]time.Time{}, tails: map[note.DatabaseID]bool{},
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// feed reads the store's feed, and builds databases that are not indexed yet.
func (w *worker) feed(ctx context.Context) error {
	w.flushed = w.s.env.Clock.Now()
	err := w.begin(ctx)
	for err == nil && ctx.Err() == nil {
		err = w.round(ctx)
		w.s.step()
	}
	if w.x.Err() == nil && !errors.Is(err, index.ErrDamaged) {
		err = errors.Join(err, w.flush(true))
	}
	return err
}

// round runs one step, and waits if there is nothing to do.
func (w *worker) round(ctx context.Context) error {
	if err := w.errands(ctx); err != nil {
		return err
	}
	if !w.space() {
		return w.wait(ctx, nil, retryEvery)
	}
	moved := w.s.store.FeedMoved(w.cur)
	clock := w.s.env.Clock
	begun := clock.Now()
	more, err := w.read(ctx)
	if err != nil {
		return err
	}
	w.s.pending.Store(int64(len(w.pending))) // before lag.read: Catch looks at both
	w.s.lag.read(w.cur.Seq, !more, begun)
	w.s.pace(ctx, begun, w.s.opt.Share)
	built, err := w.build(ctx)
	if err != nil {
		return err
	}
	w.s.pending.Store(int64(len(w.pending)))
	if err := w.flush(false); err != nil || more || built {
		return err
	}
	w.s.step()
	pause := retryEvery
	if w.dirty {
		pause = min(pause, max(w.flushed.Add(flushEvery).Sub(clock.Now()), 0))
	}
	return w.wait(ctx, moved, pause)
}

// wait returns when the feed has moved, the worker is woken, or d has passed.
func (w *worker) wait(ctx context.Context, moved <-chan struct{}, d time.Duration) error {
	clock := w.s.env.Clock
	select {
	case <-moved:
		w.s.lag.moved(clock.Now())
		select {
		case <-clock.After(gather):
		case <-w.s.kick: // somebody waits for the index
		case <-ctx.Done():
		}
	case <-w.s.kick:
	case <-clock.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// pace sleeps so that the work since begun takes share percent of the time.
func (s *Service) pace(ctx context.Context, begun time.Time, share int) {
	d := s.env.Clock.Now().Sub(begun)
	if share >= 100 || d < 100*time.Microsecond {
		return
	}
	select {
	case <-s.env.Clock.After(min(d*time.Duration(100-share)/time.Duration(share), 5*time.Second)):
	case <-ctx.Done():
	}
}

// space reports whether the index's disk has enough free space.
func (w *worker) space() bool {
	du, err := w.s.env.FS.GetDiskUsage(w.s.opt.Dir)
	full := err == nil && du.AvailBytes < w.s.store.FloorOf(du.TotalBytes)
	if full != w.paused {
		w.paused = full
		w.s.log.Warn("search: free space is below the floor", "index waits", full)
	}
	return !full
}

// flush makes the index durable and then saves its cursor in the store, which may drop the feed up to there. Unless now
// is set, it does so only every flushEvery.
func (w *worker) flush(now bool) error {
	clock := w.s.env.Clock
	if !w.dirty || !now && clock.Now().Sub(w.flushed) < flushEvery {
		return nil
	}
	cur := w.cur
	if err := w.x.Flush(); err != nil {
		return err
	}
	w.flushed, w.dirty = clock.Now(), false
	return w.s.store.SaveCursor(Consumer, cur)
}

// begin synchronizes the index with the store. Since the last run, the store may have been restored, the index may be
// new, and databases may have been created or removed.
func (w *worker) begin(ctx context.Context) error {
	c, err := w.x.Cursor()
	if err != nil {
		return err
	}
	w.cur = store.Cursor{Incarnation: c.Incarnation, Seq: c.Seq}
	switch {
	case c == index.Cursor{}:
		w.cur = w.s.store.Now() // everything older comes from the rows of the databases
		err = w.x.Update(func(u *index.Writer) error {
			u.Cursor(index.Cursor{Incarnation: w.cur.Incarnation, Seq: w.cur.Seq})
			return nil
		})
	case c.Incarnation != w.s.store.Incarnation():
		err = w.branch(ctx)
	}
	if err != nil {
		return err
	}
	// From now on the store keeps the feed for the index.
	if err := w.s.store.SaveCursor(Consumer, w.cur); err != nil {
		return err
	}
	return w.survey(ctx)
}

// renew drops databases of the index and begins others.
func (w *worker) renew(ctx context.Context, drop []note.DatabaseID, begin map[note.DatabaseID]bool) error {
	for _, db := range drop {
		if err := w.x.Update(func(u *index.Writer) error { return u.Drop(db) }); err != nil {
			return err
		}
	}
	for db := range begin {
		if err := errors.Join(ctx.Err(), w.x.Update(func(u *index.Writer) error { return u.Begin(db) })); err != nil {
			return err
		}
	}
	return nil
}

// survey compares the databases of the store with those of the index.
func (w *worker) survey(ctx context.Context) error {
	there := map[note.DatabaseID]bool{}
	clear(w.kinds)
	clear(w.off)
	if err := w.s.store.Infos(func(i *layout.Info) {
		_, there[i.ID] = w.s.indexes(i)
		w.switched(i)
	}); err != nil {
		return err
	}
	w.s.off.Store(int64(len(w.off)))
	var gone []note.DatabaseID
	pending := map[note.DatabaseID]bool{}
	var merge []note.DatabaseID
	err := w.x.States(func(db note.DatabaseID, s *index.State) bool {
		if s.Active == nil {
			return true
		}
		if ok, known := there[db]; !known || !ok {
			gone = append(gone, db)
			return true
		}
		delete(there, db)
		if !s.Active.Done || s.Next != nil {
			pending[db] = true
		}
		if s.Active.Mergeable() || s.Next.Mergeable() {
			merge = append(merge, db)
		}
		return true
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(there, func(_ note.DatabaseID, ok bool) bool { return !ok })
	if err := w.renew(ctx, gone, there); err != nil {
		return err
	}
	maps.Copy(pending, there)
	w.pending = slices.Sorted(maps.Keys(pending))
	w.merges.add(merge...)
	signal(w.attachments.wake)
	return nil
}

// branch continues with a store of another incarnation: a restored store has its own history from some sequence on. For
// a database that changed after that sequence, the index is useless: notes that it saw removed exist again, and note
// ids are assigned again. So branch restarts each database, unless its rows show that the store has the latest change
// that the index has seen.
func (w *worker) branch(ctx context.Context) error {
	at, err := w.s.store.Feed(w.cur, func(store.Change) bool { return false })
	all := errors.Is(err, store.ErrFeedCut)
	switch {
	case all:
		at = w.s.store.Now()
	case err != nil:
		return err
	}
	w.s.log.Info("search: index belongs to another store, rebuilding it", "incarnation", w.s.store.Incarnation())
	var list []note.DatabaseID
	if err := w.x.States(func(db note.DatabaseID, s *index.State) bool {
		if s.Active != nil {
			list = append(list, db)
		}
		return true
	}); err != nil {
		return err
	}
	for _, db := range list {
		if err := w.x.Update(func(u *index.Writer) error {
			s, err := u.State(db)
			if err != nil {
				return err
			}
			keep := !all
			for _, b := range []*index.Build{s.Active, s.Next} {
				keep = keep && (b == nil || b.Seq == 0 && w.reached(ctx, db, b.MaxSeq, at.Seq))
			}
			if keep || ctx.Err() != nil {
				return ctx.Err()
			}
			return u.Restart(db)
		}); err != nil {
			return err
		}
	}
	w.cur = at
	return w.x.Update(func(u *index.Writer) error {
		u.Cursor(index.Cursor{Incarnation: at.Incarnation, Seq: at.Seq})
		return nil
	})
}

// reached reports whether the first change of a database at or after seq exists and is not after limit.
func (w *worker) reached(ctx context.Context, db note.DatabaseID, seq, limit uint64) bool {
	if seq == 0 {
		return true
	}
	last := uint64(0)
	err := w.s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		return r.Since(seq-1, func(found uint64, _ note.ID) bool {
			last = found
			return false
		})
	})
	return err == nil && last >= seq && last <= limit
}

// cut continues after a gap: the feed no longer reaches back to the cursor, or is damaged. The rows of each database
// show which notes have changed since.
func (w *worker) cut(ctx context.Context) error {
	now := w.s.store.Now()
	since := max(w.cur.Seq, 1)
	var list []note.DatabaseID
	err := w.x.States(func(db note.DatabaseID, s *index.State) bool {
		if s.Active != nil {
			list = append(list, db)
		}
		return true
	})
	for _, db := range list {
		if err != nil {
			return err
		}
		err = errors.Join(ctx.Err(), w.x.Update(func(u *index.Writer) error {
			s, err := u.State(db)
			for _, b := range []*index.Build{s.Active, s.Next} {
				if b != nil && b.Seq == 0 {
					b.Done, b.Seq = false, since
				}
			}
			return err
		}))
	}
	if err != nil {
		return err
	}
	w.cur = now
	w.dirty = true
	if err := w.x.Update(func(u *index.Writer) error {
		u.Cursor(index.Cursor{Incarnation: now.Incarnation, Seq: now.Seq})
		return nil
	}); err != nil {
		return err
	}
	w.s.log.Warn("search: feed no longer reaches back to the index, reading whole databases", "databases", len(list))
	return w.survey(ctx)
}

// errands processes databases that were created, removed or changed, and requested rebuilds.
func (w *worker) errands(ctx context.Context) error {
	changed, all := w.s.takeChanged()
	if all {
		return w.survey(ctx)
	}
	for _, db := range changed {
		if err := w.look(db); err != nil {
			return err
		}
	}
	for _, db := range w.s.takeAsked() {
		w.addTail(db)
	}
	for _, db := range w.s.takeRebuilds() {
		list := []note.DatabaseID{db}
		if db == 0 {
			list = list[:0]
			if err := w.x.States(func(db note.DatabaseID, s *index.State) bool {
				if s.Active != nil {
					list = append(list, db)
				}
				return true
			}); err != nil {
				return err
			}
		}
		for _, db := range list {
			if err := w.rebuild(db); err != nil {
				return err
			}
		}
	}
	return nil
}

// rebuild starts a new build beside the active one. If the active one is not complete, it is restarted instead.
func (w *worker) rebuild(db note.DatabaseID) error {
	begun := false
	err := w.x.Update(func(u *index.Writer) error {
		s, err := u.State(db)
		if err != nil || s.Active == nil {
			return err
		}
		begun = true
		if !s.Active.Done {
			return u.Restart(db)
		}
		return u.Begin(db)
	})
	if err == nil && begun {
		w.addPending(db)
	}
	return err
}

// addTail has the newest notes of a database indexed, also while it is rebuilt.
func (w *worker) addTail(db note.DatabaseID) {
	w.tails[db] = true
	if !slices.Contains(w.pending, db) {
		w.pending = append(w.pending, db)
	}
}

func (w *worker) addPending(db note.DatabaseID) {
	delete(w.blocked, db)
	if !slices.Contains(w.pending, db) {
		w.pending = append(w.pending, db)
	}
}

// look checks whether a database is to be indexed, and adds or drops it.
func (w *worker) look(db note.DatabaseID) error {
	info, err := w.s.store.Info(db)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return nil // damaged: the store reports a change when it is repaired
	}
	delete(w.kinds, db)
	delete(w.blocked, db)
	delete(w.off, db)
	w.switched(&info)
	w.s.off.Store(int64(len(w.off)))
	_, ok := w.s.indexes(&info)
	st, err := w.x.State(db)
	switch {
	case err != nil:
		return err
	case gone || !ok:
		if st.Active == nil {
			return nil
		}
		return w.x.Update(func(u *index.Writer) error { return u.Drop(db) })
	case st.Active == nil:
		w.addPending(db)
		return w.x.Update(func(u *index.Writer) error { return u.Begin(db) })
	case !st.Active.Done || st.Next != nil:
		w.addPending(db)
	}
	return nil
}

// switched records a database whose full text is switched off.
func (w *worker) switched(i *layout.Info) {
	if _, known := w.s.opt.Kinds[i.Kind]; known && !i.Indexed() {
		w.off[i.ID] = true
	}
}

// changedInfo records that a database was created, removed or changed as a whole.
func (s *Service) changedInfo(db note.DatabaseID) {
	s.mu.Lock()
	if len(s.changed) < 1000 {
		s.changed = append(s.changed, db)
	} else {
		s.changedAll = true
	}
	s.mu.Unlock()
	s.wake()
}

// askedMax is the number of notes whose texts queries read again and again. If more of a database are not indexed, a
// query has them indexed.
const askedMax = 16

// reads records that a query reads the texts of the notes after upto.
func (s *Service) reads(r *store.Reader, upto note.ID) {
	if r.Counters().NextNote-1 > upto+askedMax {
		s.wanted(r.Database())
	}
}

// wanted has the newest notes of a database indexed.
func (s *Service) wanted(db note.DatabaseID) {
	s.mu.Lock()
	if len(s.asked) < 1000 {
		s.asked[db] = true
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Service) takeAsked() []note.DatabaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Collect(maps.Keys(s.asked))
	clear(s.asked)
	return out
}

// takeChanged empties the list of the databases that were changed as a whole and returns it. Until the worker has
// counted what is pending, they count as such.
func (s *Service) takeChanged() (list []note.DatabaseID, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, all = s.changed, s.changedAll
	s.changed, s.changedAll = nil, false
	s.pending.Add(int64(len(list)))
	return list, all
}
